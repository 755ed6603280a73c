"""Read another harness's manifests: ``experiment``, ``run_id``, ``factors``, exit statuses.

Runs recorded before roslens had its own manifest look like this: beside the trace are
``resources.csv`` (see `roslens.collectors.resources`) and the workload's logs. They are
read as roslens runs; facts that such a manifest lacks stay unknown.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_EXECUTORS = {
    "single": "SingleThreadedExecutor",
    "multi": "MultiThreadedExecutor",
    "events": "EventsExecutor",
    "events_cbg": "EventsCBGExecutor",
}
_RMW = "RMW_IMPLEMENTATION"


class _Host(BaseModel):
    cpu_count: int
    kernel: str | None = None
    cpu_model: str | None = None


class _Tracing(BaseModel):
    tracer: str
    tracer_version: str | None = None
    subbuf_size: str | None = None
    num_subbuf: int | None = None
    events: list[str] = Field(default_factory=list)
    contexts: list[str] = Field(default_factory=list)
    discarded_events: int | None = None
    discarded_packets: int | None = None


class _HarnessManifest(BaseModel):
    experiment: str
    run_id: str
    factors: dict[str, str | int | float | bool]
    repetition: int = 0
    order: int = 0
    seed: int | None = None
    started_realtime_ns: int
    duration_s: float
    command: list[str] = Field(default_factory=list)
    exit_status: list[int] = Field(default_factory=list)
    environment: dict[str, str] = Field(default_factory=dict)
    ros_distro: str | None = None
    packages: dict[str, str] = Field(default_factory=dict)
    host: _Host
    tracing: _Tracing
    concurrent_with: list[str] | int | str | None = None


def is_harness_manifest(data: object) -> bool:
    """Return whether the JSON of a manifest has this layout."""
    return (
        isinstance(data, dict)
        and "schema_version" not in data
        and {"experiment", "run_id", "factors"} <= data.keys()
    )


def from_harness(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Convert the manifest to the layout of roslens's own manifest, without validation.

    A run whose processes did not all end with status 0 is failed. The work topic is that
    of ``messages.csv`` in `folder`, if the workload had only one publisher.

    Raises
    ------
    pydantic.ValidationError
        Fields are missing or have wrong values.
    """
    harness = _HarnessManifest.model_validate(data)
    bad = [status for status in harness.exit_status if status]
    executor = harness.factors.get("executor")
    return {
        "schema_version": 1,
        "suite": harness.experiment,
        "campaign": harness.experiment,
        "run": harness.run_id,
        "factors": harness.factors,
        "repetition": harness.repetition,
        "order": harness.order,
        "seed": harness.seed,
        "command": harness.command,
        "work_topic": _only_topic(folder / "messages.csv", harness.factors),
        "environment": {
            "ros_distro": harness.ros_distro,
            "rmw": harness.environment.get(_RMW),
            "executor": _EXECUTORS.get(str(executor), None if executor is None else str(executor)),
            "packages": harness.packages,
            "variables": harness.environment,
        },
        "host": harness.host.model_dump(),
        "tracing": {
            "tracer": harness.tracing.tracer,
            "tracer_version": harness.tracing.tracer_version,
            "events": harness.tracing.events,
            "contexts": harness.tracing.contexts,
            "subbuf_size_bytes": _bytes(harness.tracing.subbuf_size),
            "subbuf_count": harness.tracing.num_subbuf,
        },
        "start_ns": harness.started_realtime_ns,
        "end_ns": harness.started_realtime_ns + round(harness.duration_s * 1e9),
        "status": "failed" if bad else "complete",
        "exit_status": bad[0] if bad else (0 if harness.exit_status else None),
        "failure": _failure(bad[0]) if bad else None,
        "loss": {
            "discarded_events": harness.tracing.discarded_events,
            "lost_packets": harness.tracing.discarded_packets,
        },
        "warnings": (
            ["other runs were going on at the same time"] if harness.concurrent_with else []
        ),
        "provenance": "recorded by another harness, whose manifest is read as it is",
    }


def _failure(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"ended with status {status}"


def _bytes(size: str | None) -> int | None:
    match = re.fullmatch(r"(\d+)([kmg]?)", (size or "").strip().lower())
    return int(match[1]) * _UNITS[match[2]] if match else None


def _only_topic(messages: Path, factors: dict[str, Any]) -> str | None:
    if int(factors.get("publishers", 1)) != 1 or not messages.is_file():
        return None
    with messages.open(encoding="utf-8", newline="") as stream:
        first = next(csv.DictReader(stream), None)
    return first.get("topic") if first else None
