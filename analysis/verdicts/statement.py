"""Define the words of all verdicts: what is claimed, what became of it, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from roslens.analysis.statistics.multiplicity import holm_of_known

Verdict = Literal[
    # One side compared with another; more and less if neither level is worse.
    "regression", "improvement", "more", "less", "no_difference",
    "not_comparable",
    # A figure against its budget.
    "within", "exceeded",
    # Memory over time.
    "climbs", "levels_off", "stable", "steep_start_then_stable",
    # A claim of a study, or a requirement.
    "confirmed", "supported", "holds", "in part", "refuted", "not so", "false", "broken",
    "by_construction", "impossible", "impossible_as_bytes",
    # Nothing can be said, and why.
    "not_enough_evidence", "undecided", "cannot be judged", "refused", "not_in_these_recordings",
    "no_line_rate",
]  # fmt: skip
"""The words appear unchanged in metrics.json and CSV files: programs look for them."""

CHANGES: tuple[Verdict, ...] = ("regression", "improvement")

_AGAINST: frozenset[Verdict] = frozenset(
    ("refuted", "not so", "false", "broken", "impossible", "impossible_as_bytes")
)

_UNTOLD: frozenset[Verdict] = frozenset((
    "not_enough_evidence", "not_comparable", "undecided", "cannot be judged", "refused",
    "by_construction", "not_in_these_recordings", "no_line_rate",
))  # fmt: skip


def borne_out(*, all_for: bool, any_against: bool) -> Verdict:
    """Return whether evidence supports a claim: one case against it suffices to refute it."""
    return "refuted" if any_against else "confirmed" if all_for else "not_enough_evidence"


@dataclass(frozen=True, kw_only=True)
class Tested:
    """A figure with its verdict, tested together with others.

    Attributes
    ----------
    level
        Nominal coverage.
    p, p_holm
        Two-sided p (of "no difference", of a mean at the limit), and the same adjusted for all that
        were tested together.
    verdict
        Verdict by the interval.
    confirmed
        Of a change, or a budget that is exceeded: whether it holds after Holm's correction.
    runs_needed
        Runs (on each side) that would probably suffice, if the evidence does not.
    notes
        What the reader must know.
    """

    level: float = 0.95
    p: float | None = None
    p_holm: float | None = None
    verdict: Verdict = "not_enough_evidence"
    confirmed: bool | None = None
    runs_needed: int | None = None
    notes: tuple[str, ...] = ()


_T = TypeVar("_T", bound=Tested)


def corrected(tested: Sequence[_T], what: str) -> list[_T]:
    """Confirm by Holm's correction what was tested together; `what` names it, in the plural."""
    adjusted = holm_of_known([one.p for one in tested])
    made = sum(p is not None for p in adjusted)
    result = []
    for one, p in zip(tested, adjusted, strict=True):
        confirmed, notes = None, one.notes
        if one.verdict in (*CHANGES, "exceeded"):
            # Without a p, only what was itself observed is confirmed.
            confirmed = bool(one.confirmed) if p is None else p <= 1 - one.level + 1e-12
        if p is not None and confirmed is False:
            many = f"among {made} {what} made at once (Holm's correction)"
            notes = (*notes, f"too unsure {many}")
        result.append(replace(one, p_holm=p, confirmed=confirmed, notes=notes))
    return result


@dataclass(frozen=True)
class Statement:
    """A claim or requirement with its verdict.

    Attributes
    ----------
    claim
        What was claimed, or what is checked.
    because
        The figures behind the verdict, for people.
    subject
        Subject of the claim, such as a machine or a transport.
    note
        Text that is added to the verdict.
    value, limit
        The figure and the number that it is compared with, in `unit`; None if there is none.
    """

    claim: str
    verdict: Verdict
    because: str
    subject: str = ""
    note: str = ""
    value: float | None = None
    limit: float | None = None
    unit: str = ""

    @property
    def failed(self) -> bool:
        """Whether the evidence is against the claim."""
        return self.verdict in _AGAINST

    @property
    def decided(self) -> bool:
        """Whether the evidence says anything: for the claim, against it, or how much."""
        return self.verdict not in _UNTOLD

    @property
    def told(self) -> str:
        """The verdict in words, for people."""
        return self.verdict.replace("_", " ") + self.note


def verdict_counts(found: Sequence[Statement], what: str) -> str:
    """Count the verdicts in words, such as ``Of 3 takeaways 2 are confirmed, 1 is refuted``.

    Parameters
    ----------
    what
        Name of the statements, in the plural.
    """
    counts = Counter(statement.verdict.replace("_", " ") for statement in found)
    tally = ", ".join(f"{n} {'is' if n == 1 else 'are'} {_AS_SAID.get(v, v)}" for v, n in
                      counts.most_common())  # fmt: skip
    return f"Of {len(found)} {what} {tally}."


_AS_SAID = {
    "holds": "kept",
    "not enough evidence": "not known",
    "not in these recordings": "not about these recordings",
}
