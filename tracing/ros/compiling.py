"""Compile many C and C++ files in parallel: resumable, with progress, with a log."""

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
"""Memory that one compiler may need."""


@dataclass(frozen=True)
class Step:
    """A command that makes one file; it is not run if the file exists.

    Attributes
    ----------
    product
        The file, which exists either complete or not at all.
    command
        The command that makes it; the output is added as ``-o NAME``.
    """

    product: Path
    command: tuple[str, ...]


def named_compiler(variable: str, *names: str) -> list[str]:
    """Return the command in an environment variable, else the first existing name, or nothing."""
    configured = shlex.split(os.environ.get(variable, ""))
    if configured and shutil.which(configured[0]):
        return configured
    return next(([path] for name in names if (path := shutil.which(name))), [])


def find_cpp_compiler() -> list[str]:
    """Return the C++ compiler's command: ``$CXX``, else ``c++``, ``g++`` or ``clang++``.

    Raises
    ------
    RunFailedError
        There is no C++ compiler.
    """
    command = named_compiler("CXX", "c++", "g++", "clang++")
    if command:
        return command
    raise RunFailedError(
        "no C++ compiler, which rclcpp must be compiled with; install one (apt-get install g++)"
    )


def preprocessed(compiler: Sequence[str], language: str, text: str) -> str | None:
    """Preprocess a text; return None if this fails, for instance for a missing header.

    Parameters
    ----------
    language
        The language of the text: ``c`` or ``c++``.
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
    """Raise an error if less than `size` bytes are free in `folder`.

    Raises
    ------
    RunFailedError
        There is less space.
    """
    free = shutil.disk_usage(folder).free
    if free < size:
        raise RunFailedError(
            f"{folder}: {what} needs {size / 1e6:,.0f} MB there, {free / 1e6:,.0f} MB are free; "
            "make room, or set ROSLENS_CACHE to a folder on another disk"
        )


def run_steps(steps: Sequence[Step], *, what: str, log: Path, note: Callable[[str], None]) -> None:
    """Run the steps whose files do not exist, as many in parallel as cores and memory allow.

    Parameters
    ----------
    steps
        The steps, in any order: none may need another's file.
    what
        A description of the result for messages.
    log
        The file to which all output of the commands is appended.
    note
        Called now and then with a line that states how many steps are done and the time left.

    Raises
    ------
    RunFailedError
        A step failed; no further step is begun.
    """
    left = [step for step in steps if not step.product.is_file()]
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
    """Run a command, and append its output to the log.

    Raises
    ------
    RunFailedError
        The command failed; the message states its first error.
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
    temporary = step.product.with_name(f".{os.getpid()}.{step.product.name}")
    step.product.parent.mkdir(parents=True, exist_ok=True)
    # Remove the remains of a killed process.
    for torn in step.product.parent.glob(f".*.{step.product.name}"):
        torn.unlink(missing_ok=True)
    # Errors are found by their messages, which must not depend on the user's language.
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        run_logged([*step.command, "-o", str(temporary)], log, step.product.name, environment)
        temporary.replace(step.product)
    finally:
        temporary.unlink(missing_ok=True)


def _jobs() -> int:
    memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(len(os.sched_getaffinity(0)), memory // _BYTES_PER_JOB))


def _about(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"
