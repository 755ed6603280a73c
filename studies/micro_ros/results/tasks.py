"""Stacks of an RTOS' tasks, as FreeRTOS' ``vTaskList`` prints them, and logs of an allocator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from roslens.collectors.results.tool_result import read_text
from roslens.recording import UsageError

TASKS = pl.Schema(
    {
        "task": pl.String,
        "total_bytes": pl.Int64,  # null where the size of the stack is not known
        "free_bytes": pl.Int64,  # never used: the high-water mark
        "used_bytes": pl.Int64,
    }
)

WORD_BYTES = 4
"""High-water marks count words of StackType_t: 4 bytes on 32-bit processors."""

_LINE = re.compile(
    r"(?P<task>\S[^\t]*?)\s+(?P<state>[XRBSD])\s+(?P<priority>\d+)\s+(?P<free>\d+)\s+(?P<number>\d+)"
    r"(\s+-?\w+)?"
)


def read_tasks(path: Path, stack_words: Mapping[str, int]) -> pl.DataFrame:
    """Read the lines of ``vTaskList``: name, state, priority, words never used, number.

    Parameters
    ----------
    stack_words
        Words of each task's stack, which the list does not tell; a task that is not named has
        only its free bytes.

    Raises
    ------
    UsageError
        It cannot be read, a line is cut off or mixed with another, a task is there twice, or more
        words are free than there are.
    """
    lines = read_text(path).splitlines()
    rows: dict[str, tuple[str, int | None, int, int | None]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise UsageError(
                f"{path}, line {number}: '{line.strip()[:60]}' is no line of vTaskList (name, "
                "state, priority, words, number); cut off, or mixed with other output?"
            )
        task, free = found["task"], int(found["free"])
        if task in rows:
            raise UsageError(
                f"{path}, line {number}: task '{task}' twice; keep one list per file, the last "
                "before the end"
            )
        total = stack_words.get(task)
        if total is not None and free > total:
            raise UsageError(
                f"{path}, line {number}: {free} words of task '{task}' are free, of {total}: are "
                "they bytes, or is the stack's size of another task?"
            )
        rows[task] = (
            task,
            None if total is None else total * WORD_BYTES,
            free * WORD_BYTES,
            None if total is None else (total - free) * WORD_BYTES,
        )
    if not rows:
        raise UsageError(f"{path}: names no task")
    return pl.DataFrame(list(rows.values()), schema=TASKS, orient="row")


_HEAP_LINE = re.compile(
    r"@ (?P<where>[^@]*?) ?(?P<what>[-+<>!]) (?P<address>0x[0-9a-fA-F]+|\(nil\))"
    r"(?: (?P<size>0x[0-9a-fA-F]+|0))?"
)


@dataclass(frozen=True)
class HeapLog:
    """What a program asked of its allocator.

    Attributes
    ----------
    requested_bytes
        Over all allocations; of a reallocation the new size.
    allocations, releases
        Calls.
    peak_bytes
        The most that were live at once.
    live_bytes
        Still live in the end; must be 0.
    live_by_caller
        Live bytes in the end by the place that asked for them.
    """

    requested_bytes: int
    allocations: int
    releases: int
    peak_bytes: int
    live_bytes: int
    live_by_caller: dict[str, int]


def read_heap(path: Path) -> HeapLog:
    """Read a log in the format of glibc's mtrace (mtrace(3)), which any RTOS can write.

    ``= Start``, then a line per call: ``@ WHERE + ADDRESS SIZE`` allocated, ``@ WHERE - ADDRESS``
    released, ``@ WHERE < ADDRESS`` and ``@ WHERE > ADDRESS SIZE`` before and after a reallocation,
    ``@ WHERE ! ADDRESS SIZE`` a reallocation that failed; ``= End``. Numbers are hexadecimal.

    Raises
    ------
    UsageError
        It cannot be read, is cut off (no ``= End``), holds what is no call, releases what was
        not allocated, or allocates what is still live: then lines are missing or mixed.
    """
    state = _State()
    for number, line in enumerate(_calls(path), 2):
        found = _HEAP_LINE.fullmatch(line)
        if found is None or (found["size"] is None) == (found["what"] in "+>!"):
            raise UsageError(
                f"{path}, line {number}: '{line[:60]}' is no call of an allocator; lines of two "
                "tasks are mixed, or the log is cut off"
            )
        address = 0 if found["address"] == "(nil)" else int(found["address"], 16)
        wrong = state.take(found["what"], address, int(found["size"] or "0", 16), found["where"])
        if wrong:
            raise UsageError(
                f"{path}, line {number}: {address:#x} {wrong}: lines are missing or mixed"
            )
    return state.log()


@dataclass
class _State:
    """The heap as far as the log has been read."""

    live: dict[int, tuple[int, str]] = field(default_factory=dict)
    requested: int = 0
    allocations: int = 0
    releases: int = 0
    held: int = 0
    peak: int = 0

    def take(self, what: str, address: int, size: int, where: str) -> str | None:
        """Take in a call; what is wrong with it."""
        # A reallocation that failed; free(NULL), realloc(NULL, ...).
        if what == "!" or (what in "-<" and address == 0):
            return None
        if what in "-<":
            if address not in self.live:
                return "is released but was not allocated"
            self.held -= self.live.pop(address)[0]
            self.releases += what == "-"
            return None
        if address in self.live:
            return "is allocated while it is still live"
        self.live[address] = (size, where)
        self.requested += size
        self.allocations += 1
        self.held += size
        self.peak = max(self.peak, self.held)
        return None

    def log(self) -> HeapLog:
        by_caller: Counter[str] = Counter()
        for size, where in self.live.values():
            by_caller[where] += size
        return HeapLog(
            self.requested, self.allocations, self.releases, self.peak, self.held, dict(by_caller)
        )


def _calls(path: Path) -> list[str]:
    """The lines between ``= Start`` and ``= End``."""
    text = read_text(path).rstrip()
    lines = [line.strip() for line in text.splitlines()]
    if not lines or lines[0] != "= Start":
        raise UsageError(f"{path}: does not begin with '= Start'; no log of mtrace, or cut off")
    if lines[-1] != "= End":
        raise UsageError(
            f"{path}: does not end with '= End': the log is cut off, and what was live at exit is "
            "not known"
        )
    return lines[1:-1]
