"""Explore message latency, from publish to the start of the callback: ``run.latency``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from roslens.analysis.figures.over_time import dots_over_time, latency_heat
from roslens.analysis.figures.picture import Picture
from roslens.analysis.latency.report import LatencyParameters, LatencyReport
from roslens.analysis.measures.callbacks import worst_messages
from roslens.analysis.measures.samples import quantile_within_clocks, rows_of_group
from roslens.analysis.overview.runs_and_topics import cells_in_words, topics_by_cell, with_sizes
from roslens.analysis.path.late import explained
from roslens.analysis.path.path import Paths
from roslens.analysis.reports.numbers import counted
from roslens.collectors.views import matching
from roslens.explore.noun import Noun, estimates_frame, picture, picture_of, shows_section
from roslens.recording import UsageError
from roslens.recording.arrays import np

if TYPE_CHECKING:
    from roslens.runs import Runs


class OfMessages(Noun[LatencyReport]):
    """Noun about the messages of one topic, backed by the latency report.

    ``topic`` is a full name; None: the report's first topic, which is the work topic of the runs,
    else the busiest topic.
    """

    def _made(self, run: Runs, parameters: Mapping[str, object]) -> LatencyReport:
        return LatencyReport(run, LatencyParameters.checked(parameters))

    def _report_of(self, topic: str | None, by: Sequence[str] | None = None) -> LatencyReport:
        if topic is None:
            return self._report(by)
        topics = self._run.names("topic", "publishers", "subscriptions", "messages")
        matching(topic, topics, "topic")
        return self._report(by, topics=[topic])

    def _rows(self, topic: str | None) -> pl.DataFrame:
        """Return the topic's messages in the runs that count, without warm-up."""
        report = self._report_of(topic)
        group, warm_up_s = report.groups[0], report.parameters.warm_up_s
        rows = rows_of_group(report.messages, report.counting, group, warm_up_s)
        order = ("run", "publish_ns", "message_id", "subscription_id")
        every = self._run.whole().table("messages")
        first = every.group_by("run").agg(first_ns=pl.col("publish_ns").min())
        return (
            rows.filter("warm")
            .join(first, on="run", how="left")
            .with_columns(since_ns=pl.col("publish_ns") - pl.col("first_ns"))
            .drop("warm", "first_ns")
            .sort(order, nulls_last=True)
            .collect()
        )


