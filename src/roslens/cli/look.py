"""Commands that look at a recording, or make one of several."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators

from roslens.cli.app import (
    LOOK,
    FactorsFile,
    JsonSwitch,
    OutputOption,
    Paths,
    SchedulerOption,
    ThreadsOption,
    WorkersOption,
    app,
    verb,
)
from roslens.recording import NotEnoughEvidenceError, UsageError
from roslens.recording.terminal import Console, print_json, say


@app.default
def first_page(
    *paths: Paths,
    html: Path | None = None,
    as_json: JsonSwitch = False,
) -> None:
    """Show the first page of recordings: what was recorded, what is slow, what looks wrong.

    Parameters
    ----------
    html
        With a PATH: also write the first page to this file.
    as_json
        With a PATH: print its first page as JSON instead of text.
    """
    if not paths:
        app.help_print()
        return
    if not paths[0].exists() and len(paths[0].parts) == 1:
        verbs = [name for name in app if not name.startswith("-")]
        close = difflib.get_close_matches(str(paths[0]), verbs, 1)
        meant = f"did you mean 'roslens {close[0]}'?" if close else "see 'roslens --help'"
        raise UsageError(f"{paths[0]}: no such command, file or directory; {meant}")
    from roslens.first_page import show_page  # noqa: PLC0415  (starts quickly without it)

    show_page(paths, html=html, as_json=as_json)


@verb(
    LOOK, "info PATH [--json]", "info --check PATH [--json]", example="info --check ~/.ros/tracing"
)
def info(path: Path, /, *, check: bool = False, as_json: JsonSwitch = False) -> None:
    """Show what the tracer lost, and which events, times and processes a recording contains.

    Parameters
    ----------
    path
        A recording, any folder with CTF traces, or an archive of some (zip, tar.gz, tar.xz,
        tar.zst). A folder with several runs or tracing sessions gives one line for each.
    check
        Show what could be wrong with the recordings instead, and the evidence for it. Exit code:
        0 nothing, 3 something that could distort results.
    as_json
        Print JSON instead of text.
    """
    from roslens.info import run_check, run_info  # noqa: PLC0415  (starts quickly without it)

    (run_check if check else run_info)(path, as_json=as_json)


@verb(LOOK, "why PATH... [OPTIONS]", example="why PATH --topic /scan --deadline 20ms")
def why(
    *paths: Paths,
    topic: str | None = None,
    message: int | None = None,
    deadline: str | None = None,
    warm_up: str | None = None,
    as_json: JsonSwitch = False,
) -> None:
    """Say why messages were late: the worst first, and the share of each cause.

    Parameters
    ----------
    topic
        Only this topic, or topics that match a pattern. Default: all but those of ROS itself.
    message
        Only the message with this number (message_id in the tables), whether late or not.
    deadline
        Messages that take longer than this from publish to the end of their callback are late,
        such as 20ms. Default: the P99 of their subscription in their run.
    warm_up
        How much to leave out at the start of each run, such as 2s, counted from its first message.
        Default: a tenth of the run, 5 s at most; with a deadline nothing.
    as_json
        Print JSON instead of text: every late message and the shares.
    """
    if not paths:
        raise UsageError("no recording given; give one or more folders")
    from roslens.why import run_why  # noqa: PLC0415

    run_why(
        paths,
        topic=topic,
        message=message,
        deadline=deadline,
        warm_up=warm_up,
        as_json=as_json,
    )


@verb(LOOK, "estimates PATH... [OPTIONS]", example="estimates PATH --metric latency_p99 --json")
def estimates(
    *paths: Paths,
    metric: tuple[str, ...] = (),
    topic: tuple[str, ...] = (),
    factors: FactorsFile = None,
    as_json: JsonSwitch = False,
) -> None:
    """Show metrics with their 95 % intervals over runs, or the reason why there is none.

    Parameters
    ----------
    metric
        Only this metric, by a name that 'compare' knows. May be repeated. Default: latency, loss,
        callbacks, services, CPU and memory.
    topic
        Only messages on this topic. May be repeated. Default: the work topic of the runs, else all.
    as_json
        Print JSON instead of text, with samples, method and definition of each.
    """
    if not paths:
        raise UsageError("no recording given; give one or more folders")
    from roslens.estimates import run_estimates  # noqa: PLC0415  (starts quickly without it)

    run_estimates(paths, metric, topic, factors=factors, as_json=as_json)


@verb(LOOK, "dump PID|NODE", example="dump /planner")
def dump(target: str, /) -> None:
    """Show what each thread of a running program does now, since when, and what it waits for.

    Callbacks and deadlocks are shown for programs that record themselves with the native tracer
    ('roslens env' or 'roslens record --tracer native'); for others, only what the kernel says.

    Parameters
    ----------
    target
        Process id, or full name of a node in it.
    """
    from roslens.dump import run_dump  # noqa: PLC0415  (starts quickly without it)

    run_dump(target)


@verb(LOOK, "events PATH [OPTIONS]", example="events PATH --name ros2:rmw_publish --start +2s")
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
        First time to show: ns since the epoch, a time in UTC such as 08:53:25.5 or
        '2026-11-21 08:53:25.5', or +2.5s from the first event of the trace.
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


@verb(
    LOOK,
    'sql "SELECT ..." PATH... [OPTIONS]',
    example='sql "SELECT topic, count(*) FROM messages GROUP BY 1" PATH',
)
def sql(
    query: str,
    /,
    *paths: Paths,
    rows: int = 1000,
    timeout: float = 60.0,
    as_json: JsonSwitch = False,
    as_csv: Annotated[bool, Parameter(name="--csv")] = False,
) -> None:
    """Run an SQL query over the tables of recordings. Each table holds the rows of all runs.

    It needs DuckDB: pip install 'roslens[sql]'. 'roslens dev schema' lists tables and columns; each
    table begins with the run and its factors. A query can read the tables only, and change nothing.

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


