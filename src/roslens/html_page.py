"""Convert an executed notebook to one self-contained HTML file."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

import nbformat
from nbconvert.exporters import HTMLExporter

from roslens.recording.text import shown

_STYLE = """
:root { color-scheme: light dark; --text: #1c1c1c; --page: #ffffff; --line: #d8d8d8;
  --soft: #5c5c5c; --stripe: #f5f6f8; --link: #00629b; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e4e4; --page: #16181b; --line: #3a3d42;
  --soft: #a5a9b0; --stripe: #1f2226; --link: #6cb8e6; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page);
  max-width: 1040px; margin: 0 auto; padding: 1.5em 1.2em 4em; }
h1, h2, h3 { line-height: 1.2; margin: 1.6em 0 .5em; }
h1 { margin-top: .4em; }
h2 { border-bottom: 1px solid var(--line); padding-bottom: .25em; }
a { color: var(--link); } a.anchor-link { display: none; }
nav { font-size: 13px; margin: .8em 0; } nav a { margin-right: 1em; display: inline-block; }
p, li, figcaption, caption, h1, h2, h3 { overflow-wrap: anywhere; }
details { border-bottom: 1px solid var(--line); padding: .1em 0; }
summary { cursor: pointer; } summary h2 { display: inline-block; border: 0; font-size: 1.15em;
  margin: .45em 0; padding: 0; }
