"""Define what the reports of all notebooks have in common; each adds its own sections."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import polars as pl

from roslens.analysis.design import check_designs
from roslens.analysis.environment import differences, merged_differences
from roslens.analysis.estimate import Estimate
from roslens.analysis.figures.drawing import Drawing
from roslens.analysis.figures.plot import Plot
from roslens.analysis.judged import ACROSS_MACHINES
from roslens.analysis.measures.loss import biased_figures, health_findings
from roslens.analysis.measures.measured_part import measured_parts
from roslens.analysis.metrics import metrics_of, versions, write_metrics
from roslens.analysis.reports.front import Front, facts_of, trigger_sentences
from roslens.analysis.reports.given import NoRecordings, Tables
from roslens.analysis.reports.parameters import ReportParameters
from roslens.analysis.reports.table import ReportTable, Sentence, Verbatim
from roslens.analysis.reports.tables import definitions_table, health_table, tracer_loss_table
from roslens.analysis.runs import cells_of, why_left_out
from roslens.analysis.verdicts.statement import Statement
from roslens.recording.files import write_atomically
from roslens.recording.text import shown_lines, some_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Part = Sentence | ReportTable | Plot | Verbatim | Drawing | str
"""A part of a section; a plain text becomes a sentence that is not loud."""
_MOST_DISTURBED = 30
_CLIENT_LIBRARIES = ("rclcpp", "rclpy")


class Section:
    """Sentences, tables and figures, shown one below the other."""

    def __init__(self, *parts: Part) -> None:
        self.parts = [Sentence(part) if isinstance(part, str) else part for part in parts]

    @property
    def pictures(self) -> list[Figure]:
        """The section's matplotlib figures, in order; changes to them are shown."""
        return [part.figure for part in self.parts if isinstance(part, Plot)]

    def _repr_html_(self) -> str:
        return "\n".join(part._repr_html_() for part in self.parts)

    def __repr__(self) -> str:
        return shown_lines("\n\n".join(map(str, self.parts)))


P = TypeVar("P", bound=ReportParameters)


