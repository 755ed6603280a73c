"""Emit traces of `ros2_trace` through the real libtracetools, and record them with LTTng.

Every simulated process is a real process, every simulated thread one of its threads. The events are
emitted one after the other in the order of their planned times, so the n-th event of the recording
is the n-th planned one, and times of the tables can be expressed in planned microseconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import polars as pl
from ros2_trace import TYPES, Trace, at

from roslens.collectors.collection import collect, tables
from roslens.collectors.reader import open_trace
from roslens.collectors.schema import TABLES
from roslens.recording import Recording
from roslens.tracing.lttng import TracingOptions, recording_session, session_daemon
from roslens.tracing.ros import RosEnvironment
from roslens.tracing.ros.header import Instrumentation, read_instrumentation

PLAYER = Path(__file__).parent / "programs" / "player.py"
STAMPS = ("timestamp", "source_timestamp")
_RENAMED = {"node_namespace": "namespace", "function_symbol": "symbol"}
"""Parameters whose field has another name."""


class Player:
    """A simulated process that plays events."""

    def __init__(
        self, variables: dict[str, str], library: Path, functions: Instrumentation
    ) -> None:
        self.functions = functions.functions
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(PLAYER)],
            env={
                **os.environ,
                **variables,
                "LD_PRELOAD": str(library),
                "LTTNG_UST_REGISTER_TIMEOUT": "-1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def play(self, name: str, payload: dict[str, Any], *, thread: int | None = None) -> int:
        """Emit one event, and return the thread's id."""
        return self.play_all([(name, payload)], thread=thread)

    def play_all(
        self, events: Sequence[tuple[str, dict[str, Any]]], *, thread: int | None = None
    ) -> int:
        """Emit events without a pause, and return the thread's id."""
        calls = []
        for name, payload in events:
            given = {
                _RENAMED.get(p.name, p.name.removesuffix("_arg")): p.type
                for p in self.functions[name]
            }
            unknown = set(payload) - set(given) - set(TYPES)
            assert not unknown, f"{name} has no {unknown}"
            arguments = [(kind, payload.get(field, 0)) for field, kind in given.items()]
            calls.append((f"ros_trace_{name}", arguments))
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"thread": thread, "calls": calls}) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.communicate()


def tables_of(trace: Trace, ros: RosEnvironment, folder: Path) -> dict[str, pl.DataFrame]:
    """Emit, record and collect; return every table with planned times, processes and threads."""
    assert ros.include is not None
    library, functions = ros.preload()[0], read_instrumentation(ros.include)
    planned = sorted(trace.rows, key=lambda row: row[1]["time_ns"])
    hosts = sorted({row["host"] for _, row in planned})
    with ExitStack() as stack:
        variables = {}
        for host in hosts:
            daemon = stack.enter_context(session_daemon())
            options = TracingOptions(kernel="off")
            session = stack.enter_context(
                recording_session(daemon, options, folder / "run" / "trace" / host)
            )
            variables[host] = session.workload_variables
        with ExitStack() as players:
            started, numbers, stamps = {}, {}, {}
            for name, row in planned:
                key = (row["host"], row["vpid"])
                if key not in started:
                    started[key] = players.enter_context(
                        Player(variables[row["host"]], library, functions)
                    )
                    numbers[key] = started[key].process.pid
                payload = dict(row)
                for field in STAMPS:
                    if field in payload:
                        # Publisher and subscriber get the same stamp: the clock's time when the
                        # middleware stamps.
                        stamp = stamps.setdefault(payload[field], time.time_ns())
                        payload[field] = stamp
                thread = None if row["vtid"] == row["vpid"] else row["vtid"]
                vtid = started[key].play(name, payload, thread=thread)
                numbers[row["host"], "thread", vtid] = row["vtid"]
    for number, host in enumerate(hosts[1:], start=1):
        _rename_host(folder / "run" / "trace" / host, number)
    collect(Recording.at(folder / "run"))
    _check_order(folder / "run" / "trace", planned)
    recorded = _times(folder / "run" / "trace")
    moments = dict(zip(recorded, (row["time_ns"] for _, row in planned), strict=True))
    moments |= {real: plan for plan, real in stamps.items()}
    pids = {(key[0], number): key[1] for key, number in numbers.items() if len(key) == 2}
    tids = {(key[0], key[2]): number for key, number in numbers.items() if len(key) == 3}
    collected = {
        name: frame.collect() for name, frame in tables(Recording.at(folder / "run")).items()
    }
    return {
        name: _as_planned(name, frame, moments, pids, tids) for name, frame in collected.items()
    }


