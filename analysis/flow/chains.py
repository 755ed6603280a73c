"""Follow chains of messages from node to node: their instances, and where the time went.

A message continues from one topic to the next where a node publishes inside the callback for
that message, or as declared (`roslens.analysis.flow.links`). All times are times of trace events,
so the parts of an instance add up to its latency exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal, Self, TypeAlias

import polars as pl

from roslens.analysis.flow.chain import Chain, Tables, flow_tables
from roslens.analysis.flow.chain_parts import hops_of
from roslens.analysis.flow.links import Link, LinkKind, link_between
from roslens.analysis.measures.pauses import PAUSE, recorded_time
from roslens.analysis.measures.samples import beyond_clocks
from roslens.analysis.statistics.quantiles import mean_quantile_over_runs
from roslens.recording import UsageError

Begin: TypeAlias = Literal["publish", "callback"]
OPEN = ("unknown", "unfinished", "taken")
"""Outcomes with which an instance may have reached the end."""
UNTOLD = (*OPEN, "not_matched")
"""Outcomes that leave open whether an instance reached the end, or whether it could have: nothing
shows that a ``not_matched`` message had anywhere to go."""


@dataclass(frozen=True)
class ChainInstances:
    """The instances of one chain.

    Attributes
    ----------
    chain
        The chain.
    instances
        One row per message at the chain's begin, or per use of it where it was used several times:
        run (of several runs), ``instance``, ``begin_ns``, ``end_ns``, ``latency_ns``, ``worst_ns``
        (end - begin of the previous complete instance: the longest wait of an input that just
        missed that instance; null where an instance between may have reached the end, or the tracer
        lost events), ``clock_bound_ns`` (greatest error of these times by the difference of the
        clocks of the hosts at both ends; 0 on one host, infinite where it is not known),
        ``at_least`` (whether the begin is not in the trace, so all these times are lower bounds),
        ``outcome`` (complete, or the reason why it went no further: an outcome of messages,
        no_output, unfinished), ``stopped_at`` (topic or node) and ``last_message_id`` (the message
        of the last topic; null if it did not come so far).
    hops
        One row per part of a complete instance: run, ``instance``, ``hop`` (0, 1, ...), ``topic``,
        ``node`` (the receiver), ``part`` (of `roslens.analysis.flow.chain_parts.PARTS`),
        ``begin_ns``, ``end_ns``, ``duration_ns``, ``clock_bound_ns`` (as of instances),
        ``message_id``, ``subscription_id``. Computed at the first access: there are many more hops
        than instances.
    links
        The link kind of each node between; None for publishing in the callback.
    """

    chain: Chain
    instances: pl.DataFrame
    made_hops: Callable[[], pl.DataFrame]
    links: tuple[LinkKind | None, ...]

    @cached_property
    def hops(self) -> pl.DataFrame:  # noqa: D102
        return self.made_hops()

    def only(self, condition: pl.Expr) -> Self:
        """Return the same chain with the instances that meet a condition."""
        on, kept = ["run", "instance"], self.instances.filter(condition)
        return replace(
            self,
            instances=kept,
            made_hops=lambda: self.hops.join(kept, on=on, how="semi", maintain_order="left"),
        )

    @property
    def complete(self) -> pl.DataFrame:
        """The instances that reached the end of the chain."""
        return self.instances.filter(pl.col("outcome") == "complete")

    @property
    def untold(self) -> int:
        """The number of instances of which it is not known whether they reached the end."""
        return int(self.instances["outcome"].is_in(UNTOLD).sum())

    @property
    def at_least(self) -> bool:
        """Whether the times of complete instances are, or include, lower bounds."""
        return bool(self.complete["at_least"].any())

    @property
    def clock_bound_ns(self) -> float:
        """Greatest error of the times of complete instances by the hosts' clocks; 0 on one host."""
        return float(self.complete["clock_bound_ns"].max() or 0.0)  # type: ignore[arg-type]

    def within_clocks(self, time_ns: float | None) -> float | None:
        """Return a time of complete instances; None if the clocks of the hosts forbid saying it."""
        told = time_ns is not None and beyond_clocks(time_ns, self.clock_bound_ns)
        return time_ns if told else None

    def times_of_runs(self) -> list[pl.Series]:
        """Return ``latency_ns`` of complete instances, per run with instances of the chain."""
        by_run = self.instances.partition_by("run", maintain_order=True)
        return [of_run["latency_ns"].drop_nulls() for of_run in by_run]

    def response_times(self) -> pl.DataFrame:
        """Return per run ``instances``, ``best_ns``, ``slowest_ns`` and ``worst_ns``.

        The best-case response time is the latency itself: the input came just before the begin
        (smallest: ``best_ns``, greatest: ``slowest_ns``). In the worst case the input came just
        after the previous begin (greatest: ``worst_ns``). Null where the clocks of the hosts
        may be more than half as far apart as that.
        """
        figures = {
            "best_ns": pl.col("latency_ns").min(),
            "slowest_ns": pl.col("latency_ns").max(),
            "worst_ns": pl.col("worst_ns").max(),
        }
        bound = pl.col("clock_bound_ns").max()
        return self.complete.group_by("run", maintain_order=True).agg(
            pl.len().alias("instances"),
            *(
                pl.when(beyond_clocks(time, bound)).then(time).alias(name)
                for name, time in figures.items()
            ),
        )


