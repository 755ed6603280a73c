"""The golden figures a second time: plain Python over the raw events, numpy and scipy.

Nothing of `roslens.collectors.ros2` nor of `analysis` is used: messages are joined here by what the
middleware stamped on them (by order within a process, where every message arrives), a thread's
events are walked through one after the other, percentiles are numpy's ``median_unbiased`` (type 8
of Hyndman and Fan), intervals scipy's Student t over runs.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

Event = Mapping[str, Any]
Key = tuple[int, int]
"""A process, and an address in it."""


@dataclass
class Delivery:
    """A publication on the work topic, and what became of it."""

    first_ns: int
    rmw_ns: int | None
    take_ns: int | None = None
    rclcpp_take_ns: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None


@dataclass
class Facts:
    """What one run says of its work topic."""

    cell: Mapping[str, Any]
    sent: list[Delivery] = field(default_factory=list)
    starts_ns: list[int] = field(default_factory=list)
    services: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    resources: pl.DataFrame | None = None
    logged: list[dict[str, str]] = field(default_factory=list)

    @property
    def delivered(self) -> list[Delivery]:
        """Those whose callback ran."""
        return [d for d in self.sent if d.start_ns is not None]

    @property
    def latencies_ns(self) -> list[int]:
        """First publish event to callback_start."""
        return [d.start_ns - d.first_ns for d in self.delivered if d.start_ns is not None]


def events_of(run: Path) -> Iterator[Event]:
    """All events of a run, in order of time."""
    rows = []
    for path in (run / "events" / "ros2").glob("*.parquet"):
        rows += [row | {"event": path.stem} for row in pl.read_parquet(path).iter_rows(named=True)]
    # Of one time: within a thread, in which they cannot be at once, the clock's grain.
    return iter(sorted(rows, key=lambda row: (row["time_ns"], row["vtid"])))


class Walk:
    """One run's events, one after the other."""

    def __init__(self, topic: str, facts: Facts) -> None:
        self.topic, self.facts = topic, facts
        self.topics: dict[tuple[str, Key], str] = {}
        self.callbacks: dict[Key, Key] = {}
        self.buffers: dict[Key, Key] = {}
        self.services: dict[Key, str] = {}
        self.open: dict[Any, int] = {}
        self.taken: dict[Any, tuple[Delivery | None, bool]] = {}
        self.running: dict[Any, list[tuple[int, Delivery | None]]] = defaultdict(list)
        self.stamped: dict[int, Delivery] = {}
        self.queue: list[Delivery] = []
        self.requests: dict[tuple[int, int, int], int] = {}
        self.subscribed = False
        self.handles: dict[Key, Key] = {}

    def take(self, event: Event) -> None:
        """Go on by one event."""
        step: Callable[[Event, Any], None] | None = getattr(self, f"on_{event['event']}", None)
        if step is not None:
            step(event, (event["vpid"], event["vtid"]))

    @staticmethod
    def key(event: Event, name: str) -> Key:
        return event["vpid"], event[name]

    # ------------------------------------------------------------ what there is

    def on_rcl_publisher_init(self, e: Event, _: Any) -> None:
        self.topics["publisher", self.key(e, "publisher_handle")] = e["topic_name"]
        self.topics["rmw", self.key(e, "rmw_publisher_handle")] = e["topic_name"]

    def on_rcl_subscription_init(self, e: Event, _: Any) -> None:
        self.topics["subscription", self.key(e, "subscription_handle")] = e["topic_name"]
        self.topics["rmw", self.key(e, "rmw_subscription_handle")] = e["topic_name"]
        self.subscribed |= e["topic_name"] == self.topic

    def on_rclcpp_subscription_init(self, e: Event, _: Any) -> None:
        self.handles[self.key(e, "subscription")] = self.key(e, "subscription_handle")

    def on_rclcpp_subscription_callback_added(self, e: Event, _: Any) -> None:
        self.callbacks[self.key(e, "callback")] = self.key(e, "subscription")

    def on_rclcpp_buffer_to_ipb(self, e: Event, _: Any) -> None:
        self.buffers[self.key(e, "buffer")] = self.key(e, "ipb")

    def on_rclcpp_ipb_to_subscription(self, e: Event, _: Any) -> None:
        self.buffers[self.key(e, "ipb")] = self.key(e, "subscription")

    def is_of_topic(self, subscription: Key | None) -> bool:
        """Whether a subscription of rclcpp is one of the work topic."""
        handle = self.handles.get(subscription) if subscription else None
        return bool(handle) and self.topics.get(("subscription", handle)) == self.topic

    def on_rcl_client_init(self, e: Event, _: Any) -> None:
        self.services[self.key(e, "rmw_client_handle")] = e["service_name"]

    # ------------------------------------------------------------ publishing

    def on_rclcpp_publish(self, e: Event, thread: Any) -> None:
        self.open.setdefault(thread, e["time_ns"])

    def on_rcl_publish(self, e: Event, thread: Any) -> None:
        self.open.setdefault(thread, e["time_ns"])

    def on_rclcpp_intra_publish(self, e: Event, _: Any) -> None:
        if self.topics.get(("publisher", self.key(e, "publisher_handle"))) == self.topic:
            delivery = Delivery(e["time_ns"], None)
            self.facts.sent.append(delivery)
            self.queue.append(delivery)

    def on_rmw_publish(self, e: Event, thread: Any) -> None:
        first = self.open.pop(thread, e["time_ns"])
        topic = self.topics.get(("rmw", self.key(e, "rmw_publisher_handle")))
        if topic == self.topic and self.subscribed:
            delivery = Delivery(first, e["time_ns"])
            self.facts.sent.append(delivery)
            self.stamped[e["timestamp"]] = delivery

    # ------------------------------------------------------------ receiving

    def on_rmw_take(self, e: Event, thread: Any) -> None:
        topic = self.topics.get(("rmw", self.key(e, "rmw_subscription_handle")))
        if e["taken"] and topic == self.topic:
            delivery = self.stamped.get(e["source_timestamp"])
            if delivery is not None:
                delivery.take_ns = e["time_ns"]
            self.taken[thread] = (delivery, False)

    def on_rclcpp_take(self, e: Event, thread: Any) -> None:
        delivery, _ = self.taken.get(thread, (None, False))
        if delivery is not None:
            delivery.rclcpp_take_ns = e["time_ns"]

    def on_rclcpp_ring_buffer_dequeue(self, e: Event, thread: Any) -> None:
        queue = self.buffers.get(self.key(e, "buffer"))
        if queue and self.is_of_topic(self.buffers.get(queue)):
            delivery = self.queue.pop(0)
            delivery.take_ns = e["time_ns"]
            self.taken[thread] = (delivery, True)

    def on_callback_start(self, e: Event, thread: Any) -> None:
        delivery = None
        if self.is_of_topic(self.callbacks.get(self.key(e, "callback"))):
            self.facts.starts_ns.append(e["time_ns"])
            delivery, _ = self.taken.pop(thread, (None, False))
            if delivery is not None:
                delivery.start_ns = e["time_ns"]
        self.running[thread].append((e["callback"], delivery))

    def on_callback_end(self, e: Event, thread: Any) -> None:
        while self.running[thread]:
            callback, delivery = self.running[thread].pop()
            if callback == e["callback"]:
                if delivery is not None:
                    delivery.end_ns = e["time_ns"]
                return

    # ------------------------------------------------------------ services

    def on_rmw_send_request(self, e: Event, _: Any) -> None:
        self.requests[*self.key(e, "rmw_client_handle"), e["sequence_number"]] = e["time_ns"]

    def on_rmw_take_response(self, e: Event, _: Any) -> None:
        handle = self.key(e, "rmw_client_handle")
        sent = self.requests.pop((*handle, e["sequence_number"]), None)
        if e["taken"] and sent is not None and handle in self.services:
            self.facts.services[self.services[handle]].append(e["time_ns"] - sent)


