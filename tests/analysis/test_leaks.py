"""Test verdicts on memory: injected leaks, plateaus and noise, and refusals."""

import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from roslens.analysis.calibration import zoo
from roslens.analysis.leaks.leak import leak
from roslens.analysis.leaks.segments import verdict_of
from roslens.analysis.leaks.series import Series
from roslens.analysis.leaks.shapes import steps
from roslens.analysis.statistics.over_runs import Interval
from roslens.analysis.verdicts.statement import Verdict

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
SECONDS = np.arange(0, 600, 2.0)


def noise(rng: np.random.Generator, phi: float = 0.9, sd: float = 20e3) -> Floats:
    innovations = rng.normal(0, sd * math.sqrt(1 - phi**2), SECONDS.size + 500)
    return signal.lfilter([1], [1, -phi], innovations)[500:]


def runs(shape: Callable[[Floats], Floats], count: int = 5, seed: int = 0) -> list[Series]:
    rng = np.random.default_rng(seed)
    return [Series(SECONDS, 50e6 + shape(SECONDS) + noise(rng)) for _ in range(count)]


def test_slope_by_hand() -> None:
    # Slopes 10, 11, 12 kB/s exactly: 11 +- 2.484138; per message at 50 Hz a fiftieth.
    t = np.arange(0, 100.0)
    judged = leak("heap", {"a": 1}, [Series(t, k * 1e4 * t, 50 * t) for k in (1.0, 1.1, 1.2)])
    second, message = judged.per_second, judged.per_message
    assert second.metric == "memory_slope_heap"
    assert second.value == pytest.approx(11e3)
    assert second.high == pytest.approx(11e3 + 2484.138, abs=1e-2)
    assert message.value == pytest.approx(220)
    assert message.low == pytest.approx(220 - 49.68276, abs=1e-4)
    assert judged.verdict == second.verdict == message.verdict == "climbs"
    # Noncentral t with 2 degrees of freedom: 80 % beyond 4.302653 at 5.65349 standard errors;
    # s / sqrt 3 = 1000 / sqrt 3, and s is on average .886227 of the true one.
    assert second.minimum_detectable == pytest.approx(5.65349 * 577.3503 / 0.886227, rel=1e-5)
    assert judged.looked_at_s == (5, 99)


@pytest.mark.parametrize(
    ("slope", "rel", "shape"),
    [
        (5000, 0.1, lambda t: 5000 * t),
        # A steep start, and teeth on a floor that climbs.
        (4000, 0.1, lambda t: 5e6 * np.minimum(t / 60, 1) + 4000 * t),
        (5000, 0.05, lambda t: saw(t) + 5000 * t),
    ],
)
def test_climbs(slope: float, rel: float, shape: Callable[[Floats], Floats]) -> None:
    judged = leak("pss", {}, runs(shape))
    assert judged.verdict == "climbs"
    assert judged.per_second.value == pytest.approx(slope, rel=rel)
    assert judged.per_second.low < slope < judged.per_second.high
    assert judged.per_message.refused is not None


def test_stable_with_a_detection_limit() -> None:
    judged = leak("rss", {}, runs(lambda t: 0 * t))
    assert judged.verdict == "stable"
    assert 0 < judged.per_second.minimum_detectable < 1024


def test_levels_off_after_five_minutes() -> None:
    judged = leak("rss", {}, runs(lambda t: 20e3 * np.minimum(t, 300)))
    assert judged.verdict == "levels_off"
    bend = judged.bend_s
    assert bend.value == pytest.approx(300, abs=10)
    assert bend.high - bend.low < 60


def test_levels_off_in_noise() -> None:
    # A rise of only 1.5 MB in noise of 150 kB: two lines remove less than half the error.
    rng = np.random.default_rng(8)
    series = [
        Series(SECONDS, 5e7 + 5000 * np.minimum(SECONDS, 300) + noise(rng, 0.3, 150e3))
        for _ in range(8)
    ]
    assert leak("rss", {}, series).verdict == "levels_off"


