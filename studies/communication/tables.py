"""Build the tables of a communication report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from roslens.analysis.estimate import Estimate
from roslens.analysis.reports.base import count_of_runs
from roslens.analysis.reports.numbers import milliseconds, significant, value_and_interval
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.reports.tables import hidden_rows
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.fractions import largest_possible
from roslens.studies.communication.backlog import Backlog
from roslens.studies.communication.cells import COLUMNS
from roslens.studies.communication.copies import (
    BEFORE_HOP,
    COPY_HOP,
    LOGGED_LATENCY,
    copies_of,
    signature,
)
from roslens.studies.communication.estimates import full_runs, latency_measures
from roslens.studies.communication.logged import AGREE, AGREE_NS
from roslens.studies.communication.published import published_cell
from roslens.studies.communication.traffic import Traffic

_MOST_ROWS = 60


def log_table(compared: pl.DataFrame, runs: Sequence[Run]) -> ReportTable:
    """Return the comparison from `logged.compare_with_log` as a table."""
    label = {run.name: run.label for run in runs}
    rows = [row for row in compared.iter_rows(named=True) if row["run"] in label]
    return ReportTable(
        [
            *("run", "cell", "publications", "logged", "receptions", "logged "),
            *("P50 [ms]", "logged P50 [ms]", "longer, median [µs]", "longer, P99 [µs]"),
        ],
        [
            [
                row["run"],
                label[row["run"]],
                *(_count(row[c]) for c in _COUNTS),
                *(milliseconds(row[c]) for c in ("latency_p50_ns", "logged_latency_p50_ns")),
                *(_microseconds(row[c]) for c in ("longer_p50_ns", "longer_p99_ns")),
            ]
            for row in rows[: 2 * _MOST_ROWS]
        ],
        "The trace beside what the programs logged themselves",
        notes=[
            (
                "Longer: logged latency (just before publish() -> first line of the callback) less "
                "the trace's (first publish event -> callback_start), message by message. A copy "
                "that a unique_ptr callback gets after callback_start is in the log's and not in "
                "the trace's latency: see copies."
            ),
            *hidden_rows(len(rows), 2 * _MOST_ROWS),
        ],
        marked=frozenset(i for i, row in enumerate(rows[: 2 * _MOST_ROWS]) if row["differs"]),
        left=frozenset({"run", "cell"}),
    )


def agreement_table(
    agreed: pl.DataFrame, runs: Sequence[Run], published: pl.DataFrame
) -> ReportTable:
    """Return `logged.agreement` cell by cell, with the published latency of the same cell."""
    printed = {
        (pointer, intra): ms
        for pointer, intra, ms in published.select(
            "pointer", "intra_process", "latency_mean_ms"
        ).iter_rows()
    }
    rows: list[list[str]] = []
    marked: set[int] = set()
    for label, members in cells_of(runs).items():
        of_cell = agreed.filter(pl.col("run").is_in([run.name for run in members]))
        if not of_cell.height:
            continue
        mean = of_cell.select(pl.col(f"{c}_ns").mean() for c in _AGREED).row(0, named=True)
        copies = [text for c, text in _OTHER_INTERVAL.items() if mean[f"{c}_ns"]]
        agree = int(of_cell["agrees"].sum())
        if agree < of_cell.height:
            marked.add(len(rows))
        cell = published_cell(members[0])
        rows.append(
            [
                label,
                f"{of_cell['messages'].sum():,}",
                *(milliseconds(mean[f"{c}_ns"]) for c in ("latency", "logged_latency")),
                _microseconds(mean["logged_latency_ns"] - mean["latency_ns"]),
                " and ".join(copies),
                _microseconds(mean["rest_ns"]),
                f"{significant(100 * mean['rest_ns'] / mean['latency_ns'], 3)} %",
                "yes" if agree == of_cell.height else f"{agree} of {count_of_runs(of_cell.height)}",
                f"{printed[cell]:g}" if cell in printed else "",
            ]
        )
    return ReportTable(
        [
            *("cell", "messages", "mean latency, trace [ms]", "log [ms]", "log - trace [µs]"),
            *("the trace lacks", "log - trace - copy [µs]", "of the trace's", "agree"),
            "published [ms]",
        ],
        rows,
        "Latency by the trace and by the programs' own logs, over the messages that both know",
        notes=[
            (
                f"They agree if the means of every run differ by at most {100 * AGREE:g} % of the "
                f"trace's or {AGREE_NS / 1e3:g} µs."
            ),
            (
                "In two kinds of cells the trace measures another interval: a message published by "
                "reference with intra-process communication on (pointer shared) is copied before "
                "its first event, and a callback with unique_ptr copies what it takes from the "
                "middleware after callback_start. In these cells the log's latency is the one to "
                "compare with the published one, and trace and log must agree without the copy."
            ),
        ],
        marked=frozenset(marked),
        left=frozenset({"cell", "the trace lacks", "agree"}),
    )


_AGREED = ("latency", "logged_latency", "before", "after", "rest")
_OTHER_INTERVAL = {
    "before": "the copy before its first event",
    "after": "the copy after callback_start",
}


_COUNTS = ("publications", "logged_publications", "receptions", "logged_receptions")


def cells_table(cells: pl.DataFrame, runs: Sequence[Run]) -> ReportTable:
    """Return cells.csv as a table with one row per run."""
    label = {run.name: run.label for run in runs}
    rows = cells.iter_rows(named=True)
    shown = [
        [
            label[row["run"]],
            row["run"],
            *(_count(row[c]) for c in ("publications", "receptions", "lost")),
            *(
                significant(row[c])
                for c in ("publisher_period_ms", "subscription_period_ms", "latency_mean_ms")
            ),
            significant(row["queue_depth_seen"], 3)
            + (f" of {row['queue_depth']}" if row["queue_depth"] is not None else ""),
            "full" if row["queue_full"] else "",
            row["evidence"],
        ]
        for row in rows
    ]
    return ReportTable(
        [
            *("cell", "run", "publications", "receptions", "lost", "publisher period [ms]"),
            *("subscription period [ms]", "mean latency [ms]", "queue depth seen", "queue"),
            "evidence",
        ],
        shown[: 2 * _MOST_ROWS],
        "Cell by cell, a row per run (also in cells.csv)",
        notes=[
            *hidden_rows(len(shown), 2 * _MOST_ROWS),
            *(
                f"{name.removesuffix('_ms').replace('_', ' ').capitalize()}: {COLUMNS[name]}."
                for name in ("receptions", "lost", "publisher_period_ms", "queue_depth_seen")
            ),
        ],
        marked=frozenset(
            i
            for i, row in enumerate(shown)
            if row[4] not in ("0", "-") or row[9] or row[10] != "exact"
        ),
        left=frozenset({"cell", "run", "queue", "evidence"}),
    )


def pairs_table(pairs: pl.DataFrame, runs: Sequence[Run]) -> ReportTable:
    """Return loss per publisher and subscription: number of pairs with loss, and the worst."""
    rows = []
    for label, members in cells_of(runs).items():
        of_cell = pairs.filter(pl.col("run").is_in([run.name for run in members]))
        if not of_cell.height:
            continue
        of_pair = (
            of_cell.group_by("topic", "publisher_id", "subscription_id")
            .agg(pl.col("sent", "lost", "received", "unknown").sum())
            .with_columns(loss=pl.col("lost") / pl.col("sent"))
            .sort("loss", "topic", descending=[True, False], nulls_last=True)
        )
        worst = of_pair.row(0, named=True)
        sent, lost = int(of_pair["sent"].sum()), int(of_pair["lost"].sum())
        unknown = int(of_pair["unknown"].sum())
        known = sent and unknown <= (sent + unknown) * largest_possible(sent + unknown)
        rows.append(
            [
                label,
                f"{of_pair.height:,}",
                f"{sent:,}",
                f"{int(of_pair['received'].sum()):,}",
                f"{lost:,}",
                f"{significant(100 * lost / sent, 3)} %" if known else "not known" if sent else "-",
                f"{of_pair.filter(pl.col('lost') > 0).height:,}",
                f"{worst['topic']}: {significant(100 * worst['loss'], 3)} %"
                if worst["loss"]
                else ("none lost" if known else "not known"),
                f"{unknown:,}",
            ]
        )
    return ReportTable(
        [
            *("cell", "pairs", "sent", "received", "lost", "loss", "pairs that lost"),
            *("worst pair", "unknown"),
        ],
        rows,
        "Loss per pair of a publisher and a subscription, all runs of a cell together",
        notes=["Sent: publications of which it is known whether the subscription got them."],
        marked=frozenset(i for i, row in enumerate(rows) if row[4] != "0"),
        left=frozenset({"cell", "worst pair"}),
    )


def backlog_table(
    runs: Sequence[Run], backlogs: Mapping[str, Backlog], estimates: Sequence[Estimate]
) -> ReportTable:
    """Return the backlog of each cell's queues, with its latency in publisher periods."""
    rows: list[list[str]] = []
    marked: set[int] = set()
    for label, members in cells_of(runs).items():
        by_metric = _by_metric(estimates, members[0])
        period, latency = (by_metric.get(name) for name in ("publisher_period", "latency_mean"))
        full, known = full_runs(members, backlogs)
        depths = {b.queue_depth for run in members if (b := backlogs.get(run.name)) is not None}
        depth = next(iter(depths)) if len(depths) == 1 else None
        if full:
            marked.add(len(rows))
        length = None if period is None else period.value
        rows.append(
            [
                label,
                _count(depth),
                _with_interval(by_metric.get("queue_depth_seen")),
                f"{full} of {known} runs" if known else "not known",
                milliseconds(None if latency is None else latency.value),
                significant(_in_periods(latency, period), 3),
                significant(depth * length / 1e6 if depth and length else None),
                latency_measures(members, backlogs),
            ]
        )
    return ReportTable(
        [
            *("cell", "queue depth", "depth seen", "queue full", "mean latency [ms]"),
            *("latency in periods", "depth x period [ms]", "latency measures"),
        ],
        rows,
        "Backlog",
        notes=[
            (
                "Depth seen: median over received messages of the publications by the same "
                "publisher within (publish_ns, take_ns]. The queue was full where half of the "
                "messages had depth - 1 others behind them, or where it pushed messages out: they "
                "were overwritten or replaced, or as many as it holds were sent before the next "
                "was taken, which had depth - 1 others behind it."
            ),
            (
                "No event marks a sample's arrival: waiting in the queue and transport cannot be "
                "separated. A full queue's latency is about depth x period, whatever the transport."
            ),
        ],
        marked=frozenset(marked),
        left=frozenset({"cell", "queue full", "latency measures"}),
    )


