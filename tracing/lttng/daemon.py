"""Provide the session daemon that records: by default a private one, ended after use.

Programs register with every daemon they can reach, and a session records all programs of its
user. On a shared daemon, two simultaneous recordings would therefore record each other's
programs. A private daemon is reached only by programs that have its ``LTTNG_HOME``.

For root, LTTng's directory is fixed (``/var/run/lttng``). The private daemon and the ``lttng``
commands therefore run in a mount namespace in which this directory is private; the workload does
not. If no namespace can be made (root in a container without CAP_SYS_ADMIN), the machine's daemon
is used, started if none runs, and recordings take turns.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from roslens.recording import InterruptedRunError, RunFailedError
from roslens.recording.scratch import scratch_folder
from roslens.tracing.guard import guarded
from roslens.tracing.interruption import Interruption
from roslens.tracing.lttng.kernel import in_tracing_group
from roslens.tracing.lttng.tool import LttngTool, find_program
from roslens.tracing.processes import FIRM, end_all, end_process, marked

MARKER = "ROSLENS_TOKEN"
"""Environment variable that marks all processes that must not outlive the recording."""

GLOBAL_FOLDER = Path("/var/run/lttng")
CLIENT_SOCKET = "client-lttng-sessiond"
PROGRAMS_SOCKETS = "lttng-ust-sock-*"
START_SECONDS = 10.0
_TURN_SECONDS = 0.1
_HOME = "roslens-lttng-"
_LONGEST_HOME = 60  # at most 107 bytes fit in a Unix socket's path, LTTng's longest name has 45
_PRIVATE_MOUNT = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'

Progress = Callable[[str], None]


@dataclass
class SessionDaemon:
    """A running session daemon.

    Attributes
    ----------
    kind
        ``private``: only programs with `workload_variables` reach it; ``shared``: the machine's
        daemon.
    tool
        Calls ``lttng`` so that it reaches this daemon.
    session_name
        The name of sessions, used by no other recorder.
    token
        Value of `MARKER` for all processes of the recording.
    workload_variables
        Environment variables that the recorded programs need.
    kernel
        Whether the daemon can trace the kernel.
    notes
        Notes for the user, such as why the kernel is not traced.
    """

    kind: Literal["private", "shared"]
    tool: LttngTool
    session_name: str
    token: str
    workload_variables: dict[str, str]
    kernel: bool = False
    notes: list[str] = field(default_factory=list)
    home: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    log: Path | None = None

    def is_alive(self) -> bool:
        """Return whether the daemon still runs."""
        if self.process is not None:
            return self.process.poll() is None
        return answers(_shared_folder() / CLIENT_SOCKET)

    def complaints(self, since: int = 0) -> tuple[list[str], int]:
        """Return errors in the daemon's log after position `since`, and the new position."""
        if self.log is None:
            return [], since
        try:
            with self.log.open("rb") as stream:
                stream.seek(since)
                text = stream.read()
        except OSError:
            return [], since
        lines = text.decode(errors="replace").splitlines()
        # The daemon asks for more open files than a container allows, and continues without them.
        errors = [
            line for line in lines if "rror" in line.lower() and "open files limit" not in line
        ]
        return errors, since + len(text)


@contextmanager
def session_daemon(
    *,
    kernel: bool = False,
    machine: bool = False,
    progress: Progress | None = None,
    hold: Sequence[int] = (),
) -> Iterator[SessionDaemon]:
    """Yield a session daemon for as long as the context lasts, private if possible.

    Parameters
    ----------
    kernel
        Whether the daemon is to trace the kernel, which `why_no_kernel_tracing` allows.
    machine
        Use the machine's daemon, so that programs that already run are recorded.
    progress
        Called with a line when something takes long.
    hold
        Descriptors kept open until everything is cleaned up, even if this process is killed.

    Raises
    ------
    UsageError
        LTTng is not installed.
    RunFailedError
        No daemon runs and none can be started.
    """
    find_program("lttng")
    progress = progress or (lambda _: None)
    with ExitStack() as stack:
        yield _choose(stack, progress, kernel=kernel, machine=machine, hold=hold)


