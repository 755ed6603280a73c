"""Test triggers: what hits and when, and the snapshot that is then recorded.

Expected moments and values are counted by hand from synthetic events. A live run is in
``tests/native_tracer/test_watch.py``.
"""

import itertools
import json
import os
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from ros2_trace import Trace, at

from roslens.analysis.reports.numbers import seen
from roslens.collectors.ros2.live import Model
from roslens.live.beside import OF_FLIGHTS, watched_for
from roslens.live.chains import chain_figures, watched_chains
from roslens.live.processes import Processes
from roslens.live.snapshots import Snapshots
from roslens.live.triggers import Settings, Tables, Triggers, read_triggers, trigger_of
from roslens.recording import RunFailedError, UsageError, read_manifest
from roslens.recording.manifest import Hit
from roslens.tracing.native_tracer import snapshot

MS = 1_000_000
T0 = 1_700_000_000_000_000_000


def settings(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "triggers.yaml"
    path.write_text(text)
    return read_triggers(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("triggers: []", "there is no trigger"),
        ("trigger: [x]", "give a list named 'triggers'"),
        ("triggers: [latency of /a above 5 ms]", "is no trigger"),
        ("triggers: [latency of /a > 5 Hz]", "cannot be measured in Hz"),
        ("triggers: [latency of /a < 5 ms]", "can only be above"),
        ("triggers: [gap > 5 ms]", "say which topic"),
        ("triggers: [latency of /a -> /b > 5 ms]", "ending with a node"),
        ("triggers: [gap of /a -> /b -> /c > 5 ms]", "only the latency"),
        ("triggers: [goal of /a lost]", "is no trigger"),
        ("triggers: [1]", "is no trigger"),
        ("triggers: [goal of /a > 1 s]", "give no limit, but 'aborted or canceled'"),
        ("triggers: [process of /a aborted]", "a process is never aborted"),
        ("triggers: [silence > 1 s]", "say which node or timer"),
        ("triggers: [deadline > 1 s]", "say which chain"),
        ("triggers: [deadline of /a > 1 s]", "give a chain"),
        ("triggers: [memory of /a > 1 MB]", "cannot be measured in MB"),
        ("triggers: [gap of /a > 1 s]\nafter: 5", "unknown key 'after'"),
        ("triggers: [gap of /a > 1 s]\nafter_s: -5", "after_s is a number of at least 0"),
        ("triggers: [gap of /a > 1 s]\nwindow_s: true", "window_s is a number"),
    ],
)
def test_what_is_no_trigger_is_told_in_a_line(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=told) as error:
        settings(tmp_path, text)
    assert "\n" not in str(error.value)


def frames() -> dict[str, pl.DataFrame]:
    """Publish /a from /n to /m at 0, 10, ..., 90 and 200 ms; each is taken 1 ms later.

    The message of 50 is never taken, and that of 90 is taken after 20 ms. The callback takes 2 ms,
    for the message of 80 18 ms, and the last one does not end.
    """
    trace, sender, to = Trace(), {"pid": 1}, {"pid": 2}
    trace.node(-90e3, 0x10, "n", **sender)
    trace.node(-90e3, 0x10, "m", **to)
    trace.publisher(-80e3, 0x20, "/a", node=0x10, **sender)
    trace.subscription(-80e3, 0x30, "/a", node=0x10, callback=0x40, **to)
    for ms in (*range(0, 100, 10), 200):
        at, stamp = ms * 1e3, T0 + ms * MS
        trace.publish(at, 0x20, stamp=stamp, **sender)
        if ms == 50:
            continue
        late = at + (20e3 if ms == 90 else 1e3)
        trace.emit(late, "rmw_take", rmw_subscription_handle=0x31, message=10,
                   source_timestamp=stamp, taken=1, **to)  # fmt: skip
        lasts = {80: 19e3 - 1, 200: None}.get(ms, 2e3 - 1)
        trace.run(late + 1, 0x40, lasts=lasts, **to)
    trace.emit(300e3, "rcl_publish", message=1, publisher_handle=77, pid=3)
    return trace.frames()


def live_tables(raw: dict[str, pl.DataFrame], processes: Processes | None = None) -> Tables:
    model = Model()
    model.feed(raw)
    return Tables(model.tables(), model.goal_ends, processes)


