"""Test reading while programs write: every event once, with the figures of the tables.

Ground truth is what a program that calls the tracepoints did, and the tables that collecting the
same files afterwards gives. The files are fuzzed under the reader.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.native_tracer.test_native_tracer import environment
from tests.programs import wait_for, without_command

from roslens.analysis.overview.live import last_seconds
from roslens.collectors.collection import collect
from roslens.collectors.reader import open_trace
from roslens.collectors.ros2 import build_tables
from roslens.collectors.ros2.live import Model
from roslens.collectors.schema.tables import LOSSES
from roslens.live.source import following
from roslens.live.watch import Limits, Watch
from roslens.recording import UsageError, find_recordings, read_manifest
from roslens.recording.scratch import scratch_folder
from roslens.tracing.native_tracer.growing import Growing, find_growing
from roslens.tracing.native_tracer.library import prepare
from roslens.tracing.native_tracer.trace_files import HEAD

MESSAGES, SLOW, LOST = 1500, 400, 800
QUIET = ("--ros", "none", "--kernel", "off")


@pytest.fixture
def start(talking, library, folder):
    def started(
        count: int, rate: int, slow: int = SLOW, lost: int = LOST, **more: str
    ) -> subprocess.Popen:
        return subprocess.Popen(
            [str(talking), *map(str, (count, rate, slow, lost))],
            env=environment(library, folder, **more),
        )

    return started


@pytest.fixture
def flying(start, folder, tmp_path):
    """Start a flight-recorded program and a watcher of it; both end with the test."""
    begun = []

    def started(triggers: str, slow: int, every: float) -> list[subprocess.Popen]:
        (tmp_path / "triggers.yaml").write_text(triggers)
        begun.append(start(100_000, 500, slow, 0, ROSLENS_TRACE_FLIGHT="60"))
        wait_for(lambda: is_written(folder))
        settings = ("--triggers", tmp_path / "triggers.yaml", "--every", every)
        begun.append(roslens(folder, *settings, "-o", tmp_path / "made"))
        return begun

    yield started
    for process in begun:
        process.kill()
        process.communicate()


def is_written(folder: Path) -> bool:
    names = {path.name for path in folder.glob("ros2-*/ros2_[0-9]*")}
    # A flight recorder soon has an older file, too.
    return len({name.removesuffix("_before") for name in names}) == 2


def test_figures_are_those_of_the_tables(start, folder):
    """Events taken in bit by bit while they happen must equal the files read afterwards."""
    program = start(MESSAGES, 400)
    wait_for(lambda: is_written(folder))
    looks = 0
    with following(folder, None) as source:
        watch = Watch(source, None, Limits(None))
        while program.poll() is None:
            watch.moment()
            looks += 1
        moment = watch.moment(all_of_it=True)
    assert looks > 2
    raw = open_trace(folder).read()
    tables = build_tables(raw)
    times = pl.concat([frame["time_ns"].cast(pl.Int64) for frame in raw.values()])
    expected = last_seconds(
        tables["messages"], tables["callback_instances"], times.min(), times.max()
    )
    assert (moment.figures.begin_ns, moment.figures.end_ns) == (times.min(), times.max())
    for name in ("topics", "nodes", "callbacks", "threads"):
        frame = getattr(moment.figures, name)
        text = frame.select(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).columns
        assert_frame_equal(
            frame.cast(dict.fromkeys(text, pl.String)),
            getattr(expected, name).cast(dict.fromkeys(text, pl.String)),
        )
    # The topic is as the program published it.
    (topic,) = moment.figures.topics.to_dicts()
    assert (topic["topic"], topic["from"], topic["to"]) == ("/chatter", "/talker", "/listener")
    assert topic["messages"] == MESSAGES
    assert topic["lost"] == pytest.approx(1 / MESSAGES)
    (callback,) = moment.figures.callbacks.to_dicts()
    assert callback["count"] == MESSAGES - 1
    assert callback["worst_ms"] >= 60
    # The talker publishes outside of callbacks.
    nodes = {row["node"]: row for row in moment.figures.nodes.to_dicts()}
    assert nodes["/talker"]["rate_hz"] == nodes["/talker"]["busy"] == 0
    assert nodes["/listener"]["worst_ms"] == callback["worst_ms"]
    assert nodes["/listener"]["lost"] == pytest.approx(1 / MESSAGES)


@pytest.mark.parametrize("flight", ["", "1"])
def test_every_event_is_copied_once(flight, start, folder, tmp_path):
    """This includes a flight recorder, whose files are renamed and removed meanwhile.

    A file stays for the flight's second at least: this process must not stand still for longer.
    """
    program = start(3 * MESSAGES, 1500, ROSLENS_TRACE_FLIGHT=flight)
    wait_for(lambda: is_written(folder))
    (trace,) = find_growing(folder)
    growing = Growing(trace)
    copies: list[Path] = []
    ended = False
    while not ended:
        time.sleep(0.05)
        ended = program.poll() is not None
        copies.append(tmp_path / f"copy{len(copies)}")
        growing.copy(copies[-1])
    assert growing.broken == set()
    assert bool(list(folder.rglob("*_before"))) == bool(flight)
    numbers = []
    for copy in copies:
        opened = open_trace(copy)
        assert opened.info().warnings == []
        assert opened.info().losses.is_empty()
        numbers += opened.read(["ros2:rmw_publish"])["ros2:rmw_publish"]["timestamp"].to_list()
    assert len(numbers) == len(set(numbers)) == 3 * MESSAGES
    assert numbers == sorted(numbers)


def test_what_a_flight_recorder_overwrote_is_lost(start, folder, tmp_path):
    """Packets are overwritten between two looks, and the second look reports it."""
    program = start(40 * MESSAGES, 20_000, ROSLENS_TRACE_FLIGHT="0.1")
    wait_for(lambda: is_written(folder))
    growing = Growing(*find_growing(folder))
    growing.copy(tmp_path / "one")
    assert program.wait() == 0
    grown = growing.copy(tmp_path / "two")
    assert grown.lost
    trace = open_trace(tmp_path / "two")
    losses = trace.info().losses
    assert set(losses["kind"]) == {"missing_head"}
    happened = [frame.select("time_ns", "vpid") for frame in trace.read().values()]
    firsts = pl.concat(happened).group_by("vpid").agg(pl.col("time_ns").min())
    assert set(losses["end_ns"]) <= set(firsts["time_ns"].cast(pl.Int64))


def test_whoever_comes_late_reads_what_is_needed(start, folder):
    """Objects named before the kept time have names, and what was not read gives no figure."""
    program = start(MESSAGES, 1000)
    program.wait()
    with following(folder, 200_000_000) as source:
        frames, losses = source.read()
    assert frames["ros2:rcl_node_init"].height >= 2
    assert frames["ros2:callback_start"].height < MESSAGES
    assert set(losses["kind"]) <= {"lost_packets"}
    tables = build_tables(frames, losses)
    assert not tables["messages"]["outcome"].is_in(["lost"]).any()


@pytest.mark.parametrize("seed", range(6))
def test_no_length_in_a_file_is_trusted(seed, start, folder, tmp_path):
    """Headers, events, file lengths and numbers are spoiled while the files are followed."""
    start(300, 3000).wait()
    rng = random.Random(seed)
    files = sorted(folder.glob("ros2-*/ros2_*"))
    with following(folder, None) as source:
        watch = Watch(source, None, Limits(None))
        watch.moment()
        for _ in range(12):
            path = rng.choice(files)
            with path.open("rb") as stream:
                content = bytearray(stream.read(1 << 17))
            for _ in range(rng.randrange(1, 6)):
                place = rng.choice([rng.randrange(HEAD.size), rng.randrange(len(content))])
                wrong = rng.choice([b"\0", b"\xff", b"\xff" * 8, b"\0" * 8, rng.randbytes(4)])
                content[place : place + len(wrong)] = wrong
            path.write_bytes(content[: rng.choice([len(content), rng.randrange(len(content))])])
            with path.open("ab") as stream:
                stream.write(bytes(content[: rng.randrange(4096)]))
                stream.truncate(rng.choice([stream.tell(), 1 << 40]))
            moment = watch.moment(all_of_it=rng.random() < 0.5)
        # A new reader reads the same files.
    with following(folder, None) as source:
        again = Watch(source, None, Limits(None)).moment(all_of_it=True)
    assert moment.figures is not None
    assert again.figures is None or again.figures.topics.height <= 2


def test_what_is_no_file_is_not_read(start, folder, tmp_path):
    """A link leads elsewhere, and a pipe would never answer."""
    start(10, 1000).wait()
    (trace,) = find_growing(folder)
    secret = tmp_path / "ros2_1_1_1"
    secret.write_bytes(next(trace.glob("ros2_[0-9]*")).read_bytes())
    (trace / "ros2_1_1_1").symlink_to(secret)
    os.mkfifo(trace / "ros2_2_2_2")
    growing = Growing(trace)
    growing.copy(tmp_path / "copy")
    copied = {path.name for path in (tmp_path / "copy").iterdir()}
    assert not copied & {"ros2_1_1_1", "ros2_2_2_2"}
    with pytest.raises(UsageError, match="no native tracer writes there"):
        find_growing(tmp_path / "copy")
    with pytest.raises(UsageError, match="no such folder"):
        find_growing(tmp_path / "nowhere")


def roslens(*arguments: object, **more) -> subprocess.Popen:
    """Start `roslens watch` as in a plain installation."""
    # SIGINT is ignored where the tests run in the background of a shell.
    return subprocess.Popen(
        ["env", "--default-signal=INT", *without_command(("numpy",), "watch", *arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def test_the_verb(start, folder, tmp_path):
    (tmp_path / "budgets.yaml").write_text(
        "budgets: [{budget: latency_p50 < 1 ns, topic: /chatter}, loss < 50 %]\n"
    )
    start(300, 3000).wait()
    budgets = ("--budgets", tmp_path / "budgets.yaml")
    watching = roslens(folder, "--once", "--json", "--window", "100", *budgets)
    out, error = watching.communicate()
    assert (watching.returncode, error) == (0, "")
    answer = json.loads(out)
    assert [topic["messages"] for topic in answer["topics"]] == [300]
    assert [entry["budget"] for entry in answer["exceeded"]] == ["latency_p50 < 1 ns"]
    screen = roslens(folder, "--once", "--window", "100", env={**os.environ, "COLUMNS": "100"})
    out, error = screen.communicate()
    assert (screen.returncode, error) == (0, "")
    assert "/chatter" in out
    assert "the tracer dropped nothing" in out
    # There is a line for each refresh, until somebody ends the program.
    lines = roslens(folder, "--every", "0.1")
    first = lines.stdout.readline()
    lines.send_signal(signal.SIGINT)
    _, error = lines.communicate()
    assert "no event for" in first or "/chatter" in first
    assert (lines.returncode, error) == (0, "")
    for place, *options in (
        (tmp_path / "nowhere",),
        (folder, "--window", "nan"),
        (folder, "--seconds", "inf"),
        (folder, "--every", "1e300"),
        (folder, "--otlp", "http://[::1"),
        (folder, "--otlp", "http://localhost:notaport"),
    ):
        wrong = roslens(place, *options)
        assert wrong.wait() == 2
        assert wrong.stderr.read().count("\n") == 1


def test_nothing_to_tell(folder, library):
    prepare(library, folder)
    watching = roslens(folder, "--once")
    assert watching.wait() == 3
    assert "no event of late" in watching.stderr.read()
    (trace,) = folder.iterdir()
    trace.rename(folder / "ros2-kilted-8.6.0-00000000")
    watching = roslens(folder, "--once")
    assert watching.wait() == 2
    assert "before this machine started" in watching.stderr.read()


@pytest.mark.live
def test_what_a_killed_one_left_is_taken_away(folder, library, tmp_path):
    """The next start removes a killed watcher's copies; a living one's, and other files, stay."""
    prepare(library, folder)
    place = tmp_path / "tmp"
    place.mkdir()
    (place / "roslens-live-file").touch()
    (place / "roslens-live-link").symlink_to(tmp_path)
    present = {"roslens-live-file", "roslens-live-link"}
    env = {**os.environ, "TMPDIR": str(place)}

    def created() -> set[str]:
        return {path.name for path in place.iterdir()} - present

    def folders() -> set[str]:
        """Return the folders, without the file by which Python's tempfile first tries the place."""
        return {name for name in created() if name.startswith("roslens-live-")}

    killed = roslens(folder, env=env)
    wait_for(folders)
    (left,) = created()
    living = roslens(folder, env=env)
    try:
        wait_for(lambda: len(folders()) == 2)
        (stays,) = created() - {left}
        killed.kill()
        killed.communicate()
        (place / left / "copy").touch()
        assert roslens(folder, "--once", env=env).wait() == 3
        assert created() == {stays}
        living.send_signal(signal.SIGINT)
        assert living.wait() == 0
        assert created() == set()
        assert {path.name for path in place.iterdir()} == present
    finally:
        for process in (killed, living):
            process.kill()
            process.communicate()


