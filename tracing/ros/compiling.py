"""Many C and C++ files compiled side by side: resumable, with progress, with a log."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from roslens.recording import RunFailedError

_NOTE_SECONDS = 20.0
_BYTES_PER_JOB = 1 << 30
"""Of memory that one compiler may take."""


@dataclass(frozen=True)
class Step:
    """One command that makes one file; where the file is there, it is not run.

    Attributes
    ----------
    makes
        The file; it is there whole or not at all.
    command
        What makes it; the name to write to is added as ``-o NAME``.
    """

    makes: Path
    command: tuple[str, ...]


def named_compiler(variable: str, *names: str) -> list[str]:
    """The command in an environment variable, else the first of these that is there; or nothing."""
    configured = shlex.split(os.environ.get(variable, ""))
    if configured and shutil.which(configured[0]):
        return configured
    return next(([path] for name in names if (path := shutil.which(name))), [])


def find_cpp_compiler() -> list[str]:
    """The C++ compiler's command: ``$CXX``, else ``c++``, ``g++`` or ``clang++``.

    Raises
    ------
    RunFailedError
        There is none.
    """
    command = named_compiler("CXX", "c++", "g++", "clang++")
    if command:
        return command
    raise RunFailedError(
        "no C++ compiler, which rclcpp must be compiled with; install one (apt-get install g++)"
    )


def preprocessed(compiler: Sequence[str], language: str, text: str) -> str | None:
    """What the preprocessor makes of a text; None where it cannot, such as without a header.

    Parameters
    ----------
    language
        Of the text: ``c`` or ``c++``.
    """
    run = subprocess.run(
        [*compiler, "-E", "-P", "-x", language, "-"],
        input=text,
        text=True,
        capture_output=True,
        check=False,
    )
    return run.stdout if run.returncode == 0 else None


def need_space(folder: Path, size: int, what: str) -> None:
    """Refuse where less than `size` bytes are free in `folder`.

    Raises
    ------
    RunFailedError
        There are less.
    """
    free = shutil.disk_usage(folder).free
    if free < size:
        raise RunFailedError(
            f"{folder}: {what} needs {size / 1e6:,.0f} MB there, {free / 1e6:,.0f} MB are free; "
            "make room, or set ROSLENS_CACHE to a folder on another disk"
        )


def run_steps(steps: Sequence[Step], *, what: str, log: Path, note: Callable[[str], None]) -> None:
    """Run those steps whose files are not there yet, as many at once as cores and memory allow.

    Parameters
    ----------
    steps
        In any order: none may need another's file.
    what
        What they make, for people.
    log
        All that the commands say is added to it.
    note
        Called with one line now and then: how many are done, how long the rest takes.

    Raises
    ------
    RunFailedError
        One failed; no further one is begun.
    """
    left = [step for step in steps if not step.makes.is_file()]
    if not left:
        return
    total, begun, noted = len(left), time.monotonic(), time.monotonic()
    note(f"compiling {what}: {total} files")
    with ThreadPoolExecutor(_jobs()) as pool:
        waiting: set[Future[None]] = {pool.submit(_run, step, log) for step in left}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for each in done:
                    each.result()
                now = time.monotonic()
                if waiting and now - noted >= _NOTE_SECONDS:
                    finished = total - len(waiting)
                    rest = (now - begun) / finished * len(waiting)
                    note(f"compiling {what}: {finished} of {total} files, {_about(rest)} left")
                    noted = now
        finally:
            pool.shutdown(cancel_futures=True)


def run_logged(command: Sequence[str], log: Path, what: str, environment: dict[str, str]) -> None:
    """Run one command; what it says goes to the log.

    Raises
    ------
    RunFailedError
        It failed; says its first error.
    """
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        check=False,
    )
    with log.open("a", encoding="utf-8") as stream:
        stream.write(f"$ {shlex.join(command)}\n{done.stdout}")
    if done.returncode:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        signs = ("error:", "undefined reference", "no space")
        errors = [line for sign in signs[1:] + signs[:1] for line in lines if sign in line.lower()]
        first = (errors or lines[-1:] or ["it says nothing"])[0]
        raise RunFailedError(f"{what} cannot be made: {first} (all of it: {log})")


def _run(step: Step, log: Path) -> None:
    temporary = step.makes.with_name(f".{os.getpid()}.{step.makes.name}")
    step.makes.parent.mkdir(parents=True, exist_ok=True)
    # Of one that was killed.
    for torn in step.makes.parent.glob(f".*.{step.makes.name}"):
        torn.unlink(missing_ok=True)
    # Messages by which errors are found, whatever the user's language.
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        run_logged([*step.command, "-o", str(temporary)], log, step.makes.name, environment)
        temporary.replace(step.makes)
    finally:
        temporary.unlink(missing_ok=True)


def _jobs() -> int:
    memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(len(os.sched_getaffinity(0)), memory // _BYTES_PER_JOB))


def _about(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"
