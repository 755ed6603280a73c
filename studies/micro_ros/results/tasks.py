"""Read stacks of RTOS tasks, as FreeRTOS' ``vTaskList`` prints them, and logs of an allocator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from roslens.collectors.results.tool_result import read_text
from roslens.recording import UsageError

WORD_BYTES = 4
"""High-water marks count words of StackType_t: 4 bytes on 32-bit processors."""

_LINE = re.compile(
    r"(?P<task>\S[^\t]*?)\s+(?P<state>[XRBSD])\s+(?P<priority>\d+)\s+(?P<free>\d+)\s+(?P<number>\d+)"
    r"(\s+-?\w+)?"
)


def read_tasks(path: Path, stack_words: Mapping[str, int]) -> dict[str, int | None]:
    """Read the lines of ``vTaskList``: name, state, priority, words never used, number.

    Parameters
    ----------
    stack_words
        Size of each task's stack in words, which the list does not contain.

    Returns
    -------
    Bytes of its stack that each task used; None where the size of the stack is not known.

    Raises
    ------
    UsageError
        The file cannot be read, a line is cut off or mixed with another, a task is repeated, or
        more words are free than the stack has.
    """
    lines = read_text(path).splitlines()
    used: dict[str, int | None] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise UsageError(
                f"{path}, line {number}: '{line.strip()[:60]}' is no line of vTaskList (name, "
                "state, priority, words, number); cut off, or mixed with other output?"
            )
        task, free = match["task"], int(match["free"])
        if task in used:
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
        used[task] = None if total is None else (total - free) * WORD_BYTES
    if not used:
        raise UsageError(f"{path}: names no task")
    return used


_HEAP_LINE = re.compile(
    r"@ (?P<where>[^@]*?) ?(?P<what>[-+<>!]) (?P<address>0x[0-9a-fA-F]+|\(nil\))"
    r"(?: (?P<size>0x[0-9a-fA-F]+|0))?"
)


@dataclass
class HeapLog:
    """Requests of a program to its allocator, as far as the log has been read.

    Attributes
    ----------
    requested_bytes
        Bytes of all allocations; for a reallocation its new size.
    live_bytes, peak_bytes
        Bytes live now, which must be 0 at the end, and the most that were live at once.
    blocks
        Size and caller of each live block, by its address.
    """

    requested_bytes: int = 0
    live_bytes: int = 0
    peak_bytes: int = 0
    blocks: dict[int, tuple[int, str]] = field(default_factory=dict)

    @property
    def live_by_caller(self) -> dict[str, int]:
        """Live bytes by the place that requested them."""
        by_caller: Counter[str] = Counter()
        for size, where in self.blocks.values():
            by_caller[where] += size
        return dict(by_caller)

    def take(self, what: str, address: int, size: int, where: str) -> str | None:
        """Record one call; return what is wrong with it, if anything."""
        # These are a reallocation that failed, free(NULL), and realloc(NULL, ...).
        if what == "!" or (what in "-<" and address == 0):
            return None
        if what in "-<":
            if address not in self.blocks:
                return "is released but was not allocated"
            self.live_bytes -= self.blocks.pop(address)[0]
            return None
        if address in self.blocks:
            return "is allocated while it is still live"
        self.blocks[address] = (size, where)
        self.requested_bytes += size
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        return None


def read_heap(path: Path) -> HeapLog:
    """Read a log in the format of glibc's mtrace (mtrace(3)), which any RTOS can write.

    ``= Start``, then a line per call: ``@ WHERE + ADDRESS SIZE`` allocated, ``@ WHERE - ADDRESS``
    released, ``@ WHERE < ADDRESS`` and ``@ WHERE > ADDRESS SIZE`` before and after a reallocation,
    ``@ WHERE ! ADDRESS SIZE`` a reallocation that failed; ``= End``. Numbers are hexadecimal.

    Raises
    ------
    UsageError
        The file cannot be read, is cut off (no ``= End``), contains a line that is no call, or
        releases what was not allocated, or allocates what is still live: then lines are missing or
        mixed.
    """
    log = HeapLog()
    for number, line in enumerate(_calls(path), 2):
        match = _HEAP_LINE.fullmatch(line)
        if match is None or (match["size"] is None) == (match["what"] in "+>!"):
            raise UsageError(
                f"{path}, line {number}: '{line[:60]}' is no call of an allocator; lines of two "
                "tasks are mixed, or the log is cut off"
            )
        address = 0 if match["address"] == "(nil)" else int(match["address"], 16)
        wrong = log.take(match["what"], address, int(match["size"] or "0", 16), match["where"])
        if wrong:
            raise UsageError(
                f"{path}, line {number}: {address:#x} {wrong}: lines are missing or mixed"
            )
    return log


def _calls(path: Path) -> list[str]:
    """Return the lines between ``= Start`` and ``= End``."""
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
