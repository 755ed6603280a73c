"""Test the simulation: schedules by hand, and a second implementation on small random systems."""

import random
from typing import Any

import pytest
from plain_executors import STEP, Callback, Schedule, World

from roslens.collectors._native import simulate

ORDERS = {
    "SingleThreaded": "wait_set", "MultiThreaded": "wait_set",
    "Events": "events", "EventsCBG": "groups",
}  # fmt: skip


def native(world: World, **more: Any) -> dict[str, Any]:
    """Convert the world for the simulation: one block, so that times are the recording's."""

    def series(values: list[int]) -> dict[str, list[int]]:
        return {"at": [n * STEP for n in range(len(values))], "value": values}

    callbacks = [
        {
            "kind": c.kind, "place": None, "executor": c.executor, "group": c.group,
            "depth": c.depth, "period": c.period, "phase": c.phase, "lag": 0,
            "executions": series(c.takes),
            "outputs": [c.publishes] * len(c.takes), "handovers": series([c.handover]),
            "gaps": series([c.gap]), "takeovers": c.takeovers,
        }
        for c in world.callbacks
    ]  # fmt: skip
    polls = world.polls or [0] * len(world.executors)
    executors = [
        {
            "order": ORDERS[kind], "threads": count, "interrupts": kind == "MultiThreaded",
            "priority": 0, "polls": series([poll]),
        }
        for (kind, count), poll in zip(world.executors, polls, strict=True)
    ]  # fmt: skip
    sources = [{"at": times, "topic": topic} for times, topic in world.sources]
    return {
        "callbacks": callbacks, "executors": executors, "exclusive": world.exclusive,
        "topics": world.topics, "sources": sources, "length": world.length,
        "block": world.length, "step": 1, "cpus": None, "most": 10**7, **more,
    }  # fmt: skip


def schedule(world: World, **more: Any) -> list[tuple[int, int, int, int]]:
    return list(simulate(native(world, **more), [], [], 1, 1, True)["schedule"])


def starts(world: World, **more: Any) -> list[tuple[int, int]]:
    return [(callback, start) for callback, _, start, _ in schedule(world, **more)]


def timer(period: int, takes: int, **more: Any) -> Callback:
    given = {"executor": 0, "group": 0, "takes": [takes], "kind": 0, "period": period, **more}
    return Callback(**given)


def one(kind: str, threads: int, callbacks: list[Callback], length: int, **more: Any) -> World:
    groups = 1 + max(c.group for c in callbacks)
    world = World(callbacks, [(kind, threads)], [True] * groups, [], [], length)
    for name, value in more.items():
        setattr(world, name, value)
    return world


def test_two_timers_in_one_thread() -> None:
    """Timers of 10 and 15 are due at 0; the second waits for the first one's 4 (and 3 of gap)."""
    timers = [timer(10, 4), timer(15, 5, gap=3)]
    assert schedule(one("SingleThreaded", 1, timers, 43)) == [
        (0, 0, 0, 4),
        (1, 0, 7, 12),
        (0, 10, 12, 16),
        (1, 15, 19, 24),
        (0, 20, 24, 28),
        (0, 30, 30, 34),
        (1, 30, 37, 42),
    ]


def test_two_groups_on_two_threads_and_one_group_on_two() -> None:
    two_groups = [timer(10, 6), timer(10, 6, group=1)]
    assert starts(one("MultiThreaded", 2, two_groups, 20)) == [(0, 0), (1, 0), (0, 10), (1, 10)]
    together = [timer(10, 3), timer(10, 3)]
    assert starts(one("MultiThreaded", 2, together, 20)) == [(0, 0), (1, 3), (0, 10), (1, 13)]


@pytest.mark.parametrize("kind", ["SingleThreaded", "Events", "EventsCBG"])
def test_a_full_queue_gives_its_oldest_message_away(kind: str) -> None:
    """Messages come at 0, 1, 2, 3, 4 and take 10 each; two wait at most: 1 and 2 are lost."""
    world = one(
        kind, 1, [Callback(0, 0, [10], depth=2)], 40, topics=[[0]], sources=[([0, 1, 2, 3, 4], 0)]
    )
    result = simulate(native(world), [0], [0.5], 1, 1, True)
    assert [ready for _, ready, _, _ in result["schedule"]] == [0, 3, 4]
    assert (result["lost"], result["executions"]) == ([[2]], [[3]])
    # Waits are 0, 7 and 16.
    assert result["waits"] == [[[7.0], [7.0]]]
    assert result["busy"] == [[30]]


