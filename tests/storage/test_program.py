"""Test that the benchmark writes what it says, read back by Python's sqlite3 and mcap."""

from __future__ import annotations

import csv
import os
import signal
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from mcap.reader import make_reader
from storage_cells import ON_SHM, RUN, Cell, Done, left_over
from tests.programs import wait_for

from roslens.recording import UsageError
from roslens.studies.storage.results.comparison import read_batches
from roslens.studies.storage.results.runs import read_storage_run
from roslens.studies.storage.workloads.storage.cells import bytes_of
from roslens.studies.storage.workloads.storage.run import load_of, start

pytestmark = ON_SHM


def test_rows_are_those_of_the_published_tool(cell: Cell) -> None:
    done = cell(message_size="100B", bytes="1MiB")
    run = read_storage_run(done.folder)
    # 1 MiB is written in messages of 100 B, in calls of 11, which fill 1 KiB.
    assert run.batches.calls["num_msgs"].to_list() == [11] * 953 + [2]
    assert int(run.batches.calls["num_bytes"].sum()) == 10_485 * 100
    with (done.folder / "writes.csv").open() as stream:
        *_, last = csv.reader(stream)
    assert last[:4] == ["", "", "", ""]
    assert int(last[4]) == run.facts.close_ns == read_batches(done.folder / "writes.csv").close_ns


@pytest.mark.parametrize(
    ("message_size", "batch_size", "messages"),
    [("1MiB", "10MiB", 10), ("10KiB", "10MiB", 1_024), ("100B", "10MiB", 104_858)],
)
def test_batches_are_the_published_ones(
    message_size: str, batch_size: str, messages: int, cell: Cell
) -> None:
    done = cell(message_size=message_size, batch_size=batch_size, bytes="21MiB")
    assert done.status == 0, done.said
    calls = read_storage_run(done.folder).batches.calls["num_msgs"].to_list()
    assert calls[:2] == [messages] * 2
    assert 0 < sum(calls[2:]) < messages


