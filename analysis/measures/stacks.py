"""Attribute the CPU time of callbacks to functions, by sampled call stacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import geometric_mean
from typing import Literal

import polars as pl

from roslens.analysis.estimate import not_none
from roslens.analysis.statistics.multiplicity import holm_of_known
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS, student_t
from roslens.analysis.statistics.quantiles import quantile_of
from roslens.analysis.statistics.ratio import Spread, difference_of_means
from roslens.analysis.statistics.student import t_quantile
from roslens.recording.arrays import np

Time = Literal["self_ns", "total_ns"]
TIMES = ("self_ns", "total_ns")
CALLBACK = ("kind", "name", "node")
_FUNCTION = (*CALLBACK, "function")
SLOWEST = 0.9
"""Executions that last longer than this quantile of their callback's durations are slow."""
LEAST_SHARE = 0.005
"""Least share of a callback's CPU time for a function to be drawn, or (on a side) compared."""
_LEAST_WAITS = 0.01
"""Callbacks that wait for a smaller part of their time are not named."""
_PLACE_FUNCTIONS = 3
_LEAST_FUNCTIONS = 5
"""Least number of functions that show what is common to a run."""
_THREAD = ("run", "host", "vpid", "vtid")
_NUMBER = "callback_instance_id"


def callback_title(kind: str | None, name: str | None, node: str | None) -> str:
    """Return a title such as ``subscription /scan of /planner``; a function has no node."""
    owner = "" if kind == "function" else f" of {node or '?'}"
    return f"{kind or 'unknown'} {name or '?'}{owner}"


def assign_to_executions(samples: pl.LazyFrame, executions: pl.LazyFrame) -> pl.DataFrame:
    """Assign each sample to the execution of a callback in which it was taken.

    That is the execution on its thread that began last among those that go on at its time; an
    execution whose end was not recorded has no samples.

    Parameters
    ----------
    samples, executions
        The tables ``cpu_samples`` and ``callback_instances`` with ``run``.

    Returns
    -------
    ``run``, the columns of ``cpu_samples``, and ``callback_instance_id``, ``kind``, ``name``,
    ``node``, ``duration_ns`` of its execution, null if the sample is outside of all executions.
    """
    finished = (
        executions.drop_nulls("end_ns")
        # Of those that began at the same time, the last to end holds the others.
        .sort("start_ns", "end_ns", descending=[False, True])
        .with_row_index("place")
        .select(
            *_THREAD, _NUMBER, *CALLBACK, "duration_ns", "start_ns", "end_ns", "place",
            before=pl.col("place").shift(1).over(_THREAD),
            last_ns=pl.col("end_ns").cum_max().over(_THREAD),
        )
        .collect()
    )  # fmt: skip
    every = samples.collect().sort("time_ns").with_row_index("row")
    joined = every.join_asof(
        finished, left_on="time_ns", right_on="start_ns", by=_THREAD, check_sortedness=False
    )
    goes_on = pl.col("time_ns") < pl.col("end_ns")
    columns = ("row", _NUMBER, *CALLBACK, "duration_ns")
    found = [joined.filter(goes_on).select(columns)]
    # The sample may be in an execution that began before this one and goes on longer.
    longer = ~goes_on & (pl.col("time_ns") < pl.col("last_ns"))
    while (rest := joined.filter(longer)).height:
        joined = rest.select("row", "time_ns", place="before").join(finished, on="place")
        found.append(joined.filter(goes_on).select(columns))
    return every.join(pl.concat(found), on="row", how="left", maintain_order="left").drop("row")


def after_open_starts(samples: pl.DataFrame, executions: pl.LazyFrame) -> pl.DataFrame:
    """Return samples outside of executions for which an execution without an end may account.

    Parameters
    ----------
    samples, executions
        From `assign_to_executions`, and its executions.

    Returns
    -------
    The samples before which the last execution to begin on their thread is one whose end was not
    recorded.
    """
    begun = executions.select(*_THREAD, "start_ns", last_end_ns="end_ns").sort("start_ns").collect()
    return (
        samples.filter(pl.col(_NUMBER).is_null())
        .sort("time_ns")
        .join_asof(
            begun, left_on="time_ns", right_on="start_ns", by=_THREAD, check_sortedness=False
        )
        .filter(pl.col("start_ns").is_not_null() & pl.col("last_end_ns").is_null())
        .select(samples.columns)
    )