@verb(LOOK, "lab [PATH...] [OPTIONS]", example="lab ~/.ros/tracing")
def lab(
    *paths: Paths,
    port: int = 8888,
    ip: str = "127.0.0.1",
    browser: Annotated[bool, Parameter(negative="--no-browser")] = True,
    beyond_this_machine: bool = False,
    verbose: bool = False,
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
    verbose
        Print the server's log too, not only the address and what goes wrong.
    """
    from roslens.lab import run_lab  # noqa: PLC0415

    run_lab(paths, ip=ip, port=port, browser=browser, beyond_this_machine=beyond_this_machine,
            verbose=verbose)  # fmt: skip


@verb(LOOK, "collect PATH... [OPTIONS]", example="collect PATH -o tables --start +10s --end +20s")
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
    max_time: Annotated[float | None, Parameter(validator=validators.Number(gt=0))] = None,
    max_memory: str | None = None,
    max_output: str | None = None,
    as_json: JsonSwitch = False,
) -> None:
    """Turn recordings into Parquet files: every event, and the tables of the ROS 2 model.

    Other commands do this by themselves when it is needed. They can also open what -o wrote.

    Parameters
    ----------
    output
        Folder for the tables; with several recordings, each gets a folder below it. Default:
        inside each recording.
    events_only
        Write the raw events, and no tables of the ROS 2 model.
    force
        Make the tables again even if they are up to date.
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
        Collect only this topic, or topics that match a pattern. Needs -o. May be repeated.
    node
        Collect only this node, or nodes that match a pattern. Needs -o. May be repeated.
    margin
        Also read this much before --start and after --end, to complete rows.
    max_time
        Give up on a recording after this many seconds.
    max_memory
        Give up on a recording that needs more memory than this, such as 4G.
    max_output
        Give up on a recording that writes more than this, such as 10G.
    as_json
        Print what was collected as JSON; all else goes to the standard error.
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
        console=Console(stderr=as_json),
        merge=merge,
    )
    if as_json:
        print_json([result.to_json() for result in done])
    if empty := [str(result.recording.path) for result in done if result.lacks_events]:
        why = "no event was recorded, or none was saved"
        raise NotEnoughEvidenceError(f"{', '.join(empty)}: {why}")


@verb(
    LOOK,
    "merge PATH PATH... -o DIR [--clock-offset HOST=NS]",
    example="merge robot/ base_station/ -o both",
)
def merge(
    *paths: Paths,
    output: OutputOption = None,
    clock_offset: list[str] | None = None,
    as_json: JsonSwitch = False,
) -> None:
    """Merge recordings of several hosts into one, with their clocks aligned.

    PATHs are recordings, bare traces, folders of them or archives. The result is a recording that
    every command can open. Offset and drift of the clocks are estimated from the messages between
    the hosts and from logs of chrony, ptp4l and phc2sys in the recordings' folders.

    Parameters
    ----------
    output
        The new folder of the merged recording (required).
    clock_offset
        HOST=NS adds NS nanoseconds to all times of a host, given by its name or as h0, h1, ...,
        instead of estimating its clock. May be repeated. auto: fail if neither messages nor logs
        determine the offset.
    as_json
        Print JSON instead of text: the folder, its members, and what is known of their clocks.
    """
    if output is None:
        raise UsageError("no folder for the result; give -o DIR")
    from roslens.collect import parse_offsets  # noqa: PLC0415
    from roslens.merge import merge, show_merged  # noqa: PLC0415

    console = Console(stderr=as_json)
    with console.status("merging") as status:
        offsets = parse_offsets(clock_offset or [])
        recording, clocks = merge(paths, output, clock_offsets=offsets, progress=status.update)
    if as_json:
        manifest = recording.manifest
        members = manifest.members if manifest else []
        print_json({
            "folder": str(recording.path),
            "members": [{"name": member.name, "hosts": member.hosts} for member in members],
            "clocks": [dict(finding) for finding in clocks.findings] if clocks else [],
        })  # fmt: skip
        return
    show_merged(recording, clocks, console)
    say(recording.path)
