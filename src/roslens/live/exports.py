"""Export what ``roslens watch`` shows to Prometheus and OpenTelemetry.

An unknown figure has no sample, so that nobody takes it for zero.
"""

from __future__ import annotations

import hmac
import logging
import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import export as otel
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from roslens.analysis.overview.live import LastSeconds
from roslens.live.screen import Moment
from roslens.recording import UsageError
from roslens.recording.errors import writing
from roslens.recording.files import write_atomically
from roslens.recording.text import shown

_MOST = 500
"""The maximum number of exported rows of a table: each is a series that somebody stores."""
_LEAST_TOKEN = 16
_SECONDS = 2.0
"""The longest that a collector that does not answer may delay a refresh."""

_TOPIC = ("topic", "from", "to")
_NODE = ("node",)
_CHAIN = ("chain", "deadline_ms")
_CALLBACK = ("kind", "name", "node")
_THREAD = ("host", "vpid", "vtid", "nodes")
# Table, labels, column, name, unit (UCUM), factor, meaning.
_FIGURES = (
    ("topics", _TOPIC, "messages", "topic_messages", "{message}", 1.0, "Messages published"),
    ("topics", _TOPIC, "rate_hz", "topic_rate_hertz", "Hz", 1.0, "Messages per second"),
    ("topics", _TOPIC, "p50_ms", "topic_latency_p50_seconds", "s", 1e-3,
     "Median from publish to the start of the callback"),
    ("topics", _TOPIC, "p99_ms", "topic_latency_p99_seconds", "s", 1e-3, "The same, P99"),
    ("topics", _TOPIC, "worst_ms", "topic_latency_max_seconds", "s", 1e-3, "The same, longest"),
    ("topics", _TOPIC, "lost", "topic_lost_ratio", "1", 1.0,
     "Part of the messages that did not arrive"),
    ("nodes", _NODE, "rate_hz", "node_runs_hertz", "Hz", 1.0, "Executions of callbacks per second"),
    ("nodes", _NODE, "busy", "node_busy_ratio", "1", 1.0,
     "Part of the time in callbacks, of one thread"),
    ("nodes", _NODE, "p99_ms", "node_callback_duration_p99_seconds", "s", 1e-3,
     "P99 of the durations of its callbacks"),
    ("nodes", _NODE, "worst_ms", "node_callback_duration_max_seconds", "s", 1e-3,
     "The same, longest"),
    ("nodes", _NODE, "lost", "node_lost_ratio", "1", 1.0,
     "Part of the messages to it that did not arrive"),
    ("nodes", _NODE, "cpu", "node_cpu_ratio", "1", 1.0, "CPU of its process, of one CPU"),
    ("nodes", _NODE, "rss_bytes", "node_resident_bytes", "By", 1.0,
     "Resident set of its process, as last read"),
    ("chains", _CHAIN, "complete", "chain_complete", "{message}", 1.0,
     "Messages that began and came to the end"),
    ("chains", _CHAIN, "p50_ms", "chain_latency_p50_seconds", "s", 1e-3,
     "Median from the first publish to the end of the last callback"),
    ("chains", _CHAIN, "p99_ms", "chain_latency_p99_seconds", "s", 1e-3, "The same, P99"),
    ("chains", _CHAIN, "worst_ms", "chain_latency_max_seconds", "s", 1e-3, "The same, longest"),
    ("chains", _CHAIN, "missed", "chain_deadline_missed", "{message}", 1.0,
     "Messages that missed the deadline"),
    ("callbacks", _CALLBACK, "count", "callback_runs", "{run}", 1.0, "Executions that began"),
    ("callbacks", _CALLBACK, "p50_ms", "callback_duration_p50_seconds", "s", 1e-3,
     "Median duration"),
    ("callbacks", _CALLBACK, "p99_ms", "callback_duration_p99_seconds", "s", 1e-3, "The same, P99"),
    ("callbacks", _CALLBACK, "worst_ms", "callback_duration_max_seconds", "s", 1e-3,
     "The same, longest"),
    ("threads", _THREAD, "busy", "thread_busy_ratio", "1", 1.0, "Part of the time in callbacks"),
)  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """Metric of a window: name, meaning, unit (UCUM), labels and labelled points.

    `total` marks a figure that only grows since the watching began.
    """

    name: str
    meaning: str
    unit: str
    labels: Sequence[str]
    points: Sequence[tuple[Sequence[str], float]]
    total: bool = False


