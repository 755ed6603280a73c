"""Write recordings without a trace: a manifest, tables and resources that conform to the schema."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

import roslens as rl
from roslens.analysis.latency.report import LatencyParameters, LatencyReport
from roslens.collectors.schema import RESOURCES, SAMPLED, TABLES
from roslens.recording import Manifest, write_manifest
from roslens.recording.manifest import Host, Level, Loss, TracingSettings

START = 1_700_000_000_000_000_000
SUBSCRIBER = 42
THREAD = 43
EVERY = TABLES | {sampled.name: sampled for sampled in SAMPLED}


def write_run(
    folder: Path,
    *,
    latencies_ns: Sequence[int | None],
    factors: Mapping[str, Level] | None = None,
    repetition: int = 0,
    order: int = 0,
    period_ns: int = 2_000_000,
    busy_ns: int = 100_000,
    status: str = "complete",
    discarded: int = 0,
    resources: bool = True,
    with_manifest: bool = True,
    tracing: TracingSettings | None = None,
) -> Path:
    """Write one run: a publication every `period_ns`; a latency of None is a lost message.

    Callbacks take `busy_ns` each, in one thread; a service is called every tenth period and
    answered in 1 ms; the process uses half a core and 50 MB.
    """
    folder.mkdir(parents=True)
    if with_manifest:
        manifest = Manifest(
            suite="synthetic",
            campaign="campaign",
            run=folder.name,
            factors=dict(factors or {}),
            repetition=repetition,
            order=order,
            work_topic="/data",
            host=Host(cpu_count=2, steal_fraction=0.01),
            tracing=tracing or TracingSettings(tracer="none"),
            start_ns=START,
            status=status,
            failure=None if status == "complete" else "the subscriber died",
            loss=Loss(discarded_events=discarded, lost_packets=0),
        )
        write_manifest(manifest, folder / "manifest.json")
    tables = folder / "tables" if with_manifest else folder / "roslens" / "tables"
    tables.mkdir(parents=True)
    messages, instances = _messages(latencies_ns, period_ns, busy_ns)
    rows: dict[str, list[dict[str, Any]]] = {
        "messages": messages,
        "callback_instances": instances,
        "service_calls": _service_calls(len(latencies_ns) // 10, period_ns * 10),
        "processes": [
            {"process_id": 0, "host": "h0", "vpid": SUBSCRIBER, "events": 8 * len(messages)}
        ],
        "losses": [{"host": "h0", "trace": "ust", "kind": "discarded_events", "count": discarded}]
        if discarded
        else [],
    }
    for name, table in TABLES.items():
        frame = pl.DataFrame(rows.get(name, []), infer_schema_length=None)
        table.conform(frame if frame.width else table.empty()).write_parquet(
            tables / f"{name}.parquet"
        )
    if resources:
        seconds = len(latencies_ns) * period_ns // 1_000_000_000 + 1
        RESOURCES.conform(_resources(10 * seconds)).write_parquet(folder / "resources.parquet")
    return folder


def _messages(
    latencies_ns: Sequence[int | None], period_ns: int, busy_ns: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    messages, instances = [], []
    for number, latency in enumerate(latencies_ns):
        publish = START + number * period_ns
        row: dict[str, Any] = {
            "message_id": number,
            "host": "h0",
            "topic": "/data",
            "publisher_node": "/publisher",
            "subscription_node": "/subscriber",
            "subscription_host": "h0",
            "subscription_vpid": SUBSCRIBER,
            "publish_ns": publish,
            "outcome": "lost",
            "reason": "overtaken",
        }
        if latency is not None:
            start = publish + latency
            row |= {
                "take_ns": start - min(latency, 1000),
                "callback_start_ns": start,
                "callback_end_ns": start + busy_ns,
                "latency_ns": latency,
                "clock_bound_ns": None,
                "outcome": "delivered",
                "reason": "same_timestamp",
                "match": "exact",
                "callback_instance_id": number,
            }
            instances.append(
                {
                    "callback_instance_id": number,
                    "host": "h0",
                    "kind": "subscription",
                    "name": "/data",
                    "node": "/subscriber",
                    "vpid": SUBSCRIBER,
                    "vtid": THREAD,
                    "start_ns": start,
                    "end_ns": start + busy_ns,
                    "duration_ns": busy_ns,
                }
            )
        messages.append(row)
    return messages, instances


def _service_calls(count: int, period_ns: int) -> list[dict[str, Any]]:
    return [
        {
            "host": "h0",
            "service": "/add",
            "sequence_number": number,
            "request_sent_ns": START + number * period_ns,
            "request_taken_ns": START + number * period_ns + 400_000,
            "response_taken_ns": START + number * period_ns + 1_000_000,
        }
        for number in range(count)
    ]


def _resources(count: int) -> pl.DataFrame:
    tenth = 100_000_000
    return pl.DataFrame(
        {
            "time_ns": [START + i * tenth for i in range(count)],
            "host": ["h0"] * count,
            "vpid": [SUBSCRIBER] * count,
            "process": ["subscriber"] * count,
            "cpu_time_ns": [i * tenth // 2 for i in range(count)],
            "rss_bytes": [1_000_000] + [60_000_000] * (count - 1),
            "pss_bytes": [1_000_000] + [50_000_000] * (count - 1),
        }
    )


def report_of(path: Path, **parameters: object) -> LatencyReport:
    """Return the report of recordings that have their tables."""
    given = LatencyParameters.checked({"recordings": str(path), **parameters})
    return LatencyReport(rl.open(path, collect=False), given)


class Tables:
    """Tables of runs with these rows, and null in all other columns."""

    def __init__(self, **rows: Sequence[Mapping[str, Any]]) -> None:
        self.rows = rows

    def table(self, name: str) -> pl.LazyFrame:
        return of_runs(name, *self.rows.get(name, ()))

    def raw_events(self, _: str) -> dict[str, pl.LazyFrame]:
        """Return the starts of callbacks; a row of an execution may have its ``cpu_id``."""
        cpus = [row.get("cpu_id") for row in self.rows["callback_instances"]]
        starts = self.table("callback_instances").rename({"start_ns": "time_ns"})
        return {"ros2:callback_start": starts.with_columns(cpu_id=pl.Series(cpus, dtype=pl.Int32))}


def of_runs(name: str, *rows: Mapping[str, object]) -> pl.LazyFrame:
    """Make rows of a table of runs; a row that names no run is of run r."""
    runs = pl.Series("run", [row.get("run", "r") for row in rows], pl.String)
    return table(name, *rows).lazy().with_columns(runs)


def table(name: str, *rows: Mapping[str, object]) -> pl.DataFrame:
    """Make rows of a table of the schema, with null for what is not given."""
    empty = EVERY[name].empty()
    whole = [{column: row.get(column) for column in empty.columns} for row in rows]
    return pl.DataFrame(whole, schema=empty.schema, orient="row")
