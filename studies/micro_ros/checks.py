"""Check budgets, physical limits, memory left at exit, and sums of directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl

from roslens.analysis.verdicts.statement import Statement, Verdict
from roslens.studies.micro_ros.lines import PhysicalLine, PrintedSum, judge_throughput
from roslens.studies.micro_ros.slopes import Slope
from roslens.studies.micro_ros.transports import TransportRun


def budget_checks(slopes: Sequence[Slope], budgets: Mapping[str, float]) -> list[Statement]:
    """Check each budget against the interval of the total slope, or of an entity's only slope."""
    slope = partial(Statement, "slope within budget", unit="byte")
    checks = []
    for entity, limit in budgets.items():
        members = [s for s in slopes if s.entity == entity]
        chosen = next(
            (s for s in members if s.memory == "total"), members[0] if len(members) == 1 else None
        )
        if chosen is None:
            entities = ", ".join(dict.fromkeys(s.entity for s in slopes)) or "none"
            because = f"no total memory of '{entity}'; there is memory of: {entities}"
            checks.append(slope("not_enough_evidence", because, entity, limit=limit))
            continue
        e = chosen.estimate
        if e.low is None or e.high is None:
            verdict: Verdict = "not_enough_evidence"
            because = e.refused or "no interval"
        else:
            within, beyond = e.high <= limit, e.low > limit
            verdict = "holds" if within else "broken" if beyond else "not_enough_evidence"
            because = f"{e.value:,.1f} [{e.low:,.1f}, {e.high:,.1f}] against {limit:,.6g} B"
        subject = f"{entity}, {chosen.memory}"
        checks.append(slope(verdict, because, subject, value=e.value, limit=limit))
    return checks


def throughput_checks(
    throughput: pl.DataFrame, lines: Mapping[str, PhysicalLine]
) -> list[Statement]:
    """Check each throughput against its line's rate; one check per transport without a rate."""
    checks = []
    unknown: dict[str, None] = {}
    for row in throughput.iter_rows(named=True):
        line = lines.get(row["transport"])
        if line is None:
            unknown[row["transport"]] = None
            continue
        checks.append(
            Statement(
                "throughput below the line rate",
                *judge_throughput(row["bytes_per_s"], line),
                f"{row['transport']}, {row['payload_bytes']} B",
                value=row["bytes_per_s"],
                limit=line.bytes_per_s,
                unit="byte/s",
            )
        )
    return checks + [
        Statement(
            "throughput below the line rate",
            "no_line_rate",
            "no line rate is known: nothing can be checked (give it with -p lines)",
            transport,
            unit="byte/s",
        )
        for transport in unknown
    ]


def none_wrong(claim: str, because: str, subject: str, wrong: int, unit: str) -> Statement:
    """Return a check that nothing of some kind is wrong, with the number of those that are."""
    verdict: Verdict = "broken" if wrong else "holds"
    return Statement(claim, verdict, because, subject, value=float(wrong), limit=0.0, unit=unit)


def live_checks(live: pl.DataFrame) -> list[Statement]:
    """Check that all allocations were freed at exit; one check for all programs that freed all.

    Parameters
    ----------
    live
        Frame with the columns of `results.folder.LIVE`.
    """
    name = "nothing allocated at exit"
    left = live.filter(pl.col("live_bytes") != 0)
    checks = [
        none_wrong(
            name,
            f"{row['live_bytes']:,} B were not given back"
            + (f" ({row['who']})" * bool(row["who"])),
            f"{row['source']}: {row['subject']}",
            row["live_bytes"],
            "byte",
        )
        for row in left.iter_rows(named=True)
    ]
    well = live.height - left.height
    if well:
        text = "every allocation was given back"
        checks.append(none_wrong(name, text, f"{well} programs", 0, "byte"))
    return checks


_STACK_CHECK = "stack_check"
"""ThreadX bisects for the end of the fill, which may find a gap between used words instead."""


