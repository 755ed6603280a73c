"""Findings about a recording: what was dropped, what could not be matched, what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import polars as pl

from roslens.collectors.ros2.actions import untold_goals
from roslens.collectors.ros2.callbacks import Callbacks
from roslens.collectors.ros2.clock_bounds import offsets
from roslens.collectors.ros2.events import FIELDS, Events
from roslens.collectors.ros2.heap import Heap
from roslens.collectors.ros2.messages import Messages
from roslens.collectors.ros2.objects import DISCOVERY, Objects
from roslens.collectors.ros2.outcomes import of_kernel
from roslens.collectors.ros2.publications import INTERNAL
from roslens.collectors.ros2.scheduling import Scheduling
from roslens.collectors.ros2.services import service_events_recorded
from roslens.collectors.schema.tables import HEALTH, TABLES

Severity: TypeAlias = Literal["info", "warning", "error"]
Finding: TypeAlias = dict[str, object]

_STEP_NS = 1_000_000
_BENT = (
    "every table may lack rows of that time, messages without a take in it are 'unknown', and "
    "starts may lack ends (enlarge the buffers or record fewer events)"
)
_BENT_BY_KERNEL = "callback_scheduling has no rows of that time; no other table is touched"
BLOCK_NS = 1_000_000_000


@dataclass(frozen=True)
class OfCallbacks:
    """Counts over executions of callbacks.

    Attributes
    ----------
    unfinished
        Without an end.
    threads
        Those that ran any.
    ends_alone
        Ends without a start.
    nameless, ownerless
        Whose callback is not known; whose callback is, but not what it serves.
    """

    unfinished: int
    threads: pl.Series
    ends_alone: int
    nameless: int
    ownerless: int


@dataclass(frozen=True)
class OfMessages:
    """Counts over publications, takes and messages.

    Attributes
    ----------
    unnamed
        Publications of which nothing names the publisher.
    unknown_publishers, unknown_subscriptions
        Publications, and takes, of unknown object and topic.
    ambiguous, cleared, gone
        As of `Messages`.
    alone, alone_on
        Takes without publication, and their topics.
    approximate
        Rows joined by time or order.
    ways
        subscription_id, publisher_id, all (whether all messages were lost), len.
    untaken
        As of `Messages`.
    untold
        As of `untold_messages`.
    crossings
        As of `roslens.collectors.ros2.clock_bounds.crossings_of`.
    """

    unnamed: int
    unknown_publishers: int
    unknown_subscriptions: int
    ambiguous: int
    cleared: int
    gone: pl.DataFrame
    alone: int
    alone_on: pl.Series
    approximate: int
    ways: pl.DataFrame
    untaken: pl.Series
    untold: int
    crossings: pl.DataFrame


@dataclass(frozen=True)
class Facts:
    """What findings are drawn from.

    Attributes
    ----------
    told
        The publications that tell of actions, at least: topic.
    offsets
        As of `clock_offsets`.
    silent_threads
        As of `threads_without_events`.
    calls_unknown
        As of `unknown_ends`.
    """

    events: Events
    objects: Objects
    callbacks: OfCallbacks
    messages: OfMessages
    told: pl.DataFrame
    offsets: pl.DataFrame
    silent_threads: int
    losses: pl.DataFrame
    calls_unknown: int
    action_goals: pl.DataFrame
    lifecycle_states: pl.DataFrame
    lifecycle_gaps: int
    message_links: pl.DataFrame
    scheduling: Scheduling
    heap: Heap


def _count(frame: pl.DataFrame, which: pl.Expr) -> int:
    return int(frame.select(which.sum()).item())


def of_callbacks(callbacks: Callbacks) -> OfCallbacks:
    """Count over all executions."""
    instances = callbacks.instances
    known = pl.col("callback_id").is_not_null()
    return OfCallbacks(
        unfinished=instances["end_ns"].null_count(),
        threads=instances["thread"].unique(),
        ends_alone=callbacks.ends_alone,
        nameless=instances["callback_id"].null_count(),
        ownerless=_count(instances, known & pl.col("owner_id").is_null()),
    )


def unnamed() -> pl.Expr:
    """Whether nothing names the publisher of a publication."""
    return (
        pl.col("topic").is_null()
        & pl.col("rclcpp_publish_ns").is_not_null()
        & pl.col("rcl_publish_ns").is_null()
    )


def unknown_publisher() -> pl.Expr:
    """Whether neither publisher nor topic of a publication is known, though they might be."""
    return pl.col("publisher_id").is_null() & pl.col("topic").is_null() & ~unnamed()


def unknown_subscription() -> pl.Expr:
    """Whether neither subscription nor topic of a take is known."""
    return pl.col("subscription_id").is_null() & pl.col("topic").is_null()


def ways_of(rows: pl.DataFrame) -> pl.DataFrame:
    """Messages by subscription and publisher, as they come: whether all were lost, how many."""
    return rows.group_by("subscription_id", "publisher_id", maintain_order=True).agg(
        (pl.col("outcome") == "lost").all().alias("all"), pl.len()
    )


def untold_messages(rows: pl.DataFrame, events: Events) -> int:
    """How many messages nobody knows to be lost or not as events were not recorded."""
    missing = pl.col("source_timestamp_ns").is_null() | pl.lit(not events.happened("rmw_take"))
    between = ~pl.col("intra_process").fill_null(value=False)
    of_way = pl.col("subscription_id").is_not_null() & pl.col("publish_ns").is_not_null()
    return _count(rows, (pl.col("outcome") == "unknown") & between & missing & of_way)


def of_messages(
    publications: pl.DataFrame, takes: pl.DataFrame, messages: Messages, events: Events
) -> OfMessages:
    """Count over all publications, takes and messages."""
    return OfMessages(
        unnamed=_count(publications, unnamed()),
        unknown_publishers=_count(publications, unknown_publisher()),
        unknown_subscriptions=_count(takes, unknown_subscription()),
        ambiguous=messages.ambiguous,
        cleared=messages.cleared,
        gone=messages.gone,
        alone=messages.takes_alone.height,
        alone_on=messages.takes_alone["topic"].unique(),
        approximate=_count(messages.rows, pl.col("match") == "approximate"),
        ways=ways_of(messages.rows),
        untaken=messages.untaken,
        untold=untold_messages(messages.rows, events),
        crossings=messages.crossings,
    )


def find_health(model: Facts, extra: Sequence[Finding] = ()) -> pl.DataFrame:
    """The table ``health``; most severe first."""
    rows = [
        *extra,
        *_losses(model),
        *_missing(model),
        *_unmatched(model),
        *_objects(model),
        *_processes(model),
        *_scheduling(model.scheduling),
        *_heap(model.heap),
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
        "discarded_events": "the tracer discarded events because its buffers were full",
        "lost_packets": "whole packets are missing (overwrite mode, a slow consumer, or a stream "
        "file that was cut or not copied)",
        "truncated": "the stream ends in the middle of a packet; everything before was read",
    }
    origin = model.events.processes["begin_ns"].min()
    for row in grouped:
        where = f"{row['trace']}/{row['stream']}" if row["stream"] else str(row["trace"] or "trace")
        yield finding(
            row["kind"],
            "warning",
            max(row["count"], row["len"] if row["open"] else row["count"]),
            f"{texts[row['kind']]}: {_when(row['begin_ns'], row['end_ns'], origin)}; "
            + (_BENT_BY_KERNEL if row["kernel"] else _BENT),
            where=where,
            host=row["host"],
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
    if events.without_context:
        yield finding(
            "missing_context",
            "error",
            events.without_context,
            "events without the contexts vpid and vtid: processes and threads cannot be told "
            "apart; record with 'lttng add-context -u -t vpid -t vtid -t procname'",
            where="trace",
        )


def _unmatched(model: Facts) -> Iterator[Finding]:
    if unfinished := model.callbacks.unfinished:
        yield finding(
            "unfinished_callbacks",
            "info" if unfinished <= model.callbacks.threads.len() else "warning",
            unfinished,
            "callback_start without callback_end: it raised, the process died, the trace ended, "
            "or (services up to Jazzy) the response was deferred; their end is null",
            where="callback_instances",
        )
    if model.callbacks.ends_alone:
        yield finding(
            "callback_end_without_start",
            "info",
            model.callbacks.ends_alone,
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
    if count := model.silent_threads:
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
    if service_events_recorded(model.events):
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
    messages = model.messages
    if messages.ambiguous:
        yield finding(
            "ambiguous_timestamps",
            "warning",
            messages.ambiguous,
            "publications that share topic and source timestamp with another one; they are joined "
            "in order and labelled ambiguous",
            where="messages",
        )
    if messages.alone:
        yield finding(
            "takes_without_publication",
            "info",
            messages.alone,
            "messages taken whose publication was not recorded: published before the trace began, "
            "by a process that is not traced, or dropped by the tracer; they are in the table "
            "one_sided_messages, with a latency from their source timestamps",
            where=_some(messages.alone_on, "messages"),
        )
    if messages.approximate:
        yield finding(
            "approximate_matches",
            "warning",
            messages.approximate,
            "publication and take or callback joined by time or order, or of a publication whose "
            "first event is missing, as the events that would tell exactly were not recorded",
            where="messages",
        )
    if messages.untold:
        why = (
            "publications have no timestamp (up to Iron, or their rmw_publish is missing)"
            if model.events.happened("rmw_take")
            else "no rmw_take was recorded"
        )
        yield finding(
            "loss_not_known",
            "warning",
            messages.untold,
            f"messages of which nobody can say whether they were lost: {why}, and no order of "
            "others proves it; loss has bounds instead of a value where they are many",
            where="messages",
        )
    untaken = messages.untaken
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
    if messages.cleared:
        yield finding(
            "ring_buffer_cleared",
            "info",
            messages.cleared,
            "intra-process messages dropped because their buffer was cleared; their outcome is "
            "'overwritten'",
            where="messages",
        )
    yield from _silent_subscriptions(model)


def _silent_subscriptions(model: Facts) -> Iterator[Finding]:
    names = model.objects.subscriptions.select("subscription_id", "topic", "node")
    never = (
        model.messages.ways.filter(pl.col("all") & pl.col("subscription_id").is_not_null())
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
            "or its executor did not spin; they count as lost",
            where=f"{row['topic']} at {row['node']}",
        )
    for row in model.messages.gone.join(names, on="subscription_id").iter_rows(named=True):
        yield finding(
            "receiver_gone",
            "info",
            row["count"],
            "publications more than a second after the last event of a subscription's process, "
            "which is taken to have ended: no rows for it",
            where=f"{row['topic']} at {row['node']}",
        )


def _objects(model: Facts) -> Iterator[Finding]:
    if count := model.messages.unnamed:
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
        ("publications", model.messages.unknown_publishers, "publisher"),
        ("takes", model.messages.unknown_subscriptions, "subscription"),
        ("callback_instances", model.callbacks.nameless, "callback"),
        ("service_calls", model.calls_unknown, "client or service"),
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
    if ownerless := model.callbacks.ownerless:
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
            "a process ended and another one of another name got its number: they are two",
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


def _heap(found: Heap) -> Iterator[Finding]:
    if found.unknown_frees:
        yield finding(
            "unknown_frees",
            "info",
            found.unknown_frees,
            "addresses freed that were allocated before the recording, by the parent process, or "
            "in events that were dropped: they are not subtracted",
            where="heap",
        )
    if found.unseen_frees:
        yield finding(
            "unseen_frees",
            "warning",
            found.unseen_frees,
            "addresses allocated again though no event had freed them: events were dropped, or the "
            "block was freed by something that is not traced; they count as freed",
            where="heap",
        )
    if found.failed:
        yield finding(
            "failed_allocations", "info", found.failed, "allocations that failed", where="heap"
        )


def stamped(publications: pl.DataFrame, events: Events) -> pl.DataFrame:
    """Each stamp of the system clock with the time of its event: proc, time_ns,
    source_timestamp_ns.
    """  # noqa: D205
    public = pl.col("topic").is_null() | (pl.col("topic") != DISCOVERY)
    published = publications.select(
        "proc",
        pl.when(public).then("rmw_publish_ns").alias("time_ns"),
        "source_timestamp_ns",
    )
    answered = events["rmw_send_response"].select(
        "proc", "time_ns", pl.col("timestamp").alias("source_timestamp_ns")
    )
    return pl.concat([published, answered]).drop_nulls()


def clock_offsets(stamps: pl.DataFrame, events: Events) -> pl.DataFrame:
    """The system clock against that of the events in blocks of time: host, block, offset, len."""
    return (
        stamps.join(events.processes.select("proc", "host"), on="proc", how="left")
        .with_columns((pl.col("source_timestamp_ns") - pl.col("time_ns")).alias("offset"))
        .group_by("host", (pl.col("time_ns") // BLOCK_NS).alias("block"))
        # Not their mean where the step falls into the block: one side or the other.
        .agg(pl.col("offset").sort().get((pl.len() - 1) // 2), pl.len())
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
    counts = {(a, b): n for a, b, _, n in model.messages.crossings.rows()}
    seen: set[frozenset[str]] = set()
    for row in offsets(model.messages.crossings).iter_rows(named=True):
        one, other, low, high = (row[n] for n in ("from_host", "to_host", "low_ns", "high_ns"))
        if frozenset((one, other)) in seen:
            continue
        seen.add(frozenset((one, other)))
        count = counts[one, other] + counts.get((other, one), 0)
        told = f"the clock of {other} against that of {one}, by {count:,} messages between them: "
        remedy = "collect with --clock-offset auto, or synchronise the hosts"
        where = "messages.latency_ns"
        if row["drift"]:
            text = f"{told}they drift apart, by {low - high:,} ns at least; {remedy}"
            yield finding("clocks_drift", "warning", count, text, where=where, host=other)
        elif high < 0 or (low is not None and low > 0):
            side, least = ("behind", -high) if high < 0 else ("ahead", low)
            text = f"{told}at least {least:,} ns {side}, so latencies are wrong by that; {remedy}"
            yield finding("clocks_apart", "warning", count, text, where=where, host=other)
        elif low is None:
            text = f"{told}nothing came back, so latencies may be wrong by any time; {remedy}"
            yield finding("clocks_not_bounded", "warning", count, text, where=where, host=other)
        else:
            text = (
                f"{told}between {low:+,} and {high:+,} ns ahead; clock_bound_ns holds how far each "
                "latency may be wrong"
            )
            yield finding("clocks_bounded", "info", count, text, where=where, host=other)


def _some(names: pl.Series, default: str) -> str:
    found = names.drop_nulls().unique().sort().to_list()
    if not found:
        return default
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