def test_too_noisy_to_tell() -> None:
    rng = np.random.default_rng(1)
    wild = [Series(SECONDS, 5e7 + noise(rng, 0.97, 3e6)) for _ in range(5)]
    judged = leak("rss", {}, wild)
    assert judged.verdict == "not_enough_evidence"
    assert judged.per_second.minimum_detectable > 1024


@pytest.mark.parametrize("name", ["ru_maxrss", "peak_rss", "VmHWM"])
def test_peaks_are_refused(name: str) -> None:
    judged = leak(name, {}, runs(lambda t: 5000 * t))
    assert judged.verdict == "not_enough_evidence"
    assert "a peak never falls" in judged.per_second.refused


def test_a_flat_series_is_known_to_two_pages() -> None:
    flat = [Series(SECONDS, np.full(SECONDS.size, 1e7)) for _ in range(5)]
    slope = leak("rss", {}, flat).per_second
    pages = 2 * 4096 / (598 - 6)
    assert (slope.low, slope.high) == (pytest.approx(-pages), pytest.approx(pages))
    assert slope.minimum_detectable > pages


def test_one_run_says_so() -> None:
    judged = leak("rss", {}, runs(lambda t: 5000 * t, 1))
    assert "says nothing about how much runs differ" in judged.per_second.method
    assert judged.per_second.runs == 1
    # With an autocorrelation of .9 and more, even that interval is not to be trusted.
    rng = np.random.default_rng(1)
    slow = leak("rss", {}, [Series(SECONDS, 5e7 + 5000 * SECONDS + noise(rng, 0.99, 1e6))])
    assert slow.verdict == "not_enough_evidence"
    assert "too strong for a verdict" in slow.per_second.method


def test_what_is_refused() -> None:
    two = leak("rss", {}, runs(lambda t: 5000 * t, 2))
    assert two.verdict == "not_enough_evidence"
    assert "at least 3 are needed" in two.per_second.refused
    for nothing in (
        [],
        [Series(SECONDS[:5], SECONDS[:5])] * 3,
        [Series(SECONDS, np.full(SECONDS.size, math.nan))] * 3,
    ):
        judged = leak("rss", {}, nothing)
        assert judged.per_second.refused == "no run has 10 finite samples"
    short = leak("rss", {}, runs(lambda t: t), warm_up_s=590)
    assert short.per_second.refused == "fewer than 10 samples after 590 s of warm-up"


def test_false_alarms_and_power() -> None:
    # 150 experiments of 5 runs each, phi .9: at most 6 % and, at (t.975 + t.80) true standard
    # errors, about 80 % (by the noncentral t: 79 %); Monte Carlo errors 1.9 and 3.3 %.
    rng = np.random.default_rng(4)
    t = SECONDS[::4]

    def experiment(slope: float) -> tuple[str, list[float]]:
        series = [Series(t, 5e7 + slope * t + noise(rng)[::4]) for _ in range(5)]
        judged = leak("heap", {}, series, margin=1e-3)
        return judged.verdict, list(judged.per_second.per_run)

    null = [experiment(0.0) for _ in range(150)]
    assert sum(verdict == "climbs" for verdict, _ in null) / 150 <= 0.06
    error = float(np.concatenate([slopes for _, slopes in null]).std()) / math.sqrt(5)
    detectable = (2.776 + 0.941) * error
    power = sum(experiment(detectable)[0] == "climbs" for _ in range(150)) / 150
    assert power == pytest.approx(0.8, abs=0.1)


def saw(t: Floats, period: float = 60) -> Floats:
    return 1e7 * ((t % period) / period)


