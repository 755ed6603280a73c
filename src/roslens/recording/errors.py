"""Define errors that reach the user as one line, each with its exit code.

Every verb ends with one of these codes: 0 done; 1 a verdict failed; 2 wrong use or
unreadable input; 3 not enough evidence; 4 ran, but failed or incomplete; 70 an error of roslens
itself, its traceback kept in a file; 130 interrupted.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Error numbers of a full or broken disk."""

EXIT_OK = 0
EXIT_VERDICT = 1
EXIT_USAGE = 2
EXIT_NOT_ENOUGH_EVIDENCE = 3
EXIT_FAILED = 4
EXIT_UNEXPECTED = 70
EXIT_INTERRUPTED = 130


class RoslensError(Exception):
    """An error that the user can act on; its text says what, where and what to do.

    The command line prints ``str(error)`` on one line and exits with ``exit_code``.
    """

    exit_code: int = EXIT_FAILED


class UsageError(RoslensError):
    """Wrong use or unreadable input (exit code 2)."""

    exit_code = EXIT_USAGE


class TooLargeError(UsageError):
    """A foreign file contains more than may be read from it."""


class RunFailedError(RoslensError):
    """A run failed or stayed incomplete (exit code 4)."""

    exit_code = EXIT_FAILED


class InterruptedRunError(RoslensError):
    """The user asked to end the program (exit code 130)."""

    exit_code = EXIT_INTERRUPTED


class NotEnoughEvidenceError(RoslensError):
    """A requested estimate cannot be computed from what was recorded (exit code 3)."""

    exit_code = EXIT_NOT_ENOUGH_EVIDENCE


def kind_of(error: OSError) -> type[RoslensError]:
    """Return the class of a write error: a full disk is not wrong use, a missing permission is."""
    # Errors that libraries raise may have no number.
    return RunFailedError if error.errno in (None, *FULL) else UsageError


def cannot_be_written(path: Path, error: OSError) -> RoslensError:
    """Return an error that says why a file cannot be written."""
    reason = error.strerror or " ".join(str(error).split())
    return kind_of(error)(f"{path}: cannot be written: {reason}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Write files at or below `path`.

    Raises
    ------
    UsageError, RunFailedError
        The files cannot be written; RunFailedError if the disk is full.
    """
    try:
        yield
    except OSError as error:
        raise cannot_be_written(path, error) from error


@contextmanager
def failing(what: str, advice: str = "") -> Iterator[None]:
    """Do something that the operating system may refuse, such as ``FOLDER: cannot be written``.

    Raises
    ------
    UsageError, RunFailedError
        It refuses; the message is `what`, the reason, and `advice`.
    """
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise kind_of(error)(f"{what}: {reason}{advice}") from error


def lacks(package: str, extra: str) -> str:
    """Return the message that a package is missing, with the command to install its extra."""
    return f"{package} is missing: run \"pip install 'roslens[{extra}]'\""