class Latency(OfMessages):
    """Message latency from publish to the start of the callback, with its uncertainty."""

    loss_first = shows_section(LatencyReport.loss)
    runs = shows_section(LatencyReport.runs)
    distributions = shows_section(LatencyReport.distributions)
    statistics = shows_section(LatencyReport.statistics)
    factors = shows_section(LatencyReport.factors)
    omission = shows_section(LatencyReport.omission)
    further_topics = shows_section(LatencyReport.further_topics)
    worst_messages = shows_section(LatencyReport.worst)
    drift = shows_section(LatencyReport.drift)
    chains = shows_section(LatencyReport.chains)
    callbacks = shows_section(LatencyReport.callbacks)
    services = shows_section(LatencyReport.services)
    resources = shows_section(LatencyReport.resources)

    def topics(self, by: Sequence[str] | None = None) -> pl.DataFrame:
        """List the topics: the application's first, then by descending P99.

        Parameters
        ----------
        by
            As in `estimates`.

        Returns
        -------
        One row per topic, pair of nodes and cell: ``cell`` (empty if all runs share one),
        ``topic``, ``from``, ``to``, ``messages``, ``rate_hz`` (Hz; null where a run has fewer than
        10 publications), ``bytes_per_s`` (B/s of serialized messages; null where there is no rate
        or sizes are unknown), ``p50_ms``, ``p99_ms`` (ms; these four are means over the runs of the
        cell), ``worst_ms`` (ms), ``lost`` (fraction of all
        messages, 0..1; null if it cannot be known), ``not_arrived``, ``unknown``, ``not_matched``,
        ``known``, ``delivered`` (their counts), ``apart_ms`` (how far hosts' clocks may be apart,
        ms; 0 within a host, null if that is not known). A percentile is null where a run has fewer
        latencies than its interval needs, 6 for P50 and 299 for P99, and any time where hosts'
        clocks may be more than half as far apart.

        Raises
        ------
        UsageError
            There is no such factor.
        """
        report = self._report(by)
        return topics_by_cell(
            with_sizes(report.messages, report.tables.whole().table("publications")),
            report.losses,
            cells_in_words(report.counting),
        )

    def frame(self, topic: str | None = None) -> pl.DataFrame:
        """Return every message of a topic, run by run, in order of publication.

        Parameters
        ----------
        topic
            Full name; None: the first topic of the latency report.

        Returns
        -------
        One row per message and subscription: ``run``, the factors, all columns of ``messages``
        (``publish_ns``, ``take_ns``, ``callback_start_ns``: ns since the epoch; ``latency_ns``: ns,
        null if the message was not delivered; ``data_age_ns``: ns from the message's own stamp to
        the take; ``outcome``) and ``since_ns`` (ns after the first publication of its run).

        Raises
        ------
        UsageError
            There is no such topic.
        """
        return self._rows(topic)

    def estimates(
        self, topic: str | None = None, by: Sequence[str] | None = None, *, full: bool = False
    ) -> pl.DataFrame:
        """Estimate mean, percentiles and loss, with intervals over runs.

        Parameters
        ----------
        topic
            As in `frame`.
        by
            Factors that make the cells; runs that differ in others are pooled. None: all factors.
        full
            Whether to add what each estimate rests on.

        Returns
        -------
        One row per metric (``latency_mean``, ``latency_p50``, ``latency_sent_p50``, ``loss``, ...)
        and cell: ``metric``, the factors, ``value``, ``low``, ``high`` in ``unit`` (``ns``; ``1``
        for a lost fraction), ``refused`` (why there is no interval). If `full`, also ``level``,
        ``runs``, ``samples``, ``effective_samples``, ``method``, ``verdict``, ``definition``.

        Raises
        ------
        UsageError
            There is no such topic or factor.
        """
        return estimates_frame(self._report_of(topic, by).main_estimates, full=full)

    def ecdf(
        self, topic: str | None = None, by: Sequence[str] | None = None, *, tail: bool = False
    ) -> Picture:
        """Draw the distribution of latency [ms] in each cell, runs as thin lines, and its tail.

        Parameters
        ----------
        topic, by
            As in `estimates`.
        tail
            Whether to draw the tail (CCDF) instead, if more than six cells need separate figures.

        Raises
        ------
        UsageError
            There is no such topic or factor, or no message was delivered.
        """
        return picture_of(self._report_of(topic, by).distributions(), -1 if tail else 0)

    def intervals(self, topic: str | None = None, by: Sequence[str] | None = None) -> Picture:
        """Draw `estimates`: value [ms], interval, and the values of the runs.

        Raises
        ------
        UsageError
            As in `ecdf`.
        """
        return picture_of(self._report_of(topic, by).statistics())

    def heat(self, topic: str | None = None) -> Picture:
        """Draw messages by time since each run's first publication [s] and by latency [ms].

        Raises
        ------
        UsageError
            There is no such topic, or no message was delivered.
        """
        rows, scope, _ = self._delivered(topic)
        latency = rows["latency_ns"].to_numpy().astype(np.float64)
        since = "the run's first publication"
        return picture(latency_heat(rows["since_ns"].to_numpy(), latency, since, scope))

    def over_time(self, topic: str | None = None) -> Picture:
        """Draw the latency [ms] of each message against its publication time [s], by run.

        Raises
        ------
        UsageError
            As in `heat`.
        """
        rows, scope, median_ns = self._delivered(topic)
        line = "line: the median"
        if median_ns is None:
            line = "no median, as the clocks of the hosts may be over half as far apart as that"
        caption = f"{counted(rows.height, 'delivered message')}, {scope}, by publication; {line}."
        since = "the run's first publication"
        seconds, values = rows["since_ns"] / 1e9, rows["latency_ns"]
        return picture(
            dots_over_time(seconds, values, "latency", since, caption, median_ns=median_ns)
        )

    def worst(self, topic: str | None = None, count: int = 10) -> pl.DataFrame:
        """Return the messages with the longest latencies, and why each was late.

        Parameters
        ----------
        topic
            As in `frame`.
        count
            The number of messages.

        Returns
        -------
        ``run``, ``cell``, ``topic``, ``subscription_node``, ``since_start_ns`` (since the first
        event of the run), ``latency_ns`` (ns), ``publish_ns``, ``callback_start_ns``,
        ``callback_instance_id``, ``subscription_host``, ``subscription_vpid``, and, as in
        ``run.why`` but from publish to callback_start, ``cause``, ``share``, ``who``,
        ``sentence`` (null if the end of the callback was not recorded); the worst first.

        Raises
        ------
        UsageError
            There is no such topic, or `count` is negative.
        """
        if count < 0:
            raise UsageError(f"count: {count} is negative")
        rows, processes = self._rows(topic).lazy(), self._run.table("processes")
        messages = worst_messages(rows, processes, self._report_of(topic).counting, count)
        return explained(messages, lambda run: Paths.of_run(self._run, run))

    def _delivered(self, topic: str | None) -> tuple[pl.DataFrame, str, float | None]:
        """Return the messages with a latency, which they are, and the median of all delivered."""
        rows, scope = self._rows(topic), self._report_of(topic).groups[0].scope
        delivered = rows.filter(pl.col("outcome") == "delivered")
        drawn = delivered.drop_nulls("latency_ns")
        if not drawn.height:
            raise UsageError(f"no message with a latency was delivered ({scope})")
        missing = delivered.height - drawn.height
        scope += f"; {missing:,} more, whose latency is not known, are not drawn" * (missing > 0)
        return drawn, scope, delivered.select(quantile_within_clocks(0.5)).item()
