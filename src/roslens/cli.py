"""The command line: parses, calls, prints; every verb ends with a documented exit code."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal, NoReturn

from cyclopts import App, CycloptsError, Parameter

from roslens.tracing.recording import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_UNEXPECTED,
    EXIT_USAGE,
    RoslensError,
    UsageError,
)
from roslens.tracing.recording.files import write_atomically
from roslens.tracing.recording.terminal import Console, say
from roslens.tracing.recording.text import shown

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

app = App(
    name="roslens",
    help="Records ROS 2 with LTTng, turns traces into tables, and tables into figures with "
    "confidence intervals.",
    version=lambda: version("roslens"),
    help_format="markdown",
    # The name of a folder may begin with a bracket.
    default_parameter=Parameter(json_list=False, json_dict=False),
)

WorkersOption = Annotated[
    int | None,
    Parameter(help="Processes; 0: by cores and memory; default: 1, of many recordings 0."),
]
SchedulerOption = Annotated[
    str | None, Parameter(help="Address of a running dask scheduler, in place of --workers.")
]
Recordings = Annotated[Path, Parameter(help="Recordings, or folders that hold some.")]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Anything the user can act on ends with one line on standard error and its exit code.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files are bytes, and need not be text.
        sys.stdout.reconfigure(errors="surrogateescape")
    try:
        try:
            app(arguments, exit_on_error=False, print_error=False, result_action="sys_exit")
        finally:
            sys.stdout.flush()
    except CycloptsError as error:
        _fail(f"{' '.join(str(error).split())} (see 'roslens --help')", EXIT_USAGE)
    except RoslensError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError as broken:
        # The reader of our output has gone ('| head'); nothing is wrong.
        _say_no_more()
        ended = broken.__context__
        sys.exit(ended.code if isinstance(ended, SystemExit) else 0)
    except OSError as error:
        _fail_of_system(error)
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001  (a panic of native code is no Exception)
        _fail(_unexpected(error), EXIT_UNEXPECTED)
    sys.exit(0)


def _fail_of_system(error: OSError) -> NoReturn:
    if error.filename is not None:
        _fail(f"{os.fsdecode(error.filename)}: {(error.strerror or '').lower()}", EXIT_FAILED)
    if error.errno not in _FULL:
        _fail(_unexpected(error), EXIT_UNEXPECTED)
    # Files tell their names: this is the standard output.
    _say_no_more()
    _fail(f"the output cannot be written: {error.strerror}", EXIT_FAILED)


def _unexpected(error: BaseException) -> str:
    """Keep the traceback of an error that nobody foresaw; what to say of it."""
    import tempfile  # noqa: PLC0415  (only in need)
    import traceback  # noqa: PLC0415

    text = " ".join(str(error).split())[:200]
    what = f"unexpected {type(error).__name__}: {text}; this is an error of roslens itself"
    try:
        # Readable to its owner alone: a traceback may hold what a trace does.
        descriptor, name = tempfile.mkstemp(prefix="roslens-", suffix=".traceback")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(traceback.format_exception(error))
    except OSError as full:
        return f"{what} (its traceback cannot be kept: {full.strerror})"
    return f"{what}; its traceback is in {name}"


def _say_no_more() -> None:
    """Drop what is still to be written: the standard output does not take it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> NoReturn:
    # Plain print: a terminal must not wrap or colour what scripts match.
    print(f"roslens: error: {shown(message)}", file=sys.stderr)
    sys.exit(code)


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=1))


