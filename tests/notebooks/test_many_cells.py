"""Test reports of 1 to 200 cells: figures without overprinted or cut text, one-screen answers.

matplotlib's renderer and Chromium decide. The data are those of the samples, under the factors of
larger designs: nothing here is about numbers.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn import executed, faults, figures, first_screen, many_cells
from playwright.sync_api import Browser

import roslens as rl
from roslens.analysis.figures.comparison import comparison_plot
from roslens.analysis.figures.plot import Plot
from roslens.analysis.tool.report import runs_plot
from roslens.analysis.verdicts.comparison import compare_levels
from roslens.html_page import html_page
from roslens.sides import load_side

NOTEBOOKS = ("executors", "latency", "communication", "leaks")
SIZES = [(n, 1) for n in NOTEBOOKS] + [(n, 4) for n in NOTEBOOKS]
SIZES += [("executors", 12), ("leaks", 12), *((n, 48) for n in NOTEBOOKS)]

pytestmark = pytest.mark.recording


@pytest.fixture(scope="module")
def cells(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Make folders with these numbers of cells."""
    folder = tmp_path_factory.mktemp("cells")
    rl.open([samples / "demo", samples / "communication"])
    patterns = ("demo/*-Events", "demo/*-Single*", "communication/*off", "communication/*on")
    sources = [sorted(samples.glob(pattern)) for pattern in patterns]
    return {
        count: many_cells(folder / str(count), sources, count, 3 if count < 200 else 1)
        for count in (1, 4, 12, 48, 200)
    }


def found_in(shown: list[Plot]) -> dict[str, list[str]]:
    return {plot.caption[:60]: wrong for plot in shown if (wrong := faults(plot.figure))}


@pytest.mark.parametrize(("notebook", "count"), SIZES)
def test_every_figure_can_be_read(
    cells: dict[int, Path], browser: Browser, tmp_path: Path, notebook: str, count: int
) -> None:
    with figures() as shown:
        done, report = executed(notebook, recordings=str(cells[count]))
    assert shown
    assert found_in(shown) == {}
    page = tmp_path / "page.html"
    page.write_text(html_page(done, notebook))
    assert page.stat().st_size < 3_000_000
    if count in (4, 48):
        first_screen(browser, page, report.sentences()[0], many=count == 48)


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_the_key_picture_of_two_hundred_cells(
    cells: dict[int, Path], browser: Browser, tmp_path: Path, notebook: str
) -> None:
    with figures() as shown:
        done, report = executed(notebook, answer_only=True, recordings=str(cells[200]))
    assert len(shown) == 1
    assert found_in(shown) == {}
    page = tmp_path / "page.html"
    page.write_text(html_page(done, notebook))
    first_screen(browser, page, report.sentences()[0], many=True)


@pytest.mark.parametrize("notebook", ["storage", "micro_ros"])
def test_the_key_picture_of_published_studies(notebook: str) -> None:
    with figures() as shown:
        executed(notebook, answer_only=True)
    assert shown
    assert found_in(shown) == {}


def test_figures_of_comparisons_and_of_other_tools(cells: dict[int, Path]) -> None:
    side = load_side(cells[12], collect=False)
    compared = compare_levels(side, "executor", {}, ["latency_p50", "cpu"])
    shown = [comparison_plot(compared), runs_plot(list(side.estimates))]
    assert found_in(shown) == {}
    assert shown[0].left_out == ""


def test_the_measure_finds_what_is_wrong() -> None:
    from roslens.analysis.figures.style import new_figure

    figure = new_figure(2)
    axes = figure.subplots()
    axes.text(0.5, 0.5, "one text")
    axes.text(0.51, 0.51, "another")
    figure.text(0.98, 0.5, "far out")
    axes.set(xscale="log", xlim=(1, 1000))
    text = "; ".join(faults(figure))
    assert "'another'" in text
    assert "lies on" in text
    assert "'far out' is cut off" in text
    assert "logarithmic axis" in text
