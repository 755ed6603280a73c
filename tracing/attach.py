"""``roslens record --attach PROCESS``: programs that run already, without LTTng in them."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from roslens.recording import Manifest, UsageError, write_manifest
from roslens.recording.layout import MANIFEST_NAME
from roslens.recording.manifest import Environment, Loss, TracingSettings
from roslens.tracing.campaign import RECORDINGS, Event, OnEvent, new_campaign, refuse_used
from roslens.tracing.ftrace.recorder import Instance, ftrace_recording
from roslens.tracing.ftrace.tracefs import remove_leftovers, why_no_ftrace
from roslens.tracing.ftrace.uprobes import Target, find_targets, place_probes, threads_of
from roslens.tracing.host import HostWatch
from roslens.tracing.interruption import Interruption
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.lttng.settings import NEEDED_CONTEXTS

ATTACH_SUITE = "attach"
_NO_NAMES = (
    "what names nodes, topics and callbacks happened before: restart a program while it is "
    "recorded to have names"
)
_PERIOD_SECONDS = 0.1


def record_attached(
    wanted: Sequence[str],
    output: Path | None = None,
    *,
    options: TracingOptions | None = None,
    time_limit: float | None = None,
    root: Path = RECORDINGS,
    on_event: OnEvent = lambda _: None,
) -> tuple[Path, Manifest]:
    """Record programs that run already, and the kernel, until interrupted or the time is over.

    Parameters
    ----------
    wanted
        Process ids or names, as of `find_targets`.
    output
        The new folder of the recording; default: ``<root>/attach/<UTC time>/000_r0``.
    options
        Its kernel events and buffer count.
    time_limit
        Seconds; default: until interrupted, or until none of the programs runs any more.
    root
        The folder of all recordings.
    on_event
        Is told what the user should know.

    Returns
    -------
    tuple
        The recording's folder and its manifest.

    Raises
    ------
    UsageError
        No such program, or ftrace may not be used here.
    RunFailedError
        The kernel refuses, or the folder cannot be written.
    """
    options = options or TracingOptions()
    reason = why_no_ftrace()
    if reason is not None:
        raise UsageError(f"--attach: {reason}")
    remove_leftovers()
    targets = find_targets(list(wanted))
    refuse_used(output)
    made = output or new_campaign(root / ATTACH_SUITE, None)
    folder = output or made / "000_r0"
    for target in targets:
        on_event(Event("note", text=f"attached to {target.name} ({target.pid})"))
    watch, begun = HostWatch(), time.time_ns()
    notes: list[str] = []
    with ExitStack() as stack:
        interruption = stack.enter_context(Interruption())

        def prepare(instance: Instance) -> None:
            instance.threads = {}
            stack.enter_context(_followed(targets, instance.threads))
            notes.extend(place_probes(instance, targets))

        try:
            with ftrace_recording(
                folder / "trace",
                options.kernel_events,
                buffer_bytes=options.kernel_buffer,
                prepare=prepare,
            ) as recording:
                _wait(targets, time_limit, interruption)
        except UsageError:
            shutil.rmtree(made, ignore_errors=True)
            raise
    host = watch.facts()
    manifest = Manifest(
        suite=ATTACH_SUITE,
        campaign=folder.parent.name,
        run=folder.name,
        command=[target.name for target in targets],
        environment=Environment(),
        host=host,
        disturbances=watch.disturbances(host),
        tracing=TracingSettings(
            tracer="ftrace",
            kernel="ftrace",
            domains=["ust", "kernel"],
            events=["ros2:*", *(f"kernel:{x}" for x in recording.events)],
            contexts=list(NEEDED_CONTEXTS),
            notes=[*recording.notes, *notes],
        ),
        start_ns=begun,
        end_ns=time.time_ns(),
        status="failed" if recording.troubles else "complete",
        failure="; ".join(recording.troubles) or None,
        loss=Loss(discarded_events=recording.lost, lost_packets=0),
        warnings=[_NO_NAMES],
    )
    write_manifest(manifest, folder / MANIFEST_NAME)
    return folder, manifest


def _wait(targets: Sequence[Target], time_limit: float | None, interruption: Interruption) -> None:
    until = time.monotonic() + (time_limit if time_limit is not None else float("inf"))
    while not interruption.wanted and time.monotonic() < until:
        if not any(Path(f"/proc/{target.pid}").is_dir() for target in targets):
            return
        time.sleep(min(_PERIOD_SECONDS, max(0.0, until - time.monotonic())))


@contextmanager
def _followed(targets: list[Target], threads: dict[int, tuple[int, int, str]]) -> Iterator[None]:
    """Note the threads of the programs, also those that begin meanwhile."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            threads.update(threads_of(targets))
            stop.wait(_PERIOD_SECONDS)

    threads.update(threads_of(targets))
    thread = threading.Thread(target=run, name="roslens-attach", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
