"""What is claimed, what became of it, and why: the words of all verdicts in one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal[
    # One side held against another; more and less where neither is worse.
    "regression", "improvement", "more", "less", "no_difference",
    "not_comparable",
    # A figure against its budget.
    "within", "exceeded",
    # Memory over time.
    "climbs", "levels_off", "stable", "steep_start_then_stable",
    # What a study said, or what must hold.
    "confirmed", "supported", "holds", "in part", "refuted", "not so", "false", "broken",
    "by_construction", "impossible", "impossible_as_bytes",
    # Nothing can be said, and why.
    "not_enough_evidence", "undecided", "cannot be judged", "refused", "not_in_these_recordings",
    "no_line_rate",
]  # fmt: skip
"""The words go into metrics.json and CSV files as they are: programs look for them."""

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
    """Whether evidence bears out what was said: one case against it suffices."""
    return "refuted" if any_against else "confirmed" if all_for else "not_enough_evidence"


@dataclass(frozen=True)
class Statement:
    """Something that was said or must hold, with its verdict.

    Attributes
    ----------
    claim
        What was said, or what is checked.
    because
        The figures, for people.
    subject
        Whom or what it is about, such as a machine or a transport.
    note
        What is said with the verdict.
    value, limit
        The figure and what it is compared with, in `unit`; None where there is none.
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
        """Whether the evidence is against it."""
        return self.verdict in _AGAINST

    @property
    def decided(self) -> bool:
        """Whether the evidence tells anything: for it, against it, or how much."""
        return self.verdict not in _UNTOLD

    @property
    def told(self) -> str:
        """The verdict for people."""
        return self.verdict.replace("_", " ") + self.note


def told_of(found: Sequence[Statement], what: str) -> str:
    """How many of each verdict, such as ``Of 3 takeaways 2 are confirmed, 1 is refuted``.

    Parameters
    ----------
    what
        Their name in the plural.
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