def found(tmp_path: Path, text: str, *moments: int) -> list[list[tuple[float, float]]]:
    """Return, for each moment in ms, the times of its hits in ms, and their values.

    Values whose unit is ns are given in ms.
    """
    triggers = Triggers(settings(tmp_path, f"triggers: [{text}]\nwindow_s: 1"))
    tables = live_tables(frames())
    first = T0 - 2000 * MS
    return [
        [
            ((hit.at_ns - T0) / MS, hit.value / MS if hit.unit == "ns" else hit.value)
            for hit in triggers.hits(tables, first, T0 + ms * MS)
        ]
        for ms in moments
    ]


@pytest.mark.parametrize(
    ("text", "moments", "hits"),
    [
        # The message published at 90 began its callback 20.001 ms later.
        ("latency of /a > 15 ms", (100, 250, 300), [[], [(110.001, 20.001)], []]),
        ("latency > 15 ms", (250,), [[(110.001, 20.001)]]),
        ("latency of /b > 15 ms", (250,), [[]]),
        # That of a chain goes to the end of the callback: 90 + 20 + 2.
        ("latency of /n -> /a -> /m > 21 ms", (250,), [[(112, 22)]]),
        ("latency of /x -> /a -> /m > 21 ms", (250,), [[]]),
        # After 90 nothing comes until 200, and nothing after that.
        ("gap of /a > 50 ms", (100, 145, 160, 300), [[], [(140, 110)], [], [(250, 100)]]),
        # The callback of 80 began at 81.001 and took 18.999; that of 200 still runs.
        ("callback of /m > 18 ms", (100, 210, 300), [[(99.001, 18.999)], [], [(219.001, 98.999)]]),
        # There are 11 publications in the second before 300, one before 1,100, and none later.
        ("rate of /a < 10 Hz", (300, 1100, 1500), [[], [(1100, 1)], []]),
        ("rate of /a > 10 Hz", (300,), [[(300, 11)]]),
        ("rate of /nothing < 10 Hz", (300,), [[]]),
        # The topic begins at 0: before 1,000 there is no whole window, and a rate can only be too
        # high.
        ("rate of /a < 12 Hz", (300, 999, 1000), [[], [], [(1000, 11)]]),
        # A loss concerns the window that ended a second before.
        ("loss of /a > 5 %", (1999, 2000), [[], [(1000, pytest.approx(1 / 11))]]),
        ("loss of /a > 10 %", (2000,), [[]]),
        # The message of 50 is not taken, 80 ends after 20 ms, 90 after 22 ms, 200 never.
        ("deadline of /n -> /a -> /m > 21 ms", (60, 71, 110, 111, 220, 221, 300),
         [[], [(71, 21)], [], [(111, 22)], [], [(221, 21)], []]),
        ("deadline of /n -> /a -> /m > 150 ms", (300,), [[(200, 250)]]),
        ("deadline of /n -> /a -> /x > 1 ms", (300,), [[]]),
        # /n publishes last at 90 and then at 200; /m ends the callback of 90 at 112.001 and begins
        # the next at 201.001.
        ("silence of /n > 80 ms", (169, 180, 279, 290), [[], [(170, 110)], [], [(280, 90)]]),
        *((f"silence of {name} > 80 ms", (190, 250, 300),
           [[], [(192, pytest.approx(89.001))], [(281.001, 98.999)]]) for name in ("/m", "/a")),
        ("silence of /x > 80 ms", (300,), [[]]),
    ],
)  # fmt: skip
def test_when_a_trigger_hits_and_with_what_value(
    text: str, moments: tuple[int, ...], hits: list[list[object]], tmp_path: Path
) -> None:
    assert found(tmp_path, text, *moments) == hits


