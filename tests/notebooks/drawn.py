"""Execute notebooks in this process over many cells, and find what their figures hide."""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from playwright.sync_api import Browser
from tests.workbench.running_lab import new_page

import roslens as rl
from roslens.analysis.figures.plot import DPI, Plot
from roslens.execution import known_parameters
from roslens.report import find_notebook

EXECUTORS = ("SingleThreaded", "EventsCBGMultiThreaded", "StaticSingleThreaded", "MultiThreaded",
             "Events")  # fmt: skip
MIDDLEWARE = ("rmw_fastrtps_cpp", "rmw_cyclonedds_cpp", "rmw_zenoh_cpp", "rmw_connextdds")
DESIGNS: Mapping[int, Mapping[str, tuple[Any, ...]]] = {
    1: {},
    4: {"executor": EXECUTORS[:4]},
    12: {"executor": EXECUTORS[:4], "message_bytes": (100, 10_000, 1_000_000)},
    48: {"executor": EXECUTORS[:4], "message_bytes": (100, 10_000, 1_000_000, 4_000_000),
         "rmw": MIDDLEWARE[:3]},
    200: {"executor": EXECUTORS, "message_bytes": (100, 1_000, 10_000, 1_000_000, 4_000_000),
          "rmw": MIDDLEWARE, "qos": ("reliable", "best_effort")},
}  # fmt: skip
"""Factors for a number of cells; names are as long as in the suites."""


def many_cells(folder: Path, sources: list[list[Path]], cells: int, runs: int) -> Path:
    """Make measured runs under the factors of a design: their tables are linked to, not copied.

    Parameters
    ----------
    sources
        Collected recordings that are replications of each other, given to one cell after the other.
    """
    design = DESIGNS[cells]
    order = itertools.count()
    for repetition in range(runs):
        for index, levels in enumerate(itertools.product(*design.values())):
            replications = sources[index % len(sources)]
            source = replications[repetition % len(replications)]
            place = folder / f"{next(order):03d}_r{repetition}"
            place.mkdir(parents=True)
            manifest = json.loads((source / "manifest.json").read_text())
            manifest |= {"factors": dict(zip(design, levels, strict=True)), "suite": "many",
                         "run": place.name, "repetition": repetition, "design": None}  # fmt: skip
            (place / "manifest.json").write_text(json.dumps(manifest))
            for name in ("tables", "native", "resources.parquet"):
                (place / name).symlink_to(source / name)
    return folder


def executed(
    notebook: str, *, answer_only: bool = False, **parameters: object
) -> tuple[nbformat.NotebookNode, Any]:
    """Return a notebook with the outputs a kernel would give its cells, and the answering object.

    Parameters
    ----------
    answer_only
        Execute no cell after that of the first screen.
    """
    source = find_notebook(notebook)
    given = {k: v for k, v in parameters.items() if k in known_parameters(source)}
    document = nbformat.read(source, as_version=4)
    names: dict[str, Any] = {}
    answering: Any = None
    with mock.patch.object(rl, "open", partial(rl.open, collect=False)):
        for cell in (c for c in document.cells if c.cell_type == "code"):
            tree = ast.parse(cell.source)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, notebook, "exec"), names)
            if "parameters" in cell.metadata.get("tags", []):
                names |= given
            if isinstance(last, ast.Expr):
                cell.outputs = [
                    _output(eval(compile(ast.Expression(last.value), notebook, "eval"), names))
                ]
            if asked := re.match(r"(\w+)\.answer\(", cell.source):
                answering = names[asked[1]]
                if answer_only:
                    break
    return document, answering


def _output(shown: Any) -> nbformat.NotebookNode:
    html = {"text/html": shown._repr_html_()} if hasattr(shown, "_repr_html_") else {}
    return nbformat.v4.new_output("display_data", {**html, "text/plain": repr(shown)})


@contextmanager
def figures() -> Iterator[list[Plot]]:
    """Collect all figures that are shown meanwhile, drawn."""
    shown: list[Plot] = []
    png = Plot.png

    def kept(plot: Plot) -> bytes:
        if not any(plot is earlier for earlier in shown):
            shown.append(plot)
        return png(plot)

    with mock.patch.object(Plot, "png", kept):
        yield shown