def figures_of(moment: Moment) -> Iterator[Figure]:
    """Yield the exported figures of a moment; times are in s since the epoch.

    Only the first rows of each table are exported, in screen order; ``series_left_out`` counts
    the others.
    """
    figures = moment.figures
    left_out: dict[str, int] = {}
    for table, labels, column, name, unit, factor, description in _FIGURES:
        frame = getattr(figures, table, None)
        if frame is None:
            continue
        points: dict[tuple[str, ...], float] = {}
        keys = set()
        rows = frame.head(_MOST).select(*labels, column).rows()
        for *names, value in rows:
            key = tuple("" if label is None else shown(str(label)) for label in names)
            keys.add(key)
            if value is not None and math.isfinite(value):
                points.setdefault(key, factor * value)
        left_out[table] = frame.height - len(keys)
        yield Figure(name, f"{description} in the window.", unit, labels, [*points.items()])
    rest = sum(left_out.values())
    budgets = len({excess["number"] for excess in moment.exceeded})
    scalars: list[tuple[str, str, str, float | None]] = [
        ("event_rate_hertz", "Events per second since the refresh before.", "Hz", moment.events),
        ("budgets_exceeded", "Budgets that are exceeded now.", "{budget}", budgets),
        ("series_left_out", "Rows of tables that are not exported.", "{series}", rest),
    ]
    if figures:
        begin, end = figures.begin_ns / 1e9, figures.end_ns / 1e9
        scalars += [
            ("window_begin_timestamp_seconds", "Begin of the window, since 1970.", "s", begin),
            ("window_end_timestamp_seconds", "End of the window, since 1970.", "s", end),
        ]
    for name, description, unit, value in scalars:
        yield Figure(name, description, unit, (), [] if value is None else [((), value)])
    dropped = [((), float(moment.dropped))]
    description = "Events that the tracer dropped since the watching began."
    yield Figure("tracer_dropped_events", description, "{event}", (), dropped, total=True)


def prometheus_text(moment: Moment) -> bytes:
    """Return a moment in the text format of Prometheus."""

    def collect() -> Iterator[Metric]:
        for figure in figures_of(moment):
            kind = CounterMetricFamily if figure.total else GaugeMetricFamily
            family = kind(f"roslens_{figure.name}", figure.meaning, labels=figure.labels)
            for names, value in figure.points:
                family.add_metric(names, value)
            yield family

    return generate_latest(SimpleNamespace(collect=collect))


def otlp_metrics(moment: Moment, window: LastSeconds, since_ns: int, run: str) -> otel.MetricsData:
    """Convert a moment to metrics of OpenTelemetry over its window.

    Parameters
    ----------
    window
        The figures of the moment.
    since_ns
        When the watching began, which is the start of totals.
    run
        Name of the watched run.
    """
    metrics = []
    for figure in figures_of(moment):
        begin, end = since_ns if figure.total else window.begin_ns, window.end_ns
        if not figure.points:
            continue
        points = [
            otel.NumberDataPoint(dict(zip(figure.labels, names, strict=True)), begin, end, value)
            for names, value in figure.points
        ]
        total = otel.Sum(points, otel.AggregationTemporality.CUMULATIVE, is_monotonic=True)
        data = total if figure.total else otel.Gauge(points)
        metrics.append(otel.Metric(f"roslens.{figure.name}", figure.meaning, figure.unit, data))
    scope = InstrumentationScope("roslens", version("roslens"))
    about = Resource({"service.name": "roslens", "roslens.run": shown(run)})
    return otel.MetricsData(
        [otel.ResourceMetrics(about, [otel.ScopeMetrics(scope, metrics, "")], "")]
    )


