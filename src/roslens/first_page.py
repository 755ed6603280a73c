"""``roslens PATH``: what was recorded, what is slow, what looks wrong, and what to ask next."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import polars as pl

from roslens.analysis.chains.parameters import ChainsParameters
from roslens.analysis.chains.report import ChainsReport
from roslens.analysis.chains.tables import AT_LEAST, BOUNDS
from roslens.analysis.estimate import telling_factors
from roslens.analysis.measures.callbacks import CALLBACK, durations
from roslens.analysis.measures.loss import health_findings, what_is_bent
from roslens.analysis.measures.services import INFRASTRUCTURE, unanswered
from roslens.analysis.overview.in_range import chains_overview
from roslens.analysis.overview.runs_and_topics import by_cell, cells_in_words, topics_by_cell
from roslens.analysis.reports.front import utc
from roslens.analysis.reports.numbers import duration, significant
from roslens.analysis.reports.table import ReportTable, Sentence
from roslens.analysis.statistics.quantiles import least_samples
from roslens.collectors.topics import of_application
from roslens.compare import write_text
from roslens.printed import show_table, show_text
from roslens.recording import NotEnoughEvidenceError
from roslens.recording.terminal import Console
from roslens.recording.text import shown
from roslens.recordings import Recordings, open_recordings

_MOST = 10
"""Rows of a table."""
_MOST_FOLLOWED = 1_000_000
"""Messages whose chains are followed unasked."""
_TAIL, _TAIL_MS = 10.0, 1.0
"""A tail is reported if P99 / median reaches the first of these, and P99 the second [ms]."""
_BUSY = 0.8
_DISTROS = {"4.1": "Humble", "6.3": "Iron", "8.2": "Jazzy", "8.6": "Kilted"}
"""By major and minor version of tracetools."""
_LOSSES = ("discarded_events", "lost_packets", "truncated")

Rows = list[dict[str, Any]]
Part = Sentence | ReportTable


@dataclass(frozen=True)
class Suspicion:
    """What looks wrong, what shows it, and the command that looks closer."""

    what: str
    command: str


class FirstPage:
    """The first page of recordings; each part is computed when it is asked for.

    Parameters
    ----------
    recordings
        Open and collected.
    paths
        As they were given: for the commands that are proposed.
    """

    def __init__(self, recordings: Recordings, paths: Sequence[Path]) -> None:
        self._all = recordings
        self._paths = " ".join(shlex.quote(str(path)) for path in paths)
        self.title = ", ".join(path.resolve().name for path in paths[:3])

    # ------------------------------------------------------------ what was recorded

    @cached_property
    def recorded(self) -> dict[str, str]:
        """What was recorded, by name; what the recording does not tell is left out."""
        runs, processes = self._all.runs, self._all.table("processes").collect()
        found = {"runs": f"{len(runs)}: no intervals" if len(runs) == 1 else str(len(runs))}
        begin, end = processes["begin_ns"].min(), processes["end_ns"].max()
        if isinstance(begin, int) and isinstance(end, int):
            found["recorded"] = utc(begin)
            span = (pl.col("end_ns").max() - pl.col("begin_ns").min()) / 1e9
            spans = processes.group_by("run").agg(s=span)["s"].drop_nulls().sort()
            shortest, longest = (significant(spans[i], 3) for i in (0, -1))
            found["for"] = f"{longest} s" if shortest == longest else f"{shortest} to {longest} s"
        versions = processes["tracetools_version"].drop_nulls().unique().sort().to_list()
        distros = {run.ros_distro.capitalize() for run in runs if run.ros_distro}
        distros |= {d for v in versions if (d := _DISTROS.get(".".join(v.split(".")[:2])))}
        told = f"{' and '.join(sorted(distros))} (tracetools {', '.join(versions)})"
        found["ROS 2"] = told.strip() if versions else ", ".join(sorted(distros)) or "not recorded"
        rmw = processes["rmw"].drop_nulls().unique().sort().to_list()
        found["middleware"] = ", ".join(rmw) or "not recorded"
        found["processes"] = f"{processes.height:,}"
        found["nodes"] = f"{len(self._all.names('node', 'nodes')):,}"
        found["topics"] = f"{len(self._all.names('topic', 'publishers', 'subscriptions')):,}"
        found["events"] = f"{int(processes['events'].sum()):,}"
        found["the tracer lost"] = self._lost or "nothing that it told of"
        return found

    @cached_property
    def _lost(self) -> str:
        """What the tracer lost in the first runs in which it lost anything; nothing: empty."""
        return "; ".join([loss.text for loss in self._all.tracer_loss if loss.any][:3])

    @cached_property
    def not_seen(self) -> str:
        """What was not recorded and would have told more, in a sentence."""
        absent = self._health.filter(pl.col("kind") == "missing_events")["where"].to_list()
        words = {
            "callback_scheduling": "the kernel's scheduling, without which transport and waiting "
            "for the executor cannot be told apart",
            "messages": "some events of messages",
            "executor_intervals": "what executors did between callbacks",
            "service_calls": "the requests of service clients",
            "heap": "memory allocations",
        }
        told = [text for table, text in words.items() if table in absent]
        if self.callbacks.is_empty():
            told.insert(0, "callbacks, so that no latency has an end")
        return f"Not recorded: {'; '.join(told)}." if told else "All that is looked for was seen."

    @cached_property
    def _health(self) -> pl.DataFrame:
        return self._all.table("health").collect()

    # ------------------------------------------------------------ what is slow

    @cached_property
    def _cells(self) -> dict[str, str]:
        return cells_in_words(self._all.runs)

    @cached_property
    def topics(self) -> pl.DataFrame:
        """The application's topics, the slowest first; as of `topics_overview`, by cell."""
        return topics_by_cell(self._all.table("messages").filter(of_application()), self._cells)

    @cached_property
    def callbacks(self) -> pl.DataFrame:
        """Callbacks, those first that kept their thread longest.

        Columns as of ``callbacks.summary``; percentiles and ``busy`` are means over runs, and a
        percentile is null where a run has too few for its interval.
        """
        own = (pl.col("kind") != "subscription") | of_application("name")
        ended = pl.col("count") - pl.col("unfinished")
        return (
            durations(
                self._all.table("callback_instances"),
                [replace(run, cell={"run": run.name}) for run in self._all.runs],
            )
            .filter(own.fill_null(value=True))
            .with_columns(pl.col("cell").str.strip_prefix("run=").replace_strict(self._cells))
            .group_by("cell", *CALLBACK)
            .agg(
                pl.col("runs", "count", "unfinished").sum(),
                *(pl.when((ended >= least_samples(q)).all()).then(pl.col(name).mean()).alias(name)
                  for name, q in (("p50_ns", 0.5), ("p99_ns", 0.99))),
                pl.col("max_ns").max(),
                pl.col("busy").mean(),
            )
            .sort("max_ns", "cell", *CALLBACK, descending=[True, *[False] * 4], nulls_last=True)
        )  # fmt: skip

    @cached_property
    def chains(self) -> pl.DataFrame | None:
        """The chains, the slowest first; None where following all would take long."""
        messages = self._all.table("messages").select(pl.len()).collect().item()
        if messages > _MOST_FOLLOWED:
            return None
        report = ChainsReport(
            self._all,
            ChainsParameters.checked({"recordings": [str(r.path) for r in self._all.recordings]}),
        )
        found = [chain.found for chain in report.chains]
        return by_cell(
            self._cells,
            lambda runs: chains_overview(
                [replace(each, instances=each.instances.filter(runs)) for each in found]
            ).filter(pl.col("instances") > 0),
        ).sort("worst_ms", descending=True, nulls_last=True, maintain_order=True)

    @cached_property
    def late(self) -> pl.DataFrame:
        """Late messages and why, the latest of all runs first; as of ``why.frame``."""
        return self._all.why.frame().sort("late_by_ns", descending=True, maintain_order=True)

    # ------------------------------------------------------------ what looks wrong

    @cached_property
    def suspicions(self) -> list[Suspicion]:
        """What looks wrong, the gravest first."""
        return [*self._silences(), *self._lost_events(), *self._lost_messages(),
                *self._late_timers(), *self._tails(), *self._busy(), *self._unanswered(),
                *self._findings()]  # fmt: skip

    def _silences(self) -> Iterator[Suspicion]:
        for row in self._all.silences().head(_MOST).iter_rows(named=True):
            where = f"In {row['run']}, " if len(self._all.runs) > 1 else ""
            yield Suspicion(where + row["sentence"], f"roslens lab {self._paths}")

    def _lost_events(self) -> Iterator[Suspicion]:
        for loss in self._all.tracer_loss:
            if loss.any:
                text = f"The tracer lost events in {loss.run.name}: {loss.text}."
                yield Suspicion(
                    f"{text} {what_is_bent([loss])}", f"roslens info --check {self._paths}"
                )
        broken = [run for run in self._all.runs if not run.complete]
        for run in broken[:_MOST]:
            text = f"{run.name} did not complete: {run.failure or run.status}."
            yield Suspicion(text, f"roslens info {self._paths}")
        disturbed = [run for run in self._all.runs if run.disturbances]
        if disturbed:
            what = "; ".join(dict.fromkeys(x for run in disturbed for x in run.disturbances))
            yield Suspicion(
                f"{_disturbed(len(disturbed), len(self._all.runs))}: {what}. Latencies may be "
                "those of the machine's other work.",
                f"roslens report latency {self._paths} -p leave_out=[disturbed]",
            )

    def _lost_messages(self) -> Iterator[Suspicion]:
        for row in self.topics.filter(pl.col("not_arrived") > 0).head(_MOST).iter_rows(named=True):
            of = f"{row['not_arrived']:,} of {row['messages']:,} messages"
            text = (
                f"{of} on {row['topic']} did not arrive at {row['to'] or 'its subscription'}"
                f"{_where(row)}."
            )
            yield Suspicion(
                text, f"roslens report latency {self._paths} -p 'topics=[{row['topic']}]'"
            )

    def _late_timers(self) -> Iterator[Suspicion]:
        timers = self._all.table("timer_activations").group_by("node", "period_ns").agg(
            pl.col("skipped").sum(), pl.len(), late=pl.col("lateness_ns").max())  # fmt: skip
        found = timers.filter(pl.col("skipped") > 0).sort("late", descending=True).collect()
        for row in found.head(_MOST).iter_rows(named=True):
            due = row["skipped"] + row["len"]
            yield Suspicion(
                f"The {duration(row['period_ns'])} timer of {row['node'] or 'an unknown node'} "
                f"did not run {row['skipped']:,} of the {due:,} times that it was due; "
                f"its latest start came {duration(row['late'])} after it was due.",
                f"roslens lab {self._paths}",
            )

    def _tails(self) -> Iterator[Suspicion]:
        long = pl.coalesce("p99_ms", "worst_ms")
        found = self.topics.filter(long >= pl.max_horizontal(_TAIL * pl.col("p50_ms"), _TAIL_MS))
        for row in found.head(_MOST).iter_rows(named=True):
            named = "P99" if row["p99_ms"] is not None else "the longest"
            value = duration(1e6 * (row["p99_ms"] or row["worst_ms"]))
            yield Suspicion(
                f"Some messages on {row['topic']} are late{_where(row)}: the median is "
                f"{duration(1e6 * row['p50_ms'])}, {named} {value}.",
                f"roslens why {self._paths} --topic {row['topic']}",
            )

    def _busy(self) -> Iterator[Suspicion]:
        for row in self.callbacks.filter(pl.col("busy") >= _BUSY).iter_rows(named=True):
            yield Suspicion(
                f"{_callback(row)} runs for {100 * row['busy']:.0f} % of the time{_where(row)}.",
                f"roslens lab {self._paths}",
            )

    def _unanswered(self) -> Iterator[Suspicion]:
        calls = self._all.table("service_calls").filter(pl.col("request_sent_ns").is_not_null())
        for row in unanswered(calls).iter_rows(named=True):
            if row["not_answered"] and not (row["service"] or "").endswith(INFRASTRUCTURE):
                yield Suspicion(
                    f"{row['not_answered']:,} of {row['requests']:,} requests to {row['service']} "
                    f"have no answer in {row['run']}.",
                    f"roslens report executors {self._paths}",
                )

    def _findings(self) -> Iterator[Suspicion]:
        found = health_findings(self._health.lazy(), "warning")
        for row in found.filter(~pl.col("kind").is_in(_LOSSES)).head(_MOST).iter_rows(named=True):
            yield Suspicion(
                f"{row['what'][0].upper()}{row['what'][1:]} ({row['count']:,} in {row['where']}).",
                f"roslens info {self._paths}",
            )

    # ------------------------------------------------------------ the page

    def parts(self) -> list[tuple[str, list[Part]]]:
        """Headings, and what stands below each."""
        return [
            (self.title, [*map(Sentence, (*self._facts(), self.not_seen)), *self._copies()]),
            ("What looks wrong here", self._wrong()),
            ("Topics", self._topics()),
            ("Callbacks that keep their threads longest", self._callbacks()),
            ("Late messages", self._late()),
            ("Chains", self._chains()),
        ]

    def _facts(self) -> Iterator[str]:
        """What was recorded, in sentences."""
        r = self.recorded
        what = "1 run, so no intervals" if len(self._all.runs) == 1 else f"{r['runs']} runs"
        when = f", recorded {r['recorded']}, {r['for']}" if "recorded" in r else ""
        yield f"{what}{when}. ROS 2 {r['ROS 2']}, middleware {r['middleware']}."
        several = {"nodes": "node", "processes": "process", "topics": "topic", "events": "event"}
        nodes, processes, topics, events = (
            f"{r[many]} {one if r[many] == '1' else many}" for many, one in several.items()
        )
        told = f"lost events: {self._lost}" if self._lost else "told of no loss"
        yield f"{nodes} in {processes}, {topics}, {events}; the tracer {told}."
        differ = telling_factors([run.cell for run in self._all.runs])
        if differ:
            yield (
                f"The runs differ in {' and '.join(differ)}: each row below is of one cell, a "
                "mean over its runs."
            )

    def _copies(self) -> list[Part]:
        return [Sentence(f"{text}.") for text in self._all.copies_told()]

    def _wrong(self) -> list[Part]:
        if not self.suspicions:
            return [Sentence("Nothing that is looked for: no silence, no loss, no timer that "
                             "did not run when due, no tail, no unanswered request.")]  # fmt: skip
        rows = [[x.what, x.command] for x in self.suspicions]
        columns = ["what the recording shows", "look closer"]
        return [ReportTable(columns, rows, "", left=frozenset(columns))]

    def _topics(self) -> list[Part]:
        if self.topics.is_empty():
            return [Sentence("No message of the application was published and subscribed to.")]
        columns = ["topic", "from", "to", "n", "Hz", "P50", "P99", "longest", "not arrived"]
        rows = [
            [*self._cell(r), r["topic"], r["from"] or "?", r["to"] or "?", f"{r['messages']:,}",
             significant(r["rate_hz"], 3),
             *(_ms(r[name]) for name in ("p50_ms", "p99_ms", "worst_ms")), _arrival(r)]
            for r in self.topics.head(_MOST).iter_rows(named=True)
        ]  # fmt: skip
        told = "From publish to the start of the callback, the slowest at P99 first"
        return [ReportTable([*self._heading, *columns], rows, told,
                            [*_more(self.topics), *_too_few(rows, -4)],
                            left=frozenset((*self._heading, *columns[:3])),
                            minor=["to", "from"])]  # fmt: skip

    @property
    def _heading(self) -> list[str]:
        return ["cell"] if any(self._cells.values()) else []

    def _cell(self, row: Mapping[str, Any]) -> list[str]:
        return [row["cell"]] if self._heading else []

    def _callbacks(self) -> list[Part]:
        if self.callbacks.is_empty():
            return [Sentence("No callback was traced.")]
        columns = ["callback", "n", "P50", "P99", "longest", "of the time"]
        rows = [
            [*self._cell(r), _callback(r), f"{r['count']:,}",
             *(duration(r[name]) for name in ("p50_ns", "p99_ns", "max_ns")),
             f"{significant(100 * r['busy'], 3)} %" if r["busy"] is not None else "-"]
            for r in self.callbacks.head(_MOST).iter_rows(named=True)
        ]  # fmt: skip
        notes = [*_more(self.callbacks), *_too_few(rows, -4)]
        left = (*self._heading, columns[0])
        return [ReportTable([*self._heading, *columns], rows, "", notes, left=frozenset(left))]

    def _late(self) -> list[Part]:
        late = self.late
        if late.is_empty():
            return [Sentence("No message was late.")]
        several = len(self._all.runs) > 1
        told: list[Part] = [
            Sentence(
                f"{row['run'] + ', at' if several else 'At'} {row['at_s']:.3f} s: {row['sentence']}"
            )
            for row in late.head(_MOST).iter_rows(named=True)
        ]
        more = late.height - len(told)
        again = f"{more:,} more: roslens why {self._paths}"
        return [*told, *([Sentence(again)] if more > 0 else [])]

    def _chains(self) -> list[Part]:
        if self.chains is None:
            text = f"Not followed unasked, of so many messages: roslens chains {self._paths}"
            return [Sentence(text)]
        if self.chains.is_empty():
            return [Sentence("No node was seen to pass on what it received.")]
        columns = ["chain", "n", "reached the end", "P50", "P99", "longest"]
        rows = [
            [*self._cell(r), r["chain"], f"{r['instances']:,}", f"{r['complete']:,}",
             *(_bound(r, _ms(r[name])) for name in ("p50_ms", "p99_ms", "worst_ms"))]
            for r in self.chains.head(_MOST).iter_rows(named=True)
        ]  # fmt: skip
        notes = [
            *_more(self.chains),
            *([BOUNDS] if self.chains["at_least"].any() else []),
            *_too_few(rows, -3),
            f"Where the time goes: roslens chains {self._paths}",
        ]
        told = "From the first publication to the end of the last callback, the longest first"
        left = (*self._heading, columns[0])
        return [ReportTable([*self._heading, *columns], rows, told, notes, left=frozenset(left))]

    def json_text(self) -> str:
        """All that the page shows, times with their units in their names."""

        def rows(frame: pl.DataFrame | None) -> Rows | None:
            return None if frame is None else frame.head(_MOST).to_dicts()

        return json.dumps({
            "recorded": self.recorded, "not_seen": self.not_seen,
            "looks_wrong": [{"what": x.what, "command": x.command} for x in self.suspicions],
            "topics": rows(self.topics), "callbacks": rows(self.callbacks),
            "late": rows(self.late), "chains": rows(self.chains),
        }, indent=1)  # fmt: skip

    def html(self) -> str:
        """The page as one file that needs nothing from anywhere."""
        from roslens.html_page import html_document  # noqa: PLC0415  (a second)

        (title, head), *sections = self.parts()
        body = [f"<h1>{escape(title)}</h1>", *(part._repr_html_() for part in head)]
        for heading, parts in sections:
            body += [f"<h2>{escape(heading)}</h2>", *(part._repr_html_() for part in parts)]
        return html_document(title, "\n".join(body))


