"""Stacks of an RTOS' tasks: high-water marks as FreeRTOS' ``vTaskList`` prints them."""

from __future__ import annotations

import re
from collections.abc import Mapping
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


def read_tasks(
    path: Path, stack_words: Mapping[str, int], word_bytes: int = WORD_BYTES
) -> pl.DataFrame:
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
            None if total is None else total * word_bytes,
            free * word_bytes,
            None if total is None else (total - free) * word_bytes,
        )
    if not rows:
        raise UsageError(f"{path}: names no task")
    return pl.DataFrame(list(rows.values()), schema=TASKS, orient="row")
