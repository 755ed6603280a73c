"""``roslens report``: a notebook executed over recordings -> HTML, metrics.json, the notebook."""

from __future__ import annotations

import ast
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import yaml
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from analysis.estimate import Estimate, cell_label
from analysis.metrics import METRICS_NAME, read_metrics
from analysis.numbers import value_and_interval
from roslens.execution import execute, known_parameters
from roslens.html_page import html_page
from roslens.recordings import open_recordings
from tracing.recording import UsageError


@dataclass(frozen=True)
class ReportResult:
    """What a report left behind.

    Attributes
    ----------
    folder
        The report's folder.
    html
        The self-contained page.
    notebook
        The executed notebook.
    metrics
        metrics.json, or None where the notebook writes none.
    """

    folder: Path
    html: Path
    notebook: Path
    metrics: Path | None


def run_report(
    notebook: str,
    paths: Sequence[Path] = (),
    output: Path | None = None,
    parameters: Mapping[str, Any] | None = None,
    console: Console | None = None,
) -> ReportResult:
    """Execute a notebook over recordings and write the report.

    Parameters
    ----------
    notebook
        Name of a notebook that ships with roslens (``latency``), or the path of one.
    paths
        Recordings, or folders that hold some; none: the notebook's default.
    output
        Folder of the report; by default ``data/reports/<notebook>/<UTC time>``.
    parameters
        Values by name, already parsed (see `parse_parameter`).
    console
        Where progress is shown; standard error by default.

    Raises
    ------
    UsageError
        No such notebook or recording, an unknown parameter, or a value it does not take.
    RunFailedError
        The notebook failed; it is kept in `output`.
    """
    source = find_notebook(notebook)
    known = known_parameters(source)
    given = dict(parameters or {})
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UsageError(
            f"notebook {source.stem} has no parameter {', '.join(map(repr, unknown))}; "
            f"it has: {', '.join(known) or 'none'}"
        )
    if paths and "recordings" in given:
        raise UsageError("recordings given twice: as PATH and as -p recordings=...")
    if paths:
        if "recordings" not in known:
            raise UsageError(f"notebook {source.stem} takes no recordings; leave out PATH")
        given["recordings"] = [str(path) for path in paths]
    folder = output or _default_output(source.stem)
    executed_path = folder / f"{source.stem}.ipynb"
    if "output_dir" in known:
        given.setdefault("output_dir", str(folder))
    metrics = Path(given.get("output_dir", folder)) / METRICS_NAME
    with _progress(console or Console(stderr=True)) as progress:
        if "recordings" in known:
            _collect(given.get("recordings", _default(known["recordings"])), progress)
        _make(folder)
        # What an earlier report left here must not pass for this one's.
        metrics.unlink(missing_ok=True)
        (folder / f"{source.stem}.html").unlink(missing_ok=True)
        task = progress.add_task(f"notebook {source.stem}", total=None)
        executed = execute(
            source,
            executed_path,
            given,
            lambda done, total: progress.update(task, completed=done, total=total),
        )
    _without_places(executed, source)
    nbformat.write(executed, executed_path)  # type: ignore[no-untyped-call]
    html = folder / f"{source.stem}.html"
    html.write_text(html_page(executed, _title(executed, source.stem)), encoding="utf-8")
    return ReportResult(folder, html, executed_path, metrics if metrics.is_file() else None)


def parse_parameter(text: str) -> tuple[str, Any]:
    """``name=value`` of the command line; the value is YAML.

    Raises
    ------
    UsageError
        There is no ``=``, no name, or the value is no YAML.
    """
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise UsageError(f"-p {text}: give name=value")
    try:
        return name.strip(), yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise UsageError(f"-p {text}: the value is no YAML: {' '.join(str(error).split())}") from (
            error
        )


def find_notebook(notebook: str) -> Path:
    """The path of a notebook that is given by its name or its path.

    Raises
    ------
    UsageError
        There is none.
    """
    path = Path(notebook)
    if path.suffix == ".ipynb" and path.is_file():
        return path
    found = {
        candidate.stem: candidate
        for folder in reversed(_notebook_folders())
        for candidate in sorted(folder.glob("*.ipynb"))
    }
    if notebook in found:
        return found[notebook]
    raise UsageError(
        f"no notebook {notebook!r}; there are: {', '.join(sorted(found)) or 'none'} "
        "(or give the path of an .ipynb file)"
    )


