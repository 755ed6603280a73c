"""An executed notebook as one HTML file that needs nothing from anywhere."""

from __future__ import annotations

import copy
import re
from html import escape, unescape

import nbformat
from nbconvert.exporters import HTMLExporter

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
nav { font-size: 14px; margin: 1em 0; } nav a { margin-right: 1em; white-space: nowrap; }
pre { overflow-x: auto; color: var(--soft); }
p { max-width: 60em; }
.roslens-table { border-collapse: collapse; font-size: 13px; margin: 1.2em 0 .3em;
  font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
.roslens-table caption { font-weight: 600; padding-bottom: .4em; display: block; }
.roslens-table th { border-bottom: 1px solid var(--soft); font-weight: 600;
  vertical-align: bottom; }
.roslens-table td, .roslens-table th { padding: .2em .7em .2em 0; vertical-align: top; }
.roslens-table tbody tr { border-bottom: 1px solid var(--line); }
.roslens-note { font-size: 12.5px; color: var(--soft); margin: .2em 0; }
figcaption { font-size: 12.5px; color: var(--soft); }
.roslens-figure { overflow-x: auto; }
@media print { :root { color-scheme: light; --text: #000; --page: #fff; --line: #c8c8c8;
    --soft: #444; --stripe: #f5f6f8; --link: #00456e; }
  @page { margin: 15mm; }
  body { max-width: none; padding: 0; font-size: 10.5pt; } nav { display: none; }
  figure, tr, .roslens-loud { break-inside: avoid; } h1, h2, h3, caption { break-after: avoid; }
  .roslens-table { display: table; overflow: visible; font-size: 8pt; max-width: 100%; }
  .roslens-table caption { display: table-caption; } thead { display: table-header-group; }
  .roslens-table td, .roslens-table th { overflow-wrap: break-word; padding-right: .5em; }
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
_HEADING = re.compile(r'<h2 id="([^"]+)">(.*?)</h2>', re.DOTALL)
_ANCHOR = re.compile(r'<a class="anchor-link".*?</a>', re.DOTALL)


def html_page(notebook: nbformat.NotebookNode, title: str, lead: str = "") -> str:
    """The outputs and texts of a notebook, without its code, as a page of its own.

    No script, style sheet, font or picture is loaded from elsewhere.

    Parameters
    ----------
    lead
        HTML that stands above everything but the title and the contents.
    """
    exporter = HTMLExporter(  # type: ignore[no-untyped-call]
        template_name="basic",
        exclude_input=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        embed_images=True,
    )
    body, _ = exporter.from_notebook_node(_without_widgets(notebook))
    body = _ANCHOR.sub("", body)
    links = " ".join(
        f'<a href="#{anchor}">{escape(unescape(re.sub("<[^>]+>", "", text)).strip())}</a>'
        for anchor, text in _HEADING.findall(body)
    )
    # The contents go below the title, which is the notebook's own first heading.
    head, end_of_title, rest = body.partition("</h1>")
    if end_of_title:
        body = f"{head}{end_of_title}\n<nav>{links}</nav>{lead}{rest}"
    return html_document(title, body)


def html_document(title: str, body: str) -> str:
    """A page in the style of reports; `body` is HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n<main>{body}</main>\n</body></html>\n"
    )


def _without_widgets(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A copy that says where something to be explored stands: it would need scripts and a kernel.

    Their state holds names of traces, and is left out too.
    """
    still = copy.deepcopy(notebook)
    still.metadata.pop("widgets", None)
    for cell in still.cells:
        for output in cell.get("outputs", []):
            if _WIDGET in output.get("data", {}):
                output["data"].clear()
                output["data"]["text/html"] = _EXPLORED
    return still
