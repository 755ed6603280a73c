"""Show how many events of a run were recorded when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from roslens.analysis.figures.plot import Plot
from roslens.analysis.measures.seen import missing_events, seen_in_steps
from roslens.recording import UsageError

if TYPE_CHECKING:
    from roslens.analysis.reports.given import Tables


def steps_of(tables: Tables, run: str) -> pl.DataFrame:
    """Return `seen_in_steps` of a run.

    Raises
    ------
    UsageError
        There is no such run, its events are absent, or it has none.
    """
    processes = tables.only(run).table("processes").collect()
    steps = seen_in_steps(tables.raw_events(run), processes)
    if steps.is_empty():
        raise UsageError(f"{run}: no event was recorded")
    return steps


def seen_of(tables: Tables, run: str) -> Plot:
    """Draw how many events of a run were recorded when.

    Raises
    ------
    UsageError
        See `steps_of`.
    """
    from roslens.analysis.figures.seen import seen_over_time  # noqa: PLC0415  (half a second)

    steps = steps_of(tables, run)
    losses = tables.only(run).table("losses").collect()
    return seen_over_time(steps, missing_events(losses, steps), run)


def lossiest(tables: Tables) -> str:
    """Return the name of the run of which most is missing, else of the first run."""
    largest = max(
        tables.tracer_loss,
        key=lambda loss: loss.discarded_events + loss.lost_packets + loss.truncated,
    )
    return largest.run.name


def seen_where_lost(tables: Tables) -> list[Plot]:
    """Draw the run of which most is missing; [] if nothing is missing or there are no events."""
    if not any(loss.any for loss in tables.tracer_loss):
        return []
    try:
        return [seen_of(tables, lossiest(tables))]
    except UsageError:
        return []