def facts_of(run: Path) -> Facts:
    """Walk through a collected run."""
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    facts = Facts(manifest["factors"])
    with (run / "native" / "messages.csv").open(encoding="utf-8") as stream:
        facts.logged = list(csv.DictReader(stream))
    walk = Walk(manifest["work_topic"] or facts.logged[0]["topic"], facts)
    facts.logged = [row for row in facts.logged if row["topic"] == walk.topic]
    for event in events_of(run):
        walk.take(event)
    if (run / "resources.parquet").is_file():
        facts.resources = pl.read_parquet(run / "resources.parquet")
    return facts


# ---------------------------------------------------------------- one figure per run


def _percentile(q: float) -> Callable[[Facts], float]:
    return lambda facts: float(
        np.percentile(np.array(facts.latencies_ns, float), q, method="median_unbiased")
    )


def _mean(of: Callable[[Delivery], int | None]) -> Callable[[Facts], float]:
    def found(facts: Facts) -> float:
        values = [value for d in facts.delivered if (value := of(d)) is not None]
        return float(np.mean(values))

    return found


def _between(begin: str, end: str) -> Callable[[Delivery], int | None]:
    def found(delivery: Delivery) -> int | None:
        a, b = getattr(delivery, begin), getattr(delivery, end)
        return None if a is None or b is None else b - a

    return found


