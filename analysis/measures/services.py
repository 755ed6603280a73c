"""Response times of services."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import mean_over_runs, percentile_over_runs

_DEFINITION = (
    "request sent -> response taken: from rmw_send_request to rmw_take_response of the same "
    "request, answered requests only"
)
INFRASTRUCTURE = (
    "/describe_parameters",
    "/get_parameter_types",
    "/get_parameters",
    "/get_type_description",
    "/list_parameters",
    "/set_parameters",
    "/set_parameters_atomically",
)
"""Ends of the names of services that every node offers."""


def service_estimates(
    calls: pl.LazyFrame, runs: Sequence[Run], level: float = 0.95
) -> list[Estimate]:
    """``service_latency_mean``, ``_p50``, ``_p90`` per cell and service; cells gain ``service``.

    Parameters
    ----------
    calls
        ``service_calls`` with ``run``.
    """
    rows = (
        calls.filter(pl.col("response_taken_ns").is_not_null())
        .select(
            "run",
            "service",
            "request_sent_ns",
            latency=pl.col("response_taken_ns") - pl.col("request_sent_ns"),
        )
        .filter(pl.col("latency").is_not_null())
        .sort("request_sent_ns")
        .collect()
    )
    estimates = []
    for service in sorted(s for s in rows["service"].unique() if s):
        if service.endswith(INFRASTRUCTURE):
            continue
        of_service = rows.filter(pl.col("service") == service)
        for members in cells_of(runs).values():
            arrays = [
                of_service.filter(pl.col("run") == run.name)["latency"].to_numpy()
                for run in members
            ]
            if not any(array.size for array in arrays):
                continue
            cell = {**members[0].cell, "service": service}
            mean = Metric("service_latency_mean", _DEFINITION, "ns")
            estimates.append(mean_over_runs(mean, cell, arrays, level))
            for q in (0.5, 0.9):
                metric = Metric(f"service_latency_p{100 * q:g}", _DEFINITION, "ns")
                estimates.append(percentile_over_runs(metric, cell, arrays, q, level))
    return estimates


def unanswered(calls: pl.LazyFrame) -> pl.DataFrame:
    """Per ``run`` and ``service``: ``requests``, ``not_taken`` and ``not_answered``."""
    return (
        calls.group_by("run", "service")
        .agg(
            requests=pl.len(),
            not_taken=pl.col("request_taken_ns").null_count(),
            not_answered=pl.col("response_taken_ns").null_count(),
        )
        .sort("run", "service")
        .collect()
    )
