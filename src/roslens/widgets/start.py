"""Provide the start page of the workbench: its panes, each of which can be used alone.

Everything about one run follows the chosen run, the range selected in its timeline, and the
callback clicked there. In a report, where nobody can choose, all panes are static.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import ipywidgets  # type: ignore[import-untyped]
import polars as pl

from roslens.analysis.figures.drawing import Drawing
from roslens.analysis.figures.graph import draw_graph
from roslens.analysis.figures.plot import Plot
from roslens.analysis.flow.chain import HeldFlow
from roslens.analysis.flow.chains import ChainInstances, chain_instances
from roslens.analysis.flow.flow_graph import find_chains
from roslens.analysis.flow.taking_turns import suggested_links
from roslens.analysis.measures.callbacks import number_namesakes
from roslens.analysis.measures.loss import biased_figures, health_findings
from roslens.analysis.overview.in_range import callbacks_overview, chains_overview, worst_messages
from roslens.analysis.overview.runs_and_topics import graph_edges, runs_overview, topics_overview
from roslens.analysis.overview.thumbnails import health_thumbnails
from roslens.analysis.path.kinds import in_words
from roslens.analysis.path.late import explained
from roslens.analysis.reports.base import Part, Section
from roslens.analysis.reports.front import trigger_sentences
from roslens.analysis.reports.numbers import counted, significant
from roslens.analysis.reports.seen import seen_where_lost
from roslens.analysis.reports.table import Pictured, ReportTable, Sentence
from roslens.analysis.reports.tables import health_table
from roslens.analysis.timeline.build import UNKNOWN_NODE
from roslens.analysis.timeline.journey import Journey, journey_of, journeys_to
from roslens.collectors.topics import INFRASTRUCTURE
from roslens.paths import resolve
from roslens.recording.errors import TooLargeError, UsageError
from roslens.recording.files import write_atomically
from roslens.recordings import Recordings, open_recordings
from roslens.report_folder import find_notebook
from roslens.widgets import FOLDER, RANGE, STATIC, VARIABLE
from roslens.widgets.parts import GraphWidget, TableWidget, message_html
from roslens.widgets.timeline import TimelineWidget

DEFAULT = "data/samples"
_MOST_CHAINS = 8
_MOST_RUNS = 200
_MOST_ROWS = 40
_MOST_EXPLAINED = 10
_AT = "at [s]"
_NOTEBOOKS = ("latency", "chains", "executors", "communication", "leaks")

Still: TypeAlias = Section | Plot | Drawing
"""Anything that can be part of a report."""


def recordings_wanted(given: str | Sequence[str] = "") -> list[str]:
    """Return the notebook's recordings, else those given to ``roslens lab``, else the samples."""
    wanted: Any = given or json.loads(os.environ.get(VARIABLE, "[]")) or DEFAULT
    return list(wanted) if isinstance(wanted, list | tuple) else [wanted]


