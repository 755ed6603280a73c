"""Compile programs of micro-ROS with the options of each; runs in the interpreter of ROS."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

_HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(_HERE.parents[3] / "tracing" / "ros"))
from configured import configured  # type: ignore[import-not-found]  # noqa: E402

VARIABLE = "MICRO_ROS"
"""Variable with the path of the description of the compiled micro-ROS, see `prepare`."""
DEVICE = _HERE / "device"
_ON_BOARD = ("start", "board", "board_libc", "semihosting", "text", "stack")
_WRAPPED = ("malloc", "calloc", "realloc", "free", "_sbrk")


@dataclass(frozen=True)
class _Library:
    """Files of a pinned source with which one of our sources is compiled.

    Attributes
    ----------
    source
        Name of the pinned source.
    files
        Patterns of the files to compile, with our own headers for their configuration.
    include
        Folders with its headers.
    definitions
        Constants that configure it where it has no header for them.
    """

    source: str
    files: Sequence[str]
    include: Sequence[str]
    definitions: Sequence[str] = ()


_LIBRARIES = {
    "rtos_freertos": _Library(
        "freertos_kernel",
        ("list.c", "tasks.c", "portable/GCC/ARM_CM3/port.c"),
        ("include", "portable/GCC/ARM_CM3"),
    ),
    "rtos_threadx": _Library(
        "threadx",
        (
            *(f"common/src/tx_{name}*.c" for name in ("*initialize", "thread_", "timer_")),
            *("common/src/txe_thread_create.c", "ports/cortex_m3/gnu/src/*.S"),
        ),
        ("common/inc", "ports/cortex_m3/gnu/inc"),
        ("TX_ENABLE_STACK_CHECKING",),
    ),
    "network_lwip": _Library(
        "lwip",
        ("src/core/*.c", "src/core/ipv4/*.c", "src/netif/ethernet.c"),
        ("src/include",),
    ),
}
_LINKED = (
    *("-nostartfiles", "-T", str(DEVICE / "mps2.ld")),
    # This avoids page alignment, and bytes that differ between builds of the same program.
    *("-Wl,-n,--build-id=none", "-lc", "-lgcc"),
)
T = TypeVar("T")


class BuildError(Exception):
    """Error of a program that does not compile; its text says why."""


@dataclass(frozen=True)
class Program:
    """Sources and options of a program.

    Attributes
    ----------
    target
        ``host`` or ``cortex-m3``.
    sources
        Names in the folder ``device``.
    output
        Path of the program; its linker's map goes next to it, as ``NAME.map``.
    options
        Options of micro-ROS.
    definitions
        Constants for the first source.
    """

    target: str
    sources: Sequence[str]
    output: Path
    options: Mapping[str, object]
    definitions: Mapping[str, object] = field(default_factory=dict)


def description() -> dict[str, Any]:
    """Return the description by `roslens.tracing.ros.micro_ros.described`, with the agent's path.

    Raises
    ------
    BuildError
        There is no compiled micro-ROS.
    """
    path = os.environ.get(VARIABLE, "")
    if not path:
        raise BuildError(f"no micro-ROS: {VARIABLE} is not set; record the suite micro-ros")
    described: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return described


def at_once(work: Callable[[T], object], of: Iterable[T]) -> None:
    """Call `work` on each item, one per core at a time; after an error no further call begins."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for _ in pool.map(work, of):
            pass


def build(programs: Sequence[Program]) -> None:
    """Compile and link programs; equal compilations are made once, even between runs.

    Raises
    ------
    BuildError
        A program does not compile.
    """
    of_each = [_objects(program) for program in programs]
    at_once(_make, list(dict.fromkeys(unit for objects in of_each for unit in objects)))
    links = [_link(*pair) for pair in zip(programs, of_each, strict=True)]
    at_once(_make, list(dict.fromkeys(links)))
    for program, link in zip(programs, links, strict=True):
        shutil.copy(link.path, program.output)
        shutil.copy(link.path.with_suffix(".map"), program.output.with_suffix(".map"))


@dataclass(frozen=True)
class _Product:
    """A file and the command that makes it; the file's name identifies command and inputs."""

    path: Path
    command: tuple[str, ...]


def _named(
    command: Sequence[str], contents: Sequence[str], stem: str, suffix: str = ""
) -> _Product:
    key = hashlib.sha256(repr((command, contents)).encode()).hexdigest()[:16]
    folder = Path(os.environ[VARIABLE]).parent / "programs"
    return _Product(folder / f"{key}-{stem}{suffix}", tuple(command))


