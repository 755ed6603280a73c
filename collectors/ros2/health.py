"""Findings about a recording: what was dropped, what could not be matched, what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import polars as pl

from roslens.collectors.ros2.actions import untold_goals
from roslens.collectors.ros2.events import FIELDS, Events
from roslens.collectors.ros2.losses import of_kernel
from roslens.collectors.ros2.objects import Objects
from roslens.collectors.ros2.scheduling import Scheduling
from roslens.collectors.ros2.services import service_events_recorded
from roslens.collectors.ros2.types import I64, TEXT
from roslens.collectors.schema.tables import HEALTH, TABLES
from roslens.collectors.topics import INTERNAL

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
BLOCK_NS = 1_000_000_000


@dataclass(frozen=True)
class Facts:
    """What findings are drawn from.

    Attributes
    ----------
    counts
        What the pass counted: number by name.
    broken
        Where the order of a thread's events tells that some are missing: begin_ns, end_ns.
    gone
        Publications left without a row for a subscription whose process had gone:
        subscription_id, count.
    untaken
        Subscriptions whose callbacks ran and of which no take was recorded.
    alone_on
        Topics of takes without publication.
    connections
        By publisher and subscription: subscription_id, never_taken (whether nothing was ever
        taken), len.
    clocks
        What is known of the hosts' clocks: kind, severity, host, count, what.
    offsets
        The system clock against that of the events in blocks of time: host, block, offset, len.
    told
        The publications that tell of actions: topic.
    """

    events: Events
    objects: Objects
    counts: Mapping[str, int]
    broken: pl.DataFrame
    gone: pl.DataFrame
    untaken: Sequence[int]
    alone_on: Sequence[str]
    connections: pl.DataFrame
    clocks: Sequence[Mapping[str, Any]]
    offsets: pl.DataFrame
    told: pl.DataFrame
    losses: pl.DataFrame
    action_goals: pl.DataFrame
    lifecycle_states: pl.DataFrame
    lifecycle_gaps: int
    message_links: pl.DataFrame
    scheduling: Scheduling


def find_health(model: Facts, extra: Sequence[Finding] = ()) -> pl.DataFrame:
    """The table ``health``; most severe first."""
    rows = [
        *extra,
        *_losses(model),
        *_undeclared(model),
        *_missing(model),
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


def finding(
    kind: str,
    severity: Severity,
    count: int,
    what: str,
    *,
    where: str,
    host: str | None = None,
) -> Finding:
    """One row of ``health``."""
    return {
        "host": host,
        "kind": kind,
        "severity": severity,
        "count": count,
        "what": what,
        "where": where,
    }


def reader_warning(text: str) -> Finding:
    """What the reader had to say, as a row."""
    return finding("reader", "warning", 1, text, where="trace")


def _losses(model: Facts) -> Iterator[Finding]:
    if model.losses.is_empty():
        return
    grouped = (
        model.losses.group_by("host", "kind", "trace", "stream", maintain_order=True)
        .agg(
            pl.col("count").sum(),
            pl.col("count").is_null().any().alias("open"),
            pl.len(),
            of_kernel().any().alias("kernel"),
            # One that is not known leaves the whole of that side open.
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
    }
    origin = model.events.processes["begin_ns"].min()
    for row in grouped:
        text = texts[row["kind"]]
        if row["kernel"] and row["kind"] == "discarded_events":
            text = _LOST_BY_KERNEL
        where = f"{row['trace']}/{row['stream']}" if row["stream"] else str(row["trace"] or "trace")
        yield finding(
            row["kind"],
            "warning",
            max(row["count"], row["len"] if row["open"] else row["count"]),
            f"{text}: {_when(row['begin_ns'], row['end_ns'], origin)}; "
            + (_BENT_BY_KERNEL if row["kernel"] else _BENT),
            where=where,
            host=row["host"],
        )


def _undeclared(model: Facts) -> Iterator[Finding]:
    if model.broken.is_empty():
        return
    begin, end = model.broken.select(pl.min("begin_ns"), pl.max("end_ns")).row(0)
    when = _when(begin, end, model.events.processes["begin_ns"].min())
    yield finding(
        "undeclared_gaps",
        "warning",
        model.broken.height,
        "places where a thread's events cannot all have been recorded, though no tracer says "
        f"that it lost any: {when}; what was under way there has no end, messages there are "
        "'approximate', and those never taken 'unknown' (reason order_broken)",
        where="trace",
    )


def _when(begin_ns: int | None, end_ns: int | None, origin: object) -> str:
    """A stretch of time in words."""
    if not isinstance(origin, int) or (begin_ns is None and end_ns is None):
        return "nothing tells when"
    begin, end = (
        "an edge" if x is None else f"{(x - origin) / 1e9:.3f} s" for x in (begin_ns, end_ns)
    )
    return f"between {begin} and {end} after the first event"


def _missing(model: Facts) -> Iterator[Finding]:
    events = model.events
    if not any(events.happened(name) for name in FIELDS):
        why = (
            "events of ros2 were declared, but none happened: the nodes ended before the recording "
            "began, did nothing, or what they wrote was not saved"
            if any(events.declared(name) for name in FIELDS)
            else "the session did not enable ros2:*, or the processes ran without a tracetools "
            "that was built with LTTng"
        )
        yield finding(
            "no_ros_events", "warning", 1, f"no ros2 event was recorded: {why}", where="trace"
        )
    for table in TABLES.values():
        absent = [name for name in table.needs if not events.declared(name)]
        if not absent:
            continue
        what = f"events not recorded: {', '.join(absent)}; table {table.name} "
        if table.name == "service_calls" and not service_events_recorded(events):
            what += (
                "holds only the servers' callbacks, without clients and requests (these events "
                "exist from Kilted on)"
            )
        elif table.name == "action_goals" and not service_events_recorded(events):
            what += "is empty: goals are told apart by service events, which exist from Kilted on"
        elif table.name == "messages":
            what += "is joined by order where that is possible, and cannot tell losses"
        else:
            what += "lacks what they tell, and is empty where nothing else does"
        yield finding("missing_events", "info", len(absent), what, where=table.name)
    if without := model.counts["without_context"] + events.without_context:
        yield finding(
            "missing_context",
            "error",
            without,
            "events without the contexts vpid and vtid: processes and threads cannot be told "
            "apart; record with 'lttng add-context -u -t vpid -t vtid -t procname'",
            where="trace",
        )


def _unmatched(model: Facts) -> Iterator[Finding]:
    if unfinished := model.counts["unfinished"]:
        yield finding(
            "unfinished_callbacks",
            "info" if unfinished <= model.counts["threads"] else "warning",
            unfinished,
            "callback_start without callback_end: it raised, the process died, the trace ended, "
            "or (services up to Jazzy) the response was deferred; their end is null",
            where="callback_instances",
        )
    if ends := model.counts["ends_alone"]:
        yield finding(
            "callback_end_without_start",
            "info",
            ends,
            "callback_end without callback_start: the trace began, or events were lost, while "
            "they ran; they have no row",
            where="callback_instances",
        )
    yield from _unmatched_goals(model)
    if model.lifecycle_gaps:
        yield finding(
            "lifecycle_gaps",
            "warning",
            model.lifecycle_gaps,
            "lifecycle transitions that must have been dropped: a node left another state than it "
            "had entered; begin and end between them are null",
            where="lifecycle_states",
        )
    declared = model.events.declared("rclcpp_executor_get_next_ready")
    if declared and (count := model.counts["silent_threads"]):
        yield finding(
            "executor_without_events",
            "info",
            count,
            "threads that ran callbacks without executor events, as events executors do: "
            "whether they waited or worked in between is not known",
            where="executor_intervals",
        )
    yield from _unmatched_messages(model)


def _unmatched_goals(model: Facts) -> Iterator[Finding]:
    goals = model.action_goals
    together = goals.filter(~pl.col("alone"))
    if together.height:
        yield finding(
            "overlapping_goals",
            "info",
            together.height,
            "action goals that a server had at the same time as others: goal ids are not traced, "
            "so their feedback, end and cancelling are not known",
            where=_some(together["action"], "action_goals"),
        )
    guessed = goals.filter(pl.col("match") == "approximate")
    if guessed.height:
        yield finding(
            "approximate_goals",
            "warning",
            guessed.height,
            "action goals whose result was found by order, while others of the client waited too",
            where=_some(guessed["action"], "action_goals"),
        )
    if service_events_recorded(model.events) or not model.objects.has_actions:
        return
    for row in untold_goals(model.objects, model.told).iter_rows(named=True):
        yield finding(
            "goals_not_recorded",
            "info",
            1,
            f"an action of which {row['status']} status and {row['feedback']} feedback messages "
            "were published, but whose goals cannot be told apart before Kilted: they have no rows "
            "in action_goals",
            where=row["action"],
        )


def _unmatched_messages(model: Facts) -> Iterator[Finding]:
    counts = model.counts
    if counts["ambiguous"]:
        yield finding(
            "ambiguous_timestamps",
            "warning",
            counts["ambiguous"],
            "publications that share topic and source timestamp with another one; they are joined "
            "in order and labelled ambiguous",
            where="messages",
        )
    if counts["alone"]:
        yield finding(
            "takes_without_publication",
            "info",
            counts["alone"],
            "messages taken whose publication was not recorded: published before the trace began, "
            "by a process that is not traced, or dropped by the tracer; they are in the table "
            "one_sided_messages, with a latency from their source timestamps",
            where=_some(pl.Series(model.alone_on, dtype=TEXT), "messages"),
        )
    if counts["approximate"]:
        yield finding(
            "approximate_matches",
            "warning",
            counts["approximate"],
            "publication and take or callback joined by time or order, or of a publication whose "
            "first event is missing, as the events that would tell exactly were not recorded",
            where="messages",
        )
    if counts["untold"]:
        why = (
            "publications have no timestamp (up to Iron, or their rmw_publish is missing)"
            if model.events.happened("rmw_take")
            else "no rmw_take was recorded"
        )
        yield finding(
            "loss_not_known",
            "warning",
            counts["untold"],
            f"messages of which nobody can say whether they were lost: {why}, and no order of "
            "others proves it; loss has bounds instead of a value where they are many",
            where="messages",
        )
    untaken = pl.Series(model.untaken, dtype=I64)
    if untaken.len() and model.events.happened("rmw_take"):
        topics = model.objects.subscriptions.filter(
            pl.col("subscription_id").is_in(untaken.implode())
        )["topic"]
        yield finding(
            "takes_not_recorded",
            "warning",
            untaken.len(),
            "subscriptions whose callbacks ran without a recorded take: the middleware has no "
            "event where it takes loaned messages (up to Kilted) or serialized ones (Humble), or "
            "the tracer dropped them; their messages are joined by order where that is possible, "
            "and never called lost",
            where=_some(topics, "messages"),
        )
    if counts["cleared"]:
        yield finding(
            "ring_buffer_cleared",
            "info",
            counts["cleared"],
            "intra-process messages dropped because their buffer was cleared; their outcome is "
            "'overwritten'",
            where="messages",
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
        yield finding(
            "never_taken",
            "info" if row["topic"] in INTERNAL else "warning",
            row["len"],
            "none of a publisher's messages was ever taken: it may not be matched (QoS, domain), "
            "or its executor did not spin; nothing tells which, and they are 'not_matched'",
            where=f"{row['topic']} at {row['node']}",
        )
    for row in model.gone.join(names, on="subscription_id").iter_rows(named=True):
        yield finding(
            "receiver_gone",
            "info",
            row["count"],
            "publications more than a second after the last event of a subscription's process, "
            "which is taken to have ended: no rows for it",
            where=f"{row['topic']} at {row['node']}",
        )


def _objects(model: Facts) -> Iterator[Finding]:
    if count := model.counts["unnamed"]:
        yield finding(
            "publisher_not_named",
            "warning",
            count,
            "publications of which only rclcpp_publish was recorded, which does not name the "
            "publisher, in a process with several: no topic is known; record ros2:rcl_publish",
            where="publications",
        )
    if model.events.repeated:
        yield finding(
            "repeated_init_events",
            "info",
            model.events.repeated,
            "init events recorded more than once (snapshots repeat them); the copies are left out",
            where="trace",
        )
    if model.events.twice:
        yield finding(
            "events_of_two_sessions",
            "info",
            model.events.twice,
            "events that two sessions recorded at the same time; the later record of each is left "
            "out of the tables (not of the raw events)",
            where="trace",
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
    for table, count, what in unknown:
        if count:
            yield finding(
                "events_before_init",
                "warning",
                count,
                f"rows whose {what} is not known: its init event was not recorded (tracing began "
                "later, or the tracer dropped it); they are kept without names",
                where=table,
            )
    if ownerless := model.counts["ownerless"]:
        yield finding(
            "callbacks_without_owner",
            "warning",
            ownerless,
            "executions whose callback is known but not what it serves: an init event is missing",
            where="callback_instances",
        )


def _processes(model: Facts) -> Iterator[Finding]:
    found = model.events.found
    for host, vpid in found.collisions:
        yield finding(
            "vpid_collision",
            "warning",
            1,
            "processes of different names had the same number at the same time, as containers' "
            "do: their events cannot be told apart and their objects may be mixed up; record the "
            "context pid_ns",
            where=f"process {vpid}",
            host=host,
        )
    for boundary in found.boundaries:
        yield finding(
            "vpid_used_again",
            "info",
            1,
            "a process ended and another one got its number, as its name tells, or that it "
            "initialised ROS and used nothing that was made before: they are two",
            where=f"process {boundary.vpid}",
            host=boundary.host,
        )
    without = found.frame.filter(pl.col("pid_ns") == 0)["proc"].to_list()
    contexts = model.objects.contexts.filter(pl.col("proc").is_in(without))
    several = contexts.filter(pl.col("proc").is_duplicated())["proc"].n_unique()
    if several:
        yield finding(
            "several_contexts",
            "info",
            several,
            "process numbers that initialised ROS more than once: the process did, or several "
            "processes had the number, in other pid namespaces or one after the other; record the "
            "context pid_ns to know",
            where="contexts",
        )


def _scheduling(found: Scheduling) -> Iterator[Finding]:
    where = "callback_scheduling"
    if found.unseen:
        yield finding(
            "threads_not_in_kernel_trace",
            "warning",
            found.unseen,
            "threads that ran callbacks and that sched_switch never names, or of which several "
            "namespaces have one number: in another pid namespace without "
            "lttng_statedump_process_pid_ns or the contexts vpid and vtid (and pid_ns), or on "
            "another host; their executions have no rows",
            where=where,
        )
    if found.outside:
        yield finding(
            "outside_kernel_trace",
            "info",
            found.outside,
            "executions before the first or after the last sched_switch, or of which the tracer "
            "may have dropped one: they have no rows",
            where=where,
        )
    if found.assumed:
        yield finding(
            "thread_ids_assumed",
            "info",
            found.assumed,
            "threads whose number in the kernel was taken to be the one they know themselves, as "
            "nothing tells it",
            where=where,
        )


def _heap(counts: Mapping[str, int]) -> Iterator[Finding]:
    if counts["unknown_frees"]:
        yield finding(
            "unknown_frees",
            "info",
            counts["unknown_frees"],
            "addresses freed that were allocated before the recording, by the parent process, or "
            "in events that were dropped: they are not subtracted",
            where="heap",
        )
    if counts["unseen_frees"]:
        yield finding(
            "unseen_frees",
            "warning",
            counts["unseen_frees"],
            "addresses allocated again though no event had freed them: events were dropped, or the "
            "block was freed by something that is not traced; they count as freed",
            where="heap",
        )
    if counts["failed"]:
        yield finding(
            "failed_allocations", "info", counts["failed"], "allocations that failed", where="heap"
        )


def _clock(model: Facts) -> Iterator[Finding]:
    """Steps of the system clock, as it stamps messages, against the clock of the events."""
    blocks = (
        model.offsets.filter(pl.col("len") >= 3)
        .sort("host", "block")
        .with_columns(pl.col("offset").diff().over("host").abs().alias("step"))
    )
    steps = blocks.filter(pl.col("step") > _STEP_NS)
    for row in steps.group_by("host", maintain_order=True).agg(
        pl.len(), pl.col("step").max()
    ).iter_rows(named=True):  # fmt: skip
        yield finding(
            "clock_step",
            "warning",
            row["len"],
            f"the system clock stepped (by up to {row['step'] / 1e6:.1f} ms) while recording: "
            "source timestamps are no times there; latencies are not touched, they use event times",
            where="messages.source_timestamp_ns",
            host=row["host"],
        )


def _hosts(model: Facts) -> Iterator[Finding]:
    """Clocks of hosts, as far as the messages between them tell."""
    for found in model.clocks:
        kind, severity, count, what = (found[x] for x in ("kind", "severity", "count", "what"))
        where = "messages.latency_ns"
        yield finding(kind, severity, count, what, where=where, host=found["host"])


def _some(names: pl.Series, default: str) -> str:
    found = names.drop_nulls().unique().sort().to_list()
    if not found:
        return default
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