class StartPage:
    """Recordings, with one chosen run to look at.

    Parameters
    ----------
    paths
        Recordings, or folders that contain some.
    recordings
        Recordings that are already open; by default those at `paths` are opened.
    """

    def __init__(self, paths: Sequence[str], recordings: Recordings | None = None) -> None:
        self.paths = list(paths)
        self.all = open_recordings(self.paths) if recordings is None else recordings
        self.chosen = 0
        self.beside: int | None = None
        self._topic = ""
        self._widgets: dict[int, TimelineWidget] = {}
        self._chains: dict[int, tuple[list[ChainInstances], int]] = {}
        self._instances: dict[int, pl.DataFrame] = {}
        self._told: dict[int, dict[int, str]] = {}
        self._messages: pl.LazyFrame | None = None
        self._of_run: list[Callable[[], None]] = []
        self._of_range: list[Callable[[], None]] = []
        self._of_click: list[Callable[[], None]] = []

    @property
    def run(self) -> Recordings:
        """Return the chosen run."""
        return self.all.only(self.all.runs[self.chosen].name)

    @property
    def widget(self) -> TimelineWidget:
        """Return the timeline of the chosen run."""
        if self.chosen not in self._widgets:
            timeline = self._widgets[self.chosen] = TimelineWidget(self.run, self._topic)
            timeline.observe(lambda _: self._selected(), "selection")
            timeline.observe(lambda _: self._update(self._of_click), "clicked")
        return self._widgets[self.chosen]

    def view(self) -> Recordings:
        """Return the part of the chosen run that is selected in its timeline."""
        return self.widget.view()

    def show(self, index: int) -> None:
        """Choose another run."""
        self.chosen = index
        self._messages = None
        self._store_range()
        self._update(self._of_run)

    def _store_range(self) -> None:
        """Store the range that ``view()`` applies in every notebook of the lab."""
        folder = os.environ.get(FOLDER)
        if folder and not _static():
            view = {"run": self.run.runs[0].name, "window_ns": self.widget.selection}
            write_atomically(Path(folder, RANGE), json.dumps(view))

    def _selected(self) -> None:
        self._messages = None
        self._store_range()
        self._update_range()

    def _update_range(self) -> None:
        try:
            self._update(self._of_range)
        except UsageError as error:
            self.widget.send({"type": "told", "text": str(error)}, [])

    @property
    def _messages_in_range(self) -> pl.LazyFrame:
        """Return the range's messages, read and sorted by latency once for all panes."""
        if self._messages is None:
            self._messages = (
                self.view().messages.select(_OF_MESSAGES).sort("latency_ns").collect().lazy()
            )
        return self._messages

    @property
    def _losses(self) -> pl.LazyFrame:
        return self.run.table("losses")

    # ------------------------------------------------------------ panes

    def timeline(self, topic: str = "") -> ipywidgets.Widget | Still:
        """Show the timeline of the chosen run, and a topic's latency on the same time axis.

        Parameters
        ----------
        topic
            The topic whose latency is shown; by default the application's busiest topic.
        """
        self._topic = topic
        if _static():
            return Section(self.widget.drawing(), _heat(self.view(), topic))
        box = ipywidgets.VBox([self.widget])

        def update() -> None:
            box.children = [self.widget]

        self._of_run.append(update)
        return box

    def runs(self) -> ipywidgets.Widget | Section:
        """Show loss, then all runs: choose one, and another to show beside it."""
        if _static():
            below = Sentence(f"Below: {self.all.runs[self.chosen].name}.")
            return Section(self._list(), *self._loss().parts, below)
        names = [(run.name, i) for i, run in enumerate(self.all.runs)]
        wide = {"width": "50%"}
        box = ipywidgets.Dropdown(options=names, value=self.chosen, layout=wide, tooltip="run")
        second_box = ipywidgets.Dropdown(
            options=[("beside it: none", -1), *names], value=-1, layout=wide, tooltip="beside it"
        )
        runs = self._runs().select(
            "run", "cell", "status",
            health=pl.struct("errors", "warnings").map_elements(_health, pl.String),
            s=pl.col("seconds").round(1), events="events", discarded="discarded",
            messages="messages", **{"not arrived": "lost"},
        )  # fmt: skip
        table = _live_table(_distinguishing(runs), lambda row: setattr(box, "value", row))
        lost = self._following(self._folded_loss)

        def choose(change: Mapping[str, Any]) -> None:
            before = self.chosen
            try:
                self.show(change["new"])
            except UsageError as error:
                # After an error, do not show a run's data under the name of a run that was deleted.
                self.chosen = box.value = before
                lost.value = Sentence(f"{error}.", loud=True)._repr_html_()

        box.observe(choose, "value")
        second_box.observe(lambda change: self._show_selected(change["new"]), "value")
        return ipywidgets.VBox([ipywidgets.HBox([box, second_box]), lost, table])

    def _show_selected(self, index: int) -> None:
        self.beside = index if index >= 0 else None
        self._update_range()

    def _runs(self) -> pl.DataFrame:
        every = self.all
        return runs_overview(every.tracer_loss, every.processes, every.messages, every.health)

    def _list(self) -> ReportTable:
        """Return a table of all runs, with pictures of arrivals and anomalies over time."""
        runs = self._runs()
        pictures = health_thumbnails(self.all.messages, self.all.table("losses"))
        shown = list(runs.head(_MOST_RUNS).iter_rows(named=True))
        rows = [
            [
                str(index),
                r["run"],
                r["cell"],
                r["status"],
                Pictured(_health(r), pictures.get(r["run"], "")),
                f"{r['seconds'] or 0:.1f}",
                f"{r['events']:,}",
                f"{r['discarded']:,}",
                f"{r['messages']:,}",
                f"{r['lost']:,}",
            ]
            for index, r in enumerate(shown)
        ]
        return ReportTable(
            ["", "run", "cell", "status", "health", "seconds", "events", "discarded",
             "messages", "not arrived"],
            rows,
            f"Runs of {', '.join(Path(path).name or path for path in self.paths)}",
            notes=[_HEALTH, *_hidden(runs.height - len(shown), "runs")],
            marked=frozenset(i for i, r in enumerate(shown) if _is_alarming(r)),
            left=frozenset({"run", "cell", "status", "health"}),
        )  # fmt: skip

    def _loss(self) -> Section:
        run = self.run
        (loss,) = run.tracer_loss
        parts: list[Part] = [Sentence(text, loud=True) for text in trigger_sentences(run.runs)]
        if loss.any:
            parts.append(
                Sentence(
                    f"The tracer lost events: {loss.text}. {biased_figures([loss])}", loud=True
                )
            )
        else:
            parts.append(Sentence("The tracer lost nothing."))
        findings = health_findings(run.health)
        if findings.height:
            parts.append(health_table(findings))
        return Section(*parts, *seen_where_lost(run))

    def _folded_loss(self) -> str:
        parts = self._loss().parts
        first = "".join(part._repr_html_() for part in parts if isinstance(part, Sentence))
        rest = "".join(part._repr_html_() for part in parts if not isinstance(part, Sentence))
        return first + (f"<details><summary>findings</summary>{rest}</details>" if rest else "")

    def topics(self) -> ipywidgets.Widget | Section:
        """Show topics of the range by latency, beside those of another run if one is chosen."""
        return self._frame(self._topics, _TOPICS, notes=[_DESCRIPTION])

    def _topics(self) -> pl.DataFrame:
        topics = topics_overview(self._messages_in_range, self._losses)
        # The topics that every node has come last.
        topics = topics.sort(pl.col("topic").is_in(INFRASTRUCTURE), maintain_order=True)
        if self.beside is not None and not _static():
            beside_run = self.all.only(self.all.runs[self.beside].name)
            return _side_by_side(
                topics, topics_overview(beside_run.messages, beside_run.table("losses"))
            )
        return topics.select(
            "topic", "from", "to", pl.col("messages").alias("n"), pl.col("rate_hz").alias("Hz"),
            pl.col("p50_ms").alias("P50 [ms]"), pl.col("p99_ms").alias("P99"),
            pl.col("worst_ms").alias("worst"), (100 * pl.col("lost")).alias("not arrived [%]"),
        )  # fmt: skip

    def worst(self) -> ipywidgets.Widget | Section:
        """Show the slowest messages of the range; a click jumps to a message."""
        return self._frame(self._worst, "The slowest messages", chosen=self._jump)

    def _worst(self) -> pl.DataFrame:
        worst = worst_messages(self._messages_in_range, self._origin)
        reasons, number = self._told.setdefault(self.chosen, {}), "callback_instance_id"
        new = worst.head(_MOST_EXPLAINED).filter(~pl.col(number).is_in(list(reasons)))
        if new.height:
            told = explained(new, lambda _: self.widget.paths)
            reasons |= {
                row[number]: in_words(row["cause"], row["who"]) if row["cause"] else "not known"
                for row in told.iter_rows(named=True)
            }
        return worst.select(
            pl.col("latency_ms").alias("ms"), pl.col("at_s").alias(_AT), "topic",
            pl.Series("why", [reasons.get(x, "") for x in worst[number]], pl.String), "from", "to",
        )  # fmt: skip

    def _jump(self, row: int) -> None:
        messages = worst_messages(self._messages_in_range, self._origin)
        self.widget.jump(int(messages["callback_instance_id"][row]))

    @property
    def _origin(self) -> int:
        """Return the zero of all times of the chosen run: its first event."""
        return int(self.widget.origin)

    def callbacks(self) -> ipywidgets.Widget | Section:
        """Show how often, and for how long, the callbacks that began in the range ran."""
        return self._frame(self._callbacks, "Callbacks, those that took most of the time first")

    def _callbacks(self) -> pl.DataFrame:
        if self.chosen not in self._instances:
            instances = number_namesakes(self.run.callback_instances)
            named = ("node", "kind", "name")
            self._instances[self.chosen] = instances.select(
                pl.col(named).cast(pl.String), "start_ns", "duration_ns"
            ).collect()
        rows = callbacks_overview(
            self._instances[self.chosen], *(self.widget.selection or (None, None))
        )
        if not rows["unfinished"].sum():
            rows = rows.drop("unfinished")
        return rows.with_columns(pl.col("node").fill_null(UNKNOWN_NODE)).rename(
            {"count": "n", "total_ms": "total [ms]", "mean_ms": "mean", "max_ms": "max"}
        )

    def graph(self) -> GraphWidget | Still:
        """Show the graph of nodes and topics, with rates, latency and loss on its edges.

        A clicked element is searched in the timeline; the message clicked there is highlighted.
        """
        if _static():
            picture = draw_graph(graph_edges(self._messages_in_range, self._losses))
            return picture or Section(Sentence("No node sent a message on a topic of its own."))
        graph = GraphWidget()

        def update() -> None:
            graph.show(draw_graph(graph_edges(self._messages_in_range, self._losses)))

        def search(_: object) -> None:
            name = graph.name_chosen()
            self.widget.searched = f'"{name}"' if name else ""

        def mark() -> None:
            graph.mark(self._pairs())

        graph.observe(search, "chosen")
        self._of_run += [update, mark]
        self._of_range.append(update)
        self._of_click.append(mark)
        update()
        return graph

    def _pairs(self) -> Sequence[tuple[str, str]]:
        """Return the nodes and topics on the path of the clicked message."""
        return [
            (node, j.topic)
            for j in self._journeys()
            for node in (j.publisher_node, j.subscription_node)
        ]

    def _journeys(self) -> Sequence[Journey]:
        """Return the clicked callback's message, with the messages that led to it and followed."""
        widget = self.widget
        if widget.clicked is None:
            return []
        journeys = self._way_through(widget.clicked)
        if not journeys:
            none = self.run.messages.clear()
            call = journey_of(none, widget.clicked, lambda: widget.paths, self.run.service_calls)
            journeys = [call] if call else []
        return [j for j in journeys if j.hops]

    def _way_through(self, instance: int) -> Sequence[Journey]:
        widget = self.widget
        return journeys_to(
            self.run.messages, widget.flows.callbacks_on_way(instance), lambda: widget.paths
        )

    def chains(self) -> ipywidgets.Widget | Still:
        """Show the chains of messages that began in the range, end to end."""
        if not _static():
            return self._frame(self._chain_rows, "")
        from roslens.analysis.figures.waterfall import chain_waterfall  # noqa: PLC0415

        try:
            chains, _ = self._longest_chains()
        except TooLargeError as error:
            return Section(Sentence(f"Chains: {error}."))
        for chain in chains:
            if chain.complete.height:
                return chain_waterfall(chain)
        return Section(Sentence("No message led to another, nor reached a callback."))

    def _longest_chains(self) -> tuple[list[ChainInstances], int]:
        """Return the run's longest chains, followed once, and the number of further chains."""
        if self.chosen not in self._chains:
            flow = HeldFlow(self.run)
            links = suggested_links(flow)
            chains = [
                chain
                for chain in find_chains(flow, links)
                if not set(INFRASTRUCTURE).intersection(chain.topics)
            ]
            longest = sorted(chains, key=lambda c: len(c.topics), reverse=True)[:_MOST_CHAINS]
            followed = [chain_instances(flow, chain, links) for chain in longest]
            self._chains[self.chosen] = followed, len(chains) - len(longest)
        return self._chains[self.chosen]

    def _chain_rows(self) -> pl.DataFrame:
        try:
            chains, left_out = self._longest_chains()
        except TooLargeError as error:
            return pl.DataFrame({"chain": [f"{error}."]})
        overview = chains_overview(chains, *(self.widget.selection or (None, None)))
        bound = pl.when("at_least").then(pl.lit("at least: ")).otherwise(pl.lit(""))
        count = pl.col("approximate")
        guessed = (
            pl.when(count > 0).then(pl.format(" ({} approximate)", count)).otherwise(pl.lit(""))
        )
        rows = overview.select(
            pl.col("p50_ms").alias("P50 [ms]"), pl.col("p99_ms").alias("P99"),
            pl.col("worst_ms").alias("worst"), pl.col("complete").alias("n"),
            "stopped",
            (pl.col("instances") - pl.col("complete") - pl.col("stopped")).alias("not known"),
            chain=bound + pl.col("chain") + guessed,
        )  # fmt: skip
        if not rows["not known"].sum():
            rows = rows.drop("not known")
        more = pl.DataFrame({"chain": _hidden(left_out, "chains")}, {"chain": pl.String})
        return pl.concat([rows, more], how="diagonal")

    def message(self) -> ipywidgets.HTML | Still:
        """Show the clicked message part by part, with the messages that led to it and followed."""
        if not _static():
            return self._following(self._message, clicked=True)
        worst = worst_messages(self._messages_in_range, 0)
        if not worst.height:
            return Section(Sentence("No message was delivered."))
        from roslens.analysis.figures.waterfall import journey_waterfall  # noqa: PLC0415

        journeys = self._way_through(int(worst["callback_instance_id"][0]))
        return journey_waterfall([j for j in journeys if j.hops])

    def _message(self) -> str | Section:
        journeys = self._journeys()
        if journeys:
            return message_html(journeys, self.widget.clicked)
        if self.widget.clicked is not None:
            return Section(Sentence("No path: a timer, a message without a match, or a callback "
                                    "without an end."))  # fmt: skip
        return Section(Sentence("Click a callback, a point of the latency picture or a row of the "
                                "worst messages."))  # fmt: skip

    def notebooks(self) -> ipywidgets.HTML | Section:
        """Show links to the other notebooks, with this recording in their parameters."""
        folder = os.environ.get(FOLDER)
        if not folder:
            names = ", ".join(_NOTEBOOKS)
            return Section(Sentence(f"Ask further: roslens report NAME PATH, with {names}."))
        recordings = [str(resolve(path).resolve()) for path in self.paths]
        links = []
        for name in _NOTEBOOKS:
            # As papermill would, whose import takes as long as all panes; nbformat's takes longer.
            notebook = json.loads(find_notebook(name).read_text(encoding="utf-8"))
            cells = notebook["cells"]
            tagged = ["parameters" in cell["metadata"].get("tags", ()) for cell in cells]
            given: dict[str, Any] = {
                "cell_type": "code",
                "id": "injected",
                "metadata": {"tags": ["injected-parameters"]},
                "execution_count": None,
                "outputs": [],
                "source": f"recordings = {recordings!r}\noutput_dir = {str(Path(folder, name))!r}\n"
                "# run.view(), below, is the range that is selected in the timeline then.",
            }
            cells.insert(tagged.index(True) + 1, given)
            Path(folder, f"{name}.ipynb").write_text(json.dumps(notebook, indent=1), "utf-8")
            asked = "".join(cells[0]["source"]).partition("\n\n")[2].replace("\n", " ")
            links.append(
                f'<li><a class="roslens-notebook" href="{name}.ipynb">{name}</a>: '
                f"{escape(asked.partition('. ')[0])}.</li>"
            )
        box = ipywidgets.HTML(f"{_FURTHER}<ul>{''.join(links)}</ul>")
        box.add_class("jp-RenderedHTMLCommon")
        return box

    # ------------------------------------------------------------ following

    def _frame(
        self,
        make: Callable[[], pl.DataFrame],
        caption: str,
        *,
        notes: Sequence[str] = (),
        chosen: Callable[[int], None] | None = None,
    ) -> ipywidgets.Widget | Section:
        """Show a frame as a table that is updated when the run or the range changes."""
        if _static():
            return Section(_still_table(make(), caption, notes))
        table = _live_table(make(), chosen)

        def update() -> None:
            table.show(_rounded(make()))

        self._of_run.append(update)
        self._of_range.append(update)
        return table

    def _following(
        self, render: Callable[[], str | Section], *, clicked: bool = False
    ) -> ipywidgets.HTML:
        """Show what `render` returns, updated when the run or the click changes."""
        box = ipywidgets.HTML()
        # JupyterLab styles tables and figures of a cell with this class.
        box.add_class("jp-RenderedHTMLCommon")

        def update() -> None:
            rendered = render()
            box.value = rendered if isinstance(rendered, str) else rendered._repr_html_()

        self._of_run.append(update)
        if clicked:
            self._of_click.append(update)
        update()
        return box

    @staticmethod
    def _update(followers: Sequence[Callable[[], None]]) -> None:
        for update in followers:
            update()