def _queue(delivery: Delivery) -> int | None:
    assert delivery.take_ns is not None
    sent = delivery.first_ns if delivery.rmw_ns is None else delivery.rmw_ns
    return delivery.take_ns - sent


def _dispatch(delivery: Delivery) -> int | None:
    # rclpy, and within a process: there is no rclcpp_take.
    taken = delivery.rclcpp_take_ns or delivery.take_ns
    assert delivery.start_ns is not None
    return None if taken is None else delivery.start_ns - taken


def _period(times: Sequence[int]) -> float:
    return (max(times) - min(times)) / (len(times) - 1)


def _cpu(facts: Facts) -> float:
    assert facts.resources is not None
    used = 0
    for _, part in facts.resources.drop_nulls("cpu_time_ns").group_by("host", "vpid"):
        times = part.sort("time_ns")["cpu_time_ns"]
        used += times[-1] - times[0]
    span = facts.resources["time_ns"].max() - facts.resources["time_ns"].min()  # type: ignore[operator]
    return float(used / span)  # type: ignore[operator]


METRICS: Mapping[str, Callable[[Facts], float]] = {
    "latency_mean": lambda facts: float(np.mean(facts.latencies_ns)),
    "latency_p50": _percentile(50),
    "latency_p90": _percentile(90),
    "latency_p99": _percentile(99),
    "latency_max": lambda facts: float(max(facts.latencies_ns)),
    "loss": lambda facts: 1 - len(facts.delivered) / len(facts.sent),
    "publisher_period": lambda facts: _period([d.first_ns for d in facts.sent]),
    "subscription_period": lambda facts: _period(facts.starts_ns),
    "callback_duration_mean": _mean(_between("start_ns", "end_ns")),
    "hop_publish_call": _mean(_between("first_ns", "rmw_ns")),
    "hop_queue_and_transport": _mean(_queue),
    "hop_take": _mean(_between("take_ns", "rclcpp_take_ns")),
    "hop_dispatch": _mean(_dispatch),
    "cpu": _cpu,
    "cpu_per_publication": lambda facts: _cpu(facts) * _span_ns(facts) / len(facts.sent),
}
"""What is computed here, from the facts of one run."""

SERVICES = "service_latency_mean"
"""Computed here too, per service."""

WITHOUT_INTERVAL = frozenset({"loss", "latency_max"})
"""Whose interval is not Student's t as it is: bounded, or of an extreme."""


def _span_ns(facts: Facts) -> float:
    assert facts.resources is not None
    times = facts.resources["time_ns"]
    return float(times.max() - times.min())  # type: ignore[operator]


def computed(estimate: Mapping[str, Any], sample: str) -> bool:
    """Whether a golden estimate is computed here too: of folders, the work topic, with a value."""
    return (
        not sample.endswith(".zst")
        and (estimate["metric"] in METRICS or estimate["metric"] == SERVICES)
        and estimate["value"] is not None
        and "topic" not in estimate["cell"]
    )


def figure(metric: str, runs: Sequence[Facts], service: str | None = None) -> tuple[float, ...]:
    """Mean over runs, and the bounds of its 95 % interval where there are several runs."""
    if metric == SERVICES:
        values = [float(np.mean(facts.services[service or ""])) for facts in runs]
    else:
        values = [METRICS[metric](facts) for facts in runs]
    mean = float(np.mean(values))
    if len(values) < 2:
        return (mean,)
    if len(set(values)) == 1:
        return (mean, mean, mean)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=mean, scale=stats.sem(values))
    return (mean, float(low), float(high))
