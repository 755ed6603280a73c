"""The command line: parses, calls, prints; every verb ends with a documented exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal, NoReturn

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from tracing.recording import EXIT_INTERRUPTED, EXIT_USAGE, RoslensError, UsageError

app = App(
    name="roslens",
    help="Records ROS 2 with LTTng, turns traces into tables, and tables into figures with "
    "confidence intervals.",
    version=lambda: version("roslens"),
    help_format="markdown",
)

Recordings = Annotated[Path, Parameter(help="Recordings, or folders that hold some.")]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Anything the user can act on ends with one line on standard error and its exit code.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="sys_exit")
    except CycloptsError as error:
        _fail(f"{' '.join(str(error).split())} (see 'roslens --help')", EXIT_USAGE)
    except RoslensError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone ('| head'); nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


def _fail(message: str, code: int) -> NoReturn:
    # Plain print: a terminal must not wrap or colour what scripts match.
    print(f"roslens: error: {message}", file=sys.stderr)
    sys.exit(code)


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=1))


@app.command
def info(
    path: Path,
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Show what a recording holds: events, times, processes, and first of all what was lost."""
    from collectors.reader import open_trace  # noqa: PLC0415  (starts quickly without it)

    from roslens.show import show_info  # noqa: PLC0415

    if not path.exists():
        raise UsageError(f"{path}: no such file or directory; give the folder of a recording")
    found = open_trace(path).info()
    if as_json:
        _print_json(found.to_json())
    else:
        show_info(found, Console())


@app.command
def schema(
    *,
    format: Literal["json", "markdown"] = "json",  # noqa: A002  (the option's name)
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
) -> None:
    """Print the definition of every table: name, type, unit and meaning of each column."""
    from collectors.schema import RESOURCES, TABLES  # noqa: PLC0415
    from collectors.schema.markdown import tables_markdown  # noqa: PLC0415

    if format == "markdown":
        text = tables_markdown()
    else:
        tables = [table.to_json() for table in (*TABLES.values(), RESOURCES)]
        text = json.dumps({"schema_version": 1, "tables": tables}, indent=1) + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")


@app.command
def collect(
    *paths: Recordings,
    output: Annotated[
        Path | None,
        Parameter(
            name=["--output", "-o"], help="Folder of the output (a folder below, if several)."
        ),
    ] = None,
    engine: Annotated[
        Literal["native", "babeltrace2"], Parameter(help="Ours, or the slow one, to compare.")
    ] = "native",
    threads: Annotated[int, Parameter(help="Threads that decode; 0: one per CPU.")] = 0,
    events_only: Annotated[bool, Parameter(negative="", help="Raw events, no tables.")] = False,
    force: Annotated[bool, Parameter(negative="", help="Even if all is up to date.")] = False,
) -> None:
    """Turn recordings into Parquet: every event, and the tables of the ROS 2 model."""
    from roslens.collecting import collect_all  # noqa: PLC0415

    if not paths:
        raise UsageError("no recording given; give one or more folders")
    collect_all(
        paths,
        output=output,
        engine=engine,
        threads=threads,
        events_only=events_only,
        force=force,
        console=Console(),
    )


@app.command
def report(
    notebook: Annotated[str, Parameter(help="Name of a notebook (latency), or the path of one.")],
    /,
    *paths: Recordings,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    parameter: Annotated[
        list[str], Parameter(name=["-p", "--parameter"], negative="", help="NAME=VALUE")
    ] = [],  # noqa: B006  (cyclopts copies it)
) -> None:
    """Execute a notebook over recordings: an HTML page and metrics.json; prints the folder last."""
    from roslens.report import parse_parameter, run_report, summary_table  # noqa: PLC0415

    parameters = dict(parse_parameter(text) for text in parameter)
    result = run_report(notebook, paths, output, parameters)
    console = Console()
    if result.metrics is not None:
        console.print(summary_table(result.metrics))
    print(f"report: {result.html}")
    print(result.folder)
