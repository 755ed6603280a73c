"""Test claims about compression and disks, with runs made by hand, whose answers are known."""

from __future__ import annotations

import polars as pl
import pytest
from storage_cells import facts_of

from roslens.analysis.runs import Run
from roslens.studies.storage.compression import (
    PER_MESSAGE,
    compression_claims,
    compression_estimates,
    compression_sentences,
    compression_table,
)
from roslens.studies.storage.live import LiveRun, estimates
from roslens.studies.storage.pairs import disk_claims
from roslens.studies.storage.results.comparison import Batches
from roslens.studies.storage.results.runs import StorageRun


def run_of(
    name: str, config: str, compression: str | None, us: int, disk: int, **more: str
) -> LiveRun:
    """Make one write call of 1000 messages of 100 bytes that takes `us`, and an instant close."""
    facts = facts_of(
        batch_bytes=100_000,
        bytes=100_000,
        message_count=1000,
        write_calls=1,
        plugin_config=config,
        close_ns=0,
        bytes_on_disk=disk,
        file_system=more.get("file_system", "tmpfs"),
        compression=compression,
    )
    calls = pl.DataFrame({"num_bytes": [100_000], "num_msgs": [1000], "write_ns": [us * 1000]})
    cell = {"message_size": "100B", "plugin_config": config}
    cell |= {"compression": compression} if compression else {"place": more["file_system"]}
    run = Run(name=f"{name} {cell}", cell=cell, block=name)
    return LiveRun(run, "m", StorageRun(facts, Batches(calls, 0)))


def test_claims_about_compression() -> None:
    """There are three runs of each: the file smallest and quick, each message largest and slow."""
    taken = {
        ("mcap_default", "none"): (1000, 110_000),
        ("mcap_default", "message"): (4000, 130_000),
        ("mcap_default", "file"): (2000, 50_000),
        ("mcap_compressed_nocrc", "none"): (3000, 60_000),
        ("sqlite_default", "none"): (1500, 140_000),
        ("sqlite_default", "message"): (4000, 160_000),
        ("sqlite_default", "file"): (5000, 70_000),
    }
    runs = [
        run_of(str(block), config, mode, us + block, disk)
        for block in range(3)
        for (config, mode), (us, disk) in taken.items()
    ]
    claims = compression_claims(runs)
    assert [s.verdict for s in claims] == ["holds", "in part", "undecided", "holds", "false"]
    # 130,000 to 50,000 and 160,000 to 70,000 bytes.
    assert claims[0].because == "holds in 2 of 2 cells; 2.29 to 2.60 times"
    # All need the same amount of memory.
    assert claims[2].because == "undecided in 2 of 2 cells; 1.00 times"
    (sentence,) = compression_sentences(runs)
    assert "none 1.10 and 1.00 µs; message 1.30 and 4.00 µs; chunks 0.600 and 3.00 µs" in sentence
    every = [*estimates(runs, 0.95), *compression_estimates(runs, 0.95)]
    times = {str(e.cell["plugin_config"]): e for e in every if e.metric == PER_MESSAGE.name}
    # (3000 + 3001 + 3002) / 3 us for 1000 messages.
    assert times["mcap_compressed_nocrc"].value == pytest.approx(3001)
    assert len(compression_table(every).rows) == len(taken)


def test_claims_about_a_disk() -> None:
    runs = [
        run_of(str(block), config, None, us * (2 if place == "ext4" else 1) + block, 1, **on)
        for block in range(3)
        for place in ("tmpfs", "ext4")
        for config, us in (("mcap_default", 1000), ("mcap_default+fsync", 3000))
        for on in ({"file_system": place},)
    ]
    claims = disk_claims(runs)
    assert [s.verdict for s in claims] == ["holds", "holds", "holds"]
    # 2001 to 1001, 6001 to 3001, and on the disk 6001 to 2001 us.
    assert [s.because.rpartition("; ")[2] for s in claims] == [
        "2.00 times",
        "2.00 times",
        "3.00 times",
    ]
    assert disk_claims([live for live in runs if live.run.cell["place"] == "tmpfs"])[0].verdict == (
        "refused"
    )
