"""Commands for those who develop roslens or prepare machines for it: ``roslens dev``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Literal

# Earlier names, without "dev", go on working.
from roslens.cli.app import (
    OutputOption,
    dev,
    verb,
)
from roslens.recording import UsageError
from roslens.recording.files import write_atomically
from roslens.recording.terminal import Console


@verb(None, "dev ros build [--sources DIR]", "dev ros status", "dev ros clean", parent=dev)
@verb(None, "ros build [--sources DIR]", "ros status", "ros clean", show=False)
def ros(action: Literal["build", "status", "clean"], /, *, sources: Path | None = None) -> None:
    """Compile rclcpp, a second middleware and rosbag2's plugins for the embedded ROS 2.

    Suites do it by themselves when it is needed and no ROS 2 is sourced.

    Parameters
    ----------
    action
        What to do. build: compile what is not there yet. status: show what is there. clean:
        remove it.
    sources
        Folder with archives of the pinned sources. Default: $ROSLENS_SOURCES; without it they
        are cloned from their public repositories.
    """
    from roslens import ros as compiled  # noqa: PLC0415

    if action == "build":
        compiled.build(sources, Console())
    elif sources is not None:
        raise UsageError("--sources is for 'roslens dev ros build'")
    elif action == "status":
        compiled.status(Console())
    else:
        compiled.clean(Console())


@verb(None, "dev schema [OPTIONS]", parent=dev)
@verb(None, "schema [OPTIONS]", show=False)
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
