"""Draw how many events of a run were recorded when, as one picture."""

from __future__ import annotations

import polars as pl
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Patch

from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.measures.seen import OF
from roslens.recording.arrays import np

_MOST_ROWS = 40
_SHADES = LinearSegmentedColormap.from_list("seen", ["#c6dcec", style.COLOURS[0]])


@style.styled
def seen_over_time(steps: pl.DataFrame, missing: pl.DataFrame, run: str) -> Plot:
    """Draw events per CPU, process and kind over time, and where the tracer reports missing ones.

    Parameters
    ----------
    steps, missing
        From `roslens.analysis.measures.seen`; at least one step.
    run
        Name of the run, for the caption.
    """
    first = int(steps["step"].min())  # type: ignore[arg-type]
    times = np.unique(steps["step"].to_numpy())
    width = int(np.diff(times).min()) if times.size > 1 else 1
    edges = np.arange((times[-1] - first) // width + 2) * width / 1e9
    names, hidden = {}, 0
    for kind in OF:
        rows = steps.filter(pl.col("of") == kind)
        totals = rows.group_by("name").agg(pl.col("events").sum(), pl.col("begin_ns").min())
        most = totals.top_k(_MOST_ROWS, by="events").sort(
            *(("begin_ns", "name") if kind == "event" else ("name",))
        )
        hidden += totals.height - most.height
        absent = set(missing.filter(pl.col("of") == kind)["name"]) - set(totals["name"])
        names[kind] = [*most["name"], *sorted(absent)]
    shown = [kind for kind in OF if names[kind]]
    heights = [len(names[kind]) for kind in shown]
    figure = style.new_figure(1.3 + 0.17 * sum(heights))
    every = figure.subplots(
        len(shown), sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )[:, 0]
    for kind, axes in zip(shown, every, strict=True):
        place = {name: row for row, name in enumerate(names[kind])}
        counts = np.zeros((len(place), edges.size - 1))
        for name, step, events in (
            steps.filter(pl.col("of") == kind).select("name", "step", "events").iter_rows()
        ):
            if name in place:
                counts[place[name], (step - first) // width] += events
        # Each row is scaled to its own maximum, so that rare events are visible, too.
        shade = np.log1p(counts) / np.maximum(np.log1p(counts).max(axis=1, keepdims=True), 1e-9)
        edges_y = np.arange(len(place) + 1) - 0.5
        axes.pcolormesh(
            edges, edges_y, np.ma.masked_where(counts == 0, shade), cmap=_SHADES, vmin=0, vmax=1
        )
        for name, begin, end in (
            missing.filter(pl.col("of") == kind).select("name", "begin_ns", "end_ns").iter_rows()
        ):
            low = max((begin - first) / 1e9, 0.0)
            high = min((end - first) / 1e9, edges[-1])
            # Wide enough to be visible.
            room = max(edges[-1] / 300 - (high - low), 0.0) / 2
            axes.barh(
                place[name],
                high - low + 2 * room,
                0.9,
                low - room,
                color=style.LOUD,
                alpha=0.75,
                lw=0,
            )
        style.rows(axes, [style.wrapped(name, 46) for name in place], "", 7)
        axes.set_title(_TITLES[kind], fontsize=9)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False)
    every[-1].set_xlabel("time since the first event [s]")
    every[-1].set_xlim(0, edges[-1])
    handles = [
        Patch(color=_SHADES(0.2), label="few events"),
        Patch(color=_SHADES(1.0), label="most events of the row"),
        Patch(color=style.LOUD, label="something is missing"),
    ]
    style.legend_above(figure, handles[: 3 if missing.height else 2])
    return Plot(
        figure,
        f"{run}: what was seen when, in steps of {width / 1e6:.3g} ms. White: no event of the row; "
        "a shade: its events, logarithmic, up to the most that the row has in one step. Where "
        "something is missing is what the tracer and the reader report (table losses).",
        left_out=f"{hidden} rows with the fewest events are not drawn." if hidden else "",
    )


_TITLES = {"CPU": "CPUs", "process": "processes", "event": "kinds of event"}
