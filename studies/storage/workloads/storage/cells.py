"""Provide configurations, sizes and the place to write to for runs of the storage suites."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from roslens.recording import RoslensError, RunFailedError, UsageError
from roslens.recording.scratch import scratch_folder

PREFIX = "roslens-storage-"
PROGRAMS_VARIABLE = "ROSLENS_STORAGE_PROGRAMS"
RAM_DISK = "/dev/shm"  # noqa: S108 (the RAM disk of every Linux)
ROOM = 4
"""Bytes of a recording per byte of messages, for small messages in SQLite with its log."""
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "B": 1, "": 1}
_FILES = Path(__file__).resolve().parent / "rosbag2" / "configurations"
_PRESETS = {
    "sqlite_default": ("sqlite3", ""),
    "sqlite_resilient": ("sqlite3", "resilient"),
    "mcap_default": ("mcap", ""),
    "mcap_fastwrite": ("mcap", "fastwrite"),
    "mcap_zstd_fast": ("mcap", "zstd_fast"),
    "mcap_zstd_small": ("mcap", "zstd_small"),
}


def run_cell(suite: str, place: Path, work: Callable[[Path], int]) -> int:
    """Run one cell of a suite in a folder of its own in `place`; return the exit status.

    A signal N ends it with 128 + N, an error with its exit code and one line that names the
    problem.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    if PROGRAMS_VARIABLE not in os.environ:
        return failed(suite, f"run it as 'roslens record --suite {suite}'", 2)
    if not place.is_dir():
        return failed(suite, f"{place}: no such folder; give a RAM disk with --place", 2)
    try:
        with scratch_folder(place, PREFIX) as scratch:
            return work(scratch)
    except RoslensError as error:
        return failed(suite, str(error), error.exit_code)
    except OSError as error:
        return failed(suite, f"{error.filename or place}: {error.strerror}", 4)


def failed(suite: str, text: str, code: int) -> int:
    """Print why a run failed; return its exit status."""
    print(f"{suite}: error: {text}", file=sys.stderr)
    return code


def plugin_of(config: str, also: str = "") -> tuple[str, str, str]:
    """Return storage plugin, preset and configuration file (or empty) of a named configuration.

    Parameters
    ----------
    also
        Further configurations that the caller supports, as text for the error message.

    Raises
    ------
    UsageError
        There is no configuration of that name.
    """
    file = _FILES / f"{config}.yaml"
    if config in _PRESETS:
        return *_PRESETS[config], ""
    if file.is_file():
        return "mcap" if config.startswith("mcap") else "sqlite3", "", str(file)
    raise UsageError(
        f"unknown configuration {config!r} of rosbag2's plugins; there are {', '.join(_PRESETS)} "
        f"and the files of {_FILES}{also}"
    )


def bytes_of(name: str, text: str) -> int:
    """Return the size that the option `name` gives, such as 1024, 64KiB or 10MiB.

    Raises
    ------
    UsageError
        The text is no size of at least one byte.
    """
    digits = text.rstrip("KMGiB")
    unit = _UNITS.get(text[len(digits) :])
    if unit is None or not digits.isdecimal() or int(digits) == 0:
        raise UsageError(f"--{name} {text}: is not a size such as 1024, 64KiB or 10MiB")
    return int(digits) * unit


def need_room(place: Path, wanted: float, instead: str) -> None:
    """Refuse a place with too few free bytes; `instead` names the alternative to making room.

    Raises
    ------
    RunFailedError
        The place has fewer than `wanted` free bytes.
    """
    usage = shutil.disk_usage(place)
    # A ramfs has no limit and reports 0.
    if usage.total and usage.free < wanted:
        raise RunFailedError(
            f"{place}: {usage.free >> 20} MiB free, {wanted / 2**20:.0f} MiB needed; make room or "
            f"{instead}"
        )


def checked_place(scratch: Path, total: int, *, any_disk: bool | None = None) -> str:
    """Return the file system of a folder to record into, if it is a RAM disk with enough room.

    Parameters
    ----------
    scratch
        A folder in the place that the user gave.
    total
        Bytes of all messages.
    any_disk
        Whether ``--any_disk`` accepts other disks; None if there is no such option.

    Raises
    ------
    UsageError
        The place is no RAM disk.
    RunFailedError
        There is less room than `ROOM` times the bytes.
    """
    disk = file_system(scratch)
    if disk not in {"tmpfs", "ramfs"} and not any_disk:
        accept = "" if any_disk is None else ", or accept with --any_disk True"
        raise UsageError(
            f"{scratch.parent}: no RAM disk (tmpfs), so a disk would be measured and not the "
            f"library; mount one (mount -t tmpfs tmpfs FOLDER), give it with --place{accept}"
        )
    need_room(scratch, ROOM * total, "write less (--bytes)")
    return disk


def file_system(place: Path) -> str:
    """Return text such as ``tmpfs``, or ``ext4 on sda1 (rotating)``, by proc(5) and sysfs."""
    place = place.resolve()
    mounts = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        _, _, device, _, point, *_ = before.split(" ")
        if place.is_relative_to(point):
            mounts.append((len(point), device, after.split(" ")[0]))
    # Of nested mounts the innermost counts, of mounts at one point the last.
    _, device, kind = max(reversed(mounts), key=lambda mount: mount[0])
    try:
        block = Path("/sys/dev/block", device).resolve(strict=True)
    except OSError:
        return kind
    # A partition uses the queue of its disk.
    for folder in (block, block.parent):
        with suppress(OSError):
            rotating = (folder / "queue/rotational").read_text().strip() == "1"
            return f"{kind} on {block.name} ({'' if rotating else 'not '}rotating)"
    return f"{kind} on {block.name}"
