"""Probes on functions that a user names as ``LIB:FUNCTION``: where they begin and end.

The kernel's own return probes would be simpler, but they put another return address on the stack:
an exception that passes it ends the program. So each instruction that returns has a probe, and the
stack pointer says which entry it belongs to. The file is probed, so nothing need be loaded yet.
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
"""A return, or a jump and where to, as objdump prints x86 and aarch64."""
_PART = re.compile(r"\.(cold|part)\b")
_SHOWN = 5


@dataclass(frozen=True)
class Symbol:
    """A function in a file: its mangled name, its address and size, and where it begins there."""

    name: str
    address: int
    size: int
    offset: int


@dataclass(frozen=True)
class Function:
    """A function to probe: ``LIB:FUNCTION``, its file, and where in that it begins and ends.

    `jumps`: functions to which it jumps at an end, and which then return in its place.
    """

    name: str
    file: Path
    entry: int
    exits: tuple[int, ...]
    jumps: tuple[str, ...]


def symbols_of(file: Path, sections: Sequence[str] = (".symtab", ".dynsym")) -> Iterator[Symbol]:
    """The functions of a library or program.

    Raises
    ------
    UsageError
        It cannot be read as one.
    """
    try:
        with file.open("rb") as stream:
            elf = ELFFile(stream)
            segments = [x for x in elf.iter_segments() if x["p_type"] == "PT_LOAD"]
            for section in filter(None, map(elf.get_section_by_name, sections)):
                if not isinstance(section, SymbolTableSection):
                    continue
                for one in section.iter_symbols():
                    value = one["st_value"]
                    if one["st_shndx"] == "SHN_UNDEF" or one["st_info"]["type"] != "STT_FUNC":
                        continue
                    for x in segments:
                        if 0 <= value - x["p_vaddr"] < x["p_filesz"]:
                            offset = value - x["p_vaddr"] + x["p_offset"]
                            yield Symbol(one.name, value, one["st_size"], offset)
    except (OSError, ELFError) as error:
        raise UsageError(f"{file}: cannot be read as a library: {error}") from error


def find_functions(
    wanted: Sequence[str], environment: Mapping[str, str], mapped: Sequence[Path] = ()
) -> list[Function]:
    """The functions that are named as ``LIB:FUNCTION``.

    Parameters
    ----------
    environment
        Of the program: LIB is looked for as its loader, its shell and ``ros2 run`` do.
    mapped
        Files that running programs have mapped, which come first.

    Raises
    ------
    UsageError
        One cannot be found, is not the only one of its name, or cannot be probed.
    """
    found: dict[tuple[Path, int], Function] = {}
    reason = why_no_ftrace() if wanted else None
    if reason is not None:
        raise UsageError(f"--probe: {reason}")
    for one in wanted:
        library, _, name = one.partition(":")
        if not library or not name:
            raise UsageError(f"--probe {one}: give LIB:FUNCTION, such as libfoo.so:Foo::update")
        try:
            file = _file_of(library, environment, mapped)
            function = _function(file, name)
        except UsageError as error:
            raise UsageError(f"--probe {one}: {error}") from error
        found[file, function.entry] = function
    return list(found.values())


def _file_of(library: str, environment: Mapping[str, str], mapped: Sequence[Path]) -> Path:
    fitting = [x for x in mapped if x.name == library or str(x).endswith(f"/root{library}")]
    if fitting or "/" in library:
        file = fitting[0] if fitting else Path(library).resolve()
        if not file.is_file():
            raise UsageError("there is no such file")
        return file
    folders: dict[str, list[Path]] = {
        name: [Path(x) for x in environment.get(name, "").split(":") if x]
        for name in ("LD_LIBRARY_PATH", "AMENT_PREFIX_PATH", "PATH")
    }
    prefixes = folders.pop("AMENT_PREFIX_PATH")
    places = [*folders["LD_LIBRARY_PATH"], *(x / "lib" for x in prefixes)]
    places += [y for x in prefixes for y in x.glob("lib/*/")]
    places += [*folders["PATH"], *map(Path, ("/lib", "/usr/lib", "/usr/local/lib"))]
    places += [y for x in ("/lib", "/usr/lib") for y in Path(x).glob("*-linux-gnu/")]
    found = next((x / library for x in places if (x / library).is_file()), None)
    if found is None:
        raise UsageError(f"no {library} where the loader and ros2 look for it; give its path")
    return found.resolve()


def _function(file: Path, name: str) -> Function:
    every = list(symbols_of(file))
    symbols = [x for x in every if not _PART.search(x.name)]
    # A mangled name holds each word of the name as it is.
    word = (re.findall(r"\w+", name.partition("(")[0]) or [name])[-1]
    near = [x for x in symbols if word in x.name]
    shown = _demangled([x.name for x in near], with_arguments="(" in name)
    pairs = list(zip(near, shown, strict=True))
    fitting = [(x, text) for x, text in pairs if name in {x.name, text}]
    fitting = fitting or [x for x in pairs if x[1].endswith((f"::{name}", f" {name}"))]
    places = {x.address: (x, text) for x, text in fitting}
    if not places:
        raise UsageError(_missing(file, name, [x.name for x in symbols]))
    if len(places) > 1:
        full = sorted(_demangled([x.name for x, _ in places.values()], with_arguments=True))
        more = ", ..." if len(full) > _SHOWN else ""
        raise UsageError(
            f"{len(full)} functions have that name, give one with its arguments or its mangled "
            f"name: {', '.join(full[:_SHOWN])}{more}"
        )
    symbol, text = next(iter(places.values()))
    return Function(f"{file.name}:{text}", file, symbol.offset, *_exits(file, symbol, every))


def _missing(file: Path, name: str, there: Sequence[str]) -> str:
    full = sorted(set(_demangled(there, with_arguments=False)))
    last = {x: x.rpartition("::")[2] for x in full}
    close = difflib.get_close_matches(name.rpartition("::")[2], last.values(), _SHOWN)
    like = [x for x in full if last[x] in close][:_SHOWN]
    stripped = not any(True for _ in symbols_of(file, [".symtab"]))
    text = f"{file.name} has no such function"
    if stripped:
        text += f" (it is stripped: only the {len(full):,} functions that it exports have names)"
    return f"{text}; similar: {', '.join(like)}" if like else text


def _demangled(names: Sequence[str], *, with_arguments: bool) -> list[str]:
    options = [] if with_arguments else ["-p"]
    text = _output("c++filt", options, "\n".join(names))
    return [re.sub(r" \[clone [^]]*\]", "", x) for x in text.splitlines()] if names else []


def _exits(
    file: Path, symbol: Symbol, every: Sequence[Symbol]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Where a function returns or jumps to others, and to which."""
    parts = [symbol, *(x for x in every if x.name == f"{symbol.name}.cold")]
    if not symbol.size:
        raise UsageError("its size is not known, so neither is where it returns")
    found, others = set(), set()
    for part in parts:
        span = (
            f"--start-address={part.address:#x}",
            f"--stop-address={part.address + part.size:#x}",
        )
        text = _output("objdump", ["-d", "--no-show-raw-insn", *span, str(file)])
        for address, ret, target, name in _END.findall(text):
            inside = any(0 <= int(target or "0", 16) - x.address < x.size for x in parts)
            if ret or not inside:
                found.add(int(address, 16) - part.address + part.offset)
            # One into another function is to a part of this one that has lost its name.
            others |= {name} if target and not inside and "+0x" not in name else set()
    jumps = tuple(_demangled(sorted(others), with_arguments=False))
    if not found or symbol.offset in found:
        what = f"; probe {', '.join(jumps)}" if jumps else ""
        raise UsageError(f"it has nothing between its begin and its end{what}")
    return tuple(sorted(found)), jumps


