"""Compute from the tables, a second time, what each notebook must write for each sample.

Plain Python, numpy and scipy, written from the definitions of the metrics and docs/calibration.md;
nothing of `roslens.analysis` is used. tests/ros2/test_twin.py checks the tables against a second
model of the raw events. Which chains there are, and what climbs, is known from the samples'
programs, their logs and factors.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Row = Mapping[str, Any]
Cell = Mapping[str, Any]

SYSTEM = {"/rosout", "/parameter_events", "ros_discovery_info", "/tf_static", "/clock"}
LOST = {"lost", "replaced", "overwritten"}
SENT = {*LOST, "delivered", "taken"}
CHAINS = {
    "demo": (
        "/publisher -> /fibonacci.goal -> /subscriber -> /fibonacci.result -> /publisher",
        "/publisher -> /status.request -> /subscriber -> /status.response -> /publisher",
        "/publisher -> /samples -> /subscriber",
    ),
    "communication": ("/comm -> /topic_0 -> /comm",),
    "communication_shared": ("/comm -> /topic_0 -> /comm",),
    "lifecycle": ("/cell -> /cell_data -> /listener",),
    "two_process": ("/talker -> /data -> /listener",),
    "leak.tar.zst": ("/talker -> /data -> /listener",),
    "chain.tar.zst": (
        "/source -> /a -> /node_b -> /b -> /node_c -> /c -> /sink",
        "/source2 -> /a2 -> /node_c -> /c -> /sink",
    ),
}
"""The chains of each sample, from the design of its programs."""


class Interval(NamedTuple):
    """A value with its bounds, or the numbers that a refusal's sentence must have."""

    value: float | None
    low: float | None = None
    high: float | None = None
    needs: Sequence[float] | None = None


class Expected(NamedTuple):
    """An estimate that metrics.json must contain."""

    metric: str
    cell: Cell
    interval: Interval
    verdict: str | None = None
    tolerance: float = 1e-9


@dataclass(frozen=True)
class Run:
    """One run of a sample: its tables, and what its manifest says."""

    name: str
    cell: Cell
    work_topic: str | None
    folder: Path
    opened: Any

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of one of its tables."""
        frame = self.opened.resources if name == "resources" else self.opened.table(name)
        rows: list[dict[str, Any]] = frame.filter(pl.col("run") == self.name).collect().to_dicts()
        return rows

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """Return the rows of the messages table, in order of publication."""
        late = math.inf
        return sorted(
            self.table("messages"),
            key=lambda m: late if m["publish_ns"] is None else m["publish_ns"],
        )

    @cached_property
    def instances(self) -> list[dict[str, Any]]:
        """Return the executions of callbacks, in order."""
        return sorted(self.table("callback_instances"), key=lambda i: i["start_ns"])

    @cached_property
    def topic(self) -> str:
        """Return the work topic, or the application's one topic that has a subscription."""
        if self.work_topic:
            return self.work_topic
        (topic,) = {m["topic"] for m in self.messages
                    if m["outcome"] != "no_subscriber" and _own(m["topic"])}  # fmt: skip
        return str(topic)

    @cached_property
    def heard(self) -> list[dict[str, Any]]:
        """Return the messages on that topic."""
        return [m for m in self.messages if m["topic"] == self.topic]

    @cached_property
    def part(self) -> tuple[int, int]:
        """Return the times of the application's first and last message; no workload says ready."""
        times = [m["publish_ns"] for m in self.messages
                 if m["topic"] not in SYSTEM and m["publish_ns"] is not None]  # fmt: skip
        return min(times), max(times)

    @cached_property
    def usage(self) -> dict[str, float]:
        """Return CPU time (ns), PSS and RSS (bytes) of all processes, and over which part."""
        of_process = defaultdict(list)
        for row in sorted(self.table("resources"), key=lambda r: r["time_ns"]):
            of_process[row["host"], row["vpid"]].append(row)
        sampled = [r["time_ns"] for rows in of_process.values() for r in rows]
        begin = max(self.part[0], min(sampled))
        end = min(self.part[1], max(sampled))
        usage = {"begin": begin, "end": end, "cpu_ns": 0.0, "pss": 0.0, "rss": 0.0}
        period = np.median(
            [step for rows in of_process.values() for step in np.diff([r["time_ns"] for r in rows])]
        )
        moments = np.linspace(begin, end, 1001)
        for rows in of_process.values():
            # A process is there at the moments that a sample of it is no further from than usual.
            since, until = rows[0]["time_ns"] - period / 2, rows[-1]["time_ns"] + period / 2
            there = float(np.mean((since <= moments) & (moments <= until)))
            timed = [r for r in rows if r["cpu_time_ns"] is not None]
            at = [r["time_ns"] - begin for r in timed]
            used = np.interp([0, end - begin], at, [r["cpu_time_ns"] for r in timed])
            usage["cpu_ns"] += float(used[1] - used[0])
            for name in ("pss", "rss"):
                # The first sample of a process is taken while the process is being loaded.
                levels = [r[f"{name}_bytes"] for r in rows[1:] if begin <= r["time_ns"] <= end]
                usage[name] += there * float(np.mean([v for v in levels if v is not None]))
        return usage

    @cached_property
    def memory(self) -> tuple[Floats, Floats, Floats]:
        """Return seconds since the first sample, RSS of all processes, publications until then."""
        of_process = defaultdict(list)
        for row in self.table("resources"):
            if row["rss_bytes"] is not None:
                of_process[row["host"], row["vpid"]].append((row["time_ns"], row["rss_bytes"]))
        times = sorted({t for rows in of_process.values() for t, _ in rows})
        # A process has ended if others were sampled at least twice after it.
        patience = 2 * int(np.median(np.diff(times)))
        total = []
        for now in times:
            held = 0
            for rows in of_process.values():
                before = [size for t, size in sorted(rows) if t <= now]
                if before and now <= max(rows)[0] + patience:
                    held += before[-1]
            total.append(held)
        # Without a named work topic, all that the application publishes is its work.
        work = [m for m in self.messages if m["topic"] == self.work_topic
                or (self.work_topic is None and _own(m["topic"]))]  # fmt: skip
        published = sorted({m["message_id"]: m["publish_ns"] for m in work}.values())
        count = [sum(p <= now for p in published) for now in times]
        while times[-1] > published[-1]:
            times.pop()
        n = len(times)
        seconds = (np.array(times) - times[0]) / 1e9
        return seconds, np.array(total[:n], float), np.array(count[:n], float)

    @cached_property
    def logged(self) -> dict[int, dict[str, int | None]]:
        """Return what the program logged about each publication on the topic, by message_id."""
        frame = self.opened.logged_messages.filter(
            (pl.col("run") == self.name) & (pl.col("topic") == self.topic)
        )
        lines = sorted(frame.to_dicts(), key=lambda line: line["publish_realtime_ns"])
        published = {m["message_id"]: m["publish_ns"] for m in self.heard}
        assert len(lines) == len(published)
        by_time = sorted(published, key=lambda message: published[message])
        return dict(zip(by_time, lines, strict=True))


