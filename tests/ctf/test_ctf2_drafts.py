"""Test reading CTF 2 as in proposals, and other oddities of public traces.

A trace of CTF 2 is rewritten as the proposals say, which Trace Compass' test traces also follow
(CTF2-7.0-*): both must read the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roslens.collectors.reader import open_trace
from roslens.recording import UsageError

DATA = Path(__file__).resolve().parents[2] / "collectors" / "ctf" / "tests" / "data"
SEPARATOR = "\x1e"


def fragments() -> list[dict[str, Any]]:
    text = (DATA / "ctf2.metadata").read_text()
    return [json.loads(part) for part in text.split(SEPARATOR) if part.strip()]


def trace(folder: Path, parts: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    text = "".join(f"{SEPARATOR}{json.dumps(part)}\n" for part in parts)
    (folder / "metadata").write_text(text)
    (folder / "stream").write_bytes((DATA / "ctf2.stream").read_bytes())
    return folder


def drafted(value: Any) -> Any:
    """Rewrite metadata as a proposal has it."""
    if isinstance(value, list):
        return [drafted(item) for item in value]
    if not isinstance(value, dict):
        return value
    draft = {key: drafted(item) for key, item in value.items()}
    for key in ("selector-field-location", "length-field-location"):
        if key in draft and "origin" in draft[key]:
            draft[key] = [draft[key]["origin"], *draft[key]["path"]]
    kind = draft.get("type", "")
    if "mappings" in draft and kind.endswith("-integer"):
        draft["type"] = kind.removesuffix("integer") + "enumeration"
    for old, new in (
        ("default-clock-class-id", "default-clock-class-name"),
        ("attributes", "user-attributes"),
    ):
        if old in draft:
            draft[new] = draft.pop(old)
    if kind == "clock-class":
        draft["name"] = draft.pop("id")
    return draft


def test_a_draft_is_read_as_the_standard(tmp_path: Path) -> None:
    whole = open_trace(trace(tmp_path / "a", fragments()))
    draft = open_trace(trace(tmp_path / "b", [drafted(part) for part in fragments()]))
    assert "name" in next(p for p in map(drafted, fragments()) if p["type"] == "clock-class")
    expected, actual = whole.read(), draft.read()
    assert sum(frame.height for frame in expected.values()) > 0
    assert actual.keys() == expected.keys()
    for name, frame in expected.items():
        assert actual[name].drop("trace").equals(frame.drop("trace")), name
    assert draft.log_levels == whole.log_levels


def test_a_clock_without_any_name_is_refused_at_its_place(tmp_path: Path) -> None:
    parts = fragments()
    clock = next(part for part in parts if part["type"] == "clock-class")
    clock.pop("id")
    clock.pop("name", None)
    number = parts.index(clock) + 1
    with pytest.raises(UsageError, match=rf"fragment {number}: expected a property 'id'"):
        open_trace(trace(tmp_path / "a", parts))


def test_a_clock_beyond_2262_counts_from_its_own_beginning(tmp_path: Path) -> None:
    parts = fragments()
    before = open_trace(trace(tmp_path / "a", parts)).info()
    clock = next(part for part in parts if part["type"] == "clock-class")
    offset = clock.get("offset-from-origin", {})
    since = offset.get("seconds", 0) * 10**9 + offset.get("cycles", 0) * 10**9 // clock["frequency"]
    clock["offset-from-origin"] = {"seconds": 1351530929945824323}
    info = open_trace(trace(tmp_path / "b", parts)).info()
    assert info.events == before.events
    assert before.begin_ns is not None
    assert info.begin_ns == pytest.approx(before.begin_ns - since, abs=1)
    (warning,) = (text for text in info.warnings if "2262" in text)
    assert "its offset is left out" in warning


def test_one_warning_of_a_kind(tmp_path: Path) -> None:
    for number in range(5):
        place = trace(tmp_path / f"t{number}", fragments())
        (place / "index").mkdir()
        (place / "index" / "stream.idx").write_bytes(b"CTFI" + bytes(100))
    (warning,) = open_trace(tmp_path).info().warnings
    assert warning.startswith("t0/index/stream.idx: not used: ")
    assert warning.endswith("(and 4 more such)")
