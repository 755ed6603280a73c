"""Test races of real commands, whose difference is known as they sleep for known times."""

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import Roslens
from test_errors import check_one_line
from tests.programs import git, roslens_command, wait_for

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.analysis.verdicts.sides import Side
from roslens.race import run_race
from roslens.recording import read_manifest
from roslens.tracing.host import HostLimits
from roslens.tracing.interruption import Interruption
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.race import Ended, Pair, wait_for_calm

QUICK = ("--pause", "0", "--output", "out")
SUITE = """
name: {name}
workload: {{builtin: demo, parameters: {{rate: 100}}, trace_rclpy: true, says_ready: true}}
factors: {{payload: [100, 1000]}}
duration: 1
work_topic: /samples
sampler_hz: 0
"""


def race_in(folder: Path) -> Path:
    (race,) = (folder / "out" / "race").iterdir()
    return race


@pytest.mark.live
def test_the_slower_command_is_found_and_both_sides_are_recordings(
    roslens: Roslens, tmp_path: Path
) -> None:
    command = ("--", "sleep", "0.2", "---", "sleep", "0.6")
    files = ("--json", "race.json", "--export-markdown", "race.md", "--plot", "race.png")
    done = roslens("race", *QUICK, "--threshold", "20%", "--seed", "5", *files, *command)
    assert done.returncode == 1, done.stderr
    race = race_in(tmp_path)
    result = json.loads((race / "race.json").read_text())
    assert result == json.loads((tmp_path / "race.json").read_text())
    (comparison,) = result["comparisons"]
    assert (comparison["metric"], comparison["verdict"]) == ("time", "regression")
    # The ratio is that of the sleeps, plus the time to start a program.
    assert 1.2 < comparison["low"] <= comparison["ratio"] <= comparison["high"]
    assert 1.8 < comparison["ratio"] < 3.5  # 3, except for what a busy machine adds to either side
    pairs = comparison["base"]["runs"]
    assert pairs >= 4  # fewer are never evidence, by the method
    # The order follows the documented shuffles, and matches the places in the manifests.
    rng = random.Random(5)
    blocks = [["a", "b"] * 4, *(["a", "b"] for _ in range(pairs - 4))]
    for block in blocks:
        rng.shuffle(block)
    order = [side for block in blocks for side in block]
    assert result["race"]["order"] == order
    for side, name in (("a", "base"), ("b", "new")):
        runs = [read_manifest(path) for path in sorted(race.glob(f"{side}/*/manifest.json"))]
        assert [r.repetition for r in runs] == list(range(pairs))
        assert [r.order for r in runs] == [i for i, name in enumerate(order) if name == side]
        assert {r.seed for r in runs} == {5}
        assert comparison[name]["per_run"] == [r.elapsed_ns for r in runs]
        least = {"a": 0.2e9, "b": 0.6e9}[side]
        assert all(r.elapsed_ns is not None and r.elapsed_ns >= least for r in runs)
    sentence = f"B is {comparison['ratio']:.2f} ± "
    assert sentence in done.stdout
    assert sentence in (tmp_path / "race.md").read_text()
    assert (tmp_path / "race.png").read_bytes().startswith(b"\x89PNG")
    # Each pair is reported, and from the fourth on the interval.
    lines = re.findall(r"^pair (\d+) \(([AB]) first\): (.*)$", done.stderr, re.MULTILINE)
    assert [int(n) for n, *_ in lines] == list(range(1, pairs + 1))
    assert [first.lower() for _, first, _ in lines[4:]] == order[8::2]
    assert ["no bound" in text for *_, text in lines[:4]] == [True] * 3 + [False]
    compared = roslens("compare", race / "a", race / "b", "--metric", "time")
    assert compared.returncode == 1, compared.stdout + compared.stderr


@pytest.mark.live
def test_alike_commands_end_as_no_different_and_in_time(roslens: Roslens, tmp_path: Path) -> None:
    same = ("--", "sleep", "0.3", "---", "sleep", "0.3")
    done = roslens("race", *QUICK, "--threshold", "90%", *same)
    assert done.returncode == 0, done.stderr
    assert "no_difference" in done.stdout
    brief = ("--pause", "0", "--output", "short", "--max-time", "0.1", "--precision", "0.0001%")
    # B is faster: of two equal sides, one race in forty would be called slower.
    short = roslens("race", *brief, "--", "sleep", "0.4", "---", "sleep", "0.3")
    assert short.returncode in (0, 3), short.stderr
    # The opening pairs are run in any case.
    assert short.stderr.count("\npair ") == 4
    assert "max-time" in short.stdout


