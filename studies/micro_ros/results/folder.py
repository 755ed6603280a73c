"""All that a run of the suite micro-ros, or a board's test bench, left in a folder.

The layout is described in docs/micro_ros.md. A file that cannot be used is left out and becomes a
finding; the others count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

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
    differences,
    read_elf,
    static_difference,
)
from roslens.studies.micro_ros.results.exchanges import (
    read_counted,
    read_exchanges,
    read_takes,
)
from roslens.studies.micro_ros.results.frames import LATENCY, MEMORY, THROUGHPUT
from roslens.studies.micro_ros.results.tasks import read_heap, read_tasks

LIVE = pl.Schema(
    {
        "source": pl.String,
        "subject": pl.String,  # such as publisher x 3, or a board's test
        "live_bytes": pl.Int64,  # allocated and not given back at exit
        "peak_bytes": pl.Int64,
        "who": pl.String,  # places that asked for what is still live
    }
)
FINDINGS = pl.Schema({"source": pl.String, "what": pl.String})
EXCHANGED = pl.Schema(
    {
        "source": pl.String,
        "transport": pl.String,
        **dict.fromkeys(
            (
                "sequence",
                "client_sent_ns",
                "agent_received_ns",
                "agent_sent_ns",
                "client_received_ns",
                "rtt_ns",
                "rtt_uncertainty_ns",
            ),
            pl.Int64,
        ),
    }
)
TAKEN = pl.Schema(
    {
        "source": pl.String,
        "transport": pl.String,
        "sequence": pl.Int64,
        "source_timestamp_ns": pl.Int64,
    }
)
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
        "bytes": pl.Int64,  # as it counts; dynamic: the peak of what was requested
        "otherwise_bytes": pl.Int64,
        "way": pl.String,  # map, nm, paint: the same; sbrk: no less; stack_check: no more
    }
)
ACCOUNTS = pl.Schema(
    {
        "source": pl.String,
        "transport": pl.String,
        "message": pl.String,  # ping, answer, or a size such as 100 B
        **dict.fromkeys(("sent", "received", "lost", "twice", "refused"), pl.Int64),
        "agrees": pl.Boolean,  # whether device and ROS node tell the same of it
    }
)


@dataclass(frozen=True)
class Link:
    """What is known about a transport.

    Attributes
    ----------
    line_bit_per_s, bits_per_byte
        Of its physical line; None where there is none.
    emulated
        A UART of an emulator, a pseudo-terminal: its throughput would mean nothing.
    pings
        Sent; those without an answer are lost exchanges.
    client_resolution_ns
        Of the client's clock.
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

    memory: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MEMORY))
    live: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=LIVE))
    static: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=STATIC))
    throughput: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=THROUGHPUT))
    latency: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=LATENCY))
    exchanges: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=EXCHANGED))
    takes: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=TAKEN))
    captures: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=CAPTURED))
    findings: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=FINDINGS))
    ways: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=WAYS))
    accounts: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ACCOUNTS))
    links: dict[tuple[str, str], Link] = field(default_factory=dict)
    slot_bytes: dict[str, int] = field(default_factory=dict)
    """MTU x depth by the name of the history."""
    is_micro_ros: bool = False
    """Whether micro-ROS itself ran there."""

    def add(self, other: MicroRosResults) -> None:
        """Take in what another source has."""
        for name in (
            *("memory", "live", "static", "throughput", "latency"),
            *("exchanges", "takes", "captures", "findings", "ways", "accounts"),
        ):
            setattr(self, name, pl.concat([getattr(self, name), getattr(other, name)]))
        self.links |= other.links
        self.slot_bytes |= other.slot_bytes
        self.is_micro_ros |= other.is_micro_ros


def read_all(folders: Iterable[tuple[str, Path]]) -> MicroRosResults:
    """Read several sources: a name and a folder each.

    Raises
    ------
    UsageError
        A folder does not exist.
    """
    found = MicroRosResults()
    for source, folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder; give one with results of a test bench")
        found.add(_Reader(source, folder).read())
    return found