def runs_of(opened: Any) -> list[Run]:
    """Return the runs of an opened sample, in the order of their cells."""
    runs = [Run(run.name, dict(recording.manifest.factors), recording.manifest.work_topic,
                recording.path, opened)
            for run, recording in zip(opened.runs, opened.recordings, strict=True)]  # fmt: skip
    return sorted(runs, key=lambda run: tuple(run.cell.values()))


def _cells(runs: Iterable[Run]) -> list[list[Run]]:
    return [list(members) for _, members in itertools.groupby(runs, key=lambda run: run.cell)]


def _own(topic: str) -> bool:
    return topic not in SYSTEM and "/_" not in topic


# ---------------------------------------------------------------- statistics over runs


def over_runs(
    values: Sequence[float], scale: Literal["positive", "fraction", "signed"] = "positive"
) -> Interval:
    """Return the mean of one value per run, with the t interval (95 %) of docs/calibration.md."""
    k = len(values)
    if k == 0:
        return Interval(None, needs=[3])
    mean = float(np.mean(values))
    if k < 3:
        return Interval(mean, needs=[k, 3])
    half = float(stats.t.ppf(0.975, k - 1) * stats.sem(values))
    if scale == "fraction":
        return Interval(mean, max(0.0, mean - half), min(1.0, mean + half))
    if scale == "signed":
        return Interval(mean, mean - half, mean + half)
    h = half / mean if mean else 0.0
    return Interval(mean, mean * math.exp(-h), mean * (1 + (1 + 1.2 / math.sqrt(k)) * h))


def mean(runs: Sequence[Sequence[float]]) -> Interval:
    """Return the mean over runs of the mean of each run that has samples."""
    return over_runs([float(np.mean(run)) for run in runs if len(run)])


def largest(runs: Sequence[Sequence[float]]) -> Interval:
    """Return the mean over runs of the largest sample; runs must be about equally long."""
    sizes = [len(run) for run in runs if len(run)]
    interval = over_runs([max(run) for run in runs if len(run)])
    if interval.needs is None and max(sizes) > 1.5 * min(sizes):
        return Interval(interval.value, needs=[min(sizes), max(sizes)])
    return interval


def percentile(runs: Sequence[Sequence[float]], q: float, rate_hz: float | None = None) -> Interval:
    """Return type 8 of Hyndman and Fan per run; refuse too few samples beyond the quantile."""
    arrays = [np.sort(np.asarray(run, float)) for run in runs if len(run)]
    values = [_type_8(array, q) for array in arrays]
    if math.inf in values:
        return Interval(None, needs=[values.count(math.inf), len(values), 100 * (1 - q)])
    interval = over_runs(values)
    fewest = min((len(array) for array in arrays), default=0)
    # With fewer samples, all of them miss the percentile with a probability above 5 %.
    least = next(n for n in itertools.count(1) if q**n + (1 - q) ** n <= 0.05)
    if arrays and fewest < least:
        return Interval(None, needs=[fewest, 100 * q, least])
    if interval.needs is not None:
        return interval
    effective = fewest / _correlation_time([np.asarray(run, float) for run in runs if len(run)], q)
    needed = math.ceil(round(5 / min(q, 1 - q), 6))
    if round(effective) >= needed:
        return interval
    wanted = math.ceil(needed * fewest / effective)
    seconds = [] if rate_hz is None else [wanted / rate_hz]
    needs = [round(effective), fewest, 100 * q, needed, wanted, *seconds]
    return Interval(interval.value, needs=needs)