def as_samples(waits: pl.LazyFrame) -> pl.LazyFrame:
    """Return waits in the form of samples, without the kernel's functions, in which all waits end.

    Parameters
    ----------
    waits
        The table ``waits``.

    Returns
    -------
    The columns of ``cpu_samples``; ``cpu_ns`` is the length of the wait.
    """
    path = pl.col("path").str.replace(r"^(?:[^\n]* \[kernel\]\n)+", "")
    return waits.rename({"wait_ns": "cpu_ns"}).with_columns(path)


def waits_of_slow(waits: pl.DataFrame, executions: pl.DataFrame) -> pl.DataFrame:
    """Return for how much of their time slow executions of callbacks wait, and where most.

    Parameters
    ----------
    waits
        From `as_samples`, assigned to executions by `assign_to_executions`.
    executions
        From `ended`, of the same runs.

    Returns
    -------
    ``kind``, ``name``, ``node``, ``share`` (0..1, of the slow executions' time), ``place`` (the
    innermost functions of the stacks with the most waiting time, innermost first), ``place_share``
    (of the same time); the callback that waits longest first. Callbacks without slow executions,
    or whose slow executions wait for less than a hundredth of their time, have no row.
    """
    slow = executions.join(
        slow_executions(executions).filter("slow"), on=["run", _NUMBER], how="semi"
    )
    whole = slow.group_by(CALLBACK).agg(whole=pl.col("duration_ns").sum())
    place = pl.col("path").str.split("\n").list.head(_PLACE_FUNCTIONS).list.join(" <- ")
    in_all = pl.col("ns").sum().over(CALLBACK)
    return (
        waits.join(slow, on=["run", _NUMBER], how="semi")
        .group_by(*CALLBACK, place=place)
        .agg(ns=pl.col("cpu_ns").sum())
        .sort(in_all, "ns", "place", descending=[True, True, False])
        .join(whole, on=CALLBACK, nulls_equal=True, maintain_order="left")
        .select(
            *CALLBACK, "place", share=in_all / pl.col("whole"),
            place_share=pl.col("ns") / pl.col("whole"),
        )
        .unique(CALLBACK, keep="first", maintain_order=True)
        .filter(pl.col("share") >= _LEAST_WAITS)
    )  # fmt: skip


def ended(samples: pl.DataFrame, executions: pl.LazyFrame) -> pl.DataFrame:
    """Return the executions that ended, of the runs that have samples.

    Parameters
    ----------
    samples, executions
        See `assign_to_executions`.
    """
    sampled = pl.col("run").is_in(samples["run"].unique().to_list())
    return executions.filter(sampled, pl.col("end_ns").is_not_null()).collect()


def busiest(samples: pl.DataFrame) -> pl.DataFrame:
    """Return the samples of the callback with the most CPU time; empty if none is in a callback.

    Parameters
    ----------
    samples
        From `assign_to_executions`.
    """
    in_callbacks = samples.drop_nulls(_NUMBER)
    sums = in_callbacks.group_by(CALLBACK).agg(pl.col("cpu_ns").sum()).sort("cpu_ns", *CALLBACK)
    return in_callbacks.join(sums.tail(1), on=CALLBACK, how="semi", nulls_equal=True)


