"""Watch programs for conditions that people write in YAML."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from roslens.analysis.flow.chain import Chain
from roslens.analysis.flow.chains import ChainInstances, chain_instances
from roslens.analysis.measures.callbacks import readable
from roslens.analysis.measures.loss import loss_of
from roslens.analysis.measures.samples import LOST
from roslens.analysis.measures.silences import unfinished
from roslens.analysis.verdicts.budgets import Budget
from roslens.collectors.schema.tables import TABLES
from roslens.live.processes import Processes
from roslens.recording import UsageError
from roslens.recording.manifest import Hit
from roslens.recording.yaml_file import read_yaml_file

_ENDING_NS = 5_000_000_000
"""Deaths are reported this much later: if all processes end within it, the run has ended."""
_UNDER_WAY_NS = 1_000_000_000
"""Messages published less than this ago may still wait for their receiver: they are not lost."""
_EXAMPLE = "write it as 'latency of /scan > 50 ms'"
_KEYS = {"triggers", "after_s", "cooldown_s", "most_mb", "window_s"}


@dataclass(frozen=True)
class _Kind:
    """Kind of condition: the unit of its limit or its endings, and the subject that it requires."""

    unit: str | None = None
    ends: tuple[str, ...] = ()
    subject: str = ""
    lower: bool = False


_KINDS: Mapping[str, _Kind] = {
    "latency": _Kind("ns"),
    "deadline": _Kind("ns", subject="chain"),
    "gap": _Kind("ns", subject="topic"),
    "rate": _Kind("Hz", subject="topic", lower=True),
    "loss": _Kind("1"),
    "callback": _Kind("ns"),
    "silence": _Kind("ns", subject="node or timer"),
    "cpu": _Kind("core"),
    "memory": _Kind("byte/s"),
    "process": _Kind(ends=("died",)),
    "goal": _Kind(ends=("aborted", "canceled")),
}
_OF_CHAINS = ("latency", "deadline")
_ENDS = sorted({end for kind in _KINDS.values() for end in kind.ends})
_TEXT = re.compile(
    rf"(?P<kind>{'|'.join(_KINDS)})(?: of (?P<of>\S.*?))? (?:(?P<end>{'|'.join(_ENDS)})|"
    r"(?P<sign>[<>]) ?(?P<number>\d+(?:\.\d+)?) ?(?P<unit>[%/\w]*))"
)


@dataclass(frozen=True)
class Trigger:
    """Condition parsed by `_TEXT`: a limit in the unit of its kind, or an ending."""

    text: str
    kind: str
    subject: str | None
    upper: bool
    limit: float
    end: str | None = None

    def is_beyond(self, value: float) -> bool:
        """Return whether a value is beyond the limit."""
        return value > self.limit if self.upper else value < self.limit


@dataclass(frozen=True)
class Settings:
    """Content of a file of triggers.

    Attributes
    ----------
    triggers
        The conditions to watch for.
    after_s
        Seconds from a trigger to its snapshot.
    cooldown_s
        Seconds after a trigger's hit during which the same trigger is ignored.
    most_mb
        Megabytes that all snapshots together may take.
    window_s
        Seconds over which rates and losses are computed.
    """

    triggers: tuple[Trigger, ...]
    after_s: float = 5
    cooldown_s: float = 60
    most_mb: float = 1000
    window_s: float = 10

    @property
    def processes(self) -> Processes | None:
        """Create a sampler of the processes that triggers are about; None if there are none."""
        sampled = {"cpu", "memory", "process", "callback"}
        kinds = {trigger.kind for trigger in self.triggers} & sampled
        shows = bool(kinds & {"cpu", "memory"})
        return Processes(self.window_s, memory="memory" in kinds, shows=shows) if kinds else None

    @property
    def longest_ns(self) -> int:
        """Return how far back the triggers look, in ns."""
        back = [
            trigger.limit
            for trigger in self.triggers
            if _KINDS[trigger.kind].unit == "ns" and not trigger.end
        ]
        return round(max([*back, self.window_s * 1e9]))


def read_triggers(path: Path) -> Settings:
    """Read a YAML file: ``triggers``, a list of texts, and the numbers of `Settings`.

    Raises
    ------
    UsageError
        The file cannot be read, or part of it is invalid.
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
            triggers.append(trigger_of(text))
        except UsageError as error:
            raise UsageError(f"{path}: trigger {number}: {error}") from error
    if not triggers:
        raise UsageError(f"{path}: there is no trigger; {_EXAMPLE}")
    return Settings(tuple(triggers), **numbers)


