"""With what the worst messages coincide, on series in which that is known."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from roslens.analysis.latency.coincidence import (
    LEVEL,
    Check,
    added_by_samplers,
    all_checks,
    check_samples,
    periods_to_check,
    worst_of_runs,
)

MS = 1_000_000
RUNS = ("a", "b", "c", "d")
NOTHING = pl.DataFrame({"node": [], "period_ns": []}, schema={"node": str, "period_ns": pl.Int64})


def messages(rng: np.random.Generator, late: dict[str, np.ndarray] | None = None) -> pl.DataFrame:
    """Four runs of 5 s at 500 Hz, latencies log-normal, 5 ms more where `late` says so.

    Beside them bursts: half a second of each run with a latency of 2 to 4 ms.
    """
    parts = []
    for run in RUNS:
        time = np.arange(2500) * 2 * MS + rng.integers(0, MS // 10, 2500)
        latency = 0.3 * MS * rng.lognormal(0, 0.4, 2500)
        begin = rng.integers(0, 2000)
        latency[begin : begin + 25] += rng.uniform(2, 4) * MS
        if late:
            latency[late[run]] += 5 * MS
        parts.append(pl.DataFrame({"run": run, "publish_ns": time, "latency_ns": latency}))
    return pl.concat(parts)


def rows(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Of a sampler at 10 Hz with two processes, whose rows are 1 ms apart."""
    times = {}
    for run in RUNS:
        due = np.arange(50) * 100 * MS + rng.integers(0, 100 * MS) + rng.integers(0, 2 * MS, 50)
        times[run] = np.sort(np.concatenate([due, due + MS]))
    return times


def checks(
    rng: np.random.Generator, late: str = "", steal: tuple[float, float] = (0, 0)
) -> list[Check]:
    sampled, other = rows(rng), rows(rng)
    hit = {"sampler": sampled, "period": other}.get(late)
    # The last message published before every second round is late.
    places = hit and {
        run: np.searchsorted(np.arange(2500) * 2 * MS, t[::4]) - 1 for run, t in hit.items()
    }
    if late == "steal":
        places = {run: np.flatnonzero(np.arange(2500) // 50 % 10 == 3) for run in RUNS}
    found = messages(rng, places)
    second = np.arange(51) * 100 * MS
    stolen = np.cumsum([0, *(steal[1] if i % 10 == 3 else steal[0] for i in range(50))])
    system = pl.concat(
        pl.DataFrame(
            {
                "run": run, "time_ns": second, "cpu_steal_ns": (stolen * 200 * MS).astype(np.int64),
                "cpu_busy_ns": second, "cpu_idle_ns": second, "cpu_iowait_ns": 0 * second,
            }
        )
        for run in RUNS
    )  # fmt: skip
    samples = pl.concat(pl.DataFrame({"run": run, "time_ns": t}) for run, t in sampled.items())
    return all_checks(worst_of_runs(found), {"processes": samples}, system, pl.DataFrame(), NOTHING)


def told(found: list[Check]) -> list[str]:
    return [check.source for check in found if check.found(len(found))]


def test_late_messages_before_the_samplers_rows_are_found() -> None:
    found = checks(np.random.default_rng(1), "sampler")
    by = {check.source: check for check in found}
    check = by["the rows of the sampler of processes (10 ms before one)"]
    assert check.found(len(found))
    # Rows are 1 ms apart: 11 of 100 ms lie before one.
    assert check.of_all == pytest.approx(0.11, abs=0.02)
    assert check.ratio is not None
    assert check.low is not None
    assert check.high is not None
    assert check.low < check.ratio <= check.high
    assert check.ratio > 3
    # The same, seen as a period, which the sampler has.
    periods = [source for source in told(found) if "a period of 100 ms" in source]
    assert periods == ["a period of 100 ms, that of: the sampler of processes"]


def test_a_period_is_found_that_nothing_recorded_has() -> None:
    found = told(checks(np.random.default_rng(2), "period"))
    assert any(source.startswith("a period of 100 ms") for source in found)
    assert not any("rows" in source for source in found)


def test_disturbed_stretches_are_found() -> None:
    (found,) = (
        check
        for check in checks(np.random.default_rng(3), "steal", (0.001, 0.2))
        if "steal" in check.source
    )
    assert found.found(12)
    assert found.of_all == pytest.approx(0.1, abs=0.01)
    assert found.share is not None
    assert found.share > 0.5


def test_bursts_at_any_time_are_no_coincidence() -> None:
    """At the level of one in a hundred reports: 3 of 30 would be too many (P < 0.4 %).

    Steal in a tenth of the time, in which nothing happens.
    """
    rng = np.random.default_rng(4)
    false = sum(bool(told(checks(rng, "", (0.001, 0.2)))) for _ in range(30))
    assert LEVEL == 0.01
    assert false <= 2


def test_what_cannot_be_told_is_not_checked() -> None:
    rng = np.random.default_rng(5)
    few = messages(rng).group_by("run").head(100)
    assert worst_of_runs(few) == {}
    assert all_checks(worst_of_runs(few), {}, pl.DataFrame(), pl.DataFrame(), NOTHING) == []
    # Rows so dense that most messages lie before one say nothing.
    dense = {run: np.arange(0, 5_000 * MS, 5 * MS) for run in RUNS}
    assert check_samples("rows", worst_of_runs(messages(rng)), dense) is None


def test_periods_are_named_by_what_has_them() -> None:
    timers = pl.DataFrame({"node": ["/n", "/m"], "period_ns": [100 * MS, 33 * MS]})
    named = periods_to_check(timers, {"the sampler of processes": 100.2 * MS})
    assert named[100.0 * MS] == (
        "a period of 100 ms, that of: timer of /n, the sampler of processes"
    )
    assert named[33.0 * MS] == "a period of 33.0 ms, that of: timer of /m"
    assert named[250.0 * MS] == "a period of 250 ms"


def test_what_samplers_add_to_p99() -> None:
    """By hand: of 100 messages per row 10 are near it. Where these take 3 ms and the others 1 ms,
    P99 is three times what it is without them; where all are alike, it is the same."""
    time = np.arange(2000) * MS
    near = time % (100 * MS) >= 90 * MS
    every = pl.DataFrame({"time_ns": np.arange(1, 21) * 100 * MS - 1})
    sampler = pl.concat([every.with_columns(run=pl.lit(run)) for run in RUNS])
    for slow, ratio in ((3, 3), (1, 1)):
        latency = np.where(near, slow * MS, MS) + np.arange(2000)
        rows = pl.concat(
            pl.DataFrame({"run": run, "publish_ns": time, "latency_ns": latency}) for run in RUNS
        )
        found = worst_of_runs(rows)
        added = added_by_samplers(found, {"processes": sampler, "threads": pl.DataFrame()})
        assert added is not None
        assert added.share == pytest.approx(0.1)
        assert added.ratio.value == pytest.approx(ratio, rel=0.01)
    assert "Of all messages 10 % were published in the 10 ms before" in added.in_words()
    assert added_by_samplers(found, {"processes": pl.DataFrame()}) is None
    assert added_by_samplers(worst_of_runs(rows.filter(run="a")), {"processes": sampler}) is None
