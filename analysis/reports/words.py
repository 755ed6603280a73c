"""What reports say of loss, in the same words on every page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roslens.analysis.estimate import Bounds, Estimate, Unknown, cell_label, not_none
from roslens.analysis.measures.samples import RunSamples
from roslens.analysis.reports.front import with_interval
from roslens.analysis.reports.numbers import significant


def loss_sentence(
    samples: Sequence[RunSamples],
    losses: Sequence[Estimate],
    labels: Mapping[str, str] | None = None,
) -> str:
    """How many messages did not arrive, of how many nobody can say, and where most were lost.

    Nothing is said to have arrived of which that is not known.

    Parameters
    ----------
    samples
        The runs that count.
    losses
        The fraction lost of each cell.
    labels
        Short labels of cells by `cell_label`; none: `cell_label` itself.
    """
    missed, known = sum(s.lost for s in samples), sum(s.sent for s in samples)
    unknown = sum(s.unknown for s in samples)
    early = sum(s.outcomes.get("not_matched", 0) for s in samples)
    before = f"{early:,} were published before their subscription first took one of that publisher"
    if not known + unknown:
        return (
            f"Nothing can be said of loss: {f'all {before}' if early else 'no message was sent'}."
        )
    if not known:
        return f"Of {unknown:,} messages nobody can say whether they arrived."
    if missed:
        said = f"{missed:,} of {known:,} messages did not arrive"
    elif unknown:
        said = f"None of {known:,} messages is known to be lost"
    else:
        said = f"All {known:,} messages arrived"
    if unknown:
        said += f"; of {unknown:,} more nobody can say"
    if early:
        said += f"; {before}, and count neither way"
    worst = _worst(losses) if len(losses) > 1 or unknown else None
    if worst is not None:
        label = cell_label(worst.cell)
        name = (labels or {}).get(label, label)
        said += f"; most {'with ' + name + ': ' if len(losses) > 1 else ''}{_part(worst)}"
    return said + "."


def _worst(losses: Sequence[Estimate]) -> Estimate | None:
    """Where most may be lost; None where nothing may."""

    def most(e: Estimate) -> float:
        found = e.finding
        if isinstance(found, Bounds):
            return found.high
        return -1.0 if e.value is None else e.value

    worst = max(losses, key=most, default=None)
    return None if worst is None or most(worst) <= 0 else worst


def _part(loss: Estimate) -> str:
    match loss.finding:
        case Bounds(low, high):
            return f"between {significant(100 * low, 3)} % and {significant(100 * high, 3)} %"
        case Unknown(_, seen):
            return f"{significant(100 * not_none(seen), 3)} %"
        case _:
            return with_interval(loss)