def _type_8(ordered: Floats, q: float) -> float:
    finite = ordered[np.isfinite(ordered)]
    if finite.size == ordered.size:
        return float(np.percentile(ordered, 100 * q, method="median_unbiased"))
    # numpy gives nan beside an infinity; the infinity counts as soon as it has any weight.
    position = (ordered.size + 1 / 3) * q + 1 / 3
    if position > finite.size:
        return math.inf
    return float(np.interp(position, np.arange(1, finite.size + 1), finite))


def _correlation_time(runs: Sequence[Floats], q: float) -> float:
    """Return the correlation time of exceeding the quantile, over all runs.

    Geyer's initial monotone sequence is used.
    """
    total = np.zeros(max(run.size for run in runs))
    for run in runs:
        above = (run > np.sort(run)[int(q * (run.size - 1))]).astype(float)
        deviation = above - above.mean()
        total[: run.size] += np.correlate(deviation, deviation, "full")[run.size - 1 :]
    rho = total / total[0]
    pairs = [a + b for a, b in zip(rho[0::2], rho[1::2], strict=False)]
    pairs = list(itertools.takewhile(lambda pair: pair > 0, pairs))
    return float(max(1.0, 2 * sum(itertools.accumulate(pairs, min)) - 1))


def fraction(events: Sequence[int], totals: Sequence[int]) -> Interval:
    """Return a fraction over runs as docs/calibration.md does: overdispersed, at least binomial."""
    parts = [e / n for e, n in zip(events, totals, strict=True) if n]
    k, total = len(parts), sum(totals)
    if k < 3:
        return over_runs(parts)
    p = float(np.mean(parts))
    if p > 0.5:
        complement = fraction([n - e for e, n in zip(events, totals, strict=True)], totals)
        if complement.low is None or complement.high is None:
            return Interval(p, needs=complement.needs)
        return Interval(p, 1 - complement.high, 1 - complement.low)
    if p == 0:
        assert k < 29
        return Interval(p, needs=[k, total, k, round(100 * 0.9**k), 29])
    binomial = p * (1 - p) * sum(1 / n for n in totals) / k**2
    h = float(stats.t.ppf(0.975, k - 1)) * max(float(stats.sem(parts)), math.sqrt(binomial)) / p
    seen = p * (1 + (1 + 1.2 / math.sqrt(k)) * h)
    # A kind of run that did not occur may lose up to twenty times as much.
    u = 1 - 0.05 ** (1 / k)
    high = min(1.0, (1 - u) * seen + u * min(1.0, 20 * seen))
    return Interval(p, 0.0 if sum(events) <= 20 else p * math.exp(-h), high)


def bounded(events: Sequence[int], totals: Sequence[int], unknown: Sequence[int]) -> Interval:
    """Return a fraction if it is unknown of some, which come on top of `totals`, what they are.

    From none of them being an event to all of them (Horowitz and Manski 2000); without a value if
    that is further than none of as many would leave open (Clopper and Pearson), and further than
    the shorter side of the interval, twice.
    """
    known = fraction(events, totals)
    if not sum(unknown):
        return known
    alls = [n + u for n, u in zip(totals, unknown, strict=True)]
    least = fraction(events, alls)
    most = fraction([e + u for e, u in zip(events, unknown, strict=True)], alls)
    assert least.value is not None
    assert most.value is not None
    chance = 1 - 0.025 ** (1 / sum(alls))
    if known.value is not None and known.low is not None and known.high is not None:
        chance = max(chance, 2 * min(known.value - known.low, known.high - known.value))
    if known.value is None or most.value - least.value > chance:
        bounds = 100 * least.value, 100 * most.value
        return Interval(None, needs=[sum(unknown), sum(alls), *bounds])
    lows, highs = zip(*((i.low, i.high) for i in (known, least, most)), strict=True)
    if None in lows or None in highs:
        return known
    return Interval(known.value, min(map(float, lows)), max(map(float, highs)))


# ---------------------------------------------------------------- messages


def latencies(run: Run, topic: str, *, sent: bool = False) -> list[float]:
    """Return times from first publish event to callback_start; `sent`: lost ones are infinite."""
    times: list[float] = []
    for m in run.messages:
        if m["topic"] != topic:
            continue
        if m["outcome"] == "delivered":
            times.append(m["callback_start_ns"] - m["publish_ns"])
        elif sent and m["outcome"] in LOST:
            times.append(math.inf)
    return times