def test_what_another_user_left_stays(tmp_path, monkeypatch):
    (tmp_path / "work-of-another").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    with scratch_folder(tmp_path, "work-") as scratch:
        assert {path.name for path in tmp_path.iterdir()} == {"work-of-another", scratch.name}
    monkeypatch.undo()
    with scratch_folder(tmp_path, "work-") as scratch:
        assert list(tmp_path.iterdir()) == [scratch]
    assert list(tmp_path.iterdir()) == []


def test_folders_are_made_where_there_are_no_locks(tmp_path, monkeypatch):
    """Without locks, nobody can tell whose owner lives, so nothing is removed."""
    (tmp_path / "work-left").mkdir()

    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refused)
    with scratch_folder(tmp_path, "work-") as scratch:
        assert scratch.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["work-left"]


@pytest.mark.live
def test_a_flight_recorder_tells_what_went_wrong(flying, tmp_path):
    """One message's callback takes 60 ms: its snapshot holds it and the events before it."""
    triggers = "after_s: 0.2\ntriggers: [callback of /listener > 50 ms]\n"
    _, watched = flying(triggers, slow=1500, every=0.2)
    line = next(line for line in watched.stdout if "; snapshot " in line)
    assert "callback of /listener > 50 ms" in line
    watched.send_signal(signal.SIGUSR2)
    line = next(line for line in watched.stdout if "; snapshot " in line)
    assert line.strip().endswith(": SIGUSR2")
    watched.send_signal(signal.SIGINT)
    assert watched.wait() == 0
    first, second = find_recordings(tmp_path / "made")
    (hit,) = read_manifest(first.path / "manifest.json").triggered
    assert hit.value > 50_000_000
    model = Model()
    model.feed(open_trace(first.path).read())
    ran = model.tables()["callback_instances"].frame("start_ns", "duration_ns")
    slow = ran.filter(ran["duration_ns"] >= 60_000_000)
    assert hit.at_ns in [start + 50_000_000 for start in slow["start_ns"].to_list()]
    assert ran["start_ns"].min() < hit.at_ns
    (asked,) = read_manifest(second.path / "manifest.json").triggered
    assert (asked.trigger, asked.value) == ("SIGUSR2", None)