def time_by_function(samples: pl.DataFrame) -> pl.DataFrame:
    """Return the CPU time of each function in each execution that has samples.

    Parameters
    ----------
    samples
        From `assign_to_executions`.

    Returns
    -------
    ``run``, ``kind``, ``name``, ``node``, ``callback_instance_id``, ``function``; ``self_ns``:
    while the function itself ran; ``total_ns``: while the function or any function that it called
    ran, counted once however often it is on the stack.
    """
    stacks = (
        samples.drop_nulls(_NUMBER)
        .group_by("run", *CALLBACK, _NUMBER, "path")
        .agg(pl.col("cpu_ns").sum())
        .with_columns(function=pl.col("path").str.split("\n"))
    )
    innermost = pl.col("function").list.first()
    return (
        stacks.with_columns(own=innermost, function=pl.col("function").list.unique())
        .explode("function")
        .group_by("run", *CALLBACK, _NUMBER, "function")
        .agg(
            self_ns=pl.col("cpu_ns").filter(pl.col("own") == pl.col("function")).sum(),
            total_ns=pl.col("cpu_ns").sum(),
        )
    )


def slow_executions(executions: pl.DataFrame) -> pl.DataFrame:
    """Return ``run``, ``callback_instance_id``, ``slow`` (in the slowest tenth of its callback's).

    Parameters
    ----------
    executions
        ``callback_instances`` with ``run``.
    """
    bound = quantile_of(pl.col("duration_ns"), SLOWEST).over(CALLBACK)
    return executions.select("run", _NUMBER, slow=pl.col("duration_ns") > bound)


def shares(
    functions: pl.DataFrame, samples: pl.DataFrame, executions: pl.DataFrame, level: float
) -> pl.DataFrame:
    """Return the share of each function in the CPU time of each callback.

    From three runs on, shares are means of the runs' shares, and the interval of the total share is
    Student's. With fewer it is that of a ratio of two means over executions (Cochran 1977, Sampling
    Techniques, 6.3), and says nothing about other runs.

    Parameters
    ----------
    functions, samples
        From `time_by_function` and `assign_to_executions`.
    executions
        ``callback_instances`` with ``run``.

    Returns
    -------
    ``kind``, ``name``, ``node``, ``function``, ``self_share``, ``total_share``, ``low``, ``high``
    (of the total share), ``slow_share`` (the total share in the slowest tenth of the executions),
    ``self_ns``, ``total_ns`` (ns per execution), ``runs``, ``executions``, ``samples``,
    ``method``; the callback with the most CPU time first.
    """
    slow = slow_executions(executions)
    cpu = (
        samples.drop_nulls(_NUMBER)
        .group_by("run", *CALLBACK, _NUMBER)
        .agg(pl.col("cpu_ns").sum(), samples=pl.len())
        .join(slow, on=["run", _NUMBER], how="left")
    )
    counts = executions.group_by("run", *CALLBACK).agg(executions=pl.len())
    rows = []
    order = cpu.group_by(CALLBACK).agg(pl.col("cpu_ns").sum()).sort(-pl.col("cpu_ns"), *CALLBACK)
    for callback in order.select(CALLBACK).iter_rows():
        its = [pl.col(c).eq_missing(pl.lit(v)) for c, v in zip(CALLBACK, callback, strict=True)]
        cells, count = cpu.filter(its), counts.filter(its)
        mine = functions.filter(its).join(slow, on=["run", _NUMBER], how="left")
        runs, number = cells["run"].n_unique(), int(count["executions"].sum())
        keys = cells.select("run", _NUMBER, "cpu_ns")
        # With fewer runs, they count as one.
        group = pl.col("run") if runs >= MINIMUM_RUNS else pl.lit("").alias("run")
        whole = cells.group_by(group).agg(
            of=pl.col("cpu_ns").sum(), slow_of=pl.col("cpu_ns").filter("slow").sum()
        )
        for (function,), part in mine.group_by("function"):
            sums = part.group_by(group).agg(
                pl.col(TIMES).sum(), slow_ns=pl.col("total_ns").filter("slow").sum()
            )
            joined = whole.join(sums, on="run", how="left").fill_null(0).sort("run")
            totals = joined["total_ns"] / joined["of"]
            slow_part = joined.filter(pl.col("slow_of") > 0)
            if runs >= MINIMUM_RUNS:
                interval = student_t(totals.to_numpy(), level)
                share, method = not_none(interval.value), "Student t over runs"
                half = not_none(interval.high) - share
            else:
                each = keys.join(part, on=["run", _NUMBER], how="left").fill_null(0)
                share, method = totals[0], "ratio over executions, of these runs alone"
                half = _half_interval(
                    each["total_ns"].to_numpy(), each["cpu_ns"].to_numpy(), number, level
                )
            rows.append(
                (
                    *callback, function, (joined["self_ns"] / joined["of"]).mean(), share,
                    max(0.0, share - half), min(1.0, share + half),
                    (slow_part["slow_ns"] / slow_part["slow_of"]).mean(),
                    int(part["self_ns"].sum()) / number, int(part["total_ns"].sum()) / number,
                    runs, number, int(cells["samples"].sum()), method,
                )
            )  # fmt: skip
    schema = {
        **dict.fromkeys((*CALLBACK, "function"), pl.String()),
        **dict.fromkeys(
            ("self_share", "total_share", "low", "high", "slow_share", "self_ns", "total_ns"),
            pl.Float64(),
        ),
        **dict.fromkeys(("runs", "executions", "samples"), pl.Int64()),
        "method": pl.String(),
    }
    table = pl.DataFrame(rows, schema=schema, orient="row")
    ranks = order.select(CALLBACK).with_row_index("rank")
    return (
        table.join(ranks, on=CALLBACK, nulls_equal=True)
        .sort(
            "rank", "self_share", "total_share", "function", descending=[False, True, True, False]
        )
        .drop("rank")
    )


