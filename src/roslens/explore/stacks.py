"""Explore the functions in which callbacks spend their time: ``run.stacks``."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from roslens.analysis.figures.flame import Flame, frames_of
from roslens.analysis.figures.picture import Picture
from roslens.analysis.figures.stacks import function_shares
from roslens.analysis.measures.callbacks import number_namesakes
from roslens.analysis.measures.stacks import (
    TIMES,
    Time,
    after_open_starts,
    as_samples,
    assign_to_executions,
    busiest,
    callback_title,
    changed,
    ended,
    per_execution,
    shares,
    slow_executions,
    time_by_function,
    waits_of_slow,
)
from roslens.analysis.reports.functions import dominant_functions, waits_in
from roslens.collectors.views import matching
from roslens.explore.noun import picture
from roslens.recording import UsageError
from roslens.recording.text import shown_lines

if TYPE_CHECKING:
    from roslens.runs import Runs

_LEVEL = 0.95


class Stacks:
    """Functions in which callbacks spend CPU time, for runs recorded with ``--stacks``.

    With ``waits=True`` the time is that spent waiting off the CPUs, for runs recorded with
    ``--waits``; CPU samples and waits are never added up. Inlined functions count as the functions
    that contain them; below Python 3.12, Python's functions count as the interpreter's, and with
    3.12 only the innermost Python function is seen.
    """

    def __init__(self, run: Runs) -> None:
        self._run = run

    @cached_property
    def _callbacks(self) -> pl.LazyFrame:
        return number_namesakes(self._run.table("callback_instances"))

    @cached_property
    def _samples(self) -> pl.DataFrame:
        samples = assign_to_executions(self._run.cpu_samples, self._callbacks)
        if not samples.height:
            raise UsageError("no stacks were recorded: record with 'roslens record --stacks'")
        return samples

    @cached_property
    def _waits(self) -> pl.DataFrame:
        waits = assign_to_executions(as_samples(self._run.waits), self._callbacks)
        if not waits.height:
            raise UsageError("no waits were recorded: record with 'roslens record --waits'")
        return waits

    @cached_property
    def _executions(self) -> pl.DataFrame:
        """Return the executions that have ended, of the runs with samples."""
        return ended(self._samples, self._callbacks)

    @cached_property
    def _executions_with_waits(self) -> pl.DataFrame:
        """Return the executions that have ended, of the runs with waits."""
        return ended(self._waits, self._callbacks)

    def _samples_and_executions(
        self, node: str | None = None, name: str | None = None, *, waits: bool
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the samples or waits of callbacks, and all executions of the runs with any."""
        frame, executions = (
            (self._waits, self._executions_with_waits)
            if waits
            else (self._samples, self._executions)
        )
        for column, wanted in (("node", node), ("name", name)):
            if wanted is not None:
                names = executions[column].drop_nulls()
                matches = matching(wanted, names, f"callback's {column}")
                frame = frame.filter(pl.col(column).is_in(sorted(matches)))
        return frame, executions

    def sentences(self) -> list[str]:
        """Name the functions in which callbacks spend the most time, and what samples do not see.

        Raises
        ------
        UsageError
            Neither stacks nor waits were recorded.
        """
        waited = bool(self._run.waits.head(1).collect().height)
        waiting = (
            waits_in(waits_of_slow(*self._samples_and_executions(waits=True))) if waited else []
        )
        if waited and not self._run.cpu_samples.head(1).collect().height:
            return ["Waits were recorded, but no CPU samples.", *waiting]
        table, samples = self.functions(), self._samples
        sentences = dominant_functions(table)
        unended = after_open_starts(samples, self._callbacks).height
        out = samples["callback_instance_id"].null_count() - unended
        nameless = samples.filter(pl.col("path").str.starts_with("[")).height
        cut = samples.height - int(samples["whole"].sum())
        sentences.append(
            f"Of {samples.height:,} samples {out:,} lie outside of callbacks, "
            f"{unended:,} after the start of one whose end was not recorded, {nameless:,} in "
            f"functions without symbols, and {cut:,} do not reach their thread's first function."
        )
        process = ["run", "host", "vpid"]
        unseen = samples.join(self._executions, on=process, how="anti").height
        sentences += waiting
        if unseen:
            sentences.append(
                f"{unseen:,} samples are of processes that the trace knows no callback of. If they "
                "are of a container, which has process ids of its own, record inside of it."
            )
        return sentences

    def frame(
        self, node: str | None = None, name: str | None = None, *, waits: bool = False
    ) -> pl.DataFrame:
        """Return every sample, with the callback execution in which it was taken.

        Parameters
        ----------
        node, name
            Filters on the callback: full names or patterns with ``*``; a name is one of
            ``run.callbacks.summary``. None: also outside callbacks.
        waits
            Whether to return every wait instead, with the execution in which it began.

        Returns
        -------
        One row per sample: ``run``, the factors, ``time_ns`` (ns since the epoch), ``host``,
        ``vpid``, ``vtid``, ``cpu_ns`` (ns that it stands for; for waits ``wait_ns``, its
        duration), ``whole``, ``path`` (functions, innermost first, one per line; for waits without
        kernel functions, which the table ``waits`` has), ``callback_instance_id``, ``kind``,
        ``name``, ``node``, ``duration_ns``: null if its thread was in no callback that ended.

        Raises
        ------
        UsageError
            No stacks or waits were recorded, or no callback has such a node or name.
        """
        samples, _ = self._samples_and_executions(node, name, waits=waits)
        return samples.rename({"cpu_ns": "wait_ns"}) if waits else samples

    def functions(
        self,
        node: str | None = None,
        name: str | None = None,
        *,
        waits: bool = False,
        level: float = _LEVEL,
    ) -> pl.DataFrame:
        """Return each function's share of the CPU time or waiting time of each callback.

        Parameters
        ----------
        node, name
            As in `frame`.
        waits
            Whether to divide the waiting time instead of the CPU time.
        level
            Nominal coverage of the intervals, 0..1.

        Returns
        -------
        One row per callback and function, as in `roslens.analysis.measures.stacks.shares`:
        ``self_share``, ``total_share`` (including callees, 0..1), ``low``, ``high`` (of the
        total), ``slow_share`` (the total share in the slowest tenth of the executions),
        ``self_ns``, ``total_ns`` (ns of that time per execution), ``runs``, ``executions``,
        ``samples`` (or waits), ``method``.

        Raises
        ------
        UsageError
            As in `frame`; or the level is not between 0 and 1.
        """
        _check(level)
        samples, executions = self._samples_and_executions(node, name, waits=waits)
        return shares(time_by_function(samples), samples, executions, level)

    def changed(self, new: Runs, time: Time = "self_ns", *, level: float = _LEVEL) -> pl.DataFrame:
        """Return which functions take more or less CPU time per execution in other runs than here.

        Parameters
        ----------
        new
            The other runs, which must be open.
        time
            ``self_ns``: the function itself; ``total_ns``: including its callees.
        level
            As in `functions`; a change is confirmed if its p value, adjusted by Holm over all
            functions, is below 1 - level.

        Returns
        -------
        One row per callback and function, the greatest change first: ``base_ns``, ``new_ns``,
        ``change_ns``, ``low``, ``high`` (ns of CPU time per execution), ``common``: the factor by
        which all functions became slower, such as by a slower machine, which is excluded from the
        changes; ``p_holm``, ``confirmed``, ``refused`` (why there is no interval). Runs in which
        the callback did not run do not count.

        Raises
        ------
        UsageError
            No stacks were recorded on a side, `time` is neither of these, or the level is not
            between 0 and 1.
        """
        _check(level)
        if time not in TIMES:
            raise UsageError(f"time: {time!r} is neither {' nor '.join(TIMES)}")
        sides = self, Stacks(new)
        base, newer = (
            per_execution(time_by_function(side._samples), side._executions) for side in sides
        )
        executions = sides[0]._executions, sides[1]._executions
        return changed(base, newer, executions, level, time)

    def plot(
        self, node: str | None = None, name: str | None = None, *, waits: bool = False
    ) -> Picture:
        """Draw `functions` of the callback with the most of that time, as bars [%].

        Parameters
        ----------
        node, name, waits
            As in `functions`.

        Raises
        ------
        UsageError
            As in `frame`, or no sample lies in such a callback.
        """
        samples, executions = self._busiest(node, name, waits=waits)
        rows = shares(time_by_function(samples), samples, executions, _LEVEL)
        return picture(function_shares(rows, _title(samples.row(0, named=True)), waits=waits))

    def flame(
        self, node: str | None = None, name: str | None = None, *, waits: bool = False
    ) -> Flame:
        """Draw the stacks of the callback with the most CPU or waiting time as a flame graph.

        A function's width is its share of the callback's time, including its callees, which hang
        below it; orange marks a greater share in the slowest tenth of the executions. Clicking a
        function widens it; clicking ``all`` shows everything again.

        Parameters
        ----------
        node, name, waits
            As in `functions`.

        Returns
        -------
        A Vega chart that JupyterLab and VS Code show; ``specification`` is its JSON.

        Raises
        ------
        UsageError
            As in `plot`.
        """
        samples, all_executions = self._busiest(node, name, waits=waits)
        slow = slow_executions(all_executions)
        marked = samples.join(slow, on=["run", "callback_instance_id"], how="left")
        executions = samples.select("run", "callback_instance_id").n_unique()
        caption = (
            f"{samples.height:,} {'waits' if waits else 'samples'} in {executions:,} executions"
        )
        return Flame(frames_of(marked), _title(samples.row(0, named=True)), caption)

    def _busiest(
        self, node: str | None, name: str | None, *, waits: bool
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the samples of the callback with the most of that time, and all executions."""
        seen, executions = self._samples_and_executions(node, name, waits=waits)
        samples = busiest(seen)
        if not samples.height:
            raise UsageError(f"no {'wait' if waits else 'sample'} lies in such a callback")
        return samples, executions

    def __repr__(self) -> str:
        return shown_lines("\n".join(self.sentences()))


def _title(row: dict[str, Any]) -> str:
    return f"The {callback_title(row['kind'], row['name'], row['node'])}"


def _check(level: float) -> None:
    if not 0 < level < 1:
        raise UsageError(f"level: {level:g} is not between 0 and 1")
