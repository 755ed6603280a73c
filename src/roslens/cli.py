"""The command line: parses, calls, prints; every verb ends with a documented exit code."""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import IO, Annotated, Literal, NoReturn, TypeVar

import rich.console
from cyclopts import App, CycloptsError, Group, Parameter

from roslens.tracing.recording import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_UNEXPECTED,
    EXIT_USAGE,
    NotEnoughEvidenceError,
    RoslensError,
    RunFailedError,
    UsageError,
)
from roslens.tracing.recording.files import write_atomically
from roslens.tracing.recording.terminal import Console, say
from roslens.tracing.recording.text import shown

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_Verb = TypeVar("_Verb", bound=Callable[..., int | None])

_RECORD = Group("Record", sort_key=1)
_LOOK = Group("Look at a recording", sort_key=2)
_REPORT = Group("Report", sort_key=3)
_JUDGE = Group("Judge", sort_key=4)
_SHARE = Group("Share", sort_key=5)
# What belongs to the ways to call 'record'.
_SUITE = Group("Options for a suite", sort_key=1)
_BOTH = Group("Options for commands and suites", sort_key=2)
_COMMAND = Group("Options for a command", sort_key=2)
_HOSTS = Group("Options for several hosts", sort_key=2)
_FOR_SUITE, _FOR_COMMAND = Parameter(group=_SUITE), Parameter(group=_COMMAND)
_FOR_BOTH, _FOR_HOSTS = Parameter(group=_BOTH), Parameter(group=_HOSTS)


def _shown(default: object) -> str | None:
    """A default as one would type it; None where there is nothing to show."""
    if isinstance(default, tuple):
        return ", ".join(default) or None
    return None if default is None or isinstance(default, bool) else str(default)


app = App(
    name="roslens",
    help="Record ROS 2 with LTTng, turn the traces into tables, and the tables into answers with "
    "confidence intervals.",
    help_format="plaintext",  # what renders Markdown takes a third of the start
    help_epilogue="'roslens COMMAND --help' explains a command.\n\nExit codes: 0 done; 1 a verdict "
    "failed; 2 wrong use or unreadable input; 3 not enough evidence; 4 ran, but failed or is "
    "incomplete; 70 an error of roslens itself; 130 interrupted.",
    usage="Usage: roslens COMMAND [ARGUMENTS] [OPTIONS]",
    version=lambda: version("roslens"),
    version_flags=["--version", "-V"],
    group_commands=Group("Help", sort_key=6),
    group_parameters=Group("Options", sort_key=3),
    # The name of a folder may begin with a bracket.
    default_parameter=Parameter(negative=(), show_default=_shown, json_list=False, json_dict=False),
)
app["--help"].help = "Show this help."
app["--version"].help = "Show the version."
_order = itertools.count()


def _verb(group: Group, *usages: str) -> Callable[[_Verb], _Verb]:
    """Make a function a command; `usages` are the ways to call it."""
    return app.command(
        group=group,
        sort_key=next(_order),
        usage="Usage: " + "\n       ".join(f"roslens {usage}" for usage in usages),
        help_format="markdown",
        help_epilogue="",
    )