class _Reader:
    """Reads one folder; what cannot be used becomes a finding."""

    def __init__(self, source: str, folder: Path) -> None:
        self.source, self.folder = source, folder
        self.results = MicroRosResults()
        self._findings: list[tuple[str, str]] = []
        self._memory: list[tuple[str, str, int, str, float]] = []
        self._live: list[tuple[str, str, int, int | None, str]] = []
        self._ways: list[tuple[str, str, str, int, int, str]] = []

    def read(self) -> MicroRosResults:
        for path in sorted((self.folder / "memory").glob("*/")):
            self._try(lambda path=path: self._entity(path))
        for path in sorted((self.folder / "transport").glob("*/")):
            self._try(lambda path=path: self._transport(path))
        for path in sorted((self.folder / "capture").glob("*")):
            self._try(lambda path=path: self._capture(path))
        if (self.folder / BENCHMARK_NAME).is_file():
            self._try(self._benchmark)
        if (self.folder / PROFILING_NAME).is_file():
            self._try(self._profiling)
        r = self.results
        r.memory = pl.DataFrame(self._memory, schema=MEMORY, orient="row")
        r.ways = pl.DataFrame(self._ways, schema=WAYS, orient="row")
        r.live = pl.DataFrame(self._live, schema=LIVE, orient="row")
        r.findings = pl.DataFrame(self._findings, schema=FINDINGS, orient="row")
        return r

    def _try(self, read: Any) -> None:
        try:
            with read_here(self.folder, "results of micro-ROS"):
                read()
        except UsageError as error:
            # Relative: a report need not tell the folders of a machine.
            self._find(str(error).replace(f"{self.folder}/", "").replace(f"{self.folder}: ", ""))

    def _find(self, what: str) -> None:
        self._findings.append((self.source, what))

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
            try:
                baseline = read_elf(folder / "baseline.elf")
            except UsageError as error:
                self._find(str(error).replace(f"{self.folder}/", ""))
        else:
            self._find(
                f"memory/{entity}: no baseline.elf: static memory is the difference to the same "
                "program without the application, and is refused"
            )
        counts = sorted(int(p.name) for p in folder.glob("*/") if p.name.isdigit())
        for count in counts:
            of_count = folder / str(count)
            if baseline is not None:
                self._try(lambda c=count, f=of_count, b=baseline: self._static(entity, c, f, b))
            self._try(lambda c=count, f=of_count: self._stack(entity, c, f))
            self._try(lambda c=count, f=of_count: self._heap(entity, c, f))

    def _static(self, entity: str, count: int, folder: Path, baseline: ElfMemory) -> None:
        elf = read_elf(folder / "firmware.elf")
        bytes_ = static_difference(elf, baseline)
        self._memory.append((self.source, entity, count, "static", float(bytes_)))
        frame = differences(elf, baseline, "symbol").select(
            pl.lit(self.source).alias("source"),
            pl.lit(entity).alias("entity"),
            pl.lit(count, dtype=pl.Int64).alias("count"),
            *list(STATIC)[3:],
        )
        self.results.static = pl.concat([self.results.static, frame])

    def _stack(self, entity: str, count: int, folder: Path) -> None:
        tasks = read_tasks(folder / "tasks.txt", _numbers(folder / "stacks.json", _WORDS))
        unknown = tasks.filter(pl.col("used_bytes").is_null())["task"].to_list()
        if unknown:
            raise UsageError(
                f"{folder / 'stacks.json'}: no stack size of task {', '.join(unknown)}: what it "
                "used is not known, and stack memory is refused"
            )
        used = float(tasks["used_bytes"].sum())
        self._memory.append((self.source, entity, count, "stack", used))

    def _heap(self, entity: str, count: int, folder: Path) -> None:
        log = read_heap(folder / "heap.mtrace")
        requested = float(log.requested_bytes)
        self._memory.append((self.source, entity, count, "dynamic", requested))
        who = ", ".join(f"{where}: {size} B" for where, size in log.live_by_caller.items())
        subject = f"{entity} x {count}"
        self._live.append((self.source, subject, log.live_bytes, log.peak_bytes, who))
        # Memory as counted in another way; static memory and stack were read before.
        known = {"dynamic": log.peak_bytes}
        known |= {
            kind: int(value)
            for _, of, number, kind, value in self._memory
            if (of, number) == (entity, count) and kind in ("static", "stack")
        }
        for name, value in _numbers(folder / "ways.json", "bytes by the way of counting").items():
            kind, _, way = name.partition("_bytes_by_")
            if kind in known:
                self._ways.append((self.source, subject, kind, known[kind], value, way))

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
        self._try(lambda: self._accounts(about, transport))
        self._try(lambda: self._exchanges(folder / "exchanges.csv", transport))
        if (folder / "takes.csv").is_file():
            self._try(lambda: self._takes(folder / "takes.csv", transport))
        if (folder / "throughput.csv").is_file():
            self._try(lambda: self._counted(folder / "throughput.csv", link, transport))
        if (folder / "downlink.csv").is_file():
            path, name = folder / "downlink.csv", f"{transport} to the device"
            self._try(lambda: self._counted(path, link, name))

    def _accounts(self, about: dict[str, Any], transport: str) -> None:
        """What either side tells of each kind of message."""
        place = {"source": self.source, "transport": transport}
        path = self.folder / "transport" / transport / "about.json"
        with read_here(path, "accounts of messages", "does each name its message and its counts?"):
            told = {row["message"]: row for row in about.get("device", ())}
            rows = [
                {**row, **place, "agrees": _agree(row, told.get(row["message"], {}))}
                for row in about.get("accounts", ())
            ]
            frame = pl.DataFrame(rows, schema=ACCOUNTS)
        self.results.accounts = pl.concat([self.results.accounts, frame])

    def _exchanges(self, path: Path, transport: str) -> None:
        frame = self._placed(read_exchanges(path), transport)
        self.results.exchanges = pl.concat([self.results.exchanges, frame])

    def _takes(self, path: Path, transport: str) -> None:
        frame = self._placed(read_takes(path), transport)
        self.results.takes = pl.concat([self.results.takes, frame])

    def _placed(self, frame: pl.DataFrame, transport: str) -> pl.DataFrame:
        return frame.select(
            pl.lit(self.source).alias("source"), pl.lit(transport).alias("transport"), pl.all()
        )

    def _counted(self, path: Path, link: Link, name: str) -> None:
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
        # The first message starts the clock: what counts are the intervals.
        rate = (pl.col("received") - 1) * pl.col("payload_bytes") / seconds
        frame = enough.select(
            pl.lit(self.source).alias("source"),
            pl.lit(name).alias("transport"),
            "payload_bytes",
            rate.alias("bytes_per_s"),
            pl.lit(0.0).alias("truncation_bytes_per_s"),
        ).sort("payload_bytes")
        self.results.throughput = pl.concat([self.results.throughput, frame])

    def _capture(self, path: Path) -> None:
        rates = captured_rate(read_capture(path)).select(
            pl.lit(self.source).alias("source"), pl.lit(path.stem).alias("capture"), pl.all()
        )
        self.results.captures = pl.concat([self.results.captures, rates.cast(dict(CAPTURED))])  # type: ignore[arg-type]

    # ------------------------------------------------------------ a board's bench

    def _benchmark(self) -> None:
        found = read_benchmark(self.folder / BENCHMARK_NAME)
        self._failures(found.failures, BENCHMARK_NAME)
        boards = pl.concat([found.throughput["board"], found.latency["board"]]).n_unique()
        # Several boards in one file stay apart.
        name = (
            pl.format("{}: {}", "board", "transport") if boards > 1 else pl.col("transport")
        ).alias("transport")
        source = pl.lit(self.source).alias("source")
        self.results.throughput = pl.concat(
            [
                self.results.throughput,
                found.throughput.select(
                    source,
                    name,
                    "payload_bytes",
                    "bytes_per_s",
                    pl.col("payload_bytes").cast(pl.Float64).alias("truncation_bytes_per_s"),
                ),
            ]
        )
        self.results.latency = pl.concat(
            [self.results.latency, found.latency.select(source, name, *list(LATENCY)[2:])]
        )

    def _profiling(self) -> None:
        found = read_profiling(self.folder / PROFILING_NAME)
        self._failures(found.failures, PROFILING_NAME)
        boards = found.memory["board"].n_unique()
        for row in found.memory.iter_rows(named=True):
            subject = f"{row['board']} {row['test']}"
            self._live.append((self.source, subject, row["live_bytes"], None, ""))
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
                self._memory.append((self.source, name, count, kind, float(row[column])))

    def _failures(self, failures: pl.DataFrame, name: str) -> None:
        for row in failures.iter_rows(named=True):
            self._find(f"{name}, line {row['line']}: '{row['test']}' FAILED: it has no figures")

    def _about(self, folder: Path) -> dict[str, Any]:
        path = folder / "about.json"
        if not path.is_file():
            return {}
        try:
            about = read_json(path)
        except UsageError as error:
            self._find(str(error).replace(f"{self.folder}/", ""))
            return {}
        return about if isinstance(about, dict) else {}


def _numbers(path: Path, what: str) -> dict[str, int]:
    if not path.is_file():
        return {}
    with read_here(path, what):
        return {str(name): int(number) for name, number in read_json(path).items()}


def _agree(of_node: dict[str, Any], of_device: dict[str, Any]) -> bool:
    """Whether both sides tell the same, and no more arrived than was sent."""
    same = bool(of_device) and all(of_node[name] == told for name, told in of_device.items())
    return same and of_node["lost"] >= 0 and of_node["twice"] >= 0


_WORDS = "words of stack by task"
_NUMBERED = re.compile(r"(?P<name>.*?)[/ _-]*(?P<count>\d+)")
_KEYWORDS = {
    "history": "history",
    "publi": "publisher",
    "subscri": "subscriber",
    "service": "service",
    "client": "client",
}


def _entity_of(test: str) -> tuple[str | None, int]:
    """The entity and how many, from a test's name such as ``MemoryPublisher/3``."""
    found = _NUMBERED.fullmatch(test)
    if found is None:
        return None, 0
    for word, entity in _KEYWORDS.items():
        if word in found["name"].lower():
            return entity, int(found["count"])
    return None, 0