def test_a_late_timer_skips_periods_or_catches_up() -> None:
    """With period 10 and 25 each, rcl skips what has passed; EventsExecutor has queued it."""
    late = [timer(10, 25)]
    for kind, ready in (("SingleThreaded", [0, 10, 30]), ("Events", [0, 10, 20])):
        assert [execution[1] for execution in schedule(one(kind, 1, late, 80))] == ready
    # The timer is armed after its execution: due at 10 it starts at 25, then 30 is due, at 50.
    assert schedule(one("EventsCBG", 1, late, 80)) == [
        (0, 0, 0, 25),
        (0, 10, 25, 50),
        (0, 30, 50, 75),
    ]


def test_the_wait_set_prefers_timers_and_events_come_in_their_order() -> None:
    """While a callback runs until 20, a message comes at 5 and a timer is due at 10."""
    long, short = Callback(0, 0, [20]), Callback(0, 1, [1])
    due = timer(1000, 1, phase=10, group=2)
    parts: dict[str, Any] = {"topics": [[0], [1]], "sources": [([0], 0), ([5], 1)]}
    assert starts(one("SingleThreaded", 1, [long, short, due], 50, **parts))[1:] == [
        (2, 20),
        (1, 21),
    ]
    for kind in ("Events", "EventsCBG"):
        assert starts(one(kind, 1, [long, short, due], 50, **parts))[1:] == [(1, 20), (2, 21)]


def test_groups_take_turns() -> None:
    """Three messages for one group, then one for another: EventsCBG lets that one go second."""
    parts: dict[str, Any] = {"topics": [[0], [1]], "sources": [([0, 1, 2], 0), ([3], 1)]}
    callbacks = [Callback(0, 0, [10]), Callback(0, 1, [10])]
    assert [c for c, _ in starts(one("EventsCBG", 1, callbacks, 60, **parts))] == [0, 1, 0, 0]
    assert [c for c, _ in starts(one("Events", 1, callbacks, 60, **parts))] == [0, 0, 0, 1]


def test_publications_trigger_at_their_place() -> None:
    """A timer takes 6 and publishes after 2; its receiver runs on another thread at once."""
    chain = [timer(20, 6, publishes=[(2, 0)]), Callback(0, 1, [5])]
    for threads, start in ((1, 6), (2, 2)):
        world = one("MultiThreaded", threads, chain, 20, topics=[[1]])
        assert (1, 2, start, start + 5) in schedule(world)


def test_a_thread_that_is_woken_begins_with_what_is_first_then() -> None:
    """A message at 1 wakes it at 8; the timer, due at 5, goes first, and runs from 9 to 11."""
    parts: dict[str, Any] = {"topics": [[0]], "sources": [([1], 0)]}
    callbacks = [Callback(0, 0, [4], handover=9, gap=2), timer(100, 2, phase=5, gap=1)]
    world = one("SingleThreaded", 1, callbacks, 50, **parts)
    assert schedule(world) == [(1, 5, 9, 11), (0, 1, 13, 17)]
    # With an events executor each starts when it may.
    assert schedule(one("Events", 1, callbacks, 50, **parts)) == [(0, 1, 10, 14), (1, 5, 15, 17)]


@pytest.mark.parametrize("kind", ["Events", "EventsCBG"])
def test_timers_of_events_executors_are_told_by_a_thread_of_their_own(kind: str) -> None:
    """A callback runs until 20. A timer due at 5 is told of at 9, after a message of 7, or at 6."""
    long, short = Callback(0, 0, [20]), Callback(0, 1, [1])
    parts: dict[str, Any] = {"topics": [[0], [1]], "sources": [([0], 0), ([7], 1)]}
    for handover, then in ((4, [(1, 20), (2, 23)]), (1, [(2, 22), (1, 23)])):
        due = timer(1000, 1, phase=5, group=2, handover=handover, gap=2)
        assert starts(one(kind, 1, [long, short, due], 50, **parts))[1:] == then
    # An idle thread begins at once.
    assert starts(one(kind, 1, [timer(1000, 1, phase=5, handover=4, gap=2)], 50)) == [(0, 9)]


def test_executions_repeat_what_was_recorded_nearest_to_their_time() -> None:
    """Durations are recorded at 0, 50 and 100; of two equally near, the later counts."""
    world = one("SingleThreaded", 1, [timer(25, 1)], 120)
    world.callbacks[0].takes = [1, 2, 3]
    took = [(start, end - start) for _, _, start, end in schedule(world)]
    assert took == [(0, 1), (25, 2), (50, 2), (75, 3), (100, 3)]


def test_one_thread_waits_and_keeps_the_other_from_it() -> None:
    """At 3 the poll from 0 on ends: the first thread takes one message, the second the other.

    A third message at 4 is found by whichever thread is free first, at 8, after a poll of 3.
    """
    callbacks = [Callback(0, n, [5]) for n in range(3)]
    parts: dict[str, Any] = {"topics": [[0, 1], [2]], "sources": [([0], 0), ([4], 1)]}
    world = one("MultiThreaded", 2, callbacks, 50, polls=[3], **parts)
    assert starts(world) == [(0, 3), (1, 3), (2, 11)]


