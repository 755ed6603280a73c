"""Judge the statements of the study of executors by the recordings.

The study (rclcpp's EventsExecutor against EventsCBGExecutor, 2025, with iRobot's ros2-performance)
published graphs without data: its curves cannot be recomputed, but its statements can be tested.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from roslens.analysis.estimate import Cell, cell_label, not_none
from roslens.analysis.judged import ACROSS_MACHINES, judged, pair_in_words, turned
from roslens.analysis.statistics.factorial import Observation
from roslens.analysis.verdicts.pairs import Pair, pairs
from roslens.analysis.verdicts.statement import Statement, Verdict, borne_out
from roslens.studies.executors.work import CALL, MESSAGE, Kind

_EVENTS, _CBG = "events", "eventscbg"
_ACTIONS = ("action", "actions")


def _name(executor: object) -> str:
    """Return the name of an executor in one form, whatever suite or tool names it."""
    return str(executor).lower().replace("_", "").removesuffix("executor")


def is_of_the_study(executor: object) -> bool:
    """Return whether an executor is one of the two that the study compared, on one thread."""
    return _name(executor) in {_EVENTS, _CBG}


def _published_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs of the two executors that the study compared, EventsCBG on one thread."""
    return [p for p in pairs if {_name(p.level), _name(p.reference)} == {_EVENTS, _CBG}]


def is_of_actions(conditions: Cell) -> bool:
    """Return whether the work was action goals."""
    return conditions.get("workload") in _ACTIONS


def cpu_statement(
    cpu_pairs: Sequence[Pair], done: Iterable[tuple[object, Kind]], overall: Sequence[Pair] = ()
) -> Statement:
    """Judge whether Events and EventsCBG take the same CPU; actions are left out.

    Parameters
    ----------
    cpu_pairs
        All pairs of executors, within the same conditions.
    done
        Executor and kind of work of each run.
    overall
        Pairs over all conditions without actions.
    """
    kept = [p for p in _published_pairs(cpu_pairs) if not is_of_actions(p.conditions)]
    claim = "Events and EventsCBG take the same CPU for messages and calls."
    with_kind = {(_name(executor), kind) for executor, kind in done}
    missing = [
        f"{kind.noun}s with both"
        for kind in (MESSAGE, CALL)
        if not {(_EVENTS, kind), (_CBG, kind)} <= with_kind
    ]
    return _with_average(_unless_missing(judged(claim, kept, "alike"), missing), overall)


def latency_statement(mean_pairs: Sequence[Pair], overall: Sequence[Pair] = ()) -> Statement:
    """Judge whether Events and EventsCBG have the same mean latency of messages.

    Parameters
    ----------
    mean_pairs
        All pairs of executors, by the mean latency of messages in each run.
    overall
        Pairs over all conditions.
    """
    claim = "Events and EventsCBG have the same mean latency."
    return _with_average(judged(claim, _published_pairs(mean_pairs), "alike"), overall)


def _with_average(statement: Statement, overall: Sequence[Pair]) -> Statement:
    """Add the ratio over all conditions, on which the verdict does not depend."""
    means = [
        f"on average over {pair.over} conditions {pair_in_words(pair)}"
        for pair in _published_pairs(overall)
        if pair.low is not None
    ]
    return replace(statement, because="; ".join([statement.because, *means]))


def payload_statement(what: str, of_payload: Sequence[Pair], rmw: str = "") -> Statement:
    """Judge whether CPU or latency rises with the payload on Cyclone DDS, on both executors.

    Parameters
    ----------
    what
        "CPU" or "Latency".
    of_payload
        Pairs of payloads under equal other conditions; in each the largest step is judged.
    rmw
        The middleware of all runs, if it is the same.
    """
    widest: dict[str, Pair] = {}
    for pair in of_payload:
        where = pair.conditions
        if _name(where.get("executor")) not in (_EVENTS, _CBG) or (
            "cyclonedds" not in str(where.get("rmw", rmw))
        ):
            continue
        rising = pair if float(pair.level) > float(pair.reference) else turned(pair)
        label = cell_label(where)
        if label not in widest or _step(rising) > _step(widest[label]):
            widest[label] = rising
    claim = f"{what} rises with the payload on Cyclone DDS, with Events and with EventsCBG."
    recorded = {_name(pair.conditions["executor"]) for pair in widest.values()}
    missing = [
        f"runs of {name}" for name in ("Events", "EventsCBG") if name.lower() not in recorded
    ]
    return _unless_missing(judged(claim, list(widest.values()), "more"), missing)


