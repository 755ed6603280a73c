"""Build the whole model: raw events to every table.

The small tables are made here: declared links between what a node receives and what it publishes,
and the middleware of each process, from the libraries that it had loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from roslens.collectors.clocks import Clocks, clocks_of_fit
from roslens.collectors.ros2.actions import find_action_goals, find_actions
from roslens.collectors.ros2.blocked import with_blocked
from roslens.collectors.ros2.callbacks import callback_objects, is_callback
from roslens.collectors.ros2.events import Events, Raw, vtid
from roslens.collectors.ros2.health import Facts, find_health, reader_warning
from roslens.collectors.ros2.host_clocks import find_crossings
from roslens.collectors.ros2.joins import as_of
from roslens.collectors.ros2.lifecycle import find_lifecycle_states, find_state_machines
from roslens.collectors.ros2.losses import is_kernel_loss
from roslens.collectors.ros2.objects import Objects, find_objects
from roslens.collectors.ros2.one_pass import Pass, Rows, batches_of
from roslens.collectors.ros2.processes import identified
from roslens.collectors.ros2.scheduling import (
    EXECUTIONS,
    Scheduling,
    find_scheduling,
    with_cpu,
)
from roslens.collectors.ros2.timers import timer_activations
from roslens.collectors.ros2.types import I32, I64, NAME, NOTHING, TEXT, empty_table
from roslens.collectors.schema.tables import LOSSES, TABLES

Give = Callable[[str, pl.DataFrame | Rows], object]
_OF_THE_PASS = (
    "messages", "publications", "takes", "callback_instances", "one_sided_messages",
    "service_calls", "heap", "callback_heap", "callback_allocations",
)  # fmt: skip
"""The tables of the pass, largest first: it takes longest to reach the disk."""
_STARTS = (
    "callback_instance_id", "host", "vpid", "vtid", "timer_id", "node", "period_ns", "start_ns",
    "apart",
)  # fmt: skip


def build_tables(
    raw: Raw, losses: pl.DataFrame | None = None, warnings: Sequence[str] = (), **more: Any
) -> dict[str, pl.DataFrame]:
    """Make every model table; parameters as in `make_tables`.

    Returns
    -------
    dict
        Frame by table name, for all of `TABLES`, with the columns defined there. Missing events
        give empty tables and rows in ``health``, never an error.
    """
    tables: dict[str, pl.DataFrame] = {}

    def give(name: str, table: pl.DataFrame | Rows) -> None:
        frame = table.frame() if isinstance(table, Rows) else table
        tables[name] = TABLES[name].conform(frame)

    make_tables(raw, give, losses, warnings, **more)
    return {name: tables[name] for name in TABLES}


def make_tables(
    raw: Raw,
    give: Give,
    losses: pl.DataFrame | None = None,
    warnings: Sequence[str] = (),
    *,
    hosts: Sequence[str] = (),
    rmw: str | None = None,
    synchronisation: str | None = None,
    clocks: Clocks | None = None,
    files: Mapping[str, Path] | None = None,
    **bounds: Any,
) -> None:
    """Make every model table, without keeping any in memory.

    Parameters
    ----------
    raw
        Frame by event name (``ros2:rmw_take``), with `RAW_EVENT_COLUMNS`, then the payload.
        An absent name was not recorded; an empty frame means that the event did not occur.
        Lazy frames are read as far as the model needs them.
    give
        Called with the name of each table and the table, as soon as it is made. Text columns
        may be categorical.
    losses
        Events that the tracer dropped, columns of the table ``losses``; None for nothing.
    warnings
        Warnings of the reader, for ``health``.
    hosts
        Labels of all hosts, where they are known.
    rmw
        The middleware of all processes that do not show their own, where it is known.
    synchronisation
        How the hosts' clocks were synchronised, where it is known.
    clocks
        How the hosts' clocks were brought together; None if they are as recorded.
    files
        Files of the events by name, where they exist: they are read piece by piece.
    bounds
        Number of threads and limits of memory, as in `Pass`.
    """
    losses = LOSSES.empty() if losses is None else LOSSES.conform(losses)
    events = Events(raw, hosts)
    objects = find_objects(events)
    callbacks = callback_objects(events, objects)
    clocks = _as_they_are(events) if clocks is None else clocks
    of_pass = Pass(events, objects, callbacks, losses, synchronisation, clocks=clocks, **bounds)
    for batches in batches_of(events, files):
        of_pass.feed(batches)
    rows, counted = of_pass.tables()
    for name in _OF_THE_PASS:
        give(name, rows[name])
    timers = timer_activations(rows["activations"].frame(*_STARTS))
    give("timer_activations", TABLES["timer_activations"].conform(timers, names=True))
    # Counts are complete only now: messages are decided while their table is made.
    counts = counted()
    shared = counts["shared"] > 0
    give("executor_intervals", _intervals(rows, events, losses, shared=shared))
    publications = rows["told"].frame("topic", "node", "publish_ns")
    goals = empty_table("action_goals")
    if objects.has_actions:
        calls = rows["service_calls"].frame(*TABLES["service_calls"].schema, "proc")
        calls = calls.with_columns(pl.col("proc").cast(I32))
        gaps = _gaps(losses, rows["broken_orders"])
        goals = find_action_goals(events, objects, calls, publications, gaps)
    machines = find_state_machines(events, objects)
    states, lifecycle_gaps = find_lifecycle_states(events, machines)
    scheduling = _scheduling(events, rows["callback_instances"], losses)
    frames = {
        **objects.tables,
        "state_machines": machines,
        "actions": find_actions(objects),
        "callbacks": callbacks,
        "action_goals": goals,
        "lifecycle_states": states,
        "message_links": find_message_links(events, objects),
        "callback_scheduling": scheduling.rows,
    }
    for name, frame in frames.items():
        give(name, TABLES[name].conform(_placed(frame, events.places), names=True))
    give("hosts", TABLES["hosts"].conform(_host_rows(events, hosts)))
    give("processes", TABLES["processes"].conform(_process_rows(events, rmw)))
    give("losses", losses)
    facts = Facts(
        events=events,
        objects=objects,
        counts=counts,
        broken=rows["broken_orders"].frame("begin_ns", "end_ns"),
        endpoints_gone=pl.DataFrame(
            counts["gone"], {"subscription_id": I64, "count": I64}, orient="row"
        ),
        untaken=counts["untaken"],
        hosts_alone=counts["alone_on"],
        connections=rows["connections"].frame("subscription_id", "never_taken", "len"),
        clocks=clocks.findings,
        offsets=rows["clock_offsets"].frame("host", "block", "offset", "len").cast({NAME: TEXT}),
        action_publications=publications,
        losses=losses,
        action_goals=goals,
        lifecycle_states=states,
        lifecycle_gaps=lifecycle_gaps,
        message_links=frames["message_links"],
        scheduling=scheduling,
    )
    give("health", find_health(facts, [reader_warning(text) for text in warnings]))


def _as_they_are(events: Events) -> Clocks:
    """Bound the errors between times on different hosts, with clocks as recorded."""
    hosts = sorted(events.processes["host"].unique())
    if len(hosts) < 2:
        return Clocks()
    # Imported here because few recordings have several hosts, and scipy loads slowly.
    from roslens.collectors.ros2.clock_fit import fit_clocks  # noqa: PLC0415

    return clocks_of_fit(fit_clocks(find_crossings(events), hosts), hosts, aligned=False)


def _intervals(
    rows: Mapping[str, Rows], events: Events, losses: pl.DataFrame, *, shared: bool
) -> pl.DataFrame | Rows:
    """Return the intervals of executor threads; only threads with a common callback can block."""
    intervals = rows["executor_intervals"]
    scheduled = events.has("sched_switch")
    if not (shared or scheduled):
        return intervals
    table, key = TABLES[intervals.name], ("proc", "thread")
    columns = [
        column for column in table.schema if column not in ("host", "vpid", "vtid", "cpu_ns")
    ]
    frame = whole = intervals.frame(*columns, *key)
    if shared:
        ran = rows["callback_instances"].frame(*key, "callback_id", "kind", "start_ns", "end_ns")
        ran = ran.filter(is_callback())
        lossless = losses.filter(~is_kernel_loss()).is_empty()
        frame = with_blocked(frame, ran, lossless=lossless)
    if scheduled:
        frame = with_cpu(events, frame, losses, whole)
    return table.conform(_placed(frame, events.places), names=True)


def _gaps(losses: pl.DataFrame, broken_orders: Rows) -> pl.DataFrame:
    """Return host, begin_ns and end_ns of the tracer's losses, and of gaps that were detected."""
    names = ("host", "begin_ns", "end_ns")
    seen = broken_orders.frame(*names).cast({NAME: TEXT})
    return pl.concat([losses.filter(~is_kernel_loss()).select(names), seen])