@pytest.mark.parametrize(("takeovers", "start"), [([], 5), ([3], 9), ([9], 12)])
def test_a_thread_that_comes_back_before_the_takeover_waits_itself(
    takeovers: list[int], start: int
) -> None:
    """After a poll of 3, a timer runs from 3 to 9 and publishes at 5.

    The second thread sleeps from 3 on and is woken at 5, or waits from 6 on and finds the message
    after its poll, at 9. If it came at 12, the first one is back before: it waits from 9 on and
    finds the message at 12.
    """
    chain = [timer(100, 6, publishes=[(2, 0)], takeovers=takeovers), Callback(0, 1, [5])]
    world = one("MultiThreaded", 2, chain, 50, topics=[[1]], polls=[3])
    assert sorted(starts(world)) == [(0, 3), (1, start)]


def test_a_waitable_is_executed_though_it_became_ready_after_the_wait() -> None:
    """A timer runs from 3 to 9 and publishes at 5; a subscription needs another poll of 3."""
    for kind, start in ((4, 9), (1, 12)):
        chain = [timer(100, 6, publishes=[(2, 0)]), Callback(0, 1, [5], kind)]
        world = one("SingleThreaded", 1, chain, 50, topics=[[1]], polls=[3])
        assert starts(world) == [(0, 3), (1, start)]


def test_what_runs_when_entities_are_collected_comes_last_in_the_wait_set() -> None:
    """After a poll of 1, the first runs until 4 and the second until 21, on the other thread.

    The wait after the first is interrupted by its end, so the next one collects entities: the
    second is not among them. It comes back behind the third, which goes first at 30, on the one
    thread that is left. SingleThreaded never collects while something runs.
    """
    callbacks = [Callback(0, n, takes) for n, takes in enumerate(([3, 1], [20, 1], [1]))]
    callbacks.append(Callback(0, 3, [20]))
    parts: dict[str, Any] = {
        "topics": [[0, 1], [1, 2], [3]], "sources": [([0], 0), ([30], 1), ([22], 2)], "polls": [1],
    }  # fmt: skip
    world = one("MultiThreaded", 2, callbacks, 50, **parts)
    assert starts(world) == [(0, 1), (1, 1), (2, 30), (1, 31), (3, 22)]
    world = one("SingleThreaded", 1, callbacks, 50, **parts)
    assert [callback for callback, _ in starts(world)][-2:] == [1, 2]


def test_callbacks_without_a_place_stand_in_the_order_of_their_creation() -> None:
    callbacks = [Callback(0, n, [1]) for n in range(3)]
    world = one("SingleThreaded", 1, callbacks, 10, topics=[[2, 0, 1]], sources=[([0], 0)])
    assert [callback for callback, _ in starts(world)] == [0, 1, 2]


def test_cpus_are_shared_and_priorities_go_first() -> None:
    """Two executions of 10 on one CPU both end at 20 as equals; a higher one ends at 10."""
    callbacks = [timer(100, 10), timer(100, 10, executor=1, group=1)]
    world = World(callbacks, [("SingleThreaded", 1)] * 2, [True, True], [], [], 100)
    assert [end for *_, end in schedule(world, cpus=1)] == [20, 20]
    assert [end for *_, end in schedule(world, cpus=2)] == [10, 10]
    first = native(world, cpus=1)
    first["executors"][1]["priority"] = 1
    ended = simulate(first, [], [], 1, 1, True)["schedule"]
    assert [(callback, end) for callback, _, _, end in ended] == [(1, 10), (0, 20)]


