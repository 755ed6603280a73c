"""The golden figures a second time: plain Python over the raw events, numpy and scipy.

Nothing of `roslens.collectors.ros2` nor of `analysis` is used: what became of each message is told
by `reference_model`, which walks through the events one after the other; percentiles are numpy's
``median_unbiased`` (type 8 of Hyndman and Fan), intervals by scipy's Student t over runs.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import reference_model
from scipy import stats


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
    published_ns: list[int] = field(default_factory=list)
    logged: list[dict[str, str]] = field(default_factory=list)

    @property
    def delivered(self) -> list[Delivery]:
        """Those whose callback ran."""
        return [d for d in self.sent if d.start_ns is not None]

    @property
    def latencies_ns(self) -> list[int]:
        """First publish event to callback_start."""
        return [d.start_ns - d.first_ns for d in self.delivered if d.start_ns is not None]


def recorded_in(run: Path) -> dict[str, list[dict[str, Any]]]:
    """All events of a run, by name."""
    files = (run / "events" / "ros2").glob("*.parquet")
    return {f"ros2:{path.stem}": pl.read_parquet(path).to_dicts() for path in files}


def facts_of(run: Path) -> Facts:
    """What the reference model says of a collected run."""
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    facts = Facts(manifest["factors"])
    with (run / "native" / "messages.csv").open(encoding="utf-8") as stream:
        facts.logged = list(csv.DictReader(stream))
    topic = manifest["work_topic"] or facts.logged[0]["topic"]
    facts.logged = [row for row in facts.logged if row["topic"] == topic]
    tables = reference_model.tables(recorded_in(run))
    facts.sent = [
        Delivery(
            first_ns=row["publish_ns"],
            rmw_ns=None if row["intra_process"] else row["rmw_publish_ns"],
            take_ns=row["take_ns"],
            rclcpp_take_ns=row["rclcpp_take_ns"],
            start_ns=row["callback_start_ns"],
            end_ns=row["callback_end_ns"],
        )
        for row in tables["messages"]
        if row["topic"] == topic and row["subscription_id"] is not None
    ]
    facts.published_ns = [
        row["publish_ns"]
        for row in tables["messages"]
        if row["publish_ns"] is not None
        and row["topic"] not in {None, "/rosout", "/parameter_events", "/tf_static", "/clock"}
    ]
    facts.starts_ns = [
        row["start_ns"]
        for row in tables["callback_instances"]
        if row["kind"] == "subscription" and row["name"] == topic
    ]
    for row in tables["service_calls"]:
        if None not in (row["response_taken_ns"], row["request_sent_ns"]):
            took = row["response_taken_ns"] - row["request_sent_ns"]
            facts.services[row["service"]].append(took)
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


def _part(facts: Facts) -> tuple[int, int]:
    """From the first to the last message, as far as there are samples; no workload says ready."""
    assert facts.resources is not None
    times = facts.resources["time_ns"].to_list()
    begin, end = min(facts.published_ns), max(facts.published_ns)
    return max(begin, min(times)), min(end, max(times))


def _cpu_ns(facts: Facts) -> float:
    assert facts.resources is not None
    used = 0.0
    for _, part in facts.resources.drop_nulls("cpu_time_ns").group_by("host", "vpid"):
        rows = part.sort("time_ns").select("time_ns", "cpu_time_ns").rows()
        for (a, before), (b, after) in itertools.pairwise(rows):
            begin, end = _part(facts)
            inside = max(0, min(b, end) - max(a, begin))
            used += (after - before) * inside / (b - a)
    return used


def _cpu(facts: Facts) -> float:
    begin, end = _part(facts)
    return _cpu_ns(facts) / (end - begin)


def _cpu_per_publication(facts: Facts) -> float:
    begin, end = _part(facts)
    return _cpu_ns(facts) / sum(begin <= d.first_ns <= end for d in facts.sent)


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
    "cpu_per_publication": _cpu_per_publication,
}
"""What is computed here, from the facts of one run."""

SERVICES = "service_latency_mean"
"""Computed here too, per service."""

WITHOUT_INTERVAL = frozenset({"loss", "latency_max"})
"""Whose interval is of another form: bounded, or of an extreme."""


LOGGED = {"lifecycle": "/cell_data"}
"""The topic of `facts_of` in samples whose manifests name no work topic."""


def computed(estimate: Mapping[str, Any], sample: str) -> bool:
    """Whether a golden estimate is computed here too: of folders, one topic, with a value."""
    return (
        not sample.endswith(".zst")
        and (estimate["metric"] in METRICS or estimate["metric"] == SERVICES)
        and estimate["value"] is not None
        and estimate["cell"].get("topic") in {None, LOGGED.get(sample)}
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
    # Of quantities that cannot be negative: Student's t on the logs below, and wider above.
    h = float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)) / mean
    return (mean, mean * math.exp(-h), mean * (1 + (1 + 1.2 / math.sqrt(len(values))) * h))
