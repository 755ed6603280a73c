"""Define the kinds of segments."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

KINDS: Mapping[str, str] = {
    "publishing": "in the publishing call, up to rmw_publish",
    "transport": "on its way: from rmw_publish until the middleware's receiving thread was woken, "
    "and what that did until it woke the executor's thread; without the kernel, until the "
    "middleware's reader received it",
    "queue": "the thread ran the same callback for earlier messages",
    "callback_group": "another callback of the same mutually exclusive group ran",
    "executor": "the thread ran another callback, or there was executor overhead",
    "lock": "the thread waited for the executor's lock",
    "preempted": "the thread could have gone on and was not on a CPU, which `who` had",
    "interrupt": "an interrupt ran on the thread's CPU",
    "futex": "the thread slept until the thread `who` woke it, as for a lock or a condition",
    "syscall": "the thread slept in a system call, and no thread is known to have woken it",
    "page_fault": "page faults of the thread that followed each other closely, or a sleep in one",
    "disk": "the thread slept so that no signal wakes it, as for a disk",
    "throttled": "the thread could have gone on, its CPU had nothing to do: its cgroup had used up "
    "its time",
    "running": "the callback itself; on a CPU where the kernel was recorded",
    "transport_or_waiting": "on its way or waiting: nothing that was recorded shows which",
    "unexplained": "it had arrived, and nothing that was recorded shows what it waited for",
}
"""Kinds of segments, and what happened in each."""
KIND = pl.Enum(list(KINDS))
CODE: Mapping[str, int] = {name: number for number, name in enumerate(KINDS)}


def in_words(kind: str, who: str | None) -> str:
    """Return text such as ``executor, timer callback (100 ms) of /planner``."""
    return kind.replace("_", " ") + (f", {who}" if who else "")