def trigger_of(given: object) -> Trigger:
    """Parse a trigger from its text.

    Raises
    ------
    UsageError
        The text is not a valid trigger.
    """
    text = " ".join(given.split()) if isinstance(given, str) else ""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise UsageError(f"{given!r} is no trigger; {_EXAMPLE}")
    name, subject, end = match["kind"], match["of"], match["end"]
    kind = _KINDS[name]
    if end is None and kind.ends:
        raise UsageError(f"'{text}': give no limit, but '{' or '.join(kind.ends)}'")
    if end is not None and end not in kind.ends:
        raise UsageError(f"'{text}': a {name} is never {end}; {_EXAMPLE}")
    if subject is None and kind.subject:
        rest = text.removeprefix(name)
        raise UsageError(f"'{text}': say which {kind.subject}, as '{name} of /scan{rest}'")
    if subject is not None and "->" in subject:
        if name not in _OF_CHAINS:
            raise UsageError(f"'{text}': of a chain there is only the latency and the deadline")
        Chain.of(subject)
    elif kind.subject == "chain":
        raise UsageError(
            f"'{text}': give a chain, as '{name} of /camera -> /image -> /viewer > 1 s'"
        )
    if end is not None:
        return Trigger(text, name, subject, upper=True, limit=math.inf, end=end)
    upper = match["sign"] == ">"
    if not upper and not kind.lower:
        raise UsageError(f"'{text}': a {name} can only be above a limit")
    budget = Budget(text, name, float(match["number"]), match["unit"], upper)
    return Trigger(text, name, subject, upper, budget.limit_in(str(kind.unit)))


