"""Race two sides: run them in random order, then in pairs, until there is enough evidence."""

from __future__ import annotations

import random
import resource
import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from roslens.recording import Manifest, RunFailedError, UsageError
from roslens.tracing.campaign import (
    RECORDINGS,
    Daemons,
    new_campaign,
    prepare_suite,
    run_spec,
)
from roslens.tracing.command import command_spec
from roslens.tracing.host import HostLimits, HostWatch
from roslens.tracing.interruption import Interruption
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.plan import Plan, chosen_levels, plan_runs
from roslens.tracing.run import RunSpec, git_state, record_run
from roslens.tracing.suite import RosChoice, load_suite

SIDES = ("a", "b")
RACE_SUITE = "race"
MOST_FAILED = 3
"""Failed runs that end the race: with so many failures, the other runs prove nothing."""
_LOOK_SECONDS = 1.5
"""Seconds of watching the machine; the CPU time of others is known from one second on."""

Note = Callable[[str], None]


@dataclass(frozen=True)
class Side:
    """One side of a race: a command or a suite.

    Attributes
    ----------
    what
        The command or the suite, as given.
    spec
        Makes the specification of a run from the race's folder, the pair and its place in the
        order.
    host_limits
        Limits beyond which the machine counts as disturbed.
    """

    what: str
    spec: Callable[[Path, int, int], RunSpec]
    host_limits: HostLimits = field(default_factory=HostLimits)


@dataclass(frozen=True)
class Pair:
    """A pair of complete runs.

    Attributes
    ----------
    number
        The pair's number, from 0.
    folders, manifests
        The folders and manifests of the two runs, by side (`SIDES`).
    """

    number: int
    folders: dict[str, Path]
    manifests: dict[str, Manifest]

    @property
    def order(self) -> list[str]:
        """Return the sides in the order in which they ran."""
        return sorted(SIDES, key=lambda name: self.manifests[name].order)


Ending = Literal["decided", "max-time", "interrupted"]


@dataclass(frozen=True)
class Ended:
    """The end of a race: its folder, the reason, and the numbers of the omitted pairs."""

    folder: Path
    ending: Ending
    left_out: Sequence[int]


def side_of_command(
    name: str,
    command: Sequence[str],
    options: TracingOptions,
    *,
    ros: RosChoice,
    trace_rclpy: bool,
    time_limit: float | None,
    note: Note,
    cwd: Path | None = None,
) -> Side:
    """Make a command a side of a race; it may raise the errors of `command_spec`."""
    base = command_spec(command, options, ros=ros, trace_rclpy=trace_rclpy, note=note, cwd=cwd)

    def spec(folder: Path, pair: int, order: int) -> RunSpec:
        return replace(
            base,
            folder=folder / name / f"{order:03d}_r{pair}",
            suite=RACE_SUITE,
            campaign=folder.name,
            repetition=pair,
            order=order,
            time_limit=time_limit,
        )

    return Side(" ".join(command), spec)


def side_of_suite(name: str, suite_name: str, only: Sequence[str], note: Note) -> Side:
    """Make a suite with a single remaining combination a side of a race.

    Raises
    ------
    UsageError
        The suite does not exist or has several combinations, or recording lacks something.
    """
    suite, text = load_suite(suite_name)
    chosen = chosen_levels(
        suite, [choice for choice in only if choice.partition("=")[0] in suite.factors]
    )
    given, left = prepare_suite(suite, chosen, note)
    once = suite.model_copy(update={"repetitions": 1})
    planned = plan_runs(once, 0, left)
    if len(planned) != 1:
        raise UsageError(
            f"{suite_name}: a race is between single combinations of levels, this suite has "
            f"{len(planned)}: choose with --only FACTOR=LEVEL ({', '.join(suite.factors)})"
        )
    git = git_state()

    def spec(folder: Path, pair: int, order: int) -> RunSpec:
        run = planned[0].model_copy(
            update={"order": order, "repetition": pair, "run": f"{order:03d}_r{pair}"}
        )
        plan = Plan(
            campaign=folder.name, created_ns=0, seed=0, suite=once, suite_text=text, runs=(run,)
        )
        return replace(run_spec(plan, run, folder / name, given, git=git), design=None)

    return Side(suite_name, spec, suite.host_limits)


