"""Record on several hosts: begin on all, end on all, fetch everything into one folder.

The folder holds a recording per host and `HOSTS_NAME`, which states what was begun where. Whatever
ends this process, the remote recorders end when their input does, and their recordings can be
fetched later.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import ValidationError

from roslens.recording import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    Manifest,
    RoslensError,
    RunFailedError,
    UsageError,
    read_manifest,
)
from roslens.recording.errors import failing
from roslens.recording.files import write_atomically
from roslens.recording.layout import MANIFEST_NAME
from roslens.recording.models import Strict
from roslens.recording.scratch import locked_folder
from roslens.tracing.campaign import RECORDINGS, OnEvent, new_campaign, noting, refuse_used
from roslens.tracing.command import exit_code
from roslens.tracing.interruption import Interruption
from roslens.tracing.lifeline import SILENT_SECONDS
from roslens.tracing.remote.recorder import RemoteRecorder
from roslens.tracing.remote.ssh import (
    UNREACHABLE,
    Host,
    ends_well,
    find_ssh,
    ssh_command,
    why_unreachable,
)
from roslens.tracing.unpacking import unpack_stream

HOSTS_NAME = "hosts.json"
HOSTS_SUITE = "hosts"
HERE = "here"
"""Name of the recording of this host."""
STOP_SECONDS = 120.0
"""Seconds that a remote recorder may take to end its command and its recording."""
_PERIOD_SECONDS = 0.1
_AGAIN_SECONDS = 1.0


class HostState(Strict):
    """The state of another host: what was begun there, and whether it has been fetched."""

    name: str
    destination: str
    command: tuple[str, ...]
    folder: str
    """The folder on that host; absolute once the recording has begun."""
    status: Literal["not begun", "begun", "fetched"] = "begun"
    roslens: str | None = None
    pid: int | None = None
    """The process id of the recorder there, if it may still run."""
    trouble: str | None = None


class HostsState(Strict):
    """The contents of `HOSTS_NAME`."""

    hosts: list[HostState]


@dataclass
class HostsResult:
    """The result of recording on several hosts.

    Attributes
    ----------
    folder
        The folder that holds a recording for each host.
    recordings
        The manifests by the names of the recordings' folders.
    troubles
        Descriptions of missing or broken-off recordings, by host.
    unfetched
        Whether a recording is still on another host.
    interrupted
        Whether recording was interrupted before it was done.
    """

    folder: Path
    recordings: dict[str, Manifest] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    unfetched: bool = False
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """Return 0 if all recordings are here and complete, 4 if not, 130 if interrupted."""
        codes = {exit_code(manifest) for manifest in self.recordings.values()}
        if self.interrupted or EXIT_INTERRUPTED in codes:
            return EXIT_INTERRUPTED
        return EXIT_FAILED if self.troubles or codes != {EXIT_OK} else EXIT_OK


def record_on_hosts(
    hosts: Sequence[Host],
    output: Path | None,
    arguments: Sequence[str],
    *,
    setup: str | None = None,
    here: Callable[[Path], Manifest] | None = None,
    time_limit: float | None = None,
    on_event: OnEvent = lambda _: None,
) -> HostsResult:
    """Record on other hosts for as long as something is recorded here.

    Parameters
    ----------
    hosts
        The other hosts. Hosts that cannot be reached are left out and reported.
    output
        The new folder of all recordings; default: ``data/recordings/hosts/<UTC time>``.
    arguments
        Arguments of ``roslens record`` on each host.
    setup
        A command that the login shell of each host runs first.
    here
        Records here into the given folder, and returns at the end. None: the other hosts record
        until interrupted, until the time limit, or until all of them have ended.
    time_limit
        Seconds; only used without `here`.
    on_event
        Called with each event that the user should see.

    Raises
    ------
    UsageError
        There is no ssh or the folder is in use; or `here` raises this error.
    RunFailedError
        The folder cannot be written, or no recording could be begun.
    """
    refuse_used(output)
    find_ssh()
    folder = output or new_campaign(RECORDINGS / HOSTS_SUITE, None)
    state = HostsState(
        hosts=[
            HostState(
                name=name,
                destination=host.destination,
                command=host.command,
                folder=f"roslens-{folder.name}-{secrets.token_hex(4)}/{name}",
            )
            for name, host in zip(_names(hosts), hosts, strict=True)
        ]
    )
    with failing(f"{folder}: cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        _write(state, folder)
    result = HostsResult(folder)
    with locked_folder(folder), Interruption() as interruption:
        recorders = {
            entry.name: RemoteRecorder(
                host, entry.folder, arguments, setup, noting(on_event, entry.name)
            )
            for entry, host in zip(state.hosts, hosts, strict=True)
        }
        try:
            with _all_stopped(recorders, interruption):
                # Wait until each recorder records or has failed, while their notes are shown.
                interruption.wait_for(
                    lambda: all(
                        recorder.begun is not None or recorder.ended
                        for recorder in recorders.values()
                    ),
                    _PERIOD_SECONDS,
                )
                # From now on, without a recording here, an interruption is the regular end.
                result.interrupted = interruption.wanted
                _note_begun(state, recorders, folder, on_event)
                if here is None and not any(
                    recorder.begun is not None for recorder in recorders.values()
                ):
                    raise RunFailedError(
                        "; ".join(f"{host.name}: {host.trouble}" for host in state.hosts)
                    )
                if here is None and not result.interrupted:
                    interruption.wait_for(
                        lambda: all(recorder.ended for recorder in recorders.values()),
                        *(_PERIOD_SECONDS, time_limit),
                    )
                elif here is not None and not interruption.wanted:
                    result.recordings[HERE] = here(folder / HERE)
                else:
                    result.interrupted = True
        finally:
            for host in state.hosts:
                if not recorders[host.name].broke_off:
                    host.pid = None
                elif host.status == "begun":
                    host.trouble = "the connection broke off"
            _fetch_all(state, folder, interruption, result, on_event)
            if not result.unfetched and not any(path.is_dir() for path in folder.iterdir()):
                # Nothing was recorded on any host.
                shutil.rmtree(folder, ignore_errors=True)
    return result


def resume_hosts(folder: Path, *, on_event: OnEvent = lambda _: None) -> HostsResult:
    """Fetch recordings that are still on other hosts.

    Raises
    ------
    UsageError
        The folder has no recordings of hosts, or another roslens works on it.
    """
    state, result = read_hosts(folder), HostsResult(folder)
    with locked_folder(folder), Interruption() as interruption:
        _fetch_all(state, folder, interruption, result, on_event)
    if (folder / HERE / MANIFEST_NAME).is_file():
        result.recordings[HERE] = read_manifest(folder / HERE / MANIFEST_NAME)
    return result


def read_hosts(folder: Path) -> HostsState:
    """Read what was begun on which host.

    Raises
    ------
    UsageError
        The file is missing, or not valid.
    """
    path = folder / HOSTS_NAME
    try:
        return HostsState.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {(error.strerror or '').lower()}") from error
    except ValidationError as error:
        raise UsageError(f"{path}: is not as roslens writes it") from error


def find_hosts(root: Path, name: str | None = None) -> Path | None:
    """Find a folder of recordings of several hosts by path or name, else the last unfinished."""
    paths = sorted(
        root.glob(f"{HOSTS_SUITE}/*/{HOSTS_NAME}"), key=lambda path: path.stat().st_mtime_ns
    )
    folders = [path.parent for path in paths]
    if name is not None:
        named = [
            folder for folder in folders if name in {folder.name, f"{HOSTS_SUITE}/{folder.name}"}
        ]
        return next(iter([*(p for p in (Path(name),) if (p / HOSTS_NAME).is_file()), *named]), None)
    unfinished = (
        folder for folder in folders if any(h.status == "begun" for h in read_hosts(folder).hosts)
    )
    return max(unfinished, default=None, key=folders.index)


def _names(hosts: Sequence[Host]) -> Iterator[str]:
    """Yield a unique folder name for each host."""
    taken = {HERE}
    for host in hosts:
        name, number = host.name, 1
        while name in taken:
            number += 1
            name = f"{host.name}-{number}"
        taken.add(name)
        yield name


def _write(state: HostsState, folder: Path) -> None:
    write_atomically(folder / HOSTS_NAME, state.model_dump_json(indent=1))


def _note_begun(
    state: HostsState, recorders: dict[str, RemoteRecorder], folder: Path, on_event: OnEvent
) -> None:
    for host in state.hosts:
        recorder = recorders[host.name]
        if recorder.begun is not None:
            host.folder, host.roslens = recorder.begun.recording, recorder.begun.roslens
            host.pid = recorder.begun.pid
            if host.roslens != (own_version := version("roslens")):
                noting(on_event, host.name)(f"has roslens {host.roslens}, here is {own_version}")
        elif recorder.ended:
            host.status, host.trouble = "not begun", recorder.trouble
            noting(on_event, host.name)(recorder.trouble)
    _write(state, folder)


@contextmanager
def _all_stopped(
    recorders: dict[str, RemoteRecorder], interruption: Interruption
) -> Iterator[None]:
    try:
        yield
    finally:
        for recorder in recorders.values():
            recorder.stop()
        for recorder in recorders.values():
            recorder.wait(STOP_SECONDS, interruption)


def _fetch_all(
    state: HostsState,
    folder: Path,
    interruption: Interruption,
    result: HostsResult,
    on_event: OnEvent,
) -> None:
    """Fetch all recordings that are still elsewhere in parallel, and report the outcome."""
    wanted = [host for host in state.hosts if host.status == "begun"]
    with ThreadPoolExecutor(max(1, len(wanted))) as pool:
        list(pool.map(lambda host: _fetch_recording(host, folder, interruption), wanted))
    for host in state.hosts:
        if host.status == "fetched":
            try:
                manifest = read_manifest(folder / host.name / MANIFEST_NAME)
            except UsageError as error:
                host.trouble = str(error)
            else:
                result.recordings[host.name] = manifest
                if manifest.status == "running":
                    host.trouble = "its recorder was killed; what it had written is kept"
        elif host.status == "begun":
            result.unfetched = True
        if host.trouble is not None:
            result.troubles[host.name] = host.trouble
        if host in wanted and host.trouble is not None:
            noting(on_event, host.name)(host.trouble)
    _write(state, folder)


def _fetch_recording(host: HostState, folder: Path, interruption: Interruption) -> None:
    """Fetch one recording when its recorder has ended, and remove it there."""
    if _still_runs(host, interruption):
        host.trouble = "not fetched: its recorder still runs there"
        return
    here = folder / host.name
    try:
        # It is here already if another roslens was killed while it fetched the others.
        if not here.is_dir():
            fetch(host.destination, host.folder, here, interruption)
    except RunFailedError as error:
        host.trouble = f"not fetched: {error}"
        return
    host.status = "fetched"
    remote_folder = str(PurePosixPath(host.folder).parent)
    if not ends_well(host.destination, ["rm", "-rf", "--", remote_folder]):
        host.trouble = f"{remote_folder} could not be removed there"


def _still_runs(host: HostState, interruption: Interruption) -> bool:
    """Wait for a recorder's end; after a broken connection, the recorder notices only later."""
    asked, until = interruption.count, time.monotonic() + SILENT_SECONDS + STOP_SECONDS
    while host.pid is not None and ends_well(host.destination, ["kill", "-0", str(host.pid)]):
        if interruption.count > asked or time.monotonic() > until:
            return True
        time.sleep(_AGAIN_SECONDS)
    return False


