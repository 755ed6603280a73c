"""Test rosbag2's own plugins: compiled, called by the benchmark, read by other libraries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from storage_cells import ON_SHM, Cell, left_over

from roslens.studies.storage.results.runs import read_storage_run
from roslens.studies.storage.workloads.storage.power_loss import SYNC, WRITE, read_log
from roslens.studies.storage.workloads.storage.run import load_of, start
from roslens.studies.storage.workloads.storage_resilience.prepare import WRITE_LOG
from roslens.tracing.sampling.preloaded import preloadable

pytestmark = ON_SHM
# Preset and configuration files, and what the file must show for each.
CONFIGS = {
    "sqlite_default": "sqlite3",
    "sqlite_resilient": "sqlite3",
    "sqlite_page_16k": "sqlite3",
    "sqlite_cache_64m": "sqlite3",
    "sqlite_default+fsync": "sqlite3",
    "mcap_default": "mcap",
    "mcap_nochunking": "mcap",
    "mcap_uncompressed_crc": "mcap",
    "mcap_compressed_nocrc": "mcap",
    "mcap_lz4": "mcap",
    "mcap_chunk_64k": "mcap",
    "mcap_fastwrite": "mcap",
    "mcap_zstd_fast": "mcap",
    "mcap_default+fsync": "mcap",
}


@pytest.mark.parametrize("config", CONFIGS)
def test_every_message_is_read_back_by_a_library_that_did_not_write_it(
    config: str, cell: Cell
) -> None:
    before = set(left_over())
    done = cell(plugin_config=config, message_size="mixed")
    assert done.status == 0, done.said
    assert set(left_over()) <= before
    # 70, 20 and 10 % of 2 MiB in messages of 1,000,000, 10,000 and 100 bytes.
    read = json.loads((done.folder / "verification.json").read_text())
    assert read["messages"] == done.facts["message_count"] == 1 + 41 + 2097
    assert read["bytes"] == 1_000_000 + 41 * 10_000 + 2097 * 100
    assert read["crc32"] == done.facts["crc32"]
    assert read["reader"].startswith(CONFIGS[config])
    facts = read_storage_run(done.folder).facts
    assert (facts.rosbag2_version, facts.mcap_version) == ("0.29.0", "1.4.0")


@pytest.mark.parametrize("config", ["sqlite_default", "mcap_default"])
def test_rosbag2_compresses_each_message_or_the_file(
    config: str, cell: Cell, tmp_path: Path
) -> None:
    """zstd unpacks what is read back; each compressed form is smaller than the uncompressed one."""
    left = {}
    for mode in ("none", "message", "file"):
        folder = tmp_path / mode
        folder.mkdir()
        more = {"message_size": "10KiB", "batch_size": "64MiB", "compression": mode}
        done = cell(plugin_config=config, output=folder, **more)
        assert done.status == 0, done.said
        facts = read_storage_run(folder).facts
        assert (facts.compression, facts.write_calls) == (mode, 1)
        assert facts.message_count == (2 << 20) // (10 << 10)
        read = json.loads((folder / "verification.json").read_text())
        assert (read["messages"], read["crc32"]) == (facts.message_count, facts.crc32)
        left[mode] = facts.bytes_on_disk
    assert left["file"] < left["none"] > left["message"]


def test_a_plugin_that_writes_nothing_is_loaded_by_its_name(cell: Cell) -> None:
    done = cell(plugin_config="null")
    assert done.status == 0, done.said
    assert done.facts["bytes_on_disk"] == 0


@pytest.mark.parametrize("storage", ["sqlite", "mcap"])
@pytest.mark.usefixtures("programs")
def test_files_are_synced_when_they_are_closed(storage: str, tmp_path: Path) -> None:
    """Ground truth: the log of the program's calls to the C library."""
    content = tmp_path / "content"
    content.write_bytes(bytes(range(1, 252)) * 100)
    synced = {}
    for config in (f"{storage}_default", f"{storage}_default+fsync"):
        place, log = tmp_path / config, tmp_path / f"{config}.log"
        place.mkdir()
        process = start(
            *(config, load_of("10KiB", 1 << 20, content, 0), 30 << 10, place, tmp_path),
            environment={
                "LD_PRELOAD": str(preloadable(WRITE_LOG, "test")),
                "ROSLENS_WRITE_FOLDER": str(place),
                "ROSLENS_WRITE_LOG": str(log),
            },
        )
        assert process.wait() == 0
        kinds = [operation.kind for operation in read_log(log)]
        assert WRITE in kinds
        synced[config] = SYNC in kinds
        assert WRITE not in kinds[kinds.index(SYNC) :] if SYNC in kinds else True
    assert synced == {f"{storage}_default": False, f"{storage}_default+fsync": True}
