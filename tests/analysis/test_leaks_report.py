"""Test the leaks notebook's sections over recordings with a written, and so known, leak."""

import math
from pathlib import Path

import polars as pl
import pytest
from tests.analysis.synthetic import START, SUBSCRIBER, write_run

import roslens as rl
from roslens.analysis.estimate import shared_levels, short_labels, telling_factors
from roslens.analysis.leaks.by_cell import leaks_of
from roslens.analysis.leaks.report import LeaksParameters, LeaksReport
from roslens.analysis.leaks.sites import kept_by_callback, with_traced_heap
from roslens.analysis.metrics import read_metrics
from roslens.analysis.runs import Run
from roslens.collectors.schema import RESOURCES
from roslens.recording import UsageError
from roslens.recording.manifest import TracingSettings
from roslens.recording.schema import ALLOCATION_SITES

PERIOD_NS = 100_000_000
MESSAGES = 600


def leaking(
    folder: Path, leak: int, repetition: int, *, status: str = "complete", buffers: int = 4096
) -> Path:
    """Write 10 messages per second for 60 s; each leaks `leak` bytes, plus a difference per run."""
    write_run(
        folder,
        latencies_ns=[1_000_000] * MESSAGES,
        factors={"leak": leak, "rate": 10},
        repetition=repetition,
        period_ns=PERIOD_NS,
        status=status,
        resources=False,
        tracing=TracingSettings(tracer="none", subbuf_size_bytes=buffers, subbuf_count=4),
    )
    rows = [
        {
            "time_ns": START + tick * PERIOD_NS,
            "host": "h0",
            "vpid": SUBSCRIBER,
            "rss_bytes": 20_000_000 + (leak + repetition) * (tick + 1),
        }
        for tick in range(MESSAGES + 50)  # 5 s longer than anything is published
    ]
    RESOURCES.conform(pl.DataFrame(rows)).write_parquet(folder / "resources.parquet")
    return folder


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make three runs without a leak, three with 1,000 B per message, two that failed."""
    folder = tmp_path_factory.mktemp("leaks")
    for repetition in range(3):
        for leak in (0, 1000):
            leaking(folder / f"r{repetition}_{leak}", leak, repetition)
    for repetition in range(2):
        leaking(folder / f"r{repetition}_hung", 5, repetition, status="failed")
    return folder


def report(path: Path, **parameters: object) -> LeaksReport:
    checked = LeaksParameters.checked({"recordings": str(path), **parameters})
    return LeaksReport(rl.open(path, collect=False), checked)


def test_slopes_are_those_that_were_written(campaign: Path) -> None:
    estimates = report(campaign).estimates
    by_metric = {(e.metric, e.cell["leak"]): e for e in estimates}
    leak = by_metric["memory_slope_per_message", 1000]
    # 1000, 1001, 1002 per message: 1001, and no better known than two pages in the 549 messages
    # from 5 s (the warm-up) to the last message; t(2) 2.484 of 1 is less.
    assert leak.value == pytest.approx(1001)
    assert leak.low == pytest.approx(1001 - 8192 / 549)
    assert leak.high == pytest.approx(1001 + 8192 / 549)
    assert (leak.unit, leak.verdict, leak.runs) == ("B/message", "climbs", 3)
    per_second = by_metric["memory_slope", 1000]
    assert per_second.value == pytest.approx(10_010)
    assert (per_second.unit, per_second.verdict) == ("B/s", "climbs")
    assert per_second.minimum_detectable is not None
    none = by_metric["memory_slope", 0]
    assert none.verdict == "stable"
    assert none.low < 0 < none.high
    assert "RSS" in none.definition


def test_what_comes_after_the_last_message_is_not_looked_at(campaign: Path) -> None:
    assert report(campaign).leaks[0].looked_at_s == (5, pytest.approx(59.9))


def test_failed_runs_are_refused_by_name(campaign: Path) -> None:
    leaks = report(campaign)
    by_metric = {(e.metric, e.cell["leak"]): e for e in leaks.estimates}
    refused = by_metric["memory_slope", 5]
    assert refused.value is None
    assert refused.verdict == "not_enough_evidence"
    assert "r0_hung the subscriber died; r1_hung the subscriber died" in refused.refused
    assert "r1_hung" in repr(leaks.loss())


def test_a_series_that_was_not_recorded_is_refused_in_every_cell(campaign: Path) -> None:
    leaks = report(campaign, series="heap")
    reasons = {e.refused for e in leaks.estimates if e.cell["leak"] != 5}
    assert reasons == {"HEAP was not recorded in any run of this cell"}
    assert "HEAP was not recorded in any run that counts." in repr(leaks.over_time())
    assert "refused" in repr(leaks.slopes())
    (unsampled, *_) = leaks_of({}, "rss", leaks.counting)
    assert str(unsampled.per_second.refused).endswith(
        "'roslens record' samples it, unless sampler_hz is 0"
    )


def test_a_margin_above_the_slope_makes_it_no_leak(campaign: Path) -> None:
    by_leak = {e.cell["leak"]: e for e in report(campaign, margin=20_000).estimates[::2]}
    assert by_leak[1000].verdict == "stable"


def test_sections_can_be_drawn(campaign: Path) -> None:
    leaks = report(campaign)
    assert "Memory climbs in 1 of 3 cells: leak=1000" in repr(leaks.verdicts())
    assert leaks.sentences()[1].startswith("'roslens record --allocations -- COMMAND' shows")
    assert "of other workloads" in repr(leaks.statements())  # its cells name no workload
    assert "6 runs" in repr(leaks.over_time())
    assert "in 100 % of the peaks" in repr(leaks.why_no_peak())
    assert "data:image/png" in leaks.over_time()._repr_html_()


def test_the_function_that_grows_most_is_one_of_the_cell_that_climbs(tmp_path: Path) -> None:
    """By hand: grows gains 1,000 B in 0.1 s where memory climbs, and fill 20 times that elsewhere.

    There, memory is stable, as another function frees as much.
    """
    for repetition in range(3):
        for leak in (0, 1000):
            folder = leaking(tmp_path / f"r{repetition}_{leak}", leak, repetition)
            gains = {"grows": 1000} if leak else {"fill": 20_000, "drain": -20_000}
            rows = [
                {"time_ns": START + tick * PERIOD_NS, "host": "h0", "vpid": SUBSCRIBER,
                 "function": function, "file": "a.cpp", "line": 1, "module": "a.so",
                 "called_by": "callback", "path": function, "live_blocks": 1,
                 "live_bytes": gain * tick if gain > 0 else gain * (tick - MESSAGES)}
                for function, gain in gains.items()
                for tick in range(MESSAGES)
            ]  # fmt: skip
            ALLOCATION_SITES.conform(pl.DataFrame(rows)).write_parquet(
                folder / "allocation_sites.parquet"
            )
    leaks = report(tmp_path)
    assert leaks.growing[0].cell["function"] == "fill (a.cpp:1)"
    _, there = leaks.sentences()
    assert there.startswith("There, the memory held by grows (a.cpp:1) in the callback grows most")
    assert "0.01000 MB/s" in there


def test_cells_that_cannot_be_judged_are_none_without_a_climb(tmp_path: Path) -> None:
    leaking(tmp_path / "r0", 0, 0, status="failed")
    leaks = report(tmp_path)
    not_known = "Whether memory climbs is not known in 1 of 1 cell."
    assert leaks.sentences() == [not_known]
    assert "climbs in none" not in repr(leaks.verdicts())
    assert not_known in repr(leaks.verdicts())


def test_what_the_tracer_s_buffers_may_explain_is_said(tmp_path: Path) -> None:
    # 1 kB x 549 messages = 0.55 MB; 4 buffers on 2 CPUs: 0.03 MB and 2.1 MB.
    for repetition in range(3):
        leaking(tmp_path / "small" / f"r{repetition}", 1000, repetition)
        leaking(tmp_path / "large" / f"r{repetition}", 1000, repetition, buffers=1 << 18)
    assert "may be the tracer" not in repr(report(tmp_path / "small").verdicts())
    assert "The tracer's buffers (2.10 MB)" in repr(report(tmp_path / "large").verdicts())


def instances_of(allocations: pl.LazyFrame) -> pl.LazyFrame:
    """Return executions of two callbacks in turn; each lasts 1 ns."""
    execution = pl.col("callback_instance_id").cast(pl.Int64)
    return allocations.drop("kept_bytes").with_columns(
        host=pl.lit("h"), vpid=1, callback_id=execution % 2, start_ns=execution,
        end_ns=execution + 1,
    )  # fmt: skip


def test_callbacks_that_keep_what_they_allocate() -> None:
    rows = pl.LazyFrame(
        {
            "run": ["a", "a", "b", "c", "a"],
            "node": ["/n", "/n", "/n", "/n", None],
            "name": ["/t", "/t", "/t", "/t", None],
            "kind": ["subscription"] * 4 + ["timer"],
            "kept_bytes": [1000, 3000, 2100, 1900, 0],
            "callback_instance_id": [1, 3, 1, 1, 5],
        }
    )
    runs = [Run("a"), Run("b"), Run("c")]
    first, second = kept_by_callback(rows, instances_of(rows), runs)
    # 2000, 2100, 1900 per run: 2000 +- 4.303 x 100 / sqrt 3
    assert first.cell == {"callback": "/n /t"}
    assert first.value == pytest.approx(2000)
    assert first.high == pytest.approx(2000 + 248.4138, abs=1e-3)
    assert (first.runs, first.samples) == (3, 4)
    assert second.cell == {"callback": "(node unknown) timer"}
    assert second.refused is not None


def test_two_timers_of_a_node_with_one_period_keep_what_each_keeps() -> None:
    """By hand: of two 10 ms timers, the first keeps 1000 B per execution, the second none."""
    runs = [Run(name) for name in "abc"]
    rows = pl.LazyFrame(
        [
            (run.name, "/n", "timer", "10 ms", number, 1000 * (number % 2 == 0))
            for run in runs
            for number in range(10)
        ],
        schema=["run", "node", "kind", "name", "callback_instance_id", "kept_bytes"],
        orient="row",
    )
    estimates = kept_by_callback(rows, instances_of(rows), runs)
    kept = {e.cell["callback"]: (e.value, e.samples) for e in estimates}
    assert kept == {"/n 10 ms": (1000, 15), "/n 10 ms #2": (0, 15)}


def test_the_traced_heap_stands_in_where_none_was_sampled() -> None:
    schema = {"run": pl.String, "host": pl.String, "vpid": pl.Int32, "time_ns": pl.Int64,
              "heap_bytes": pl.Int64}  # fmt: skip
    resources = pl.LazyFrame([("a", "h0", 1, 5, 70), ("b", "h0", 1, 5, None)], schema, orient="row")
    heap = pl.LazyFrame(
        [("a", "h0", 1, 6, 99), ("b", "h0", 1, 6, 42)],
        {**{k: v for k, v in schema.items() if k != "heap_bytes"}, "live_bytes": pl.Int64},
        orient="row",
    )
    filled = with_traced_heap(resources, heap).sort("run").collect()
    assert filled.select("run", "time_ns", "heap_bytes").rows() == [("a", 5, 70), ("b", 6, 42)]


def test_files(campaign: Path, tmp_path: Path) -> None:
    report(campaign, output_dir=str(tmp_path)).write()
    metrics = read_metrics(tmp_path)
    assert sum(e.metric == "memory_slope" for e in metrics.estimates) == 3
    assert sum(e.metric == "memory_slope_per_message" for e in metrics.estimates) == 3
    table = pl.read_csv(tmp_path / "leaks.csv")
    assert table["verdict"].to_list() == ["stable", "climbs", "not_enough_evidence"]
    assert table["slope_B_per_message"][1] == pytest.approx(1001)


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(UsageError, match="parameter series = 'peak'"):
        LeaksParameters.checked({"recordings": "x", "series": "peak"})
    with pytest.raises(UsageError, match="parameter margin"):
        LeaksParameters.checked({"recordings": "x", "margin": math.inf})


def test_labels_have_only_what_tells_cells_apart() -> None:
    cells = [
        {"workload": "a", "executor": "single", "threads": 1, "rmw": "x"},
        {"workload": "a", "executor": "multi", "threads": 2, "rmw": "x"},
        {"workload": "b", "executor": "multi", "threads": 2, "rmw": "x"},
    ]
    assert telling_factors(cells) == ["workload", "executor"]
    assert short_labels(cells)[2] == "workload=b, executor=multi"
    assert shared_levels(cells) == "rmw=x"
    assert short_labels([{"a": 1}]) == ["a=1"]
    assert (shared_levels([]), telling_factors([])) == ("", [])
