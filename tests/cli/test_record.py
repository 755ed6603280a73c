"""Test campaigns on the command line: planned, stopped, shown, resumed, packed."""

import inspect
import json
from pathlib import Path

import pytest
from command_line import Roslens
from test_errors import check_one_line

from roslens.cli import record

SUITE = """
name: quick
workload: {command: [sh, -c, "test {fails} = no"], ros: none}
factors: {fails: ["no", "yes"]}
repetitions: 2
duration: 0.1
sampler_hz: 20
expect: {ros2_events: false}
"""


def test_suites_are_explained_and_have_a_schema(roslens: Roslens) -> None:
    assert "tracer-cost" in roslens("suites").stdout
    output = roslens("suites", "tracer-cost").stdout
    for words in ("built-in demo", "is different for", "recorded take: tracing events"):
        assert words in output
    output = " ".join(roslens("suites", "executors-rclcpp").stdout.split())
    assert "executor EventsCBG: needs header:rclcpp/executors/events_cbg_executor/" in output
    assert (
        "rmw rmw_fastrtps_cpp: environment RMW_IMPLEMENTATION = rmw_fastrtps_cpp, needs" in output
    )
    schema = json.loads(roslens("suites", "--schema").stdout)
    assert schema["properties"]["factors"]
    check_one_line(roslens("suites", "nope"), 2, "nope: no such suite")


def test_wrong_use_of_resume_and_only(roslens: Roslens, tmp_path: Path) -> None:
    assert "no campaign" in roslens("record", "--status").stdout
    check_one_line(roslens("record", "--resume"), 2, "no unfinished campaign")
    check_one_line(roslens("record", "--resume", "x"), 2, "x: no such campaign")
    check_one_line(roslens("record", "--resume", "--only", "a=1"), 2, "--only cannot be given")
    wrong = roslens("record", "--suite", "demo", "--dry-run", "--only", "executor=No")
    check_one_line(wrong, 2, "the levels of executor are")
    done = roslens(
        *("record", "--suite", "demo", "--dry-run", "--only", "executor=Events"),
        *("--repetitions", "3"),
    )
    assert "6 runs" in done.stdout


def test_where_nothing_can_be_watched_for_triggers(roslens: Roslens, tmp_path: Path) -> None:
    """Each case is refused in one line, before anything is made."""
    triggers, output = tmp_path / "triggers.yaml", tmp_path / "run"
    triggers.write_text("{triggers: [gap of /scan > 1 s], after_s: 5}")
    given = ("record", "--triggers", str(triggers), "-o", str(output))
    for words, reason in (
        (("--suite", "demo"), "--suite cannot be given with it"),
        (("--host", "robot", "--", "true"), "--host cannot be given with it"),
        (("--attach", "node"), "--attach cannot be given with it"),
        (("--resume",), "--resume cannot be given with it"),
        (("--", "true"), "give '--tracer native'"),
        (("--tracer", "lttng", "--", "true"), "give '--tracer native'"),
        (("--tracer", "auto", "--", "true"), "give '--tracer native'"),
        (("--tracer", "native"), "'-- COMMAND ...'"),
        (("--tracer", "native", "--flight", "5", "--", "true"), "would have nothing of before"),
    ):
        check_one_line(roslens(*given, *words), 2, reason)
    triggers.write_text("{triggers: [gap of /scan > 1 s], wrong: 5}")
    wrong = roslens(*given, "--tracer", "native", "--", "true")
    check_one_line(wrong, 2, "unknown key 'wrong'")
    triggers.unlink()
    check_one_line(roslens(*given, "--tracer", "native", "--", "true"), 2, "triggers.yaml: ")
    assert not output.exists()


def test_a_run_can_be_made_shorter(roslens: Roslens) -> None:
    output = roslens("record", "--suite", "demo", "--dry-run", "--duration", "1.5").stdout
    # 20 runs take 1.5 s each and 3 s of overhead.
    assert "20 runs, about 1:30" in output
    check_one_line(roslens("record", "--suite", "demo", "--duration", "0"), 2, "greater than 0")
    check_one_line(roslens("record", "--resume", "--duration", "2"), 2, "--duration cannot be")
    assert "suites/demo.yaml" in roslens("suites", "demo").stdout.replace("\n", "")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("--suite demo --flight 5", "flight is for the native tracer"),
        ("--suite demo --kernel-of workload", "for one that is recorded, not 'off'"),
        ("--suite tracer-cost --event ros2:*", "its levels have tracing.events of their own"),
        ("--suite demo --host robot", "--host cannot be given with it"),
        ("--suite demo -- true", "a command cannot be given with it"),
        ("--resume --mode discard", "--mode cannot be given with it"),
        ("--status --kernel off", "--kernel cannot be given with it"),
        ("--attach node --mode discard", "--mode cannot be given with it"),
        ("--attach node --full --cost-limit 1", "--full records without a limit"),
        ("--seed 0 -- true", "--seed cannot be given with it"),
        ("--host robot --repetitions 2", "--repetitions cannot be given with it"),
        ("--host-setup x -- true", "--host-setup cannot be given with it"),
    ],
)
def test_no_option_is_ignored(roslens: Roslens, given: str, told: str) -> None:
    check_one_line(roslens("record", *given.split()), 2, told)


