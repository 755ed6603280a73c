"""Test changes of a timing model, and what is said about predictions."""

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from roslens.analysis.estimate import NO_FACTORS
from roslens.analysis.timing.schema import (
    Publication,
    Samples,
    Source,
    TimedCallback,
    TimedExecutor,
    TimingModel,
)
from roslens.analysis.what_if import system
from roslens.analysis.what_if.changes import (
    Changes,
    DurationChange,
    changed,
    executor_kind,
    rate_of,
    with_own_work,
)
from roslens.analysis.what_if.prediction import CURVE, WOKEN, Predicted, predicted
from roslens.analysis.what_if.system import simulated
from roslens.analysis.what_if.tables import prediction_parts
from roslens.recording import UsageError

MS = 1_000_000


def callback(number: int, **more: Any) -> TimedCallback:
    given: dict[str, Any] = {
        "id": number, "kind": "subscription", "name": f"/t{number}", "node": f"/n{number}",
        "executor": 0, "group": None, "reentrant": None, "intra_process": False, "queue_depth": 10,
        "period_ns": None, "phase_ns": None, "jitter_ns": None, "place": None, "lag_ns": 0,
        "publications": [],
        "handovers": Samples(), "gaps": Samples(), "waits_ns": [], "lost": 0, **more,
    }  # fmt: skip
    return TimedCallback(**given)


def every(value: int, step: int = 10 * MS, count: int = 100) -> Samples:
    return Samples(at_ns=[n * step for n in range(count)], value_ns=[value] * count)


def model(kind: str = "SingleThreaded", cpus: int | None = 4) -> TimingModel:
    """Make a timer of 10 ms that takes 4 and publishes /t2 after 1; its receiver takes 3, gap 1."""
    first = callback(
        1, kind="timer", name="10 ms", period_ns=10 * MS, phase_ns=0, executions=every(4 * MS),
        publications=[Publication(execution=n, offset_ns=MS, topic="/t2") for n in range(100)],
        handovers=every(0),
    )  # fmt: skip
    second = callback(2, executions=every(3 * MS), gaps=every(MS), waits_ns=[4 * MS] * 100)
    outside = callback(3, executions=every(MS, 50 * MS, 20), handovers=every(0, 50 * MS, 20))
    return TimingModel(
        run="r", start_up_ns=0, length_ns=1000 * MS, execution_time="duration", cpus=cpus,
        executors=[
            TimedExecutor(kind=kind, kind_from="manifest", threads=1),
            TimedExecutor(kind="SingleThreaded", kind_from="manifest", threads=1),
        ],
        callbacks=[first, second, outside.model_copy(update={"executor": 1})],
        sources=[Source(topic="/t3", node="/far", at_ns=[n * 50 * MS for n in range(20)])],
        left_out=[],
    )  # fmt: skip


def altered(number: int, given: TimingModel | None = None, /, **fields: Any) -> TimingModel:
    """Return the model, or the given one, with other fields in one callback."""
    altered_model = given or model()
    altered_model.callbacks[number] = altered_model.callbacks[number].model_copy(update=fields)
    return altered_model


def of(figures: list[Predicted], metric: str, topic: str | None = None) -> Predicted:
    (figure,) = [figure for figure in figures if figure.metric == metric and figure.topic == topic]
    return figure


def test_what_was_recorded_comes_out_by_hand() -> None:
    """Publication is 1 ms after the start: 3 until the timer's callback ends, and 1 of gap."""
    prediction = predicted([model()], Changes(), seed=1)
    assert prediction.refused is None
    p50 = of(list(prediction.figures), "latency_p50", "/t2")
    assert (p50.recorded, p50.simulated, p50.value, p50.low, p50.high) == (4 * MS,) * 5
    # The timer takes 4 of 10 ms, the receiver 3, and the other callback 1 of 50.
    assert of(list(prediction.figures), "cpu").recorded == pytest.approx(0.72)
    assert of(list(prediction.figures), "cpu").value == pytest.approx(0.72, abs=0.01)
    assert of(list(prediction.figures), "lost").value == 0