def checks_of_two_counts(ways: pl.DataFrame) -> list[Statement]:
    """Check that memory counted in two ways is equal, or no less where the other includes more.

    ThreadX's stack checking never finds more than was used, but may find less: see `_STACK_CHECK`.

    Parameters
    ----------
    ways
        Frame with the columns of `results.folder.WAYS`.
    """
    checks = []
    for (memory, way), group in ways.group_by("memory", "way", maintain_order=True):
        more = pl.col("otherwise_bytes") - pl.col("bytes")
        relation, right = {
            "sbrk": ("no less", more >= 0),
            _STACK_CHECK: ("no more", more <= 0),
        }.get(str(way), ("the same", more == 0))
        wrong = group.filter(~right)
        because = f"{relation} in {group.height - wrong.height} of {group.height} programs"
        if way == _STACK_CHECK:
            most = group.select((-more).max()).item()
            if most > 0:
                because += f", up to {most:,} B less: it may end at a gap between used words"
        if wrong.height:
            row = wrong.row(0, named=True)
            because += f": {row['subject']}: {row['bytes']:,} B, {row['otherwise_bytes']:,} B"
        name = f"{memory} memory by {way}"
        verdict: Verdict = "broken" if wrong.height else "holds"
        checks.append(Statement("memory counted in two ways", verdict, because, name))
    return checks


def account_checks(accounts: pl.DataFrame) -> list[Statement]:
    """Check that both sides account for every message of a transport.

    Parameters
    ----------
    accounts
        Frame with the columns of `results.folder.ACCOUNTS`.
    """
    checks = []
    groups = accounts.group_by("source", "transport", maintain_order=True)
    for (source, transport), group in groups:
        wrong = group.filter(~pl.col("agrees"))["message"].to_list()
        sent, lost, refused = (group[column].sum() for column in ("sent", "lost", "refused"))
        checks.append(
            Statement(
                "every message is accounted for on both sides",
                "broken" if wrong else "holds",
                f"{sent:,} sent, {lost:,} of them lost; {refused:,} refused by the publisher"
                + (f"; the sides differ about: {', '.join(wrong)}" if wrong else ""),
                f"{transport}, {source}",
                value=float(lost),
                unit="message",
            )
        )
    return checks


def measured_sum_checks(runs: Sequence[TransportRun]) -> list[Statement]:
    """Check that measured directions add up to the measured round trip, in every exchange."""
    checks = []
    for run in runs:
        subject = f"{run.transport}, {run.source}"
        name = "client + turnaround + agent = round trip"
        if run.residual_ns is None:
            why = run.fit.refused or "no directions"
            checks.append(Statement(name, "not_enough_evidence", why, subject, unit="ns"))
            continue
        count = run.residual_ns.size
        because = f"in {run.adds_up:,} of {count:,} exchanges"
        checks.append(none_wrong(name, because, subject, count - run.adds_up, "exchange"))
    return checks


def printed_sum_checks(sums: Sequence[PrintedSum]) -> list[Statement]:
    """Check that printed directions add up; if so, one was computed from the others."""
    return [
        Statement(
            "client + agent = round trip",
            "by_construction" if s.adds_up else "broken",
            f"differs by {s.difference_ns / 1e6:+.3f} ms; rounding explains "
            f"{s.allowed_ns / 1e6:.3f} ms"
            + (": agent = round trip - client, so nothing is tested" if s.adds_up else ""),
            s.transport,
            value=s.difference_ns,
            limit=s.allowed_ns,
            unit="ns",
        )
        for s in sums
    ]


def checks_frame(checks: Sequence[Statement]) -> pl.DataFrame:
    """Return ``check``, ``subject``, ``verdict``, ``value``, ``limit``, ``unit``, ``text``."""
    names = ("claim", "subject", "verdict", "value", "limit", "unit", "because")
    numbers = dict.fromkeys(("value", "limit"), pl.Float64)
    return pl.DataFrame(
        [{name: getattr(check, name) for name in names} for check in checks],
        schema={name: numbers.get(name, pl.String) for name in names},
    ).rename({"claim": "check", "because": "text"})
