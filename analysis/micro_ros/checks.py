"""Checks as verdicts: budgets, physical limits, memory left at exit, sums of directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Literal

import polars as pl

from roslens.analysis.micro_ros.directions import PrintedSum
from roslens.analysis.micro_ros.lines import PhysicalLine, judge_throughput
from roslens.analysis.micro_ros.slopes import Slope
from roslens.analysis.micro_ros.transports import TransportRun

Verdict = Literal[
    "holds",
    "broken",
    "by_construction",
    "impossible",
    "impossible_as_bytes",
    "no_line_rate",
    "not_enough_evidence",
]
FAILED: tuple[Verdict, ...] = ("broken", "impossible", "impossible_as_bytes")


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes
    ----------
    check
        What is checked, such as ``slope within budget``.
    subject
        Of what, such as ``publisher``.
    value, limit
        In `unit`; None where there is none.
    text
        For people.
    """

    check: str
    subject: str
    verdict: Verdict
    value: float | None
    limit: float | None
    unit: str
    text: str

    @property
    def failed(self) -> bool:
        """Whether something is wrong."""
        return self.verdict in FAILED


def budget_checks(slopes: Sequence[Slope], budgets: Mapping[str, float]) -> list[Check]:
    """Each budget against the interval of the total slope (of the only kind where no total)."""
    checks = []
    for entity, limit in budgets.items():
        own = [s for s in slopes if s.entity == entity]
        chosen = next((s for s in own if s.memory == "total"), own[0] if len(own) == 1 else None)
        if chosen is None:
            there = ", ".join(dict.fromkeys(s.entity for s in slopes)) or "none"
            checks.append(
                Check(
                    "slope within budget",
                    entity,
                    "not_enough_evidence",
                    None,
                    limit,
                    "byte",
                    f"no total memory of '{entity}'; there is memory of: {there}",
                )
            )
            continue
        e = chosen.estimate
        if e.low is None or e.high is None:
            verdict: Verdict = "not_enough_evidence"
            said = e.refused or "no interval"
        else:
            within, beyond = e.high <= limit, e.low > limit
            verdict = "holds" if within else "broken" if beyond else "not_enough_evidence"
            said = f"{e.value:,.1f} [{e.low:,.1f}, {e.high:,.1f}] against {limit:,.6g} B"
        subject = f"{entity}, {chosen.memory}"
        checks.append(Check("slope within budget", subject, verdict, e.value, limit, "byte", said))
    return checks


def throughput_checks(throughput: pl.DataFrame, lines: Mapping[str, PhysicalLine]) -> list[Check]:
    """Each throughput against what its line carries; one check for a transport without one."""
    checks = []
    unknown: dict[str, None] = {}
    for row in throughput.iter_rows(named=True):
        line = lines.get(row["transport"])
        if line is None:
            unknown[row["transport"]] = None
            continue
        found = judge_throughput(row["bytes_per_s"], line)
        checks.append(
            Check(
                "throughput below the line rate",
                f"{row['transport']}, {row['payload_bytes']} B",
                "holds" if found.verdict == "possible" else found.verdict,
                row["bytes_per_s"],
                line.bytes_per_s,
                "byte/s",
                found.text,
            )
        )
    return checks + [
        Check(
            "throughput below the line rate",
            transport,
            "no_line_rate",
            None,
            None,
            "byte/s",
            "no line rate is known: nothing can be checked (give it with -p lines)",
        )
        for transport in unknown
    ]


def live_checks(live: pl.DataFrame) -> list[Check]:
    """Whether all that was allocated was given back at exit; one check for all that did.

    Parameters
    ----------
    live
        As `roslens.collectors.results.micro_ros.LIVE`.
    """
    name = "nothing allocated at exit"
    left = live.filter(pl.col("live_bytes") != 0)
    checks = [
        Check(
            name,
            f"{row['source']}: {row['subject']}",
            "broken",
            float(row["live_bytes"]),
            0.0,
            "byte",
            f"{row['live_bytes']:,} B were not given back"
            + (f" ({row['who']})" * bool(row["who"])),
        )
        for row in left.iter_rows(named=True)
    ]
    well = live.height - left.height
    if well:
        text = "every allocation was given back"
        checks.append(Check(name, f"{well} programs", "holds", 0.0, 0.0, "byte", text))
    return checks


def measured_sum_checks(runs: Sequence[TransportRun]) -> list[Check]:
    """Whether measured directions add up to the measured round trip, in every exchange."""
    checks = []
    for run in runs:
        subject = f"{run.transport}, {run.source}"
        name = "client + turnaround + agent = round trip"
        if run.residual_ns is None:
            why = run.fit.refused or "no directions"
            checks.append(Check(name, subject, "not_enough_evidence", None, None, "ns", why))
            continue
        count = run.residual_ns.size
        checks.append(
            Check(
                name,
                subject,
                "holds" if run.adds_up == count else "broken",
                float(count - run.adds_up),
                0.0,
                "exchange",
                f"in {run.adds_up:,} of {count:,} exchanges",
            )
        )
    return checks


def printed_sum_checks(sums: Sequence[PrintedSum]) -> list[Check]:
    """Whether printed directions add up; if they do, it is because one was computed so."""
    return [
        Check(
            "client + agent = round trip",
            s.transport,
            "by_construction" if s.adds_up else "broken",
            s.difference_ns,
            s.allowed_ns,
            "ns",
            f"differs by {s.difference_ns / 1e6:+.3f} ms; rounding explains "
            f"{s.allowed_ns / 1e6:.3f} ms"
            + (": agent = round trip - client, so nothing is tested" if s.adds_up else ""),
        )
        for s in sums
    ]


def checks_frame(checks: Sequence[Check]) -> pl.DataFrame:
    """``check``, ``subject``, ``verdict``, ``value``, ``limit``, ``unit``, ``text``."""
    numbers = dict.fromkeys(("value", "limit"), pl.Float64)
    return pl.DataFrame(
        [asdict(check) for check in checks],
        schema={f.name: numbers.get(f.name, pl.String) for f in fields(Check)},
    )