def test_loss_that_the_simulation_does_not_show_is_within_the_interval() -> None:
    """By hand: 25 were lost beside 100 received, a fifth; in the simulation the queue holds all."""
    lost = of(list(predicted([altered(1, lost=25)], Changes(), seed=1).figures), "lost", "/t2")
    assert (lost.recorded, lost.simulated, lost.value, lost.low) == (0.2, 0, 0, 0)
    assert lost.high == pytest.approx(0.2)


def test_the_curve_of_a_constant_latency_is_upright_and_refused_with_its_figures() -> None:
    """4 ms are recorded and simulated; if 6 were recorded, 4 would not reproduce them."""
    (curve,) = [
        curve for curve in predicted([model()], Changes(), seed=1).curves if curve.topic == "/t2"
    ]
    upright = [4 * MS] * len(CURVE)
    assert (curve.node, curve.recorded) == ("/n2", upright)
    assert list(curve.value) == list(curve.low) == list(curve.high) == upright
    slower = altered(1, waits_ns=[6 * MS] * 100)
    (curve,) = [
        curve for curve in predicted([slower], Changes(), seed=1).curves if curve.topic == "/t2"
    ]
    assert list(curve.recorded) == [6 * MS] * len(CURVE)
    assert not curve.value


@pytest.mark.parametrize(
    ("changes", "latency", "cpu"),
    [
        # 2 ms more: publication after 1.5, 4.5 until its end, 1 of gap; all of it fits in 10 ms.
        (Changes(took=[DurationChange.of("callback=/n1:+2ms")]), 5.5, 0.92),
        (Changes(took=[DurationChange.of("callback=10 ms:0.5x")]), 2.5, 0.52),
        (Changes(took=[DurationChange.of("callback=/t2:1000us")]), 4, 0.52),
        # A second thread begins with it at once, as one did with another message.
        (Changes(executor="MultiThreaded", threads=2), 0, 0.72),
        (Changes(executor="EventsCBG", threads=2), 0, 0.72),
        (Changes(executor="Events"), 4, 0.72),
        (Changes(rates=[("/t2", 50.0)]), 4, 0.37),
        (Changes(rates=[("/t3", 40.0)]), 4, 0.74),
    ],
)
def test_changes_by_hand(changes: Changes, latency: float, cpu: float) -> None:
    figures = list(predicted([altered(1, handovers=every(0))], changes, seed=1).figures)
    assert of(figures, "latency_p50", "/t2").value == pytest.approx(latency * MS)
    assert of(figures, "cpu").value == pytest.approx(cpu, abs=0.012)


def test_timers_do_not_tell_how_long_messages_take_to_wake_a_thread() -> None:
    """Timers are late by 0.2 ms. Each message finds the second thread idle, and none did before."""
    recorded = altered(0, handovers=every(200_000))
    asked = Changes(executor="MultiThreaded", threads=2)
    prediction = predicted([recorded], asked, seed=1)
    assert prediction.refused == WOKEN
    for topic in (None, "/t2"):
        for metric in ("latency_p50", "latency_p99"):
            figure = of(list(prediction.figures), metric, topic)
            assert (figure.value, figure.low, figure.high) == (None, None, None)
            assert figure.refused == WOKEN
    assert not any(curve.value for curve in prediction.curves if curve.topic in (None, "/t2"))
    said, _ = prediction_parts({"": prediction})
    assert "latency of all together is not predicted: half of the messages" in str(said)
    # CPU does not depend on it.
    assert of(list(prediction.figures), "cpu").value == pytest.approx(0.72, abs=0.012)
    # Under an executor with one thread, messages still wait for the timer's callback.
    assert predicted([recorded], Changes(executor="Events"), 1).refused is None
    # A message of another callback on the same executor tells it.
    recorded.callbacks[2] = recorded.callbacks[2].model_copy(update={"executor": 0})
    (said,) = [text for text in predicted([recorded], asked, 1).assumptions if "idle" in text]
    assert said.endswith("taken from other callbacks: /t2.")


