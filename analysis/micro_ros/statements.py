"""What the publication states about memory, held against its own figures."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.estimate import not_none
from roslens.analysis.micro_ros.slopes import HISTORY, Slope
from roslens.analysis.verdicts.statement import Statement, Verdict

ABOUT = 0.05
"""The word "about" is taken to allow 5 %."""


def alike(one: float, other: float) -> bool:
    """Whether the other figure is about the one."""
    return abs(other - one) <= ABOUT * abs(one)


def memory_statements(claims: pl.DataFrame, slopes: Sequence[Slope]) -> list[Statement]:
    """One per claim, about the memory of an entity or of a slot of the history.

    A claim per entity says "about": it is supported where the interval lies within `ABOUT` of
    it, and not so where it lies outside. The claim per slot of the history is exact,
    so that the interval must contain it.
    """
    of = {(s.entity, s.memory): s.estimate for s in slopes}
    found = []
    for claim in claims.iter_rows(named=True):
        estimate = of.get((claim["entity"], claim["memory"]))
        exact = claim["entity"] == HISTORY
        unit = "slot" if exact else "entity"
        name = f"memory per {'slot of the history' if exact else claim['entity']}"
        stated = float(claim["claimed_bytes"])
        if estimate is None or estimate.low is None or estimate.high is None:
            because = "no figure with an interval"
            found.append(Statement(claim["said"], "cannot be judged", because, name))
            continue
        low, high = estimate.low, estimate.high
        because = f"{estimate.value:,.1f} [{low:,.1f}, {high:,.1f}] B per {unit}"
        if exact:
            holds, apart = low <= stated <= high, not low <= stated <= high
            note = f": {not_none(estimate.value) - stated:+,.1f} B per slot" if not holds else ""
        else:
            least, most = stated * (1 - ABOUT), stated * (1 + ABOUT)
            holds, apart = least <= low and high <= most, high < least or low > most
            note = f" (within {100 * ABOUT:g} %)" if holds else ""
        verdict: Verdict = "supported" if holds else "not so" if apart else "not_enough_evidence"
        found.append(Statement(claim["said"], verdict, because, name, note))
    return found


def differences_of_totals(memory: pl.DataFrame) -> pl.DataFrame:
    """Total minus static, stack and dynamic where all four were given, per entity and count.

    Returns
    -------
    polars.DataFrame
        ``source``, ``entity``, ``count``, ``difference_bytes``.
    """
    wide = memory.filter(pl.col("memory").is_in(["static", "stack", "dynamic", "total"])).pivot(
        "memory", index=["source", "entity", "count"], values="bytes", aggregate_function="first"
    )
    for kind in ("static", "stack", "dynamic", "total"):
        if kind not in wide.columns:
            wide = wide.with_columns(pl.lit(None, dtype=pl.Float64).alias(kind))
    return (
        wide.drop_nulls(["static", "stack", "dynamic", "total"])
        .with_columns(
            (pl.col("total") - pl.col("static") - pl.col("stack") - pl.col("dynamic")).alias(
                "difference_bytes"
            )
        )
        .select("source", "entity", "count", "difference_bytes")
    )
