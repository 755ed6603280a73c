"""Test that integers are shown in the metadata's base. Oracle: babeltrace2's text."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.ctf import ctf_writer as w
from tests.ctf.ctf2_writer import as_sequence
from tests.programs import roslens_command

from roslens.collectors.reader import open_trace

FIELDS = {
    "pointer": w.integer(64, base="hex"),
    "mode": w.integer(16, base="octal"),
    "flags": w.integer(5, align=1, base="b"),
    "low": w.integer(12, align=1, signed=True, base="x"),
    "plain": w.integer(32, base="d"),
}
VALUES = [
    {"pointer": 0x7FFFDEADBEEF, "mode": 0o755, "flags": 5, "low": -2, "plain": 77},
    {"pointer": (1 << 64) - 1, "mode": 0, "flags": 31, "low": 2047, "plain": 0},
]


def text_of(*words: str | Path) -> list[str]:
    return subprocess.check_output(words, text=True).splitlines()


def shown(line: str) -> list[str]:
    return re.findall(r"\b(?:pointer|mode|flags|low|plain) = \S+", line)


def test_text_shows_integers_in_their_base(tmp_path: Path) -> None:
    event = w.Event("p:e", 0, w.structure(FIELDS))
    stream = w.Stream(w.TraceWriter([event]))
    for n, value in enumerate(VALUES):
        stream.event(event, 10 + n, value, {})
    stream.packet()
    root = stream.trace.save(tmp_path, s=stream)
    assert open_trace(root).display_bases["p:e"] == {
        "pointer": (16, 64),
        "mode": (8, 16),
        "flags": (2, 5),
        "low": (16, 12),
    }
    ours = text_of(*roslens_command("events", root))
    assert [shown(line) for line in ours] == [shown(t) for t in text_of("babeltrace2", root)]
    # Programs get them as numbers.
    csv = text_of(*roslens_command("events", root, "--format", "csv"))
    assert csv[1].endswith(",".join(str(value) for value in VALUES[0].values()))


def test_classes_that_differ_are_decimal(tmp_path: Path) -> None:
    for name, base in (("a", "hex"), ("b", "decimal")):
        event = w.Event("p:e", 0, w.structure({"x": w.integer(64, base=base)}))
        stream = w.Stream(w.TraceWriter([event]))
        stream.event(event, 10, {"x": 17}, {})
        stream.packet()
        stream.trace.save(tmp_path / name, s=stream)
    assert open_trace(tmp_path).display_bases["p:e"] == {}
    assert open_trace(tmp_path / "a").display_bases["p:e"] == {"x": (16, 64)}


def test_ctf_2_has_preferred_bases(tmp_path: Path) -> None:
    integer = {"type": "fixed-length-unsigned-integer", "byte-order": "little-endian"}
    member = {"name": "x", "field-class": integer | {"length": 8, "preferred-display-base": 16}}
    payload = {"type": "structure", "member-classes": [member]}
    metadata = as_sequence(
        [
            {"type": "preamble", "version": 2},
            {"type": "data-stream-class"},
            {"type": "event-record-class", "name": "p:e", "payload-field-class": payload},
        ]
    )
    (tmp_path / "metadata").write_text(metadata)
    (tmp_path / "s").write_bytes(b"\x2a")
    assert open_trace(tmp_path).display_bases["p:e"] == {"x": (16, 8)}
    (line,) = text_of(*roslens_command("events", tmp_path))
    assert "x = 0x2A" in line