def chain_instances(
    tables: Tables, chain: Chain, links: Sequence[Link] = (), *, begin: Begin = "publish"
) -> ChainInstances:
    """Follow every message along a chain.

    Parameters
    ----------
    tables
        Tables of one run or of several.
    chain
        The chain to follow.
    links
        Links of nodes other than publishing in the callback; links declared in the recording count
        too, after these.
    begin
        Whether an instance begins with its first publish event, or with the start of the callback
        that published its first message.

    Raises
    ------
    UsageError
        A hop of the chain has no messages.
    """
    messages, publications, instances, declared = flow_tables(tables)
    kinds = tuple(
        link_between([*links, *declared], node, inlet, outlet)
        for node, inlet, outlet in zip(
            chain.nodes[1:-1], chain.topics[:-1], chain.topics[1:], strict=True
        )
    )
    messages = _with_clock_bounds(messages.filter(pl.col("topic").is_in(chain.topics))).select(
        "run", *_OF_MESSAGE, "topic", "publisher_node", "subscription_node"
    )
    flow = _hop(messages, chain, 0)
    flow = flow.sort("run", "publish_ns_0", "message_id_0", "subscription_id_0")
    for number, kind in enumerate(kinds, start=1):
        outputs = publications.filter(
            (pl.col("topic") == chain.topics[number]) & (pl.col("node") == chain.nodes[number])
        ).select("run", "message_id", pl.col("publish_ns").alias("out_ns"), "callback_instance_id")
        used = (
            _direct(outputs)
            if kind is None
            else _USED[kind](outputs, _received(instances, chain, number))
        )
        used = used.rename({n: f"{n}_{number}" for n in ("message_id", "out_ns", "sure")})
        inlet = ["run", f"callback_instance_id_{number - 1}"]
        flow = flow.join(
            used,
            left_on=inlet,
            right_on=["run", "callback_instance_id"],
            how="left",
            maintain_order="left",
        ).join(
            _hop(messages, chain, number),
            on=["run", f"message_id_{number}"],
            how="left",
            maintain_order="left",
        )
    flow = _with_begin(flow, publications, instances, begin)
    losses = tables.table("losses")
    flow = _with_outcome(flow, chain, kinds, losses).with_row_index("instance")
    last = len(chain.topics) - 1
    done = pl.col("outcome") == "complete"
    flow = flow.with_columns(
        pl.col("instance").cast(pl.Int64),
        pl.when(done).then(f"callback_end_ns_{last}").alias("end_ns"),
    ).with_columns((pl.col("end_ns") - pl.col("begin_ns")).alias("latency_ns"))
    flow = _with_worst(flow, losses).with_columns(
        pl.when(pl.col("publisher_host_0") == pl.col(f"subscription_host_{last}"))
        .then(0.0)
        .otherwise(pl.sum_horizontal(f"clock_bound_ns_{n}" for n in range(last + 1)))
        .alias("clock_bound_ns"),
        pl.lit(begin == "publish").and_("at_least_0").alias("at_least"),
        pl.col(f"message_id_{last}").alias("last_message_id"),
    )
    sure = pl.all_horizontal(pl.lit(value=True), *(f"sure_{n + 1}" for n in range(len(kinds))))
    flow = flow.with_columns(
        pl.when(sure.fill_null(value=True)).then(pl.lit("exact")).otherwise(pl.lit("approximate"))
        .alias("match")
    )  # fmt: skip
    columns = ["begin_ns", "end_ns", "latency_ns", "worst_ns", "clock_bound_ns", "at_least"]
    columns += ["outcome", "stopped_at", "match", "last_message_id"]
    return ChainInstances(
        chain=chain,
        instances=flow.select("run", "instance", *columns),
        made_hops=partial(hops_of, flow.filter(done), chain, kinds,
                          with_source=begin == "callback"),
        links=kinds,
    )  # fmt: skip


