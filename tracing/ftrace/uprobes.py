"""Place probes on the functions of a libtracetools that running programs have mapped.

ROS 2 calls ``ros_trace_<event>`` for each event, even if it was built without LTTng; a probe at
the first instruction of the function finds the arguments in the registers of the calling
convention. Events of goals come from functions of librcl_action.
"""

from __future__ import annotations

import ctypes
import itertools
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

from roslens.recording import UsageError
from roslens.recording.errors import RoslensError
from roslens.tracing.ftrace.functions import symbols_of
from roslens.tracing.ftrace.names import NAME_FETCH, NAME_FIELD, NAMED
from roslens.tracing.ftrace.raw import Thread
from roslens.tracing.ftrace.recorder import Instance
from roslens.tracing.ftrace.tracefs import group_of, write
from roslens.tracing.native_tracer.library import native_library
from roslens.tracing.native_tracer.table import distributions, instrumentation_of
from roslens.tracing.proc import environment, innermost, process_name, read
from roslens.tracing.ros.header import Instrumentation, Tracepoint

_LIBRARY = re.compile(r"libtracetools\.so[.\d]*$")
_PREFIX = "ros_trace_"
_ACTION_LIBRARY = re.compile(r"librcl_action\.so[.\d]*$")
_ACTION_PREFIX = "rcl_action_"
_REGISTERS = {
    # System V ABI, AMD64 supplement, 3.2.3; AAPCS64, 6.8.
    "x86_64": ("%di", "%si", "%dx", "%cx", "%r8", "%r9"),
    "aarch64": tuple(f"%x{number}" for number in range(8)),
}
_LISTED = 40
_ID_FETCH = "goal_id=+0({}):x8[16]"
"""The goal id comes first in requests to an action's services, in goals, and in goal handles."""
TRANSITIONS = {2: (0, 1, 1), 3: (1, 1, 2), 4: (2, 2, 3), 6: (3, 2, 3), 5: (4, 3, 3)}
"""For each new state of a goal (``action_msgs/msg/GoalStatus``): rcl_action's event, and the lowest
and the highest state before it."""
_CALLS = 200
_USUAL_COST_S = 10e-6


@dataclass(frozen=True)
class Target:
    """A running process: its id, its name, and the libraries that it has mapped."""

    pid: int
    name: str
    library: Path
    actions: Path | None = None


def find_targets(wanted: list[str]) -> list[Target]:
    """Return the named running processes, each of which must have a libtracetools.

    Parameters
    ----------
    wanted
        Process ids, or names: of a process, of a program or script that it runs, or of a node as
        given by ``__node:=NAME``, with or without its namespace.

    Raises
    ------
    UsageError
        An id or name fits no process, or none with a libtracetools.
    """
    if not wanted:
        raise UsageError("--attach: give the process id or name of a running ROS 2 program")
    by_pid: dict[int, Target] = {}
    for name in wanted:
        pids = [int(name)] if name.isdecimal() else list(_named(name))
        targets = [_target(pid) for pid in pids]
        attachable = [target for target in targets if target is not None]
        if not attachable:
            runs = any(Path(f"/proc/{pid}").is_dir() for pid in pids)
            reason = "has no libtracetools mapped" if runs else "does not run"
            raise UsageError(
                f"--attach {name}: {reason}; give the process id or name of a running ROS 2 program"
            )
        by_pid |= {target.pid: target for target in attachable}
    return list(by_pid.values())


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


def mapped_by(pid: int) -> list[Path]:
    """Return the files that a process has mapped, as it sees them, possibly in a container.

    Raises
    ------
    OSError
        The process is gone, or belongs to another user.
    """
    lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    paths = [
        Path(f"/proc/{pid}/root{path}") for line in lines for path in line.split(maxsplit=5)[5:]
    ]
    return list(dict.fromkeys(paths))


def _target(pid: int) -> Target | None:
    with suppress(OSError):
        paths = mapped_by(pid)
        library, actions = (
            next((path for path in paths if pattern.search(path.name)), None)
            for pattern in (_LIBRARY, _ACTION_LIBRARY)
        )
        # A process that has ended has no name.
        if library is not None and (name := process_name(pid)):
            return Target(pid, name, library, actions)
    return None


