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
Exit status 1 if a row was wrong that the events left could have told to be.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from roslens.collectors.decoding import read_raw
from roslens.collectors.ros2 import build_tables
from roslens.collectors.schema import TABLES
from roslens.tracing.recording import Recording, find_recordings

SAMPLES = Path(__file__).parents[1] / "data" / "samples"
WAYS = ("random", "burst", "declared", "stream", "init", "head", "tail")
FRACTIONS = (0.001, 0.005, 0.01, 0.02, 0.05)
ARRIVED = ("delivered", "taken")
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
    unknown, messages
        Messages whose outcome turned unknown, of all that were left.
    examples
        The first of each kind of wrong row.
    """

    trials: int = 0
    rows: int = 0
    removed: int = 0
    unknown: int = 0
    messages: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, other: Count) -> None:
        """Count those of another trial, too."""
        for name in ("trials", "rows", "removed", "unknown", "messages"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wrong += other.wrong
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
    gone: set[int] = set()
    losses: list[dict[str, Any]] = []
    count = line.height
    begin, end = line["time_ns"][0], line["time_ns"][-1]
    if way == "random":
        gone = {n for n in range(count) if rng.random() < fraction}
    elif way in {"burst", "declared"}:
        streams = line.with_row_index("at").partition_by("host", "trace", "cpu_id")
        for _ in range(20):
            stream = rng.choice(streams)
            first = rng.randrange(stream.height)
            part = stream.slice(first, rng.randint(2, 40))
            gone.update(part["at"].to_list())
            if way == "declared":
                times = stream["time_ns"]
                after = first + part.height
                losses.append(
                    _loss(
                        part,
                        "discarded_events",
                        times[first - 1] if first else begin,
                        times[after] if after < stream.height else end,
                    )
                )
    elif way == "stream":
        streams = line.with_row_index("at").partition_by("host", "trace", "cpu_id")
        stream = rng.choice(streams)
        low, high = sorted(rng.uniform(0, 1) for _ in range(2))
        times = [begin + round((end - begin) * x) for x in (low, high)]
        part = stream.filter(pl.col("time_ns").is_between(*times))
        gone.update(part["at"].to_list())
        if part.height:
            losses.append(_loss(part, "lost_packets", *times))
    elif way == "init":
        inits = line.with_row_index("at").filter("init")["at"].to_list()
        gone = set(rng.sample(inits, min(len(inits), rng.randint(1, 4))))
    else:
        cut = begin + round((end - begin) * rng.uniform(0.05, 0.6))
        late = line.with_row_index("at").filter(
            pl.col("time_ns") < cut if way == "head" else pl.col("time_ns") > cut
        )
        gone = set(late["at"].to_list())
    lost = line[sorted(gone)].select("name", "row")
    left = {}
    for number, (name, frame) in enumerate(raw.items()):
        rows = lost.filter(pl.col("name") == number)["row"]
        left[name] = frame.filter(~pl.int_range(pl.len()).is_in(rows.implode()))
    table = TABLES["losses"]
    found = table.conform(pl.DataFrame(losses, schema=table.schema)) if losses else table.empty()
    return left, found, len(gone)


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
        self.publication: dict[Any, int] = {}
        for row in tables["publications"].iter_rows(named=True):
            for name in _PUBLISHED:
                if row[name] is not None:
                    key = (row["host"], row["vpid"], row["vtid"], name, row[name])
                    self.publication[key] = row["message_id"]
        self.subscription: dict[Any, int] = {}
        for row in tables["subscriptions"].iter_rows(named=True):
            for name in _SUBSCRIPTION:
                if row[name] is not None:
                    key = (row["host"], row["vpid"], name, row[name])
                    self.subscription[key] = row["subscription_id"]
        self.pairs: dict[tuple[int | None, int | None], dict[str, Any]] = {}
        self.starts: dict[Any, dict[str, Any]] = {}
        self.unknown = 0
        for row in tables["messages"].iter_rows(named=True):
            self.unknown += row["outcome"] == "unknown"
            if row["message_id"] is not None:
                self.pairs[row["message_id"], row["subscription_id"]] = row
            for name in ("take_ns", "callback_start_ns"):
                if row[name] is not None:
                    self.starts[row[name]] = row
        self.durations = {
            (row["host"], row["vpid"], row["vtid"], row["start_ns"]): row["duration_ns"]
            for row in tables["callback_instances"].iter_rows(named=True)
        }
        self.runs = {
            row["callback_instance_id"]: (row["vtid"], row["start_ns"])
            for row in tables["callback_instances"].iter_rows(named=True)
        }
        self.within = {
            row["message_id"]: self.runs.get(row["callback_instance_id"])
            for row in tables["publications"].iter_rows(named=True)
        }
        self.calls = _by_times(tables["service_calls"])
        self.goals = _by_times(tables["action_goals"])


def _by_times(table: pl.DataFrame) -> dict[Any, dict[str, Any]]:
    """Rows by each time that they hold."""
    found = {}
    for row in table.iter_rows(named=True):
        for name, value in row.items():
            if name.endswith("_ns") and value is not None and name not in _SPANS:
                found[name, value] = row
    return found


_SPANS = frozenset({"total_ns", "duration_ns", "latency_ns"})


def compare(truth: Truth, tables: Tables, way: str) -> Count:
    """What the tables of what is left say that is not so."""
    found = Count(trials=1)

    def wrong(what: str, row: Mapping[str, Any], told: object = "") -> None:
        found.wrong[what] += 1
        brief = {k: v for k, v in row.items() if v is not None}
        found.examples.setdefault(what, f"{brief} / {told}")

    instances = {
        row["callback_instance_id"]: row
        for row in tables["callback_instances"].iter_rows(named=True)
    }
    for row in instances.values():
        found.rows += 1
        key = (row["host"], row["vpid"], row["vtid"], row["start_ns"])
        if row["duration_ns"] is not None and row["duration_ns"] != truth.durations.get(key):
            wrong("duration", row, truth.durations.get(key))
    publications: dict[int, int] = {}
    for row in tables["publications"].iter_rows(named=True):
        found.rows += 1
        known = {
            truth.publication.get((row["host"], row["vpid"], row["vtid"], name, row[name]))
            for name in _PUBLISHED
            if row[name] is not None
        }
        if len(known) > 1:
            wrong("events of two publications in one", row)
        number = publications[row["message_id"]] = next(iter(known))
        inside = row["callback_instance_id"]
        run = inside is not None and instances[inside]
        if run and (run["vtid"], run["start_ns"]) != truth.within.get(number):
            wrong("published in another callback", row, truth.within.get(number))
    subscriptions = {
        row["subscription_id"]: next(
            truth.subscription[row["host"], row["vpid"], name, row[name]]
            for name in _SUBSCRIPTION
            if (row["host"], row["vpid"], name, row[name]) in truth.subscription
        )
        for row in tables["subscriptions"].iter_rows(named=True)
    }
    for row in tables["messages"].iter_rows(named=True):
        found.rows += 1
        found.messages += 1
        found.unknown += row["outcome"] == "unknown"
        _message(truth, row, publications, subscriptions, wrong)
    for name, known in (("service_calls", truth.calls), ("action_goals", truth.goals)):
        for row in tables[name].iter_rows(named=True):
            found.rows += 1
            if row.get("match") in {"approximate", "ambiguous"}:
                continue
            others = [
                known[column, value]
                for column, value in row.items()
                if column.endswith("_ns") and (column, value) in known
            ]
            if others and any(
                row[c] is not None and row[c] != others[0][c] and c != "callback_end_ns"
                for c in row
                if c.endswith("_ns")
            ):
                wrong(name, row, others[0])
    del way
    return found


def _message(
    truth: Truth,
    row: Mapping[str, Any],
    publications: Mapping[int, int],
    subscriptions: Mapping[int, int],
    wrong: Any,
) -> None:
    outcome, sure = row["outcome"], row["match"] not in {"approximate", "ambiguous"}
    number = None if row["message_id"] is None else publications[row["message_id"]]
    for name in ("take_ns", "callback_start_ns"):
        there = truth.starts.get(row[name])
        if row[name] is None or number is None or not sure or outcome == "replayed":
            continue
        if there is None or there["message_id"] != number:
            wrong(f"pair ({name})", row, there)
            return
    start = row["callback_start_ns"] or row["take_ns"]
    there = truth.starts.get(start) if start is not None else None
    if outcome == "replayed":
        if there is not None and there["outcome"] != "replayed":
            wrong("replayed", row, there)
        return
    if outcome in MISSED and row["subscription_id"] is not None:
        there = truth.pairs.get((number, subscriptions[row["subscription_id"]]))
        if there is not None and there["outcome"] in ARRIVED:
            wrong(f"{outcome}, though it arrived", row, there)
        elif there is not None and there["outcome"] in MISSED and there["outcome"] != outcome:
            wrong(f"{outcome}, not {there['outcome']}", row, there)
    elif outcome == "delivered" and sure and there is not None and row["latency_ns"] is not None:
        if row["latency_ns"] != there["latency_ns"]:
            wrong("latency of a later event of the publication", row, there)


def trials(
    run: Recording, count: int, seed: int, ways: tuple[str, ...] = WAYS
) -> Iterator[tuple[str, float, Count]]:
    """What `count` trials of each way found in one recording."""
    raw = read_raw(run)
    frames = {name: frame.sort("time_ns") for name, frame in raw.events.items()}
    whole = build_tables(frames, raw.losses)
    truth = Truth(whole)
    for way in ways:
        for number in range(count):
            rng = random.Random(f"{seed} {run.name} {way} {number}")
            fraction = FRACTIONS[number % len(FRACTIONS)]
            left, declared, removed = without(frames, way, rng, fraction)
            losses = pl.concat([raw.losses, declared])
            found = compare(truth, build_tables(left, losses), way)
            found.removed = removed
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
    wrong = ", ".join(f"{count} {what}" for what, count in found.wrong.most_common()) or "none"
    share = found.unknown / found.messages if found.messages else 0
    return (
        f"{found.trials} trials, {found.removed:,} events out, {found.rows:,} rows; "
        f"{100 * share:.2f} % of messages turned unknown; wrong: {wrong}"
    )


if __name__ == "__main__":
    sys.exit(main())