def test_a_goal_that_was_aborted(tmp_path: Path) -> None:
    """One goal of /a aborts at 40 ms and one at 60 ms; one goal of /b is cancelled at 50 ms."""
    trace = Trace()
    for place, name in enumerate("ab"):
        trace.publisher(-80e3, 0x20 + place, f"/{name}/_action/status", node=0x10)
    for ms, goal, status, place in (
        (10, 1, 1, 0), (20, 2, 1, 0), (30, 3, 1, 1), (40, 1, 6, 0), (50, 3, 5, 1), (60, 2, 6, 0),
    ):  # fmt: skip
        trace.emit(ms * 1e3, "goal_status", goal_id=[goal] * 16, status=status)
        trace.emit(ms * 1e3 + 1, "rcl_publish", message=9, publisher_handle=0x20 + place)
    tables = live_tables(trace.frames())

    def hits(text: str) -> list[list[float]]:
        triggers = Triggers(settings(tmp_path, f"triggers: [{text}]"))
        return [
            [(hit.at_ns - T0) / MS for hit in triggers.hits(tables, T0 - 100 * MS, T0 + ms * MS)]
            for ms in (35, 55, 60, 90)
        ]

    assert hits("goal of /a aborted") == [[], [40], [60], []]
    assert hits("goal aborted") == [[], [40], [60], []]
    assert hits("goal of /b aborted") == [[], [], [], []]
    assert hits("goal canceled") == [[], [50], [], []]


def test_a_callback_goes_on_until_its_process_was_last_seen_to_live(tmp_path: Path) -> None:
    """The callback of 200 began at 201.001 ms in process 2, which was seen until 230 and 205 ms."""
    for lived_ms, hits in ((230, [(219.001, 28.999)]), (205, [])):
        processes = Processes(1, memory=False)
        processes.lived_ns = {2: T0 + lived_ms * MS}
        triggers = Triggers(settings(tmp_path, "triggers: [callback of /m > 18 ms]"))
        # That of 80 took 18.999 ms and ended at 100 ms.
        tables = live_tables(frames(), processes)
        triggers.hits(tables, T0 - 1, T0 + 200 * MS)
        late = triggers.hits(tables, T0 - 1, T0 + 2000 * MS)
        assert [((hit.at_ns - T0) / MS, hit.value / MS) for hit in late] == hits


def test_what_still_runs_is_told_to_last_at_least_so_long() -> None:
    going = Hit(trigger="x", at_ns=T0, value=98_999_000, at_least=True, unit="ns")
    assert seen(going) == " (99.0 ms so far)"
    assert seen(going.model_copy(update={"at_least": False})) == " (99.0 ms)"


@pytest.mark.parametrize("outcome", ["lost", "replaced", "overwritten"])
def test_a_message_that_did_not_arrive_misses_its_deadline(outcome: str, tmp_path: Path) -> None:
    """The message of 50, whatever became of it, is not at the end at 71."""
    tables = live_tables(frames())
    instead = pl.when(pl.col("outcome") == "lost").then(pl.lit(outcome)).otherwise("outcome")
    messages = tables.frame("messages")
    assert (messages["outcome"] == "lost").sum() == 1
    tables._frames["messages"] = messages.with_columns(outcome=instead.cast(pl.String))
    text = "triggers: [deadline of /n -> /a -> /m > 21 ms]"
    (hit,) = Triggers(settings(tmp_path, text)).hits(tables, T0, T0 + 72 * MS)
    assert (hit.at_ns, hit.value, hit.at_least) == (T0 + 71 * MS, 22 * MS, True)


def three_nodes() -> tuple[Trace, list[dict[str, int]]]:
    """Make /n, which publishes /a to /m, which publishes /b to /o; also where each of them is."""
    trace, of = Trace(), [{"pid": pid} for pid in (1, 2, 3)]
    for place, name in enumerate("nmo"):
        trace.node(-90e3, 0x10, name, **of[place])
    for place, topic in enumerate(("/a", "/b")):
        trace.publisher(-80e3, 0x20, topic, node=0x10, **of[place])
        trace.subscription(-80e3, 0x30, topic, node=0x10, callback=0x40, **of[place + 1])
    return trace, of


def pass_on(
    trace: Trace, of: list[dict[str, int]], us: float, *, lasts: float | None, after: float = 2e3,
    on: bool = True,
) -> None:  # fmt: skip
    """Publish /a at `us`; /m publishes /b later, if it passes it `on`; callbacks begin after 1 ms.

    That of /m `lasts` so long, that of /o 1 ms.
    """
    for place, (sent, took) in enumerate(((us, lasts), (us + after, 1e3))[: 1 + on]):
        trace.publish(sent, 0x20, **of[place])
        trace.take(sent + 997, 0x30, stamp=at(sent + 2), **of[place + 1])
        trace.run(sent + 1e3, 0x40, lasts=took, **of[place + 1])


