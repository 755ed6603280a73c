"""The program that is recorded: started, waited for, ended with all that it started."""

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
    """The command with its program found as a shell would.

    Raises
    ------
    UsageError
        There is no such program, or it is not executable.
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
    """A program in a process group of its own.

    Parameters
    ----------
    command
        What to run.
    environment
        Its whole environment.
    mark
        Value of `RUN_MARK` in it, by which what it leaves behind is found.
    cwd
        Its working directory; ours by default.
    stdout, stderr
        Where its output goes; None: where ours goes.
    stdin
        Where its input comes from; None: from where ours does.
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
        """The process id of the program itself."""
        return self.process.pid

    @property
    def exit_status(self) -> int | None:
        """The program's: 0 done, negative a signal, None not known."""
        return self.process.returncode

    def processes(self) -> list[int]:
        """What runs of it: its group, and what carries its mark."""
        return sorted({*members(self.pid), *marked(self.mark)})

    def owns(self, pid: int) -> bool:
        """Whether a process is one of `processes`."""
        return is_member(pid, self.pid) or has_mark(pid, self.mark)

    def wait(
        self,
        seconds: float | None,
        interruption: Interruption,
        check: Callable[[], str | None] = lambda: None,
    ) -> tuple[Ended, str | None]:
        """Wait for the program's end.

        Parameters
        ----------
        seconds
            The time limit; None for none.
        interruption
            Ends the waiting.
        check
            Asked four times a second; a text ends the waiting.

        Returns
        -------
        tuple
            How the waiting ended, and the text of `check`.
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
        """End the program and all that it started; what was left besides the program itself.

        Asks with SIGINT as a terminal does, so that ROS programs end in order; then SIGTERM,
        then SIGKILL. Once the program has ended by itself, what it left is not asked so long.
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
            # It was killed; a busy machine may take its time over that.
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(KILLED_SECONDS)
        return left if ended_itself else [pid for pid in left if is_running(pid)]


def describe_exit(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
