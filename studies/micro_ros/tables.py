"""Build the tables of the micro-ROS report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from roslens.analysis.reports.table import ReportTable
from roslens.analysis.reports.tables import statements_table
from roslens.analysis.verdicts.statement import Statement
from roslens.recording.arrays import np
from roslens.studies.micro_ros.hops import HOPS
from roslens.studies.micro_ros.lines import PhysicalLine, PrintedSum
from roslens.studies.micro_ros.slopes import RTOSES, Slope, is_history, on_rtos
from roslens.studies.micro_ros.transports import TransportRun

Key = tuple[str, str]

_SYMBOL = ("section", "object", "symbol")

_SCATTER = (
    "The interval covers the scatter of the points about the line: reading precision, alignment, "
    "a relation that is not quite a line. It does not cover other boards, compilers or "
    "configurations, of which there is one."
)
_RTOS = (
    "Static memory is beyond a baseline that has the same RTOS, so that its kernel is not in it; "
    "the stack is that of all tasks."
)
_CUT_OFF = (
    "Cut off at most: the rate was cut to a whole number of Hz before it was multiplied by the "
    "size, so the true throughput lies up to one message per second higher."
)
_BY_CONSTRUCTION = (
    "Board to agent is a difference of two clocks: it is as wrong as they are apart, and the "
    "publication states no uncertainty of their synchronisation. Agent to board was computed as "
    "round trip - board to agent, so that the columns add up whatever the clocks did."
)


def slopes_table(
    slopes: Sequence[Slope], published: Mapping[Key, Slope], claims: Mapping[Key, float]
) -> ReportTable:
    """Return slopes with intervals, next to published slopes and claims.

    Parameters
    ----------
    published
        Published slopes by entity and kind of memory; empty where `slopes` are the published ones.
    claims
        Bytes that the publication states in words.
    """
    rows, notes = [], []
    for s in slopes:
        e = s.estimate
        interval = (
            "refused" if e.low is None or e.high is None else f"[{e.low:,.1f}, {e.high:,.1f}]"
        )
        if e.refused and e.refused not in notes:
            notes.append(f"{s.entity}, {s.memory}: {e.refused}")
        residual = s.largest_residual
        printed = published.get((on_rtos(s.entity)[0], s.memory))
        claim = claims.get((s.entity, s.memory))
        rows.append(
            [
                s.entity,
                s.memory,
                "-" if e.value is None else f"{e.value:,.1f}",
                interval,
                "B/slot" if is_history(s.entity) else "B/entity",
                "-" if s.intercept is None else f"{s.intercept:,.0f}",
                str(e.samples),
                "-" if residual is None else f"{residual:,.1f}",
                "-" if s.between_runs is None else f"{s.between_runs:,.0f}",
                *([_slope_text(printed)] if published else []),
                *(["-" if claim is None else f"{claim:,.0f}"] if claims else []),
            ]
        )
    level = f"{100 * slopes[0].estimate.level:g} % interval" if slopes else "interval"
    return ReportTable(
        [
            *("entity", "memory", "slope", level, "unit", "at none [B]", "points"),
            *("farthest point [B]", "between runs [B]"),
            *(["published slope"] if published else []),
            *(["published claim"] if claims else []),
        ],
        rows,
        "Memory per entity: least squares over the number of entities",
        notes=[
            _SCATTER,
            "Between runs: the most by which repetitions of the same program differ.",
            *notes,
        ],
        left=frozenset({"entity", "memory", "unit"}),
    )


def rtos_table(slopes: Sequence[Slope], published: Mapping[Key, Slope]) -> ReportTable | None:
    """Return slopes without an RTOS, with each RTOS, and the published ones side by side.

    Parameters
    ----------
    published
        Published slopes by entity and kind of memory.

    Returns
    -------
    ReportTable or None
        None where no entity was measured with an RTOS.
    """
    own_slopes = {(*on_rtos(s.entity), s.memory): s for s in slopes}
    names = [
        system for system in RTOSES.values() if any(rtos == system for _, rtos, _ in own_slopes)
    ]
    if not names:
        return None
    keys = dict.fromkeys((entity, memory) for entity, rtos, memory in own_slopes if rtos)
    return ReportTable(
        ["entity", "memory", "no RTOS", *names, "published"],
        [
            [
                *(entity, memory),
                *(_slope_text(own_slopes.get((entity, rtos, memory))) for rtos in ("", *names)),
                _slope_text(published.get((entity, memory))),
            ]
            for entity, memory in keys
        ],
        "Memory per entity by the RTOS below: slopes [B/entity]",
        notes=[_RTOS],
        left=frozenset({"entity", "memory"}),
    )


def _slope_text(slope: Slope | None) -> str:
    value = None if slope is None else slope.estimate.value
    return "-" if value is None else f"{value:,.1f}"


def throughput_table(throughput: pl.DataFrame, lines: Mapping[str, PhysicalLine]) -> ReportTable:
    """Return throughput, with the greatest loss by cutting rates to whole Hz."""
    rows, marked = [], set()
    for index, row in enumerate(throughput.iter_rows(named=True)):
        value, cut = row["bytes_per_s"], row["truncation_bytes_per_s"]
        line = lines.get(row["transport"])
        part = None if line is None else value / line.bytes_per_s
        if part is not None and not 0 <= part <= 1:
            marked.add(index)
        rows.append(
            [
                row["transport"],
                f"{row['payload_bytes']:,}",
                f"{value / 1e3:,.2f}",
                f"{8 * value / 1e6:,.3f}",
                "-" if not cut or not value else f"+{cut / 1e3:,.3f} ({100 * cut / value:.2g} %)",
                "-" if part is None else f"{100 * part:.3g} %",
            ]
        )
    return ReportTable(
        ["transport", "payload [B]", "kB/s", "Mbit/s", "cut off at most [kB/s]", "of the line"],
        rows,
        "Payload throughput (kB/s: 1,000 bytes; Mbit/s: 1,000,000 bits)",
        notes=[
            *([_CUT_OFF] if throughput["truncation_bytes_per_s"].max() else []),
            "The counting begins at the first message received: messages are intervals.",
        ],
        marked=frozenset(marked),
        left=frozenset({"transport"}),
    )


def printed_latency_table(sums: Sequence[PrintedSum]) -> ReportTable:
    """Return printed exchanges, with the reason for having no interval."""
    return ReportTable(
        ["transport", "board to agent [ms]", "agent to board [ms]", "round trip [ms]", "interval"],
        [
            [
                s.transport,
                *(f"{ns / 1e6:.2f}" for ns in (s.client_ns, s.agent_ns, s.rtt_ns)),
                "refused",
            ]
            for s in sums
        ],
        "Latency by direction",
        notes=[
            "Refused: one exchange per transport; an interval needs several, in several runs.",
            _BY_CONSTRUCTION,
        ],
        left=frozenset({"transport"}),
    )


def checks_table(checks: Sequence[Statement]) -> ReportTable:
    """Return the checks with their verdicts."""
    columns = {"check": "claim", "of": "subject", "verdict": "told", "found": "because"}
    return statements_table(checks, columns, "Checks")


def claims_table(
    found: Sequence[Statement],
    title: str = "Statements of the publication",
    said: str = "as published",
) -> ReportTable:
    """Return statements compared with figures; `said` is the heading that names their origin."""
    columns = {
        "statement": "subject",
        said: "claim",
        "as the figures say": "because",
        "verdict": "told",
    }
    return statements_table(found, columns, title)


_BOUNDS = (
    "Bounds, not an interval: no message arrives before it was sent, and the truth lies within "
    "whatever the delays are. They narrow with the shortest round trip and, for the drift, with "
    "the length of the run."
)
_TESTED = (
    "The round trip is read off a stopwatch of the client, apart from the clock whose stamps give "
    "the directions. Allowed: how long reading took, the clocks' resolution, and their drift. An "
    "error of the offset cancels out in any such sum; what is tested are stamps, units and drift."
)


_HOPS = (
    "Agent: when it wrote the message to DDS, by the source timestamp that the node took with it; "
    "take, callback and answer: events of the node's trace. The device's stamps are on the clock "
    "of the events by bounds that hold whatever the delays are; the error is half their width."
)


def history_table(rows: Sequence[tuple[str, int, Slope]]) -> ReportTable:
    """Return slopes of histories with slots of different size.

    Parameters
    ----------
    rows
        Name, MTU x depth, and slope of the static memory of each history.
    """
    return ReportTable(
        ["history", "MTU x depth [B]", "slope [B/slot]", "beyond MTU x depth [B/slot]"],
        [
            [
                name,
                f"{expected:,}",
                "-" if s.estimate.value is None else f"{s.estimate.value:,.1f}",
                "-" if s.estimate.value is None else f"{s.estimate.value - expected:+,.1f}",
            ]
            for name, expected, s in rows
        ],
        "Static memory of a slot against MTU x depth",
        notes=["What a slot takes beyond its data is what the implementation keeps with it."],
        left=frozenset({"history"}),
    )


def static_table(static: pl.DataFrame) -> ReportTable:
    """Return the symbols in static memory beyond the baseline, at the largest number of entities.

    Parameters
    ----------
    static
        Frame with the columns of `results.folder.STATIC`.
    """
    memory = static.filter(pl.col("section").str.contains(r"^\.(data|bss)(\.|$)"))
    largest = memory.filter(pl.col("count") == pl.col("count").max().over("entity"))
    first = largest.filter(pl.col("source") == pl.col("source").first().over("entity"))
    rows = (
        first.sort("entity", pl.col("difference_bytes").abs(), descending=[False, True])
        .group_by("entity", maintain_order=True)
        .head(4)
        .select(*("entity", "count"), *_SYMBOL, *("baseline_bytes", "difference_bytes"))
    )
    return ReportTable(
        ["entity", "number", *_SYMBOL, "baseline [B]", "difference [B]"],
        [
            [entity, f"{count:,}", *symbol, f"{before:,}", f"{more:+,}"]
            for entity, count, *symbol, before, more in rows.iter_rows()
        ],
        "Static memory beyond the baseline, by symbol of the ELF file",
        left=frozenset({"entity", *_SYMBOL}),
    )


def clocks_table(runs: Sequence[TransportRun]) -> ReportTable:
    """Return offset and drift of each run with their bounds."""
    rows, marked, notes = [], set(), []
    for index, run in enumerate(runs):
        fit = run.fit
        lost = "-" if run.lost is None else f"{run.lost:,}"
        row = [run.transport, run.source, f"{fit.exchanges:,}", lost]
        if fit.refused is not None:
            marked.add(index)
            notes.append(f"{run.transport}, {run.source}: {fit.refused}")
            rows.append([*row, "refused", "-", "refused", "-"])
            continue
        value, low, high = fit.offset_ns
        slow, fast = (1e6 * d for d in fit.drift)
        rows.append(
            [
                *row,
                f"{value / 1e6:,.4f}",
                f"+-{(high - low) / 2e3:,.1f}",
                f"{(slow + fast) / 2:,.1f}",
                f"+-{(fast - slow) / 2:,.1f}",
            ]
        )
    return ReportTable(
        [
            *("transport", "run", "exchanges", "without answer", "offset [ms]"),
            *("bounds [us]", "drift [ppm]", "bounds [ppm]"),
        ],
        rows,
        "Client's clock against the agent's, in the middle of the run",
        notes=[_BOUNDS, *notes],
        marked=frozenset(marked),
        left=frozenset({"transport", "run"}),
    )


def sums_table(runs: Sequence[TransportRun]) -> ReportTable:
    """Return whether the measured directions add up to the measured round trip."""
    rows = []
    for run in runs:
        if run.residual_ns is None or run.allowed_ns is None:
            rows.append([run.transport, run.source, "refused", "-", "-", "-"])
            continue
        rows.append(
            [
                run.transport,
                run.source,
                f"{run.adds_up:,} of {run.residual_ns.size:,}",
                f"{float(np.median(run.residual_ns)):,.0f}",
                f"{float(np.abs(run.residual_ns).max()):,.0f}",
                f"{float(np.median(run.allowed_ns)):,.0f}",
            ]
        )
    return ReportTable(
        [
            *("transport", "run", "add up", "median residual [ns]", "largest [ns]"),
            "median allowed [ns]",
        ],
        rows,
        "client + turnaround + agent - round trip, on measured values",
        notes=[_TESTED],
        left=frozenset({"transport", "run"}),
    )


def hops_table(medians: pl.DataFrame) -> ReportTable:
    """Return the medians of the hops.

    Parameters
    ----------
    medians
        Medians from `roslens.studies.micro_ros.hops.hop_medians`.
    """
    columns = [*HOPS, "device to callback", "error"]
    return ReportTable(
        ["transport", "messages", *(f"{column} [ms]" for column in columns)],
        [
            [row["transport"], f"{row['messages']:,}", *(f"{row[c] / 1e6:,.3f}" for c in columns)]
            for row in medians.iter_rows(named=True)
        ],
        "Messages from the device to the callback of ROS, and their answers: medians",
        notes=[_HOPS],
        left=frozenset({"transport"}),
    )


def captures_table(captures: pl.DataFrame) -> ReportTable:
    """Return bytes per second on the line, from captures."""
    return ReportTable(
        ["run", "capture", "channel", "frames", "bytes", "seconds", "kB/s"],
        [
            [
                *(*names, f"{frames:,}", f"{size:,}", f"{seconds:.3f}"),
                "-" if rate is None else f"{rate / 1e3:,.2f}",
            ]
            for *names, frames, size, seconds, rate in captures.iter_rows()
        ],
        "Captures of lines",
        left=frozenset({"run", "capture", "channel"}),
    )


def findings_table(findings: pl.DataFrame) -> ReportTable:
    """Return the files that could not be used, and why."""
    distinct = findings.unique(maintain_order=True)
    return ReportTable(
        ["run", "left out"],
        distinct.rows(),
        "What could not be used",
        marked=frozenset(range(distinct.height)),
        left=frozenset({"run", "left out"}),
    )
