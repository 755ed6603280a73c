"""What the study of executors said, held against the recordings at hand.

The study (rclcpp's EventsExecutor against EventsCBGExecutor, 2025, with iRobot's ros2-performance)
published graphs without data: its curves cannot be computed again. Its statements can be tested.
"""

from __future__ import annotations

from collections.abc import Sequence

from roslens.analysis.estimate import Cell, cell_label, not_none
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.reports.tables import statements_table
from roslens.analysis.statistics.factorial import FactorEffect
from roslens.analysis.verdicts.pairs import Pair
from roslens.analysis.verdicts.statement import Statement, borne_out


def cpu_statement(
    cpu_pairs: Sequence[Pair], main_effects: Sequence[FactorEffect] = (), threshold: float = 0.05
) -> Statement:
    """No executor takes more CPU than another, but in long runs.

    Parameters
    ----------
    cpu_pairs
        All pairs of executors, within the same conditions.
    main_effects
        Of the executor on CPU over all conditions, where the design allows them: they know more.
    threshold
        Differences below this part are of no importance.
    """
    content = "Executors do not differ in CPU, but for some tenths of a point in long runs."
    if not cpu_pairs:
        return Statement(content, "not_in_these_recordings", "no two executors with CPU samples")
    clear = [e for e in main_effects if _matters(e, threshold)]
    if clear:
        told = "; ".join(f"{e.label}: {e.value:.2f} [{e.low:.2f}, {e.high:.2f}]" for e in clear)
        return Statement(content, "refuted", f"over all conditions {told}")
    differ = [p for p in cpu_pairs if p.verdict in {"more", "less"}]
    same = [p for p in cpu_pairs if p.verdict == "no_difference"]
    told = f"{len(differ)} of {len(cpu_pairs)} pairs differ, {len(same)} are alike"
    if differ:
        worst = max(differ, key=lambda p: abs(not_none(p.ratio) - 1))
        told += (
            f"; the largest: {worst.level} takes {worst.ratio:.2f} "
            f"[{worst.low:.2f}, {worst.high:.2f}] times what {worst.reference} does "
            f"({cell_label(worst.conditions)})"
        )
    verdict = borne_out(all_for=len(same) == len(cpu_pairs), any_against=bool(differ))
    return Statement(content, verdict, told)


def latency_statement(mean_pairs: Sequence[Pair], max_pairs: Sequence[Pair]) -> Statement:
    """Executors have the same mean latency, and maxima that differ.

    Parameters
    ----------
    mean_pairs, max_pairs
        All pairs of executors, of the mean and of the maximum of each run.
    """
    content = "Executors have the same mean latency; their maxima differ."
    if not mean_pairs:
        return Statement(content, "not_in_these_recordings", "no two executors with latencies")
    same = [p for p in mean_pairs if p.verdict == "no_difference"]
    differ = [p for p in mean_pairs if p.verdict in {"more", "less"}]
    maxima = [p for p in max_pairs if p.verdict in {"more", "less"}]
    told = (
        f"means: {len(differ)} of {len(mean_pairs)} pairs differ, {len(same)} are alike; "
        f"maxima: {len(maxima)} of {len(max_pairs)} pairs differ"
    )
    verdict = borne_out(
        all_for=len(same) == len(mean_pairs) and bool(maxima), any_against=bool(differ)
    )
    return Statement(content, verdict, told)


