"""Test the timing model against a program's own log, by hand, and as JSON."""

import itertools
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pytest
from synthetic import Tables
from tests.samples import SAMPLES

import roslens as rl
from roslens.analysis.runs import Run
from roslens.analysis.timing.executors import _concurrent_pairs
from roslens.analysis.timing.recorded import polls_of, recorded_timing
from roslens.analysis.timing.schema import ExecutorKind, TimingModel
from roslens.analysis.timing.views import callbacks_frame
from roslens.recording import NotEnoughEvidenceError, UsageError

CHAIN = SAMPLES / "chain.tar.zst"
MS = 1_000_000


def execution(number: int, callback: int, start: float, end: float, **more: Any) -> dict[str, Any]:
    """Make one execution on thread 10 of process 1 [ms]."""
    kind, name = ("timer", "10 ms") if callback == 1 else ("subscription", f"/t{callback}")
    return {
        "callback_instance_id": number, "callback_id": callback, "host": "h0", "vpid": 1,
        "vtid": 10, "kind": kind, "name": name, "node": f"/n{callback}",
        "start_ns": round(start * MS), "end_ns": round(end * MS), **more,
    }  # fmt: skip


def two_in_one_thread(scheduling: Sequence[dict[str, Any]] = ()) -> Tables:
    """Make a timer of 10 ms that is 0.1 ms late, takes 2 ms and publishes after 1 ms.

    Its receiver takes 3 ms.
    """
    timers = [execution(2 * n, 1, 10 * n + 0.1, 10 * n + 2.1) for n in range(20)]
    receivers = [
        execution(2 * n + 1, 2, 10 * n + 2.6, 10 * n + 5.6, intra_process=False) for n in range(20)
    ]
    return Tables(
        callback_instances=[*timers, *receivers],
        timer_activations=[
            {
                "callback_instance_id": 2 * n, "release_ns": 10 * n * MS, "period_ns": 10 * MS,
                "jitter_ns": 0 if n else None, "timer_id": 1,
            }
            for n in range(20)
        ],
        messages=[
            {
                "message_id": n, "callback_instance_id": 2 * n + 1,
                "publish_ns": round((10 * n + 1.1) * MS), "outcome": "delivered",
                "subscription_id": 7, "topic": "/t2",
                "publisher_host": "h0", "subscription_host": "h0", "publisher_vpid": 1,
                "subscription_vpid": 1,
            }
            for n in range(20)
        ],
        publications=[
            {
                "message_id": n, "vtid": 10, "callback_instance_id": 2 * n,
                "publish_ns": round((10 * n + 1.1) * MS), "topic": "/t2", "node": "/n1",
            }
            for n in range(20)
        ],
        subscriptions=[{"subscription_id": 7, "queue_depth": 5}],
        executor_intervals=[
            {"host": "h0", "vpid": 1, "vtid": 10, "state": "wait", "timeout_ns": -1}
        ],
        callback_scheduling=scheduling,
    )  # fmt: skip


def test_by_hand() -> None:
    model = recorded_timing(two_in_one_thread(), Run("r"), warm_up_s=0.05)
    timer, receiver = model.callbacks
    assert (model.start_up_ns, model.execution_time) == (50 * MS, "duration")
    # The first execution is at 0.1 ms, so 50.1 ms are cut off, and the one at 50.1 ms counts. The
    # last message is published at 191.1 ms, and what began later is left out.
    assert model.length_ns == round((191.1 - 50.1) * MS)
    assert [executor.kind for executor in model.executors] == ["SingleThreaded"]
    assert timer.executions.value_ns == [2 * MS] * 15
    assert timer.handovers.value_ns == [100_000] * 15
    # Each is dated to when the timer was due, except the first, which was due before the cut.
    assert timer.handovers.at_ns[:3] == [0, 9_900_000, 19_900_000]
    assert (timer.period_ns, timer.phase_ns) == (10 * MS, 9_900_000)
    assert {(publication.offset_ns, publication.topic) for publication in timer.publications} == {
        (1 * MS, "/t2")
    }
    # Messages are published 1 ms before the timer's callback ends, and taken up 0.5 ms after that.
    assert receiver.handovers.value_ns == []
    assert receiver.gaps.value_ns == [500_000] * 14
    assert receiver.waits_ns == [1_500_000] * 14
    assert (receiver.queue_depth, receiver.group, receiver.reentrant) == (5, None, None)
    assert (model.sources, model.left_out) == ([], [])


