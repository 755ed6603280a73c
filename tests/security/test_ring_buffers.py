"""Kernel traces that somebody damaged or made up: one clear line, or what can be read of them.

Pages, descriptions and files of trace-cmd written by hand are changed at random and on purpose.
"""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.kernel.ring_buffer import HEADER_PAGE, PAGE, SWITCH, event, irq, page, switch, trace_dat
from tests.kernel.ring_buffer import write_raw as write

from roslens.collectors.reader import open_trace
from roslens.recording import RoslensError, UsageError
from roslens.recording.foreign import read_here
from roslens.tracing.ftrace.recorder import convert
from roslens.tracing.ftrace.trace_dat import convert_trace_dat
from roslens.tracing.unpacking import unpack

ROUNDS = 50
LARGEST = 4 << 20
"""Bytes that may come of the few pages that are given."""


def pages() -> bytes:
    draw = random.Random(7)
    return b"".join(
        page(
            10**6 * n,
            *(event(draw.randrange(1 << 12), switch(k, k + 1)) for k in range(20)),
            *(event(3, irq(k, b"timer")) for k in range(5)),
            missed=n % 3 or None,
        )
        for n in range(8)
    )


def bent(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.randrange(1, 12)):
        changed[draw.randrange(len(changed))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))
    if draw.random() < 0.2:
        del changed[draw.randrange(len(changed)) :]
    return bytes(changed)


def in_one_line(step: Callable[[], object]) -> bool:
    """Whether it went well; else it must have ended in one clear line."""
    told = None
    try:
        step()
    except RoslensError as error:
        told = str(error)
    assert told is None or (told and "\n" not in told)
    return told is None


def read_all(folder: Path) -> None:
    """Read what was made of it, which is bounded."""
    assert sum(x.stat().st_size for x in folder.rglob("*") if x.is_file()) < LARGEST
    in_one_line(lambda: open_trace(folder).read())
    in_one_line(lambda: open_trace(folder).info())


def test_bent_pages(tmp_path):
    draw = random.Random(1)
    for number in range(ROUNDS):
        raw = write(tmp_path / f"{number}", [bent(pages(), draw)], overruns=[draw.randrange(99)])
        convert(raw, raw / "kernel", beside=raw)
        read_all(raw / "kernel")
        shutil.rmtree(raw)


def test_bent_descriptions(tmp_path):
    draw = random.Random(2)
    for number in range(ROUNDS):
        texts = [bent(x.encode(), draw).decode("latin-1") for x in (SWITCH, HEADER_PAGE)]
        raw = write(
            tmp_path / f"{number}",
            [pages()],
            formats={"a:b": texts[0]} if number % 2 else {"sched:sched_switch": SWITCH},
            header_page=HEADER_PAGE if number % 2 else texts[1],
        )
        if in_one_line(partial(convert, raw, raw / "kernel", beside=raw)):
            read_all(raw / "kernel")
        shutil.rmtree(raw)


def test_bent_files_of_trace_cmd(tmp_path):
    draw = random.Random(3)
    good = trace_dat([pages(), pages()])
    for number in range(ROUNDS):
        # The head, where sizes and places stand, far more often than the pages.
        at = 6000 if number % 4 else len(good)
        path = tmp_path / f"{number}.dat"
        path.write_bytes(b"\x17\x08\x44tracing" + bent(good[10:at], draw) + good[at:])
        if in_one_line(partial(read_trace_dat, path, tmp_path / "out")):
            read_all(tmp_path / "out")
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        path.unlink()


def read_trace_dat(path: Path, folder: Path) -> None:
    """As `unpack` has it read by another process."""
    with read_here(path, "a file of trace-cmd"):
        convert_trace_dat(path, folder, beside=path.parent, max_bytes=LARGEST)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ("{}", "does not describe"),
        ("[" * 5000, "does not describe"),
        ('{"header_page": 1}', "does not describe"),
    ],
)
def test_what_lies_beside_the_pages(tmp_path, about, message):
    raw = write(tmp_path / "raw", [pages()])
    (raw / "about.json").write_text(about)
    with pytest.raises(UsageError, match=message):
        convert(raw, tmp_path / "kernel", beside=tmp_path)


def test_names_cannot_leave_the_metadata(tmp_path):
    raw = write(tmp_path / "raw", [pages()], hostname='x"; }; /* \n', release="\\")
    convert(raw, tmp_path / "t" / "kernel", beside=tmp_path)
    assert open_trace(tmp_path / "t").read()["sched_switch"].height > 0


def test_places_that_overlap_or_lie_outside(tmp_path):
    """Sixteen thousand CPUs in one place, or pages behind the end."""
    good = bytearray(trace_dat([pages()] * 2))
    at = good.index(b"flyrecord\0") + 10
    struct.pack_into("<QQ", good, at + 16, 0, len(good))
    (tmp_path / "a.dat").write_bytes(good)
    with pytest.raises(UsageError, match="several CPUs in one place"):
        unpack(tmp_path / "a.dat", tmp_path / "out")
    struct.pack_into("<QQ", good, at, len(good) - PAGE, PAGE)
    struct.pack_into("<QQ", good, at + 16, len(good), PAGE)
    (tmp_path / "b.dat").write_bytes(good)
    with pytest.raises(UsageError, match="beyond its end"):
        unpack(tmp_path / "b.dat", tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
