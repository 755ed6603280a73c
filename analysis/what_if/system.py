"""Convert a timing model to the form that the simulation takes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from roslens.analysis.timing.schema import Samples, TimedCallback, TimingModel
from roslens.collectors._native import simulate
from roslens.collectors.topics import SYSTEM_TOPICS
from roslens.recording import UsageError

QUANTILES = (0.5, 0.99)
LEAST_BLOCKS = 20
"""Number of blocks a recording is cut into: fewer say little about its variation."""
_MOST_TIMES, _MOST = 100, 1_000_000
"""A simulation is given up beyond this multiple of the recorded executions plus this number."""
_ORDERS = {
    "SingleThreaded": "wait_set", "MultiThreaded": "wait_set",
    "Events": "events", "EventsCBG": "groups",
}  # fmt: skip
_CLASSES = {"timer": 0, "subscription": 1, "service": 2}
_WAITABLE = 4


def counting(model: TimingModel) -> list[int]:
    """Return the places of subscriptions of the application with a known topic and messages."""
    return [
        place
        for place, callback in enumerate(model.callbacks)
        if callback.kind == "subscription"
        and callback.waits_ns
        and callback.name is not None
        and callback.name not in SYSTEM_TOPICS
        and "/_" not in callback.name
    ]


def simulated(
    model: TimingModel,
    replications: int,
    seed: int | None,
    *,
    cpus: int | None = None,
    schedule: bool = False,
    quantiles: Sequence[float] = QUANTILES,
) -> dict[str, Any]:
    """Simulate a model repeatedly, each time for the length of its recording.

    Parameters
    ----------
    replications
        Number of simulations.
    seed
        Seed for the resampling of blocks; None: all samples in the recorded order.
    cpus
        Number of CPUs on which callbacks run; None: as recorded.
    schedule
        Whether to also return each execution: callback's place, ready, start, end (ns).
    quantiles
        Quantiles of the latency to return, 0..1.

    Returns
    -------
    ``executions``, ``lost``, ``busy`` (ns): a list per replication with one entry per callback.
    ``waits`` (ns): likewise, with one entry per quantile, and a last one for all that count.

    Raises
    ------
    UsageError
        Callbacks trigger each other without end.
    """
    system = _system(model, cpus)
    try:
        return simulate(system, counting(model), quantiles, replications, seed, schedule)
    except ValueError as error:
        raise UsageError(
            f"callbacks trigger each other without end: {error} in {model.length_ns / 1e9:.3g} s"
        ) from error


def _system(model: TimingModel, cpus: int | None) -> dict[str, object]:
    topics: dict[str, list[int]] = defaultdict(list)
    for place, callback in enumerate(model.callbacks):
        if callback.kind == "subscription" and callback.name is not None:
            topics[callback.name].append(place)
        topics[f"#{callback.id}"].append(place)
    numbers = {topic: number for number, topic in enumerate(topics)}
    names = [group_of(callback) for callback in model.callbacks]
    groups = {name: number for number, name in enumerate(dict.fromkeys(names))}
    reentrant = {n for n, c in zip(names, model.callbacks, strict=True) if c.reentrant}
    step = common_period_ns(model)
    return {
        "callbacks": [
            _callback(callback, groups[name], numbers, model.callbacks)
            for callback, name in zip(model.callbacks, names, strict=True)
        ],
        "executors": [
            {
                "order": _ORDERS[executor.kind],
                "threads": executor.threads,
                "interrupts": executor.kind == "MultiThreaded",
                "priority": executor.priority or 0,
                "polls": _series(executor.polls),
            }
            for executor in model.executors
        ],
        "exclusive": [name not in reentrant for name in groups],
        "topics": list(topics.values()),
        "sources": [
            {"at": source.at_ns, "topic": numbers[source.topic]}
            for source in model.sources
            if source.topic in numbers
        ],
        "length": model.length_ns,
        "block": -(-model.length_ns // (LEAST_BLOCKS * step)) * step,
        "step": step,
        "cpus": _cpus(model, cpus),
        "most": _MOST_TIMES * sum(len(callback.executions.value_ns) for callback in model.callbacks)
        + _MOST,
    }


def common_period_ns(model: TimingModel) -> int:
    """Return a common period of the timers that run most often, no longer than a block; else 1.

    Blocks that begin at its multiples contain these timers at their recorded phases, so that
    executions of one period stay together.
    """
    longest = model.length_ns // LEAST_BLOCKS
    common = 1
    timers = [callback for callback in model.callbacks if callback.period_ns]
    for timer in sorted(timers, key=lambda timer: -len(timer.executions.value_ns)):
        together = math.lcm(common, timer.period_ns or 1)
        common = together if together <= longest else common
    return common


def _cpus(model: TimingModel, asked: int | None) -> int | None:
    """Return the CPUs that limit a simulation; durations already include time lost as recorded."""
    if model.execution_time == "own":
        return asked or model.cpus
    return asked if asked is not None and (model.cpus is None or asked < model.cpus) else None


def group_of(callback: TimedCallback) -> str:
    """Return the callback group assumed for a callback: one per node where no group is known."""
    return callback.group or f"{callback.executor}|{callback.node}"


def _callback(
    callback: TimedCallback, group: int, numbers: dict[str, int], every: Sequence[TimedCallback]
) -> dict[str, object]:
    outputs: list[list[tuple[int, int]]] = [[] for _ in callback.executions.value_ns]
    for publication in callback.publications:
        if publication.topic in numbers:
            outputs[publication.execution].append(
                (publication.offset_ns, numbers[publication.topic])
            )
    waitable = callback.kind == "subscription" and callback.intra_process
    return {
        "kind": _WAITABLE if waitable else _CLASSES[callback.kind],
        "place": callback.place,
        "executor": callback.executor,
        "group": group,
        "depth": callback.queue_depth,
        "period": callback.period_ns,
        "phase": callback.phase_ns or 0,
        "lag": callback.lag_ns,
        "executions": _series(callback.executions),
        "outputs": [sorted(output) for output in outputs],
        "takeovers": callback.takeovers_ns,
        "handovers": _series(_filled(callback, every, "handovers")),
        "gaps": _series(_filled(callback, every, "gaps")),
    }


def _filled(
    callback: TimedCallback, every: Sequence[TimedCallback], key: Literal["handovers", "gaps"]
) -> Samples:
    """Return samples of the callback, else of its executor's callbacks, else its other samples."""
    samples: Samples = getattr(callback, key)
    if samples.value_ns:
        return samples
    if key == "handovers":
        pooled = wake_ups(callback, every)
    else:
        # The length of a gap depends on what is taken.
        pooled = Samples.together(
            peer.gaps
            for peer in every
            if (peer.executor, peer.kind) == (callback.executor, callback.kind)
        )
    if pooled.value_ns:
        return pooled
    return callback.gaps if key == "handovers" else callback.handovers


def wake_ups(callback: TimedCallback, every: Iterable[TimedCallback]) -> Samples:
    """Return the handovers of the callback's executor; of messages alone, if it takes messages.

    All messages wake a thread alike. Timers do not tell how long that takes: when they are due is
    known only from their starts, so that the least late of them has no handover.
    """
    return Samples.together(
        peer.handovers
        for peer in every
        if peer.executor == callback.executor
        and not (peer.kind == "timer" and callback.kind == "subscription")
    )


def _series(samples: Samples) -> dict[str, list[int]]:
    return {"at": samples.at_ns, "value": samples.value_ns}