def test_a_timer_is_not_due_before_it_was_made() -> None:
    """Another callback ran 25 ms before the timer was first due."""
    tables = two_in_one_thread()
    tables.rows["callback_instances"] = [
        execution(100, 3, -25, -24), *tables.rows["callback_instances"]
    ]  # fmt: skip
    model = recorded_timing(tables, Run("r"), warm_up_s=0)
    (timer,) = (callback for callback in model.callbacks if callback.kind == "timer")
    assert timer.phase_ns == 25 * MS


def test_what_another_thread_publishes_can_be_taken_after_the_soonest_handover() -> None:
    """A driver's thread publishes every 10 ms; handover takes at least 1.5 ms, the callback 3."""
    waits = [1.5 + 0.1 * (n % 3) for n in range(20)]
    calls = [execution(n, 2, 10 * n + w, 10 * n + w + 3) for n, w in enumerate(waits)]
    ends = {
        "publisher_host": "h0", "subscription_host": "h0", "publisher_vpid": 1,
        "subscription_vpid": 1, "outcome": "delivered", "topic": "/t2",
    }  # fmt: skip
    tables = Tables(
        callback_instances=calls,
        messages=[
            {"message_id": n, "callback_instance_id": n, "publish_ns": 10 * n * MS, **ends}
            for n in range(20)
        ],
        publications=[
            {"message_id": n, "publish_ns": 10 * n * MS, "topic": "/t2", "vtid": 99}
            for n in range(20)
        ],
    )
    model = recorded_timing(tables, Run("r"), warm_up_s=0)
    (callback,) = model.callbacks
    assert callback.lag_ns == 1_500_000
    assert callback.handovers.value_ns[:3] == [1_500_000, 1_600_000, 1_700_000]
    assert callback.gaps.value_ns == []
    (source,) = model.sources
    # The model knows nothing of the first message, published before the first callback began.
    assert (source.topic, len(source.at_ns)) == ("/t2", 19)


def test_another_thread_waits_soon_or_after_the_first_one_came_back() -> None:
    """A timer of 10 ms starts at 0.2 ms, after a wait until 0.1, publishes at 1.1, ends at 2.2.

    In even rounds the second thread waits from 0.4 to 1.4 ms and starts the receiver at 1.5. In odd
    ones the first thread does all: it waits from 2.3 to 2.5 ms and starts the receiver at 2.6.
    """
    calls, waits = [], []
    for n in range(20):
        thread, begin, end = (10, 2.3, 2.5) if n % 2 else (11, 0.4, 1.4)
        calls.append(execution(2 * n, 1, 10 * n + 0.2, 10 * n + 2.2))
        late = execution(2 * n + 1, 2, 10 * n + end + 0.1, 10 * n + end + 0.2)
        calls.append(late | {"vtid": thread})
        for vtid, first, last in ((10, -2, 0.1), (thread, begin, end)):
            times = (round((10 * n + moment) * MS) for moment in (first, last))
            row = dict(zip(("begin_ns", "end_ns"), times, strict=True))
            waits.append(row | {"host": "h0", "vpid": 1, "vtid": vtid, "state": "wait"})
    rows = two_in_one_thread().rows | {
        "callback_instances": calls,
        "executor_intervals": [interval | {"timeout_ns": -1} for interval in waits],
    }  # fmt: skip
    model = recorded_timing(Tables(**rows), Run("r"), warm_up_s=0)
    timer, receiver = model.callbacks
    assert [(executor.kind, executor.threads) for executor in model.executors] == [
        ("MultiThreaded", 2)
    ]
    # From the timer's start to the second thread's wait, or to that of the first one itself.
    assert timer.takeovers_ns == [200_000, 2_100_000] * 10
    # In odd rounds the next wait begins at 8 ms, 5.4 after the receiver. In even ones the first
    # thread executes when the second one chooses, so the median counts: of 10 x 0.2, 10 x 2.1 and 9
    # x 5.4, as the last of these is too late.
    assert receiver.takeovers_ns[:4] == [2_100_000, 5_400_000] * 2
    # The second thread found the first one's message 0.3 ms later, and started after 0.1 more.
    assert receiver.lag_ns == 300_000
    assert set(receiver.handovers.value_ns) == {400_000}
    assert set(receiver.gaps.value_ns) == {100_000}
    # From the end of the timer's callback to the end of the wait; the last one is too late.
    assert model.executors[0].polls.value_ns == [300_000] * 9


