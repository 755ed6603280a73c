"""``rl.open(path)``: recordings, and what can be asked of them."""

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

# What nouns compute and draw with is imported when one is asked for.
# ruff: noqa: PLC0415


def open(  # noqa: A001  (reads well as rl.open)
    paths: PathLike | Iterable[PathLike],
    *,
    factors: PathLike | None = None,
    collect: bool = True,
    progress: Progress | None = None,
) -> Recordings:
    """Open recordings: their tables over all runs, made where they are missing.

    Parameters
    ----------
    paths
        A recording, a folder that holds some, an archive of one (``roslens pack`` wrote it, or
        tar.gz, tar.xz, tar.zst, zip; unpacked into the user's cache, once), or several of these.
        What does not exist relative to the working directory is looked for from its parents, then
        among the data that ship with roslens.
    factors
        A CSV file that tells factors and repetition of recordings without a manifest, by path
        or name (see `roslens.factors`). A folder of bare traces then is as many recordings as
        have a row.
    collect
        Make the tables where they are missing or out of date. Recordings in a place that cannot
        be written to are collected into the user's cache.

    Raises
    ------
    UsageError
        A path does not exist or holds no recording, a trace cannot be read, or the factors do
        not fit the recordings.
    """
    need_numpy()
    return open_as(Recordings, paths, factors=factors, collect=collect, progress=progress)


# For modules in which `open` would hide the built-in.
open_recordings = open


