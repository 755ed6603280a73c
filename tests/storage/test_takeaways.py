"""Test the published rows: what the study says about them, and the bound of throughput."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import product
from pathlib import Path

import polars as pl
import pytest
from storage_cells import ROOT, facts_of
from tests.programs import roslens

import roslens as rl
from roslens.analysis.figures.plot import Plot
from roslens.analysis.reports.given import NoRecordings
from roslens.analysis.runs import Run
from roslens.recording import Recording
from roslens.studies.storage.published import throughput_bounds
from roslens.studies.storage.recovery import CLAIMS, RecoveryRun, resilience
from roslens.studies.storage.report import StorageParameters, StorageReport
from roslens.studies.storage.results.comparison import DIGEST_SCHEMA, read_digests
from roslens.studies.storage.statements import (
    STATEMENTS,
    comparisons,
    takeaways,
)

LATER = ("fastest_mcap", "batches", "resilient")
PUBLISHED = ROOT / "studies" / "storage" / "data"


@pytest.fixture(scope="module")
def digests() -> pl.DataFrame:
    return read_digests(PUBLISHED)


def test_the_answers_on_both_machines(digests: pl.DataFrame) -> None:
    """Reference: figures of the 480 rows as they were worked out independently."""
    compared = comparisons(digests, 0.05)
    answers = {(t.subject, t.claim): t.verdict for t in takeaways(digests, compared)}
    assert answers == {
        ("m1", STATEMENTS["on_par"]): "holds",
        ("m1", STATEMENTS["unchunked"]): "holds",
        ("m1", STATEMENTS["crc"]): "holds",
        ("nuc", STATEMENTS["on_par"]): "false",
        ("nuc", STATEMENTS["unchunked"]): "holds",
        ("nuc", STATEMENTS["crc"]): "holds",
        # By the means of a cell: un-chunked is slower than the default in three cells of m1 and one
        # of nuc; the larger batch in two and one; SQLite's default in one and three, counted apart.
        **{(m, STATEMENTS[claim]): "in part" for m in ("m1", "nuc") for claim in LATER},
    }
    for machine, statement, cells in (
        ("m1", "fastest_mcap", 3), ("nuc", "fastest_mcap", 1),
        ("m1", "batches", 2), ("nuc", "batches", 1),
        ("m1", "resilient", 1), ("nuc", "resilient", 3),
    ):  # fmt: skip
        false = compared.filter(machine=machine, statement=statement, answer="false")
        assert false.select("messages", "batch_size").n_unique() == cells
    (crc,) = compared.filter(
        machine="m1", statement="crc", messages="1MiB", batch_size="1KiB"
    ).iter_rows(named=True)
    assert (round(crc["mean_new"] / 1e6), round(crc["mean_base"] / 1e6)) == (289, 5497)
    (plain,) = compared.filter(
        machine="m1", statement="unchunked", batch_size="1KiB", base="mcap_default"
    ).iter_rows(named=True)
    assert round(plain["mean_new"] / 1e6) == 462
    assert round(plain["mean_base"] / 1e6, 1) == 90.8


def test_the_headline_names_the_machine(digests: pl.DataFrame) -> None:
    """By hand: on par, un-chunked and CRC on two machines, and three in part on each."""
    report = StorageReport(None, digests, StorageParameters())
    assert report.sentences() == [
        (
            "Of 12 answers (6 statements of the study on 2 machines) 6 are in part, 5 are kept, "
            "1 is false."
        ),
        f"False on nuc: {STATEMENTS['on_par']}: holds in 7, false in 1 of 8 cells.",
    ]
    sentences = StorageReport(None, digests.filter(machine="nuc"), StorageParameters()).sentences()
    assert sentences[0] == "Of 6 statements of the study 3 are in part, 2 are kept, 1 is false."
    assert sentences[1].startswith("False: MCAP")


def test_rows_from_a_file_of_one_s_own_are_not_called_published(digests: pl.DataFrame) -> None:
    report = StorageReport(None, digests, StorageParameters(digests="own/mine.csv"))
    published = StorageReport(None, digests, StorageParameters())
    assert report.origin() == {"from": "own/mine.csv", "rows": "480", "machines": "m1, nuc"}
    assert "480 rows from own/mine.csv" in repr(report.loss())
    for name in ("loss", "write_calls", "resources", "clocks"):
        assert "published" not in repr(getattr(report, name)())
        assert "own/mine.csv" in repr(getattr(report, name)())
    assert "The published rows are digests" in repr(published.write_calls())


def test_the_bound_by_hand(digests: pl.DataFrame) -> None:
    """From the file's text, for one cell: 1 / (1 / avg + close / 250 MiB), mean of 5 runs."""
    values = []
    with (PUBLISHED / "storage_plugins_m1.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            key = (row["messages"], row["batch_size"], row["plugin_config"])
            if key == ("10KiB", "1KiB", "mcap_compressed_nocrc"):
                average, close = float(row["avg_byte_throughput"]), float(row["close_time"])
                values.append(1 / (1 / average + close / 262_144_000))
    bounds = throughput_bounds(digests)
    cell = bounds.filter(
        machine="m1", messages="10KiB", batch_size="1KiB", plugin_config="mcap_compressed_nocrc"
    )
    assert cell["at_most"].item() == pytest.approx(sum(values) / 5, rel=1e-12)
    assert round(cell["mean"].item() / 1e9, 2) == 6.73
    assert bounds.filter(messages="mixed")["is_bound"].any() is False
    assert bounds.height == 96


def test_the_report_writes_all_96_cells(tmp_path: Path) -> None:
    words = ("report", "storage", "-p", "source=published", "-o", tmp_path / "report")
    done = roslens(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "report" / "cells.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == [
        *("machine", "messages", "batch_size", "plugin_config"),
        *("mean", "half_width_published", "half_width_t"),
    ]
    assert len({tuple(r.values())[:4] for r in rows}) == 96
    assert (tmp_path / "report" / "metrics.json").is_file()
    assert (tmp_path / "report" / "storage.html").is_file()


def rows_of(means: dict[tuple[str, str], float], sd: float = 1.0) -> pl.DataFrame:
    """Make three runs at mean - sd, mean, mean + sd of each (configuration, batch)."""
    return pl.DataFrame(
        [
            ("here", run, "10KiB", batch, config, mean + (run - 1) * sd, 0.1)
            for (config, batch), mean in means.items()
            for run in range(3)
        ],
        schema=DIGEST_SCHEMA,
        orient="row",
    )


@pytest.mark.parametrize("failed", [2, 4])
def test_a_failed_run_takes_no_cell_away(digests: pl.DataFrame, failed: int) -> None:
    """In this cell of nuc MCAP is not on par: false with three runs, otherwise undecided."""
    mcap, cell = pl.col("plugin_config") == "mcap_default", pl.col("messages") == "100B"
    chosen = mcap & cell & (pl.col("machine") == "nuc") & (pl.col("batch_size") == "1KiB")
    left = digests.filter(~(chosen & (pl.col("run").rank("dense") <= failed)))
    assert digests.height - left.height == failed
    compared = comparisons(left, 0.05)
    (answer,) = (
        t for t in takeaways(left, compared)
        if (t.subject, t.claim) == ("nuc", STATEMENTS["on_par"])
    )  # fmt: skip
    assert answer.because.endswith("of 8 cells")
    rows = compared.filter(machine="nuc", statement="on_par", messages="100B", batch_size="1KiB")
    assert rows["runs"].to_list() == [5 - failed]


def test_what_is_slower_by_less_than_the_threshold_is_not_false(digests: pl.DataFrame) -> None:
    """Throughputs by hand: SQLite 100, MCAP 97 (3 % slower), and 90 (11 %)."""
    scatter = [0.999, 1.0, 1.001, 1.0005, 0.9995]
    for mcap, expected in ((97.0, "holds"), (90.0, "false"), (95.2, "undecided")):
        rows = [
            {"machine": "m", "messages": "1MiB", "batch_size": "1KiB", "plugin_config": config,
             "run": run, "avg_byte_throughput": mean * factor}
            for config, mean in (("mcap_default", mcap), ("sqlite_default", 100.0))
            for run, factor in enumerate(scatter)
        ]  # fmt: skip
        (answer,) = comparisons(pl.DataFrame(rows), 0.05).filter(statement="on_par")["answer"]
        assert answer == expected


def test_larger_batches_and_the_resilient_setting() -> None:
    """By hand: 200 and 100 with a standard deviation of 1 are told apart, 100 and 100 are not."""
    digests = rows_of(
        {
            ("sqlite_default", "1KiB"): 100,
            ("sqlite_default", "10MiB"): 200,
            ("sqlite_resilient", "1KiB"): 50,
            ("sqlite_resilient", "10MiB"): 50,
        }
    )
    compared = comparisons(digests, 0.05)
    batches = compared.filter(statement="batches").sort("batch_size")
    assert batches.select("batch_size", "new", "base", "answer").rows() == [
        ("sqlite_default", "10MiB", "1KiB", "holds"),
        ("sqlite_resilient", "10MiB", "1KiB", "undecided"),
    ]
    assert batches["ratio"].to_list() == [0.5, 1.0]
    verdicts = {t.claim: t.verdict for t in takeaways(digests, compared)}
    assert verdicts[STATEMENTS["batches"]] == "undecided"
    assert verdicts[STATEMENTS["resilient"]] == "holds"
    assert verdicts[STATEMENTS["fastest_mcap"]] == "refused"
    assert comparisons(digests.clear(), 0.05).is_empty()


def trials(config: str, block: int, recovered: int, machine: str) -> RecoveryRun:
    """Make a run of a recorder killed after 100 messages, `recovered` of which came back."""
    factors = {"failure": "kill", "batch_size": "1KiB", "plugin_config": config}
    run = Run(f"{machine}{config}{block}", cell=factors, block=str(block))
    counts = pl.DataFrame({"acknowledged": [100], "recovered": [recovered]})
    return RecoveryRun(run, machine, counts)


def test_resilience_is_judged_on_each_machine() -> None:
    """By hand: 90, 91, 92 of 100 against none in each block, against all, and both mixed."""
    runs = [
        trials(config, block, recovered, "one")
        for block in range(3)
        for config, recovered in (
            ("mcap_default", 90 + block),
            ("sqlite_default", 0),
            ("sqlite_resilient", 100),
        )
    ]
    # On the other machine the blocks disagree.
    runs += [trials("mcap_default", block, 50, "two") for block in range(3)]
    runs += [trials("sqlite_default", block, (0, 100, 50)[block], "two") for block in range(3)]
    verdicts = {(s.subject, s.claim): s.verdict for s in resilience(runs)}
    assert verdicts == {
        ("one", CLAIMS["sqlite_default"]): "holds",
        ("one", CLAIMS["sqlite_resilient"]): "false",
        ("two", CLAIMS["sqlite_default"]): "undecided",
        ("two", CLAIMS["sqlite_resilient"]): "refused",
    }


def test_losses_of_published_rows_are_not_known(digests: pl.DataFrame) -> None:
    """Nothing was recorded, so nothing can have been found to be lost."""
    report = StorageReport(None, digests, StorageParameters())
    assert report.tracer_loss() == [
        "There are no runs, so nothing is known of what the tracer lost."
    ]
    assert report.measured_parts.is_empty()
    assert "run" in report.tables.table("health").collect_schema()


class Recorded(NoRecordings):
    """Three blocks of two plugins and two sizes of batches; with 10 MiB SQLite always fails."""

    def __init__(self, root: Path) -> None:
        runs, self.recordings = [], []
        for block, batch, config in product(
            "012", ("1KiB", "10MiB"), ("mcap_default", "sqlite_default")
        ):
            name = f"{block}_{batch}_{config}"
            failed = (batch, config) == ("10MiB", "sqlite_default")
            cell = {"message_size": "100B", "batch_size": batch, "plugin_config": config}
            status = "failed" if failed else "complete"
            runs.append(Run(name=name, cell=cell, block=block, status=status))
            self.recordings.append(Recording.at(root / name))
            (native := root / name / "native").mkdir(parents=True)
            counts = {"batch_bytes": 1024, "bytes": 1000, "message_count": 10, "write_calls": 1}
            facts = facts_of(plugin_config=config, close_ns=7, **counts)
            (native / "run.json").write_text(facts.model_dump_json())
            # MCAP takes half as long.
            taken = (100_000 if config == "mcap_default" else 200_000) + int(block)
            (native / "writes.csv").write_text(
                f"sqc,num_bytes,num_msgs,write_ns,close_ns\n0,1000,10,{taken},\n,,,,7\n"
            )
        self.runs = runs


def test_a_cell_of_which_every_run_failed_is_named(tmp_path: Path) -> None:
    parameters = StorageParameters(recordings=[str(tmp_path)])
    report = StorageReport(Recorded(tmp_path), pl.DataFrame(), parameters)
    on_par = report.takeaways[0]
    assert (on_par.verdict, on_par.because) == ("holds", "holds in 1 of 1 cell")
    assert (
        "No run is left of (message_size=100B, batch_size=10MiB, plugin_config=sqlite_default), "
        "so it is compared with nothing."
    ) in str(report.loss())
    everything = parameters.model_copy(update={"include_failed": True})
    report = StorageReport(Recorded(tmp_path / "all"), pl.DataFrame(), everything)
    assert report.takeaways[0].because == "holds in 2 of 2 cells"
    assert "No run is left" not in str(report.loss())


def test_runs_that_lack_a_factor_of_the_study_are_reported(tmp_path: Path) -> None:
    """The size of batches is a parameter there; by hand, 9 of 12 runs are complete."""
    recorded = Recorded(tmp_path)
    recorded.runs = [
        replace(run, cell={k: v for k, v in run.cell.items() if k != "batch_size"})
        for run in recorded.runs
    ]
    report = StorageReport(recorded, pl.DataFrame(), StorageParameters(recordings=["x"]))
    (sentence,) = report.sentences()
    assert sentence == "None of 9 runs has the factors of the study; see the estimates."
    # 1,000 bytes in 200,001 ns, the middle of three runs, and 7 ns for the close.
    (sqlite,) = (
        e
        for e in report.estimates
        if e.metric == "storage_throughput" and e.cell["plugin_config"] == "sqlite_default"
    )
    assert sqlite.value == pytest.approx(1000 / 200_008e-9, rel=1e-4)


def test_a_configuration_has_one_colour_on_all_machines() -> None:
    colours: dict[str, set[object]] = {}
    plots = [part for part in rl.reports.storage().throughput().parts if isinstance(part, Plot)]
    assert len(plots) == 2
    for plot, machine in zip(plots, ("m1", "nuc"), strict=True):
        figure = plot.figure
        assert figure.get_supxlabel() == f"throughput on {machine} [MB/s]"
        axes = figure.axes[0]
        names = [label.get_text() for label in axes.get_yticklabels()]
        for bar in axes.patches:
            name = names[round(bar.get_y() + bar.get_height() / 2)]
            colours.setdefault(name, set()).add(bar.get_facecolor()[:3])
    assert len(colours) == 6
    assert all(len(of_both) == 1 for of_both in colours.values())
    intervals = {tuple(lines.get_color()[0][:3]) for lines in axes.collections}
    assert not intervals & set.union(*colours.values())