@pytest.mark.parametrize("publishes", [True, False])
def test_what_a_callback_published_is_known_when_it_has_ended(
    publishes: bool, tmp_path: Path
) -> None:
    """Of the message of 200 ms, the callback of /m still runs at 230 ms, 9 ms past the deadline.

    If /m published after 1 ms, /o was done after 4 ms; if not, nothing can have reached /o.
    """
    trace, of = three_nodes()
    for us in (0, 100e3, 200e3):
        going = us == 200e3
        pass_on(trace, of, us, lasts=None if going else 50e3, on=not going or publishes)
    trace.emit(230e3, "rcl_publish", message=1, publisher_handle=77, pid=4)
    chain = "/n -> /a -> /m -> /b -> /o"
    given = settings(tmp_path, f"triggers: [deadline of {chain} > 21 ms]")
    tables, end = live_tables(trace.frames()), at(230e3)
    hits = [(h.at_ns, h.value) for h in Triggers(given).hits(tables, at(0), end)]
    assert hits == ([] if publishes else [(at(221e3), 30 * MS)])
    table = chain_figures(watched_chains([], given), tables, at(0), end)
    assert table.select("complete", "missed").rows() == [(2, len(hits))]


@pytest.mark.parametrize("of_three", [False, True])
def test_a_chain_that_came_to_its_end_once_goes_on_missing_deadlines(
    of_three: bool, tmp_path: Path
) -> None:
    """/m takes the messages of 0 and 100 ms, and none of 200 to 600 ms, whose deadline is 50 ms.

    Of the chain of three, /m publishes /b for /o in its callback. Seconds later, the model knows
    only the five messages that nobody took.
    """

    def tables(times_ms: Sequence[int], completed: set[str] | None) -> Tables:
        trace, of = three_nodes()
        for us in (1e3 * ms for ms in times_ms):
            if us < 200e3:
                pass_on(trace, of, us, lasts=5e3)
            else:
                trace.publish(us, 0x20, **of[0])
        trace.emit(900e3, "rcl_publish", message=1, publisher_handle=77, pid=4)
        model = Model()
        model.feed(trace.frames())
        return Tables(model.tables(), model.goal_ends, completed=completed)

    chain = "/n -> /a -> /m" + " -> /b -> /o" * of_three
    given = settings(tmp_path, f"triggers: [deadline of {chain} > 50 ms]")
    earlier, later = range(0, 700, 100), range(200, 700, 100)
    completed: set[str] = set()

    def seen_in(tables: Tables) -> tuple[list[tuple[object, ...]], list[int]]:
        table = chain_figures(watched_chains([], given), tables, at(0), at(900e3))
        hits = Triggers(given).hits(tables, at(0), at(900e3))
        rows = table.select("instances", "complete", "missed").rows()
        return rows, [hit.at_ns for hit in hits]

    assert seen_in(tables(earlier, completed)) == ([(7, 2, 5)], [at(250e3)])
    assert seen_in(tables(later, completed)) == ([(5, 0, 5)], [at(250e3)])
    # Whoever begins to watch then does not know that this is a chain.
    assert seen_in(tables(later, None)) == ([(5, 0, None)], [])


def looks(text: str, trace: Trace, *seconds: float) -> list[list[tuple[float, float | None, bool]]]:
    """Return the hits of looks at a trace so far: when, value (s), and whether it is at least that.

    Each look knows the events up to its second, and the events of the seconds before.
    """
    triggers = Triggers(Settings((trigger_of(text),)))
    raw, found = trace.frames(), []
    for second in seconds:
        until = at(second * 1e6)
        tables = live_tables({k: v.filter(pl.col("time_ns") <= until) for k, v in raw.items()})
        found.append(
            [((hit.at_ns - T0) / 1e9, hit.value and hit.value / 1e9, hit.at_least)
             for hit in triggers.hits(tables, at(-100e3), until)]
        )  # fmt: skip
    return found


