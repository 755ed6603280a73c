"""Test cut, damaged or hostile input: one clear error, or the whole part and a loss."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.ctf import ctf_writer as w

from roslens.collectors.reader import open_trace
from roslens.recording import RunFailedError, UsageError

EVENT = w.Event(
    "p:e",
    0,
    w.structure(
        {
            "n": w.integer(32),
            "text": w.text(),
            "len": w.integer(8),
            "l": w.sequence(w.integer(16), "len"),
        }
    ),
)
COMMON = w.structure({"vpid": w.integer(32, True), "procname": w.chars(17)})

COMMON_VALUES = {"vpid": 1, "procname": "proc"}


@dataclass
class Made:
    """A trace of one stream, and where in its file each event ends."""

    trace: w.TraceWriter
    stream: w.Stream
    ends: list[int] = field(default_factory=list)
    packets: list[tuple[int, int]] = field(default_factory=list)


def make(packets: int = 3, per_packet: int = 4, *, compact: bool = True) -> Made:
    trace = w.TraceWriter([EVENT], context=COMMON, compact=compact)
    source = Made(trace, w.Stream(trace))
    number = 0
    for _ in range(packets):
        start = len(source.stream.data)
        for _ in range(per_packet):
            values = {"n": number, "text": "x" * (number % 5), "len": number % 3}
            values["l"] = [number] * (number % 3)
            source.stream.event(EVENT, 1_000 + number * 10, values, {"vpid": 1, "procname": "proc"})
            source.ends.append(start + len(source.stream.bits.bits) // 8)
            number += 1
        content = start + len(source.stream.bits.bits) // 8
        source.stream.packet(padding=5)
        source.packets.append((start, content))
    return source


def read_numbers(root: Path) -> list[int]:
    return open_trace(root).read()["p:e"]["n"].to_list()


def check_error(error: UsageError, root: Path) -> None:
    """Check that the error is one line that names the file."""
    assert str(root) in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("compact", [True, False])
def test_everything_before_a_cut_is_kept(tmp_path, compact):
    """The file is cut at every byte; the writer knows where each event ends."""
    source = make(compact=compact)
    source.trace.save(tmp_path)
    data = bytes(source.stream.data)
    head = source.trace.head_bits // 8
    for cut in range(head, len(data) + 1):
        (tmp_path / "s").write_bytes(data[:cut])
        whole = [i for i, end in enumerate(source.ends) if end <= cut]
        trace = open_trace(tmp_path)
        assert trace.read()["p:e"]["n"].to_list() == whole
        info = trace.info()
        assert info.events == len(whole)
        # Nothing is lost if the cut is after the content of a packet.
        torn = any(start < cut < content for start, content in source.packets)
        assert (info.losses["kind"].to_list() == ["truncated"]) == torn
        assert bool(info.warnings) == torn
        if torn:
            assert "byte" in info.warnings[0]
            if whole:
                assert info.losses["begin_ns"][0] <= 1_000 + 10 * len(whole)


def test_a_cut_before_the_end_of_the_first_head_is_an_error(tmp_path):
    source = make()
    source.trace.save(tmp_path)
    (tmp_path / "s").write_bytes(bytes(source.stream.data)[:50])
    with pytest.raises(UsageError, match=r"s: byte 0: ends inside the head of a packet"):
        open_trace(tmp_path)


def test_one_unreadable_stream_of_two_is_a_warning(tmp_path):
    source = make()
    source.trace.save(tmp_path, good=source.stream)
    (tmp_path / "notes.txt").write_text("these are my notes about this trace\n" * 10)
    info = open_trace(tmp_path).info()
    assert info.events == 12
    assert len(info.warnings) == 1
    assert info.warnings[0].startswith("notes.txt: not read: byte 0: not a CTF packet")
    (tmp_path / "good").unlink()
    with pytest.raises(UsageError, match=f"{tmp_path}/notes.txt: byte 0: not a CTF packet"):
        open_trace(tmp_path)


def test_a_damaged_packet_costs_only_its_rest(tmp_path):
    source = make()
    data = bytearray(source.stream.data)
    # The first event of the second packet gets a number that no event has (5 lowest bits).
    second = source.packets[1][0] + source.trace.head_bits // 8
    data[second] = data[second] & 0xE0 | 9
    source.trace.save(tmp_path)
    (tmp_path / "s").write_bytes(bytes(data))
    trace = open_trace(tmp_path)
    assert trace.read()["p:e"]["n"].to_list() == [0, 1, 2, 3, 8, 9, 10, 11]
    info = trace.info()
    assert info.losses["kind"].to_list() == ["truncated"]
    assert f"byte {second}: the metadata declares no event 9" in info.warnings[0]


def test_a_file_that_is_two_files_in_a_row(tmp_path):
    """Two streams of a trace lie in one file: both are read, and each keeps its own count."""
    first = make(packets=2)
    first.stream.packet(discarded=3)
    second = w.Stream(first.trace, instance=1, cpu=1)
    second.event(EVENT, 1_005, {"n": 99, "text": "", "len": 0, "l": []}, COMMON_VALUES)
    second.packet(discarded=5)
    first.trace.save(tmp_path)
    (tmp_path / "s").write_bytes(bytes(first.stream.data + second.data))
    info = open_trace(tmp_path).info()
    assert read_numbers(tmp_path) == [0, 99, *range(1, 8)]
    assert info.discarded_events == 3 + 5
    assert set(info.losses["kind"]) == {"discarded_events"}


@pytest.mark.parametrize("cut", [1, 40, 100])
def test_a_torn_file_with_another_behind_it(tmp_path, cut):
    """Data after a torn packet are at an unknown place: they are lost, reported, and dated."""
    source = make()
    data = bytes(source.stream.data)
    _, content = source.packets[1]
    source.trace.save(tmp_path)
    (tmp_path / "s").write_bytes(data[: content - cut] + data)
    info = open_trace(tmp_path).info()
    whole = [i for i, end in enumerate(source.ends) if end <= content - cut]
    numbers = read_numbers(tmp_path)
    assert numbers[: len(whole)] == whole
    truncated = info.losses.filter(info.losses["kind"] == "truncated")
    assert truncated.height >= 1
    # The loss is after the last event of the first packet, which is whole.
    last_whole = 1_000 + 10 * 3
    assert all(begin >= last_whole for begin in truncated["begin_ns"])
    assert info.warnings


def test_a_stream_of_no_bytes_is_no_matter(tmp_path):
    source = make()
    source.trace.save(tmp_path, s=source.stream)
    (tmp_path / "empty").write_bytes(b"")
    info = open_trace(tmp_path).info()
    assert info.events == 12
    assert info.warnings == []
    for path in tmp_path.glob("s"):
        path.write_bytes(b"")
    info = open_trace(tmp_path).info()
    assert (info.events, info.begin_ns, info.losses.height) == (0, None, 0)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "byte 0: the metadata is empty"),
        (b"\x00" * 100, "byte 0: the metadata is neither text nor metadata packets"),
        (bytes(range(1, 256)) * 4, "byte 127: the metadata is neither text nor metadata packets"),
        (b"\xff\xfe binary", "byte 0: the metadata is neither text nor metadata packets"),
        (b"hello world", "metadata:1:1: expected a block"),
        (b"trace { major = 1; minor = 8;", "metadata:1:1: the 'trace' block has no byte_order"),
        (
            b"trace { major = 2; minor = 0; byte_order = le; };",
            "metadata:1:1: expected CTF 1.8, found 2.0",
        ),
        (
            b"/* CTF 1.8 */\n\nenv { a = 1; };\n",
            "metadata:4:1: the metadata ends without a 'trace'",
        ),
    ],
)
def test_metadata_that_is_none(tmp_path, content, expected):
    (tmp_path / "metadata").write_bytes(content)
    with pytest.raises(UsageError) as caught:
        open_trace(tmp_path)
    assert expected in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_metadata(tmp_path):
    with pytest.raises(UsageError, match="no CTF trace here"):
        open_trace(tmp_path)
    with pytest.raises(UsageError, match="not a folder"):
        open_trace(tmp_path / "nowhere")


def test_metadata_cut_inside_a_packet(tmp_path):
    source = make()
    source.trace.save(tmp_path, s=source.stream)
    whole = w.packetized(source.trace.metadata(), size=512)
    (tmp_path / "metadata").write_bytes(whole[: 512 + 100])
    with pytest.raises(UsageError, match=r"byte 612: the metadata ends inside the packet.* 512"):
        open_trace(tmp_path)


BOMBS = {
    "fields": "struct a { integer { size = 8; } x; };\n"
    + "".join(
        f"struct {chr(98 + i)} {{ "
        + " ".join(f"struct {chr(97 + i)} m{k};" for k in range(16))
        + " };\n"
        for i in range(12)
    ),
    "nesting": "struct s { " * 5_000,
    "dimensions": "typealias integer { size = 8; } := b; struct s { b x" + "[2]" * 1000 + "; };",
    "array": "struct s { integer { size = 8; } x[18446744073709551615]; };",
}


@pytest.mark.parametrize("name", BOMBS)
def test_metadata_that_would_need_all_memory(tmp_path, name):
    source = make()
    source.trace.save(tmp_path, s=source.stream)
    text = source.trace.metadata().replace("stream {", BOMBS[name] + "\nstream {", 1)
    if name == "array":
        text = text.replace("fields := struct {", "fields := struct { struct s huge;")
    (tmp_path / "metadata").write_text(text)
    # A separate process with 1 GiB keeps a bomb that goes off from hurting anybody else.
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "from roslens.collectors.reader import open_trace\n"
        "from roslens.recording import UsageError\n"
        "try:\n"
        "    print(open_trace(Path(sys.argv[1])).info().events)\n"
        "except UsageError as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    expected = {
        "fields": "expand to more than",
        "nesting": "nested deeper than",
        "dimensions": "fewer dimensions",
        "array": "0",
    }
    assert expected[name] in run.stdout


@pytest.mark.parametrize("seed", range(6))
def test_random_damage_never_crashes(tmp_path, seed):
    """Panics of the compiled code are no `Exception`, so they would end the test."""
    draw = random.Random(seed)
    source = make(compact=bool(seed % 2))
    text = source.trace.metadata().encode()
    data = bytes(source.stream.data)
    for _ in range(60):
        metadata, stream = bytearray(text), bytearray(data)
        target = stream if draw.random() < 0.7 else metadata
        for _ in range(draw.choice([1, 1, 2, 8])):
            at = draw.randrange(len(target))
            target[at] = draw.choice([0, 0xFF, 0x7F, target[at] ^ 1 << draw.randrange(8)])
        (tmp_path / "metadata").write_bytes(metadata)
        (tmp_path / "s").write_bytes(stream)
        try:
            trace = open_trace(tmp_path)
            frames = trace.read()
            assert sum(f.height for f in frames.values()) == trace.info().events
        except UsageError as error:
            check_error(error, tmp_path)


def test_a_place_that_cannot_be_written(tmp_path):
    source = make()
    root = source.trace.save(tmp_path / "trace", s=source.stream)
    (tmp_path / "events").write_text("in the way")
    with pytest.raises(RunFailedError, match="events"):
        open_trace(root).write_events(tmp_path / "events")


def test_a_full_disk_leaves_no_half_file(tmp_path):
    """/dev/full refuses every byte, as a full disk does."""
    source = make()
    root = source.trace.save(tmp_path / "trace", s=source.stream)
    folder = tmp_path / "events" / "p"
    folder.mkdir(parents=True)
    (folder / "e.parquet.partial").symlink_to("/dev/full")
    with pytest.raises(RunFailedError, match=r"[Nn]o space left"):
        open_trace(root).write_events(tmp_path / "events")
    assert not (folder / "e.parquet").exists()
