"""Test damaged or forged kernel traces: one clear line, or what can be read of them.

Pages, descriptions and files of trace-cmd written by hand are changed on purpose;
`test_result_files.py` changes them at random.
"""

from __future__ import annotations

import random
import struct

import pytest
from tests.kernel.ring_buffer import PAGE, trace_dat
from tests.kernel.ring_buffer import write_raw as write
from tests.security.foreign_targets import pages
from tests.security.mutations import mutated

from roslens.collectors.reader import open_trace
from roslens.recording import UsageError
from roslens.tracing.ftrace.recorder import convert
from roslens.tracing.unpacking import unpack


def test_damaged_pages_are_never_refused(tmp_path):
    draw = random.Random(1)
    for number in range(50):
        changed = mutated(pages(), draw)
        raw = write(tmp_path / f"{number}", [changed], overruns=[draw.randrange(99)])
        convert(raw, raw / "kernel", beside=raw)


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
    """Sixteen thousand CPUs share one place, or pages lie behind the end."""
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
