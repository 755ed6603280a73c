"""The start page of the workbench: which recordings there are, and the first look at one.

Everything about one run follows the run that is chosen, the range selected in its timeline, and the
callback clicked there. In a report, where nobody can choose, all of it is still.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import ipywidgets  # type: ignore[import-untyped]
import papermill  # type: ignore[import-untyped]
import polars as pl

from roslens.analysis.figures.drawing import Drawing
from roslens.analysis.figures.graph import draw_graph
from roslens.analysis.figures.heat import latency_heat
from roslens.analysis.figures.plot import Plot
from roslens.analysis.figures.waterfall import chain_waterfall, way_waterfall
from roslens.analysis.flow.chains import chain_instances
from roslens.analysis.flow.flow_graph import find_chains
from roslens.analysis.measures.loss import health_findings
from roslens.analysis.overview.graph_edges import INFRASTRUCTURE, graph_edges
from roslens.analysis.overview.runs_and_topics import runs_overview, topics_overview
from roslens.analysis.overview.thumbnails import health_thumbnails
from roslens.analysis.reports.base import Part, Section
from roslens.analysis.reports.numbers import significant
from roslens.analysis.reports.table import Pictured, ReportTable, Sentence
from roslens.analysis.reports.tables import health_table
from roslens.analysis.timeline.journey import Journey, journey_of, way_of
from roslens.recordings import Recordings, open_recordings, resolve
from roslens.report import find_notebook
from roslens.tracing.recording import RoslensError
from roslens.widgets import FOLDER, STATIC, VARIABLE
from roslens.widgets.graph import GraphWidget
from roslens.widgets.timeline import TimelineWidget

DEFAULT = "data/samples"
_MOST_CHAINS = 8
_MOST_RUNS = 200
_MOST_TOPICS = 40
_NOTEBOOKS = ("latency", "executors", "communication", "leaks")

Still: TypeAlias = Section | Plot | Drawing
"""What can stand in a report."""


def recordings_wanted(given: str | Sequence[str] = "") -> list[str]:
    """What the notebook names, else what ``roslens lab PATH`` was given, else the samples."""
    wanted = given or os.environ.get(VARIABLE, "") or DEFAULT
    return [wanted] if isinstance(wanted, str) else list(wanted)


class StartPage:
    """Recordings, and one of them looked at.

    Parameters
    ----------
    paths
        Recordings, or folders that hold some.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        self.all = open_recordings(self.paths)
        self.chosen = 0
        self._widgets: dict[int, TimelineWidget] = {}
        self._of_run: list[Callable[[], None]] = []
        self._of_range: list[Callable[[], None]] = []
        self._of_click: list[Callable[[], None]] = []
        self._graph: GraphWidget | None = None

    # ------------------------------------------------------------ all of them

    def list(self) -> Section:
        """All runs, with a picture of their health: what arrived when, and what is odd."""
        found = runs_overview(
            self.all.tracer_loss,
            self.all.processes,
            self.all.messages,
            self.all.health,
        )
        pictures = health_thumbnails(self.all.messages, self.all.table("losses"))
        shown = list(found.head(_MOST_RUNS).iter_rows(named=True))
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
        return Section(
            ReportTable(
                ["", "run", "cell", "status", "health", "seconds", "events", "discarded",
                 "messages", "lost"],
                rows,
                f"Runs of {', '.join(Path(path).name or path for path in self.paths)}",
                notes=[_HEALTH, *_hidden(found.height - len(shown), "runs")],
                marked=frozenset(i for i, r in enumerate(shown) if _bad(r)),
                left=frozenset({"run", "cell", "status", "health"}),
            )
        )  # fmt: skip

    def choose(self) -> ipywidgets.Dropdown | Section:
        """A list to choose a run from; everything below follows."""
        if _static():
            return Section(Sentence(f"Below: {self.all.runs[self.chosen].name}."))
        names = [(f"{run.name}  ({run.label})", i) for i, run in enumerate(self.all.runs)]
        box = ipywidgets.Dropdown(
            options=names, value=self.chosen, description="run", layout={"width": "60em"}
        )
        box.observe(lambda change: self.show(change["new"]), "value")
        return box

    def show(self, index: int) -> None:
        """Look at another run."""
        self.chosen = index
        for update in self._of_run:
            update()

    @property
    def run(self) -> Recordings:
        """The chosen one."""
        return self.all.only(self.all.runs[self.chosen].name)

    @property
    def widget(self) -> TimelineWidget:
        """The timeline of the chosen run."""
        if self.chosen not in self._widgets:
            made = self._widgets[self.chosen] = TimelineWidget(self.run)
            made.observe(lambda _: self._update(self._of_range), "selection")
            made.observe(lambda _: self._update(self._of_click), "clicked")
        return self._widgets[self.chosen]

    def view(self) -> Recordings:
        """The chosen run, as far as it is in the range selected in its timeline."""
        return self.run if _static() else self.widget.view()

    # ------------------------------------------------------------ the chosen one

    def loss(self) -> ipywidgets.HTML | Section:
        """What was lost in the chosen run, before anything else."""
        return self._following(self._loss)

    def _loss(self) -> Section:
        run = self.run
        (loss,) = run.tracer_loss
        parts: list[Part] = []
        if loss.any:
            parts.append(
                Sentence(
                    f"The tracer lost {loss.discarded_events:,} events and {loss.lost_packets:,} "
                    "packets: missing events may bias every figure below.",
                    loud=True,
                )
            )
        else:
            parts.append(Sentence("The tracer lost nothing."))
        findings = health_findings(run.health)
        if findings.height:
            parts.append(health_table(findings))
        return Section(*parts)

    def overview(self) -> ipywidgets.Widget | Section:
        """Topics by latency, and the nodes they connect; to be sorted and searched."""
        if _static():
            return self._overview()
        from itables.widget import ITable  # noqa: PLC0415  (a second)

        table = ITable(self._topics(), showIndex=False, show_dtypes=False, maxBytes=0,
                       lengthMenu=[10, 40, 200], style="width:100%;margin:0")  # fmt: skip

        def update() -> None:
            table.update(self._topics())

        self._of_run.append(update)
        self._of_range.append(update)
        return ipywidgets.VBox([ipywidgets.HTML(f"<b>{_TOPICS}</b>"), table])

    def _topics(self) -> pl.DataFrame:
        found = topics_overview(self.view().messages)
        rounded = [
            pl.col(c).round_sig_figs(3).alias(name)
            for c, name in (("rate_hz", "rate [Hz]"), ("p50_ms", "P50 [ms]"),
                            ("p99_ms", "P99 [ms]"), ("worst_ms", "worst [ms]"))
        ]  # fmt: skip
        return found.sort(_last_infrastructure(), maintain_order=True).select(
            "topic", "from", "to", "messages", *rounded,
            (100 * pl.col("lost")).round(2).alias("lost [%]"),
        )  # fmt: skip

    def _overview(self) -> Section:
        found = topics_overview(self.view().messages)
        found = found.sort(_last_infrastructure(), maintain_order=True)
        if not found.height:
            return Section(Sentence("No message was traced.", loud=True))
        rows = [
            [
                r["topic"],
                r["from"] or "-",
                r["to"] or "-",
                f"{r['messages']:,}",
                significant(r["rate_hz"], 3),
                *(significant(r[c], 3) for c in ("p50_ms", "p99_ms", "worst_ms")),
                f"{significant(100 * (r['lost'] or 0), 2)} %",
            ]
            for r in found.head(_MOST_TOPICS).iter_rows(named=True)
        ]
        return Section(
            ReportTable(
                ["topic", "from", "to", "messages", "rate [Hz]", "P50 [ms]", "P99 [ms]",
                 "worst [ms]", "lost"],
                rows,
                _TOPICS,
                notes=[_DESCRIPTION, *_hidden(found.height - len(rows), "rows")],
                left=frozenset({"topic", "from", "to"}),
            )
        )  # fmt: skip

    def graph(self) -> GraphWidget | Still:
        """The graph of nodes and topics, with rates, latency and loss on its edges.

        What is clicked in it is searched for in the timeline; the message clicked there is marked.
        """
        if _static():
            found = draw_graph(graph_edges(self.view().messages))
            return found or Section(Sentence("No node sent a message on a topic of its own."))
        graph = self._graph = GraphWidget()

        def update() -> None:
            graph.show(draw_graph(graph_edges(self.view().messages)))

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
        """Nodes and topics on the way of what was clicked."""
        return [
            (node, j.topic) for j in self._way() for node in (j.publisher_node, j.subscription_node)
        ]

    def _way(self) -> Sequence[Journey]:
        """What was clicked: its message, and those that led to it and followed."""
        widget = self.widget
        if widget.clicked is None:
            return []
        found = way_of(self.run.messages, widget.flows.way(widget.clicked))
        call = journey_of(self.run.messages.clear(), widget.clicked, self.run.service_calls)
        return [j for j in (found or ([call] if call else [])) if j.hops]

    def chain(self) -> ipywidgets.HTML | Still:
        """A chain part by part: the longest of the run, or the way of the message clicked."""
        return self._following(self._chain, in_range=True, clicked=True)

    def _chain(self) -> Still:
        way = [] if _static() else self._way()
        if way:
            return way_waterfall(way)
        run = self.view()
        chains = [c for c in find_chains(run) if not set(INFRASTRUCTURE).intersection(c.topics)]
        for chain in sorted(chains, key=lambda c: len(c.topics), reverse=True)[:_MOST_CHAINS]:
            found = chain_instances(run, chain)
            if found.complete.height:
                return chain_waterfall(found)
        return Section(Sentence("No message led to another, nor reached a callback."))

    def timeline(self) -> ipywidgets.Widget | Still:
        """The timeline of the chosen run."""
        if _static():
            return TimelineWidget(self.run).drawing()
        box = ipywidgets.VBox([self.widget])

        def update() -> None:
            box.children = [self.widget]

        self._of_run.append(update)
        return box

    def latency_of_range(self, topic: str = "") -> ipywidgets.HTML | Still:
        """A heat map of latency that follows the range selected in the timeline.

        Parameters
        ----------
        topic
            Which messages; the busiest topic of an application by default.
        """
        return self._following(lambda: _heat(self.view(), topic), in_range=True)

    def notebooks(self) -> ipywidgets.HTML | Section:
        """Links to the other notebooks, their parameters filled in with this recording."""
        folder = os.environ.get(FOLDER)
        if not folder:
            names = ", ".join(_NOTEBOOKS)
            return Section(Sentence(f"Ask further: roslens report NAME PATH, with {names}."))
        links = []
        for name in _NOTEBOOKS:
            papermill.execute_notebook(
                str(find_notebook(name)),
                str(Path(folder, f"{name}.ipynb")),
                parameters={
                    "recordings": [str(resolve(path).resolve()) for path in self.paths],
                    "output_dir": str(Path(folder, name)),
                },
                prepare_only=True,
                progress_bar=False,
            )
            links.append(f'<a href="{name}.ipynb" target="_blank">{name}</a>')
        return ipywidgets.HTML("Ask further: " + ", ".join(links))

    # ------------------------------------------------------------ following

    def _following(
        self, render: Callable[[], Still], *, in_range: bool = False, clicked: bool = False
    ) -> Any:
        """What `render` shows, made again when what it is of changes."""
        if _static():
            return render()
        box = ipywidgets.HTML()
        # As JupyterLab shows tables and figures of a cell.
        box.add_class("jp-RenderedHTMLCommon")

        def update() -> None:
            try:
                box.value = render()._repr_html_()
            except RoslensError as error:
                box.value = Sentence(str(error), loud=True)._repr_html_()

        self._of_run.append(update)
        if in_range:
            self._of_range.append(update)
        if clicked:
            self._of_click.append(update)
        update()
        return box

    @staticmethod
    def _update(followers: Sequence[Callable[[], None]]) -> None:
        for update in followers:
            update()


