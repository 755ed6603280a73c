# The compiled reader; use collectors.reader.
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Self

class TraceError(ValueError): ...

class Reader:
    def __new__(cls, traces: Sequence[tuple[str | PathLike[str], str]]) -> Self: ...
    @property
    def event_names(self) -> list[str]: ...
    @property
    def hosts(self) -> list[str]: ...
    def read(
        self,
        names: Sequence[str] | None,
        begin_ns: int | None,
        end_ns: int | None,
        threads: int,
    ) -> dict[str, Any]: ...
    def summary(self, threads: int) -> dict[str, Any]: ...
    def write(
        self,
        folder: str | PathLike[str],
        threads: int,
        progress: Callable[[int, int], object] | None,
    ) -> dict[str, Any]: ...
