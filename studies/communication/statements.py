"""Judge published statements on rclcpp's ways of communication by the recordings.

The first three statements are the study's (rclcpp, pull request 636, 2019), which printed one run
of each and no interval; the fourth was reported of rclcpp later (issue 1722); the last concerns the
promise of loaned messages. Each is judged by ratios of one value per run, with Holm's correction
over its pairs (`roslens.analysis.judged`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from roslens.analysis.judged import Stated, judged
from roslens.analysis.statistics.factorial import Observation
from roslens.analysis.verdicts.pairs import pairs
from roslens.analysis.verdicts.statement import Statement
from roslens.recording.manifest import Level
from roslens.studies.communication.published import transport_of

_POINTER, _INTRA, _LOANED, _WAY = "pointer", "intra_process", "loaned", "way"


def statements(
    latencies: Sequence[Observation],
    within: Sequence[Observation],
    periods: Sequence[Observation],
    level: float = 0.95,
) -> list[Statement]:
    """Return all statements, each with its verdict.

    Parameters
    ----------
    latencies, within, periods
        Values of each run with the cell's factors: the mean latency, the mean latency within the
        publisher's process, and, where one publisher sends 10 MB, its mean period.
    """
    ways = [_named(o) for o in latencies if transport_of(o.cell)]
    copied = [o for o in ways if o.cell.get(_POINTER) != _LOANED]
    # The callback's argument does not determine the published pointer.
    off = [o for o in copied if _POINTER in o.cell and o.cell[_INTRA] == "off"]
    large = [_named(o) for o in periods if transport_of(o.cell)]
    same = [_named(o) for o in within if transport_of(o.cell)]
    loaned = [way for o in ways if (way := _loaned(o)) is not None]
    asked: list[tuple[str, list[Observation], str, Level, Stated]] = [
        ("Intra-process communication shortens the latency.", copied, _INTRA, "off", "less"),
        ("Without it the kind of pointer makes no difference.", off, _POINTER, "shared", "alike"),
        ("With it publishers of 10 MB have a shorter period.", large, _INTRA, "off", "less"),
        (
            "A subscription in another process makes the latency within the process longer.",
            *(same, "outside", 0, "more"),
        ),
        ("Loaned messages take as long as intra-process ones.", loaned, _WAY, _INTRA, "alike"),
    ]
    statements = []
    for claim, observations, factor, first, stated in asked:
        # The first level is the one that the others are compared with.
        ordered = sorted(observations, key=lambda o: o.cell.get(factor) != first)
        found = pairs(factor, ordered, factor, level=level)
        statements.append(judged(claim, found, stated, level))
    return statements


def _named(o: Observation) -> Observation:
    """Rename pointer (or the callback's argument) and intra-process communication consistently."""
    pointer, intra = transport_of(o.cell) or ("", False)
    rest = {k: v for k, v in o.cell.items() if k not in {"callback", _POINTER, _INTRA}}
    kind = _POINTER if _POINTER in o.cell else "callback"
    cell = {**rest, kind: pointer, _INTRA: "on" if intra else "off"}
    return replace(o, cell=cell)


def _loaned(o: Observation) -> Observation | None:
    """Return an observation by way: loaned, or unique pointer within the process; else None."""
    pointer = o.cell.get(_POINTER)
    loaned = pointer == _LOANED
    if not loaned and (pointer, o.cell[_INTRA]) != ("unique", "on"):
        return None
    rest = {k: v for k, v in o.cell.items() if k not in {_POINTER, _INTRA}}
    return replace(o, cell={**rest, _WAY: _LOANED if loaned else _INTRA})
