"""Probe functions that a user names as ``LIB:FUNCTION``, at their entries and exits.

The kernel's return probes would be simpler, but they replace the return address on the stack:
an exception that passes it ends the program. So each return instruction gets a probe, and the
stack pointer tells which entry it belongs to. Probes are set on the file, so the library need
not be loaded yet.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from roslens.recording import UsageError
from roslens.tracing.ftrace.names import NEW_NAME, NEW_THREAD
from roslens.tracing.ftrace.recorder import Instance
from roslens.tracing.ftrace.tracefs import group_of, why_no_ftrace, write

_END = re.compile(
    r"^\s*([0-9a-f]+):\s+(?:bnd |repz |rep )*(?:(ret\w*)|(?:jmpq?|b)\s+([0-9a-f]+) <(\S+?)>)",
    re.MULTILINE,
)
"""Matches a return, or a jump and its target, as objdump prints x86 and aarch64."""
_PART = re.compile(r"\.(cold|part)\b")
_SHOWN = 5


@dataclass(frozen=True)
class Symbol:
    """A function in a file: its mangled name, address, size, and offset in the file."""

    name: str
    address: int
    size: int
    offset: int


@dataclass(frozen=True)
class Function:
    """A function to probe: ``LIB:FUNCTION``, its file, and its entry and exit offsets in the file.

    `jumps`: functions to which it jumps at an exit, and which then return in its place.
    """

    name: str
    file: Path
    entry: int
    exits: tuple[int, ...]
    jumps: tuple[str, ...]


def symbols_of(file: Path, sections: Sequence[str] = (".symtab", ".dynsym")) -> Iterator[Symbol]:
    """Yield the functions of a library or program.

    Raises
    ------
    UsageError
        The file cannot be read as a library or program.
    """
    try:
        with file.open("rb") as stream:
            elf = ELFFile(stream)
            segments = [
                segment for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD"
            ]
            for section in filter(None, map(elf.get_section_by_name, sections)):
                if not isinstance(section, SymbolTableSection):
                    continue
                for symbol in section.iter_symbols():
                    value = symbol["st_value"]
                    if symbol["st_shndx"] == "SHN_UNDEF" or symbol["st_info"]["type"] != "STT_FUNC":
                        continue
                    for segment in segments:
                        if 0 <= value - segment["p_vaddr"] < segment["p_filesz"]:
                            offset = value - segment["p_vaddr"] + segment["p_offset"]
                            yield Symbol(symbol.name, value, symbol["st_size"], offset)
    except (OSError, ELFError) as error:
        raise UsageError(f"{file}: cannot be read as a library: {error}") from error


def find_functions(
    wanted: Sequence[str], environment: Mapping[str, str], mapped: Sequence[Path] = ()
) -> list[Function]:
    """Return the functions that are named as ``LIB:FUNCTION``.

    Parameters
    ----------
    environment
        The program's environment: LIB is searched as its loader, its shell and ``ros2 run`` do.
    mapped
        Files that running programs have mapped, which are searched first.

    Raises
    ------
    UsageError
        A function cannot be found, its name is ambiguous, or it cannot be probed.
    """
    by_entry: dict[tuple[Path, int], Function] = {}
    reason = why_no_ftrace() if wanted else None
    if reason is not None:
        raise UsageError(f"--probe: {reason}")
    for probe in wanted:
        library, _, name = probe.partition(":")
        if not library or not name:
            raise UsageError(f"--probe {probe}: give LIB:FUNCTION, such as libfoo.so:Foo::update")
        try:
            file = _file_of(library, environment, mapped)
            function = _function(file, name)
        except UsageError as error:
            raise UsageError(f"--probe {probe}: {error}") from error
        by_entry[file, function.entry] = function
    return list(by_entry.values())


def _file_of(library: str, environment: Mapping[str, str], mapped: Sequence[Path]) -> Path:
    fitting = [
        path for path in mapped if path.name == library or str(path).endswith(f"/root{library}")
    ]
    if fitting or "/" in library:
        file = fitting[0] if fitting else Path(library).resolve()
        if not file.is_file():
            raise UsageError("there is no such file")
        return file
    folders: dict[str, list[Path]] = {
        name: [Path(path) for path in environment.get(name, "").split(":") if path]
        for name in ("LD_LIBRARY_PATH", "AMENT_PREFIX_PATH", "PATH")
    }
    prefixes = folders.pop("AMENT_PREFIX_PATH")
    places = [*folders["LD_LIBRARY_PATH"], *(prefix / "lib" for prefix in prefixes)]
    places += [folder for prefix in prefixes for folder in prefix.glob("lib/*/")]
    places += [*folders["PATH"], *map(Path, ("/lib", "/usr/lib", "/usr/local/lib"))]
    places += [
        folder for root in ("/lib", "/usr/lib") for folder in Path(root).glob("*-linux-gnu/")
    ]
    path = next((folder / library for folder in places if (folder / library).is_file()), None)
    if path is None:
        raise UsageError(f"no {library} where the loader and ros2 look for it; give its path")
    return path.resolve()


def _function(file: Path, name: str) -> Function:
    every = list(symbols_of(file))
    symbols = [symbol for symbol in every if not _PART.search(symbol.name)]
    # A mangled name contains each word of the plain name unchanged.
    word = (re.findall(r"\w+", name.partition("(")[0]) or [name])[-1]
    near = [symbol for symbol in symbols if word in symbol.name]
    shown = _demangled([symbol.name for symbol in near], with_arguments="(" in name)
    pairs = list(zip(near, shown, strict=True))
    fitting = [(symbol, text) for symbol, text in pairs if name in {symbol.name, text}]
    fitting = fitting or [pair for pair in pairs if pair[1].endswith((f"::{name}", f" {name}"))]
    places = {symbol.address: (symbol, text) for symbol, text in fitting}
    if not places:
        raise UsageError(_not_found(file, name, [symbol.name for symbol in symbols]))
    if len(places) > 1:
        full = sorted(
            _demangled([symbol.name for symbol, _ in places.values()], with_arguments=True)
        )
        more = ", ..." if len(full) > _SHOWN else ""
        raise UsageError(
            f"{len(full)} functions have that name, give one with its arguments or its mangled "
            f"name: {', '.join(full[:_SHOWN])}{more}"
        )
    symbol, text = next(iter(places.values()))
    return Function(f"{file.name}:{text}", file, symbol.offset, *_exits(file, symbol, every))


def _not_found(file: Path, name: str, names: Sequence[str]) -> str:
    full = sorted(set(_demangled(names, with_arguments=False)))
    last = {function: function.rpartition("::")[2] for function in full}
    close = difflib.get_close_matches(name.rpartition("::")[2], last.values(), _SHOWN)
    like = [function for function in full if last[function] in close][:_SHOWN]
    stripped = not any(True for _ in symbols_of(file, [".symtab"]))
    text = f"{file.name} has no such function"
    if stripped:
        text += f" (it is stripped: only the {len(full):,} functions that it exports have names)"
    return f"{text}; similar: {', '.join(like)}" if like else text


def _demangled(names: Sequence[str], *, with_arguments: bool) -> list[str]:
    options = [] if with_arguments else ["-p"]
    text = _output("c++filt", options, "\n".join(names))
    return [re.sub(r" \[clone [^]]*\]", "", line) for line in text.splitlines()] if names else []


def _exits(
    file: Path, symbol: Symbol, every: Sequence[Symbol]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the offsets where a function returns or jumps to others, and those others' names."""
    parts = [symbol, *(candidate for candidate in every if candidate.name == f"{symbol.name}.cold")]
    if not symbol.size:
        raise UsageError("its size is not known, so neither is where it returns")
    offsets, destinations = set(), set()
    for part in parts:
        span = (
            f"--start-address={part.address:#x}",
            f"--stop-address={part.address + part.size:#x}",
        )
        text = _output("objdump", ["-d", "--no-show-raw-insn", *span, str(file)])
        for address, ret, target, name in _END.findall(text):
            inside = any(
                0 <= int(target or "0", 16) - piece.address < piece.size for piece in parts
            )
            if ret or not inside:
                offsets.add(int(address, 16) - part.address + part.offset)
            # A jump into the middle of another symbol leads to an unnamed part of this function.
            destinations |= {name} if target and not inside and "+0x" not in name else set()
    jumps = tuple(_demangled(sorted(destinations), with_arguments=False))
    if not offsets or symbol.offset in offsets:
        hint = f"; probe {', '.join(jumps)}" if jumps else ""
        raise UsageError(f"it has nothing between its begin and its end{hint}")
    return tuple(sorted(offsets)), jumps


