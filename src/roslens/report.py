"""Run ``roslens report``: execute a notebook -> HTML, metrics.json, summary.md."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import nbformat
import yaml
from rich.progress import MofNCompleteColumn, Progress

from roslens.analysis.metrics import METRICS_NAME
from roslens.analysis.reports.base import Section
from roslens.analysis.reports.table import ReportTable, Sentence
from roslens.collectors.resolving import LEFT_OUT
from roslens.collectors.results.formats import find_results
from roslens.execution import CELL_TIMEOUT_S, execute, known_parameters
from roslens.html_page import html_page
from roslens.paths import resolve
from roslens.printed import escaped, show_table, show_text
from roslens.progress import progress_bar
from roslens.recording import UsageError
from roslens.recording.errors import cannot_be_written
from roslens.recording.files import text_path, write_atomically
from roslens.recording.terminal import Console
from roslens.recording.text import shown_lines
from roslens.recordings import Recordings, open_recordings
from roslens.report_folder import default_output, find_notebook, own_folder
from roslens.summary_text import SUMMARY_NAME, Summary

_OF_ROS = frozenset({"latency", "executors", "communication"})
"""Notebooks that report nothing without ROS 2 events."""


@dataclass(frozen=True)
class ReportResult:
    """Files and notes of a finished report.

    Attributes
    ----------
    folder
        The report's folder.
    html
        The self-contained page.
    notebook
        The executed notebook.
    metrics
        metrics.json, or None if the notebook writes none.
    files
        Other files that the notebook wrote beside metrics.json, by name.
    notes
        What the reader must know first, such as that a sample was used.
    without_events
        Why the report contains nothing about ROS 2; None if it does.
    """

    folder: Path
    html: Path
    notebook: Path
    metrics: Path | None
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    without_events: str | None = None


def run_report(
    notebook: str,
    paths: Sequence[Path] = (),
    output: Path | None = None,
    parameters: Mapping[str, Any] | None = None,
    console: Console | None = None,
    *,
    cell_timeout_s: float | None = CELL_TIMEOUT_S,
) -> ReportResult:
    """Execute a notebook over recordings and write the report.

    Parameters
    ----------
    notebook
        Name of a notebook that ships with roslens (``latency``), or the path of one.
    paths
        Recordings, or folders that contain some, or (notebook ``tool``) result files of benchmark
        tools; empty: the notebook's default.
    output
        Folder of the report; by default ``data/reports/<notebook>/<UTC time>``.
    parameters
        Values by name, already parsed (see `parse_parameter`).
    console
        Where progress is shown; None: on standard error.
    cell_timeout_s
        Time limit of a cell in seconds; None or 0: no limit.

    Raises
    ------
    UsageError
        There is no such notebook or recording, a parameter is unknown, or its value is invalid.
    RunFailedError
        The notebook failed, or a cell took too long; the executed notebook is kept in `output`.
    """
    if cell_timeout_s is not None and not cell_timeout_s >= 0:
        raise UsageError(f"--timeout {cell_timeout_s:g}: give seconds, or 0 for no limit")
    source = find_notebook(notebook)
    given = dict(parameters or {})
    accepted = check_parameters(source, given, with_paths=bool(paths))
    if paths:
        given[_for_paths(accepted)] = [text_path(path) for path in paths]
    folder = output or default_output(source.stem)
    try:
        with ExitStack() as stack:
            return _report(
                source,
                folder,
                given,
                accepted,
                stack,
                console=console,
                cell_timeout_s=cell_timeout_s,
            )
    except OSError as error:
        # Errors of our own files name the file; errors of Jupyter's packages do not.
        if error.filename is not None:
            raise
        raise cannot_be_written(folder, error) from error


def _report(
    source: Path,
    folder: Path,
    given: dict[str, Any],
    accepted: Mapping[str, Mapping[str, Any]],
    stack: ExitStack,
    *,
    console: Console | None,
    cell_timeout_s: float | None,
) -> ReportResult:
    executed_path = folder / f"{source.stem}.ipynb"
    if "output_dir" in accepted:
        given.setdefault("output_dir", text_path(folder))
    metrics = Path(given.get("output_dir", folder)) / METRICS_NAME
    notes: list[str] = []
    opened: Recordings | None = None
    with progress_bar(MofNCompleteColumn(), console) as progress:
        if "recordings" in accepted:
            sample = None if "recordings" in given else _default(accepted["recordings"])
            opened = _collect(given.get("recordings", sample), given.get("factors"), progress)
            if sample:
                names = sample if isinstance(sample, str) else ", ".join(sample)
                notes.append(
                    f"No recording was given: this report is about {names}, a sample that comes "
                    "with roslens"
                )
            notes += (
                [] if opened is None else [*opened.unread_in_words(), *opened.copies_in_words()]
            )
            if opened is not None and "topics" in accepted:
                topics = given.get("topics")
                named = topics if isinstance(topics, list) else [topics]
                opened.check_topics([topic for topic in named if isinstance(topic, str)])
        elif "files" in accepted:
            for path in given.get("files", []):
                find_results(resolve(path))
        stack.enter_context(own_folder(folder))
        # Remove an earlier report's files, which must not pass for this one's.
        metrics.unlink(missing_ok=True)
        metrics.with_name(SUMMARY_NAME).unlink(missing_ok=True)
        (folder / f"{source.stem}.html").unlink(missing_ok=True)
        before = _files(metrics.parent)
        task = progress.add_task(f"notebook {source.stem}", total=None)
        executed = execute(
            source,
            executed_path,
            given,
            lambda done, total: progress.update(task, completed=done, total=total),
            cell_timeout_s,
        )
    _without_places(executed, source)
    _escape_outputs(executed)
    text: str = nbformat.writes(executed)  # type: ignore[no-untyped-call]
    write_atomically(executed_path, text + "\n")
    html, markdown = folder / f"{source.stem}.html", metrics.with_name(SUMMARY_NAME)
    lead = ""
    if metrics.is_file():
        summary = Summary.read(metrics, source.stem)
        write_atomically(
            markdown, "".join(f"{escaped(n)}.\n\n" for n in notes) + summary.markdown()
        )
        first = Section(*(Sentence(f"{note}.", loud=True) for note in notes))
        lead = first._repr_html_() + summary.section()._repr_html_()
    write_atomically(html, html_page(executed, _title(executed, source.stem), lead))
    ours = {path.resolve() for path in (html, executed_path, metrics, markdown)}
    files = tuple(
        path
        for path, changed in _files(metrics.parent).items()
        if before.get(path) != changed and path.resolve() not in ours
    )
    return ReportResult(
        folder,
        html,
        executed_path,
        metrics if metrics.is_file() else None,
        files,
        tuple(notes),
        None if opened is None or source.stem not in _OF_ROS else opened.without_ros_events(),
    )


def check_parameters(
    source: Path, given: Mapping[str, Any], *, with_paths: bool
) -> Mapping[str, Mapping[str, Any]]:
    """Return a notebook's parameters after checking that the given values fit.

    Raises
    ------
    UsageError
        The notebook has no such parameter, or takes no recordings.
    """
    accepted = known_parameters(source)
    unknown = sorted(set(given) - set(accepted))
    if unknown:
        raise UsageError(
            f"notebook {source.stem} has no parameter {', '.join(map(repr, unknown))}; "
            f"it has: {', '.join(accepted) or 'none'}"
        )
    name = _for_paths(accepted)
    if with_paths and name in given:
        raise UsageError(f"{name} given twice: as PATH and as -p {name}=...")
    if with_paths and name not in accepted:
        raise UsageError(f"notebook {source.stem} takes no recordings; leave out PATH")
    return accepted


def _for_paths(accepted: Mapping[str, Any]) -> str:
    """Return the parameter for PATH: result files of other tools are not recordings."""
    return "files" if "files" in accepted and "recordings" not in accepted else "recordings"


def parse_parameter(text: str) -> tuple[str, Any]:
    """Parse ``name=value`` from the command line; the value is YAML.

    Raises
    ------
    UsageError
        The text has no ``=`` or no name, or the value is not YAML.
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


