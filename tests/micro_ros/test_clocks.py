"""Test bounds of offset and drift by exchanges, against what the test itself injects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from roslens.studies.micro_ros.clocks import directions, fit_clocks

Ints = NDArray[np.int64]
EPOCH = 1_790_000_000_000_000_000


@dataclass(frozen=True)
class Truth:
    """Exchanges, with all that is normally not known."""

    stamps: tuple[Ints, Ints, Ints, Ints]
    client_ns: NDArray[np.float64]
    agent_ns: NDArray[np.float64]
    offset_ns: int
    drift: float

    def difference_at(self, agent_ns: float) -> float:
        return self.offset_ns + (agent_ns - EPOCH) * self.drift


def exchanges(
    seed: int,
    count: int,
    offset_ns: int,
    drift_ppb: int,
    *,
    asymmetry: float,
    resolution: int = 1,
    stall_ns: int = 0,
) -> Truth:
    """Make one exchange per millisecond; delays are exponential above a floor, longer one way.

    The first request and the last answer are delayed by `stall_ns` more.
    """
    random = np.random.default_rng(seed)
    sent = EPOCH + np.arange(count, dtype=np.int64) * 1_000_000
    outward = (20_000 * asymmetry + random.exponential(30_000, count)).astype(np.int64)
    back = (20_000 + random.exponential(30_000, count)).astype(np.int64)
    outward[0] += stall_ns
    back[-1] += stall_ns
    received = sent + outward
    answered = received + 5_000
    arrived = answered + back

    def client(true: Ints) -> Ints:
        reading = true + offset_ns + (true - EPOCH) * drift_ppb // 1_000_000_000
        return (reading // resolution) * resolution

    return Truth(
        (client(sent), received, answered, client(arrived)),
        outward.astype(np.float64),
        back.astype(np.float64),
        offset_ns,
        drift_ppb / 1e9,
    )


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(10, 400),
    offset_ns=st.integers(-(10**18), 10**18),
    drift_ppb=st.integers(-500_000, 500_000),
    asymmetry=st.floats(0, 20),
    resolution=st.sampled_from([1, 40, 1000]),
    stall_ns=st.sampled_from([0, 1_000_000, 300_000_000]),
)
def test_the_truth_lies_within_the_bounds(
    *,
    seed: int,
    count: int,
    offset_ns: int,
    drift_ppb: int,
    asymmetry: float,
    resolution: int,
    stall_ns: int,
) -> None:
    truth = exchanges(
        *(seed, count, offset_ns, drift_ppb),
        asymmetry=asymmetry,
        resolution=resolution,
        stall_ns=stall_ns,
    )
    fit = fit_clocks(*truth.stamps, resolution_ns=1 + resolution)
    assert fit.refused is None
    _, low, high = fit.offset_ns
    # Double precision of a number near 1e18 is 128.
    slack = 1 + 256 * (abs(offset_ns) > 2**52)
    assert low - slack <= truth.difference_at(fit.middle_ns) <= high + slack
    assert fit.drift[0] - 1e-12 <= truth.drift <= fit.drift[1] + 1e-12
    delays = directions(fit, *truth.stamps)
    assert (np.abs(delays.client_ns - truth.client_ns) <= delays.uncertainty_ns + 2).all()
    assert (
        np.abs(delays.agent_ns - truth.agent_ns) <= delays.uncertainty_ns + resolution + 2
    ).all()


def test_bounds_are_as_narrow_as_the_shortest_way() -> None:
    truth = exchanges(1, 2000, 250_000_000, 200_000, asymmetry=1)
    fit = fit_clocks(*truth.stamps)
    _, low, high = fit.offset_ns
    # With floors of 20 us either way no bound can be narrower than 40 us; these come near it.
    assert 40_000 <= high - low <= 42_000
    assert fit.drift[1] - fit.drift[0] < 60e-6


def test_a_clock_that_is_set_is_refused() -> None:
    truth = exchanges(2, 300, 0, 0, asymmetry=1)
    t1, t2, t3, t4 = (s.copy() for s in truth.stamps)
    t1[150:] += 5_000_000
    t4[150:] += 5_000_000
    fit = fit_clocks(t1, t2, t3, t4)
    assert fit.refused is not None
    assert fit.refused.startswith("no constant offset and drift fit all exchanges")


def test_few_exchanges_are_refused() -> None:
    truth = exchanges(3, 9, 0, 0, asymmetry=1)
    assert fit_clocks(*truth.stamps).refused == "9 exchanges; 10 are needed"


def test_an_asymmetric_way_is_not_mistaken_for_an_offset() -> None:
    """Half the round trip, the usual guess, is wrong here by 190 us; the bounds say so."""
    truth = exchanges(4, 1000, 1_000_000, 0, asymmetry=20)
    fit = fit_clocks(*truth.stamps)
    value, low, high = fit.offset_ns
    assert low <= 1_000_000 <= high
    assert abs(value - 1_000_000) == pytest.approx(190_000, rel=0.05)


def test_a_run_of_hours_is_bounded_as_narrowly() -> None:
    truth = exchanges(5, 400, 250_000_000, 100_000, asymmetry=1)
    # The delays are the same, but a minute apart instead of a millisecond.
    later = np.arange(400, dtype=np.int64) * 60_000_000_000
    t1, t2, t3, t4 = truth.stamps
    gained = later // 10_000
    fit = fit_clocks(t1 + later + gained, t2 + later, t3 + later, t4 + later + gained)
    assert fit.refused is None
    _, low, high = fit.offset_ns
    assert low - 1 <= truth.difference_at(fit.middle_ns) <= high + 1
    assert high - low < 60_000
    assert fit.drift[0] <= 1e-4 <= fit.drift[1]
    assert fit.drift[1] - fit.drift[0] < 1e-8
