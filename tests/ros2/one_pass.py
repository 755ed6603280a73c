"""The pass over all events in the order of time, in native code (crate ``collectors/model``).

roslens does not use it yet: the extension with it is compiled here, beside the one in use.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest

from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.objects import Objects
from roslens.collectors.ros2.outcomes import of_kernel
from roslens.collectors.ros2.publications import only_publishers
from roslens.collectors.ros2.services import halves
from roslens.collectors.ros2.types import NAME, TEXT

_CONTEXT = ("time_ns", "host", "vpid", "vtid", "ctx_pid_ns")
ROOT = Path(__file__).parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


@cache
def native() -> Any:
    """The extension with the feature one-pass; it is in no one else's way."""
    if shutil.which("cargo") is None:
        pytest.skip("no cargo to compile the pass with")
    build = ["cargo", "build", "--locked", "--release", "--package", "roslens-native"]
    done = subprocess.run(
        [*build, "--features", "one-pass", "--target-dir", TARGET],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    # Its initialiser is PyInit__native. What is loaded stays when the file has gone.
    with TemporaryDirectory() as folder:
        path = shutil.copy(TARGET / "release" / "lib_native.so", Path(folder) / "_native.so")
        loader = ExtensionFileLoader("_native", str(path))
        spec = spec_from_file_location("_native", path, loader=loader)
        assert spec is not None
        module = module_from_spec(spec)
        loader.exec_module(module)
    return module


class Model:
    """The tables of events that come stretch by stretch; `callbacks` as of `callback_objects`.

    With ``path``, only about ``rows`` rows of each kind stay in memory, and the others lie there;
    ``keys`` messages at least wait for who takes them.
    """

    def __init__(
        self,
        events: Events,
        objects: Objects,
        callbacks: pl.DataFrame,
        losses: pl.DataFrame,
        **memory: Any,
    ) -> None:
        given = {
            **objects.tables,
            "clients": objects.clients.with_columns(halves("gid")),
            "publisher_by_rmw": objects.publisher_by_rmw,
            "subscription_by_rmw": objects.subscription_by_rmw,
            "callbacks": callbacks,
        }
        self._pass = native().Pass(
            {name: _plain(frame) for name, frame in given.items()},
            _about(events, objects, losses, list(native().model_events())),
            **memory,
        )

    def feed(self, batches: Mapping[str, pl.DataFrame]) -> None:
        """Go through events, by name without the provider, none before those of before."""
        self._pass.feed(dict(batches))

    def tables(self, *, last: bool = False) -> tuple[dict[str, pl.DataFrame], dict[str, Any]]:
        """Tables of all events so far by name, and what was counted; once only if `last`."""
        tables, told = self._pass.tables(last)
        return {name: pl.DataFrame(table) for name, table in tables.items()}, told


def batches_of(events: Events) -> dict[str, pl.DataFrame]:
    """All events of the pass."""
    wanted = native().model_events()
    return {
        name: _source(events, name, columns)
        for name, columns in wanted.items()
        if events.declared(name)
    }


def stretches(batches: Mapping[str, pl.DataFrame], count: int) -> list[dict[str, pl.DataFrame]]:
    """The same in so many stretches of time."""
    times = pl.concat([frame["time_ns"] for frame in batches.values()]).sort()
    if times.is_empty():
        return [dict(batches)]
    edges = [times[len(times) * place // count] for place in range(count)] + [2**63 - 1]
    time = pl.col("time_ns")
    return [
        {name: f.filter((time >= begin) & (time < end)) for name, f in batches.items()}
        for begin, end in itertools.pairwise(edges)
    ]


def _source(events: Events, name: str, columns: list[str]) -> pl.DataFrame:
    if events.overlapping:
        return events[name]
    frame = events.scan(name)
    assert frame is not None
    there = [c for c in (*_CONTEXT, *columns) if events.has_column(name, c)]
    return frame.select(list(dict.fromkeys(there))).collect()


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    return frame.drop(lists).with_columns(pl.col(NAME).cast(TEXT)).rechunk()


def _about(
    events: Events, objects: Objects, losses: pl.DataFrame, names: list[str]
) -> dict[str, Any]:
    processes = events.processes
    hosts = processes["host"].unique().sort().to_list()
    number = {host: place for place, host in enumerate(hosts)}
    since = [
        sorted(
            b.time_ns
            for b in events.found.boundaries
            if (b.host, b.pid_ns, b.vpid) == (host, namespace, vpid)
        )
        for host, namespace, vpid in processes.select("host", "pid_ns", "vpid").iter_rows()
    ]
    columns = ("host", "pid_ns", "vpid", "part", "end_ns")
    rows = zip(processes.select(columns).iter_rows(), since, strict=True)
    gaps = losses.filter(~of_kernel() & pl.col("host").is_in(hosts))
    return {
        "hosts": hosts,
        "processes": [
            (number[host], namespace, vpid, times[part - 1] if part else -(2**63), end)
            for (host, namespace, vpid, part, end), times in rows
        ],
        "guesses": only_publishers(objects).rows(),
        "losses": [
            (number[host], begin, end)
            for host, begin, end in gaps.select(
                "host", pl.col("begin_ns").fill_null(0), pl.col("end_ns").fill_null(2**63 - 1)
            ).iter_rows()
        ],
        "declared": [name for name in names if events.declared(name)],
        "happened": [name for name in names if events.happened(name)],
    }
