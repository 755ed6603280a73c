"""What the reports of all notebooks have in common; each adds its own sections."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import polars as pl

from analysis.estimate import Estimate
from analysis.figures.plot import Plot
from analysis.latency import runs_that_count
from analysis.loss import TracerLoss, health_findings
from analysis.metrics import metrics_of, versions, write_metrics
from analysis.parameters import ReportParameters
from analysis.report_table import ReportTable, Sentence
from analysis.runs import Run
from analysis.tables_for_report import definitions_table, health_table, tracer_loss_table

Part = Sentence | ReportTable | Plot


class Tables(Protocol):
    """Runs and their tables, as ``rl.open`` gives them."""

    @property
    def runs(self) -> Sequence[Run]: ...  # noqa: D102
    @property
    def resources(self) -> pl.LazyFrame: ...  # noqa: D102
    @property
    def without_resources(self) -> Sequence[Run]: ...  # noqa: D102
    @property
    def tracer_loss(self) -> Sequence[TracerLoss]: ...  # noqa: D102
    def table(self, name: str) -> pl.LazyFrame: ...  # noqa: D102


class Section:
    """Sentences, tables and figures, shown one below the other."""

    def __init__(self, *parts: Part) -> None:
        self.parts = parts

    def _repr_html_(self) -> str:
        return "\n".join(part._repr_html_() for part in self.parts)

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self.parts))


class Report(ABC):
    """Runs, which of them count, and the sections that begin and end every report.

    Attributes
    ----------
    counting, left_out
        Runs that enter the estimates, and those that failed.
    """

    def __init__(self, tables: Tables, parameters: ReportParameters) -> None:
        self.tables = tables
        self.counting, self.left_out = runs_that_count(
            tables.runs, include_failed=parameters.include_failed
        )
        self._output = parameters.output_dir

    @property
    @abstractmethod
    def estimates(self) -> list[Estimate]:
        """All that goes into metrics.json, in the order of reading."""

    def tracer_loss(self) -> list[Part]:
        """What the tracer lost and what is odd about the recordings; the first thing to show."""
        parts: list[Part] = []
        lossy = [loss for loss in self.tables.tracer_loss if loss.any]
        if lossy:
            parts.append(
                Sentence(
                    f"The tracer lost events in {len(lossy)} of {len(self.tables.runs)} runs: "
                    "every figure below can be bent by what is missing.",
                    loud=True,
                )
            )
            parts.append(tracer_loss_table(lossy))
        else:
            parts.append(
                Sentence(f"The tracer lost nothing in {count_of_runs(len(self.tables.runs))}.")
            )
        findings = health_findings(self.tables.table("health"))
        if findings.height:
            parts.append(health_table(findings))
        return parts

    def runs_left_out(self) -> list[Part]:
        """The runs that failed, by name."""
        if not self.left_out:
            return []
        names = ", ".join(run.name for run in self.left_out[:5])
        more = f" and {len(self.left_out) - 5} more" if len(self.left_out) > 5 else ""
        text = (
            f"{count_of_runs(len(self.left_out))} did not complete and enter no estimate: "
            f"{names}{more}."
        )
        return [Sentence(text, loud=True)]

    def definitions(self) -> Section:
        """What each number is."""
        made_by = ", ".join(f"{name} {v}" for name, v in versions().items() if v)
        return Section(definitions_table(self.estimates), Sentence(f"Computed by {made_by}."))

    def write(self, files: Mapping[str, pl.DataFrame] | None = None) -> Section:
        """Write metrics.json, and CSV files by name, where the parameters say so."""
        if self._output is None:
            return Section(Sentence("metrics.json is not written: output_dir is not set."))
        counting = [run.name for run in self.counting]
        metrics = metrics_of(self.estimates, self.tables.tracer_loss, counting)
        folder = Path(self._output)
        path = write_metrics(metrics, folder)
        sentences = [Sentence(f"{len(metrics.estimates)} estimates written to {path.name}.")]
        for name, frame in (files or {}).items():
            frame.write_csv(folder / name)
            sentences.append(Sentence(f"{frame.height:,} rows written to {name}."))
        return Section(*sentences)


def count_of_runs(count: int) -> str:
    """``1 run``, ``2 runs``."""
    return f"{count} run{'s' if count != 1 else ''}"