def test_a_callback_that_spins_within_itself_hits_once() -> None:
    """A callback of /a takes 5 s, from 1 s and again from 10 s; within, /b runs each 100 ms.

    That it goes on although its thread began other callbacks is known when it has done so before.
    """
    trace = Trace()
    for place, name in enumerate("ab"):
        trace.node(-90e3 + place, 0x10 + place, name)
        trace.timer(-85e3, 0x60 + place, 100 * MS, callback=0x70 + place, node=0x10 + place)
    for start in (1e6, 10e6):
        trace.emit(start, "callback_start", callback=0x70, is_intra_process=0)
        for us in range(int(start) + 100_000, int(start) + 5_000_000, 100_000):
            trace.run(us, 0x71, lasts=10e3)
        trace.emit(start + 5e6, "callback_end", callback=0x70)
    trace.run(17e6, 0x71, lasts=1e3)
    assert looks("callback of /a > 2 s", trace, 2, 4, 7, 9, 14, 16, 18) == [
        [], [], [(3, 5, False)], [], [(12, 4, True)], [], []
    ]  # fmt: skip


def test_what_is_known_late_hits_late() -> None:
    """Each second /n publishes; /m publishes after 400 ms and then goes on until 901 ms; /o takes
    1 ms from 1 ms later on. So that chain took 402 ms is known after 901 ms.
    """
    trace, of = three_nodes()
    for us in (0, 1e6, 2e6):
        pass_on(trace, of, us, lasts=900e3, after=400e3)
    chain = "/n -> /a -> /m -> /b -> /o"
    for kind, after in (("deadline", 0.2), ("latency", 0.402)):
        found = looks(f"{kind} of {chain} > 200 ms", trace, 0.5, 1.5, 2.5, 3)
        took = pytest.approx(0.402)
        assert found == [[], *([(pytest.approx(s + after), took, False)] for s in range(3))]


def test_what_a_chain_took_and_missed_in_a_window(tmp_path: Path) -> None:
    """Seven messages take 3 ms, that of 80 takes 20, that of 90 takes 22; 50 and 200 never end."""
    tables = live_tables(frames())
    chain = "/n -> /a -> /m"
    given = settings(tmp_path, f"triggers: [latency of {chain} > 1 s, deadline of {chain} > 60 ms]")

    def figures(begin_ms: int, end_ms: int, *texts: str) -> list[tuple[object, ...]]:
        watched = watched_chains(texts, given)
        table = chain_figures(watched, tables, T0 + begin_ms * MS, T0 + end_ms * MS)
        columns = ("complete", "p50_ms", "p99_ms", "worst_ms", "deadline_ms", "missed")
        assert table["chain"].to_list() == [chain for chain, _ in watched]
        return table.select(columns).rows()

    # The deadline of 200 is at 221, that of 50 at 71.
    assert figures(0, 300, f"{chain} > 21 ms") == [
        (9, 3, None, 22, 21, 3), (9, 3, None, 22, 60, 2)
    ]  # fmt: skip
    assert figures(0, 220, f"{chain}>21ms".replace(">21", " >21"))[0][-1] == 2
    assert figures(60, 100) == [(4, None, None, 22, 60, None)]
    assert figures(0, 300, "/n -> /b -> /m", chain) == [
        (0, None, None, None, None, None), (9, 3, None, 22, 60, 2)
    ]  # fmt: skip
    assert figures(0, 300, "/n -> /b -> /m > 60 ms", chain)[0][-1] is None
    for wrong, reason in (("/n -> /a", "ending with a node"), (f"{chain} < 1 s", "only be above")):
        with pytest.raises(UsageError, match=f"--chain: .*{reason}"):
            watched_chains([wrong], None)


@pytest.mark.parametrize("name", ["33.33 ms (30 Hz)", "33333333 ns", "/n"])
def test_a_timer_is_called_as_it_is_shown_or_as_in_the_tables(name: str) -> None:
    """A timer of 33,333,333 ns runs at 0, 100, 200 and 300 ms for 2 ms, and then no more."""
    trace = Trace()
    trace.node(-90e3, 0x10, "n")
    trace.timer(-85e3, 0x60, 33_333_333, callback=0x70, node=0x10)
    for ms in (0, 100, 200, 300):
        trace.run(ms * 1e3, 0x70, lasts=2e3)
    trace.emit(2e6, "rcl_publish", message=1, publisher_handle=77, pid=3)
    assert looks(f"silence of {name} > 1 s", trace, 2) == [[(1.302, 1.698, True)]]
    assert looks(f"callback of {name} > 1 ms", trace, 2) == [[(pytest.approx(0.001), 0.002, False)]]


