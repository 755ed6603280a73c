"""Alter recordings as tracers and users do, and count what the tables then say that is not so.

Usage: python benchmarks/taken_out.py [FOLDER...] [--trials N] [--seed S] [--way WAY] [--show]

The tables of the whole recording are the truth. In each trial some of its events are removed, and
the table ``losses`` describes this as the reader would:

* bursts: 20 stretches of 2 to 40 consecutive events of one CPU were discarded;
* packets: all events of one CPU between two times;
* cut_head, cut_tail: all events of one CPU before, or after, some time;
* stream: all events of one CPU;
* snapshot: all events of each CPU before its own starting time, except those that name objects;
* late: all events before some time;
* init: some events that name objects (without any sign of it);
* kind: all events of one kind, which then counts as not recorded;
* restart: the program runs a second time, with the number of its process;
* sessions: a second session recorded all of it, or a part, some hundred ns after the first;
* silent: one event in 100, without any sign of it.

Rows count as wrong if they contradict the truth without being marked as approximate: a message with
another callback or another outcome, an execution or an interval of a timer of another length, a
call, goal or publication with another partner. A row that says less (null, ``unknown``,
``not_matched``, ``taken`` without a callback) is not wrong; rows that turned unknown are counted
separately, and so are those of them that are undecidable: two whole recordings that leave the same
events would give different results (`Undecidable`). The exit status is 1 if a row was wrong; rows
of ``silent`` are only counted, as no known tracer loses events in this way.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from roslens.collectors.decoding import read_raw
from roslens.collectors.ros2 import build_tables
from roslens.collectors.ros2.events import INIT_EVENTS
from roslens.collectors.schema import TABLES
from roslens.recording import Recording, find_recordings

SAMPLES = Path(__file__).parents[1] / "data" / "samples"
WAYS = (
    "bursts", "packets", "cut_head", "cut_tail", "stream", "snapshot", "late", "init", "kind",
    "restart", "sessions", "silent",
)  # fmt: skip
NOT_JUDGED = ("silent",)
ARRIVED = ("delivered", "taken")
UNSURE = ("approximate", "ambiguous")
MISSED = ("lost", "replaced", "overwritten")

Raw = Mapping[str, pl.DataFrame]
Tables = Mapping[str, pl.DataFrame]


@dataclass
class Count:
    """Counts of what the tables of damaged recordings state.

    Attributes
    ----------
    trials, rows
            Trials, and rows of messages, executions, calls and goals that were checked.
        removed
            Events removed.
        wrong
            Wrong rows, by kind of error.
        unknown, messages
            Messages whose outcome turned unknown, and all messages that are left.
        endless, executions
            Executions whose duration turned unknown, and all executions that are left.
        careful
            Decidable ones among both, by the reason that the table gives.
        examples
            The first wrong row of each kind.
    """

    trials: int = 0
    rows: int = 0
    removed: int = 0
    unknown: int = 0
    messages: int = 0
    endless: int = 0
    executions: int = 0
    careful: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, other: Count) -> None:
        """Add the counts of another trial."""
        for name in ("trials", "rows", "removed", "unknown", "messages", "endless", "executions"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.careful += other.careful
        self.wrong += other.wrong
        self.examples = other.examples | self.examples


# ---------------------------------------------------------------- taking out


def without(raw: Raw, way: str, rng: random.Random) -> tuple[Raw, pl.DataFrame, int]:
    """Return the remaining events, the declared losses, and the number of removed events."""
    if way == "kind":
        name = rng.choice([name for name, frame in raw.items() if frame.height])
        rest = {event: frame for event, frame in raw.items() if event != name}
        return rest, TABLES["losses"].empty(), raw[name].height
    if way == "sessions":
        return two_sessions(raw, rng), TABLES["losses"].empty(), 0
    line = pl.concat(
        [
            frame.select("time_ns", "host", "trace", "cpu_id").with_columns(
                pl.lit(number, dtype=pl.Int32).alias("name"),
                pl.int_range(pl.len(), dtype=pl.Int64).alias("row"),
                pl.lit(name.removeprefix("ros2:") in INIT_EVENTS).alias("init"),
            )
            for number, (name, frame) in enumerate(raw.items())
        ]
    ).sort("time_ns", maintain_order=True)
    removed, losses = _chosen(line.with_row_index("at"), way, rng)
    lost = line[sorted(removed)].select("name", "row")
    left = {}
    for number, (name, frame) in enumerate(raw.items()):
        rows = lost.filter(pl.col("name") == number)["row"]
        left[name] = frame.filter(~pl.int_range(pl.len()).is_in(rows.implode()))
    table = TABLES["losses"]
    declared = table.conform(pl.DataFrame(losses, schema=table.schema)) if losses else table.empty()
    return left, declared, len(removed)


def two_sessions(raw: Raw, rng: random.Random) -> Raw:
    """Return events with those of a second session: each again, before the next of its thread."""
    thread = ("host", "vpid", "vtid")
    line = pl.concat(
        frame.select("time_ns", *thread, name=pl.lit(name), row=pl.int_range(pl.len()))
        for name, frame in raw.items()
    ).sort("time_ns", maintain_order=True)
    begin, end = line["time_ns"][0], line["time_ns"][-1]
    # Half of the second sessions end early, half begin late.
    low, high = sorted(begin + round((end - begin) * rng.random()) for _ in range(2))
    low, high = (begin, high) if rng.random() < 0.5 else (low, end)
    later = [rng.randint(200, 900) for _ in range(line.height)]
    room = pl.col("time_ns").diff().shift(-1).over(thread, order_by="time_ns") // 2
    line = line.with_columns(
        again=pl.col("time_ns") + pl.min_horizontal(pl.Series(later), room.fill_null(900))
    ).filter(pl.col("time_ns").is_between(low, high))
    frames = {}
    for name, frame in raw.items():
        rows = line.filter(pl.col("name") == name).sort("row")
        again = frame[rows["row"]].with_columns(
            time_ns=rows["again"], trace=pl.lit("another").cast(frame.schema["trace"])
        )
        frames[name] = pl.concat([frame, again]).sort("time_ns", maintain_order=True)
    return frames


def _chosen(
    line: pl.DataFrame, way: str, rng: random.Random
) -> tuple[set[int], list[dict[str, Any]]]:
    """Return the positions of the events to remove, and the losses to declare."""
    begin, end = line["time_ns"][0], line["time_ns"][-1]

    if way == "bursts":
        return _bursts(line, rng)
    streams = line.partition_by("host", "trace", "cpu_id", maintain_order=True)
    time = pl.col("time_ns")
    if way == "snapshot":
        first = begin + round((end - begin) * rng.uniform(0.05, 0.6))
        removed, losses = set(), []
        for stream in streams:
            cut = first + rng.randint(0, 20_000_000)
            part = stream.filter(time < cut)
            removed |= set(part.filter(~pl.col("init"))["at"].to_list())
            losses.append(_loss(stream, "lost_packets", None, cut))
        return removed, losses
    if way == "late":
        cut = begin + round((end - begin) * rng.uniform(0.05, 0.6))
        return set(line.filter(time < cut)["at"].to_list()), []
    if way == "init":
        inits = line.filter("init")["at"].to_list()
        return set(rng.sample(inits, min(len(inits), rng.randint(1, 4)))), []
    if way == "silent":
        return {n for n in range(line.height) if rng.random() < 0.01}, []
    stream = rng.choices(streams, [part.height for part in streams])[0]
    early, late = sorted(stream["time_ns"][rng.randrange(stream.height)] for _ in range(2))
    low, high = {
        "packets": (early, late),
        "cut_head": (None, late),
        "cut_tail": (early, None),
        "stream": (None, None),
    }[way]
    part = stream.filter(
        pl.lit(low is None) | (time >= (low or 0)), pl.lit(high is None) | (time <= (high or 0))
    )
    # The reader knows the last event before the gap and the first one after it.
    return set(part["at"].to_list()), [_loss(stream, "lost_packets", low, high)]


def _bursts(line: pl.DataFrame, rng: random.Random) -> tuple[set[int], list[dict[str, Any]]]:
    removed: set[int] = set()
    losses = []
    begin, end = line["time_ns"][0], line["time_ns"][-1]
    streams = line.partition_by("host", "trace", "cpu_id")
    for _ in range(20):
        stream = rng.choice(streams)
        first = rng.randrange(stream.height)
        part, times = stream.slice(first, rng.randint(2, 40)), stream["time_ns"]
        removed.update(part["at"].to_list())
        after = first + part.height
        before_ns = times[first - 1] if first else begin
        after_ns = times[after] if after < stream.height else end
        losses.append(_loss(part, "discarded_events", before_ns, after_ns))
    return removed, losses


def _loss(
    part: pl.DataFrame, kind: str, begin_ns: int | None, end_ns: int | None
) -> dict[str, Any]:
    host, trace, cpu = part.select("host", "trace", "cpu_id").row(0)
    return {
        "host": host,
        "trace": trace,
        "stream": f"channel_{cpu}",
        "cpu_id": cpu,
        "kind": kind,
        "count": part.height,
        "begin_ns": begin_ns,
        "end_ns": end_ns,
    }


# ---------------------------------------------------------------- comparing

_PUBLISHED = ("intra_publish_ns", "rclcpp_publish_ns", "rcl_publish_ns", "rmw_publish_ns")
_SUBSCRIPTION = ("subscription_handle", "rmw_subscription_handle")


class Truth:
    """The contents of the whole recording, keyed by what remains when events are removed."""

    def __init__(self, tables: Tables) -> None:
        self.publication = _by_events(tables["publications"], "message_id", _PUBLISHED, "vtid")
        self.subscription = _by_events(tables["subscriptions"], "subscription_id", _SUBSCRIPTION)
        self.pairs: dict[tuple[int | None, int | None], dict[str, Any]] = {}
        self.starts: dict[Any, dict[str, Any]] = {}
        self.heard: set[int | None] = set()
        self.connections: dict[Any, list[tuple[int, int]]] = defaultdict(list)
        self.takers: dict[int | None, set[int]] = defaultdict(set)
        for row in tables["messages"].iter_rows(named=True):
            if row["subscription_id"] is not None:
                self.heard.add(row["message_id"])
            if row["message_id"] is not None:
                self.pairs[row["message_id"], row["subscription_id"]] = row
            for name in ("take_ns", "callback_start_ns"):
                if row[name] is not None:
                    self.starts[row[name]] = row
            if row["publish_ns"] is not None and row["take_ns"] is not None:
                self.connections[_connection(row)].append((row["publish_ns"], row["take_ns"]))
        for row in tables["takes"].iter_rows(named=True):
            self.takers[row["subscription_id"]].add(row["vtid"])
        instances = tables["callback_instances"].to_dicts()
        where = ("host", "vpid", "vtid", "start_ns")
        self.timers = _timers(tables)
        self.durations = {tuple(r[n] for n in where): r["duration_ns"] for r in instances}
        self.runs = {r["callback_instance_id"]: (r["vtid"], r["start_ns"]) for r in instances}
        self.within = {
            row["message_id"]: self.runs.get(row["callback_instance_id"])
            for row in tables["publications"].iter_rows(named=True)
        }
        self.calls = _by_times(tables["service_calls"])
        self.goals = _by_times(tables["action_goals"])


def _by_events(
    table: pl.DataFrame, number: str, columns: Sequence[str], *more: str
) -> dict[Any, int]:
    """Return the number of each row, keyed by each of some columns, within its process."""
    numbers: dict[Any, int] = {}
    for row in table.iter_rows(named=True):
        where = tuple(row[name] for name in ("host", "vpid", *more))
        numbers |= {(*where, n, row[n]): row[number] for n in columns if row[n] is not None}
    return numbers


def _timers(tables: Tables) -> dict[Any, dict[str, Any]]:
    """Return activations of timers, keyed by thread and time."""
    rows = tables["timer_activations"].iter_rows(named=True)
    return {(row["host"], row["vpid"], row["vtid"], row["start_ns"]): row for row in rows}


def _by_times(table: pl.DataFrame) -> dict[Any, dict[str, Any]]:
    """Return rows keyed by each time that they hold."""
    row_by_time = {}
    for row in table.iter_rows(named=True):
        for name, value in row.items():
            if name.endswith("_ns") and value is not None and name not in _SPANS:
                row_by_time[name, value] = row
    return row_by_time


_SPANS = frozenset({"total_ns", "duration_ns", "latency_ns", "clock_bound_ns"})


class Undecidable:
    """A test for rows that differ between two whole recordings that leave the same events.

    One is the recording that was altered. In the other one something else happened in a gap: a
    message taken in it was not taken, or one not taken was; a callback that goes on across it
    ended, and began again. That needs a moment in the gap at which nothing was seen of the thread.

    Parameters
    ----------
    left
        The remaining events.
    truth
        The contents of the whole recording.
    gaps
        Host, process (None: any), begin and end of each stretch in which events were removed.
    """

    ROOM_NS = 10_000
    """In a shorter gap between events, in ns, a thread does not change CPUs and take something."""

    def __init__(
        self, left: Raw, truth: Truth, gaps: Sequence[tuple[str, int | None, float, float]]
    ) -> None:
        self.truth, self.gaps = truth, gaps
        where = ("host", "vpid", "vtid")
        events = pl.concat(frame.select(*where, "time_ns") for frame in left.values())
        self.threads = {
            thread: times["time_ns"].sort().to_numpy()
            for thread, times in events.partition_by(
                *where, as_dict=True, include_key=False
            ).items()
        }
        self.seen = set(events.select("host", "vpid", "time_ns").iter_rows())

    def message(self, row: Mapping[str, Any], whole: Mapping[str, Any] | None) -> bool:
        """Return whether the outcome of a message is undecidable."""
        if whole is None or row["subscription_id"] is None:
            # The objects that the gap named, or the publications in it, are unknown.
            time = row["take_ns"] or row["callback_start_ns"] or row["publish_ns"] or math.inf
            return any(begin < time for _, _, begin, _ in self.gaps)
        receiver = whole["subscription_host"], whole["subscription_vpid"]
        if whole["outcome"] in ARRIVED:
            sender = whole["publisher_host"], whole["publisher_vpid"]
            return any(
                all((*where, whole[name]) not in self.seen for name in names)
                for where, names in ((sender, _SENT), (receiver, _RECEIVED))
            )
        return self._room(
            *receiver,
            self.truth.takers[whole["subscription_id"]],
            whole["publish_ns"],
            self._next_take(whole),
        )

    def execution(self, row: Mapping[str, Any], took: int) -> bool:
        """Return whether the duration of an execution is undecidable."""
        where = row["host"], row["vpid"]
        end = row["start_ns"] + took
        return (*where, end) not in self.seen or self._room(
            *where, {row["vtid"]}, row["start_ns"], end
        )

    def _next_take(self, whole: Mapping[str, Any]) -> float:
        """Return when a later message of the connection was taken, as far as the events show it."""
        receiver = whole["subscription_host"], whole["subscription_vpid"]
        return min(
            (
                take
                for published, take in self.truth.connections[_connection(whole)]
                if published > whole["publish_ns"] and (*receiver, take) in self.seen
            ),
            default=math.inf,
        )

    def _room(
        self, host: str, vpid: int, threads: Collection[int], low: float, high: float
    ) -> bool:
        for gap_host, gap_process, begin, end in self.gaps:
            first, last = max(begin, low), min(end, high)
            if gap_host != host or gap_process not in {None, vpid} or last - first < self.ROOM_NS:
                continue
            for thread, times in self.threads.items():
                if thread[:2] == (host, vpid) and (not threads or thread[2] in threads):
                    inside = times[(times > first) & (times < last)]
                    edges = np.array([first, *inside, last])
                    if np.diff(edges).max() >= self.ROOM_NS:
                        return True
        return False


_SENT = ("publish_ns", "rcl_publish_ns", "rmw_publish_ns")
_RECEIVED = ("take_ns", "rclcpp_take_ns", "callback_start_ns", "callback_end_ns")


_connection = itemgetter("publisher_id", "subscription_id")


class Judge:
    """A counter of the statements in the remaining tables that contradict the truth."""

    def __init__(
        self, truth: Truth, tables: Tables, undecidable: Undecidable, *, all_kinds: bool = True
    ) -> None:
        self.truth, self.tables, self.undecidable = truth, tables, undecidable
        self.all_kinds = all_kinds
        """Whether publications begin with the same kind of event as in the whole recording."""
        self.found = Count(trials=1)
        self.wrong: dict[str, tuple[str, str]] = {}
        self.instances = {
            row["callback_instance_id"]: row
            for row in tables["callback_instances"].iter_rows(named=True)
        }
        self.publications: dict[int | None, int | None] = {None: None}
        self.subscriptions = {
            row["subscription_id"]: next(
                truth.subscription[row["host"], row["vpid"], name, row[name]]
                for name in _SUBSCRIPTION
                if (row["host"], row["vpid"], name, row[name]) in truth.subscription
            )
            for row in tables["subscriptions"].iter_rows(named=True)
        }

    def all(self) -> Count:
        """Judge all tables and return the counts."""
        for row in self.instances.values():
            self._execution(row)
        for row in self.tables["publications"].iter_rows(named=True):
            self._publication(row)
        for where, row in _timers(self.tables).items():
            whole = self.truth.timers.get(where, {})
            if row["interval_ns"] is not None and row["interval_ns"] != whole.get("interval_ns"):
                self._count_wrong("interval of a timer", row, whole)
        for row in self.tables["messages"].iter_rows(named=True):
            self.found.messages += 1
            self._message(row)
        for name, true_rows in (
            ("service_calls", self.truth.calls),
            *((("action_goals", self.truth.goals),) if self.all_kinds else ()),
        ):
            for row in self.tables[name].iter_rows(named=True):
                self._by_times(name, row, true_rows)
        self.found.rows = sum(
            self.tables[name].height
            for name in (
                "callback_instances",
                "publications",
                "messages",
                "service_calls",
                "action_goals",
            )
        )
        return self.found

    def _count_wrong(self, kind: str, row: Mapping[str, Any], expected: object = "") -> None:
        brief = _brief_row(row)
        self.wrong.setdefault(brief, (kind, f"{brief} / {expected}"))

    def _execution(self, row: Mapping[str, Any]) -> None:
        took = self.truth.durations.get((row["host"], row["vpid"], row["vtid"], row["start_ns"]))
        self.found.executions += 1
        if row["duration_ns"] is None and took is not None:
            self.found.endless += 1
            if not self.undecidable.execution(row, took):
                self._count_cautious("duration", row)
        if row["duration_ns"] is not None and row["duration_ns"] != took:
            self._count_wrong("duration", row, took)

    def _publication(self, row: Mapping[str, Any]) -> None:
        numbers = {
            self.truth.publication.get((row["host"], row["vpid"], row["vtid"], name, row[name]))
            for name in _PUBLISHED
            if row[name] is not None
        }
        if len(numbers) > 1:
            self._count_wrong("events of two publications in one", row)
        number = self.publications[row["message_id"]] = next(iter(numbers))
        run = self.instances.get(row["callback_instance_id"])
        inside = self.truth.within.get(number)
        if run is not None and (run["vtid"], run["start_ns"]) != inside:
            self._count_wrong("published in another callback", row, inside)

    def _by_times(self, name: str, row: Mapping[str, Any], true_rows: Mapping[Any, Any]) -> None:
        if row.get("match") in UNSURE:
            return
        times = {c: v for c, v in row.items() if c.endswith("_ns") and v is not None}
        matches = [true_rows[pair] for pair in times.items() if pair in true_rows]
        if matches and any(v != matches[0][c] for c, v in times.items() if c != "callback_end_ns"):
            self._count_wrong(name, row, matches[0])

    def _message(self, row: Mapping[str, Any]) -> None:
        outcome, number = row["outcome"], self.publications[row["message_id"]]
        start = row["callback_start_ns"] or row["take_ns"]
        whole = self.truth.starts.get(start)
        if outcome == "unknown":
            self._unknown(row, number)
        if outcome == "replayed":
            if whole is not None and whole["outcome"] != "replayed":
                self._count_wrong("replayed", row, whole)
        elif number is not None and row["match"] not in UNSURE and self._paired(row, number):
            longer = whole is not None and row["latency_ns"] != whole["latency_ns"]
            longer &= self.all_kinds
            if outcome == "delivered" and row["latency_ns"] is not None and longer:
                self._count_wrong("latency of a later event of the publication", row, whole)
        if outcome in MISSED and row["subscription_id"] is not None:
            self._missed(row, number)
        if outcome == "no_subscriber" and number in self.truth.heard:
            self._count_wrong("no_subscriber, though there was one", row)

    def _unknown(self, row: Mapping[str, Any], number: int | None) -> None:
        pair = number, self.subscriptions.get(row["subscription_id"])
        start = row["callback_start_ns"] or row["take_ns"]
        whole = self.truth.starts.get(start) if number is None else self.truth.pairs.get(pair)
        if whole is not None and whole["outcome"] == "unknown":
            return
        self.found.unknown += 1
        if not self.undecidable.message(row, whole):
            self._count_cautious(row["reason"], row, whole)

    def _count_cautious(self, why: str, row: Mapping[str, Any], expected: object = "") -> None:
        self.found.careful[why] += 1
        self.found.examples.setdefault(f"too careful: {why}", f"{_brief_row(row)} / {expected}")

    def _paired(self, row: Mapping[str, Any], number: int) -> bool:
        for name in ("take_ns", "callback_start_ns"):
            whole = self.truth.starts.get(row[name])
            if row[name] is not None and (whole is None or whole["message_id"] != number):
                self._count_wrong(f"pair ({name})", row, whole)
                return False
        return True

    def _missed(self, row: Mapping[str, Any], number: int | None) -> None:
        whole = self.truth.pairs.get((number, self.subscriptions[row["subscription_id"]]))
        outcome, really = row["outcome"], whole and whole["outcome"]
        if really in ARRIVED:
            self._count_wrong(f"{outcome}, though it arrived", row, whole)
        elif really != outcome and really is not None and really != "unknown":
            self._count_wrong(f"{outcome}, not {really}", row, whole)


def _brief_row(row: Mapping[str, Any]) -> str:
    return str({k: v for k, v in row.items() if v is not None})


def restarted(raw: Raw, *, same_number: bool) -> Raw:
    """Return the events of a program that ran again after its first run had ended."""
    times = [frame["time_ns"] for frame in raw.values() if frame.height]
    later = max(int(t[-1]) for t in times) - min(int(t[0]) for t in times) + 3_000_000_000
    shift = 0 if same_number else 1_000_000
    frames = {}
    for name, frame in raw.items():
        stamps = {"timestamp", "source_timestamp"} & set(frame.columns)
        again = frame.with_columns(
            pl.col("time_ns", *stamps) + later, pl.col("vpid", "vtid") + shift
        )
        frames[name] = pl.concat([frame, again])
    return frames


def _restart(raw: Raw, losses: pl.DataFrame) -> Count:
    """Compare a restart under the same process number with one under another number."""
    count = Count(trials=1)
    key = ["publish_ns", "topic", "take_ns", "callback_start_ns"]
    whole, same = (
        build_tables(restarted(raw, same_number=number), losses)["messages"]
        for number in (False, True)
    )
    count.rows = count.messages = same.height
    expected = Counter(whole.select(*key, "outcome").rows())
    for row in (Counter(same.select(*key, "outcome").rows()) - expected).elements():
        if row[-1] == "unknown":
            count.unknown += 1
            count.careful["process started again"] += 1
        else:
            count.wrong[f"{row[-1]}, not as of two processes"] += 1
            count.examples.setdefault(row[-1], str(row))
    return count


def _gaps(
    way: str, whole: Raw, left: Raw, declared: pl.DataFrame
) -> list[tuple[str, int | None, float, float]]:
    """Return where events were removed: host, process (None: any), begin and end."""
    process = ("host", "vpid")
    if way in ("kind", "late", "init"):
        before, after = (
            pl.concat(frame.select(*process, "time_ns") for frame in events.values())
            for events in (whole, left)
        )
        if way == "init":
            removed = before.join(after, on=before.columns, how="anti", nulls_equal=True)
            return [(*key, -math.inf, math.inf) for key in removed.select(process).unique().rows()]
        end = math.inf if way == "kind" else after["time_ns"].min()
        return [(host, None, -math.inf, end) for host in before["host"].unique()]
    return [
        (
            row["host"],
            None,
            -math.inf if row["begin_ns"] is None else row["begin_ns"],
            math.inf if row["end_ns"] is None else row["end_ns"],
        )
        for row in declared.iter_rows(named=True)
    ]


def trials(
    run: Recording, count: int, seed: int, ways: tuple[str, ...] = WAYS
) -> Iterator[tuple[str, Count]]:
    """Yield the results of `count` trials of each way in one recording."""
    raw = read_raw(run)
    frames = {name: frame.lazy().sort("time_ns").collect() for name, frame in raw.events.items()}
    truth = Truth(build_tables(frames, raw.losses))
    for way in ways:
        if way == "restart":
            yield way, _restart(frames, raw.losses)
            continue
        for number in range(count):
            rng = random.Random(f"{seed} {run.name} {way} {number}")
            left, declared, removed = without(frames, way, rng)
            tables = build_tables(left, pl.concat([raw.losses, declared]))
            undecidable = Undecidable(left, truth, _gaps(way, frames, left, declared))
            judge = Judge(truth, tables, undecidable, all_kinds=way != "kind")
            tally = judge.all()
            tally.removed = removed
            for kind, example in judge.wrong.values():
                tally.wrong[kind] += 1
                tally.examples.setdefault(kind, example)
            yield way, tally


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="*", type=Path, help="default: the samples")
    parser.add_argument("--trials", type=int, default=5, help="of each way and recording")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--show", action="store_true", help="an example of each kind of wrong row")
    arguments = parser.parse_args()
    total: dict[str, Count] = {}
    for folder in arguments.folder or [SAMPLES]:
        for run in find_recordings(folder):
            subtotal = Count()
            for way, count in trials(
                run, arguments.trials, arguments.seed, tuple(arguments.way or WAYS)
            ):
                subtotal.add(count)
                total.setdefault(way, Count()).add(count)
            print(f"{run.path.parent.name}/{run.name}: {_text(subtotal)}", flush=True)
            if arguments.show:
                for kind, example in subtotal.examples.items():
                    print(f"    {kind}: {example}")
    whole = Count()
    for name, count in sorted(total.items()):
        print(f"{name:16} {_text(count)}")
        if name not in NOT_JUDGED:
            whole.add(count)
    print(f"{'all':16} {_text(whole)}")
    return 1 if whole.wrong else 0


def _text(tally: Count) -> str:
    def listed(counts: Counter[str]) -> str:
        return ", ".join(f"{count} {kind}" for kind, count in counts.most_common()) or "none"

    unknown = 100 * tally.unknown / max(tally.messages, 1)
    endless = 100 * tally.endless / max(tally.executions, 1)
    turned = tally.unknown + tally.endless
    undecidable = turned - tally.careful.total()
    return (
        f"{tally.trials} trials, {tally.removed:,} events out, {tally.rows:,} rows; unknown turned "
        f"{unknown:.2f} % of messages, {endless:.2f} % of durations: {turned:,} rows, of which "
        f"{undecidable:,} cannot be told, the others: {listed(tally.careful)}; "
        f"wrong: {listed(tally.wrong)}"
    )


if __name__ == "__main__":
    sys.exit(main())