class Tables:
    """Tables so far, each made once; a table that a chain needs and nobody watches is empty.

    Parameters
    ----------
    made
        Tables by name, as the model gives them.
    goals
        Function that returns action goals, as `roslens.collectors.ros2.live.Model.goal_ends` does.
    processes
        Sampled processes of the nodes; None if they are not sampled.
    completed
        Chains of which an instance was complete at an earlier moment; those of now are added.
    """

    def __init__(
        self,
        made: Mapping[str, Any],
        goals: Callable[[], pl.DataFrame],
        processes: Processes | None = None,
        completed: set[str] | None = None,
    ) -> None:
        self._made = made
        self.goals = goals
        self.processes = processes
        self._completed = set() if completed is None else completed
        self._frames: dict[str, pl.DataFrame] = {}
        self._along: dict[str, ChainInstances] = {}

    def frame(self, name: str) -> pl.DataFrame:
        """Return a table."""
        if name not in self._frames:
            table = self._made.get(name)
            frame = TABLES[name].empty() if table is None else TABLES[name].conform(table.frame())
            self._frames[name] = frame
        return self._frames[name]

    def columns(self, name: str, *columns: str) -> pl.DataFrame:
        """Return some columns of a table that was made."""
        frame: pl.DataFrame = self._made[name].frame(*columns)
        return frame

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table as a lazy frame of one run."""
        return self.frame(name).lazy().with_columns(run=pl.lit(""))

    def instances_of(self, chain: str) -> ChainInstances:
        """Return the instances of a chain; of hops without messages, those that came so far."""
        if chain not in self._along:
            asked = Chain.of(chain)
            try:
                instances = chain_instances(self, asked)
            except UsageError:
                part = _no_instances()
                if len(asked.path) > 3:
                    part = self.instances_of(str(Chain(asked.path[:-2]))).instances
                ended = pl.col("outcome").replace("complete", "no_output")
                nothing = pl.lit(None, pl.Int64)
                part = part.with_columns(outcome=ended, end_ns=nothing, latency_ns=nothing)
                instances = ChainInstances(asked, part, _no_instances, ())
            self._along[chain] = instances
        return self._along[chain]

    def was_complete(self, chain: str) -> bool:
        """Return whether an instance of a chain is, or was at an earlier moment, complete."""
        if not self.instances_of(chain).complete.is_empty():
            self._completed.add(chain)
        return chain in self._completed


def _no_instances() -> pl.DataFrame:
    kinds = dict.fromkeys(("run", "outcome", "stopped_at", "match"), pl.String)
    times = dict.fromkeys(("begin_ns", "end_ns", "latency_ns"), pl.Int64)
    more = {"at_least": pl.Boolean, "clock_bound_ns": pl.Float64}
    return pl.DataFrame(schema={**times, **kinds, **more})


class Triggers:
    """State of watched conditions from one moment to the next.

    Parameters
    ----------
    settings
        The conditions and their settings.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._window_ns = round(settings.window_s * 1e9)
        self._since: int | None = None
        self._held: set[tuple[str, str]] = set()
        self._defined: dict[str, int] = {}
        self._judged: dict[str, pl.DataFrame] = {}

    def hits(self, tables: Tables, first_ns: int, until_ns: int) -> list[Hit]:
        """Return conditions that began to hold since the last moment; for each, the gravest hit.

        Parameters
        ----------
        tables
            All tables so far.
        first_ns, until_ns
            The times of the first event and of the end of the tables, in ns.
        """
        since, self._since = self._since if self._since is not None else first_ns - 1, until_ns
        hits: list[Hit] = []
        for trigger in self._settings.triggers:
            if trigger.kind in _LOOKS:
                hits += self._longest(trigger, tables, since, until_ns)
            elif trigger.kind in ("rate", "loss"):
                hits += self._window_hits(trigger, tables, first_ns, until_ns)
            elif trigger.kind == "goal":
                ended = (at_ns for at_ns in _ended(trigger, tables) if since < at_ns <= until_ns)
                hits += [Hit(trigger=trigger.text, at_ns=at_ns) for at_ns in ended][:1]
            elif tables.processes is not None:
                hits += self._process_hit(trigger, tables.processes, since, until_ns)
        return hits

    def _window_hits(
        self, trigger: Trigger, tables: Tables, first_ns: int, until_ns: int
    ) -> Sequence[Hit]:
        """Return a hit when a rate or loss over the window begins to exceed its limit."""
        until_ns -= _UNDER_WAY_NS if trigger.kind == "loss" else 0
        table = tables.frame("publications" if trigger.kind == "rate" else "messages")
        of_topic = _messages_of_topic(table, trigger.subject)
        first = of_topic["publish_ns"].min()
        if first is not None:
            self._defined.setdefault(trigger.text, int(str(first)))
        # Until a whole window has passed since the first publication and the first known event,
        # only an excessive rate is certain.
        since = max(self._defined.get(trigger.text, until_ns), first_ns)
        is_defined = until_ns - since >= self._window_ns
        if not is_defined and not (trigger.kind == "rate" and trigger.upper):
            return []
        during = of_topic.filter(
            pl.col("publish_ns").is_between(until_ns - self._window_ns, until_ns)
        )
        value: float | None
        if trigger.kind == "rate":
            value = during.height / self._settings.window_s
        else:
            value = during.select(loss_of("outcome")).item() if during.height else None
        begins = self._begins(
            (trigger.text, ""), holds=value is not None and trigger.is_beyond(value)
        )
        return [_hit(trigger, until_ns, float(value))] if begins and value is not None else []

    def _process_hit(
        self, condition: Trigger, processes: Processes, since: int, until_ns: int
    ) -> list[Hit]:
        """Return the first hit of a condition on processes, over all nodes that it covers."""
        hits: list[Hit] = []
        if condition.kind == "process":
            died = (at for node, at in list(processes.died) if condition.subject in (None, node))
            hits = [
                Hit(trigger=condition.text, at_ns=at)
                for at in died
                if since - _ENDING_NS < at <= until_ns - _ENDING_NS
            ]
        else:
            for node in processes.nodes:
                if condition.subject not in (None, node):
                    continue
                for at, value in processes.values(
                    condition.kind, node, self._window_ns, since, until_ns
                ):
                    if self._begins((condition.text, node), holds=condition.is_beyond(value)):
                        hits.append(_hit(condition, at, value))
        return sorted(hits, key=lambda hit: hit.at_ns)[:1]

    def _longest(self, trigger: Trigger, tables: Tables, since: int, until_ns: int) -> list[Hit]:
        """Return the longest of the durations that are known to be too long only now; see `_LOOKS`.

        Much is known later than it happens: which message a callback published, for instance, when
        that callback has ended. So all durations of the last seconds are judged that were not.
        """
        value, row = pl.col("value"), ["since", "at"]
        known = pl.max_horizontal("at", pl.col("since") + value)
        looked = _LOOKS[trigger.kind](trigger, tables)
        until = pl.min_horizontal(pl.lit(until_ns), *({"until"} & set(looked.columns)))
        too_long = looked.filter(
            (value.is_null() | (value > trigger.limit)) & (pl.col("at") <= until)
        ).select(
            *row,
            known=known,
            goes_on=value.is_null(),
            value=value.fill_null(until - pl.col("since")),
        )
        judged = self._judged.get(trigger.text, too_long.clear())
        back_ns = self._settings.longest_ns
        new = too_long.filter(pl.col("known") > since - back_ns).join(judged, on=row, how="anti")
        earlier = judged.filter(pl.col("known") > until_ns - back_ns)
        self._judged[trigger.text] = pl.concat([too_long, earlier]).unique(row)
        return [
            _hit(trigger, at, value, at_least=goes_on)
            for at, value, goes_on in new.sort("value", descending=True)
            .head(1)
            .select("at", "value", "goes_on")
            .iter_rows()
        ]

    def _begins(self, key: tuple[str, str], *, holds: bool) -> bool:
        """Return whether a condition holds that did not hold before."""
        held = key in self._held
        (self._held.add if holds else self._held.discard)(key)
        return holds and not held


