"""Test the model as a whole: missing and repeated events, odd inputs, independence of order."""

import random
from itertools import accumulate

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from ros2_trace import TYPES, Trace, at, findings, rows
from test_messages import CALLBACK, NODE, PUB, SUB, one_delivered, talker_and_listener

from roslens.collectors.ros2 import build_tables
from roslens.collectors.ros2.sessions import APART_NS, recorded_once
from roslens.collectors.schema import TABLES


def test_an_empty_trace_gives_every_table_empty_and_typed() -> None:
    tables = build_tables({})
    assert list(tables) == list(TABLES)
    for name, frame in tables.items():
        assert frame.schema == TABLES[name].schema
        assert frame.is_empty() or name == "health"
    kinds = tables["health"]["kind"].unique().sort().to_list()
    assert kinds == ["missing_events", "no_ros_events"]


def test_events_that_never_happened_are_not_missing() -> None:
    trace = Trace()
    trace.declared = {
        name.removeprefix("ros2:") for table in TABLES.values() for name in table.needs
    }
    tables = trace.tables()
    assert tables.pop("health")["kind"].to_list() == ["no_ros_events"]
    assert all(frame.is_empty() for frame in tables.values())
    assert all(frame.schema == TABLES[name].schema for name, frame in tables.items())


@pytest.mark.parametrize("table", [name for name, table in TABLES.items() if table.needs])
def test_a_table_names_the_events_it_lacks(table: str) -> None:
    needed = TABLES[table].needs[0].removeprefix("ros2:")
    trace = one_delivered()
    trace.rows = [row for row in trace.rows if row[0] != needed]
    health = trace.tables()["health"].filter(kind="missing_events", where=table)
    assert health.height == 1
    assert TABLES[table].needs[0] in health["what"].item()


def test_repeated_init_events_are_one_object() -> None:
    """Each snapshot of a flight recorder begins with the same init events."""
    trace = talker_and_listener()
    trace.rows += [(name, dict(row, trace="snapshot-2")) for name, row in trace.rows]
    count = len(trace.rows) // 2
    trace.publish(100, PUB)
    trace.receive(150, SUB, CALLBACK, stamp=at(102), pid=2)
    tables = trace.tables()
    heights = {name: tables[name].height for name in ("nodes", "publishers", "subscriptions")}
    assert heights == {"nodes": 2, "publishers": 1, "subscriptions": 1}
    assert tables["messages"]["outcome"].to_list() == ["delivered"]
    assert findings(tables) == {"repeated_init_events": count}


