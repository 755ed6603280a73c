"""``run.executors``: how executors spend their time, and which one is slower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import polars as pl

from roslens.analysis.figures.picture import Picture
from roslens.collectors.views import matching
from roslens.explore.noun import Noun, estimates_frame, picture_of, shown
from roslens.recording import UsageError
from roslens.studies.executors.report import ExecutorsParameters, ExecutorsReport

if TYPE_CHECKING:
    from roslens.runs import Runs


class Executors(Noun[ExecutorsReport]):
    """How executors spend their time, and which of them is slower or takes more CPU.

    ``factor`` is the one whose levels are compared two by two; none: ``executor``.
    """

    answer = shown(ExecutorsReport.answer)
    loss_first = shown(ExecutorsReport.loss)
    work_done = shown(ExecutorsReport.work_done)
    cpu = shown(ExecutorsReport.cpu)
    busy = shown(ExecutorsReport.busy)
    compared = shown(ExecutorsReport.compared)
    factor_effects = shown(ExecutorsReport.factor_effects)
    entities = shown(ExecutorsReport.entities)
    tools = shown(ExecutorsReport.tools)
    statements = shown(ExecutorsReport.statements)
    definitions = shown(ExecutorsReport.definitions)
    write = shown(ExecutorsReport.write)

    def _made(self, run: Runs, parameters: Mapping[str, object]) -> ExecutorsReport:
        return ExecutorsReport(run, ExecutorsParameters.checked(parameters))

    def _of(self, factor: str | None) -> ExecutorsReport:
        if factor is None:
            return self._report()
        matching(factor, {name for r in self._run.runs for name in r.cell}, "factor")
        return self._report(factor=factor)

    def frame(self) -> pl.DataFrame:
        """What the threads of executors did when, of executors that say so (events).

        Returns
        -------
        One row per stretch: ``run``, the factors, all columns of ``executor_intervals``
        (``state``: wait, execute or blocked; ``begin_ns``, ``end_ns``: ns since the epoch;
        ``duration_ns``, ``callback_ns``: ns).
        """
        rows = self._run.table("executor_intervals").filter(self._counting)
        return rows.sort("run", "begin_ns").collect()

    def estimates(self, by: Sequence[str] | None = None, *, full: bool = False) -> pl.DataFrame:
        """How long the work took, CPU, memory, waiting and working, with intervals over runs.

        Parameters
        ----------
        by
            Factors that make the cells; none: all.
        full
            Also what each rests on, as of `run.latency.estimates`.

        Returns
        -------
        One row per metric (``latency_p50`` in ns, ``cpu`` in cores, ``rss`` in bytes,
        ``executor_wait`` 0..1, ...) and cell, as of ``run.latency.estimates``.

        Raises
        ------
        UsageError
            There is no such factor.
        """
        return estimates_frame(self._report(by).estimates, full=full)

    def pairs(self, factor: str | None = None) -> pl.DataFrame:
        """All pairs of levels of a factor: over all conditions that have both, then within each.

        Parameters
        ----------
        factor
            Which one; none: ``executor``.

        Returns
        -------
        One row per metric, condition and pair: ``metric``, the conditions (null: all), ``over``
        (how many), ``level``, ``reference``, ``ratio``, ``low``, ``high`` (level / reference, 1:
        the same), ``p_holm``, ``verdict``, ``refused``. No columns where there are no two levels.

        Raises
        ------
        UsageError
            There is no such factor.
        """
        return self._of(factor).files()["pairs.csv"]

    def grid(self, factor: str | None = None) -> Picture:
        """`pairs` as a picture: a row per metric and condition, ratios with intervals.

        Raises
        ------
        UsageError
            There is no such factor, or it has no two levels.
        """
        return picture_of(self._of(factor).compared())

    def intervals(self, of: Literal["work", "cpu", "busy"] = "work") -> Picture:
        """`estimates` as a picture, against the load.

        Parameters
        ----------
        of
            ``work``: how long messages, calls or goals took at the median [ms]; ``cpu``: CPU
            [cores]; ``busy``: the executor's own work [%].

        Raises
        ------
        UsageError
            Nothing of it was recorded, or there is no such thing.
        """
        report = self._report()
        sections = {"work": report.work_done, "cpu": report.cpu, "busy": report.busy}
        if of not in sections:
            raise UsageError(f"of: {of!r} is none of {', '.join(sections)}")
        return picture_of(sections[of]())
