"""Report which functions callbacks spend their time in: sentences and bars."""

from __future__ import annotations

import polars as pl

from roslens.analysis.figures.stacks import function_shares
from roslens.analysis.measures.callbacks import number_namesakes
from roslens.analysis.measures.stacks import (
    CALLBACK,
    as_samples,
    assign_to_executions,
    busiest,
    callback_title,
    ended,
    shares,
    time_by_function,
    waits_of_slow,
)
from roslens.analysis.reports.base import Part
from roslens.analysis.reports.table import Sentence

_TOLD = 5


def dominant_functions(table: pl.DataFrame) -> list[str]:
    """Say in which function each of the busiest callbacks spends most, a sentence each.

    Parameters
    ----------
    table
        From `shares`.
    """
    return [
        f"The {callback_title(row['kind'], row['name'], row['node'])} spends "
        f"{row['self_share']:.0%} of its CPU time in {row['function']} "
        f"({row['slow_share']:.0%} with what that calls in its "
        f"slowest tenth, {row['total_share']:.0%} in all; {row['samples']:,} samples)."
        for row in table.unique(CALLBACK, keep="first", maintain_order=True)
        .drop_nulls("slow_share")
        .head(_TOLD)
        .iter_rows(named=True)
    ]


def waits_in(table: pl.DataFrame) -> list[str]:
    """Say where slow executions of the longest-waiting callbacks wait, a sentence each.

    Parameters
    ----------
    table
        From `waits_of_slow`.
    """
    return [
        f"The slow executions of the {callback_title(row['kind'], row['name'], row['node'])} wait "
        f"{row['share']:.0%} of their time, {row['place_share']:.0%} in {row['place']}."
        for row in table.head(_TOLD).iter_rows(named=True)
    ]


def functions_parts(
    samples: pl.LazyFrame, waits: pl.LazyFrame, instances: pl.LazyFrame, level: float
) -> list[Part]:
    """Return sentences on what was recorded, and bars of the callback with the most CPU time.

    Parameters
    ----------
    samples, waits, instances
        The tables ``cpu_samples``, ``waits`` and ``callback_instances`` with ``run``.
    level
        Nominal coverage of the intervals, 0..1.
    """
    if not any(table.head(1).collect().height for table in (samples, waits)):
        return []
    instances = number_namesakes(instances)
    waited, sampled = (
        assign_to_executions(as_samples(waits), instances),
        assign_to_executions(samples, instances),
    )
    sentences: list[Part] = [
        Sentence(text) for text in waits_in(waits_of_slow(waited, ended(waited, instances)))
    ]
    first = busiest(sampled)
    if not first.height:
        return sentences
    table = shares(time_by_function(sampled), sampled, ended(sampled, instances), level)
    about = first.row(0, named=True)
    mine = table.join(first.select(CALLBACK).unique(), on=CALLBACK, how="semi", nulls_equal=True)
    title = callback_title(about["kind"], about["name"], about["node"])
    return [
        *map(Sentence, dominant_functions(table)),
        *sentences,
        function_shares(mine, f"The {title}"),
    ]