def test_what_two_sessions_record_at_once_is_one_event() -> None:
    """With ``ros2 trace --dual-session``, the second record of an event has its own time.

    The second session begins after the first publisher was made, and ends before the last message.
    """
    trace = talker_and_listener()
    once = len(trace.rows)
    trace.publish(100, PUB)
    trace.publish(200, PUB)
    trace.receive(250, SUB, CALLBACK, stamp=at(202), pid=2)
    twice = trace.rows[once // 2 :]
    trace.publish(300, PUB)
    trace.receive(350, SUB, CALLBACK, stamp=at(302), pid=2)
    expected = trace.tables()
    late = [(name, row | {"trace": "b", "time_ns": row["time_ns"] + 400}) for name, row in twice]
    trace.rows += late
    tables = trace.tables()
    for name, frame in expected.items():
        if name not in ("health", "hosts", "processes"):
            assert_frame_equal(tables[name], frame)
    health = tables["health"].filter(kind="events_of_two_sessions")
    assert health["count"].to_list() == [len(late)]


@given(st.data())
def test_records_of_several_sessions_are_told_apart(data: st.DataObject) -> None:
    """The truth is the drawn events, of which each later session records some, a little later."""
    gaps = data.draw(st.lists(st.integers(20, 30_000_000), min_size=1, max_size=12))
    times = list(accumulate(gaps))
    drawn = data.draw(st.lists(st.integers(0, 2), min_size=len(times), max_size=len(times)))
    keys: list[int] = []
    for number, (time, key) in enumerate(zip(times, drawn, strict=True)):
        # The same event does not recur within the time in which records count as one event.
        soon = any(
            k == key and time - t <= APART_NS + 10 for t, k in zip(times, keys, strict=False)
        )
        keys.append(100 + number if soon else key)
    first = ["a", *(["b"] if data.draw(st.booleans()) else []), "c"]
    rows = []
    for number, (time, key) in enumerate(zip(times, keys, strict=True)):
        holding = [t for t in first if data.draw(st.booleans()) or t == "a"]
        rows += [(time + 3 * first.index(t), key, t, number) for t in holding]
    frame = pl.DataFrame(rows, schema=["time_ns", "key", "trace", "number"], orient="row")
    kept = recorded_once(frame.sample(fraction=1, shuffle=True, seed=1), ["key"])
    assert sorted(kept["time_ns"]) == times
    assert sorted(kept["number"]) == list(range(len(times)))


def test_a_step_of_the_system_clock_is_named_and_bends_no_latency() -> None:
    """From 2.5 s on, source timestamps are 5 s ahead."""
    trace = talker_and_listener()
    for k in range(50):
        us = 1000 + 100_000 * k
        stamp = at(us + 2 + (5_000_000 if us > 2_500_000 else 0))
        trace.publish(us, PUB, stamp=stamp)
        trace.receive(us + 50, SUB, CALLBACK, stamp=stamp, pid=2)
    tables = trace.tables()
    assert tables["messages"]["latency_ns"].unique().to_list() == [53_000]
    assert findings(tables) == {"clock_step": 1}


def test_events_without_thread_ids_are_an_error_in_health() -> None:
    trace = talker_and_listener()
    trace.publish(100, PUB)
    frames = {
        name: frame.with_columns(vpid=pl.lit(None, pl.Int32), vtid=pl.lit(None, pl.Int32))
        for name, frame in trace.frames().items()
    }
    tables = build_tables(frames)
    assert tables["processes"].is_empty()
    first = tables["health"].row(0, named=True)
    assert (first["kind"], first["severity"]) == ("missing_context", "error")


def test_other_providers_do_not_disturb() -> None:
    trace = talker_and_listener()
    kernel = pl.DataFrame(
        [{"time_ns": at(1), "host": "h0", "trace": "kernel", "cpu_id": 0}], schema=TYPES
    )
    heap = kernel.with_columns(vpid=pl.lit(1, pl.Int32), vtid=pl.lit(1, pl.Int32))
    raw = {**trace.frames(), "sched_switch": kernel, "lttng_ust_libc:malloc": heap}
    processes = build_tables(raw)["processes"]
    undisturbed = build_tables(trace.frames())["processes"]
    assert rows(processes, "vpid", "events") == [
        (vpid, events + (vpid == 1)) for vpid, events in rows(undisturbed, "vpid", "events")
    ]


def test_truncated_streams_and_lost_packets_are_findings() -> None:
    trace = talker_and_listener()
    trace.lose(100, 200, None, kind="truncated")
    tables = trace.tables()
    assert findings(tables) == {"truncated": 1}
    assert tables["losses"].height == 1


def test_a_loss_says_of_which_stream_when_and_what_it_can_have_bent() -> None:
    """The first event is at 0; the kernel's loss affects only the scheduling of callbacks."""
    trace = talker_and_listener()
    trace.publish(100, PUB)
    trace.publish(50_000, PUB)
    trace.receive(50_100, SUB, CALLBACK, stamp=at(50_002), pid=2)
    trace.lose(1_000, 2_000, 7)
    trace.lose(30_000, 40_000, 2)
    trace.lose(99, 200, 5, trace="kernel", stream="kchan_0")
    tables = trace.tables()
    losses = tables["health"].filter(kind="discarded_events")
    assert losses.select("count", "where").rows() == [
        (9, "ust/uid/0/64-bit/ch0_0"),
        (5, "kernel/kchan_0"),
    ]
    user, kernel = losses["what"]
    assert "between 0.001 s and 0.040 s after the first event; every table may" in user
    assert user.startswith("the tracer discarded events because its buffers were full")
    assert "between 0.000 s and 0.000 s" in kernel
    assert "or it left out switches by itself" in kernel
    assert kernel.endswith(
        "callback_scheduling has no rows of that time; no other table is touched"
    )
    assert tables["messages"]["outcome"].to_list() == ["unknown", "delivered"]


def test_what_the_kernel_dropped_leaves_messages_alone() -> None:
    trace = talker_and_listener()
    for us in (100, 200):
        trace.publish(us, PUB)
    trace.receive(220, SUB, CALLBACK, stamp=at(202), pid=2)
    trace.lose(120, 190, 7)
    assert trace.tables()["messages"]["outcome"].to_list() == ["unknown", "delivered"]
    trace.losses[0] |= {"trace": "kernel", "stream": "kchan_0"}
    assert trace.tables()["messages"]["outcome"].to_list() == ["not_matched", "delivered"]


def _busy(seed: int) -> Trace:
    """Run two publishers' threads and two receivers, at random times."""
    draw = random.Random(seed)
    trace = Trace()
    for pid in (1, 2):
        trace.node(1, NODE, f"n{pid}", pid=pid)
        trace.publisher(3, PUB, "/data", node=NODE, pid=pid)
        trace.subscription(5, SUB, "/data", node=NODE, callback=CALLBACK, pid=pid)
    for pid in (1, 2):
        us = 100.0
        for _ in range(draw.randrange(1, 12)):
            us += draw.randrange(10, 200)
            trace.publish(us, PUB, pid=pid, tid=pid * 10, stamp=at(us + 2) + pid)
            for receiver in (1, 2):
                if draw.random() < 0.7:
                    later = us + 20 + draw.random() * 500
                    tid = 100 * receiver + draw.randrange(1000)
                    trace.receive(
                        later, SUB, CALLBACK, stamp=at(us + 2) + pid, pid=receiver, tid=tid
                    )
    return trace


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_the_order_in_which_threads_are_read_does_not_matter(
    seed: int, shuffled: random.Random
) -> None:
    """Events of one thread keep their order, threads interleave at random, and names come in any
    order: the tables stay the same (ids too, as no two events of one kind share a time).
    """
    trace = _busy(seed)
    expected = trace.tables()
    by_thread: dict[tuple[int, int], list[tuple[str, dict[str, object]]]] = {}
    for name, row in sorted(trace.rows, key=lambda item: item[1]["time_ns"]):
        by_thread.setdefault((row["vpid"], row["vtid"]), []).append((name, row))
    mixed: dict[str, list[dict[str, object]]] = {}
    queues = list(by_thread.values())
    while queues:
        queue = shuffled.choice(queues)
        name, row = queue.pop(0)
        mixed.setdefault(f"ros2:{name}", []).append(row)
        queues = [q for q in queues if q]
    schemas = {name: frame.schema for name, frame in trace.frames().items()}
    names = list(mixed)
    shuffled.shuffle(names)
    tables = build_tables({name: pl.DataFrame(mixed[name], schema=schemas[name]) for name in names})
    for name, frame in expected.items():
        assert_frame_equal(tables[name], frame)