def _scheduling(events: Events, executions: Rows, losses: pl.DataFrame) -> Scheduling:
    if not events.has("sched_switch"):
        return Scheduling(rows=empty_table("callback_scheduling"))
    ran = executions.frame(*EXECUTIONS).with_columns(pl.col("proc").cast(I32))
    return find_scheduling(events, ran, losses)


def _placed(frame: pl.DataFrame, processes: pl.DataFrame) -> pl.DataFrame:
    """Add host, vpid and, where there is a thread, vtid."""
    if frame.is_empty():
        return frame
    # Row n of `processes` has the process number n.
    places = [pl.lit(processes[name]).gather("proc").alias(name) for name in ("host", "vpid")]
    threads = [vtid().alias("vtid")] if "thread" in frame.columns else []
    return frame.with_columns(*places, *threads)


def _host_rows(events: Events, hosts: Sequence[str]) -> pl.DataFrame:
    rows = events.processes.group_by("host").agg(
        (pl.col("vpid") != NOTHING).sum().alias("processes"),
        pl.col("begin_ns").min(),
        pl.col("end_ns").max(),
        pl.col("events").sum(),
    )
    labels = pl.concat([pl.Series(hosts, dtype=TEXT), rows["host"]]).unique().sort()
    counts = pl.col("processes", "events").fill_null(0)
    return (
        labels.to_frame("host").join(rows, on="host", how="left").with_columns(counts).sort("host")
    )