@pytest.mark.parametrize(
    ("verdict", "why", "shape"),
    [
        ("steep_start_then_stable", "", lambda t: 5e6 * (1 - np.exp(-t / 20))),
        ("not_enough_evidence", "", lambda t: -5000 * t),  # it is not stable either
        ("climbs", "memory rises in steps, which go on in every run",
         lambda t: 1e6 * np.searchsorted(np.arange(100.0, 600, 100), t, side="right")),
        # The longest pause is that of 300 s to the end; a wait three times as long is needed.
        ("not_enough_evidence", "runs of about 1,200 s", lambda t: 8e6 * (t >= 300)),
        ("steep_start_then_stable", "", lambda t: 8e6 * (t >= 30)),
        ("stable", "9 falls or more in each run: judged by the floor below them", saw),
        # Two falls in 592 s, five periods: 592 * 5 / 2.
        ("not_enough_evidence", "2 in some run where 4 are needed.*about 1,480 s",
         lambda t: saw(t, 250)),
        ("levels_off", "", lambda t: 20e6 * (1 - np.exp(-t / 60))),
        ("not_enough_evidence", "the growth slows down", lambda t: 20e6 * (1 - np.exp(-t / 200))),
        ("not_enough_evidence", "up and down in all runs alike",
         lambda t: 5e6 * np.sin(t / 250 * 2 * np.pi)),
        ("not_enough_evidence", "", lambda t: 20e3 * np.minimum(t, 450)),
        # Growth that was faster for a while goes on to the end, or ends at 450 s, or dies down.
        ("climbs", "", lambda t: 20e3 * (t + np.clip(t - 200, 0, 100))),
        ("not_enough_evidence", "",
         lambda t: 20e3 * (np.minimum(t, 450) + 2 * np.clip(t - 200, 0, 150))),
        ("not_enough_evidence", "", lambda t: 12e6 / (1 + np.exp((300 - t) / 40))),
    ],
)  # fmt: skip
def test_shapes(verdict: Verdict, why: str, shape: Callable[[Floats], Floats]) -> None:
    """Steps, teeth, waves and growth that dies down, which are known by construction."""
    judged = leak("rss", {}, runs(shape))
    assert judged.verdict == verdict
    assert re.search(why, judged.why or "")


def test_noise_that_begins_in_the_middle_is_no_step() -> None:
    rng = np.random.default_rng(1)
    restless = [
        replace(run, values=run.values + rng.normal(0, 600e3, SECONDS.size) * (SECONDS > 300))
        for run in runs(lambda t: 20e3 * t)
    ]
    for run in restless:
        jumps = steps(run.seconds, run.values, 0.6e6)
        assert not jumps.rises.size
        assert not jumps.falls.size


def test_how_long_it_would_take_is_said() -> None:
    rng = np.random.default_rng(1)
    wild = [Series(SECONDS, 5e7 + noise(rng, 0.9, 1e6)) for _ in range(5)]
    judged = leak("rss", {}, wild)
    low, high, value = judged.per_second.low, judged.per_second.high, judged.per_second.value
    # The error goes with the length to the power of -3/2.
    distance = max(abs(value), 1024 - abs(value))
    seconds = 592 * ((high - low) / 2 / distance) ** (2 / 3)
    assert judged.verdict == "not_enough_evidence"
    assert judged.why == f"runs of about {seconds:,.0f} s would probably decide it"
    assert judged.why in judged.per_second.method


def of_shape(shape: zoo.OtherLength, count: int = 8) -> list[str]:
    rng = np.random.default_rng(1)
    return [leak("rss", {}, zoo.simulated(shape, rng, 30e3)).verdict for _ in range(count)]


@pytest.mark.parametrize("length", [60.0, 120.0])
@pytest.mark.parametrize("hz", [1.0, 2.0])
@pytest.mark.parametrize("tau", [2.0, 5.0, 10.0])
def test_a_start_of_short_runs_is_no_leak(length: float, hz: float, tau: float) -> None:
    """60 MB with this time constant level off by definition; there are five runs."""
    shape = zoo.OtherLength("settles", lambda t, _: 60e6 * (1 - np.exp(-t / tau)), length, hz)
    assert "climbs" not in of_shape(shape)


