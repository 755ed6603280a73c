"""Compute the facts of the first page: what was recorded, and what is slow in it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import polars as pl

from roslens.analysis.chains.report import ChainsParameters, ChainsReport
from roslens.analysis.leaks.by_cell import leaks_of, memory_series
from roslens.analysis.leaks.leak import Leak
from roslens.analysis.measures.callbacks import CALLBACK, durations
from roslens.analysis.measures.loss import lost_in_words
from roslens.analysis.measures.pauses import PAUSE
from roslens.analysis.overview.in_range import chains_overview
from roslens.analysis.overview.runs_and_topics import (
    by_cell,
    cells_in_words,
    topics_by_cell,
    with_sizes,
)
from roslens.analysis.reports.front import distros_of, utc
from roslens.analysis.reports.numbers import significant
from roslens.collectors.resolving import not_read_in_words
from roslens.collectors.topics import is_of_application
from roslens.explore.processes import processes_of
from roslens.recording.errors import TooLargeError
from roslens.recordings import Recordings

_MOST_FOLLOWED = 1_000_000
"""The maximum number of messages whose chains are followed by default."""
_MOST_RUNS = 200
"""The maximum number of runs for which chains and causes of late messages are found by default."""
_DAY_NS = 86_400_000_000_000


class Facts:
    """Facts about recordings; each is computed on first use.

    Parameters
    ----------
    recordings
        Recordings that are open and collected.
    """

    def __init__(self, recordings: Recordings) -> None:
        self._all = recordings
        self._counting = recordings.counting

    # ------------------------------------------------------------ what was recorded

    @cached_property
    def recorded(self) -> dict[str, str]:
        """Return what was recorded, by name, without what the recording does not tell."""
        runs, processes = self._all.runs, self._all.table("processes").collect()
        facts = {"runs": f"{len(runs)}: no intervals" if len(runs) == 1 else str(len(runs))}
        facts["runs"] += not_read_in_words(len(self._all.not_read))
        seen = self._all.recorded_processes.collect()
        begin, end = seen["begin_ns"].min(), seen["end_ns"].max()
        if isinstance(begin, int) and isinstance(end, int):
            begins = seen.group_by("run").agg(pl.col("begin_ns").min())["begin_ns"]
            days = (begins.drop_nulls() // _DAY_NS).n_unique()
            facts["recorded"] = utc(begin) if days == 1 else f"{utc(begin)} to {utc(end)}"
            span = (pl.col("end_ns").max() - pl.col("begin_ns").min()) / 1e9
            spans = seen.group_by("run").agg(s=span)["s"].drop_nulls().sort()
            shortest, longest = (significant(spans[i], 3) for i in (0, -1))
            facts["for"] = f"{longest} s" if shortest == longest else f"{shortest} to {longest} s"
            until = pl.min_horizontal("end_ns", pl.lit(end)) - pl.col("begin_ns")
            pauses = self._all.table("losses").filter(PAUSE).select(until.clip(0))
            if paused_ns := pauses.sum().collect().item():
                facts["for"] += f" with {significant(paused_ns / 1e9, 3)} s of pauses"
        versions = processes["tracetools_version"].drop_nulls().unique().sort().to_list()
        distros = [name.capitalize() for name in distros_of(runs, versions)]
        distribution = f"{' and '.join(distros)} (tracetools {', '.join(versions)})"
        facts["ROS 2"] = distribution.strip() if versions else ", ".join(distros) or "not recorded"
        rmw = processes["rmw"].drop_nulls().unique().sort().to_list()
        facts["middleware"] = ", ".join(rmw) or "not recorded"
        facts["processes"] = f"{processes.height:,}"
        facts["nodes"] = f"{len(self._all.names('node', 'nodes')):,}"
        facts["topics"] = f"{len(self._all.names('topic', 'publishers', 'subscriptions')):,}"
        # For an excerpt, more events were read than it contains.
        if not any(run.excerpt for run in runs):
            facts["events"] = f"{int(processes['events'].sum()):,}"
        facts["the tracer lost"] = self._lost or "nothing that it reported"
        return facts

    @cached_property
    def _lost(self) -> str:
        """Describe what the tracer lost in all runs together; empty if nothing."""
        losses = self._all.tracer_loss
        return lost_in_words(
            sum(loss.discarded_events for loss in losses),
            sum(loss.lost_packets for loss in losses),
            sum(loss.truncated for loss in losses),
        )

    @cached_property
    def _runs_without_events(self) -> dict[str, int]:
        """Count, for each table, the runs in which its events were not recorded."""
        # Without callbacks there is no table of scheduling, but it may have been recorded.
        kernel = (pl.col("where") != "callback_scheduling") | pl.col("what").str.contains(
            "sched_switch", literal=True
        )
        absent = self._health.filter(pl.col("kind") == "missing_events", kernel)
        return dict(absent.group_by("where").agg(pl.col("run").n_unique()).iter_rows())

    @property
    def looked_for(self) -> list[str]:
        """List the problems that the recording would reveal if they had happened."""
        whole = not all(recording.is_excerpt for recording in self._all.recordings)
        kinds = ["silence"] * (whole and not self.callbacks.is_empty())
        _, known, *untold = self.arrivals
        if known and not any(untold):
            kinds.append("loss")
        if not self._counting.table("timer_activations").head(1).collect().is_empty():
            kinds.append("timer that did not run when due")
        if self.topics["p50_ms"].count():
            kinds.append("tail")
        if self._runs_without_events.get("service_calls", 0) < len(self._all.runs):
            kinds += ["unanswered request", "goal that was aborted or rejected"]
        return [*kinds, *(["memory that surely climbs"] if self.leaks else [])]

    @cached_property
    def not_seen(self) -> str:
        """Describe in a sentence what was not recorded and would have told more."""
        of_table = self._runs_without_events
        received = self._all.table("messages").select(pl.col("received_ns").is_not_null().any())
        unseen = (
            "it is not known what kept threads from a CPU"
            if received.collect().item()
            else "transport and waiting for the executor cannot be told apart"
        )
        words = {
            "callback_scheduling": f"the kernel's scheduling, without which {unseen}",
            "messages": "some events of messages",
            "executor_intervals": "what executors did between callbacks",
            "service_calls": "requests of services, without which calls and goals are not known",
            "heap": "memory allocations",
        }
        missing = [
            self._in_runs(of_table[table]) + text
            for table, text in words.items()
            if table in of_table
        ]
        if self.callbacks.is_empty():
            missing.insert(0, "callbacks, so that no latency has an end")
        goals = self._all.table("action_goals").group_by("run").agg(pl.col("outcome").count())
        if untold := int((goals.collect()["outcome"] == 0).sum()):
            missing.append(f"{self._in_runs(untold)}how goals ended (roslens record sees it)")
        return (
            f"Not recorded: {'; '.join(missing)}."
            if missing
            else "All that is looked for was seen."
        )

    def _in_runs(self, count: int) -> str:
        total = len(self._all.runs)
        return "" if count == total else f"in {count} of {total} runs "

    @cached_property
    def _health(self) -> pl.DataFrame:
        return self._all.table("health").collect()

    # ------------------------------------------------------------ what is slow

    @cached_property
    def _cells(self) -> dict[str, str]:
        return cells_in_words(self._counting.runs)

    @cached_property
    def topics(self) -> pl.DataFrame:
        """Return the application's topics by cell, the slowest first, as in `topics_overview`."""
        return topics_by_cell(
            with_sizes(self._all.table("messages"), self._all.table("publications")).filter(
                is_of_application()
            ),
            self._all.table("losses"),
            self._cells,
        )

    @cached_property
    def arrivals(self) -> tuple[int, ...]:
        """Count messages: not arrived, of known and of unknown fate, before the first was taken."""
        columns = ("not_arrived", "known", "unknown", "not_matched")
        return self.topics.select(pl.col(columns).sum()).row(0)

    @cached_property
    def callbacks(self) -> pl.DataFrame:
        """Return callbacks by descending longest duration, as in ``callbacks.summary``."""
        relevant = (pl.col("kind") != "subscription") | is_of_application("name")
        order = ("max_ns", "cell", *CALLBACK)
        return durations(
            self._all.table("callback_instances").filter(relevant.fill_null(value=True)),
            self._all.recorded_processes,
            self._all.table("losses"),
            self._cells,
        ).sort(order, descending=[name == "max_ns" for name in order], nulls_last=True)

    @cached_property
    def processes(self) -> pl.DataFrame:
        """Return processes with nodes, the heaviest CPU users first, as in `memory.processes`."""
        return processes_of(self._all, self._counting.runs).filter(pl.col("nodes") != "")

    @cached_property
    def chains(self) -> pl.DataFrame | None:
        """Return the chains, the slowest first; None if following them all would take long."""
        runs = self._counting
        messages = runs.table("messages").select(pl.len()).collect().item()
        if messages > _MOST_FOLLOWED or len(runs) > _MOST_RUNS:
            return None
        paths = [str(recording.path) for recording in runs.recordings]
        report = ChainsReport(
            runs, ChainsParameters.checked({"recordings": paths, "include_failed": True})
        )
        try:
            instances = [chain.instances for chain in report.chains]
        except TooLargeError:
            return None
        return by_cell(
            self._cells,
            lambda runs: chains_overview(
                [replace(each, instances=each.instances.filter(runs)) for each in instances]
            ).filter(pl.col("instances") > 0),
        ).sort("worst_ms", descending=True, nulls_last=True, maintain_order=True)

    @cached_property
    def leaks(self) -> list[Leak]:
        """Judge whether memory climbs in each cell of complete runs; empty if not sampled."""
        runs = [run for run in self._all.runs if run.complete]
        messages, work = self._all.table("messages"), self._all.work_logs
        losses = self._all.table("losses")
        series = memory_series(self._all.resources, messages, runs, "rss", work, losses=losses)
        return leaks_of(series, "rss", runs, measured=True)

    @cached_property
    def late(self) -> pl.DataFrame | None:
        """Return late messages and their causes, the latest of all runs first, as in ``why.frame``.

        The result is None if examining every run would take long.
        """
        if len(self._counting) > _MOST_RUNS:
            return None
        return self._counting.why.frame().sort("late_by_ns", descending=True, maintain_order=True)