def _make(artifact: _Product) -> None:
    if artifact.path.is_file():
        return
    with tempfile.TemporaryDirectory(dir=artifact.path.parent) as scratch:
        output = Path(scratch) / artifact.path.name
        command = [
            word.replace("{map}", str(output.with_suffix(".map"))) for word in artifact.command
        ]
        done = subprocess.run(
            [*command, "-o", str(output)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            lines = [
                line for line in done.stderr.splitlines() if "error" in line or "undefined" in line
            ]
            raise BuildError(f"{artifact.path.name}: {(lines or [done.stderr.strip()])[0]}")
        # The program is moved last, so that its map exists wherever the program does.
        for file in sorted(Path(scratch).iterdir(), key=lambda path: path == output):
            file.replace(artifact.path.with_name(file.name))


def _objects(program: Program) -> list[_Product]:
    """Return the objects of our own sources, and of the parts of micro-ROS that depend on options.

    A part sees its own options and those of the parts before it, and only the last part and the
    first source see sizes of pools: the rest is not compiled again for other sizes.
    """
    target = description()["targets"][program.target]
    options = {name: str(value) for name, value in program.options.items()}
    shared = {k: v for k, v in options.items() if not k.startswith(target["pools"])}
    include: list[str] = []
    own_objects: list[_Product] = []
    objects: list[_Product] = []

    def add(part: Mapping[str, Any], overrides: Mapping[str, str]) -> None:
        text = configured(Path(part["template"]), target["values"] | overrides)
        include.insert(0, f"-I{_folder_of(part['header'], text)}")
        begin = _compiling(target, include)
        objects.extend(_named([*begin, file], (), Path(file).stem, ".o") for file in part["files"])

    def add_own(name: str, *definitions: str) -> None:
        source = DEVICE / f"{name}.c"
        files, flags = _library_of(name)
        begin = [*_compiling(target, include), f"-I{DEVICE}", *flags]
        command = [*begin, *definitions, str(source)]
        own_objects.append(_named(command, [*headers, source.read_text("utf-8")], name, ".o"))
        objects.extend(_named([*begin, str(file)], headers, file.stem, ".o") for file in files)

    headers = [header.read_text("utf-8") for header in sorted(DEVICE.rglob("*.h"))]
    first, *rest = program.sources
    *unsized, sized = target["parts"]
    for part in unsized:
        add(part, shared)
    for name in (*rest, *(_ON_BOARD if program.target != "host" else ())):
        add_own(name)
    add(sized, options)
    add_own(first, *(f"-D{k}={v}" for k, v in program.definitions.items()))
    return [*own_objects, *objects]


def _library_of(name: str) -> tuple[list[Path], list[str]]:
    """Return the files compiled with one of our sources, and flags for all of them; mostly none."""
    library = _LIBRARIES.get(name)
    if library is None:
        return [], []
    place = description()["sources"].get(library.source)
    if place is None:
        raise BuildError(f"no sources of {library.source}; record the suite micro-ros with it")
    tree = Path(place)
    files = {file: None for pattern in library.files for file in sorted(tree.glob(pattern))}
    include = [f"-I{tree / folder}" for folder in library.include]
    return [*files], [*include, *(f"-D{name}" for name in library.definitions)]


def _compiling(target: Mapping[str, Any], include: Sequence[str]) -> list[str]:
    """Return the compile command, with the headers made for this program's options first."""
    return [target["command"][0], *include, *target["command"][1:], "-c"]


def _folder_of(header: str, text: str) -> Path:
    """Return a folder with this header, named after its contents."""
    folder = Path(os.environ[VARIABLE]).parent / "programs"
    folder = folder / f"include-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    place = folder / header
    if not place.is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            written = Path(scratch) / "header"
            written.write_text(text, encoding="utf-8")
            written.replace(place)
    return folder


def _link(program: Program, objects: Sequence[_Product]) -> _Product:
    target = description()["targets"][program.target]
    link = ["-pthread"]
    if program.target != "host":
        wrapped = _WRAPPED if "heap" in program.sources else ()
        link = [*(f"-Wl,--wrap={name}" for name in wrapped), *_LINKED]
    command = [
        *(*target["command"], *(str(unit.path) for unit in objects), target["library"]),
        *("-Wl,--gc-sections", "-Wl,-Map={map}", *link),
    ]
    script = (DEVICE / "mps2.ld").read_text(encoding="utf-8")
    return _named(command, [script], program.sources[0])
