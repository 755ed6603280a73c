"""Run ``roslens index``: write one page over many reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from roslens.analysis.metrics import METRICS_NAME
from roslens.analysis.reports.numbers import significant
from roslens.html_page import html_document
from roslens.recording import UsageError
from roslens.recording.files import write_atomically
from roslens.summary_text import Summary

INDEX_NAME = "index.html"


def write_index(folder: Path, failed: Mapping[str, str] | None = None) -> Path:
    """Write ``index.html`` into a folder: its reports, the latest first, with loss and verdicts.

    Parameters
    ----------
    failed
        The reports that could not be made, by name, and the reasons.

    Raises
    ------
    UsageError
        There is no such folder, or no report below it.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; give the one that holds reports")
    pages = [
        page
        for notebook in sorted(folder.rglob("*.ipynb"))
        if _is_complete(page := notebook.with_suffix(".html"))
    ]
    if not pages:
        raise UsageError(f"{folder}: no report below it; make one with 'roslens report'")
    pages.sort(key=lambda page: (page.stat().st_mtime_ns, page), reverse=True)
    rows = "\n".join(_row(page, folder) for page in pages)
    heads = (
        "report",
        "answer",
        "recording",
        "recorded",
        "ROS 2",
        "folder",
        "runs and loss",
        "verdicts",
        "size [MB]",
    )
    headings = "".join(f'<th style="text-align:left">{head}</th>' for head in heads)
    table = (
        f'<table class="roslens-table"><thead><tr>{headings}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table>"
    )
    if failed:
        lines = (f"<li>{escape(name)}: {escape(why)}</li>" for name, why in failed.items())
        table += f"\n<h2>No report of</h2>\n<ul>{''.join(lines)}</ul>"
    path = folder / INDEX_NAME
    write_atomically(path, html_document("Reports - roslens", f"<h1>Reports</h1>\n{table}"))
    return path


def _is_complete(page: Path) -> bool:
    """Return whether a page was written to its end."""
    try:
        with page.open("rb") as stream:
            stream.seek(max(0, page.stat().st_size - 100))
            return stream.read().rstrip().endswith(b"</html>")
    except OSError:
        return False


def _row(page: Path, folder: Path) -> str:
    place = page.relative_to(folder)
    summary = (
        Summary.read(page.parent, page.stem) if (page.parent / METRICS_NAME).is_file() else None
    )
    recorded = summary.recorded if summary else {}
    texts: Sequence[str] = (
        summary.answer[0] if summary and summary.answer else "-",
        ", ".join(recorded[name] for name in ("suite", "recording") if name in recorded) or "-",
        *(recorded.get(name, "-") for name in ("recorded", "ROS 2")),
        place.parent.as_posix(),
        summary.runs if summary else "no metrics.json",
        (summary.verdicts if summary else "") or "-",
        significant(page.stat().st_size / 1e6, 2),
    )
    mark = ' style="background:#fde2d4;color:#7a2b00"' if summary and summary.lossy else ""
    cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
    link = f'<a href="{escape(quote(place.as_posix()), quote=True)}">{escape(page.stem)}</a>'
    return f"<tr{mark}><td>{link}</td>{cells}</tr>"