def of_topic(members: Sequence[Run], cell: Cell, topic: str | None = None) -> list[Expected]:
    """Expect latency of delivered and of sent messages, and loss; by default on `Run.topic`."""
    delivered = [latencies(run, topic or run.topic) for run in members]
    sent = [latencies(run, topic or run.topic, sent=True) for run in members]
    outcomes, rates = [], []
    for run, each in zip(members, sent, strict=True):
        messages = [m for m in run.messages if m["topic"] == (topic or run.topic)]
        outcomes.append([m["outcome"] for m in messages])
        assert "unknown" not in outcomes[-1]
        seconds = (messages[-1]["publish_ns"] - messages[0]["publish_ns"]) / 1e9
        if seconds > 0:
            rates.append(len(each) / seconds)
    rate = statistics.median(rates) if rates else None
    lost = [sum(o in LOST for o in of_run) for of_run in outcomes]
    totals = [sum(o in SENT for o in of_run) for of_run in outcomes]
    taken = sum(of_run.count("taken") for of_run in outcomes)
    # A message taken without a callback has no latency, though it arrived.
    refused = Interval(None, needs=[taken, sum(totals)]) if taken else None
    percentiles = [
        Expected(f"{name}_p{round(100 * q)}", cell, refusal or percentile(arrays, q, rate))
        for name, arrays, refusal in (("latency", delivered, None), ("latency_sent", sent, refused))
        for q in (0.5, 0.9, 0.99)
    ]
    return [
        Expected("latency_mean", cell, mean(delivered)),
        *percentiles,
        Expected("loss", cell, fraction(lost, totals)),
    ]


def latency(runs: Sequence[Run], _sample: str) -> list[Expected]:
    """Expect the estimates of the notebook latency."""
    named = all(run.work_topic for run in runs)
    expected = []
    for members in _cells(runs):
        cell = members[0].cell if named else {**members[0].cell, "topic": members[0].topic}
        expected += of_topic(members, cell)
    for members in _cells(runs):
        cell = members[0].cell if named else {**members[0].cell, "topic": members[0].topic}
        expected += of_callbacks(members, cell)
    expected += resources(runs)
    expected += services(runs)
    counts: dict[str, int] = defaultdict(int)
    for run in runs:
        for m in run.messages:
            counts[m["topic"]] += m["outcome"] != "no_subscriber" and m["topic"] != run.topic
    arrived = {m["topic"] for run in runs for m in run.messages if m["outcome"] == "delivered"}
    heard = [topic for topic, count in counts.items() if count]
    order = sorted(heard, key=lambda t: (not _own(t), t not in arrived, -counts[t], t))
    callbacks = []
    for topic in order:
        with_topic = [run for run in runs
                      if any(m["topic"] == topic and m["outcome"] != "no_subscriber"
                             for m in run.messages)]  # fmt: skip
        for members in _cells(with_topic):
            cell = {**members[0].cell, "topic": topic}
            expected += of_topic(members, cell, topic)
            callbacks += of_callbacks(members, cell, topic)
    return expected + callbacks


def of_callbacks(members: Sequence[Run], cell: Cell, topic: str | None = None) -> list[Expected]:
    """Expect durations of the subscription callbacks on a topic, by default each run's."""
    took = [[i["end_ns"] - i["start_ns"] for i in run.instances
             if i["kind"] == "subscription" and i["name"] == (topic or run.topic)
             and i["end_ns"] is not None] for run in members]  # fmt: skip
    return [Expected("callback_duration_mean", cell, mean(took))] if any(took) else []


def resources(runs: Sequence[Run]) -> list[Expected]:
    """Expect CPU and memory of all processes, over the measured part."""
    expected = []
    for members in _cells(runs):
        used = [run.usage for run in members]
        cores = [u["cpu_ns"] / (u["end"] - u["begin"]) for u in used]
        for name, values in (("cpu", cores), ("pss", [u["pss"] for u in used]),
                             ("rss", [u["rss"] for u in used])):  # fmt: skip
            expected.append(Expected(name, members[0].cell, over_runs(values)))
    return expected


def _begin(called: int | None, sent: int | None, taken: int | None) -> int | None:
    """Return when a request was sent: its event follows the write, perhaps even the take."""
    if called is not None or sent is None:
        return called
    return sent if taken is None else min(sent, taken)


def services(runs: Sequence[Run]) -> list[Expected]:
    """Expect response times of services; only bounds if the trace does not show calls' begins."""
    expected = []
    names = {call["service"] for run in runs for call in run.table("service_calls")}
    for service in sorted(names):
        for members in _cells(runs):
            took: list[list[float]] = []
            measured = True
            for run in members:
                took.append([])
                for call in run.table("service_calls"):
                    if call["service"] == service and call["response_taken_ns"] is not None:
                        times = [call[f"request_{step}_ns"] for step in ("called", "sent", "taken")]
                        received = call["response_received_ns"] or call["response_taken_ns"]
                        begin = _begin(*times)
                        assert begin is not None
                        took[-1].append(max(received, call["request_sent_ns"]) - begin)
                        measured &= times[0] is not None
            cell = {**members[0].cell, "service": service}
            for name, of_calls in (("mean", mean(took)), ("p50", percentile(took, 0.5)),
                                   ("p90", percentile(took, 0.9))):  # fmt: skip
                interval = of_calls if measured else _at_least(of_calls)
                expected.append(Expected(f"service_latency_{name}", cell, interval))
    return expected