def _half_interval(part: np.ndarray, whole: np.ndarray, number: int, level: float) -> float:
    """Return half the interval of sum(part) / sum(whole), arrays with one value per execution.

    Executions without samples count in `number`, and add nothing to either sum.
    """
    if number < MINIMUM_RUNS:
        return math.inf
    residuals = part - part.sum() / whole.sum() * whole
    error = math.sqrt(float((residuals**2).sum()) * number / (number - 1)) / float(whole.sum())
    return t_quantile((1 + level) / 2, number - 1) * error


def per_execution(functions: pl.DataFrame, executions: pl.DataFrame) -> pl.DataFrame:
    """Return the CPU time of each function per execution of its callback, in each run.

    Returns
    -------
    ``kind``, ``name``, ``node``, ``function``, ``run``, ``self_ns``, ``total_ns``; a function
    without samples in a run has no row for it.
    """
    counts = executions.group_by("run", *CALLBACK).agg(count=pl.len())
    sums = functions.group_by("run", *CALLBACK, "function").agg(pl.col(TIMES).sum())
    joined = sums.join(counts, on=["run", *CALLBACK], nulls_equal=True)
    return joined.select(*_FUNCTION, "run", pl.col(TIMES) / pl.col("count"))


def speeds(functions: pl.DataFrame, runs: int) -> dict[str, float]:
    """Return by what factor each run is slower than the others in all that it does; 1: as fast.

    It is the median over functions of the ratios to their geometric means over runs (Anders and
    Huber 2010, Differential expression analysis for sequence count data, Genome Biology 11, R106,
    equation 5). A change in fewer than half of the functions does not move it.

    Parameters
    ----------
    functions
        From `per_execution`, of both sides.
    runs
        Number of runs of both sides.

    Returns
    -------
    The factor by run; empty if all runs have fewer than five functions in common.
    """
    parts = pl.col("self_ns") / pl.col("self_ns").sum().over("run", *CALLBACK)
    common = functions.filter(
        pl.col("self_ns") > 0, parts.mean().over(_FUNCTION) >= LEAST_SHARE
    ).filter(pl.len().over(_FUNCTION) == runs)
    if common.select(_FUNCTION).unique().height < _LEAST_FUNCTIONS:
        return {}
    logs = pl.col("self_ns").log()
    ratios = common.with_columns(ratio=(logs - logs.mean().over(_FUNCTION)).exp())
    return dict(ratios.group_by("run").agg(pl.col("ratio").median()).iter_rows())