def test_one_thread_can_take_at_once_what_it_published() -> None:
    """What the one thread publishes has no lag; what another executor receives keeps its own."""
    lagging = altered(1, model("EventsCBG"), lag_ns=3_500_000, handovers=every(3_600_000))
    lagging.executors[0] = lagging.executors[0].model_copy(update={"threads": 2})
    one = Changes(executor="EventsCBG", threads=1)
    assert changed(lagging, one).callbacks[1].lag_ns == 0
    assert changed(lagging, Changes()).callbacks[1].lag_ns == 3_500_000
    elsewhere = altered(1, lagging, executor=1)
    assert changed(elsewhere, one).callbacks[1].lag_ns == 3_500_000


def test_few_messages_that_wake_a_thread_do_not_keep_the_others_from_being_predicted() -> None:
    """Three messages come at 1 ms; their callback takes 1 ms each, in one group.

    In one thread they wait for the end of the timer's callback at 4: 3, 4 and 5 ms. The first of
    three finds a second thread idle, if there is one: 0, 1 and 2 ms.
    """
    sent = [
        Publication(execution=n, offset_ns=MS, topic="/t2") for n in range(100) for _ in range(3)
    ]
    recorded = altered(0, publications=sent)
    begins = [(10 * n + 4 + k) * MS for n in range(100) for k in range(3)]
    altered(
        1, recorded, executions=Samples(at_ns=begins, value_ns=[MS] * 300), gaps=Samples(),
        waits_ns=[3 * MS, 4 * MS, 5 * MS] * 100,
    )  # fmt: skip
    prediction = predicted([recorded], Changes(executor="MultiThreaded", threads=2), seed=1)
    p50 = of(list(prediction.figures), "latency_p50", "/t2")
    assert (p50.recorded, p50.simulated, p50.value) == (4 * MS, 4 * MS, MS)
    (said,) = [text for text in prediction.assumptions if "idle thread" in text]
    assert said.endswith("too low: /t2.")


def test_other_executors_need_other_times_for_their_own_work() -> None:
    """Entities collected anew cost 2 to 3 times the poll; several threads, 1.3 to 2 times all."""
    recorded = altered(1, handovers=every(0))
    recorded.executors[0] = recorded.executors[0].model_copy(update={"polls": every(1000)})

    def own_times(given: TimingModel, cost: float, kind: Any, threads: int) -> tuple[int, int]:
        asked = changed(given, Changes(executor=kind, threads=threads))
        after = with_own_work(given, asked, cost)
        return after.executors[0].polls.value_ns[0], after.callbacks[1].gaps.value_ns[0] // 1000

    assert own_times(recorded, 0, "MultiThreaded", 1) == (2000, 1000)
    assert own_times(recorded, 1, "MultiThreaded", 1) == (3000, 1000)
    assert own_times(recorded, 0, "MultiThreaded", 2) == (2600, 1300)
    assert own_times(recorded, 1, "MultiThreaded", 2) == (6000, 2000)
    assert own_times(recorded, 1, "EventsCBG", 2)[1] == 2000
    # A prediction covers all between: the receiver waits for its group, then for a gap.
    callbacks = [callback.model_copy(update={"group": "g"}) for callback in recorded.callbacks]
    grouped = recorded.model_copy(update={"callbacks": callbacks})
    asked = Changes(executor="EventsCBG", threads=2)
    p50 = of(list(predicted([grouped], asked, 1).figures), "latency_p50", "/t2")
    below = math.hypot(p50.value - 4.3 * MS, 0.07 * p50.value)
    above = math.hypot(5 * MS - p50.value, 0.07 * p50.value)
    assert 4.3 * MS < p50.value < 5 * MS
    assert p50.low == pytest.approx(p50.value - below, rel=0.001)
    assert p50.high == pytest.approx(p50.value + above, rel=0.001)
    several = changed(recorded, Changes(executor="MultiThreaded", threads=2))
    several = with_own_work(recorded, several, 1)
    assert own_times(several, 1, "SingleThreaded", 1) == (1000, 1000)


