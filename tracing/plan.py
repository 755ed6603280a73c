"""Plan a campaign: fix its runs and their order before anything runs."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from roslens.recording import UsageError
from roslens.recording.files import write_atomically
from roslens.recording.manifest import Level
from roslens.recording.models import Frozen
from roslens.recording.text import first_problem
from roslens.tracing.suite import MOST_RUNS, Suite

PLAN_NAME = "plan.json"
_LONGEST_NAME = 120


class PlannedRun(Frozen):
    """A planned run: its place in the campaign, its block, its levels, its folder."""

    order: int
    repetition: int
    factors: dict[str, Level]
    combination: int = 0
    run: str

    def folder(self, attempt: int = 0) -> str:
        """Return an attempt's folder name: 0 is the planned run, higher numbers are retries."""
        return f"{self.run}_retry{attempt}" if attempt else self.run


class Plan(Frozen):
    """``plan.json``: the suite at that time, the seed, and the runs in order."""

    schema_version: Literal[1] = 1
    campaign: str
    created_ns: int
    seed: int
    suite: Suite
    suite_text: str
    only: dict[str, tuple[Level, ...]] = Field(
        default_factory=dict, description="the levels that were chosen; of other factors all"
    )
    runs: tuple[PlannedRun, ...]


def plan_runs(
    suite: Suite, seed: int, only: Mapping[str, Sequence[Level]] | None = None
) -> list[PlannedRun]:
    """Return a suite's runs: each repetition (block) has every combination once, shuffled.

    Parameters
    ----------
    suite
        The suite.
    seed
        Seed of the order; equal seeds give equal orders.
    only
        Levels to run, for some of the factors.

    Raises
    ------
    UsageError
        There are more than `MOST_RUNS` runs.
    """
    source = random.Random(seed)  # noqa: S311 (an order, no secret)
    runs: list[PlannedRun] = []
    chosen = (
        factors
        for factors in suite.combinations()
        if all(factors[name] in levels for name, levels in (only or {}).items())
    )
    combinations = list(islice(chosen, MOST_RUNS + 1))
    if suite.repetitions * len(combinations) > MOST_RUNS:
        raise UsageError(
            f"suite {suite.name}: more than {MOST_RUNS:,} runs; give fewer repetitions or levels"
        )
    for repetition in range(suite.repetitions):
        block = list(range(len(combinations)))
        source.shuffle(block)
        for combination in block:
            order, factors = len(runs), combinations[combination]
            runs.append(
                PlannedRun(
                    order=order,
                    repetition=repetition,
                    factors=factors,
                    combination=combination,
                    run=_folder(order, repetition, factors),
                )
            )
    return runs


def chosen_levels(suite: Suite, texts: Sequence[str]) -> dict[str, tuple[Level, ...]]:
    """Return the levels given as ``factor=level``; a factor given twice allows either level.

    Raises
    ------
    UsageError
        A factor or level does not exist, or no combination is left.
    """
    chosen: dict[str, tuple[Level, ...]] = {}
    for text in texts:
        name, equals, wanted = text.partition("=")
        if not equals or name not in suite.factors:
            choices = ", ".join(suite.factors) or "none"
            raise UsageError(f"--only {text}: give factor=level; the factors are: {choices}")
        levels = [level for level in suite.factors[name] if str(level).lower() == wanted.lower()]
        if not levels:
            choices = ", ".join(map(str, suite.factors[name]))
            raise UsageError(f"--only {text}: the levels of {name} are: {choices}")
        chosen[name] = tuple(dict.fromkeys((*chosen.get(name, ()), *levels)))
    if not plan_runs(suite, 0, chosen):
        runs = plan_runs(suite, 0)
        combinations = dict.fromkeys(
            " ".join(f"{factor}={run.factors[factor]}" for factor in chosen) for run in runs
        )
        raise UsageError(
            f"--only {' '.join(texts)}: the suite excludes this combination; "
            f"there are: {', '.join(sorted(combinations))}"
        )
    return chosen


def choose_seed(suite: Suite) -> int:
    """Return the suite's seed, or a new one."""
    return suite.seed if suite.seed is not None else random.SystemRandom().randrange(2**32)


def write_plan(plan: Plan, folder: Path) -> None:
    """Write ``plan.json`` into the campaign's folder."""
    write_atomically(folder / PLAN_NAME, plan.model_dump_json(indent=1) + "\n")


def read_plan(folder: Path) -> Plan:
    """Read and validate a campaign's plan.

    Raises
    ------
    UsageError
        The plan is missing or not valid.
    """
    path = folder / PLAN_NAME
    try:
        return Plan.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        where, problem = first_problem(error)
        raise UsageError(f"{path}: not a valid plan: {where}: {problem}") from error


def _folder(order: int, repetition: int, factors: dict[str, Level]) -> str:
    levels = "_".join(f"{name}-{level}" for name, level in factors.items())
    name = f"{order:03d}_r{repetition}" + (f"_{levels}" if levels else "")
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", name)[:_LONGEST_NAME]
