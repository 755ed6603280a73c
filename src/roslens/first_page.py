"""Print ``roslens PATH``: what was recorded, is slow or looks wrong, and what to ask next."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import polars as pl

from roslens.analysis.chains.tables import AT_LEAST, BOUNDS, CLOCKS
from roslens.analysis.estimate import short_labels, telling_factors
from roslens.analysis.figures.drawing import Drawing
from roslens.analysis.latency.headline import untold
from roslens.analysis.measures.services import service_estimates
from roslens.analysis.path.late import untold_in_words
from roslens.analysis.reports.front import Front, arrival_sentence, trigger_sentences
from roslens.analysis.reports.numbers import counted, duration, significant
from roslens.analysis.reports.table import ReportTable, Sentence
from roslens.collectors.resolving import not_read_in_words
from roslens.first_suspicions import Suspicion, Suspicions, callback_in_words, cell_in_words, in_ms
from roslens.output import write_text
from roslens.printed import show_table, show_text
from roslens.recording import NotEnoughEvidenceError
from roslens.recording.terminal import Console, say
from roslens.recording.text import shown
from roslens.recordings import Recordings, open_recordings

_MOST = 10
"""The maximum number of rows in a table."""
_GRAVE = 6
"""So many kinds of findings come before the slowest topic: what hung, was lost or climbs."""
_MOST_DRAWN = 3
_LATE = (
    "A message is late if it takes longer, from publish to the end of its callback, than the P99 "
    "of its subscription. That P99 leaves out the start of each run (a tenth, 5 s at most); the "
    "tables above do not."
)
_NOT_MATCHED = (
    "not matched: published before the subscription first took one of that publisher; whether they "
    "should have arrived is not known."
)
_GUESSED = "a node may have used another message"
_APART = "Between hosts, also what is less than twice as long as their clocks may be apart."
_STRIP = ("recorded", "for", "runs", "ROS 2", "middleware", "nodes", "topics", "the tracer lost")

Rows = list[dict[str, Any]]
Part = Sentence | ReportTable


class FirstPage(Suspicions):
    """First page of recordings, with the parameters of `Suspicions`; parts are computed on use."""

    def __init__(self, recordings: Recordings, paths: Sequence[Path]) -> None:
        super().__init__(recordings, paths)
        self.title = ", ".join(path.resolve().name for path in paths[:3])

    def parts(self) -> list[tuple[str, list[Part]]]:
        """Return the headings, each with the parts below it."""
        return [
            (self.title, [*map(Sentence, self._facts())]),
            ("What looks wrong here", self._suspicions_parts()),
            ("Topics", self._topics()),
            ("Callbacks with the longest executions", self._callbacks()),
            ("Processes", self._processes()),
            ("Late messages", self._late_parts()),
            ("Chains", self._chains()),
        ]

    def _facts(self) -> Iterator[str]:
        """Describe in sentences what was recorded."""
        r = self.recorded
        count = len(self._all.runs)
        runs = "1 run, so no intervals" if count == 1 else f"{count} runs"
        when = f", recorded {r['recorded']}, events of {r['for']}" if "recorded" in r else ""
        unread = not_read_in_words(len(self._all.not_read))
        yield f"{runs}{when}{unread}. ROS 2 {r['ROS 2']}, middleware {r['middleware']}."
        several = {"nodes": "node", "processes": "process", "topics": "topic", "events": "event"}
        nodes, *counts = (
            f"{r[plural]} {singular if r[plural] == '1' else plural}"
            for plural, singular in several.items()
            if plural in r
        )
        loss = f"lost events: {self._lost}" if self._lost else "reported no loss"
        yield f"{nodes} in {', '.join(counts)}; the tracer {loss}."
        yield from self._left_out()
        yield from trigger_sentences(self._all.runs)
        differ = telling_factors([run.cell for run in self._all.runs])
        if differ:
            yield (
                f"The runs differ in {' and '.join(differ)}: each row below is of one cell; P50 "
                "and P99 are means over its runs."
            )
        yield self.not_seen
        yield from (f"{text}." for text in self._all.copies_in_words())

    def _left_out(self) -> Iterator[str]:
        """Say which runs the figures leave out, as reports do."""
        failed = [run for run in self._all.runs if not run.complete]
        if len(failed) == len(self._all.runs):
            yield (
                "No run completed: the figures below are of all runs; reports have them with -p "
                "include_failed=true."
            )
        elif failed:
            yield (
                f"{counted(len(failed), 'run')} of {len(self._all.runs)} did not complete: the "
                "figures below leave such runs out, as reports do."
            )

    def _suspicions_parts(self) -> list[Part]:
        if not self.suspicions:
            return [Sentence(self._why_nothing)]
        rows = []
        for kind in self._kinds:
            rows += [[suspicion.sentence, suspicion.command] for suspicion in kind[:_MOST]]
            if len(kind) > _MOST:
                more = f"{len(kind) - _MOST:,} more of the same kind."
                rows.append([more, f"roslens {self._paths} --json"])
        columns = ["what the recording shows", "look closer"]
        return [ReportTable(columns, rows, "", left=frozenset(columns))]

    @property
    def _why_nothing(self) -> str:
        kinds = ", ".join(f"no {kind}" for kind in self.looked_for)
        nothing = f"Nothing that is looked for: {kinds}." if kinds else "Nothing could be judged."
        missed, known, unknown, early = self.arrivals
        if not unknown + early:
            return nothing
        return f"{nothing} {arrival_sentence(missed, known, unknown, early)}"

    def _topics(self) -> list[Part]:
        if self.topics.is_empty():
            nothing = "No message of the application was published and subscribed to."
            return [Sentence(nothing), *map(Sentence, self._calls())]
        columns = ["topic", "from", "to", "n", "Hz", "P50", "P99", "longest", "not arrived"]
        rows = [
            [*self._cell(r), r["topic"], r["from"] or "?", r["to"] or "?", f"{r['messages']:,}",
             significant(r["rate_hz"], 3),
             *(in_ms(r[name]) for name in ("p50_ms", "p99_ms", "worst_ms")), _arrival(r)]
            for r in self.topics.head(_MOST).iter_rows(named=True)
        ]  # fmt: skip
        caption = "From publish to the start of the callback, the slowest at P99 first"
        return [ReportTable([*self._heading, *columns], rows, caption,
                            [*_how_many_more(self.topics),
                             *([_NOT_MATCHED] if self.topics["not_matched"].sum() else []),
                             *(few := _too_few(rows, -4)),
                             *([_APART] if few and self._several_hosts else [])],
                            left=frozenset((*self._heading, *columns[:3])),
                            minor=["to", "from"])]  # fmt: skip

    def _calls(self) -> Iterator[str]:
        """Say how long calls of services and actions took, or why that is not known."""
        calls = self._counting.table("service_calls")
        called = service_estimates(calls, self._counting.runs)
        medians = [each for each in called if each.metric == "service_latency_p50"][:_MOST]
        cells = [{k: v for k, v in each.cell.items() if k != "service"} for each in medians]
        for each, label in zip(medians, short_labels(cells), strict=True):
            where = f" with {label}" if self._heading else ""
            known = f"not known: {each.refused}" if each.value is None else duration(each.value)
            yield f"Calls of {each.cell['service']}{where}: the median is {known}."
        if unknown := untold(calls, self._all.table("health")):
            yield unknown

    @property
    def _several_hosts(self) -> bool:
        hosts = self._counting.table("processes").group_by("run").agg(pl.col("host").n_unique())
        return bool(hosts.select((pl.col("host") > 1).any()).collect().item())

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
            [*self._cell(r), callback_in_words(r), f"{r['count']:,}",
             *(duration(r[name]) for name in ("p50_ns", "p99_ns", "max_ns")),
             f"{significant(100 * r['busy'], 3)} %" if r["busy"] is not None else "-"]
            for r in self.callbacks.head(_MOST).iter_rows(named=True)
        ]  # fmt: skip
        notes = [*_how_many_more(self.callbacks), *self._busiest(), *_too_few(rows, -4)]
        left = (*self._heading, columns[0])
        return [ReportTable([*self._heading, *columns], rows, "", notes, left=frozenset(left))]

    def _busiest(self) -> Iterator[str]:
        """Name the busiest callback if the table does not show it."""
        busiest = self.callbacks["busy"].arg_max()
        if busiest is not None and busiest >= _MOST:
            row = self.callbacks.row(busiest, named=True)
            share = significant(100 * row["busy"], 3)
            which = f"{callback_in_words(row)}{cell_in_words(row)}"
            yield f"The busiest is {which}: {share} % of the time."

    def _processes(self) -> list[Part]:
        if self.processes.is_empty():
            return [Sentence("No process with a node was seen.")]
        columns = ["nodes", "process", "CPU [cores]", "callbacks"]
        rows = [
            [*self._cell(r), r["nodes"], r["process"] or "?", significant(r["cpu"], 3),
             "-" if r["callbacks"] is None else f"{significant(100 * r['callbacks'], 3)} %"]
            for r in self.processes.head(_MOST).iter_rows(named=True)
        ]  # fmt: skip
        caption = (
            "Which use most of the CPU (first to last sample), and how much their callbacks ran"
        )
        absent = "-: CPU time is sampled by roslens record only; a trace does not contain it."
        window = "CPU is over all samples; reports leave out what precedes and follows the work."
        notes = [*_how_many_more(self.processes),
                 *([absent] * self.processes["cpu"].has_nulls()),
                 *([window] * (self.processes["cpu"].count() > 0))]  # fmt: skip
        left = frozenset((*self._heading, *columns[:2]))
        return [ReportTable([*self._heading, *columns], rows, caption, notes, left=left,
                            minor=["process"])]  # fmt: skip

    @cached_property
    def _late_untold(self) -> str | None:
        """Say of how many messages it cannot be told whether they were late, if there are any."""
        if self.late is None:
            return None
        return untold_in_words(self._counting.why.lateness_by_run().values())

    def _late_parts(self) -> list[Part]:
        late = self.late
        if late is None:
            return [Sentence(f"Not looked at unasked, of so many runs: roslens why {self._paths}")]
        not_judged: list[Part] = [] if self._late_untold is None else [Sentence(self._late_untold)]
        if late.is_empty():
            of_runs = self._counting.why.lateness_by_run().values()
            judged = sum(of_run.judged for of_run in of_runs)
            than = "took longer than the P99 of its subscription"
            none = f"None of {counted(judged, 'message')} {than}."
            nothing = "No message could be judged."
            told = [none, _LATE] if judged else [] if not_judged else [nothing]
            return [*map(Sentence, told[:1]), *not_judged, *map(Sentence, told[1:])]
        several, first = len(self._all.runs) > 1, late.head(_MOST)
        sentences: list[Part] = [
            Sentence(f"{row['run'] + ', at' if several else 'At'} {at} s: {row['sentence']}")
            for at, row in zip(
                _seconds(first["at_s"].to_list()), first.iter_rows(named=True), strict=True
            )
        ]
        more = late.height - len(sentences)
        again = f"{more:,} more: roslens why {self._paths}"
        return [
            *sentences,
            *([Sentence(again)] if more > 0 else []),
            *not_judged,
            Sentence(_LATE),
        ]

    def _chains(self) -> list[Part]:
        if self.chains is None:
            return [Sentence(f"Not followed unasked, of so many: roslens chains {self._paths}")]
        if self.chains.is_empty():
            return [Sentence("No node was seen to pass on what it received.")]
        columns = ["chain", "n", "reached the end", "P50", "P99", "longest"]
        rows = [
            [*self._cell(r), r["chain"], f"{r['instances']:,}", f"{r['complete']:,}",
             *(_bound(r, in_ms(r[name])) for name in ("p50_ms", "p99_ms", "worst_ms"))]
            for r in self.chains.head(_MOST).iter_rows(named=True)
        ]  # fmt: skip
        guessed = int(self.chains["approximate"].sum())
        is_apart = self.chains.select(
            ((pl.col("complete") > 0) & pl.col("worst_ms").is_null()).any()
        ).item()
        notes = [
            *_how_many_more(self.chains),
            *([BOUNDS] if self.chains["at_least"].any() else []),
            *([f"{counted(guessed, 'approximate instance')}: {_GUESSED}."] if guessed else []),
            *([CLOCKS] if is_apart else _too_few(rows, -3)),
            f"Where the time goes: roslens chains {self._paths}",
        ]
        caption = "From the first publication to the end of the last callback, the longest first"
        left = (*self._heading, columns[0])
        return [ReportTable([*self._heading, *columns], rows, caption, notes, left=frozenset(left))]

    def json_text(self) -> str:
        """Return the page's content as JSON, with units of times in their names."""

        def rows(frame: pl.DataFrame | None) -> Rows | None:
            return None if frame is None else frame.to_dicts()

        counting = self._counting.runs
        return json.dumps({
            "recorded": self.recorded, "not_seen": self.not_seen,
            "runs_left_out": [run.name for run in self._all.runs if run not in counting],
            "looks_wrong": [{"what": x.sentence, "command": x.command} for x in self.suspicions],
            "topics": rows(self.topics), "callbacks": rows(self.callbacks),
            "processes": rows(self.processes),
            "late": rows(None if self.late is None else self.late.head(_MOST)),
            "late_messages": None if self.late is None else self.late.height,
            "late_not_told": self._late_untold, "chains": rows(self.chains),
        }, indent=1)  # fmt: skip

    def html(self) -> str:
        """Return the page as one self-contained HTML file."""
        from roslens.html_page import html_document  # noqa: PLC0415  (a second)

        (title, head), *sections = self.parts()
        body = [f"<h1>{escape(title)}</h1>", self._front()._repr_html_()]
        every: list[tuple[str, Sequence[Part | Drawing]]]
        every = [("What was recorded", head), *sections, ("Around the latest", self._drawn())]
        for heading, parts in every:
            if parts:
                body += [f"<h2>{escape(heading)}</h2>", *(part._repr_html_() for part in parts)]
        return html_document(title, "\n".join(body))

    def _front(self) -> Front:
        """Return the front: the gravest finding, the slowest topic, a picture, and the facts.

        The slowest topic comes first unless something hung, was lost, or climbs.
        """
        from roslens.analysis.overview.figure import topics_plot  # noqa: PLC0415  (matplotlib)

        first, *more = self.suspicions or [Suspicion(self._why_nothing, "")]
        sentences = [
            first.sentence + (f" {counted(len(more), 'more thing')} below." if more else "")
        ]
        timed = self.topics.filter(pl.col("worst_ms") > 0)
        for row in timed.head(1).iter_rows(named=True):
            count = self.topics["topic"].n_unique()
            names = {"p50_ms": "median", "p99_ms": "P99", "worst_ms": "longest"}
            took = [
                f"{name} {in_ms(row[column])}"
                for column, name in names.items()
                if row[column] is not None
            ]
            sentences.append(
                f"Slowest{f' of {count} topics' if count > 1 else ''}: {row['topic']}"
                f"{self._publisher(row)} to {row['to'] or '?'}{cell_in_words(row)}, "
                f"{', '.join(took)}."
            )
        if self.suspicions and not any(self._kinds[:_GRAVE]):
            sentences.reverse()
        facts = {k: v for k, v in self.recorded.items() if k in _STRIP}
        picture = None if timed.is_empty() else topics_plot(timed)
        return Front(sentences, picture, {"recording": self.title, **facts},
                     frozenset({"the tracer lost"} if self._lost else ()))  # fmt: skip

    def _drawn(self) -> list[Part | Drawing]:
        """Draw the threads around the worst messages, with clickable marks."""
        from roslens.analysis.figures.timeline import LEGEND  # noqa: PLC0415  (matplotlib)
        from roslens.analysis.reports.moment import drawn  # noqa: PLC0415

        key, where = (
            ["run", "message_id", "subscription_id"],
            ["subscription_host", "subscription_vpid"],
        )
        if self.late is None:
            return []
        messages = self._all.table("messages").select(*key, *where, "callback_start_ns")
        late = self.late.head(_MOST_DRAWN).lazy().join(messages, on=key, maintain_order="left")
        rows = list(enumerate(late.collect().iter_rows(named=True), 1))
        legend = Sentence(f"{LEGEND}. Click a mark to see what it is.")
        return [legend, *(drawn(number, row, self._all) for number, row in rows)] if rows else []