_TIMES = (
    "publish_ns",
    "rmw_publish_ns",
    "take_ns",
    "rclcpp_take_ns",
    "callback_start_ns",
    "callback_end_ns",
)
_OF_MESSAGE = (
    "message_id",
    "subscription_id",
    "callback_instance_id",
    "intra_process",
    "outcome",
    "publisher_host",
    "subscription_host",
    "clock_bound_ns",
    "at_least",
    *_TIMES,
)


def _with_clock_bounds(messages: pl.DataFrame) -> pl.DataFrame:
    """Add how much the clocks of both ends may differ: 0 on one host, infinite if unknown.

    Calls do not name their hosts: in a recording of several hosts their bound is infinite.
    """
    sender, receiver = pl.col("publisher_host"), pl.col("subscription_host")
    hosts = messages.select(pl.concat([sender.drop_nulls(), receiver.drop_nulls()]).n_unique())
    differ = sender.ne_missing(receiver) | (sender.is_null() & pl.lit(hosts.item() > 1))
    bound = pl.when(differ).then(pl.col("clock_bound_ns").fill_null(math.inf)).otherwise(0.0)
    return messages.with_columns(bound.cast(pl.Float64).alias("clock_bound_ns"))


def _hop(messages: pl.DataFrame, chain: Chain, number: int) -> pl.DataFrame:
    """Return the messages of one hop; columns end with its number."""
    of_hop = messages.filter(
        (pl.col("topic") == chain.topics[number])
        & (pl.col("publisher_node") == chain.nodes[number])
        & (pl.col("subscription_node") == chain.nodes[number + 1])
    )
    if of_hop.is_empty():
        raise UsageError(
            f"chain {chain}: no message on {chain.topics[number]} from {chain.nodes[number]} to "
            f"{chain.nodes[number + 1]} in these recordings"
        )
    return of_hop.drop("topic", "publisher_node", "subscription_node").rename(
        {name: f"{name}_{number}" for name in _OF_MESSAGE}
    )


def _direct(outputs: pl.DataFrame) -> pl.DataFrame:
    """Return the first publication in each execution."""
    return (
        outputs.filter(pl.col("callback_instance_id").is_not_null())
        .sort("out_ns")
        .unique(["run", "callback_instance_id"], keep="first", maintain_order=True)
        .with_columns(sure=pl.lit(value=True))
    )


def _received(instances: pl.DataFrame, chain: Chain, number: int) -> pl.DataFrame:
    """Return the executions for messages that the node received, also from other publishers."""
    return (
        instances.filter(
            (pl.col("kind") == "subscription")
            & (pl.col("node") == chain.nodes[number])
            & (pl.col("name") == chain.topics[number - 1])
        )
        .select("run", "callback_instance_id", pl.col("start_ns").alias("since_ns"))
        .sort("since_ns", "callback_instance_id")
    )


def _last_received(outputs: pl.DataFrame, received: pl.DataFrame) -> pl.DataFrame:
    """Return for each publication the last execution that began before it."""
    return (
        outputs.drop("callback_instance_id")
        .sort("out_ns")
        .join_asof(
            received,
            left_on="out_ns",
            right_on="since_ns",
            by="run",
            strategy="backward",
            check_sortedness=False,
        )
        .drop_nulls("callback_instance_id")
        .drop("since_ns", strict=False)
        .with_columns(sure=pl.lit(value=True))
    )