def test_processes_are_seen_to_grow_to_work_and_to_die(tmp_path: Path) -> None:
    """Samples are made by hand: 1 MB/s and 0.8 CPUs from 10 s on; a step of 50 MB is no growth."""
    seconds = [k / 2 for k in range(60)]
    processes = Processes(5, memory=True)

    def give(node: str, pid: int, cpu: Callable[[float], float], rss: Callable[[float], float]):
        processes._pids[node] = [pid]
        processes._samples[pid] = deque(
            SimpleNamespace(time_ns=T0 + round(s * 1e9), cpu_time_ns=round(cpu(s) * 1e9),
                            rss_bytes=round(rss(s) * 1e6)) for s in seconds
        )  # fmt: skip

    give("/grows", 1, lambda s: s * 0.1, lambda s: 90 + max(0.0, s - 10))
    give("/works", 2, lambda s: s * 0.1 + 0.7 * max(0.0, s - 10), lambda s: 90 + 50 * (s > 12))
    processes.died.append(("/gone", T0 + 7 * 10**9))
    tables = live_tables(frames(), processes)

    def hits(text: str, *moments: float) -> list[list[tuple[float, float | None]]]:
        triggers = Triggers(settings(tmp_path, f"triggers: [{text}]\nwindow_s: 5"))
        return [
            [((hit.at_ns - T0) / 1e9, hit.value)
             for hit in triggers.hits(tables, T0 - 1, T0 + round(s * 1e9))]
            for s in moments
        ]  # fmt: skip

    # In the 5 s before 12.5 half has the new rate: 0.45; the next sample exceeds it.
    assert hits("cpu of /works > 45 %", 30) == [[(13, pytest.approx(0.52))]]
    assert hits("cpu > 45 %", 30) == hits("cpu of /works > 45 %", 30)
    # A sample after the moment up to which all is known counts in the next look.
    assert hits("cpu of /works > 45 %", 12.9, 13, 30) == [
        [],
        hits("cpu of /works > 45 %", 30)[0],
        [],
    ]
    assert hits("cpu of /grows > 45 %", 30) == [[]]
    # The value is known after the first 5 s.
    assert hits("cpu of /grows > 5 %", 30) == [[(5, pytest.approx(0.1))]]
    ((at, slope),) = hits("memory of /grows > 0.3 MB/s", 30)[0]
    assert 11 < at <= 15
    # Recompute the slopes between all pairs of each half of the window.
    window = [(s, 90 + max(0.0, s - 10)) for s in seconds if at - 5 <= s <= at]
    halves = [
        np.median([(y - b) / (x - a) for (a, b), (x, y) in itertools.combinations(half, 2)])
        for half in (window[:6], window[5:])
    ]
    assert slope == pytest.approx(1e6 * min(halves))
    assert hits("memory of /works > 0.3 MB/s", 30) == [[]]
    # Two readings are not enough.
    processes._samples[1] = deque(
        sample for sample in processes._samples[1] if sample.time_ns % (4 * 10**9) == 0
    )
    assert hits("memory of /grows > 0.3 MB/s", 30) == [[]]
    assert hits("process of /gone died", 30) == [[(7, None)]]
    assert hits("process died", 30) == [[(7, None)]]
    # A death is reported once, five seconds later: by then it was not the end of everything.
    assert hits("process died", 8, 11.9, 12, 13) == [[], [], [(7, None)], []]
    assert hits("process of /works died", 30) == [[]]