@pytest.mark.live
def test_what_is_asked_for_does_not_wait_for_a_refresh(flying):
    """Refreshes are a minute apart; a separate clock tells when the snapshot was made."""
    _, watched = flying("{after_s: 1, triggers: [gap of /nothing > 1 s]}", slow=0, every=60)
    watched.stdout.readline()
    asked = time.monotonic()
    watched.send_signal(signal.SIGUSR2)
    line = next(line for line in watched.stdout if "snapshot " in line)
    assert line.strip().endswith(": SIGUSR2")
    assert 1 <= time.monotonic() - asked < 30


def test_what_is_due_is_made_before_anything_is_read() -> None:
    """Reading takes seconds on a busy machine, and flight recorders go on meanwhile."""
    called: list[str] = []

    def read(**_: object) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
        called.append("read")
        return {}, LOSSES.empty()

    source = SimpleNamespace(read=read, broken=(), until_ns=None)
    snapshots = SimpleNamespace(take=lambda **_: called.append("take"))
    Watch(source, None, Limits(None), snapshots=snapshots).moment()
    assert called == ["take", "read"]


@pytest.mark.live
def test_a_program_that_dies_is_recorded_by_the_gap_that_follows(flying, tmp_path):
    """Two triggers hit; the gap begins with the last publication there is."""
    triggers = "{after_s: 0, cooldown_s: 0, triggers: [gap of /chatter > 1 s, callback > 50 ms]}"
    program, watched = flying(triggers, slow=100, every=0.2)
    folder = tmp_path / "made"
    watched.stdout.readline()
    program.kill()
    program.wait()

    def is_recorded() -> bool:
        for recording in find_recordings(folder) if list(folder.glob("*/manifest.json")) else ():
            model = Model()
            model.feed(open_trace(recording.path).read())
            last = model.tables()["publications"].frame("publish_ns")["publish_ns"].max()
            hits = read_manifest(recording.path / "manifest.json").triggered
            if last + 1_000_000_000 in [hit.at_ns for hit in hits]:
                return True
        return False

    wait_for(is_recorded)
    assert watched.poll() is None


