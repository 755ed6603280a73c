"""Conditions that programs are watched for, as people write them in YAML."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from roslens.analysis.flow.chain import Chain
from roslens.analysis.flow.chains import chain_instances
from roslens.analysis.measures.loss import loss_of
from roslens.analysis.verdicts.budgets import Budget
from roslens.collectors.schema.tables import TABLES
from roslens.recording import UsageError
from roslens.recording.manifest import Hit
from roslens.recording.yaml_file import read_yaml_file

_TEXT = re.compile(
    r"(?P<kind>latency|gap|rate|loss|callback)(?: of (?P<of>\S.*?))? (?P<sign>[<>]) ?"
    r"(?P<number>\d+(?:\.\d+)?) ?(?P<unit>[%/\w]*)"
)
_OUTCOMES = ("aborted", "canceled")
_GOAL = re.compile(rf"goal(?: of (?P<of>\S+))? (?P<outcome>{'|'.join(_OUTCOMES)})")
_EXAMPLE = "write it as 'latency of /scan > 50 ms'"
_UNITS = {"latency": "ns", "gap": "ns", "callback": "ns", "rate": "Hz", "loss": "1"}
_NAMED = ("gap", "rate")
_KEYS = {"triggers", "after_s", "cooldown_s", "most_mb", "window_s"}


@dataclass(frozen=True)
class Trigger:
    """A condition: as `_TEXT`, its limit in the unit of its kind; or as `_GOAL`, by its outcome."""

    text: str
    kind: str
    of: str | None
    upper: bool
    limit: float

    def is_beyond(self, value: float) -> bool:
        """Whether a value is beyond the limit."""
        return value > self.limit if self.upper else value < self.limit


@dataclass(frozen=True)
class Settings:
    """A file of triggers.

    Attributes
    ----------
    triggers
        What is watched for.
    after_s
        Seconds from a trigger to its snapshot.
    cooldown_s
        For so long after it a trigger is not heeded again.
    most_mb
        Megabytes that all snapshots may take.
    window_s
        Seconds that rates and losses are of.
    """

    triggers: tuple[Trigger, ...]
    after_s: float = 5
    cooldown_s: float = 60
    most_mb: float = 1000
    window_s: float = 10

    @property
    def longest_ns(self) -> int:
        """How far back all of them look."""
        back = [x.limit for x in self.triggers if _UNITS.get(x.kind) == "ns"]
        return round(max([*back, self.window_s * 1e9]))


def read_triggers(path: Path) -> Settings:
    """Read a YAML file: ``triggers``, a list of texts, and numbers as of `Settings`.

    Raises
    ------
    UsageError
        It cannot be read, or something in it is not understood.
    """
    data = read_yaml_file(path)
    if not isinstance(data, dict) or not isinstance(data.get("triggers"), list):
        raise UsageError(f"{path}: give a list named 'triggers'; {_EXAMPLE}")
    unknown = sorted(map(str, data.keys() - _KEYS))
    if unknown:
        raise UsageError(
            f"{path}: unknown key '{unknown[0]}'; there are {', '.join(sorted(_KEYS))}"
        )
    numbers = {name: data[name] for name in data.keys() - {"triggers"}}
    for name, number in numbers.items():
        least = 1 if name == "window_s" else 0
        valid = isinstance(number, int | float) and not isinstance(number, bool)
        if not valid or not least <= number < 1e6:
            raise UsageError(f"{path}: {name} is a number of at least {least}")
    triggers = []
    for number, text in enumerate(data["triggers"], 1):
        try:
            triggers.append(_trigger(text))
        except UsageError as error:
            raise UsageError(f"{path}: trigger {number}: {error}") from error
    if not triggers:
        raise UsageError(f"{path}: there is no trigger; {_EXAMPLE}")
    return Settings(tuple(triggers), **numbers)


def _trigger(given: object) -> Trigger:
    text = " ".join(given.split()) if isinstance(given, str) else ""
    goal = _GOAL.fullmatch(text)
    if goal is not None:
        return Trigger(text, goal["outcome"], goal["of"], upper=True, limit=math.inf)
    match = _TEXT.fullmatch(text)
    if match is None:
        raise UsageError(f"{given!r} is no trigger; {_EXAMPLE}")
    kind, of, upper = match["kind"], match["of"], match["sign"] == ">"
    if of is None and kind in _NAMED:
        raise UsageError(f"'{text}': say which topic, as '{kind} of /scan {match['sign']} ...'")
    if not upper and kind != "rate":
        raise UsageError(f"'{text}': a {kind} can only be above a limit")
    if of and "->" in of:
        if kind != "latency":
            raise UsageError(f"'{text}': of a chain there is only the latency")
        Chain.of(of)
    budget = Budget(text, kind, float(match["number"]), match["unit"], upper)
    return Trigger(text, kind, of, upper, budget.limit_in(_UNITS[kind]))


class Tables:
    """The tables so far, each made once. What a chain asks for and nobody watches is empty.

    Parameters
    ----------
    made
        Tables by name, as the model gives them.
    goals
        Gives the goals of actions, as of `roslens.collectors.ros2.live.Model.goal_ends`.
    """

    def __init__(self, made: Mapping[str, Any], goals: Callable[[], pl.DataFrame]) -> None:
        self._made = made
        self.goals = goals
        self._frames: dict[str, pl.DataFrame] = {}

    def frame(self, name: str) -> pl.DataFrame:
        """A table."""
        if name not in self._frames:
            found = self._made.get(name)
            frame = TABLES[name].empty() if found is None else TABLES[name].conform(found.frame())
            self._frames[name] = frame
        return self._frames[name]

    def table(self, name: str) -> pl.LazyFrame:
        """The same, lazily."""
        return self.frame(name).lazy()


class Triggers:
    """Watches for conditions, from one moment to the next.

    Parameters
    ----------
    settings
        What for.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._since: int | None = None
        self._held: set[str] = set()
        self._seen: set[str] = set()

    def hits(self, tables: Tables, first_ns: int, until_ns: int) -> list[Hit]:
        """What came to hold since the moment before; of each trigger the gravest.

        Parameters
        ----------
        tables
            All so far.
        first_ns, until_ns
            Since when, and until when they tell.
        """
        since, self._since = self._since if self._since is not None else first_ns - 1, until_ns
        found: list[Hit] = []
        for one in self._settings.triggers:
            if one.kind in ("rate", "loss"):
                found += self._of_window(one, tables, first_ns, until_ns)
                continue
            if one.kind in _OUTCOMES:
                ended = _ended(one, tables)
                found += [Hit(trigger=one.text, at_ns=x) for x in ended if since < x <= until_ns][
                    :1
                ]
                continue
            seen = _LOOKS[one.kind](one, tables).with_columns(
                at_least=pl.col("value").is_null(),
                value=pl.col("value").fill_null(until_ns - pl.col("since")),
            )
            seen = seen.filter(
                (pl.col("value") > one.limit) & (pl.col("at") > since) & (pl.col("at") <= until_ns)
            ).select("at", "value", "at_least")
            for at, value, at_least in seen.sort("value", descending=True).head(1).iter_rows():
                found.append(_hit(one, at, value, at_least=at_least))
        return found

    def _of_window(
        self, one: Trigger, tables: Tables, first_ns: int, until_ns: int
    ) -> Sequence[Hit]:
        """Of what is counted over a window: when it begins to hold."""
        window = round(self._settings.window_s * 1e9)
        if first_ns > until_ns - window:
            return []
        during = pl.col("publish_ns").is_between(until_ns - window, until_ns)
        value: float | None
        if one.kind == "rate":
            published = tables.frame("publications").filter(
                during & (pl.col("topic").cast(pl.String) == one.of)
            )
            if published.height:
                self._seen.add(one.text)
            # A topic that nobody published on yet has no rate.
            value = published.height / self._settings.window_s if one.text in self._seen else None
        else:
            sent = _of_topic(tables.frame("messages").filter(during), one.of)
            value = sent.select(loss_of("outcome")).item() if sent.height else None
        held = one.text in self._held
        if value is None or not one.is_beyond(value):
            self._held.discard(one.text)
            return []
        self._held.add(one.text)
        return [] if held else [_hit(one, until_ns, float(value))]


