"""Draw a run's health as a small picture: arrived and lost messages over time, and trace gaps."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from roslens.analysis.measures.samples import LOST

_COLUMNS, _STEP, _HEIGHT = 40, 3, 16
_ARRIVED, _LOST, _HOLE = "#0072b2", "#d55e00", "#b00020"


def health_thumbnails(messages: pl.LazyFrame, losses: pl.LazyFrame) -> Mapping[str, str]:
    """Return one SVG element per run: messages over time, lost ones on top, holes as lines.

    Parameters
    ----------
    messages, losses
        The tables of those names with ``run``. A hole is a stretch in which the tracer dropped
        events.
    """
    time = pl.coalesce("publish_ns", "take_ns")
    spans = messages.group_by("run").agg(first=time.min(), last=time.max())
    place = ((time - pl.col("first")) * _COLUMNS // (pl.col("last") - pl.col("first") + 1)).clip(
        0, _COLUMNS - 1
    )
    counted = (
        messages.select("run", "outcome", "publish_ns", "take_ns")
        .join(spans, on="run")
        .group_by("run", place.alias("place"))
        .agg(messages=pl.len(), lost=pl.col("outcome").is_in(LOST).sum())
        .drop_nulls("place")
        .sort("run", "place")
    )
    holes = (
        losses.select("run", "begin_ns", "end_ns")
        .join(spans, on="run")
        .select(
            "run",
            ((pl.coalesce("begin_ns", "end_ns") - pl.col("first")) * _COLUMNS
             / (pl.col("last") - pl.col("first") + 1)).clip(0, _COLUMNS).alias("place"),
        )
        .drop_nulls()
    )  # fmt: skip
    bars, lines = pl.collect_all([counted, holes])
    places = {str(run): part["place"].to_list() for (run,), part in lines.group_by("run")}
    return {
        str(run): _drawn(part, places.get(str(run), []))
        for (run,), part in bars.group_by("run", maintain_order=True)
    }


def _drawn(bars: pl.DataFrame, holes: list[float]) -> str:
    most = max(1, int(bars["messages"].max() or 1))  # type: ignore[arg-type]
    drawn = []
    for place, messages, lost in bars.select("place", "messages", "lost").iter_rows():
        high, missing = _HEIGHT * messages / most, _HEIGHT * lost / most
        x = place * _STEP
        drawn.append(_bar(x, _HEIGHT - high + missing, high - missing, _ARRIVED))
        drawn.append(_bar(x, _HEIGHT - high, missing, _LOST) if lost else "")
    drawn += [
        f'<path d="M{place * _STEP:.1f},0 v{_HEIGHT}" stroke="{_HOLE}" stroke-dasharray="2 1"/>'
        for place in sorted(set(holes))[:_COLUMNS]
    ]
    width = _COLUMNS * _STEP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" '
        f'viewBox="0 0 {width} {_HEIGHT}" role="img" aria-label="messages over time">'
        f"{''.join(drawn)}</svg>"
    )


def _bar(x: float, y: float, height: float, fill: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:.1f}" width="{_STEP - 0.5:g}" height="{height:.1f}" fill="{fill}"/>'
    )
