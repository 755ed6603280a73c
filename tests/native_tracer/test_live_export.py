"""Test what ``roslens watch`` exports to Prometheus and OpenTelemetry, by their own parsers.

It must equal what collecting the same files afterwards gives for the same seconds.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from prometheus_client.parser import text_string_to_metric_families
from tests import programs
from tests.free_port import free_port
from tests.native_tracer.test_native_tracer import environment
from tests.native_tracer.test_watch import is_written, roslens, wait_for

import roslens as rl
from roslens.analysis.overview.live import LastSeconds, last_seconds
from roslens.collectors.reader import open_trace
from roslens.collectors.ros2 import build_tables
from roslens.live.exports import figures_of, prometheus_text
from roslens.live.screen import Moment, _exceeding_columns
from roslens.live.watch import Limits

TOKEN = "0123456789abcdef0123"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def start(talking, library, folder):
    def started(count: int, rate: int) -> subprocess.Popen:
        """Start the program: message 20 takes 60 ms, message 40 is lost."""
        command = [str(talking), str(count), str(rate), "20", "40"]
        return subprocess.Popen(command, env=environment(library, folder))

    return started


def samples_of(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def samples_of_otlp(body: bytes) -> Samples:
    """Return the samples under the names that Prometheus has for them."""
    request = ExportMetricsServiceRequest.FromString(body)
    (resource,) = request.resource_metrics
    (scope,) = resource.scope_metrics
    samples: Samples = {}
    for metric in scope.metrics:
        kind = metric.WhichOneof("data")
        name = metric.name.replace(".", "_") + ("_total" if kind == "sum" else "")
        for point in getattr(metric, kind).data_points:
            labels = sorted(
                (attribute.key, attribute.value.string_value) for attribute in point.attributes
            )
            samples[name, tuple(labels)] = point.as_double
    return samples


def expected_of(window: LastSeconds) -> Samples:
    """Return the expected samples, by hand from the columns that their docstrings define."""
    expected: Samples = {}
    for row in window.topics.to_dicts():
        labels = tuple(sorted((column, row[column] or "") for column in ("topic", "from", "to")))
        for name, value in {
            "messages": row["messages"],
            "rate_hertz": row["rate_hz"],
            "latency_p50_seconds": row["p50_ms"] and row["p50_ms"] / 1e3,
            "latency_p99_seconds": row["p99_ms"] and row["p99_ms"] / 1e3,
            "latency_max_seconds": row["worst_ms"] and row["worst_ms"] / 1e3,
            "lost_ratio": row["lost"],
        }.items():
            if value is not None:
                expected[f"roslens_topic_{name}", labels] = value
    for row in window.nodes.to_dicts():
        labels = (("node", row["node"]),)
        for name, value in {
            "runs_hertz": row["rate_hz"],
            "busy_ratio": row["busy"],
            "callback_duration_p99_seconds": row["p99_ms"] and row["p99_ms"] / 1e3,
            "callback_duration_max_seconds": row["worst_ms"] and row["worst_ms"] / 1e3,
            "lost_ratio": row["lost"],
        }.items():
            if value is not None:
                expected[f"roslens_node_{name}", labels] = value
    for row in window.callbacks.to_dicts():
        labels = tuple(sorted((column, row[column] or "") for column in ("kind", "name", "node")))
        expected["roslens_callback_runs", labels] = row["count"]
        quantiles = {
            quantile: row[f"{quantile}_ms"] / 1e3
            for quantile in ("p50", "p99")
            if row[f"{quantile}_ms"] is not None
        }
        expected |= {
            (f"roslens_callback_duration_{quantile}_seconds", labels): quantiles[quantile]
            for quantile in quantiles
        }
        expected["roslens_callback_duration_max_seconds", labels] = row["worst_ms"] / 1e3
    for row in window.threads.to_dicts():
        labels = tuple(
            sorted((column, str(row[column])) for column in ("host", "vpid", "vtid", "nodes"))
        )
        expected["roslens_thread_busy_ratio", labels] = row["busy"]
    return expected


def offline(folder: Path, begin_ns: int, end_ns: int) -> LastSeconds:
    """Return the figures of the same seconds from the tables collected afterwards."""
    run = rl.open(folder)
    return last_seconds(
        run.messages.collect(), run.table("callback_instances").collect(), begin_ns, end_ns
    )


@pytest.mark.parametrize("window", ["0", "0.15"])
def test_a_window_is_what_is_collected_of_the_same_seconds(start, folder, tmp_path, window):
    # The messages take 0.3 s in all, so the windows hold half of them, and all.
    start(300, 1000).wait()
    # The pause exceeds the time kept beside the window, so a slowly starting reader gets the same
    # window.
    time.sleep(1.3)
    watching = roslens(
        folder, "--once", "--json", "--window", window, "--prometheus", tmp_path / "x.prom"
    )
    out, error = watching.communicate()
    assert (watching.returncode, error) == (0, "")
    answer = json.loads(out)
    samples = samples_of((tmp_path / "x.prom").read_text())
    begin, end = answer["begin_ns"], answer["end_ns"]
    expected = expected_of(offline(folder, begin, end))
    figures = {key: value for key, value in samples.items() if key[0].split("_")[1] in
               ("topic", "node", "callback", "thread")}  # fmt: skip
    assert figures.keys() == expected.keys()
    for key, value in expected.items():
        assert figures[key] == pytest.approx(value, rel=1e-12), key
    assert samples["roslens_window_end_timestamp_seconds", ()] == pytest.approx(end / 1e9)
    assert samples["roslens_tracer_dropped_events_total", ()] == 0
    # numpy computes the figures again from the file of the table.
    table = pl.read_parquet(next(folder.rglob("messages.parquet")), glob=False)
    sent = table.filter(pl.col("publish_ns").is_between(begin, end))
    labels = (("from", "/talker"), ("to", "/listener"), ("topic", "/chatter"))
    assert samples["roslens_topic_messages", labels] == sent.height
    # A window that holds the first message counts the messages after it.
    first = table["publish_ns"].min()
    counted, span = sent.height - (first >= begin), end - max(first, begin)
    assert samples["roslens_topic_rate_hertz", labels] == pytest.approx(counted / (span / 1e9))
    arrived = sent["latency_ns"].drop_nulls().to_numpy()
    assert samples["roslens_topic_latency_max_seconds", labels] == pytest.approx(
        arrived.max() / 1e9
    )
    assert samples["roslens_topic_latency_p50_seconds", labels] == pytest.approx(
        np.quantile(arrived, 0.5, method="median_unbiased") / 1e9
    )
    if window == "0":
        assert sent.height == 300
        assert samples["roslens_topic_lost_ratio", labels] == pytest.approx(1 / 300)
        # Compare with the first page of the same recording.
        (topic,) = json.loads(programs.roslens(folder, "--json").stdout)["topics"]
        for part in ("p50", "p99"):
            if topic[f"{part}_ms"] is not None:
                assert samples[f"roslens_topic_latency_{part}_seconds", labels] == pytest.approx(
                    topic[f"{part}_ms"] / 1e3
                )


@pytest.mark.live
def test_every_window_is_what_its_events_give_afterwards(start, folder, tmp_path):
    """Every window, not only the last, equals what the events up to its end give."""
    program = start(100_000, 1000)
    try:
        wait_for(lambda: is_written(folder))
        watching = roslens(
            *(folder, "--json", "--window", "1", "--every", "0.3", "--seconds", "3"),
            *("--prometheus", tmp_path / "x.prom"),
        )
        out, error = watching.communicate()
    finally:
        program.kill()
        program.wait()
    assert (watching.returncode, error) == (0, "")
    moments = [
        moment for moment in map(json.loads, out.splitlines()) if moment["begin_ns"] is not None
    ]
    assert len(moments) >= 2
    raw = open_trace(folder).read()
    for moment in moments:
        begin, end = moment["begin_ns"], moment["end_ns"]
        past = {name: frame.filter(pl.col("time_ns") <= end) for name, frame in raw.items()}
        tables = build_tables(past)
        window = last_seconds(tables["messages"], tables["callback_instances"], begin, end)
        for name in ("topics", "nodes", "callbacks", "threads"):
            rows = json.loads(json.dumps(getattr(window, name).to_dicts()))
            assert moment[name] == rows, (name, begin, end)
    samples = samples_of((tmp_path / "x.prom").read_text())
    assert samples["roslens_window_end_timestamp_seconds", ()] == pytest.approx(end / 1e9)
    for key, value in expected_of(window).items():
        assert samples[key] == pytest.approx(value, rel=1e-12), key


class _Collector(BaseHTTPRequestHandler):
    """A collector of OpenTelemetry that keeps what it is sent."""

    taken: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.taken.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector():
    handler = type("Collector", (_Collector,), {"taken": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler.taken
    server.shutdown()
    thread.join()
    server.server_close()


def test_opentelemetry_is_sent_the_same_as_prometheus(start, folder, tmp_path, collector):
    address, taken = collector
    start(300, 1000).wait()
    file = tmp_path / "x.prom"
    exports = ("--prometheus", file, "--otlp", address)
    watching = roslens(folder, "--once", "--json", "--window", "0", *exports)
    out, error = watching.communicate()
    assert (watching.returncode, error) == (0, "")
    ((path, body),) = taken
    assert path == "/v1/metrics"
    assert samples_of_otlp(body) == samples_of(file.read_text())
    (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    answer = json.loads(out)
    *_, total = resource.scope_metrics[0].metrics
    (point,) = total.sum.data_points
    window = (point.start_time_unix_nano, point.time_unix_nano)
    # The library omits the begin of a metric that is no sum, so the begin is a separate metric.
    assert window == (answer["begin_ns"], answer["end_ns"])


def test_a_collector_that_is_not_there_is_told_of_once(start, folder):
    port = free_port()
    program = start(100_000, 1000)
    try:
        wait_for(lambda: is_written(folder))
        watching = roslens(
            folder, "--seconds", "2", "--every", "0.4", "--otlp", f"http://127.0.0.1:{port}"
        )
        _, error = watching.communicate()
    finally:
        program.kill()
        program.wait()
    assert watching.returncode == 0
    assert error == f"roslens: http://127.0.0.1:{port}: does not take metrics; goes on trying\n"


def ask(port: int, path: str, token: str | None) -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_port_answers_whoever_has_the_token(start, folder, tmp_path):
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    port = free_port()
    program = start(100_000, 1000)
    watching = None
    try:
        wait_for(lambda: is_written(folder))
        watching = roslens(folder, "--every", "0.2", "--prometheus", port, "--token-file", token)
        assert watching.stdout.readline()
        wait_for(lambda: "roslens_topic_messages" in ask(port, "/metrics", TOKEN)[1])
        code, text = ask(port, "/metrics", TOKEN)
        assert code == 200
        assert any(name == "roslens_topic_messages" for name, _ in samples_of(text))
        assert ask(port, "/metrics", None) == (401, "")
        assert ask(port, "/metrics", TOKEN[:-1]) == (401, "")
        assert ask(port, "/else", TOKEN) == (404, "")
        # Other machines reach no port of this one: it listens only on the loopback interface.
        listening = Path(f"/proc/{watching.pid}/net/tcp").read_text()
        assert f"0100007F:{port:04X}" in listening
        assert f"00000000:{port:04X}" not in listening
        watching.send_signal(signal.SIGINT)
        assert watching.wait() == 0
    finally:
        for process in (program, watching):
            if process is not None:
                process.kill()
                process.communicate()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--prometheus", "9464"), "needs --token-file"),
        (("--prometheus", "9464", "--token-file", "short"), "less than 16 characters"),
        (("--prometheus", "9464", "--token-file", "open"), "others can read it"),
        (("--prometheus", "99999", "--token-file", "good"), "cannot be listened on"),
        (("--prometheus", "x.prom", "--token-file", "good"), "goes with --prometheus PORT"),
        (("--token-file", "good"), "goes with --prometheus PORT"),
        (("--prometheus", "nowhere/x.prom"), "cannot be written"),
        (("--otlp", "localhost:4318"), "give an address"),
    ],
)
def test_what_cannot_be_done_is_one_line(start, folder, tmp_path, options, told):
    start(50, 1000).wait()
    for name, text, mode in (("good", TOKEN, 0o600), ("open", TOKEN, 0o644), ("short", "a", 0o600)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    watching = roslens(folder, "--once", *options, cwd=tmp_path)
    _, error = watching.communicate()
    assert watching.returncode == 2
    assert told in error
    assert error.count("\n") == 1


def test_what_is_not_known_has_no_sample_and_names_are_quoted():
    hostile = '/a"b\\\n\x1b[2J{x="1"} 5'
    topics = pl.DataFrame(
        {"topic": [hostile, "/b"], "from": [None, "/n"], "to": ["/m", "/m"], "messages": [3, 4],
         "rate_hz": [1.0, None], "p50_ms": [None, 2.0], "p99_ms": [None, float("nan")],
         "worst_ms": [None, 5.0], "lost": [None, 0.0]},
        schema_overrides={"p50_ms": pl.Float64, "lost": pl.Float64},
    )  # fmt: skip
    callbacks = pl.DataFrame(
        {"kind": ["timer"] * 700, "name": [str(i) for i in range(700)], "node": ["/n"] * 700,
         "count": [1] * 700, "p50_ms": [1.0] * 700, "p99_ms": [None] + [1.0] * 699,
         "worst_ms": [1.0] * 700}
    )  # fmt: skip
    threads = pl.DataFrame(schema=dict.fromkeys(("host", "vpid", "vtid", "nodes", "busy"), pl.Int8))
    nodes = pl.DataFrame(
        {"node": ["/n"], "rate_hz": [2.0], "busy": [0.5], "p99_ms": [3.0], "worst_ms": [None],
         "lost": [None], "cpu": [0.25], "rss_bytes": [None]}
    )  # fmt: skip
    chains = pl.DataFrame(
        {"chain": ["/n -> /b -> /m"] * 2, "complete": [4, 4], "p50_ms": [5.0] * 2,
         "p99_ms": [None] * 2, "worst_ms": [9.0] * 2, "deadline_ms": [6.0, None],
         "missed": [1, None]}
    )  # fmt: skip
    window = LastSeconds(0, 10**9, topics, nodes, callbacks, threads, chains=chains)
    moment = Moment(window, None, 7)
    samples = samples_of(prometheus_text(moment).decode())
    of_b = (("from", "/n"), ("to", "/m"), ("topic", "/b"))
    assert samples["roslens_topic_latency_p50_seconds", of_b] == 0.002
    assert samples["roslens_topic_lost_ratio", of_b] == 0.0
    assert [name for name, labels in samples if labels == of_b] == [
        *("roslens_topic_messages", "roslens_topic_latency_p50_seconds"),
        *("roslens_topic_latency_max_seconds", "roslens_topic_lost_ratio"),
    ]
    of_n = {name: value for (name, labels), value in samples.items() if labels == (("node", "/n"),)}
    assert of_n == {
        "roslens_node_runs_hertz": 2, "roslens_node_busy_ratio": 0.5,
        "roslens_node_callback_duration_p99_seconds": 0.003, "roslens_node_cpu_ratio": 0.25,
    }  # fmt: skip
    missed = [
        sample for sample in samples.items() if sample[0][0] == "roslens_chain_deadline_missed"
    ]
    timed = (("chain", "/n -> /b -> /m"), ("deadline_ms", "6.0"))
    assert missed == [(("roslens_chain_deadline_missed", timed), 1)]
    assert samples["roslens_chain_latency_max_seconds", timed] == pytest.approx(0.009)
    by_topic = {
        dict(labels)["topic"]: name
        for name, labels in samples
        if "topic" in dict(labels) and labels != of_b
    }
    assert set(by_topic) == {r'/a"b\\x0a\x1b[2J{x="1"} 5'}
    assert ("roslens_event_rate_hertz", ()) not in samples
    assert samples["roslens_tracer_dropped_events_total", ()] == 7
    assert sum(name == "roslens_callback_runs" for name, _ in samples) == 500
    # A row with an unknown value still counts, so no other row is exported in its place.
    assert sum(name == "roslens_callback_duration_p99_seconds" for name, _ in samples) == 499
    # Rows are counted, not the four figures of each.
    assert samples["roslens_series_left_out", ()] == 200
    assert {figure.unit for figure in figures_of(moment)} >= {"s", "Hz", "1"}
    # The dashboard asks for no other metric.
    dashboard = (Path(__file__).parents[2] / "docs" / "grafana.json").read_text()
    json.loads(dashboard)
    shown = set(re.findall(r"roslens_\w+", dashboard))
    assert len(shown) > 6
    assert shown <= {
        f"roslens_{figure.name}" + "_total" * figure.total for figure in figures_of(moment)
    }


def test_a_budget_that_several_topics_exceed_is_one(tmp_path: Path) -> None:
    """Of the medians 9, 0.5 and 3 ms the first budget refuses 9 and 3, the second one 9."""
    path = tmp_path / "budgets.yaml"
    path.write_text(
        "budgets: [latency_p50 < 2 ms, {budget: latency_p50 < 1 ms, topic: /a}, loss < 10 %]"
    )
    rows = [
        {"topic": topic, "from": source, "to": "/m", "messages": 50, "rate_hz": 1.0, "p50_ms": p50,
         "p99_ms": None, "worst_ms": 9.0, "lost": 0.0}
        for topic, source, p50 in (("/a", "/n", 9.0), ("/a", "/p", 0.5), ("/b", "/n", 3.0))
    ]  # fmt: skip
    exceeded = Limits(path).exceeded(rows)
    moment = Moment(None, None, 0, exceeded)
    assert [(row["number"], row["from"], row["topic"]) for row in exceeded] == [
        (1, "/n", "/a"), (2, "/n", "/a"), (1, "/n", "/b")
    ]  # fmt: skip
    assert [_exceeding_columns("topics", row, moment) for row in rows] == [
        {"p50_ms"}, set(), {"p50_ms"}
    ]  # fmt: skip
    points = {figure.name: figure.points for figure in figures_of(moment)}
    assert points["budgets_exceeded"] == [((), 2)]