def _rename_host(trace: Path, number: int) -> None:
    """Replace the host name by one of the same length, so that metadata packets keep their size."""
    for file in trace.rglob("metadata"):
        text = file.read_bytes()
        begin = text.index(b'hostname = "') + len(b'hostname = "')
        end = text.index(b'"', begin)
        name = (f"{number}" * (end - begin)).encode()
        file.write_bytes(text[:begin] + name + text[end:])


def _check_order(root: Path, planned: list[tuple[str, dict[str, Any]]]) -> None:
    """Check with babeltrace2 that the recorded events are the planned ones, in order."""
    text = subprocess.check_output(
        ["babeltrace2", "--names=none", "--fields=", str(root)], text=True
    )
    names = [line.split(" ros2:")[1].split(":")[0] for line in text.splitlines()]
    assert names == [name for name, _ in planned]


def _times(root: Path) -> list[int]:
    frames = open_trace(root).read().values()
    return pl.concat([frame.select("time_ns") for frame in frames])["time_ns"].sort().to_list()


def _as_planned(
    name: str,
    frame: pl.DataFrame,
    moments: dict[int, int],
    pids: dict[tuple[str, int], int],
    tids: dict[tuple[str, int], int],
) -> pl.DataFrame:
    """Restore planned times, processes and threads; null the meaningless real durations."""
    columns: list[pl.Expr] = []
    for column in TABLES[name].columns:
        values = frame[column.name]
        if column.name.endswith("_ns") and column.unit == "ns" and column.name != "period_ns":
            columns.append(
                pl.Series(column.name, [moments.get(value) for value in values], dtype=pl.Int64)
            )
        elif column.name.endswith("vpid") or column.name == "vtid":
            side = column.name.removesuffix("vpid") + "host"
            where = frame[side if side in frame.columns else "host"]
            numbers = tids if column.name == "vtid" else pids
            pairs = zip(where, values, strict=True)
            columns.append(pl.Series(column.name, [numbers.get(p) for p in pairs], dtype=pl.Int32))
    return frame.with_columns(columns)


def burst_tables(
    ros: RosEnvironment, folder: Path, messages: int
) -> tuple[dict[str, pl.DataFrame], int]:
    """Record a process that publishes to itself as fast as it can, into buffers too small for it.

    Returns the tables, as collected, and the number of events emitted.
    """
    assert ros.include is not None
    library, functions = ros.preload()[0], read_instrumentation(ros.include)
    trace = Trace()
    trace.node(10, 0x100, "node")
    trace.publisher(20, 0x200, "/data", node=0x100)
    trace.subscription(30, 0x300, "/data", node=0x100, callback=0x390)
    objects = [(name, row) for name, row in sorted(trace.rows, key=lambda r: r[1]["time_ns"])]
    trace.rows.clear()
    for k in range(messages):
        trace.publish(100 * k, 0x200)
        trace.receive(100 * k + 10, 0x300, 0x390, stamp=at(100 * k + 2))
    run = Recording.at(folder / "run")
    options = TracingOptions(kernel="off", subbuf_size=4096, subbuf_count=2)
    with (
        session_daemon() as daemon,
        recording_session(daemon, options, folder / "run" / "trace") as session,
        Player(session.workload_variables, library, functions) as player,
    ):
        for name, row in objects:
            player.play(name, row)
        player.play_all(trace.rows)
    collect(run)
    collected = {name: frame.collect() for name, frame in tables(run).items()}
    return collected, len(objects) + len(trace.rows)