def test_polls_come_in_the_order_in_which_they_began() -> None:
    """One thread polls from 8 to 10, another from 2 to 11: the one that ended last began first."""
    rows = pl.DataFrame({"executor": [0, 0, 1], "woken_ns": [10, 11, 12], "poll": [2, 9, 1]})
    polls = polls_of(rows, 0, 1)
    assert (polls.at_ns, polls.value_ns) == ([1, 7], [9, 2])


def test_the_order_of_a_wait_set_shows_between_two_waits() -> None:
    """Three rounds are 4, 2; 3, 2; 4, 3. So 4 comes before 3, and 3 before 2."""
    rounds = [(4, 2), (3, 2), (4, 3)]
    calls = [
        execution(2 * n + k, callback, 10 * n + 1 + k, 10 * n + 1.5 + k)
        for n, pair in enumerate(rounds)
        for k, callback in enumerate(pair)
    ]
    wait = {"host": "h0", "vpid": 1, "vtid": 10, "state": "wait", "timeout_ns": -1}
    waits = [{**wait, "begin_ns": 10 * n * MS} for n in range(3)]
    tables = Tables(callback_instances=calls, executor_intervals=waits)
    model = recorded_timing(tables, Run("r"), warm_up_s=0)
    assert {callback.id: callback.place for callback in model.callbacks} == {4: 0, 3: 1, 2: 2}
    without = recorded_timing(Tables(callback_instances=calls), Run("r"), warm_up_s=0)
    assert {callback.place for callback in without.callbacks} == {None}
    # An events executor waits, too, but on no wait set.
    elsewhere = [{**interval, "timeout_ns": None} for interval in waits]
    tables = Tables(callback_instances=calls, executor_intervals=elsewhere)
    model = recorded_timing(tables, Run("r"), warm_up_s=0)
    assert {callback.place for callback in model.callbacks} == {None}
    assert [executor.kind for executor in model.executors] == ["Events"]


def test_the_kernel_tells_the_own_time_and_publications_keep_their_place_in_it() -> None:
    """Others took 1 of the timer's 2 ms, so it publishes after half of its own time."""
    scheduling = [
        {"callback_instance_id": 2 * n, "cpu_ns": 800_000, "blocked_ns": 200_000} for n in range(20)
    ] + [{"callback_instance_id": 2 * n + 1, "cpu_ns": 3 * MS, "blocked_ns": 0} for n in range(20)]
    timer, receiver = (model := recorded_timing(two_in_one_thread(scheduling), Run("r"))).callbacks
    assert model.execution_time == "own"
    assert set(timer.executions.value_ns) == {1 * MS}
    assert {publication.offset_ns for publication in timer.publications} == {500_000}
    assert set(receiver.executions.value_ns) == {3 * MS}


def test_what_ran_beside_itself_is_reentrant_and_what_ran_beside_another_is_in_another_group() -> (
    None
):
    def on_thread(
        number: int, callback: int, thread: int, start: float, end: float
    ) -> dict[str, Any]:
        return execution(number, callback, start, end) | {"vtid": thread, "node": "/n"}

    calls = [on_thread(0, 2, 10, 0, 2), on_thread(1, 2, 11, 1, 3), on_thread(2, 3, 10, 4, 6)]
    calls += [on_thread(3, 4, 11, 5, 7), on_thread(4, 5, 10, 8, 9), on_thread(5, 2, 10, 10, 11)]
    calls += [on_thread(6, 3, 11, 12, 13)]
    model = recorded_timing(Tables(callback_instances=calls), Run("r"), warm_up_s=0)
    assert [(c.id, c.group, c.reentrant) for c in model.callbacks] == [
        (2, "/n#2", True),
        (3, None, None),
        (4, "/n#4", None),
        (5, None, None),
    ]
    assert [
        (executor.kind, executor.kind_from, executor.threads) for executor in model.executors
    ] == [("EventsCBG", "guess", 2)]
    assert callbacks_frame(model)["executor_kind_from"].unique().to_list() == ["guess"]
    # Events of another executor show that those of this one were not left out.
    other = {"host": "h0", "vpid": 9, "vtid": 99, "state": "wait", "timeout_ns": -1}
    tables = Tables(callback_instances=calls, executor_intervals=[other])
    (executor,) = recorded_timing(tables, Run("r"), warm_up_s=0).executors
    assert (executor.kind, executor.kind_from) == ("EventsCBG", "events")
    # Nothing tells what started them: their starts come from outside.
    assert {source.topic: len(source.at_ns) for source in model.sources} == {
        "#2": 3,
        "#3": 2,
        "#4": 1,
        "#5": 1,
    }