def _hit(one: Trigger, at_ns: int, value: float, *, at_least: bool = False) -> Hit:
    unit = _UNITS[one.kind]
    return Hit(trigger=one.text, at_ns=at_ns, value=value, at_least=at_least, unit=unit)


def _of_topic(frame: pl.DataFrame, topic: str | None) -> pl.DataFrame:
    return frame if topic is None else frame.filter(pl.col("topic").cast(pl.String) == topic)


def _ended(one: Trigger, tables: Tables) -> list[int]:
    """When goals ended so."""
    goals = tables.goals().filter(pl.col("outcome") == one.kind)
    if one.of is not None:
        goals = goals.filter(pl.col("action") == one.of)
    return goals["ended_ns"].sort().to_list()


# Each look tells `since` when something lasts, `value`, how long (null: it goes on), and `at`,
# when that was known to be too long.


def _latencies(one: Trigger, tables: Tables) -> pl.DataFrame:
    if one.of is not None and "->" in one.of:
        try:
            found = chain_instances(tables, Chain.of(one.of))
        except UsageError:
            # No message went along it yet.
            return pl.DataFrame(schema=dict.fromkeys(("since", "value", "at"), pl.Int64))
        return found.complete.select(since="begin_ns", value="latency_ns", at="end_ns")
    messages = _of_topic(tables.frame("messages"), one.of)
    columns = {"since": "publish_ns", "value": "latency_ns", "at": "callback_start_ns"}
    return messages.select(**columns).drop_nulls()


def _gaps(one: Trigger, tables: Tables) -> pl.DataFrame:
    """From one publication to the next; it is one as soon as it is too long."""
    times = _of_topic(tables.frame("publications"), one.of).select("publish_ns").sort("publish_ns")
    since = pl.col("publish_ns")
    return times.select(since=since, value=since.shift(-1) - since, at=since + math.ceil(one.limit))


def _executions(one: Trigger, tables: Tables) -> pl.DataFrame:
    """Durations; only the last of its thread can still go on."""
    since = pl.col("start_ns")
    goes_on = since == since.max().over("host", "vpid", "vtid")
    name = pl.any_horizontal(pl.col(x).cast(pl.String) == one.of for x in ("node", "name"))
    found = tables.frame("callback_instances")
    found = found.filter(pl.col("end_ns").is_not_null() | goes_on)
    if one.of is not None:
        found = found.filter(name)
    return found.select(
        since=since, value=pl.col("end_ns") - since, at=since + math.ceil(one.limit)
    )


_LOOKS = {"latency": _latencies, "gap": _gaps, "callback": _executions}
