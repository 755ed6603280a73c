"""Take events out of recordings, and count what the tables then say that is not so.

Usage: python benchmarks/taken_out.py [FOLDER...] [--trials N] [--seed S] [--way WAY] [--show]

The tables of the whole recording are the truth. In each trial some of its events are taken out:

* random: 0.1 to 5 % of all events, and no word of it;
* burst, declared: 20 stretches of 2 to 40 consecutive events of one CPU; declared ones are rows of
  ``losses``, as the tracer writes them;
* stream: all events of one CPU between two times, declared as lost packets;
* init: some events that name objects;
* head, tail: all events before, or after, some time.

Counted are rows that say something else than the truth, where they do not say that they are
approximate: a message with another callback or another outcome, an execution of another duration,
a call, goal or publication with another partner. A row that says less (null, ``unknown``,
``taken`` without a callback) is not wrong; those that turned unknown are counted beside.

A wrong row is undecidable if no number of events was declared (lost packets tell none) and it is
right in another whole recording, which leaves the same events: `successions` makes one out of what
is left and the least of what is gone without which some thread, or ring buffer, would do what it
never does in the whole recording, or a message be taken that nobody published. ("Others": of those
that nobody published, other processes did, which were not recorded.) Exit status 1 if any other row
was wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from successions import AT, Successions, numbered

from roslens.collectors.decoding import read_raw
from roslens.collectors.ros2 import build_tables
from roslens.collectors.schema import TABLES
from roslens.tracing.recording import Recording, find_recordings

SAMPLES = Path(__file__).parents[1] / "data" / "samples"
WAYS = ("random", "burst", "declared", "stream", "init", "head", "tail")
FRACTIONS = (0.001, 0.005, 0.01, 0.02, 0.05)
ARRIVED = ("delivered", "taken")
UNSURE = ("approximate", "ambiguous")
MISSED = ("lost", "replaced", "overwritten")

Raw = Mapping[str, pl.DataFrame]
Tables = Mapping[str, pl.DataFrame]


@dataclass
class Count:
    """What the tables of damaged recordings said.

    Attributes
    ----------
    trials, rows
        Rows of messages, executions, calls and goals looked at.
    removed
        Events taken out.
    wrong
        Rows that say what is not so, by what is wrong.
    undecidable
        Those that are right in another recording that leaves the same events.
    unknown, messages
        Messages whose outcome turned unknown, of all that were left.
    endless, executions
        Executions whose duration turned unknown, of all that were left.
    examples
        The first of each kind of wrong row.
    """

    trials: int = 0
    rows: int = 0
    removed: int = 0
    unknown: int = 0
    messages: int = 0
    endless: int = 0
    executions: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    undecidable: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, other: Count) -> None:
        """Count those of another trial, too."""
        for name in ("trials", "rows", "removed", "unknown", "messages", "endless", "executions"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wrong += other.wrong
        self.undecidable += other.undecidable
        self.examples = other.examples | self.examples


# ---------------------------------------------------------------- taking out


def without(
    raw: Raw, way: str, rng: random.Random, fraction: float
) -> tuple[Raw, pl.DataFrame, int]:
    """The events that are left, the losses that are declared, and how many are gone."""
    line = pl.concat(
        [
            frame.select("time_ns", "host", "trace", "cpu_id").with_columns(
                pl.lit(number, dtype=pl.Int32).alias("name"),
                pl.int_range(pl.len(), dtype=pl.Int64).alias("row"),
                pl.lit("init" in name).alias("init"),
            )
            for number, (name, frame) in enumerate(raw.items())
        ]
    ).sort("time_ns", maintain_order=True)
    gone, losses = _chosen(line.with_row_index("at"), way, rng, fraction)
    lost = line[sorted(gone)].select("name", "row")
    left = {}
    for number, (name, frame) in enumerate(raw.items()):
        rows = lost.filter(pl.col("name") == number)["row"]
        left[name] = frame.filter(~pl.int_range(pl.len()).is_in(rows.implode()))
    table = TABLES["losses"]
    found = table.conform(pl.DataFrame(losses, schema=table.schema)) if losses else table.empty()
    return left, found, len(gone)


def _chosen(
    line: pl.DataFrame, way: str, rng: random.Random, fraction: float
) -> tuple[set[int], list[dict[str, Any]]]:
    """The places of the events to take out, and the losses to declare."""
    begin, end = line["time_ns"][0], line["time_ns"][-1]
    if way == "random":
        return {n for n in range(line.height) if rng.random() < fraction}, []
    if way in {"burst", "declared"}:
        gone, losses = _bursts(line, rng)
        return gone, losses if way == "declared" else []
    if way == "stream":
        stream = rng.choice(line.partition_by("host", "trace", "cpu_id"))
        low, high = sorted(begin + round((end - begin) * rng.random()) for _ in range(2))
        part = stream.filter(pl.col("time_ns").is_between(low, high))
        losses = [_loss(part, "lost_packets", low, high)] if part.height else []
        return set(part["at"].to_list()), losses
    if way == "init":
        inits = line.filter("init")["at"].to_list()
        return set(rng.sample(inits, min(len(inits), rng.randint(1, 4)))), []
    cut = begin + round((end - begin) * rng.uniform(0.05, 0.6))
    late = pl.col("time_ns") < cut if way == "head" else pl.col("time_ns") > cut
    return set(line.filter(late)["at"].to_list()), []


def _bursts(line: pl.DataFrame, rng: random.Random) -> tuple[set[int], list[dict[str, Any]]]:
    gone: set[int] = set()
    losses = []
    begin, end = line["time_ns"][0], line["time_ns"][-1]
    streams = line.partition_by("host", "trace", "cpu_id")
    for _ in range(20):
        stream = rng.choice(streams)
        first = rng.randrange(stream.height)
        part, times = stream.slice(first, rng.randint(2, 40)), stream["time_ns"]
        gone.update(part["at"].to_list())
        after = first + part.height
        before_ns = times[first - 1] if first else begin
        after_ns = times[after] if after < stream.height else end
        losses.append(_loss(part, "discarded_events", before_ns, after_ns))
    return gone, losses


def _loss(part: pl.DataFrame, kind: str, begin_ns: int, end_ns: int) -> dict[str, Any]:
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
    """What the whole recording says, by what is still there when events are gone."""

    def __init__(self, tables: Tables) -> None:
        self.publication = _by_events(tables["publications"], "message_id", _PUBLISHED, "vtid")
        self.subscription = _by_events(tables["subscriptions"], "subscription_id", _SUBSCRIPTION)
        self.pairs: dict[tuple[int | None, int | None], dict[str, Any]] = {}
        self.starts: dict[Any, dict[str, Any]] = {}
        self.unknown = 0
        self.heard: set[int | None] = set()
        for row in tables["messages"].iter_rows(named=True):
            self.unknown += row["outcome"] == "unknown"
            if row["subscription_id"] is not None:
                self.heard.add(row["message_id"])
            if row["message_id"] is not None:
                self.pairs[row["message_id"], row["subscription_id"]] = row
            for name in ("take_ns", "callback_start_ns"):
                if row[name] is not None:
                    self.starts[row[name]] = row
        instances = tables["callback_instances"].to_dicts()
        where = ("host", "vpid", "vtid", "start_ns")
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
    """The number of each row by each of some columns, within its process."""
    found: dict[Any, int] = {}
    for row in table.iter_rows(named=True):
        where = tuple(row[name] for name in ("host", "vpid", *more))
        found |= {(*where, n, row[n]): row[number] for n in columns if row[n] is not None}
    return found


def _by_times(table: pl.DataFrame) -> dict[Any, dict[str, Any]]:
    """Rows by each time that they hold."""
    found = {}
    for row in table.iter_rows(named=True):
        for name, value in row.items():
            if name.endswith("_ns") and value is not None and name not in _SPANS:
                found[name, value] = row
    return found


_SPANS = frozenset({"total_ns", "duration_ns", "latency_ns", "clock_bound_ns"})


class Judge:
    """Counts what the tables of what is left say that is not so."""

    def __init__(self, truth: Truth, tables: Tables) -> None:
        self.truth, self.tables = truth, tables
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
        """What was found in all tables."""
        for row in self.instances.values():
            self._execution(row)
        for row in self.tables["publications"].iter_rows(named=True):
            self._publication(row)
        for row in self.tables["messages"].iter_rows(named=True):
            self.found.messages += 1
            self.found.unknown += row["outcome"] == "unknown"
            self._message(row)
        for name, known in (
            ("service_calls", self.truth.calls),
            ("action_goals", self.truth.goals),
        ):
            for row in self.tables[name].iter_rows(named=True):
                self._by_times(name, row, known)
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

    def _wrong(self, what: str, row: Mapping[str, Any], told: object = "") -> None:
        brief = {k: v for k, v in row.items() if v is not None}
        self.wrong.setdefault(str(brief), (what, f"{brief} / {told}"))

    def _execution(self, row: Mapping[str, Any]) -> None:
        took = self.truth.durations.get((row["host"], row["vpid"], row["vtid"], row["start_ns"]))
        self.found.executions += 1
        self.found.endless += row["duration_ns"] is None and took is not None
        if row["duration_ns"] is not None and row["duration_ns"] != took:
            self._wrong("duration", row, took)

    def _publication(self, row: Mapping[str, Any]) -> None:
        known = {
            self.truth.publication.get((row["host"], row["vpid"], row["vtid"], name, row[name]))
            for name in _PUBLISHED
            if row[name] is not None
        }
        if len(known) > 1:
            self._wrong("events of two publications in one", row)
        number = self.publications[row["message_id"]] = next(iter(known))
        run = self.instances.get(row["callback_instance_id"])
        inside = self.truth.within.get(number)
        if run is not None and (run["vtid"], run["start_ns"]) != inside:
            self._wrong("published in another callback", row, inside)

    def _by_times(self, name: str, row: Mapping[str, Any], known: Mapping[Any, Any]) -> None:
        if row.get("match") in UNSURE:
            return
        times = {c: v for c, v in row.items() if c.endswith("_ns") and v is not None}
        others = [known[pair] for pair in times.items() if pair in known]
        if others and any(v != others[0][c] for c, v in times.items() if c != "callback_end_ns"):
            self._wrong(name, row, others[0])

    def _message(self, row: Mapping[str, Any]) -> None:
        outcome, number = row["outcome"], self.publications[row["message_id"]]
        start = row["callback_start_ns"] or row["take_ns"]
        there = self.truth.starts.get(start)
        if outcome == "replayed":
            if there is not None and there["outcome"] != "replayed":
                self._wrong("replayed", row, there)
        elif number is not None and row["match"] not in UNSURE and self._paired(row, number):
            longer = there is not None and row["latency_ns"] != there["latency_ns"]
            if outcome == "delivered" and row["latency_ns"] is not None and longer:
                self._wrong("latency of a later event of the publication", row, there)
        if outcome in MISSED and row["subscription_id"] is not None:
            self._missed(row, number)
        if outcome == "no_subscriber" and number in self.truth.heard:
            self._wrong("no_subscriber, though there was one", row)

    def _paired(self, row: Mapping[str, Any], number: int) -> bool:
        for name in ("take_ns", "callback_start_ns"):
            there = self.truth.starts.get(row[name])
            if row[name] is not None and (there is None or there["message_id"] != number):
                self._wrong(f"pair ({name})", row, there)
                return False
        return True

    def _missed(self, row: Mapping[str, Any], number: int | None) -> None:
        there = self.truth.pairs.get((number, self.subscriptions[row["subscription_id"]]))
        outcome, really = row["outcome"], there and there["outcome"]
        if really in ARRIVED:
            self._wrong(f"{outcome}, though it arrived", row, there)
        elif really in MISSED and really != outcome:
            self._wrong(f"{outcome}, not {really}", row, there)


def _tables(numbered: Raw, losses: pl.DataFrame) -> Tables:
    return build_tables({name: frame.drop(AT) for name, frame in numbered.items()}, losses)


def trials(
    run: Recording, count: int, seed: int, ways: tuple[str, ...] = WAYS
) -> Iterator[tuple[str, float, Count]]:
    """What `count` trials of each way found in one recording."""
    raw = read_raw(run)
    events = {name: frame.lazy().sort("time_ns").collect() for name, frame in raw.events.items()}
    frames = numbered(events)
    truth, order = Truth(_tables(frames, raw.losses)), Successions(frames)
    for way in ways:
        for number in range(count):
            rng = random.Random(f"{seed} {run.name} {way} {number}")
            fraction = FRACTIONS[number % len(FRACTIONS)]
            left, declared, removed = without(frames, way, rng, fraction)
            tables = _tables(left, pl.concat([raw.losses, declared]))
            judge = Judge(truth, tables)
            found = judge.all()
            found.removed = removed
            wrong = judge.wrong
            for others in (False, True):
                if wrong and way != "declared":
                    completed = _tables(order.completed(left, others=others), raw.losses)
                    there = Judge(Truth(completed), tables)
                    there.all()
                    for row in wrong.keys() - there.wrong.keys():
                        found.undecidable[wrong[row][0] + " (others)" * others] += 1
                    wrong = {row: of for row, of in wrong.items() if row in there.wrong}
            for what, example in wrong.values():
                found.wrong[what] += 1
                found.examples.setdefault(what, example)
            # Those that were unknown in the whole recording did not turn so.
            found.unknown = max(0, found.unknown - truth.unknown)
            yield way, fraction if way == "random" else 0.0, found


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
            here = Count()
            for way, fraction, found in trials(
                run, arguments.trials, arguments.seed, tuple(arguments.way or WAYS)
            ):
                here.add(found)
                name = f"{way} {100 * fraction:g} %" if fraction else way
                total.setdefault(name, Count()).add(found)
            print(f"{run.path.parent.name}/{run.name}: {_text(here)}", flush=True)
            if arguments.show:
                for what, example in here.examples.items():
                    print(f"    {what}: {example}")
    whole = Count()
    for name, found in sorted(total.items()):
        print(f"{name:16} {_text(found)}")
        whole.add(found)
    print(f"{'all':16} {_text(whole)}")
    return 1 if whole.wrong else 0


def _text(found: Count) -> str:
    def listed(of: Counter[str]) -> str:
        return ", ".join(f"{count} {what}" for what, count in of.most_common()) or "none"

    unknown = 100 * found.unknown / max(found.messages, 1)
    endless = 100 * found.endless / max(found.executions, 1)
    hidden = f"; undecidable: {listed(found.undecidable)}" if found.undecidable else ""
    return (
        f"{found.trials} trials, {found.removed:,} events out, {found.rows:,} rows; unknown turned "
        f"{unknown:.2f} % of messages, {endless:.2f} % of durations; "
        f"wrong: {listed(found.wrong)}{hidden}"
    )


if __name__ == "__main__":
    sys.exit(main())
