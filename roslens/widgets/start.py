"""The start page of the workbench: which recordings there are, and the first look at one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import ipywidgets  # type: ignore[import-untyped]
import papermill  # type: ignore[import-untyped]
import polars as pl
from IPython.display import display

from analysis.figures.drawing import Drawing
from analysis.figures.graph import draw_graph
from analysis.figures.heat import latency_heat
from analysis.figures.plot import Plot
from analysis.figures.waterfall import chain_waterfall
from analysis.flow.chains import chain_instances
from analysis.flow.flow_graph import find_chains
from analysis.measures.loss import health_findings
from analysis.overview.graph import INFRASTRUCTURE, graph_edges
from analysis.overview.tables import runs_overview, topics_overview
from analysis.reports.base import Part, Section
from analysis.reports.numbers import significant
from analysis.reports.table import ReportTable, Sentence
from analysis.reports.tables import health_table
from roslens.recordings import Recordings, open_recordings, resolve
from roslens.report import find_notebook
from roslens.widgets import FOLDER, STATIC, VARIABLE
from roslens.widgets.timeline import TimelineWidget

DEFAULT = "data/samples"
_MOST_CHAINS = 8
_NOTEBOOKS = ("latency", "executors", "communication", "leaks")


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
        self.widget: TimelineWidget | None = None

    # ------------------------------------------------------------ all of them

    def list(self) -> Section:
        """All runs, with a picture of their health: how far each was recorded and what is odd."""
        found = runs_overview(
            self.all.tracer_loss,
            self.all.processes,
            self.all.messages,
            self.all.health,
        )
        rows = [
            [
                str(index),
                r["run"],
                r["cell"],
                r["status"],
                _health(r),
                f"{r['seconds'] or 0:.1f}",
                f"{r['events']:,}",
                f"{r['discarded']:,}",
                f"{r['messages']:,}",
                f"{r['lost']:,}",
            ]
            for index, r in enumerate(found.iter_rows(named=True))
        ]
        marked = {i for i, r in enumerate(found.iter_rows(named=True)) if _bad(r)}
        return Section(
            ReportTable(
                ["", "run", "cell", "status", "health", "seconds", "events", "discarded",
                 "messages", "lost"],
                rows,
                f"Runs of {', '.join(Path(path).name or path for path in self.paths)}",
                notes=["Discarded: by the tracer. Lost: messages that did not arrive."],
                marked=frozenset(marked),
                left=frozenset({"run", "cell", "status", "health"}),
            )
        )  # fmt: skip

    def choose(self) -> ipywidgets.Dropdown:
        """A list to choose a run from; the cells below it are to be run again."""
        names = [(f"{run.name}  ({run.label})", i) for i, run in enumerate(self.all.runs)]
        box = ipywidgets.Dropdown(
            options=names, value=self.chosen, description="run", layout={"width": "60em"}
        )
        box.observe(self._on_choice, "value")
        return box

    def _on_choice(self, change: dict[str, int]) -> None:
        self.chosen = change["new"]
        self.widget = None

    @property
    def run(self) -> Recordings:
        """The chosen one."""
        return self.all.only(self.all.runs[self.chosen].name)

    # ------------------------------------------------------------ the chosen one

    def loss(self) -> Section:
        """What was lost in the chosen run, before anything else."""
        run = self.run
        (loss,) = run.tracer_loss
        parts: list[Part] = []
        if loss.any:
            parts.append(
                Sentence(
                    f"The tracer lost {loss.discarded_events:,} events and {loss.lost_packets:,} "
                    "packets: every figure can be bent by what is missing.",
                    loud=True,
                )
            )
        else:
            parts.append(Sentence("The tracer lost nothing."))
        findings = health_findings(run.health)
        if findings.height:
            parts.append(health_table(findings))
        return Section(*parts)

    def overview(self) -> Section:
        """Topics by latency, and the nodes they connect."""
        found = topics_overview(self.run.messages)
        # What every node has comes last.
        found = found.sort(pl.col("topic").is_in(INFRASTRUCTURE), maintain_order=True)
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
            for r in found.head(40).iter_rows(named=True)
        ]
        return Section(
            ReportTable(
                ["topic", "from", "to", "messages", "rate [Hz]", "P50 [ms]", "P99 [ms]",
                 "worst [ms]", "lost"],
                rows,
                "Topics, the slowest first (latency from publish to callback_start)",
                notes=["Over delivered messages of one run, as a description: without intervals."],
                left=frozenset({"topic", "from", "to"}),
            )
        )  # fmt: skip

    def graph(self) -> Drawing | Section:
        """The graph of nodes and topics, with rates, latency and loss on its edges."""
        found = draw_graph(graph_edges(self.run.messages))
        return found or Section(Sentence("No node sent a message on a topic of its own."))

    def chain(self) -> Plot | Section:
        """The longest chain of topics of the chosen run, part by part."""
        run = self.run
        chains = [c for c in find_chains(run) if not set(INFRASTRUCTURE).intersection(c.topics)]
        for chain in sorted(chains, key=lambda c: len(c.topics), reverse=True)[:_MOST_CHAINS]:
            found = chain_instances(run, chain)
            if found.complete.height:
                return chain_waterfall(found)
        return Section(Sentence("No message led to another, nor reached a callback."))

    def timeline(self) -> TimelineWidget:
        """The timeline of the chosen run."""
        self.widget = TimelineWidget(self.run)
        return self.widget

    def latency_of_range(self, topic: str = "") -> ipywidgets.Output | Section | Plot:
        """A heat map of latency that follows the range selected in the timeline.

        In a report, where nothing can be selected, it is a picture.

        Parameters
        ----------
        topic
            Which messages; the busiest topic of an application by default.
        """
        if os.environ.get(STATIC):
            return _heat(self.run, topic)
        out = ipywidgets.Output()
        self._show(out, topic)
        if self.widget is not None:
            self.widget.observe(lambda _: self._show(out, topic), "selection")
        return out

    def _show(self, out: ipywidgets.Output, topic: str) -> None:
        run = self.run if self.widget is None else self.widget.view()
        out.clear_output(wait=True)
        with out:
            display(_heat(run, topic))  # type: ignore[no-untyped-call]

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
                parameters={"recordings": [str(resolve(path).resolve()) for path in self.paths]},
                prepare_only=True,
                progress_bar=False,
            )
            links.append(f'<a href="{name}.ipynb" target="_blank">{name}</a>')
        return ipywidgets.HTML("Ask further: " + ", ".join(links))


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


def _bad(row: dict[str, object]) -> bool:
    return bool(row["discarded"] or row["errors"]) or row["status"] in {"failed", "interrupted"}


def _health(row: dict[str, int]) -> str:
    """A thumbnail: a bar that is full when all arrived, and the number of findings."""
    sent = row["messages"]
    arrived = 1.0 if not sent else 1 - row["lost"] / sent
    full = round(8 * arrived)
    told = [f"{row['errors']} errors"] if row["errors"] else []
    told += [f"{row['warnings']} warnings"] if row["warnings"] else []
    return "▰" * full + "▱" * (8 - full) + (f" {', '.join(told)}" if told else " ok")