def test_a_process_that_is_gone_died_once() -> None:
    """One process is real, and one was gone before anybody looked."""
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        processes = Processes(5, memory=True)
        nodes = [("/n", 0), ("/beside", 0), ("/other", 1)]
        processes.add([(node, sleeping.pid, namespace, T0) for node, namespace in nodes])
        processes._round()
        processes._round()
        assert processes.nodes == ["/n", "/beside"]
        assert list(processes.died) == []
        before = time.time_ns()
        sleeping.kill()
    processes._round()
    processes._round()
    assert [node for node, at in processes.died if at >= before] == ["/n", "/beside"]
    processes.add([("/late", sleeping.pid, 0, T0)])
    processes._round()
    assert len(processes.died) == 2
    # A node's activity until then is examined later, even if the node is now in another process.
    processes.add([("/n", os.getpid(), 0, T0)])
    processes._round()
    processes._round()
    moments = [at for at, _ in processes.values("cpu", "/n", 1, 0, time.time_ns())]
    assert [at < before for at in moments] == [True, False]


def test_a_process_that_dies_before_its_first_sample_is_seen_to_die() -> None:
    """/soon is gone when it is known, twice; /again was started again when its death is found."""
    processes = Processes(5, memory=False)
    now = time.time_ns()
    with subprocess.Popen(["true"]) as soon, subprocess.Popen(["true"]) as sooner:
        pass
    # Without any process that is found, the numbers may be those of another namespace.
    processes.add([("/elsewhere", soon.pid, 0, now)])
    assert list(processes.died) == []
    with subprocess.Popen(["sleep", "60"]) as first:
        known = [("/again", first.pid, 0, now), ("/soon", soon.pid, 0, now)]
        known.append(("/soon", sooner.pid, 0, now + 1))
        processes.add([*known, ("/before", soon.pid, 0, T0)])
        assert [node for node, _ in processes.died] == ["/soon", "/soon"]
        processes._round()
        first.kill()
    processes.add([*known, ("/again", os.getpid(), 0, now + 2)])
    processes._round()
    processes._round()
    assert [node for node, _ in processes.died] == ["/soon", "/soon", "/again"]


def test_what_a_process_used_that_is_gone_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process is sampled at 0 and 1 s, then killed; /n starts again and is sampled at 2 and 3 s.

    The window is 1 s: the second process has a CPU from 3 s on.
    """
    now = [T0]
    monkeypatch.setattr(time, "time_ns", lambda: now[0])
    processes = Processes(1, memory=True)

    def sampled() -> list[tuple[str, bool, bool]]:
        processes._round()
        now[0] += 10**9
        return [(node, cpu is not None, rss is not None)
                for node, cpu, rss in processes.used().rows()]  # fmt: skip

    with subprocess.Popen(["sleep", "60"]) as first, subprocess.Popen(["sleep", "60"]) as second:
        processes.add([("/n", first.pid, 0, T0)])
        assert [sampled(), sampled()] == [[("/n", False, True)], [("/n", True, True)]]
        first.kill()
        first.wait()
        assert sampled() == []
        processes.add([("/n", first.pid, 0, T0), ("/n", second.pid, 0, now[0])])
        assert [sampled(), sampled()] == [[("/n", False, True)], [("/n", True, True)]]
        second.kill()


def test_use_of_processes_is_shown_only_if_it_is_asked_for() -> None:
    for text, shows in (("process died", False), ("cpu > 10 %", True)):
        processes = Settings((trigger_of(text),)).processes
        processes.add([("/n", os.getpid(), 0, T0)])
        processes._round()
        assert (processes.used().height > 0) == shows


def test_memory_is_read_in_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds come up to a hundredth of their period early or late."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    processes = Processes(2, memory=True)
    processes.add([("/n", os.getpid(), 0, T0)])
    for number, jitter in enumerate((0.001, -0.002, 0.002, -0.001) * 5, 1):
        now[0] = 0.2 * number + jitter
        processes._round()
    assert None not in [sample.rss_bytes for sample in processes._samples[os.getpid()]]


ANY = "{triggers: [gap of /a > 1 s], after_s: 2, cooldown_s: 10, most_mb: 1.3}"


def hit(trigger: str, at_ns: int) -> Hit:
    return Hit(trigger=trigger, at_ns=at_ns, value=1, unit="ns")


def flight_recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of 600 kB whose snapshots have 600 kB, without any events of programs."""

    def take(folder: Path, output: Path) -> None:
        taken(folder, output)
        (output / "stream").write_bytes(bytes(600_000))

    taken = snapshot.take_snapshot
    monkeypatch.setattr(snapshot, "take_snapshot", take)
    trace = tmp_path / "flight" / "ros2-kilted-0-0"
    trace.mkdir(parents=True)
    (trace / snapshot.FLIGHT_METADATA).write_text("flight_ns = 5000000000;")
    (trace / snapshot.LOSS_NAME).write_bytes(bytes(600_000))
    return tmp_path / "flight"


