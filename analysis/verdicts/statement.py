"""Define the words of all verdicts: what is claimed, what became of it, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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

_AGAINST: frozenset[Verdict] = frozenset(
    ("refuted", "not so", "false", "broken", "impossible", "impossible_as_bytes")
)

_UNTOLD: frozenset[Verdict] = frozenset(
    (
        *(
            "not_enough_evidence",
            "not_comparable",
            "undecided",
            "cannot be judged",
            "refused",
            "by_construction",
        ),
        *("not_in_these_recordings", "no_line_rate"),
    )
)


def borne_out(*, all_for: bool, any_against: bool) -> Verdict:
    """Return whether evidence supports a claim: one case against it suffices to refute it."""
    return "refuted" if any_against else "confirmed" if all_for else "not_enough_evidence"


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


def told_of(found: Sequence[Statement], what: str) -> str:
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