_HEALTH = (
    "Health: messages over time; orange: did not arrive; red dashes: the tracer dropped events "
    "there. Discarded: by the tracer. Lost: messages that did not arrive."
)
_DESCRIPTION = "Over delivered messages of one run, as a description: without intervals."
_TOPICS = "Topics, the slowest first (latency from publish to callback_start)"


def _static() -> bool:
    return bool(os.environ.get(STATIC))


def _hidden(count: int, what: str) -> Sequence[str]:
    return [f"{count:,} more {what} are not shown."] if count > 0 else []


def _last_infrastructure() -> pl.Expr:
    """What every node has comes last."""
    return pl.col("topic").is_in(INFRASTRUCTURE)


def _heat(run: Recordings, topic: str) -> Section | Plot:
    frame = (
        run.messages.filter(pl.col("latency_ns").is_not_null())
        .select("topic", "publish_ns", "latency_ns")
        .collect()
    )
    own = frame.filter(~pl.col("topic").is_in(INFRASTRUCTURE))
    wanted = topic or next(
        iter(own["topic"].value_counts(sort=True)["topic"].to_list() if own.height else []), ""
    )
    chosen = frame.filter(pl.col("topic") == wanted)
    if not chosen.height:
        what = f"on {wanted} " if wanted else ""
        return Section(Sentence(f"No message {what}was delivered in this range.", loud=True))
    return latency_heat(
        chosen["publish_ns"].to_numpy(), chosen["latency_ns"].to_numpy().astype(float), wanted
    )


def _bad(row: dict[str, Any]) -> bool:
    return bool(row["discarded"] or row["errors"]) or row["status"] in {"failed", "interrupted"}


def _health(row: dict[str, Any]) -> str:
    """How many findings there are."""
    told = [f"{row['errors']} errors"] if row["errors"] else []
    told += [f"{row['warnings']} warnings"] if row["warnings"] else []
    return ", ".join(told) or "ok"
