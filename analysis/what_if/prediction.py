"""Predict latency, loss and CPU load by simulation, and compare them with the recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from roslens.analysis.reports.numbers import significant
from roslens.analysis.statistics.quantiles import quantile
from roslens.analysis.timing.executors import ON_WAIT_SETS
from roslens.analysis.timing.schema import TimedCallback, TimingModel
from roslens.analysis.what_if.changes import Changes, changed, with_own_work
from roslens.analysis.what_if.system import QUANTILES, counting, simulated, wake_ups
from roslens.recording.arrays import Floats, np

BARS = {"latency_p50": 0.10, "latency_p99": 0.20}
"""Greatest relative error of the simulation of the recording, by metric."""
LEVEL = 0.95
MODEL_ERROR = 0.07
"""Beyond resampling, predicted latencies were off by at most this in 85 to 90 % of the pairs of
recordings it was measured on; docs/what_if.md names them and gives the result on others."""
CURVE = (0.01, *(n / 50 for n in range(1, 50)), 0.99, 0.995, 0.999)
"""The quantiles at which a distribution is drawn."""
_LEVELS = (*QUANTILES, *CURVE)
_MOST, _LEAST, _EXECUTIONS = 200, 20, 2_000_000
_COSTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Positions between the least and the greatest own cost of another executor, equally spaced."""
_REACHED, _FEW = 0.95, 20
"""Least part of a rate that counts as reached, and least executions that determine a rate."""
_BASES = {
    "events": "by its events and threads",
    "guess": "a guess by its threads, as no executor's events were recorded",
}
"""What the kind of an executor that the recording does not name follows from."""
_LOST = "the tracer lost something in this run, so executions may be missing"
_MOST_SHARED = BARS["latency_p50"]
"""Part of the executions' time that may have been lost to other executions on the same CPU."""
_MOST_WOKEN = 0.5
"""Part of the messages from which on latencies rest on how long it takes to wake a thread."""
WOKEN = (
    "half of the messages or more would find an idle thread; none did in the recording, so how "
    "long it takes to wake one is not known"
)
"""Why a latency is refused that rests on wake-ups that the recording does not show."""
_NOT_REPRODUCED = "the simulation does not reproduce the recorded latency"
_NO_TOPIC = (
    "no subscription of the application received messages of its own host whose publication is "
    "known"
)
"""Messages from other hosts do not count: clocks differ too much to tell what these waited for."""


@dataclass(frozen=True)
class Predicted:
    """One predicted figure.

    Attributes
    ----------
    metric
        ``latency_p50``, ``latency_p99`` (publish to callback_start, ns), ``lost`` (part of the
        messages, 0..1, whose place in the queue a later one took), ``cpu`` (cores in callbacks).
    topic, node
        Topic and node of the subscription; None: all subscriptions that count, together.
    recorded, simulated
        Means over the runs of the recorded figure, and of the figure that a simulation in the
        recorded order gives.
    value, low, high
        With the changes made: the mean over the runs of the median over replications, and the 95 %
        interval over replications of all runs. Intervals are widened by the error of the simulation
        of the recording (of a part lost: by how far it is off), those of latencies also by
        `MODEL_ERROR`.
    refused
        Why there is no prediction; None: there is one.
    """

    metric: str
    unit: str
    topic: str | None
    node: str | None
    recorded: float | None
    simulated: float | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    refused: str | None = None


