"""Show what each thread of a running ROS 2 program does now, and what it waits for."""

from __future__ import annotations

import platform
import re
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from roslens.analysis.measures.silences import NEEDED, silences, unfinished
from roslens.analysis.reports.numbers import counted, duration
from roslens.analysis.reports.table import ReportTable
from roslens.opening import open_as
from roslens.printed import show_table, show_text
from roslens.recording import UsageError
from roslens.runs import Runs
from roslens.tracing.native_tracer.growing import Growing, find_growing
from roslens.tracing.proc import namespace_id, process_name
from roslens.tracing.processes import PROC, process_ids
from roslens.tracing.sampling.processes import cpu_time_ns

_STREAM = re.compile(r"(/\S*/ros2-[^/\s]+)/ros2_")
_SAMPLES, _APART_S = 4, 0.1
_FUTEX = {"x86_64": "202", "aarch64": "98"}
"""The number of the system call."""
_COMMAND, _FUTEX_WAIT, _CONTENDED = 0x7F, 0, 2
_STATES = {
    "R": "running, or ready to", "S": "asleep", "D": "asleep, and no signal wakes it",
    "T": "stopped", "t": "stopped by a debugger", "Z": "ended",
}  # fmt: skip
_UNTOLD = (
    "It does not record itself with the native tracer ('roslens env'), or is another user's: what "
    "its callbacks do, since when, and which service they wait for is not known."
)


@dataclass(frozen=True)
class _Thread:
    """State of a thread from /proc; `number` is the thread id that the process itself sees.

    Attributes
    ----------
    holder
        The thread that holds the mutex this thread waits for; None if it waits for none.
    """

    number: int
    name: str
    state: str
    at: str
    holder: int | None


def run_dump(target: str) -> None:
    """Print one page about a process, given by its number or the name of one of its nodes.

    Raises
    ------
    UsageError
        There is no such process or node.
    """
    pid, trace = _process_and_trace(target)
    threads = list(_threads(pid))
    show_text(f"Process {pid} ({process_name(pid)}), {counted(len(threads), 'thread')}")
    for sentence in mutexes({t.number: t.holder for t in threads if t.holder is not None}):
        show_text(sentence)
    if trace is None:
        show_text(_UNTOLD)
        show_table(_table(threads, {}))
        return
    cpu, vpid = _cpu_samples(pid), namespace_id(pid)
    with _recorded(trace) as (run, now):
        tables = {name: run.table(name) for name in NEEDED}
        host = tables["processes"].filter(vpid=vpid).select("host").collect()
        sampled = cpu.with_columns(
            pl.lit(host["host"].first(), pl.String).alias("host"),
            pl.lit(vpid, pl.Int32).alias("vpid"),
        )
        for row in silences(tables, now, sampled).filter(vpid=vpid).to_dicts():
            show_text(row["sentence"])
        if tables["losses"].collect().height:
            show_text("The tracer lost events: what is said of callbacks may be over.")
        show_table(_table(threads, _activities(tables, vpid, now)))


def _process_and_trace(target: str) -> tuple[int, Path | None]:
    """Find the process, and the folder to which it writes its trace."""
    if target.isdigit():
        if not (PROC / target).is_dir():
            raise UsageError(f"{target}: there is no such process")
        return int(target), _trace_of(int(target))
    writing: dict[Path, dict[int, int]] = {}
    for pid in process_ids():
        trace = _trace_of(pid)
        if trace is not None:
            writing.setdefault(trace, {})[namespace_id(pid)] = pid
    names: set[str] = set()
    for trace, pids in writing.items():
        with _recorded(trace) as (run, _):
            nodes = run.table("nodes").filter(pl.col("vpid").is_in(list(pids))).collect()
        for node, vpid in nodes.select("node", "vpid").iter_rows():
            if node == target:
                return pids[vpid], trace
            names.add(node)
    raise UsageError(
        f"{target}: no program that records itself with the native tracer has this node; there "
        f"are: {', '.join(sorted(names)) or 'none'}. Give the process id of another one"
    )


def _trace_of(pid: int) -> Path | None:
    match = _STREAM.search(_text(PROC / str(pid) / "maps"))
    return Path(match.group(1)) if match and Path(match.group(1)).is_dir() else None


@contextmanager
def _recorded(trace: Path) -> Iterator[tuple[Runs, int]]:
    """Open copies of all traces that programs write there; also yield when they were copied."""
    with tempfile.TemporaryDirectory(prefix="roslens-dump-") as place:
        for folder in find_growing(trace.parent):
            grown = Growing(folder).copy(Path(place) / "trace" / folder.name)
            if grown.more:
                raise UsageError(f"{folder}: is too large to be read while its programs run")
        until = time.time_ns()
        yield open_as(Runs, [Path(place)]), until


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace").strip()
    return ""