Paths = Annotated[
    Path, Parameter(name="PATH", help="Recordings, or folders that contain recordings.")
]
OutputOption = Annotated[Path | None, Parameter(name=["--output", "-o"])]
JsonSwitch = Annotated[bool, Parameter(name="--json")]
WorkersOption = Annotated[
    int | None,
    Parameter(
        help="Number of worker processes; 0 means as many as cores and memory allow. Default: 1, "
        "or 0 from 16 recordings on."
    ),
]
SchedulerOption = Annotated[
    str | None,
    Parameter(help="Address of a running dask scheduler whose workers are used instead."),
]
ThreadsOption = Annotated[int, Parameter(help="Number of threads; 0 means one per CPU.")]
EngineOption = Annotated[
    Literal["native", "babeltrace2"],
    Parameter(help="What reads the trace. babeltrace2 is slow and serves for comparison."),
]
JsonFile = Annotated[
    Path | None, Parameter(name="--json", help="Also write all figures to this file, as JSON.")
]
PlotFile = Annotated[
    Path | None, Parameter(help="Also draw the changes to this file (.png, .svg or .pdf).")
]
MarkdownSwitch = Annotated[
    bool,
    Parameter(name="--markdown", help="Print Markdown for a pull request: only what changed."),
]
Threshold = Annotated[str, Parameter(help="Changes smaller than this do not matter.")]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Anything the user can act on ends with one line on standard error and its exit code.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    # Rich itself would exit with 1 where nobody reads on ('| head'): here 1 is a failed verdict.
    rich.console.Console.on_broken_pipe = _goes_on_unheard  # type: ignore[assignment,method-assign]
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files are bytes, and need not be text.
        sys.stdout.reconfigure(errors="surrogateescape")
    try:
        _no_empty(arguments)
        try:
            app(arguments, exit_on_error=False, print_error=False, result_action="sys_exit")
        finally:
            sys.stdout.flush()
    except CycloptsError as error:
        command = " ".join(["roslens", *(error.command_chain or ())])
        _fail(f"{' '.join(str(error).split())} (see '{command} --help')", EXIT_USAGE)
    except RoslensError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError as broken:
        # The reader of our output has gone ('| head'); nothing is wrong.
        _say_no_more(sys.stdout)
        ended = broken.__context__
        sys.exit(ended.code if isinstance(ended, SystemExit) else 0)
    except OSError as error:
        _fail_of_system(error)
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001  (a panic of native code is no Exception)
        _fail(_unexpected(error), EXIT_UNEXPECTED)
    sys.exit(0)


def _no_empty(arguments: Sequence[str]) -> None:
    """An empty argument would be the working folder; a recorded command may have some."""
    own = itertools.takewhile(lambda argument: argument != "--", arguments)
    if any(not argument.strip() for argument in own):
        raise UsageError("an argument is empty: is a variable of the shell not set?")


def _fail_of_system(error: OSError) -> NoReturn:
    if error.filename is not None:
        _fail(f"{os.fsdecode(error.filename)}: {(error.strerror or '').lower()}", EXIT_FAILED)
    if error.errno not in _FULL:
        _fail(_unexpected(error), EXIT_UNEXPECTED)
    # Files tell their names: this is the standard output.
    _say_no_more(sys.stdout)
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


def _goes_on_unheard(console: rich.console.Console) -> None:
    """Let a command end as it would if somebody read what it prints."""
    console.quiet = True
    _say_no_more(console.file)


