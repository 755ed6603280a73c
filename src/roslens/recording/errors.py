"""Errors that reach the user as one line, each with its exit code.

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
"""Errors of a disk that is full, or broken."""

EXIT_OK = 0
EXIT_VERDICT = 1
EXIT_USAGE = 2
EXIT_NOT_ENOUGH_EVIDENCE = 3
EXIT_FAILED = 4
EXIT_UNEXPECTED = 70
EXIT_INTERRUPTED = 130


class RoslensError(Exception):
    """Something the user can act on; its text says what, where and what to do.

    The command line prints ``str(error)`` on one line and exits with ``exit_code``.
    """

    exit_code: int = EXIT_FAILED


class UsageError(RoslensError):
    """Wrong use or unreadable input (exit code 2)."""

    exit_code = EXIT_USAGE


class TooLargeError(UsageError):
    """What others made holds more than may be taken from it."""


class RunFailedError(RoslensError):
    """Something ran, but failed or stayed incomplete (exit code 4)."""

    exit_code = EXIT_FAILED


class InterruptedRunError(RoslensError):
    """The user asked to end it (exit code 130)."""

    exit_code = EXIT_INTERRUPTED


class NotEnoughEvidenceError(RoslensError):
    """An estimate that was asked for cannot be had from what was recorded (exit code 3)."""

    exit_code = EXIT_NOT_ENOUGH_EVIDENCE


def kind_of(error: OSError) -> type[RoslensError]:
    """What an error of writing is: a full disk is no wrong use, which a missing right is."""
    # What libraries raise may have no number.
    return RunFailedError if error.errno in (None, *FULL) else UsageError


def cannot_be_written(path: Path, error: OSError) -> RoslensError:
    """What is said of a file of which `error` kept us."""
    reason = error.strerror or " ".join(str(error).split())
    return kind_of(error)(f"{path}: cannot be written: {reason}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Write files at or below `path`.

    Raises
    ------
    UsageError, RunFailedError
        They cannot be written; the second where the disk is full.
    """
    try:
        yield
    except OSError as error:
        raise cannot_be_written(path, error) from error


def lacks(package: str, extra: str) -> str:
    """That a package is missing, and the line to type for the extra that brings it."""
    return f"{package} is missing: run \"pip install 'roslens[{extra}]'\""