def _threads(pid: int) -> Iterator[_Thread]:
    try:
        tasks = sorted((PROC / str(pid) / "task").iterdir(), key=lambda task: int(task.name))
    except OSError as error:
        raise UsageError(f"{pid}: the process has ended") from error
    for task in tasks:
        state = _text(task / "stat").rpartition(")")[2].split()[:1]
        # Reading the kernel stack needs root; reading where a thread sleeps often does not.
        stack = re.findall(r"\] (\w+)", _text(task / "stack"))
        where = _text(task / "wchan")
        at = " < ".join(stack[:3]) or ("" if where == "0" else where)
        status = _STATES.get("".join(state), "".join(state))
        holder = _holder(pid, _text(task / "syscall").split())
        yield _Thread(namespace_id(int(task.name)), _text(task / "comm"), status, at, holder)


def _holder(pid: int, call: list[str]) -> int | None:
    """Return the holder of the C library's mutex that a thread waits for in this system call.

    Such a mutex begins with three numbers: the first is 2 while a thread waits, the third is the
    holder's thread id. Other locks, such as Python's, do not name their holder.
    """
    if call[:1] != [_FUTEX.get(platform.machine())]:
        return None
    address, operation, expected = (int(word, 16) for word in call[1:4])
    if operation & _COMMAND != _FUTEX_WAIT or expected != _CONTENDED:
        return None
    with suppress(OSError), (PROC / str(pid) / "mem").open("rb") as memory:
        memory.seek(address)
        state, _, thread = struct.unpack("3i", memory.read(12))
        if state == _CONTENDED and thread > 0:
            return int(thread)
    return None


def mutexes(holders: Mapping[int, int]) -> Iterator[str]:
    """Describe which threads wait for mutexes of which others, and which waits form a deadlock.

    Parameters
    ----------
    holders
        The holder of the mutex, by the thread that waits for it.
    """
    for thread in sorted(holders):
        chain = [holders[thread]]
        while chain[-1] in holders and chain.count(chain[-1]) == 1 and chain[-1] != thread:
            chain.append(holders[chain[-1]])
        held = ", which waits for one that ".join(f"thread {holder} holds" for holder in chain)
        deadlock = ": a deadlock" if chain[-1] == thread else ""
        yield f"Thread {thread} waits for a mutex that {held}{deadlock}."


def _cpu_samples(pid: int) -> pl.DataFrame:
    """Sample ``time_ns`` and ``cpu_time_ns`` of the process a few times."""
    rows = []
    for _ in range(_SAMPLES):
        spent = cpu_time_ns(pid)
        if spent is not None:
            rows.append((time.time_ns(), spent))
        time.sleep(_APART_S)
    return pl.DataFrame(rows, schema={"time_ns": pl.Int64, "cpu_time_ns": pl.Int64}, orient="row")


def _activities(
    tables: Mapping[str, pl.LazyFrame], vpid: int, now: int
) -> dict[int, tuple[str, str]]:
    """Return each thread's current ROS 2 activity and for how long, by thread."""
    doing: dict[int, tuple[str, str]] = {}
    words = {"wait": "waits for work", "blocked": "waits for the executor's lock",
             "busy": "the executor's own work"}  # fmt: skip
    states = tables["executor_intervals"].filter(vpid=vpid).sort("begin_ns").collect()
    for row in states.unique("vtid", keep="last", maintain_order=True).iter_rows(named=True):
        if row["end_ns"] is None:
            doing[row["vtid"]] = words[row["state"]], duration(now - row["begin_ns"])
    thread = pl.col("host", "vpid", "vtid")
    calls = tables["callback_instances"].filter(vpid=vpid)
    acts = pl.concat([
        calls.select(thread, time_ns="start_ns"),
        tables["executor_intervals"].filter(vpid=vpid).select(thread, time_ns="begin_ns"),
    ])  # fmt: skip
    for row in unfinished(calls, acts).iter_rows(named=True):
        callback = f"in the {row['kind']} callback {row['name'] or '?'} of {row['node'] or '?'}"
        doing[row["vtid"]] = callback, duration(now - row["start_ns"])
    return doing


def _table(threads: list[_Thread], doing: Mapping[int, tuple[str, str]]) -> ReportTable:
    """Build the table of threads, those of executors first."""
    rows = [
        [str(t.number), t.name, *doing.get(t.number, ("", "")), t.state, t.at]
        for t in sorted(threads, key=lambda t: t.number not in doing)
    ]
    columns = ["thread", "name", "what it does", "for", "state", "in the kernel"]
    return ReportTable(columns, rows, "Threads, those of executors first",
                       left=frozenset(columns) - {"for"}, minor=["in the kernel"])  # fmt: skip
