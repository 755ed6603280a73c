"""Read events with babeltrace2, the tests' independent reader, into the same columns as ours.

python3-bt2 serves only the system's interpreter, so that one runs `tests.oracle.babeltrace_rows`
and hands the rows over as JSON lines (integers exact). It is slow, about 20,000 events/s.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from tests.oracle.event_columns import EventTable, Members, plain

from roslens.recording import UsageError
from roslens.recording.layout import find_traces

_SCRIPT = Path(__file__).with_name("babeltrace_rows.py")
_INTERPRETERS = ("/usr/bin/python3", sys.executable)


def read(root: Path) -> dict[str, pl.DataFrame]:
    """Return a frame for each declared event below `root`, sorted by time.

    Columns are as in `tests.oracle.event_columns`; the frame of an event that never occurred is
    empty.
    """
    traces = _traces(root)
    labels = [str(trace.relative_to(root)) for trace in traces]
    names: dict[int, str] = {}
    classes: dict[str, dict[int, tuple[Members, Members]]] = {}
    rows: dict[str, list[tuple[Any, ...]]] = {}
    hostnames: list[str | None] = [None] * len(traces)
    for line in _run("rows", root, traces):
        match line:
            case ["trace", index, hostname]:
                hostnames[index] = hostname
            case ["class", number, name, contexts, payload]:
                names[number] = name
                classes.setdefault(name, {})[number] = contexts, payload
                rows.setdefault(name, [])
            case ["event", number, index, stream, time_ns, cpu, contexts, payload]:
                values = (*contexts, *payload)
                rows[names[number]].append((time_ns, index, *stream, number, cpu, values))
    order = list(dict.fromkeys(hostnames))
    hosts = [f"h{order.index(name)}" for name in hostnames]
    return {name: _frame(classes[name], rows[name], hosts, labels) for name in sorted(rows)}


def count_events(root: Path) -> dict[str, int]:
    """Return the number of events by name, for those that occurred."""
    ((_, counts),) = _run("counts", root, _traces(root))
    return dict(sorted(counts.items()))


def _frame(
    classes: dict[int, tuple[Members, Members]],
    rows: list[tuple[Any, ...]],
    hosts: list[str],
    labels: list[str],
) -> pl.DataFrame:
    table = EventTable()
    columns = {number: table.add_contexts(contexts) for number, (contexts, _) in classes.items()}
    for number, (_, payload) in classes.items():
        columns[number] += table.add_payload(payload)
    kinds = {number: [kind for part in parts for _, kind in part]
             for number, parts in classes.items()}  # fmt: skip
    schema = table.schema
    data: dict[str, list[Any]] = {name: [None] * len(rows) for name in schema}
    # The sort is stable, so equal times keep the order (trace, stream, position).
    rows.sort(key=lambda row: row[:4])
    for at, (time_ns, index, _, _, number, cpu, values) in enumerate(rows):
        data["time_ns"][at] = time_ns
        data["host"][at] = hosts[index]
        data["trace"][at] = labels[index]
        data["cpu_id"][at] = cpu
        for column, kind, value in zip(columns[number], kinds[number], values, strict=True):
            if column is not None:
                data[column][at] = plain(kind, value)
    return pl.DataFrame(data, schema=schema, strict=True)


def _traces(root: Path) -> list[Path]:
    traces = find_traces(root)
    if not traces:
        raise UsageError(f"{root}: no CTF trace here (no file named 'metadata' at or below it)")
    return traces


@cache
def _interpreter() -> str:
    """Return an interpreter that can import bt2."""
    for python in _INTERPRETERS:
        try:
            # Run elsewhere: a bt2.py of the working directory would be another module.
            run = subprocess.run(
                [python, "-c", "import bt2"], capture_output=True, check=False, cwd="/"
            )
        except OSError:
            continue
        if run.returncode == 0:
            return python
    raise UsageError(
        "babeltrace2 needs the system package python3-bt2 "
        "(Debian, Ubuntu: apt-get install python3-bt2; Fedora: dnf install python3-babeltrace2)"
    )


def _run(request: str, root: Path, traces: Sequence[Path]) -> Iterator[Any]:
    command = [_interpreter(), str(_SCRIPT), request, *map(str, traces)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for text in process.stdout:
                yield _checked(json.loads(text), root)
        except BaseException:
            process.kill()
            raise
        problem = process.stderr.read().strip().splitlines()
        if process.wait() != 0:
            what_it_said = problem[-1] if problem else f"exit status {process.returncode}"
            raise UsageError(f"{root}: babeltrace2 failed: {what_it_said}")


def _checked(line: Any, root: Path) -> Any:
    if line[0] == "error":
        raise UsageError(f"{root}: babeltrace2 cannot read it: {line[1]}")
    return line
