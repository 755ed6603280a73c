"""Say which messages a headline covers, how many others there are, and which are worst."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import polars as pl

from roslens.analysis.measures.loss import how_lost
from roslens.analysis.measures.services import has_every_node
from roslens.analysis.reports.numbers import counted, milliseconds
from roslens.collectors.topics import internal
from roslens.recording.text import some_of

_NAMED = 3


def dropped(traffic: pl.DataFrame) -> str | None:
    """Return a sentence on application topics without an arrived message; None: no such topic.

    Parameters
    ----------
    traffic
        Frame from `roslens.analysis.measures.samples.topic_traffic`.
    """
    topics = traffic.filter("own")
    nothing = topics.filter((pl.col("arrived") == 0) & (pl.col("delivered") == 0))
    if topics.is_empty():
        return None if traffic.is_empty() else "No topic of the application is in the recordings."
    if not topics["heard"].sum():
        return (
            f"No message of the application was received where it was recorded: {_listed(topics)} "
            f"{'has' if topics.height == 1 else 'have'} no recorded subscription."
        )
    silent = nothing.filter(pl.col("heard") > 0)
    if silent.is_empty():
        return None
    out_of = f" of {topics.height}" if topics.height > 1 else ""
    return (
        f"No message is known to have arrived on {silent.height}{out_of} "
        f"topic{'s' * (topics.height > 1)} of the application: {_listed(silent, 'heard')}."
    )


def scope(traffic: pl.DataFrame, chosen: Collection[str]) -> str | None:
    """Return a sentence on the share of `chosen` in the application, and on its worst topics.

    Parameters
    ----------
    traffic
        Frame from `roslens.analysis.measures.samples.topic_traffic`.
    chosen
        The topics that the headline covers.

    Returns
    -------
    The sentence; None where the application has no other topic.
    """
    own_topics = traffic.filter("own")
    spoken = own_topics.filter(pl.col("topic").is_in(list(chosen)))
    if own_topics.is_empty() or own_topics.height == spoken.height:
        return None
    name = " and ".join(sorted(chosen)[:_NAMED])
    verb = "is" if len(chosen) == 1 else "are"
    if spoken.is_empty():
        clauses = [
            f"{name} {verb} none of the {counted(own_topics.height, 'topic')} of the application"
        ]
    else:
        percent = 100 * int(spoken["messages"].sum()) / int(own_topics["messages"].sum())
        share = f"{percent:.0f}" if percent >= 1 else "under 1"
        share = "over 99" if share == "100" and percent < 100 else share
        part = f"{spoken.height} of {own_topics.height} topics of the application"
        clauses = [f"{name} {verb} {part}, with {share} % of its messages"]
    if own_topics["delivered"].sum() > spoken["delivered"].sum():
        slow, long = (
            _topic_with_greatest(own_topics, "latency_ns"),
            _topic_with_greatest(own_topics, "longest_ns"),
        )
        # The clocks of hosts may forbid saying those of some topics.
        untold = own_topics.filter(pl.col("arrived") > 0)["latency_ns"].null_count()
        known, longest = ("" if not untold else " whose latency is known"), long["longest_ns"]
        if slow["latency_ns"] is not None:
            clauses.append(
                f"none of the others{known} is slower at the median"
                if slow["topic"] in chosen
                else f"the slowest{known} is {slow['topic']} with "
                f"{milliseconds(slow['latency_ns'], 3)} ms at the median of {slow['delivered']:,}"
            )
        if longest is not None:
            clauses.append(
                f"the longest {'known ' if untold else ''}latency is {milliseconds(longest, 3)} ms "
                f"on {long['topic']}"
            )
    with_known = own_topics.with_columns(known=pl.col("lost") + pl.col("arrived"))
    worst = _topic_with_greatest(
        with_known.with_columns(loss=pl.col("lost") / pl.col("known")), "loss"
    )
    if worst["lost"]:
        ways = {name: worst[name] for name in ("lost", "replaced", "overwritten")}
        ways["lost"] -= ways["replaced"] + ways["overwritten"]
        clauses.append(
            f"the greatest share is lost on {worst['topic']}, {worst['lost']:,} of "
            f"{worst['known']:,} ({how_lost(ways)})"
        )
    unheard = own_topics.filter(pl.col("heard") == 0)
    if unheard.height:
        has = "has" if unheard.height == 1 else "have"
        clauses.append(f"{_listed(unheard)} {has} no recorded subscription")
    return "; ".join(clauses) + "."


def untold(calls: pl.LazyFrame, health: pl.LazyFrame) -> str | None:
    """Return a sentence on services and actions without events of requests; None: no such service.

    Parameters
    ----------
    calls, health
        ``service_calls`` and ``health`` with ``run``.
    """
    findings = health.collect()
    blind = findings.filter(kind="missing_events", where="service_calls")["run"]
    own = ~has_every_node("service") & ~internal("service")
    called = calls.filter(pl.col("run").is_in(blind.implode()), own)
    service = pl.col("service").cast(pl.String)
    names = called.select(service.unique().sort()).collect()["service"].to_list()
    names += findings.filter(kind="goals_not_recorded")["where"].unique().sort().to_list()
    if not names:
        return None
    return (
        f"Calls and goals of {some_of(names, _NAMED)} are not known: no events of "
        "requests were recorded, which ROS 2 has from Kilted on."
    )


def _topic_with_greatest(topics: pl.DataFrame, column: str) -> dict[str, Any]:
    """Return the topic with the greatest value of a column; among equals its name decides."""
    order = [pl.col(column).fill_nan(None), pl.col("topic")]
    return topics.sort(order, descending=[True, False], nulls_last=True).row(0, named=True)


def _listed(topics: pl.DataFrame, count: str = "messages") -> str:
    """Return ``/a (12 messages), /b (3) and 2 more``, with the most messages first."""
    rows = topics.sort(count, "topic", descending=[True, False]).select("topic", count).rows()
    named = [f"{topic} ({number:,})" for topic, number in rows]
    named[0] = named[0].replace(")", " messages)" if rows[0][1] != 1 else " message)")
    return some_of(named, _NAMED)
