"""Make reports of recordings or campaigns by workers, and a page over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rich.markup import escape
from rich.progress import MofNCompleteColumn

from roslens.analysis.metrics import METRICS_NAME
from roslens.collectors.resolving import find_runs
from roslens.execution import CELL_TIMEOUT_S
from roslens.fleet.cluster import Workers, each
from roslens.index import write_index
from roslens.progress import progress_bar
from roslens.recording import RoslensError, UsageError
from roslens.recording.terminal import Console
from roslens.report import check_parameters, run_report
from roslens.report_folder import default_output, find_notebook, own_folder
from roslens.summary_text import SUMMARY_NAME, Summary
from roslens.tracing.opening import opened

Each: TypeAlias = Literal["recording", "campaign"]


@dataclass(frozen=True)
class Task:
    """One report to make: its recordings and its folder."""

    name: str
    paths: tuple[Path, ...]
    folder: Path


def report_each(
    notebook: str,
    paths: Sequence[Path],
    each_of: Each,
    *,
    output: Path | None,
    parameters: Mapping[str, Any],
    workers: Workers,
    console: Console,
    cell_timeout_s: float | None = CELL_TIMEOUT_S,
) -> Path:
    """Make a report of each recording at or below `paths`, printing a line for each.

    Parameters
    ----------
    notebook
        The notebook's name or path.
    each_of
        Whether each recording, or all recordings of a folder together, get a report.
    output
        The folder of all reports; by default ``data/reports/<notebook>/<UTC time>``.
    parameters
        Parameters of the notebook, the same for all reports.
    workers
        The processes that make the reports.
    cell_timeout_s
        Time limit of a notebook cell in seconds; None or 0: no limit.

    Returns
    -------
    Path
        The page over all reports.

    Raises
    ------
    RoslensError
        A report could not be made. The others are made all the same, and each failure is printed
        on a line of its own.
    """
    source = find_notebook(notebook)
    check_parameters(source, parameters, with_paths=True)
    folder = (output or default_output(source.stem)).absolute()
    with own_folder(folder):
        tasks = [
            Task(name, tuple(members), folder / name)
            for name, members in groups(paths, each_of).items()
        ]
        make = partial(_report, source.absolute(), parameters, cell_timeout_s)
        errors: dict[str, RoslensError] = {}
        with progress_bar(MofNCompleteColumn(), console) as progress:
            bar = progress.add_task("reports", total=len(tasks))
            needed = [path for task in tasks for path in task.paths] + [folder, source.absolute()]
            for number, result in each(make, tasks, workers, needed):
                task = tasks[number]
                progress.update(bar, advance=1, description=escape(task.name))
                if isinstance(result, RoslensError):
                    errors[task.name] = result
                    line = escape(f"{task.name}: {_in_a_line(result)}")
                    console.print(f"[red]failed:[/] {line}", soft_wrap=True)
                else:
                    console.print(f"{escape(task.name)}: {escape(result)}", soft_wrap=True)
        first = next(iter(errors.values()), None)
        if first is not None and len(errors) == len(tasks):
            raise type(first)(f"no report could be made: {first}")
        page = write_index(folder, {name: _in_a_line(error) for name, error in errors.items()})
        if first is not None:
            more = f" (and {len(errors) - 1} more of {len(tasks)})" if len(errors) > 1 else ""
            raise type(first)(f"{first}{more}; the others: {page}")
        return page


def groups(paths: Sequence[Path], each_of: Each) -> dict[str, list[Path]]:
    """Group the recordings into reports, by the name of each report's folder.

    Raises
    ------
    UsageError
        There is no recording, or two groups would have the same name.
    """
    by_name: dict[str, list[Path]] = {}
    origin: dict[str, Path] = {}
    for path in paths:
        root = opened(path).absolute()
        for recording in find_runs(root):
            own_path = recording.path.absolute()
            place = own_path if each_of == "recording" else own_path.parent
            name = place.relative_to(root).as_posix() if place.is_relative_to(root) else ""
            name = place.name if name in ("", ".") else name
            if origin.setdefault(name, place) != place:
                raise UsageError(
                    f"two {each_of}s are named '{name}'; give the folder that holds both"
                )
            members = by_name.setdefault(name, [])
            if own_path not in members:
                members.append(own_path)
    return by_name


def _report(
    notebook: Path, parameters: Mapping[str, Any], cell_timeout_s: float | None, task: Task
) -> str:
    """Make one report in a worker, and return its findings in a line."""
    for name in (METRICS_NAME, SUMMARY_NAME, f"{notebook.stem}.html"):
        # Remove an earlier report's files, which must not pass for this one's if it fails.
        (task.folder / name).unlink(missing_ok=True)
    quiet = Console(quiet=True)
    done = run_report(
        str(notebook), task.paths, task.folder, parameters, quiet, cell_timeout_s=cell_timeout_s
    )
    if done.metrics is None:
        return "done"
    summary = Summary.read(done.metrics, done.notebook.stem)
    return "; ".join(filter(None, (summary.runs, summary.verdicts)))


def _in_a_line(error: RoslensError) -> str:
    return " ".join(str(error).split())