def show_page(paths: Sequence[Path], *, html: Path | None, as_json: bool) -> None:
    """Print the first page of recordings, and write it to a file on request.

    Raises
    ------
    UsageError
        There is no recording, or the page cannot be written.
    NotEnoughEvidenceError
        Nothing of ROS 2 was recorded; the page is printed all the same.
    """
    with Console(stderr=True).status("reading") as status:
        recordings = open_recordings(
            paths, progress=lambda done, total, _: status.update(f"reading {done + 1} of {total}")
        )
        page = FirstPage(recordings, paths)
        text, parts = page.json_text() if as_json else "", page.parts()
    if as_json:
        say(text, exact=True)
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
    why = recordings.without_ros_events()
    if why is not None:
        raise NotEnoughEvidenceError(why)


def _too_few(rows: Sequence[Sequence[str]], p50: int) -> list[str]:
    """Explain a missing P50, in column `p50` from the end, or the P99 right of it."""
    few = any("-" in (row[p50], row[p50 + 1]) for row in rows)
    return ["-: too few to tell; P50 needs 6 in each run, P99 299."] if few else []


def _seconds(times: Sequence[float]) -> list[str]:
    """Format times with at least 3 digits, and enough that different times look different."""
    for digits in range(3, 10):
        texts = [f"{time:.{digits}f}" for time in times]
        if len(set(texts)) == len(set(times)):
            break
    return texts


def _bound(row: Mapping[str, Any], value: str) -> str:
    return f"{AT_LEAST}{value}" if row["at_least"] and value != "-" else value


def _arrival(row: Mapping[str, Any]) -> str:
    """Format how many messages did not arrive, and of how many that is not known."""
    words = {"unknown": "unknown", "not_matched": "not matched"}
    untold = ", ".join(f"{row[name]:,} {text}" for name, text in words.items() if row[name])
    return f"{row['not_arrived']:,}{f' ({untold})' if untold else ''}"


def _how_many_more(frame: pl.DataFrame) -> list[str]:
    return [f"{frame.height - _MOST:,} more are not shown."] if frame.height > _MOST else []
