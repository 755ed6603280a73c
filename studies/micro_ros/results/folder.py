"""Read all files that a run of the suite micro-ros, or a board's test bench, left in a folder.

docs/micro_ros.md describes the layout. A file that cannot be used is left out and becomes a
finding; the others count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from roslens.collectors.store import sha256
from roslens.recording import UsageError
from roslens.recording.foreign import read_here
from roslens.recording.json_file import read_json
from roslens.studies.micro_ros.results.bench import (
    BENCHMARK_NAME,
    PROFILING_NAME,
    read_benchmark,
    read_profiling,
)
from roslens.studies.micro_ros.results.capture import captured_rate, read_capture
from roslens.studies.micro_ros.results.elf import (
    ElfMemory,
    check_baseline,
    differences,
    read_elf,
)
from roslens.studies.micro_ros.results.exchanges import (
    EXCHANGES,
    TAKES,
    read_counted,
    read_exchanges,
    read_takes,
)
from roslens.studies.micro_ros.results.frames import LATENCY, MEMORY, THROUGHPUT
from roslens.studies.micro_ros.results.tasks import read_heap, read_tasks

T = TypeVar("T")

LIVE = pl.Schema(
    {
        "source": pl.String,
        "subject": pl.String,  # such as publisher x 3, or a board's test
        "live_bytes": pl.Int64,  # allocated and not freed at exit
        "who": pl.String,  # places that allocated the live bytes
    }
)
FINDINGS = pl.Schema({"source": pl.String, "what": pl.String})
_PLACE: dict[str, pl.DataType] = {"source": pl.String(), "transport": pl.String()}
EXCHANGED = pl.Schema({**_PLACE, **EXCHANGES})
TAKEN = pl.Schema({**_PLACE, **TAKES})
STATIC = pl.Schema(
    {
        "source": pl.String,
        "entity": pl.String,
        "count": pl.Int64,
        "section": pl.String,
        "object": pl.String,
        "symbol": pl.String,
        "bytes": pl.Int64,
        "baseline_bytes": pl.Int64,
        "difference_bytes": pl.Int64,
    }
)
CAPTURED = pl.Schema(
    {
        "source": pl.String,
        "capture": pl.String,
        "channel": pl.String,
        "frames": pl.Int64,
        "bytes": pl.Int64,
        "seconds": pl.Float64,
        "bytes_per_s": pl.Float64,
    }
)


WAYS = pl.Schema(
    {
        "source": pl.String,
        "subject": pl.String,  # such as publisher x 3
        "memory": pl.String,
        "bytes": pl.Int64,  # the usual count; dynamic: the peak of requested bytes
        "otherwise_bytes": pl.Int64,
        "way": pl.String,  # map, nm, paint: the same; sbrk: no less; stack_check: no more
    }
)
ACCOUNTS = pl.Schema(
    {
        **_PLACE,
        "message": pl.String(),  # ping, answer, or a size such as 100 B
        **dict.fromkeys(("sent", "received", "lost", "twice", "refused"), pl.Int64()),
        "agrees": pl.Boolean(),  # whether device and ROS node have the same counts
    }
)


@dataclass(frozen=True)
class Link:
    """Properties of a transport.

    Attributes
    ----------
    line_bit_per_s, bits_per_byte
        Rate of its physical line; None where there is none.
    emulated
        Whether it is a UART of an emulator, a pseudo-terminal, whose throughput would mean nothing.
    pings
        Number of pings sent; pings without an answer are lost exchanges.
    client_resolution_ns
        Resolution of the client's clock.
    """

    transport: str
    name: str = ""
    line_bit_per_s: float | None = None
    bits_per_byte: float = 8.0
    emulated: bool = False
    pings: int | None = None
    client_resolution_ns: int = 1


@dataclass
class MicroRosResults:
    """Frames over any number of sources (runs, folders of results)."""

    memory: pl.DataFrame = field(default_factory=MEMORY.to_frame)
    live: pl.DataFrame = field(default_factory=LIVE.to_frame)
    static: pl.DataFrame = field(default_factory=STATIC.to_frame)
    throughput: pl.DataFrame = field(default_factory=THROUGHPUT.to_frame)
    latency: pl.DataFrame = field(default_factory=LATENCY.to_frame)
    exchanges: pl.DataFrame = field(default_factory=EXCHANGED.to_frame)
    takes: pl.DataFrame = field(default_factory=TAKEN.to_frame)
    captures: pl.DataFrame = field(default_factory=CAPTURED.to_frame)
    findings: pl.DataFrame = field(default_factory=FINDINGS.to_frame)
    ways: pl.DataFrame = field(default_factory=WAYS.to_frame)
    accounts: pl.DataFrame = field(default_factory=ACCOUNTS.to_frame)
    links: dict[tuple[str, str], Link] = field(default_factory=dict)
    slot_bytes: dict[str, int] = field(default_factory=dict)
    """MTU x depth in bytes, by the name of the history."""
    is_micro_ros: bool = False
    """Whether micro-ROS itself ran there."""
    timed: dict[str, str] = field(default_factory=dict)
    """The source of each file of times, by its digest."""

    def add(self, name: str, frame: pl.DataFrame) -> None:
        """Append rows to a frame."""
        setattr(self, name, pl.concat([getattr(self, name), frame]))


def read_all(folders: Iterable[tuple[str, Path]]) -> MicroRosResults:
    """Read several sources: a name and a folder each.

    Raises
    ------
    UsageError
        A folder does not exist.
    """
    results = MicroRosResults()
    for source, folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder; give one with results of a test bench")
        _Reader(source, folder, results).read()
    return results


class _Reader:
    """Reader of one folder into results; files that cannot be used become findings."""

    def __init__(self, source: str, folder: Path, results: MicroRosResults) -> None:
        self.source, self.folder, self.results = source, folder, results

    def read(self) -> None:
        for path in sorted((self.folder / "memory").glob("*/")):
            self._read_or_note(self._entity, path)
        for path in sorted((self.folder / "transport").glob("*/")):
            self._read_or_note(self._transport, path)
        for path in sorted((self.folder / "capture").glob("*")):
            self._read_or_note(self._capture, path)
        if (self.folder / BENCHMARK_NAME).is_file():
            self._read_or_note(self._benchmark)
        if (self.folder / PROFILING_NAME).is_file():
            self._read_or_note(self._profiling)

    def _read_or_note(self, read: Callable[..., T], *arguments: Any) -> T | None:
        try:
            with read_here(self.folder, "results of micro-ROS"):
                return read(*arguments)
        except UsageError as error:
            # Paths are made relative, as a report should not show the folders of a machine.
            self._find(str(error).replace(f"{self.folder}/", "").replace(f"{self.folder}: ", ""))
            return None

    def _find(self, finding: str) -> None:
        self._add_row("findings", finding)

    def _add_row(self, name: str, *cells: object) -> None:
        schema = getattr(self.results, name).schema
        row = pl.DataFrame([(self.source, *cells)], schema=schema, orient="row")
        self.results.add(name, row)

    def _add(self, name: str, frame: pl.DataFrame, **about: str | int) -> None:
        """Append rows to a frame, with columns that their file does not have."""
        values = {"source": self.source, **about}
        columns = [pl.lit(value).alias(column) for column, value in values.items()]
        schema = getattr(self.results, name).schema
        self.results.add(name, frame.with_columns(columns).select(schema.names()).cast(schema))

    def _note_system(self, about: dict[str, Any]) -> None:
        self.results.is_micro_ros |= about.get("system") == "micro-ROS"

    # ------------------------------------------------------------ memory

    def _entity(self, folder: Path) -> None:
        about = self._about(folder)
        entity = folder.name
        self._note_system(about)
        if "mtu" in about and entity.startswith("history"):
            self.results.slot_bytes[entity] = int(about["mtu"]) * int(about["depth"])
        baseline: ElfMemory | None = None
        if (folder / "baseline.elf").is_file():
            baseline = self._read_or_note(read_elf, folder / "baseline.elf")
        else:
            self._find(
                f"memory/{entity}: no baseline.elf: static memory is the difference to the same "
                "program without the application, and is refused"
            )
        counts = sorted(int(p.name) for p in folder.glob("*/") if p.name.isdigit())
        for count in counts:
            if baseline is not None:
                self._read_or_note(self._static, entity, count, folder / str(count), baseline)
            self._read_or_note(self._stack, entity, count, folder / str(count))
            self._read_or_note(self._heap, entity, count, folder / str(count))

    def _static(self, entity: str, count: int, folder: Path, baseline: ElfMemory) -> None:
        elf = read_elf(folder / "firmware.elf")
        check_baseline(elf, baseline)
        bytes_ = elf.static_bytes - baseline.static_bytes
        self._add_row("memory", entity, count, "static", float(bytes_))
        self._add("static", differences(elf, baseline), entity=entity, count=count)

    def _stack(self, entity: str, count: int, folder: Path) -> None:
        words = _numbers(folder / "stacks.json", "words of stack by task")
        used = read_tasks(folder / "tasks.txt", words)
        unknown = [task for task, bytes_ in used.items() if bytes_ is None]
        if unknown:
            raise UsageError(
                f"{folder / 'stacks.json'}: no stack size of task {', '.join(unknown)}: what it "
                "used is not known, and stack memory is refused"
            )
        bytes_ = sum(size for size in used.values() if size is not None)
        self._add_row("memory", entity, count, "stack", float(bytes_))

    def _heap(self, entity: str, count: int, folder: Path) -> None:
        log = read_heap(folder / "heap.mtrace")
        # Memory counted in another way; static memory and stack were read before.
        rows = self.results.memory.filter(source=self.source, entity=entity, count=count)
        by_kind = dict(rows.select("memory", "bytes").iter_rows()) | {"dynamic": log.peak_bytes}
        self._add_row("memory", entity, count, "dynamic", float(log.requested_bytes))
        who = ", ".join(f"{where}: {size} B" for where, size in log.live_by_caller.items())
        subject = f"{entity} x {count}"
        self._add_row("live", subject, log.live_bytes, who)
        for name, value in _numbers(folder / "ways.json", "bytes by the way of counting").items():
            kind, _, way = name.partition("_bytes_by_")
            if kind in by_kind:
                self._add_row("ways", subject, kind, int(by_kind[kind]), value, way)

    # ------------------------------------------------------------ transports

    def _transport(self, folder: Path) -> None:
        about = self._about(folder)
        transport = folder.name
        line = about.get("line_bit_per_s")
        link = Link(
            transport,
            str(about.get("link", "")),
            None if line is None else float(line),
            float(about.get("bits_per_byte", 8)),
            "emulated" in str(about.get("link", "")) or "pty" in str(about.get("link", "")),
            about.get("pings"),
            int(about.get("client_resolution_ns", 1)),
        )
        self.results.links[self.source, transport] = link
        self._note_system(about)
        self._read_or_note(self._accounts, about, transport)
        self._read_or_note(self._exchanges, folder / "exchanges.csv", transport)
        takes = folder / "takes.csv"
        if takes.is_file():
            self._read_or_note(lambda: self._add("takes", read_takes(takes), transport=transport))
        for name, label in (
            ("throughput.csv", transport),
            ("downlink.csv", f"{transport} to the device"),
        ):
            if (folder / name).is_file():
                self._read_or_note(self._counted, folder / name, link, label)

    def _accounts(self, about: dict[str, Any], transport: str) -> None:
        """Read both sides' counts of each kind of message."""
        place = {"source": self.source, "transport": transport}
        path = self.folder / "transport" / transport / "about.json"
        with read_here(path, "accounts of messages", "does each name its message and its counts?"):
            row_by_message = {row["message"]: row for row in about.get("device", ())}
            rows = [
                {**row, **place, "agrees": _agree(row, row_by_message.get(row["message"], {}))}
                for row in about.get("accounts", ())
            ]
            self.results.add("accounts", pl.DataFrame(rows, schema=ACCOUNTS))

    def _exchanges(self, path: Path, transport: str) -> None:
        self._refuse_copy(path)
        self._add("exchanges", read_exchanges(path), transport=transport)

    def _counted(self, path: Path, link: Link, name: str) -> None:
        self._refuse_copy(path)
        counted = read_counted(path)
        if link.emulated:
            self._find(
                f"{path.relative_to(self.folder)}: an {link.name or 'emulated line'} has no line "
                "rate: its throughput would mean nothing and is refused"
            )
            return
        few = counted.filter((pl.col("received") < 2) | (pl.col("last_ns") <= pl.col("first_ns")))
        for size in few["payload_bytes"]:
            self._find(
                f"{path.relative_to(self.folder)}: payload {size} B: fewer than two messages "
                "arrived: no throughput"
            )
        enough = counted.join(few, on="payload_bytes", how="anti")
        seconds = (pl.col("last_ns") - pl.col("first_ns")) / 1e9
        # The first message starts the clock, so intervals are counted.
        rate = (pl.col("received") - 1) * pl.col("payload_bytes") / seconds
        rates = enough.with_columns(bytes_per_s=rate, truncation_bytes_per_s=0.0)
        self._add("throughput", rates.sort("payload_bytes"), transport=name)

    def _capture(self, path: Path) -> None:
        self._add("captures", captured_rate(read_capture(path)), capture=path.stem)

    # ------------------------------------------------------------ a board's bench

    def _refuse_copy(self, path: Path) -> None:
        """Refuse a file of times identical to another source's: a copy is no further run."""
        first = self.results.timed.setdefault(sha256(path), self.source) if path.is_file() else ""
        if first not in ("", self.source):
            raise UsageError(f"{path}: the same file as in {first}: a copy is no further run")

    def _benchmark(self) -> None:
        self._refuse_copy(self.folder / BENCHMARK_NAME)
        throughput, latency, failures = read_benchmark(self.folder / BENCHMARK_NAME)
        self._failures(failures, BENCHMARK_NAME)
        name = pl.col("transport")
        # Several boards in one file are kept separate.
        if len({*throughput["board"], *latency["board"]}) > 1:
            name = pl.format("{}: {}", "board", "transport").alias("transport")
        cut_off = pl.col("payload_bytes").alias("truncation_bytes_per_s")
        self._add("throughput", throughput.with_columns(name, cut_off))
        self._add("latency", latency.with_columns(name))

    def _profiling(self) -> None:
        memory, failures = read_profiling(self.folder / PROFILING_NAME)
        self._failures(failures, PROFILING_NAME)
        boards = memory["board"].n_unique()
        for row in memory.iter_rows(named=True):
            subject = f"{row['board']} {row['test']}"
            self._add_row("live", subject, row["live_bytes"], "")
            entity, count = _entity_of(row["test"])
            if entity is None:
                self._find(
                    f"{PROFILING_NAME}: '{subject}' names no entity with a number (such as "
                    "Publisher/3): it enters no slope"
                )
                continue
            name = f"{row['board']}: {entity}" if boards > 1 else entity
            for kind, column in (
                ("static", "static_bytes"),
                ("stack", "stack_bytes"),
                ("dynamic", "requested_bytes"),
            ):
                self._add_row("memory", name, count, kind, float(row[column]))

    def _failures(self, failures: list[tuple[int, str]], name: str) -> None:
        for line, test in failures:
            self._find(f"{name}, line {line}: '{test}' FAILED: it has no figures")

    def _about(self, folder: Path) -> dict[str, Any]:
        path = folder / "about.json"
        about = self._read_or_note(read_json, path) if path.is_file() else None
        return about if isinstance(about, dict) else {}


def _numbers(path: Path, contents: str) -> dict[str, int]:
    if not path.is_file():
        return {}
    with read_here(path, contents):
        return {str(name): int(number) for name, number in read_json(path).items()}


def _agree(of_node: dict[str, Any], of_device: dict[str, Any]) -> bool:
    """Return whether both sides have the same counts, and no more arrived than was sent."""
    same = bool(of_device) and all(of_node[name] == count for name, count in of_device.items())
    return same and of_node["lost"] >= 0 and of_node["twice"] >= 0


_NUMBERED = re.compile(r"(?P<name>.*?)[/ _-]*(?P<count>\d+)")
_KEYWORDS = {
    "history": "history",
    "publi": "publisher",
    "subscri": "subscriber",
    "service": "service",
    "client": "client",
}


def _entity_of(test: str) -> tuple[str | None, int]:
    """Return the entity and its number from a test's name such as ``MemoryPublisher/3``."""
    match = _NUMBERED.fullmatch(test)
    if match is None:
        return None, 0
    for word, entity in _KEYWORDS.items():
        if word in match["name"].lower():
            return entity, int(match["count"])
    return None, 0
