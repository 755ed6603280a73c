"""Write a recording as a Perfetto trace, for ui.perfetto.dev.

The trace has one track per thread and node with a slice per callback and per publish call; one
per topic with a slice per message, from its publication to the start of its callback, and within
slices of late messages the segments of their paths; one per thread of an executor with its
states; flows from each publication to the callbacks that received it, and from a service request
over its callback to the response; counters of CPU and memory per process; samples of call stacks;
and where the kernel was recorded, which thread had each CPU and which thread woke which. Slices
have categories and arguments, so that PerfettoSQL answers questions about latency.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from roslens.analysis.interop.perfetto_packets import (
    BEGIN,
    COUNTER,
    END,
    INSTANT,
    Writer,
)
from roslens.analysis.interop.protobuf import number_field
from roslens.analysis.measures.callbacks import readable
from roslens.collectors.ros2.services import begin_of

_BUNDLE = 100_000
"""Number of context switches in one packet."""
_WAKE = {"time_ns": pl.Int64, "cpu_id": pl.Int32, "comm": pl.String, "tid": pl.Int32,
         "prio": pl.Int32, "target_cpu": pl.Int32}  # fmt: skip


def write_perfetto(tables: Mapping[str, pl.DataFrame], path: Path) -> None:
    """Write a Perfetto trace of one run.

    Parameters
    ----------
    tables
        ``processes``, ``callback_instances``, ``publications``, ``messages``, ``service_calls``
        and, where known, ``executor_intervals``, ``resources``, ``heap``, ``cpu_samples``, the
        kernel's events ``sched_switch`` and ``sched_waking``, and ``late``: segments of late
        messages as `roslens.analysis.path.path.Paths.of` returns them, with ``why``, a sentence.
    path
        File to write.

    Raises
    ------
    UsageError, RunFailedError
        The file cannot be written; the second where the disk is full.
    """
    writer = Writer()
    for host, vpid, name in tables["processes"].select("host", "vpid", "procname").iter_rows():
        writer.process(host, vpid, name)
    # Flows of messages are odd, those of calls even.
    calls = tables["service_calls"].with_columns(
        flow=pl.int_range(pl.len(), dtype=pl.Int64) * 2 + 2
    )
    _callbacks(writer, tables, calls)
    _publications(writer, tables)
    _requests(writer, calls)
    _messages(writer, tables["messages"], tables.get("late"))
    if "executor_intervals" in tables:
        _executors(writer, tables["executor_intervals"])
    if "resources" in tables:
        _counters(writer, tables["resources"])
    if "heap" in tables:
        _heap(writer, tables["heap"])
    if not tables.get("cpu_samples", pl.DataFrame()).is_empty():
        writer.samples(tables["cpu_samples"])
    if "sched_switch" in tables:
        _scheduled(writer, tables)
    writer.write(path)


_PLACE = ("host", "vpid", "vtid", "node")


def _on_tracks(writer: Writer, frame: pl.DataFrame) -> pl.DataFrame:
    """Add the track of each row's thread and node."""

    def track(host: str, vpid: int | None, vtid: int | None, node: str | None) -> int:
        process = writer.process(host, vpid or 0, None)
        thread = number_field(1, vpid or 0) + number_field(2, vtid or 0)
        parent = writer.track(("thread", host, vpid, vtid), parent=process, thread=thread)
        name = f"{node or 'unknown node'} [{vtid}]"
        return writer.track(("node", host, vpid, vtid, node), parent=parent, name=name)

    places = frame.select(_PLACE).unique(maintain_order=True).sort(_PLACE, nulls_last=True)
    return _with_tracks(frame, places, track)


def _with_tracks(
    frame: pl.DataFrame, places: pl.DataFrame, track: Callable[..., int]
) -> pl.DataFrame:
    """Add the track of each row's place, which `track` returns for the columns of `places`."""
    numbers = [track(*place) for place in places.iter_rows()]
    numbered = places.with_columns(pl.Series("track", numbers, dtype=pl.UInt64))
    on = places.columns
    return frame.join(numbered, on=on, how="left", nulls_equal=True, maintain_order="left")