def _output(program: str, options: Sequence[str], text: str = "") -> str:
    try:
        run = subprocess.run(
            [program, *options], input=text, text=True, capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(f"{program} is needed: install binutils ({error})") from error
    return run.stdout


def notes_of(functions: Sequence[Function]) -> list[str]:
    """Return notes about functions for the user, one line each."""
    return [
        f"{x.name} can end in a jump to {', '.join(x.jumps)}; the time there does not count then"
        for x in functions
        if x.jumps
    ]


def place_functions(instance: Instance, functions: Sequence[Function], *, own: bool) -> None:
    """Set the probes of functions, which are numbered from 1.

    `own`: probe the programs that this thread starts, and follow their threads.

    Raises
    ------
    OSError
        The kernel refuses a probe.
    """
    for kind in ("entry", "exit") if functions else ():
        event = f"{group_of(instance.name)}/function_{kind}__0"
        for number, function in enumerate(functions, 1):
            for offset in (function.entry,) if kind == "entry" else function.exits:
                fetched = f"function=\\{number}:u64 stack=%sp:x64"
                probe = f"p:{event} {function.file}:{offset:#x} {fetched}\n"
                write(instance.root / "uprobe_events", probe)
        instance.enable(event.replace("/", ":"))
    instance.functions = [function.name for function in functions]
    if own:
        thread = threading.get_native_id()
        instance.threads = {thread: (os.getpid(), thread, "")}
        for event in (NEW_THREAD, NEW_NAME):
            instance.enable_internal(event)