def fetch(destination: str, there: str, here: Path, interruption: Interruption) -> None:
    """Fetch a folder; `here` appears complete or not at all.

    Parameters
    ----------
    destination
        The other host.
    there, here
        The folder on that host, and the new local folder for its content.
    interruption
        Ends the transfer early if an end is requested again.

    Raises
    ------
    RunFailedError
        The host cannot be reached, the folder is missing, the transfer broke off, or the disk is
        full.
    """
    part = here.with_name(f".{here.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    command = ssh_command(destination, ["tar", "-C", there, "-cf", "-", "."])
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        asked, trouble = interruption.count, None

        def read(size: int) -> bytes:
            if interruption.count > asked:
                raise RunFailedError("interrupted")
            assert process.stdout is not None
            return process.stdout.read(size)

        try:
            unpack_stream(read, part, "what it sent")
        except OSError as error:
            trouble = f"{part}: cannot be written: {(error.strerror or str(error)).lower()}"
        except RoslensError as error:
            trouble = str(error)
        finally:
            if trouble is not None:
                process.kill()
            status = process.wait()
            if process.stdout is not None:
                process.stdout.close()
        errors.seek(0)
        words = errors.read().decode(errors="replace").strip().splitlines() or [""]
    if status == UNREACHABLE:
        trouble = why_unreachable(words[-1], destination)
    elif status > 0:
        trouble = f"tar ended with status {status} there: {words[0]}"
    if trouble is not None:
        shutil.rmtree(part, ignore_errors=True)
        raise RunFailedError(trouble)
    part.rename(here)
