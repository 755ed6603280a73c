"""Commands for those who develop roslens or prepare machines for it: ``roslens dev``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Literal

# Earlier names, without "dev", go on working.
from roslens.cli.app import (
    JsonSwitch,
    OutputOption,
    dev,
    verb,
)
from roslens.recording import UsageError
from roslens.recording.files import write_atomically
from roslens.recording.terminal import Console, print_json, say


@verb(
    None,
    "dev ros build [--sources DIR]",
    "dev ros status",
    "dev ros clean",
    "dev ros compile PATH [-o DIR]",
    parent=dev,
    example="dev ros status",
)
@verb(
    *(None, "ros build [--sources DIR]", "ros status", "ros clean", "ros compile PATH [-o DIR]"),
    show=False,
    example="ros status",
)
def ros(
    action: Literal["build", "status", "clean", "compile"],
    path: Path | None = None,
    /,
    *,
    sources: Path | None = None,
    output: OutputOption = None,
) -> None:
    """Compile your own nodes for the embedded ROS 2, or the parts that it lacks.

    These parts are rclcpp, two more middlewares and rosbag2's plugins. Suites compile them by
    themselves when they are needed and no ROS 2 is sourced.

    Parameters
    ----------
    action
        What to do. build: compile what is not there yet. status: show what is there. clean:
        remove it. compile: build programs from your own nodes.
    path
        What to compile: a C++ file with a main function, or the folder of a package, of which each
        add_executable becomes a program.
    sources
        Folder with archives of the pinned sources. Default: $ROSLENS_SOURCES; without it they
        are cloned from their public repositories.
    output
        Folder of the programs. Default: the current one.
    """
    from roslens import ros as compiled  # noqa: PLC0415

    if sources is not None and action != "build":
        raise UsageError("--sources is for 'roslens dev ros build'")
    if (path is None) == (action == "compile") or (output and path is None):
        raise UsageError("PATH and --output are for 'roslens dev ros compile', which needs a PATH")
    if action == "build":
        compiled.build(sources, Console())
    elif path is not None:
        compiled.compile_nodes(path, output or Path(), Console())
    elif action == "status":
        compiled.status(Console())
    else:
        compiled.clean(Console())


@verb(None, "dev schema [OPTIONS]", parent=dev, example="dev schema --format markdown")
@verb(None, "schema [OPTIONS]", show=False, example="schema --format markdown")
def schema(
    *,
    format: Literal["json", "markdown"] = "json",  # noqa: A002  (the option's name)
    output: OutputOption = None,
) -> None:
    """Print the definition of every table: name, type, unit and meaning of each column.

    Parameters
    ----------
    format
        Format of the output.
    output
        File to write, instead of standard output.
    """
    from roslens.collectors.schema import SAMPLED, TABLES  # noqa: PLC0415
    from roslens.collectors.schema.markdown import tables_markdown  # noqa: PLC0415

    if format == "markdown":
        text = tables_markdown()
    else:
        tables = [table.to_json() for table in (*TABLES.values(), *SAMPLED)]
        text = json.dumps({"schema_version": 1, "tables": tables}, indent=1) + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        write_atomically(output, text)


@verb(
    None,
    "dev generate FOLDER [NAME=VALUE ...] [--events N]",
    parent=dev,
    example="dev generate made layers=3 fan_out=2 loss=0.01 processes=4",
)
def generate(folder: Path, /, *shape: str, events: int = 100_000) -> None:
    """Generate a recording of any shape, and a file with the truth about its messages.

    The messages of the trace pass through layers of nodes. FOLDER/truth.parquet has a row for each
    message and subscription, with those columns of the table 'messages' that say from where, to
    where and when.

    Parameters
    ----------
    folder
        Where trace and truth are written.
    shape
        Settings that differ from the default, 4 topics from 4 nodes in one process to a process
        with 4 threads: layers, fan_out, topics, nodes, processes, threads, period_ns, lag, loss,
        taken, stamp_rate, stamp_offset_ns, seed.
    events
        Approximate number of message events.
    """
    from roslens.generate import generate as make  # noqa: PLC0415
    from roslens.generate import parse_shape  # noqa: PLC0415

    say(f"{folder}: {make(parse_shape(shape), folder, events):,} events")


@verb(None, "dev selftest [OPTIONS]", parent=dev, example="dev selftest")
def selftest(
    *,
    tracer: Literal["lttng", "native", "auto"] | None = None,
    pairs: int | None = None,
    as_json: JsonSwitch = False,
) -> int:
    """Measure how wrong the instrument is on this machine, in under a minute.

    Records two programs that keep a log, alternately with and without tracing. It checks whether
    messages and latencies agree with the log, whether recording lengthens the tail, and whether
    anything was lost.
    Exit code 1: a message is reported wrongly, or the tracer dropped something.

    Parameters
    ----------
    tracer
        What records the events. Default: LTTng if it is installed, else native.
    pairs
        Number of pairs of runs; one run of each pair is recorded. Default: 4.
    as_json
        Print JSON, times in ns.
    """
    from roslens.selftest import run_selftest  # noqa: PLC0415

    result = run_selftest(tracer, pairs)
    if as_json:
        print_json(asdict(result))
    else:
        say("\n".join(result.sentences()))
    return result.exit_code
