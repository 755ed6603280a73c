"""Define the columns of a raw event table, and one type if several classes share a name.

The native reader follows the same rules; `tests/ctf` compares the two.

* Integers take the next of 8, 16, 32, 64 bits and keep their sign.
* Contexts ``vpid``, ``vtid``, ``procname`` have their own columns, others become ``ctx_<name>``.
* A payload field whose name is taken by a common or context column becomes ``field_<name>``.
* Classes that share an event name share a table: union of columns; integers and floats widen to
  hold both; where no type holds both, the later class gets ``<name>_2``, ``<name>_3``, ...
* Structures without members hold nothing and have no column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import polars as pl

from roslens.collectors.schema import RAW_EVENT_COLUMNS

Kind: TypeAlias = Sequence[Any]
"""``["int", bits, signed]`` and so on, as `tests.oracle.babeltrace_rows` writes it."""
Members: TypeAlias = Sequence[tuple[str, Kind]]

_RAW_NAMES = tuple(column.name for column in RAW_EVENT_COLUMNS)
_RAW_CONTEXTS = {"vpid": "int", "vtid": "int", "procname": "string"}


@dataclass
class EventTable:
    """The columns of one event name, growing with each class that has the name.

    Attributes
    ----------
    contexts, payload
        Column name to kind, in order.
    """

    contexts: dict[str, Kind] = field(default_factory=dict)
    payload: dict[str, Kind] = field(default_factory=dict)

    def add_contexts(self, members: Members) -> list[str | None]:
        """Add a class's context fields; returns the column of each, if it has one."""
        taken: set[str] = set()
        columns: list[str | None] = []
        for name, kind in members:
            if is_nothing(kind):
                columns.append(None)
                continue
            if _RAW_CONTEXTS.get(name) == kind[0] and name not in taken and _fits(kind):
                column = name
            else:
                column = _merge(self.contexts, f"ctx_{name}", kind, taken)
            taken.add(column)
            columns.append(column)
        return columns

    def add_payload(self, members: Members) -> list[str | None]:
        """Add a class's payload fields, after all contexts; returns the column of each."""
        taken: set[str] = set()
        columns: list[str | None] = []
        for name, kind in members:
            if is_nothing(kind):
                columns.append(None)
                continue
            free = name
            while free in _RAW_NAMES or free in self.contexts or free in taken:
                free = f"field_{free}"
            column = _merge(self.payload, free, kind, taken)
            taken.add(column)
            columns.append(column)
        return columns

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """Return column names with polars types, common columns first."""
        raw = {column.name: _RAW_TYPES[column.type] for column in RAW_EVENT_COLUMNS}
        fields = {name: polars_type(kind) for name, kind in (self.contexts | self.payload).items()}
        return raw | fields


_RAW_TYPES: dict[str, pl.DataType] = {
    "int32": pl.Int32(),
    "int64": pl.Int64(),
    "string": pl.String(),
}


def polars_type(kind: Kind) -> pl.DataType:
    """Return the polars type of a kind."""
    match kind:
        case ["int", bits, signed]:
            return _int(bits, signed)
        case ["float", bits]:
            return pl.Float32() if bits == 32 else pl.Float64()
        case ["string"]:
            return pl.String()
        case ["bool"]:
            return pl.Boolean()
        case ["enum", bits, signed]:
            return pl.Struct({"value": _int(bits, signed), "label": pl.String()})
        case ["list", element]:
            return pl.List(polars_type(element))
        case ["struct", members]:
            return pl.Struct({n: polars_type(k) for n, k in members if not is_nothing(k)})
    raise ValueError(f"unknown kind {kind!r}")


def is_nothing(kind: Kind) -> bool:
    """Return whether it is a structure without members, or a list of such."""
    match kind:
        case ["struct", members]:
            return all(is_nothing(member) for _, member in members)
        case ["list", element]:
            return is_nothing(element)
    return False


def plain(kind: Kind, value: Any) -> Any:
    """Convert a value of `babeltrace_rows` to what polars takes (structs as dicts)."""
    if value is None:
        return None
    match kind:
        case ["enum", *_]:
            return {"value": value[0], "label": value[1]}
        case ["list", element]:
            return [plain(element, item) for item in value]
        case ["struct", members]:
            pairs = zip(members, value, strict=True)
            return {n: plain(k, item) for (n, k), item in pairs if not is_nothing(k)}
    return value


def _int(bits: int, signed: bool) -> pl.DataType:
    kind: pl.DataType = getattr(pl, f"{'' if signed else 'U'}Int{_width(bits)}")()
    return kind


def _width(bits: int) -> int:
    return next(width for width in (8, 16, 32, 64) if bits <= width)


def _fits(kind: Kind) -> bool:
    return kind[0] == "string" or _width(kind[1]) <= 32


def _merge(columns: dict[str, Kind], name: str, kind: Kind, taken: set[str]) -> str:
    attempt = name
    number = 1
    while True:
        if attempt not in taken:
            merged = kind if attempt not in columns else _unify(columns[attempt], kind)
            if merged is not None:
                columns[attempt] = merged
                return attempt
        number += 1
        attempt = f"{name}_{number}"


def _unify(left: Kind, right: Kind) -> Kind | None:
    """Return the narrowest kind that holds the values of both, or None."""
    if left[0] != right[0]:
        return None
    match left[0]:
        case "int" | "enum":
            bits = _unify_ints(_width(left[1]), left[2], _width(right[1]), right[2])
            return None if bits is None else [left[0], bits, left[2] or right[2]]
        case "float":
            return ["float", max(left[1], right[1])]
        case "list":
            element = _unify(left[1], right[1])
            return None if element is None else ["list", element]
        case "struct":
            if [name for name, _ in left[1]] != [name for name, _ in right[1]]:
                return None
            kinds = [_unify(a, b) for (_, a), (_, b) in zip(left[1], right[1], strict=True)]
            if None in kinds:
                return None
            return ["struct", [[n, k] for (n, _), k in zip(left[1], kinds, strict=True)]]
    return left


def _unify_ints(bits: int, signed: bool, other_bits: int, other_signed: bool) -> int | None:
    if signed == other_signed:
        return max(bits, other_bits)
    signed_bits, unsigned_bits = (bits, other_bits) if signed else (other_bits, bits)
    needed = max(signed_bits, 2 * unsigned_bits)
    return needed if needed <= 64 else None
