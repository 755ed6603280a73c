"""Find where a recorder loses messages, end to end: in the middleware or in rosbag2's cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.reports.numbers import significant, value_and_interval
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.runs import Run, by_cell
from roslens.analysis.statistics.fractions import fraction_over_runs
from roslens.studies.storage.results.runs import RecorderFacts

BY_MIDDLEWARE = Metric(
    "storage_recorder_lost_by_middleware",
    "messages that reached no callback of the recorder's subscriptions, of those published",
    "1",
    scale="fraction",
)
BY_CACHE = Metric(
    "storage_recorder_lost_by_cache",
    "messages that reached a callback and that rosbag2's cache dropped, of those published",
    "1",
    scale="fraction",
)


@dataclass(frozen=True)
class RecorderRun:
    """A run of the suite storage-recorder."""

    run: Run
    facts: RecorderFacts


def recorder_estimates(runs: Sequence[RecorderRun], level: float) -> list[Estimate]:
    """Estimate the fractions lost by middleware and cache: Student t over runs."""
    return [e for members in by_cell(runs) for e in _losses(members, level)]


def recorder_headline(runs: Sequence[RecorderRun]) -> str:
    """Return a sentence on the total losses by each part, and the highest rate without loss."""
    facts = [run.facts for run in runs]
    published, middleware, cache = _counts(facts)
    if not middleware and not cache:
        return f"Nothing was lost of {published:,} messages."
    lossy = {f.rate_bytes_per_s for f in facts if f.written < f.published}
    rates = {f.rate_bytes_per_s for f in facts}
    below = [rate for rate in rates if rate < min(lossy)]
    arrived = (
        f"up to {max(below) / 2**20:g} MiB/s all arrived"
        if below
        else f"not even at the lowest rate, {min(rates) / 2**20:g} MiB/s, did all arrive"
    )
    shares = [f"{significant(100 * lost / published, 2)} %" for lost in (middleware, cache)]
    return (
        f"Of {published:,} messages the middleware lost {shares[0]} and rosbag2's cache "
        f"{shares[1]}; {arrived}."
    )


def recorder_sentences(runs: Sequence[RecorderRun]) -> list[str]:
    """Return for each plugin and configuration the messages lost at each rate, by each part."""
    by_config: dict[str, dict[int, list[RecorderFacts]]] = {}
    for run in runs:
        rates = by_config.setdefault(run.facts.plugin_config, {})
        rates.setdefault(run.facts.rate_bytes_per_s, []).append(run.facts)
    return [
        f"{config}: " + "; ".join(_at(rate, facts) for rate, facts in sorted(rates.items())) + "."
        for config, rates in sorted(by_config.items())
    ]


def _counts(facts: Sequence[RecorderFacts]) -> tuple[int, int, int]:
    """Return the numbers of messages published, lost by the middleware, and lost by the cache."""
    published = sum(f.published for f in facts)
    received = sum(f.received for f in facts)
    return published, published - received, sum(f.lost_in_cache for f in facts)


def _at(rate: int, facts: Sequence[RecorderFacts]) -> str:
    published, middleware, cache = _counts(facts)
    sizes = " or ".join(_size_text(size) for size in sorted({f.message_bytes for f in facts}))
    if not middleware and not cache:
        return f"at {rate / 2**20:g} MiB/s none of {published:,} messages of {sizes} was lost"
    return (
        f"at {rate / 2**20:g} MiB/s of {published:,} messages of {sizes} the middleware lost "
        f"{middleware:,} and the cache {cache:,}"
    )


def _size_text(count: int) -> str:
    """Return a size as the suite writes it, such as 10KiB."""
    for unit, factor in (("MiB", 2**20), ("KiB", 2**10)):
        if count % factor == 0:
            return f"{count // factor}{unit}"
    return f"{count}B"


def recorder_table(runs: Sequence[RecorderRun], level: float) -> ReportTable:
    """Return per cell the messages sent and written, and those lost by each part."""
    rows: list[list[str]] = []
    marked: set[int] = set()
    for members in by_cell(runs):
        facts = [run.facts for run in members]
        losses = _losses(members, level)
        if any(loss.value is not None and loss.value > 0 for loss in losses):
            marked.add(len(rows))
        sent = sum(f.published * f.message_bytes for f in facts)
        rows.append(
            [
                members[0].run.label,
                str(len(members)),
                significant(sent / (sum(f.publishing_ns for f in facts) / 1e9) / 2**20, 3),
                *(f"{sum(getattr(f, name) for f in facts):,}" for name in ("published", "written")),
                *(text for loss in losses for text in value_and_interval(loss, 100.0)),
            ]
        )
    columns = ["cell", "runs", "published [MiB/s]", "published", "written"]
    interval = f"{100 * level:g} % interval"
    cache = sorted({f"{run.facts.cache_bytes / 2**20:g}" for run in runs})
    depth = sorted({run.facts.depth for run in runs})
    return ReportTable(
        [*columns, "lost by the middleware [%]", interval, "lost by the cache [%]", interval],
        rows,
        "From publishers to the file: messages of all runs of a cell, and where they were lost",
        notes=[
            (
                "Published [MiB/s]: the rate that the publishers reached. Middleware: messages "
                "that reached no callback of the recorder (reliable, keep last "
                f"{' or '.join(map(str, depth))}); cache: that rosbag2's cache of "
                f"{' or '.join(cache)} MiB dropped, as rosbag2 counts them. Each message carries "
                "its number: written are those that were read back, each once."
            )
        ],
        marked=frozenset(marked),
        left=frozenset({"cell"}),
    )


def _losses(members: Sequence[RecorderRun], level: float) -> list[Estimate]:
    facts = [run.facts for run in members]
    published = [f.published for f in facts]
    lost = (
        (BY_MIDDLEWARE, [f.published - f.received for f in facts]),
        (BY_CACHE, [f.lost_in_cache for f in facts]),
    )
    cell = members[0].run.cell
    return [fraction_over_runs(metric, cell, events, published, level) for metric, events in lost]
