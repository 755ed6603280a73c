"""Explore how executors spend their time, and which one is slower: ``run.executors``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import polars as pl

from roslens.analysis.figures.picture import Picture
from roslens.collectors.views import matching
from roslens.explore.noun import Noun, estimates_frame, picture_of, shows_section
from roslens.recording import UsageError
from roslens.studies.executors.report import ExecutorsParameters, ExecutorsReport

if TYPE_CHECKING:
    from roslens.runs import Runs


class Executors(Noun[ExecutorsReport]):
    """Time use of executors, and which of them is slower or takes more CPU.

    ``factor`` is the factor whose levels are compared in pairs; None: ``executor``.
    """

    loss_first = shows_section(ExecutorsReport.loss)
    work_done = shows_section(ExecutorsReport.work_done)
    cpu = shows_section(ExecutorsReport.cpu)
    busy = shows_section(ExecutorsReport.busy)
    compared = shows_section(ExecutorsReport.compared)
    factor_effects = shows_section(ExecutorsReport.factor_effects)
    entities = shows_section(ExecutorsReport.entities)
    tools = shows_section(ExecutorsReport.tools)
    statements = shows_section(ExecutorsReport.statements)

    def _made(self, run: Runs, parameters: Mapping[str, object]) -> ExecutorsReport:
        return ExecutorsReport(run, ExecutorsParameters.checked(parameters))

    def _report_of(self, factor: str | None) -> ExecutorsReport:
        if factor is None:
            return self._report()
        matching(factor, {name for r in self._run.runs for name in r.cell}, "factor")
        return self._report(factor=factor)

    def frame(self) -> pl.DataFrame:
        """Return what executor threads did when, for executors that record such events.

        Returns
        -------
        One row per interval: ``run``, the factors, all columns of ``executor_intervals``
        (``state``: wait, busy or blocked; ``begin_ns``, ``end_ns``: ns since the epoch;
        ``duration_ns``, ``callback_ns``: ns).
        """
        rows = self._run.table("executor_intervals").filter(self._counting)
        return rows.sort("run", "begin_ns").collect()

    def estimates(self, by: Sequence[str] | None = None, *, full: bool = False) -> pl.DataFrame:
        """Estimate the work's duration, CPU, memory, waiting and working, with intervals over runs.

        Parameters
        ----------
        by
            Factors that make the cells; None: all factors.
        full
            Whether to add what each estimate rests on, as in `run.latency.estimates`.

        Returns
        -------
        One row per metric (``latency_p50`` in ns, ``cpu`` in cores, ``rss`` in bytes,
        ``executor_wait`` 0..1, ...) and cell, as in ``run.latency.estimates``.

        Raises
        ------
        UsageError
            There is no such factor.
        """
        return estimates_frame(self._report(by).estimates, full=full)

    def pairs(self, factor: str | None = None) -> pl.DataFrame:
        """Compare all pairs of levels of a factor: over all conditions with both, then in each.

        Parameters
        ----------
        factor
            The factor; None: ``executor``.

        Returns
        -------
        One row per metric, condition and pair: ``metric``, the conditions (null: all), ``over``
        (their number), ``level``, ``reference``, ``ratio``, ``low``, ``high`` (level / reference,
        1: equal), ``p_holm``, ``verdict``, ``refused``. No columns if there are no two levels.

        Raises
        ------
        UsageError
            There is no such factor.
        """
        return self._report_of(factor).files()["pairs.csv"]

    def grid(self, factor: str | None = None) -> Picture:
        """Draw `pairs`: a row per metric and condition, ratios with intervals.

        Raises
        ------
        UsageError
            There is no such factor, or it has fewer than two levels.
        """
        return picture_of(self._report_of(factor).compared())

    def intervals(self, of: Literal["work", "cpu", "busy"] = "work") -> Picture:
        """Draw `estimates` against the load.

        Parameters
        ----------
        of
            ``work``: the median duration of messages, calls or goals [ms]; ``cpu``: CPU [cores];
            ``busy``: the executor's own work [%].

        Raises
        ------
        UsageError
            Nothing of this kind was recorded, or `of` is none of these.
        """
        report = self._report()
        sections = {"work": report.work_done, "cpu": report.cpu, "busy": report.busy}
        if of not in sections:
            raise UsageError(f"of: {of!r} is none of {', '.join(sections)}")
        return picture_of(sections[of]())
