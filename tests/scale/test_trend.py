"""Test changes over time: by hand, exact permutation counts, and planted changes."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import replace
from datetime import timedelta
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nights import START, nights
from tests.programs import roslens

import roslens as rl
from roslens.analysis.estimate import Cell
from roslens.analysis.figures.trend import trend_plot
from roslens.analysis.statistics.change_points import (
    change_points,
    least_length,
    least_side,
    stretch,
    winsorised,
)
from roslens.analysis.verdicts.trend import Night, Series, find_trends
from roslens.fleet.series import series_of
from roslens.fleet.show import trend_table
from roslens.recording import UsageError
from roslens.recording.scratch import locked_folder

ROOT = Path(__file__).resolve().parents[2]


def series(values: list[list[float]], commits: list[str] | None = None, **cell: str) -> Series:
    nights = [
        Night(
            f"night{n:03d}",
            START + timedelta(days=n),
            tuple(runs),
            software={} if commits is None else {"commit": commits[n], "rclcpp": "28.1"},
        )
        for n, runs in enumerate(values)
    ]
    labels: Cell = dict(cell)
    return Series("latency_p99", "ns", labels, tuple(nights))


def noisy(level: float, count: int, seed: int) -> list[list[float]]:
    random = np.random.default_rng(seed)
    return (level * (1 + 0.02 * random.standard_normal((count, 3)))).tolist()


def test_the_p_value_is_that_of_all_orders() -> None:
    """All 7! orders of a series are counted, by definition: sums of squares between two groups.

    With seven values and three in each part, a stretch is the first three or four.
    """
    values = np.array([1.0, 2.0, 1.5, 4.0, 3.0, 5.5, 4.5])

    def largest(y: np.ndarray) -> float:
        total = ((y - y.mean()) ** 2).sum()
        within = [
            ((y[:k] - y[:k].mean()) ** 2).sum() + ((y[k:] - y[k:].mean()) ** 2).sum()
            for k in (3, 4)
        ]
        return float(total - min(within))

    exact = np.mean([largest(np.array(o)) >= largest(values) - 1e-9 for o in permutations(values)])
    random = np.random.default_rng(3)
    cuts, p = stretch(values, 20_000, random)
    assert cuts == [3]
    # The tolerance is three standard errors of 20,000 draws.
    assert abs(p - exact) < 3 * np.sqrt(exact * (1 - exact) / 20_000) + 1e-4


def test_two_planted_changes_are_found_where_they_are() -> None:
    means = np.concatenate([np.full(20, 10.0), np.full(15, 12.0), np.full(12, 10.0)])
    noise = np.random.default_rng(5).normal(0, 0.2, means.size)
    points = change_points(means + noise)
    assert [point.index for point in points] == [20, 35]


def test_no_change_in_what_does_not_vary() -> None:
    assert change_points([0.1] * 50) == []
    assert change_points([]) == []
    assert change_points([1.0, 2.0, 3.0]) == []


@given(st.lists(st.integers(-1000, 1000), max_size=25), st.integers(-8, 8))
def test_changes_do_not_depend_on_the_unit(values: list[int], power: int) -> None:
    """Multiplying by a power of two loses nothing."""
    array = np.array(values, dtype=float)
    first = change_points(array, permutations=99, false_alarms=0.05)
    assert change_points(array * 2.0**power, permutations=99, false_alarms=0.05) == first
    assert all(3 <= point.index <= len(values) - 3 for point in first)


def test_false_alarms_are_as_rare_as_said() -> None:
    """1,000 skewed series have no change; the level is exact, the bound 4 standard errors."""
    random = np.random.default_rng(11)
    alarms = sum(
        bool(change_points(draw, false_alarms=0.05, permutations=199))
        for draw in random.lognormal(0, 1, (1000, 24))
    )
    assert alarms / 1000 < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 1000)


def test_least_length() -> None:
    """2 / C(n, n / 2) is 2 / 252 for ten values and 2 / 126 for nine."""
    assert least_length(0.01) == 10
    assert least_length(0.016) == 9


@pytest.mark.parametrize(("n", "side"), [(10, 5), (12, 5), (14, 4), (15, 4), (20, 4)])
def test_how_many_must_follow_a_step(n: int, side: int) -> None:
    """Every placement of so many equal values is counted, by the statistic's definition.

    The stretches are those of circular segmentation with three values within, before and after.
    """
    ends = [(a, b) for a in range(n) for b in range(a + 3, n + 1) if (a == 0 or a >= 3)
            and (b == n or n - b >= 3) and b - a <= n - 3]  # fmt: skip

    def least_p(after: int) -> float:
        rows = np.zeros((math.comb(n, after), n))
        for row, places in zip(rows, combinations(range(n), after), strict=True):
            row[list(places)] = 1.0
        sums = np.hstack([np.zeros((len(rows), 1)), (rows - after / n).cumsum(axis=1)])
        most = np.max([(sums[:, b] - sums[:, a]) ** 2 * n / (b - a) / (n - b + a) for a, b in ends],
                      axis=0)  # fmt: skip
        step = after * (n - after) / n
        return float(np.mean(most >= step - 1e-9))

    assert least_p(side) <= 0.01
    assert least_p(side - 1) > 0.01
    assert least_side(n, 0.01) == side
    # With 12 campaigns p is 5 / 495, so near 1 % that the random orders decide.
    step = [1.0] * (n - side + 1) + [10.0] * (side - 1)
    assert n == 12 or change_points(step) == change_points(step[::-1]) == []


@pytest.mark.parametrize("factor", [7.0, 0.2])
def test_an_end_that_is_far_is_no_good_news(factor: float) -> None:
    """Of 20 campaigns the last three are many times as slow: 14 / C(20, 3) is above 1 %."""
    trends = find_trends([series([*noisy(1e6, 17, 1), *noisy(factor * 1e6, 3, 2)])])
    (trend,) = trends.series
    assert (trend.changes, trend.least_side, trends.exit_code) == ((), 4, 3)
    table = trend_table(trends)
    side = "above" if factor > 1 else "below"
    assert table.rows[0][0] == "not_enough_evidence (2) (3)"
    assert f"the last 3 campaigns are all far {side} those before them" in table.notes[1]
    trends = find_trends([series([*noisy(1e6, 16, 1), *noisy(factor * 1e6, 4, 2)])])
    assert [c.index for c in trends.series[0].changes] == [16]
    # Loss that begins, and a difference below the threshold.
    assert find_trends([series([[0.0]] * 17 + [[0.1], [0.2], [0.1]])]).exit_code == 3
    assert find_trends([series([[1.0]] * 17 + [[1.04]] * 3)]).exit_code == 0


def test_an_end_without_a_value_is_no_good_news() -> None:
    unchanged = series(noisy(1e6, 20, 1))
    assert find_trends([unchanged]).exit_code == 0
    (trend,) = find_trends([replace(unchanged, silent=2)]).series
    assert trend.refused == (
        "no run of the last 2 campaigns completed with a finite value, so nothing is known of the "
        "end"
    )
    assert find_trends([replace(unchanged, silent=1)]).exit_code == 3
    worse = [*noisy(1e6, 14, 1), *noisy(1.3e6, 6, 2)]
    assert find_trends([replace(series(worse), silent=1)]).exit_code == 1


@pytest.mark.parametrize("begin", [4, 12, 17])
def test_more_runs_without_a_value_at_the_end_are_no_good_news(begin: int) -> None:
    """Two of three runs are infinite from a night on; their values are those of the others."""
    unchanged = series(noisy(1e6, 20, 1))
    nights = [
        replace(night, values=night.values[:1], left_out=2) if n >= begin else night
        for n, night in enumerate(unchanged.nights)
    ]
    (trend,) = find_trends([replace(unchanged, nights=tuple(nights))]).series
    assert trend.changes == ()
    assert trend.refused == (
        f"{2 * (20 - begin)} of {3 * (20 - begin)} runs since night{begin:03d} have no finite "
        f"value, but 0 of {3 * begin} before, so that values alone do not tell whether it got worse"
    )
    # The other way round, and in every sixth night.
    assert find_trends([replace(unchanged, nights=tuple(nights[::-1]))]).exit_code == 0
    some = [replace(night, left_out=n % 6 == 0) for n, night in enumerate(unchanged.nights)]
    assert find_trends([replace(unchanged, nights=tuple(some))]).exit_code == 0


def test_that_nothing_was_found_is_not_that_nothing_changed() -> None:
    table = trend_table(find_trends([series(noisy(1e6, 14, 1))]))
    assert table.rows[0][0] == "no change found (1)"
    (note,) = table.notes
    assert note.endswith(
        "14 campaigns can be distinguished from chance only if 4 or more are on either side of it"
    )


def test_a_regression_is_found_without_a_base() -> None:
    values = [*noisy(1e6, 20, 1), *noisy(1.2e6, 6, 2)]
    commits = ["a" * 40] * 20 + ["b" * 40] * 6
    trends = find_trends([series(values, commits, rmw="x"), series(noisy(1e6, 26, 3), rmw="y")])
    (change,) = trends.series[0].changes
    assert (change.index, change.verdict, change.lasts) == (20, "regression", True)
    assert change.effect is not None
    assert change.effect.low < 1.2 < change.effect.high
    assert change.software == (("commit", "a" * 40, "b" * 40),)
    assert trends.series[1].changes == ()
    assert trends.exit_code == 1
    assert json.loads(trends.json_text())["series"][0]["changes"][0]["campaign"] == "night020"
    assert len(trend_plot(trends).figure.axes) == 2


def test_what_was_mended_is_no_alarm() -> None:
    values = [*noisy(1e6, 15, 1), *noisy(1.2e6, 8, 2), *noisy(1e6, 8, 3)]
    trends = find_trends([series(values)])
    assert [c.verdict for c in trends.series[0].changes] == ["regression", "improvement"]
    assert trends.exit_code == 0


def test_a_stretch_that_ends_where_its_begin_is_far() -> None:
    """Begin and length of the second part coincide: 14 values before, 14 to the end."""
    means = np.concatenate([np.full(14, 1.0), np.full(6, 2.0), np.full(8, 1.0)])
    noise = np.random.default_rng(2).normal(0, 0.05, means.size)
    assert [p.index for p in change_points(means + noise)] == [14, 20]


def test_a_change_below_the_threshold_is_no_regression() -> None:
    values = [*noisy(1e6, 25, 1), *noisy(1.05e6, 25, 2)]
    trends = find_trends([series(values)], threshold=0.5)
    assert [c.verdict for c in trends.series[0].changes] == ["no_difference"]
    assert trends.exit_code == 0


def test_one_bad_night_hides_no_change() -> None:
    """One night has 2.5 times the level; later comes a step of four standard deviations."""
    values = [*noisy(1e6, 20, 1), *noisy(1.08e6, 12, 2)]
    values[8] = [2.5 * value for value in values[8]]
    trends = find_trends([series(values)])
    (change,) = trends.series[0].changes
    assert (change.index, change.verdict) == (20, "regression")
    assert change.effect is not None
    assert change.effect.low < 1.08 < change.effect.high
    assert trends.series[0].odd == (8,)
    assert [begin for begin, _ in trends.series[0].levels] == [0, 20]
    data = json.loads(trends.json_text())["series"][0]
    assert data["odd"] == ["night008"]
    assert data["nights"][8]["value"] == pytest.approx(np.mean(values[8])), "as it was measured"
    lone = noisy(1e6, 30, 4)
    lone[15] = [3e6, 3e6]
    assert find_trends([series(lone)]).series[0].changes == ()
    assert len(trend_plot(trends).figure.axes) == 1


def test_a_series_that_is_too_short_is_drawn_without_levels() -> None:
    trends = find_trends([series(noisy(1e6, 3, 1))])
    assert trends.series[0].refused is not None
    (axes,) = trend_plot(trends).figure.axes
    # There are the three campaigns with their intervals, and no line of a level.
    assert [len(line.get_xdata()) for line in axes.lines if line.get_marker() == "o"] == [3]
    assert not [line for line in axes.lines if line.get_linewidth() == 1.4]


def test_winsorised() -> None:
    """By hand: the median is 3, absolute deviations are 2 1 0 1 97, their median is 1."""
    far = 3 + 5 * 1.4826
    assert winsorised(np.array([1.0, 2, 3, 4, 100])).tolist() == pytest.approx([1, 2, 3, 4, far])
    # The median is 0, as more than half are equal; the median of the others, 2, 2 and 50, is 2.
    zeros = np.array([0.0, 0, 0, 0, 0, 2, 2, 50])
    assert winsorised(zeros).tolist() == pytest.approx([0, 0, 0, 0, 0, 2, 2, 10 * 1.4826])
    assert winsorised(np.full(5, 7.0)).tolist() == [7.0] * 5
    assert winsorised(np.array([])).size == 0


def test_too_few_nights() -> None:
    trends = find_trends([series(noisy(1e6, 9, 1))])
    assert trends.exit_code == 3
    assert trends.series[0].refused == (
        "9 campaigns; a change can be distinguished from chance with 10 or more"
    )
    assert find_trends([]).exit_code == 3


def test_a_level_of_zero() -> None:
    """Loss that begins has no ratio, and is a regression all the same."""
    values = [[0.0, 0.0]] * 15 + [[0.01, 0.02], [0.015, 0.02], [0.01, 0.01], [0.02, 0.02]]
    trends = find_trends([series(values)])
    (change,) = trends.series[0].changes
    assert (change.index, change.effect, change.verdict) == (15, None, "regression")
    assert trends.exit_code == 1


@pytest.mark.parametrize(
    ("machines", "disturbed", "verdict"),
    [
        ((None, "new"), (False, False), "regression"),
        (("old", "new"), (False, False), "not_comparable"),
        (("old", "old"), (False, True), "not_enough_evidence"),
        (("old", "old"), (True, True), "regression"),
    ],
)
def test_another_machine_or_other_work_on_it_is_no_regression(
    machines: tuple[str | None, str | None], disturbed: tuple[bool, bool], verdict: str
) -> None:
    values = [*noisy(1e6, 20, 1), *noisy(1.2e6, 6, 2)]
    nights = [
        replace(
            night,
            software={} if machines[n >= 20] is None else {"machine": str(machines[n >= 20])},
            # Of each side most nights are, but not all.
            disturbed=disturbed[n >= 20] and n % 5 > 0,
        )
        for n, night in enumerate(series(values).nights)
    ]
    trends = find_trends([replace(series(values), nights=tuple(nights))])
    (change,) = trends.series[0].changes
    assert change.verdict == verdict
    assert trends.exit_code == (1 if verdict == "regression" else 3)


@pytest.mark.parametrize("moved", [17, 18, 20, 22, 23])
def test_a_machine_that_changed_near_the_place_is_named(moved: int) -> None:
    """The place is the 20th night; a change two nights off may have been that of the machine."""
    values = [*noisy(1e6, 20, 1), *noisy(1.2e6, 6, 2)]
    nights = [
        replace(
            night,
            software={"machine": "old" if n < moved else "new", "commit": str(n), "rclcpp": "28.1"},
            disturbed=n in (3, 20),
        )
        for n, night in enumerate(series(values).nights)
    ]
    (change,) = find_trends([replace(series(values), nights=tuple(nights))]).series[0].changes
    assert change.index == 20
    is_near = moved in (18, 20, 22)
    assert change.verdict == ("not_comparable" if is_near else "regression")
    machine = [("machine", "old", "new")] * is_near
    assert change.software == (("commit", "17", "22"), *machine)


def test_software_that_came_and_went_near_the_place_is_named() -> None:
    values = [*noisy(1e6, 20, 1), *noisy(1.2e6, 6, 2)]
    commits = ["a"] * 19 + ["b"] + ["a"] * 6
    (change,) = find_trends([series(values, commits)]).series[0].changes
    assert change.software == (("commit", "a", "b"), ("commit", "b", "a"))


@pytest.fixture
def nightly(tmp_path: Path) -> Path:
    return nights(tmp_path)


def test_series_of_a_catalog(nightly: Path) -> None:
    rows = rl.catalog(nightly, update=False).frame.collect()
    (p99,), left_out = series_of(rows, ["latency_p99"])
    assert [n.campaign for n in p99.nights] == [f"night{n:03d}" for n in range(20)]
    assert not left_out
    assert series_of(rows.with_columns(collected=False), ["latency_p99"]) == (
        [],
        ["20 recordings have no tables and are left out"],
    )
    # The last and the third-last night failed; in the second-last one no message arrived in time.
    number = pl.col("campaign").str.tail(2).cast(pl.Int64)
    dead = rows.with_columns(
        status=pl.when(number.is_in([17, 19])).then(pl.lit("failed")).otherwise("status"),
        latency_p99=pl.when(number == 18).then(math.inf).otherwise("latency_p99"),
    )
    (p99,), left_out = series_of(dead, ["latency_p99"])
    assert (len(p99.nights), p99.silent) == (17, 3)
    (p99,), _ = series_of(dead.filter(number != 19), ["latency_sent_p99", "latency_p99"])
    assert (len(p99.nights), p99.silent) == (17, 2)
    alive = dead.with_columns(latency_p99=pl.when(number == 18).then(1e6).otherwise("latency_p99"))
    (p99,), _ = series_of(alive, ["latency_p99"])
    assert (len(p99.nights), p99.silent) == (18, 1)
    with pytest.raises(UsageError, match="no metric"):
        series_of(rows, ["latency_p12"])
    whole = pl.concat([rows, rows.with_columns(latency_p99=math.inf)])
    (p99,), left_out = series_of(whole, ["latency_p99"])
    assert {(len(n.values), n.left_out) for n in p99.nights} == {(1, 1)}
    assert left_out[0].startswith("latency_p99 has no finite value in 20 of 40 runs of ")
    more = rows.with_columns(disturbances=pl.lit(1), cpu_model=pl.lit("A"), cpu_count=pl.lit(2))
    (p99,), left_out = series_of(more, ["latency_p99", "latency_p99"])
    assert {(n.disturbed, n.software["machine"]) for n in p99.nights} == {(True, "A, 2 CPUs")}
    assert left_out == ["20 recordings were disturbed by other work on their host"]


def test_a_campaign_is_its_undisturbed_runs_and_all_its_machines(nightly: Path) -> None:
    """Of three runs 10, 20 and 30 ns the last two are disturbed, and the last is on B."""
    row = rl.catalog(nightly, update=False).frame.head(1).collect()
    rows = pl.concat([row] * 3).with_columns(
        latency_p99=pl.Series([10.0, 20.0, 30.0]),
        disturbances=pl.Series([0, 1, 1]),
        cpu_model=pl.Series(["A", "A", "B"]),
        cpu_count=pl.lit(2),
    )

    def of(members: pl.DataFrame) -> Night:
        (found,), _ = series_of(members, ["latency_p99"])
        (night,) = found.nights
        return night

    assert (of(rows).values, of(rows).disturbed, of(rows).left_out) == ((10.0,), False, 0)
    rest = of(rows.tail(2))
    assert (rest.values, rest.disturbed) == ((20.0, 30.0), True)
    assert rest.software["machine"] == "1 of 2 runs: A, 2 CPUs; 1 of 2 runs: B, 2 CPUs"
    # A run without a value does not stand for the night, whatever it lacked it for.
    silent = rows.with_columns(latency_p99=pl.Series([None, 20.0, 30.0]))
    assert (of(silent).values, of(silent).left_out) == ((20.0, 30.0), 1)


def test_topics_are_series_of_their_own(nightly: Path) -> None:
    """In 12 of 20 nights /a was the busiest topic, then /b; resources are about no topic."""
    number = pl.col("campaign").str.tail(2).cast(pl.Int64)
    rows = rl.catalog(nightly, update=False).frame.collect()
    rows = rows.with_columns(
        work_topic=pl.lit(None, pl.String),
        topic=pl.when(number < 12).then(pl.lit("/a")).otherwise(pl.lit("/b")),
        cpu=pl.lit(0.5),
    )
    series, left_out = series_of(rows, ["latency_p99", "cpu"])
    assert [(s.metric, s.cell.get("topic"), len(s.nights), s.silent) for s in series] == [
        ("latency_p99", "/a", 12, 8),
        ("latency_p99", "/b", 8, 0),
        ("cpu", None, 20, 0),
    ]
    assert [text.partition(" campaigns")[0][-2:] for text in left_out] == [" 8", "12"]
    assert find_trends(series).exit_code == 3
    # The work topic is no part of a cell, as in reports.
    (p99,), _ = series_of(rows.with_columns(work_topic="topic"), ["latency_p99"])
    assert ("topic" in p99.cell, len(p99.nights)) == (False, 20)


def test_the_verb(nightly: Path, tmp_path: Path) -> None:
    files = ("--plot", tmp_path / "t.png", "--json", tmp_path / "t.json")
    done = roslens("trend", nightly, *files)
    assert done.returncode == 1, done.stderr
    assert re.search(r"REGRESSION: latency_p99 \(.*\) since night014", done.stdout)
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    data = json.loads((tmp_path / "t.json").read_text())
    assert data["exit_code"] == 1
    (software,) = data["series"][0]["changes"][0]["software"]
    assert software == {"name": "commit", "before": "a" * 40, "after": "b" * 40}


def exit_code(nightly: Path) -> int:
    """Return the exit code if a change of 30 % does not matter."""
    return roslens("trend", nightly, "--suite", "two_process", "--threshold", "50%").returncode


@pytest.mark.parametrize(("written", "code"), [(18, 0), (20, 3)])
def test_a_newest_night_that_cannot_be_read_is_no_good_news(
    nightly: Path, written: int, code: int
) -> None:
    """A manifest is broken; it was written before the 20th night began, or after it."""
    assert exit_code(nightly) == 0
    manifest = nightly / "broken" / "run" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{")
    at = (START + timedelta(days=written)).timestamp()
    os.utime(manifest, (at, at))
    assert exit_code(nightly) == code


def test_a_campaign_that_is_being_recorded_does_not_count_yet(nightly: Path) -> None:
    """The recorder holds the lock of the campaign's folder as long as it lives."""
    run = nightly / "night020" / "run"
    run.mkdir(parents=True)
    data = json.loads((nightly / "night019" / "run" / "manifest.json").read_text())
    start = int((START + timedelta(days=20)).timestamp()) * 10**9
    data |= {"campaign": "night020", "start_ns": start, "status": "running"}
    (run / "manifest.json").write_text(json.dumps(data))
    with locked_folder(run.parent):
        assert exit_code(nightly) == 0
    assert exit_code(nightly) == 3


@pytest.mark.parametrize("verb", ["catalog", "trend"])
@pytest.mark.parametrize("more", [(), ("--suite", "two_*")])
def test_a_suite_that_no_recording_is_of(verb: str, more: tuple[str, ...], nightly: Path) -> None:
    done = roslens(verb, nightly, "--suite", "none", *more)
    message = f"roslens: error: {nightly}: no suite 'none'; there are two_process\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


@pytest.mark.parametrize("verb", ["catalog", "trend"])
def test_a_folder_without_recordings(verb: str, tmp_path: Path) -> None:
    done = roslens(verb, tmp_path)
    message = f"roslens: error: {tmp_path}: no recording here or in a folder below\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)
    assert not list(tmp_path.iterdir())