def test_polls_that_were_not_recorded_take_no_longer_than_handovers() -> None:
    events = altered(0, model("Events"), handovers=every(800))
    for kind, threads, cost, took in (
        ("SingleThreaded", 1, 0.0, 0), ("SingleThreaded", 1, 1.0, 800),
        ("MultiThreaded", 2, 0.5, round(400 * 2.6**0.5)), ("MultiThreaded", 2, 1.0, 1600),
    ):  # fmt: skip
        changes: Any = Changes(executor=kind, threads=threads)
        after = with_own_work(events, changed(events, changes), cost)
        assert after.executors[0].polls.value_ns == [took] * 100
    (assumption,) = [
        text
        for text in predicted([events], Changes("SingleThreaded"), 1).assumptions
        if "set" in text
    ]
    assert "in which callbacks were created" in assumption


def test_an_interval_reaches_as_far_as_the_recording_was_missed() -> None:
    """4 ms are simulated where 4.2 were recorded: 4 to 4.2 again, and changes in proportion.

    The model's error of 7 % is added to changes.
    """
    missed = altered(1, waits_ns=[4_200_000] * 100)
    half = Changes(took=[DurationChange.of("callback=10 ms:0.5x")])
    for changes, low, high in ((Changes(), 4.0, 4.2), (half, 0.93 * 2.5, 1.07 * 1.05 * 2.5)):
        p50 = of(list(predicted([missed], changes, seed=1).figures), "latency_p50", "/t2")
        assert p50.low == pytest.approx(low * MS)
        assert p50.high == pytest.approx(high * MS)


def test_what_ran_in_one_period_stays_together_when_blocks_are_drawn() -> None:
    """Two timers of 10 ms take 1 to 4 ms and the rest of 5: a message from the start waits 5.

    If a block began amid a period, one would repeat another period than the other, and the message
    would wait from 2 to 8 ms.
    """
    first = [(1 + n % 4) * MS for n in range(100)]
    together = altered(0, executions=Samples(at_ns=every(0).at_ns, value_ns=first))
    sent = [Publication(execution=n, offset_ns=0, topic="/t2") for n in range(100)]
    altered(0, together, publications=sent)
    altered(1, together, executions=every(MS), gaps=Samples(), waits_ns=[5 * MS] * 100)
    rest = Samples(
        at_ns=[n * 10 * MS + took for n, took in enumerate(first)],
        value_ns=[5 * MS - took for took in first],
    )
    timer = {"kind": "timer", "name": "10 ms", "period_ns": 10 * MS, "phase_ns": 0}
    together.callbacks.append(callback(4, executions=rest, handovers=every(0), **timer))
    for metric in ("latency_p50", "latency_p99"):
        figure = of(list(predicted([together], Changes(), seed=1).figures), metric, "/t2")
        assert (figure.recorded, figure.value, figure.low, figure.high) == (5 * MS,) * 4


def test_blocks_keep_the_phases_of_the_timers_that_run_most() -> None:
    """Of 1 s, blocks are 50 ms: 10 and 20 ms fit in, 33 with them do not, nor does 60."""
    timers = [(33, 30), (10, 100), (20, 50), (60, 16)]
    several = model()
    several.callbacks[1:] = [
        callback(n, kind="timer", period_ns=ms * MS, phase_ns=0, executions=every(0, ms * MS, ran))
        for n, (ms, ran) in enumerate(timers, start=2)
    ]
    assert system.common_period_ns(several) == 20 * MS
    several.callbacks[:] = several.callbacks[-1:]
    assert system.common_period_ns(several) == 1


