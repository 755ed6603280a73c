"""Compute how long watched chains take, and how often they miss their deadline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import polars as pl

from roslens.analysis.flow.chain import Chain
from roslens.analysis.overview.in_range import chains_overview
from roslens.live.triggers import Settings, Tables, Trigger, deadlines, trigger_of
from roslens.recording import UsageError

Watched = tuple[str, Trigger | None]
"""A chain, and its deadline trigger if it has one."""


def watched_chains(texts: Iterable[str], settings: Settings | None) -> list[Watched]:
    """Parse chains such as ``/a -> /t -> /b > 100 ms`` (deadline optional); add those of triggers.

    Raises
    ------
    UsageError
        A text is not a chain.
    """
    watched: list[Watched] = []
    for text in texts:
        try:
            trigger = trigger_of(f"deadline of {text}") if re.search(r" [<>]", text) else None
            watched.append((str(Chain.of(str(trigger.subject if trigger else text))), trigger))
        except UsageError as error:
            raise UsageError(f"--chain: {error}") from error
    watched += [
        (trigger.subject, trigger if trigger.kind == "deadline" else None)
        for trigger in (settings.triggers if settings else ())
        if trigger.subject is not None and "->" in trigger.subject
    ]
    timed = {chain for chain, trigger in watched if trigger is not None}
    return [pair for pair in dict.fromkeys(watched) if pair[1] is not None or pair[0] not in timed]


def chain_figures(
    watched: Sequence[Watched], tables: Tables, begin_ns: int, end_ns: int
) -> pl.DataFrame:
    """Compute figures of each chain's instances that began in an interval.

    Returns
    -------
    polars.DataFrame
        Columns of `chains_overview`, ``deadline_ms``, and ``missed``: the number of instances that
        did not reach the end by their deadline, as a trigger judges; null without a deadline, and
        where it is not known: if the interval is no longer than the deadline, or no instance was
        complete so far.
    """
    rows = []
    for chain, trigger in watched:
        overview = chains_overview([tables.instances_of(chain)], begin_ns, end_ns)
        missed = None
        if trigger is not None and trigger.limit < end_ns - begin_ns and tables.was_complete(chain):
            late = pl.col("value").is_null() | (pl.col("value") > trigger.limit)
            began = pl.col("since").is_between(begin_ns, end_ns)
            missed = (
                deadlines(trigger, tables).filter(late & began & (pl.col("at") <= end_ns)).height
            )
        limit = None if trigger is None else trigger.limit / 1e6
        rows.append(overview.with_columns(
            deadline_ms=pl.lit(limit, pl.Float64), missed=pl.lit(missed, pl.UInt32)
        ))  # fmt: skip
    return pl.concat(rows)
