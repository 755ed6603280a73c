"""Estimate the response times of services."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import statistics_over_runs
from roslens.collectors.ros2.losses import FOREVER, is_kernel_loss
from roslens.collectors.ros2.services import begin_of
from roslens.collectors.times import LEAST_NS

CALLED = "request called -> response received"
"""Short definition for service calls and action goals."""
DEFINITION = (
    f"{CALLED}: from the call of rcl_send_request to rmw_take_response of the same request, or to "
    "its rmw_send_request where that comes last; of rclpy traced by roslens from call_async to "
    "where the caller begins to be told; answered requests only"
)
_NO_BEGIN = (
    "the trace does not show when calls began, only that their requests had been written or taken "
    "(rmw_send_request, rmw_take_request); a recording with the native tracer, or in the "
    "embedded ROS 2, shows it"
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
"""Suffixes of the names of services that every node offers."""


def has_every_node(service: str) -> pl.Expr:
    """Return whether a service is one that every node offers (`INFRASTRUCTURE`)."""
    name = pl.col(service).cast(pl.String)
    return pl.any_horizontal(name.str.ends_with(end) for end in INFRASTRUCTURE)


def call_times(calls: pl.LazyFrame) -> pl.LazyFrame:
    """Return answered calls: ``run``, ``service``, ``begin_ns``, ``took_ns`` and ``measured``.

    Where ``measured`` is false, the beginning of the call is not in the trace: ``begin_ns`` is the
    latest time at which it can have been, and ``took_ns`` a lower bound. A time is negative only
    between hosts whose clocks differ; those calls are left out. A response is received no earlier
    than its request's own call has written it, because rclcpp and rclpy hold a lock meanwhile.

    Parameters
    ----------
    calls
        ``service_calls`` with ``run``.
    """
    begin = begin_of("request_called_ns", "request_sent_ns", "request_taken_ns")
    received = pl.coalesce("response_received_ns", "response_taken_ns")
    return (
        calls.filter(pl.col("response_taken_ns").is_not_null())
        .select(
            "run",
            "service",
            begin_ns=begin,
            took_ns=pl.max_horizontal(received, "request_sent_ns") - begin,
            measured=pl.col("request_called_ns").is_not_null(),
        )
        .filter(pl.col("took_ns") >= 0)
        .sort("begin_ns")
    )


def as_lower_bound(estimate: Estimate) -> Estimate:
    """Turn an estimate over lower bounds into a refusal that states the least value."""
    bound = "" if estimate.value is None else f"at least {estimate.value / 1e6:.3g} ms: "
    return replace(
        estimate, value=None, low=None, high=None, per_run=(), refused=f"{bound}{_NO_BEGIN}"
    )


def service_estimates(
    calls: pl.LazyFrame, runs: Sequence[Run], level: float = 0.95
) -> list[Estimate]:
    """Estimate ``service_latency_mean``, ``_p50``, ``_p90`` per cell and service (added to cells).

    An estimate is refused, with its lower bound, if the beginning of a call in the cell is unknown.

    Parameters
    ----------
    calls
        ``service_calls`` with ``run``.
    """
    rows = call_times(calls).collect()
    by_run = rows.partition_by("service", "run", as_dict=True)
    estimates: list[Estimate] = []
    for service in sorted(s for s in rows["service"].unique() if s):
        if service.endswith(INFRASTRUCTURE):
            continue
        for members in cells_of(runs).values():
            frames = [by_run.get((service, run.name), rows.clear()) for run in members]
            of_service = pl.concat(frames)
            if not of_service.height:
                continue
            arrays = [of_run["took_ns"].to_numpy() for of_run in frames]
            cell = {**members[0].cell, "service": service}
            metric = Metric("service_latency", DEFINITION, "ns")
            statistics = statistics_over_runs(metric, cell, arrays, ("mean", 0.5, 0.9), level)
            estimates += (
                statistics if of_service["measured"].all() else map(as_lower_bound, statistics)
            )
    return estimates


def unanswered(
    calls: pl.LazyFrame, clients: pl.LazyFrame, processes: pl.LazyFrame, losses: pl.LazyFrame
) -> pl.DataFrame:
    """Count ``requests``, ``not_answered`` and ``unknown`` per ``run`` and ``service``.

    Of a request without an answer it is unknown whether there was one if events were lost after it,
    or if the recording of its client ended sooner than the service's longest answer took; if none
    was answered, sooner than `LEAST_NS`.

    Parameters
    ----------
    calls, clients, processes, losses
        ``service_calls``, ``clients``, `Tables.recorded_processes` and ``losses`` with ``run``.
    """
    place = ["run", "host", "vpid"]
    ends = processes.group_by(place).agg(_ended=pl.col("end_ns").max())
    of_client = clients.select(*place, "client_id").join(ends, on=place)
    last = losses.filter(~is_kernel_loss()).group_by("run").agg(
        _lost=pl.col("end_ns").fill_null(FOREVER).max()
    )  # fmt: skip
    sent = pl.coalesce("request_sent_ns", "request_called_ns")
    longest = (pl.col("response_taken_ns") - sent).max().over("run", "service")
    certain = (
        (pl.col("_lost").is_null() | (pl.col("_lost") <= sent))
        & (pl.col("_ended").is_null() | (sent + longest.fill_null(LEAST_NS) <= pl.col("_ended")))
    ).fill_null(value=False)
    without = pl.col("response_taken_ns").is_null()
    return (
        calls.join(last, on="run", how="left")
        .join(of_client.select("run", "client_id", "_ended"), on=["run", "client_id"], how="left")
        .with_columns(_certain=certain)
        .group_by("run", "service")
        .agg(
            requests=pl.len(),
            not_answered=(without & pl.col("_certain")).sum(),
            unknown=(without & ~pl.col("_certain")).sum(),
        )
        .sort("run", "service")
        .collect()
    )