def _say_no_more(stream: IO[str]) -> None:
    """Drop what is still to be written to a stream that does not take it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _fail(message: str, code: int) -> NoReturn:
    # Plain print: a terminal must not wrap or colour what scripts match.
    print(f"roslens: error: {shown(message)}", file=sys.stderr)
    sys.exit(code)


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=1))


def _refuse(why: str, given: Mapping[str, object]) -> None:
    """Raise where one of several arguments is there that cannot be."""
    for what, there in given.items():
        if there:
            raise UsageError(f"{why}: {what} cannot be given with it")


def _option(parameter: str) -> str:
    return "a command" if parameter == "command" else f"--{parameter.replace('_', '-')}"


# Options of 'record', by the field of the tracing that they set.
_TRACING = {
    "tracer": "tracer",
    "event": "events",
    "context": "contexts",
    "kernel": "kernel",
    "kernel_event": "kernel_events",
    "kernel_of": "kernel_of",
    "kernel_buffer": "kernel_buffer",
    "mode": "mode",
    "max_disk": "max_disk",
    "flight": "flight",
    "daemon": "daemon",
    "subbuf_size": "subbuf_size",
    "subbuf_count": "subbuf_count",
}
_OF_SUITE = {
    **{option: f"tracing.{field}" for option, field in _TRACING.items()},
    "repetitions": "repetitions",
    "duration": "duration",
    "time_limit": "time_limit",
    "ros": "workload.ros",
    "trace_rclpy": "workload.trace_rclpy",
    "allocations": "samplers.allocations",
}
"""Options of 'record' that change a suite, and which of its fields."""
_OF_COMMAND = frozenset({*_TRACING, "output", "ros", "trace_rclpy", "allocations", "time_limit"})
_WAYS: Mapping[str, tuple[str, frozenset[str]]] = {
    "triggers": ("watches one command that is recorded here", _OF_COMMAND | {"command"}),
    "status": ("shows campaigns", frozenset({"suite", "output"})),
    "resume": ("goes on as planned", frozenset({"suite", "output"})),
    "attach": (
        "records what runs here",
        frozenset({"output", "kernel_event", "kernel_buffer", "time_limit"}),
    ),
    "suite": (
        "records here, as the suite says",
        frozenset({*_OF_SUITE, "output", "name", "seed", "only", "dry_run"}),
    ),
    "host": ("records there, and a command here", _OF_COMMAND | {"command", "host_setup"}),
    "as_host": ("records for another host", _OF_COMMAND | {"command"}),
    "command": ("is recorded as one run", _OF_COMMAND),
}
"""The ways to call 'record', by the option that makes it one: what it does, and which others it
heeds."""


def _way_of(given: Mapping[str, object]) -> str:
    """How 'record' was called; whatever that way would not heed is refused."""
    way = next((way for way in _WAYS if way in given), None)
    if way is None:
        raise UsageError(
            "give either '--suite NAME' or '-- COMMAND ...' to record, or '--resume' to go on"
        )
    does, heeded = _WAYS[way]
    _refuse(
        f"{_option(way)} {does}", {_option(x): True for x in given if x != way and x not in heeded}
    )
    return way


@_verb(
    _RECORD,
    "record --suite NAME [OPTIONS]",
    "record [OPTIONS] -- COMMAND ...",
    "record --attach PROGRAM ... [OPTIONS]",
    "record --host USER@HOST[:COMMAND] ... [OPTIONS] [-- COMMAND ...]",
    "record --resume [CAMPAIGN]",
    "record --status [CAMPAIGN ...]",
)
def record(
    *command: Annotated[str, Parameter(name="COMMAND")],
    output: OutputOption = None,
    suite: Annotated[str | None, _FOR_SUITE] = None,
    name: Annotated[str | None, _FOR_SUITE] = None,
    seed: Annotated[int | None, _FOR_SUITE] = None,
    repetitions: Annotated[int | None, _FOR_SUITE] = None,
    duration: Annotated[float | None, _FOR_SUITE] = None,
    only: Annotated[tuple[str, ...], _FOR_SUITE] = (),
    dry_run: Annotated[bool, _FOR_SUITE] = False,
    resume: Annotated[list[str] | None, Parameter(group=_SUITE, consume_multiple=True)] = None,
    status: Annotated[list[str] | None, Parameter(group=_SUITE, consume_multiple=True)] = None,
    tracer: Annotated[Literal["lttng", "native", "auto"] | None, _FOR_BOTH] = None,
    event: Annotated[tuple[str, ...], _FOR_BOTH] = (),
    context: Annotated[tuple[str, ...], _FOR_BOTH] = (),
    kernel: Annotated[
        Literal["auto", "lttng", "ftrace", "perf", "off", "required"] | None, _FOR_BOTH
    ] = None,
    kernel_event: Annotated[tuple[str, ...], _FOR_BOTH] = (),
    kernel_of: Annotated[Literal["machine", "workload"] | None, _FOR_BOTH] = None,
    kernel_buffer: Annotated[str | None, _FOR_BOTH] = None,
    mode: Annotated[
        Literal["discard", "overwrite", "blocking", "snapshot"] | None, _FOR_BOTH
    ] = None,
    max_disk: Annotated[str | None, _FOR_BOTH] = None,
    flight: Annotated[float | None, _FOR_BOTH] = None,
    daemon: Annotated[Literal["private", "machine"] | None, _FOR_BOTH] = None,
    subbuf_size: Annotated[str | None, _FOR_BOTH] = None,
    subbuf_count: Annotated[int | None, _FOR_BOTH] = None,
    ros: Annotated[Literal["auto", "sourced", "embedded", "none"] | None, _FOR_BOTH] = None,
    trace_rclpy: Annotated[bool, _FOR_BOTH] = False,
    allocations: Annotated[bool, _FOR_BOTH] = False,
    time_limit: Annotated[float | None, _FOR_BOTH] = None,
    triggers: Annotated[Path | None, _FOR_COMMAND] = None,
    attach: Annotated[list[str] | None, Parameter(group=_COMMAND, consume_multiple=True)] = None,
    host: Annotated[tuple[str, ...], _FOR_HOSTS] = (),
    host_setup: Annotated[str | None, _FOR_HOSTS] = None,
    as_host: Annotated[bool, _FOR_HOSTS] = False,
) -> None:
    """Record a suite of experiments, any command, or programs that run already.

    The last line printed is the folder of what was recorded. Of a suite, an option takes the place
    of what the suite says itself, in all runs.

    Parameters
    ----------
    command
        The command to run and record, with its arguments.
    output
        For a command: the new folder of its recording. For a suite: the folder that holds all
        recordings. Default: below data/recordings.
    suite
        The suite to record: its name or its YAML file.
    name
        Name of the new campaign. Default: the current UTC time.
    seed
        Seed for the random order of the runs.
    repetitions
        Number of repetitions, instead of the suite's own.
    duration
        Seconds that each run works, instead of the suite's own.
    only
        Record only the combinations with this FACTOR=LEVEL. May be repeated.
    dry_run
        Show which runs would be made, and record nothing.
    resume
        Record the missing runs of this campaign. Without a name: of the last one that is
        unfinished.
    status
        Show how far these campaigns are. Without a name: all campaigns.
    tracer
        What records the events. native: a tracer of roslens' own, which needs neither LTTng nor
        root. auto: LTTng if it is installed, else native. Default: LTTng.
    event
        User-space events to record; * stands for any text. May be repeated. Default: ros2:*.
    context
        Contexts to record with each event besides vpid, vtid and procname, such as pid_ns. May
        be repeated.
    kernel
        What records the kernel. auto: LTTng's modules where they are, else ftrace where it may be
        used, else perf_event_open (own programs alone), else nothing. required: the same, but
        nothing is recorded without it. Default: auto, for a suite off.
    kernel_event
        Kernel events to record besides those of scheduling and interrupts, by LTTng's or
        ftrace's name or as system:name. May be repeated.
    kernel_of
        With ftrace, whose events to record. workload: only those that concern its processes.
        Default: machine.
    kernel_buffer
        Size of the buffer of ftrace or perf_event_open for each CPU. Default: 4M.
    mode
        What happens when the buffers are full: new events are dropped, the oldest are
        overwritten, or the program waits. snapshot: nothing is written until the end, and then
        only what the buffers still hold. Default: discard.
    max_disk
        Largest size of the trace, such as 500M. Beyond it the oldest part is dropped.
    flight
        With the native tracer: keep only the last so many seconds of each thread before the end,
        and what names nodes and topics.
    triggers
        With the native tracer: a YAML file of conditions, such as 'latency of /scan > 50 ms', that
        are watched for meanwhile. The manifest tells of each that hit; with --flight it becomes a
        recording of its own, in the folder of the recording with -snapshots.
    daemon
        The LTTng session daemon that records. private: one of its own. machine: the machine's,
        which also records programs that are already running. Default: private.
    subbuf_size
        Size of each sub-buffer, such as 64k. Default: 1M.
    subbuf_count
        Number of sub-buffers per CPU. Default: 8.
    ros
        Which ROS 2 the command runs in. auto: the sourced one; if there is none, the embedded
        one for Python programs and none for others. Default: auto.
    trace_rclpy
        Let Python nodes emit callback and publish events too.
    allocations
        Record which functions hold memory, by heaptrack: for leaks, as it slows programs down.
    time_limit
        End the command, or the recording of what was attached to, after this many seconds.
    attach
        Record these running ROS 2 programs, by process id or name, and the kernel, with ftrace:
        they are not restarted and need no tracer. Until Ctrl-C, or until none of them runs.
    host
        Record on USER@HOST too, through ssh with your key, for as long as the command here runs:
        the command after a colon, or else what already runs there (by LTTng's session daemon of
        that machine). Without a command here, until Ctrl-C or --time-limit. What was recorded is
        fetched. May be repeated.
    host_setup
        What the shell on each host runs before, such as '. /opt/ros/kilted/setup.sh'.
    as_host
        How --host begins a recording there: it lasts as long as the standard input is open and
        sends something every 30 seconds; a line of JSON says that it has begun.
    """
    # What was not given is None, empty or false, so that nothing that was is lost.
    given = {k: v for k, v in locals().items() if v is not None and v is not False and v != ()}
    way = _way_of(given)
    from roslens import record as recording  # noqa: PLC0415
    from roslens.tracing.lttng import TracingOptions  # noqa: PLC0415
    from roslens.tracing.lttng.settings import KERNEL_EVENTS  # noqa: PLC0415

    console = Console()
    if kernel_event:
        given["kernel_event"] = (*KERNEL_EVENTS, *kernel_event)
    tracing = {field: given[option] for option, field in _TRACING.items() if option in given}
    if way == "triggers" and (tracer != "native" or not command):
        raise UsageError(
            "--triggers reads what the native tracer writes: give '--tracer native' and "
            "'-- COMMAND ...' with it"
        )
    if status is not None:
        recording.show_status(output, suite, status, console)
    elif resume is not None:
        recording.resume_suite(output, suite, resume, console)
    elif attach is not None:
        recording.record_running(
            attach,
            output,
            options=TracingOptions.checked(**tracing),
            time_limit=time_limit,
            console=console,
        )
    elif suite is not None:
        changes = {field: given[option] for option, field in _OF_SUITE.items() if option in given}
        if dry_run:
            recording.show_plan(suite, seed=seed, changes=changes, only=only, console=console)
        else:
            recording.record_suite(
                suite,
                root=output,
                name=name,
                seed=seed,
                changes=changes,
                only=only,
                console=console,
            )
    else:
        if not command and not host:
            # What runs already is known to the machine's daemon alone.
            tracing["daemon"] = "machine"
        options = TracingOptions.checked(**tracing)
        if host:
            recording.record_hosts(
                host,
                command,
                output,
                options=options,
                ros=ros or "auto",
                trace_rclpy=trace_rclpy,
                allocations=allocations,
                setup=host_setup,
                time_limit=time_limit,
                console=console,
            )
            return
        recording.record_one(
            command or recording.NOTHING,
            output,
            options=options,
            ros=(ros or "auto") if command else "none",
            trace_rclpy=trace_rclpy,
            allocations=allocations,
            time_limit=time_limit,
            as_host=as_host,
            triggers=triggers,
            console=console,
        )


@_verb(_RECORD, "env [--flight SECONDS] [-o FOLDER]")
def env(
    *,
    tracer: Literal["native"] = "native",
    output: OutputOption = None,
    event: tuple[str, ...] = ("ros2:*",),
    flight: float | None = None,
) -> None:
    """Print the variables with which any ROS 2 program records itself.

    For launch systems, containers and services: 'eval "$(roslens env)"', then start the programs.
    What they do is written as it happens, so the folder can be read at any time, whatever ends
    them.

    Parameters
    ----------
    tracer
        What records the events; only the native tracer needs no daemon beside the programs.
    output
        Folder of the trace. Default: a new one below data/recordings/env.
    event
        User-space events to record; * stands for any text. May be repeated.
    flight
        Keep only the last so many seconds of each thread, and what names nodes and topics:
        'roslens snapshot' makes a recording of them.
    """
    from roslens import record as recording  # noqa: PLC0415

    del tracer
    recording.print_variables(output, event, flight)


@_verb(_RECORD, "snapshot FOLDER -o OUTPUT")
def snapshot(folder: Path, /, *, output: OutputOption = None) -> None:
    """Make a recording of what a flight recorder holds now; its programs go on.

    Parameters
    ----------
    folder
        The folder of 'roslens env --flight SECONDS -o FOLDER', or 'flight' in the folder of a
        run that is being recorded.
    output
        The new folder of the recording. Default: beside FOLDER, with the time in its name.
    """
    from roslens.tracing.campaign import utc_name  # noqa: PLC0415
    from roslens.tracing.native_tracer.snapshot import record_snapshot  # noqa: PLC0415

    output = output or folder.with_name(f"{folder.name}-{utc_name()}")
    record_snapshot(folder, output)
    say(output)


@_verb(_RECORD, "watch PATH [--once] [--json]")
def watch(
    path: Path,
    /,
    *,
    window: float = 10,
    every: float = 2,
    once: bool = False,
    as_json: JsonSwitch = False,
    seconds: float | None = None,
    budgets: Path | None = None,
    triggers: Path | None = None,
    output: OutputOption = None,
) -> int:
    """Show what programs do while they run: topics, callbacks, busy threads.

    Reads the files that the native tracer maps, while they grow; the programs do not notice.
    Figures are those that collecting the same seconds gives. Ctrl-C ends it.

    Parameters
    ----------
    path
        The folder of 'roslens env -o FOLDER', with or without --flight, or of a recording that
        'roslens record --tracer native' makes.
    window
        Seconds that figures are of; 0 for all since the begin.
    every
        Seconds from one refresh to the next; up to five times that where they would take more
        than 1.5 % of a CPU.
    once
        Refresh once and end.
    as_json
        Print JSON, one line per refresh.
    seconds
        End after so many seconds. Default: when the recording ends.
    budgets
        A YAML file as of 'roslens check', with latency_p50, latency_p99 or loss of topics: what
        is beyond its budget is marked.
    triggers
        A YAML file of conditions, such as 'latency of /scan > 50 ms'. Where one holds, a flight
        recorder's last seconds become a recording. So they do on SIGUSR2.
    output
        Folder of these recordings. Default: PATH with -snapshots.
    """
    # Tables of seconds are small: threads would take longer to talk than to work.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from roslens.live import watch as live  # noqa: PLC0415

    if window < 0 or every <= 0 or (seconds is not None and seconds < 0):
        raise UsageError("--window and --seconds are 0 or more, --every is more than 0")
    options = live.Options(window, every, once, as_json, seconds, budgets, triggers, output)
    return live.run_watch(path, options, Console())


@_verb(_RECORD, "suites [NAME]", "suites --schema")
def suites(name: str | None = None, /, *, schema: bool = False) -> None:
    """List the suites that come with roslens, or explain one.

    Parameters
    ----------
    name
        The suite to explain: its name or its YAML file.
    schema
        Print the JSON schema of suite files, which editors can use.
    """
    from roslens import suites as shown  # noqa: PLC0415

    if schema:
        from roslens.tracing.suite import suite_schema  # noqa: PLC0415

        _print_json(suite_schema())
    elif name is not None:
        shown.explain_suite(name, Console())
    else:
        shown.show_suites(Console())


@_verb(_RECORD, "ros build [--sources DIR]", "ros status", "ros clean")
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
        raise UsageError("--sources is for 'roslens ros build'")
    elif action == "status":
        compiled.status(Console())
    else:
        compiled.clean(Console())


@_verb(_LOOK, "info PATH [--json]")
def info(path: Path, /, *, as_json: JsonSwitch = False) -> None:
    """Show what the tracer lost, and which events, times and processes a recording contains.

    Parameters
    ----------
    path
        A recording, any folder with CTF traces, or an archive of some (zip, tar.gz, tar.xz,
        tar.zst).
    as_json
        Print JSON instead of text.
    """
    from roslens.info import find_info, show_info  # noqa: PLC0415  (starts quickly without it)

    found, excerpt = find_info(path)
    if as_json:
        _print_json(found.to_json() | ({"excerpt": excerpt} if excerpt else {}))
    else:
        show_info(found, Console(), excerpt)
    if not found.events:
        raise NotEnoughEvidenceError(f"{path}: no event was recorded, or none was saved")


@_verb(_LOOK, "events PATH [OPTIONS]")
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
    engine: EngineOption = "native",
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
        engine=engine,
    )


@_verb(_LOOK, "lab [PATH...] [OPTIONS]")
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


@_verb(_LOOK, "collect PATH... [OPTIONS]")
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
    engine: EngineOption = "native",
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


@_verb(_LOOK, "merge PATH PATH... -o DIR [--clock-offset HOST=NS]")
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


@_verb(_LOOK, "schema [OPTIONS]")
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


@_verb(_REPORT, "report NOTEBOOK [PATH...] [OPTIONS]", "report NOTEBOOK --list-parameters")
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
) -> None:
    """Run a notebook over recordings: writes an HTML page, metrics.json and summary.md.

    The last line printed is the folder of the report. These notebooks come with roslens:

    * latency: How long do messages take, how certain is that, what was lost, what was in the way?
    * chains: How long do messages take from end to end, and are deadlines kept?
    * leaks: Does memory climb, and what is the smallest leak that the recordings could reveal?
    * executors: Which executor is slower, and which takes more CPU?
    * communication: What do pointer types and intra-process communication change?
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
        Make a separate report of each, and one page that lists them all. Only with this option,
        --workers or --scheduler may be given.
    """
    from roslens.analysis.metrics import read_metrics  # noqa: PLC0415
    from roslens.report import parse_parameter, run_report, show_parameters  # noqa: PLC0415
    from roslens.summary import summary_table  # noqa: PLC0415

    if list_parameters:
        show_parameters(notebook, Console())
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
        say(page.parent)
        return
    if workers is not None or scheduler is not None:
        raise UsageError("--workers and --scheduler go with --each: one report is one process")
    result = run_report(notebook, paths, output, parameters, cell_timeout_s=timeout)
    # Beside a terminal there is no width to keep to but that of a log.
    console = Console(width=None if sys.stdout.isatty() else 110)
    if result.metrics is not None:
        for sentence in read_metrics(result.metrics).answer:
            say(sentence)
        console.print(summary_table(result.metrics, result.notebook.stem))
    if result.files:
        say(f"also written: {', '.join(path.name for path in result.files)}")
    for note in result.notes:
        print(f"roslens: note: {shown(note)}", file=sys.stderr)
    say(f"report: {result.html}")
    say(result.folder)
    if result.without_events is not None:
        raise NotEnoughEvidenceError(result.without_events)


@_verb(_REPORT, "chains PATH... [OPTIONS]")
def chains(
    *paths: Paths,
    chain: tuple[str, ...] = (),
    requirements: Path | None = None,
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
    """
    from roslens.chains import run_chains  # noqa: PLC0415

    if not paths:
        raise UsageError("no recording given; give one or more folders")
    console = Console(width=None if sys.stdout.isatty() else 160)
    return run_chains(paths, requirements, chain, json_file=json_file, console=console)