def _rounded(frame: pl.DataFrame) -> pl.DataFrame:
    floats = pl.selectors.float() - pl.selectors.by_name(_AT, require_all=False)
    return frame.with_columns(
        floats.round_sig_figs(3), pl.selectors.by_name(_AT, require_all=False).round(6)
    )


def _distinguishing(runs: pl.DataFrame) -> pl.DataFrame:
    """Drop columns that are equal in all runs or part of their names, to give others more room."""
    is_in_name = all(level in row["run"] for row in runs.iter_rows(named=True)
                     for level in re.findall(r"=([^,]*)", row["cell"]))  # fmt: skip
    alike = [name for name in ("cell", "status", "health", "discarded", "not arrived")
             if runs.height > 1 and runs[name].n_unique() == 1]  # fmt: skip
    return runs.drop({*alike, *(["cell"] if is_in_name else [])})


def _live_table(frame: pl.DataFrame, chosen: Callable[[int], None] | None = None) -> TableWidget:
    """Return a sortable table; `chosen` is called with the number of a clicked row."""
    table = TableWidget(_rounded(frame), choosable=chosen is not None)
    if chosen is not None:

        def follow(change: Mapping[str, Any]) -> None:
            if change["new"] >= 0:
                chosen(change["new"])

        table.observe(follow, "chosen")
    return table


