"""Make the catalog's row of a recording: its manifest, health and key metrics."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from roslens.collectors.collected import NOTE
from roslens.factors import factors_in
from roslens.fleet.trees import Place, Tree
from roslens.recording import Recording, RoslensError, RunFailedError, UsageError
from roslens.recording.files import text_path
from roslens.recording.json_file import read_json
from roslens.recording.layout import MANIFEST_NAME
from roslens.recording.manifest import Manifest
from roslens.recordings import Recordings, open_recordings

METRICS = (
    "latency_mean",
    "latency_p50",
    "latency_p90",
    "latency_p99",
    "latency_sent_p50",
    "latency_sent_p90",
    "latency_sent_p99",
    "loss",
    "callback_duration_mean",
    "cpu",
    "pss",
    "rss",
)
"""Metrics of the first topic of a latency report (the work topic, else the busiest)."""
OF_PROCESSES = ("cpu", "pss", "rss")
"""Those of `METRICS` that are about no topic."""

ROW: Mapping[str, pl.DataType] = {
    "path": pl.String(),
    "run": pl.String(),
    "suite": pl.String(),
    "campaign": pl.String(),
    "repetition": pl.Int64(),
    "order": pl.Int64(),
    "factors": pl.String(),
    "status": pl.String(),
    "failure": pl.String(),
    "problem": pl.String(),
    "start": pl.Datetime("us", "UTC"),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "distro": pl.String(),
    "rmw": pl.String(),
    "executor": pl.String(),
    "git_commit": pl.String(),
    "packages": pl.String(),
    "cpu_model": pl.String(),
    "cpu_count": pl.Int64(),
    "kernel": pl.String(),
    "work_topic": pl.String(),
    "topic": pl.String(),
    "discarded_events": pl.Int64(),
    "lost_packets": pl.Int64(),
    "warnings": pl.Int64(),
    "disturbances": pl.Int64(),
    "collected": pl.Boolean(),
    "collector": pl.String(),
    "tables": pl.String(),
    "events": pl.Int64(),
    "messages": pl.Int64(),
    "health_errors": pl.Int64(),
    "health_warnings": pl.Int64(),
    "health_kinds": pl.List(pl.String()),
    **dict.fromkeys(METRICS, pl.Float64()),
    "stamp": pl.String(),
}
"""Columns of a catalog. ``path`` and ``tables`` are relative to its root; ``factors`` and
``packages`` are JSON; ``topic`` is that of `METRICS`; ``problem`` is why a recording cannot be
read, null if it can. If its manifest cannot be read, ``campaign`` is the folder, and ``start`` when
that file was written."""


@dataclass(frozen=True)
class Task:
    """Recording whose row is to be made; `collect` tells whether missing tables are made too."""

    tree: Tree
    place: Place
    collect: bool = False


def unread_row(place: Place) -> dict[str, Any]:
    """Return the row of a recording of which only the place is known."""
    row: dict[str, Any] = dict.fromkeys(ROW)
    run = place.path.rsplit("/", 1)[-1]
    return row | {"path": place.path, "run": run, "stamp": place.stamp, "collected": False}


def row_of(task: Task) -> dict[str, Any]:
    """Make the row of a recording; ``problem`` says why it cannot be read."""
    place = task.place
    row = unread_row(place)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            recording = Recording.at(task.tree.local(place, Path(scratch)))
            if recording.has_manifest:
                # All that is known of a manifest that cannot be read; the run began before that.
                row["start_ns"] = (recording.path / MANIFEST_NAME).stat().st_mtime_ns
                row["campaign"] = PurePosixPath(place.path).parent.name
            if (manifest := recording.manifest) is not None:
                row |= _manifest_columns(manifest)
            elif factors := factors_in(place.path.split("/")):
                row["factors"] = json.dumps(factors, sort_keys=True)
            opened = open_recordings(recording.path, collect=task.collect)
            row |= _table_columns(opened, place)
            row["stamp"] = task.tree.stamp(place)
        except (RoslensError, OSError, pl.exceptions.PolarsError) as error:
            text = " ".join(str(error).split())
            row["problem"] = text.replace(f"{scratch}/run", place.path)
            if isinstance(error, RunFailedError | OSError) or isinstance(error.__cause__, OSError):
                # A local error, such as a full disk or a missing permission: the row is retried.
                row["stamp"] = ""
    return row


def _manifest_columns(manifest: Manifest) -> dict[str, Any]:
    environment, host = manifest.environment, manifest.host
    return {
        "run": manifest.run,
        "suite": manifest.suite,
        "campaign": manifest.campaign,
        "repetition": manifest.repetition,
        "order": manifest.order,
        "factors": json.dumps(manifest.factors, sort_keys=True),
        "status": manifest.status,
        "failure": manifest.failure,
        "start_ns": manifest.start_ns,
        "end_ns": manifest.end_ns,
        "distro": environment.ros_distro,
        "rmw": environment.rmw,
        "executor": environment.executor,
        "git_commit": environment.git_commit,
        "packages": json.dumps({**environment.system_packages, **environment.packages}),
        "cpu_model": host.cpu_model,
        "cpu_count": host.cpu_count,
        "kernel": host.kernel,
        "work_topic": manifest.work_topic,
        "discarded_events": manifest.loss.discarded_events,
        "lost_packets": manifest.loss.lost_packets,
        "warnings": len(manifest.warnings),
        "disturbances": len(manifest.disturbances),
    }


def _table_columns(opened: Recordings, place: Place) -> dict[str, Any]:
    recording = opened.recordings[0]
    is_beside = recording.output == Recording.at(recording.path).output
    try:
        note = read_json(recording.tables / NOTE)
    except UsageError:
        return {}
    if not isinstance(note, dict) or not note.get("rows"):
        return {}
    file = text_path(recording.tables / "health.parquet")
    health = pl.read_parquet(file, columns=["kind", "severity"], glob=False)
    severities = health["severity"].to_list()
    return {
        "collected": True,
        "collector": note["collector"],
        "tables": place.tables if is_beside else str(recording.tables),
        "events": sum(note["events_by_name"].values()),
        "messages": note["rows"].get("messages"),
        "discarded_events": note["discarded_events"],
        "health_errors": severities.count("error"),
        "health_warnings": severities.count("warning"),
        "health_kinds": sorted(set(health["kind"].to_list())),
        **key_metrics(opened),
    }


def key_metrics(opened: Recordings) -> dict[str, float | str | None]:
    """Return the topic and each of `METRICS` that this run has, as the latency report has them."""
    from roslens.analysis.latency.report import LatencyParameters, LatencyReport  # noqa: PLC0415

    parameters = LatencyParameters.checked({"recordings": [str(opened.recordings[0].path)]})
    report = LatencyReport(opened, parameters)
    if not report.counting:
        return {}
    (callbacks,) = report.callback_estimates(report.groups[:1])
    main = [*report.main_estimates, *callbacks, *report.resource_estimates]
    first = report.groups[0]
    topic = first.topic if first.topic or not first.topics_of_run else opened.runs[0].work_topic
    return {
        "topic": topic,
        **{
            e.metric: e.per_run[0]
            for e in main
            if e.metric in METRICS and len(e.per_run) == 1 and e.value is not None
        },
    }