def test_fewer_cpus_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three threads on one CPU get equal parts of it while they run at the same time.

    0 to 2 ms: timer and /t3, 1 ms each, which ends /t3; the timer publishes. 2 to 8 ms: the last 3
    of the timer, and the receiver's 3.
    """
    monkeypatch.setattr(system, "LEAST_BLOCKS", 1)  # executions come as they were recorded
    two = model("MultiThreaded").model_copy(update={"execution_time": "own"})
    two.executors[0] = two.executors[0].model_copy(update={"threads": 2})
    altered(1, two, gaps=every(0), handovers=every(0))
    first = simulated(two, 1, 1, cpus=1, schedule=True)["schedule"]
    ends = {c: end for c, _, _, end in first[:3]}
    assert ends == {2: 2 * MS, 0: 8 * MS, 1: 8 * MS}


def test_an_overload_loses_what_the_queue_does_not_hold() -> None:
    """The receiver takes 20 ms; the timer takes 4 and is due every 10.

    In a wait set the timer comes once per message, and periods due meanwhile are skipped: nothing
    is lost. EventsExecutor queues each call, and messages with them, more than the ten that may
    wait.
    """
    figures = list(
        predicted([model()], Changes(took=[DurationChange.of("callback=/n2:20ms")]), 1).figures
    )
    lost = of(figures, "lost", "/t2")
    assert (lost.recorded, lost.value, lost.high) == (0, 0, 0)
    events = Changes(executor="Events", took=[DurationChange.of("callback=/n2:20ms")])
    lost_by_events = of(list(predicted([model()], events, 1).figures), "lost", "/t2")
    assert lost_by_events.value > 0.2


def test_a_rate_that_the_executor_does_not_keep_up_with_is_said() -> None:
    """One round has 4 ms of timer, 1 of gap and 3 of the receiver: 125 times in a second."""
    assumptions = " ".join(predicted([model()], Changes(rates=[("/t2", 500.0)]), 1).assumptions)
    match = re.search(r"/t2 reaches about (\d+) of 500 Hz", assumptions)
    assert match
    assert int(match[1]) == pytest.approx(125, rel=0.02)
    assumptions = predicted([model()], Changes(rates=[("/t2", 50.0), ("/t3", 40.0)]), 1).assumptions
    assert not [assumption for assumption in assumptions if "reaches" in assumption]


def test_a_timer_that_the_simulation_executes_less_often_is_said() -> None:
    """One round takes 12 ms, 1 of gap and 3 of the receiver: 62.5 in a second, not 100."""
    long = altered(0, executions=every(12 * MS))
    assumptions = " ".join(predicted([long], Changes(), 1).assumptions)
    assert re.search(r"executes the 10 ms timer of /n1 3[678]% less often than it ran", assumptions)
    assert "less often" not in " ".join(predicted([model()], Changes(), 1).assumptions)


def test_cpu_reaches_as_far_as_its_recording_was_missed() -> None:
    """80 of the 100 executions that were due were recorded: 0.56 + 0.02 cores, not 0.72."""
    sent = model().callbacks[0].publications[:80]
    fewer = altered(0, executions=every(4 * MS, count=80), publications=sent)
    altered(1, fewer, executions=every(3 * MS, count=80))
    cpu = of(list(predicted([fewer], Changes(), 1).figures), "cpu")
    assert cpu.recorded == pytest.approx(0.58)
    assert cpu.simulated == pytest.approx(0.72, abs=0.01)
    assert cpu.low <= cpu.recorded * 1.02


def test_what_is_not_reproduced_is_refused() -> None:
    wrong = altered(1, waits_ns=[5 * MS] * 100)
    prediction = predicted([wrong], Changes(executor="Events"), 1)
    assert (
        "latency_p50: the simulation of what was recorded is -20% off, more than 10%"
        in prediction.refused
    )
    p99 = of(list(prediction.figures), "latency_p99", "/t2")
    assert (p99.simulated, p99.value) == (4 * MS, None)  # 20 % are within its bar
    for figure in prediction.figures:
        assert figure.refused is not None
        assert (figure.value, figure.low, figure.high) == (None, None, None)
    assert not any(curve.value for curve in prediction.curves)


def test_what_never_comes_has_a_loss_but_no_latency() -> None:
    """The timer's callback takes 20 s: in a second nothing else runs, and nothing is lost."""
    changes = Changes(took=[DurationChange.of("callback=10 ms:20s")])
    figures = list(predicted([model()], changes, 1).figures)
    assert of(figures, "latency_p50", "/t2").refused == "in a simulation nothing came to it"
    assert of(figures, "lost", "/t2").value == 0


