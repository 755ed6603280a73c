"""Explore when callbacks run, for how long, and their triggers: ``run.timing_model()``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from roslens.analysis.figures.drawing import Drawing
from roslens.analysis.timing.recorded import recorded_timing
from roslens.analysis.timing.schema import TimingModel
from roslens.analysis.timing.schema import read_timing_model as read_model
from roslens.analysis.timing.views import callbacks_frame, graph, links_frame
from roslens.paths import PathLike, resolve
from roslens.recording import UsageError

if TYPE_CHECKING:
    from roslens.runs import Runs


@dataclass(frozen=True)
class Timing:
    """Timing model with frames and a graph.

    Attributes
    ----------
    model
        The model as stored in JSON; all its times are in ns.
    """

    model: TimingModel

    @classmethod
    def recorded(cls, run: Runs, warm_up: float | None = None) -> Timing:
        """Return the timing model of one run.

        Parameters
        ----------
        warm_up
            Time left out at the start, s; None: a tenth of the time, 5 s at most.

        Raises
        ------
        UsageError
            There are several runs, or `warm_up` is negative.
        NotEnoughEvidenceError
            No callback ran after the warm-up.
        """
        if len(run.runs) != 1:
            raise UsageError(
                f"a timing model is of one run, and these are {len(run.runs)}: take one of them"
            )
        if warm_up is not None and warm_up < 0:
            raise UsageError(f"warm_up: {warm_up:g} s is negative")
        return cls(recorded_timing(run, run.runs[0], warm_up))

    def frame(self) -> pl.DataFrame:
        """Return the known properties of each callback.

        Returns
        -------
        One row per callback: ``callback_id``, ``kind``, ``name``, ``node``, ``executor`` (number),
        ``executor_kind``, ``executor_kind_from`` (manifest, events, given, or guess: no executor's
        events were recorded), ``threads``, ``priority``, ``group``, ``reentrant`` (null: unknown),
        ``queue_depth``, ``period_ns``, ``jitter_ns``, ``rate_hz``, ``executions``,
        ``execution_p50_ns``, ``_p99_ns`` and ``_max_ns``, ``wait_p50_ns`` and ``_p99_ns`` (ready to
        start), ``publishes`` (topics).
        """
        return callbacks_frame(self.model)

    def links(self) -> pl.DataFrame:
        """Return which callback triggers which.

        Returns
        -------
        One row per callback, topic and receiver: ``callback_id``, ``topic``, ``receiver_id``,
        ``messages``, ``per_execution``, ``offset_p50_ns`` (start to publication, ns).
        """
        return links_frame(self.model)

    def graph(self) -> Drawing | None:
        """Draw callbacks with execution times [ms] and their triggers; None if there is nothing."""
        return graph(self.model)

    def to_json(self) -> str:
        """Return the model as JSON text, which `read_timing_model` reads from a file."""
        return self.model.to_json()

    def write(self, path: PathLike) -> None:
        """Write the model to a file, which `read_timing_model` reads.

        Raises
        ------
        UsageError, RunFailedError
            The file cannot be written; RunFailedError if the disk is full.
        """
        self.model.write(resolve(path))

    def __repr__(self) -> str:
        of = self.model
        took = "by itself" if of.execution_time == "own" else "from start to end"
        return (
            f"{len(of.callbacks)} callbacks in {len(of.executors)} executors over "
            f"{of.length_ns / 1e9:.1f} s, after a start-up of {of.start_up_ns / 1e9:.1f} s; each "
            f"execution is timed {took}"
        )


def read_timing_model(path: PathLike) -> Timing:
    """Read a timing model from the JSON that ``Timing.write`` wrote, edited or not.

    Raises
    ------
    UsageError
        The file cannot be read or is not a timing model.
    """
    return Timing(read_model(resolve(path)))