def _at_least(of_calls: Interval) -> Interval:
    """Return a refusal, as the trace does not show when calls began; its sentence has "ROS 2"."""
    least = [] if of_calls.value is None else [of_calls.value / 1e6]
    return Interval(None, needs=[*least, 2])


# ---------------------------------------------------------------- communication


def communication(runs: Sequence[Run], _sample: str) -> list[Expected]:
    """Expect the estimates of the notebook communication."""
    cells = _cells(runs)
    expected = []
    for name, of_run in (
        ("publisher_period", _published_every),
        ("subscription_period", _ran_every),
    ):
        expected += [Expected(name, members[0].cell, over_runs([of_run(run) for run in members]))
                  for members in cells]  # fmt: skip
    for members in cells:
        expected += of_topic(members, members[0].cell)
    for members in cells:
        behind = [_behind(run) for run in members]
        if not any(behind):
            continue
        seen = [float(np.median(counts)) for counts in behind]
        full = sum(_full(run, depth) for run, depth in zip(members, seen, strict=True))
        otherwise = f"queue_full in {full} of {len(members)} runs" if full else "queue_not_full"
        verdict = "queue_full" if full == len(members) else otherwise
        expected.append(Expected("queue_depth_seen", members[0].cell, over_runs(seen), verdict))
    for hop in HOPS:
        expected += _per_cell(f"hop_{hop}", cells, partial(_hop, hop), np.mean)
    expected += _per_cell("copy_after_callback_start", cells, _copied, np.median)
    expected += _per_cell("copy_before_publish_event", cells, _before, np.median)
    expected += _per_cell("logged_latency_mean", cells, _logged, np.mean)
    for members in cells:
        values = []
        for run in members:
            inside = {m["message_id"] for m in run.heard
                      if run.usage["begin"] <= m["publish_ns"] <= run.usage["end"]}  # fmt: skip
            values.append(run.usage["cpu_ns"] / len(inside))
        expected.append(Expected("cpu_per_publication", members[0].cell, over_runs(values)))
    return expected


def _per_cell(
    metric: str,
    cells: Sequence[Sequence[Run]],
    samples: Callable[[Run], Sequence[float]],
    statistic: Callable[[Sequence[float]], Any],
) -> list[Expected]:
    """Expect an estimate for each cell in which any run has samples."""
    expected = []
    for members in cells:
        values = [float(statistic(times)) for run in members if (times := samples(run))]
        if values:
            expected.append(Expected(metric, members[0].cell, over_runs(values)))
    return expected


def _period(times: Sequence[int]) -> float:
    return (max(times) - min(times)) / (len(times) - 1)


def _published_every(run: Run) -> float:
    times: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for m in run.heard:
        times[m["publisher_id"]].add((m["message_id"], m["publish_ns"]))
    return float(np.mean([_period([t for _, t in published]) for published in times.values()]))


def _ran_every(run: Run) -> float:
    times = defaultdict(list)
    for i in run.instances:
        if i["kind"] == "subscription" and i["name"] == run.topic:
            times[i["callback_id"]].append(i["start_ns"])
    return float(np.mean([_period(starts) for starts in times.values()]))


def _behind(run: Run) -> list[int]:
    """Return for each message taken the later publications by its publisher until the take."""
    published = {(m["publisher_id"], m["message_id"]): m["publish_ns"] for m in run.heard}
    return [sum(publisher == m["publisher_id"] and m["publish_ns"] < at <= m["take_ns"]
                for (publisher, _), at in published.items())
            for m in run.heard if m["take_ns"] is not None]  # fmt: skip


def _full(run: Run, seen: float) -> bool:
    """Return whether a message was pushed out, or half had depth - 1 others behind them."""
    depth = {s["subscription_id"]: s["queue_depth"] for s in run.table("subscriptions")}
    (subscription,) = {m["subscription_id"] for m in run.heard if m["subscription_id"] is not None}
    pushed = any(m["outcome"] in {"replaced", "overwritten"} for m in run.heard)
    return pushed or seen >= depth[subscription] - 1 > 0


HOPS = ("publish_call", "queue_and_transport", "take", "dispatch")


def _hop(wanted: str, run: Run) -> list[float]:
    """Return the latency of one hop; a hop without an event extends into the next."""
    ends = ("rmw_publish_ns", "take_ns", "rclcpp_take_ns", "callback_start_ns")
    times = []
    for m in run.heard:
        if m["outcome"] == "delivered":
            last = m["publish_ns"]
            for hop, end in zip(HOPS, ends, strict=True):
                if m[end] is not None:
                    if hop == wanted:
                        times.append(m[end] - last)
                    last = m[end]
    return times


def _received(run: Run) -> list[tuple[Row, Row]]:
    """Return the messages whose callback ran and was logged; one subscription has them."""
    pairs = [(m, run.logged[m["message_id"]]) for m in run.heard
             if m["callback_start_ns"] is not None]  # fmt: skip
    return [(m, line) for m, line in pairs if line["callback_realtime_ns"] is not None]


def _copied(run: Run) -> list[float]:
    """Return copy times: a unique_ptr callback gets a copy of a message from the middleware."""
    owned = [c for c in run.table("callbacks") if c["kind"] == "subscription"
             and c["name"] == run.topic and "unique_ptr<" in (c["symbol"] or "")]  # fmt: skip
    return [line["callback_realtime_ns"] - m["callback_start_ns"]
            for m, line in _received(run) if owned and not m["intra_process"]]  # fmt: skip


