"""Represent runs: their tables, the files beside them, and how they are printed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import polars as pl

from roslens.analysis.measures.bag import BagBeside, join_bag
from roslens.analysis.measures.silences import NEEDED, SCHEMA, silences
from roslens.analysis.overview.runs_and_topics import runs_overview
from roslens.analysis.reports.numbers import counted
from roslens.analysis.reports.table import ReportTable, Sentence
from roslens.collectors.bag import find_bag, read_bag
from roslens.collectors.decoding import recorded_until
from roslens.collectors.excerpt import excerpt_of
from roslens.collectors.resolving import not_read_in_words
from roslens.collectors.results.formats import find_results, read_results
from roslens.collectors.results.irobot import find_irobot
from roslens.collectors.results.logged_messages import FILE_NAME as LOG_OF_MESSAGES
from roslens.collectors.results.logged_messages import SCHEMA as LOGGED_MESSAGE
from roslens.collectors.results.logged_messages import read_logged_messages
from roslens.collectors.results.tool_result import ToolResult
from roslens.collectors.work_log import WorkLog, read_work_log
from roslens.paths import PathLike, resolve
from roslens.recording import UsageError
from roslens.recording.layout import STILL_RECORDED
from roslens.recording.text import shown_lines, some_of
from roslens.run_tables import RunTables

_MOST_SHOWN = 20


class Runs(RunTables):
    """Runs with their tables, and the logs, results and bags that programs wrote beside them."""

    @cached_property
    def logged_messages(self) -> pl.DataFrame:
        """Return programs' logs of their own messages (``native/messages.csv``), with ``run``."""
        frames = [pl.DataFrame(schema={"run": pl.String, **dict(LOGGED_MESSAGE)})]
        for recording, run in zip(self.recordings, self.runs, strict=True):
            path = recording.native / LOG_OF_MESSAGES
            if path.is_file() and (log := read_logged_messages(path)) is not None:
                frames.append(log.select(pl.lit(run.name).alias("run"), *LOGGED_MESSAGE))
        return pl.concat(frames)

    @cached_property
    def work_logs(self) -> dict[str, WorkLog]:
        """Return the requests or goals that workloads logged, by run name."""
        pairs = zip(self.recordings, self.runs, strict=True)
        logs = ((run.name, read_work_log(recording.native)) for recording, run in pairs)
        return {name: log for name, log in logs if log is not None}

    def silences(self) -> pl.DataFrame:
        """Return executors and threads that fell silent or hang, with a sentence each.

        Columns as in `roslens.analysis.measures.silences.silences`, after ``run``. Excerpts and
        views can end anywhere, so they have no rows.
        """
        frames = [pl.DataFrame(schema=SCHEMA)]
        for run in () if self.views else self:
            (recording,), (about,) = run.recordings, run.runs
            if recording.is_excerpt:
                continue
            sampled = run.resources.select("host", "vpid", "time_ns", "cpu_time_ns")
            tables = {name: run.table(name) for name in NEEDED}
            until = recorded_until(recording)
            rows = silences(tables, until, sampled.collect(), about.failure)
            frames.append(rows.select(pl.lit(about.name).alias("run"), pl.all()))
        return pl.concat(frames)

    @cached_property
    def tool_results(self) -> dict[str, ToolResult | UsageError]:
        """Return the results that benchmark tools wrote beside the traces, by run name.

        An unreadable result is returned as an error: it says nothing against the trace.
        """
        results: dict[str, ToolResult | UsageError] = {}
        for recording, run in zip(self.recordings, self.runs, strict=True):
            folder = find_irobot(recording.path)
            if folder is not None:
                try:
                    (results[run.name],) = read_results(*find_results(folder)[0])
                except UsageError as error:
                    results[run.name] = error
        return results

    def bag(self, path: PathLike | None = None) -> BagBeside:
        """Read the bag recorded beside a single run, joined with the trace's data on its messages.

        ``messages`` has each message of the bag with its type, size [B], ``header.stamp``, and the
        callbacks that received it with the age of the data [ns]; ``topics`` has what the recorder
        missed. Printed, it is one line.

        Parameters
        ----------
        path
            The bag's file or folder; None: the bag in the run's folder.

        Raises
        ------
        UsageError
            There are several runs, there is no bag, or the bag cannot be read.
        """
        if len(self.recordings) != 1:
            raise UsageError(
                f"a bag belongs to one run, and these are {len(self.recordings)}: take one of them"
            )
        folder = self.recordings[0].path
        place = find_bag(folder) if path is None else resolve(path)
        if place is None:
            raise UsageError(f"{folder}: no bag lies there; give the path of one")
        return join_bag(place.name, read_bag(place), self)

    def bags(self, path: PathLike = "") -> dict[str, BagBeside | UsageError]:
        """Return the bags of runs by run name; an error if the bag beside a run is unreadable.

        Parameters
        ----------
        path
            The bag of a single run; empty: what lies in the runs' folders.

        Raises
        ------
        UsageError
            As in `bag`, for a given path.
        """
        if path:
            return {self.runs[0].name: self.bag(path)}
        bags: dict[str, BagBeside | UsageError] = {}
        for run in self:
            name, folder = run.runs[0].name, run.recordings[0].path
            if find_bag(folder) is not None:
                try:
                    bags[name] = run.bag()
                except UsageError as error:
                    bags[name] = error
        return bags

    def unread_in_words(self) -> list[str]:
        """Return a sentence about the recordings that could not be read, if there are any."""
        if not self.not_read:
            return []
        names = ", ".join(self.not_read[:5])
        return [f"{counted(len(self.not_read), 'recording')} could not be read: {names}"]

    def copies_in_words(self) -> list[str]:
        """Return a sentence about the recordings that are copies of others, if there are any."""
        named = [f"{copy} of {first}" for first, copies in self.copies.items() for copy in copies]
        if not named:
            return []
        what = "recording is a copy" if len(named) == 1 else "recordings are copies"
        return [f"{len(named):,} {what} and left out: {some_of(named, 3)}"]

    def without_ros_events(self) -> str | None:
        """Return why no run has anything of ROS 2; None if a run has."""
        findings = self.table("health").filter(pl.col("kind") == "no_ros_events").collect()
        if findings["run"].n_unique() < len(self.runs):
            return None
        why = next((run.failure for run in self.runs if run.failure), findings["what"][0])
        return f"nothing to report of {counted(len(self.runs), 'run')}: {why}"

    def _description_lines(self) -> Iterator[tuple[str, bool]]:
        """Yield lines that describe what was recorded, each with whether it is a warning."""
        events = int(self.table("processes").select(pl.col("events").sum()).collect().item() or 0)
        parts = [about["text"] for r in self.recordings if (about := excerpt_of(r)) is not None]
        lost = [loss for loss in self.tracer_loss if loss.any]
        cells = len({run.label for run in self.runs})
        contents = f"{counted(len(self.runs), 'run')} in {counted(cells, 'cell')}"
        # For an excerpt, more events over a longer time were read than it contains.
        contents += "" if parts else f", {counted(events, 'event')}"
        contents += not_read_in_words(len(self.not_read))
        if self.views:
            contents += f" (part of each: {counted(len(self.views), 'view')})"
        yield contents, False
        named = ", ".join(f"{loss.run.name} ({loss.text})" for loss in lost[:5])
        loss = f"THE TRACER LOST EVENTS in {counted(len(lost), 'run')}: {named}"
        yield (loss, True) if lost else ("the tracer lost nothing", False)
        if self._spans and not self.views and not parts:
            seconds = sorted((end - begin) / 1e9 for begin, end in self._spans.values())
            shortest = f"{seconds[0]:.1f} to " if len(seconds) > 1 else ""
            yield f"recorded for {shortest}{seconds[-1]:.1f} s{' each' * bool(shortest)}", False
        topics = self.names("topic", "publishers", "subscriptions")
        for kind, names in (("topics", topics), ("nodes", self.names("node", "nodes"))):
            if names:
                yield f"{kind}: {some_of(sorted(names), 5)}", False
        for text in self.copies_in_words():
            yield text, False
        for text in parts[:5]:
            yield f"only part of {text}", True
        if len(parts) > 5:
            yield f"and {len(parts) - 5} more are parts only", True
        running = [run.name for run in self.runs if run.status == "running"]
        problems = [run.name for run in self.runs if not run.complete and run.status != "running"]
        for name in running[:5]:
            yield f"{name} {STILL_RECORDED}", True
        if problems:
            yield f"{len(problems)} not complete: {', '.join(problems[:5])}", True

    def __repr__(self) -> str:
        return shown_lines("\n".join(text for text, _ in self._description_lines()))

    def _repr_html_(self) -> str:
        sentences = [Sentence(text, loud) for text, loud in self._description_lines()]
        overview = runs_overview(
            self.tracer_loss, self.table("processes"), self.table("messages"), self.table("health")
        )
        shown = ("run", "cell", "status", "seconds", "events", "discarded", "messages", "lost")
        rows = [
            [
                f"{value:,.1f}"
                if isinstance(value, float)
                else "-"
                if value is None
                else str(value)
                for value in row
            ]
            for row in overview.select(shown).head(_MOST_SHOWN).iter_rows()
        ]
        hidden = overview.height - len(rows)
        table = ReportTable(
            shown,
            rows,
            "Runs: seconds recorded, events discarded by the tracer, messages that did not arrive",
            notes=[f"{hidden:,} more are not shown."] if hidden else [],
            left=frozenset(("run", "cell", "status")),
        )
        parts: list[Sentence | ReportTable] = [*sentences, table]
        return "\n".join(part._repr_html_() for part in parts)