def copies_table(found: Traffic, runs: Sequence[Run], estimates: Sequence[Estimate]) -> ReportTable:
    """Return the copies of a publication in each cell, by rclcpp's rules and by the log."""
    rows = []
    for label, members in cells_of(runs).items():
        first = members[0]
        messages = found.messages.filter(pl.col("run") == first.name)
        intra = messages["intra_process"].drop_nulls()
        if not intra.len():
            continue
        signatures = found.signatures.filter(pl.col("run") == first.name)
        topic = messages["topic"].mode().sort()[0]
        taken = [
            signature(symbol)
            for symbol in signatures.filter(pl.col("topic") == topic)
            .unique(["subscription_id"])["symbol"]
            .to_list()
        ]
        subscriptions = max(
            len(taken), messages.filter(pl.col("topic") == topic)["subscription_id"].n_unique()
        )
        owners = sum(name in ("unique_ptr", "shared_ptr") for name in taken)
        sharers = taken.count("const")
        within = bool(intra.all())
        copies = copies_of(owners, sharers, subscriptions - owners - sharers, intra_process=within)
        by_metric = _by_metric(estimates, first)
        counted = _count(copies.by_rclcpp)
        if intra.any() and copies.by_rclcpp is not None:
            # No event shows which variant of publish() sent a message.
            counted += f"; by reference {copies.by_rclcpp + 1:,}"
        rows.append(
            [
                label,
                "on" if within else "off" if not intra.any() else "for some messages",
                f"{subscriptions:,}",
                ", ".join(sorted(set(taken) - {"unknown"})) or "not known",
                counted,
                _count(copies.by_middleware),
                *(_with_interval(by_metric.get(hop.name)) for hop in (BEFORE_HOP, COPY_HOP)),
            ]
        )
    return ReportTable(
        [
            *("cell", "intra-process", "subscriptions", "callback takes", "copies by rclcpp"),
            *("(de)serialised", "before the first event, by the log [ms]"),
            "after callback_start, by the log [ms]",
        ],
        rows,
        "Copies of one publication",
        notes=[
            (
                "No event marks a copy: the counts follow from the callbacks' signatures and the "
                "rules of rclcpp (IntraProcessManager, AnySubscriptionCallback) for a message "
                "published as unique_ptr. Within a process one published by reference is copied "
                "once more, before the first event of the trace: its latency begins after that "
                "copy, and only the program's log shows it."
            ),
            (
                "By the log: its line before publish() -> first publish event, and callback_start "
                "-> the callback's first line where a unique_ptr callback takes from the "
                "middleware; medians of a run."
            ),
        ],
        left=frozenset({"cell", "intra-process", "callback takes"}),
    )