.roslens-front p { margin: .35em 0; } .roslens-front figcaption { display: none; }
.roslens-answer { font-size: 1.25em; line-height: 1.35; font-weight: 600; }
.roslens-front figure { margin: .5em 0 !important; }
.roslens-front img { width: auto !important; max-width: 100% !important; max-height: 400px; }
.roslens-facts { font-size: 13px; color: var(--soft); } .roslens-facts span { margin-right: 1.2em;
  display: inline-block; } .roslens-facts .roslens-loud { padding: 0 .4em;
  background: #fde2d4; color: #7a2b00; }
.roslens-filter { font: inherit; font-size: 13px; padding: .2em .4em; margin-top: .8em; }
.roslens-table th[data-sort] { cursor: pointer; }
pre { overflow-x: auto; color: var(--soft); }
p { max-width: 60em; }
.roslens-table, .dataframe { border-collapse: collapse; font-size: 13px; margin: 1.2em 0 .3em;
  font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
.roslens-table caption { font-weight: 600; padding-bottom: .4em; display: block; }
.dataframe, .dataframe :is(td, th) { border: 0; }
:is(.roslens-table, .dataframe) th { border-bottom: 1px solid var(--soft); font-weight: 600;
  vertical-align: bottom; }
:is(.roslens-table, .dataframe) :is(td, th) { padding: .2em .7em .2em 0; vertical-align: top;
  max-width: 50em; overflow-wrap: break-word; }
:is(.roslens-table, .dataframe) tr:has(> :nth-child(4)) > :is(td, th) { max-width: 24em; }
:is(.roslens-table, .dataframe) tbody tr { border-bottom: 1px solid var(--line); }
.roslens-note { font-size: 12.5px; color: var(--soft); margin: .2em 0; }
figcaption { font-size: 12.5px; color: var(--soft); }
.roslens-figure { overflow-x: auto; }
@media screen and (max-width: 600px) { .roslens-figure img { max-width: none !important;
  width: 640px !important; max-height: none !important; } }
@media print { :root { color-scheme: light; --text: #000; --page: #fff; --line: #c8c8c8;
    --soft: #444; --stripe: #f5f6f8; --link: #00456e; }
  @page { margin: 15mm; }
  body { max-width: none; padding: 0; font-size: 10.5pt; } nav, .roslens-filter { display: none; }
  details::details-content { content-visibility: visible; display: block; }
  figure, tr, .roslens-loud { break-inside: avoid; } h1, h2, h3, caption { break-after: avoid; }
  .roslens-table, .dataframe { display: table; overflow: visible; font-size: 8pt;
    max-width: 100%; }
  .roslens-table caption { display: table-caption; } thead { display: table-header-group; }
  :is(.roslens-table, .dataframe) :is(td, th) { padding-right: .5em; }
  .roslens-figure svg { min-width: 0 !important; } .roslens-figure { overflow: visible; }
  .roslens-figure img { width: auto !important; max-width: 100% !important; max-height: 235mm; }
  * { print-color-adjust: exact; } }
@media screen and (prefers-color-scheme: dark) {
  .roslens-figure img, .roslens-figure svg { filter: invert(.91) hue-rotate(180deg); }
  .roslens-table svg { filter: brightness(1.6); }
  .roslens-loud, .roslens-marked { background: #4a2410 !important; color: #ffd9c4 !important; } }
"""

_WIDGET = "application/vnd.jupyter.widget-view+json"
_EXPLORED = '<p class="roslens-note">To be explored in the notebook.</p>'
_SCRIPT = (Path(__file__).parent / "report_page.js").read_text(encoding="utf-8")
_ANCHOR = re.compile(r'<a class="anchor-link".*?</a>', re.DOTALL)


def html_page(notebook: nbformat.NotebookNode, title: str, lead: str = "") -> str:
    """Convert a notebook's outputs and texts, without its code, to a standalone page.

    The section ``## Answer`` is the first screen; if there is one, every other section is folded,
    and is opened by a click, a link to it, or printing. No style sheet, font or picture is loaded
    from elsewhere; without scripts everything can be read.

    Parameters
    ----------
    lead
        HTML that is folded right below the answer, as "In short".
    """
    exporter = HTMLExporter(  # type: ignore[no-untyped-call]
        template_name="basic",
        exclude_input=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        embed_images=True,
    )
    still = _without_widgets(notebook)
    still.cells = _with_something(still.cells)

    def html_of(cells: Sequence[nbformat.NotebookNode]) -> str:
        part = nbformat.from_dict({**still, "cells": list(cells)})  # type: ignore[no-untyped-call]
        return _ANCHOR.sub("", exporter.from_notebook_node(part)[0])

    opening, *sections = _below_headings(still.cells, "## ")
    heading, before = opening[:1], opening[1:]
    named = [(cells[0].source.splitlines()[0][3:].strip(), cells) for cells in sections]
    front = [cells[1:] for name, cells in named if name == ANSWER]
    below = [(name, html_of(cells[1:]), cells[0]) for name, cells in named if name != ANSWER]
    body = [html_of(heading), *map(html_of, front)]
    if lead:
        body.append(_folded("In short", lead))
    if before and not front:
        body.append(html_of(before))
    links = []
    for name, html, first in below:
        rest = first.source.partition("\n")[2].strip()
        text = html_of([nbformat.from_dict({**first, "source": rest})]) if rest else ""  # type: ignore[no-untyped-call]
        body.append(_folded(name, text + html, folded=bool(front)))
        links.append(f'<a href="#{_anchor(name)}">{escape(name)}</a>')
    if before and front:
        body.append(_folded("What was opened", html_of(before)))
    nav = f"<nav>{' '.join(links)}</nav>" if links else ""
    body.insert(2 if front else 1, nav)
    return html_document(title, "\n".join(body))


ANSWER = "Answer"
"""The heading of the section that becomes the first screen."""


def _below_headings(
    cells: Sequence[nbformat.NotebookNode], mark: str
) -> list[list[nbformat.NotebookNode]]:
    """Group cells, each with the heading before it that begins so; those before any come first."""
    groups: list[list[nbformat.NotebookNode]] = [[]]
    for cell in cells:
        if cell.cell_type == "markdown" and cell.source.startswith(mark):
            groups.append([])
        groups[-1].append(cell)
    return groups


def _with_something(cells: Sequence[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Remove sections whose code shows nothing."""
    kept = []
    for part in _below_headings(cells, "##"):
        code = [cell for cell in part if cell.cell_type == "code"]
        nested = part and part[0].cell_type == "markdown" and "\n### " in part[0].source
        if not code or nested or any(map(_has_content, code)) or not any(c.outputs for c in code):
            kept += part
    return kept


def _has_content(cell: nbformat.NotebookNode) -> bool:
    """Return whether any output is more than an empty section."""
    outputs = (output.get("data", {"text/plain": "x"}) for output in cell.outputs)
    return any(
        "".join(data.get("text/html", data.get("text/plain", "x"))).strip() for data in outputs
    )


def _folded(name: str, html: str, *, folded: bool = True) -> str:
    head = f"<summary><h2>{escape(name)}</h2></summary>"
    is_open = "" if folded else " open"
    return f'<details id="{_anchor(name)}"{is_open}>{head}\n{html}\n</details>'


def _anchor(name: str) -> str:
    return escape(name.replace(" ", "-"), quote=True)


def html_document(title: str, body: str) -> str:
    """Build a page in the style of reports from HTML; characters hidden in names become visible."""
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n<main>{body}</main><script>{_SCRIPT}</script>\n</body></html>\n"
    )
    return shown(page, lines=True)


def _without_widgets(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Copy a notebook with widgets replaced by a note: they would need scripts and a kernel.

    Their state contains names from traces and is removed too.
    """
    still = copy.deepcopy(notebook)
    still.metadata.pop("widgets", None)
    for cell in still.cells:
        for output in cell.get("outputs", []):
            if _WIDGET in output.get("data", {}):
                output["data"].clear()
                output["data"]["text/html"] = _EXPLORED
    return still
