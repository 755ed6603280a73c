"""Convert rows of a catalog to series over campaigns."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from roslens.analysis.environment import shares
from roslens.analysis.estimate import cell_label
from roslens.analysis.measures.loss import MAY_BIAS
from roslens.analysis.measures.resources import CPU, PSS, RSS
from roslens.analysis.verdicts.trend import MACHINE, Night, Series
from roslens.fleet.rows import METRICS, OF_PROCESSES
from roslens.recording import UsageError

_UNITS = {"loss": "1", **{metric.name: metric.unit for metric in (CPU, PSS, RSS)}}


def series_of(rows: pl.DataFrame, metrics: Sequence[str]) -> tuple[list[Series], list[str]]:
    """Make one series per metric and cell (suite and factors), with campaigns in time order.

    The topic is part of the cell unless it is the work topic, as in a latency report.

    Parameters
    ----------
    rows
        Catalog rows.
    metrics
        Names among `roslens.fleet.rows.METRICS`.

    Returns
    -------
    series, left_out
        `left_out` has one sentence for each reason to leave out recordings or campaigns.

    Raises
    ------
    UsageError
        There is no such metric.
    """
    for metric in metrics:
        if metric not in METRICS:
            raise UsageError(f"no metric {metric!r} in a catalog; there are {', '.join(METRICS)}")
    usable = rows.filter(
        pl.col("collected") & (pl.col("status") == "complete") & pl.col("start").is_not_null()
    )
    out = "recordings {} and are left out"
    left_out = [
        f"{count} {reason}"
        for reason, mask in (
            (out.format("cannot be read"), rows["problem"].is_not_null()),
            (out.format("have no tables"), ~rows["collected"] & rows["problem"].is_null()),
            (out.format("did not complete"), rows["status"] != "complete"),
            (out.format("have no manifest"), rows["start"].is_null() & rows["problem"].is_null()),
            (f"recordings lack events that the tracer lost: {MAY_BIAS}",
             usable["discarded_events"] > 0),
            ("recordings were disturbed by other work on their host", usable["disturbances"] > 0),
        )
        if (count := mask.sum())
    ]  # fmt: skip
    usable = usable.with_columns(
        topic=pl.when(pl.col("topic").ne_missing(pl.col("work_topic"))).then("topic")
    )
    cell_columns = ("suite", "factors")
    groups = usable.sort("start", "path").partition_by(
        cell_columns, as_dict=True, maintain_order=True
    )
    whole_groups = rows.drop_nulls("start").partition_by(cell_columns, as_dict=True)
    # Of which cell those are whose manifest cannot be read is not known.
    of_any_cell = rows.filter(pl.col("suite").is_null())
    series = []
    for metric in dict.fromkeys(metrics):
        for (suite, factors), members in sorted(groups.items(), key=str):
            values = members.select("topic", pl.col(metric).is_finite().fill_null(value=False))
            topics = values.filter(metric)["topic"].unique().sort().to_list()
            for topic in [None] if metric in OF_PROCESSES else topics or [None]:
                of_topic = (
                    members
                    if metric in OF_PROCESSES
                    else members.with_columns(
                        pl.when(pl.col("topic").eq_missing(pl.lit(topic))).then(metric)
                    )
                )
                nights, dropped = _nights(of_topic, metric)
                cell = {"suite": suite, **json.loads(factors)}
                cell |= {} if topic is None else {"topic": topic}
                if dropped:
                    left_out.append(
                        f"{metric} has no finite value in any run of {dropped} "
                        f"campaign{'s' * (dropped != 1)} of {cell_label(cell)}"
                    )
                if lacking := sum(night.left_out for night in nights):
                    runs = lacking + sum(len(night.values) for night in nights)
                    left_out.append(
                        f"{metric} has no finite value in {lacking} of {runs} runs of "
                        f"{cell_label(cell)}, which are left out"
                    )
                if nights:
                    silent = pl.concat([whole_groups[suite, factors], of_any_cell]).filter(
                        pl.col("start") > nights[-1].start,
                        ~pl.col("campaign").is_in([night.campaign for night in nights]),
                    )
                    count = silent["campaign"].n_unique()
                    unit = _UNITS.get(metric, "ns")
                    series.append(Series(metric, unit, cell, tuple(nights), silent=count))
    return series, left_out


def _nights(members: pl.DataFrame, metric: str) -> tuple[list[Night], int]:
    nights = []
    dropped = 0
    calm = (pl.col("disturbances") > 0).not_().fill_null(value=True)
    for all_runs in members.partition_by("campaign", maintain_order=True):
        undisturbed = all_runs.filter(calm)
        disturbed = not undisturbed.filter(pl.col(metric).is_finite()).height
        runs = all_runs if disturbed else undisturbed
        values = [value for value in runs[metric] if value is not None and math.isfinite(value)]
        if not values:
            dropped += 1
            continue
        night = Night(
            runs["campaign"][0],
            runs["start"].min(),  # type: ignore[arg-type]
            tuple(values),
            runs.height - len(values),
            _shared_software(runs.iter_rows(named=True)),
            disturbed=disturbed,
        )
        nights.append(night)
    return sorted(nights, key=lambda night: night.start), dropped


def _shared_software(runs: Any) -> Mapping[str, str]:
    """Return the software that all runs share; machines also if they are several."""
    of_runs = []
    for run in runs:
        software = dict(json.loads(run["packages"] or "{}"))
        for name, column in (("commit", "git_commit"), ("distro", "distro"), ("kernel", "kernel")):
            if run[column] is not None:
                software[name] = run[column]
        if run["cpu_model"] is not None:
            software[MACHINE] = f"{run['cpu_model']}, {run['cpu_count']} CPUs"
        of_runs.append(software)
    machines = Counter(software[MACHINE] for software in of_runs if MACHINE in software)
    shared = set.intersection(*(set(software.items()) for software in of_runs))
    several = {MACHINE: "; ".join(shares(machines))} if len(machines) > 1 else {}
    return {**dict(shared), **several}
