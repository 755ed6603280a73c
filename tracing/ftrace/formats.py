"""Parse the kernel's descriptions of its events and pages (``format``, ``header_page``)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from roslens.recording import UsageError
from roslens.recording.arrays import np

Kind = Literal["int", "text", "ints", "string", "relative_string"]

_FIELD = re.compile(
    r"^\s*field:(?P<type>[^;\t]*?)\s*(?P<name>\w+)\s*(?P<array>\[[^\]]*\])?;\s*"
    r"offset:(?P<offset>\d{1,6});\s*size:(?P<size>\d{1,6});(?:\s*signed:(?P<signed>[01]);)?",
    re.MULTILINE,
)
_LTTNG_NAMES = {
    "softirq_entry": "irq_softirq_entry",
    "softirq_exit": "irq_softirq_exit",
    "softirq_raise": "irq_softirq_raise",
    "cpu_frequency": "power_cpu_frequency",
    "cpu_idle": "power_cpu_idle",
    "local_timer_entry": "x86_irq_vectors_local_timer_entry",
    "local_timer_exit": "x86_irq_vectors_local_timer_exit",
}
"""Names that LTTng's kernel tracer gives to events, where they differ from ftrace's."""
FTRACE_NAMES = {name: ftrace for ftrace, name in _LTTNG_NAMES.items()}
LARGEST_EVENT = 1 << 16
HEAD_BYTES = 8
"""Size of the common head of each event: number, flags, preemption depth, thread."""


@dataclass(frozen=True)
class Field:
    """A field of an event: its position in bytes, and its type.

    ``ints`` has `count` elements of `size` bytes; for a string, the field states its position.
    """

    name: str
    offset: int
    size: int
    kind: Kind
    signed: bool = False
    count: int = 1

    @property
    def end(self) -> int:
        """Return the offset just behind the field's last byte."""
        return self.offset + self.size * self.count


@dataclass(frozen=True)
class Format:
    """An event type: its number in pages, its name as in LTTng, and its own fields."""

    number: int
    name: str
    fields: tuple[Field, ...]

    @property
    def size(self) -> int:
        """Return the minimum size of the event in bytes."""
        return max((field.end for field in self.fields), default=8)


@dataclass(frozen=True)
class PageHeader:
    """The layout of a ring-buffer page: offset and size of its byte count, offset of its data."""

    commit_offset: int
    commit_size: int
    data_offset: int
    page_size: int


def parse_format(text: str, where: str) -> Format:
    """Parse a ``format`` file.

    Raises
    ------
    UsageError
        The text describes no event.
    """
    name = re.search(r"^name:\s*([\w.-]{1,128})\s*$", text, re.MULTILINE)
    number = re.search(r"^ID:\s*(\d{1,5})\s*$", text, re.MULTILINE)
    if name is None or number is None or int(number[1]) >= 1 << 16:
        raise UsageError(f"{where}: no description of an event (name, ID)")
    # The rest describes how the event is printed, and may contain anything.
    described = text.partition("\nprint fmt:")[0]
    fields = [_field(match) for match in _FIELD.finditer(described)]
    own_fields, names = [], set()
    for field in fields:
        if field.end > LARGEST_EVENT or not field.size:
            raise UsageError(f"{where}: field {field.name!r} lies beyond any event")
        if field.name.startswith("common_"):
            continue
        renamed = field if not name[1].startswith("sched_") else _with_tid(field)
        if renamed.name not in names:
            names.add(renamed.name)
            own_fields.append(renamed)
    return Format(int(number[1]), _LTTNG_NAMES.get(name[1], name[1]), tuple(own_fields))


def format_of(
    number: int, name: str, layout: np.dtype[Any], strings: Collection[str] = ()
) -> Format:
    """Return the format of an event with this memory layout, without the common head.

    Parameters
    ----------
    strings
        Fields that state the position of a string.
    """
    fields: list[Field] = []
    for field, (kind, offset, *_) in (layout.fields or {}).items():
        if offset >= HEAD_BYTES:
            field_kind: Kind = (
                "string" if field in strings else "text" if kind.kind == "S" else "int"
            )
            fields.append(Field(field, offset, kind.itemsize, field_kind, kind.kind == "i"))
    return Format(number, name, tuple(fields))


def program_format(described: Format) -> Format:
    """Return the program's event that our probe, named ``<event>__<number>``, records."""
    name = described.name.rpartition("__")[0]
    added = ("__probe_", "roslens_")
    fields = tuple(field for field in described.fields if not field.name.startswith(added))
    return Format(described.number, f"ros2:{name}", fields)


def split_strings(described: Format) -> tuple[list[Field], list[Field]]:
    """Return the fields of fixed size, and the strings."""
    strings = [field for field in described.fields if "string" in field.kind]
    return [field for field in described.fields if field not in strings], strings


def _with_tid(field: Field) -> Field:
    # The kernel calls pid what all other tools call a thread id.
    name = re.sub(r"(^|_)pid$", r"\1tid", field.name)
    return Field(name, field.offset, field.size, field.kind, field.signed, field.count)


def _field(match: re.Match[str]) -> Field:
    kind, name = match["type"], match["name"]
    offset, size = int(match["offset"]), int(match["size"])
    signed = match["signed"] == "1"
    if kind.startswith(("__data_loc", "__rel_loc")) and "char" in kind and size == 4:
        return Field(name, offset, 4, "relative_string" if "rel" in kind else "string")
    length = re.fullmatch(r"\[(\d{1,5})\]", match["array"] or "")
    if length is not None and size:
        count = int(length[1])
        if re.search(r"\bchar\b", kind) and "unsigned" not in kind and count == size:
            return Field(name, offset, size, "text")
        if count and size % count == 0 and size // count in (1, 2, 4, 8):
            return Field(name, offset, size // count, "ints", signed, count)
    if size in (1, 2, 4, 8) and not match["array"]:
        return Field(name, offset, size, "int", signed)
    return Field(name, offset, 1, "ints", signed=False, count=size)


def parse_formats(texts: Iterable[tuple[str, str]]) -> dict[int, Format]:
    """Parse the descriptions of events, given with their places; return them by number.

    Raises
    ------
    UsageError
        A text describes no event.
    """
    formats = (parse_format(text, where) for where, text in texts)
    return {described.number: described for described in formats}


def parse_header_page(text: str, where: str) -> PageHeader:
    """Parse ``events/header_page``.

    Raises
    ------
    UsageError
        The text describes no page, or an impossible page.
    """
    fields = {f["name"]: (int(f["offset"]), int(f["size"])) for f in _FIELD.finditer(text)}
    try:
        (stamp, stamp_size), (commit, commit_size) = fields["timestamp"], fields["commit"]
        data, size = fields["data"]
    except KeyError as error:
        raise UsageError(f"{where}: no description of a page: no field {error}") from error
    page = data + size
    well = (stamp, stamp_size, commit) == (0, 8, 8) and commit_size in (4, 8)
    if not well or data != 8 + commit_size or not 256 <= page <= 1 << 20 or page % 8:
        raise UsageError(f"{where}: describes pages that no kernel of today writes")
    return PageHeader(commit, commit_size, data, page)