def race(
    sides: Sequence[Side],
    enough: Callable[[Sequence[Pair]], bool],
    *,
    opening: int,
    root: Path = RECORDINGS,
    seed: int,
    max_seconds: float,
    longest_pause: float,
    note: Note,
) -> Ended:
    """Run the sides until `enough` is satisfied; a pair that lacks a run is left out entirely.

    Parameters
    ----------
    sides
        Two sides, in the order of `SIDES`.
    enough
        Called with all pairs so far, each time that a pair is complete.
    opening
        The number of runs of each side that begin the race, all in one random order: the first runs
        of A and of B are a pair, and so on. If one fails, the opening is repeated. Each later pair
        has its own random order.
    root
        The folder of all recordings.
    seed
        Seed of the random order.
    max_seconds
        Seconds after which no pair begins; the runs of the opening are made in any case.
    longest_pause
        Maximum seconds to wait before two runs for a calm machine; 0: do not check the machine.
    note
        Called with notes for the user.

    Raises
    ------
    UsageError
        A command cannot be run.
    RunFailedError
        `MOST_FAILED` runs failed, or the folder cannot be written.
    """
    rng = random.Random(seed)  # noqa: S311 (an order, no secret)
    begun = time.monotonic()
    folder = new_campaign(root / RACE_SUITE, None)
    pairs: list[Pair] = []
    left_out: list[int] = []
    failures = number = 0
    with ExitStack() as stack:
        interruption = stack.enter_context(Interruption())
        daemons = stack.enter_context(Daemons(note))

        def run(name: str, pair: int, place: int) -> tuple[Path, Manifest]:
            if place % 2 == 0:
                left = max(0.0, max_seconds - (time.monotonic() - begun))
                wait_for_calm(sides[0].host_limits, min(longest_pause, left), interruption, note)
            if interruption.wanted:
                raise _AskedToEndError
            spec = replace(sides[SIDES.index(name)].spec(folder, pair, place), seed=seed)
            manifest = record_run(spec, daemons.current(spec.options), interruption)
            return spec.folder, _complete(manifest)

        while time.monotonic() - begun < max_seconds:
            order = list(SIDES) * (1 if pairs else opening)
            rng.shuffle(order)
            try:
                for pair in _pairs_of(order, number, run):
                    pairs.append(pair)
                    if enough(pairs):
                        return Ended(folder, "decided", left_out)
            except _AskedToEndError:
                return Ended(folder, "interrupted", left_out)
            except _IncompleteError as e:
                failures += 1
                if failures == MOST_FAILED:
                    text = f"{MOST_FAILED} runs failed, the last: {e}; {folder}"
                    raise RunFailedError(text) from None
                consequence = (
                    "the race begins anew" if len(order) > len(SIDES) else "the pair is left out"
                )
                note(f"{e}; {consequence}")
                left_out += range(number, number + len(order) // 2)
                # A failed opening counts for nothing; a failed later pair was not added.
                pairs = [pair for pair in pairs if pair.number < number]
            number += len(order) // 2
    return Ended(folder, "max-time", left_out)


class _AskedToEndError(Exception):
    """An end was requested by Ctrl-C or a signal."""


class _IncompleteError(Exception):
    """A run is not complete; the message states why."""


def _complete(run: Manifest) -> Manifest:
    if run.status == "interrupted":
        raise _AskedToEndError
    if run.status != "complete":
        raise _IncompleteError(f"{run.run}: {run.failure}")
    return run


def _pairs_of(
    order: Sequence[str], first: int, run: Callable[[str, int, int], tuple[Path, Manifest]]
) -> Iterator[Pair]:
    """Run the sides in this order, and yield each pair as soon as both of its runs are made."""
    runs: dict[str, list[tuple[Path, Manifest]]] = {name: [] for name in SIDES}
    for place, name in enumerate(order, 2 * first):
        own_runs = runs[name]
        own_runs.append(run(name, first + len(own_runs), place))
        if all(len(own_runs) <= len(side_runs) for side_runs in runs.values()):
            pair = {side: side_runs[len(own_runs) - 1] for side, side_runs in runs.items()}
            yield Pair(
                first + len(own_runs) - 1,
                {side: folder for side, (folder, _) in pair.items()},
                {side: manifest for side, (_, manifest) in pair.items()},
            )


def wait_for_calm(
    limits: HostLimits, longest: float, interruption: Interruption, note: Note
) -> None:
    """Wait until no other programs, tenants or heat disturb the machine, at most `longest` seconds.

    The load average is not considered, because for a minute it reflects our own runs.
    """
    asked = limits.model_copy(update={"load_per_cpu": None})
    begun = time.monotonic()
    noted = False
    while longest > 0 and not interruption.wanted:
        watch = HostWatch(asked)
        cpu_before = _own_cpu_ns()
        select.select([interruption], [], [], _LOOK_SECONDS)
        disturbances = watch.disturbances(watch.facts(_own_cpu_ns() - cpu_before))
        if not disturbances:
            return
        if time.monotonic() - begun >= longest:
            note(f"the pair goes on after {longest:.0f} s, disturbed: {'; '.join(disturbances)}")
            return
        if not noted:
            note(f"pausing: {'; '.join(disturbances)}")
            noted = True


def _own_cpu_ns() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return round((used.ru_utime + used.ru_stime) * 1e9)