def _choose(
    stack: ExitStack, progress: Progress, *, kernel: bool, machine: bool, hold: Sequence[int]
) -> SessionDaemon:
    token = secrets.token_hex(6)
    notes: list[str] = []
    as_root = os.geteuid() == 0
    if machine:
        return stack.enter_context(_shared(token, kernel and as_root, notes, progress, hold))
    if kernel and not as_root:
        # Only root's daemon can trace the kernel; the group 'tracing' may use it.
        if answers(GLOBAL_FOLDER / CLIENT_SOCKET):
            return stack.enter_context(_shared(token, True, notes, progress, hold))
        notes.append("no kernel trace: no session daemon of root runs")
        kernel = False
    reason = "lttng-sessiond is not on PATH"
    if shutil.which("lttng-sessiond") is not None:
        try:
            return stack.enter_context(_private(token, kernel, notes, hold))
        except _NotPrivateError as error:
            reason = str(error)
    if answers(_shared_folder() / CLIENT_SOCKET) or as_root:
        return stack.enter_context(_shared(token, kernel, notes, progress, hold))
    raise RunFailedError(f"no LTTng session daemon runs and none can be started: {reason}")


class _NotPrivateError(Exception):
    """No private daemon can be started."""


# ------------------------------------------------------------------ private


@contextmanager
def _private(
    token: str, kernel: bool, notes: list[str], hold: Sequence[int]
) -> Iterator[SessionDaemon]:
    with ExitStack() as stack:
        home = _private_home(stack)
        variables = {"LTTNG_HOME": str(home), MARKER: token}
        stack.enter_context(guarded(f"{MARKER}={token}", home, hold=hold))
        folder = home / ".lttng"
        folder.mkdir()
        log = home / "sessiond.log"
        # The daemon would listen to Java and Python agents; its only allowed port is taken, so it
        # cannot.
        taken = stack.enter_context(socket.socket())
        taken.bind(("127.0.0.1", 0))
        options = ["--agent-tcp-port", str(taken.getsockname()[1])]
        options += [] if kernel else ["--no-kernel"]
        process = _start(_private_prefix(folder), options, variables, log)
        stack.callback(_end, process, token)
        _wait_until_answers(folder, process, log)
        enter: tuple[str, ...] = ()
        if os.geteuid() == 0:
            target = ("--target", str(process.pid), "--mount", f"--wd={Path.cwd()}", "--")
            enter = ("nsenter", *target)
        tool = LttngTool(
            prefix=enter,
            variables=variables,
            # No group has this name: otherwise members of 'tracing' would be sent to root's daemon.
            arguments=("--group", f"roslens-{token}"),
        )
        yield SessionDaemon(
            kind="private",
            tool=tool,
            session_name=f"roslens-{token}",
            token=token,
            workload_variables=variables,
            kernel=kernel,
            notes=notes,
            home=home,
            process=process,
            log=log,
        )


