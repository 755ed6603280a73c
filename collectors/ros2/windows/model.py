"""The whole model of a recording that is larger than memory, exactly as in one piece.

Events are read in stretches of time. What a stretch leaves open (a callback without its end, the
last calls of a thread, a message in a ring buffer) is handed to the next one; rows are put into
the stretch that they belong to as soon as they are whole, and numbered once all of them are there.
What belongs together by a key (timestamps, requests) is joined among rows of nearby keys, however
far apart they happened. Memory is bounded by what one stretch holds and by what is open at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from roslens.collectors import _native
from roslens.collectors.ros2.callbacks import callback_objects
from roslens.collectors.ros2.events import Events, Raw
from roslens.collectors.ros2.executors import threads_without_events
from roslens.collectors.ros2.health import Facts, find_health, reader_warning
from roslens.collectors.ros2.lifecycle import find_lifecycle_states
from roslens.collectors.ros2.links import find_message_links
from roslens.collectors.ros2.model import derived_objects, hosts_and_processes, table_of
from roslens.collectors.ros2.objects import find_objects
from roslens.collectors.ros2.processes import KEY
from roslens.collectors.ros2.windows.activations import find_activations
from roslens.collectors.ros2.windows.blocks import find_blocks
from roslens.collectors.ros2.windows.calls import find_calls
from roslens.collectors.ros2.windows.delivered import find_delivered
from roslens.collectors.ros2.windows.executions import find_executions
from roslens.collectors.ros2.windows.intervals import find_intervals
from roslens.collectors.ros2.windows.kernel import find_kernel
from roslens.collectors.ros2.windows.matched import find_matches
from roslens.collectors.ros2.windows.part import Windows
from roslens.collectors.ros2.windows.received import find_all_enqueues, find_all_takes
from roslens.collectors.ros2.windows.run import Run, frame_of
from roslens.collectors.ros2.windows.served import find_served
from roslens.collectors.schema.tables import LOSSES, TABLES
from roslens.collectors.work import State, Work
from roslens.tracing.recording.files import text_path


def write_tables(
    raw: Raw,
    folder: Path,
    work: Work,
    windows: Windows,
    *,
    losses: pl.DataFrame | None = None,
    warnings: Sequence[str] = (),
    hosts: Sequence[str] = (),
    rmw: str | None = None,
    synchronisation: str | None = None,
) -> dict[str, int]:
    """Write every model table as ``<folder>/<table>.parquet``; returns their numbers of rows.

    Parameters
    ----------
    raw, losses, warnings, hosts, rmw, synchronisation
        As of `roslens.collectors.ros2.model.build_tables`, and so are the tables.
    folder
        Is there.
    work
        Where to keep what is not finished; one that was interrupted goes on.
    windows
        Stretches of time, few enough events in each to be held in memory.
    """
    losses = LOSSES.empty() if losses is None else LOSSES.conform(losses)
    events = Events(raw, hosts, windows.spans, partial(_each, work))
    objects = find_objects(events)
    run = Run(events, objects, callback_objects(events, objects), windows, work)
    executions, timers = find_executions(run)
    of = find_calls(run)
    takes, unknown = find_all_takes(run)
    linked, cleared = find_all_enqueues(run, of, takes)
    matches = find_matches(run, of, takes)
    messages = find_delivered(
        run, of, matches, linked, losses=losses, synchronisation=synchronisation
    )
    goals, calls_unknown = find_served(run, of.told)
    threads = find_intervals(run)
    find_activations(run, timers)
    states, gaps = find_lifecycle_states(events, objects)
    links = find_message_links(events, objects)
    scheduling, heap = find_kernel(run, losses), find_blocks(run)
    facts = Facts(
        events=events,
        objects=objects,
        callbacks=executions,
        messages=replace(messages, unknown_subscriptions=unknown, cleared=cleared),
        told=of.told,
        offsets=of.offsets,
        silent_threads=threads_without_events(events, executions.threads, threads),
        losses=losses,
        calls_unknown=calls_unknown,
        action_goals=goals,
        lifecycle_states=states,
        lifecycle_gaps=gaps,
        message_links=links,
        scheduling=scheduling,
        heap=heap,
    )
    small = {
        **objects.tables,
        **derived_objects(events, objects),
        "callbacks": run.callbacks,
        "action_goals": goals,
        "lifecycle_states": states,
        "message_links": links,
    }
    tables = {name: table_of(name, frame, events) for name, frame in small.items()}
    tables |= hosts_and_processes(events, hosts, rmw)
    tables["losses"] = losses
    tables["health"] = find_health(facts, [reader_warning(text) for text in warnings])
    return _written(tables, folder, work)


def _each(work: Work, count: int, find: Callable[[int], pl.DataFrame]) -> pl.DataFrame:
    """Find processes, in steps that are not repeated."""

    def look(number: int, state: State) -> State:
        new = find(number)
        both = pl.concat([frame_of(state, "found"), new]) if "found" in state else new
        # Of each process and event one row, in the order in which they came.
        found = both.group_by(*KEY, "first", maintain_order=True).agg(
            pl.col("begin_ns").min(), pl.col("end_ns").max(), pl.col("events").sum()
        )
        return {"found": found.select(new.columns)}

    return frame_of(work.stage("processes", count, look), "found")


def _written(tables: dict[str, pl.DataFrame], folder: Path, work: Work) -> dict[str, int]:
    """Write the small tables, and put together the parts of the others."""
    rows = {}
    for number, name in enumerate(TABLES):
        work.say("tables", number, len(TABLES))
        path = folder / f"{name}.parquet"
        if name in tables:
            table = TABLES[name].conform(tables[name])
            table.write_parquet(path, compression="zstd", compression_level=1)
        else:
            _native.concat(sorted((work.folder / "tables" / name).glob("*.parquet")), path)
        rows[name] = pl.scan_parquet(text_path(path), glob=False).select(pl.len()).collect().item()
    return rows