def _before(run: Run) -> list[float]:
    return [m["publish_ns"] - run.logged[m["message_id"]]["publish_realtime_ns"]
            for m in {m["message_id"]: m for m in run.heard}.values()]  # fmt: skip


def _logged(run: Run) -> list[float]:
    return [line["callback_realtime_ns"] - line["publish_realtime_ns"]
            for _, line in _received(run)]  # fmt: skip


# ---------------------------------------------------------------- executors


def executors(runs: Sequence[Run], _sample: str) -> list[Expected]:
    """Expect the estimates of the notebook executors."""
    expected = []
    for members in _cells(runs):
        took = [latencies(run, run.topic) for run in members]
        cell = members[0].cell
        expected += [
            Expected("latency_mean", cell, mean(took)),
            Expected("latency_p50", cell, percentile(took, 0.5)),
            Expected("latency_p99", cell, percentile(took, 0.99)),
            Expected("latency_max", cell, largest(took)),
        ]
    expected += resources(runs)
    for members in _cells(runs):
        busy = [_busy(run) for run in members]
        for name in ("wait", "callbacks", "blocked", "overhead"):
            values = [b[name] for b in busy if name in b]
            interval = over_runs(values, "fraction") if values else Interval(None, needs=[])
            expected.append(Expected(f"executor_{name}", members[0].cell, interval))
    return expected


def _busy(run: Run) -> dict[str, float]:
    """Return parts of the time, mean over threads; without executor events only callbacks'."""
    threads = defaultdict(list)
    for i in run.table("executor_intervals"):
        if i["duration_ns"] is not None:
            threads[i["vpid"], i["vtid"]].append(i)
    if not threads:
        return {"callbacks": _in_callbacks(run)}
    parts = []
    for rows in threads.values():
        states: dict[str, int] = defaultdict(int)
        for i in rows:
            # A callback that spins waits inside of itself: that is the callback's time.
            inside = i["callback_ns"] if i["state"] == "wait" else 0
            states[i["state"]] += i["duration_ns"] - inside
            states["callbacks"] += i["callback_ns"]
        whole = sum(i["duration_ns"] for i in rows)
        parts.append([states[state] / whole for state in ("wait", "callbacks", "blocked")])
    wait, callbacks, blocked = map(float, np.mean(parts, axis=0))
    return {"wait": wait, "callbacks": callbacks, "blocked": blocked,
            "overhead": 1 - wait - callbacks - blocked}  # fmt: skip


def _in_callbacks(run: Run) -> float:
    begin, end = run.part
    threads: dict[tuple[int, int], int] = defaultdict(int)
    until: dict[tuple[int, int], int] = defaultdict(int)
    for i in run.instances:
        thread = i["vpid"], i["vtid"]
        if i["end_ns"] is None or i["end_ns"] <= begin or i["start_ns"] >= end:
            continue
        # Nested executions count once.
        since, last = max(i["start_ns"], begin, until[thread]), min(i["end_ns"], end)
        threads[thread] += max(0, last - since)
        until[thread] = max(until[thread], last)
    return float(np.mean([inside / (end - begin) for inside in threads.values()]))


# ---------------------------------------------------------------- chains


class Passage(NamedTuple):
    """A message along a chain: its begin and end, and its outcome."""

    begin_ns: int
    end_ns: int | None
    outcome: str
    measured: bool = True
    """Whether the trace tells when it began; if not, it took at least that long."""


def chains(runs: Sequence[Run], sample: str) -> list[Expected]:
    """Expect the estimates of the notebook chains."""
    expected = []
    for chain in CHAINS[sample]:
        for members in _cells(runs):
            cell = {**members[0].cell, "chain": chain}
            each = [sorted(_passages(run, chain)) for run in members]
            done = [[p for p in passages if p.outcome == "complete"] for passages in each]
            # Of those that may have arrived nobody can say whether they did; nothing shows that
            # one to a subscription that was not matched had anywhere to go.
            unknown = [
                sum(p.outcome in {"unknown", "unfinished", "taken"} for p in passages)
                for passages in each
            ]
            totals = [
                sum(p.outcome != "not_matched" for p in passages) - open_ones
                for passages, open_ones in zip(each, unknown, strict=True)
            ]
            complete = [len(of_run) for of_run in done]
            took = [
                [p.end_ns - p.begin_ns for p in passages if p.end_ns is not None]
                for passages in done
            ]
            worst = [[late.end_ns - early.begin_ns for early, late in itertools.pairwise(passages)
                      if late.end_ns is not None] for passages in done]  # fmt: skip
            rates = [_rate(run, passages)
                     for run, passages in zip(members, done, strict=True)]  # fmt: skip
            # The trace does not tell which of two waiting messages was used first: the rows are
            # marked approximate, and some pairs are exchanged, which leaves the mean as it is.
            far = 0.05 if "/a2" in chain else 1e-9
            times = {"mean": mean(took), "p50": percentile(took, 0.5), "p90": percentile(took, 0.9),
                     "p99": percentile(took, 0.99), "max": largest(took),
                     "worst": largest(worst)}  # fmt: skip
            measured = all(p.measured for passages in done for p in passages)
            expected += [
                Expected("chain_complete", cell, bounded(complete, totals, unknown)),
                *(Expected(f"response_time_{name}", cell, value if measured else _at_least(value),
                           None, 1e-9 if name == "mean" else far) for name, value in times.items()),
                Expected("chain_rate", cell, over_runs(rates)),
            ]  # fmt: skip
    return expected


