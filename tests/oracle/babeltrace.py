"""Read events with babeltrace2, the tests' independent reader, into the same columns as ours.

python3-bt2 serves only the system's interpreter, so that one runs `tests.oracle.babeltrace_rows`
and hands the rows over as JSON lines (integers exact). It is slow, about 20,000 events/s.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from tests.oracle.event_columns import EventTable, Kind, plain

from roslens.recording import UsageError
from roslens.recording.layout import find_traces

_SCRIPT = Path(__file__).with_name("babeltrace_rows.py")
_INTERPRETERS = ("/usr/bin/python3", sys.executable)


def read(root: Path, names: Iterable[str] | None = None) -> dict[str, pl.DataFrame]:
    """Return every event below `root`, as one frame per event name.

    Parameters
    ----------
    root
        Folder with CTF traces at or below it.
    names
        Event names wanted (all others are left out); None for all that are declared.

    Returns
    -------
    dict
        Event name to frame, sorted by time; columns as in `tests.oracle.event_columns`. A
        declared event that never occurred has an empty frame.

    Raises
    ------
    UsageError
        No trace below `root`, python3-bt2 is not installed, or babeltrace2 cannot read a trace.
    """
    wanted = None if names is None else set(names)
    traces = _traces(root)
    labels = [str(trace.relative_to(root)) for trace in traces]
    classes: dict[int, _Class] = {}
    hostnames: list[str | None] = [None] * len(traces)
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for line in _run("rows", root, traces):
        match line:
            case ["trace", index, hostname]:
                hostnames[index] = hostname
            case ["class", number, name, contexts, payload]:
                classes[number] = _Class(name, contexts, payload)
                if wanted is None or name in wanted:
                    rows.setdefault(name, [])
            case ["event", number, index, stream, time_ns, cpu, contexts, payload]:
                name = classes[number].name
                if wanted is None or name in wanted:
                    values = (*contexts, *payload)
                    rows[name].append((time_ns, index, *stream, number, cpu, values))
    hosts = _labels_of(hostnames)
    return {
        name: _frame([c for c in classes.items() if c[1].name == name], rows[name], hosts, labels)
        for name in sorted(rows)
    }


def count_events(root: Path) -> dict[str, int]:
    """Return the number of events by name, for those that occurred.

    Raises
    ------
    UsageError
        See `read`.
    """
    for line in _run("counts", root, _traces(root)):
        if line[0] == "counts":
            return dict(sorted(line[1].items()))
    raise UsageError(f"{root}: babeltrace2 ended without a result")


class _Class:
    """An event class: its name, and the fields of its contexts and payload."""

    def __init__(self, name: str, contexts: Sequence[Any], payload: Sequence[Any]) -> None:
        self.name = name
        self.contexts: list[tuple[str, Kind]] = [(n, k) for n, k in contexts]
        self.payload: list[tuple[str, Kind]] = [(n, k) for n, k in payload]


def _frame(
    classes: list[tuple[int, _Class]],
    rows: list[tuple[Any, ...]],
    hosts: list[str],
    labels: list[str],
) -> pl.DataFrame:
    table = EventTable()
    columns = {number: table.add_contexts(c.contexts) for number, c in classes}
    for number, c in classes:
        columns[number] += table.add_payload(c.payload)
    kinds = {number: [k for _, k in c.contexts + c.payload] for number, c in classes}
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


def _labels_of(hostnames: Sequence[str | None]) -> list[str]:
    order = list(dict.fromkeys(hostnames))
    return [f"h{order.index(name)}" for name in hostnames]


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
