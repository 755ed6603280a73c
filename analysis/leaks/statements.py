"""Check what the study of executors said about memory against the recordings at hand.

See `roslens.analysis.reports.study_of_executors`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from roslens.analysis.estimate import Estimate, not_none
from roslens.analysis.leaks.leak import Leak
from roslens.analysis.verdicts.statement import Statement, borne_out

# Names of the workloads in the suites of rclpy and of rclcpp.
ACTION, SERVICE, PUBSUB = {"action", "actions"}, {"service", "services"}, {"pubsub", "messages"}
_BOTH = {"events": ("events",), "events_cbg": ("events_cbg", "eventscbg", "eventscbgmulti")}
_EVENTS = tuple(name for names in _BOTH.values() for name in names)
_EARLY_S, _LATE_S = 150, 600
"""Seconds around five minutes: from half of that to twice as long."""


def leak_statements(leaks: Sequence[Leak], baselines: Sequence[Estimate]) -> list[Statement]:
    """Judge what the study said about memory."""
    return [_actions(leaks), _messages(leaks), _services(leaks), _baseline(baselines)]


def _of_workload(leaks: Sequence[Leak], workload: set[str], *executors: str) -> list[Leak]:
    """Return the cells of a workload, and of executors if any are named."""
    return [
        leak
        for leak in leaks
        if str(leak.per_second.cell.get("workload", "")).lower() in workload
        and (not executors or _executor(leak.per_second) in executors)
    ]


def _executor(estimate: Estimate) -> str:
    name = str(estimate.cell.get("executor", "")).lower()
    return name.removesuffix("executor").removesuffix("threaded")


def _slopes_in_words(leaks: Sequence[Leak]) -> str:
    return "; ".join(
        f"{leak.per_second.cell.get('executor', '')}: {leak.verdict.replace('_', ' ')}"
        + ("" if leak.per_second.value is None else f" ({leak.per_second.value / 1e3:+.3g} kB/s)")
        for leak in leaks
    )


def _judge(
    content: str,
    leaks: Sequence[Leak],
    wanted: Callable[[Leak], bool],
    against: Callable[[Leak], bool],
    executors: Mapping[str, Sequence[str]],
) -> Statement:
    """Judge a statement about each of some executors, by the names that suites give them."""
    if not leaks:
        return Statement(content, "not_in_these_recordings", "no such runs")
    recorded = {_executor(leak.per_second) for leak in leaks}
    missing = [name for name, ours in executors.items() if recorded.isdisjoint(ours)]
    verdict = borne_out(
        all_for=not missing and all(map(wanted, leaks)),
        any_against=any(map(against, leaks)),
    )
    reasons = [_slopes_in_words(leaks), *([f"no runs of {', '.join(missing)}"] if missing else [])]
    return Statement(content, verdict, "; ".join(reasons))


def _is_flat(leak: Leak) -> bool:
    return leak.verdict in ("stable", "levels_off", "steep_start_then_stable")


def _climbs(leak: Leak) -> bool:
    return leak.verdict == "climbs"


def _climbs_not(leak: Leak) -> bool:
    """Return whether memory does not climb even slowly: the interval does not lie above zero."""
    return _is_flat(leak) and not_none(leak.per_second.low) <= 0


def _levels_off(leak: Leak) -> bool:
    bend_s = None if leak.bend_s is None else leak.bend_s.value
    return leak.verdict == "levels_off" and bend_s is not None and _EARLY_S <= bend_s <= _LATE_S


def _levels_off_not(leak: Leak) -> bool:
    """Return whether memory does not level off, even long after five minutes."""
    if leak.verdict == "levels_off" and leak.bend_s is not None:
        return not_none(leak.bend_s.high) < _EARLY_S or not_none(leak.bend_s.low) > _LATE_S
    long = leak.looked_at_s[1] >= _LATE_S
    return long and leak.verdict not in ("levels_off", "not_enough_evidence")


def _actions(leaks: Sequence[Leak]) -> Statement:
    content = "Actions leak with both events executors and do not with the single-threaded one."
    events, single = _of_workload(leaks, ACTION, *_EVENTS), _of_workload(leaks, ACTION, "single")
    leaking = _judge(content, events, _climbs, _is_flat, _BOTH)
    quiet = _judge(content, single, _is_flat, _climbs, {})
    because = "; ".join(
        statement.because
        for statement in (leaking, quiet)
        if statement.verdict != "not_in_these_recordings"
    )
    parts = {leaking.verdict, quiet.verdict}
    if parts == {"not_in_these_recordings"}:
        return leaking
    verdict = borne_out(all_for=parts == {"confirmed"}, any_against="refuted" in parts)
    return Statement(content, verdict, because)


def _messages(leaks: Sequence[Leak]) -> Statement:
    return _judge(
        "With messages memory climbs slowly on every executor.",
        _of_workload(leaks, PUBSUB),
        _climbs,
        _climbs_not,
        {"single": ("single",), "multi": ("multi",), **_BOTH},
    )


def _services(leaks: Sequence[Leak]) -> Statement:
    return _judge(
        "With services memory levels off after about five minutes.",
        _of_workload(leaks, SERVICE),
        _levels_off,
        _levels_off_not,
        {},
    )


def _megabytes(e: Estimate) -> str:
    value, low, high = (not_none(size) / 1e6 for size in (e.value, e.low, e.high))
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def _baseline(baselines: Sequence[Estimate]) -> Statement:
    content = "The multi-threaded executor begins with more memory than the single-threaded one."
    pairs = []
    for multi in baselines:
        if _executor(multi) != "multi":
            continue
        rest = {k: v for k, v in multi.cell.items() if k not in {"executor", "threads"}}
        for single in baselines:
            single_rest = {k: v for k, v in single.cell.items() if k not in {"executor", "threads"}}
            if _executor(single) == "single" and single_rest == rest:
                pairs.append((multi, single))
    with_bounds = [(m, s) for m, s in pairs if None not in (m.low, m.high, s.low, s.high)]
    if not with_bounds:
        return Statement(content, "not_in_these_recordings", "no such pair of cells")
    because = "; ".join(f"{_megabytes(m)} against {_megabytes(s)} MB" for m, s in with_bounds)
    verdict = borne_out(
        all_for=all(not_none(m.low) > not_none(s.high) for m, s in with_bounds),
        any_against=any(not_none(m.high) < not_none(s.low) for m, s in with_bounds),
    )
    return Statement(content, verdict, because)
