# The compiled reader; use collectors.reader.
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Self, TypeAlias

class TraceError(ValueError): ...

class Reader:
    def __new__(
        cls,
        traces: Sequence[tuple[str | PathLike[str], str]],
        clock_offsets: dict[str, int] | None = None,
    ) -> Self: ...
    @property
    def event_names(self) -> list[str]: ...
    @property
    def log_levels(self) -> dict[str, int]: ...
    @property
    def hosts(self) -> list[str]: ...
    @property
    def span(self) -> tuple[int | None, int | None]: ...
    def read(
        self,
        names: Sequence[str] | None,
        begin_ns: int | None,
        end_ns: int | None,
        threads: int,
        fields: Sequence[str] | None = None,
    ) -> dict[str, Any]: ...
    def stream(
        self,
        names: Sequence[str] | None,
        begin_ns: int | None,
        end_ns: int | None,
        threads: int,
        fields: Sequence[str] | None = None,
    ) -> Stream: ...
    def windows(
        self, begin_ns: int | None, end_ns: int | None, size: int
    ) -> list[tuple[int | None, int | None]]: ...
    def summary(self, threads: int) -> dict[str, Any]: ...
    def write(
        self,
        folder: str | PathLike[str],
        threads: int,
        progress: Callable[[int, int], object] | None,
        names: Sequence[str] | None = None,
        begin_ns: int | None = None,
        end_ns: int | None = None,
        fields: Sequence[str] | None = None,
    ) -> dict[str, Any]: ...

class Stream:
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[str, Any]: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

def concat(parts: Sequence[str | PathLike[str]], path: str | PathLike[str]) -> None: ...

# What has the buffer protocol: time and thread of each row, 64-bit integers.
_Columns: TypeAlias = tuple[Any, Any]

def timeline(parts: Sequence[_Columns]) -> Any: ...
def first_after(heads: _Columns, rows: _Columns, keys: tuple[Any, Any] | None = None) -> Any: ...
def pairs(starts: _Columns, ends: _Columns, keys: tuple[Any, Any]) -> Any: ...
def innermost(starts: _Columns, ends: Any, moments: _Columns) -> Any: ...