def faults(figure: Figure) -> list[str]:
    """Return text that overlaps other text or is cut off, and logarithmic axes without numbers.

    matplotlib's own renderer decides.
    """
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    shown = [t for t in _texts(figure) if t.get_visible() and t.get_text().strip()]
    boxes = [(text, text.get_window_extent(canvas.get_renderer())) for text in shown]
    problems = [
        f"{_said(text)} is cut off"
        for text, box in boxes
        if not (box.x0 >= -1 and box.y0 >= -1
                and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1)
    ]  # fmt: skip
    for (a, box_a), (b, box_b) in itertools.combinations(boxes, 2):
        width = min(box_a.x1, box_b.x1) - max(box_a.x0, box_b.x0)
        height = min(box_a.y1, box_b.y1) - max(box_a.y0, box_b.y0)
        # Boxes have a pixel or two of space around the letters.
        if width > 2 and height > 3:
            problems.append(f"{_said(a)} lies on {_said(b)} by {width:.0f} x {height:.0f} px")
    return [*problems, *_without_numbers(figure)]


def _texts(figure: Figure) -> Iterator[Text]:
    yield from figure.texts  # and the texts of the whole figure
    for legend in figure.legends:
        yield from legend.get_texts()
    for axes in figure.axes:
        if not axes.get_visible():
            continue
        yield from (*axes.texts, axes.title, axes._left_title, axes._right_title)
        if axes.get_legend() is not None:
            yield from axes.get_legend().get_texts()
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            yield from (axis.label, axis.offsetText, *_labels(axis))


def _labels(axis: Axis) -> list[Text]:
    """Return the labels of the ticks that are drawn."""
    if not axis.get_visible():
        return []
    ticks = axis._update_ticks()  # type: ignore[attr-defined]
    labels = [label for tick in ticks for label in (tick.label1, tick.label2)]
    return [label for label in labels if label.get_visible() and label.get_text()]


def _said(text: Text) -> str:
    return repr(text.get_text()[:60])


def _without_numbers(figure: Figure) -> list[str]:
    problems = []
    for axes in (a for a in figure.axes if a.get_visible() and a.axison):
        for axis, scale in ((axes.xaxis, axes.get_xscale()), (axes.yaxis, axes.get_yscale())):
            shown = [label.get_text() for label in _labels(axis)]
            inner = not any(tick.label1.get_visible() or tick.label2.get_visible()
                            for tick in axis.get_major_ticks())  # fmt: skip
            if scale != "log" or inner:
                continue
            if len(shown) < 2 or any("$" in text for text in shown):
                problems.append(
                    f"a logarithmic axis of {axes.get_title(loc='left')!r} shows {shown}"
                )
    return problems


def first_screen(browser: Browser, page: Path, answer: str, *, many: bool = False) -> None:
    """Check that answer, picture and strip end above 900 px, with the picture large enough to read.

    Nothing may be wider than a phone. If `many` cells are drawn, the picture is an overview that is
    read in its section.
    """
    for width in (1280, 420):
        view = new_page(browser, width)
        view.goto(page.as_uri())
        assert view.locator(".roslens-answer").inner_text() == answer
        ends = view.evaluate(
            "() => [...document.querySelectorAll('.roslens-answer, .roslens-front img, "
            ".roslens-facts')].map((e) => e.getBoundingClientRect().bottom)"
        )
        sizes = view.evaluate(
            "() => [...document.querySelectorAll('.roslens-front img')]"
            ".map((e) => e.getBoundingClientRect().width / e.naturalWidth)"
        )
        if width == 1280:
            assert max(ends) <= 900
            # At 72 pixels per inch the smallest text, of 7 points, is still 7 pixels high.
            assert many or min(sizes, default=1) * DPI >= 72
            assert view.locator(".roslens-facts").inner_text()
        view.evaluate(
            "() => document.querySelectorAll('details').forEach((d) => { d.open = true })"
        )
        assert view.evaluate("() => document.documentElement.scrollWidth") <= width
        view.close()