def _used_once(outputs: pl.DataFrame, received: pl.DataFrame) -> pl.DataFrame:
    """Return for each publication the message that it used up.

    Inside the callback of a message this is that message, else the last message received before the
    publication that no other publication used; `sure` is false where several messages waited, or
    where the message is older than one used before.
    """
    number = "callback_instance_id"
    publishing = (
        outputs.join(received, on=["run", number], how="semi").select("run", number).unique()
    )
    waiting = received.join(publishing, on=["run", number], how="anti")
    comes = waiting.select("run", at="since_ns", **{number: pl.col(number)}, message_id=None)
    goes = outputs.join(publishing, on=["run", number], how="anti").select(
        "run", at="out_ns", **{number: None}, message_id="message_id"
    )
    uses: list[tuple[str, int, int, bool]] = []
    stacks: dict[str, list[int]] = {}
    newest: dict[str, int] = {}
    for run, _, instance, message in (
        pl.concat([comes, goes], how="vertical_relaxed").sort("at", maintain_order=True).iter_rows()
    ):
        stack = stacks.setdefault(run, [])
        if instance is not None:
            stack.append(instance)
        elif stack:
            sure = len(stack) == 1 and stack[-1] > newest.get(run, -1)
            newest[run] = max(newest.get(run, -1), stack[-1])
            uses.append((run, message, stack.pop(), sure))
    used = pl.DataFrame(
        uses,
        schema=["run", "message_id", number, "sure"],
        orient="row",
        schema_overrides={
            **{k: outputs.schema[k] for k in ("run", "message_id")},
            number: received.schema[number],
            "sure": pl.Boolean,
        },
    )
    times = outputs.select("run", "message_id", "out_ns")
    itself = outputs.join(publishing, on=["run", number], how="semi").with_columns(
        sure=pl.lit(value=True)
    )
    columns = ["run", "message_id", "out_ns", number, "sure"]
    return pl.concat(
        [itself.select(columns), used.join(times, on=["run", "message_id"]).select(columns)]
    ).sort("out_ns")


_USED = {"periodic_async": _last_received, "partial_sync": _used_once}


def _with_begin(
    flow: pl.DataFrame,
    publications: pl.DataFrame,
    instances: pl.DataFrame,
    begin: Begin,
) -> pl.DataFrame:
    if begin == "publish":
        return flow.with_columns(pl.col("publish_ns_0").alias("begin_ns"))
    number = "callback_instance_id"
    starts = (
        publications.select("run", pl.col("message_id").alias("message_id_0"), number)
        .join(instances.select("run", number, "start_ns"), on=["run", number])
        .select("run", "message_id_0", pl.col("start_ns").alias("begin_ns"))
    )
    flow = flow.join(starts, on=["run", "message_id_0"], how="left", maintain_order="left")
    return flow.with_columns(pl.col("begin_ns").fill_null(pl.col("publish_ns_0")))


def _has_gap(
    flow: pl.DataFrame, losses: pl.LazyFrame, host: str, begin: str, end: str
) -> pl.Series:
    """Return whether the tracer lost events of a host between two times of each row."""
    lasted = pl.col(end) - pl.col(begin)
    return (
        flow.lazy().select("run", host, begin, end, lasted=lasted)
        .with_row_index()
        .pipe(recorded_time, losses.filter(~PAUSE), begin, end, host=host)
        .sort("index")
        .select((lasted < pl.col("lasted")).fill_null(value=False))
        .collect()
        .to_series()
    )  # fmt: skip


def _with_outcome(
    flow: pl.DataFrame, chain: Chain, kinds: Sequence[LinkKind | None], losses: pl.LazyFrame
) -> pl.DataFrame:
    """Add outcome and stopped_at: the first failure on the way."""
    outcome = pl.lit("complete")
    stopped = pl.lit(None, dtype=pl.String)
    last = len(chain.topics) - 1
    open_end = pl.col(f"callback_end_ns_{last}").is_null()
    outcome = pl.when(open_end).then(pl.lit("unfinished")).otherwise(outcome)
    stopped = pl.when(open_end).then(pl.lit(chain.nodes[-1])).otherwise(stopped)
    for number in range(last, -1, -1):
        silent = pl.col(f"callback_instance_id_{number}").is_null()
        reason = pl.col(f"outcome_{number}").fill_null("no_subscriber")
        outcome = pl.when(silent).then(reason).otherwise(outcome)
        stopped = pl.when(silent).then(pl.lit(chain.topics[number])).otherwise(stopped)
        if number:
            why = pl.lit("no_output")
            if kinds[number - 1] is None:
                # Its publication may be among lost events, or come after the end of the trace.
                start, end = (f"callback_{edge}_ns_{number - 1}" for edge in ("start", "end"))
                lost = _has_gap(flow, losses, f"subscription_host_{number - 1}", start, end)
                why = pl.when(lost).then(pl.lit("unknown")).otherwise(why)
                why = pl.when(pl.col(end).is_null()).then(pl.lit("unfinished")).otherwise(why)
            mute = pl.col(f"message_id_{number}").is_null()
            outcome = pl.when(mute).then(why).otherwise(outcome)
            stopped = pl.when(mute).then(pl.lit(chain.nodes[number])).otherwise(stopped)
    return flow.with_columns(outcome.alias("outcome"), stopped.alias("stopped_at"))


