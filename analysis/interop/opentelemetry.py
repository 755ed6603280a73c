"""Convert a recording to OpenTelemetry spans: OTLP in JSON, one ExportTraceServiceRequest per run.

There is a span per publication (kind PRODUCER), per callback that a message (CONSUMER) or a request
(SERVER) started, per request of a client (CLIENT), and per other callback (INTERNAL). A callback's
parent is the publication or request that started it, and the parent of a publication is its
callback: a chain is one trace. https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from roslens.collectors.ros2.services import begin_of

INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = range(1, 6)
"""Kinds of spans, as the protocol numbers them."""
_CALLBACK, _PUBLICATION, _REQUEST = range(1, 4)
NEEDED = ("processes", "callback_instances", "publications", "messages", "service_calls")

Key = tuple[int, int]
"""Kind of the object that a span represents, and the object's number."""


class _Span(NamedTuple):
    start_ns: int
    end_ns: int
    key: Key
    parent: Key | None
    name: str
    kind: int
    place: tuple[str | None, int | None, str | None]
    attributes: Mapping[str, str | int | None]


def otlp_json(runs: Iterable[tuple[str, Mapping[str, pl.DataFrame]]]) -> str:
    """Return the spans of runs, one line of JSON for each run.

    Parameters
    ----------
    runs
        Name and tables (`NEEDED`) of each run. An object without an end in the recording, such as a
        callback that still ran, has no span.
    """
    return "".join(json.dumps(_request(name, tables)) + "\n" for name, tables in runs)


def _request(run: str, tables: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
    spans = sorted([*_callbacks(tables), *_publications(tables), *_calls(tables)])
    parents = {span.key: span.parent for span in spans}
    trace_of: dict[Key, str] = {}
    resources: dict[tuple[str | None, int | None, str | None], list[dict[str, Any]]] = {}
    for span in spans:
        # By the clocks of two hosts, a parent can begin after its children.
        way, key = [], span.key
        while key not in trace_of:
            trace_of[key] = ""
            way.append(key)
            parent = parents[key]
            if parent in parents:
                key = parent
        trace_of.update(dict.fromkeys(way, trace_of[key] or _number(run, key, 16)))
        fields = {
            "traceId": trace_of[span.key],
            "spanId": _number(run, span.key, 8),
            "name": span.name,
            "kind": span.kind,
            "startTimeUnixNano": str(span.start_ns),
            "endTimeUnixNano": str(span.end_ns),
            "attributes": _attributes(span.attributes),
        }
        if span.parent in parents:
            fields["parentSpanId"] = _number(run, span.parent, 8)
        resources.setdefault(span.place, []).append(fields)
    programs = {
        (host, vpid): name
        for host, vpid, name in tables["processes"].select("host", "vpid", "procname").iter_rows()
    }
    return {
        "resourceSpans": [
            {
                "resource": {
                    "attributes": _attributes(
                        {
                            "service.name": node or programs.get((host, vpid)) or "unknown",
                            "host.name": host,
                            "process.pid": vpid,
                            "process.executable.name": programs.get((host, vpid)),
                            "roslens.run": run,
                        }
                    )
                },
                "scopeSpans": [{"scope": {"name": "roslens"}, "spans": members}],
            }
            for (host, vpid, node), members in resources.items()
        ]
    }


def _callbacks(tables: Mapping[str, pl.DataFrame]) -> list[_Span]:
    number = "callback_instance_id"
    started: dict[int, tuple[Key | None, str]] = {}
    messages = tables["messages"].drop_nulls(number).unique(number, keep="first")
    for instance, message, topic in messages.select(number, "message_id", "topic").iter_rows():
        started[instance] = (None if message is None else (_PUBLICATION, message), topic)
    calls = tables["service_calls"].with_row_index("call").drop_nulls(number)
    for instance, call, service in calls.select(number, "call", "service").iter_rows():
        started[instance] = ((_REQUEST, call), service)
    spans = []
    columns = (number, "start_ns", "end_ns", "kind", "name", "symbol", "host", "vpid", "node")
    for row in tables["callback_instances"].drop_nulls("end_ns").select(columns).iter_rows():
        instance, start, end, kind, name, symbol, host, vpid, node = row
        parent, subject = started.get(instance, (None, name))
        span_kind = SERVER if kind == "service" else CONSUMER if instance in started else INTERNAL
        attributes = {"code.function.name": symbol, "ros2.callback.kind": kind}
        if span_kind == CONSUMER:
            attributes |= {"messaging.system": "ros2", "messaging.destination.name": subject}
        title = f"{kind or 'callback'} {subject or ''}".strip()
        key, place = (_CALLBACK, instance), (host, vpid, node)
        spans.append(_Span(start, end, key, parent, title, span_kind, place, attributes))
    return spans


def _publications(tables: Mapping[str, pl.DataFrame]) -> list[_Span]:
    lost = tables["messages"].filter(pl.col("outcome") == "lost")["message_id"].value_counts()
    times = dict(lost.iter_rows())
    last = pl.max_horizontal("publish_ns", "rcl_publish_ns", "rmw_publish_ns").alias("last_ns")
    columns = ("callback_instance_id", "topic", "host", "vpid", "node")
    sent = tables["publications"].drop_nulls("publish_ns")
    sent = sent.select("message_id", "publish_ns", last, *columns)
    spans = []
    for number, start, end, instance, topic, host, vpid, node in sent.iter_rows():
        attributes = {"messaging.system": "ros2", "messaging.destination.name": topic}
        if times.get(number):
            attributes["ros2.lost"] = times[number]
        parent = None if instance is None else (_CALLBACK, instance)
        spans.append(
            _Span(start, end, (_PUBLICATION, number), parent, f"publish {topic or 'unknown'}",
                  PRODUCER, (host, vpid, node), attributes)
        )  # fmt: skip
    return spans


def _calls(tables: Mapping[str, pl.DataFrame]) -> list[_Span]:
    begin = begin_of("request_called_ns", "request_sent_ns", "request_taken_ns")
    columns = ("response_taken_ns", "service", "host", "client_node")
    calls = tables["service_calls"].with_row_index("call")
    calls = calls.select("call", begin.alias("begin_ns"), *columns)
    return [
        _Span(start, end, (_REQUEST, number), None, f"request {service or 'unknown'}", CLIENT,
              (host, None, node), {"rpc.system": "ros2", "rpc.service": service})
        for number, start, end, service, host, node in calls.drop_nulls(
            ["begin_ns", "response_taken_ns"]
        ).iter_rows()
    ]  # fmt: skip


def _number(run: str, key: Key, size: int) -> str:
    """Return an identifier of `size` bytes, the same in every export."""
    text = f"{run}\0{key[0]}\0{key[1]}".encode()
    return hashlib.blake2b(text, digest_size=size).hexdigest()


def _attributes(values: Mapping[str, str | int | None]) -> Sequence[dict[str, Any]]:
    return [
        {
            "key": key,
            "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
        }
        for key, value in values.items()
        if value is not None
    ]
