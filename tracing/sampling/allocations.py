"""Find out which call paths hold memory, with heaptrack inside the workload's processes.

heaptrack (https://github.com/KDE/heaptrack) writes every allocation with its call path into a file
per process. After the run, `heaptrack_interpret` names the functions, and its output is reduced
to the memory that each path held every half second. Versions 2 and 3 of its data format are
supported (heaptrack 1.2 to 1.5, ``heaptrack_interpret.cpp``).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from roslens.recording import UsageError
from roslens.recording.schema import ALLOCATION_SITES
from roslens.tracing.ros.environment import preloaded
from roslens.tracing.sampling.preloaded import preloadable

if TYPE_CHECKING:
    import polars as pl

STEP_MS = 500
_AGAIN = Path(__file__).with_name("heaptrack_again.c")
_HOST = "h0"
_VERSIONS = range(2, 4)
_DEEPEST = 40
"""The maximum number of functions kept of a path."""

# Functions that allocate on behalf of others.
_ALLOCATORS = re.compile(
    r"operator new|std::|__gnu_cxx::|void std::|__default_(?:zero_)?allocate"
    r"|(?:m|c|re)alloc$|posix_memalign$|aligned_alloc$|strn?dup$|rcutils_"
)
_CALLERS = (
    (
        "middleware",
        "module",
        re.compile(r"librmw_|libfast(?:rtps|dds|cdr)|libddsc|libcyclonedds|libzenohc"),
    ),
    (
        "callback",
        "function",
        re.compile(
            r"rclcpp::Any(?:Subscription|Service)Callback<?.*dispatch"
            r"|rclcpp::GenericTimer<.*execute_callback"
            r"|rclcpp::(?:Generic)?Subscription(?:<.*>)?::handle_\w*message"
            r"|rclcpp::Service<.*::handle_request|rclcpp::Client<.*::handle_response"
        ),
    ),
    (
        "executor",
        "function",
        re.compile(
            r"(?:rclcpp|rclpy)::.*\bExecutor\b|\w*Executor::|rclcpp::executors::|EventsQueue"
        ),
    ),
)


class Frame(NamedTuple):
    """A function of a call path; fields without debug symbols are None."""

    function: str | None
    file: str | None
    line: int | None
    module: str | None


@dataclass(frozen=True)
class Heaptrack:
    """The places of heaptrack's parts on this machine."""

    library: Path
    interpreter: Path

    @classmethod
    def find_installed(cls) -> Heaptrack:
        """Return the installed heaptrack.

        Raises
        ------
        UsageError
            heaptrack is not installed.
        """
        program = shutil.which("heaptrack")
        roots = [Path(program).resolve().parents[1]] if program else []
        for root in roots:
            for folder in (*root.glob("lib*/heaptrack"), *root.glob("lib/*/heaptrack")):
                parts = cls(
                    folder / "libheaptrack_preload.so", folder / "libexec/heaptrack_interpret"
                )
                if parts.library.is_file() and parts.interpreter.is_file():
                    return parts
        raise UsageError("call paths of allocations need heaptrack (apt-get install heaptrack)")


