"""Test other outputs of micro-ROS runs: accounts, other ways of counting, statements.

Expected values are by hand.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import polars as pl
import pytest

from roslens.analysis.estimate import Estimate
from roslens.studies.micro_ros.checks import account_checks, checks_of_two_counts
from roslens.studies.micro_ros.results.folder import WAYS, read_all
from roslens.studies.micro_ros.results.frames import MEMORY
from roslens.studies.micro_ros.slopes import slopes_of
from roslens.studies.micro_ros.statements import measured_statements, tcp_statements
from roslens.studies.micro_ros.tables import rtos_table

ROW = {"message": "10 B", "sent": 5, "received": 3, "lost": 2, "twice": 1, "refused": 0}


def transport(folder: Path, of_node: dict[str, object], of_device: dict[str, object]) -> None:
    place = folder / "transport" / "udp reliable"
    place.mkdir(parents=True)
    about = {"system": "micro-ROS", "link": "loopback", "accounts": [of_node]}
    (place / "about.json").write_text(json.dumps(about | {"device": [of_device]}))


@pytest.mark.parametrize(
    ("of_node", "of_device", "verdict"),
    [
        ({}, {"sent": 5, "refused": 0}, "holds"),
        # The device says that it sent one message more.
        ({}, {"sent": 6, "refused": 0}, "broken"),
        # More different messages arrived than were sent.
        ({"received": 6, "lost": -1}, {"sent": 5, "refused": 0}, "broken"),
    ],
)
def test_both_sides_must_tell_the_same(
    tmp_path: Path, of_node: dict[str, int], of_device: dict[str, int], verdict: str
) -> None:
    transport(tmp_path, ROW | of_node, {"message": "10 B"} | of_device)
    results = read_all([("run", tmp_path)])
    (check,) = account_checks(results.accounts)
    assert check.verdict == verdict
    assert results.is_micro_ros


def test_a_message_of_which_the_device_tells_nothing_is_not_accounted_for(tmp_path: Path) -> None:
    transport(tmp_path, dict(ROW), {"message": "100 B", "sent": 5})
    (check,) = account_checks(read_all([("run", tmp_path)]).accounts)
    assert (check.verdict, check.value) == ("broken", 2.0)
    assert "the sides differ about: 10 B" in check.because


@pytest.mark.parametrize("accounts", [[{"sent": 1}], [1], 5])
def test_accounts_that_are_none_are_a_finding(tmp_path: Path, accounts: object) -> None:
    transport(tmp_path, {}, {})
    path = tmp_path / "transport" / "udp reliable" / "about.json"
    path.write_text(json.dumps({"accounts": accounts}))
    results = read_all([("run", tmp_path)])
    assert results.accounts.height == 0
    refused = "transport/udp reliable/about.json: cannot be read as accounts of messages"
    assert any(finding.startswith(refused) for finding in results.findings["what"])


def test_the_same_by_map_and_no_less_by_sbrk() -> None:
    rows = [
        ("run", "publisher x 1", "static", 248, 248, "map"),
        ("run", "publisher x 2", "static", 496, 500, "map"),
        ("run", "publisher x 1", "dynamic", 900, 3360, "sbrk"),
        ("run", "publisher x 2", "dynamic", 900, 900, "sbrk"),
        ("run", "publisher x 1", "stack", 7440, 7440, "paint"),
        ("run", "publisher x 2", "stack", 7440, 7444, "paint"),
        ("run", "service x 1", "stack", 8584, 6176, "stack_check"),
        ("run", "service x 2", "stack", 8584, 8584, "stack_check"),
    ]
    by_subject = {
        check.subject: check
        for check in checks_of_two_counts(pl.DataFrame(rows, WAYS, orient="row"))
    }
    assert by_subject["static memory by map"].verdict == "broken"
    assert "publisher x 2: 496 B, 500 B" in by_subject["static memory by map"].because
    assert by_subject["dynamic memory by sbrk"].verdict == "holds"
    # A word less than we count is wrong.
    assert by_subject["stack memory by paint"].verdict == "broken"
    by_threadx = by_subject["stack memory by stack_check"]
    assert by_threadx.verdict == "holds"
    assert "no more in 2 of 2 programs, up to 2,408 B less" in by_threadx.because
    (more,) = checks_of_two_counts(
        pl.DataFrame(
            [("run", "service x 1", "stack", 8584, 8588, "stack_check")], WAYS, orient="row"
        )
    )
    assert more.verdict == "broken"


def test_the_paint_of_all_stacks_is_compared_with_the_high_water_marks(tmp_path: Path) -> None:
    """4,096 - 2,245 and 128 - 119 words of 4 bytes make 7,440 B."""
    folder = tmp_path / "memory" / "publisher_freertos" / "1"
    folder.mkdir(parents=True)
    (folder / "tasks.txt").write_text("app\tX\t1\t2245\t1\r\nIDLE\tR\t0\t119\t2\r\n")
    (folder / "stacks.json").write_text('{"app": 4096, "IDLE": 128}')
    (folder / "heap.mtrace").write_text("= Start\n= End\n")
    (folder / "ways.json").write_text('{"stack_bytes_by_paint": 7440}')
    ways = read_all([("run", tmp_path)]).ways
    assert ways.select("memory", "bytes", "otherwise_bytes").rows() == [("stack", 7440, 7440)]


def test_slopes_with_and_without_an_rtos_are_beside_each_other() -> None:
    rows = [
        ("run", entity, count, "static", slope * count)
        for entity, slope in (("publisher", 248.0), ("publisher_freertos", 250.0))
        for count in (1, 2, 4)
    ]
    rows += [("run", "service", count, "static", 220.0 * count) for count in (1, 2, 4)]
    slopes = slopes_of(pl.DataFrame(rows, MEMORY, orient="row"))
    assert [s.entity for s in slopes] == ["publisher", "service", "publisher_freertos"]
    published = {("publisher", "static"): slopes[1]}
    table = rtos_table(slopes, published)
    assert table is not None
    assert table.columns == ["entity", "memory", "no RTOS", "FreeRTOS", "published"]
    assert table.rows == [["publisher", "static", "248.0", "250.0", "220.0"]]
    assert rtos_table(slopes[:2], published) is None


def estimate(
    transport: str, low: float | None, high: float | None, metric: str = "rtt_p50"
) -> Estimate:
    value = None if low is None or high is None else (low + high) / 2
    cell = {"transport": transport, **({"payload_bytes": 400} if metric == "throughput" else {})}
    return Estimate(
        metric=metric, definition="", better=None, unit="", cell=cell,
        value=1e6 if value is None else value, low=low, high=high, level=0.95, runs=3, samples=9,
        effective_samples=None,
        method="", refused=None if low is not None else "one run",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("serial", "emulated", "verdict"),
    [
        ((8e6, 9e6), (), "supported"),
        ((1e5, 2e5), (), "not so"),
        # The intervals overlap, or there is none.
        ((2e6, 9e6), (), "cannot be judged"),
        ((None, None), (), "cannot be judged"),
        # A pseudo-terminal has no line rate.
        ((8e6, 9e6), {"serial reliable"}, "cannot be judged"),
    ],
)
def test_the_round_trip_over_udp_and_a_serial_line(
    serial: tuple[float | None, float | None], emulated: Collection[str], verdict: str
) -> None:
    estimates = [estimate("udp reliable", 1e6, 3e6), estimate("serial reliable", *serial)]
    statements = measured_statements([], estimates, emulated)
    by_subject = {
        statement.subject: statement for statement in statements if "serial line" in statement.claim
    }
    assert by_subject["reliable"].verdict == verdict
    assert by_subject["best effort"].verdict == "cannot be judged"


@pytest.mark.parametrize(
    ("tcp", "verdict"),
    [
        ((4e7, 5e7), "supported"),
        ((4e5, 5e5), "not so"),
        ((4e5, 5e7), "cannot be judged"),
    ],
)
def test_whether_more_throughput_has_the_shorter_round_trip(
    tcp: tuple[float, float], verdict: str
) -> None:
    """UDP carries more than TCP, and its round trip takes 1 to 2 ms."""
    estimates = [
        estimate("udp reliable", 1e6, 2e6),
        estimate("tcp reliable", *tcp),
        # It is not known whether this one carries more than UDP.
        estimate("tcp_no_delay reliable", 1e6, 2e6),
        estimate("tcp_no_delay reliable", 1e5, 3e5, "throughput"),
        estimate("udp reliable", 2e5, 3e5, "throughput"),
        estimate("tcp reliable", 1e4, 2e4, "throughput"),
    ]
    by_subject = {
        statement.subject: statement
        for statement in measured_statements([], estimates)
        if "latency follows" in statement.claim
    }
    assert by_subject["reliable"].verdict == verdict
    assert by_subject["best effort"].verdict == "cannot be judged"


@pytest.mark.parametrize(
    ("quick", "verdict"),
    [
        ((3e5, 5e5), "supported"),
        ((4e7, 5e7), "not so"),
        # The time is less, but not less than half; or the interval is so wide that nothing can be
        # said.
        ((2.5e7, 3e7), "not so"),
        ((1e5, 9e7), "cannot be judged"),
    ],
)
def test_whether_tcp_waits(quick: tuple[float, float], verdict: str) -> None:
    """TCP takes 45 to 49 ms with the client's settings."""
    estimates = [estimate("tcp reliable", 4.5e7, 4.9e7), estimate("tcp_no_delay reliable", *quick)]
    by_subject = {statement.subject: statement for statement in tcp_statements(estimates)}
    assert by_subject["reliable"].verdict == verdict


def test_independence_and_a_constant_stack() -> None:
    """The slopes are 500, 524 and 530 B per publisher: 4.8 and 6 % apart."""
    rows = [
        ("run", entity, count, memory, slope * count + at_none)
        for entity, slope in (
            ("publisher", 500.0),
            ("publisher_best_effort", 524.0),
            ("publisher_400_bytes", 530.0),
        )
        for count in (1, 2, 4)
        for memory, at_none in (("total", 100.0),)
    ]
    rows += [("run", "service", count, "stack", 1000.0 + count) for count in (1, 2, 4)]
    rows += [("run", "client", count, "stack", 1000.0 * count) for count in (1, 2, 4)]
    schema = ("source", "entity", "count", "memory", "bytes")
    statements = measured_statements(slopes_of(pl.DataFrame(rows, schema, orient="row")), [])
    verdicts = {statement.subject: statement.verdict for statement in statements}
    assert verdicts["publisher_best_effort"] == "supported"
    assert verdicts["publisher_400_bytes"] == "not so"
    assert verdicts["publisher_one_topic"] == "cannot be judged"
    assert (verdicts["service"], verdicts["client"]) == ("supported", "not so")