def record(run: Path, triggers: str, *arguments: object) -> subprocess.Popen:
    (run.parent / "triggers.yaml").write_text(triggers)
    given = ("--tracer", "native", *QUIET, "-o", run, "--triggers", run.parent / "triggers.yaml")
    return recorded(without_command(("numpy",), "record", *given, *arguments))


def recorded(words: list[str]) -> subprocess.Popen:
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.live
@pytest.mark.parametrize("flight", [(), ("--flight", "120")])
def test_a_run_is_watched_for_triggers_while_it_is_recorded(flight, talking, tmp_path):
    """The manifest reports the message that took 60 ms; a flight recorder's run is a snapshot."""
    run = tmp_path / "run"
    two = "{after_s: 0.1, triggers: [callback of /listener > 50 ms, gap of /nothing > 1 s]}"
    recording = record(run, two, *flight, "--", talking, "2000", "1000", "400", "0")
    out, error = recording.communicate(timeout=300)
    assert recording.returncode == 0, error
    assert b"triggered: callback of /listener > 50 ms" in out
    manifest = read_manifest(run / "manifest.json")
    assert manifest.warnings == []
    (hit,) = manifest.triggered
    assert (hit.trigger, hit.unit) == ("callback of /listener > 50 ms", "ns")
    collect(find_recordings(run)[0])
    ran = pl.read_parquet(run / "tables" / "callback_instances.parquet")
    slow = dict(ran.filter(pl.col("duration_ns") > 50_000_000)["start_ns", "duration_ns"].rows())
    lasted = slow[hit.at_ns - 50_000_000]
    assert 50_000_000 < hit.value <= lasted
    assert hit.at_least or hit.value == lasted
    snapshots = tmp_path / "run-snapshots"
    if flight:
        (snapshot,) = find_recordings(snapshots)
        assert read_manifest(snapshot.path / "manifest.json").triggered == [hit]
        assert b"snapshot " in error
    else:
        assert not snapshots.exists()