class Recordings(Runs):
    """Runs, what can be asked of them, and their tables.

    ``latency``, ``why``, ``callbacks``, ``chains``, ``executors``, ``memory`` and ``loss`` give
    frames and pictures, ``compare`` and ``check`` verdicts; `view` and `only` choose a part.

    Every table of the schema is an attribute, a lazy frame over all runs: ``run`` (name of the
    run) and one column per factor come first (``factor_<name>`` where the table has a column of
    that name), null for a run without it. A run that lacks a table has no rows in it.
    ``help(rl.Recordings.messages)`` says what the columns of a table mean. ``len`` is the number
    of runs, and iteration gives each run by itself.

    >>> recordings = rl.open("data/samples")
    >>> recordings.messages.filter(pl.col("outcome") == "lost").collect()
    """

    def to_tracetools_data_model(self) -> Any:
        """The one run's raw events as frames of tracetools_analysis' ``Ros2DataModel``.

        Returns
        -------
        Ros2DataModel or analysis.interop.tracetools_model.TracetoolsDataModel
            The class itself where tracetools_analysis can be imported, else an object with the
            same frames (pandas). Views do not apply.

        Raises
        ------
        UsageError
            These are several runs (addresses of one mean nothing in another), or it was not
            collected.
        """
        if len(self.recordings) != 1:
            raise UsageError(
                f"a tracetools data model is of one run, and these are {len(self.recordings)}: "
                "open one of them"
            )
        return ros2_data_model(tracetools_frames(self.raw_events(self.runs[0].name)))

    @cached_property
    def latency(self) -> Latency:
        """How late messages are: ``frame``, ``estimates``, ``ecdf``, ``heat``, ``over_time`` ..."""
        from roslens.explore.latency import Latency

        return Latency(self)

    @cached_property
    def callbacks(self) -> Callbacks:
        """How long callbacks took: ``frame``, ``summary``, ``estimates``, ``durations``, ..."""
        from roslens.explore.callbacks import Callbacks

        return Callbacks(self)

    @cached_property
    def chains(self) -> Chains:
        """From sensor to actuator: ``frame``, ``parts``, ``estimates``, ``waterfall``, ..."""
        from roslens.explore.chains import Chains

        return Chains(self)

    @cached_property
    def executors(self) -> Executors:
        """How executors spend their time: ``frame``, ``estimates``, ``pairs``, ``grid``, ..."""
        from roslens.explore.executors import Executors

        return Executors(self)

    @cached_property
    def memory(self) -> Memory:
        """What processes used, and whether it climbs: ``frame``, ``leaks``, ``over_time``, ..."""
        from roslens.explore.memory import Memory

        return Memory(self)

    @cached_property
    def loss(self) -> Loss:
        """What was lost, by the tracer and on the way: ``frame``, ``tracer``, ``estimates``, ..."""
        from roslens.explore.loss import Loss

        return Loss(self)

    @cached_property
    def communication(self) -> Communication:
        """Ways of communication compared: ``frame``, ``estimates``, ``periods``, ``backlog`` ..."""
        from roslens.explore.communication import Communication

        return Communication(self)

    @cached_property
    def stacks(self) -> Stacks:
        """Which functions callbacks spend CPU time in: ``frame``, ``functions``, ``changed`` ..."""
        from roslens.explore.stacks import Stacks

        return Stacks(self)

    @cached_property
    def why(self) -> Why:
        """Which messages were late and what made them so: ``frame``, ``estimates``, ``plot``."""
        from roslens.explore.why import Why

        return Why(self)

    def timing_model(self, warm_up: float | None = None) -> Timing:
        """When the callbacks of the one run ran, how long, and what triggered them.

        It can be written as JSON, edited, read (``rl.read_timing_model``) and simulated
        (``roslens predict``).

        Parameters
        ----------
        warm_up
            Left out at the start, s; none: a tenth of the time, 5 s at most.

        Raises
        ------
        UsageError
            These are several runs, or `warm_up` is negative.
        NotEnoughEvidenceError
            No callback ran after it.
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
        """What latency, loss and CPU would be: ``frame``, ``tables``, ``plot``.

        Parameters
        ----------
        executor, threads, cpus
            What is asked for; none: as recorded.
        change
            Other execution times, such as ``callback=/planner:+2ms``.
        rate
            Other rates of topics, such as ``/scan=60Hz``.
        recorded
            The executor of the recording, where nothing names it.
        warm_up
            Left out at the start, s; none: a tenth of the time, 5 s at most.
        seed
            The same one gives the same prediction.

        Raises
        ------
        UsageError
            A change cannot be read or does not fit.
        NotEnoughEvidenceError
            No callback ran after the warm-up.
        """
        from roslens.analysis.what_if.changes import Changes, Took, executor_kind, rate_of
        from roslens.explore.what_if import WhatIf

        asked, recorded_kind = (
            executor_kind(name) if name else None for name in (executor, recorded)
        )
        overrides = [Took.of(text) for text in change], [rate_of(text) for text in rate]
        return WhatIf.of(
            self, Changes(asked, threads, cpus, *overrides), recorded_kind, warm_up, seed
        )

    def path(self) -> pl.DataFrame:
        """Where the time of each delivered message went; as ``why.path``."""
        return self.why.path()

    def compare(
        self,
        new: Recordings | PathLike,
        *,
        metrics: Sequence[str] = (),
        threshold: float = 0.05,
        across_machines: bool = False,
    ) -> Comparison:
        """These runs as the base, compared with others: ``frame``, ``intervals``, ``sentences``.

        Parameters
        ----------
        new
            Recordings that are open, or the path of some or of a metrics.json.
        metrics
            By name, such as ``latency_p99``; none: latency, loss and CPU.
        threshold
            Relative changes up to this (0..1) are of no importance.
        across_machines
            Compare runs of different machines; else their verdict is ``not_comparable``.

        Raises
        ------
        UsageError
            There is nothing to read, no such metric, or the threshold is not between 0 and 1.
        """
        from roslens.explore.comparing import compared

        side = new if isinstance(new, Recordings) else Path(new)
        return compared(self, side, metrics, threshold, across_machines=across_machines)

    def check(self, budgets: PathLike) -> pl.DataFrame:
        """Hold budgets (a YAML file, as of ``roslens check``) against these runs.

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