def _still_table(frame: pl.DataFrame, caption: str, notes: Sequence[str]) -> Part:
    if not frame.height:
        return Sentence(f"{caption}: none was traced.", loud=True)
    shown = frame.head(_MOST_ROWS)
    texts = frozenset(n for n, kind in shown.schema.items() if kind == pl.String)
    rows = [
        [
            (value or "-")
            if name in texts
            else significant(value, 3)
            if isinstance(value, float | None)
            else f"{value:,}"
            for name, value in row.items()
        ]
        for row in shown.iter_rows(named=True)
    ]
    more = _hidden(frame.height - shown.height, "rows")
    return ReportTable(shown.columns, rows, caption, notes=[*notes, *more], left=texts)


def _side_by_side(topics: pl.DataFrame, other_topics: pl.DataFrame) -> pl.DataFrame:
    """Join topics of two runs; the other run (marked with ∥) is whole, whatever the range."""
    ways = ["topic", "from", "to"]
    joined = topics.join(other_topics, on=ways, how="full", coalesce=True, nulls_equal=True,
                      suffix=" ∥", maintain_order="left_right")  # fmt: skip
    return joined.select(
        *ways,
        pl.col("p50_ms").alias("P50 [ms]"), pl.col("p50_ms ∥").alias("P50 ∥"),
        pl.col("p99_ms").alias("P99 [ms]"), pl.col("p99_ms ∥").alias("P99 ∥"),
        (pl.col("p99_ms ∥") / pl.col("p99_ms")).alias("∥/P99"),
        (100 * pl.col("lost")).alias("not arrived [%]"),
        (100 * pl.col("lost ∥")).alias("not arrived ∥"),
    )  # fmt: skip