def _hit(trigger: Trigger, at_ns: int, value: float, *, at_least: bool = False) -> Hit:
    unit = _KINDS[trigger.kind].unit
    return Hit(trigger=trigger.text, at_ns=at_ns, value=value, at_least=at_least, unit=unit)


def _messages_of_topic(frame: pl.DataFrame, topic: str | None) -> pl.DataFrame:
    return frame if topic is None else frame.filter(pl.col("topic").cast(pl.String) == topic)


def _ended(trigger: Trigger, tables: Tables) -> list[int]:
    """Return when goals ended with the trigger's outcome."""
    goals = tables.goals().filter(pl.col("outcome") == trigger.end)
    if trigger.subject is not None:
        goals = goals.filter(pl.col("action") == trigger.subject)
    return goals["ended_ns"].sort().to_list()


# Each look returns `since`, the start of a duration, `value`, its length (null: it goes on), and
# `at`, when it was known to be too long; and maybe `until`, to when it is known to have gone on.


def _latencies(trigger: Trigger, tables: Tables) -> pl.DataFrame:
    if trigger.subject is not None and "->" in trigger.subject:
        complete = tables.instances_of(trigger.subject).complete
        return complete.select(since="begin_ns", value="latency_ns", at="end_ns")
    messages = _messages_of_topic(tables.frame("messages"), trigger.subject)
    columns = {"since": "publish_ns", "value": "latency_ns", "at": "callback_start_ns"}
    return messages.select(**columns).drop_nulls()