def show_page(paths: Sequence[Path], *, html: Path | None, as_json: bool) -> None:
    """Print the first page of recordings, and write it where that is asked for.

    Raises
    ------
    UsageError
        There is no recording, or the page cannot be written.
    NotEnoughEvidenceError
        Nothing of ROS 2 was recorded; printed all the same.
    """
    with Console(stderr=True).status("reading") as status:
        found = open_recordings(
            paths, progress=lambda done, of, _: status.update(f"reading {done + 1} of {of}")
        )
        page = FirstPage(found, paths)
        text, parts = page.json_text() if as_json else "", page.parts()
    if as_json:
        print(text)
    for heading, below in () if as_json else parts:
        show_text(heading, "bold")
        for part in below:
            if isinstance(part, ReportTable):
                show_table(part, emphasis=False)
            else:
                show_text(f"{part.text}\n")
    if html is not None:
        write_text(html, page.html())
        print(f"roslens: written: {shown(str(html))}", file=sys.stderr)
    why = found.without_ros_events()
    if why is not None:
        raise NotEnoughEvidenceError(why)


def _too_few(rows: Sequence[Sequence[str]], p50: int) -> list[str]:
    """A note where a P50, in column `p50` from the end, or the P99 right of it is not told."""
    few = any("-" in (row[p50], row[p50 + 1]) for row in rows)
    return ["-: too few to tell; P50 needs 6 in each run, P99 299."] if few else []


def _disturbed(some: int, of: int) -> str:
    if of == 1:
        return "The run was disturbed"
    return f"{some} of {of} runs {'was' if some == 1 else 'were'} disturbed"


def _ms(value: float | None) -> str:
    return duration(None if value is None else 1e6 * value)


def _bound(row: Mapping[str, Any], value: str) -> str:
    return f"{AT_LEAST}{value}" if row["at_least"] and value != "-" else value


def _where(row: Mapping[str, Any]) -> str:
    return f" with {row['cell']}" if row["cell"] else ""


def _callback(row: Mapping[str, Any]) -> str:
    return f"{row['kind'] or 'callback'} {row['name'] or '?'} of {row['node'] or 'an unknown node'}"


def _arrival(row: Mapping[str, Any]) -> str:
    """How many did not arrive; of how many nobody can say."""
    unknown = f" ({row['unknown']:,} unknown)" if row["unknown"] else ""
    return f"{row['not_arrived']:,}{unknown}"


def _more(frame: pl.DataFrame) -> list[str]:
    return [f"{frame.height - _MOST:,} more are not shown."] if frame.height > _MOST else []