@_verb(_REPORT, "index [FOLDER]")
def index(folder: Path = Path("data/reports"), /) -> None:
    """Write index.html, which lists all reports in a folder with their losses and verdicts.

    Parameters
    ----------
    folder
        The folder that contains the reports.
    """
    from roslens.index import write_index  # noqa: PLC0415

    say(write_index(folder))


@_verb(_JUDGE, "compare BASE NEW [OPTIONS]", "compare PATH --by FACTOR [OPTIONS]")
def compare(
    base: Path,
    new: Path | None = None,
    /,
    *,
    metric: tuple[str, ...] = (),
    by: str | None = None,
    across: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    threshold: Threshold = "5%",
    json_file: JsonFile = None,
    plot: PlotFile = None,
    markdown: MarkdownSwitch = False,
) -> int:
    """Compare two sets of recordings and say what got slower.

    Exit code: 0 no regression, 1 a regression, 3 not enough evidence.

    Parameters
    ----------
    base
        Recordings to compare with, or the metrics.json of a report.
    new
        Recordings to be judged, or the metrics.json of a report.
    metric
        Metric to compare. May be repeated. Default: latency_p50, latency_p99, loss and cpu.
    by
        Compare the levels of this factor with each other, within one path and its blocks.
    across
        Factor that differs between the sides, and is not matched on. May be repeated.
    ignore
        Factor whose levels are taken together on each side. May be repeated.
    """
    from roslens.compare import run_compare  # noqa: PLC0415

    return run_compare(
        base,
        new,
        metric,
        threshold,
        by=by,
        across=across,
        ignore=ignore,
        json_file=json_file,
        plot_file=plot,
        console=Console(),
        markdown=markdown,
    )


