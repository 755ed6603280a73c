"""What the study of executors said, held against the recordings at hand.

The study (rclcpp's EventsExecutor against EventsCBGExecutor, 2025, with iRobot's ros2-performance)
published graphs without data: its curves cannot be computed again. Its statements can be tested.
"""

from __future__ import annotations

from collections.abc import Sequence

from roslens.analysis.estimate import cell_label
from roslens.analysis.executors.pairs import Pair
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.reports.tables import statements_table
from roslens.analysis.statistics.factorial import FactorEffect
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
        told = "; ".join(
            f"{e.label}: {e.value or 0:.2f} [{e.low or 0:.2f}, {e.high or 0:.2f}]" for e in clear
        )
        return Statement(content, "refuted", f"over all conditions {told}")
    differ = [p for p in cpu_pairs if p.verdict in {"more", "less"}]
    same = [p for p in cpu_pairs if p.verdict == "no_difference"]
    told = f"{len(differ)} of {len(cpu_pairs)} pairs differ, {len(same)} are alike"
    if differ:
        worst = max(differ, key=lambda p: abs((p.ratio or 1) - 1))
        told += (
            f"; the largest: {worst.level} takes {worst.ratio or 0:.2f} "
            f"[{worst.low or 0:.2f}, {worst.high or 0:.2f}] times what {worst.reference} does "
            f"({cell_label(worst.conditions)})"
        )
    verdict = borne_out(all_for=len(same) == len(cpu_pairs), any_against=bool(differ))
    return Statement(content, verdict, told)


def _matters(effect: FactorEffect, threshold: float) -> bool:
    if effect.p_holm is None or effect.p_holm > 0.05 or effect.low is None or effect.high is None:
        return False
    return effect.high > 1 + threshold or effect.low < 1 - threshold


def study_table(found: Sequence[Statement]) -> ReportTable:
    """Statements of the study with their verdicts."""
    return statements_table(
        found,
        {"statement of the study": "claim", "here": "told", "because": "because"},
        "The study's statements, held against these recordings",
        notes=["The study published graphs without data: its curves cannot be computed again."],
    )
