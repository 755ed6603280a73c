"""The command line: parses, calls, prints; every verb ends with a documented exit code."""

from __future__ import annotations

import io
import itertools
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import rich.console
from cyclopts import CycloptsError, UnusedCliTokensError

# Each adds its commands to the application.
from roslens.cli import dev, judge, look, record, report, share  # noqa: F401
from roslens.cli.app import app
from roslens.recording import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_UNEXPECTED,
    EXIT_USAGE,
    RoslensError,
    UsageError,
)
from roslens.recording.errors import FULL, kind_of, lacks
from roslens.recording.terminal import say_no_more
from roslens.recording.text import shown

__all__ = ["app", "main"]

_EXTRAS = {
    **dict.fromkeys(("jinja2", "matplotlib", "mcap", "PIL", "scipy"), "report"),
    **dict.fromkeys(("ipykernel", "jupyter_client", "jupyter_core", "papermill"), "report"),
    **dict.fromkeys(("nbclient", "nbconvert", "nbformat"), "report"),
    **dict.fromkeys(("anywidget", "ipywidgets", "jupyterlab", "pandas", "pyarrow"), "lab"),
    **dict.fromkeys(("anyio", "mcp"), "mcp"),
    **dict.fromkeys(("opentelemetry", "prometheus_client"), "live"),
    "duckdb": "sql",
    "numpy": "numpy",
}
"""What verbs import and a plain installation lacks, with the extra that brings it."""


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
        with _interrupts():
            app(arguments, exit_on_error=False, print_error=False, result_action="sys_exit")
    except CycloptsError as error:
        command = " ".join(["roslens", *(error.command_chain or ())])
        text = " ".join(str(error).split())
        if isinstance(error, UnusedCliTokensError):
            text = f"too much is given: {' '.join(error.unused_tokens or ())}"
        _fail(f"{text} (see '{command} --help')", EXIT_USAGE)
    except RoslensError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError as broken:
        # The reader of our output has gone ('| head'); nothing is wrong.
        say_no_more(sys.stdout)
        ended = broken.__context__
        sys.exit(ended.code if isinstance(ended, SystemExit) else 0)
    except OSError as error:
        _fail_of_system(error)
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001  (a panic of native code is no Exception)
        _fail_of_defect(error)
    sys.exit(0)


@contextmanager
def _interrupts() -> Iterator[None]:
    """Whatever error native code (pydantic, polars) makes of Ctrl-C within it, it is Ctrl-C."""
    came = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        came.append(number)
        signal.default_int_handler(number, frame)

    def on_unraisable(lost: sys.UnraisableHookArgs) -> None:
        # Native code that cannot pass it on fails instead, and that is reported.
        if not (came and lost.exc_type is KeyboardInterrupt):
            sys.__unraisablehook__(lost)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, on_signal)
    before, sys.unraisablehook = sys.unraisablehook, on_unraisable
    try:
        yield
    except SystemExit:
        raise
    except BaseException as error:
        if came:
            raise KeyboardInterrupt from error
        raise
    finally:
        sys.unraisablehook = before
        if signal.getsignal(signal.SIGINT) is on_signal:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdout.flush()


def _no_empty(arguments: Sequence[str]) -> None:
    """An empty argument would be the working folder; a recorded command may have some."""
    own_arguments = itertools.takewhile(lambda argument: argument != "--", arguments)
    if any(not argument.strip() for argument in own_arguments):
        raise UsageError("an argument is empty: is a variable of the shell not set?")


def _fail_of_system(error: OSError) -> NoReturn:
    if error.filename is not None:
        text = f"{os.fsdecode(error.filename)}: {(error.strerror or '').lower()}"
        _fail(text, kind_of(error).exit_code)
    if error.errno not in FULL:
        _fail(_unexpected(error), EXIT_UNEXPECTED)
    # Files tell their names: this is the standard output.
    say_no_more(sys.stdout)
    _fail(f"the output cannot be written: {error.strerror}", EXIT_FAILED)


def _fail_of_defect(error: BaseException) -> NoReturn:
    """Of roslens itself, unless only an extra is missing."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if (extra := _EXTRAS.get(name)) is not None:
        _fail(lacks(name, extra), EXIT_USAGE)
    _fail(_unexpected(error), EXIT_UNEXPECTED)


def _unexpected(error: BaseException) -> str:
    """Keep the traceback of an error that nobody foresaw; what to say of it."""
    import tempfile  # noqa: PLC0415  (only in need)
    import traceback  # noqa: PLC0415

    text = " ".join(str(error).split())[:200]
    message = f"unexpected {type(error).__name__}: {text}; this is an error of roslens itself"
    try:
        # Readable to its owner alone: a traceback may hold what a trace does.
        descriptor, name = tempfile.mkstemp(prefix="roslens-", suffix=".traceback")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(traceback.format_exception(error))
    except OSError as full:
        return f"{message} (its traceback cannot be kept: {full.strerror})"
    return f"{message}; its traceback is in {name}"


def _goes_on_unheard(console: rich.console.Console) -> None:
    """Let a command end as it would if somebody read what it prints."""
    console.quiet = True
    say_no_more(console.file)


def _fail(message: str, code: int) -> NoReturn:
    # Plain print: a terminal must not wrap or colour what scripts match.
    print(f"roslens: error: {shown(message)}", file=sys.stderr)
    sys.exit(code)