def deadlines(one: Trigger, tables: Tables) -> pl.DataFrame:
    """Return the response times of a chain (``value``), their starts and deadlines (``at``).

    Instances that never reached the end count if they are lost or within a callback, or if no
    later instance was completed: they may still be on their way. Instances whose message a node did
    not use, or nobody waits for, do not count, nor do those within a callback that may already have
    published: what a callback published is known when it has ended.
    """
    chain = Chain.of(str(one.subject))
    # What a node published outside of all callbacks that have ended may be from one that goes on.
    loose = (
        tables.frame("publications")
        .filter(pl.col("topic").is_in(chain.topics), pl.col("callback_instance_id").is_null())
        .group_by(stopped_at=pl.col("node").cast(pl.String))
        .agg(loose_ns=pl.col("publish_ns").max())
    )
    instances = tables.instances_of(str(chain)).instances.join(loose, on="stopped_at", how="left")
    done = pl.col("outcome") == "complete"
    # Where the last seconds have no complete instance, all of them began after the last one.
    last = pl.col("begin_ns").filter(done).max().fill_null(0)
    may_have_published = (pl.col("stopped_at") != chain.nodes[-1]) & (
        pl.col("loose_ns") > pl.col("begin_ns")
    ).fill_null(value=False)
    under_way = (
        pl.col("outcome").is_in(LOST)
        | ((pl.col("outcome") == "unfinished") & ~may_have_published)
        | (pl.col("outcome").is_in(("unknown", "taken")) & (pl.col("begin_ns") > last))
    )
    # Until one instance was complete, it is not known that this is a chain.
    instances = instances.filter(done | under_way, tables.was_complete(str(chain)))
    since = pl.col("begin_ns")
    return instances.select(since=since, value="latency_ns", at=since + math.ceil(one.limit))


def _gaps(trigger: Trigger, tables: Tables) -> pl.DataFrame:
    """Return intervals between publications; an interval counts as soon as it is too long."""
    times = (
        _messages_of_topic(tables.frame("publications"), trigger.subject)
        .select("publish_ns")
        .sort("publish_ns")
    )
    since = pl.col("publish_ns")
    return times.select(
        since=since, value=since.shift(-1) - since, at=since + math.ceil(trigger.limit)
    )


def _executions_named(trigger: Trigger, instances: pl.DataFrame) -> pl.DataFrame:
    """Return executions of a node, or of a topic, service or period, as written or as shown."""
    if trigger.subject is None:
        return instances
    node, name = pl.col("node").cast(pl.String), pl.col("name").cast(pl.String)
    is_named = (each == trigger.subject for each in (node, name, readable(name)))
    return instances.filter(pl.any_horizontal(is_named))


def _executions(trigger: Trigger, tables: Tables) -> pl.DataFrame:
    """Return durations of executions that have ended, and of those that threads are still in.

    The latter are known to have gone on until their process was last seen to live.
    """
    ran = tables.frame("callback_instances")
    begun = ran.lazy().select("host", "vpid", "vtid", time_ns="start_ns")
    go_on = unfinished(ran.lazy(), begun).select(ran.columns)
    executions = _executions_named(trigger, pl.concat([ran.drop_nulls("end_ns"), go_on]))
    lived = {} if tables.processes is None else tables.processes.lived_ns.copy()
    until = pl.col("vpid").replace_strict(lived, default=None, return_dtype=pl.Int64)
    since, end = pl.col("start_ns"), pl.col("end_ns")
    return executions.select(
        since=since,
        value=end - since,
        at=since + math.ceil(trigger.limit),
        until=pl.when(end.is_null()).then(until),
    )


def _silences(trigger: Trigger, tables: Tables) -> pl.DataFrame:
    """Return intervals between signs of life: starts or ends of executions, or publications."""
    ran = _executions_named(trigger, tables.frame("callback_instances"))
    published = tables.frame("publications").filter(
        pl.col("node").cast(pl.String) == trigger.subject
    )
    signs = [ran.select("node", at=column) for column in ("start_ns", "end_ns")]
    signs.append(published.select("node", at="publish_ns"))
    signs = [sign.with_columns(pl.col("node").cast(pl.String)) for sign in signs]
    times = pl.concat(signs).drop_nulls("at").unique().sort("at")
    since = pl.col("at")
    return times.select(
        since=since, value=since.shift(-1).over("node") - since, at=since + math.ceil(trigger.limit)
    )


_LOOKS = {
    "latency": _latencies,
    "deadline": deadlines,
    "gap": _gaps,
    "callback": _executions,
    "silence": _silences,
}
