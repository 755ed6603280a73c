"""Open recordings and ask about them: ``rl.open(path)``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from roslens.analysis.interop.tracetools_model import ros2_data_model, tracetools_frames
from roslens.opening import Progress, open_as
from roslens.paths import PathLike, resolve
from roslens.recording import UsageError
from roslens.recording.arrays import need_numpy
from roslens.runs import Runs

if TYPE_CHECKING:
    from roslens.explore.callbacks import Callbacks
    from roslens.explore.chains import Chains
    from roslens.explore.communication import Communication
    from roslens.explore.comparing import Comparison
    from roslens.explore.executors import Executors
    from roslens.explore.latency import Latency
    from roslens.explore.loss import Loss
    from roslens.explore.memory import Memory
    from roslens.explore.stacks import Stacks
    from roslens.explore.timing import Timing
    from roslens.explore.what_if import WhatIf
    from roslens.explore.why import Why

# The code with which nouns compute and draw is imported when a noun is first used.
# ruff: noqa: PLC0415


def open(  # noqa: A001  (reads well as rl.open)
    paths: PathLike | Iterable[PathLike],
    *,
    factors: PathLike | None = None,
    collect: bool = True,
    progress: Progress | None = None,
) -> Recordings:
    """Open recordings as tables over all runs; missing tables are made.

    Parameters
    ----------
    paths
        A recording, a folder of recordings, an archive of one (written by ``roslens pack``, or
        tar.gz, tar.xz, tar.zst, zip; unpacked once into the user's cache), or several of these.
        A path that does not exist relative to the working directory is searched from its parents,
        then in the data shipped with roslens.
    factors
        A CSV file with factors and repetition of recordings without a manifest, by path
        or name (see `roslens.factors`). A folder of bare traces then has one recording per
        row.
    collect
        Whether to make tables that are missing or out of date. Recordings in a place that is not
        writable are collected into the user's cache.

    Raises
    ------
    UsageError
        A path does not exist or contains no recording, a trace cannot be read, or the factors do
        not fit the recordings.
    """
    need_numpy()
    return open_as(Recordings, paths, factors=factors, collect=collect, progress=progress)


# This name is for modules in which `open` would hide the built-in.
open_recordings = open


class Recordings(Runs):
    """Runs with their tables and the nouns that analyse them.

    ``latency``, ``why``, ``callbacks``, ``chains``, ``executors``, ``memory`` and ``loss`` give
    frames and pictures, ``compare`` and ``check`` give verdicts; `view` and `only` select a part.

    Every table of the schema is an attribute, a lazy frame over all runs: ``run`` (the run's
    name) and one column per factor come first (``factor_<name>`` if the table has a column of
    that name), null for a run without the factor. A run that lacks a table has no rows in it.
    ``help(rl.Recordings.messages)`` describes the columns of a table. ``len`` is the number
    of runs, and iteration yields each run by itself.

    >>> recordings = rl.open("data/samples")
    >>> recordings.messages.filter(pl.col("outcome") == "lost").collect()
    """

    def to_tracetools_data_model(self) -> Any:
        """Return a single run's raw events as frames of tracetools_analysis' ``Ros2DataModel``.

        Returns
        -------
        Ros2DataModel or analysis.interop.tracetools_model.TracetoolsDataModel
            The class itself if tracetools_analysis can be imported, else an object with the
            same frames (pandas). Views do not apply.

        Raises
        ------
        UsageError
            There are several runs (addresses of one run mean nothing in another), or the run was
            not collected.
        """
        if len(self.recordings) != 1:
            raise UsageError(
                f"a tracetools data model is of one run, and these are {len(self.recordings)}: "
                "open one of them"
            )
        return ros2_data_model(tracetools_frames(self.raw_events(self.runs[0].name)))

    @cached_property
    def latency(self) -> Latency:
        """Explore message latency: ``frame``, ``estimates``, ``ecdf``, ``over_time``, ..."""
        from roslens.explore.latency import Latency

        return Latency(self)

    @cached_property
    def callbacks(self) -> Callbacks:
        """Explore callback durations: ``frame``, ``summary``, ``estimates``, ``durations``, ..."""
        from roslens.explore.callbacks import Callbacks

        return Callbacks(self)

    @cached_property
    def chains(self) -> Chains:
        """Explore chains from sensor to actuator: ``frame``, ``parts``, ``estimates``, ..."""
        from roslens.explore.chains import Chains

        return Chains(self)

    @cached_property
    def executors(self) -> Executors:
        """Explore executors' use of time: ``frame``, ``estimates``, ``pairs``, ``grid``, ..."""
        from roslens.explore.executors import Executors

        return Executors(self)

    @cached_property
    def memory(self) -> Memory:
        """Explore memory and CPU use, and whether memory climbs: ``frame``, ``leaks``, ..."""
        from roslens.explore.memory import Memory

        return Memory(self)

    @cached_property
    def loss(self) -> Loss:
        """Explore losses of the tracer and of messages: ``frame``, ``estimates``, ``tracer`` ..."""
        from roslens.explore.loss import Loss

        return Loss(self)

    @cached_property
    def communication(self) -> Communication:
        """Compare ways of communication: ``frame``, ``estimates``, ``periods``, ``backlog`` ..."""
        from roslens.explore.communication import Communication

        return Communication(self)

    @cached_property
    def stacks(self) -> Stacks:
        """Explore callbacks' CPU time by function: ``frame``, ``functions``, ``changed`` ..."""
        from roslens.explore.stacks import Stacks

        return Stacks(self)

    @cached_property
    def why(self) -> Why:
        """Explore which messages were late, and why: ``frame``, ``estimates``, ``plot``."""
        from roslens.explore.why import Why

        return Why(self)

    def timing_model(self, warm_up: float | None = None) -> Timing:
        """Return when a single run's callbacks ran, for how long, and what triggered them.

        The model can be written as JSON, edited, read (``rl.read_timing_model``) and simulated
        (``roslens predict``).

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
        from roslens.explore.timing import Timing

        return Timing.recorded(self, warm_up)

    def predict(
        self,
        *,
        executor: str | None = None,
        threads: int | None = None,
        cpus: int | None = None,
        change: Sequence[str] = (),
        rate: Sequence[str] = (),
        recorded: str | None = None,
        warm_up: float | None = None,
        seed: int = 1,
    ) -> WhatIf:
        """Predict latency, loss and CPU after changes: ``frame``, ``tables``, ``plot``.

        Parameters
        ----------
        executor, threads, cpus
            The executor, threads and CPUs to simulate; None: as recorded.
        change
            Changed execution times, such as ``callback=/planner:+2ms``.
        rate
            Changed rates of topics, such as ``/scan=60Hz``.
        recorded
            The executor of the recording, if the recording does not name it.
        warm_up
            Time left out at the start, s; None: a tenth of the time, 5 s at most.
        seed
            Seed of the simulation; the same seed gives the same prediction.

        Raises
        ------
        UsageError
            A change cannot be read or does not fit.
        NotEnoughEvidenceError
            No callback ran after the warm-up.
        """
        from roslens.analysis.what_if.changes import Changes, DurationChange, executor_kind, rate_of
        from roslens.explore.what_if import WhatIf

        asked, recorded_kind = (
            executor_kind(name) if name else None for name in (executor, recorded)
        )
        overrides = [DurationChange.of(text) for text in change], [rate_of(text) for text in rate]
        return WhatIf.of(
            self, Changes(asked, threads, cpus, *overrides), recorded_kind, warm_up, seed
        )

    def path(self) -> pl.DataFrame:
        """Return how each delivered message spent its time; see ``why.path``."""
        return self.why.path()

    def compare(
        self,
        new: Recordings | PathLike,
        *,
        metrics: Sequence[str] = (),
        threshold: float = 0.05,
        across_machines: bool = False,
    ) -> Comparison:
        """Compare these runs, as the base, with others: ``frame``, ``intervals``, ``sentences``.

        Parameters
        ----------
        new
            Open recordings, or the path of recordings or of a metrics.json.
        metrics
            Names such as ``latency_p99``; empty: latency, loss and CPU.
        threshold
            Largest relative change (0..1) that does not matter.
        across_machines
            Whether to compare runs of different machines; else their verdict is ``not_comparable``.

        Raises
        ------
        UsageError
            There is nothing to read, no such metric, or the threshold is not between 0 and 1.
        """
        from roslens.explore.comparing import compared

        side = new if isinstance(new, Recordings) else Path(new)
        return compared(self, side, metrics, threshold, across_machines=across_machines)

    def check(self, budgets: PathLike) -> pl.DataFrame:
        """Check these runs against budgets (a YAML file, as for ``roslens check``).

        Returns
        -------
        One row per budget and cell: ``verdict`` (within, exceeded, not_enough_evidence),
        ``budget``, ``cell``, ``value``, ``low``, ``high``, ``limit`` (in ``unit``), ``unit``,
        ``runs``, ``notes``.

        Raises
        ------
        UsageError
            The file cannot be read, or a unit does not fit its metric.
        """
        from roslens.explore.comparing import checked

        return checked(self, resolve(budgets))
