"""Compare compression of messages, of the file, and of MCAP's chunks, all by rosbag2 with zstd."""

from __future__ import annotations

from collections.abc import Sequence

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.reports.numbers import significant
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.runs import by_cell
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.analysis.verdicts.statement import Statement
from roslens.studies.storage.live import MEMORY, ON_DISK, SIZE, LiveRun
from roslens.studies.storage.pairs import Claim, cells_table, judged

CHUNKS = "mcap_compressed_nocrc"
"""The configuration of the MCAP plugin that compresses its chunks."""
PER_MESSAGE = Metric(
    "storage_time_per_message",
    "time of all write calls and of the close, per message",
    "ns/message",
)


def _bytes(live: LiveRun) -> float:
    return float(live.storage.facts.bytes_on_disk)


def _per_message(live: LiveRun) -> float:
    batches = live.storage.batches
    taken = int(batches.calls["write_ns"].sum()) + batches.close_ns
    return taken / live.storage.facts.message_count


CLAIMS = (
    Claim("compressing the file leaves fewer bytes than each message", _bytes, "file", "message"),
    Claim(
        "compressing the file takes less time than each message", _per_message, "file", "message"
    ),
    Claim(
        "compressing the file needs less memory than each message",
        lambda live: live.memory,
        *("file", "message"),
    ),
    Claim("compressing chunks leaves fewer bytes than each message", _bytes, "chunks", "message"),
    Claim("compressing chunks takes less time than the file", _per_message, "chunks", "file"),
)


def compression_claims(runs: Sequence[LiveRun]) -> list[Statement]:
    """Judge `CLAIMS`, which were declared before any data."""
    return judged(runs, CLAIMS, _compressed, _cell)


def _compressed(live: LiveRun) -> str:
    """Return the unit of compression of a run: none, message, chunks or file."""
    config = live.storage.facts.plugin_config
    return "chunks" if config == CHUNKS else str(live.storage.facts.compression)


def _cell(live: LiveRun) -> tuple[str, str]:
    plugin = "MCAP" if live.storage.facts.plugin_config.startswith("mcap") else "SQLite"
    return live.storage.facts.messages, plugin


def compression_sentences(runs: Sequence[LiveRun]) -> list[str]:
    """Return for each message size the bytes on disk and the time of each kind of compression."""
    sentences = []
    for size in dict.fromkeys(live.storage.facts.messages for live in runs):
        of_size = [live for live in runs if _cell(live) == (size, "MCAP")]
        parts = []
        for name in ("none", "message", "chunks", "file"):
            members = [live for live in of_size if _compressed(live) == name]
            if members:
                left = sum(map(_bytes, members)) / sum(live.storage.facts.bytes for live in members)
                taken = sum(map(_per_message, members)) / len(members) / 1e3
                parts.append(f"{name} {significant(left, 3)} and {significant(taken, 3)} µs")
        if parts:
            sentences.append(
                f"Messages of {size} in MCAP, bytes on disk per byte and time per message, by what "
                f"is compressed: {'; '.join(parts)}."
            )
    return sentences


def compression_estimates(runs: Sequence[LiveRun], level: float) -> list[Estimate]:
    """Estimate time per message, cell by cell; other figures are estimated as for all runs."""
    return [
        value_over_runs(
            *(PER_MESSAGE, members[0].run.cell, [_per_message(live) for live in members]),
            *(sum(live.storage.facts.message_count for live in members), level),
        )
        for members in by_cell(runs)
    ]


def compression_table(found: Sequence[Estimate]) -> ReportTable:
    """Return bytes, time and memory, one row per cell."""
    headings = {
        ON_DISK: ("on disk [MB]", 1e-6),
        SIZE: ("bytes per byte", 1.0),
        PER_MESSAGE: ("per message [µs]", 1e-3),
        MEMORY: ("peak memory [MB]", 1e-6),
    }
    return cells_table(
        [e for e in found if "compression" in e.cell],
        headings,
        "What compression leaves and takes",
        f"{CHUNKS}: the plugin compresses its chunks. Bytes: of all files of the bag. Time: "
        "from the first message handed to rosbag2's writer until the bag is closed. Memory: "
        "resident at most beyond that before the bag was opened; of the messages themselves "
        "nothing counts, of their compressed copies all.",
    )
