"""Commands that record, and those around a recording that is being made."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import rich.console
from cyclopts import Group, Parameter, validators

from roslens.cli.app import (
    RECORD,
    JsonSwitch,
    OutputOption,
    app,
    verb,
)
from roslens.recording import UsageError
from roslens.recording.terminal import Console, print_json, say

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import ConsoleOptions


class _OnDemand:
    """Shows a group of options only where all are asked for."""

    everything = False

    def __call__(
        self, console: rich.console.Console, options: ConsoleOptions, panel: HelpPanel
    ) -> None:
        if self.everything:
            from cyclopts.help import DefaultFormatter  # noqa: PLC0415  (loads slowly)

            DefaultFormatter()(console, options, panel)


_further = _OnDemand()


def _further_options(name: str, option: str | None = None) -> Parameter:
    """Those that ``--help`` leaves to ``--help-all``, under a heading."""
    return Parameter(
        name=option, group=Group(name, sort_key=next(_headings), help_formatter=_further)
    )


_headings = itertools.count(9)
_FOR_SUITE = _further_options("Suites")
_FOR_EVENTS = _further_options("Events and buffers")
_FOR_KERNEL = _further_options("Kernel")
_FOR_FLIGHT = _further_options("Flight recorder and triggers")
_FOR_PROGRAMS = _further_options("Programs")
_FOR_HOSTS = _further_options("Other hosts")
_FOR_OUTPUT = _further_options("Output", "--json")


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
    "probe": "probes",
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
    "stacks": "samplers.stacks",
    "waits": "samplers.waits",
}
"""Options of 'record' that change a suite, and which of its fields."""
_OF_KERNEL = ("kernel", "kernel_event", "kernel_buffer", "probe")
_OF_COMMAND = frozenset(
    {*_TRACING, "output", "ros", "trace_rclpy", "allocations", "stacks", "waits", "time_limit"}
)
_WAYS: Mapping[str, tuple[str, frozenset[str]]] = {
    "triggers": ("watches one command that is recorded here", _OF_COMMAND | {"command"}),
    "status": ("shows campaigns", frozenset({"suite", "output"})),
    "resume": ("goes on as planned", frozenset({"suite", "output"})),
    "attach": (
        "records what runs here",
        frozenset({*_OF_KERNEL, "output", "cost_limit", "full", "stacks", "waits", "time_limit"}),
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


def _stacks_rate(rates: list[float]) -> float:
    """Samples per second of call stacks: the one given, or the default."""
    from roslens.tracing.sampling.stacks import HZ, MOST_HZ  # noqa: PLC0415

    rate = (*rates, HZ)[0]
    if len(rates) > 1 or not 1 <= rate <= MOST_HZ:
        raise UsageError(f"--stacks takes one rate, 1 to {MOST_HZ:,} samples per second")
    return rate


def _share(given: Mapping[str, Any]) -> float:
    """Of a CPU that attaching may cost."""
    from roslens.tracing.ftrace.limit import SHARE  # noqa: PLC0415

    if {"full", "cost_limit"} <= given.keys():
        raise UsageError("--full records without a limit, and --cost-limit sets one: give one")
    if "cost_limit" in given:
        return float(given["cost_limit"]) / 100
    return math.inf if given.keys() & {"full", "stacks", "probe"} else SHARE


def _given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, and the tracer that one of them needs."""
    # What was not given is None, empty or false (--no-trace-rclpy is given).
    given = {
        name: value
        for name, value in options.items()
        if value not in (None, ())
        and (value is not False or name == "trace_rclpy")
        and name != "as_json"
    }
    if {"flight", "command"} <= given.keys() and "suite" not in given:
        # No other tracer keeps the last seconds.
        given.setdefault("tracer", "native")
    # A suite has a rate of its own.
    if "stacks" in given or ("waits" in given and "suite" not in given):
        given["stacks"] = _stacks_rate(given.get("stacks", []))
    return given