def _rate(run: Run, done: Sequence[Passage]) -> float:
    """Of messages that reached the end (Hz); until the measured part ends after a long silence."""
    ends = sorted({p.end_ns for p in done if p.end_ns is not None})
    begin, end = run.part
    if len(ends) < 2:
        return 1e9 * len(ends) / (end - begin)
    longest = max(late - early for early, late in itertools.pairwise(ends))
    until = end if end - ends[-1] > longest else ends[-1]
    return 1e9 * (len(ends) - 1) / (until - ends[0])


def _passages(run: Run, chain: str) -> list[Passage]:
    topics = chain.split(" -> ")[1::2]
    first, last = topics[0], topics[-1]
    if first.endswith((".goal", ".request")):
        return _calls(run, first)
    begins, ends = ([m for m in run.messages if m["topic"] == topic] for topic in (first, last))
    if first == last:
        return [Passage(m["publish_ns"], m["callback_end_ns"], _outcome(m)) for m in begins]
    # The program's own log of every stage tells which publication came of which.
    log = pl.read_csv(run.folder / "samples.csv")
    of_sample = [m for _, m in sorted(zip(log[f"{last[1:]}_publish_realtime_ns"].arg_sort(), ends,
                                          strict=True), key=lambda pair: pair[0])]  # fmt: skip
    assert log[f"{first[1:]}_publish_realtime_ns"].is_sorted()
    return [Passage(m["publish_ns"], end["callback_end_ns"], _outcome(end))
            for m, end in zip(begins, of_sample, strict=True)]  # fmt: skip


def _outcome(last: Row) -> str:
    if last["outcome"] != "delivered":
        return str(last["outcome"])
    return "unfinished" if last["callback_end_ns"] is None else "complete"


def _calls(run: Run, first: str) -> list[Passage]:
    """Return the calls of a service, or goals of an action, answered or not."""
    name, _, kind = first.rpartition(".")
    table, key, end = (
        ("action_goals", "action", "result_taken_ns")
        if kind == "goal"
        else ("service_calls", "service", "response_taken_ns")
    )
    passages = []
    for call in run.table(table):
        begin = _begin(*(call[f"{kind}_{step}_ns"] for step in ("called", "sent", "taken")))
        if call[key] == name and begin is not None:
            outcome = "unknown" if call[end] is None else "complete"
            measured = call[f"{kind}_called_ns"] is not None
            passages.append(Passage(begin, call[end], outcome, measured))
    return passages


# ---------------------------------------------------------------- leaks

PAGES = 2 * 4096
"""No slope of resident memory is known better than to two pages."""


