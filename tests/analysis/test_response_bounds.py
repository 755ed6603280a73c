"""Test response-time bounds: by hand, by a second implementation, and against schedules.

The schedules are simulated here: one thread, no preemption, any order of dispatch. The simulation
itself notes how long each execution took from when it was ready.
"""

import random
from collections.abc import Callable, Sequence

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import Tables
from tests.samples import SAMPLES

import roslens as rl
from roslens.analysis.chains.bounds import bound_estimates, bounds_table
from roslens.analysis.chains.estimates import FollowedChain
from roslens.analysis.chains.requirements import NamedChain
from roslens.analysis.flow.chain import Chain
from roslens.analysis.flow.chains import ChainInstances
from roslens.analysis.flow.response_bounds import FEW, LOST, THREADS, UNKNOWN, callback_bounds
from roslens.analysis.runs import Run
from roslens.analysis.verdicts.budgets import check, parse_budget
from roslens.collectors._native import response_time_bounds

MS = 1_000_000
Job = tuple[int, int, int, int]
"""Callback, ready, start, end."""


def executed(jobs: Sequence[Job], *, told: bool = True, threads: int = 1) -> Tables:
    """Make the tables of a recording of these executions, all of which are of subscriptions."""
    calls = [
        {
            "callback_instance_id": n, "callback_id": c, "host": "h0", "vpid": 1,
            "vtid": 10 + n % threads, "kind": "subscription", "name": f"/t{c}", "node": "/n",
            "start_ns": start, "end_ns": end,
        }
        for n, (c, _, start, end) in enumerate(jobs)
    ]  # fmt: skip
    messages = [
        {
            "callback_instance_id": n, "publish_ns": ready, "publisher_host": "h0",
            "subscription_host": "h0", "outcome": "delivered" if told else "replayed",
        }
        for n, (_, ready, _, _) in enumerate(jobs)
    ]  # fmt: skip
    return Tables(callback_instances=calls, messages=messages)


def scheduled(
    ready: Sequence[tuple[int, int, int]], choose: Callable[[Sequence[int]], int]
) -> list[Job]:
    """Schedule (callback, ready, cost) on one thread without preemption; FIFO within a callback."""
    waiting = sorted(ready, key=lambda job: job[1])
    done: list[Job] = []
    now = 0
    while waiting:
        now = max(now, waiting[0][1])
        first: dict[int, tuple[int, int, int]] = {}
        for job in waiting:
            if job[1] <= now:
                first.setdefault(job[0], job)
        job = first[choose(sorted(first))]
        waiting.remove(job)
        done.append((job[0], job[1], now, now + job[2]))
        now += job[2]
    return done


class Plain:
    """Lemmas 4 and 5 of Casini et al. step by step, without jitter, for short lists."""

    def __init__(
        self, arrivals: Sequence[Sequence[int]], costs: Sequence[Sequence[int]], length: int
    ) -> None:
        self.arrivals, self.costs, self.length = arrivals, costs, length
        self.all = range(len(arrivals))

    def arrived(self, n: int, delta: int) -> int:
        """Return the most arrivals in a half-open interval of a length up to the recording's."""
        times = self.arrivals[n]
        return max((sum(t <= time < t + delta for time in times) for t in times), default=0)

    def cost(self, n: int, jobs: int) -> int:
        spent = self.costs[n]
        return max((sum(spent[i : i + jobs]) for i in range(len(spent) - jobs + 1)), default=0)

    def needed(self, n: int, delta: int) -> int:
        return self.cost(n, self.arrived(n, delta)) if delta > 0 else 0

    def fixed_point(self, function: Callable[[int], int]) -> int | None:
        now = 1
        while now <= self.length:
            then = function(now)
            if then <= now:
                return then
            now = then
        return None

    def response(self, receiver: int, offset: int) -> int | None:
        def demand(response: int) -> int:
            jobs = self.arrived(receiver, offset + response)
            steps = [
                self.cost(receiver, k) - self.cost(receiver, k - 1) for k in range(1, jobs + 1)
            ]
            until = offset + max(response - min(steps, default=0), 0) + 1
            interference = sum(self.needed(n, until) for n in self.all if n != receiver)
            return self.needed(receiver, offset + 1) + interference - offset

        return self.fixed_point(demand)

    def bound(self, receiver: int) -> int | None:
        busy = self.fixed_point(lambda d: sum(self.needed(n, d) for n in self.all))
        if busy is None:
            return None
        more = [
            offset
            for offset in range(busy + 1)
            if not offset or self.arrived(receiver, offset + 1) > self.arrived(receiver, offset)
        ]
        responses = [self.response(receiver, offset) for offset in more]
        finite = [response for response in responses if response is not None]
        return max(finite) if len(finite) == len(responses) else None