def test_what_vanishes_from_a_folder_of_traces_is_not_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a folder is the one of tables that are being collected beside a trace."""
    trace, vanishing = tmp_path / "trace", tmp_path / "trace" / ".collecting"
    vanishing.mkdir(parents=True)
    (trace / "metadata").write_text("not content")
    (trace / "stream").write_bytes(b"s" * 512 + bytes(512))
    listed = os.scandir

    def scandir(folder: str | Path) -> object:
        if Path(folder) == vanishing:
            vanishing.rmdir()
        return listed(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    assert load_of("100B", 1000, tmp_path, 0).content == b"s" * 512
    assert not vanishing.exists()


@pytest.mark.parametrize(
    ("messages", "counts"),
    [
        ("mixed", [183, 5_242, 262_144]),
        ("1MiB", [250]),
        ("10KiB", [25_600]),
        ("100B", [2_621_440]),
    ],
)
def test_counts_are_the_published_ones(messages: str, counts: list[int], tmp_path: Path) -> None:
    content = tmp_path / "content"
    content.write_bytes(bytes(1 << 20))
    first = load_of(messages, 250 << 20, content, 1)
    assert [first.order.count(topic) for topic in range(len(counts))] == counts
    # The order depends on the seed alone.
    assert load_of(messages, 250 << 20, content, 1).order == first.order
    assert (load_of(messages, 250 << 20, content, 2).order == first.order) == (messages != "mixed")


def test_sizes_are_powers_of_1024() -> None:
    assert bytes_of("x", "1000") == 1000
    assert bytes_of("x", "100B") == 100
    assert bytes_of("x", "1KiB") == 1024
    assert bytes_of("x", "10MiB") == 10 << 20
    for wrong in ("", "KiB", "1KB", "-1", "0", "1.5MiB", "1iB"):
        with pytest.raises(UsageError, match="is not a size"):
            bytes_of("x", wrong)


def written(folder: Path, config: str) -> tuple[Done, Path]:
    """Run the program and keep what it writes."""
    place, results = folder / "place", folder / "results"
    place.mkdir()
    results.mkdir()
    content = folder / "content"
    content.write_bytes(bytes(range(1, 252)) * 9000)
    load = load_of("10KiB", 1 << 20, content, 0)
    assert start(config, load, 100 << 10, place, results).wait() == 0
    (path,) = place.glob("recording.*")
    return Done(0, "", results), path


def slices() -> list[bytes]:
    """Return consecutive slices of the content, starting over when one does not fit any more."""
    content, position, parts = bytes(range(1, 252)) * 9000, 0, []
    for _ in range((1 << 20) // 10_240):
        if position + 10_240 > len(content):
            position = 0
        parts.append(content[position : position + 10_240])
        position += 10_240
    return parts


@pytest.mark.parametrize("config", ["sqlite_default", "sqlite_resilient"])
@pytest.mark.usefixtures("programs")
def test_sqlite_has_the_setting_and_the_content(config: str, tmp_path: Path) -> None:
    done, path = written(tmp_path, config)
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT data FROM messages ORDER BY id").fetchall()
    assert [data for (data,) in rows] == slices()
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    # MEMORY is a setting of the connection; only WAL stays with the file.
    assert mode == ("wal" if config == "sqlite_resilient" else "delete")
    assert zlib.crc32(b"".join(slices())) == done.facts["crc32"]


@pytest.mark.usefixtures("programs")
def test_mcap_has_the_chunks_and_the_content(tmp_path: Path) -> None:
    _, path = written(tmp_path, "mcap_default")
    with path.open("rb") as stream:
        reader = make_reader(stream, validate_crcs=True)
        summary = reader.get_summary()
        assert [m.data for _, _, m in reader.iter_messages()] == slices()
    assert summary is not None
    # A chunk ends with the first message beyond 768 KiB.
    first = summary.chunk_indexes[0]
    assert 768 << 10 < first.uncompressed_size < (768 << 10) + 2 * 10_300
    assert first.compression == ""
    assert len(summary.chunk_indexes) == 2


@pytest.mark.usefixtures("programs")
def test_mcap_without_chunks_has_no_index(tmp_path: Path) -> None:
    _, path = written(tmp_path, "mcap_nochunking")
    with path.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    assert summary is not None
    assert not summary.chunk_indexes
    assert summary.statistics is not None
    assert summary.statistics.message_count == (1 << 20) // 10_240


def run_program(programs: str, folder: Path, given: bytes, **options: str) -> tuple[int, str]:
    """Run the program by itself with standard input; return its exit status and output."""
    every = {
        "storage": "mcap",
        "messages": "3",
        "sizes": "100",
        "batch": "100",
        "place": str(folder),
        "results": str(folder),
        **dict.fromkeys(("preset", "configuration", "compression", "acknowledge"), ""),
        **options,
    }
    done = subprocess.run(
        [
            f"{programs}/bag_writer",
            *(word for k, v in every.items() for word in (f"--{k}", v)),
        ],
        input=given,
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stderr.decode()


# Three messages of topic 0, and the bytes that they carry.
GIVEN = bytes(3) + bytes(range(100))


@pytest.mark.parametrize(
    ("options", "given", "expected"),
    [
        ({}, GIVEN, (0, "")),
        ({}, GIVEN[:-1], (4, "standard input is cut off")),
        ({}, b"", (4, "standard input is cut off")),
        ({"acknowledge": "/no/such/file"}, GIVEN, (4, "/no/such/file: cannot be opened")),
    ],
)
def test_the_program_says_which_file_or_input_is_wrong(
    options: dict[str, str], given: bytes, expected: tuple[int, str], programs: str, tmp_path: Path
) -> None:
    status, output = run_program(programs, tmp_path, given, **options)
    assert (status, len(output.splitlines())) == (expected[0], int(expected[0] > 0)), output
    assert expected[1] in output


@pytest.mark.parametrize("name", ["writes.csv", "run.json", "allocations.csv"])
def test_results_that_cannot_be_written_are_said(name: str, cell: Cell, tmp_path: Path) -> None:
    """The device is full; so little is written that it stays in a buffer until the close."""
    (tmp_path / "native").mkdir()
    (tmp_path / "native" / name).symlink_to("/dev/full")
    done = cell(allocations=True)
    assert done.status == 4, done.said
    assert "the results cannot be written" in done.said
    assert len(done.said.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({"plugin_config": "mcap_fast"}, 2, "unknown configuration"),
        ({"plugin_config": "fast"}, 2, "and null, which writes nothing; each may end in +fsync"),
        ({"message_size": "1GiB"}, 2, "there are 1MiB, 10KiB, 100B, mixed"),
        ({"batch_size": "1kB"}, 2, "is not a size"),
        ({"compression": "all"}, 2, "none, message, file"),
        ({"place": "/no/such/folder"}, 2, "no such folder"),
        ({"bytes": "100000GiB"}, 4, "make room or write less"),
        ({"bytes": "5KiB"}, 2, "too few"),
        ({"content": str(Path(__file__)), "message_size": "1MiB"}, 2, "give a larger file"),
        ({"content": "/no/such/file"}, 2, "/no/such/file"),
    ],
)
def test_wrong_use_is_one_line_that_says_what_to_do(
    options: dict[str, str], status: int, words: str, cell: Cell
) -> None:
    done = cell(**options)
    assert done.status == status, done.said
    assert words in done.said
    assert len(done.said.strip().splitlines()) == 1
    assert not (done.folder / "run.json").exists()


def test_a_disk_is_no_ram_disk_unless_accepted(cell: Cell, tmp_path: Path) -> None:
    kind = subprocess.check_output(["stat", "-f", "-c", "%T", str(tmp_path)], text=True)
    if kind.strip() in {"tmpfs", "ramfs"}:
        pytest.skip("temporary files lie on a RAM disk here")
    done = cell(place=tmp_path)
    assert done.status == 2
    assert "no RAM disk" in done.said
    assert cell(place=tmp_path, any_disk="True").status == 0


@pytest.mark.parametrize("config", ["mcap_default", "sqlite_default"])
def test_what_cannot_be_written_is_said_and_nothing_stays(config: str, cell: Cell) -> None:
    """A limit on file sizes stands in for a full disk: it is hit in mid-write.

    SQLite reports it; MCAP's C++ library does not, so it shows when the file is read back.
    """
    limited = ("sh", "-c", 'ulimit -f 2048; exec "$@"', "sh")
    before = set(left_over())
    done = cell(prefix=limited, plugin_config=config, bytes="8MiB")
    assert done.status == 4, done.said
    assert len(done.said.strip().splitlines()) == 1
    assert ("cannot be read back" in done.said) == config.startswith("mcap")
    assert (done.folder / "run.json").exists() == config.startswith("mcap")
    assert not (done.folder / "verification.json").exists()
    assert set(left_over()) <= before


@pytest.mark.usefixtures("programs")
def test_a_signal_ends_the_program_too(tmp_path: Path) -> None:
    """The program would write for a minute."""
    options = ("--message_size", "10KiB", "--batch_size", "1KiB", "--rate", "1000000")
    process = subprocess.Popen(
        [
            *(sys.executable, str(RUN), "--plugin_config", "mcap_default", *options),
            *("--bytes", "64MiB", "--output", str(tmp_path)),
        ]
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    begun = wait_for(lambda: children.read_text().split(), process=process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    # The parent that inherits the process may need a moment to notice its end.
    wait_for(lambda: not Path("/proc", *begun).exists())


def test_messages_that_come_too_fast_are_dropped_and_counted(cell: Cell) -> None:
    """A queue of 64 KiB cannot take 1,000,000,000 bytes per second."""
    done = cell(message_size="10KiB", bytes="16MiB", rate="1000000000", queue="64KiB")
    assert done.status == 0, done.said
    facts = done.facts
    assert facts["produced"] == (16 << 20) // 10_240
    assert facts["dropped"] > 0
    assert facts["message_count"] + facts["dropped"] == facts["produced"]
    assert facts["bytes"] + facts["dropped_bytes"] == facts["produced_bytes"]
    assert facts["longest_queue_bytes"] <= 64 << 10


def test_messages_that_come_slowly_all_arrive(cell: Cell) -> None:
    done = cell(message_size="10KiB", bytes="1MiB", rate="20000000", queue="64MiB")
    assert done.status == 0, done.said
    assert done.facts["dropped"] == 0
    # 1 MiB at 20 MB/s: the last of 102 messages is due after 51.7 ms.
    assert done.facts["producing_ns"] >= 51_000_000


def test_a_disk_is_named_as_the_system_names_it(cell: Cell, tmp_path: Path) -> None:
    """df is the second implementation."""
    asked = ["df", "--output=fstype,source", str(tmp_path)]
    listing = subprocess.check_output(asked, text=True)
    kind, source = listing.splitlines()[1].split(maxsplit=1)
    done = cell(place=tmp_path, any_disk=True)
    assert done.status == 0, done.said
    words = done.facts["file_system"].split()
    assert words[0] == kind
    if len(words) > 2 and source == f"/dev/{Path(source).name}":
        assert Path(source).resolve().name == words[2]
