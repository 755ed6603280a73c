"""Test reports on other tools' files: which are recognised, and estimates by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from tests.results import test_foreign_formats as foreign
from tests.results.test_rosbag2_benchmark import PLAIN, results
from tests.results.test_tool_results import irobot, oldest, performance_test

from roslens.analysis.estimate import Estimate
from roslens.analysis.metrics import read_metrics
from roslens.analysis.reports.table import Sentence
from roslens.analysis.tool.estimates import NO_SAMPLES
from roslens.analysis.tool.report import ToolParameters, ToolReport
from roslens.collectors.results.formats import FORMATS, find_results
from roslens.recording.errors import UsageError
from roslens.recording.foreign import read_foreign
from roslens.report import run_report
from roslens.reports import open_tool_files


def log(path: Path, mean_ms: float, *, lost: int = 0, cpu: float = 50) -> Path:
    """Write a log of performance_test: 4 messages of one latency in one second."""
    ms = mean_ms
    return performance_test(path, [[1, 1, 4, 4 + lost, lost, 0, 9, ms, ms, ms, 0, 1000, cpu]])


def text(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def of(folder: Path, name: str, content: str) -> Path:
    folder.mkdir(exist_ok=True)
    text(folder / name, content)
    return folder


MADE: dict[str, Callable[[Path], Path]] = {
    "ros2-performance": lambda at: oldest(at / "topology_log"),
    "reference_system": lambda at: of(
        at / "rs",
        "std_output.log",
        "  latency:   1ms [min=1ms, max=3ms, average=2ms, deviation=1]\n",
    ),
    "performance_test (CSV": lambda at: log(at / "pt.log", 1),
    "rosbag2_performance_benchmarking": lambda at: results(at, PLAIN, PLAIN),
    "buildfarm_perf_tests (system": lambda at: text(
        at / "b.csv", "T_experiment,cpu_usage (%),physical memory (Mb)\n1, 50, 40\n"
    ),
    "buildfarm_perf_tests (benchmark": lambda at: text(
        at / "b.json", json.dumps({"g": {"t": {"mean_x": {"dblValue": 2, "unit": "ms"}}}})
    ),
    "RobotPerf": lambda at: text(
        at / "benchmark.yaml",
        "id: a\nresults:\n- result: {metric: latency, metric_unit: ms, value: 3}\n",
    ),
    "memory_benchmark": lambda at: text(at / "m.csv", "Entity,N,RSS,DELTA\nnode,1,1100,100\n"),
    **foreign.MADE,
    "run_psutil": lambda at: text(at / "p.tsv", "Time[sec]\tCPU[%]\tRSS[MB]\n0.5\t150\t20\n"),
}


@pytest.mark.parametrize("name", MADE)
def test_each_format_is_recognised_and_gives_estimates(tmp_path: Path, name: str) -> None:
    path = MADE[name](tmp_path)
    ((place, file_format),) = find_results(path)
    assert place == path
    assert file_format.title.startswith(name)
    # A file of a folder stands for the folder, and a folder for its content.
    inside = next(path.iterdir()) if path.is_dir() else path
    assert [place for place, _ in find_results(inside)] == [path]
    assert [place for place, _ in find_results(tmp_path)] == [path]
    assert opened(path).estimates


@pytest.mark.parametrize("name", MADE)
def test_a_process_apart_reads_what_is_read_here(tmp_path: Path, name: str) -> None:
    ((place, file_format),) = find_results(MADE[name](tmp_path))
    options = {"number": FORMATS.index(file_format)}
    foreign = read_foreign(
        "roslens.collectors.results.formats:results_of", place, "", options=options
    )
    for fields, result in zip(foreign, file_format.read(place), strict=True):
        assert result.summary.equals(fields.pop("summary"))
        assert result.series.equals(fields.pop("series"))
        assert result.samples.equals(fields.pop("samples"))
        attributes = vars(result) | {"notes": list(result.notes)}
        assert attributes == attributes | fields


def test_every_format_is_tried_here_and_named_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "other_tools.md").read_text()
    for file_format in FORMATS:
        assert any(file_format.title.startswith(name) for name in MADE), file_format.title
        assert file_format.title.split()[0] in page


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n", '{"a": 1}', "results\n", "\x00\xff"])
def test_what_nobody_knows_is_refused_in_a_line_that_lists_what_is_known(
    tmp_path: Path, content: str
) -> None:
    text(tmp_path / "what.csv", content)
    for path in (tmp_path / "what.csv", tmp_path):
        with pytest.raises(UsageError) as caught:
            find_results(path)
        assert "\n" not in str(caught.value)
        assert all(file_format.title in str(caught.value) for file_format in FORMATS)
    with pytest.raises(UsageError, match="no such file"):
        find_results(tmp_path / "nowhere")


def opened(*paths: Path, factors: Path | None = None, output: Path | None = None) -> ToolReport:
    parameters = ToolParameters.checked(
        {"files": [str(p) for p in paths], "output_dir": str(output or "")}
    )
    return ToolReport(open_tool_files(parameters.files, factors), parameters)


def estimate(report: ToolReport, metric: str, **cell: str) -> Estimate:
    matches = [e for e in report.estimates if e.metric == metric and cell.items() <= e.cell.items()]
    assert len(matches) == 1, [e.cell for e in matches]
    return matches[0]


def said(report: ToolReport) -> list[str]:
    return [p.text for p in report.read().parts if isinstance(p, Sentence)]


def test_three_runs_of_a_cell_by_hand(tmp_path: Path) -> None:
    """Means are 1, 2, 3 ms: t s / sqrt(3) = 2.484138; 1 of 5 is lost per run; CPU 40, 50, 60 %.

    With h, that over the mean, the interval is mean x [exp(-h), 1 + (1 + 1.2 / sqrt(3)) h].
    """
    wider = 1 + 1.2 / math.sqrt(3)
    logs = [log(tmp_path / f"{k}.csv", k, lost=1, cpu=30 + 10 * k) for k in (1, 2, 3)]
    rows = "".join(f"{p.name},cyclone\n" for p in logs)
    factors = text(tmp_path / "f.csv", "file,rmw\n" + rows)
    report = opened(*logs, factors=factors)
    mean = estimate(report, "latency_mean", rmw="cyclone", entity="subscription Array1k")
    assert (mean.value, mean.runs, mean.samples) == (pytest.approx(2e6), 3, 12)
    assert mean.high == pytest.approx(2e6 + wider * 2.484138e6, abs=1)
    assert mean.low == pytest.approx(2e6 * math.exp(-2.484138 / 2), abs=1)
    assert "set before publish(), to its take" in mean.definition
    loss = estimate(report, "loss")
    assert loss.value == pytest.approx(0.2)
    cpu = estimate(report, "cpu")
    assert cpu.value == pytest.approx(0.5)
    assert cpu.high == pytest.approx(0.5 + wider * 0.2484138, abs=1e-6)
    for name in ("latency_p50", "latency_p99"):
        refused = estimate(report, name)
        assert (refused.value, refused.low, refused.refused) == (None, None, NO_SAMPLES)
    assert "ru_maxrss is a peak" in repr(report.corrected())
    assert "3 of 3" in repr(report.corrected())
    # Without factors nothing says that they are runs of one cell.
    without_factors = opened(*logs)
    assert [e.runs for e in without_factors.estimates if e.metric == "latency_mean"] == [1, 1, 1]
    assert any("Each file is a cell of its own" in sentence for sentence in said(without_factors))
    with pytest.raises(UsageError, match=r"no row for the file 3\.csv"):
        opened(*logs, factors=text(tmp_path / "g.csv", "file,rmw\n1.csv,a\n2.csv,a\n"))


def test_loss_of_a_run_that_received_nothing_is_refused_and_not_zero(tmp_path: Path) -> None:
    """The tool counts gaps in what arrives, so it reports no loss."""
    silent = [[1, 1, 0, 40, 0, 0, 0, "inf", "-inf", "nan", "nan", 1000, 5]]
    report = opened(performance_test(tmp_path / "a.csv", silent))
    loss = estimate(report, "loss")
    assert (loss.value, loss.low) == (None, None)
    assert "a run received nothing" in str(loss.refused)
    assert not any(e.metric.startswith("latency") for e in report.estimates)


def singles(folder: Path, latencies_us: list[int]) -> Path:
    """Write ros2-performance files since November 2024, with every single latency."""
    irobot(folder, "D", commas=True)
    file = folder / "latency_all.txt"
    cell = f"[{'; '.join(map(str, latencies_us))}]"
    file.write_text(file.read_text().replace("[183; 201; 190]", cell))
    return folder


def test_single_latencies_give_percentiles(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    runs = [rng.integers(100, 1000, 4000) for _ in range(3)]
    logs = [singles(tmp_path / f"log{i}", run.tolist()) for i, run in enumerate(runs)]
    factors = text(tmp_path / "f.csv", "log,mode\n" + "".join(f"log{i},a\n" for i in range(3)))
    together = opened(*logs, factors=factors)
    cell = {"entity": "subscription amazon at lyon"}
    mean = estimate(together, "latency_mean", **cell)
    assert mean.value == pytest.approx(1e3 * np.mean([run.mean() for run in runs]))
    median = estimate(together, "latency_p50", **cell)
    # By numpy; with 4000 samples the definitions of a quantile differ by less than 1 us.
    assert median.value == pytest.approx(1e3 * np.mean([np.median(r) for r in runs]), abs=1e3)
    assert median.refused is None
    # One run has an interval too, which says that it holds for that run only.
    p99 = estimate(opened(logs[0]), "latency_p99", **cell)
    assert p99.low is not None
    assert p99.low <= 1e3 * np.quantile(runs[0], 0.99) <= (p99.high or 0)
    assert "says nothing about how much runs differ" in p99.method
    assert "An interval of one run holds for that run only" in repr(opened(logs[0]).over_runs())
    assert "of one run" not in repr(together.over_runs())
    assert estimate(opened(logs[0]), "response_time_mean", entity="client amazon at lyon").low


def test_cpu_that_may_be_a_mean_since_the_start_is_refused(tmp_path: Path) -> None:
    cpu = estimate(opened(oldest(tmp_path / "log")), "cpu_of_machine")
    assert cpu.value is None
    assert "mean since the start" in str(cpu.refused)


def test_copies_and_files_that_are_cut_off_are_no_runs(tmp_path: Path) -> None:
    first = log(tmp_path / "a.csv", 1)
    copy = text(tmp_path / "b.csv", first.read_text())
    torn = text(tmp_path / "c.csv", first.read_text()[:-9])
    report = opened(first, copy, torn, first)
    assert [result.run.name for result in report.results.runs] == ["a.csv"]
    assert said(report)[0].startswith("c.csv is refused: ")
    assert "is the file cut off?" in said(report)[0]
    assert said(report)[1] == (
        "b.csv says what a.csv says: a copy is no further run, and is left out."
    )
    with pytest.raises(UsageError, match="is the file cut off"):
        opened(torn)


def test_files_of_two_tools_never_share_a_cell(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    report = opened(log(tmp_path / "log", 1), irobot(folder / "log", "C"))
    assert {e.cell["tool"] for e in report.estimates} == {"performance_test", "ros2-performance"}
    assert {e.cell["file"] for e in report.estimates} == {f"{tmp_path.name}/log", "other/log"}


def test_runs_within_one_file(tmp_path: Path) -> None:
    """Half of 500 are recorded in two runs, 400 in the third; recorder's CPU 20, 20, 50 %."""
    last = PLAIN.replace("500 250 10 20", "500 400 10 50")
    report = opened(results(tmp_path, PLAIN, PLAIN, last))
    assert [result.run.name for result in report.results.runs] == [
        f"results.csv, run {number}" for number in (1, 2, 3)
    ]
    loss = estimate(report, "loss", storage_id="sqlite3", entity="publishers 1 x 1000 B, 100 Hz")
    assert loss.value == pytest.approx((0.5 + 0.5 + 0.2) / 3)
    assert estimate(report, "cpu", entity="recorder").value == pytest.approx(0.3)


