"""Test OpenTelemetry spans and MCAP timings of the tables, with other projects' readers."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from mcap.reader import make_reader
from synthetic import table
from tests.samples import RUN, SAMPLES

import roslens as rl
from roslens.analysis.interop.opentelemetry import CONSUMER, NEEDED, PRODUCER, otlp_json
from roslens.export import export
from roslens.export_formats import Format
from roslens.recording import UsageError
from roslens.recordings import Recordings

pytestmark = pytest.mark.recording


def spans(path: Path) -> list[dict[str, Any]]:
    """Return all spans of a file, each with the attributes of its resource."""
    all_spans = []
    for line in path.read_text().splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            about = {attribute["key"]: next(iter(attribute["value"].values()))
                     for attribute in resource["resource"]["attributes"]}  # fmt: skip
            all_spans += [
                span | {"of": about} for scope in resource["scopeSpans"] for span in scope["spans"]
            ]
    return all_spans


def test_spans_follow_messages(tmp_path: Path) -> None:
    export(RUN, tmp_path / "o.json", "otlp")
    exported = spans(tmp_path / "o.json")
    recording = rl.open(RUN)
    by_id = {span["spanId"]: span for span in exported}
    assert len(by_id) == len(exported)
    sent = recording.publications.drop_nulls("publish_ns").collect()
    assert sum(span["kind"] == PRODUCER for span in exported) == sent.height
    # Each delivered message leads from its publication to its callback, within one trace.
    pairs = recording.messages.filter(pl.col("callback_end_ns").is_not_null()).collect()
    expected = sorted(
        pairs.select("publish_ns", "callback_start_ns", "callback_end_ns").drop_nulls().rows()
    )
    times = []
    for span in exported:
        if span["kind"] != CONSUMER or "parentSpanId" not in span:
            continue
        parent = by_id[span["parentSpanId"]]
        assert parent["traceId"] == span["traceId"]
        times.append(
            (
                int(parent["startTimeUnixNano"]),
                int(span["startTimeUnixNano"]),
                int(span["endTimeUnixNano"]),
            )
        )
    assert sorted(times) == expected
    assert len(expected) > 10
    for span in exported:
        assert (len(span["traceId"]), len(span["spanId"])) == (32, 16)
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    assert {"service.name", "process.pid", "roslens.run"} <= exported[0]["of"].keys()


@pytest.mark.parametrize("received", [1_000, 900])
def test_a_parent_that_begins_with_its_child_or_later_is_its_parent(
    received: int, tmp_path: Path
) -> None:
    """One message is published at 950 ns; its callback publishes another one as it begins."""
    callback = {"callback_instance_id": 7, "host": "h1", "vpid": 2, "kind": "subscription",
                "start_ns": received, "end_ns": received + 500}  # fmt: skip
    sent = [
        {"message_id": 1, "host": "h0", "vpid": 1, "topic": "/x", "publish_ns": 950},
        {"message_id": 2, "host": "h1", "vpid": 2, "topic": "/y", "publish_ns": received,
         "callback_instance_id": 7},
    ]  # fmt: skip
    message = {"message_id": 1, "topic": "/x", "callback_instance_id": 7, "outcome": "delivered"}
    rows = {"callback_instances": [callback], "publications": sent, "messages": [message]}
    tables = {name: table(name, *rows.get(name, [])) for name in NEEDED}
    (tmp_path / "o.json").write_text(otlp_json([("run", tables)]))
    by_name = {span["name"]: span for span in spans(tmp_path / "o.json")}
    first, ran, second = (by_name[x] for x in ("publish /x", "subscription /x", "publish /y"))
    assert "parentSpanId" not in first
    assert (ran["parentSpanId"], second["parentSpanId"]) == (first["spanId"], ran["spanId"])
    assert len({span["traceId"] for span in by_name.values()}) == 1


def test_a_chain_is_one_trace(tmp_path: Path) -> None:
    """A message published within a callback belongs to the trace of the message before."""
    export(SAMPLES / "chain.tar.zst", tmp_path / "o.json", "otlp")
    exported = spans(tmp_path / "o.json")
    by_id = {span["spanId"]: span for span in exported}
    longest = 0
    for span in exported:
        depth, at = 0, span
        while "parentSpanId" in at:
            at, depth = by_id[at["parentSpanId"]], depth + 1
        longest = max(longest, depth)
    assert longest >= 4


def test_timings_by_the_reader_of_mcap(tmp_path: Path) -> None:
    export(RUN, tmp_path / "o.mcap", "mcap")
    recording = rl.open(RUN)
    latencies: dict[str, list[float]] = {}
    callbacks = resources = before = 0
    with (tmp_path / "o.mcap").open("rb") as file:
        for schema, channel, message in make_reader(file).iter_messages():
            content = json.loads(message.data)
            assert content.keys() == json.loads(schema.data)["properties"].keys()
            assert message.log_time >= before
            before = message.log_time
            if schema.name == "roslens.Message" and content["latency_ms"] is not None:
                topic = channel.topic.removeprefix("/roslens/messages")
                latencies.setdefault(topic, []).append(content["latency_ms"])
            callbacks += schema.name == "roslens.Callback"
            resources += schema.name == "roslens.Resources"
    delivered = recording.messages.drop_nulls(["latency_ns", "topic"]).collect()
    assert latencies
    for (topic,), rows in delivered.group_by("topic"):
        assert sorted(latencies[str(topic)]) == pytest.approx(sorted(rows["latency_ns"] / 1e6))
    assert callbacks == recording.callback_instances.drop_nulls("end_ns").collect().height
    assert resources == recording.resources.collect().height


@pytest.mark.parametrize("form", ["perfetto", "mcap", "otlp"])
def test_times_before_1970_are_refused(
    form: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Recordings.table

    def earlier(self: Recordings, name: str) -> pl.LazyFrame:
        """The first process begins a nanosecond before."""
        frame = table(self, name)
        begin = pl.col("begin_ns")
        return frame.with_columns(begin - begin.min() - 1) if name == "processes" else frame

    monkeypatch.setattr(Recordings, "table", earlier)
    with pytest.raises(UsageError, match=r"recorded before 1970, and .* has no such times"):
        export(RUN, tmp_path / "out", form)
    assert not (tmp_path / "out").exists()


def test_several_runs_are_lines_of_spans_and_no_mcap(tmp_path: Path) -> None:
    runs = SAMPLES / "communication_shared"
    export(runs, tmp_path / "o.json", "otlp")
    assert len((tmp_path / "o.json").read_text().splitlines()) == 2
    assert len({span["of"]["roslens.run"] for span in spans(tmp_path / "o.json")}) == 2
    with pytest.raises(UsageError, match="an MCAP file is of one run, and here are 2"):
        export(runs, tmp_path / "o.mcap", "mcap")
