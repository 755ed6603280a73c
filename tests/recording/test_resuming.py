"""Test killed, interrupted and concurrent campaigns: what is kept and what is repeated."""

import json
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from live_recorder import Recorder, events_of

from roslens.recording import UsageError, read_manifest
from roslens.tracing.campaign import resume_campaign, run_campaign
from roslens.tracing.plan import PLAN_NAME, plan_runs
from roslens.tracing.state import campaign_state, find_campaign, find_campaigns, last_unfinished
from roslens.tracing.suite import load_suite, with_changes

pytestmark = pytest.mark.live


def write_suite(folder: Path, script: str, **more) -> Path:
    path = folder / f"{more.get('name', 'pings')}.yaml"
    suite = {
        "name": "pings",
        "workload": {"command": ["sh", "-c", script], "ros": "none"},
        "factors": {"count": [10, 20, 30]},
        "repetitions": 2,
        "duration": 0.1,
        "sampler_hz": 0,
        **more,
    }
    path.write_text(yaml.safe_dump(suite))
    return path


class Runner(Recorder):
    """A campaign in a separate process, which resumes when started again."""

    def __init__(self, folder: Path, suite: Path, name: str = "c") -> None:
        super().__init__(folder)
        self.root, self.suite, self.name = folder / "recordings", suite, name
        self.campaign = self.root / yaml.safe_load(suite.read_text())["name"] / name

    def begin(self) -> None:
        if self.process is not None:
            self.process.communicate()
        self.begun_ns = time.time_ns()
        begun = (self.campaign / PLAN_NAME).is_file()
        new = ("--suite", self.suite, "--name", self.name, "--seed", "11")
        self.launch("record", "-o", self.root, *(("--resume", self.name) if begun else new))

    def manifests(self) -> dict[str, dict]:
        by_run = {}
        for path in self.campaign.glob("*/manifest.json"):
            with suppress(FileNotFoundError):  # of a torn run, which is removed meanwhile
                by_run[path.parent.name] = json.loads(path.read_text())
        return by_run

    def ended(self) -> dict[str, int]:
        """Return the runs that ended, each with the time at which it was started."""
        return {
            name: manifest["start_ns"]
            for name, manifest in self.manifests().items()
            if manifest["status"] in {"complete", "failed"}
        }

    def is_at_work(self) -> bool:
        """Return whether the process started last is within a run."""
        return any(
            m["status"] == "running" and m["start_ns"] > self.begun_ns
            for m in self.manifests().values()
        )


@pytest.fixture
def runner_of(tmp_path):
    runners = []

    def make(suite: Path, name: str = "c") -> Runner:
        folder = tmp_path / name
        folder.mkdir()
        runners.append(Runner(folder, suite, name))
        return runners[-1]

    yield make
    for runner in runners:
        runner.close()


def structure(campaign: Path) -> dict[str, set[str]]:
    """Return the files of each run, without streams, which depend on the CPUs that were used."""
    runs = [path for path in campaign.iterdir() if path.is_dir()]
    return {
        run.name: {
            str(path.relative_to(run))
            for path in run.rglob("*")
            if path.is_file() and not path.name.startswith("ros2_")
        }
        for run in runs
    }


def test_ten_kills_cost_nothing_but_the_torn_runs(runner_of, pings, tmp_path):
    # At most one of 12 runs ends between two kills, so 10 kills always find one to interrupt.
    script = f"{pings} {{count}} 1000; sleep 0.4; echo ok > {{native}}/log"
    suite = write_suite(tmp_path, script, repetitions=4)
    runner = runner_of(suite)
    chance = random.Random(5)
    ended: dict[str, int] = {}
    for _ in range(10):
        runner.begin()
        runner.wait_for(runner.is_at_work)
        time.sleep(chance.uniform(0, 0.35))
        assert runner.process.poll() is None
        runner.process.kill()
        runner.process.wait()
        now = runner.ended()
        assert ended.items() <= now.items(), "a run that had ended was made again"
        ended = now
    runner.begin()
    status, output = runner.wait()
    assert status == 0, output
    assert ended.items() <= runner.ended().items()
    state = campaign_state(runner.campaign)
    assert state.finished
    assert [len(run.attempts) for run in state.runs] == [1] * 12
    for run in state.runs:
        trace = runner.campaign / run.planned.run / "trace"
        assert len(events_of(trace)) == run.planned.factors["count"]
    runner.assert_nothing_left()
    # Each run holds what a run of an undisturbed campaign does.
    loaded, text = load_suite(suite)
    once = with_changes(loaded, {"repetitions": 1})
    whole = run_campaign(once, text, root=tmp_path, only=["count=10"])
    (expected,) = structure(whole.folder).values()
    assert set(structure(runner.campaign)) == {run.planned.run for run in state.runs}
    assert all(files == expected for files in structure(runner.campaign).values())
    assert {path.name for path in runner.campaign.iterdir() if path.is_file()} == {"plan.json"}