@dataclass(frozen=True)
class Curve:
    """Latencies of one subscription, or of all together, at the quantiles `CURVE`, in ns.

    Attributes
    ----------
    recorded
        Mean over the runs of the recorded latency.
    value, low, high
        Predicted latency, as in `Predicted`; empty where the prediction is refused.
    """

    topic: str | None
    node: str | None
    recorded: Sequence[float]
    value: Sequence[float] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Prediction:
    """All predicted figures of one cell.

    Attributes
    ----------
    figures, curves
        Figures and curves, those of all subscriptions together first.
    refused
        Why the latency of all subscriptions together is not predicted; nothing else is then, unless
        it is for want of wake-ups.
    assumptions
        Assumptions about properties that were not recorded; rates that are not reached.
    changes
        The changes that were asked for.
    """

    runs: Sequence[str]
    replications: int
    seed: int
    figures: Sequence[Predicted]
    assumptions: Sequence[str]
    changes: Changes
    refused: str | None = None
    level: float = LEVEL
    curves: Sequence[Curve] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the prediction as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class _Simulated:
    """Simulation of a run: replication x callback (and all) x `_LEVELS`, and parts per callback."""

    waits: Floats
    lost: Floats
    cpu: Floats
    executions: Floats
    woke: Floats

    @classmethod
    def of(
        cls,
        model: TimingModel,
        replications: int,
        seed: int | None,
        cpus: int | None = None,
    ) -> _Simulated:
        result = simulated(model, replications, seed, cpus=cpus, quantiles=_LEVELS)
        waits = np.array(result["waits"], dtype=np.float64)  # None becomes nan
        lost = np.array(result["lost"], dtype=np.float64)
        executions = np.array(result["executions"], dtype=np.float64)
        busy = np.array(result["busy"], dtype=np.float64)
        places = counting(model)
        lost, received = _with_sum(lost, places), _with_sum(executions, places)
        sent = lost + received
        part = np.divide(lost, sent, out=np.zeros_like(lost), where=sent > 0)
        woke = np.array(result["woke"], dtype=np.float64)
        return cls(waits, part, busy.sum(axis=1) / model.length_ns, executions, woke)

    @classmethod
    def together(cls, parts: Sequence[_Simulated]) -> _Simulated:
        """Concatenate the replications of several results."""
        arrays = ([getattr(part, field.name) for part in parts] for field in fields(cls))
        return cls(*map(np.concatenate, arrays))


def _with_sum(counts: Floats, places: Sequence[int]) -> Floats:
    return np.column_stack([counts, counts[:, list(places)].sum(axis=1)])


