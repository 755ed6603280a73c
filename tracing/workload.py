"""Start the recorded program, wait for it, and end it with all its descendants."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

from roslens.recording import UsageError
from roslens.tracing.interruption import Interruption
from roslens.tracing.processes import (
    FIRM,
    GENTLE,
    Grace,
    end_all,
    has_mark,
    is_member,
    is_running,
    marked,
    members,
)

RUN_MARK = "ROSLENS_RUN"
CHECK_SECONDS = 0.25
KILLED_SECONDS = 10.0

Ended = Literal["ended", "timeout", "interrupted", "trouble"]


def resolve_command(
    command: Sequence[str], path: str | None = None, cwd: Path | None = None
) -> list[str]:
    """Return the command with its program resolved as by a shell.

    Raises
    ------
    UsageError
        The program does not exist, or is not executable.
    """
    if not command:
        raise UsageError("no command to record; give one after '--'")
    program = command[0]
    if cwd is not None and "/" in program:
        program = str(cwd / program)
    executable = shutil.which(program, path=path)
    if executable is None:
        where = Path(program)
        if "/" in program and where.is_dir():
            raise UsageError(f"{program}: is a folder, not a program")
        if "/" in program and where.exists():
            raise UsageError(f"{program}: is not executable; chmod +x it or name its interpreter")
        place = "no such file" if "/" in program else "not found on PATH"
        raise UsageError(f"{program}: {place}; give a command that can be run after '--'")
    return [executable, *command[1:]]


class Workload:
    """A program in its own process group.

    Parameters
    ----------
    command
        The command to run.
    environment
        The complete environment.
    mark
        Value of `RUN_MARK` in the environment, by which remaining processes are found.
    cwd
        The working directory; default: ours.
    stdout, stderr
        The program's output; None: same as ours.
    stdin
        The program's input; None: same as ours.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        mark: str,
        *,
        cwd: Path | None = None,
        stdout: IO[bytes] | None = None,
        stderr: IO[bytes] | None = None,
        stdin: int | None = subprocess.DEVNULL,
    ) -> None:
        self.mark = f"{RUN_MARK}={mark}"
        self.begun_ns = time.monotonic_ns()
        try:
            self.process = subprocess.Popen(
                list(command),
                env={**environment, RUN_MARK: mark},
                cwd=cwd,
                stdout=stdout,
                stderr=stderr,
                stdin=stdin,
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(f"{command[0]}: cannot be run: {error.strerror}") from error

    @property
    def pid(self) -> int:
        """Return the process id of the program itself."""
        return self.process.pid

    @property
    def exit_status(self) -> int | None:
        """Return the program's exit status: 0 success, negative a signal, None unknown."""
        return self.process.returncode

    def processes(self) -> list[int]:
        """Return the running processes of the program's group, and those with its mark."""
        return sorted({*members(self.pid), *marked(self.mark)})

    def owns(self, pid: int) -> bool:
        """Return whether a process is one of `processes`."""
        return is_member(pid, self.pid) or has_mark(pid, self.mark)

    def wait(
        self,
        seconds: float | None,
        interruption: Interruption,
        check: Callable[[], str | None] = lambda: None,
    ) -> tuple[Ended, str | None]:
        """Wait until the program ends.

        Parameters
        ----------
        seconds
            The time limit; None: no limit.
        interruption
            Ends the waiting.
        check
            Called four times a second; a returned text ends the waiting.

        Returns
        -------
        tuple
            How the waiting ended, and the text returned by `check`.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(interruption, selectors.EVENT_READ)
            pidfd = None
            with suppress(OSError, AttributeError):
                pidfd = os.pidfd_open(self.pid)
                selector.register(pidfd, selectors.EVENT_READ)
            try:
                while True:
                    if self.process.poll() is not None:
                        return "ended", None
                    if interruption.wanted:
                        return "interrupted", None
                    if deadline is not None and time.monotonic() >= deadline:
                        return "timeout", None
                    trouble = check()
                    if trouble is not None:
                        return "trouble", trouble
                    left = CHECK_SECONDS if deadline is None else deadline - time.monotonic()
                    step = CHECK_SECONDS if pidfd is not None else CHECK_SECONDS / 10
                    selector.select(max(0.0, min(step, left)))
                    interruption.drain()
            finally:
                if pidfd is not None:
                    os.close(pidfd)

    def end(self, interruption: Interruption | None = None) -> list[int]:
        """End the program and all that it started; return what was left besides the program.

        It sends SIGINT as a terminal does, so that ROS programs end cleanly; then SIGTERM, then
        SIGKILL. If the program has already ended by itself, its remaining processes get less time.
        """
        ended_itself = self.process.poll() is not None
        graces: tuple[Grace, ...] = FIRM if ended_itself else GENTLE
        left = [pid for pid in self.processes() if pid != self.pid]
        urgency = interruption.count if interruption is not None else 0
        end_all(
            self.processes,
            graces,
            hurry=lambda: interruption is not None and interruption.count > max(1, urgency),
            reap=self.process.poll,
        )
        if self.process.poll() is None:
            # It was killed, which may take some time on a busy machine.
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(KILLED_SECONDS)
        return left if ended_itself else [pid for pid in left if is_running(pid)]


def describe_exit(status: int) -> str:
    """Describe an exit status in words."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
