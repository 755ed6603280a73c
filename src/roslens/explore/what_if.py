"""Predict latency, loss and CPU after a change: ``run.predict(...)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from roslens.analysis.flow.response_bounds import callback_bounds
from roslens.analysis.reports.base import Section
from roslens.analysis.runs import cells_of
from roslens.analysis.timing.recorded import recorded_timing
from roslens.analysis.timing.schema import ExecutorKind, TimingModel
from roslens.analysis.what_if.changes import Changes
from roslens.analysis.what_if.prediction import Prediction, predicted
from roslens.analysis.what_if.tables import callback_bounds_table, prediction_parts
from roslens.explore.noun import picture
from roslens.recording import UsageError

if TYPE_CHECKING:
    from roslens.analysis.figures.picture import Picture
    from roslens.runs import Runs

_FIGURE = {
    **dict.fromkeys(("metric", "unit", "topic", "node"), pl.String()),
    **dict.fromkeys(("recorded", "simulated", "value", "low", "high"), pl.Float64()),
    "refused": pl.String(),
}


def timed(
    run: Runs, warm_up: float | None = None, recorded: ExecutorKind | None = None
) -> dict[str, list[TimingModel]]:
    """Return the timing models of runs, by cell.

    Parameters
    ----------
    warm_up
        Time left out at the start, s; None: a tenth of the time, 5 s at most.
    recorded
        The executor, for recordings that do not name it.
    """
    return {
        cell: [
            recorded_timing(run.only(member.name), member, warm_up).executed_by(recorded)
            for member in members
        ]
        for cell, members in cells_of(run.runs).items()
    }


@dataclass(frozen=True)
class WhatIf:
    """Predictions with their frame, tables and plot.

    Attributes
    ----------
    predictions
        The predictions by cell; the cell is empty for runs under one condition.
    """

    predictions: Mapping[str, Prediction]
    _run: Runs
    _warm_up: float | None

    @classmethod
    def of(
        cls,
        run: Runs,
        changes: Changes,
        recorded: ExecutorKind | None,
        warm_up: float | None,
        seed: int,
    ) -> WhatIf:
        """Simulate each cell as it was recorded, then with the changes made."""
        models = timed(run, warm_up, recorded)
        predictions = {cell: predicted(timings, changes, seed) for cell, timings in models.items()}
        return cls(predictions, run, warm_up)

    @cached_property
    def _bounds(self) -> pl.DataFrame:
        return callback_bounds(self._run, self._warm_up)

    def frame(self) -> pl.DataFrame:
        """Return the recorded, simulated and predicted figures.

        Returns
        -------
        One row per figure: ``cell``, ``metric`` (``latency_p50``, ``latency_p99``: publish to
        callback_start; ``lost``: part of the messages, 0..1; ``cpu``: cores), ``unit``, ``topic``
        and ``node`` (null: all), ``recorded``, ``simulated``, ``value`` with ``low`` and ``high``
        (95 % of simulated runs; of latencies with the model's error), ``refused`` (why there is no
        prediction).
        """
        rows = [
            (cell, *(getattr(figure, name) for name in _FIGURE))
            for cell, prediction in self.predictions.items()
            for figure in prediction.figures
        ]
        return pl.DataFrame(rows, schema={"cell": pl.String(), **_FIGURE}, orient="row")

    def tables(self) -> Section:
        """Return the predictions, or why there are none, as tables, with what recordings lack."""
        return Section(*prediction_parts(self.predictions))

    def bounds(self) -> Section:
        """Return how long each callback took and takes at most, as a table.

        `run.callbacks.bounds` has the same as a frame.
        """
        return Section(callback_bounds_table(self._bounds))

    def plot(
        self, topic: str | None = None, node: str | None = None, cell: str | None = None
    ) -> Picture:
        """Draw the recorded and predicted distribution of the latency [ms].

        Parameters
        ----------
        topic, node
            A subscription's topic and node, of which the first match is drawn; None: all together.
        cell
            The cell; None: the first cell.

        Raises
        ------
        UsageError
            There is no such topic or cell, or no latency to draw.
        """
        from roslens.analysis.what_if.figures import prediction_plot  # noqa: PLC0415  (matplotlib)

        cells = list(self.predictions)
        if cell is not None and cell not in cells:
            raise UsageError(f"no cell {cell!r}; there are {', '.join(cells)}")
        prediction = self.predictions[cells[0] if cell is None else cell]
        curves = [
            curve
            for curve in prediction.curves
            if (topic or node) is None or curve.topic is not None
        ]
        curve = next(
            (
                curve
                for curve in curves
                if topic in (None, curve.topic) and node in (None, curve.node)
            ),
            None,
        )
        if curve is None:
            names = ", ".join(
                f"{curve.topic} at {curve.node}" for curve in prediction.curves if curve.topic
            )
            raise UsageError(prediction.refused or f"no latency of that; there is that of {names}")
        bounds = self._bounds.filter(
            pl.col("run").is_in(list(prediction.runs)),
            pl.col("kind") == "subscription",
            pl.col("name").eq_missing(pl.lit(curve.topic)),
            pl.col("node").eq_missing(pl.lit(curve.node)),
        )["bound_ns"]
        bound = None if bounds.null_count() else bounds.max()
        return picture(
            prediction_plot(prediction, curve, bound if isinstance(bound, int) else None)
        )

    def __repr__(self) -> str:
        return repr(self.tables())