@_verb(_JUDGE, "check BUDGETS PATH... [OPTIONS]")
def check(
    budgets: Path,
    /,
    *paths: Annotated[Path, Parameter(name="PATH")],
    json_file: JsonFile = None,
    markdown: MarkdownSwitch = False,
) -> int:
    """Check recordings against absolute budgets.

    Exit code: 0 all budgets are kept, 1 one is exceeded, 3 not enough evidence.

    Parameters
    ----------
    budgets
        A YAML file with budgets such as 'latency_p99 < 50 ms'.
    paths
        Recordings, folders that contain recordings, or one metrics.json of a report.
    """
    from roslens.check import run_check  # noqa: PLC0415

    if not paths:
        raise UsageError("no recording given; give one or more folders, or a metrics.json")
    return run_check(budgets, paths, json_file=json_file, console=Console(), markdown=markdown)


SuiteOption = Annotated[
    tuple[str, ...], Parameter(help="Only recordings of this suite. May be repeated.")
]
SinceOption = Annotated[
    str | None,
    Parameter(
        help="Only recordings started since a date such as 2026-11-01, or 30d for 30 days ago."
    ),
]
CatalogFile = Annotated[
    Path | None,
    Parameter(name="--file", help="File of the catalog. Default: catalog.parquet in that folder."),
]


