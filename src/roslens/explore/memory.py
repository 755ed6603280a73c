"""Explore the memory and CPU use of processes, and whether memory climbs: ``run.memory``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from roslens.analysis.figures.picture import Picture
from roslens.analysis.leaks.report import LeaksParameters, LeaksReport
from roslens.analysis.measures.resources import usage_over_time
from roslens.explore.noun import Noun, estimates_frame, picture_of, shows_section
from roslens.explore.processes import processes_of

if TYPE_CHECKING:
    from roslens.runs import Runs


class Memory(Noun[LeaksReport]):
    """Memory and CPU use of processes, and whether memory climbs."""

    loss_first = shows_section(LeaksReport.loss)
    verdicts = shows_section(LeaksReport.verdicts)
    history = shows_section(LeaksReport.over_time)
    slopes = shows_section(LeaksReport.slopes)
    heap = shows_section(LeaksReport.heap)
    why_no_peak = shows_section(LeaksReport.why_no_peak)
    statements = shows_section(LeaksReport.statements)

    def _made(self, run: Runs, parameters: Mapping[str, object]) -> LeaksReport:
        return LeaksReport(run, LeaksParameters.checked(parameters))

    def frame(self) -> pl.DataFrame:
        """Return the resource use of each process at each sample.

        Returns
        -------
        One row per process and sample: ``run``, ``process``, ``vpid``, ``seconds`` (s since the
        run's first sample), ``cpu`` (cores, since the previous sample), ``pss_bytes``,
        ``rss_bytes`` (null if memory was not read).
        """
        return usage_over_time(self._run.resources.filter(self._counting))

    def processes(self) -> pl.DataFrame:
        """Return the CPU use of each process of runs that count, and its nodes.

        Returns
        -------
        One row per cell and process, the heaviest users first, as in
        `roslens.analysis.overview.processes.processes_overview`: ``cell``, ``process``, ``nodes``,
        ``runs``, ``cpu`` (cores), ``callbacks`` (fraction of the time, 0..1), ``pss_bytes``. The
        nodes of one process share its CPU time; ``callbacks.summary`` has each callback's ``busy``.
        """
        return processes_of(self._run, self._report().counting)

    def estimates(self, by: Sequence[str] | None = None, *, full: bool = False) -> pl.DataFrame:
        """Estimate slopes and levels of memory, with intervals over runs.

        Parameters
        ----------
        by
            Factors that make the cells; None: all factors.
        full
            Whether to add what each estimate rests on, as in `run.latency.estimates`.

        Returns
        -------
        One row per metric (``memory_slope`` in B/s, ``memory_slope_per_message``,
        ``memory_baseline`` in bytes, ...) and cell, as in ``run.latency.estimates``.

        Raises
        ------
        UsageError
            There is no such factor.
        """
        return estimates_frame(self._report(by).estimates, full=full)

    def leaks(self, by: Sequence[str] | None = None) -> pl.DataFrame:
        """Return whether memory climbs, and the smallest climb that would have been detected.

        Parameters
        ----------
        by
            As in `estimates`.

        Returns
        -------
        One row per cell: the factors, ``verdict``, ``runs``, ``slope_B_per_s``, ``low_B_per_s``,
        ``high_B_per_s``, ``minimum_detectable_B_per_s`` (B/s), the same columns per message,
        ``bend_s``, ``from_s``, ``to_s`` (s), ``refused``, ``why``.

        Raises
        ------
        UsageError
            There is no such factor.
        """
        return self._report(by).files()["leaks.csv"]

    def over_time(self, by: Sequence[str] | None = None) -> Picture:
        """Draw memory [MB] over time [s] of each run, with the judged slope.

        Parameters
        ----------
        by
            As in `estimates`.

        Raises
        ------
        UsageError
            There is no such factor, or memory was not recorded.
        """
        return picture_of(self._report(by).over_time())

    def intervals(self, by: Sequence[str] | None = None) -> Picture:
        """Draw `leaks`: the verdict of each cell, with its slope [kB/s].

        Parameters
        ----------
        by
            As in `estimates`.

        Raises
        ------
        UsageError
            There is no such factor, or no run.
        """
        return picture_of(self._report(by).verdicts())