_MEASURES = {
    "backlog": "backlog of a full queue",
    "latency and backlog": "latency, and waiting in a queue that was full at times",
}


def published_table(
    published: pl.DataFrame,
    runs: Sequence[Run],
    backlogs: Mapping[str, Backlog],
    estimates: Sequence[Estimate],
) -> ReportTable:
    """Return the printed figures, what they imply, and ours of the same cell."""
    ours = {published_cell(members[0]): members for members in cells_of(runs).values()}
    rows: list[list[str]] = []
    marked: set[int] = set()
    for row in published.iter_rows(named=True):
        name = f"{row['pointer']}, intra-process {'on' if row['intra_process'] else 'off'}"
        if row["full"]:
            marked.add(len(rows))
        rows.append(
            [
                name,
                "published, 1 run",
                *(
                    f"{row[c]:g}"
                    for c in ("publisher_period_ms", "subscription_period_ms", "latency_mean_ms")
                ),
                f"{100 * row['implied_loss']:.1f} % (implied)",
                significant(row["periods"], 3),
                _MEASURES["backlog"] if row["full"] else "latency",
            ]
        )
        members = ours.get((row["pointer"], row["intra_process"]))
        if members is None:
            rows.append(["", "here: no such cell", *[""] * 6])
            continue
        cell, by_metric = members[0].cell, _by_metric(estimates, members[0])
        measure = latency_measures(members, backlogs)
        # The study's program took its time before publish() and in the callback.
        period, latency = by_metric.get("publisher_period"), by_metric.get(LOGGED_LATENCY.name)
        if measure == "backlog":
            marked.add(len(rows))
        rows.append(
            [
                # Some recordings only show the argument of the callback.
                "" if "pointer" in cell else f"callback takes {cell.get('callback')}",
                f"here, {count_of_runs(period.runs if period is not None else 0)}",
                *(_estimate(by_metric.get(n)) for n in ("publisher_period", "subscription_period")),
                _estimate(latency) if latency else _from_the_event(by_metric.get("latency_mean")),
                f"{_estimate(by_metric.get('loss'))} % (counted)",
                significant(_in_periods(latency, period), 3),
                _MEASURES.get(measure, measure),
            ]
        )
    return ReportTable(
        [
            *("cell (1 x 10 MB)", "source", "publisher period [ms]", "subscription period [ms]"),
            *("mean latency [ms]", "loss", "latency in periods", "what latency measures"),
        ],
        rows,
        "As published (rclcpp, pull request 636, 2019), and here",
        notes=[
            (
                "Implied loss: 1 - publisher period / subscription period. The study did not count "
                "losses, and took latency over received messages only."
            ),
            (
                "Its cells with intra-process communication off have a latency of more than 10 "
                "publisher periods, with queues of depth 10: it is the age of a full queue, behind "
                "which the transport cannot be seen."
            ),
            (
                "Latency here is that of the programs' own logs, from the line before publish() to "
                "the callback's first line, as the study's; without a log it is at least that of "
                "the trace, whose first event comes after the copy of what is published by "
                "reference."
            ),
            (
                "Shared and unique is what the study published; here, where the factor is called "
                "callback, what the callback takes. "
                "Other machine, middleware and distribution: compare shapes, not milliseconds."
            ),
        ],
        marked=frozenset(marked),
        left=frozenset({"cell (1 x 10 MB)", "source", "what latency measures"}),
    )


def _by_metric(estimates: Sequence[Estimate], run: Run) -> dict[str, Estimate]:
    """Return the estimates of the cell of a run."""
    return {e.metric: e for e in estimates if dict(e.cell) == dict(run.cell)}


def _in_periods(latency: Estimate | None, period: Estimate | None) -> float | None:
    """Return a latency as a multiple of the publisher's period."""
    value = None if latency is None else latency.value
    length = None if period is None else period.value
    return None if value is None or length is None or length == 0 else value / length


def _with_interval(estimate: Estimate | None) -> str:
    return "-" if estimate is None else " ".join(value_and_interval(estimate))


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None or estimate.value is None:
        return "-"
    value, interval = value_and_interval(estimate)
    return value if estimate.refused else f"{value} {interval}"


def _from_the_event(latency: Estimate | None) -> str:
    """Return a latency of which the trace lacks the beginning, as a lower bound."""
    return "-" if latency is None or latency.value is None else f"at least {_estimate(latency)}"


def _microseconds(ns: float | None) -> str:
    return significant(None if ns is None else ns / 1e3, 3)


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