def _callbacks(writer: Writer, tables: Mapping[str, pl.DataFrame], calls: pl.DataFrame) -> None:
    number = "callback_instance_id"
    received = (
        _pairs(tables["messages"])
        .select(number, "flow", "message_id", latency_us=pl.col("latency_ns") / 1e3)
        .drop_nulls(["flow", number])
    )
    served = calls.select(number, "flow").drop_nulls()
    flows = pl.concat([received, served], how="diagonal").unique(
        number, keep="first", maintain_order=True
    )
    instances = tables["callback_instances"].join(
        flows, on=number, how="left", maintain_order="left"
    )
    # An execution without an end is shown as an instant.
    slices = _on_tracks(writer, instances).with_columns(
        pl.format(
            "{} {}",
            pl.col("kind").fill_null("callback"),
            readable(pl.col("name")).fill_null("unknown"),
        ).alias("name"),
        pl.col("start_ns").alias("time_ns"),
    )
    whole = pl.col("end_ns").is_not_null()
    for kind, of_kind in ((BEGIN, whole), (INSTANT, ~whole)):
        writer.events(
            slices.filter(of_kind), kind, order=1, flows=("flow",), category="callback",
            arguments=(number, "kind", "node", "symbol", "message_id", "latency_us"),
        )  # fmt: skip
    _ends(writer, slices.filter(whole).select("track", "end_ns", begin_ns="start_ns"))


def _ends(writer: Writer, slices: pl.DataFrame) -> None:
    """Write the ends of slices before new begins, except for slices without a length.

    Parameters
    ----------
    slices
        ``track``, ``begin_ns``, ``end_ns``.
    """
    ends = slices.with_columns(time_ns=pl.col("end_ns"))
    short = pl.col("begin_ns") == pl.col("end_ns")
    writer.events(ends.filter(~short), END, order=0)
    writer.events(ends.filter(short), END, order=4)


def _publications(writer: Writer, tables: Mapping[str, pl.DataFrame]) -> None:
    pairs = _pairs(tables["messages"]).filter(pl.col("callback_instance_id").is_not_null())
    flows = pairs.group_by("message_id", maintain_order=True).agg("flow")
    last = pl.max_horizontal("publish_ns", "rcl_publish_ns", "rmw_publish_ns")
    sent = _on_tracks(writer, tables["publications"].filter(pl.col("publish_ns").is_not_null()))
    sent = sent.join(flows, on="message_id", how="left", maintain_order="left").with_columns(
        pl.format("publish {}", pl.col("topic").fill_null("unknown")).alias("name"),
        pl.col("publish_ns").alias("time_ns"),
        last.alias("last_ns"),
    )
    most = sent.select(pl.col("flow").list.len().max().fill_null(0)).item()
    each = {f"flow_{k}": pl.col("flow").list.get(k, null_on_oob=True) for k in range(most)}
    writer.events(
        sent.with_columns(**each), BEGIN, order=2, flows=list(each), category="publish",
        arguments=("message_id", "topic", "node"),
    )  # fmt: skip
    # Slices without a length end after their begin, and before the next begin.
    writer.events(sent.select(pl.col("last_ns").alias("time_ns"), "track"), END, order=3)


def _pairs(messages: pl.DataFrame) -> pl.DataFrame:
    """Return messages with the number of their flow; flows of messages are odd."""
    return messages.filter(pl.col("message_id").is_not_null()).with_columns(
        (pl.int_range(pl.len(), dtype=pl.Int64) * 2 + 1).alias("flow")
    )


