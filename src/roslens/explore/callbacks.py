"""Explore how long callbacks took: ``run.callbacks``."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.figures.over_time import dots_over_time
from roslens.analysis.figures.picture import Picture
from roslens.analysis.flow.response_bounds import callback_bounds
from roslens.analysis.measures.callbacks import CALLBACK, periods
from roslens.analysis.measures.latency import PERCENTILES
from roslens.analysis.measures.stacks import callback_title
from roslens.analysis.reports.numbers import counted
from roslens.analysis.statistics.quantiles import quantile
from roslens.collectors.views import matching
from roslens.explore.latency import OfMessages
from roslens.explore.noun import estimates_frame, picture, picture_of
from roslens.recording import UsageError
from roslens.recording.text import some_of


class Callbacks(OfMessages):
    """Durations of callbacks, from callback_start to callback_end in one thread.

    The table of all callbacks is ``run.table("callbacks")``.
    """

    def sentences(self) -> list[str]:
        """Name the callback with the longest P99 and the longest single execution, in sentences.

        Raises
        ------
        UsageError
            A parameter names something that does not exist.
        """
        report = self._report()
        if report.left_out and not report.counting:
            return report.answers()
        summary = self.summary()
        if summary.is_empty():
            return ["No callback was traced."]

        sentences = []
        for column, words in (("p99_ns", "at P99"), ("max_ns", "once")):
            for row in summary.drop_nulls(column).top_k(1, by=column).iter_rows(named=True):
                name = callback_title(row["kind"], row["name"], row["node"])
                where = f" with {row['cell']}" if summary["cell"].n_unique() > 1 else ""
                took = f"{row[column] / 1e6:.3g} ms"
                sentences.append(
                    f"The execution that took longest {words} is {name}{where}: {took}."
                )
        if sentences and (open_ended := int(summary["unfinished"].sum())):
            sentences.append(f"The end of {counted(open_ended, 'execution')} was not recorded.")
        running = summary.filter(pl.col("count") == 0)
        if running.height == summary.height:
            titles = [callback_title(*row) for row in running.select(CALLBACK).iter_rows()]
            return [f"No callback began here; {some_of(titles, 3)} ran, which began before."]
        return sentences or ["No callback that ended was traced."]

    def frame(self, node: str | None = None, name: str | None = None) -> pl.DataFrame:
        """Return every execution of a callback, in order of start.

        Parameters
        ----------
        node, name
            Full names or patterns with ``*``; a name is a topic, a service, or a timer's period.
            None: all callbacks.

        Returns
        -------
        One row per execution: ``run``, the factors, all columns of ``callback_instances``
        (``kind``, ``name``, ``node``; ``start_ns``, ``end_ns``: ns since the epoch;
        ``duration_ns``: ns, null if the end was not recorded).

        Raises
        ------
        UsageError
            No callback has such a node or name.
        """
        counting = self._report().callback_instances.filter(self._counting)
        rows = counting.sort("run", "start_ns").collect()
        for column, wanted in (("node", node), ("name", name)):
            if wanted is not None:
                matches = matching(wanted, rows[column].drop_nulls(), f"callback's {column}")
                rows = rows.filter(pl.col(column).is_in(sorted(matches)))
        return rows

    def summary(self, by: Sequence[str] | None = None) -> pl.DataFrame:
        """Describe each callback in each cell, without intervals.

        Mean, percentiles and ``busy`` are per run, averaged over runs; a percentile is null
        where a run has too few executions for its interval: P50 needs 6, P90 29, P99 299.

        Parameters
        ----------
        by
            Factors that make the cells; None: all factors.

        Returns
        -------
        ``cell``, ``kind``, ``name`` (the second of two that a node has at once, such as two 10 ms
        timers, is ``10 ms #2``), ``node``, ``runs``, ``count``, ``unfinished``, ``mean_ns``,
        ``p50_ns``, ``p90_ns``, ``p99_ns``, ``max_ns`` (ns), ``busy`` (part of the recorded time of
        its process in which it ran, 0..1; once where it ran beside itself; in a view also if it
        began before, while the other figures are of executions that began in the view).

        Raises
        ------
        UsageError
            There is no such factor.
        """
        report = self._report(by)
        return report.callback_durations

    def periods(self, by: Sequence[str] | None = None) -> pl.DataFrame:
        """Describe how regularly each callback or probed function started, in each cell.

        Parameters
        ----------
        by
            Factors that make the cells; None: all factors.

        Returns
        -------
        ``cell``, ``kind``, ``name`` (as in `summary`), ``node``, ``count``, ``period_ns`` (the
        median time between starts), ``jitter_p50_ns``, ``jitter_p99_ns``, ``jitter_max_ns`` (ns by
        which the time between two starts differs from a timer's own period, else from that median),
        ``overruns`` (executions longer than that), ``skipped`` (periods without a start). All but
        the count are null where there is no timer's period and one of the runs shows none either,
        with fewer than 10 times between starts or times that differ, and a percentile where its
        interval needs more times (6 for P50, 299 for P99).

        Raises
        ------
        UsageError
            There is no such factor.
        """
        report = self._report(by)
        return periods(report.callback_instances, report.losses, report.counting)

    def estimates(
        self, topic: str | None = None, by: Sequence[str] | None = None, *, full: bool = False
    ) -> pl.DataFrame:
        """Estimate the durations of subscription callbacks on a topic, with intervals over runs.

        Parameters
        ----------
        topic
            Full name; None: the first topic of the latency report.
        by
            As in `summary`.
        full
            Whether to add what each estimate rests on, as in `run.latency.estimates`.

        Returns
        -------
        One row per metric (``callback_duration_mean``, ``callback_duration_p50``, ...) and cell, as
        in ``run.latency.estimates``; ``value``, ``low``, ``high`` in ns.

        Raises
        ------
        UsageError
            There is no such topic or factor.
        """
        report = self._report_of(topic, by)
        first = report.groups[:1]
        (mean,) = report.callback_estimates(first)
        (percentiles,) = report.callback_estimates(first, PERCENTILES)
        return estimates_frame([*mean, *percentiles], full=full)

    def bounds(self, warm_up: float | None = None) -> pl.DataFrame:
        """Bound the duration of each callback, as long as the recorded conditions hold.

        Parameters
        ----------
        warm_up
            Time left out at the start of each thread, s; None: a tenth of its time, 5 s at most.

        Returns
        -------
        One row per callback of a run, as in
        `roslens.analysis.flow.response_bounds.callback_bounds`: ``kind``, ``name``, ``node``,
        ``executions``, ``longest_ns``, ``handover_ns``, ``bound_ns`` (ns; null if there is no
        bound), ``beyond`` and ``refused``.

        Raises
        ------
        UsageError
            `warm_up` is negative.
        """
        if warm_up is not None and warm_up < 0:
            raise UsageError(f"warm_up: {warm_up:g} s is negative")
        return callback_bounds(self._run, warm_up)

    def durations(self, by: Sequence[str] | None = None) -> Picture:
        """Draw `summary`: P50, P90, P99 and the longest duration [ms] of each callback.

        Raises
        ------
        UsageError
            There is no such factor, or no callback was traced.
        """
        return picture_of(self._report(by).callbacks())

    def over_time(self, node: str | None = None, name: str | None = None) -> Picture:
        """Draw the duration [ms] of each execution against its start [s].

        Parameters
        ----------
        node, name
            As in `frame`.

        Raises
        ------
        UsageError
            No finished callback has such a node or name.
        """
        rows = self.frame(node, name).drop_nulls("duration_ns")
        if not rows.height:
            raise UsageError("no callback that ended was traced")
        first = pl.col("start_ns").min().over("run")
        seconds = rows.select((pl.col("start_ns") - first) / 1e9).to_series()
        caption = (
            f"{counted(rows.height, 'execution')} of callbacks when they began; line: the median."
        )
        since = "the run's first callback"
        values = rows["duration_ns"]
        median_ns = quantile(values.to_numpy(), 0.5)
        return picture(
            dots_over_time(seconds, values, "duration", since, caption, median_ns=median_ns)
        )