def _process_rows(events: Events, rmw: str | None) -> pl.DataFrame:
    """Return the processes with the columns of their table."""
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


KINDS = ("periodic_async", "partial_sync")


def find_message_links(events: Events, objects: Objects) -> pl.DataFrame:
    """Return one row per declared pair of a link; columns of the table, and proc."""
    if not any(events.has(f"message_link_{kind}") for kind in KINDS):
        return empty_table("message_links")
    declared = pl.concat(
        events[f"message_link_{kind}"].with_columns(pl.lit(kind).alias("kind")) for kind in KINDS
    )
    links = (
        declared.sort("time_ns", maintain_order=True)
        .with_row_index("link_id")
        .select(
            pl.col("link_id").cast(I64),
            "proc",
            "kind",
            "time_ns",
            pl.col("subs").alias("subscription_handle"),
            pl.col("pubs").alias("publisher_handle"),
        )
        .explode("subscription_handle")
        .explode("publisher_handle")
    )
    for end, ends in (("subscription", objects.subscriptions), ("publisher", objects.publishers)):
        named = ends.rename({"node": f"{end}_node", "topic": f"{end}_topic"})
        links = as_of(
            links,
            named,
            f"{end}_handle",
            [f"{end}_id", f"{end}_node", f"{end}_topic"],
        )
    return links.with_columns(
        pl.coalesce("subscription_node", "publisher_node").alias("node"),
        pl.col("time_ns").alias("declared_ns"),
    )


_LIBRARIES = ("lttng_ust_statedump:bin_info", "lttng_ust_dl:dlopen", "lttng_ust_lib:load")
_NAME = r"lib(rmw_\w+?(?:_cpp|_dynamic_cpp|dds))\.so"
_GENERAL = ("rmw_implementation", "rmw_dds_common")


def loaded_middleware(events: Events) -> pl.DataFrame:
    """Return the last middleware that each process loaded: ``proc``, ``rmw``."""
    parts = [pl.DataFrame(schema={"proc": I32, "rmw": TEXT}).lazy()]
    for name in _LIBRARIES:
        frame = events.scan(name)
        if frame is None or not events.has_column(name, "path"):
            continue
        columns = frame.collect_schema().names()
        library = pl.col("path").cast(TEXT).str.extract(_NAME, 1).alias("rmw")
        parts.append(
            events.found.numbered(
                frame.select("time_ns", *identified(columns, events.found.host), library)
            )
            .filter(pl.col("rmw").is_not_null() & ~pl.col("rmw").is_in(_GENERAL))
            .sort("time_ns")
            .select("proc", "rmw")
        )
    libraries = pl.concat(pl.collect_all(parts))
    return libraries.unique("proc", keep="last", maintain_order=True)