def payload_statement(what: str, of_payload: Sequence[Pair]) -> Statement:
    """CPU or latency rises with the payload, on each middleware and executor.

    Parameters
    ----------
    what
        "CPU" or "Latency".
    of_payload
        Pairs of payloads under the same other conditions; of each the largest step is judged.
    """
    content = f"{what} rises with the payload, on every middleware and executor."
    widest: dict[str, Pair] = {}
    for pair in of_payload:
        label = cell_label(pair.conditions)
        if label not in widest or _step(pair) > _step(widest[label]):
            widest[label] = pair
    if not widest:
        return Statement(content, "not_in_these_recordings", "no two payloads")
    rising = [p for p in widest.values() if _upwards(p) == "more"]
    against = [p for p in widest.values() if _upwards(p) in {"less", "no_difference"}]
    told = f"in {len(rising)} of {len(widest)} conditions it does"
    if against:
        told += f"; not in: {'; '.join(cell_label(p.conditions) for p in against[:3])}"
    verdict = borne_out(all_for=len(rising) == len(widest), any_against=bool(against))
    return Statement(content, verdict, told)


def _step(pair: Pair) -> float:
    return abs(float(pair.level) - float(pair.reference))


def _upwards(pair: Pair) -> str:
    """The verdict of the larger payload against the smaller one."""
    if float(pair.level) > float(pair.reference):
        return pair.verdict
    return {"more": "less", "less": "more"}.get(pair.verdict, pair.verdict)


EVENTS_CBG, SINGLE = "EventsCBG", "SingleThreaded"
LEAST_SAVING = 0.15
MANY_PUBLISHERS = 10
_SHOWN = 3


def _publishers(conditions: Cell) -> float:
    count = conditions.get("publishers", 1)
    return float(count) if isinstance(count, int | float) else 1.0


def saving_statement(cpu_pairs: Sequence[Pair]) -> Statement:
    """EventsCBG takes at least 15 % less CPU than SingleThreaded (rosbag2's pull request 2472).

    Parameters
    ----------
    cpu_pairs
        All pairs of executors, within the same conditions.
    """
    content = (
        "EventsCBG takes 15 to 23 % less CPU than SingleThreaded (rosbag2, pull request 2472)."
    )
    ratios = []
    for pair in cpu_pairs:
        if pair.low is None or pair.high is None or pair.ratio is None:
            continue
        if (pair.level, pair.reference) == (EVENTS_CBG, SINGLE):
            ratios.append((pair.ratio, pair.low, pair.high, pair.conditions))
        elif (pair.level, pair.reference) == (SINGLE, EVENTS_CBG):
            ratios.append((1 / pair.ratio, 1 / pair.high, 1 / pair.low, pair.conditions))
    if not ratios:
        return Statement(content, "not_in_these_recordings", "no such pair with an interval")
    of_its_load = [x for x in ratios if _publishers(x[3]) >= MANY_PUBLISHERS]
    shown = of_its_load or ratios[:_SHOWN]
    told = "; ".join(
        f"{100 * (1 - ratio):.0f} % less [{100 * (1 - high):.0f}, {100 * (1 - low):.0f}]"
        f" ({cell_label(conditions)})"
        for ratio, low, high, conditions in shown
    )
    if not of_its_load:
        if len(ratios) > _SHOWN:
            told += f"; {len(ratios) - _SHOWN} more in pairs.csv"
        because = f"it is of many publishers; with fewer than {MANY_PUBLISHERS}: {told}"
        return Statement(content, "not_in_these_recordings", because)
    verdict = borne_out(
        all_for=all(high <= 1 - LEAST_SAVING for _, _, high, _ in of_its_load),
        any_against=any(low > 1 - LEAST_SAVING for _, low, _, _ in of_its_load),
    )
    return Statement(content, verdict, told)


def _matters(effect: FactorEffect, threshold: float) -> bool:
    if effect.p_holm is None or effect.p_holm > 0.05 or effect.low is None or effect.high is None:
        return False
    return effect.high > 1 + threshold or effect.low < 1 - threshold


def study_table(found: Sequence[Statement]) -> ReportTable:
    """Statements of the study with their verdicts."""
    return statements_table(
        found,
        {"statement": "claim", "here": "told", "because": "because"},
        "Published statements, held against these recordings",
        notes=[
            "The study published graphs without data: its curves cannot be computed again.",
            "What was said of EventsCBG in a recorder is of its load: many publishers.",
        ],
    )
