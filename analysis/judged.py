"""Decide whether pairs support a statement: verdict, words and interval by one rule.

For each pair, `side` decides by its interval, and by p after Holm's correction:

* less (more): for the statement where the interval lies below (above) 1; against it where the
  interval lies on the other side of 1, or contains 1 and no relevant difference (of at least the
  threshold).
* alike: for the statement where the interval contains no relevant difference; against it where the
  interval excludes 1 and reaches a relevant difference.

Otherwise the pair decides nothing, nor does one whose levels were recorded on different machines.
So a refuted "less" never has an interval below 1: whether the difference is relevant is another
question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, log
from typing import Literal

from roslens.analysis.estimate import cell_label
from roslens.analysis.reports.numbers import significant
from roslens.analysis.verdicts.pairs import Pair
from roslens.analysis.verdicts.statement import Statement, Verdict, borne_out

Stated = Literal["less", "alike", "more"]
Side = Literal["for", "against", "open"]
ACROSS_MACHINES = "; undecided where the levels were recorded on different machines"
_TURNED: Mapping[Verdict, Verdict] = {"less": "more", "more": "less"}


def side(pair: Pair, stated: Stated, level: float = 0.95) -> Side:
    """Return whether a pair supports that its level is less, alike or more than the reference.

    Parameters
    ----------
    level
        Level of the interval; 1 - level is the threshold for p after Holm's correction.
    """
    if pair.across_machines or pair.ratio is None or pair.low is None or pair.high is None:
        return "open"
    if pair.verdict == "no_difference" and (stated == "alike" or pair.low <= 1 <= pair.high):
        return "for" if stated == "alike" else "against"
    if stated == "alike":
        return "against" if pair.verdict in ("less", "more") else "open"
    if pair.p_holm is None or pair.p_holm > 1 - level or pair.low <= 1 <= pair.high:
        return "open"
    return "for" if (pair.high < 1) == (stated == "less") else "against"


def judged(claim: str, found: Sequence[Pair], stated: Stated, level: float = 0.95) -> Statement:
    """Return the statement about all pairs: one pair against it refutes it, all for it confirm it.

    Parameters
    ----------
    claim
        The statement in words.
    found
        The pairs that the statement is about, and no others.
    stated
        Relation of each level to its reference, by the claim.

    Returns
    -------
    The statement. Its reason counts the pairs and shows the deciding interval: the strongest
    against a refuted claim, the weakest for a confirmed one, else one that decides nothing.
    """
    if not found:
        return Statement(claim, "not_in_these_recordings", "no pair that it is about")
    sides: dict[Side, list[Pair]] = {"for": [], "against": [], "open": []}
    for pair in found:
        sides[side(pair, stated, level)].append(pair)
    words: Mapping[Side, str] = {"for": "for it", "against": "against it", "open": "undecided"}
    counts = ", ".join(f"{len(sides[s])} {text}" for s, text in words.items() if sides[s])
    verdict = borne_out(all_for=len(sides["for"]) == len(found), any_against=bool(sides["against"]))
    deciding = sides["against"] or sides["open"] or sides["for"]

    def farthest(pair: Pair) -> float:
        """Return the distance from the statement: the strongest against, or the weakest for it."""
        size = -inf if pair.ratio is None or pair.ratio <= 0 else log(pair.ratio)
        return abs(size) if stated == "alike" else size if stated == "less" else -size

    with_interval = [p for p in deciding if p.low is not None]
    because = f"of {len(found)} pair{'s' * (len(found) != 1)} {counts}"
    if with_interval:
        because += f"; {pair_in_words(max(with_interval, key=farthest))}"
    elif refused := next((p.refused for p in deciding if p.refused), None):
        because += f"; {refused}"
    if any(pair.across_machines for pair in found):
        because += ACROSS_MACHINES
    return Statement(claim, verdict, because)


def turned(pair: Pair) -> Pair:
    """Return the pair with reference and level exchanged: 1 / ratio."""
    low, high = (
        None if bound is None or bound <= 0 else 1 / bound for bound in (pair.high, pair.low)
    )
    return replace(
        pair,
        level=pair.reference,
        reference=pair.level,
        ratio=None if pair.ratio is None or pair.ratio <= 0 else 1 / pair.ratio,
        low=low,
        high=high,
        by_itself=_TURNED.get(pair.by_itself, pair.by_itself),
        verdict=_TURNED.get(pair.verdict, pair.verdict),
    )


def pair_in_words(pair: Pair) -> str:
    """Return text such as ``on is 0.500 [0.400, 0.600] times off (pointer=shared)``."""
    ratio, low, high = (significant(number, 3) for number in (pair.ratio, pair.low, pair.high))
    where = f" ({cell_label(pair.conditions)})" if pair.conditions else ""
    corrected = (
        "; too unsure among so many pairs (Holm's correction)"
        if pair.by_itself in ("less", "more") and pair.verdict == "not_enough_evidence"
        else ""
    )
    return f"{pair.level} is {ratio} [{low}, {high}] times {pair.reference}{where}{corrected}"
