"""Throughput of a run, the study's way and the right one; what a disk and a sync at close cost."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.storage.live import IMPLEMENTATIONS, LiveRun
from roslens.analysis.storage.pairs import Claim, judged
from roslens.analysis.verdicts.statement import Statement
from roslens.collectors.results.storage_study import Batches


def mean_of_ratios(run: Batches) -> float:
    """Bytes per second as the study has it: the mean over calls of each call's own ratio.

    The close time is left out, so a configuration that only fills a buffer in most calls looks
    free.

    Raises
    ------
    ValueError
        A call took no time.
    """
    if run.calls["write_ns"].eq(0).any():
        raise ValueError("a write call took no time by the clock: its own ratio is not defined")
    ratio = run.calls.select((pl.col("num_bytes") / (pl.col("write_ns") * 1e-9)).mean())
    return float(ratio.item())


def overall(run: Batches) -> float:
    """Bytes per second: all bytes over all time, closing the file included.

    Raises
    ------
    ValueError
        Nothing took any time.
    """
    nanoseconds = int(run.calls["write_ns"].sum()) + run.close_ns
    if nanoseconds == 0:
        raise ValueError("writing and closing took no time by the clock")
    return int(run.calls["num_bytes"].sum()) / nanoseconds * 1e9


FSYNC = "+fsync"


def _per_byte(live: LiveRun) -> float:
    return 1 / overall(live.storage.batches)


def disk_claims(runs: Sequence[LiveRun]) -> list[Statement]:
    """What a disk and a sync cost, by each implementation; the claims were declared before data."""
    synced = [live for live in runs if _is_synced(live)]
    unsynced = [live for live in runs if not _is_synced(live)]
    on_disk = [live for live in runs if not _is_memory(live)]
    disk = "writing to a disk takes longer than to memory, {}"
    by_place = [
        (unsynced, Claim(disk.format("without a sync"), _per_byte, "memory", "disk")),
        (synced, Claim(disk.format("with a sync at close"), _per_byte, "memory", "disk")),
    ]
    found = []
    for own, claim in by_place:
        found += judged(own, [claim], _place, _cell, _subject)
    sync = Claim("a sync at close takes time on a disk", _per_byte, "unsynced", "synced")
    return found + judged(on_disk, [sync], _sync, _cell, _subject)


def _is_synced(live: LiveRun) -> bool:
    return live.storage.facts.plugin_config.endswith(FSYNC)


def _is_memory(live: LiveRun) -> bool:
    return live.storage.facts.file_system in {"tmpfs", "ramfs"}


def _place(live: LiveRun) -> str:
    return "memory" if _is_memory(live) else "disk"


def _sync(live: LiveRun) -> str:
    return "synced" if _is_synced(live) else "unsynced"


def _cell(live: LiveRun) -> tuple[str, str]:
    facts = live.storage.facts
    return facts.messages, facts.plugin_config.removesuffix(FSYNC)


def _subject(live: LiveRun) -> str:
    return IMPLEMENTATIONS[str(live.run.cell.get("implementation", "rust"))]
