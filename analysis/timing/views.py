"""Show a timing model as frames and as a picture."""

from __future__ import annotations

from collections import Counter

import polars as pl

from roslens.analysis.figures.drawing import Drawing
from roslens.analysis.figures.graph import draw_graph
from roslens.analysis.reports.numbers import significant
from roslens.analysis.statistics.quantiles import quantile
from roslens.analysis.timing.schema import TimedCallback, TimingModel

_FRAME = {
    "callback_id": pl.Int64(), "kind": pl.String(), "name": pl.String(), "node": pl.String(),
    "executor": pl.Int64(), "executor_kind": pl.String(),
    "executor_kind_from": pl.String(), "threads": pl.Int64(),
    "priority": pl.Int64(), "group": pl.String(), "reentrant": pl.Boolean(),
    "queue_depth": pl.Int64(), "period_ns": pl.Int64(), "jitter_ns": pl.Int64(),
    "rate_hz": pl.Float64(), "executions": pl.Int64(), "execution_p50_ns": pl.Float64(),
    "execution_p99_ns": pl.Float64(), "execution_max_ns": pl.Int64(),
    "wait_p50_ns": pl.Float64(), "wait_p99_ns": pl.Float64(), "publishes": pl.List(pl.String()),
}  # fmt: skip
_LINKS = {
    "callback_id": pl.Int64(), "topic": pl.String(), "receiver_id": pl.Int64(),
    "messages": pl.Int64(), "per_execution": pl.Float64(), "offset_p50_ns": pl.Float64(),
}  # fmt: skip


def callbacks_frame(model: TimingModel) -> pl.DataFrame:
    """Return one row per callback, as documented in `roslens.explore.timing.Timing.frame`."""
    rows = []
    for callback in model.callbacks:
        executor, took = model.executors[callback.executor], callback.executions.value_ns
        waits = callback.waits_ns
        rows.append(
            (
                callback.id, callback.kind, callback.name, callback.node, callback.executor,
                executor.kind, executor.kind_from, executor.threads, executor.priority,
                callback.group, callback.reentrant, callback.queue_depth, callback.period_ns,
                callback.jitter_ns, len(took) / model.length_ns * 1e9, len(took),
                quantile(took, 0.5), quantile(took, 0.99), max(took),
                quantile(waits, 0.5) if waits else None,
                quantile(waits, 0.99) if waits else None,
                sorted({publication.topic for publication in callback.publications}),
            )
        )  # fmt: skip
    return pl.DataFrame(rows, schema=_FRAME, orient="row")


def links_frame(model: TimingModel) -> pl.DataFrame:
    """Return one row per callback, topic and receiver (`roslens.explore.timing.Timing.links`)."""
    rows = []
    for callback in model.callbacks:
        for topic, count in sorted(
            Counter(publication.topic for publication in callback.publications).items()
        ):
            offsets = [
                publication.offset_ns
                for publication in callback.publications
                if publication.topic == topic
            ]
            share = count / len(callback.executions.value_ns)
            rows += [
                (callback.id, topic, receiver.id, count, share, quantile(offsets, 0.5))
                for receiver in model.callbacks
                if receiver.kind == "subscription" and receiver.name == topic
            ]
    return pl.DataFrame(rows, schema=_LINKS, orient="row")


def graph(model: TimingModel) -> Drawing | None:
    """Draw callbacks as boxes with their execution times, and the topics between them."""
    seconds = model.length_ns / 1e9
    rows: list[tuple[str, str, bool, int, float, float | None]] = []
    for callback in model.callbacks:
        name = _label(callback)
        sent = Counter(publication.topic for publication in callback.publications)
        rows += [(name, topic, True, n, n / seconds, None) for topic, n in sent.items()]
        if callback.kind == "subscription" and callback.name is not None:
            n = len(callback.executions.value_ns)
            wait = quantile(callback.waits_ns, 0.5) / 1e6 if callback.waits_ns else None
            rows.append((name, callback.name, False, n, n / seconds, wait))
    for source in model.sources:
        if not source.topic.startswith("#"):
            name, n = f"outside {source.node or ''}".strip(), len(source.at_ns)
            rows.append((name, source.topic, True, n, n / seconds, None))
    kinds = {
        "node": pl.String, "topic": pl.String, "publishes": pl.Boolean, "messages": pl.Int64,
        "rate_hz": pl.Float64, "p50_ms": pl.Float64,
    }  # fmt: skip
    edges = pl.DataFrame(rows, schema=kinds, orient="row").with_columns(
        lost=pl.lit(None, dtype=pl.Float64)
    )
    below = {_label(callback): _times(callback) for callback in model.callbacks}
    time = "own time" if model.execution_time == "own" else "duration"
    return draw_graph(
        edges,
        below=below,
        caption="Callbacks (boxes) with P50 and P99 of the "
        f"{time} of their executions, and topics (rounded). On the way to a topic: how often it is "
        "published; from a topic: the median from its publication to callback_start. Timers begin, "
        "and 'outside' is what no callback of the model published.",
    )


def _label(callback: TimedCallback) -> str:
    return f"{callback.node or '?'} {callback.name or callback.id}"


def _times(callback: TimedCallback) -> str:
    took = callback.executions.value_ns
    p50, p99 = (significant(quantile(took, q) / 1e6, 3) for q in (0.5, 0.99))
    return f"{p50} / {p99} ms"
