"""Test the nouns of ``rl.open``: the reports' figures, by hand, and errors."""

from __future__ import annotations

import json
import math
import re
import shutil
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from tests.analysis.synthetic import write_run

import roslens as rl
from roslens.analysis.figures.distributions import distribution_plots
from roslens.analysis.figures.over_time import OUTCOMES
from roslens.analysis.figures.plot import Plot
from roslens.analysis.timeline.latencies import Latencies
from roslens.info import find_info
from roslens.recording import UsageError
from roslens.recordings import Recordings

ROOT = Path(__file__).parents[2]
MS = 1_000_000


@pytest.fixture
def four(tmp_path: Path) -> Recordings:
    """Record two factors, one run per cell: latencies of 1, 2, 3 and 4 ms, one of five lost."""
    for number in range(4):
        write_run(
            tmp_path / f"<b>{number}",
            latencies_ns=[(number + 1) * MS] * 4 + [None],
            factors={"a": number // 2, "b": number % 2},
            order=number,
        )
    return rl.open(tmp_path, collect=False)


@pytest.mark.recording
def test_the_share_of_a_process_is_that_of_the_window() -> None:
    """By hand, for a second in which both processes ran."""
    run = rl.open(ROOT / "data/samples/demo/000_r0_executor-Events")
    all_rows = run.processes.collect()
    begin_ns = all_rows["begin_ns"].min() + 500_000_000
    ran = run.callback_instances.filter(
        pl.col("start_ns").is_between(begin_ns, begin_ns + 1_000_000_000, closed="left")
    )
    took = dict(ran.group_by("vpid").agg(pl.sum("duration_ns")).collect().rows())
    expected = {
        name: took[vpid] / 1e9 for name, vpid in all_rows.select("procname", "vpid").iter_rows()
    }
    view = run.view(window_ns=(begin_ns, begin_ns + 1_000_000_000))
    shares = view.memory.processes().select("process", "callbacks").rows()
    assert dict(shares) == pytest.approx(expected)


@pytest.mark.recording
def test_sentences_are_of_all_topics_and_of_one_cell() -> None:
    """The tables alone give the counts and the quantile."""
    run = rl.open(ROOT / "data/samples")
    outcomes = run.messages.select("topic", "outcome").filter(
        ~pl.col("topic").str.contains(r"(^|/)_|^/(rosout|parameter_events)$"),
        ~pl.col("outcome").is_in(["no_subscriber", "not_matched", "unknown"]),
    )
    missed = ~pl.col("outcome").is_in(["delivered", "taken"])
    lost, count = outcomes.select(missed.sum(), pl.len()).collect().row(0)
    most = (
        outcomes.group_by("topic").agg(missed.sum(), n=pl.len()).sort("outcome").collect().row(-1)
    )
    assert run.loss.sentences() == [
        f"{lost:,} of {count:,} messages did not arrive.",
        f"Most of them on {most[0]}: {most[1]:,} of {most[2]:,}.",
    ]
    cells = rl.open(ROOT / "data/samples/communication")
    slow = cells.callback_instances.filter(pl.col("name") == "/topic_0")
    slow = slow.drop_nulls("duration_ns").collect()
    by_run = slow.join(
        pl.DataFrame([(x.name, x.cell["intra_process"]) for x in cells.runs], ["run", "within"],
                     orient="row"), on="run",
    )  # fmt: skip
    each = by_run.filter(~pl.col("within")).partition_by("run")
    # This is type 8 of Hyndman and Fan, which numpy has, too.
    p99 = np.mean(
        [np.quantile(frame["duration_ns"], 0.99, method="median_unbiased") for frame in each]
    )
    sentence = cells.callbacks.sentences()[0]
    assert "intra_process=False" in sentence
    assert sentence.endswith(f": {p99 / 1e6:.3g} ms.")


@pytest.mark.recording
def test_a_percentile_of_too_few_samples_is_in_no_pair() -> None:
    """339 correlated samples give a median but no P99, as the estimates say."""
    executors = rl.open(ROOT / "data/samples/communication").executors
    pairs = executors.with_parameters(factor="intra_process").pairs()
    refused = executors.estimates().filter(metric="latency_p99")["refused"]
    assert refused.null_count() < refused.len()
    assert set(pairs["metric"]) == {"latency_p50", "latency_mean", "latency_max", "cpu"}


@pytest.mark.recording
def test_what_was_seen_when(tmp_path: Path) -> None:
    """The truth is the model's tables and the reader's counts; then one CPU's stream is missing."""
    whole = tmp_path / "whole"
    shutil.copytree(ROOT / "data/samples/demo/000_r0_executor-Events", whole)
    run = rl.open(whole)
    seen = run.loss.seen()
    columns = ("vpid", "begin_ns", "end_ns", "events")
    processes = seen.filter(pl.col("of") == "process").select(columns)
    expected = run.processes.select(columns).collect()
    assert sorted(processes.rows()) == sorted(expected.rows())
    events = seen.filter(pl.col("of") == "event").select("name", "events").rows()
    assert dict(events) == find_info(whole)[0].events_by_name
    assert seen.filter(pl.col("of") == "CPU")["name"].to_list() == ["CPU 0", "CPU 1"]
    of_cpus = seen.filter(pl.col("of") == "CPU")["events"].sum()
    assert of_cpus == sum(count for _, count in events)

    for path in [*whole.rglob("ros2_1"), *whole.rglob("ros2_1.idx")]:
        path.unlink()
    run = rl.open(whole)
    assert run.loss.seen().filter(pl.col("of") == "CPU")["name"].to_list() == ["CPU 0"]
    picture = run.loss.seen_over_time()
    cpus, *_ = picture.axes
    assert [label.get_text() for label in cpus.get_yticklabels()] == ["CPU 0", "CPU 1"]
    (bar,) = cpus.containers[0]
    assert bar.get_y() == pytest.approx(0.55)
    assert bar.get_width() == pytest.approx(cpus.get_xlim()[1])
    assert any(
        isinstance(part, Plot) and part.caption == picture.caption
        for part in run.latency.loss_first().parts
    )


@pytest.mark.recording
@pytest.mark.parametrize("noun", ["latency", "executors", "memory", "chains"])
def test_estimates_are_those_of_the_report(tmp_path: Path, noun: str) -> None:
    """The truth is metrics.json, which tests/notebooks checks by a second implementation."""
    report = getattr(rl.open("data/samples/demo"), noun)
    report.with_parameters(output_dir=str(tmp_path)).write()
    written = json.loads((tmp_path / "metrics.json").read_text())["estimates"]
    frame = report.estimates()
    factors = frame.columns[1 : frame.columns.index("value")]
    by_key = {
        (row["metric"], *(row[name] for name in factors)): row
        for row in frame.iter_rows(named=True)
    }
    assert len(by_key) == frame.height
    for e in written:
        if set(e["cell"]) != set(factors) or (e["metric"],) not in {key[:1] for key in by_key}:
            assert noun == "latency"  # services, CPU and further topics
            continue
        row = by_key[(e["metric"], *(e["cell"][name] for name in factors))]
        for name in ("value", "low", "high"):
            assert (row[name] is None) == (e[name] is None) or math.isinf(row[name])
            assert e[name] is None or row[name] == pytest.approx(e[name], rel=1e-12)


def test_cells_are_made_by_the_factors_asked_for(four: Recordings) -> None:
    """By hand: the means of 1, 2 | 3, 4 and of 1, 3 | 2, 4 ms."""

    def means(*by: str) -> list[float]:
        frame = (
            four.latency.estimates(by=by, full=True)
            .filter(metric="latency_mean")
            .sort(by or "metric")
        )
        assert frame["runs"].to_list() == [4 // len(frame)] * len(frame)
        return [value / MS for value in frame["value"]]

    assert means("a") == [1.5, 3.5]
    assert means("b") == [2, 3]
    assert means() == [2.5]
    assert four.latency.estimates().filter(metric="latency_mean").height == 4
    assert four.loss.estimates(by=[])["value"].item() == pytest.approx(0.2)


def test_frames_are_the_rows_that_the_report_counts(four: Recordings) -> None:
    """With a publication every 2 ms, two of five are left in each run after 5 ms of warm-up."""
    frame = four.latency.frame()
    assert frame.height == 20
    assert frame["since_ns"].max() == 8 * MS
    late = four.latency.with_parameters(warm_up_s=0.005)
    assert late.frame()["since_ns"].unique().sort().to_list() == [6 * MS, 8 * MS]
    assert "left out as warm-up: 12 messages" in str(late.loss_first())
    assert four.latency.frame().equals(frame)  # `late` has parameters of its own
    lost = four.loss.frame()
    assert lost.select("messages", "arrived", "lost", "unknown").unique().row(0) == (5, 4, 1, 0)
    assert lost["loss"].unique().to_list() == [0.2]
    assert four.latency.worst(count=1)["latency_ns"].item() == 4 * MS
    assert isinstance(frame.to_pandas().latency_ns.max(), float)


def test_pictures_are_figures_of_the_users_own(four: Recordings) -> None:
    for draw in (four.latency.ecdf, four.latency.heat, four.memory.over_time, four.loss.over_time):
        picture = draw()
        assert isinstance(picture, Figure)
        assert escape(picture.caption) in picture._repr_html_()
        picture.clear()
        assert draw().axes, draw
    # Nor does the report's figure change.
    four.latency.ecdf().clear()
    assert four.latency.answer().picture.figure.axes  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("lost_on_a", "told"),
    [(2, "No topic lost more than /a: 2 of 4."), (3, "Most of them on /a: 3 of 4.")],
)
def test_most_is_more_than_half(tmp_path: Path, lost_on_a: int, told: str) -> None:
    """By hand: /b and /c lose one of four messages each."""
    latencies = [None] * lost_on_a + [MS] * (4 - lost_on_a) + [None, MS, MS, MS] * 2
    folder = write_run(tmp_path / "r", latencies_ns=latencies)
    file = folder / "tables/messages.parquet"
    rows = pl.read_parquet(file)
    topic = pl.Series([name for name in ("/a", "/b", "/c") for _ in range(4)])
    rows.with_columns(topic=topic.cast(rows.schema["topic"])).write_parquet(file)
    count = lost_on_a + 2
    sentences = rl.open(folder, collect=False).loss.sentences()
    assert sentences == [f"{count} of 12 messages did not arrive.", told]


def test_the_time_of_a_message_is_that_since_the_first_one_of_its_run(tmp_path: Path) -> None:
    """By hand: /late begins 30 ms, and is delivered 40 ms, after the first message on /data."""
    folder = write_run(
        tmp_path / "r", latencies_ns=[MS] * 3 + [None, MS, 2 * MS], period_ns=10 * MS
    )
    file = folder / "tables/messages.parquet"
    rows = pl.read_parquet(file)
    topic = pl.Series(["/data"] * 3 + ["/late"] * 3).cast(rows.schema["topic"])
    rows.with_columns(topic=topic).write_parquet(file)
    run = rl.open(folder, collect=False)
    for shown in (run, run.view(window_ns=(int(rows["publish_ns"].min()) + 20 * MS, None))):  # type: ignore[arg-type]
        assert shown.latency.frame("/late")["since_ns"].to_list() == [30 * MS, 40 * MS, 50 * MS]
        dots = shown.latency.over_time("/late").axes[0].lines[0]
        assert list(dots.get_xdata()) == [0.04, 0.05]
        heat = shown.latency.heat("/late").axes[0]
        assert heat.get_xlim() == pytest.approx((0.04, 0.05))
        assert heat.get_xlabel() == "time since the run's first publication [s]"
        bars = shown.loss.over_time("/late").axes[0].patches
        assert min(bar.get_x() for bar in bars) == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("bound_ns", "median_ms", "line"),
    [(None, None, "no median, as the clocks"), (2 * MS, 5.5, "line: the median.")],
)
def test_pictures_show_no_median_that_clocks_forbid(
    tmp_path: Path, bound_ns: int | None, median_ms: float | None, line: str
) -> None:
    """By hand: 1 to 10 ms between two hosts, the shortest two unknown, 2 ms apart at most."""
    folder = write_run(tmp_path / "r", latencies_ns=[n * MS for n in range(1, 11)])
    file = folder / "tables/messages.parquet"
    whole = pl.read_parquet(file)
    known = pl.col("latency_ns") > 2 * MS
    whole.with_columns(
        publisher_host=pl.lit("h1").cast(whole.schema["publisher_host"]),
        latency_ns=pl.when(known).then("latency_ns"),
        clock_bound_ns=pl.lit(bound_ns, whole.schema["clock_bound_ns"]),
    ).write_parquet(file)
    run = rl.open(folder, collect=False)
    picture = run.latency.over_time()
    assert (
        "8 delivered messages, the work topic /data; 2 more, whose latency is not known"
        in picture.caption
    )
    assert line in picture.caption
    dots, *lines = picture.axes[0].lines
    assert [y.get_ydata()[0] for y in lines] == ([] if median_ms is None else [median_ms])
    assert len(dots.get_xdata()) == 8
    assert "2 more, whose latency is not known, are not drawn" in run.latency.heat().caption
    grid = Latencies(run.messages).grid("/data", 0, 2**62, 10)
    assert grid.p50_ns == (None if median_ms is None else median_ms * 1e6)
    if bound_ns is None:
        with pytest.raises(UsageError, match="Not drawn: between hosts whose clocks may be any"):
            run.latency.ecdf()
        assert run.latency.answer().picture is None
    else:
        assert run.latency.ecdf().axes


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda run: run.latency.frame(topic="/dat"), "no topic is named '/dat'; did you mean /da"),
        (lambda run: run.latency.estimates(by=["c"]), "no factor is named 'c'; there are a, b"),
        (lambda run: run.latency.with_parameters(warm=1), "parameter warm = 1: Extra inputs"),
        (lambda run: run.latency.with_parameters(level=2), "parameter level = 2"),
        (lambda run: run.executors.pairs(factor="c"), "no factor is named 'c'"),
        (lambda run: run.executors.grid(), "no two levels of the factor 'executor'"),
        (lambda run: run.callbacks.frame(node="/x"), "no callback's node is named '/x'"),
        (lambda run: run.chains.frame(chain="/x -> /y -> /z"), "/x"),
        (lambda run: run.chains.frame(chain="/x"), "expected node, topic, node"),
        (lambda run: run.view(topics="/none*").latency, "no topic is named '/none\\*'"),
        (lambda run: run.compare("nowhere"), "nowhere: no such file"),
        (lambda run: run.compare(run, threshold=5), "threshold 5"),
        (lambda run: run.check("nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_errors_are_one_line_that_says_what_to_do(four: Recordings, ask: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told) as error:
        ask(four)
    assert "\n" not in str(error.value)


def test_nothing_to_draw_is_said(tmp_path: Path) -> None:
    write_run(tmp_path / "r", latencies_ns=[None, None], resources=False)
    run = rl.open(tmp_path, collect=False)
    for draw in (run.latency.ecdf, run.latency.heat, run.latency.intervals):
        with pytest.raises(UsageError, match=r"[Nn]o .*message"):
            draw()
    for draw in (run.memory.over_time, run.memory.intervals):
        with pytest.raises(UsageError, match="RSS was not recorded in any run that counts"):
            draw()
    assert run.memory.answer().picture is None
    estimates = run.latency.estimates()
    assert estimates.filter(metric="latency_p50")["value"].to_list() in ([], [None])
    assert isinstance(run.memory.frame(), pl.DataFrame)


@pytest.mark.filterwarnings("error")
def test_one_message_is_drawn(tmp_path: Path) -> None:
    """A message of 1 ms: a point of the CCDF at 1; axes of time and latency have a length."""
    write_run(tmp_path / "r", latencies_ns=[MS])
    run = rl.open(tmp_path, collect=False)
    (point, _) = run.latency.ecdf().axes[1].lines
    assert (list(point.get_xdata()), list(point.get_ydata())) == ([1], [1])
    assert point.get_marker() == "."
    assert run.latency.over_time().axes[0].get_ylim() == (0.5, 2)
    assert run.latency.heat().axes[0].get_xlim() == (0, 1)


def test_every_outcome_has_a_colour_of_its_own() -> None:
    assert len(set(OUTCOMES.values())) == len(OUTCOMES)


def test_panels_without_a_power_of_ten_have_numbers(tmp_path: Path) -> None:
    """Eight cells of 2.0 to 2.7 ms: the axis has its minor ticks' numbers."""
    for number in range(8):
        latencies = [2 * MS + number * 100_000] * 4
        write_run(tmp_path / f"r{number}", latencies_ns=latencies, factors={"a": number})
    plots = distribution_plots(rl.open(tmp_path, collect=False).latency._report().samples, "x")
    axes = plots[0].figure.axes[4]
    plots[0].figure.canvas.draw()
    texts = [tick.get_text() for tick in axes.get_xticklabels(which="both")]
    assert {"2", "2.5"} & set(texts)


def test_what_is_shown_of_runs_is_text_and_html(four: Recordings) -> None:
    assert repr(four).startswith("4 runs in 4 cells")
    html = four._repr_html_()
    assert "&lt;b&gt;0" in html
    assert "<b>0" not in html
    assert html.count("<tr") == 5
    assert repr(four.latency) == "\n".join(four.latency.sentences())


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda run: run.executors.intervals(of="nothing"), "of: 'nothing' is none of work, cpu"),
        (lambda run: run.latency.worst(count=-1), "count: -1 is negative"),
        (lambda run: run.view(warm_up="2s"), "warm_up: give a number of seconds"),
        (lambda run: run.view(warm_up=-1), "warm_up: give a number of seconds"),
        (lambda run: run.latency.estimates(by="speed"), "no factor is named 'speed'"),
    ],
)
def test_what_an_argument_may_not_be(four: Recordings, asked: Any, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        asked(four)
    assert four.latency.estimates(by="a").equals(four.latency.estimates(by=["a"]))