def test_by_hand():
    """Two messages come at once every 10 ms; their callbacks take 2 and 3 ms: 5 ms for either."""
    jobs = [
        job
        for k in range(20)
        for t in [10 * MS * k]
        for job in ((1, t, t, t + 2 * MS), (2, t, t + 2 * MS, t + 5 * MS))
    ]
    bounds = callback_bounds(executed(jobs), warm_up_s=0).sort("callback_id")
    assert bounds["bound_ns"].to_list() == [5 * MS, 5 * MS]
    assert bounds["longest_ns"].to_list() == [2 * MS, 5 * MS]
    assert bounds["executions"].to_list() == [20, 20]
    assert bounds["tested"].to_list() == [10, 10]
    assert bounds["beyond"].to_list() == [0, 0]
    assert bounds["refused"].to_list() == [None, None]


def test_functions_around_callbacks_change_no_bound():
    """A probed function runs all the time, on the callbacks' thread and on another one."""
    jobs = [(1, t, t, t + 2 * MS) for k in range(20) for t in [10 * MS * k]]
    tables = executed(jobs)
    calls = tables.rows["callback_instances"]
    function = {**calls[0], "callback_id": 9, "kind": "function", "start_ns": 0,
                "end_ns": 200 * MS}  # fmt: skip
    tables.rows["callback_instances"] = [
        *calls, *(function | {"callback_instance_id": 90 + tid, "vtid": tid} for tid in (10, 77)),
    ]  # fmt: skip
    bounds = callback_bounds(tables, warm_up_s=0)
    assert bounds["callback_id"].to_list() == [1]
    assert bounds["bound_ns"].to_list() == [2 * MS]


def test_a_handover_is_part_of_the_bound():
    """An idle thread took a message up after 1 ms once, otherwise at once; callbacks take 2 ms."""
    late = {7: MS}
    jobs = [(1, t, t + late.get(k, 0), t + late.get(k, 0) + 2 * MS)
            for k in range(20) for t in [10 * MS * k]]  # fmt: skip
    bounds = callback_bounds(executed(jobs), warm_up_s=0)
    assert bounds["handover_ns"].to_list() == [MS]
    assert bounds["bound_ns"].to_list() == [3 * MS]


def test_the_second_half_tells_how_far_the_curves_had_settled():
    """One execution of the second half takes 4 ms, all others 2."""
    jobs = [(1, t, t, t + (4 if k == 15 else 2) * MS) for k in range(20) for t in [10 * MS * k]]
    bounds = callback_bounds(executed(jobs), warm_up_s=0)
    assert bounds["bound_ns"].to_list() == [4 * MS]
    assert (bounds["beyond"][0], bounds["tested"][0]) == (1, 10)


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        (executed([(1, 10 * k, 10 * k, 10 * k + 1) for k in range(20)], told=False), UNKNOWN),
        (executed([(1, 10 * k, 10 * k, 10 * k + 1) for k in range(20)], threads=2), THREADS),
        (executed([(1, 10 * k, 10 * k, 10 * k + 1) for k in range(2)]), FEW),
    ],
)
def test_what_cannot_be_bounded_says_why(tables, why):
    bounds = callback_bounds(tables, warm_up_s=0)
    assert set(bounds["refused"]) == {why}
    assert bounds["bound_ns"].null_count() == bounds.height


def test_lost_events_leave_no_bound():
    tables = executed([(1, 10 * k, 10 * k, 10 * k + 1) for k in range(20)])
    tables.rows["losses"] = [{"kind": "discarded_events"}]
    assert callback_bounds(tables, warm_up_s=0)["refused"].to_list() == [LOST]


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 60), st.integers(1, 6)), min_size=2, max_size=6
        ),
        min_size=1, max_size=3,
    )
)  # fmt: skip
def test_the_same_as_the_lemmas_step_by_step(callbacks):
    """Curves that describe two executions in a row, of more, may only bound more."""
    arrivals = [sorted(t for t, _ in jobs) for jobs in callbacks]
    costs = [[c for _, c in jobs] for jobs in callbacks]
    length = 200
    ours = response_time_bounds(arrivals, costs, [0] * len(callbacks), length, 400)
    plain = Plain(arrivals, costs, length)
    assert ours == [plain.bound(n) for n in plain.all]
    apart = [[t + n for n, t in enumerate(times)] for times in arrivals]
    whole, short = (
        response_time_bounds(apart, costs, [0] * len(callbacks), length, jobs) for jobs in (400, 2)
    )
    for bound, more in zip(whole, short, strict=True):
        assert more is None or (bound is not None and more >= bound)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 5), st.floats(0.2, 0.95))
