"""Chains that are watched: how long they take, and how often they miss their deadline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import polars as pl

from roslens.analysis.flow.chain import Chain
from roslens.analysis.overview.in_range import chains_overview
from roslens.live.triggers import Settings, Tables, Trigger, deadlines, trigger_of
from roslens.recording import UsageError

Watched = tuple[str, Trigger | None]
"""A chain, and its deadline where it has one."""


def watched_chains(texts: Iterable[str], settings: Settings | None) -> list[Watched]:
    """Those that are named, as ``/a -> /t -> /b > 100 ms`` or without a deadline, and triggers'.

    Raises
    ------
    UsageError
        A text is none.
    """
    found: list[Watched] = []
    for text in texts:
        try:
            one = trigger_of(f"deadline of {text}") if re.search(r" [<>]", text) else None
            found.append((str(Chain.of(str(one.of if one else text))), one))
        except UsageError as error:
            raise UsageError(f"--chain: {error}") from error
    found += [
        (one.of, one if one.kind == "deadline" else None)
        for one in (settings.triggers if settings else ())
        if one.of is not None and "->" in one.of
    ]
    timed = {chain for chain, one in found if one is not None}
    return [x for x in dict.fromkeys(found) if x[1] is not None or x[0] not in timed]


def chain_figures(
    watched: Sequence[Watched], tables: Tables, begin_ns: int, end_ns: int
) -> pl.DataFrame:
    """Of each chain what began in a stretch of time.

    Returns
    -------
    polars.DataFrame
        As of `chains_overview`, and ``deadline_ms``, and ``missed``: how many were not at the end
        by their deadline, as a trigger tells; null without a deadline, and where the stretch is no
        longer than that: nobody knows then.
    """
    rows = []
    for chain, one in watched:
        found = chains_overview([tables.along(chain)], begin_ns, end_ns)
        missed = None
        if one is not None and one.limit < end_ns - begin_ns:
            late = pl.col("value").is_null() | (pl.col("value") > one.limit)
            began = pl.col("since").is_between(begin_ns, end_ns)
            missed = deadlines(one, tables).filter(late & began & (pl.col("at") <= end_ns)).height
        limit = None if one is None else one.limit / 1e6
        rows.append(found.with_columns(
            deadline_ms=pl.lit(limit, pl.Float64), missed=pl.lit(missed, pl.UInt32)
        ))  # fmt: skip
    return pl.concat(rows)