def changed(
    base: pl.DataFrame,
    new: pl.DataFrame,
    executions: tuple[pl.DataFrame, pl.DataFrame],
    level: float,
    time: Time = "self_ns",
) -> pl.DataFrame:
    """Return the changes of functions' CPU time per execution, the greatest change first.

    What all functions have in common, such as a slower machine, is removed from each run first,
    see `speeds`. Differences of means over runs, by Welch's and the pooled t; p values adjusted by
    Holm over all functions that are compared: those with at least half a per cent of their
    callback's time on a side.

    Parameters
    ----------
    base, new
        From `per_execution`.
    executions
        The executions of each side, from `ended`: a function that a run lacks took no time in it,
        but runs in which the callback did not run say nothing about its functions.
    time
        The time that is compared.

    Returns
    -------
    ``kind``, ``name``, ``node``, ``function``, ``base_ns``, ``new_ns``, ``change_ns``, ``low``,
    ``high`` (ns per execution), ``common`` (factor by which all functions became slower, which is
    not in the change; null if unknown), ``p_holm``, ``confirmed``, ``refused``.
    """
    runs = [side["run"].unique().sort().to_list() for side in executions]
    numbers = [{name: f"{side} {name}" for name in members} for side, members in enumerate(runs)]
    sides = [
        functions.filter(pl.col("run").is_in(list(renamed))).with_columns(
            pl.col("run").replace_strict(renamed, return_dtype=pl.String)
        )
        for functions, renamed in zip((base, new), numbers, strict=True)
    ]
    slower = speeds(pl.concat(sides), sum(map(len, runs)))
    means = [
        geometric_mean(slower.get(run, 1.0) for run in renamed.values()) if renamed else 1
        for renamed in numbers
    ]
    taken = [
        {tuple(key): ns for *key, ns in side.select(*_FUNCTION, "run", time).iter_rows()}
        for side in sides
    ]
    ran = [set(side.select("run", *CALLBACK).unique().iter_rows()) for side in executions]
    rows = []
    for key in _compared(sides, time).iter_rows():
        values = [
            [
                of_side.get((*key, run), 0.0) / slower.get(run, 1.0) * means[0]
                for name, run in renamed.items()
                if (name, *key[: len(CALLBACK)]) in ran_in
            ]
            for of_side, renamed, ran_in in zip(taken, numbers, ran, strict=True)
        ]
        before, after = (float(np.mean(ns)) if ns else None for ns in values)
        if min(map(len, values)) < MINIMUM_RUNS:
            counts = " and ".join(str(len(ns)) for ns in values)
            few = f"ran in {counts} runs; at least {MINIMUM_RUNS} a side"
            change_ns = None if before is None or after is None else after - before
            rows.append((*key, before, after, change_ns, None, None, None, few))
        else:
            change = difference_of_means(Spread.of(values[1]), Spread.of(values[0]), level)
            rows.append(
                (*key, before, after, change.value, change.low, change.high, change.p, None)
            )
    kinds = (*[pl.String()] * 4, *[pl.Float64()] * 6, pl.String())
    names = (*_FUNCTION, "base_ns", "new_ns", "change_ns", "low", "high", "p_holm", "refused")
    table = pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)), orient="row")
    adjusted = pl.Series("p_holm", holm_of_known(table["p_holm"].to_list()), dtype=pl.Float64)
    return (
        table.with_columns(adjusted)
        .with_columns(
            common=pl.lit(means[1] / means[0] if slower else None, dtype=pl.Float64),
            confirmed=(pl.col("p_holm") < 1 - level).fill_null(value=False),
        )
        .sort(pl.col("change_ns").abs(), descending=True, nulls_last=True, maintain_order=True)
    )


def _compared(sides: Sequence[pl.DataFrame], time: Time) -> pl.DataFrame:
    """Return the functions with enough of their callback's time on at least one side."""
    functions = []
    for side in sides:
        sums = side.group_by(_FUNCTION).agg(pl.col(time).sum())
        enough = pl.col(time) >= LEAST_SHARE * pl.col(time).sum().over(CALLBACK)
        functions.append(sums.filter(enough).select(_FUNCTION))
    return pl.concat(functions).unique().sort(_FUNCTION)
