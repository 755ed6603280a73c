"""Explore which messages were late, and why: ``run.why``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from roslens.analysis.estimate import Estimate
from roslens.analysis.measures.measured_part import start_up_s
from roslens.analysis.path.late import Late, late_messages, lateness_by_cause, untold_in_words
from roslens.analysis.path.path import Paths
from roslens.analysis.reports.numbers import counted, value_and_interval
from roslens.collectors.times import parse_duration
from roslens.collectors.topics import internal
from roslens.collectors.views import matching
from roslens.explore.noun import estimates_frame, picture
from roslens.recording import UsageError
from roslens.recording.arrays import np
from roslens.recording.text import shown_lines

if TYPE_CHECKING:
    from roslens.analysis.figures.picture import Picture
    from roslens.runs import Runs

LEAST_SHARE = 0.005
"""The smallest share that sentences mention; smaller shares are only in the frames."""

_OWN = ~internal().fill_null(value=False)


class Why:
    """Late messages and their causes; a call returns the frame of them.

    A message is late if more than the deadline passes from its publish to its callback_end.
    Without a deadline, it is late above the P99 of its subscription in its run, and the start of
    the run is left out. Between hosts it is late only if it is further beyond the limit than their
    clocks may be apart. Runs are analysed as a whole; views only select among their messages. Runs
    that did not complete are left out, unless none did or a message is asked for.
    """

    def __init__(self, run: Runs) -> None:
        self._run = run
        self._paths: dict[str, Paths] = {}
        self._known: dict[object, dict[str, Late]] = {}

    def path(self) -> pl.DataFrame:
        """Return the causal path of each delivered message: segments without gaps, in time order.

        Returns
        -------
        ``run``, ``topic``, ``subscription_node`` and the columns of
        `roslens.analysis.path.path.Paths.of`: ``message_id``, ``subscription_id``,
        ``segment``, ``kind``, ``begin_ns``, ``end_ns``, ``duration_ns`` (ns), ``who``,
        ``who_node``, ``who_callback``, ``who_vtid``, ``source``.
        """
        parts = []
        for run in self._run.runs:
            paths = self._paths_of(run.name)
            shown = paths.messages.with_row_index("row").filter(self._in_view(run.name))
            path = paths.segments_of(shown["row"].to_numpy().astype(np.int64))
            columns = paths.messages.select("topic", "subscription_node")[path["message"]]
            parts.append(
                path.select(pl.lit(run.name).alias("run"), *columns, pl.exclude("message"))
            )
        return pl.concat(parts)

    def _paths_of(self, run: str) -> Paths:
        """Return the data from which a run's paths are made, by the run's name."""
        if run not in self._paths:
            # Keep only one run's paths: they are large.
            self._paths = {run: Paths.of_run(self._run, run)}
        return self._paths[run]

    def _in_view(self, run: str) -> pl.Expr:
        """Return an expression for the messages that the views show."""
        if not self._run.views:
            return pl.lit(value=True)
        of_run = self._run.messages.filter(pl.col("run") == run)
        shown = of_run.select("callback_instance_id").collect().to_series()
        return pl.col("callback_instance_id").is_in(shown.implode())

    def frame(
        self,
        topic: str | None = None,
        message: int | None = None,
        deadline: str | int | None = None,
        warm_up: float | None = None,
    ) -> pl.DataFrame:
        """Return the late messages and why they were late.

        Parameters
        ----------
        topic
            Full name, or a pattern; None: all topics except those of ROS itself.
        message
            Number of the only message to explain, whether late or not.
        deadline
            The time from publish to callback_end, such as ``20ms``, or in ns.
        warm_up
            Seconds to leave out at the start of each run, counted from its first message.
            Default: a tenth of the run, 5 s at most; with a deadline, nothing.

        Returns
        -------
        One row per late message and subscription, per run the worst first: ``run``,
        ``message_id``, ``subscription_id``, ``topic``, ``subscription_node``, ``at_s`` (its
        publication, s since the run's first event), ``publish_ns``, ``latency_ns`` (ns from publish
        to callback_end, unlike in ``messages``), ``late_by_ns`` (ns), ``cause`` (the kind of
        segment with the largest excess over its usual time), ``share`` (of all the excess time,
        0..1; null if nothing took longer than usual), ``who``, ``sentence``.

        Raises
        ------
        UsageError
            There is no such topic or message, or the deadline is not a duration.
        """
        late_by_run = self.lateness_by_run(topic, message, deadline, warm_up)
        rows = pl.concat(
            late.frame().select(pl.lit(name).alias("run"), pl.all())
            for name, late in late_by_run.items()
        )
        zero = pl.col("run").replace_strict(
            self._run.first_events, default=None, return_dtype=pl.Int64
        )
        at_s = rows.select(at_s=(pl.col("publish_ns") - zero) / 1e9).to_series()
        rows.insert_column(rows.get_column_index("publish_ns"), at_s)
        if message is not None and rows.is_empty():
            number = pl.col("message_id") == message
            for run in self._run.runs:
                if self._paths_of(run.name).without_times.filter(number).height:
                    raise UsageError(
                        f"how long message {message} took cannot be told: the clocks of its hosts "
                        "may be as far apart as that (roslens info)"
                    )
            raise UsageError(f"no message {message} whose callback was seen to end")
        return rows

    __call__ = frame

    def estimates(
        self,
        topic: str | None = None,
        deadline: str | int | None = None,
        warm_up: float | None = None,
        *,
        full: bool = False,
    ) -> pl.DataFrame:
        """Estimate each cause's share of the excess time of late messages, over runs.

        Parameters
        ----------
        topic, deadline, warm_up
            As in `frame`.
        full
            Whether to add what each estimate rests on, as in `run.latency.estimates`.

        Returns
        -------
        As other estimates, one row per cell and cause with ``metric`` ``lateness_<cause>`` (0..1);
        runs without a late message do not count.

        Raises
        ------
        UsageError
            As in `frame`.
        """
        return estimates_frame(shares_by_cause(self, topic, deadline, warm_up), full=full)

    def sentences(
        self,
        topic: str | None = None,
        deadline: str | int | None = None,
        warm_up: float | None = None,
    ) -> list[str]:
        """Describe how many messages were late, left out or untold, and the most frequent causes.

        Raises
        ------
        UsageError
            As in `frame`.
        """
        late_by_run = self.lateness_by_run(topic, None, deadline, warm_up)
        of_runs = late_by_run.values()
        total, late = (
            sum(lateness.judged for lateness in of_runs),
            sum(len(lateness.late_by) for lateness in of_runs),
        )
        by_run = deadline is None
        allowed = "than the P99 of their subscription" if by_run else "than the deadline"
        took = f"{late:,} of {counted(total, 'message')} took longer from publish to callback_end"
        sentences = [f"{took} {allowed}."]
        if left_out := sum(lateness.left_out for lateness in of_runs):
            start = "tenth" if warm_up is None else f"{warm_up:g} s"
            most = ", 5 s at most," if warm_up is None else ""
            count = counted(left_out, "message")
            sentences[0] += f" The first {start} of each run{most} is left out as warm-up: {count}."
        if untold := untold_in_words(of_runs):
            sentences[0] += f" {untold}"
        if failed := len(self._run.runs) - len(late_by_run):
            sentences[0] += f" {counted(failed, 'run')} that did not complete "
            sentences[0] += f"{'is' if failed == 1 else 'are'} left out."
        shares = [
            share
            for share in shares_by_cause(self, topic, deadline, warm_up)
            if share.value is not None and share.value >= LEAST_SHARE
        ]
        if len({str(share.cell) for share in shares}) == 1:
            each = (
                f"{cause_of(share)} {' '.join(value_and_interval(share))} %" for share in shares
            )
            causes = ", ".join(text.replace(" refused", "") for text in each)
            sentences.append(f"Of what these took beyond the usual: {causes}.")
        return sentences

    def __repr__(self) -> str:
        return shown_lines("\n".join(self.sentences()))

    def plot(
        self,
        topic: str | None = None,
        deadline: str | int | None = None,
        warm_up: float | None = None,
    ) -> Picture:
        """Draw the excess time of late messages [ms], one bar per topic and node, by cause.

        Parameters
        ----------
        topic, deadline, warm_up
            As in `frame`.

        Raises
        ------
        UsageError
            As in `frame`, or no message was late.
        """
        from roslens.analysis.path.figures import causes_plot  # noqa: PLC0415  (a second)

        return picture(causes_plot(self._lateness(topic, deadline, warm_up)))

    def waterfall(
        self,
        topic: str | None = None,
        deadline: str | int | None = None,
        warm_up: float | None = None,
    ) -> Picture:
        """Draw the path of the worst messages, a bar each: segments since its publish [ms].

        Parameters
        ----------
        topic, deadline, warm_up
            As in `frame`.

        Raises
        ------
        UsageError
            As in `frame`, or no message was late.
        """
        from roslens.analysis.path.figures import path_plot  # noqa: PLC0415  (a second)

        return picture(path_plot(self._lateness(topic, deadline, warm_up)))

    def _lateness(
        self, topic: str | None, deadline: str | int | None, warm_up: float | None
    ) -> list[Late]:
        late = [
            lateness
            for lateness in self.lateness_by_run(topic, None, deadline, warm_up).values()
            if len(lateness.late_by)
        ]
        if not late:
            raise UsageError("no message was late; give a shorter deadline")
        return late

    def lateness_by_run(
        self,
        topic: str | None = None,
        message: int | None = None,
        deadline: str | int | None = None,
        warm_up: float | None = None,
    ) -> dict[str, Late]:
        """Return the late messages behind `frame` and the other methods, by run name.

        Raises
        ------
        UsageError
            As in `frame`, except that a missing message is not an error.
        """
        allowed = parse_duration("deadline", deadline) if isinstance(deadline, str) else deadline
        if warm_up is not None and not 0 <= warm_up < math.inf:
            raise UsageError(f"warm-up {warm_up:g}: give 0 or more seconds")
        key = topic, message, allowed, warm_up
        if key not in self._known:
            which = self._chosen(topic, message)
            self._known[key] = {
                run.name: self._late_of_run(run.name, which, message, allowed, warm_up)
                for run in (self._run.counting if message is None else self._run).runs
            }
        return self._known[key]

    def _chosen(self, topic: str | None, message: int | None) -> pl.Expr:
        if topic is not None:
            names: Sequence[str] = sorted(
                matching(topic, self._run.names("topic", "messages"), "topic")
            )
            return pl.col("topic").is_in(names)
        return pl.lit(value=True) if message is not None else _OWN

    def _late_of_run(
        self,
        name: str,
        wanted: pl.Expr,
        message: int | None,
        allowed: int | None,
        warm_up: float | None,
    ) -> Late:
        paths = self._paths_of(name)
        chosen = None if message is None else pl.col("message_id") == message
        first, last = paths.messages.filter(_OWN).select(
            pl.min("publish_ns"), pl.max("publish_ns").alias("last")
        ).fill_null(0).row(0)  # fmt: skip
        if warm_up is None:
            warm_up = start_up_s((last - first) / 1e9) if allowed is None else 0.0
        return late_messages(
            paths, allowed, among=self._in_view(name) & wanted, chosen=chosen,
            since_ns=first + round(warm_up * 1e9),
        )  # fmt: skip


def shares_by_cause(
    why: Why, topic: str | None, deadline: str | int | None, warm_up: float | None
) -> list[Estimate]:
    """Return the estimates behind `Why.estimates`; errors are those of `Why.frame`."""
    late_by_run = why.lateness_by_run(topic, None, deadline, warm_up)
    return lateness_by_cause(why._run.counting.runs, late_by_run)


def cause_of(share: Estimate) -> str:
    """Return the cause in words, such as ``callback group``."""
    return share.metric.removeprefix("lateness_").replace("_", " ")
