"""Plot the topics of recordings."""

from __future__ import annotations

import polars as pl

from roslens.analysis.figures import style
from roslens.analysis.figures.drawing import short
from roslens.analysis.figures.plot import Plot
from roslens.analysis.overview.runs_and_topics import with_several

_LONGEST_NAME = 88
_MOST = 8


@style.styled
def topics_plot(topics: pl.DataFrame) -> Plot:
    """Plot the median, P99 and longest latency of each topic, of the first eight topics.

    Parameters
    ----------
    topics
        Rows of `roslens.analysis.overview.runs_and_topics.topics_by_cell`, with ``worst_ms`` above
        0; at least one.
    """
    rows = topics.head(_MOST).to_dicts()
    several = with_several(topics, "from")
    levels = [row["cell"].split(", ") for row in rows]
    shared = [level for level in levels[0] if level and all(level in other for other in levels)]
    names = [
        _named(
            row,
            [level for level in own if level not in shared],
            has_publisher=(row["cell"], row["topic"]) in several,
        )
        for row, own in zip(rows, levels, strict=True)
    ]
    lines = max(name.count("\n") for name in names)
    figure = style.new_figure(1.0 + (0.3 + 0.14 * lines) * len(rows))
    axes = figure.subplots()
    for y, row in enumerate(rows):
        known = {name: row[name] for name in _MARKS if row[name] is not None}
        ends = [min(known.values()), max(known.values())]
        axes.plot(ends, [y, y], "-", lw=1.6, color="#bbbbbb", zorder=1)
        for name, value in known.items():
            label, shade, marker = _MARKS[name]
            axes.plot([value], [y], marker, color=shade, ms=6, label=label)
    axes.set_xscale("log")
    style.plain_numbers(axes)
    style.rows(axes, names, "latency, publish to the start of the callback [ms]", 8.5)
    style.legend_above(figure)
    return Plot(
        figure,
        "Latency of each topic, the slowest at P99 first; a percentile of too few messages for its "
        "interval is not drawn.",
        left_out=style.left_out(
            len(rows),
            topics.height,
            "rows (topic, publisher, subscription and cell)",
            f", all with {', '.join(shared)}" if shared else "",
        ),
    )


_MARKS = {
    "p50_ms": ("P50", style.COLOURS[0], "o"),
    "p99_ms": ("P99", style.COLOURS[4], "D"),
    "worst_ms": ("longest", style.LOUD, "s"),
}


def _named(row: dict[str, str | None], levels: list[str], *, has_publisher: bool) -> str:
    publisher = f" from {row['from'] or '?'}" if has_publisher else ""
    name = ", ".join([f"{row['topic']}{publisher} to {row['to'] or '?'}", *filter(None, levels)])
    return style.wrapped(short(name, _LONGEST_NAME), 44)