def show_parameters(notebook: str) -> None:
    """Print a notebook's question, and its parameters with their defaults and meanings.

    Raises
    ------
    UsageError
        There is no such notebook, or it cannot be read.
    """
    source = find_notebook(notebook)
    parameters = known_parameters(source)
    cells = nbformat.read(source, as_version=4).cells  # type: ignore[no-untyped-call]
    about = next((cell.source for cell in cells if cell.cell_type == "markdown"), "")
    for paragraph in about.removeprefix("# ").split("\n\n"):
        show_text(f"{' '.join(paragraph.split())}\n")
    columns = ["parameter", "default", "meaning"]
    rows = [[name, p["default"], p["help"]] for name, p in parameters.items()]
    show_table(ReportTable(columns, rows, "", left=frozenset(columns)))


def _files(folder: Path) -> dict[Path, int]:
    """Return the files in `folder`, and when each was modified."""
    if not folder.is_dir():
        return {}
    return {p: p.stat().st_mtime_ns for p in sorted(folder.iterdir()) if p.is_file()}


def _collect(recordings: Any, factors: Any, progress: Progress) -> Recordings | None:
    if not isinstance(recordings, (str, list)) or not isinstance(factors, (str, NoneType)):
        return None  # the notebook itself reports the invalid parameter
    if not recordings:
        return None  # the notebook opens no recordings
    task = progress.add_task("collecting", total=None)

    def show(done: int, total: int, recording: Any) -> None:
        progress.update(
            task, completed=done, total=total, description=f"collecting {recording.name}"
        )

    opened = open_recordings(recordings, factors=factors, progress=show)
    count = len(opened.runs)
    progress.update(task, completed=count, total=count, description="collected")
    return opened


def _default(parameter: Mapping[str, Any]) -> Any:
    try:
        return ast.literal_eval(str(parameter["default"]))
    except (ValueError, SyntaxError):
        return None


def _without_places(notebook: nbformat.NotebookNode, source: Path) -> None:
    """Remove this machine's folders from a report, because it may be sent around."""
    about = notebook.metadata.get("papermill", {})
    about.update({"input_path": source.name, "output_path": source.name})


def _escape_outputs(notebook: nbformat.NotebookNode) -> None:
    """Escape control characters in outputs, which contain names from the trace.

    Lines on left-out files are removed: they were printed, and name folders of this machine.
    """
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if "text" in output:
                lines = output.text.splitlines(keepends=True)
                output.text = "".join(line for line in lines if not line.startswith(LEFT_OUT))
            for part in ("data", "text"):
                if part in output:
                    output[part] = _escaped(output[part])
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if output.get("text") != ""]


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return type(value)({key: _escaped(item) for key, item in value.items()})
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return shown_lines(value) if isinstance(value, str) else value


def _title(notebook: nbformat.NotebookNode, name: str) -> str:
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("# "):
            return f"{cell.source.splitlines()[0].removeprefix('# ')} - roslens"
    return f"{name} - roslens"
