"""Commands that write reports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from roslens.cli.app import (
    REPORT,
    FactorsFile,
    JsonFile,
    JsonSwitch,
    OutputOption,
    Paths,
    SchedulerOption,
    WorkersOption,
    verb,
)
from roslens.recording import NotEnoughEvidenceError, UsageError
from roslens.recording.terminal import Console, print_json, say
from roslens.recording.text import shown

if TYPE_CHECKING:
    from roslens.report import ReportResult


@verb(
    REPORT,
    "report NOTEBOOK [PATH...] [OPTIONS]",
    "report NOTEBOOK --list-parameters",
    example="report latency PATH -p topics=[/scan]",
)
def report(
    notebook: str,
    /,
    *paths: Annotated[Path, Parameter(name="PATH")],
    output: OutputOption = None,
    parameter: Annotated[tuple[str, ...], Parameter(name=["-p", "--parameter"])] = (),
    list_parameters: bool = False,
    timeout: float = 3600,
    each: Literal["recording", "campaign"] | None = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    as_json: JsonSwitch = False,
) -> None:
    """Run a notebook over recordings: writes an HTML page, metrics.json and summary.md.

    The last line printed is the folder of the report; what_if writes the page alone. These
    notebooks come with roslens:

    * latency: How long do messages take, how certain is that, what was lost, which callbacks
      delayed them?
    * chains: How long do messages take from end to end, and are deadlines met?
    * leaks: Does memory climb, and what is the smallest leak that the recordings could reveal?
    * executors: Which executor is slower, and which takes more CPU?
    * communication: What do pointer types and intra-process communication change?
    * what_if: What would latency be under another executor, load or number of CPUs?
    * storage: How does SQLite compare with MCAP?
    * micro_ros: How much memory, throughput and latency do small devices have?
    * tool: What do the result files of other benchmark tools say, and what is wrong in them?
    * calibration: Do roslens' own intervals and verdicts keep what they promise?

    Parameters
    ----------
    notebook
        Name of a notebook (see above), or the path of an .ipynb file.
    paths
        Recordings, folders that contain recordings, or archives of 'roslens pack'; for the
        notebook tool, result files. Default: a sample that comes with roslens.
    output
        Folder for the report. Default: data/reports/NOTEBOOK/TIME.
    parameter
        NAME=VALUE sets a parameter of the notebook; the value is YAML. May be repeated.
    list_parameters
        List the notebook's parameters and their defaults, and stop.
    timeout
        Seconds that a cell of the notebook may take; 0 means no limit.
    each
        Make a separate report for each recording or campaign, and one page that lists them.
        --workers and --scheduler need this option.
    as_json
        Print the answer and the files of the report as JSON instead of text.
    """
    from roslens.report import parse_parameter, run_report, show_parameters  # noqa: PLC0415

    if list_parameters:
        show_parameters(notebook)
        return
    parameters = dict(parse_parameter(text) for text in parameter)
    if each is not None:
        from roslens.fleet.cluster import Workers  # noqa: PLC0415
        from roslens.fleet.reports import report_each  # noqa: PLC0415

        if not paths:
            raise UsageError("no recording given; give one or more folders")
        page = report_each(
            notebook,
            paths,
            each,
            output=output,
            parameters=parameters,
            cell_timeout_s=timeout,
            workers=Workers(workers, scheduler),
            console=Console(),
        )
        if as_json:
            print_json({"folder": str(page.parent), "page": str(page)})
        else:
            say(page.parent)
        return
    if workers is not None or scheduler is not None:
        raise UsageError("--workers and --scheduler go with --each: one report is one process")
    result = run_report(notebook, paths, output, parameters, cell_timeout_s=timeout)
    _show(result, as_json=as_json)
    if result.without_events is not None:
        raise NotEnoughEvidenceError(result.without_events)


def _show(result: ReportResult, *, as_json: bool) -> None:
    """Print the answer of a report, and where it is."""
    from roslens.analysis.metrics import read_metrics  # noqa: PLC0415
    from roslens.printed import show_table, show_text  # noqa: PLC0415
    from roslens.summary import summary_table  # noqa: PLC0415

    answer = [] if result.metrics is None else read_metrics(result.metrics).answer
    if as_json:
        print_json({
            "folder": str(result.folder),
            "html": str(result.html),
            "metrics": None if result.metrics is None else str(result.metrics),
            "files": [str(path) for path in result.files],
            "answer": list(answer),
            "notes": list(result.notes),
        })  # fmt: skip
        return
    for sentence in answer:
        show_text(sentence)
    if result.metrics is not None:
        show_table(summary_table(result.metrics, result.notebook.stem))
    if result.files:
        say(f"also written: {', '.join(path.name for path in result.files)}")
    for note in result.notes:
        print(f"roslens: note: {shown(note)}", file=sys.stderr)
    say(f"report: {result.html}")
    say(result.folder)


@verb(REPORT, "chains PATH... [OPTIONS]", example="chains PATH --requirements limits.yaml")
def chains(
    *paths: Paths,
    chain: tuple[str, ...] = (),
    requirements: Path | None = None,
    bound: bool = False,
    factors: FactorsFile = None,
    json_file: JsonFile = None,
) -> int:
    """Show how long messages take from end to end, and where the time goes.

    Exit code: 0 all requirements are kept, 1 one is exceeded, 3 not enough evidence or no chain.

    Parameters
    ----------
    chain
        Only this chain, such as '/camera -> /image -> /detector'. May be repeated. Default: those
        in the requirements, or every chain that is found.
    requirements
        A YAML file with chains and what is required of them, such as a P99 or a rate.
    bound
        Also show how long each chain takes at most, as long as nothing comes more often or takes
        longer than in the recording.
    """
    from roslens.chains import run_chains  # noqa: PLC0415

    if not paths:
        raise UsageError("no recording given; give one or more folders")
    return run_chains(paths, requirements, chain, bound=bound, factors=factors, json_file=json_file)


@verb(REPORT, "index [FOLDER]", example="index data/reports")
def index(folder: Path = Path("data/reports"), /) -> None:
    """Write index.html, which lists all reports in a folder with their losses and verdicts.

    Parameters
    ----------
    folder
        The folder that contains the reports.
    """
    from roslens.index import write_index  # noqa: PLC0415

    say(write_index(folder))
