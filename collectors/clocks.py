"""Bring the clocks of a recording's hosts together, and bound the remaining error.

``clocks.json`` of a merged recording holds what is added to the times of each host whenever they
are read, and the bound of the difference between times on two hosts.
`roslens.collectors.ros2.clock_fit` finds both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from roslens.recording import NotEnoughEvidenceError, UsageError
from roslens.recording.files import write_atomically
from roslens.recording.json_file import read_json

if TYPE_CHECKING:
    import polars as pl

    from roslens.collectors.reader import Trace
    from roslens.collectors.ros2.clock_fit import Fit

Points: TypeAlias = Sequence[tuple[int, int]]
"""Pairs of a time and a value, both in ns, in order of time."""


@dataclass(frozen=True)
class Clocks:
    """Corrections of the hosts' clocks, and the remaining bounds.

    Attributes
    ----------
    added
        By host: recorded times, and ns to add to them, interpolated linearly.
    bounds
        Pairs of hosts with corrected times, and the largest error of a difference of times on
        the two, interpolated linearly. A single point holds for all times.
    findings
        One per host and per step: kind, severity, host, count of messages, text.
    """

    added: Mapping[str, Points] = field(default_factory=dict)
    bounds: Sequence[tuple[str, str, Points]] = ()
    findings: Sequence[Mapping[str, Any]] = ()

    @property
    def sentences(self) -> list[str]:
        """The texts of the findings."""
        return [finding["what"] for finding in self.findings]


def clocks_of_fit(fit: Fit | None, hosts: Sequence[str], *, aligned: bool) -> Clocks:
    """Turn a fit into corrections, bounds and findings, for clocks aligned by it or left as is."""
    if fit is None:
        why = "no message between them shows it, or the clocks jump too often"
        return Clocks(findings=[_unbounded(hosts[0], host, 0, why) for host in hosts[1:]])
    added = fit.corrections() if aligned else {}
    bounds = fit.bounds(aligned=bool(added))
    findings = [_finding(fit, host, aligned=host in added) for host in hosts[1:]]
    for step in fit.steps:
        first = hosts[0]
        by = "ahead" if step.low_ns > 0 else "behind"
        least, most = sorted((abs(step.low_ns), abs(step.high_ns)))
        seconds = [(ns - fit.base_ns) / 1e9 for ns in (step.begin_ns, step.end_ns)]
        behind = step.host if step.high_ns < 0 else first
        text = (
            f"the clock of {step.host} jumped by {least / 1e9:.6f} to {most / 1e9:.6f} s {by} of "
            f"that of {first}, {max(0.0, seconds[0]):.3f} to {seconds[1]:.3f} s after the first "
            f"message between hosts ({step.begin_ns} to {step.end_ns} ns): it was set, or {behind} "
            "was suspended; latencies between hosts are refused where it may have been"
        )
        findings.append(_row("clocks_stepped", "warning", step.host, 1, text))
    pairs = [(host, peer, points) for (host, peer), points in bounds.items()]
    return Clocks({host: list(points) for host, points in added.items()}, pairs, findings)


def _row(kind: str, severity: str, host: str, count: int, what: str) -> dict[str, Any]:
    return {"kind": kind, "severity": severity, "host": host, "count": count, "what": what}


def _unbounded(first: str, host: str, count: int, why: str) -> dict[str, Any]:
    text = (
        f"the clock of {host} against that of {first}: {why}; latencies between them may be wrong "
        "by any time, and are refused; record messages both ways, or logs of chrony or ptp4l"
    )
    return _row("clocks_not_bounded", "warning", host, count, text)


def _finding(fit: Fit, host: str, *, aligned: bool) -> dict[str, Any]:
    first = fit.hosts[0]
    forth = sum(n for (_, to), n in fit.messages.items() if to == host)
    back = sum(n for (start, _), n in fit.messages.items() if start == host)
    low, high = fit.ends(host)
    if low is None or high is None:
        missing = f"to {host}" if not forth else f"from {host}"
        why = f"no message {missing}, directly or through others, was recorded on both sides"
        if forth and back:
            why = "messages do not bound it from both sides all the time"
        return _unbounded(first, host, forth + back, why)
    middle, within = (low + high) / 2, max((high - low) / 2)
    span = fit.span_s
    rate = (middle[-1] - middle[0]) / span / 1e3 if span else 0.0
    within_rate = (within * 2) / span / 1e3 if span else float("inf")
    rated = "" if within_rate > 1000 else f", runs {rate:+.3f} ppm fast (within {within_rate:.3g})"
    by = f"by {forth:,} messages to it and {back:,} from it"
    ahead = (
        f"the clock of {host} is {round(middle[0]):+,} ns ahead of that of {first} at first"
        f"{rated}, within {round(within):,} ns, {by}"
    )
    if aligned:
        return _row("clocks_aligned", "info", host, forth + back, f"{ahead}; taken off")
    if (low > 0).any() or (high < 0).any():
        side = "behind" if (high < 0).any() else "ahead"
        least = round(max((-high).max(), low.max()))
        text = (
            f"{ahead}: at least {least:,} ns {side}, so latencies are wrong by that; bring the "
            "clocks together by 'roslens merge', or collect with --clock-offset auto"
        )
        return _row("clocks_apart", "warning", host, forth + back, text)
    text = f"{ahead}; clock_bound_ns holds how far each latency may be wrong"
    return _row("clocks_bounded", "info", host, forth + back, text)


def find_clocks(
    trace: Trace,
    *,
    threads: int = 0,
    more: pl.DataFrame | None = None,
    strict: bool = False,
    given: Mapping[str, int] | None = None,
) -> Clocks | None:
    """Bring the clocks of a trace's hosts together, by the messages between them.

    Parameters
    ----------
    more
        More rows like those of `roslens.collectors.ros2.host_clocks.find_crossings`.
    strict
        Raise an error if a host cannot be bounded.
    given
        Offsets in ns already added to the times of the trace's hosts, which stay as they are.

    Returns
    -------
    Clocks or None
        None for a single host.

    Raises
    ------
    NotEnoughEvidenceError
        With `strict`: no messages went to a host, or none came from it.
    """
    # Recordings of a single host skip these imports.
    import polars as pl  # noqa: PLC0415

    from roslens.collectors.ros2 import host_clocks  # noqa: PLC0415
    from roslens.collectors.ros2.clock_fit import fit_clocks  # noqa: PLC0415

    hosts = trace.hosts
    if len(hosts) < 2:
        return None
    names = [name for name in trace.event_names if name in host_clocks.EVENTS]
    crossings = host_clocks.find_crossings(
        trace.read(names, fields=host_clocks.COLUMNS, threads=threads)
    )
    rows = crossings if more is None else pl.concat([crossings, more])
    clocks = clocks_of_fit(fit_clocks(rows, hosts), hosts, aligned=given is None)
    if given is not None:
        return replace(clocks, added={host: [(0, ns)] for host, ns in given.items()})
    for finding in clocks.findings:
        if strict and finding["kind"] == "clocks_not_bounded":
            host = finding["host"]
            raise NotEnoughEvidenceError(
                f"--clock-offset auto: {finding['what']}; or give {host}=NANOSECONDS; messages are "
                "known by ros2:rmw_publish (with its timestamp, Jazzy and later) and "
                "ros2:rmw_take, or by the four rmw service events, on both"
            )
    return clocks


def write_clocks(clocks: Clocks, path: Path) -> None:
    """Write ``clocks.json``."""
    write_atomically(path, json.dumps({"version": 1, **asdict(clocks)}) + "\n")


def read_clocks(path: Path) -> Clocks | None:
    """Read ``clocks.json``; return None if it does not exist.

    Raises
    ------
    UsageError
        The file is damaged, or of another version.
    """
    if not path.is_file():
        return None
    try:
        data = read_json(path)
        data.pop("version")
        clocks = Clocks(
            {str(host): _points(points) for host, points in data["added"].items()},
            [(str(host), str(peer), _points(points)) for host, peer, points in data["bounds"]],
            [_row(**finding) for finding in data["findings"]],
        )
    except (UsageError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: damaged: {error}; run 'roslens merge' again") from error
    return clocks


def _points(rows: Any) -> list[tuple[int, int]]:
    points = [(at, value) for at, value in rows]
    numbers = [value for point in points for value in point]
    if not all(isinstance(number, int) and abs(number) < 2**63 for number in numbers):
        raise ValueError("a time that is none")
    if points != sorted(points):
        raise ValueError("times that are not in order")
    return points