def leaks(runs: Sequence[Run], _sample: str, found: Sequence[Row]) -> list[Expected]:
    """Expect the estimates of the notebook leaks.

    The bend of memory is taken from what was `found` (tests/analysis/test_leaks.py tests it); what
    follows from the bend is computed.
    """
    expected = []
    starts = []
    for members, estimate in zip(_cells(runs), found[::2], strict=False):
        cell = members[0].cell
        end = min(run.memory[0][-1] for run in members)
        begin = min(5.0, end / 10)
        about = re.search(r"from ([\d.]+) s to ([\d.]+) s after the first sample(.*); per second",
                          str(estimate["definition"]))  # fmt: skip
        assert about, estimate["definition"]
        assert float(about[1]) == float(f"{begin:g}")
        assert float(about[2]) == float(f"{end:.4g}")
        since = re.fullmatch(r", after the (?:bend|last step) at ([\d.]+) s", about[3])
        assert since or not about[3], about[3]
        last = float(since[1]) if since else begin
        if "step" in about[3]:
            last += 0.01 * (end - begin)
        whole, _ = _after(members, begin, end)
        starts += [
            (cell, float(np.median(size[: max(1, size.size // 20)]))) for _, size, _ in whole
        ]
        if since:
            end = min(float(seconds[-1]) for seconds, _, _ in whole)
        # The bend is given to three digits: a sample within its rounding may lie on either side.
        rounding = 0.5 * 10 ** (math.floor(math.log10(last)) - 2) if since else 0.0
        near = [s for run in members for s in run.memory[0] if abs(s - last) <= rounding]
        parts, slopes = min(
            (_after(members, at, end) for at in [last - rounding, *np.nextafter(near, math.inf)]),
            key=lambda after: abs(float(np.mean(after[1])) - estimate["value"]),
        )
        of_messages = [_theil_sen(messages, size) for _, size, messages in parts]
        single = len(members) == 1
        a, b = (_line(parts[0][0], parts[0][1]), _line(parts[0][2], parts[0][1])) if single else (
            over_runs(slopes, "signed"), over_runs(of_messages, "signed"))  # fmt: skip
        per_second = _with_pages(a, min(float(seconds[-1] - seconds[0]) for seconds, _, _ in parts))
        per_message = _with_pages(
            b, min(float(messages[-1] - messages[0]) for _, _, messages in parts)
        )
        # Ten seconds are too few for a verdict; the longer sample leaks as its factor says.
        leaked = cell.get("leak_bytes_per_message")
        verdict = "not_enough_evidence" if leaked is None else "climbs" if leaked else "stable"
        expected += [
            Expected("memory_slope", cell, per_second, verdict),
            Expected("memory_slope_per_message", cell, per_message, verdict),
        ]
    for cell, of_cell in itertools.groupby(starts, key=lambda start: start[0]):
        values = [value for _, value in of_cell]
        expected.append(Expected("memory_baseline", cell, over_runs(values)))
    return expected


def _after(
    members: Sequence[Run], begin: float, end: float
) -> tuple[list[tuple[Floats, Floats, Floats]], list[float]]:
    """Return seconds, memory and messages of each run in this part, and its slope."""
    parts = []
    for run in members:
        inside = (run.memory[0] >= begin) & (run.memory[0] <= end)
        parts.append((run.memory[0][inside], run.memory[1][inside], run.memory[2][inside]))
    return parts, [_theil_sen(seconds, size) for seconds, size, _ in parts]


def _theil_sen(x: Floats, y: Floats) -> float:
    """Return scipy's slope of at most 400 means of stretches."""
    if x.size > 400:
        stretches = np.split(np.arange(x.size), np.linspace(0, x.size, 401).astype(int)[1:-1])
        x, y = (np.array([v[s].mean() for s in stretches]) for v in (x, y))
    return float(stats.theilslopes(y, x)[0])


def _with_pages(interval: Interval, length: float) -> Interval:
    if interval.value is None or interval.low is None or interval.high is None:
        return interval
    least = max((interval.high - interval.low) / 2, PAGES / length)
    return Interval(interval.value, interval.value - least, interval.value + least)


def _line(x: Floats, y: Floats) -> Interval:
    """Fit least squares with AR(1) errors (Cochrane and Orcutt, 1949); n - 3 degrees of freedom."""
    x, y = x - x.mean(), y - y.mean()
    if not y.any():
        return Interval(0.0, 0.0, 0.0)
    phi = 0.0
    for _ in range(500):
        fit = stats.linregress(x[1:] - phi * x[:-1], y[1:] - phi * y[:-1])
        rest = y - fit.slope * x - fit.intercept / (1 - phi)
        rest -= rest.mean()
        before, phi = phi, float(np.mean(rest[1:] * rest[:-1]) / np.mean(rest**2))
        if abs(phi - before) < 1e-13:
            break
    n = x.size
    # Of the n - 1 points that linregress counts, two are spent on the line.
    half = float(stats.t.ppf(0.975, n - 3) * fit.stderr)
    return Interval(float(fit.slope), float(fit.slope) - half, float(fit.slope) + half)


# ---------------------------------------------------------------- all of it

NOTEBOOKS: Mapping[str, Callable[[Sequence[Run], str], list[Expected]]] = {
    "latency": latency,
    "communication": communication,
    "executors": executors,
    "chains": chains,
}


def expected_of(
    notebook: str, sample: str, runs: Sequence[Run], found: Sequence[Row]
) -> list[Expected]:
    """Return what `found`, the estimates of metrics.json, must be, in order."""
    if notebook == "leaks":
        return leaks(runs, sample, found)
    return NOTEBOOKS[notebook](runs, sample) if notebook in NOTEBOOKS else []


def differences(expected: Sequence[Expected], found: Sequence[Row]) -> list[str]:
    """Return in words where `found` differs from `expected`; numbers agree to their tolerance."""
    written = [(e["metric"], e["cell"]) for e in found]
    wanted = [(e.metric, e.cell) for e in expected]
    if written != wanted:
        return [f"{a} instead of {b}" for a, b in itertools.zip_longest(written, wanted) if a != b]
    wrong = []
    for e, f in zip(expected, found, strict=True):
        about = f"{e.metric} in {dict(e.cell)}"
        for name in ("value", "low", "high"):
            want, have = getattr(e.interval, name), f[name]
            same = want is have if want is None or have is None else math.isclose(
                want, have, rel_tol=e.tolerance, abs_tol=1e-9)  # fmt: skip
            if not same:
                wrong.append(f"{name} of {about} is {have} instead of {want}")
        refusal = f["refused"]
        numbers = refusal and [
            float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*\.?\d*", refusal)
        ]
        needs = e.interval.needs
        if needs is not None:
            # Numbers that are not counts are given to three digits.
            needs = [need if isinstance(need, int) else float(f"{need:.3g}") for need in needs]
        if numbers != needs:
            wrong.append(f"{about}: {refusal!r} has not the numbers {needs}")
        if e.verdict != f["verdict"]:
            wrong.append(f"verdict of {about} is {f['verdict']} instead of {e.verdict}")
    return wrong
