"""Write and read ring-buffer pages by hand, after the kernel's documentation, without roslens.

Pages are little-endian: the head of an event has its kind in the low 5 bits and the time in the
others.
"""

import json
import struct
from collections.abc import Sequence
from pathlib import Path

PAGE, DATA = 4096, 16
MISSED, STORED = 1 << 31, 1 << 30
HEADER_PAGE = """\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
"""
_COMMON = """\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

"""
SWITCH = f"""\
name: sched_switch
ID: 372
format:
{_COMMON}\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;
\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;
\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;

print fmt: "field:pid_t prev_pid; offset:9; size:4; signed:1;", REC->prev_comm
"""
IRQ = f"""\
name: irq_handler_entry
ID: 225
format:
{_COMMON}\tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;
\tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;

print fmt: "irq=%d name=%s", REC->irq, __get_str(name)
"""
RUNTIME = f"""\
name: sched_stat_runtime
ID: 363
format:
{_COMMON}\tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;
\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;
\tfield:u64 runtime;\toffset:16;\tsize:8;\tsigned:0;

print fmt: "comm=%s pid=%d runtime=%Lu [ns]", __get_str(comm), REC->pid, REC->runtime
"""


def runtime(thread: int, ran: int, *, by: int | None = None) -> bytes:
    """Return a thread's sched_stat_runtime, in its own context or another thread's."""
    context = thread if by is None else by
    return struct.pack("<HBBiIiQI", 363, 1, 2, context, 3 << 16 | 24, thread, ran, 0x6E)


def switch(out: int, into: int, state: int = 0) -> bytes:
    """Return the content of a sched_switch."""
    return struct.pack(
        "<HBBi16siiq16sii", 372, 1, 2, out, f"t{out}".encode(), out, 120, state,
        f"t{into}".encode(), into, 120,
    )  # fmt: skip


def irq(number: int, name: bytes, *, offset: int = 16, by: int = 1) -> bytes:
    """Return the content of an irq_handler_entry, whose name lies behind its fields."""
    text = name + b"\0"
    content = struct.pack("<HBBiiI", 225, 8, 0, by, number, len(text) << 16 | offset) + text
    return content + b"\0" * (-len(content) % 4)


def event(delta: int, content: bytes) -> bytes:
    """Return an event `delta` ns after the one before."""
    extended = b""
    if delta >= 1 << 27:
        extended = struct.pack("<II", 30 | (delta & 0x7FFFFFF) << 5, delta >> 27)
        delta = 0
    words = len(content) // 4
    if words <= 28:
        return extended + struct.pack("<I", words | delta << 5) + content
    return extended + struct.pack("<II", delta << 5, len(content) + 4) + content


def absolute(time: int) -> bytes:
    """Return an event that sets the time."""
    return struct.pack("<II", 31 | (time & 0x7FFFFFF) << 5, time >> 27 & 0xFFFFFFFF)


def padding(delta: int, size: int) -> bytes:
    """Return an event that was taken back; with time 0, the rest of the page is empty."""
    return struct.pack("<II", 29 | delta << 5, size) + b"\xff" * (size - 4)


def page(time: int, *events: bytes, missed: int | None = None) -> bytes:
    """Return a page; `missed` events were lost before it, with 0 an unknown number."""
    content = b"".join(events)
    commit = len(content)
    if missed is not None:
        commit |= MISSED
        if missed:
            commit |= STORED
            content += struct.pack("<Q", missed)
    assert len(content) <= PAGE - DATA
    return (struct.pack("<QQ", time, commit) + content).ljust(PAGE, b"\0")


def read_slowly(content: bytes) -> tuple[list[tuple[int, int, int, int]], set[int]]:  # noqa: C901
    """Return page, place, size and time of each event, and the damaged pages."""
    events, damaged = [], set()
    for number in range(len(content) // PAGE):
        data = content[number * PAGE : (number + 1) * PAGE]
        now, commit = struct.unpack_from("<qQ", data)
        first, at, end = now, DATA, DATA + (commit & 0xFFFFF) // 4 * 4
        if DATA + (commit & 0xFFFFF) > PAGE or not 0 <= now <= 1 << 62:
            damaged.add(number)
            continue
        while at < end:
            (word,) = struct.unpack_from("<I", data, at)
            kind, delta = word & 31, word >> 5
            if kind == 29 and delta == 0:
                break
            second = struct.unpack_from("<I", data, at + 4)[0] if at + 8 <= end else None
            place, size, after = at + 4, kind * 4, at + 4 + kind * 4
            if kind in (0, 29):
                if second is None or second < 4:
                    damaged.add(number)
                    break
                after = at + 4 + (second + 3) // 4 * 4
                place, size = at + 8, after - at - 8
            elif kind in (30, 31):
                if second is None:
                    damaged.add(number)
                    break
                delta += second << 27
                after = at + 8
            now = (delta | (first >> 59 << 59)) if kind == 31 else now + delta
            if after > end or not 0 <= now <= 1 << 62:
                damaged.add(number)
                break
            if kind < 29:
                events.append((number, number * PAGE + place, size, now))
            at = after
    return events, damaged


def write_raw(
    folder: Path,
    cpus: Sequence[bytes],
    *,
    overruns: Sequence[int] = (),
    whole: bool = True,
    **changes: object,
) -> Path:
    """Write a folder as a killed recorder leaves it."""
    folder.mkdir(parents=True)
    for number, content in enumerate(cpus):
        (folder / f"cpu{number}").write_bytes(content)
    about = {
        "header_page": HEADER_PAGE,
        "formats": {"sched:sched_switch": SWITCH, "irq:irq_handler_entry": IRQ},
        "overruns": dict(enumerate(overruns)),
        "hostname": "machine",
        "release": "6.1",
        "boot": "0" * 32,
        "offset_ns": 1_000_000,
        "whole": whole,
        "threads": None,
    }
    (folder / "about.json").write_text(json.dumps(about | changes))
    return folder


def trace_dat(cpus: Sequence[bytes], clock: str = "mono") -> bytes:
    """Return a trace-cmd file, version 6."""

    def sized(text: str, size: int = 8) -> bytes:
        return len(text).to_bytes(size, "little") + text.encode()

    head = b"\x17\x08\x44tracing6\0" + bytes([0, 8]) + struct.pack("<I", PAGE)
    head += b"header_page\0" + sized(HEADER_PAGE) + b"header_event\0" + sized("")
    head += struct.pack("<I", 0)
    head += struct.pack("<I", 2)
    head += b"sched\0" + struct.pack("<I", 1) + sized(SWITCH)
    head += b"irq\0" + struct.pack("<I", 1) + sized(IRQ)
    head += sized("", 4) + sized("", 4) + sized("")
    head += struct.pack("<I", len(cpus)) + b"options  \0"
    stats = b"CPU: 0\nentries: 0\noverrun: 0\n\0"
    head += struct.pack("<HI", 2, len(stats)) + stats + struct.pack("<H", 0)
    head += b"flyrecord\0"
    tail = sized(f"local [{clock}] global")
    start = -(-(len(head) + 16 * len(cpus) + len(tail)) // PAGE) * PAGE
    places = b""
    for content in cpus:
        places += struct.pack("<QQ", start, len(content))
        start += len(content)
    return (head + places + tail).ljust(start - sum(map(len, cpus)), b"\0") + b"".join(cpus)