def _requests(writer: Writer, calls: pl.DataFrame) -> None:
    """Write instants at the client: when the request was sent and the response taken."""

    def track(node: str) -> int:
        return writer.track(("client", node), name=f"{node} [services]")

    begin = begin_of("request_called_ns", "request_sent_ns", "request_taken_ns")
    from_clients = calls.filter(pl.col("client_node").is_not_null()).with_columns(begin_ns=begin)
    for step, column in (("request", "begin_ns"), ("response", "response_taken_ns")):
        moments = from_clients.filter(pl.col(column).is_not_null()).with_columns(
            name=pl.format("{} {}", pl.lit(step), pl.col("service").fill_null("unknown")),
            time_ns=pl.col(column),
        )
        clients = moments.select(pl.col("client_node").unique().sort())
        moments = _with_tracks(moments, clients, track)
        writer.events(moments, INSTANT, order=1, flows=("flow",), category="service")


def _messages(writer: Writer, messages: pl.DataFrame, late: pl.DataFrame | None) -> None:
    """Write a slice per delivered message on its topic's track, an instant for each other message.

    Slices of late messages contain a slice per segment of their path.

    Messages of a topic overlap: each goes into the first lane that is free, and lanes of the same
    name are shown as one track.
    """
    arguments = ["message_id", "topic", "publisher_node", "subscription_node", "outcome", "match"]
    shown = messages.filter(pl.col("publish_ns").is_not_null() & pl.col("topic").is_not_null())
    shown = shown.sort("publish_ns", maintain_order=True).with_columns(
        name=pl.col("topic"),
        latency_us=pl.col("latency_ns") / 1e3,
        begin_ns=pl.col("publish_ns"),
        end_ns=pl.when(pl.col("latency_ns") >= 0).then("callback_start_ns"),
    )
    lanes: list[int] = []
    free: dict[str, list[tuple[int, int]]] = {}
    count: dict[str, int] = {}
    for topic, begin, end in shown.select("topic", "begin_ns", "end_ns").iter_rows():
        waiting = free.setdefault(topic, [])
        if waiting and waiting[0][0] <= begin:
            lane = heapq.heappop(waiting)[1]
        else:
            lane = count[topic] = count.get(topic, -1) + 1
        heapq.heappush(waiting, (begin if end is None else end, lane))
        lanes.append(writer.track(("messages", topic, lane), name=f"messages {topic}"))
    shown = shown.with_columns(
        pl.Series("track", lanes, dtype=pl.UInt64), pl.col("begin_ns").alias("time_ns")
    )
    arrived = pl.col("end_ns").is_not_null()
    for kind, chosen in ((BEGIN, arrived), (INSTANT, ~arrived)):
        writer.events(
            shown.filter(chosen), kind, order=2, category="message",
            arguments=[*arguments, "latency_us"],
        )  # fmt: skip
    _ends(writer, shown.filter(arrived).select("track", "begin_ns", "end_ns"))
    if late is not None:
        number = ["message_id", "subscription_id"]
        ends = shown.filter(arrived).select(*number, "track", until_ns="end_ns")
        parts = late.join(ends, on=number, maintain_order="left").filter(
            pl.col("begin_ns") < pl.col("until_ns")
        ).with_columns(
            time_ns=pl.col("begin_ns"), name=pl.col("kind").cast(pl.String),
            end_ns=pl.min_horizontal("end_ns", "until_ns"),
        )  # fmt: skip
        writer.events(parts, BEGIN, order=3, category="why", arguments=("who", "source", "why"))
        _ends(writer, parts.select("track", "begin_ns", "end_ns"))


