"""Test the published figures of micro-ROS, computed anew."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from scipy import stats

from roslens.recording import UsageError
from roslens.report import run_report
from roslens.studies.micro_ros.checks import budget_checks, throughput_checks
from roslens.studies.micro_ros.lines import (
    PhysicalLine,
    judge_throughput,
    printed_sums,
)
from roslens.studies.micro_ros.report import MicroRosParameters, MicroRosReport
from roslens.studies.micro_ros.results.folder import read_all
from roslens.studies.micro_ros.results.frames import MEMORY
from roslens.studies.micro_ros.results.published import PublishedFigures, read_published
from roslens.studies.micro_ros.slopes import Slope, slopes_of, with_totals
from roslens.studies.micro_ros.statements import (
    measured_statements,
    memory_statements,
    published_statements,
)

PUBLISHED = Path(__file__).parents[2] / "studies" / "micro_ros" / "data"


@pytest.fixture(scope="module")
def published() -> PublishedFigures:
    return read_published(PUBLISHED)


@pytest.fixture(scope="module")
def slopes(published: PublishedFigures) -> dict[tuple[str, str], Slope]:
    return {(s.entity, s.memory): s for s in slopes_of(published.memory)}


@pytest.mark.parametrize(
    ("entity", "memory", "slope"),
    [
        # These were computed beforehand with another program, from the same digitised points.
        ("publisher", "total", 549.7),
        ("publisher", "static", 243.9),
        ("publisher", "dynamic", 295.9),
        ("publisher", "stack", 13.5),
        ("subscriber", "total", 609.8),
        ("subscriber", "static", 235.2),
        ("subscriber", "dynamic", 365.8),
        ("subscriber", "stack", 2.5),
        ("service", "total", 509.1),
        ("client", "total", 498.5),
        ("history", "static", 2111.5),
    ],
)
def test_published_slopes_to_a_tenth_of_a_byte(
    slopes: dict[tuple[str, str], Slope], entity: str, memory: str, slope: float
) -> None:
    estimate = slopes[entity, memory].estimate
    assert estimate.value == pytest.approx(slope, abs=0.05)
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < estimate.value < estimate.high


def test_intervals_are_those_of_a_second_implementation(
    published: PublishedFigures, slopes: dict[tuple[str, str], Slope]
) -> None:
    for (entity, memory), slope in slopes.items():
        points = published.memory.filter(
            (pl.col("entity") == entity) & (pl.col("memory") == memory)
        )
        line = stats.linregress(points["count"].to_numpy(), points["bytes"].to_numpy())
        half = stats.t.ppf(0.975, points.height - 2) * line.stderr
        e = slope.estimate
        assert [e.value, e.low, e.high] == pytest.approx(
            [line.slope, line.slope - half, line.slope + half], rel=1e-9
        )


def test_the_claim_about_the_history_is_not_supported(
    published: PublishedFigures, slopes: dict[tuple[str, str], Slope]
) -> None:
    statements = memory_statements(published.claims, list(slopes.values()))
    rows = {s.subject: s.told for s in statements}
    assert rows["memory per slot of the history"] == "not so: +63.5 B per slot"
    assert all(
        verdict.startswith("supported") for name, verdict in rows.items() if "slot" not in name
    )


def test_serial_reads_94_percent_of_its_line(published: PublishedFigures) -> None:
    # By hand: 115,200 / 10 = 11,520 B/s; 10,826 / 11,520 = 0.9398.
    lines = MicroRosReport(None, None, published, MicroRosParameters()).lines
    checks = throughput_checks(published.throughput, lines)
    at_400 = next(c for c in checks if c.subject == "Serial, 400 B")
    assert (at_400.verdict, at_400.limit) == ("holds", 11520.0)
    assert at_400.because.startswith("94 % of the 11,520 B/s")
    # 3,519,856 B/s are 28.2 of 100 Mbit/s.
    udp = next(c for c in checks if c.subject == "UDP (ThreadX), 400 B")
    assert (udp.verdict, udp.limit) == ("holds", 12.5e6)
    assert udp.because.startswith("28.2 %")
    # 45,539 of 460,800 / 10 = 46,080 B/s, and 31,098 of 2,000,000 / 8 = 250,000 B/s.
    tcp, can = (
        next(c for c in checks if c.subject == name) for name in ("TCP, 400 B", "CAN-FD, 40 B")
    )
    assert (tcp.verdict, can.verdict) == ("holds", "holds")
    assert tcp.because.startswith("98.8 % of the 46,080 B/s")
    assert can.because.startswith("12.4 % of the 250,000 B/s")
    assert {c.subject for c in checks if c.verdict == "no_line_rate"} == {"USB"}


@pytest.mark.parametrize(
    ("bytes_per_s", "verdict"),
    [
        (11_520.0, "holds"),
        (11_521.0, "impossible_as_bytes"),
        (86_608.0, "impossible_as_bytes"),  # 10,826 B/s given in bits
        (92_161.0, "impossible"),  # more than 8 x 11,520
        (float("nan"), "impossible"),
    ],
)
def test_throughput_above_the_line_is_impossible(bytes_per_s: float, verdict: str) -> None:
    assert judge_throughput(bytes_per_s, PhysicalLine(115200, 10))[0] == verdict


def test_printed_directions_add_up_because_one_was_computed(published: PublishedFigures) -> None:
    sums = printed_sums(published.latency)
    assert len(sums) == 6
    assert all(s.adds_up for s in sums)
    # 1.09 + 1.45 = 2.54, printed as 2.55: rounding.
    usb = next(s for s in sums if s.transport == "USB-CDC")
    assert usb.difference_ns == pytest.approx(-10_000)


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        # 490 / 505 is 3.0 % less, 510 / 495 is 3.0 % more.
        ((490.0, 510.0), "supported"),
        # 475 / 505 is 5.9 % less.
        ((475.0, 510.0), "not_enough_evidence"),
        ((-841.0, 1809.0), "not_enough_evidence"),
        # 531 / 505 is 5.1 % more.
        ((531.0, 560.0), "not so"),
        ((None, None), "cannot be judged"),
    ],
)
def test_memory_is_independent_by_intervals(
    slopes: dict[tuple[str, str], Slope], interval: tuple[float | None, float | None], verdict: str
) -> None:
    """Of the usual publisher the slope is 500 [495, 505] B."""

    def slope(entity: str, low: float | None, high: float | None) -> Slope:
        of = slopes["publisher", "total"]
        return replace(of, entity=entity, estimate=replace(of.estimate, value=500.0, low=low,
                                                           high=high))  # fmt: skip

    usual, best_effort = slope("publisher", 495, 505), slope("publisher_best_effort", *interval)
    first = measured_statements([usual, best_effort], [])[0]
    assert (first.claim, first.verdict) == ("memory does not depend on reliability", verdict)


def test_budgets_are_held_against_the_interval(slopes: dict[tuple[str, str], Slope]) -> None:
    checks = budget_checks(
        list(slopes.values()),
        {"publisher": 560, "subscriber": 600, "client": 499, "history": 2048, "timer": 1},
    )
    assert {c.subject: c.verdict for c in checks} == {
        "publisher, total": "holds",
        "subscriber, total": "broken",
        "client, total": "not_enough_evidence",
        "history, static": "broken",
        "timer": "not_enough_evidence",
    }


def test_totals_are_added_only_where_all_parts_are_known() -> None:
    rows = [
        ("a", "publisher", 1, "static", 10.0),
        ("a", "publisher", 1, "stack", 20.0),
        ("a", "publisher", 1, "dynamic", 30.0),
        ("a", "publisher", 2, "static", 11.0),
        ("a", "publisher", 2, "stack", 20.0),
    ]
    frame = with_totals(pl.DataFrame(rows, schema=MEMORY, orient="row"))
    total = frame.filter(pl.col("memory") == "total")
    assert total.select("count", "bytes").rows() == [(1, 60.0)]


def test_two_points_make_no_line() -> None:
    rows = [("a", "publisher", n, "static", 10.0 * n) for n in (1, 2, 2)]
    (slope,) = slopes_of(pl.DataFrame(rows, schema=MEMORY, orient="row"))
    assert slope.estimate.value is None
    assert slope.estimate.refused == (
        "2 different numbers of entities; a line with an interval needs 3"
    )


def test_points_on_a_line_give_its_slope_to_the_byte() -> None:
    rows = [("a", "publisher", n, "static", 1000.0 + 24 * n) for n in range(1, 11)]
    (slope,) = slopes_of(pl.DataFrame(rows, schema=MEMORY, orient="row"))
    e = slope.estimate
    assert np.allclose([e.value, e.low, e.high], 24, atol=1e-9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source": "nowhere"}, "parameter source = 'nowhere'"),
        ({"source": "recordings"}, "none is given; give PATH"),
        ({"source": "published", "recordings": ["x"]}, "takes no recordings"),
        ({"budgets": {"publisher": -1}}, "parameter budgets.publisher = -1"),
    ],
)
def test_wrong_parameters(given: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MicroRosParameters.checked(given)


@pytest.mark.parametrize("value", ["fast", -1, [115200, 0], [1, 2, 3], True])
def test_wrong_lines(value: object) -> None:
    with pytest.raises(UsageError, match=r"parameter lines\.serial"):
        MicroRosParameters.checked({"lines": {"serial": value}})


def test_report_of_the_published_figures(tmp_path: Path) -> None:
    result = run_report(
        "micro_ros", [], tmp_path / "out", {"source": "published"}, Console(quiet=True)
    )
    with (result.folder / "slopes.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["entity", "memory", "slope", "low", "high"]
    slopes = {(r["entity"], r["memory"]): float(r["slope"]) for r in rows}
    assert slopes["publisher", "total"] == pytest.approx(549.7, abs=0.05)
    assert slopes["history", "static"] == pytest.approx(2111.5, abs=0.05)
    assert result.metrics is not None
    estimates = json.loads(result.metrics.read_text())["estimates"]
    assert len(estimates) == len(rows)
    page = result.html.read_text()
    assert "one exchange per transport" in page
    assert "agent = round trip - client" in page
    # The figure of the first screen stands in its section as well.
    assert page.count("<figure") == 5


def test_results_of_one_s_own_are_not_called_published(published: PublishedFigures) -> None:
    asked = MicroRosParameters(results=["bench/a", "bench/b"])
    assert MicroRosReport(None, read_all([]), published, asked).origin() == {
        "from": "bench/a, bench/b"
    }
    none = MicroRosReport(None, None, published, MicroRosParameters())
    assert none.origin()["published by"] == "eProsima"


def test_the_first_screen_says_what_could_not_be_used(
    published: PublishedFigures, tmp_path: Path
) -> None:
    for name in ("benchmark_out.txt", "profiling_out.txt"):
        (tmp_path / name).write_text("")
    asked = MicroRosParameters(results=[str(tmp_path)])
    report = MicroRosReport(None, read_all([("board", tmp_path)]), published, asked)
    assert report.sentences() == [
        "There are no figures of micro-ROS to look at.",
        "Left out as it could not be used (2 in all): benchmark_out.txt: is empty.",
    ]


def test_what_is_said_beyond_memory_per_entity(
    published: PublishedFigures, slopes: dict[tuple[str, str], Slope]
) -> None:
    """By hand from the printed figures: 610 / 550 B, 1.49 x from 200 to 400 B, 1.26 and 1.22 ms."""
    statements = published_statements([*slopes.values()], published.throughput, published.latency)
    verdicts = {(s.subject, s.claim): s.verdict for s in statements}
    against = {key for key, verdict in verdicts.items() if verdict == "not so"}
    assert against == {
        ("publisher, subscriber", "a publisher takes as much memory as a subscriber"),
        ("publisher, service", "a publisher takes as much memory as a service"),
        ("publisher", "the stack is constant"),
        ("UDP (FreeRTOS + TCP)", "throughput is linear with the size of the messages"),
        ("UDP (ThreadX)", "throughput is linear with the size of the messages"),
    }
    assert set(verdicts.values()) == {"supported", "not so"}
    (linear,) = [s for s in statements if s.subject == "UDP (FreeRTOS + TCP)"]
    assert linear.because.endswith("200 to 400 B 1.49 x")


def test_a_transport_that_carries_more_and_is_slower(
    published: PublishedFigures, slopes: dict[tuple[str, str], Slope]
) -> None:
    slow = published.latency.with_columns(
        rtt_ns=pl.when(pl.col("transport") == "USB-CDC").then(9e6).otherwise("rtt_ns")
    )
    statements = published_statements([*slopes.values()], published.throughput, slow)
    assert statements[-1].verdict == "not so"