def test_a_leak_of_which_a_part_is_given_back_climbs() -> None:
    """At 50 kB/s for 600 s, freeing 10 MB leaves a leak; freeing everything may be one tooth."""
    part = zoo.OtherLength("leak", lambda t, _: 50e3 * t - 10e6 * (t > 400), 600)
    assert set(of_shape(part)) == {"climbs"}
    everything = zoo.OtherLength("leak", lambda t, _: 50e3 * t - 15e6 * (t > 300), 600)
    assert set(of_shape(everything)) == {"not_enough_evidence"}


@pytest.mark.parametrize("slope", [3e3, 20e3, 100e3])
def test_one_run_of_ten_that_leaks_is_no_stability(slope: float) -> None:
    leaking = zoo.OtherLength("leak", lambda t, _: slope * t, 600, runs=10, only=1)
    assert set(of_shape(leaking)) == {"not_enough_evidence"}


bounds = st.floats(-1e7, 1e7)


@given(bounds, bounds, st.floats(0, 1e6), st.sampled_from(["stable", "levels_off"]))
def test_the_verdict_is_a_function_of_the_interval(
    a: float, b: float, margin: float, flat: Verdict
) -> None:
    low, high = sorted((a, b))
    verdict = verdict_of(Interval(None, low, high), margin, flat)
    assert (verdict == "climbs") == (low > 0 and high >= margin)
    assert (verdict == flat) == (-margin < low and high < margin and not low > 0 <= high - margin)


@st.composite
def memory(draw: st.DrawFn) -> list[Series]:
    """Draw runs of steps, teeth, warm-ups and slopes, in any mixture."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    length, hz = draw(st.sampled_from([30.0, 60, 120, 600])), draw(st.sampled_from([0.5, 1, 2]))
    size, tau, slope = (
        draw(st.sampled_from(choices)) for choices in ([0, 5e6, 6e7], [2, 10, 60], [0, 2e4])
    )
    tooth, period = draw(st.sampled_from([0, 1e7])), draw(st.sampled_from([20, 60, 250]))
    step, at = draw(st.sampled_from([0, 8e6])), draw(st.floats(0, 600))
    t = np.arange(0, length, 1 / hz)
    shape = size * (1 - np.exp(-t / tau)) + slope * t + tooth * (t % period) / period
    return [
        Series(t, 5e7 + shape + step * (t > at) + 3e4 * rng.standard_normal(t.size), 50 * t)
        for _ in range(draw(st.integers(1, 6)))
    ]


@given(memory(), st.sampled_from([1.0, 1024.0, 1e5]))
@settings(max_examples=150)
def test_no_verdict_contradicts_its_own_interval(series: list[Series], margin: float) -> None:
    judged = leak("rss", {}, series, margin=margin)
    for estimate in (judged.per_second, judged.per_message):
        if estimate.verdict == "climbs":
            assert estimate.low > 0
    e = judged.per_second
    if judged.verdict == "climbs":
        assert e.high >= margin
    elif judged.verdict != "not_enough_evidence":
        assert -margin < e.low <= e.high < margin


def test_a_leak_refuses_another_verdict_than_that_of_its_interval() -> None:
    judged = leak("rss", {}, runs(lambda t: 5000 * t))
    with pytest.raises(AssertionError):
        replace(judged, verdict="stable")


@pytest.mark.parametrize(("length", "verdict"), [(10, "not_enough_evidence"), (30, "climbs")])
def test_runs_shorter_than_half_a_minute_get_no_verdict(length: float, verdict: str) -> None:
    """100 kB/s in all of three runs: the slope is the same, but a start can look like that."""
    t = np.arange(0, length, 0.5)
    judged = leak("rss", {}, [Series(t, 1e7 + 1e5 * t)] * 3)
    assert judged.per_second.value == pytest.approx(1e5)
    assert judged.verdict == judged.per_second.verdict == verdict
    assert ("runs of half a minute or more are needed" in str(judged.why)) == (length < 30)
