"""Commands that look at a recording, or make one of several."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from roslens.cli.app import (
    LOOK,
    JsonSwitch,
    OutputOption,
    Paths,
    SchedulerOption,
    ThreadsOption,
    WorkersOption,
    verb,
)
from roslens.recording import NotEnoughEvidenceError, UsageError
from roslens.recording.terminal import Console


@verb(LOOK, "info PATH [--json]")
def info(path: Path, /, *, as_json: JsonSwitch = False) -> None:
    """Show what the tracer lost, and which events, times and processes a recording contains.

    Parameters
    ----------
    path
        A recording, any folder with CTF traces, or an archive of some (zip, tar.gz, tar.xz,
        tar.zst). Of a folder with several runs or tracing sessions, a line about each.
    as_json
        Print JSON instead of text.
    """
    from roslens.info import run_info  # noqa: PLC0415  (starts quickly without it)

    run_info(path, as_json=as_json)


@verb(LOOK, "events PATH [OPTIONS]")
def events(
    path: Path,
    /,
    *,
    name: tuple[str, ...] = (),
    start: str | None = None,
    end: str | None = None,
    fields: tuple[str, ...] = (),
    form: Annotated[Literal["text", "json", "csv", "parquet"], Parameter(name="--format")] = "text",
    output: OutputOption = None,
    threads: ThreadsOption = 0,
) -> None:
    """Show the events of a recording in the order of time.

    Parameters
    ----------
    path
        A recording, any folder with CTF traces, or an archive of some.
    name
        Name of the events to show, or a pattern such as 'ros2:rmw_*'. May be repeated. Default:
        all events.
    start
        First time to show: ns since the epoch, a time of day such as 08:53:25.5, or +2.5s from
        the start of the trace.
    end
        Last time to show, in the same forms as --start.
    fields
        Fields to show besides the time, separated by commas. Default: all fields.
    form
        Format of the output; json means one object per line.
    output
        File to write, instead of standard output. For Parquet with several kinds of events: the
        folder to write.
    """
    from roslens.events import write_events  # noqa: PLC0415

    write_events(
        path,
        names=name,
        start=start,
        end=end,
        fields=[field.strip() for part in fields for field in part.split(",") if field.strip()],
        form=form,
        output=output,
        threads=threads,
    )


@verb(LOOK, 'sql "SELECT ..." PATH... [OPTIONS]')
def sql(
    query: str,
    /,
    *paths: Paths,
    rows: int = 1000,
    timeout: float = 60.0,
    as_json: JsonSwitch = False,
    as_csv: Annotated[bool, Parameter(name="--csv")] = False,
) -> None:
    """Ask a query of SQL about all tables of recordings, each a view over all runs.

    Needs DuckDB: pip install 'roslens[sql]'. 'roslens dev schema' lists tables and columns; run and
    the factors come first in each. Nothing but the tables can be read, and nothing be changed.

    Parameters
    ----------
    query
        One SELECT, in quotes.
    rows
        Show at most this many rows.
    timeout
        Give up after this many seconds.
    as_json
        Print one JSON object per line instead of text.
    as_csv
        Print CSV instead of text.
    """
    if not paths:
        raise UsageError("no recording given; give one or more folders after the query")
    if as_json and as_csv:
        raise UsageError("--json and --csv do not go together")
    from roslens.recordings import open as open_recordings  # noqa: PLC0415
    from roslens.sql import run_sql  # noqa: PLC0415

    form: Literal["text", "json", "csv"] = "json" if as_json else "csv" if as_csv else "text"
    run_sql(open_recordings(paths), query, rows=rows, seconds=timeout, form=form)


@verb(LOOK, "lab [PATH...] [OPTIONS]")
def lab(
    *paths: Paths,
    port: int = 8888,
    ip: str = "127.0.0.1",
    browser: Annotated[bool, Parameter(negative="--no-browser")] = True,
    beyond_this_machine: bool = False,
) -> None:
    """Open the workbench in JupyterLab: timeline, latency, topics, callbacks and chains at once.

    Without a PATH it shows the samples that come with roslens. Only this machine can reach it, and
    only with the token in the address that is printed.

    Parameters
    ----------
    port
        Port that the server listens on.
    ip
        Address that the server listens on.
    browser
        Open a browser window (the default), or not.
    beyond_this_machine
        Allow an --ip that other machines can reach.
    """
    from roslens.lab import run_lab  # noqa: PLC0415

    run_lab(paths, ip=ip, port=port, browser=browser, beyond_this_machine=beyond_this_machine)


@verb(LOOK, "collect PATH... [OPTIONS]")
def collect(
    *paths: Paths,
    output: OutputOption = None,
    events_only: bool = False,
    force: bool = False,
    verify: bool = False,
    merge: bool = False,
    clock_offset: list[str] | None = None,
    start: str | None = None,
    end: str | None = None,
    topic: tuple[str, ...] = (),
    node: tuple[str, ...] = (),
    margin: str = "5s",
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    threads: ThreadsOption = 0,
    max_time: float | None = None,
    max_memory: str | None = None,
    max_output: str | None = None,
) -> None:
    """Turn recordings into Parquet files: every event, and the tables of the ROS 2 model.

    The other commands do this by themselves where it is needed, and open what -o wrote, too.

    Parameters
    ----------
    output
        Folder for the tables; with several recordings, each gets a folder below it. Default:
        inside each recording.
    events_only
        Write the raw events, and no tables of the ROS 2 model.
    force
        Make the tables again, even if up to date.
    verify
        Compare the checksums of the files that are already there.
    merge
        First make one recording of all PATHs in -o DIR, as 'roslens merge' does.
    clock_offset
        HOST=NS adds nanoseconds to all times of a host, given by its name or as h0, h1, ....
        May be repeated. auto estimates the offsets from messages that went both ways between
        the hosts.
    start
        Collect only from this time on, such as +10s (forms as for 'roslens events'). Needs -o.
    end
        Collect only up to this time. Needs -o.
    topic
        Collect only this topic, or topics of a pattern. Needs -o. May be repeated.
    node
        Collect only this node, or nodes of a pattern. Needs -o. May be repeated.
    margin
        Also read this much before --start and after --end, to complete rows.
    max_time
        Give up a recording after this many seconds.
    max_memory
        Give up a recording that needs more memory, such as 4G.
    max_output
        Give up a recording that writes more, such as 10G.
    """
    if not paths:
        raise UsageError("no recording given; give one or more folders")
    # Before polars is imported: it makes as many threads as it then finds here, and its allocator
    # so many pools of memory. With few of them, and large pieces in them, too, what one table does
    # not need any more is there for the next one; a new page from the system costs microseconds.
    # After a second it goes back: what takes longer needs it for something else.
    arenas = threads or len(os.sched_getaffinity(0))
    memory = f"narenas:{arenas},oversize_threshold:0,dirty_decay_ms:1000"
    os.environ.setdefault("_RJEM_MALLOC_CONF", memory)
    if threads:
        os.environ.setdefault("POLARS_MAX_THREADS", str(threads))
    from roslens.collect import Options, collect_all, parse_offsets  # noqa: PLC0415
    from roslens.collectors.limits import Limits  # noqa: PLC0415
    from roslens.collectors.times import parse_duration  # noqa: PLC0415
    from roslens.fleet.cluster import Workers  # noqa: PLC0415
    from roslens.sizes import parse_size  # noqa: PLC0415

    limits = Limits(
        max_time, parse_size("--max-memory", max_memory), parse_size("--max-output", max_output)
    )
    offsets = parse_offsets(clock_offset or [])
    margin_ns = parse_duration("--margin", margin)
    excerpt = None
    if start is not None or end is not None or topic or node:
        from roslens.collectors.excerpt import Excerpt  # noqa: PLC0415

        excerpt = Excerpt(start, end, tuple(topic), tuple(node), margin_ns)
    options = Options(
        threads,
        events_only,
        force,
        verify,
        limits,
        offsets,
        excerpt,
    )
    # Who says how many threads to use wants no other processes.
    number = 1 if threads and workers is None and scheduler is None else workers
    done = collect_all(
        paths,
        output=output,
        options=options,
        workers=Workers(number, scheduler),
        console=Console(),
        merge=merge,
    )
    if empty := [str(one.recording.path) for one in done if one.lacks_events]:
        why = "no event was recorded, or none was saved"
        raise NotEnoughEvidenceError(f"{', '.join(empty)}: {why}")


@verb(LOOK, "merge PATH PATH... -o DIR [--clock-offset HOST=NS]")
def merge(
    *paths: Paths, output: OutputOption = None, clock_offset: list[str] | None = None
) -> None:
    """Make one recording of several hosts' recordings, with their clocks brought together.

    PATHs are recordings, bare traces, folders of them or archives; the result is a recording that
    every command opens. Offset and drift of the clocks come from what went between the hosts and
    from logs of chrony, ptp4l and phc2sys that lie in the recordings' folders.

    Parameters
    ----------
    output
        Folder to make. Needed.
    clock_offset
        HOST=NS adds nanoseconds to all times of a host, given by its name or as h0, h1, ...,
        instead. May be repeated. auto refuses where messages and logs do not tell.
    """
    if output is None:
        raise UsageError("no folder for the result; give -o DIR")
    from roslens.collect import parse_offsets  # noqa: PLC0415
    from roslens.merge import merge, show_merged  # noqa: PLC0415

    console = Console()
    with console.status("merging") as status:
        offsets = parse_offsets(clock_offset or [])
        recording, clocks = merge(paths, output, clock_offsets=offsets, progress=status.update)
    show_merged(recording, clocks, console)
