"""Test that the native tracer and LTTng record a program alike, and real ROS 2 without LTTng."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml
from tests.native_tracer.every_event import program
from tests.programs import roslens
from tests.record_suite import changed

from roslens.collectors.collection import collect
from roslens.collectors.reader import open_trace
from roslens.recording import UsageError, find_recordings, read_manifest
from roslens.tracing.command import record_command
from roslens.tracing.lttng import TracingOptions, recording_session, session_daemon
from roslens.tracing.native_tracer.library import native_library
from roslens.tracing.native_tracer.table import instrumentation_of
from roslens.tracing.ros import embedded_ros
from roslens.tracing.ros.header import Instrumentation, read_instrumentation

ROOT = Path(__file__).parents[2]
# Their number depends on when the wait returns, and on what other processes announce.
BY_CHANCE = {"ros2:rmw_take", "ros2:rcl_take", "ros2:rmw_publish"}


def kinds(instrumentation: Instrumentation) -> list:
    """Return names, and the types of arguments and fields, without C's spelling."""

    def bare(text: str) -> str:
        names = {"size_t": "uint64_t", **instrumentation.constants}
        plain = " ".join(text.replace("const", " ").split()).replace(" *", "*")
        return names.get(plain, plain).rstrip("u")

    return [
        (
            point.name,
            [bare(p.type) for p in instrumentation.functions[point.name]],
            [
                (f.kind, f.name, bare(f.arguments[0]) if f.kind != "ctf_string" else "")
                + ((int(bare(f.arguments[3])),) if f.kind == "ctf_array" else ())
                for f in point.fields
            ],
        )
        for point in instrumentation.tracepoints
    ]


def test_the_table_is_what_the_installed_header_says():
    built_in = instrumentation_of("kilted")
    installed = read_instrumentation(embedded_ros().include)
    assert built_in.version == installed.version
    assert kinds(built_in) == kinds(installed)


def test_an_unknown_distribution_needs_its_headers(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="does not know ROS 2 tomorrow"):
        native_library("tomorrow")
    library = native_library("tomorrow", embedded_ros().include)
    assert "native-tomorrow-" in str(library)


@pytest.mark.live
def test_both_record_the_same_of_every_event(tmp_path):
    ros = embedded_ros()
    source, expected = program("kilted", nulls=False)
    (tmp_path / "every.c").write_text(source)
    lttng, native = ros.preload()[0], native_library("kilted")
    every = tmp_path / "every"
    subprocess.run(["cc", str(tmp_path / "every.c"), str(native), "-o", str(every)], check=True)
    (tmp_path / "native").mkdir(mode=0o700)
    variables = {"LD_PRELOAD": str(native), "ROSLENS_TRACE_FOLDER": str(tmp_path / "native")}
    subprocess.run([str(every)], env={**os.environ, **variables}, check=True)
    with (
        session_daemon() as daemon,
        recording_session(daemon, TracingOptions(kernel="off"), tmp_path / "lttng") as session,
    ):
        variables = {**session.workload_variables, "LD_PRELOAD": str(lttng)}
        subprocess.run([str(every)], env={**os.environ, **variables}, check=True)
    native_trace, lttng_trace = (open_trace(tmp_path / folder) for folder in ("native", "lttng"))
    assert native_trace.info().events_by_name == lttng_trace.info().events_by_name
    named = {name for name, _ in expected}
    for facts in ("display_bases", "log_levels"):
        of_native, of_lttng = (getattr(trace, facts) for trace in (native_trace, lttng_trace))
        assert {k: of_native.get(k) for k in named} == {k: of_lttng.get(k) for k in named}
    for name in named:
        of_native, of_lttng = (trace.read([name])[name] for trace in (native_trace, lttng_trace))
        assert dict(of_native.schema) == dict(of_lttng.schema)
        of_native, of_lttng = (
            frame.drop("time_ns", "trace", "cpu_id", "vpid", "vtid")
            for frame in (of_native, of_lttng)
        )
        assert of_native.equals(of_lttng), name


