"""Test ``roslens export``: files for other tools."""

import io
import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from command_line import Roslens
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
from test_errors import check_one_line
from tests.samples import RUN, SAMPLES

import roslens as rl
from roslens.export import _histogram
from roslens.export_formats import FORMATS, Format
from roslens.recording import UsageError

pytestmark = pytest.mark.recording


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RUN, tmp_path / "run"))


def test_every_format(roslens: Roslens, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given: tuple[tuple[Format, list[str]], ...] = (
        ("perfetto", []), ("dot", []), ("mermaid", []), ("csv", ["--table", "publishers"]),
    )  # fmt: skip
    for form, table in given:
        done = roslens("export", "--format", form, run, out, *table)
        assert (done.returncode, done.stderr) == (0, "")
        data = out.read_bytes()
        # The line ends with the format's description, whatever full stops that has.
        assert f"{FORMATS[form]}: {len(data):,} bytes\n" in done.stdout
        if form == "perfetto":
            trace = pb.Trace()
            trace.ParseFromString(data)
            counters = [p for p in trace.packet if p.track_event.type == pb.TrackEvent.TYPE_COUNTER]
            assert counters
        elif form == "csv":
            frame = pl.read_csv(io.BytesIO(data))
            publishers = pl.read_parquet(run / "tables" / "publishers.parquet")
            assert frame["topic"].to_list() == publishers["topic"].to_list()
            gids = [None if g is None else " ".join(map(str, g)) for g in publishers["gid"]]
            assert frame["gid"].to_list() == gids
        else:
            assert data.startswith({"dot": b"digraph {", "mermaid": b"flowchart LR"}[form])


def test_what_was_sampled_as_csv(roslens: Roslens, run: Path, tmp_path: Path) -> None:
    """This recording has samples of processes, but not of threads or of the machine."""
    for table, sampled in (("resources", True), ("threads", False), ("system", False)):
        done = roslens("export", "--format", "csv", "--table", table, run, tmp_path / table)
        assert (done.returncode, done.stderr) == (0, "")
        frame = pl.read_csv(tmp_path / table)
        assert "time_ns" in frame.columns
        assert (frame.height > 0) == sampled


def test_latency_for_hdrhistogram(roslens: Roslens, run: Path, tmp_path: Path) -> None:
    done = roslens("export", "--format", "hgrm", run, tmp_path / "out.hgrm")
    assert (done.returncode, done.stderr) == (0, "")
    messages = pl.read_parquet(run / "tables" / "messages.parquet")
    topic = json.loads((run / "manifest.json").read_text())["work_topic"]
    latency = messages.filter(pl.col("topic") == topic)["latency_ns"].drop_nulls()
    lines = (tmp_path / "out.hgrm").read_text().splitlines()
    *_, last = [line for line in lines if not line.startswith("#")]
    value, fraction, count = last.split()
    assert (float(fraction), int(count)) == (1, latency.len())
    assert float(value) == pytest.approx(latency.max() / 1e6, abs=1e-3)
    assert roslens("export", "--format", "hlog", run, tmp_path / "out.hlog").returncode == 0
    reader = HistogramLogReader(str(tmp_path / "out.hlog"), HdrHistogram(1, 3_600_000_000_000, 3))
    histogram = reader.get_next_interval_histogram()
    assert histogram.get_total_count() == latency.len()


@pytest.mark.parametrize(
    ("share", "problem"), [(0.6, "no latency to export: between hosts"), (0.4, None)]
)
def test_no_histogram_of_what_clocks_forbid_saying(
    run: Path, share: float, problem: str | None
) -> None:
    """As if between hosts whose clocks are apart by 0.6 or 0.4 of the median: over half or not."""
    recordings = rl.open(run)
    messages = recordings.table("messages").collect()
    topic = recordings.runs[0].work_topic
    bound = pl.lit(share * messages.filter(pl.col("topic") == topic)["latency_ns"].median())
    frame = messages.lazy().with_columns(clock_bound_ns=bound.cast(pl.Int64))
    changed = SimpleNamespace(table=lambda _: frame, runs=recordings.runs)
    for form in ("hgrm", "hlog"):
        with pytest.raises(UsageError, match=problem) if problem else nullcontext():
            assert _histogram(changed, run, form)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--format", "csv"], "csv needs it"),
        (["--format", "dot", "--table", "nodes"], "goes with --format csv"),
        (
            ["--format", "csv", "--table", "nonsense"],
            "no table 'nonsense'; there are hosts, processes",
        ),
        (["--format", "nonsense"], "nonsense"),
    ],
)
def test_wrong_use(
    roslens: Roslens, run: Path, tmp_path: Path, arguments: list[str], problem: str
) -> None:
    check_one_line(roslens("export", run, tmp_path / "out", *arguments), 2, problem)


def test_a_perfetto_trace_is_of_one_run(roslens: Roslens, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "both" / "r0")
    shutil.copytree(SAMPLES / "lifecycle" / "000_r0_cell", tmp_path / "both" / "r1")
    done = roslens("export", "--format", "perfetto", tmp_path / "both", tmp_path / "out")
    check_one_line(done, 2, "here are 2")


def test_a_file_that_cannot_be_written(roslens: Roslens, run: Path, tmp_path: Path) -> None:
    done = roslens("export", "--format", "dot", run, tmp_path / "nowhere" / "out")
    check_one_line(done, 2, "cannot be written")