def _unless_missing(statement: Statement, missing: Sequence[str]) -> Statement:
    """Name what a statement is about that was not recorded: without it nothing is confirmed."""
    if not missing or statement.verdict == "not_in_these_recordings":
        return statement
    verdict: Verdict = statement.verdict
    if verdict == "confirmed":
        verdict = "not_enough_evidence"
    because = f"{statement.because}; no {', no '.join(missing)}"
    return replace(statement, verdict=verdict, because=because)


def _step(pair: Pair) -> float:
    return float(pair.level) - float(pair.reference)


@dataclass(frozen=True)
class OverTime:
    """A statement of the study on CPU in long runs with one kind of work.

    Attributes
    ----------
    measure
        ``mean``, ``largest`` or ``deviation`` (standard) of the CPU between samples of a run.
    workloads
        Names of the work in the suites of rclcpp and of rclpy.
    less
        The executor for which the study's measure was less.
    threshold
        Smallest relative difference that counts: the smallest the study mentions, if it mentions
        one.
    """

    claim: str
    measure: str
    workloads: tuple[str, ...]
    less: str
    threshold: float = 0.05

    def judged(self, found: Sequence[Pair]) -> Statement:
        """Return the verdict from pairs of the two executors, within the same conditions."""
        oriented = [p if _name(p.level) == self.less else turned(p) for p in found]
        return judged(self.claim, oriented, "less")


OVER_TIME = (
    OverTime(
        "In long runs with messages Events takes less CPU than EventsCBG.",
        "mean", ("messages", "pubsub"), _EVENTS, 0.0005,
    ),
    OverTime(
        "In long runs with actions the largest CPU of EventsCBG is lower than that of Events.",
        "largest", _ACTIONS, _CBG, 0.02,
    ),
    OverTime(
        "In long runs with actions the CPU of EventsCBG varies less over time than that of Events.",
        "deviation", _ACTIONS, _CBG,
    ),
)  # fmt: skip


EVENTS_CBG, SINGLE = "EventsCBG", "SingleThreaded"
LEAST_SAVING = 0.15
MANY_PUBLISHERS = 10
_SHOWN = 3


def _publishers(conditions: Cell) -> float:
    count = conditions.get("publishers", 1)
    return float(count) if isinstance(count, int | float) else 1.0


def saving_statement(
    cpu: Sequence[Observation], factor: str = "executor", level: float = 0.95
) -> Statement:
    """Judge whether EventsCBG saves at least 15 % CPU over SingleThreaded (rosbag2, request 2472).

    One condition against it refutes it, so its interval must then hold among all conditions: at
    1 - (1 - level) / their number, which is Holm's correction for the surest of them.

    Parameters
    ----------
    cpu
        The CPU of each run, with the conditions that tell runs apart.
    """
    content = (
        "EventsCBG takes at least 15 % less CPU than SingleThreaded (rosbag2, pull request 2472: "
        "15 to 23 %)."
    )
    ratios = _savings(cpu, factor, level)
    if not ratios:
        return Statement(content, "not_in_these_recordings", "no such pair with an interval")
    of_its_load = [pair for pair in ratios if _publishers(pair.conditions) >= MANY_PUBLISHERS]
    shown = of_its_load or ratios[:_SHOWN]
    savings = "; ".join(
        f"{100 * (1 - not_none(p.ratio)):.0f} % less [{100 * (1 - not_none(p.high)):.0f}, "
        f"{100 * (1 - not_none(p.low)):.0f}] ({cell_label(p.conditions)})"
        for p in shown
    )
    if not of_its_load:
        if len(ratios) > _SHOWN:
            savings += f"; {len(ratios) - _SHOWN} more in pairs.csv"
        because = f"it is of many publishers; with fewer than {MANY_PUBLISHERS}: {savings}"
        return Statement(content, "not_in_these_recordings", because)
    if any(p.across_machines for p in of_its_load):
        savings += ACROSS_MACHINES
    wider = _savings(cpu, factor, 1 - (1 - level) / len(of_its_load))
    verdict = borne_out(
        all_for=all(
            not_none(p.high) <= 1 - LEAST_SAVING and not p.across_machines for p in of_its_load
        ),
        any_against=any(
            not_none(p.low) > 1 - LEAST_SAVING and not p.across_machines
            for p in wider
            if _publishers(p.conditions) >= MANY_PUBLISHERS
        ),
    )
    return Statement(content, verdict, savings)


def _savings(cpu: Sequence[Observation], factor: str, level: float) -> list[Pair]:
    """Return the pairs of EventsCBG to SingleThreaded that have an interval."""
    compared = pairs("cpu", cpu, factor, level=level)
    oriented = [turned(p) if p.level == SINGLE else p for p in compared]
    return [
        p
        for p in oriented
        if (p.level, p.reference) == (EVENTS_CBG, SINGLE)
        if p.ratio is not None and p.low is not None and p.high is not None
    ]