def test_what_is_told_several_times_is_numbered(tmp_path: Path) -> None:
    entry = "- result: {metric: latency, metric_unit: ms, value: 3, hardware: board}\n"
    path = text(tmp_path / "benchmark.yaml", f"results:\n{entry}{entry.replace('3', '5')}")
    report = opened(path)
    assert estimate(report, "latency", entity="board").value == 3e6
    assert estimate(report, "latency", entity="board (2)").value == 5e6


def test_the_notebook_takes_files_and_no_recordings(tmp_path: Path) -> None:
    logs = [log(tmp_path / f"{k}.csv", k, lost=1) for k in (1, 2, 3)]
    rows = "".join(f"{p.name},<u>\n" for p in logs)
    factors = text(tmp_path / "f.csv", "file,rmw\n" + rows)
    before = sorted(tmp_path.iterdir())
    quiet = Console(quiet=True)
    given = {"factors": str(factors)}
    with pytest.raises(UsageError, match="no result file of a known benchmark tool"):
        run_report("tool", [factors], tmp_path / "out", given, quiet)
    assert sorted(tmp_path.iterdir()) == before
    result = run_report("tool", logs, tmp_path / "out", given, quiet)
    assert sorted(p for p in tmp_path.iterdir() if p.name != "out") == before
    assert result.metrics is not None
    metrics = read_metrics(result.metrics)
    assert metrics.recordings == []
    assert {e.metric for e in metrics.estimates} >= {"latency_mean", "loss", "cpu"}
    page = result.html.read_text()
    assert "from result files of other tools" in page
    assert page.count("<figure") == 2
    assert "&lt;u&gt;" in page
    assert "<u>" not in page
    values = pl.read_csv(result.folder / "values.csv")
    means = values.filter(metric="latency_mean")
    assert means["value"].to_list() == pytest.approx([1e6, 2e6, 3e6])
    assert means.columns[:4] == ["run", "rmw", "entity", "metric"]


def test_no_file_and_recordings_are_refused() -> None:
    with pytest.raises(UsageError, match="no result file given"):
        ToolParameters.checked({"files": []})
    with pytest.raises(UsageError, match="parameter recordings"):
        ToolParameters.checked({"files": ["a"], "recordings": ["b"]})