def test_executions_that_overlap_on_one_cpu_had_to_share_it() -> None:
    """On CPU 0 from 0 to 4 and from 3 to 5 ms, on CPU 1 from 1 to 3: 1 of 8 ms is shared."""
    calls = [
        execution(n, n + 2, start, end) | {"vtid": n, "cpu_id": cpu}
        for n, (start, end, cpu) in enumerate([(0, 4, 0), (3, 5, 0), (1, 3, 1)])
    ]
    assert recorded_timing(Tables(callback_instances=calls), Run("r"), 0).shared_cpu == 1 / 8
    own = [{"callback_instance_id": n, "cpu_ns": MS, "blocked_ns": 0} for n in range(3)]
    by_kernel = Tables(callback_instances=calls, callback_scheduling=own)
    assert recorded_timing(by_kernel, Run("r"), 0).shared_cpu == 0


def test_threads_of_an_executor_are_those_active_at_once() -> None:
    """One thread takes over from another at 100 ms, as a program that spins elsewhere later."""
    tables = two_in_one_thread()
    for row in tables.rows["callback_instances"]:
        row["vtid"] = 10 if row["start_ns"] < 100 * MS else 11
    model = recorded_timing(tables, Run("r"), warm_up_s=0)
    (executor,) = model.executors
    assert (executor.kind, executor.threads, executor.vtids) == ("SingleThreaded", 1, [10, 11])
    # The first thread runs once more at the end, so both were active from 100 ms on.
    tables.rows["callback_instances"][-1]["vtid"] = 10
    model = recorded_timing(tables, Run("r"), warm_up_s=0)
    (executor,) = model.executors
    assert (executor.kind, executor.threads) == ("MultiThreaded", 2)
    # What is said to be an executor of one thread has one.
    said = [model.executed_by(kind).executors[0].threads for kind in get_args(ExecutorKind)]
    assert dict(zip(get_args(ExecutorKind), said, strict=True)) == {
        "SingleThreaded": 1, "MultiThreaded": 2, "Events": 1, "EventsCBG": 2
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(50))
def test_every_pair_that_ran_at_the_same_time_is_found_as_by_comparing_all(seed: int) -> None:
    """A long execution may overlap several later ones of other threads."""
    draw = random.Random(seed)
    calls = []
    for thread in range(draw.randint(2, 4)):
        end = 0
        for _ in range(draw.randint(2, 14)):
            start = end + draw.randint(0, 19)
            end = start + draw.choice([1, 2, 40])
            call = execution(len(calls), draw.randint(1, 6), start, end)
            calls.append(call | {"vtid": thread, "node": f"/n{draw.randint(1, 2)}"})
    found = _concurrent_pairs(pl.DataFrame(calls))
    assert {frozenset(pair) for pair in found} == {
        frozenset((a["callback_id"], b["callback_id"]))
        for a, b in itertools.combinations(calls, 2)
        if a["node"] == b["node"]
        and max(a["start_ns"], b["start_ns"]) < min(a["end_ns"], b["end_ns"])
    }


def test_nothing_to_time_is_told() -> None:
    with pytest.raises(NotEnoughEvidenceError, match="r: no callback was recorded that ended"):
        recorded_timing(Tables(), Run("r"))
    with pytest.raises(NotEnoughEvidenceError, match=r"after the start-up of 9\.00 s while"):
        recorded_timing(two_in_one_thread(), Run("r"), warm_up_s=9)
    once = Tables(callback_instances=[execution(0, 1, 0, 0.003)])
    # A tenth of 3 us.
    with pytest.raises(NotEnoughEvidenceError, match="after the start-up of 300 ns while"):
        recorded_timing(once, Run("r"))


