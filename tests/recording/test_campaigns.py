"""Test whole campaigns of a program with real tracepoints and of real ROS 2."""

import csv
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest
import yaml
from live_recorder import events_of

from roslens.recording import UsageError, find_recordings, read_manifest
from roslens.tracing.campaign import planned_seconds, run_campaign
from roslens.tracing.plan import read_plan
from roslens.tracing.progress import show_progress, trouble_of
from roslens.tracing.suite import load_suite, parse_suite

pytestmark = pytest.mark.live


def suite_of(pings, **more):
    text = yaml.safe_dump(
        {
            "name": "pings",
            "workload": {
                "command": ["sh", "-c", f"{pings} {{count}} && echo ok > {{native}}/log"],
                "ros": "none",
            },
            "factors": {"count": [10, 20]},
            "repetitions": 2,
            "duration": 0.1,
            "expect": {"files": ["native/log"]},
            **more,
        }
    )
    return parse_suite(text, "pings.yaml"), text


def test_a_campaign_follows_its_plan(pings, tmp_path):
    suite, text = suite_of(pings)
    seen = []

    def on_event(event):
        if event.kind == "run_begin" and event.run.order == 0:
            # The plan is written before anything runs.
            (campaign,) = (tmp_path / "pings").iterdir()
            seen.append(read_plan(campaign))
        seen.append(event)

    result = run_campaign(suite, text, root=tmp_path, seed=3, on_event=on_event)
    plan = next(item for item in seen if hasattr(item, "suite_text"))
    assert plan.suite_text == text
    assert plan.seed == 3
    assert result.exit_code == 0, result.summary()
    assert [r.name for r in find_recordings(result.folder)] == [run.run for run in plan.runs]
    for run in plan.runs:
        manifest = read_manifest(result.folder / run.run / "manifest.json")
        assert manifest.status == "complete"
        assert (manifest.order, manifest.repetition) == (run.order, run.repetition)
        assert manifest.factors == run.factors
        assert manifest.seed == 3
        assert len(events_of(result.folder / run.run / "trace")) == run.factors["count"]
    left = [event.eta_seconds for event in seen if getattr(event, "kind", "") == "run_end"]
    assert left[-1] == 0
    begun = next(event.eta_seconds for event in seen if getattr(event, "kind", "") == "begin")
    assert begun == pytest.approx(planned_seconds(suite))
    assert all(eta > 0 for eta in left[:-1])


def test_a_run_that_fails_is_kept_and_the_campaign_goes_on(pings, tmp_path):
    script = f"{pings} {{count}} && echo broke >&2 && test {{count}} = 10"
    suite, text = suite_of(
        pings, workload={"command": ["sh", "-c", script], "ros": "none"}, expect={}
    )
    result = run_campaign(suite, text, root=tmp_path, name="mine")
    assert result.folder.name == "mine"
    assert result.exit_code == 4
    assert len(result.complete) == len(result.failed) == 2
    for manifest in result.failed:
        assert manifest.factors == {"count": 20}
        assert manifest.failure == "the workload ended with status 1: broke"
        assert "broke" in trouble_of(manifest)
        assert len(events_of(result.folder / manifest.run / "trace")) == 20
    with pytest.raises(UsageError, match="is there already"):
        run_campaign(suite, text, root=tmp_path, name="mine")


def test_a_run_without_expected_events_or_files_has_failed(tmp_path):
    workload = {"command": ["true"], "ros": "none"}
    suite, text = suite_of("", workload=workload, repetitions=1, factors={})
    (manifest,) = run_campaign(suite, text, root=tmp_path).failed
    assert "did not write native/log" in manifest.failure
    assert "no ros2 events were recorded; likely cause: " in manifest.failure
    assert "no session daemon listens" not in manifest.failure


def test_a_session_daemon_that_dies_costs_one_run(pings, tmp_path):
    before = own_daemons()
    # The second run would go on if the daemon did not die.
    script = f"{pings} 50 && {{{{ test {{repetition}} != 1 || sleep 60; }}}}"
    suite, text = suite_of(
        pings,
        workload={"command": ["sh", "-c", script], "ros": "none"},
        expect={},
        factors={},
        repetitions=3,
    )

    def on_event(event):
        if event.kind == "run_begin" and event.run.order == 1:
            (pid,) = own_daemons() - before
            threading.Timer(0.6, os.kill, (pid, signal.SIGKILL)).start()

    result = run_campaign(suite, text, root=tmp_path, on_event=on_event)
    assert [m.order for m in result.complete] == [0, 2]
    (failed,) = result.failed
    assert "session daemon ended" in failed.failure or "lttng" in failed.failure
    for manifest in result.complete:
        assert len(events_of(result.folder / manifest.run / "trace")) == 50
    assert own_daemons() == before


def test_a_suite_whose_command_does_not_exist_leaves_nothing(tmp_path):
    before = own_daemons()
    suite, text = suite_of("", workload={"command": ["no-such-program"], "ros": "none"}, factors={})
    with pytest.raises(UsageError, match="no-such-program: not found on PATH"):
        run_campaign(suite, text, root=tmp_path)
    assert list((tmp_path / "pings").iterdir()) == []
    assert own_daemons() == before


def own_daemons() -> set[int]:
    """Return the session daemons that this process started; other tests may keep one for long."""
    processes = subprocess.run(
        ["ps", "-o", "pid=,comm=", "--ppid", str(os.getpid())],
        text=True,
        capture_output=True,
        check=False,
    )
    return {
        int(line.split()[0]) for line in processes.stdout.splitlines() if "lttng-sessiond" in line
    }


def test_the_demo_records_real_ros(tmp_path, capsys):
    suite, text = load_suite("demo")
    suite = suite.model_copy(
        update={
            "factors": {"payload": (100,), "executor": ("Events",)},
            "repetitions": 1,
            "duration": 1.0,
        }
    )
    with show_progress() as on_event:
        result = run_campaign(suite, text, root=tmp_path, on_event=on_event)
    assert result.exit_code == 0, result.summary()
    (manifest,) = result.complete
    run = result.folder / manifest.run
    with (run / "native" / "messages.csv").open() as stream:
        sent = sum(1 for _ in csv.DictReader(stream))
    events = events_of(run / "trace")
    # The publisher's own log says how many messages it published on /samples.
    published = sum(
        1 for event in events if " ros2:rclcpp_publish:" in event and "demo_publisher" in event
    )
    assert manifest.loss.discarded_events == 0
    assert sent > 100
    assert published >= sent
    assert manifest.environment.ros in {"embedded", "sourced"}
    assert manifest.environment.packages["rclpy"]
    assert {e.kind for e in manifest.graph if e.topic == "/samples"} == {
        "publisher",
        "subscription",
    }
    written = (run / "manifest.json").read_text()
    # A short host name may be part of another word.
    assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", written)
    for secret in (str(tmp_path), str(Path.home()) + "/"):
        assert secret not in written
    assert "recording 1 runs" in capsys.readouterr().err
