# The compiled reader; use it through collectors.reader.
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Self

class TraceError(ValueError): ...

class Reader:
    def __new__(
        cls,
        traces: Sequence[tuple[str | PathLike[str], str]],
        clock_offsets: dict[str, list[tuple[int, int]]] | None = None,
    ) -> Self: ...
    @property
    def members(self) -> list[tuple[str, str]]: ...
    @property
    def event_names(self) -> list[str]: ...
    @property
    def log_levels(self) -> dict[str, int]: ...
    @property
    def shown(self) -> dict[str, dict[str, tuple[int, int]]]: ...
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
    def summary(
        self, threads: int, progress: Callable[[int, int], object] | None = None
    ) -> dict[str, Any]: ...
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

def write_table(
    table: object,
    path: str | PathLike[str],
    names: Sequence[str] = ...,
    texts: object = None,
    about: Sequence[tuple[str, str]] = ...,
) -> None: ...

class Table:
    def select(self, columns: Sequence[str]) -> Self: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def write(
        self, path: str | PathLike[str], threads: int, about: Sequence[tuple[str, str]]
    ) -> int: ...

class Pass:
    def __init__(
        self,
        objects: Mapping[str, object],
        given: Mapping[str, object],
        path: str | PathLike[str] | None = None,
        rows: int = ...,
        keys: int = ...,
    ) -> None: ...
    def feed(self, events: Mapping[str, object], threads: int) -> None: ...
    def forget(self, since: int) -> None: ...
    def running(self) -> list[tuple[tuple[str, int, int, int], int, int, bool]]: ...
    def resume(
        self, running: Sequence[tuple[tuple[str, int, int, int], int, int, bool]], until: int
    ) -> None: ...
    def tables(self, last: bool) -> tuple[dict[str, Table], Callable[[], dict[str, Any]]]: ...

def model_events() -> dict[str, list[str]]: ...
def model_reasons() -> list[tuple[str, str]]: ...
def response_time_bounds(
    arrivals: Sequence[Sequence[int]],
    costs: Sequence[Sequence[int]],
    jitter: Sequence[int],
    length: int,
    jobs: int,
) -> list[int | None]: ...
def simulate(
    system: Mapping[str, object],
    counting: Sequence[int],
    quantiles: Sequence[float],
    replications: int,
    seed: int | None,
    schedule: bool,
) -> dict[str, Any]: ...