@_verb(_JUDGE, "trend FOLDER [OPTIONS]")
def trend(
    where: Annotated[str, Parameter(name="FOLDER")],
    /,
    *,
    metric: tuple[str, ...] = (),
    suite: SuiteOption = (),
    since: SinceOption = None,
    threshold: Threshold = "5%",
    false_alarms: str = "1%",
    json_file: JsonFile = None,
    plot: PlotFile = None,
    markdown: MarkdownSwitch = False,
    file: CatalogFile = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
) -> int:
    """Find when a metric changed over a series of campaigns; no baseline is needed.

    Exit code: 0 no regression, 1 a regression that lasts, 3 a series is too short.

    Parameters
    ----------
    where
        A folder of campaigns, or an address such as s3://bucket/nightly.
    metric
        Metric to look at. May be repeated. Default: latency_p99.
    false_alarms
        Probability of an alarm although nothing has changed.
    """
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
        markdown=markdown,
    )


@_verb(_JUDGE, "catalog FOLDER [OPTIONS]")
def catalog(
    where: Annotated[str, Parameter(name="FOLDER")],
    /,
    *,
    suite: SuiteOption = (),
    distro: tuple[str, ...] = (),
    since: SinceOption = None,
    until: str | None = None,
    as_json: JsonSwitch = False,
    file: CatalogFile = None,
    collect: bool = False,
    dataset: Path | None = None,
    table: tuple[str, ...] = (),
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
) -> None:
    """Keep a catalog of many recordings: manifest, health and key metrics of each.

    Parameters
    ----------
    where
        A folder of recordings, or an address such as s3://bucket/nightly.
    distro
        Only recordings of this ROS distribution. May be repeated.
    until
        Only recordings started before that, in the same forms.
    as_json
        Print one JSON object per recording and line.
    collect
        First make the tables that are missing.
    dataset
        Also write the tables of these recordings to this folder, as one dataset with suite=,
        campaign= and recording= folders.
    table
        Write only this table to --dataset. May be repeated.
    """
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
    if collect and (failed := chosen.rows["problem"].count()):
        raise RunFailedError(f"{failed:,} of {len(chosen):,} recordings have no tables; see above")


@_verb(_SHARE, "export --format FORMAT PATH OUT [--table NAME]", "export --list")
def export(
    path: Path | None = None,
    out: Path | None = None,
    /,
    *,
    form: Annotated[
        Literal["perfetto", "otlp", "mcap", "dot", "mermaid", "csv", "hgrm", "hlog"] | None,
        Parameter(name="--format"),
    ] = None,
    table: str | None = None,
    list_formats: Annotated[bool, Parameter(name="--list")] = False,
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
        of HdrHistogram.
    table
        Name of the table to write as csv.
    list_formats
        List the formats and what is written in each, and stop.
    """
    from roslens.export import FORMATS  # noqa: PLC0415
    from roslens.export import export as write  # noqa: PLC0415

    if list_formats:
        for name, what in FORMATS.items():
            say(f"{name:9} {what}")
        return
    if path is None or out is None or form is None:
        raise UsageError("give --format FORMAT, a recording and the file to write, or --list")
    write(path, out, form, table)


@_verb(_SHARE, "pack PATH... [OPTIONS]")
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


@_verb(_SHARE, "unpack ARCHIVE [FOLDER] [OPTIONS]")
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
