"""Test crash and power loss: the log of writes against the files, and what comes back."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from storage_cells import ROOT, SHM, left_over

from roslens.recording import UsageError
from roslens.studies.storage.results.runs import read_recovery
from roslens.studies.storage.workloads.storage.power_loss import (
    OPEN,
    SYNC,
    TRUNCATE,
    UNLINK,
    WRITE,
    Operation,
    after_power_loss,
    read_log,
)
from roslens.studies.storage.workloads.storage.recover import recover
from roslens.studies.storage.workloads.storage.run import load_of, start
from roslens.studies.storage.workloads.storage.verify import recording_in
from roslens.studies.storage.workloads.storage_resilience.prepare import (
    LIBRARY_VARIABLE,
    WRITE_LOG,
)
from roslens.tracing.sampling.preloaded import preloadable

RUN = ROOT / "studies" / "storage" / "workloads" / "storage_resilience" / "run.py"
SOURCE = random.Random(1)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROSLENS_CACHE", str(tmp_path_factory.mktemp("cache")))
        return preloadable(WRITE_LOG, "test")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.live
@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    "config", ["sqlite_default", "sqlite_resilient", "mcap_default", "mcap_compressed_nocrc"]
)
def test_the_log_of_writes_makes_the_very_files(config: str, library: Path, tmp_path: Path) -> None:
    """Ground truth: the files on disk after the program has ended."""
    place, results, log = tmp_path / "place", tmp_path / "results", tmp_path / "log"
    for folder in (place, results, tmp_path / "again"):
        folder.mkdir()
    content = tmp_path / "content"
    content.write_bytes(random.Random(2).randbytes(100_000))
    process = start(
        *(config, load_of("10KiB", 2 << 20, content, 0), 30 << 10, place, results),
        environment={
            "LD_PRELOAD": str(library),
            "ROSLENS_WRITE_FOLDER": str(place),
            "ROSLENS_WRITE_LOG": str(log),
        },
        acknowledge=str(place / "acknowledged"),
    )
    assert process.wait() == 0
    operations = read_log(log)
    # The in-memory index of a log is no part of the recording.
    names = {operation.name for operation in operations} - {"recording.db3-shm"}
    synced = [*operations, *(Operation(SYNC, n) for n in names if (place / n).exists())]
    synced = [operation for operation in synced if operation.name in names]
    after_power_loss(synced, tmp_path / "again", "dropped", SOURCE)
    again, on_disk = files(tmp_path / "again"), files(place)
    assert again == {name: data for name, data in on_disk.items() if name in names}
    assert len(again[recording_in(place).name]) > 200_000


def test_a_power_loss_by_hand(tmp_path: Path) -> None:
    operations = [
        Operation(OPEN, "a"),
        Operation(WRITE, "a", 0, b"x" * 6),
        Operation(WRITE, "b", 0, b"log"),
        Operation(SYNC, "a"),
        Operation(WRITE, "a", 4, b"yyyy"),
        Operation(TRUNCATE, "a", 1),
        Operation(UNLINK, "b"),
        Operation(WRITE, "c", 2, b"z"),
    ]
    after_power_loss(operations, tmp_path, "dropped", SOURCE)
    assert files(tmp_path) == {"a": b"x" * 6, "c": b""}
    after_power_loss([*operations, Operation(SYNC, "a")], tmp_path, "dropped", SOURCE)
    assert (tmp_path / "a").read_bytes() == b"x"


@given(
    sizes=st.lists(st.integers(1, 20_000), min_size=1, max_size=6),
    synced=st.integers(0, 6),
    seed=st.integers(0, 1000),
)
def test_torn_writes_keep_what_was_synced_and_tear_by_blocks(
    sizes: list[int], synced: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("torn")
    operations, offset, durable = [], 0, 0
    for place, size in enumerate(sizes):
        operations.append(Operation(WRITE, "a", offset, bytes([place + 1]) * size))
        offset += size
        if place + 1 == synced:
            operations.append(Operation(SYNC, "a"))
            durable = offset
    after_power_loss(operations, folder, "torn", random.Random(seed))
    content = (folder / "a").read_bytes()
    whole = b"".join(operation.data for operation in operations)
    assert content[:durable] == whole[:durable]
    assert len(content) <= len(whole)
    # Beyond it each byte is what was written, or was never written.
    assert all(a in (0, b) for a, b in zip(content[durable:], whole[durable:], strict=False))


def ran(folder: Path, library: Path, **options: object) -> subprocess.CompletedProcess[str]:
    given = {"bytes": "2MiB", "trials": 3, "output": folder, **options}
    arguments = [text for name, value in given.items() for text in (f"--{name}", str(value))]
    return subprocess.run(
        [sys.executable, str(RUN), *arguments],
        env={**os.environ, LIBRARY_VARIABLE: str(library)},
        text=True,
        capture_output=True,
        check=False,
    )


def run(folder: Path, library: Path, **options: object) -> Path:
    done = ran(folder, library, **options)
    assert done.returncode == 0, done.stderr
    return folder / "recovery.csv"


@pytest.mark.live
@pytest.mark.usefixtures("programs")
@pytest.mark.skipif(not SHM.is_dir(), reason="no /dev/shm")
@pytest.mark.parametrize("config", ["sqlite_resilient", "mcap_nochunking", "mcap_default"])
def test_a_killed_recorder_loses_at_most_what_its_library_held(
    config: str, library: Path, tmp_path: Path
) -> None:
    """Data handed to the kernel stay. In memory are a buffer, or a chunk of 768 KiB and, in a
    buffer, the end of the chunk before, without which that is not read either.
    """
    before = set(left_over())
    path = run(tmp_path, library, plugin_config=config, failure="kill")
    held = {
        "sqlite_resilient": 0,
        "mcap_nochunking": 1,
        "mcap_default": 2 * (768 << 10) // 10_240 + 2,
    }
    recovery = read_recovery(path)
    assert recovery.height == 3
    for row in recovery.iter_rows(named=True):
        assert row["recovered"] >= row["acknowledged"] - held[config]
        assert row["wrong"] == 0
    assert set(left_over()) <= before


@pytest.mark.live
@pytest.mark.usefixtures("programs")
@pytest.mark.skipif(not SHM.is_dir(), reason="no /dev/shm")
def test_what_never_syncs_keeps_nothing_after_a_power_loss(library: Path, tmp_path: Path) -> None:
    path = run(tmp_path, library, plugin_config="mcap_default", failure="power_dropped")
    assert read_recovery(path)["recovered"].to_list() == [0, 0, 0]


@pytest.mark.live
@pytest.mark.usefixtures("programs")
@pytest.mark.skipif(not SHM.is_dir(), reason="no /dev/shm")
@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({"place": "/no/such/folder"}, 2, "/no/such/folder"),
        ({"bytes": "100000GiB"}, 4, "make room or write less (--bytes)"),
    ],
)
def test_a_place_that_will_not_do_is_one_line(
    options: dict[str, str], status: int, words: str, library: Path, tmp_path: Path
) -> None:
    done = ran(tmp_path, library, plugin_config="mcap_default", failure="kill", **options)
    assert done.returncode == status
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_empty_or_foreign_file_gives_nothing_back(tmp_path: Path) -> None:
    for content in (b"", b"\0" * 5000, b"SQLite format 3\0" + b"\0" * 5000):
        path = tmp_path / "recording"
        path.write_bytes(content)
        plain, tool = recover(path, lambda _: b"")
        assert (plain.messages, plain.wrong, tool.messages) == (0, 0, 0)


def test_results_that_are_cut_off_are_refused(tmp_path: Path) -> None:
    header = "trial,failure,acknowledged,recovered,wrong,whole,recovered_with_tool,tool"
    row = "0,kill,10,9,0,0,9,mcap (Python)"
    path = tmp_path / "recovery.csv"
    for text, words in (
        ("", "header"),
        (f"{header}\n", "without a trial"),
        (f"{header}\n{row[:12]}\n", "cut off"),
        (f"{header}\n{row}", "cut off"),
        (f"{header}\n{row.replace('10', 'x')}\n", "cannot be read"),
        (f"{header}\n{row.replace('10', '0')}\n", "without an acknowledged"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=words):
            read_recovery(path)
    path.write_text(f"{header}\n{row}\n")
    assert read_recovery(path)["recovered"].to_list() == [9]


def test_a_database_shorter_than_its_header_says_gives_its_rows_back(tmp_path: Path) -> None:
    """SQLite without a journal on disk leaves this: page 1 is written, the last pages are not."""
    path = tmp_path / "recording"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY, timestamp, data BLOB)")
    rows = [(n, bytes([n % 256]) * 2000) for n in range(500)]
    connection.executemany("INSERT INTO messages (timestamp, data) VALUES (?, ?)", rows)
    connection.commit()
    connection.close()
    os.truncate(path, path.stat().st_size - 4096)
    plain, tool = recover(path, lambda n: rows[n][1])
    assert (plain.messages, plain.whole) == (0, False)
    # Two rows fill a page of 4 KiB.
    assert 490 <= tool.messages < 500
    assert tool.wrong == 0