def test_an_interrupted_campaign_goes_on(runner_of, pings, tmp_path):
    runner = runner_of(write_suite(tmp_path, f"{pings} 100; sleep 0.4"))
    runner.begin()
    runner.wait_for(lambda: len(runner.ended()) >= 2 and runner.is_at_work())
    with pytest.raises(UsageError, match="another roslens writes there"):
        resume_campaign(runner.campaign)
    runner.process.send_signal(signal.SIGINT)
    assert runner.wait()[0] == 130
    before = runner.ended()
    state = campaign_state(runner.campaign)
    assert state.status == "unfinished"
    assert last_unfinished(runner.root) == runner.campaign
    assert find_campaign(runner.root, "c") == find_campaign(runner.root, "pings/c")
    assert find_campaigns(runner.root) == [runner.campaign]
    notes = []
    result = resume_campaign(runner.campaign, on_event=lambda e: notes.append(e.text))
    assert result.exit_code == 0, result.summary()
    assert "were there already" in result.summary()
    assert before.items() <= runner.ended().items()
    executions = [m["design"]["execution"] for m in runner.manifests().values()]
    assert sorted(executions) == [0] * len(before) + [1] * (6 - len(before))
    with pytest.raises(UsageError, match="no unfinished campaign"):
        last_unfinished(runner.root)
    # Resuming again leaves nothing to do.
    assert resume_campaign(runner.campaign).exit_code == 0
    assert len(runner.ended()) == 6


def test_a_failed_run_is_kept_and_its_retry_is_a_new_run(pings, tmp_path):
    # The program fails the first time that a combination is run.
    script = f"{pings} 5; test -e {tmp_path}/{{count}}.{{repetition}} || "
    script += f"{{{{ : > {tmp_path}/{{count}}.{{repetition}}; exit 7; }}}}"
    suite, text = load_suite(write_suite(tmp_path, script, retries=2))
    result = run_campaign(suite, text, root=tmp_path, name="r")
    assert result.exit_code == 0, result.summary()
    assert (len(result.complete), result.retried) == (6, 6)
    state = campaign_state(result.folder)
    for run in state.runs:
        failed, done = run.attempts
        assert (failed.status, done.status) == ("failed", "complete")
        assert "status 7" in failed.failure
        assert done.design.retry_of == failed.run
        assert (failed.design.attempt, done.design.attempt) == (0, 1)
        assert (done.order, done.repetition) == (failed.order, failed.repetition)
    # The retry lies within its block, before any run of the next block.
    starts = [sorted(m.start_ns for r in half for m in r.attempts) for half in halves(state.runs)]
    assert starts[0][-1] < starts[1][0]


def halves(runs):
    return [r for r in runs if r.planned.repetition == 0], [
        r for r in runs if r.planned.repetition == 1
    ]


def test_retries_end(tmp_path):
    suite, text = load_suite(
        write_suite(
            tmp_path, "exit 3", retries=1, repetitions=1, factors={}, expect={"ros2_events": False}
        )
    )
    result = run_campaign(suite, text, root=tmp_path, name="r")
    assert result.exit_code == 4
    assert len(campaign_state(result.folder).runs[0].attempts) == 2
    assert campaign_state(result.folder).finished


def test_the_manifests_prove_that_the_design_was_followed(pings, tmp_path):
    suite, text = load_suite(write_suite(tmp_path, f"{pings} {{count}}", repetitions=3))
    result = run_campaign(suite, text, root=tmp_path, name="d", only=["count=10", "count=30"])
    manifests = [read_manifest(path) for path in result.folder.glob("*/manifest.json")]
    manifests.sort(key=lambda m: m.start_ns)
    # The order in time is as planned, and the plan is what the seed gives.
    assert [m.order for m in manifests] == list(range(6))
    chance = random.Random(manifests[0].seed)
    for block in range(3):
        numbers = list(range(manifests[0].design.combinations))
        chance.shuffle(numbers)
        of_block = [m for m in manifests if m.repetition == block]
        assert [m.design.combination for m in of_block] == numbers
        assert sorted(m.factors["count"] for m in of_block) == [10, 30]
    planned = plan_runs(suite, manifests[0].seed, {"count": (10, 30)})
    assert [m.factors for m in manifests] == [run.factors for run in planned]


# ------------------------------------------------------------------ two at once


def test_two_campaigns_at_once_do_not_touch_each_other(runner_of, pings, tmp_path):
    first = runner_of(
        write_suite(tmp_path, f"{pings} {{count}} 10000", name="one", repetitions=1), "a"
    )
    second = runner_of(
        write_suite(tmp_path, f"{pings} {{count}} 10000", name="two", repetitions=1), "b"
    )
    first.begin()
    second.begin()
    first.wait_for(lambda: first.is_at_work() and len(first.ended()) >= 1)
    # The daemon of one campaign dies in the middle of a run.
    os.kill(first.pid_of("lttng-sessiond"), signal.SIGKILL)
    status, output = first.wait()
    assert second.wait()[0] == 0
    for manifest in second.manifests().values():
        assert manifest["status"] == "complete"
        trace = second.campaign / manifest["run"] / "trace"
        assert len(events_of(trace)) == manifest["factors"]["count"]
    assert "Traceback" not in output
    failed = [m for m in first.manifests().values() if m["status"] == "failed"]
    # The daemon died within a run or just between two, when a new one is started.
    assert status == (4 if failed else 0)
    assert len(failed) <= 1
    for manifest in failed:
        assert "daemon" in manifest["failure"] or "lttng" in manifest["failure"]
        assert "Traceback" not in manifest["failure"]
    for manifest in first.manifests().values():
        if manifest["status"] == "complete":
            trace = first.campaign / manifest["run"] / "trace"
            assert len(events_of(trace)) == manifest["factors"]["count"]
    first.assert_nothing_left()
    second.assert_nothing_left()
