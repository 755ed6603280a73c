"""The whole model: raw events to every table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl

from roslens.collectors.ros2.actions import find_action_goals, find_actions
from roslens.collectors.ros2.blocked import with_blocked
from roslens.collectors.ros2.callbacks import find_callbacks
from roslens.collectors.ros2.events import Events, Raw, vtid
from roslens.collectors.ros2.executors import find_executor_intervals, threads_without_events
from roslens.collectors.ros2.health import (
    Facts,
    clock_offsets,
    find_health,
    of_callbacks,
    of_messages,
    reader_warning,
    stamped,
)
from roslens.collectors.ros2.heap import find_heap
from roslens.collectors.ros2.joins import pick
from roslens.collectors.ros2.lifecycle import find_lifecycle_states, find_state_machines
from roslens.collectors.ros2.links import find_message_links
from roslens.collectors.ros2.messages import find_messages, match
from roslens.collectors.ros2.middleware import loaded_middleware
from roslens.collectors.ros2.objects import Objects, find_objects
from roslens.collectors.ros2.one_sided import find_one_sided
from roslens.collectors.ros2.publications import find_publications, within_callbacks
from roslens.collectors.ros2.ring_buffers import find_enqueues
from roslens.collectors.ros2.scheduling import find_scheduling
from roslens.collectors.ros2.services import find_service_calls, unknown_ends
from roslens.collectors.ros2.takes import find_takes
from roslens.collectors.ros2.timers import find_timer_activations
from roslens.collectors.ros2.types import NOTHING, TEXT
from roslens.collectors.schema.tables import LOSSES, TABLES


def build_tables(
    raw: Raw,
    losses: pl.DataFrame | None = None,
    warnings: Sequence[str] = (),
    *,
    hosts: Sequence[str] = (),
    rmw: str | None = None,
    synchronisation: str | None = None,
) -> dict[str, pl.DataFrame]:
    """Make every model table.

    Parameters
    ----------
    raw
        Raw events: event name (``ros2:rmw_take``) to frame, `RAW_EVENT_COLUMNS` then the payload.
        A name that is absent was not recorded; an empty frame means that nothing happened.
        Lazy frames are read as far as the model needs them.
    losses
        What the tracer dropped, columns of the table ``losses``; None for nothing.
    warnings
        What the reader had to say, for ``health``.
    hosts
        Labels of all hosts, where they are known.
    rmw
        The middleware of all processes that do not tell their own, where it is known.
    synchronisation
        How the hosts' clocks were synchronised, where it is known.

    Returns
    -------
    dict
        Table name to frame, all of `TABLES`, with the columns defined there. Missing events
        give empty tables and rows in ``health``, never an error.
    """
    tables: dict[str, pl.DataFrame] = {}

    def give(name: str, table: pl.DataFrame) -> None:
        tables[name] = TABLES[name].conform(table)

    make_tables(raw, give, losses, warnings, hosts=hosts, rmw=rmw, synchronisation=synchronisation)
    return {name: tables[name] for name in TABLES}


def make_tables(
    raw: Raw,
    give: Callable[[str, pl.DataFrame], object],
    losses: pl.DataFrame | None = None,
    warnings: Sequence[str] = (),
    *,
    hosts: Sequence[str] = (),
    rmw: str | None = None,
    synchronisation: str | None = None,
) -> None:
    """Make every model table, and hold none of them.

    Parameters
    ----------
    raw, losses, warnings, hosts, rmw, synchronisation
        As of `build_tables`.
    give
        Called with the name of each table and the table, as soon as it is made, from several
        threads. Text may come as categories.
    """
    losses = LOSSES.empty() if losses is None else LOSSES.conform(losses)
    events = Events(raw, hosts)
    objects = find_objects(events)

    # polars leaves much of one core idle: what does not need another's result goes beside it.
    with ThreadPoolExecutor(2) as beside:
        for_publications = beside.submit(find_publications, events, objects)
        callbacks = find_callbacks(events, objects)
        for_takes = beside.submit(find_takes, events, objects, callbacks)
        for_intervals = beside.submit(find_executor_intervals, events, callbacks)
        for_calls = beside.submit(find_service_calls, events, objects, callbacks)
        for_activations = beside.submit(find_timer_activations, objects, callbacks)
        for_links = beside.submit(find_message_links, events, objects)
        for_states = beside.submit(find_lifecycle_states, events, objects)
        for_scheduling = beside.submit(find_scheduling, events, callbacks, losses)
        for_heap = beside.submit(find_heap, events, callbacks)
        instances = instance_rows(callbacks.instances)
        give("callback_instances", table_of("callback_instances", instances, events))
        publications = within_callbacks(for_publications.result(), callbacks)
        give("publications", table_of("publications", publications, events))
        takes = for_takes.result()
        give("takes", table_of("takes", takes, events))

        def without_messages() -> dict[str, Any]:
            """Give what needs no messages; the facts that it tells."""
            service_calls, intervals = for_calls.result(), for_intervals.result()
            intervals = with_blocked(intervals, callbacks.instances)
            states, lifecycle_gaps = for_states.result()
            scheduling, heap = for_scheduling.result(), for_heap.result()
            goals = find_action_goals(objects, service_calls, publications)
            frames = {
                **objects.tables,
                **derived_objects(events, objects),
                "callbacks": callbacks.objects,
                "service_calls": service_calls,
                "action_goals": goals,
                "timer_activations": for_activations.result(),
                "executor_intervals": intervals,
                "lifecycle_states": states,
                "message_links": for_links.result(),
                "callback_scheduling": scheduling.rows,
                "heap": heap.processes,
                "callback_heap": heap.callbacks,
                "callback_allocations": heap.instances,
            }
            for name, frame in frames.items():
                give(name, table_of(name, frame, events))
            for name, table in hosts_and_processes(events, hosts, rmw).items():
                give(name, table)
            give("losses", losses)
            ran = of_callbacks(callbacks)
            return {
                "callbacks": ran,
                "offsets": clock_offsets(stamped(publications, events), events),
                "silent_threads": threads_without_events(events, ran.threads, intervals["thread"]),
                "calls_unknown": unknown_ends(service_calls),
                "action_goals": goals,
                "lifecycle_states": states,
                "lifecycle_gaps": lifecycle_gaps,
                "message_links": frames["message_links"],
                "scheduling": scheduling,
                "heap": heap,
            }

        # After all that it waits for, so that these do not wait for it.
        for_facts = beside.submit(without_messages)
        matched = match(publications, takes)

        def give_one_sided() -> None:
            alone = matched.takes_alone
            rows = find_one_sided(alone, events, objects, publications, synchronisation)
            give("one_sided_messages", table_of("one_sided_messages", rows, events))

        for_one_sided = beside.submit(give_one_sided)
        messages = find_messages(
            matched,
            events,
            objects,
            callbacks,
            takes=takes,
            enqueues=find_enqueues(events, objects, publications, takes),
            losses=losses,
        )
        give("messages", table_of("messages", messages.rows, events))
        for_one_sided.result()
        facts = Facts(
            events=events,
            objects=objects,
            messages=of_messages(publications, takes, messages, events),
            told=publications,
            losses=losses,
            **for_facts.result(),
        )
    give("health", find_health(facts, [reader_warning(text) for text in warnings]))


def table_of(name: str, frame: pl.DataFrame, events: Events) -> pl.DataFrame:
    """A table of what the model found; text may be categories."""
    if not frame.width:
        return TABLES[name].empty()
    whole = _messages if name == "messages" else _placed
    return TABLES[name].conform(whole(frame, events.places), names=True)


def instance_rows(instances: pl.DataFrame) -> pl.DataFrame:
    """Executions with the columns of their table."""
    return instances.with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns"),
        pl.col("intra").alias("intra_process"),
    )


def _placed(frame: pl.DataFrame, processes: pl.DataFrame) -> pl.DataFrame:
    """Add host, vpid and, where there is a thread, vtid."""
    if "thread" in frame.columns:
        frame = frame.with_columns(vtid().alias("vtid"))
    # Processes are numbered in their order.
    return frame.hstack(pick(processes, frame["proc"], "host", "vpid"))


def derived_objects(events: Events, objects: Objects) -> dict[str, pl.DataFrame]:
    """What belongs to nodes and is made up of other objects, or has one event only."""
    return {
        "state_machines": find_state_machines(events, objects),
        "actions": find_actions(objects),
    }


def hosts_and_processes(
    events: Events, hosts: Sequence[str], rmw: str | None
) -> dict[str, pl.DataFrame]:
    """The tables of these names; parameters as of `build_tables`."""
    rows = {"hosts": _host_rows(events, hosts), "processes": process_rows(events, rmw)}
    return {name: TABLES[name].conform(frame) for name, frame in rows.items()}


def _host_rows(events: Events, hosts: Sequence[str]) -> pl.DataFrame:
    found = events.processes.group_by("host").agg(
        (pl.col("vpid") != NOTHING).sum().alias("processes"),
        pl.col("begin_ns").min(),
        pl.col("end_ns").max(),
        pl.col("events").sum(),
    )
    labels = pl.concat([pl.Series(hosts, dtype=TEXT), found["host"]]).unique().sort()
    counts = pl.col("processes", "events").fill_null(0)
    return (
        labels.to_frame("host").join(found, on="host", how="left").with_columns(counts).sort("host")
    )


def process_rows(events: Events, rmw: str | None) -> pl.DataFrame:
    """Processes with the columns of their table."""
    versions = events["rcl_init"].group_by("proc").agg(pl.col("version").last())
    initialised = pl.col("version").is_not_null()
    return (
        events.processes.filter(pl.col("vpid") != NOTHING)
        .join(versions, on="proc", how="left", maintain_order="left")
        .join(loaded_middleware(events), on="proc", how="left", maintain_order="left")
        .with_columns(
            pl.col("rmw").fill_null(pl.when(initialised).then(pl.lit(rmw, dtype=TEXT))),
            pl.col("pid_ns").replace(0, None).alias("pid_namespace"),
        )
        .rename({"proc": "process_id", "version": "tracetools_version"})
    )


def _messages(rows: pl.DataFrame, processes: pl.DataFrame) -> pl.DataFrame:
    for side in ("publisher", "subscription"):
        of = pick(processes, rows[f"{side}_proc"], "host", "vpid")
        rows = rows.with_columns(of[name].alias(f"{side}_{name}") for name in of.columns)
    return rows.with_columns(pl.coalesce("publisher_host", "subscription_host").alias("host"))
