"""Check the sentences of a report against the metrics.json beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

_TOLD = re.compile(
    r"(?P<number>\d[\d,]*\.?\d*) (?P<unit>ns|us|ms|s|%|B/s|B/message)"
    r"(?= \[|,? at the median| at P99)"
    r"(?: \[(?P<low>\d[\d,]*\.?\d*), (?P<high>\d[\d,]*\.?\d*)\])?"
    r"|(?<=P99 )(?P<tail>\d[\d,]*\.?\d*) (?P<its>ns|us|ms|s)"
)
"""Numbers that must be values of metrics.json: with an interval, or a percentile."""
_SCALES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "%": 0.01, "B/s": 1.0, "B/message": 1.0}
_RANKED = {
    "latency": ("latency_p50", "latency_p99"),
    "communication": ("latency_mean", "latency_p99"),
    "chains": ("response_time_p50", "response_time_p99"),
}
"""The metric by which these notebooks' sentences rank cells, and the tail that may differ."""

Estimates = Sequence[dict[str, Any]]


def checked(answer: str, estimates: Estimates) -> tuple[int, list[str]]:
    """Return how many numbers of the answer must be estimates, and those that are not.

    These are null in metrics.json, refused, or missing.
    """
    count, wrong = 0, []
    for match in _TOLD.finditer(answer):
        unit = match["unit"] or match["its"]
        texts = {"value": match["number"] or match["tail"], "low": match["low"],
                "high": match["high"]}  # fmt: skip
        shown = {name: text for name, text in texts.items() if text}
        count += len(shown)
        if not any(_is(e, shown, _SCALES[unit]) for e in estimates):
            wrong.append(match[0])
    return count, wrong


def _is(estimate: dict[str, Any], shown: dict[str, str], scale: float) -> bool:
    """Return whether all shown numbers are this estimate's, rounded to their digits."""
    for name, text in shown.items():
        digits = text.replace(",", "")
        half = 0.5000001 * scale / 10 ** len(digits.partition(".")[2])
        value = estimate[name]
        if value is None or abs(value - float(digits) * scale) > half:
            return False
    return True


def reversed_unsaid(notebook: str, answer: str, estimates: Estimates) -> list[str]:
    """Return rankings of the answer that P99 reverses without a word that says so."""
    if notebook not in _RANKED or "At P99 " in answer or "; at P99 " in answer:
        return []
    middle, tail = (_by_cell(estimates, name) for name in _RANKED[notebook])
    cells = [cell for cell in middle if cell in tail]
    return list(_reversed(cells, middle, tail, every=notebook == "chains"))


def _by_cell(estimates: Estimates, metric: str) -> dict[str, float]:
    return {str(e["cell"]): e["value"] for e in estimates
            if e["metric"] == metric and e["value"] is not None
            and not (metric.startswith("latency") and "topic" in e["cell"])}  # fmt: skip


def _reversed(
    cells: list[str], middle: dict[str, float], tail: dict[str, float], *, every: bool
) -> Iterator[str]:
    if len(cells) < 2:
        return
    slow, fast = (choose(cells, key=middle.__getitem__) for choose in (max, min))
    rivals = cells if every else [fast]
    for rival in rivals:
        if tail[rival] > tail[slow] and middle[rival] < middle[slow]:
            yield f"{rival} is slower than {slow} at P99"