@app.command
def record(
    *command: Annotated[str, Parameter(help="After '--': what to run and record.")],
    suite: Annotated[str | None, Parameter(help="A suite, by name or by its YAML file.")] = None,
    name: Annotated[str | None, Parameter(help="Of the campaign; default: the time.")] = None,
    output: Annotated[
        Path | None,
        Parameter(
            name=["--output", "-o"],
            help="The new folder of a command's recording; of a suite, the folder of all "
            "recordings (default: data/recordings).",
        ),
    ] = None,
    seed: Annotated[int | None, Parameter(help="Of the runs' order.")] = None,
    repetitions: Annotated[int | None, Parameter(help="In place of the suite's.")] = None,
    only: Annotated[
        list[str],
        Parameter(negative="", help="FACTOR=LEVEL: only these combinations; may be repeated."),
    ] = [],  # noqa: B006
    resume: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            consume_multiple=True,
            help="Make the runs that a campaign misses; default: of the last unfinished one.",
        ),
    ] = None,
    status: Annotated[
        list[str] | None,
        Parameter(
            negative="", consume_multiple=True, help="Show how far campaigns are; default: all."
        ),
    ] = None,
    dry_run: Annotated[bool, Parameter(negative="", help="Show a suite's runs only.")] = False,
    event: Annotated[list[str], Parameter(negative="", help="User-space events.")] = ["ros2:*"],  # noqa: B006
    context: Annotated[list[str], Parameter(negative="", help="Further contexts.")] = [],  # noqa: B006
    kernel: Annotated[Literal["auto", "off", "required"], Parameter()] = "auto",
    mode: Annotated[
        Literal["discard", "overwrite", "blocking", "snapshot"],
        Parameter(help="When buffers are full; snapshot: only what they hold at the end."),
    ] = "discard",
    max_disk: Annotated[
        str | None, Parameter(help="What the trace may take: 500M; the oldest part gives way.")
    ] = None,
    daemon: Annotated[
        Literal["private", "machine"],
        Parameter(help="machine: records programs that run already, too."),
    ] = "private",
    subbuf_size: Annotated[str, Parameter(help="Of a sub-buffer: 64k, 1M, ...")] = "1M",
    subbuf_count: Annotated[int, Parameter(help="Sub-buffers per CPU.")] = 8,
    ros: Annotated[
        Literal["auto", "sourced", "embedded", "none"],
        Parameter(help="auto: the sourced ROS 2; where none is, for Python the embedded one."),
    ] = "auto",
    trace_rclpy: Annotated[
        bool, Parameter(negative="", help="Python nodes emit callback and publish events too.")
    ] = False,
    time_limit: Annotated[float | None, Parameter(help="Seconds the command may take.")] = None,
) -> None:
    """Record a suite (--suite NAME) or any command (-- COMMAND ...) with LTTng.

    Prints the folder of the recording last.
    """
    from roslens import record as recording  # noqa: PLC0415
    from roslens.tracing.lttng import TracingOptions  # noqa: PLC0415

    console = Console()
    if status is not None:
        recording.show_status(output, suite, status, console)
        return
    if resume is not None:
        given = {"a command": command, "--name": name, "--only": only, "--seed": seed is not None}
        given |= {"--repetitions": repetitions is not None, "--dry-run": dry_run}
        for what, there in given.items():
            if there:
                raise UsageError(f"--resume goes on as planned: {what} cannot be given with it")
        recording.resume_suite(output, suite, resume, console)
        return
    if (suite is None) == (not command):
        raise UsageError(
            "give either '--suite NAME' or '-- COMMAND ...' to record, or '--resume' to go on"
        )
    if suite is not None and dry_run:
        recording.show_plan(suite, seed, repetitions, only, console)
    elif suite is not None:
        recording.record_suite(
            suite,
            root=output,
            name=name,
            seed=seed,
            repetitions=repetitions,
            only=only,
            console=console,
        )
    else:
        recording.record_one(
            command,
            output,
            options=TracingOptions.checked(
                events=event,
                contexts=context,
                kernel=kernel,
                mode=mode,
                max_disk=max_disk,
                daemon=daemon,
                subbuf_size=subbuf_size,
                subbuf_count=subbuf_count,
            ),
            ros=ros,
            trace_rclpy=trace_rclpy,
            time_limit=time_limit,
            console=console,
        )


@app.command
def pack(
    *paths: Recordings,
    output: Annotated[
        Path | None,
        Parameter(name=["--output", "-o"], help="The archive; default: NAME.tar.zst here."),
    ] = None,
    keep_names: Annotated[
        bool, Parameter(negative="", help="Leave hosts, users and paths as they are.")
    ] = False,
    with_tables: Annotated[
        bool, Parameter(negative="", help="Also events and tables, which can be made again.")
    ] = False,
) -> None:
    """Pack recordings into one file for sharing, without names of hosts and users."""
    from roslens.pack import pack_recordings  # noqa: PLC0415

    if not paths:
        raise UsageError("no recording given; give one or more folders")
    pack_recordings(
        paths, output, keep_names=keep_names, with_tables=with_tables, console=Console()
    )


@app.command
def unpack(
    archive: Annotated[Path, Parameter(help="What 'roslens pack' wrote.")],
    folder: Annotated[Path | None, Parameter(help="Where to; default: data/recordings.")] = None,
    /,
    *,
    max_size: Annotated[
        str | None, Parameter(help="Refuse what is larger unpacked: 50G; default by its size.")
    ] = None,
) -> None:
    """Unpack such a file; all of it with right checksums, or nothing."""
    from roslens.pack import unpack_recordings  # noqa: PLC0415

    unpack_recordings(archive, folder, max_size)