def predicted(models: Sequence[TimingModel], changes: Changes, seed: int) -> Prediction:
    """Predict the figures of runs under the same conditions with the changes made.

    Each model is first simulated as recorded, in the recorded order, which leaves out the chance of
    resampling (correlated inspection: A. M. Law, Simulation Modeling and Analysis, 5th ed., 5.6.1).
    Where this simulation does not reproduce P50 within 10 % and P99 within 20 %, the prediction is
    refused: all of it, or that subscription's. Latencies are also refused where half of the
    messages would wake a thread and the recording does not show how long that takes.

    Parameters
    ----------
    models
        One timing model per run.

    Raises
    ------
    UsageError
        The changes do not fit a model.
    """
    asked = [changed(model, changes) for model in models]
    costs = _COSTS if changes.executor or changes.threads else (0.5,)
    names = [model.run or "model" for model in models]
    assumptions = _assumptions(models, changes)
    assumptions += _on_own_cpus(models, asked, changes.cpus)
    why = _LOST if any(model.tracer_lost for model in models) else None
    if why is None and not all(counting(model) for model in models):
        why = _NO_TOPIC
    shared = max((model.shared_cpu for model in models), default=0.0)
    if why is None and changes != Changes() and shared > _MOST_SHARED:
        why = (
            f"for {shared:.0%} of their time, callbacks shared a CPU with those of other threads, "
            "so how long they take alone is not known (a real-time priority keeps threads apart)"
        )
    if why is not None:
        return Prediction(names, 0, seed, (), assumptions, changes, why)
    most = max(sum(len(c.executions.value_ns) for c in model.callbacks) for model in models)
    replications = min(_MOST, max(_LEAST, _EXECUTIONS // (most * len(models))))
    each = replications // len(costs)
    replications = each * len(costs)
    before = [_Simulated.of(model, 1, None) for model in models]
    after = [
        _Simulated.together(
            [
                _Simulated.of(with_own_work(was, will, cost), each, seed + n, changes.cpus)
                for cost in costs
            ]
        )
        for n, (was, will) in enumerate(zip(models, asked, strict=True))
    ]
    error = 0.0 if changes == Changes() else MODEL_ERROR
    figures, curves = _figures(models, before, after, error)
    worst = [figure for figure in figures[: len(BARS)] if figure.refused]
    refused = "; ".join(f"{figure.metric}: {figure.refused}" for figure in worst) or None
    if worst and all(figure.refused == WOKEN for figure in worst):
        refused = WOKEN
    elif any(figure.simulated is not None for figure in worst):
        figures = [_refused(figure) for figure in figures]
        curves = [Curve(curve.topic, curve.node, curve.recorded) for curve in curves]
    assumptions += _too_low(models, after)
    assumptions += _slower_timers(models, before)
    assumptions += _not_reached(models, asked, before, after, changes.rates)
    return Prediction(
        names, replications, seed, figures, assumptions, changes, refused, curves=curves
    )


def _figures(
    models: Sequence[TimingModel],
    before: Sequence[_Simulated],
    after: Sequence[_Simulated],
    error: float,
) -> tuple[list[Predicted], list[Curve]]:
    figures: list[Predicted] = []
    curves: list[Curve] = []
    subscriptions: dict[tuple[str | None, str | None], None] = dict.fromkeys(
        (model.callbacks[place].name, model.callbacks[place].node)
        for model in models
        for place in counting(model)
    )
    for topic, node in ((None, None), *subscriptions):
        places = [_places(model, topic, node) for model in models]
        if not all(places):
            continue
        columns = [
            len(model.callbacks) if topic is None else of_model[0]
            for model, of_model in zip(models, places, strict=True)
        ]
        was, will = (
            [run.waits[:, column].T for run, column in zip(runs, columns, strict=True)]
            for runs in (before, after)
        )
        recorded = _recorded(models, places, _LEVELS)
        by_level = [
            (ns, [run[n] for run in was], [run[n] for run in will]) for n, ns in enumerate(recorded)
        ]
        latencies = [
            _predicted(Predicted(metric, "ns", topic, node, ns), once, again, bar, error)
            for (metric, bar), (ns, once, again) in zip(BARS.items(), by_level, strict=False)
        ]
        shown = [_unless_missed(latency, latencies) for latency in latencies]
        if _woken(models, after, places) >= _MOST_WOKEN:
            shown = [_refused(replace(figure, refused=figure.refused or WOKEN)) for figure in shown]
        figures += shown
        drawn = by_level[len(BARS) :]
        curve = Curve(topic, node, recorded[len(BARS) :])
        if not any(figure.refused for figure in shown):
            bounds = (_bounds(ns, once, again, error) for ns, once, again in drawn)
            curve = Curve(topic, node, curve.recorded, *zip(*bounds, strict=True))
        curves.append(curve)
        lost = [_lost(m, of_model) for m, of_model in zip(models, places, strict=True)]
        was, will = (
            [run.lost[:, column] for run, column in zip(runs, columns, strict=True)]
            for runs in (before, after)
        )
        figure = Predicted("lost", "1", topic, node, float(np.mean(lost)))
        figures.append(_predicted(_unless_missed(figure, latencies), was, will))
    busy = [
        sum(sum(c.executions.value_ns) for c in model.callbacks) / model.length_ns
        for model in models
    ]
    figure = Predicted("cpu", "core", None, None, float(np.mean(busy)))
    figure = _unless_missed(figure, figures[: len(BARS)])
    figures.append(_predicted(figure, [run.cpu for run in before], [run.cpu for run in after]))
    return figures, curves


def recorded_latency(models: Sequence[TimingModel]) -> tuple[float, ...]:
    """Return P50 and P99 of all subscriptions that count, each the mean over the runs, ns."""
    return tuple(_recorded(models, [counting(model) for model in models], QUANTILES))


def _recorded(
    models: Sequence[TimingModel], places: Sequence[Sequence[int]], quantiles: Sequence[float]
) -> list[float]:
    """Return the means over the runs of quantiles of the recorded latency of callbacks, ns."""
    waits = [
        np.sort([ns for place in of_model for ns in model.callbacks[place].waits_ns])
        for model, of_model in zip(models, places, strict=True)
    ]
    return [float(np.mean([quantile(of_run, q) for of_run in waits])) for q in quantiles]


def _places(model: TimingModel, topic: str | None, node: str | None) -> list[int]:
    """Return the places of a subscription's callbacks; without a topic those of all that count."""
    return [
        place
        for place in counting(model)
        if topic is None
        or (model.callbacks[place].name, model.callbacks[place].node) == (topic, node)
    ]


def _woken(
    models: Sequence[TimingModel], after: Sequence[_Simulated], places: Sequence[Sequence[int]]
) -> float:
    """Return the part of the callbacks' messages that wake a thread in a time that is not known."""
    woke = executions = 0.0
    for model, run, of_model in zip(models, after, places, strict=True):
        unknown = [place for place in of_model if not _wake_ups_known(model, place)]
        woke += run.woke[:, unknown].sum()
        executions += run.executions[:, list(of_model)].sum()
    return woke / max(1.0, executions)


def _wake_ups_known(model: TimingModel, place: int) -> bool:
    return bool(wake_ups(model.callbacks[place], model.callbacks).value_ns)


def _too_low(models: Sequence[TimingModel], after: Sequence[_Simulated]) -> list[str]:
    """Name subscriptions of which some messages wake a thread in a time that is not known."""
    names = dict.fromkeys(
        model.callbacks[place].name or "?"
        for model, run in zip(models, after, strict=True)
        for place in counting(model)
        if not _wake_ups_known(model, place)
        and 0 < run.woke[:, place].sum() < _MOST_WOKEN * run.executions[:, place].sum()
    )
    if not names:
        return []
    return [
        (
            "No message to any callback of the executor found an idle thread, so how long it takes "
            "to wake one is not known. It counts as no time for the few messages that would find "
            f"one, which makes their latencies too low: {', '.join(names)}."
        )
    ]


def _lost(model: TimingModel, places: Sequence[int]) -> float:
    callbacks: list[TimedCallback] = [model.callbacks[place] for place in places]
    lost = sum(callback.lost for callback in callbacks)
    return lost / max(1, lost + sum(len(callback.executions.value_ns) for callback in callbacks))


def _predicted(
    figure: Predicted,
    was: Sequence[Floats],
    will: Sequence[Floats],
    bar: float | None = None,
    error: float = 0.0,
) -> Predicted:
    """Complete a figure with simulations of the recording and of the changes, an array per run."""
    if figure.refused is not None:
        return figure
    if not all(np.isfinite(run).any() for run in (*was, *will)):
        return replace(figure, refused="in a simulation nothing came to it")
    recorded, again = figure.recorded, _middle(was)
    figure = replace(figure, simulated=again)
    if bar is not None and recorded is not None and abs(again - recorded) > bar * recorded:
        distance = f"{again / recorded - 1:+.0%}" if recorded > 0 else "far"
        why = f"the simulation of what was recorded is {distance} off, more than {bar:.0%}"
        return replace(figure, refused=why)
    if figure.metric != "lost" or recorded is None:
        value, low, high = _bounds(recorded, was, will, error)
        return replace(figure, value=value, low=low, high=high)
    value, low, high = _bounds(None, was, will, error)
    off = recorded - again
    low, high = max(0.0, low + min(0.0, off)), min(1.0, high + max(0.0, off))
    return replace(figure, value=value, low=low, high=high)


def _unless_missed(figure: Predicted, latencies: Sequence[Predicted]) -> Predicted:
    """Return the figure, refused if a simulated latency misses the recording."""
    missed = any(
        latency.refused not in (None, WOKEN) and latency.simulated is not None
        for latency in latencies
    )
    return _refused(figure) if missed else figure


def _refused(figure: Predicted) -> Predicted:
    refused = figure.refused or _NOT_REPRODUCED
    return replace(figure, value=None, low=None, high=None, refused=refused)


def _bounds(
    recorded: float | None, was: Sequence[Floats], will: Sequence[Floats], error: float
) -> tuple[float, float, float]:
    """Return what simulations of the changes predict, and the interval of a part `LEVEL` of them.

    The interval is widened by the model's error, and by that of the simulation of what was
    recorded; None: by none.
    """
    value, again, every = _middle(will), _middle(was), np.concatenate(will)
    every = every[~np.isnan(every)]
    below, above = (
        float(np.hypot(max(0.0, distance), error * value))
        for distance in (
            value - quantile(every, (1 - LEVEL) / 2),
            quantile(every, (1 + LEVEL) / 2) - value,
        )
    )
    off = recorded / again if recorded and again else 1.0
    return value, max(0.0, value - below) * min(1, off), (value + above) * max(1, off)


def _middle(runs: Sequence[Floats]) -> float:
    """Return the mean over runs, as for recorded figures, of the median over replications."""
    return float(np.mean([np.nanmedian(run) for run in runs]))


def _slower_timers(models: Sequence[TimingModel], before: Sequence[_Simulated]) -> list[str]:
    """Name timers that run less often in the simulation than recorded: late ones skip periods."""
    parts: dict[tuple[str | None, str | None], list[float]] = {}
    for model, again in zip(models, before, strict=True):
        for n, callback in enumerate(model.callbacks):
            if callback.period_ns and (recorded := len(callback.executions.value_ns)) >= _FEW:
                part = float(again.executions[0, n]) / recorded
                parts.setdefault((callback.name, callback.node), []).append(part)
    means = {key: float(np.mean(per_run)) for key, per_run in parts.items()}
    return [
        f"The simulation of what was recorded executes the {name} timer of {node} "
        f"{1 - part:.0%} less often than it ran."
        for (name, node), part in means.items()
        if part < _REACHED
    ]


def _not_reached(
    models: Sequence[TimingModel],
    asked: Sequence[TimingModel],
    before: Sequence[_Simulated],
    after: Sequence[_Simulated],
    rates: Sequence[tuple[str, float]],
) -> list[str]:
    """Name the rates that timers do not reach, judged by how often they are executed per period."""
    sentences = []
    for topic, hz in rates:
        parts = [
            float(np.median(ran.executions[:, n]) * will.period_ns / (once * was.period_ns))
            for model, to, again, ran in zip(models, asked, before, after, strict=True)
            for n, (was, will) in enumerate(zip(model.callbacks, to.callbacks, strict=True))
            if was.period_ns and will.period_ns and (once := again.executions[0, n])
            and any(publication.topic == topic for publication in was.publications)
        ]  # fmt: skip
        if parts and (part := float(np.mean(parts))) < _REACHED:
            sentences.append(
                f"{topic} reaches about {significant(part * hz, 3)} of {hz:,.10g} Hz: the timer "
                "that publishes it is not executed more often."
            )
    return sentences


def _on_own_cpus(
    models: Sequence[TimingModel], asked: Sequence[TimingModel], cpus: int | None
) -> list[str]:
    """Say what is assumed of CPUs if an executor gets more threads."""
    more = any(
        will.threads > was.threads
        for model, to in zip(models, asked, strict=True)
        for was, will in zip(model.executors, to.executors, strict=True)
    )
    if cpus is not None or not more:
        return []
    return [
        (
            "Threads run at once as far as there are CPUs, as with a real-time priority. Without "
            "one, the kernel may let them share a CPU: latencies are then up to those of --cpus 1."
        )
    ]


def _assumptions(models: Sequence[TimingModel], changes: Changes) -> list[str]:
    """Return the assumptions made where nothing was recorded."""
    sentences = ["What an executor needs between executions is as recorded."]
    if changes.executor or changes.threads:
        sentences = [
            (
                "What an executor needs between executions is as recorded, times factors for other "
                "executors and threads, which were measured with another program."
            )
        ]
    if changes.executor in ON_WAIT_SETS and any(
        executor.kind not in ON_WAIT_SETS for m in models for executor in m.executors
    ):
        sentences.append(
            "The order in the wait set is not known: it is taken to be that in which callbacks "
            "were created, which is wrong if nodes are added to the executor in another order."
        )
        if not any(callback.handovers.value_ns for m in models for callback in m.callbacks):
            sentences.append("No wake-up was recorded, so waiting for what is ready takes no time.")
    if any(callback.group is None for m in models for callback in m.callbacks):
        sentences.append(
            "Callback groups were not recorded: callbacks of a node exclude each other, as by "
            "default, unless they ran at the same time."
        )
    if any(executor.priority is None for m in models for executor in m.executors):
        sentences.append("Priorities were not recorded: all threads have the same.")
    for model in models:
        sentences += [
            f"The recording does not name its executor: {executor.kind}, {_BASES[basis]} "
            "(--recorded names it)."
            for executor in model.executors
            if (basis := executor.kind_from) in _BASES
        ]
        unbounded = [
            callback.name or "?"
            for callback in model.callbacks
            if callback.kind == "subscription" and callback.queue_depth is None
        ]
        if unbounded:
            sentences.append(
                f"Queues without end, as no depth was recorded: {', '.join(unbounded)}."
            )
        if changes != Changes():
            sentences += _wake_ups_not_seen(model)
        sentences += [f"Left out: {part.what}: {part.why}." for part in model.left_out]
    if changes.cpus is not None and any(m.execution_time == "duration" for m in models):
        sentences.append(
            "Without the kernel's events, executions take from start to end, which holds what "
            "they lost to others already: with fewer CPUs the prediction is too long."
        )
    return list(dict.fromkeys(sentences))


def _wake_ups_not_seen(model: TimingModel) -> list[str]:
    """Name subscriptions whose messages woke no thread, where other callbacks' messages did."""
    names = dict.fromkeys(
        model.callbacks[place].name or "?"
        for place in counting(model)
        if not model.callbacks[place].handovers.value_ns and _wake_ups_known(model, place)
    )
    if not names:
        return []
    return [
        (
            "No message found an idle thread, so wake-ups are taken from other callbacks: "
            f"{', '.join(names)}."
        )
    ]
