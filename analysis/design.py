"""Check from its runs alone whether a campaign was made as it was designed.

Each run's manifest holds its block, its place, the number of its combination and the seed. In
each block ``random.Random(seed)``, one for the whole campaign, shuffles the numbers of the
combinations (`roslens.recording.manifest.Design`), so the order can be redrawn and compared.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roslens.analysis.runs import Run


@dataclass(frozen=True)
class DesignCheck:
    """The result of checking one campaign's runs against its design.

    Attributes
    ----------
    suite, campaign, seed
        Names of suite and campaign, and the seed of the order.
    runs, planned
        Number of planned runs present (without retries), and number of runs in the design.
    deviations
        Deviations from the design, one line each; empty: the design was followed.
    """

    suite: str | None
    campaign: str | None
    seed: int | None
    runs: int
    planned: int
    deviations: tuple[str, ...]


def check_designs(runs: Iterable[Run]) -> list[DesignCheck]:
    """Check each campaign whose runs carry their design; other runs are left out.

    Missing runs are deviations only where they make the order doubtful, because a part of a
    campaign may be examined, too.
    """
    campaigns: dict[tuple[str | None, str | None], list[Run]] = {}
    for run in runs:
        if run.design is not None:
            campaigns.setdefault((run.suite, run.campaign), []).append(run)
    return [_check(members) for members in campaigns.values()]


def _check(runs: Sequence[Run]) -> DesignCheck:
    first = runs[0]
    assert first.design is not None
    design = first.design
    planned = [run for run in runs if run.design is not None and run.design.attempt == 0]
    deviations = [*_order(planned, first.seed), *_time(runs), *_blocks(planned)]
    if len({(r.seed, r.design.combinations) for r in planned if r.design}) > 1:
        deviations.insert(0, "the runs do not agree on seed and number of combinations")
    return DesignCheck(
        first.suite,
        first.campaign,
        first.seed,
        len(planned),
        design.combinations * design.blocks,
        tuple(deviations),
    )


def _order(runs: Sequence[Run], seed: int | None) -> Iterable[str]:
    """Yield deviations: runs whose combination is not the one that the seed gives."""
    if seed is None:
        yield "the seed of the order is not recorded"
        return
    design = runs[0].design if runs else None
    if design is None:
        return
    source = random.Random(seed)  # noqa: S311 (an order, no secret)
    drawn: list[tuple[int, int]] = []
    for block in range(design.blocks):
        numbers = list(range(design.combinations))
        source.shuffle(numbers)
        drawn += [(block, number) for number in numbers]
    for run in runs:
        if run.design is None or run.order is None:
            continue
        place = drawn[run.order] if 0 <= run.order < len(drawn) else None
        if place != (run.repetition, run.design.combination):
            yield f"{run.name}: not what the seed gives for place {run.order}"


def _time(runs: Sequence[Run]) -> Iterable[str]:
    """Yield deviations: runs made out of order, or after a later block had begun."""
    started = sorted((r for r in runs if r.start_ns is not None), key=lambda r: r.start_ns or 0)
    last_order, last_block = -1, -1
    for run in started:
        block, order = run.repetition or 0, run.order or 0
        if block < last_block:
            yield f"{run.name}: made after a later block had begun"
        elif run.design is not None and run.design.attempt == 0:
            if order < last_order:
                yield f"{run.name}: made after place {last_order}, is of place {order}"
            last_order = max(last_order, order)
        last_block = max(last_block, block)


def _blocks(runs: Sequence[Run]) -> Iterable[str]:
    """Yield deviations: combinations that a block has more than once."""
    counts = Counter((r.repetition, r.design.combination) for r in runs if r.design)
    for (block, combination), count in counts.items():
        if count > 1:
            yield f"block {block}: combination {combination} is there {count} times"