def _executors(writer: Writer, intervals: pl.DataFrame) -> None:
    """Write the states of the executors' threads: waiting, busy."""

    def track(host: str, vpid: int | None, vtid: int | None) -> int:
        process = writer.process(host, vpid or 0, None)
        key = ("executor", host, vpid, vtid)
        return writer.track(key, parent=process, name=f"executor [{vtid}]")

    ended = intervals.filter(pl.col("end_ns") > pl.col("begin_ns"))
    places = ended.select("host", "vpid", "vtid").unique(maintain_order=True)
    states = _with_tracks(ended, places, track).with_columns(
        name=pl.col("state"), time_ns=pl.col("begin_ns"), callback_us=pl.col("callback_ns") / 1e3
    )
    writer.events(
        states, BEGIN, order=2, category="executor", arguments=("executed", "callback_us")
    )
    writer.events(states.select(pl.col("end_ns").alias("time_ns"), "track"), END, order=0)


def _scheduled(writer: Writer, tables: Mapping[str, pl.DataFrame]) -> None:
    """Write which thread had each CPU, and wake-ups; viewers derive thread states from them.

    Viewers know threads by their number alone: of several hosts nothing is written, nor where
    only the application's own threads were recorded.
    """
    switches = tables["sched_switch"]
    if "next_prio" not in switches.columns:
        return
    wakes = tables.get("sched_waking", pl.DataFrame(schema=_WAKE))
    flags = pl.col("ctx_flags") if "ctx_flags" in wakes.columns else pl.lit(0)
    wakes = wakes.select(*_WAKE, flags=flags.cast(pl.Int64))
    if switches["host"].n_unique() != 1:
        return
    for cpu in switches["cpu_id"].unique().sort().to_list():
        switched, woken = (
            events.filter(pl.col("cpu_id") == cpu).sort("time_ns", maintain_order=True)
            for events in (switches, wakes)
        )
        edges = [*switched["time_ns"][::_BUNDLE].to_list()[1:], None]
        begin: int | None = None
        for end in edges:
            since = pl.lit(value=True) if begin is None else pl.col("time_ns") >= begin
            until = pl.lit(value=True) if end is None else pl.col("time_ns") < end
            writer.sched(cpu, switched.filter(since, until), woken.filter(since, until))
            begin = end


def _counters(writer: Writer, resources: pl.DataFrame) -> None:
    who = ["host", "vpid"]
    used = resources.sort(*who, "time_ns").with_columns(
        (pl.col("cpu_time_ns").diff() / pl.col("time_ns").diff()).over(who).alias("CPU [cores]"),
        (pl.col("rss_bytes") / 2**20).alias("RSS [MiB]"),
        (pl.col("pss_bytes") / 2**20).alias("PSS [MiB]"),
        (pl.col("heap_bytes") / 2**20).alias("heap [MiB]"),
    )
    _counted(writer, used, ("CPU [cores]", "RSS [MiB]", "PSS [MiB]", "heap [MiB]"))


def _heap(writer: Writer, heap: pl.DataFrame) -> None:
    """Write counters of live bytes from the allocator's events."""
    live = (pl.col("live_bytes") / 2**20).alias("traced heap [MiB]")
    name = pl.lit(None, dtype=pl.String).alias("process")
    _counted(writer, heap.select("host", "vpid", "time_ns", name, live), (live.meta.output_name(),))


def _counted(writer: Writer, used: pl.DataFrame, counters: Sequence[str]) -> None:
    """Write counters of each process; ``process`` names those the writer does not know yet."""
    who = ["host", "vpid"]
    for host, vpid, name in used.select(*who, "process").unique(who, maintain_order=True).rows():
        parent = writer.process(host, vpid, name)
        of_one = used.filter((pl.col("host") == host) & (pl.col("vpid") == vpid))
        for counter in counters:
            values = of_one.select("time_ns", pl.col(counter).alias("value")).filter(
                pl.col("value").is_not_null() & pl.col("value").is_finite()
            )
            if values.height:
                track = writer.track(
                    ("counter", host, vpid, counter), parent=parent, name=counter, counter=b""
                )
                values = values.with_columns(pl.lit(track, dtype=pl.UInt64).alias("track"))
                writer.events(values, COUNTER, order=1)