class AllocationSites:
    """The files that heaptrack writes about the processes of one run.

    Parameters
    ----------
    folder
        A new folder for the files, which take about ten bytes per allocation.

    Raises
    ------
    UsageError
        heaptrack is not installed, or there is no compiler.
    """

    def __init__(self, folder: Path) -> None:
        self.heaptrack = Heaptrack.find_installed()
        self.folder = folder.resolve()
        self.folder.mkdir()

    def variables(self, environment: dict[str, str]) -> dict[str, str]:
        """Return the environment variables that the programs need."""
        libraries = (self.heaptrack.library, preloadable(_AGAIN, "allocations"))
        preload = preloaded(environment, last=libraries)
        output = f"{self.folder}/$$"
        return {
            "LD_PRELOAD": preload,
            "DUMP_HEAPTRACK_OUTPUT": output,
            "ROSLENS_HEAPTRACK_PRELOAD": preload,
            "ROSLENS_HEAPTRACK_OUTPUT": output,
        }

    def write(self, path: Path) -> list[str]:
        """Write the table `ALLOCATION_SITES`, and remove heaptrack's files.

        Returns
        -------
        What could not be read, as one sentence each.

        Raises
        ------
        OSError
            The table cannot be written.
        """
        import polars as pl  # noqa: PLC0415  (a tenth of a second, which recording does without)

        troubles: list[str] = []
        frames = [ALLOCATION_SITES.empty()]
        for raw in sorted(self.folder.iterdir()):
            try:
                frames.append(self._process_sites(raw))
            except (ValueError, IndexError) as error:
                troubles.append(f"call paths of allocations of process {raw.name}: {error}")
        ALLOCATION_SITES.write(pl.concat(frames).sort("time_ns"), path)
        self.close()
        return troubles

    def _process_sites(self, raw: Path) -> pl.DataFrame:
        # heaptrack's times count from its start; the time of its last write is known best.
        end_ns = raw.stat().st_mtime_ns
        with (
            raw.open("rb") as stream,
            subprocess.Popen(
                [self.heaptrack.interpreter],
                stdin=stream,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                errors="replace",
            ) as interpreter,
        ):
            assert interpreter.stdout is not None
            interpreted = Interpreted()
            interpreted.read(interpreter.stdout)
        if interpreter.returncode:
            raise ValueError(f"heaptrack_interpret ended with status {interpreter.returncode}")
        about = {"host": _HOST, "vpid": int(raw.name)}
        rows = [
            {"time_ns": end_ns + (at - interpreted.last_ms) * 1_000_000, **about, **row}
            for at, row in interpreted.rows()
        ]
        return ALLOCATION_SITES.of_rows(rows)

    def close(self) -> None:
        """Remove heaptrack's files."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass
class Interpreted:
    """The output of heaptrack_interpret, reduced to steps of `STEP_MS`.

    All numbers are hexadecimal: ``s`` is a string, ``i`` an instruction (address, module, then
    function, file and line of it and of the functions it was inlined into), ``t`` a path
    (instruction, path of the caller), ``a`` a size and its path, ``+`` and ``-`` an allocation and
    its release, ``c`` milliseconds since the start. Tables count from 1, ``a`` from 0.
    """

    last_ms: int = 0
    _strings: list[str] = field(default_factory=lambda: [""])
    _instructions: list[list[int]] = field(default_factory=lambda: [[]])
    _paths: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    _sizes: list[tuple[int, int]] = field(default_factory=list)
    _bytes: list[int] = field(default_factory=lambda: [0])
    _blocks: list[int] = field(default_factory=lambda: [0])
    _changed: set[int] = field(default_factory=set)
    _steps: list[tuple[int, list[tuple[int, int, int]]]] = field(default_factory=list)

    def read(self, lines: Iterable[str]) -> None:
        """Read all lines.

        Raises
        ------
        ValueError, IndexError
            The lines are not in heaptrack's format.
        """
        step = STEP_MS
        for text in lines:
            kind, rest = text[:1], text[2:]
            if kind == "+":
                self._count(int(rest, 16), 1)
            elif kind == "-":
                self._count(int(rest, 16), -1)
            elif kind == "c":
                self.last_ms = int(rest, 16)
                if self.last_ms >= step:
                    self._end_step()
                    step = self.last_ms - self.last_ms % STEP_MS + STEP_MS
            elif kind == "s":
                self._strings.append(rest.rstrip("\n").partition(" ")[2])
            elif kind in {"a", "i", "t", "v"}:
                self._define(kind, [int(word, 16) for word in rest.split()])
        self._end_step()

    def _count(self, number: int, sign: int) -> None:
        size, path = self._sizes[number]
        self._bytes[path] += sign * size
        self._blocks[path] += sign
        self._changed.add(path)

    def _define(self, kind: str, numbers: list[int]) -> None:
        if kind == "a":
            size, path = numbers
            self._sizes.append((size, path))
        elif kind == "i":
            self._instructions.append(numbers)
        elif kind == "t":
            instruction, caller = numbers
            self._paths.append((instruction, caller))
            self._bytes.append(0)
            self._blocks.append(0)
        elif numbers[1] not in _VERSIONS:
            raise ValueError(f"version {numbers[1]} of heaptrack's data is not known")

    def _end_step(self) -> None:
        changes = [(path, self._bytes[path], self._blocks[path]) for path in sorted(self._changed)]
        self._steps.append((self.last_ms, changes))
        self._changed.clear()

    def rows(self) -> Iterator[tuple[int, dict[str, object]]]:
        """Yield each step's time in ms and, for each path, the columns from ``function`` on.

        Paths that differ only in the lines of the same functions are merged.
        """
        descriptions: list[dict[str, object]] = []
        numbers: dict[str, int] = {}
        number_of: dict[int, int] = {}
        held: dict[int, tuple[int, int]] = {}
        totals: list[tuple[int, int]] = []
        for at, changes in self._steps:
            changed = set()
            for path, live, blocks in changes:
                if path not in number_of:
                    description = about(list(self._frames(path)))
                    number_of[path] = numbers.setdefault(str(description), len(numbers))
                    if len(numbers) > len(descriptions):
                        descriptions.append(description)
                        totals.append((0, 0))
                number = number_of[path]
                before = held.get(path, (0, 0))
                held[path] = (live, blocks)
                total = totals[number]
                totals[number] = (total[0] + live - before[0], total[1] + blocks - before[1])
                changed.add(number)
            for number in sorted(changed):
                live, blocks = totals[number]
                yield at, {**descriptions[number], "live_bytes": live, "live_blocks": blocks}

    def _frames(self, path: int) -> Iterator[Frame]:
        """Yield the functions of a path, innermost first."""
        while path:
            instruction, path = self._paths[path]
            entry = self._instructions[instruction]
            module = self._name(entry[1]) if len(entry) > 1 else None
            for k in range(2, max(len(entry), 3), 3):
                part = entry[k : k + 3]
                yield Frame(
                    self._strings[part[0]] or None if part else None,
                    self._name(part[1]) if len(part) > 1 else None,
                    part[2] if len(part) > 2 else None,
                    module,
                )

    def _name(self, index: int) -> str | None:
        # The folder is dropped: it belongs to the machine of the compilation.
        return self._strings[index].rpartition("/")[2] or None


def about(frames: list[Frame]) -> dict[str, object]:
    """Determine from a call path who allocates, and for whom.

    Parameters
    ----------
    frames
        The functions, innermost first.

    Returns
    -------
    The columns ``function`` to ``path`` of `ALLOCATION_SITES`.
    """
    site = next(
        (
            frame
            for frame in frames
            if frame.function is not None and not _ALLOCATORS.match(frame.function)
        ),
        frames[0] if frames else Frame(None, None, None, None),
    )
    callers = (
        name
        for frame in frames
        for name, kind, pattern in _CALLERS
        if (text := frame.module if kind == "module" else frame.function) and pattern.search(text)
    )
    return {
        "function": site.function,
        "file": site.file,
        "line": site.line,
        "module": site.module,
        "called_by": next(callers, "other"),
        "path": "\n".join(frame.function or frame.module or "?" for frame in frames[:_DEEPEST]),
    }
