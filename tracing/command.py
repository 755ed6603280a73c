"""Record any command as one run: ``roslens record -- COMMAND``."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from roslens.recording import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, Manifest, UsageError
from roslens.tracing.campaign import RECORDINGS, OnEvent, new_campaign, noting, refuse_used
from roslens.tracing.interruption import Interruption
from roslens.tracing.lifeline import Lifeline
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.ros import RosEnvironment
from roslens.tracing.ros_choice import (
    choose_ros,
    is_python,
    is_sourced,
    with_python,
)
from roslens.tracing.run import Beside, FolderTakenError, RunSpec, git_state, record_run
from roslens.tracing.sampling.rates import SamplerRates
from roslens.tracing.suite import RosChoice
from roslens.tracing.tracer import needed_preload, start_tracer
from roslens.tracing.workload import resolve_command

COMMAND_SUITE = "command"
_RUN = "000_r0"


def record_command(
    command: Sequence[str],
    output: Path | None = None,
    *,
    options: TracingOptions | None = None,
    ros: RosChoice = "auto",
    trace_rclpy: bool = True,
    samplers: SamplerRates | None = None,
    time_limit: float | None = None,
    lifeline: Lifeline | None = None,
    beside: Beside | None = None,
    on_event: OnEvent = lambda _: None,
) -> tuple[Path, Manifest]:
    """Record any command.

    Parameters
    ----------
    command
        The command to run. With the embedded ROS 2, ``python`` means its interpreter.
    output
        The run's folder; default: ``data/recordings/command/<UTC time>/000_r0``.
    options
        Events to trace, and the buffers to use.
    ros
        ``auto``: the sourced ROS 2; if none is sourced, the embedded one if the command is Python,
        else none. ``sourced`` or ``embedded``: that ROS 2, and recording no ROS 2 event is then an
        error. ``none``: the environment is not changed.
    trace_rclpy
        Whether Python nodes emit callback and publish events.
    samplers
        Rates of the samplers that run in addition to the one of CPU time.
    time_limit
        Seconds; default: no limit.
    lifeline
        Its end also ends the command; the command's output is then kept below ``native/``.
    beside
        As for `RunSpec`.
    on_event
        Called with each event that the user should see.

    Returns
    -------
    tuple
        The run's folder and its manifest; `manifest.status` states whether the run is complete.

    Raises
    ------
    UsageError
        The command does not exist, `output` is not empty, or LTTng or ROS 2 is missing.
    RunFailedError
        No session daemon can be started, or the folder cannot be written.
    """
    refuse_used(output)
    note = noting(on_event)
    spec = command_spec(command, options, ros=ros, trace_rclpy=trace_rclpy, note=note)
    with ExitStack() as stack:
        interruption = stack.enter_context(Interruption())
        daemon = stack.enter_context(start_tracer(spec.options, note))
        for text in daemon.notes:
            note(text)
        # The folder to remove if nothing can be run.
        removable = output
        if output is None:
            removable = new_campaign(RECORDINGS / COMMAND_SUITE, None)
            output = removable / _RUN
        spec = replace(
            spec,
            folder=output,
            campaign=output.parent.name if output.name == _RUN else output.name,
            samplers=samplers or SamplerRates(),
            time_limit=time_limit,
            quiet=lifeline is not None,
            lifeline=lifeline,
            beside=beside,
        )
        try:
            manifest = record_run(spec, daemon, interruption)
        except FolderTakenError:
            raise
        except UsageError:
            if removable is not None:
                shutil.rmtree(removable, ignore_errors=True)
            raise
    return output, manifest


def command_spec(
    command: Sequence[str],
    options: TracingOptions | None,
    *,
    ros: RosChoice,
    trace_rclpy: bool,
    note: Callable[[str], None],
    cwd: Path | None = None,
) -> RunSpec:
    """Return how to run and record a command, without its folder; see `record_command`.

    The command runs in `cwd`; None: in the current working directory.

    Raises
    ------
    UsageError
        The command does not exist, or LTTng or ROS 2 is missing.
    """
    resolve_command(command, cwd=cwd)
    options = (options or TracingOptions()).resolved()
    chosen = _ros_for(command, ros, note)
    preload = needed_preload(options, chosen)
    if chosen is not None and chosen.kind == "embedded":
        command = with_python(command, chosen)
    return RunSpec(
        folder=Path(),
        suite=COMMAND_SUITE,
        campaign="",
        command=command,
        options=options,
        ros=chosen,
        preload=preload,
        trace_rclpy=trace_rclpy,
        expect_events="loaded" if ros == "auto" else "no" if ros == "none" else "yes",
        git=git_state(cwd),
        cwd=cwd,
    )


def exit_code(manifest: Manifest) -> int:
    """Return the exit code for one run: 0 if complete, 4 if not, 130 if interrupted."""
    return {"complete": EXIT_OK, "interrupted": EXIT_INTERRUPTED}.get(manifest.status, EXIT_FAILED)


def _ros_for(
    command: Sequence[str], ros: RosChoice, note: Callable[[str], None]
) -> RosEnvironment | None:
    if ros != "auto" or is_python(command[0]) or command[0].endswith(".py"):
        return choose_ros(ros, note)
    if is_sourced():
        try:
            return choose_ros("sourced", note)
        except UsageError:
            # A C++ program needs no rclpy, so its own environment is sufficient.
            return None
    return None
