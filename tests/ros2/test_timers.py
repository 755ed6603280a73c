"""Test timer activations against their grid; expected rows by hand, times in microseconds."""

from collections.abc import Callable
from random import Random

import pytest
from ros2_trace import Trace, at, findings, rows

NODE, TIMER, CALLBACK = 0x10, 0x20, 0x30


def timer(period_us: int, *starts: float) -> Trace:
    """Make a timer that starts at these times."""
    trace = Trace()
    trace.node(1, NODE, "clock")
    trace.timer(5, TIMER, period_us * 1000, callback=CALLBACK, node=NODE)
    for us in starts:
        trace.run(us, CALLBACK)
    return trace


def found(trace: Trace) -> list[tuple[object, ...]]:
    frame = trace.tables()["timer_activations"]
    plain = frame.rename({"interval_ns": "interval", "jitter_ns": "jitter", "lateness_ns": "late"})
    names = ("start_ns", "interval", "jitter", "release_ns", "late", "skipped")
    return rows(plain, *names)


def test_lateness_is_counted_from_the_least_late_activation() -> None:
    """The period is 100; starts are 3, 0, 8 and 1 after the grid points 200, 300, 400 and 500."""
    trace = timer(100, 203, 300, 408, 501)
    assert found(trace) == [
        (203, None, None, 200, 3_000, 0),
        (300, 97_000, -3_000, 300, 0, 0),
        (408, 108_000, 8_000, 400, 8_000, 0),
        (501, 93_000, -7_000, 500, 1_000, 0),
    ]
    activations = trace.tables()["timer_activations"]
    assert rows(activations, "timer_id", "node", "period_ns", "callback_instance_id", "vtid") == [
        (0, "/clock", 100_000, k, 1) for k in range(4)
    ]
    assert findings(trace.tables()) == {}


@pytest.mark.parametrize(
    ("starts", "others"),
    [
        # rcl calls a timer once, however late, and goes on with its grid: the release of 700 has
        # passed when that of 600 starts.
        ([200, 300, 400, 500, 760, 800, 900, 1000], {760: (600, 160_000, 1)}),
        # If calls are queued, each serves its release, as nothing else could before 800.
        ([200, 300, 400, 760, 770, 780, 800, 900, 1000],
         {760: (500, 260_000, 0), 770: (600, 170_000, 0), 780: (700, 80_000, 0)}),
        # The release of 400 may be served after the recording.
        ([200, 430], {430: (300, 130_000, None)}),
        ([*range(200, 500, 100), 540, 680, *range(700, 3400, 100)],
         {540: (500, 40_000, 0), 680: (600, 80_000, 0)}),
        # Late by most of a period is not early.
        ([100 * k + 72 * (k % 3 == 1) for k in range(2, 31)],
         {100 * k + 72: (100 * k, 72_000, 0) for k in range(4, 31, 3)}),
    ],
)  # fmt: skip
def test_which_release_a_start_serves(
    starts: list[int], others: dict[int, tuple[int, int, int | None]]
) -> None:
    """The starts that are not named each serve the release of their own time, and skip none."""
    served = {us: others.get(us, (us, 0, 0)) for us in starts}
    assert {row[0]: row[3:] for row in found(timer(100, *starts))} == served


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(lambda random: random.choice([*[40] * 9, 1]), id="two"),
        pytest.param(lambda random: min(max(round(random.gauss(40, 10)), 0), 90), id="normal"),
        pytest.param(lambda random: random.randrange(90), id="uniform"),
        pytest.param(lambda random: random.randrange(70, 90) * (random.random() > 0.02), id="rare"),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_however_late_within_the_period_nothing_is_skipped(
    late: Callable[[Random], int], seed: int
) -> None:
    """Each of 300 releases has its start, late by known times; the least late is on the grid."""
    random = Random(seed)
    after = [late(random) for _ in range(300)]
    trace = timer(100, *(100 * k + us for k, us in enumerate(after, 2)))
    least = [min(after[max(k - 50, 0) : k + 51]) for k in range(300)]
    expected = [(1000 * (us - low), 0) for us, low in zip(after, least, strict=True)]
    assert [row[4:] for row in found(trace)] == expected