@app.command
def suites(
    name: Annotated[str | None, Parameter(help="Explain this one: a name or a YAML file.")] = None,
    /,
    *,
    schema: Annotated[
        bool, Parameter(negative="", help="Print the JSON schema of suite files, for editors.")
    ] = False,
) -> None:
    """List the suites that ship with roslens, or explain one."""
    from roslens import suites as shown  # noqa: PLC0415

    if schema:
        from roslens.tracing.suite import suite_schema  # noqa: PLC0415

        _print_json(suite_schema())
    elif name is not None:
        shown.explain_suite(name, Console())
    else:
        shown.show_suites(Console())


@app.command
def info(
    path: Path,
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Show what a recording holds: events, times, processes, and first of all what was lost."""
    from roslens.info import find_info, show_info  # noqa: PLC0415  (starts quickly without it)

    found, excerpt = find_info(path)
    if as_json:
        _print_json(found.to_json() | ({"excerpt": excerpt} if excerpt else {}))
    else:
        show_info(found, Console(), excerpt)


@app.command
def events(
    path: Annotated[Path, Parameter(help="A recording, or any folder with CTF traces.")],
    /,
    *,
    name: Annotated[
        list[str], Parameter(negative="", help="Of events, or a pattern: 'ros2:rmw_*'.")
    ] = [],  # noqa: B006  (cyclopts copies it)
    start: Annotated[
        str | None,
        Parameter(help="First time: ns since the epoch, HH:MM:SS.fff, or +2.5s of the trace."),
    ] = None,
    end: Annotated[str | None, Parameter(help="Last time.")] = None,
    fields: Annotated[
        list[str], Parameter(negative="", help="Columns beside the time, separated by commas.")
    ] = [],  # noqa: B006
    form: Annotated[
        Literal["text", "json", "csv", "parquet"], Parameter(name="--format", help="Of the output.")
    ] = "text",
    output: Annotated[
        Path | None,
        Parameter(name=["--output", "-o"], help="File; for Parquet of several events a folder."),
    ] = None,
    threads: Annotated[int, Parameter(help="Threads that decode; 0: one per CPU.")] = 0,
    engine: Annotated[
        Literal["native", "babeltrace2"], Parameter(help="Ours, or the slow one, to compare.")
    ] = "native",
) -> None:
    """Show events of a recording, in the order of time (docs/events.md)."""
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
        engine=engine,
    )


@app.command
def schema(
    *,
    format: Literal["json", "markdown"] = "json",  # noqa: A002  (the option's name)
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
) -> None:
    """Print the definition of every table: name, type, unit and meaning of each column."""
    from roslens.collectors.schema import RESOURCES, SYSTEM, TABLES, THREADS  # noqa: PLC0415
    from roslens.collectors.schema.markdown import tables_markdown  # noqa: PLC0415

    if format == "markdown":
        text = tables_markdown()
    else:
        tables = [table.to_json() for table in (*TABLES.values(), RESOURCES, THREADS, SYSTEM)]
        text = json.dumps({"schema_version": 1, "tables": tables}, indent=1) + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        write_atomically(output, text)


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
    verify: Annotated[
        bool, Parameter(negative="", help="Read what is there and compare its checksums.")
    ] = False,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    max_time: Annotated[float | None, Parameter(help="Seconds a recording may take.")] = None,
    max_memory: Annotated[str | None, Parameter(help="Memory it may take: 4G.")] = None,
    max_output: Annotated[str | None, Parameter(help="What it may write: 10G.")] = None,
    merge: Annotated[
        bool, Parameter(negative="", help="All are one recording, one time line; needs -o.")
    ] = False,
    clock_offset: Annotated[
        list[str] | None,
        Parameter(
            help="HOST=NS: add to all times of a host (its name, or h0, h1, ...); or auto: "
            "estimated from messages that went both ways between hosts."
        ),
    ] = None,
    start: Annotated[
        str | None,
        Parameter(help="Only from this time on, into -o: as for 'events', such as +10s."),
    ] = None,
    end: Annotated[str | None, Parameter(help="Only up to this time.")] = None,
    topic: Annotated[
        list[str], Parameter(negative="", help="Only this topic, or a pattern; may be repeated.")
    ] = [],  # noqa: B006
    node: Annotated[
        list[str], Parameter(negative="", help="Only this node, or a pattern; may be repeated.")
    ] = [],  # noqa: B006
    margin: Annotated[
        str, Parameter(help="What is read before --start and after --end to complete it.")
    ] = "5s",
) -> None:
    """Turn recordings into Parquet: every event, and the tables of the ROS 2 model."""
    if not paths:
        raise UsageError("no recording given; give one or more folders")
    # Before polars is imported: it makes as many threads as it then finds here, and its allocator
    # so many pools of memory. With few of them, and large pieces in them, too, what one table does
    # not need any more is there for the next one; a new page from the system costs microseconds.
    arenas = threads or len(os.sched_getaffinity(0))
    memory = f"narenas:{arenas},oversize_threshold:0,dirty_decay_ms:60000"
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
        engine,
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
    collect_all(
        paths,
        output=output,
        options=options,
        workers=Workers(number, scheduler),
        console=Console(),
        merge=merge,
    )


@app.command
def export(
    path: Annotated[Path, Parameter(help="A recording (collected if it is not yet).")],
    out: Annotated[Path, Parameter(help="File to write.")],
    /,
    *,
    form: Annotated[
        Literal["perfetto", "dot", "mermaid", "csv", "hgrm", "hlog"],
        Parameter(
            name="--format",
            help="For ui.perfetto.dev; the graph of nodes; a table; latency percentiles in ms or "
            "a log of runs for HdrHistogram's tools.",
        ),
    ],
    table: Annotated[str | None, Parameter(help="Which table, for csv.")] = None,
) -> None:
    """Write a recording in a format of other tools."""
    from roslens.export import export as write  # noqa: PLC0415

    write(path, out, form, table)


@app.command
def report(
    notebook: Annotated[str, Parameter(help="Name of a notebook (latency), or the path of one.")],
    /,
    *paths: Recordings,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    parameter: Annotated[
        list[str], Parameter(name=["-p", "--parameter"], negative="", help="NAME=VALUE")
    ] = [],  # noqa: B006  (cyclopts copies it)
    timeout: Annotated[
        float, Parameter(help="Seconds that a cell of the notebook may take; 0: for ever.")
    ] = 3600,
    each: Annotated[
        Literal["recording", "campaign"] | None,
        Parameter(help="One report of each, and a page over all."),
    ] = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
) -> None:
    """Execute a notebook over recordings: an HTML page and metrics.json; prints the folder last."""
    from roslens.report import parse_parameter, run_report  # noqa: PLC0415
    from roslens.summary import summary_table  # noqa: PLC0415

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
        say(page.parent)
        return
    if workers is not None or scheduler is not None:
        raise UsageError("--workers and --scheduler go with --each: one report is one process")
    result = run_report(notebook, paths, output, parameters, cell_timeout_s=timeout)
    # Beside a terminal there is no width to keep to but that of a log.
    console = Console(width=None if sys.stdout.isatty() else 110)
    if result.metrics is not None:
        console.print(summary_table(result.metrics, result.notebook.stem))
    if result.files:
        say(f"also written: {', '.join(path.name for path in result.files)}")
    say(f"report: {result.html}")
    say(result.folder)


@app.command
def index(
    folder: Annotated[Path, Parameter(help="Holds reports.")] = Path("data/reports"), /
) -> None:
    """Write index.html over all reports in a folder: loss, verdicts, links."""
    from roslens.index import write_index  # noqa: PLC0415

    say(write_index(folder))


@app.command
def lab(
    path: Annotated[Path | None, Parameter(help="Recordings; the samples by default.")] = None,
    /,
    *,
    port: int = 8888,
    ip: str = "127.0.0.1",
    browser: Annotated[bool, Parameter(help="Open one.")] = True,
    beyond_this_machine: Annotated[
        bool, Parameter(negative="", help="Allow an --ip that other machines reach.")
    ] = False,
) -> None:
    """Open JupyterLab on the start page, on this machine only and with a token."""
    from roslens.lab import run_lab  # noqa: PLC0415

    run_lab(path, ip=ip, port=port, browser=browser, beyond_this_machine=beyond_this_machine)


@app.command
def compare(
    base: Annotated[Path, Parameter(help="Recordings, or the metrics.json of a report.")],
    new: Annotated[Path, Parameter(help="The same of what is to be judged.")],
    /,
    *,
    metric: Annotated[
        list[str],
        Parameter(
            negative="", help="Default: latency_p50, latency_p99, loss, cpu. May be repeated."
        ),
    ] = [],  # noqa: B006  (cyclopts copies it)
    threshold: Annotated[str, Parameter(help="Smaller changes are of no importance.")] = "5%",
    json_file: Annotated[
        Path | None, Parameter(name="--json", help="Write all figures to this file.")
    ] = None,
    plot: Annotated[
        Path | None, Parameter(help="Draw the changes to this file (.png, .svg, .pdf).")
    ] = None,
) -> int:
    """Compare two sets of recordings: exit 0 no regression, 1 regression, 3 not enough evidence."""
    from roslens.compare import run_compare  # noqa: PLC0415

    return run_compare(
        base,
        new,
        metric,
        threshold,
        json_file=json_file,
        plot_file=plot,
        console=Console(),
    )


@app.command
def check(
    budgets: Annotated[Path, Parameter(help="A YAML file, see docs/comparing.md.")],
    /,
    *paths: Annotated[Path, Parameter(help="Recordings, or one metrics.json of a report.")],
    json_file: Annotated[
        Path | None, Parameter(name="--json", help="Write all figures to this file.")
    ] = None,
) -> int:
    """Hold absolute budgets: exit 0 all within, 1 one exceeded, 3 not enough evidence."""
    from roslens.check import run_check  # noqa: PLC0415

    if not paths:
        raise UsageError("no recording given; give one or more folders, or a metrics.json")
    return run_check(budgets, paths, json_file=json_file, console=Console())


SuiteOption = Annotated[list[str], Parameter(negative="", help="Of this suite; may be repeated.")]
SinceOption = Annotated[str | None, Parameter(help="Started since: 2026-11-01, or 30d ago.")]
CatalogFile = Annotated[
    Path | None, Parameter(name="--file", help="The catalog; default: catalog.parquet there.")
]


@app.command
def catalog(
    where: Annotated[str, Parameter(help="A folder of recordings, or an address (s3://...).")],
    /,
    *,
    suite: SuiteOption = [],  # noqa: B006  (cyclopts copies it)
    distro: Annotated[list[str], Parameter(negative="", help="Of this ROS distribution.")] = [],  # noqa: B006
    since: SinceOption = None,
    until: Annotated[str | None, Parameter(help="Started before.")] = None,
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="One object per recording and line.")
    ] = False,
    file: CatalogFile = None,
    collect: Annotated[bool, Parameter(negative="", help="Make missing tables first.")] = False,
    dataset: Annotated[
        Path | None,
        Parameter(help="Folder: their tables as one dataset, suite=/campaign=/recording=."),
    ] = None,
    table: Annotated[
        list[str], Parameter(negative="", help="Only this one into --dataset; may be repeated.")
    ] = [],  # noqa: B006
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
) -> None:
    """Keep a catalog of all recordings: manifest, health and key metrics of each."""
    from roslens.fleet import show  # noqa: PLC0415
    from roslens.fleet.cluster import Workers  # noqa: PLC0415

    if table and dataset is None:
        raise UsageError("--table goes with --dataset")
    console = Console(stderr=as_json, width=None if sys.stdout.isatty() else 130)
    found, changes = show.updated(
        where, file, collect=collect, workers=Workers(workers, scheduler), console=console
    )
    chosen = found.select(suite=suite or None, distro=distro or None, since=since, until=until)
    written = None if dataset is None else chosen.write_dataset(dataset, table or None)
    if as_json:
        show.print_json(chosen)
    else:
        show.show_catalog(found, changes, chosen, console, written)


@app.command
def trend(
    where: Annotated[str, Parameter(help="A folder of campaigns, or an address (s3://...).")],
    /,
    *,
    metric: Annotated[
        list[str], Parameter(negative="", help="Default: latency_p99. May be repeated.")
    ] = [],  # noqa: B006
    suite: SuiteOption = [],  # noqa: B006
    since: SinceOption = None,
    threshold: Annotated[str, Parameter(help="Smaller changes are of no importance.")] = "5%",
    false_alarms: Annotated[
        str, Parameter(help="Chance of an alarm where nothing has changed.")
    ] = "1%",
    json_file: Annotated[
        Path | None, Parameter(name="--json", help="Write all figures to this file.")
    ] = None,
    plot: Annotated[
        Path | None, Parameter(help="Draw the series to this file (.png, .svg, .pdf).")
    ] = None,
    file: CatalogFile = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
) -> int:
    """Find when a metric changed over nights: exit 0 no regression, 1 one that lasts, 3 too few."""
    from roslens.fleet import show  # noqa: PLC0415
    from roslens.fleet.cluster import Workers  # noqa: PLC0415

    console = Console(width=None if sys.stdout.isatty() else 150)
    found, _ = show.updated(
        where, file, collect=True, workers=Workers(workers, scheduler), console=console
    )
    return show.run_trend(
        found.select(suite=suite or None, since=since),
        metric or ["latency_p99"],
        threshold=threshold,
        false_alarms=false_alarms,
        json_file=json_file,
        plot_file=plot,
        console=console,
    )