@pytest.mark.live
def test_both_record_the_same_of_a_node(tmp_path):
    counts, messages = {}, {}
    for tracer in ("native", "lttng"):
        folder, manifest = record_command(
            ["python", str(Path(__file__).with_name("echo_node.py"))],
            tmp_path / tracer,
            options=TracingOptions(tracer=tracer, kernel="off"),
            ros="embedded",
            trace_rclpy=True,
            time_limit=60,
        )
        assert manifest.status == "complete", manifest.failure
        assert manifest.tracing.tracer == tracer
        assert manifest.loss.discarded_events == 0
        by_name = open_trace(folder).info().events_by_name
        counts[tracer] = {k: v for k, v in by_name.items() if k not in BY_CHANCE}
        collect(find_recordings(folder)[0])
        of_topic = pl.read_parquet(folder / "tables" / "messages.parquet").filter(
            pl.col("topic") == "/echo"
        )
        messages[tracer] = of_topic.select("outcome", "match", "intra_process").rows()
    assert counts["native"] == counts["lttng"]
    assert counts["native"]["ros2:callback_start"] >= 50
    assert messages["native"] == messages["lttng"] == [("delivered", "exact", False)] * 50


def without_lttng(folder: Path) -> str:
    """Return a PATH with all programs except LTTng's."""
    folder.mkdir()
    places = [str(Path(sys.executable).parent), *os.environ["PATH"].split(os.pathsep)]
    for place in map(Path, places):
        for file in place.iterdir() if place.is_dir() else ():
            link = folder / file.name
            if "lttng" not in file.name and not link.exists() and not link.is_symlink():
                link.symlink_to(file.absolute())
    return str(folder)


@pytest.mark.live
def test_the_main_job_without_lttng(tmp_path):
    changes = {"repetitions": 1, "duration": 2, "warm_up": 0, "cool_down": 0}
    factors = {"payload": [100], "executor": ["SingleThreaded"]}
    suite = changed("demo", {**changes, "factors": factors})
    (tmp_path / "short.yaml").write_text(yaml.safe_dump(suite))
    path = without_lttng(tmp_path / "bin")

    def asked(*arguments: str) -> list[str]:
        run = roslens(*arguments, env={**os.environ, "PATH": path})
        assert run.returncode == 0, run.stderr
        return run.stdout.splitlines()

    suite_file = str(tmp_path / "short.yaml")
    campaign = Path(
        asked("record", "--tracer", "auto", "--suite", suite_file, "-o", str(tmp_path))[-1]
    )
    (run,) = (path.parent for path in campaign.glob("*/manifest.json"))
    manifest = read_manifest(run / "manifest.json")
    assert manifest.status == "complete"
    assert manifest.tracing.tracer == "native"
    assert manifest.tracing.tracer_version
    assert manifest.loss.discarded_events == 0
    asked("collect", str(run))
    with (run / "native" / "messages.csv").open(newline="") as stream:
        published = [row for row in csv.DictReader(stream) if row["topic"] == "/samples"]
    heard = sum(bool(row["callback_realtime_ns"]) for row in published)
    messages = pl.read_parquet(run / "tables" / "messages.parquet").filter(
        pl.col("topic") == "/samples"
    )
    delivered = messages.filter(pl.col("outcome") == "delivered")
    assert (delivered.height, messages.height) == (heard, len(published))
    assert set(delivered["match"]) == {"exact"}
    report = Path(asked("report", "latency", str(run), "-o", str(tmp_path / "report"))[-1])
    metrics = json.loads((report / "metrics.json").read_text())
    assert metrics["recordings"]
    assert any(estimate["metric"] == "latency_p50" for estimate in metrics["estimates"])


def test_what_only_lttng_does_is_refused():
    for option in ({"mode": "overwrite"}, {"max_disk": "1G"}, {"kernel": "lttng"}):
        with pytest.raises(UsageError, match="the native tracer does not do"):
            TracingOptions.checked(tracer="native", **option)


def test_a_run_without_events_is_told_likely_causes(tmp_path):
    # The program appears to have loaded ROS 2's library, and makes no events.
    script = "import ctypes, rclpy, time; time.sleep(1)"
    _, manifest = record_command(
        ["env", "-u", "LD_PRELOAD", "python", "-c", script],
        tmp_path / "run",
        options=TracingOptions(tracer="native"),
        ros="embedded",
    )
    assert manifest.status == "failed"
    assert "dropped LD_PRELOAD" in manifest.failure
    assert "lttng" not in manifest.failure