def random_world(seed: int) -> World:
    """Draw a few callbacks of all kinds in one or two executors, with times that often collide."""
    draw = random.Random(seed)
    executors = [
        draw.choice(
            [("SingleThreaded", 1), ("MultiThreaded", draw.randint(1, 3)), ("Events", 1),
             ("EventsCBG", draw.randint(1, 3))]
        )
        for _ in range(draw.randint(1, 2))
    ]  # fmt: skip
    owners = [draw.randrange(len(executors)) for _ in range(draw.randint(1, 4))]  # of groups
    callbacks = []
    for _ in range(draw.randint(1, 6)):
        group = draw.randrange(len(owners))
        kind = draw.choice([0, 0, 1, 1, 2, 4])
        takes = draw.choices(range(16), k=draw.randint(1, 4))
        takeovers = draw.choices(range(-5, 20), k=len(takes))
        callbacks.append(
            Callback(
                owners[group], group, takes, kind,
                period=draw.randint(5, 40) if kind == 0 else None, phase=draw.randint(0, 20),
                depth=draw.choice([None, 1, 2, 5]), handover=draw.randint(0, 5),
                gap=draw.randint(0, 5), takeovers=draw.choice([[], takeovers]),
            )
        )  # fmt: skip
    receivers = [n for n, c in enumerate(callbacks) if c.kind]
    topics = [
        draw.sample(receivers, draw.randint(1, len(receivers))) for _ in range(3 * bool(receivers))
    ]
    for number, callback in enumerate(callbacks):
        # Only to later ones, so that nothing triggers itself without an end.
        later = [t for t, to in enumerate(topics) if min(to) > number]
        callback.publishes = sorted(
            (draw.randint(0, 10), draw.choice(later))
            for _ in range(draw.randint(0, 2) * bool(later))
        )
    sources = [
        (sorted(draw.randrange(300) for _ in range(draw.randint(0, 20))), t)
        for t in range(len(topics))
    ]
    exclusive = [draw.random() < 0.7 for _ in owners]
    polls = [draw.randint(0, 5) for _ in executors]
    return World(callbacks, executors, exclusive, topics, sources, 300, polls)


@pytest.mark.parametrize("block", range(20))
def test_a_second_implementation_gives_the_same_schedule(block: int) -> None:
    executed = 0
    for seed in range(100 * block, 100 * (block + 1)):
        world = random_world(seed)
        plain = Schedule(world)
        result = simulate(native(world), [], [], 1, 1, True)
        assert sorted(result["schedule"]) == sorted(plain.done), seed
        assert result["lost"] == [plain.lost], seed
        executed += len(plain.done)
    assert executed > 2000


def resampled(seed: int | None, replications: int = 3) -> dict[str, Any]:
    """Simulate a timer of 10 with executions of 1 to 5, in blocks of a tenth of the recording."""
    at = list(range(0, 10_000, 10))
    draw = random.Random(5)
    callback = timer(10, 1, publishes=[(1, 0)])
    callback.takes = [draw.randint(1, 5) for _ in at]
    world = one("SingleThreaded", 1, [callback, Callback(0, 0, [2])], 10_000, topics=[[1]])
    system = native(world, block=1000)
    system["callbacks"][0]["executions"]["at"] = at
    return dict(simulate(system, [1], [0.5, 0.99], replications, seed, True))


def test_a_seed_gives_the_same_and_another_one_does_not() -> None:
    assert resampled(7) == resampled(7)
    assert resampled(7)["schedule"] != resampled(8)["schedule"]
    first, second, _ = resampled(7)["busy"]
    assert first != second


def test_blocks_keep_the_order_of_the_recording() -> None:
    """Within each of the ten blocks durations follow each other as they were recorded."""
    draw = random.Random(5)
    takes = [draw.randint(1, 5) for _ in range(1000)]
    took = [end - start for c, _, start, end in resampled(7, 1)["schedule"] if c == 0]
    for begin in range(0, 1000, 100):
        block = took[begin : begin + 99]
        assert any(takes[n : n + len(block)] == block for n in range(901)), begin


def test_without_a_seed_the_recording_is_repeated() -> None:
    draw = random.Random(5)
    takes = [draw.randint(1, 5) for _ in range(1000)]
    result = resampled(None, 2)
    assert [end - start for c, _, start, end in result["schedule"] if c == 0] == 2 * takes


def test_blocks_from_before_a_timer_was_made_have_no_timer() -> None:
    """The timer is first due after half of the recording: 500 times, and so in resampled ones."""
    system = native(one("SingleThreaded", 1, [timer(10, 1, phase=5000)], 10_000), block=500)
    assert simulate(system, [], [], 1, None, False)["executions"] == [[500]]
    counts = [count for (count,) in simulate(system, [], [], 200, 1, False)["executions"]]
    assert abs(sum(counts) / 200 - 500) < 50
    assert len(set(counts)) > 10


def test_an_unknown_order_is_an_error() -> None:
    system = native(one("SingleThreaded", 1, [timer(10, 1)], 20))
    system["executors"][0]["order"] = "lottery"
    with pytest.raises(TypeError, match="executors") as error:
        simulate(system, [], [], 1, 1, False)
    assert "lottery" in str(error.value.__cause__.__cause__)


def test_what_triggers_itself_at_once_without_end_is_an_error() -> None:
    world = one(
        "Events", 1, [Callback(0, 0, [0], publishes=[(0, 0)])], 20, topics=[[0]], sources=[([1], 0)]
    )
    with pytest.raises(ValueError, match="more than 1000 executions"):
        simulate(native(world, most=1000), [], [], 1, 1, False)