@contextmanager
def exporting(
    prometheus: str | None, token_file: Path | None, otlp: str | None, run: str
) -> Iterator[Callable[[Moment], None]]:
    """Yield a function that exports each moment.

    Parameters
    ----------
    prometheus
        A file for the textfile collector, or a port of this machine; None: neither.
    token_file
        File of the token that the port requires.
    otlp
        Address of a collector; None: no collector.
    run
        Name of the watched run.

    Raises
    ------
    UsageError
        A port without a token, a token that others can read or guess, or no such port or address.
    """
    takers: list[Callable[[Moment], None]] = []
    is_port = prometheus is not None and prometheus.isascii() and prometheus.isdigit()
    if token_file is not None and not is_port:
        raise UsageError("--token-file goes with --prometheus PORT")
    with ExitStack() as stack:
        if prometheus is not None and is_port:
            takers.append(stack.enter_context(_scraped(int(prometheus), token_file)))
        elif prometheus is not None:
            takers.append(_to_file(Path(prometheus)))
        if otlp is not None:
            takers.append(_Pushed(otlp, run))

        def take(moment: Moment) -> None:
            for taker in takers:
                taker(moment)

        yield take


def _to_file(path: Path) -> Callable[[Moment], None]:
    def take(moment: Moment) -> None:
        with writing(path):
            write_atomically(path, prometheus_text(moment))

    return take


class _Scrape(BaseHTTPRequestHandler):
    """Handler that gives the last moment to clients with the token."""

    timeout = 5
    token = b""
    text = b""

    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "").encode(errors="replace")
        allowed = hmac.compare_digest(given, b"Bearer " + type(self).token)
        is_metrics = self.path.partition("?")[0] == "/metrics"
        code = 401 if not allowed else 200 if is_metrics else 404
        body = type(self).text if code == 200 else b""
        self.send_response(code)
        self.send_header("Content-Type", CONTENT_TYPE_LATEST)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing on the screen."""


@contextmanager
def _scraped(port: int, token_file: Path | None) -> Iterator[Callable[[Moment], None]]:
    if token_file is None:
        raise UsageError("--prometheus PORT needs --token-file FILE: without it any user can ask")
    handler = type("Scrape", (_Scrape,), {"token": _token(token_file)})
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"--prometheus {port}: cannot be listened on: {reason}") from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield lambda moment: setattr(handler, "text", prometheus_text(moment))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _token(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            token = stream.read(4096).strip()
            mode = path.stat().st_mode
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise UsageError(f"{path}: others can read it: run 'chmod 600 {path}'")
    if len(token) < _LEAST_TOKEN:
        raise UsageError(f"{path}: the token has less than {_LEAST_TOKEN} characters")
    return token


class _Pushed:
    """Sender of moments to a collector; reports once, on standard error, if it refuses them."""

    def __init__(self, url: str, run: str) -> None:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and parts.netloc and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise UsageError(f"--otlp {url}: give an address such as http://localhost:4318")
        # The library would report each failure at length.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        whole = url if parts.path.strip("/") else f"{url.rstrip('/')}/v1/metrics"
        self._exporter = OTLPMetricExporter(endpoint=whole, timeout=_SECONDS)
        self._url, self._run, self._fails = url, run, False
        self._since_ns: int | None = None

    def __call__(self, moment: Moment) -> None:
        window = moment.figures
        if window is None:
            return
        if self._since_ns is None:
            self._since_ns = window.begin_ns
        done = self._exporter.export(otlp_metrics(moment, window, self._since_ns, self._run))
        fails = done is not otel.MetricExportResult.SUCCESS
        if fails and not self._fails:
            text = f"roslens: {self._url}: does not take metrics; goes on trying"
            print(shown(text), file=sys.stderr)
        self._fails = fails