class Report(ABC, Generic[P]):
    """A report on runs: which of them count, and the sections that begin and end it.

    Parameters
    ----------
    tables
        Recordings; None if there are none.

    Attributes
    ----------
    counting, left_out
        Runs that enter the estimates, and those that do not.
    reasons
        Why a run is left out, by name of the run.
    expected_findings
        Kinds of findings about recordings that are expected in this report.
    """

    expected_findings: frozenset[str] = frozenset()

    def __init__(self, tables: Tables | None, parameters: P) -> None:
        self.tables: Tables = NoRecordings() if tables is None else tables
        self.parameters = parameters
        self.level = parameters.level
        reasons = {
            run.name: why_left_out(
                run, include_failed=parameters.include_failed, leave_out=parameters.leave_out
            )
            for run in self.tables.runs
        }
        self.counting = [run for run in self.tables.runs if reasons[run.name] is None]
        self.left_out = [run for run in self.tables.runs if reasons[run.name] is not None]
        self.reasons = {name: reason for name, reason in reasons.items() if reason is not None}

    @cached_property
    def measured_parts(self) -> pl.DataFrame:
        """Begin and end of the measured part of each run that counts."""
        return measured_parts(self.tables.table("messages"), self.counting)

    @property
    @abstractmethod
    def estimates(self) -> list[Estimate]:
        """All estimates that go into metrics.json, in the order of reading."""

    @abstractmethod
    def sentences(self) -> list[str]:
        """Return the findings in sentences, the answer first; at least one."""

    def picture(self) -> Plot | None:
        """Return the one figure that shows the answer; None if there is nothing to draw."""
        return None

    def origin(self) -> Mapping[str, str]:
        """Return what the report is about if no run was recorded, by name."""
        return {}

    def answer(self) -> Front:
        """Return the first screen."""
        facts, loud = self._facts
        around: Sequence[Drawing | ReportTable] = ()
        if any(run.triggered for run in self.tables.runs):
            from roslens.analysis.reports.moment import around_hit  # noqa: PLC0415  (half a second)

            around = around_hit(self.tables)
        return Front(self._notes(), self.picture(), facts, loud, around)

    @cached_property
    def _facts(self) -> tuple[Mapping[str, str], frozenset[str]]:
        facts, loud = facts_of(self.tables, len(self.left_out))
        return facts or self.origin(), loud

    def _notes(self) -> list[str]:
        return [*trigger_sentences(self.tables.runs), *self.answers(), *self._machines]

    @property
    def run_counts(self) -> tuple[int, int]:
        """Number of runs given, and number of those that failed or cannot be read."""
        not_read = len(self.tables.not_read)
        return len(self.tables.runs) + not_read, len(self.left_out) + not_read

    def answers(self) -> list[str]:
        """Return `sentences`, or why no run is left."""
        if self.counting or not self.left_out:
            return self.sentences()
        why = " or ".join(dict.fromkeys(self.reasons.values()))
        if len(self.left_out) == 1:
            return [f"The only run was left out: it {why}."]
        return [f"All {len(self.left_out)} runs were left out: each {why}."]

    def tracer_loss(self) -> list[Part]:
        """Show what the tracer lost and what is odd about the recordings; this comes first."""
        if not self.tables.runs:
            return ["There are no runs, so nothing is known of what the tracer lost."]
        parts: list[Part] = []
        lossy = [loss for loss in self.tables.tracer_loss if loss.any]
        if lossy:
            parts.append(
                Sentence(
                    f"The tracer lost events in {len(lossy)} of {len(self.tables.runs)} runs. "
                    f"{biased_figures(lossy)}",
                    loud=True,
                )
            )
            from roslens.analysis.reports.seen import seen_where_lost  # noqa: PLC0415  (few need it)

            parts += [tracer_loss_table(lossy), *seen_where_lost(self.tables)]
        else:
            parts.append(f"The tracer lost nothing in {count_of_runs(len(self.tables.runs))}.")
        health = self.tables.table("health")
        findings = health_findings(health.filter(~pl.col("kind").is_in(self.expected_findings)))
        if findings.height:
            parts.append(health_table(findings))
        return [*parts, *self.disturbed(), *(Sentence(text, loud=True) for text in self.mixed())]

    def mixed(self) -> list[str]:
        """Warn if the runs are of several ROS distributions, or cells of different machines."""
        distros = {run.ros_distro for run in self.counting if run.ros_distro}
        found = []
        if len(distros) > 1:
            found.append(
                f"The runs are of several ROS distributions ({', '.join(sorted(distros))}): a "
                "difference between cells may be one between them."
            )
        return found + self._machines

    @cached_property
    def _machines(self) -> list[str]:
        first, *others = [
            [run.environment for run in members] for members in cells_of(self.counting).values()
        ] or [[]]
        merged = merged_differences([differences(first, other) for other in others])
        named = "; ".join(
            f"{d.name} {' and '.join(sorted({*d.base, *d.new}))}"
            for d in merged.differences
            if d.kind == "machine"
        )
        text = f"Cells were recorded on different machines ({named}): that may be the difference."
        return [text] if named else []

    def decided(self, found: Sequence[Statement]) -> list[Statement]:
        """Return statements about several cells, undecided if these are of different machines."""
        return [
            replace(s, verdict="not_enough_evidence", because=s.because + ACROSS_MACHINES)
            if s.decided and self._machines
            else s
            for s in found
        ]

    def disturbed(self) -> list[Part]:
        """Show the runs whose host was disturbed, and by what."""
        affected = [run for run in self.tables.runs if run.disturbances]
        if not affected:
            return []
        kept = sum(run.name not in self.reasons for run in affected)
        text = (
            f"The host was disturbed in {len(affected)} of {count_of_runs(len(self.tables.runs))}; "
            f"{kept} of them enter the estimates (leave_out: disturbed leaves them out)."
        )
        shown = affected[:_MOST_DISTURBED]
        rows = [[run.name, run.label, "; ".join(run.disturbances)] for run in shown]
        hidden = len(affected) - len(shown)
        table = ReportTable(
            ["run", "cell", "disturbance"],
            rows,
            "Disturbed runs",
            notes=[f"{hidden:,} more are not shown."] if hidden else [],
            left=frozenset({"run", "cell", "disturbance"}),
        )
        return [Sentence(text, loud=True), table]

    def runs_left_out(self) -> list[Part]:
        """List the runs that enter no estimate, by reason and name."""
        parts: list[Part] = []
        for reason in dict.fromkeys(self.reasons.values()):
            names = [run.name for run in self.left_out if self.reasons[run.name] == reason]
            enter = "enters" if len(names) == 1 else "enter"
            text = (
                f"{count_of_runs(len(names))} {reason} and {enter} no estimate: "
                f"{some_of(names, 5)}."
            )
            parts.append(Sentence(text, loud=True))
        return parts

    def design(self) -> list[Part]:
        """Say whether the runs were made as designed."""
        parts: list[Part] = []
        for check in check_designs(self.tables.runs):
            name = f"Campaign {check.suite}/{check.campaign}"
            if check.deviations:
                text = f"{name} does not follow its design: {'; '.join(check.deviations[:5])}."
            else:
                text = (
                    f"{name} follows its design: {check.runs} of {check.planned} planned runs "
                    f"are here, in the order that the seed {check.seed} gives within each block."
                )
            parts.append(Sentence(text, loud=bool(check.deviations)))
        return parts

    def definitions(self) -> Section:
        """Show what each number is."""
        made_by = ", ".join(f"{name} {v}" for name, v in versions().items() if v)
        return Section(
            definitions_table(self.estimates),
            *self.provenance(),
            f"Computed by {made_by}.",
        )

    def provenance(self) -> list[Part]:
        """Show the software and the machines that the runs were made with."""
        if not self.tables.runs:
            return []
        counts: dict[str, Counter[str]] = {}
        for run in self.tables.runs:
            shown = (run.environment.get(kind, {}) for kind in ("software", "machine", "tracing"))
            told = {name: value for part in shown for name, value in part.items()}
            packages = run.environment.get("packages", {})
            told |= {name: packages[name] for name in _CLIENT_LIBRARIES if name in packages}
            told |= {"merged of": run.hosts} if run.hosts else {}
            for name, value in told.items():
                counts.setdefault(name, Counter())[value] += 1
        rows = [
            [name, value, str(number)]
            for name, values in counts.items()
            for value, number in values.most_common()
        ]
        if not rows:
            return ["What the runs were made with is not known: they have no manifest."]
        left = frozenset({"what", "which"})
        return [
            ReportTable(["what", "which", "runs"], rows, "What the runs were made with", left=left)
        ]

    def files(self) -> Mapping[str, pl.DataFrame]:
        """Return the CSV files that accompany metrics.json, by name; a study adds its own."""
        return {}

    def write(self) -> Section:
        """Write metrics.json and `files` to the folder that the parameters name."""
        if self.parameters.output_dir is None:
            return Section("metrics.json is not written: output_dir is not set.")
        counting = [run.name for run in self.counting]
        metrics = metrics_of(
            self.estimates, self.tables.tracer_loss, counting, self._notes(), self._facts[0]
        )
        folder = Path(self.parameters.output_dir)
        path = write_metrics(metrics, folder)
        sentences = [f"{len(metrics.estimates)} estimates written to {path.name}."]
        for name, frame in self.files().items():
            write_atomically(folder / name, frame.write_csv())
            sentences.append(f"{frame.height:,} rows written to {name}.")
        return Section(*sentences)


def count_of_runs(count: int) -> str:
    """Return a count in words, such as ``1 run`` or ``2 runs``."""
    return f"{count} run{'s' if count != 1 else ''}"