@pytest.mark.live
def test_ctrl_c_leaves_what_a_flight_recorder_holds(talking, tmp_path):
    """The output is one line, without tracers or triggers; the programs' end is not a death."""
    run = tmp_path / "run"
    endless = ("--", talking, "1000000", "500", "0", "0")
    words = without_command(("numpy",), "record", "--flight", "30", *QUIET, "-o", run, *endless)
    recording = recorded(["env", "--default-signal=INT", *words])
    try:
        wait_for(lambda: watching(run) and list(run.glob("flight/ros2-*/ros2_[0-9]*")))
        time.sleep(2)
        recording.send_signal(signal.SIGINT)
        _, error = recording.communicate(timeout=300)
    finally:
        recording.kill()
    assert recording.returncode == 130, error
    manifest = read_manifest(run / "manifest.json")
    assert (manifest.tracing.tracer, manifest.tracing.flight_seconds) == ("native", 30)
    assert (manifest.status, manifest.triggered) == ("interrupted", [])
    model = Model()
    model.feed(open_trace(run).read())
    sent = model.tables()["messages"].frame("publish_ns")["publish_ns"]
    assert sent.max() - sent.min() > 1_000_000_000


def processes(matches: Callable[[Path], bool]) -> list[int]:
    """Return the processes whose folder in /proc satisfies the condition."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            pids += [int(process.name)] * matches(process)
    return pids


def watching(run: Path) -> list[int]:
    """Return the processes that watch a run."""

    def watches(process: Path) -> bool:
        command = (process / "cmdline").read_bytes()
        return b"live.beside" in command and os.fsencode(run) in command

    return processes(watches)


def running(program: Path) -> list[int]:
    return processes(lambda process: (process / "exe").readlink() == program)


@pytest.mark.live
def test_who_watches_a_run_ends_with_its_recorder(talking, tmp_path):
    """The workload also ends, even if it is just starting when the recorder is killed."""
    run, workload = tmp_path / "run", tmp_path / "workload"
    shutil.copy2(talking, workload)
    endless = ("--flight", "120", "--", workload, "1000000", "500", "0", "0")
    recording = record(run, "triggers: [gap of /chatter > 100 s]", *endless)
    try:
        wait_for(lambda: watching(run))
        recording.kill()
        wait_for(lambda: not watching(run) and not running(workload))
        recording.communicate(timeout=60)
    finally:
        recording.kill()


@pytest.mark.live
def test_a_run_goes_on_without_who_watches_it(talking, tmp_path):
    run = tmp_path / "run"
    recording = record(run, "triggers: [gap of /a > 1 s]", "--", talking, "3000", "1000", "0", "0")
    wait_for(lambda: watching(run) or recording.poll() is not None)
    for process in watching(run):
        os.kill(process, signal.SIGKILL)
    recording.communicate(timeout=300)
    assert recording.returncode == 0
    (warning,) = read_manifest(run / "manifest.json").warnings
    assert warning == "triggers were not watched for to the end: who watched was killed by SIGKILL"


@pytest.mark.live
def test_a_recorded_run_is_watched_until_it_ends(talking, tmp_path):
    """The last refresh shows what collecting the recording then finds."""
    run = tmp_path / "run"
    given = ("--tracer", "native", *QUIET, "-o", run)
    program = ("--", talking, "2000", "1000", "400", "800")
    recording = recorded(without_command(("numpy",), "record", *given, *program))
    wait_for(lambda: list(run.glob("trace/ros2-*/ros2_[0-9]*")))
    watching = roslens(run, "--window", "0", "--every", "0.2", "--json")
    out, error = watching.communicate(timeout=120)
    assert (watching.returncode, error) == (0, "")
    assert recording.wait() == 0
    recording.communicate()
    moment = json.loads(out.splitlines()[-1])
    collect(find_recordings(run)[0])
    tables = [
        pl.read_parquet(run / "tables" / f"{name}.parquet")
        for name in ("messages", "callback_instances")
    ]
    expected = last_seconds(*tables, moment["begin_ns"], moment["end_ns"])
    assert expected.topics["messages"].to_list() == [2000]
    for name in ("topics", "nodes", "callbacks", "threads"):
        assert moment[name] == json.loads(json.dumps(getattr(expected, name).to_dicts())), name
