"""A disk beside the RAM disk, and a sync at close."""

from __future__ import annotations

from collections.abc import Sequence

from roslens.analysis.storage.live import IMPLEMENTATIONS, LiveRun, overall
from roslens.analysis.storage.pairs import Claim, judged
from roslens.analysis.verdicts.statement import Statement

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
