"""Probes on the functions of a libtracetools that running programs have mapped.

ROS 2 calls ``ros_trace_<event>`` for each event, also where it was built without LTTng; a probe at
the first instruction of the function finds the arguments in the registers of the calling
convention.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from roslens.recording import UsageError
from roslens.recording.errors import RoslensError
from roslens.tracing.ftrace.names import NAME_FETCH, NAME_FIELD, NAMED
from roslens.tracing.ftrace.raw import Thread
from roslens.tracing.ftrace.recorder import Instance
from roslens.tracing.ftrace.tracefs import group_of, write
from roslens.tracing.native_tracer.library import native_library
from roslens.tracing.native_tracer.table import distributions, instrumentation_of
from roslens.tracing.ros.header import Instrumentation, Tracepoint

_LIBRARY = re.compile(r"libtracetools\.so[.\d]*$")
_PREFIX = "ros_trace_"
_REGISTERS = {
    # System V ABI, AMD64 supplement, 3.2.3; AAPCS64, 6.8.
    "x86_64": ("%di", "%si", "%dx", "%cx", "%r8", "%r9"),
    "aarch64": tuple(f"%x{number}" for number in range(8)),
}
_LISTED = 40
_CALLS = 200
_USUAL_COST_S = 10e-6


@dataclass(frozen=True)
class Target:
    """A running process: its number, its name, and the libtracetools that it has mapped."""

    pid: int
    name: str
    library: Path


def find_targets(wanted: list[str]) -> list[Target]:
    """The running processes that are named, which all must have a libtracetools.

    Parameters
    ----------
    wanted
        Process ids, or names: of a process, of a program or script that it runs, or of a node as
        in ``__node:=NAME``, with its namespace or without.

    Raises
    ------
    UsageError
        There is none for one of them, or it has no libtracetools.
    """
    if not wanted:
        raise UsageError("--attach: give the process id or name of a running ROS 2 program")
    found: dict[int, Target] = {}
    for one in wanted:
        pids = [int(one)] if one.isdecimal() else list(_named(one))
        targets = [_target(pid) for pid in pids]
        there = [x for x in targets if x is not None]
        if not there:
            what = "has no libtracetools mapped" if any(map(_is_there, pids)) else "does not run"
            raise UsageError(
                f"--attach {one}: {what}; give the process id or name of a running ROS 2 program"
            )
        found |= {x.pid: x for x in there}
    return list(found.values())


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").is_dir()


def _named(name: str) -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            names = {Path(word).name for word in words[:_LISTED]}
            nodes = {word.partition("__node:=")[2] for word in words} - {""}
            space = next(filter(None, (word.partition("__ns:=")[2] for word in words)), "")
            names |= nodes | {f"{space.rstrip('/')}/{node}" for node in nodes}
            names.add((folder / "comm").read_text(errors="replace").strip())
            if name in names - {""}:
                yield int(folder.name)


def _target(pid: int) -> Target | None:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
            path = line.split(maxsplit=5)[5:]
            if path and _LIBRARY.search(path[0]):
                name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
                # As the process sees it, which may be in a container.
                return Target(pid, name, Path(f"/proc/{pid}/root{path[0]}"))
    return None


def cost_of_call(instance: Instance, library: Path | None) -> float:
    """What a probe adds to a call [s], measured at a function of `own_library`; without it 10 us.

    Raises
    ------
    OSError
        The kernel refuses.
    """
    function = "enabled_callback_end"
    if library is None:
        return _USUAL_COST_S
    call = getattr(ctypes.CDLL(str(library)), _PREFIX + function)
    place = f"{library}:{_offsets(library)[function]:#x}"
    probe = f"{group_of(instance.name)}/{function}"
    plain = _time_of(call)
    write(instance.root / "uprobe_events", f"p:{probe} {place} a=%di:x64\n")
    write(instance.path / "events" / probe / "enable", "1")
    probed = _time_of(call)
    write(instance.path / "events" / probe / "enable", "0")
    write(instance.root / "uprobe_events", f"-:{probe}\n")
    return max(0.0, probed - plain)


@cache
def own_library() -> Path | None:
    """A libtracetools of ours that no other process has: in memory, as long as this one runs.

    Compiled where none came with roslens, which takes seconds; None where it cannot be.
    """
    try:
        content = native_library(distributions()[-1]).read_bytes()
    except RoslensError:
        return None
    copy = os.memfd_create("roslens")
    with os.fdopen(copy, "wb", closefd=False) as file:
        file.write(content)
    return Path(f"/proc/{os.getpid()}/fd/{copy}")


def _time_of(call: Callable[[], object]) -> float:
    times = []
    for _ in range(_CALLS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def place_probes(instance: Instance, targets: list[Target]) -> list[str]:
    """Set probes on all functions of the targets' libraries; returns what the user should know.

    Raises
    ------
    UsageError
        A library exports no such function, or this machine's convention is not known.
    OSError
        The kernel refuses.
    """
    registers = _REGISTERS.get(platform.machine())
    if registers is None:
        raise UsageError(f"--attach: not on {platform.machine()}, only {', '.join(_REGISTERS)}")
    notes: list[str] = []
    placed: set[tuple[int, int]] = set()
    group = group_of(instance.name)
    for target in targets:
        about = target.library.stat()
        if (about.st_dev, about.st_ino) in placed:
            continue
        number = len(placed)
        placed.add((about.st_dev, about.st_ino))
        offsets = _offsets(target.library)
        if not offsets:
            raise UsageError(f"{target.library}: exports no {_PREFIX}* function to attach to")
        known = _instrumentation(target, set(offsets))
        points = {point.name: point for point in known.tracepoints}
        left_out = sorted(set(points) & set(offsets) - set(_probed(points)))
        if left_out:
            notes.append(f"events that cannot be attached to: {', '.join(left_out)}")
        for name in sorted(set(_probed(points)) & set(offsets)):
            arguments = _arguments(points[name], known, registers)
            write(
                instance.root / "uprobe_events",
                f"p:{group}/{name}__{number} {target.library}:{offsets[name]:#x} {arguments}\n",
            )
            instance.enable(f"{group}:{name}__{number}")
    return notes


def _probed(points: Mapping[str, Tracepoint]) -> list[str]:
    """Events whose arguments all have a fixed size or an end."""
    return [
        name
        for name, point in points.items()
        if not any(field.kind.startswith("ctf_sequence") for field in point.fields)
    ]


def _arguments(point: Tracepoint, known: Instrumentation, registers: tuple[str, ...]) -> str:
    wanted = {field.name: field for field in point.fields}
    found = []
    for parameter, register in zip(known.functions[point.name], registers, strict=False):
        field = wanted.get(parameter.name)
        if field is None:
            continue
        if field.kind == "ctf_string":
            fetch = f"+0({register}):string"
        elif field.kind == "ctf_array":
            fetch = f"+0({register}):x8[{field.arguments[3]}]"
        elif parameter.type == "bool":
            fetch = f"{register}:u8"
        else:
            fetch = f"{register}:{'s64' if parameter.type == 'int64_t' else 'x64'}"
        found.append(f"{parameter.name}={fetch}")
    first = known.functions[point.name][:1]
    if point.name in NAMED and first and first[0].name == f"rmw_{NAMED[point.name]}_handle":
        found.append(f"{NAME_FIELD}={NAME_FETCH.format(register=registers[0])}")
    return " ".join(found)


def _offsets(library: Path) -> dict[str, int]:
    """By event: where in the file its function begins."""
    try:
        with library.open("rb") as stream:
            elf = ELFFile(stream)
            symbols = elf.get_section_by_name(".dynsym")
            if not isinstance(symbols, SymbolTableSection):
                return {}
            segments = [x for x in elf.iter_segments() if x["p_type"] == "PT_LOAD"]
            found = {}
            for symbol in symbols.iter_symbols():
                value = symbol["st_value"]
                if not symbol.name.startswith(_PREFIX) or symbol["st_shndx"] == "SHN_UNDEF":
                    continue
                for segment in segments:
                    if 0 <= value - segment["p_vaddr"] < segment["p_filesz"]:
                        place = value - segment["p_vaddr"] + segment["p_offset"]
                        found[symbol.name.removeprefix(_PREFIX)] = place
            return found
    except (OSError, ELFError) as error:
        raise UsageError(f"{library}: cannot be read as a library: {error}") from error


def _instrumentation(target: Target, exported: set[str]) -> Instrumentation:
    """What the functions take: of the distribution that the process names, or that fits best."""
    named = None
    with suppress(OSError):
        variables = Path(f"/proc/{target.pid}/environ").read_bytes().split(b"\0")
        named = next((x[11:].decode() for x in variables if x.startswith(b"ROS_DISTRO=")), None)
    if named in distributions():
        return instrumentation_of(str(named))
    fitting = [instrumentation_of(name) for name in distributions()]
    # The newest of those that lack least.
    return min(reversed(fitting), key=lambda x: len({p.name for p in x.tracepoints} ^ exported))


def threads_of(targets: Sequence[Target], known: Container[int] = ()) -> dict[int, Thread]:
    """The threads that the targets have now, but for those that are known."""
    found = {}
    for target in targets:
        with suppress(OSError):
            folder = Path(f"/proc/{target.pid}/task")
            for task in folder.iterdir():
                tid = int(task.name)
                if tid in known:
                    continue
                with suppress(OSError):
                    text = (task / "status").read_text(errors="replace")
                    vpid, vtid = (
                        int(x[1].split()[-1])
                        for x in (
                            re.search(rf"^{name}:(.*)$", text, re.MULTILINE) or ("", "0")
                            for name in ("NStgid", "NSpid")
                        )
                    )
                    name = (task / "comm").read_text(errors="replace").strip()
                    found[tid] = (vpid, vtid, name)
    return found
