"""Judge the statements of the study of executors by the recordings.

The study (rclcpp's EventsExecutor against EventsCBGExecutor, 2025, with iRobot's ros2-performance)
published graphs without data: its curves cannot be recomputed, but its statements can be tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from roslens.analysis.estimate import Cell, cell_label
from roslens.analysis.judged import judged, pair_in_words, turned
from roslens.analysis.verdicts.pairs import Pair
from roslens.analysis.verdicts.statement import Statement, borne_out

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


def cpu_statement(cpu_pairs: Sequence[Pair], overall: Sequence[Pair] = ()) -> Statement:
    """Judge whether Events and EventsCBG take the same CPU; actions are left out.

    Parameters
    ----------
    cpu_pairs
        All pairs of executors, within the same conditions.
    overall
        Pairs over all conditions without actions.
    """
    kept = [p for p in _published_pairs(cpu_pairs) if not is_of_actions(p.conditions)]
    claim = "Events and EventsCBG take the same CPU for messages and calls."
    return _with_average(judged(claim, kept, "alike"), overall)


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
    return judged(claim, list(widest.values()), "more")


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
        pairs = [p if _name(p.level) == self.less else turned(p) for p in found]
        return judged(self.claim, pairs, "less")


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


def saving_statement(cpu_pairs: Sequence[Pair]) -> Statement:
    """Judge whether EventsCBG saves at least 15 % CPU over SingleThreaded (rosbag2, request 2472).

    Parameters
    ----------
    cpu_pairs
        All pairs of executors, within the same conditions.
    """
    content = (
        "EventsCBG takes at least 15 % less CPU than SingleThreaded (rosbag2, pull request 2472: "
        "15 to 23 %)."
    )
    oriented = [turned(p) if p.level == SINGLE else p for p in cpu_pairs]
    ratios = [
        (p.ratio, p.low, p.high, p.conditions)
        for p in oriented
        if (p.level, p.reference) == (EVENTS_CBG, SINGLE)
        if p.ratio is not None and p.low is not None and p.high is not None
    ]
    if not ratios:
        return Statement(content, "not_in_these_recordings", "no such pair with an interval")
    of_its_load = [ratio for ratio in ratios if _publishers(ratio[3]) >= MANY_PUBLISHERS]
    shown = of_its_load or ratios[:_SHOWN]
    savings = "; ".join(
        f"{100 * (1 - ratio):.0f} % less [{100 * (1 - high):.0f}, {100 * (1 - low):.0f}]"
        f" ({cell_label(conditions)})"
        for ratio, low, high, conditions in shown
    )
    if not of_its_load:
        if len(ratios) > _SHOWN:
            savings += f"; {len(ratios) - _SHOWN} more in pairs.csv"
        because = f"it is of many publishers; with fewer than {MANY_PUBLISHERS}: {savings}"
        return Statement(content, "not_in_these_recordings", because)
    verdict = borne_out(
        all_for=all(high <= 1 - LEAST_SAVING for _, _, high, _ in of_its_load),
        any_against=any(low > 1 - LEAST_SAVING for _, low, _, _ in of_its_load),
    )
    return Statement(content, verdict, savings)