_FURTHER = (
    "Ask further: copies of yours, beside the timeline; in each <code>run.view()</code> is the "
    "range selected there."
)
_OF_MESSAGES = (
    *("run", "topic", "publisher_node", "publisher_host", "subscription_node", "outcome"),
    *("publish_ns", "latency_ns", "clock_bound_ns", "callback_instance_id"),
)

_HEALTH = (
    "Health: messages over time; orange: did not arrive; red dashes: the tracer dropped events "
    "there. Discarded: by the tracer. Not arrived: lost or replaced."
)
_DESCRIPTION = "Over delivered messages of one run, as a description: without intervals."
_TOPICS = "Topics, the slowest first (latency from publish to callback_start)"


def _static() -> bool:
    return bool(os.environ.get(STATIC))


def _hidden(count: int, noun: str) -> Sequence[str]:
    return [f"{count:,} more {noun} are not shown."] if count > 0 else []


def _heat(run: Recordings, topic: str) -> Part:
    from roslens.analysis.figures.over_time import latency_heat  # noqa: PLC0415  (a second)

    frame = (
        run.messages.filter(pl.col("outcome") == "delivered")
        .select("topic", "publish_ns", "latency_ns")
        .collect()
    )
    if not topic:
        relevant = frame.drop_nulls("latency_ns").filter(~pl.col("topic").is_in(INFRASTRUCTURE))[
            "topic"
        ]
        topic = next(iter(relevant.value_counts(sort=True)["topic"]), "")
    delivered = frame.filter(pl.col("topic") == topic)
    chosen = delivered.drop_nulls("latency_ns")
    missing = delivered.height - chosen.height
    if not chosen.height:
        on_topic = f"on {topic} " if topic else ""
        return Sentence(
            f"No message {on_topic}with a latency was delivered in this range.", loud=True
        )
    publish = chosen["publish_ns"]
    return latency_heat(
        (publish - publish.min()).to_numpy(),
        chosen["latency_ns"].to_numpy().astype(float),
        "the first message",
        topic + f"; {missing:,} more, whose latency is not known, are not drawn" * (missing > 0),
    )


def _is_alarming(row: dict[str, Any]) -> bool:
    return bool(row["discarded"] or row["errors"]) or row["status"] in {"failed", "interrupted"}


def _health(row: dict[str, Any]) -> str:
    """Describe how many findings there are."""
    counts = [counted(row["errors"], "error")] if row["errors"] else []
    counts += [counted(row["warnings"], "warning")] if row["warnings"] else []
    return ", ".join(counts) or "ok"