def test_no_execution_of_any_schedule_is_beyond(seed, callbacks, load):
    for bounds in simulated(seed, callbacks, load, 300):
        bounded = bounds.drop_nulls("bound_ns")
        assert (bounded["longest_ns"] <= bounded["bound_ns"]).all()


def simulated(seed: int, callbacks: int, load: float, jobs: int) -> list[pl.DataFrame]:
    """Return bounds of random bursts, costs and three orders of dispatch."""
    chance = random.Random(seed)
    mean = 1000
    ready = []
    for callback in range(callbacks):
        now = 0
        for _ in range(jobs // callbacks):
            gap = chance.expovariate(load / (mean * callbacks))
            now += 0 if chance.random() < 0.1 else round(gap)
            ready.append((callback, now, 1 + round(chance.expovariate(1 / mean))))
    orders: list[Callable[[Sequence[int]], int]] = [min, max, chance.choice]
    return [callback_bounds(executed(scheduled(ready, order)), warm_up_s=0) for order in orders]


def test_runs_without_the_chain_change_no_bound():
    """Run a has the chain, and bounds of 7 and 3 us for its two callbacks; run b has another."""
    chain = Chain.of("/x -> /s -> /y -> /t -> /z")
    begun = pl.DataFrame(
        {"run": "a", "instance": [0], "outcome": "complete", "latency_ns": 6_000,
         "clock_bound_ns": 0.0}
    )  # fmt: skip
    callbacks = pl.DataFrame(
        [("a", "/s", "/y", 7_000), ("a", "/t", "/z", 3_000), ("b", "/u", "/z", 99_000)],
        schema=["run", "name", "node", "bound_ns"],
        orient="row",
    ).with_columns(kind=pl.lit("subscription"), refused=pl.lit(None, pl.String), beyond=0, tested=5)
    found = ChainInstances(chain, begun, pl.DataFrame, (None,))
    followed = [FollowedChain(NamedChain(chain, "chain"), found)]
    runs = [Run("a", {}), Run("b", {}), Run("c", {"x": 1})]
    (estimate,) = bound_estimates(followed, callbacks, runs, 0.95)
    assert (estimate.value, estimate.runs, dict(estimate.cell)) == (10_000, 1, {"chain": "chain"})
    assert bounds_table(followed, callbacks, runs).rows == [
        ["chain", "0.00600", "0.0100", "0 of 10", ""]
    ]


@pytest.mark.recording
def test_recordings():
    """With one thread each, no recorded time exceeds its bound; several threads are refused."""
    bounds = rl.open(SAMPLES / "two_process").callbacks.bounds()
    bounded = bounds.drop_nulls("bound_ns")
    assert {"/data", "5 ms"} <= set(bounded["name"])
    assert (bounded["longest_ns"] <= bounded["bound_ns"]).all()
    several = rl.open(SAMPLES / "chain.tar.zst").callbacks.bounds()
    assert set(several["refused"]) == {THREADS}


@pytest.mark.recording
def test_chains_and_budgets():
    """The bound of a chain of one hop is its callback's, and a budget is checked against it."""
    run = rl.open(SAMPLES / "two_process")
    of_callback = run.callbacks.bounds().filter(name="/data").drop_nulls("bound_ns")
    report = run.chains._report(None, bound=True)
    (estimate,) = (
        e for e in report.estimates
        if e.metric == "response_time_bound" and "/data" in str(e.cell["chain"])
    )  # fmt: skip
    assert estimate.value == of_callback["bound_ns"].max()
    assert (estimate.low, estimate.high) == (None, None)
    ms = estimate.value / 1e6
    kept, broken = (
        check(parse_budget({"budget": f"response_time_bound < {limit:.6f} ms"}), estimate)
        for limit in (ms * 1.01, ms * 0.99)
    )
    assert (kept.verdict, broken.verdict, broken.confirmed) == ("within", "exceeded", True)