def test_cooldown_and_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, few = tmp_path / "made", settings(tmp_path, ANY)
    flight = flight_recorder(tmp_path, monkeypatch)
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    snapshots = Snapshots(flight, folder, few, tmp_path / "noted.json")
    one, other = hit("one", 5), hit("other", 6)
    assert snapshots.outside_cooldown([one]) == [one]
    assert snapshots.take() is None
    now[0] += 1
    assert snapshots.outside_cooldown([one, other]) == [other]
    now[0] += 1
    message = snapshots.take()
    assert message.endswith("one; other")
    (first,) = folder.iterdir()
    # Triggers that hit at the same time make one recording.
    assert read_manifest(first / "manifest.json").triggered == [one, other]
    now[0] += 8.5
    assert snapshots.outside_cooldown([one, other]) == [one]
    assert snapshots.take(at_once=True) is not None
    now[0] += 20
    assert snapshots.outside_cooldown([other]) == [other]
    message = snapshots.take(at_once=True)
    assert message.startswith("no snapshot: 1 MB")
    assert len(list(folder.iterdir())) == 2
    noted = json.loads((tmp_path / "noted.json").read_text())
    assert [Hit(**fields) for fields in noted] == [one, other, one, other]


def test_what_goes_wrong_with_a_snapshot_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flight, few = flight_recorder(tmp_path, monkeypatch), settings(tmp_path, ANY)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFailedError, match="cannot be made: Not a directory"):
        Snapshots(flight, tmp_path / "file" / "made", few)
    snapshots = Snapshots(flight, tmp_path / "made", few, tmp_path / "nowhere" / "noted.json")
    with pytest.raises(RunFailedError, match="not written: No such file"):
        snapshots.outside_cooldown([hit("one", 5)])
    snapshots = Snapshots(flight, tmp_path / "made", few)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    snapshots.outside_cooldown([hit("one", 5)])
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "write_manifest", full)
        message = snapshots.take(at_once=True)
    assert "no snapshot: " in message
    assert "No space left" in message
    assert list((tmp_path / "made").iterdir()) == []
    # The recorder is gone, but the watching goes on.
    shutil.rmtree(flight)
    snapshots.outside_cooldown([hit("other", 6)])
    message = snapshots.take(at_once=True)
    assert "no flight recorder writes there" in message
    # When everything is recorded, hits are noted and no snapshot is taken.
    whole = Snapshots(None, tmp_path / "none", few)
    assert whole.outside_cooldown([hit("one", 7)]) == [hit("one", 7)]
    assert whole.outside_cooldown([hit("one", 8)]) == []
    assert whole.take(at_once=True) is None
    assert not (tmp_path / "none").exists()


def test_a_flight_is_watched_for_what_no_robot_should_do() -> None:
    texts = [trigger.text for trigger in read_triggers(OF_FLIGHTS).triggers]
    assert texts == ["process died", "goal aborted", "callback > 1 s"]


def test_a_snapshot_reaches_back_to_its_trigger(tmp_path: Path) -> None:
    settings(tmp_path, ANY)
    with pytest.raises(UsageError, match=r"--flight 2: a snapshot that is made 2 s after"):
        watched_for(tmp_path / "triggers.yaml", 2)
    watched_for(tmp_path / "triggers.yaml", 3)
    watched_for(tmp_path / "triggers.yaml", None)


@pytest.mark.parametrize(
    ("value", "unit", "room"),
    [(60e6, "ns", 120 * MS), (1e3, "ns", 10 * MS), (9.5, "Hz", 1000 * MS), (None, None, 1000 * MS)],
)
def test_what_is_looked_at_first(value: float | None, unit: str | None, room: int) -> None:
    hit = Hit(trigger="x", at_ns=T0, value=value, unit=unit)
    assert hit.around_ns == (T0 - room, T0 + room)