@pytest.mark.parametrize("ppm", [-200, 0, 200])
def test_a_clock_that_runs_otherwise_than_the_timers_is_not_taken_for_lateness(ppm: int) -> None:
    """Over 2,000 periods of 1 ms the grid slides by 400 us; within 101 of them, 10 us show."""
    trace = timer(1000)
    for k in range(2000):
        trace.run(10_000 + 1000 * k * (1 + ppm / 1e6), CALLBACK, lasts=None)
    activations = trace.tables()["timer_activations"]
    assert activations["lateness_ns"].max() <= 50 * abs(ppm)
    assert activations["skipped"].sum() == 0


def test_two_timers_each_have_their_grid() -> None:
    trace = timer(100, 250, 350)
    trace.timer(8, 0x21, 1_000_000, callback=0x31, node=NODE)
    for us in (270, 1270):
        trace.run(us, 0x31)
    frame = trace.tables()["timer_activations"]
    assert rows(frame, "timer_id", "start_ns", "release_ns", "skipped") == [
        (0, 250, 250, 0), (1, 270, 270, 0), (0, 350, 350, 0), (1, 1270, 1270, 0),
    ]  # fmt: skip


def test_a_timer_without_period_or_without_init_has_no_grid() -> None:
    trace = timer(0, 100, 107)
    assert found(trace) == [
        (100, None, None, None, None, None),
        (107, 7_000, 7_000, None, None, None),
    ]
    assert trace.tables()["timer_activations"]["drift_ns"].to_list() == [None, None]
    trace.rows = [row for row in trace.rows if row[0] != "rcl_timer_init"]
    tables = trace.tables()
    assert tables["timer_activations"].is_empty()
    missing = tables["health"].filter(kind="missing_events", where="timer_activations")
    assert "ros2:rcl_timer_init" in missing["what"].item()


def test_drift_is_how_far_the_grid_has_moved_since_the_begin() -> None:
    """Each activation comes 1,000.01 us after the one before: 10 ns of drift per activation.

    The grid at an activation is estimated from the 50 on either side; the least late of them is the
    earliest, as drift only grows: the first for the first 51, the 51st for the 101st.
    """
    trace = timer(1000, *(100 + k * 1000.01 for k in range(201)))
    activations = trace.tables()["timer_activations"]
    assert activations["drift_ns"].to_list() == [10 * max(k - 50, 0) for k in range(201)]
    assert activations["skipped"].sum() == 0


@pytest.mark.parametrize(
    ("loss", "apart"),
    [
        ((320, 380, "h0"), True),
        ((320, 380, "h1"), False),
        ((200, 300, "h0"), False),
        ((1700, 1750, "h0"), False),
    ],
)
def test_over_a_gap_a_timer_begins_anew(loss: tuple[float, float, str], apart: bool) -> None:
    """The period is 100; the releases at 400, 500 and 600 have no start, which the gap may have
    dropped, and 700 starts 10 late (by hand). The grid after the gap has its own least late
    activation; whether others came before its first one is not known, nor is the grid of the two
    before the gap.

    A gap that ends with one start, or begins with the last, does not lie between two.
    """
    trace = timer(100, 200, 300, 710, *range(800, 1701, 100))
    begin, end, host = loss
    trace.lose(begin, end, 3, host=host)
    grid = [row[3:] == (None, None, None) for row in found(trace)[:2]]
    assert grid == ([True, True] if apart else [loss[0] == 200] * 2)
    assert found(trace)[2:4] == [
        (710, None, None, None, None, None) if apart else (710, 410_000, 310_000, 400, 310_000, 3),
        (800, 90_000, -10_000, 800, 0, 0),
    ]


def test_over_a_broken_order_a_timer_begins_anew() -> None:
    """By hand: the end at 405 has no start, so something has been missing since 305."""
    trace = timer(100, 200, 300, 400, 500, 600)
    trace.rows = [
        row for row in trace.rows if (row[0], row[1]["time_ns"]) != ("callback_start", at(400))
    ]
    assert [row[1] for row in found(trace)] == [None, 100_000, None, 100_000]