def _notebook_folders() -> list[Path]:
    package = Path(__file__).resolve().parent
    return [
        package.parent / "notebooks",
        package / "notebooks",
        Path(sys.prefix) / "share" / "roslens" / "notebooks",
    ]


def summary_table(metrics: Path) -> Table:
    """The short table at the end: per cell mean, P50, P99 and loss, and what the tracer lost.

    Parameters
    ----------
    metrics
        A metrics.json or its folder.

    Raises
    ------
    UsageError
        It cannot be read.
    """
    found = read_metrics(metrics)
    of_cell: dict[str, dict[str, Estimate]] = {}
    for estimate in found.estimates:
        if estimate.metric in _SUMMARY and "topic" not in estimate.cell:
            of_cell.setdefault(cell_label(estimate.cell), {})[estimate.metric] = estimate
    discarded = sum(r["discarded_events"] or 0 for r in found.recordings)
    packets = sum(r["lost_packets"] or 0 for r in found.recordings)
    failed = sum(not r["counts"] for r in found.recordings)
    lost = (
        f"the tracer lost {discarded:,} events and {packets:,} packets"
        if discarded or packets
        else "the tracer lost nothing"
    )
    count = len(found.recordings)
    caption = f"{count} run{'s' * (count != 1)} ({failed} left out); {lost}"
    title = "Latency, publish to callback"
    table = Table(title=title, caption=Text(caption), box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("cell", no_wrap=True)
    for heading in ("runs", "mean [ms]", "P50 [ms]", "P99 [ms]", "lost [%]"):
        table.add_column(Text(heading), justify="right")
    reasons: list[str] = []
    for label, estimates in of_cell.items():
        shown = [_short(estimates.get(name), reasons) for name in _SUMMARY]
        runs = max(e.runs for e in estimates.values())
        table.add_row(Text(label.replace(", ", "\n")), str(runs), *shown)
    if reasons:
        notes = "\n".join(f"({i}) {reason}" for i, reason in enumerate(reasons, 1))
        table.caption = Text(f"{caption}\n{notes}")
    return table


_SUMMARY = ("latency_mean", "latency_p50", "latency_p99", "loss")


def _short(estimate: Estimate | None, reasons: list[str]) -> Text:
    if estimate is None:
        return Text("-")
    value, interval = value_and_interval(estimate)
    if estimate.refused is None:
        return Text(f"{value}\n{interval}")
    if estimate.refused not in reasons:
        reasons.append(estimate.refused)
    number = reasons.index(estimate.refused) + 1
    known = estimate.value is not None and math.isfinite(estimate.value)
    return Text(f"{value if known else ''}\nrefused ({number})".strip())


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def _collect(recordings: Any, progress: Progress) -> None:
    if not isinstance(recordings, (str, list)) or not recordings:
        return  # the notebook looks at none, or itself says what is wrong with it
    task = progress.add_task("collecting", total=None)

    def show(done: int, total: int, recording: Any) -> None:
        progress.update(
            task, completed=done, total=total, description=f"collecting {recording.name}"
        )

    opened = open_recordings(recordings, progress=show)
    count = len(opened.runs)
    progress.update(task, completed=count, total=count, description="collected")


def _default(parameter: Mapping[str, Any]) -> Any:
    try:
        return ast.literal_eval(str(parameter["default"]))
    except (ValueError, SyntaxError):
        return None


def _default_output(name: str) -> Path:
    parent = Path("data", "reports", name)
    stamp = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    folder, number = parent / stamp, 1
    while folder.exists():
        number += 1
        folder = parent / f"{stamp}-{number}"
    return folder


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be made: {error.strerror}; give another folder with -o"
        ) from error


def _without_places(notebook: nbformat.NotebookNode, source: Path) -> None:
    """A report may be sent around: it need not tell the folders of this machine."""
    about = notebook.metadata.get("papermill", {})
    about.update({"input_path": source.name, "output_path": source.name})


def _title(notebook: nbformat.NotebookNode, name: str) -> str:
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("# "):
            return f"{cell.source.splitlines()[0].removeprefix('# ')} - roslens"
    return f"{name} - roslens"