def _calling_form(given: Mapping[str, object]) -> str:
    """How 'record' was called; whatever that way would not heed is refused."""
    way = next((way for way in _WAYS if way in given), None)
    if way is None:
        raise UsageError(
            "give either '--suite NAME' or '-- COMMAND ...' to record, or '--resume' to go on"
        )
    does, heeded = _WAYS[way]
    for name in given:
        if name != way and name not in heeded:
            raise UsageError(f"{_option(way)} {does}: {_option(name)} cannot be given with it")
    if way == "triggers" and (given.get("tracer") != "native" or "command" not in given):
        raise UsageError(
            "--triggers reads what the native tracer writes: give '--tracer native' and "
            "'-- COMMAND ...' with it"
        )
    return way


def _fields(fields: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, by the field that each sets."""
    return {field: given[option] for option, field in fields.items() if option in given}


@verb(
    RECORD,
    "record --suite NAME [OPTIONS]",
    "record [OPTIONS] -- COMMAND ...",
    "record --attach PROGRAM ... [OPTIONS]",
    "record --host USER@HOST[:COMMAND] ... [OPTIONS] [-- COMMAND ...]",
    "record --resume [CAMPAIGN]",
    "record --status [CAMPAIGN ...]",
    example="record -o my_recording -- ros2 launch my_robot bringup.launch.py",
)
def record(
    *command: Annotated[str, Parameter(name="COMMAND")],
    output: OutputOption = None,
    suite: str | None = None,
    name: Annotated[str | None, _FOR_SUITE] = None,
    seed: Annotated[int | None, _FOR_SUITE] = None,
    repetitions: int | None = None,
    duration: Annotated[float | None, _FOR_SUITE] = None,
    only: Annotated[tuple[str, ...], _FOR_SUITE] = (),
    dry_run: Annotated[bool, _FOR_SUITE] = False,
    resume: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None,
    status: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None,
    tracer: Literal["lttng", "native", "auto"] | None = None,
    event: tuple[str, ...] = (),
    context: Annotated[tuple[str, ...], _FOR_EVENTS] = (),
    kernel: Literal["auto", "lttng", "ftrace", "perf", "off", "required"] | None = None,
    kernel_event: Annotated[tuple[str, ...], _FOR_KERNEL] = (),
    kernel_of: Annotated[Literal["machine", "workload"] | None, _FOR_KERNEL] = None,
    kernel_buffer: Annotated[str | None, _FOR_KERNEL] = None,
    mode: Annotated[
        Literal["discard", "overwrite", "blocking", "snapshot"] | None, _FOR_EVENTS
    ] = None,
    max_disk: Annotated[str | None, _FOR_EVENTS] = None,
    flight: Annotated[float | None, _FOR_FLIGHT] = None,
    daemon: Annotated[Literal["private", "machine"] | None, _FOR_EVENTS] = None,
    subbuf_size: Annotated[str | None, _FOR_EVENTS] = None,
    subbuf_count: Annotated[int | None, _FOR_EVENTS] = None,
    ros: Annotated[Literal["auto", "sourced", "embedded", "none"] | None, _FOR_PROGRAMS] = None,
    trace_rclpy: Annotated[bool | None, _FOR_PROGRAMS] = None,
    allocations: Annotated[bool, _FOR_PROGRAMS] = False,
    stacks: Annotated[list[float] | None, _FOR_PROGRAMS, Parameter(consume_multiple=True)] = None,
    waits: Annotated[bool, _FOR_PROGRAMS] = False,
    probe: Annotated[tuple[str, ...], _FOR_PROGRAMS] = (),
    time_limit: Annotated[float | None, Parameter(validator=validators.Number(gt=0))] = None,
    triggers: Annotated[Path | None, _FOR_FLIGHT] = None,
    attach: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None,
    cost_limit: Annotated[
        float | None, _FOR_PROGRAMS, Parameter(validator=validators.Number(gt=0))
    ] = None,
    full: Annotated[bool, _FOR_PROGRAMS] = False,
    host: tuple[str, ...] = (),
    host_setup: Annotated[str | None, _FOR_HOSTS] = None,
    as_host: Annotated[bool, Parameter(show=False)] = False,
    as_json: Annotated[bool, _FOR_OUTPUT] = False,
    help_all: bool = False,
) -> None:
    """Record a suite of experiments, any command, or programs that are already running.

    The last line printed is the folder of the recording, or with --json what was recorded. With
    --suite, an option replaces what the suite itself says, in all runs.

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
        How long each run works [s], instead of the suite's own duration.
    only
        Record only the combinations with this FACTOR=LEVEL. May be repeated.
    dry_run
        Show which runs would be made, and record nothing.
    resume
        Record the runs that are missing from this campaign. Without a name: the last unfinished
        campaign.
    status
        Show the progress of these campaigns. Without a name: all campaigns.
    tracer
        The tracer to use. native: the tracer of roslens, which needs neither LTTng nor root. auto:
        LTTng if it is installed, else native. Default: LTTng.
    event
        User-space events to record, such as 'ros2:rmw_*'. May be repeated. Default: all of ROS 2.
    context
        Contexts to record with each event besides vpid, vtid and procname, such as pid_ns. May
        be repeated.
    kernel
        How to record the kernel's scheduler. auto: LTTng's kernel modules if they are installed,
        else ftrace if it is allowed, else perf_event_open (only the recorded programs), else not
        at all. required: like auto, but refuse to record if none of them works. Default: auto;
        for a suite: off.
    kernel_event
        Further kernel events to record, besides scheduling and interrupts: LTTng's or ftrace's
        name, or system:name. May be repeated.
    kernel_of
        With ftrace: record the events of the whole machine, or only those of the recorded
        programs (workload). Default: machine.
    kernel_buffer
        Buffer size per CPU of ftrace or perf_event_open. Default: 4M.
    mode
        What happens when the buffers are full. discard: new events are dropped. overwrite: the
        oldest events are overwritten. blocking: the program waits. snapshot: as overwrite, and
        nothing is written to disk before the end. Default: discard.
    max_disk
        Maximum size of the trace, such as 500M. The oldest part is dropped to stay below it.
    flight
        Keep only the last FLOAT seconds of events, with the native tracer. Events that name nodes
        and topics are always kept. At the end, also after Ctrl-C, this buffer becomes the
        recording. It is also saved at once when a process dies, a goal is aborted, a callback takes
        more than 1 s, or one of --triggers hits.
    triggers
        With the native tracer: a YAML file of conditions to watch for while recording, such as
        'latency of /scan > 50 ms'. The manifest lists every condition that became true. With
        --flight, each time also saves the buffer as a recording in the folder OUTPUT-snapshots.
    daemon
        Which LTTng session daemon records. private: a new one, only for this recording. machine:
        that of the machine, which also records programs that are already running. Default:
        private.
    subbuf_size
        Size of each sub-buffer, such as 64k. Default: 1M.
    subbuf_count
        Number of sub-buffers per CPU. Default: 8.
    ros
        Which ROS 2 the command runs with. sourced: the one that this shell has sourced. embedded:
        the one that comes with roslens. auto: sourced if there is one, else embedded for Python
        programs and none for others. Default: auto.
    trace_rclpy
        Whether Python nodes emit callback and publish events, which rclpy itself does not. Default:
        yes; for a suite: as the suite says.
    allocations
        Also record which functions allocate memory, with heaptrack. It slows the program down.
    stacks
        Also sample the call stacks of the recorded programs with perf, this many times per second
        of CPU time. Default: 199. 'run.stacks' then shows in which functions callbacks spend time.
    waits
        Like --stacks, and also record where and how long threads wait, with the call stack of each
        wait. 'run.stacks.functions(waits=True)' then shows in which functions callbacks wait.
    probe
        Also record each call of this function, LIB:FUNCTION, like a callback, such as
        libcontroller_manager.so:ControllerManager::update. LIB is a library or program, by name or
        path. Needs root and ftrace. May be repeated.
    time_limit
        Stop after this many seconds.
    attach
        Record ROS 2 programs that are already running, by process id, program name or node name.
        They are not restarted. Ends with Ctrl-C, or when the programs have ended. Uses ftrace and
        records the kernel too, unless --kernel off is given. Pauses where it would cost more than
        1 % of a CPU, unless --full is given.
    cost_limit
        With --attach: pause recording where it would cost more than this share of a CPU [%].
        Default: 1; with --stacks, --waits or --probe: no limit.
    full
        With --attach: never pause, whatever it costs.
    host
        Also record on USER@HOST, over ssh with your key: the command after the colon, or without
        one what already runs there. Recording lasts as long as the command here; without one,
        until Ctrl-C or --time-limit. The recordings are copied here. May be repeated.
    host_setup
        Shell command to run first on each host, such as '. /opt/ros/kilted/setup.sh'.
    as_host
        Used by --host on the other computer: records as long as standard input is open and
        something arrives every 30 seconds; one line of JSON says when recording has begun.
    as_json
        Print the folder, its runs and what each lost, as the last line, in JSON. With --status and
        --dry-run: print what these show.
    help_all
        Show all options: also those for suites, buffers, the kernel, flight recorders and hosts.
    """
    if help_all:
        _further.everything = True
        app.help_print(["record"])
        return
    given = _given_options(locals())
    way = _calling_form(given)
    from roslens import record as recording  # noqa: PLC0415
    from roslens.recorded import ResultPrinter  # noqa: PLC0415
    from roslens.tracing.attach import record_attached  # noqa: PLC0415
    from roslens.tracing.campaign import RECORDINGS, run_campaign  # noqa: PLC0415
    from roslens.tracing.lttng import TracingOptions  # noqa: PLC0415
    from roslens.tracing.lttng.settings import KERNEL_EVENTS  # noqa: PLC0415
    from roslens.tracing.progress import show_progress  # noqa: PLC0415
    from roslens.tracing.sampling.rates import SamplerRates  # noqa: PLC0415
    from roslens.tracing.suite import load_suite, with_changes  # noqa: PLC0415

    printer = ResultPrinter(as_json=as_json)
    rate = given.get("stacks", 0.0)
    if kernel_event:
        given["kernel_event"] = (*KERNEL_EVENTS, *kernel_event)
    tracing = _fields(_TRACING, given)
    if status is not None:
        recording.show_status(output, suite, status, printer)
    elif resume is not None:
        recording.resume_suite(output, suite, resume, printer)
    elif attach is not None:
        with show_progress() as on_event:
            attached = record_attached(
                attach,
                output,
                options=TracingOptions.checked(**tracing),
                stacks=rate,
                waits=waits,
                share=_share(given),
                time_limit=time_limit,
                on_event=on_event,
            )
        printer.print_recording(*attached)
    elif suite is not None:
        planned, text = load_suite(suite)
        planned = with_changes(planned, _fields(_OF_SUITE, given))
        if dry_run:
            recording.show_plan(planned, seed=seed, only=only, told=printer)
            return
        with show_progress() as on_event:
            campaign = run_campaign(
                planned,
                text,
                root=output or RECORDINGS,
                name=name,
                seed=seed,
                only=only,
                on_event=on_event,
            )
        printer.print_campaign(campaign)
    else:
        if not command and not host:
            # What runs already is known to the machine's daemon alone.
            tracing["daemon"] = "machine"
        asked = recording.RecordSettings(
            options=TracingOptions.checked(**tracing),
            ros=(ros or "auto") if command or host else "none",
            trace_rclpy=trace_rclpy is not False,
            samplers=SamplerRates(allocations=allocations, stacks=rate, waits=waits),
            time_limit=time_limit,
        )
        if host:
            recording.record_hosts(host, command, output, setup=host_setup, told=printer, **asked)
            return
        recording.record_one(
            command or recording.NOTHING,
            output,
            as_host=as_host,
            triggers=triggers,
            told=printer,
            **asked,
        )


@verb(RECORD, "env [--flight SECONDS] [-o FOLDER]", example="env -o my_recording")
def env(
    *,
    output: OutputOption = None,
    event: tuple[str, ...] = ("ros2:*",),
    flight: float | None = None,
) -> None:
    """Print the variables with which any ROS 2 program records itself.

    For launch systems, containers and services: 'eval "$(roslens env)"', then start the programs.
    The native tracer, which needs no daemon, writes what they do as it happens: the folder can be
    read at any time, whatever ends them.

    Parameters
    ----------
    output
        Folder of the trace. Default: a new one below data/recordings/env.
    event
        User-space events to record; * stands for any text. May be repeated.
    flight
        Keep only the last FLOAT seconds of events (events that name nodes and topics are always
        kept), until 'roslens snapshot' makes a recording of them.
    """
    from roslens import record as recording  # noqa: PLC0415

    recording.print_variables(output, event, flight)


@verb(RECORD, "snapshot FOLDER -o OUTPUT", example="snapshot my_recording -o last_seconds")
def snapshot(folder: Path, /, *, output: OutputOption = None, as_json: JsonSwitch = False) -> None:
    """Save what a flight recorder holds now as a recording. The programs keep running.

    Parameters
    ----------
    folder
        The folder of 'roslens env --flight SECONDS -o FOLDER', or 'flight' in the folder of a
        run that is being recorded.
    output
        The new folder of the recording. Default: FOLDER with the time added to its name.
    as_json
        Print the folder as JSON.
    """
    from roslens.tracing.campaign import utc_name  # noqa: PLC0415
    from roslens.tracing.native_tracer.snapshot import record_snapshot  # noqa: PLC0415

    output = output or folder.with_name(f"{folder.name}-{utc_name()}")
    record_snapshot(folder, output)
    if as_json:
        print_json({"folder": str(output)})
        return
    say(output)


@verb(RECORD, "watch PATH [OPTIONS]", example="watch PATH --once")
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
    chain: tuple[str, ...] = (),
    output: OutputOption = None,
    prometheus: str | None = None,
    token_file: Path | None = None,
    otlp: str | None = None,
) -> int:
    """Show what programs do while they run: topics, nodes, callbacks, busy threads, and chains.

    It reads the native tracer's files while they are written, which does not disturb the programs.
    The figures are the same as 'roslens collect' gives for the same seconds. Ctrl-C ends it.

    Parameters
    ----------
    path
        The folder of 'roslens env -o FOLDER', with or without --flight, or of a recording that
        'roslens record --tracer native' makes.
    window
        Averaging window [s]. 0: everything since the start.
    every
        Seconds between two refreshes. It grows up to five times if refreshing would take more than
        1.5 % of a CPU.
    once
        Refresh once and end.
    as_json
        Print JSON, one line per refresh.
    seconds
        End after this many seconds. Default: when the recording ends.
    budgets
        A YAML file of budgets as for 'roslens check', with latency_p50, latency_p99 or loss of
        topics. Values beyond their budget are marked.
    triggers
        A YAML file of conditions, such as 'latency of /scan > 50 ms'. When one becomes true, and
        on SIGUSR2, the flight recorder's buffer is saved as a recording.
    chain
        Also show this chain of messages from end to end, such as
        '/camera -> /image -> /viewer > 100 ms' (with a deadline) or '/camera -> /image -> /viewer'.
        May be repeated. The chains of --triggers are shown anyway.
    output
        Folder of the recordings that triggers make. Default: PATH with -snapshots.
    prometheus
        Also write the figures to this file at each refresh, for the textfile collector of
        Prometheus (its name ends with .prom); or a local port that Prometheus scrapes at
        /metrics. Needs an extra, as --otlp does: pip install 'roslens[live]'.
    token_file
        A file with the token that Prometheus must give to that port. Only its owner may read it.
    otlp
        Also send the figures to this address of an OpenTelemetry collector, such as
        http://localhost:4318.
    """
    # Tables of seconds are small: threads would take longer to talk than to work.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from roslens.live import watch as live  # noqa: PLC0415

    options = live.Options(
        window, every, once, as_json, seconds, budgets, triggers, output,
        chains=chain, prometheus=prometheus, token_file=token_file, otlp=otlp,
    )  # fmt: skip
    return live.run_watch(path, options, Console())


@verb(RECORD, "suites [NAME]", "suites --schema", example="suites demo")
def suites(
    name: str | None = None, /, *, schema: bool = False, as_json: JsonSwitch = False
) -> None:
    """List the suites that come with roslens, or explain one.

    Parameters
    ----------
    name
        The suite to explain: its name or its YAML file.
    schema
        Print the JSON schema of suite files, which editors can use.
    as_json
        Print JSON instead of text.
    """
    from roslens import suites as shown  # noqa: PLC0415

    if schema:
        from roslens.tracing.suite import suite_schema  # noqa: PLC0415

        print_json(suite_schema())
    elif as_json:
        print_json(shown.suites_json(name))
    elif name is not None:
        shown.explain_suite(name, Console())
    else:
        shown.show_suites(Console())