def _with_worst(flow: pl.DataFrame, losses: pl.LazyFrame) -> pl.DataFrame:
    """Add worst_ns, from the previous complete begin; null where another may lie between."""
    outcome, before = pl.col("outcome"), ("pauses", "untold")
    begins = (
        flow.lazy()
        .group_by("run", "begin_ns")
        .agg(
            pl.col("publisher_host_0").first(),
            complete=(outcome == "complete").any(),
            untold=outcome.is_in(OPEN).any(),
        )
        .with_columns(at="begin_ns")
        .pipe(recorded_time, losses, "at", host="publisher_host_0")
        .filter(~pl.col("paused"))
        .sort("run", "begin_ns")
        .with_columns((pl.col("untold") & ~pl.col("complete")).cum_sum().over("run", "pauses"))
        .filter("complete")
        .select("run", "begin_ns", before_ns=pl.col("begin_ns").shift(1).over("run", *before))
        .collect()
    )
    return flow.join(
        begins, on=["run", "begin_ns"], how="left", maintain_order="left"
    ).with_columns((pl.col("end_ns") - pl.col("before_ns")).alias("worst_ns"))


def parts_with_percentiles(found: ChainInstances) -> pl.DataFrame:
    """Return `mean_parts` with ``p50_ms`` and ``p99_ms`` of each part, as means over runs.

    They are of the instances that have the part; null if these are too few for an interval, and
    where ``duration_ms`` is.
    """
    parts = mean_parts(found)
    percentiles: list[tuple[float | None, ...]] = []
    for row in parts.iter_rows(named=True):
        same = [pl.col(n).eq_missing(pl.lit(row[n])) for n in ("hop", "topic", "node", "part")]
        of_runs = [run["duration_ns"] for run in found.hops.filter(*same).partition_by("run")]
        values = (mean_quantile_over_runs(of_runs, q) for q in (0.5, 0.99))
        is_told = row["duration_ms"] is not None
        percentiles.append(tuple(v / 1e6 if v is not None and is_told else None for v in values))
    columns = {"p50_ms": pl.Float64, "p99_ms": pl.Float64}
    return parts.hstack(pl.DataFrame(percentiles, schema=columns, orient="row"))


def mean_parts(found: ChainInstances) -> pl.DataFrame:
    """Return the parts of a chain's complete instances in order, averaged over instances.

    Returns
    -------
    polars.DataFrame
        ``hop``, ``topic``, ``node``, ``part``, ``begin_ms`` (since the instance's begin) and
        ``duration_ms``. Instances that lack a part count with 0 for it, so the durations add up to
        the mean latency. Both are null where the clocks of hosts may be more than half as
        far apart as that.
    """
    count = found.complete.height
    instance = ["run", "instance", "hop"]
    return (
        found.hops.with_columns(place=pl.int_range(pl.len()).over(instance))
        .group_by("hop", "topic", "node", "part")
        .agg(
            pl.col("place").mean(),
            duration_ms=pl.col("duration_ns").sum() / count / 1e6,
            bound_ms=pl.col("clock_bound_ns").max() / 1e6,
        )
        .sort("hop", "place", "part")
        .with_columns(
            begin_ms=pl.col("duration_ms").cum_sum() - pl.col("duration_ms"),
            before_ms=pl.col("bound_ms").cum_sum().shift(1, fill_value=0.0),
        )
        .select(
            *("hop", "topic", "node", "part"),
            *(
                pl.when(beyond_clocks(pl.col(name), pl.col(bound))).then(name)
                for name, bound in (("begin_ms", "before_ms"), ("duration_ms", "bound_ms"))
            ),
        )
    )