@pytest.mark.live
def test_a_command_that_fails_ends_the_race(roslens: Roslens, tmp_path: Path) -> None:
    done = roslens("race", *QUICK, "--", "true", "---", "false")
    assert done.returncode == 4
    assert "ended with status 1" in done.stderr.splitlines()[-1]
    runs = [read_manifest(path) for path in race_in(tmp_path).glob("b/*/manifest.json")]
    assert [r.status for r in runs] == ["failed"] * 3


@pytest.mark.live
def test_ctrl_c_tells_what_is_known(tmp_path: Path) -> None:
    race = roslens_command("race", *QUICK, "--precision", "0.1%")
    race += ["--", "sleep", "0.1", "---", "sleep", "0.3"]
    with subprocess.Popen(
        race, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        next(line for line in process.stderr if line.startswith("pair 7 "))
        process.send_signal(signal.SIGINT)
        output, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "interrupted" in error
    assert re.search(r"time: B is .* times slower than A: ", output)
    assert json.loads((race_in(tmp_path) / "race.json").read_text())["race"]["ended"] == (
        "interrupted"
    )


@pytest.mark.live
def test_two_suites_race_by_the_latency_of_their_topic(roslens: Roslens, tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / f"{name}.yaml").write_text(SUITE.format(name=name))
    words = ("race", *QUICK, "--suite", "one.yaml", "--suite", "other.yaml")
    check_one_line(roslens(*words), 2, "--only")
    # Only the opening pairs are run, and no more.
    brief = ("--only", "payload=100", "--max-time", "0.1", "--precision", "0.1%")
    done = roslens(*words, *brief)
    race = race_in(tmp_path)
    (comparison,) = json.loads((race / "race.json").read_text())["comparisons"]
    # Eight runs may reach a verdict by chance, in one race of 35.
    codes = {"not_enough_evidence": 3, "regression": 1}
    assert done.returncode == codes.get(comparison["verdict"], 0), done.stderr
    assert (comparison["metric"], comparison["cell"]) == ("latency_p50", {})
    for side, name in (("a", "base"), ("b", "new")):
        runs = sorted((race / side).iterdir())
        assert len(runs) == 4
        for run, told_of_run in zip(runs, comparison[name]["per_run"], strict=True):
            # Latency by the nodes' own clocks: just before publish() to the first line of the
            # callback.
            lines = (run / "native" / "messages.csv").read_text().splitlines()[1:]
            took = sorted(
                int(end) - int(begin)
                for topic, _, begin, end in (line.split(",") for line in lines)
                if topic == "/samples" and end
            )
            assert told_of_run == pytest.approx(took[len(took) // 2], rel=0.5)


def race_of(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    values: Callable[[str, int], dict[str, float]],
) -> tuple[int, dict[str, Any]]:
    """Race runs whose latencies by topic are given by side and pair; nothing is recorded."""

    def estimates(run: Path, *_: object) -> list[Estimate]:
        metric = Metric("latency_p50", "", "ns", "lower")
        given = values(run.parent.name, int(run.name))
        return [value_over_runs(metric, {"topic": t}, [v], 1) for t, v in given.items()]

    def racing(_: object, enough: Callable[[list[Pair]], bool], **__: object) -> Ended:
        done: list[Pair] = []
        for n in range(60):
            places = {side: folder / side / str(n) for side in "ab"}
            manifests: Any = {side: SimpleNamespace(order=2 * n + i) for i, side in enumerate("ab")}
            done.append(Pair(n, places, manifests))
            if enough(done):
                return Ended(folder, "decided", ())
        return Ended(folder, "max-time", ())

    monkeypatch.setattr("roslens.race.estimates_of_run", estimates)
    monkeypatch.setattr("roslens.race.race", racing)
    side = SimpleNamespace(what="x")
    monkeypatch.setattr("roslens.race.side_of_command", lambda *_, **__: side)
    loaded = Side("side", [], [], 60)
    monkeypatch.setattr("roslens.race.load_side", lambda *_: loaded)
    nothing: Any = dict.fromkeys(("build", "time_limit", "output", "markdown_file", "plot_file"))
    code = run_race(
        ["x", "---", "x"], [], [], only=[], metrics=[], topics=[], threshold="5%",
        precision=None, max_time=1, pause=0, seed=1, options=TracingOptions(), ros="none",
        trace_rclpy=False, json_file=None, **nothing,
    )  # fmt: skip
    return code, json.loads((folder / "race.json").read_text())


def latency(side: str, pair: int) -> float:
    """Return that of B 30 % below that of A, with little noise."""
    return {"a": 1e6, "b": 0.7e6}[side] * (1 + 0.001 * (pair % 3))


def test_a_topic_that_only_one_side_delivers_wins_no_race(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def values(side: str, pair: int) -> dict[str, float]:
        dead = {} if side == "b" else {"/dead": 1e6}
        return {**dead, "/b": latency(side, pair)}

    code, result = race_of(monkeypatch, tmp_path, values)
    assert code == 3
    assert [(c["cell"], c["verdict"]) for c in result["comparisons"]] == [
        ({"topic": "/b"}, "improvement")
    ]
    assert result["unmatched"] == [
        {"metric": "latency_p50", "cell": {"topic": "/dead"}, "only_in": "base"}
    ]


@pytest.mark.parametrize(("silent", "verdict"), [("a", "improvement"), ("b", None)])
def test_pairs_in_which_b_delivers_nothing_win_no_race(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, silent: str, verdict: str | None
) -> None:
    """One side is silent in every second pair from the fifth on, which is counted by hand.

    Two topics share the 5 %: eight runs show nothing, as one of 70 orders has 1.4 %, above 1.25 %.
    """

    def values(side: str, pair: int) -> dict[str, float]:
        is_silent = side == silent and pair >= 4 and pair % 2 == 0
        both = {"/whole": latency(side, pair), "/at_times": latency(side, pair)}
        return {"/whole": both["/whole"]} if is_silent else both

    code, result = race_of(monkeypatch, tmp_path, values)
    pairs = len(result["race"]["order"]) // 2
    dropped = len(range(4, pairs, 2))
    assert dropped > 0
    whole, at_times = result["comparisons"]
    assert (whole["verdict"], whole["notes"]) == ("improvement", [])
    assert whole["base"]["runs"] == pairs == at_times["base"]["runs"] + dropped
    assert at_times["verdict"] == (verdict or "not_enough_evidence")
    assert at_times["confirmed"] == (True if verdict else None)
    assert code == (0 if verdict else 3)
    (note,) = at_times["notes"]
    assert f"no value in {dropped} run" in note or f"and in {dropped} of B" in note
    assert note.startswith(f"{dropped} pair")


@pytest.mark.parametrize(("silent", "verdict"), [("a", "not_enough_evidence"), ("b", "regression")])
def test_pairs_in_which_a_delivers_nothing_lose_b_no_race(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, silent: str, verdict: str
) -> None:
    """B takes 10 / 7 of the time of A. One side is silent in the fifth pair, at noisy latencies.

    The opening four pairs show nothing yet, as its noise is larger than the difference.
    """

    def values(side: str, pair: int) -> dict[str, float]:
        noise = (2.0, 0.5)[(pair + (side == "b")) % 2] if pair < 4 else 1.0
        slower = latency("a" if side == "b" else "b", pair)
        return {} if side == silent and pair == 4 else {"/at_times": noise * slower}

    code, result = race_of(monkeypatch, tmp_path, values)
    (comparison,) = result["comparisons"]
    assert len(result["race"]["order"]) // 2 > 5
    assert (comparison["verdict"], code) == (verdict, 1 if silent == "b" else 3)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Make a repository of a program built from source: `old` sleeps 0.1 s, `new` 0.4 s."""
    (folder := tmp_path / "repository").mkdir()
    git(folder, "init", "--quiet")
    for name, seconds in (("old", "0.1"), ("new", "0.4")):
        (folder / "source").write_text(f"#!/bin/sh\nsleep {seconds}\n")
        git(folder, "add", "source")
        git(folder, "commit", "--quiet", "-m", name)
        git(folder, "tag", name)
    return folder


REFS = ("--ref", "old", "--ref", "new")
BUILD = ("--build", "mkdir build && cp source build/node && chmod +x build/node")


@pytest.mark.live
def test_two_commits_are_checked_out_built_raced_and_removed(
    roslens: Roslens, repository: Path, tmp_path: Path
) -> None:
    (scratch := tmp_path / "scratch").mkdir()
    where = {"cwd": repository, "env": {**os.environ, "TMPDIR": str(scratch)}}
    out = (*QUICK[:2], "--output", tmp_path / "out", "--threshold", "20%", *REFS)
    done = roslens("race", *out, *BUILD, "--", "build/node", **where)
    assert done.returncode == 1, done.stderr
    race = race_in(tmp_path)
    result = json.loads((race / "race.json").read_text())
    (comparison,) = result["comparisons"]
    # The ratio is 0.4 s to 0.1 s, plus the time to start a program.
    assert 1.5 < comparison["ratio"] < 4.5
    assert result["race"]["refs"] == {"a": "old", "b": "new"}
    for side, ref in result["race"]["refs"].items():
        runs = [read_manifest(path) for path in race.glob(f"{side}/*/manifest.json")]
        commits = {(run.environment.git_commit, run.environment.git_dirty) for run in runs}
        assert commits == {(git(repository, "rev-parse", ref), False)}
    assert "workload's commit" in done.stdout
    unknown = roslens("race", "--ref", "nope", "--ref", "new", "--", "true", **where)
    check_one_line(unknown, 2, "--ref nope: no commit of ")
    failed = roslens("race", *out, "--build", "echo so; exit 3", "--", "build/node", **where)
    check_one_line(failed, 4, "'echo so; exit 3' ended with status 3 at old")
    (message,) = (line for line in failed.stderr.splitlines() if "error: " in line)
    assert Path(message.split()[-1]).read_text() == "so\n"
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert [path.suffix for path in scratch.iterdir()] == [".log"]


@pytest.mark.live
@pytest.mark.parametrize(
    ("build", "sign", "number"),
    [
        ("sleep 600", "note: building", signal.SIGINT),
        ("sleep 600", "note: building", signal.SIGKILL),
        ("true", "pair 1 ", signal.SIGINT),
        ("true", "pair 1 ", signal.SIGKILL),
    ],
)
def test_checkouts_are_removed_however_the_race_ends(
    repository: Path, tmp_path: Path, build: str, sign: str, number: signal.Signals
) -> None:
    (scratch := tmp_path / "scratch").mkdir()
    race = roslens_command("race", *QUICK, "--precision", "0.1%", *REFS)
    with subprocess.Popen(
        [*race, "--build", build, "--", "sh", "source"],
        cwd=repository, env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        next(line for line in process.stderr if line.startswith(sign))
        assert any(scratch.iterdir())
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
    killed = number == signal.SIGKILL
    assert process.returncode == (-signal.SIGKILL if killed else 130), error

    def left() -> list[object]:
        return [*scratch.glob("roslens-*/"), *git(repository, "worktree", "list").splitlines()[1:]]

    if killed:  # its guard needs its time
        wait_for(lambda: not left())
    assert not left()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--", "true"], "give two commands"),
        (["--", "true", "---", "true", "---", "true"], "give two commands"),
        (["--", "---", "true"], "a command is empty"),
        (["--suite", "demo"], "a race of suites has two"),
        (["--suite", "demo", "--suite", "demo", "--", "true"], "a race of suites has two"),
        (["--threshold", "5", "--", "true", "---", "true"], "--threshold 5"),
        (["--precision", "x", "--", "true", "---", "true"], "--precision x"),
        (["--", "no-such-program", "---", "true"], "no-such-program"),
        (["--ref", "HEAD", "--", "true"], "a race of commits has two"),
        ([*REFS, "--", "true", "---", "true"], "a race of commits has two"),
        ([*REFS, "--", "true"], "no git repository"),
        ([*REFS, "--suite", "demo", "--suite", "demo"], "either two suites or two commits"),
        (["--build", "make", "--", "true", "---", "true"], "--build builds commits"),
    ],
)
def test_wrong_use(roslens: Roslens, tmp_path: Path, arguments: list[str], said: str) -> None:
    check_one_line(roslens("race", "--output", "out", *arguments), 2, said)
    assert not (tmp_path / "out").exists()


def test_a_pair_waits_for_a_calm_machine_but_not_for_ever() -> None:
    notes: list[str] = []
    # Every machine is hotter than -1 degree, even one that reports no temperature.
    with Interruption() as interruption:
        begun = time.monotonic()
        wait_for_calm(HostLimits(temperature_c=-1.0), 2.0, interruption, notes.append)
        assert 2.0 <= time.monotonic() - begun < 20
        assert notes[0].startswith("pausing: ")
        assert notes[1].startswith("the pair goes on after 2 s, disturbed: ")
        limits = {"steal": None, "other_cpu": None, "free_memory": None, "temperature_c": None}
        # The load average includes the race itself, so here it would always exceed the limit.
        calm = HostLimits(**limits, swapping=False, throttling=False, load_per_cpu=0.0)
        wait_for_calm(calm, 600.0, interruption, notes.append)
        assert len(notes) == 2
