"""Commands that write for other tools and other people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from roslens.cli.app import (
    SHARE,
    JsonSwitch,
    OutputOption,
    Paths,
    verb,
)
from roslens.export_formats import FORMATS, Format
from roslens.recording import UsageError
from roslens.recording.terminal import Console, print_json, say


@verb(
    SHARE,
    "export --format FORMAT PATH OUT [--table NAME]",
    "export --list",
    example="export --format perfetto PATH out.perfetto-trace",
)
def export(
    path: Path | None = None,
    out: Path | None = None,
    /,
    *,
    form: Annotated[Format | None, Parameter(name="--format")] = None,
    table: str | None = None,
    list_formats: Annotated[bool, Parameter(name="--list")] = False,
    as_json: JsonSwitch = False,
) -> None:
    """Write a recording in a format that other tools read.

    Parameters
    ----------
    path
        A recording, or a folder that contains recordings.
    out
        File to write.
    form
        perfetto: the timeline of one recording, for ui.perfetto.dev. otlp: spans of OpenTelemetry
        as JSON. mcap: timings of one recording, for Foxglove. dot, mermaid: the graph of nodes.
        csv: one table. hgrm, hlog: latency percentiles in ms, or a log of all runs, for the tools
        of HdrHistogram. speedscope, collapsed, pprof: CPU time of callbacks by call stack, for
        speedscope.app, flame graphs and the Firefox Profiler, pprof.
    table
        Name of the table to write as csv.
    list_formats
        List the formats and what is written in each, and stop.
    as_json
        Print as JSON what was written, or the list.
    """
    from roslens.export import export as write  # noqa: PLC0415

    if list_formats and as_json:
        print_json(dict(FORMATS))
        return
    if list_formats:
        for name, description in FORMATS.items():
            say(f"{name:10} {description}")
        return
    if path is None or out is None or form is None:
        raise UsageError("give --format FORMAT, a recording and the file to write, or --list")
    write(path, out, form, table)
    if as_json:
        description = FORMATS[form]
        size = out.stat().st_size
        print_json({"file": str(out), "format": form, "what": description, "size_bytes": size})
        return
    say(f"{FORMATS[form]}: {out.stat().st_size:,} bytes")
    say(out)


@verb(SHARE, "pack PATH... [OPTIONS]", example="pack PATH -o for_you.tar.zst")
def pack(
    *paths: Paths,
    output: OutputOption = None,
    keep_names: bool = False,
    with_tables: bool = False,
) -> None:
    """Pack recordings into one archive for sharing, without the names of hosts and users.

    Parameters
    ----------
    output
        The archive to write. Default: NAME.tar.zst in the working directory.
    keep_names
        Leave the names of hosts and users, and paths, as they are.
    with_tables
        Also pack events and tables, which could be made again.
    """
    from roslens.pack import pack_recordings  # noqa: PLC0415

    if not paths:
        raise UsageError("no recording given; give one or more folders")
    pack_recordings(
        paths, output, keep_names=keep_names, with_tables=with_tables, console=Console()
    )


@verb(SHARE, "unpack ARCHIVE [FOLDER] [OPTIONS]", example="unpack for_you.tar.zst recordings")
def unpack(archive: Path, folder: Path | None = None, /, *, max_size: str | None = None) -> None:
    """Unpack an archive of recordings; nothing is unpacked if a checksum is wrong.

    A trace.dat of trace-cmd, a perf.data of perf, a trace of Perfetto with ftrace, and the folder
    'ftrace' that a killed recorder left become a kernel trace, with the clock of the traces in
    FOLDER.

    Parameters
    ----------
    archive
        An archive that 'roslens pack' wrote, a zip, tar.gz, tar.xz or tar.zst with traces, a
        trace.dat, a perf.data, a trace of Perfetto, or a folder 'ftrace'.
    folder
        Folder to unpack into. Default: data/recordings.
    max_size
        Refuse an archive that is larger than this when unpacked, such as 50G. Default: a limit
        that depends on the archive's size.
    """
    from roslens.pack import unpack_recordings  # noqa: PLC0415

    unpack_recordings(archive, folder, max_size)


@verb(SHARE, "mcp FOLDER... [OPTIONS]", example="mcp ~/.ros/tracing")
def mcp(
    *folders: Annotated[Path, Parameter(name="FOLDER", help="Folders that may be read.")],
    rows: int = 100,
    max_bytes: int = 200_000,
    timeout: float = 120.0,
) -> None:
    """Answer the questions of a program, such as an agent, over the Model Context Protocol.

    It needs an extra: pip install 'roslens[mcp]'. The client starts this command and speaks over
    its standard input and output; no port is opened. Its tools are verbs of roslens that only read,
    and their answers are the JSON of these verbs. Nothing is written beside a recording.

    Parameters
    ----------
    rows
        Show at most this many entries of a list.
    max_bytes
        Cut lists until an answer is no longer than this.
    timeout
        Give up on a question after this many seconds.
    """
    if not folders:
        raise UsageError("no folder given; give one or more that may be read")
    from roslens.agents.server import run_server  # noqa: PLC0415

    run_server(folders, rows=rows, size=max_bytes, seconds=timeout)