def test_no_changes_are_no_changes_in_whatever_sequence() -> None:
    assert Changes(took=[], rates=[]) == Changes()


def test_no_evidence_is_named() -> None:
    silent = altered(1, waits_ns=[])
    assert "no subscription" in str(predicted([silent], Changes(), 1).refused)
    lossy = model().model_copy(update={"tracer_lost": True})
    assert "the tracer lost" in str(predicted([lossy], Changes(), 1).refused)
    assumptions = " ".join(predicted([model()], Changes(), 1).assumptions)
    assert "factors" not in assumptions
    assumptions = " ".join(predicted([model()], Changes(executor="Events"), 1).assumptions)
    assert "times factors for other executors" in assumptions
    assert "Callback groups were not recorded" in assumptions
    assert "Priorities were not recorded" in assumptions
    assert "idle thread" not in assumptions  # no message finds one


def test_executions_that_shared_a_cpu_predict_nothing_else() -> None:
    shared = model().model_copy(update={"shared_cpu": 0.24})
    prediction = predicted([model(), shared], Changes(executor="Events"), 1)
    assert "for 24% of their time, callbacks shared a CPU" in str(prediction.refused)
    assert not prediction.figures
    assert predicted([shared], Changes(), 1).refused is None
    little = model().model_copy(update={"shared_cpu": 0.1})
    assert predicted([little], Changes(executor="Events"), 1).refused is None


def test_more_threads_may_share_a_cpu() -> None:
    for changes, said in (
        (Changes(executor="EventsCBG", threads=2), True), (Changes(executor="Events"), False),
        (Changes(executor="EventsCBG", threads=2, cpus=1), False),
    ):  # fmt: skip
        assumptions = predicted([altered(1, handovers=every(0))], changes, 1).assumptions
        assert any("let them share a CPU" in text for text in assumptions) == said


