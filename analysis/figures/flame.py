"""Draw a callback's call stacks as a flame graph, with Vega.

JupyterLab and VS Code bring Vega along; see its transforms ``stratify`` and ``partition``.
"""

from __future__ import annotations

from typing import Any

import polars as pl

MIME = "application/vnd.vega.v5+json"
_LEAST_SHARE = 0.003
"""Frames narrower than this part of the whole are left out."""
_ROW_PX = 17
_WIDTH_PX = 900
_MOST_POINTS = 30
"""Difference in percentage points at which the colour scale ends."""


def frames_of(samples: pl.DataFrame) -> pl.DataFrame:
    """Build the call tree of one callback's samples.

    Parameters
    ----------
    samples
        ``path``, ``cpu_ns`` and ``slow`` (whether the execution is one of the slowest).

    Returns
    -------
    ``id``, ``parent`` (null for the outermost), ``depth``, ``function``; ``own_ns``: CPU time of
    samples that end in the function or in a callee that is too narrow to be drawn; ``share`` of all
    samples' CPU time and ``slow_share`` of that of the slow ones (null if there are none), both
    with callees.
    """
    whole, slow = (int(table["cpu_ns"].sum()) for table in (samples, samples.filter("slow")))
    stacks = samples.group_by("path").agg(
        ns=pl.col("cpu_ns").sum(), slow_ns=pl.col("cpu_ns").filter("slow").sum()
    )
    sums: dict[tuple[str, ...], list[int]] = {}
    for path, ns, slow_ns in stacks.iter_rows():
        stack = tuple(reversed(path.split("\n")))
        for depth in range(len(stack) + 1):
            totals = sums.setdefault(stack[:depth], [0, 0])
            totals[0] += ns
            totals[1] += slow_ns
    drawn = {
        calls: totals for calls, totals in sorted(sums.items()) if totals[0] >= _LEAST_SHARE * whole
    }
    numbers = {stack: number for number, stack in enumerate(drawn)}
    called = dict.fromkeys(drawn, 0)
    for stack, (ns, _) in drawn.items():
        if stack:
            called[stack[:-1]] += ns
    rows = [
        (
            number, numbers[stack[:-1]] if stack else None, len(stack),
            stack[-1] if stack else "all",
            drawn[stack][0] - called[stack], drawn[stack][0] / whole,
            drawn[stack][1] / slow if slow else None,
        )
        for stack, number in numbers.items()
    ]  # fmt: skip
    numbers_of = dict.fromkeys(("id", "parent", "depth"), pl.Int64())
    kinds = {"function": pl.String(), "own_ns": pl.Int64(), "share": pl.Float64()}
    schema = numbers_of | kinds | {"slow_share": pl.Float64()}
    return pl.DataFrame(rows, schema=schema, orient="row")


class Flame:
    """A flame graph: in a notebook, a picture in which a click widens a function.

    Attributes
    ----------
    specification
        The drawing as a Vega 5 specification.
    caption
        What is shown.
    """

    def __init__(self, frames: pl.DataFrame, title: str, caption: str) -> None:
        self.caption = caption
        self.specification = _specification(frames, title, caption)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {MIME: self.specification, "text/plain": self.caption}

    def __repr__(self) -> str:
        return self.caption


def _specification(frames: pl.DataFrame, title: str, caption: str) -> dict[str, Any]:
    height = _ROW_PX * (1 + max(frames["depth"]))
    place = {
        "x": {"scale": "x", "field": "x0"},
        "x2": {"scale": "x", "field": "x1"},
        "y": {"field": "y0"},
        "y2": {"field": "y1"},
    }
    slower = "datum.slow_share == null ? 0 : 100 * (datum.slow_share - datum.share)"
    tooltip = (
        "{title: datum.function, 'share of the time': format(datum.share, '.1%'), "
        "'in the slowest tenth': datum.slow_share == null ? '-' : format(datum.slow_share, '.1%')}"
    )
    return {
        "$schema": "https://vega.github.io/schema/vega/v5.json",
        "usermeta": {"embedOptions": {"renderer": "svg", "actions": {"export": True}}},
        "title": {"text": title, "subtitle": caption, "anchor": "start"},
        "width": _WIDTH_PX,
        "height": height,
        "signals": [
            {
                "name": "chosen",
                "value": {"x0": 0, "x1": _WIDTH_PX},
                "on": [{"events": "@frame:click", "update": "datum"}],
            }
        ],
        "data": [
            {
                "name": "frames",
                "values": frames.to_dicts(),
                "transform": [
                    {"type": "stratify", "key": "id", "parentKey": "parent"},
                    {
                        "type": "partition",
                        "field": "own_ns",
                        "sort": {"field": "function"},
                        "size": [_WIDTH_PX, height],
                    },
                    {"type": "formula", "as": "slower", "expr": slower},
                ],
            }
        ],
        "scales": [
            {
                "name": "x",
                "domain": [{"signal": "chosen.x0"}, {"signal": "chosen.x1"}],
                "range": "width",
                "clamp": True,
                "zero": False,
            },
            {
                "name": "colour",
                "type": "linear",
                "domain": [-_MOST_POINTS, _MOST_POINTS],
                "range": {"scheme": "blueorange"},
                "clamp": True,
            },
        ],
        "legends": [
            {
                "fill": "colour",
                "title": "share in the slowest tenth minus share in all [points]",
                "orient": "bottom",
                "direction": "horizontal",
                "gradientLength": _WIDTH_PX // 3,
                "titleLimit": _WIDTH_PX,
            }
        ],
        "marks": [
            {
                "type": "rect",
                "name": "frame",
                "from": {"data": "frames"},
                "encode": {
                    "enter": {
                        "tooltip": {"signal": tooltip},
                        "cursor": {"value": "pointer"},
                        "stroke": {"value": "white"},
                    },
                    "update": {**place, "fill": {"scale": "colour", "field": "slower"}},
                },
            },
            {
                "type": "text",
                "from": {"data": "frames"},
                "interactive": False,
                "encode": {
                    "enter": {"text": {"field": "function"}, "baseline": {"value": "top"}},
                    "update": {
                        "x": {"scale": "x", "field": "x0", "offset": 3},
                        "y": {"field": "y0", "offset": 3},
                        "limit": {"signal": "scale('x', datum.x1) - scale('x', datum.x0) - 6"},
                        "opacity": {
                            "signal": "scale('x', datum.x1) - scale('x', datum.x0) > 20 ? 1 : 0"
                        },
                    },
                },
            },
        ],
    }
