"""Test archives made to harm: bounded before reading, refused in one line, nothing left."""

import gzip
import io
import lzma
import os
import signal
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.samples import RUN

from roslens.collectors.reader import open_trace
from roslens.recording import RunFailedError, UsageError
from roslens.recording.foreign import read_here
from roslens.tracing.archive import pack
from roslens.tracing.archive_names import HEAD, SUMS
from roslens.tracing.unpacking import unpack, unpack_into, unpack_stream

pytestmark = pytest.mark.timeout(240)


def header(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return one block in the old GNU format, with the given size, whatever follows."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def file(name: str, content: bytes) -> bytes:
    """Return a file of at most one block."""
    return header(name, len(content)) + content.ljust(512, b"\0")


HEAD_OF_OURS = file(HEAD, b'{"format": 1}')


def zstd(path: Path, blocks: Iterator[bytes]) -> Path:
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        for block in blocks:
            stream.write(block)
    return path


def gz(path: Path, blocks: Iterator[bytes]) -> Path:
    with gzip.open(path, "wb", compresslevel=9) as stream:
        for block in blocks:
            stream.write(block)
    return path


def xz(path: Path, blocks: Iterator[bytes]) -> Path:
    with lzma.open(path, "wb") as stream:
        for block in blocks:
            stream.write(block)
    return path


def large_header(kind: bytes) -> Iterator[bytes]:
    """Yield a header that states 2 GB, and a part of its content."""
    yield header("x", 2 << 30, kind)
    zeros = bytes(1 << 22)
    for _ in range(8):
        yield zeros


def many(number: int) -> Iterator[bytes]:
    for start in range(0, number, 1000):
        yield b"".join(header(f"{index}") for index in range(start, start + 1000))


def headers_within_headers() -> Iterator[bytes]:
    block = header("x", 10, b"x") + b"10 path=a\n".ljust(512, b"\0")
    for _ in range(110):
        yield block * 100


def extended(*records: bytes) -> bytes:
    """Return a pax header of these records, each without its length, and the empty file `a`."""
    lines = b"".join(b"%d %s\n" % (len(record) + 4, record) for record in records)
    return header("x", len(lines), b"x") + lines.ljust(-(-len(lines) // 512) * 512, b"\0")


def sparse_map() -> Iterator[bytes]:
    """Yield a sparse file whose map is said to have a million lines, and a part of these."""
    yield extended(b"GNU.sparse.major=1", b"GNU.sparse.minor=0") + header("a", 1 << 26)
    yield b"1000000\n" + b"1\n" * (1 << 20)


NO_FILES = {"link": tarfile.SYMTYPE, "hard link": tarfile.LNKTYPE, "pipe": tarfile.FIFOTYPE,
            "device": tarfile.CHRTYPE}  # fmt: skip
_LARGE = "a header of more than 65,536 B"
HOSTILE: dict[str, tuple[Callable[[], Iterator[bytes]], str]] = {
    "pax": (lambda: large_header(b"x"), _LARGE),
    "pax of all": (lambda: large_header(b"g"), _LARGE),
    "long name": (lambda: large_header(b"L"), _LARGE),
    "long link": (lambda: large_header(b"K"), _LARGE),
    "headers": (headers_within_headers, _LARGE),
    "sparse map": (sparse_map, _LARGE),
    "many": (lambda: many(11_000), "entries"),
    "deep": (lambda: iter([header("d/" * 40 + "f")]), "deeper than 32 folders"),
    "name": (
        lambda: iter([header("x", 2000, b"L"), b"n" * 2000, bytes(48), header("x")]),
        "1024 B",
    ),
    "large": (lambda: iter([header("a", 1 << 60)]), "unpacks to more than"),
    "negative": (lambda: iter([header("a", -512)]), "damaged|refused"),
    "negative folder": (lambda: iter([header("d/", -(1 << 60), b"5")]), "negative size"),
    "negative link": (lambda: iter([header("a", -(1 << 60), b"2")]), "negative size"),
    "pax lies": (
        lambda: iter([extended(b"size=-512"), header("a"), header("b"), bytes(1024)]),
        "damaged|refused|no whole archive",
    ),
    "sparse": (lambda: iter([header("a", 0, b"S")]), "no regular file"),
    **{
        name: (lambda kind=kind: iter([header("a", 0, kind)]), "no regular file")
        for name, kind in NO_FILES.items()
    },
    **{
        name: (lambda name=name: iter([header(name, 1)]), "outside of the folder")
        for name in ("../evil", "a/../../evil", "/tmp/evil", "a//b", "a\\..\\b")
    },
    "twice": (lambda: iter([header("a")] * 2), "is in it twice"),
    "more than 256 MiB": (lambda: iter([header("a", 300 << 20)]), "unpacks to more than"),
    "behind": (lambda: iter([bytes(1024), *[bytes(1 << 20)] * 4]), "behind its end|not packed"),
    "short": (lambda: iter([header("a", 5000), b"x" * 100]), "unexpected end of data"),
    "no end": (lambda: iter([header("a")]), "ends early"),
    "damaged": (lambda: iter([header("a"), b"x" * 512, bytes(1024)]), "invalid header"),
}
OURS: dict[str, tuple[Callable[[], Iterator[bytes]], str]] = {
    name: (lambda files=files: iter([*files, bytes(1024)]), refusal)
    for name, files, refusal in (
        ("no sum", [file("a", b"x")], "wrong checksum"),
        ("another sum", [file("a", b"x"), file(SUMS, b"0  a\n")], "wrong checksum"),
        ("sum of no file", [file(SUMS, b"0  a\n")], "wrong checksum"),
        ("no list of sums", [file(SUMS, b"nonsense")], "not a list of checksums"),
    )
}
"""Archives in the form of `pack` alone."""


def read(archive: Path, scratch: Path) -> None:
    """Read an archive as `unpack` does in a separate process, which takes time to start."""
    scratch.mkdir()
    with read_here(archive, "an archive"):
        unpack_into(archive, scratch=str(scratch), folder=str(scratch.parent), max_bytes=None)


@pytest.mark.parametrize(
    ("form", "name"),
    [
        *((form, name) for form in ("tar.zst", "tar.gz", "tar.xz", "tzst") for name in HOSTILE),
        *(("tar.zst", name) for name in OURS),
    ],
)
def test_hostile_tar_files(tmp_path: Path, form: str, name: str) -> None:
    blocks, refusal = (HOSTILE | OURS)[name]

    def content() -> Iterator[bytes]:
        if form == "tar.zst":
            yield HEAD_OF_OURS
        yield from blocks()

    write = {"tar.gz": gz, "tar.xz": xz}.get(form, zstd)
    archive = write(tmp_path / f"bad.{form}", content())
    (tmp_path / "out").mkdir()
    do = unpack if form == "tar.zst" else read
    with pytest.raises(UsageError, match=refusal):
        do(archive, tmp_path / ("out" if form == "tar.zst" else "scratch"))
    assert list((tmp_path / "out").iterdir()) == []
    assert not list(tmp_path.rglob("evil"))


STREAMS = {
    **HOSTILE,
    "large": (HOSTILE["large"][0], "holds more than the [0-9,]+ B for which there is room"),
}


@pytest.mark.parametrize(
    "name", sorted(STREAMS.keys() - NO_FILES.keys() - {"many", "more than 256 MiB"})
)
def test_a_hostile_stream_of_another_host(tmp_path: Path, name: str) -> None:
    blocks, refusal = STREAMS[name]
    error = {"large": RunFailedError}.get(name, UsageError)
    with pytest.raises(error, match=refusal):
        unpack_stream(io.BytesIO(b"".join(blocks())).read, tmp_path / "out", "what it sent")
    assert {path.name for path in tmp_path.rglob("*")} <= {"out", "a"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_stream_of_another_host_brings_files_alone(tmp_path: Path, kind: bytes) -> None:
    content = header("b", 1) + b"x".ljust(512, b"\0") + header("a", 0, kind) + bytes(1024)
    unpack_stream(io.BytesIO(content).read, tmp_path / "out", "what it sent")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b"]


def zipped(path: Path, *entries: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, content in entries:
            archive.writestr(info, content)
    return path


def linked(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o120777 << 16
    return info


def test_hostile_zip_files(tmp_path: Path) -> None:
    cases = {
        "outside of the folder": zipped(tmp_path / "up.zip", ("../evil", b"x")),
        "outside": zipped(tmp_path / "root.zip", ("/evil", b"x")),
        "no regular file": zipped(tmp_path / "link.zip", (linked("a"), b"/etc/passwd")),
        "in it twice": zipped(tmp_path / "twice.zip", ("./a", b"x"), ("a", b"x")),
        "more than 1,000 B": zipped(tmp_path / "bomb.zip", ("metadata", bytes(1 << 20))),
        "deeper": zipped(tmp_path / "deep.zip", ("d/" * 40 + "f", b"")),
        "no CTF trace": zipped(tmp_path / "none.zip", ("a", b"x")),
    }
    # The directory has 20 MB: names of 60 kB each.
    cases["longer than 1024 B"] = zipped(
        tmp_path / "names.zip", *((f"{number}".ljust(60_000, "n"), b"") for number in range(350))
    )
    broken = zipped(tmp_path / "whole.zip", ("metadata", os.urandom(5000))).read_bytes()
    (tmp_path / "flipped.zip").write_bytes(broken[:2000] + b"\0\0\0\0" + broken[2004:])
    (tmp_path / "cut.zip").write_bytes(broken[:-40])
    cases["cannot be read as an archive"] = tmp_path / "flipped.zip"
    cases["cut off"] = tmp_path / "cut.zip"
    for refusal, archive in cases.items():
        limit = 1000 if refusal.startswith("more than") else None
        with pytest.raises(UsageError, match=refusal):
            unpack(archive, tmp_path / "out", max_bytes=limit)
        assert list((tmp_path / "out").iterdir()) == []
    assert not (tmp_path / "evil").exists()


def test_streams_of_xz_one_after_the_other(tmp_path: Path) -> None:
    """Parallel tools write such streams; one that is cut off is refused."""
    whole = header("metadata", 4) + b"/**/".ljust(512, b"\0") + bytes(1024)
    halves = [lzma.compress(part) for part in (whole[:700], whole[700:])]
    (tmp_path / "two.tar.xz").write_bytes(b"".join(halves))
    assert len(unpack(tmp_path / "two.tar.xz", tmp_path / "out")) == 1
    (tmp_path / "cut.tar.xz").write_bytes(b"".join(halves)[:-20])
    with pytest.raises(UsageError, match="cut off"):
        unpack(tmp_path / "cut.tar.xz", tmp_path / "out")


def test_memory_that_an_archive_asks_for_is_limited(tmp_path: Path) -> None:
    """The file's header asks for a dictionary of 1.5 GiB."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 3 << 29}]
    (tmp_path / "x.tar.xz").write_bytes(lzma.compress(b"x" * 600, filters=filters))
    with pytest.raises(UsageError, match="more than 1024 MiB of memory"):
        unpack(tmp_path / "x.tar.xz", tmp_path / "out")


@pytest.mark.parametrize("form", ["tar.gz", "zip", "tar.xz", "tzst", "tar.zst"])
def test_a_trace_comes_out_of_each_form(tmp_path: Path, form: str) -> None:
    """The events are those of the recording that went in."""
    archive = tmp_path / f"public.{form}"
    if form == "tar.zst":
        pack([RUN], archive)
    elif form == "zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zip_file:
            for path in sorted((RUN / "trace").rglob("*")):
                zip_file.write(path, path.relative_to(RUN))
    else:
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as tar:
            tar.add(RUN / "trace", "./trace")
        write = {"tar.gz": gz, "tar.xz": xz, "tzst": zstd}[form]
        write(archive, iter([content.getvalue()]))
    (folder,) = unpack(archive, tmp_path / "out")
    assert folder.name == (RUN.name if form == "tar.zst" else "public")
    assert open_trace(folder).info().events == open_trace(RUN).info().events
    assert list((tmp_path / "out").iterdir()) == [folder]


def test_long_and_odd_names_come_out_as_they_went_in(tmp_path: Path) -> None:
    run = tmp_path / "run"
    names = ["n" * 150, "x/" * 20 + "deep", os.fsdecode(b"bad\xff\xfe"), "täg", "a b\tc"]
    (run / "trace").mkdir(parents=True)
    (run / "trace" / "metadata").write_text("/* CTF 1.8 */")
    for name in names:
        path = run / "native" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(len(name)))
    pack([run], tmp_path / "x.tar.zst")
    (folder,) = unpack(tmp_path / "x.tar.zst", tmp_path / "out")
    for name in names:
        assert (folder / "native" / name).read_text() == str(len(name))


def test_what_one_that_was_ended_left_is_taken_away(tmp_path: Path) -> None:
    archive = tmp_path / "x.tar.zst"
    pack([RUN], archive)
    code = (
        "import sys, time, roslens.tracing.unpacking as m; from pathlib import Path\n"
        "m._move = lambda *_: (print('here', flush=True), time.sleep(60))\n"
        "m.unpack(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(archive), str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        (held,) = (tmp_path / "out").iterdir()
        assert held.stat().st_mode & 0o777 == 0o700
        # Another unpack does not remove the files of one that is still working.
        with pytest.raises(UsageError):
            unpack(zstd(tmp_path / "none.tar.zst", iter([bytes(1024)])), tmp_path / "out")
        assert held.exists()
        process.send_signal(signal.SIGTERM)
        process.wait()
    assert held.exists()
    (folder,) = unpack(archive, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == [folder]


def test_it_is_read_as_a_stream(tmp_path: Path) -> None:
    """It is read half a megabyte at a time, whatever the file in it."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        info = tarfile.TarInfo("trace/metadata")
        info.size = 64 << 20
        tar.addfile(info, io.BytesIO(bytes(64 << 20)))
    (tmp_path / "x.tar.gz").write_bytes(content.getvalue())
    # The largest RSS of this process may be that of an earlier test.
    tracemalloc.start()
    read(tmp_path / "x.tar.gz", tmp_path / "out")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 32_000_000