def _output(program: str, options: Sequence[str], text: str = "") -> str:
    try:
        run = subprocess.run(
            [program, *options], input=text, text=True, capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(f"{program} is needed: install binutils ({error})") from error
    return run.stdout


def notes_of(functions: Sequence[Function]) -> list[str]:
    """What the user should know about functions, one line each."""
    return [
        f"{x.name} can end in a jump to {', '.join(x.jumps)}; the time there does not count then"
        for x in functions
        if x.jumps
    ]


def place_functions(instance: Instance, functions: Sequence[Function], *, own: bool) -> None:
    """Set the probes of functions, which are numbered from 1 on.

    `own`: those of what this thread starts, whose threads are then followed.

    Raises
    ------
    OSError
        The kernel refuses.
    """
    for kind in ("entry", "exit") if functions else ():
        event = f"{group_of(instance.name)}/function_{kind}__0"
        for number, one in enumerate(functions, 1):
            for offset in (one.entry,) if kind == "entry" else one.exits:
                fetched = f"function=\\{number}:u64 stack=%sp:x64"
                probe = f"p:{event} {one.file}:{offset:#x} {fetched}\n"
                write(instance.root / "uprobe_events", probe)
        instance.enable(event.replace("/", ":"))
    instance.functions = [x.name for x in functions]
    if own:
        thread = threading.get_native_id()
        instance.threads = {thread: (os.getpid(), thread, "")}
        for event in (NEW_THREAD, NEW_NAME):
            instance.enable_own(event)
