"""Write a run's measurements as an MCAP file, for Foxglove and other players of bags.

Each message is JSON with a schema, at the time of the measurement:
``/roslens/messages/<topic>``, ``/roslens/callbacks/<node>``, ``/roslens/resources/<process>``. In
a plot of Foxglove, ``/roslens/messages/chatter.latency_ms`` is the latency of ``/chatter``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from roslens.recording.errors import writing
from roslens.recording.files import replaced_whole

NEEDED = ("messages", "callback_instances")
_NUMBER, _TEXT = {"type": ["number", "null"]}, {"type": ["string", "null"]}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "roslens.Message": {
        "latency_ms": _NUMBER,
        "outcome": _TEXT,
        "publisher": _TEXT,
        "subscription": _TEXT,
    },
    "roslens.Callback": {"duration_ms": _NUMBER, "kind": _TEXT, "name": _TEXT},
    "roslens.Resources": {"cpu_cores": _NUMBER, "rss_mib": _NUMBER},
}


def write_mcap(tables: Mapping[str, pl.DataFrame], path: Path) -> None:
    """Write the timings of one run to an MCAP file.

    Parameters
    ----------
    tables
        The tables named in `NEEDED`, and ``resources`` where processes were sampled.
    path
        File to write.

    Raises
    ------
    UsageError, RunFailedError
        The file cannot be written; the second where the disk is full.
    """
    from mcap.writer import Writer  # noqa: PLC0415  (optional)

    rows = [*_messages(tables["messages"]), *_callbacks(tables["callback_instances"])]
    if "resources" in tables:
        rows += _resources(tables["resources"])
    rows.sort(key=lambda row: row[0])
    with writing(path), replaced_whole(path) as temporary, temporary.open("wb") as file:
        writer = Writer(file)
        writer.start(library="roslens")
        schemas = {
            name: writer.register_schema(name, "jsonschema", _schema(fields))
            for name, fields in _SCHEMAS.items()
        }
        channels: dict[str, int] = {}
        for time_ns, sent_ns, schema, topic, content in rows:
            if topic not in channels:
                channels[topic] = writer.register_channel(topic, "json", schemas[schema])
            data = json.dumps(content).encode()
            writer.add_message(channels[topic], time_ns, data, sent_ns)
        writer.finish()  # type: ignore[no-untyped-call]


_Row = tuple[int, int, str, str, dict[str, Any]]


def _schema(fields: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": "object", "properties": fields}).encode()


def _messages(frame: pl.DataFrame) -> Iterator[_Row]:
    """Yield each message at its callback's start; an undelivered one at its publication."""
    at = pl.coalesce("callback_start_ns", "take_ns", "publish_ns")
    sent = pl.coalesce("publish_ns", "source_timestamp_ns", at)
    columns = ("topic", "latency_ns", "outcome", "publisher_node", "subscription_node")
    rows = frame.select(at.alias("at"), sent.alias("sent"), *columns).drop_nulls(["at", "topic"])
    for time_ns, sent_ns, topic, latency, outcome, publisher, subscription in rows.iter_rows():
        yield time_ns, sent_ns, "roslens.Message", f"/roslens/messages{_name(topic)}", {
            "latency_ms": None if latency is None else latency / 1e6,
            "outcome": outcome,
            "publisher": publisher,
            "subscription": subscription,
        }  # fmt: skip


def _callbacks(frame: pl.DataFrame) -> Iterator[_Row]:
    """Yield each callback at its end, when its duration is known."""
    columns = ("start_ns", "end_ns", "node", "kind", "name")
    rows = frame.select(columns).drop_nulls("end_ns")
    for start, end, node, kind, name in rows.iter_rows():
        yield end, start, "roslens.Callback", f"/roslens/callbacks{_name(node or 'unknown')}", {
            "duration_ms": (end - start) / 1e6,
            "kind": kind,
            "name": name,
        }  # fmt: skip


def _resources(frame: pl.DataFrame) -> Iterator[_Row]:
    columns = ("time_ns", "host", "vpid", "process", "cpu_time_ns", "rss_bytes")
    key = pl.struct("host", "vpid")
    cores = pl.col("cpu_time_ns").diff().over(key) / pl.col("time_ns").diff().over(key)
    rows = frame.select(columns).sort("time_ns").with_columns(cores.alias("cores"))
    for time_ns, _, vpid, process, _, rss, used in rows.iter_rows():
        topic = f"/roslens/resources/{process or 'process'}_{vpid}"
        content = {"cpu_cores": used, "rss_mib": None if rss is None else rss / 2**20}
        yield time_ns, time_ns, "roslens.Resources", topic, content


def _name(name: str) -> str:
    return name if name.startswith("/") else f"/{name}"