@pytest.mark.recording
def test_a_recording_is_timed_as_its_program_logged() -> None:
    run = rl.open(CHAIN)
    timing = run.timing_model()
    log = pl.read_csv(run.recordings[0].path / "samples.csv").slice(60)
    took, offset = (
        (log[f"b_{end}_realtime_ns"] - log["b_start_realtime_ns"]).median()
        for end in ("end", "publish")
    )
    frame = timing.frame()
    node_b = frame.filter(node="/node_b").row(0, named=True)
    assert node_b["execution_p50_ns"] == pytest.approx(took, rel=0.01)
    assert node_b["reentrant"]
    assert frame.filter(kind="timer")["period_ns"].to_list() == [20 * MS] * 2
    names = dict(frame.select("callback_id", "node").iter_rows())
    links = timing.links().with_columns(
        pl.col("callback_id", "receiver_id").replace_strict(names, return_dtype=pl.String)
    )
    assert links.select("callback_id", "topic", "receiver_id").unique().sort("topic").rows() == [
        ("/source", "/a", "/node_b"),
        ("/source2", "/a2", "/node_c"),
        ("/node_b", "/b", "/node_c"),
        ("/node_c", "/c", "/sink"),
    ]
    # Each activation has a burst of two samples.
    assert links.filter(topic="/a")["per_execution"].item() == 2
    (b,) = links.filter(topic="/b")["offset_p50_ns"]
    assert b == pytest.approx(offset, rel=0.01)


@pytest.mark.recording
def test_the_picture_shows_what_the_frame_says() -> None:
    timing = rl.open(CHAIN).timing_model()
    drawing = timing.graph()
    for row in timing.frame().iter_rows(named=True):
        assert re.search(rf">{row['node']} {row['name']}</text>", drawing.svg)
        p99 = row["execution_p99_ns"] / 1e6
        shown = re.findall(r"> ?[\d.e-]+ / ([\d.e-]+) ms<", drawing.svg)
        assert any(float(number) == pytest.approx(p99, rel=0.01) for number in shown), row["node"]


@pytest.mark.recording
def test_json_gives_the_same_model(tmp_path: Path) -> None:
    timing = rl.open(CHAIN).timing_model()
    timing.write(tmp_path / "model.json")
    assert rl.read_timing_model(tmp_path / "model.json") == timing


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.pop("length_ns"), "length_ns: Field required"),
        (lambda m: m.update(length="1"), "length: Extra inputs are not permitted"),
        (lambda m: m.update(version=2), "version: Input should be 1"),
        (lambda m: m["callbacks"][0].update(executor=3), "callback 1: there is no executor 3"),
        (lambda m: m["callbacks"][0]["executions"]["value_ns"].pop(), "not equally long"),
        (lambda m: m["callbacks"][0]["executions"].update(at_ns=[], value_ns=[]), "no executions"),
        (lambda m: m["callbacks"][0]["publications"][0].update(execution=99), "not there"),
        (lambda m: m["callbacks"][0].update(phase_ns=None), "go together"),
        (lambda m: m["callbacks"][1]["gaps"]["at_ns"].reverse(), "does not ascend"),
        (lambda m: m["callbacks"][1]["gaps"]["value_ns"].__setitem__(0, -1), "greater than"),
    ],
)  # fmt: skip
def test_another_json_is_refused_in_one_line(
    change: Callable[[dict[str, Any]], object], said: str, tmp_path: Path
) -> None:
    model = recorded_timing(two_in_one_thread(), Run("r")).model_dump()
    change(model)
    (tmp_path / "model.json").write_text(json.dumps(model))
    with pytest.raises(UsageError, match="not a timing model: ") as error:
        rl.read_timing_model(tmp_path / "model.json")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_model_of_no_run_is_refused() -> None:
    assert TimingModel.model_json_schema()["required"]
    with pytest.raises(UsageError, match=r"no\.json: cannot be read"):
        rl.read_timing_model("no.json")
