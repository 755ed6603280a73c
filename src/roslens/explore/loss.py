"""Explore the events that the tracer dropped and the outcomes of messages: ``run.loss``."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.figures.over_time import outcomes_over_time
from roslens.analysis.figures.picture import Picture
from roslens.analysis.measures.loss import health_findings, loss_of
from roslens.analysis.measures.samples import ARRIVED, LOST
from roslens.analysis.reports.front import arrival_sentence
from roslens.analysis.reports.seen import lossiest, seen_of, steps_of
from roslens.analysis.reports.table import Sentence
from roslens.collectors.topics import is_of_application
from roslens.explore.latency import OfMessages
from roslens.explore.noun import estimates_frame, picture
from roslens.recording import UsageError


class Loss(OfMessages):
    """Events that the tracer dropped (which may bias any figure), and outcomes of messages."""

    def sentences(self) -> list[str]:
        """Describe what the tracer lost, then the outcomes of the application's messages.

        Raises
        ------
        UsageError
            A parameter names something that does not exist.
        """
        report = self._report()
        parts = [part.text for part in report.tracer_loss() if isinstance(part, Sentence)]
        of_cells = report.mixed()
        tracer = [text for text in parts if text not in of_cells]
        if report.left_out and not report.counting:
            return report.answers()
        counted = self.frame().with_columns(
            missed=pl.sum_horizontal(LOST), known=pl.sum_horizontal("arrived", *LOST)
        )
        relevant = counted.filter(is_of_application())
        counted = counted if relevant.is_empty() else relevant
        columns = ("missed", "known", "unknown", "not_matched")
        sentences = [arrival_sentence(*counted.select(columns).sum().row(0))]
        of_topic = counted.group_by("topic").agg(pl.col(columns).sum())
        lossy = of_topic.filter(pl.col("missed") > 0).sort(
            "missed", "topic", descending=[True, False]
        )
        for topic, missed, known, *_ in lossy.head(of_topic.height > 1).iter_rows():
            is_most = 2 * missed > lossy["missed"].sum()
            most = "Most of them on" if is_most else "No topic lost more than"
            sentences.append(f"{most} {topic}: {missed:,} of {known:,}.")
        return [*tracer, *sentences]

    def tracer(self) -> pl.DataFrame:
        """Return what the tracer dropped in each run.

        Returns
        -------
        ``run``, ``cell``, ``discarded_events``, ``lost_packets``, ``truncated`` (counts; the last
        counts streams that were cut off).
        """
        losses = self._run.tracer_loss
        return pl.DataFrame(
            [(x.run.name, x.run.label, x.discarded_events, x.lost_packets, x.truncated)
             for x in losses],
            schema={"run": pl.String, "cell": pl.String, "discarded_events": pl.Int64,
                    "lost_packets": pl.Int64, "truncated": pl.Int64},
            orient="row",
        )  # fmt: skip

    def findings(self) -> pl.DataFrame:
        """Return the anomalies of the recordings, the gravest first.

        Returns
        -------
        ``severity``, ``kind``, ``runs`` and ``count`` (counts), ``what``, ``where`` (first run).
        """
        return health_findings(self._run.table("health"))

    def frame(self, topic: str | None = None) -> pl.DataFrame:
        """Count the outcomes of messages by topic, publisher and subscription, of runs that count.

        Parameters
        ----------
        topic
            Full name; None: all topics.

        Returns
        -------
        One row per run, ``topic``, ``publisher_node`` and ``subscription_node``: ``messages``,
        ``arrived``, ``lost``, ``replaced``, ``overwritten``, ``unknown``, ``not_matched`` (counts),
        ``loss`` (fraction of messages with a known outcome, 0..1; null if unknown ones forbid it),
        the largest loss first.

        Raises
        ------
        UsageError
            There is no such topic.
        """
        messages = self._report_of(topic).messages
        outcome = pl.col("outcome")
        return (
            messages.filter(self._counting)
            .filter(pl.lit(value=True) if topic is None else pl.col("topic") == topic)
            .filter(outcome != "no_subscriber")
            .group_by("run", "topic", "publisher_node", "subscription_node")
            .agg(
                messages=pl.len(),
                arrived=outcome.is_in(ARRIVED).sum(),
                **{name: (outcome == name).sum() for name in (*LOST, "unknown", "not_matched")},
                loss=loss_of("outcome"),
            )
            .sort("loss", "run", "topic", descending=[True, False, False], nulls_last=True)
            .collect()
        )

    def seen(self, run: str | None = None) -> pl.DataFrame:
        """Return when each part of a run was observed.

        Parameters
        ----------
        run
            The run's name; None: the run with the most missing, else the first run.

        Returns
        -------
        One row per CPU, process and kind of event: ``run``, ``of``, ``name``, ``host``, ``trace``,
        ``cpu_id``, ``vpid``, ``begin_ns``, ``end_ns`` (first and last event, ns since the epoch),
        ``events`` (count).

        Raises
        ------
        UsageError
            There is no such run, or its events are not available.
        """
        name = run or lossiest(self._run)
        return (
            steps_of(self._run, name)
            .group_by("of", "name", "host", "trace", "cpu_id", "vpid", maintain_order=True)
            .agg(pl.col("begin_ns").min(), pl.col("end_ns").max(), pl.col("events").sum())
            .select(pl.lit(name).alias("run"), pl.all())
        )

    def seen_over_time(self, run: str | None = None) -> Picture:
        """Draw when each part of a run was observed and where something is missing, by time [s].

        Parameters
        ----------
        run
            As in `seen`.

        Raises
        ------
        UsageError
            There is no such run, or its events are not available.
        """
        return picture(seen_of(self._run, run or lossiest(self._run)))

    def estimates(
        self, topic: str | None = None, by: Sequence[str] | None = None, *, full: bool = False
    ) -> pl.DataFrame:
        """Estimate the fraction of a topic's messages that did not arrive, with an interval.

        Parameters
        ----------
        topic
            Full name; None: the first topic of the latency report.
        by
            Factors that make the cells; None: all factors.
        full
            Whether to add what each estimate rests on, as in `run.latency.estimates`.

        Returns
        -------
        One row per cell (``metric`` is ``loss``), as in ``run.latency.estimates``; ``value``,
        ``low`` and ``high`` are fractions, 0..1.

        Raises
        ------
        UsageError
            There is no such topic or factor.
        """
        estimates = self._report_of(topic, by).main_estimates
        return estimates_frame([e for e in estimates if e.metric == "loss"], full=full)

    def over_time(self, topic: str | None = None) -> Picture:
        """Draw the number of a topic's messages with each outcome, by publication time [s].

        Parameters
        ----------
        topic
            As in `estimates`.

        Raises
        ------
        UsageError
            There is no such topic, or none of its messages was seen.
        """
        rows, scope = self._rows(topic), self._report_of(topic).groups[0].scope
        if not rows.drop_nulls(["since_ns", "outcome"]).height:
            raise UsageError(f"no message was published ({scope})")
        return picture(outcomes_over_time(rows, scope))