def _private_home(stack: ExitStack) -> Path:
    candidates = (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp")  # noqa: S108
    for parent in candidates:
        if parent and len(parent) + len(f"/{_HOME}12345678") <= _LONGEST_HOME:
            with suppress(OSError):
                return stack.enter_context(scratch_folder(Path(parent), _HOME)).resolve()
    raise RunFailedError(
        "no LTTng session daemon can be started: no folder for it can be made in "
        f"{tempfile.gettempdir()}; free space there or set TMPDIR"
    )


def _private_prefix(folder: Path) -> list[str]:
    if os.geteuid() != 0:
        return []
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        raise _NotPrivateError("unshare and nsenter (util-linux) are not installed")
    target = GLOBAL_FOLDER.resolve()
    try:
        target.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise _NotPrivateError(f"{target} cannot be made: {error.strerror}") from error
    # 'slave': later mounts, such as an external disk, are visible inside, too.
    unshare = ["unshare", "--mount", "--propagation", "slave", "--"]
    return [*unshare, "sh", "-c", _PRIVATE_MOUNT, "sh", str(folder), str(target)]


def _start(
    prefix: list[str], options: list[str], variables: dict[str, str], log: Path
) -> subprocess.Popen[bytes]:
    command = [*prefix, find_program("lttng-sessiond"), *options]
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    stream: IO[bytes]
    with log.open("wb") as stream:
        return subprocess.Popen(
            command,
            env={**environment, "LC_ALL": "C", **variables},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            cwd="/",
        )


def _end(process: subprocess.Popen[bytes], token: str) -> None:
    end_process(process, 5.0)
    # The daemon's consumers end with it, but not always if it was killed.
    end_all(lambda: marked(f"{MARKER}={token}"), FIRM)


def _wait_until_answers(folder: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not (answers(folder / CLIENT_SOCKET) and any(folder.glob(PROGRAMS_SOCKETS))):
        if process.poll() is not None or time.monotonic() > deadline:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            lines = [line for line in lines if "open files limit" not in line]
            raise _NotPrivateError(lines[-1].strip() if lines else "lttng-sessiond does not start")
        time.sleep(0.005)


# ------------------------------------------------------------------ shared


@contextmanager
def _shared(
    token: str, kernel: bool, notes: list[str], progress: Progress, hold: Sequence[int]
) -> Iterator[SessionDaemon]:
    folder = _shared_folder()
    name = f"roslens-{token}"
    variables = {MARKER: token}
    with ExitStack() as stack:
        stack.enter_context(_turn(folder, progress))
        process, log = None, None
        if not answers(folder / CLIENT_SOCKET):
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="roslens-")))
            stack.enter_context(guarded(f"{MARKER}={token}", scratch, hold=hold))
            log = scratch / "sessiond.log"
            process = _start([], [] if kernel else ["--no-kernel"], variables, log)
            stack.callback(_end, process, token)
            try:
                _wait_until_answers(folder, process, log)
            except _NotPrivateError as error:
                raise RunFailedError(
                    f"no LTTng session daemon runs and none can be started: {error}"
                ) from error
        else:
            destroy = (find_program("lttng"), "--no-sessiond", "destroy", name)
            stack.enter_context(guarded(f"{MARKER}={token}", None, destroy, hold))
        notes.append(
            "the machine's session daemon recorded: programs that others ran meanwhile as the "
            "same user may be in the trace"
        )
        yield SessionDaemon(
            kind="shared",
            tool=LttngTool(),
            session_name=name,
            token=token,
            workload_variables=variables,
            kernel=kernel,
            notes=notes,
            process=process,
            log=log,
        )


@contextmanager
def _turn(folder: Path, progress: Progress) -> Iterator[None]:
    """Wait until no other roslens records with the shared daemon."""
    path = Path(tempfile.gettempdir()) / f"roslens-{os.getuid()}.lock"
    with path.open("a") as stream:

        def is_ours() -> bool:
            with suppress(BlockingIOError):
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            return False

        if not is_ours():
            with Interruption() as interruption:
                progress(
                    f"another roslens records with the session daemon in {folder}: waiting for it"
                )
                interruption.wait_for(is_ours, _TURN_SECONDS)
                if interruption.wanted:
                    raise InterruptedRunError(f"{interruption.reason} while waiting for its end")
        yield


def _shared_folder() -> Path:
    own_folder = Path(os.environ.get("LTTNG_HOME") or os.environ.get("HOME") or "/") / ".lttng"
    if os.geteuid() == 0:
        return GLOBAL_FOLDER
    if in_tracing_group() and answers(GLOBAL_FOLDER / CLIENT_SOCKET):
        return GLOBAL_FOLDER
    return own_folder


def answers(path: Path) -> bool:
    """Return whether a process accepts connections at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(2.0)
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True