def test_the_order_in_a_wait_set_is_the_recorded_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two receivers of one message, the later one goes first if its place says so."""
    monkeypatch.setattr(system, "LEAST_BLOCKS", 1)

    def starts(first: int | None, second: int | None) -> list[int]:
        recorded = model()
        for place, shown in ((1, first), (2, second)):
            altered(place, recorded, name="/t2", place=shown, executor=0, gaps=every(0))
        executions = simulated(recorded, 1, 1, schedule=True)["schedule"]
        return [callback for callback, *_ in executions[:3]]

    assert starts(None, None) == [0, 1, 2]
    assert starts(1, 0) == [0, 2, 1]
    assert starts(0, 1) == [0, 1, 2]


def test_a_seed_repeats_a_prediction_and_runs_are_taken_together() -> None:
    slower = altered(1, gaps=every(2 * MS), waits_ns=[5 * MS] * 100)
    models = [model(), slower]
    assert predicted(models, Changes(), 3) == predicted(models, Changes(), 3)
    p50 = of(list(predicted(models, Changes(), 3).figures), "latency_p50", "/t2")
    assert (p50.recorded, p50.value) == (4.5 * MS, 4.5 * MS)
    assert (p50.low, p50.high) == (4 * MS, 5 * MS)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            Changes(took=[DurationChange("/n9", factor=2)]),
            "no callback of a node or a name /n9; there are",
        ),
        (Changes(rates=[("/t9", 1.0)]), "nobody published /t9; there are /t2, /t3"),
        (Changes(executor="Events", threads=2), "Events has one thread"),
        (Changes(threads=2), "SingleThreaded has one thread"),
        (Changes(took=[DurationChange.of("callback=/n2:99999999999s")]), "longer than 100 days"),
        (Changes(took=[DurationChange.of(f"callback=/n2:{'9' * 400}x")]), "longer than 100 days"),
        (Changes(rates=[("/t2", 1e-12)]), "not between"),
        (Changes(rates=[("/t3", 1e11)]), "not between"),
    ],
)
def test_changes_that_do_not_fit_are_refused(changes: Changes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        changed(model(), changes)


def test_the_rate_of_what_is_triggered_cannot_be_given() -> None:
    chained = altered(1, publications=[Publication(execution=0, offset_ns=0, topic="/t4")])
    with pytest.raises(UsageError, match="/n2 publishes it when /t2 triggers it"):
        changed(chained, Changes(rates=[("/t4", 5.0)]))


def test_threads_of_another_executor_are_one_per_cpu() -> None:
    threaded = Changes(executor="MultiThreaded")
    assert [executor.threads for executor in changed(model(cpus=4), threaded).executors] == [4, 4]
    assert [executor.threads for executor in changed(model(cpus=1), threaded).executors] == [2, 2]
    with pytest.raises(UsageError, match="give --threads"):
        changed(model(cpus=None), threaded)
    assert changed(model(), replace(threaded, threads=3)).executors[0].threads == 3


@pytest.mark.parametrize("text", ["", "callback=/a", "callback=/a:2", "/a:+2ms", "callback=/a:+2x"])
def test_times_that_say_something_else(text: str) -> None:
    with pytest.raises(UsageError, match="expected such as callback=/planner"):
        DurationChange.of(text)


@pytest.mark.parametrize("text", ["", "/scan", "/scan=60", "/scan=0Hz", "=60Hz", "/scan=-1Hz"])
def test_rates_that_say_something_else(text: str) -> None:
    with pytest.raises(UsageError, match="expected such as /scan=60Hz"):
        rate_of(text)


def test_texts_are_read() -> None:
    assert DurationChange.of("callback=/a b:-1.5us") == DurationChange("/a b", add_ns=-1500)
    assert DurationChange.of("callback=10 ms:+2s") == DurationChange("10 ms", add_ns=2e9)
    assert DurationChange("/a", add_ns=-10).applied(4) == 0
    assert rate_of("/a=b=2.5Hz") == ("/a=b", 2.5)


def test_executors_have_their_names_and_those_of_suites() -> None:
    for name in ("MultiThreaded", "multi", "multithreaded"):
        assert executor_kind(name) == "MultiThreaded"
    assert executor_kind("events_cbg") == executor_kind("EventsCBGMultiThreaded") == "EventsCBG"
    with pytest.raises(UsageError, match="no executor 'many'; there are SingleThreaded, Multi"):
        executor_kind("many")


def test_a_cell_without_factors_is_not_named() -> None:
    (table,) = prediction_parts({NO_FACTORS: predicted([model()], Changes(), 1)})
    assert table.caption.startswith("What if nothing changed: recorded,")


def test_no_end_is_an_error() -> None:
    sent = [Publication(execution=n, offset_ns=0, topic="/t3") for n in range(20)]
    endless = altered(2, executions=every(0, 50 * MS, 20), publications=sent)
    with pytest.raises(UsageError, match="callbacks trigger each other without end: more than"):
        predicted([endless], Changes(), 1)
