"""Find problems of a recording: dropped events, unmatched messages, missing information."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import polars as pl

from roslens.collectors.ros2.actions import untold_goals
from roslens.collectors.ros2.events import FIELDS, Events
from roslens.collectors.ros2.losses import is_kernel_loss
from roslens.collectors.ros2.objects import Objects
from roslens.collectors.ros2.scheduling import Scheduling
from roslens.collectors.ros2.services import service_events_recorded
from roslens.collectors.ros2.types import I64, TEXT
from roslens.collectors.schema.tables import HEALTH, TABLES
from roslens.collectors.topics import INTERNAL
from roslens.recording.text import some_of

Severity: TypeAlias = Literal["info", "warning", "error"]
Finding: TypeAlias = dict[str, object]

_STEP_NS = 1_000_000
_BENT = (
    "every table may lack rows of that time, messages without a take in it are 'unknown', and "
    "starts may lack ends"
)
_LOST_BY_KERNEL = (
    "events of the kernel are missing: its buffers were full, or it left out switches by itself, "
    "which show as the thread that leaves a CPU is not the one that came (the recording's notes "
    "say how many of these)"
)
_BENT_BY_KERNEL = "callback_scheduling has no rows of that time; no other table is touched"


@dataclass(frozen=True)
class Facts:
    """The facts from which findings are drawn.

    Attributes
    ----------
    counts
        Counts of the pass: number by name.
    broken
        Times in which the order of a thread's events shows missing ones: begin_ns, end_ns.
    endpoints_gone
        Publications without a row for a subscription whose process had ended:
        subscription_id, count.
    untaken
        Subscriptions whose callbacks ran without a recorded take.
    hosts_alone
        Topics of takes without publication.
    connections
        By publisher and subscription: subscription_id, never_taken (whether nothing was ever
        taken), len.
    clocks
        Findings on the hosts' clocks: kind, severity, host, count, what.
    offsets
        The system clock against the clock of events, by time block: host, block, offset, len.
    action_publications
        Publications of status and feedback of actions: topic.
    """

    events: Events
    objects: Objects
    counts: Mapping[str, int]
    broken: pl.DataFrame
    endpoints_gone: pl.DataFrame
    untaken: Sequence[int]
    hosts_alone: Sequence[str]
    connections: pl.DataFrame
    clocks: Sequence[Mapping[str, Any]]
    offsets: pl.DataFrame
    action_publications: pl.DataFrame
    losses: pl.DataFrame
    action_goals: pl.DataFrame
    lifecycle_states: pl.DataFrame
    lifecycle_gaps: int
    message_links: pl.DataFrame
    scheduling: Scheduling


def find_health(model: Facts, extra: Sequence[Finding] = ()) -> pl.DataFrame:
    """Return the table ``health``, most severe findings first."""
    rows = [
        *extra,
        *_losses(model),
        *_undeclared(model),
        *_missing_events(model),
        *_unmatched(model),
        *_objects(model),
        *_processes(model),
        *_scheduling(model.scheduling),
        *_heap(model.counts),
        *_clock(model),
        *_hosts(model),
    ]
    rank = pl.col("severity").replace_strict({"error": 0, "warning": 1, "info": 2})
    frame = pl.DataFrame(rows, schema=HEALTH.schema) if rows else HEALTH.empty()
    return HEALTH.conform(frame).sort(rank, maintain_order=True)


def _counted(
    severity: Severity,
    kind: str,
    count: int,
    description: str,
    where: str,
    *,
    host: str | None = None,
) -> list[Finding]:
    """Return a row of ``health``; no row if the count is zero."""
    row: Finding = {"host": host, "kind": kind, "severity": severity, "count": count}
    return [row | {"what": description, "where": where}] if count else []


info, warning, error = (partial(_counted, severity) for severity in ("info", "warning", "error"))


def reader_warning(text: str) -> Finding:
    """Return a warning of the reader as a row."""
    return warning("reader", 1, text, "trace")[0]


def _losses(model: Facts) -> Iterator[Finding]:
    if model.losses.is_empty():
        return
    grouped = (
        model.losses.group_by("host", "kind", "trace", "stream", maintain_order=True)
        .agg(
            pl.col("count").sum(),
            pl.col("count").is_null().any().alias("open"),
            pl.len(),
            is_kernel_loss().any().alias("kernel"),
            # An unknown edge leaves the whole of that side open.
            *(
                pl.when(pl.col(name).null_count() == 0).then(bound)
                for name, bound in (
                    ("begin_ns", pl.col("begin_ns").min()),
                    ("end_ns", pl.col("end_ns").max()),
                )
            ),
        )
        .iter_rows(named=True)
    )
    texts = {
        "discarded_events": "the tracer discarded events because its buffers were full (enlarge "
        "them or record fewer events)",
        "lost_packets": "whole packets are missing (overwrite mode, a slow consumer, or a stream "
        "file that was cut or not copied)",
        "truncated": "the stream ends in the middle of a packet; everything before was read",
        "missing_head": "packets before the first one of a stream are missing: what a snapshot or "
        "a rotation of files had overwritten before, or a file whose beginning was cut off",
        "missing_tail": "a stream ends before its session was stopped: its file was cut or not "
        "copied to the end, or a process was killed while it wrote an event",
        "missing_stream": "a whole stream is missing: its file was emptied or not copied",
        "not_sampled": "pauses in which nothing was recorded on purpose, so that attaching costs "
        "no more than --cost-limit; rates and shares are of the time that was recorded, and what "
        "lasts longer than was recorded at a time is not seen",
    }
    origin = model.events.processes["begin_ns"].min()
    for row in grouped:
        text = texts[row["kind"]]
        if row["kernel"] and row["kind"] == "discarded_events":
            text = _LOST_BY_KERNEL
        where = f"{row['trace']}/{row['stream']}" if row["stream"] else str(row["trace"] or "trace")
        yield from warning(
            row["kind"],
            max(row["count"], row["len"] if row["open"] else 1),
            f"{text}: {_when(row['begin_ns'], row['end_ns'], origin)}; "
            + (_BENT_BY_KERNEL if row["kernel"] else _BENT),
            where,
            host=row["host"],
        )


def _undeclared(model: Facts) -> Iterator[Finding]:
    if model.broken.is_empty():
        return
    begin, end = model.broken.select(pl.min("begin_ns"), pl.max("end_ns")).row(0)
    when = _when(begin, end, model.events.processes["begin_ns"].min())
    yield from warning(
        "undeclared_gaps",
        model.broken.height,
        "places where a thread's events cannot all have been recorded, though no tracer says "
        f"that it lost any: {when}; what was under way there has no end, messages there are "
        "'approximate', and those never taken 'unknown' (reason order_broken)",
        "trace",
    )


def _when(begin_ns: int | None, end_ns: int | None, origin: object) -> str:
    """Return a stretch of time in words."""
    if not isinstance(origin, int) or (begin_ns is None and end_ns is None):
        return "when is not known"
    begin, end = (
        "an edge" if edge is None else f"{(edge - origin) / 1e9:.3f} s"
        for edge in (begin_ns, end_ns)
    )
    return f"between {begin} and {end} after the first event"


def _missing_events(model: Facts) -> Iterator[Finding]:
    events = model.events
    if not any(events.has(name) for name in FIELDS):
        why = (
            "events of ros2 were declared, but none happened: the nodes ended before the recording "
            "began, did nothing, or what they wrote was not saved"
            if any(events.declared(name) for name in FIELDS)
            else "the session did not enable ros2:*, or the processes ran without a tracetools "
            "that was built with LTTng"
        )
        yield from warning("no_ros_events", 1, f"no ros2 event was recorded: {why}", "trace")
    for table in TABLES.values():
        absent = [name for name in table.needs if not events.declared(name)]
        if not absent:
            continue
        text = f"events not recorded: {', '.join(absent)}; table {table.name} "
        if table.name == "service_calls" and not service_events_recorded(events):
            text += (
                "holds only the servers' callbacks, without clients and requests (these events "
                "exist from Kilted on)"
            )
        elif table.name == "action_goals" and not service_events_recorded(events):
            text += "is empty: goals are told apart by service events, which exist from Kilted on"
        elif table.name == "messages":
            text += "is joined by order where that is possible, and cannot show losses"
        else:
            text += "lacks what they contain, and is empty where nothing else does"
        yield from info("missing_events", len(absent), text, table.name)
    yield from error(
        "missing_context",
        model.counts["without_context"] + events.without_context,
        "events without the contexts vpid and vtid: processes and threads cannot be told "
        "apart; record with 'lttng add-context -u -t vpid -t vtid -t procname'",
        "trace",
    )


def _unmatched(model: Facts) -> Iterator[Finding]:
    unfinished = model.counts["unfinished"]
    finding = info if unfinished <= model.counts["threads"] else warning
    yield from finding(
        "unfinished_callbacks",
        unfinished,
        "callback_start without callback_end: it raised, the process died, the trace ended, "
        "events were lost, or (services up to Jazzy) the response was deferred; their end is null",
        "callback_instances",
    )
    yield from info(
        "callback_end_without_start",
        model.counts["ends_alone"],
        "callback_end without callback_start: the trace began, or events were lost, while "
        "they ran; they have no row",
        "callback_instances",
    )
    yield from _unmatched_goals(model)
    yield from warning(
        "lifecycle_gaps",
        model.lifecycle_gaps,
        "lifecycle transitions that must have been dropped: a node left another state than it "
        "had entered; begin and end between them are null",
        "lifecycle_states",
    )
    declared = model.events.declared("rclcpp_executor_get_next_ready")
    if declared and (count := model.counts["silent_threads"]):
        yield from info(
            "executor_without_events",
            count,
            "threads that ran callbacks without executor events, as events executors do unless a "
            "library of roslens is preloaded: whether they waited or worked in between is not "
            "known",
            "executor_intervals",
        )
    yield from _unmatched_messages(model)


def _unmatched_goals(model: Facts) -> Iterator[Finding]:
    goals = model.action_goals
    together = goals.filter(~pl.col("alone") & pl.col("goal_id").is_null())
    yield from info(
        "overlapping_goals",
        together.height,
        "action goals that a server had at the same time as others: their ids were not traced, "
        "so their feedback, end and cancelling are not known",
        _some_names(together["action"], "action_goals"),
    )
    guessed = goals.filter(pl.col("match") == "approximate")
    yield from warning(
        "approximate_goals",
        guessed.height,
        "action goals whose result was found by order, while others of the client waited too",
        _some_names(guessed["action"], "action_goals"),
    )
    if service_events_recorded(model.events) or not model.objects.has_actions:
        return
    untold = untold_goals(model.objects, model.action_publications)
    untold = untold.filter(~pl.col("action").is_in(goals["action"].cast(TEXT).implode()))
    for row in untold.iter_rows(named=True):
        yield from info(
            "goals_not_recorded",
            1,
            f"an action of which {row['status']} status and {row['feedback']} feedback messages "
            "were published, but whose goals cannot be told apart before Kilted: they have no rows "
            "in action_goals",
            row["action"],
        )


def _unmatched_messages(model: Facts) -> Iterator[Finding]:
    counts = model.counts
    yield from warning(
        "ambiguous_timestamps",
        counts["ambiguous"],
        "publications that share topic and source timestamp with another one; they are joined "
        "in order and labelled ambiguous",
        "messages",
    )
    yield from info(
        "takes_without_publication",
        counts["alone"],
        "messages taken whose publication was not recorded: published before the trace began, "
        "by a process that is not traced, or dropped by the tracer; they are in the table "
        "one_sided_messages, with a latency from their source timestamps",
        _some_names(pl.Series(model.hosts_alone, dtype=TEXT), "messages"),
    )
    yield from warning(
        "approximate_matches",
        counts["approximate"],
        "publication and take or callback joined by time or order, or of a publication whose "
        "first event is missing, as the events that would show it were not recorded",
        "messages",
    )
    if counts["untold"]:
        why = (
            "publications have no timestamp (up to Iron, or their rmw_publish is missing)"
            if model.events.has("rmw_take")
            else "no rmw_take was recorded"
        )
        yield from warning(
            "loss_not_known",
            counts["untold"],
            f"messages of which nobody can say whether they were lost: {why}, and no order of "
            "others proves it; loss has bounds instead of a value where they are many",
            "messages",
        )
    untaken = pl.Series(model.untaken, dtype=I64)
    if untaken.len() and model.events.has("rmw_take"):
        topics = model.objects.subscriptions.filter(
            pl.col("subscription_id").is_in(untaken.implode())
        )["topic"]
        yield from warning(
            "takes_not_recorded",
            untaken.len(),
            "subscriptions whose callbacks ran without a recorded take: the middleware has no "
            "event where it takes loaned messages (up to Kilted) or serialized ones (Humble), or "
            "the tracer dropped them; their messages are joined by order where that is possible, "
            "and never called lost",
            _some_names(topics, "messages"),
        )
    yield from info(
        "ring_buffer_cleared",
        counts["cleared"],
        "intra-process messages dropped because their buffer was cleared; their outcome is "
        "'overwritten'",
        "messages",
    )
    yield from _silent_subscriptions(model)


def _silent_subscriptions(model: Facts) -> Iterator[Finding]:
    names = model.objects.subscriptions.select("subscription_id", "topic", "node")
    never = (
        model.connections.filter(pl.col("never_taken") & pl.col("subscription_id").is_not_null())
        .group_by("subscription_id", maintain_order=True)
        .agg(pl.col("len").sum())
        .join(names, on="subscription_id", maintain_order="left")
    )
    for row in never.iter_rows(named=True):
        finding = info if row["topic"] in INTERNAL else warning
        yield from finding(
            "never_taken",
            row["len"],
            "none of a publisher's messages was ever taken: it may not be matched (QoS, domain), "
            "or its executor did not spin; nothing shows which, and they are 'not_matched'",
            f"{row['topic']} at {row['node']}",
        )
    for row in model.endpoints_gone.join(names, on="subscription_id").iter_rows(named=True):
        yield from info(
            "receiver_gone",
            row["count"],
            "publications more than a second after the last event of a subscription's process, "
            "which is taken to have ended: no rows for it",
            f"{row['topic']} at {row['node']}",
        )


def _objects(model: Facts) -> Iterator[Finding]:
    yield from warning(
        "publisher_not_named",
        model.counts["unnamed"],
        "publications of which only rclcpp_publish was recorded, which does not name the "
        "publisher, in a process with several: no topic is known; record ros2:rcl_publish",
        "publications",
    )
    yield from info(
        "repeated_init_events",
        model.events.repeated,
        "init events recorded more than once (snapshots repeat them); the copies are left out",
        "trace",
    )
    yield from info(
        "events_of_two_sessions",
        model.events.twice,
        "events that two sessions recorded at the same time; the later record of each is left "
        "out of the tables (not of the raw events)",
        "trace",
    )
    links = model.message_links
    unknown = (
        ("publications", model.counts["unknown_publishers"], "publisher"),
        ("takes", model.counts["unknown_subscriptions"], "subscription"),
        ("callback_instances", model.counts["nameless"], "callback"),
        ("service_calls", model.counts["calls_unknown"], "client or service"),
        ("lifecycle_states", model.lifecycle_states["node_id"].null_count(), "node"),
        ("message_links", links["subscription_id"].null_count(), "subscription"),
        ("message_links", links["publisher_id"].null_count(), "publisher"),
    )
    for table, count, role in unknown:
        yield from warning(
            "events_before_init",
            count,
            f"rows whose {role} is not known: its init event was not recorded (tracing began "
            "later, or the tracer dropped it); they are kept without names",
            table,
        )
    yield from warning(
        "callbacks_without_owner",
        model.counts["ownerless"],
        "executions whose callback is known but not what it serves: an init event is missing",
        "callback_instances",
    )


def _processes(model: Facts) -> Iterator[Finding]:
    processes = model.events.found
    for host, vpid in processes.collisions:
        yield from warning(
            "vpid_collision",
            1,
            "processes of different names had the same number at the same time, as containers' "
            "do: their events cannot be told apart and their objects may be mixed up; record the "
            "context pid_ns",
            f"process {vpid}",
            host=host,
        )
    for boundary in processes.boundaries:
        yield from info(
            "vpid_used_again",
            1,
            "a process ended and another one got its number, as its name shows, or because it "
            "initialised ROS and used nothing that was made before: they are two",
            f"process {boundary.vpid}",
            host=boundary.host,
        )
    without = processes.frame.filter(pl.col("pid_ns") == 0)["proc"].to_list()
    contexts = model.objects.contexts.filter(pl.col("proc").is_in(without))
    several = contexts.filter(pl.col("proc").is_duplicated())["proc"].n_unique()
    yield from info(
        "several_contexts",
        several,
        "process numbers that initialised ROS more than once: the process did, or several "
        "processes had the number, in other pid namespaces or one after the other; record the "
        "context pid_ns to know",
        "contexts",
    )


def _scheduling(scheduling: Scheduling) -> Iterator[Finding]:
    where = "callback_scheduling"
    yield from warning(
        "threads_not_in_kernel_trace",
        scheduling.unseen,
        "threads that ran callbacks and that sched_switch never names, or of which several "
        "namespaces have one number: in another pid namespace without "
        "lttng_statedump_process_pid_ns or the contexts vpid and vtid (and pid_ns), or on "
        "another host; their executions have no rows",
        where,
    )
    yield from info(
        "outside_kernel_trace",
        scheduling.outside,
        "executions before the first or after the last sched_switch, or of which the tracer "
        "may have dropped one: they have no rows",
        where,
    )
    yield from info(
        "thread_ids_assumed",
        scheduling.assumed,
        "threads whose number in the kernel was taken to be the one they know themselves, as "
        "nothing shows it",
        where,
    )


def _heap(counts: Mapping[str, int]) -> Iterator[Finding]:
    yield from info(
        "unknown_frees",
        counts["unknown_frees"],
        "addresses freed that were allocated before the recording, by the parent process, or "
        "in events that were dropped: they are not subtracted",
        "heap",
    )
    yield from warning(
        "unseen_frees",
        counts["unseen_frees"],
        "addresses allocated again though no event had freed them: events were dropped, or the "
        "block was freed by something that is not traced; they count as freed",
        "heap",
    )
    yield from info("failed_allocations", counts["failed"], "allocations that failed", "heap")


def _clock(model: Facts) -> Iterator[Finding]:
    """Find steps of the system clock, which stamps messages, against the clock of the events."""
    blocks = (
        model.offsets.filter(pl.col("len") >= 3)
        .sort("host", "block")
        .with_columns(pl.col("offset").diff().over("host").abs().alias("step"))
    )
    steps = blocks.filter(pl.col("step") > _STEP_NS)
    for row in steps.group_by("host", maintain_order=True).agg(
        pl.len(), pl.col("step").max()
    ).iter_rows(named=True):  # fmt: skip
        yield from warning(
            "clock_step",
            row["len"],
            f"the system clock stepped (by up to {row['step'] / 1e6:.1f} ms) while recording: "
            "source timestamps are no times there; latencies are not touched, they use event times",
            "messages.source_timestamp_ns",
            host=row["host"],
        )


def _hosts(model: Facts) -> Iterator[Finding]:
    """Return the findings on the clocks of hosts, as far as the messages between them show."""
    for row in model.clocks:
        yield {**row, "where": "messages.latency_ns"}


def _some_names(names: pl.Series, default: str) -> str:
    distinct = names.drop_nulls().unique().sort().to_list()
    return some_of(distinct, 3) if distinct else default