def test_each_option_is_one_of_some_way_to_record() -> None:
    """The options of printed text are the exception, as they go with every way."""
    options = set(inspect.signature(record.record).parameters) - {"help_all", "as_json"}
    assert options == set(record._WAYS).union(*(heeded for _, heeded in record._WAYS.values()))


@pytest.mark.live
def test_options_take_the_place_of_what_a_suite_says(roslens: Roslens, tmp_path: Path) -> None:
    """The options are in the plan, which a resumed campaign follows, and the runs use them."""
    (tmp_path / "quick.yaml").write_text(SUITE)
    given = "--only fails=no --repetitions 1 --time-limit 9 --ros none --tracer lttng --kernel off"
    given += " --event ros2:rcl_* --context pid_ns --mode overwrite --subbuf-size 64k"
    given += " --subbuf-count 4 --duration 0.2"
    done = roslens("record", "--suite", "quick.yaml", "--name", "c", *given.split())
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "data" / "recordings" / "quick" / "c"
    suite = json.loads((folder / "plan.json").read_text())["suite"]
    assert (suite["time_limit"], suite["duration"], suite["repetitions"]) == (9, 0.2, 1)
    (file,) = folder.glob("*/manifest.json")
    tracing = json.loads(file.read_text())["tracing"]
    assert tracing["events"] == ["ros2:rcl_*"]
    assert tracing["contexts"] == ["vpid", "vtid", "procname", "pid_ns"]
    assert tracing["mode"] == "overwrite"
    assert (tracing["subbuf_size_bytes"], tracing["subbuf_count"]) == (65536, 4)


@pytest.mark.live
def test_what_a_failing_program_says_is_no_markup_and_said_once(
    roslens: Roslens, tmp_path: Path
) -> None:
    text = "[ERROR] [1795340840.19] [/camera/driver]: no device"
    suite = f"""
name: wrong
workload: {{command: [sh, -c, "echo '{text}' >&2; exit 3"], ros: none}}
duration: 0.1
expect: {{ros2_events: false}}
"""
    (tmp_path / "wrong.yaml").write_text(suite)
    done = roslens("record", "--suite", "wrong.yaml", "--name", "c")
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines()[-1] == "data/recordings/wrong/c"
    # The text appears as the run ends, and as the reason why the command failed.
    assert done.stderr.count(text) == 2
    assert text not in done.stdout


@pytest.mark.live
def test_a_campaign_is_recorded_shown_resumed_and_packed(roslens: Roslens, tmp_path: Path) -> None:
    (tmp_path / "quick.yaml").write_text(SUITE)
    done = roslens("record", "--suite", "quick.yaml", "--name", "c", "--seed", "1")
    assert done.returncode == 4
    assert "2 of 4 runs complete, 2 not" in done.stdout
    assert "sampling itself took: processes at 20 Hz" in done.stdout
    folder = tmp_path / "data" / "recordings" / "quick" / "c"
    assert done.stdout.splitlines()[-1] == str(folder.relative_to(tmp_path))
    # The suite says that its runs may make no events.
    assert "made no event" not in done.stdout + done.stderr
    assert roslens("collect", folder).returncode == 0
    # Failed runs are not repeated, so there is nothing left to do.
    check_one_line(roslens("record", "--resume"), 2, "no unfinished campaign")
    # As after a kill, the last run's manifest still says that it runs.
    last = max(folder.glob("003*/manifest.json"))
    last.write_text(last.read_text().replace('"status": "', '"status": "running", "_": "'))
    text = json.loads(last.read_text())
    del text["_"]
    last.write_text(json.dumps(text))
    listed = roslens("record", "--status", "c").stdout
    assert "unfinished" in listed
    assert "torn" in listed
    assert roslens("record", "--resume").returncode == 4
    assert json.loads(last.read_text())["design"]["execution"] == 1
    assert "finished" in roslens("record", "--status").stdout
    packed = roslens("pack", folder)
    assert packed.returncode == 0, packed.stderr
    unpacked = roslens("unpack", "c.tar.zst", "there")
    assert unpacked.returncode == 0, unpacked.stderr
    assert len(list((tmp_path / "there" / "quick" / "c").glob("*/manifest.json"))) == 4