def cost_of_call(instance: Instance, library: Path | None) -> float:
    """Return the seconds that a probe adds to a call, measured in `library`; without one, 10 us.

    Raises
    ------
    OSError
        The kernel refuses a probe.
    """
    function = "enabled_callback_end"
    if library is None:
        return _USUAL_COST_S
    call = getattr(ctypes.CDLL(str(library)), _PREFIX + function)
    place = f"{library}:{_offsets(library, _PREFIX)[function]:#x}"
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
    """Return a libtracetools of our own that no other process maps, held in memory.

    It is compiled if none came with roslens, which takes seconds; None if it cannot be compiled.
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
    """Set probes on all functions of the targets' libraries; return notes for the user.

    Raises
    ------
    UsageError
        A library exports no such function, or this machine's calling convention is not known.
    OSError
        The kernel refuses a probe.
    """
    registers = _REGISTERS.get(platform.machine())
    if registers is None:
        raise UsageError(f"--attach: not on {platform.machine()}, only {', '.join(_REGISTERS)}")
    notes: list[str] = []
    probes: dict[tuple[int, int], list[_Probe]] = {}
    for target in targets:
        for library, probes_of in ((target.library, _event_probes), (target.actions, _goal_probes)):
            about = library and library.stat()
            if about and (about.st_dev, about.st_ino) not in probes:
                probes[about.st_dev, about.st_ino] = list(probes_of(target, registers, notes))
    group = group_of(instance.name)
    for number, probe in enumerate(itertools.chain.from_iterable(probes.values())):
        name = f"{probe.event}__{number}"
        write(instance.root / "uprobe_events", f"p:{group}/{name} {probe.place} {probe.fetched}\n")
        if probe.condition:
            write(instance.path / "events" / group / name / "filter", probe.condition)
        instance.enable(f"{group}:{name}")
    return notes


@dataclass(frozen=True)
class _Probe:
    """A probe: the event that it records, its place, what it fetches, and its filter."""

    event: str
    place: str
    fetched: str
    condition: str = ""


def _event_probes(target: Target, registers: tuple[str, ...], notes: list[str]) -> Iterator[_Probe]:
    offsets = _offsets(target.library, _PREFIX)
    if not offsets:
        raise UsageError(f"{target.library}: exports no {_PREFIX}* function to attach to")
    instrumentation = _instrumentation(target, set(offsets))
    points = {point.name: point for point in instrumentation.tracepoints}
    left_out = sorted(set(points) & set(offsets) - set(_probed(points)))
    if left_out:
        notes.append(f"events that cannot be attached to: {', '.join(left_out)}")
    for name in sorted(set(_probed(points)) & set(offsets)):
        place = f"{target.library}:{offsets[name]:#x}"
        if name == "rmw_take_request":
            # If a function has two probes, the kernel calls first the one that was set last.
            asked = f"{_ID_FETCH.format(registers[1])} {_name_fetch(registers[0])}"
            yield _Probe("action_request", place, asked, f'{NAME_FIELD} ~ "*/_action/*"')
        yield _Probe(name, place, _arguments(points[name], instrumentation, registers))


def _goal_probes(target: Target, registers: tuple[str, ...], _: list[str]) -> Iterator[_Probe]:
    first, second = registers[:2]
    # The content of a handle (``rcl_action/goal_handle.c``): id, 8 bytes of time, state.
    handle = f"+0({first})"
    now = f"roslens_state=+24({handle}):s8 roslens_event={second}:s32"
    offsets = _offsets(target.actions, _ACTION_PREFIX) if target.actions else {}
    for name, offset in offsets.items():
        place = f"{target.actions}:{offset:#x}"
        if name == "accept_new_goal":
            yield _Probe("goal_status", place, f"{_ID_FETCH.format(second)} status=\\1:s64")
        elif name == "update_goal_state":
            for status, (event, least, greatest) in TRANSITIONS.items():
                fetched = f"{_ID_FETCH.format(handle)} status=\\{status}:s64 {now}"
                counts = f"roslens_event == {event} && roslens_state >= {least}"
                counts += f" && roslens_state <= {greatest}"
                yield _Probe("goal_status", place, fetched, counts)


def _probed(points: Mapping[str, Tracepoint]) -> list[str]:
    """Return the events whose arguments all have a fixed size or a terminator."""
    return [
        name
        for name, point in points.items()
        if not any(field.kind.startswith("ctf_sequence") for field in point.fields)
    ]


def _arguments(
    point: Tracepoint, instrumentation: Instrumentation, registers: tuple[str, ...]
) -> str:
    wanted = {field.name: field for field in point.fields}
    arguments = []
    for parameter, register in zip(instrumentation.functions[point.name], registers, strict=False):
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
        arguments.append(f"{parameter.name}={fetch}")
    first = instrumentation.functions[point.name][:1]
    if point.name in NAMED and first and first[0].name == f"rmw_{NAMED[point.name]}_handle":
        arguments.append(_name_fetch(registers[0]))
    return " ".join(arguments)


def _name_fetch(register: str) -> str:
    return f"{NAME_FIELD}={NAME_FETCH.format(register=register)}"


def _offsets(library: Path, prefix: str) -> dict[str, int]:
    """Return the file offsets of functions, by their names without the prefix."""
    return {
        symbol.name.removeprefix(prefix): symbol.offset
        for symbol in symbols_of(library, [".dynsym"])
        if symbol.name.startswith(prefix)
    }


def _instrumentation(target: Target, exported: set[str]) -> Instrumentation:
    """Return the parameters of events, for the distribution the process names or the best fit."""
    named = None
    with suppress(OSError):
        named = environment(target.pid).get("ROS_DISTRO")
    if named in distributions():
        return instrumentation_of(str(named))
    fitting = [instrumentation_of(name) for name in distributions()]
    # Take the newest distribution among those that fit best.
    return min(
        reversed(fitting),
        key=lambda candidate: len({p.name for p in candidate.tracepoints} ^ exported),
    )


def threads_of(targets: Sequence[Target], known: Container[int] = ()) -> dict[int, Thread]:
    """Return the current threads of the targets, except the known ones."""
    by_tid = {}
    for target in targets:
        with suppress(OSError):
            folder = Path(f"/proc/{target.pid}/task")
            for task in folder.iterdir():
                tid = int(task.name)
                if tid in known:
                    continue
                if status := read(f"{task}/status"):
                    vpid, vtid = (
                        innermost(status, b"\n%b:" % of, 0) for of in (b"NStgid", b"NSpid")
                    )
                    name = read(f"{task}/comm").decode(errors="replace").strip()
                    by_tid[tid] = (vpid, vtid, name)
    return by_tid
