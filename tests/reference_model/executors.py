"""Find when the threads of executors waited for work, and when they did not.

Decided when the event comes: ``rclcpp_executor_wait_for_work`` or ``executor_wait_start`` begins a
wait, the thread's next executor event (``rclcpp_executor_*``, ``executor_wait_end``) ends it and
begins a busy interval, which the next wait ends. ``rclcpp_executor_execute`` counts in the interval
in which it comes. If events of the thread may be missing, the interval has no end, and counts the
events before. Decided at the end: the time within callbacks, by the executions that ended.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from reference_model.callbacks import Callbacks
from reference_model.events import Event
from reference_model.gaps import Gaps
from reference_model.objects import Row
from reference_model.walk import place


class Executors:
    """Intervals of the threads of executors."""

    def __init__(self, callbacks: Callbacks, gaps: Gaps) -> None:
        self.callbacks, self.gaps = callbacks, gaps
        self.rows: list[Row] = []
        self.current: dict[Any, Row] = {}

    def on_rclcpp_executor_wait_for_work(self, e: Event) -> None:
        self._begin(e, "wait", e["timeout"])

    def on_executor_wait_start(self, e: Event) -> None:
        self._begin(e, "wait", None)

    def on_rclcpp_executor_get_next_ready(self, e: Event) -> None:
        self._busy(e)

    on_executor_wait_end = on_rclcpp_executor_get_next_ready

    def on_rclcpp_executor_execute(self, e: Event) -> None:
        self._busy(e)
        self.current[e["thread"]]["executed"] += 1

    def on_gap(self, e: Event) -> None:
        """Leave the end of the thread's interval unknown."""
        current = self.current.get(e["thread"])
        if current is not None:
            current["_cut"] = True

    def _busy(self, e: Event) -> None:
        current = self.current.get(e["thread"])
        if current is None or current["state"] == "wait" or current["_cut"]:
            self._begin(e, "busy", None)

    def _begin(self, e: Event, state: str, timeout_ns: int | None) -> None:
        before = self.current.get(e["thread"])
        if before is not None and not before["_cut"]:
            before["end_ns"] = e["time_ns"]
        row = {
            **place(e),
            "state": state,
            "begin_ns": e["time_ns"],
            "end_ns": None,
            "timeout_ns": timeout_ns,
            "executed": 0,
            "_cut": False,
        }
        self.current[e["thread"]] = row
        self.rows.append(row)

    def finish(self) -> None:
        by_thread = defaultdict(list)
        for instance in self.callbacks.instances:
            if instance["end_ns"] is not None:
                by_thread[instance["_thread"]].append((instance["start_ns"], instance["end_ns"]))
        merged = {thread: _merged(spans) for thread, spans in by_thread.items()}
        for row in self.rows:
            begin, end = row["begin_ns"], row["end_ns"]
            if end is None:
                row["duration_ns"] = row["executed"] = row["callback_ns"] = None
                continue
            row["duration_ns"] = end - begin
            row["callback_ns"] = 0
            spans = merged.get(row["_thread"], [])
            # Intervals of a thread come in order: earlier executions are not needed any more.
            while spans and spans[0][1] <= begin:
                spans.pop(0)
            for start, stop in spans:
                if start >= end:
                    break
                row["callback_ns"] += min(stop, end) - max(start, begin)
        self._split(self.callbacks.instances)

    def _split(self, instances: Iterable[Row]) -> None:
        """Cut busy intervals where another thread of the executor waited and nothing was run."""
        by_thread = defaultdict(list)
        for instance in instances:
            by_thread[instance["_thread"]].append(instance)
        rows, self.rows = self.rows, []
        waits = defaultdict(list)
        latest = {row["_thread"]: row["begin_ns"] for row in rows}
        for thread, executions in by_thread.items():
            latest[thread] = max(executions[-1]["start_ns"], latest.get(thread, 0))
        for row in rows:
            # One without an end that something follows on its thread ended at an unknown time.
            last = row["begin_ns"] == latest[row["_thread"]]
            ends = row["end_ns"] is not None or (last and not self.gaps.rows)
            if row["state"] == "wait" and ends:
                until = float("inf") if row["end_ns"] is None else row["end_ns"]
                waits[row["_thread"]].append((row["begin_ns"], until))
        for row in rows:
            cuts = []
            if row["state"] == "busy" and row["end_ns"] is not None:
                for begin, end in _idle(row, by_thread[row["_thread"]]):
                    for waiter in list(waits):
                        if _shared(by_thread, row["_thread"], waiter) and not any(
                            a < d and c < b
                            for a, b in waits[row["_thread"]]
                            for c, d in waits[waiter]
                        ):
                            overlaps = [(max(begin, c), int(min(end, d))) for c, d in waits[waiter]]
                            cuts += [(c, d) for c, d in overlaps if c < d]
            self.rows += _pieces(row, _merged(cuts), by_thread[row["_thread"]]) if cuts else [row]
        self.rows.sort(key=lambda row: row["begin_ns"])


def _shared(ran: dict[Any, list[Row]], thread: Any, target: Any) -> bool:
    """Whether two threads are linked by callbacks that threads have in common."""
    reached = {thread}
    if target in reached:
        return False
    while True:
        callbacks = {id(i["_callback"]) for peer in reached for i in ran[peer] if i["_callback"]}
        more = {
            peer for peer in ran if any(id(i["_callback"]) in callbacks for i in ran[peer])
        } - reached
        if target in more or not more:
            return target in more
        reached |= more


def _idle(row: Row, instances: list[Row]) -> list[tuple[int, int]]:
    """Return the parts of an interval that follow its callbacks, or all if nothing was executed."""
    begin, end = row["begin_ns"], row["end_ns"]
    spans = []
    for i in instances:
        open_ended = begin <= i["start_ns"] < end if i["end_ns"] is None else False
        stop = end if open_ended else i["end_ns"]
        if stop is not None and i["start_ns"] < end and stop >= begin:
            spans.append((i["start_ns"], stop))
    spans = _merged(spans)
    if row["executed"] == 0 and all(stop <= begin for _, stop in spans):
        return [(begin, end)]
    following = [start for start, _ in spans[1:]] + [end]
    return [(stop, until) for (_, stop), until in zip(spans, following) if stop < end]  # noqa: B905


def _pieces(row: Row, cuts: list[tuple[int, int]], instances: list[Row]) -> list[Row]:
    edges = [row["begin_ns"], *(t for cut in cuts for t in cut), row["end_ns"]]
    spans = _merged([(i["start_ns"], i["end_ns"]) for i in instances if i["end_ns"] is not None])
    starts = [i["start_ns"] for i in instances if i["kind"] in {"timer", "subscription"}]
    pieces = []
    for number, (begin, end) in enumerate(itertools.pairwise(edges)):
        if begin < end:
            piece = dict(row) | {"begin_ns": begin, "end_ns": end, "duration_ns": end - begin}
            piece["state"] = "blocked" if number % 2 else "busy"
            piece["executed"] = sum(begin <= t < end for t in starts)
            piece["callback_ns"] = sum(max(0, min(end, b) - max(begin, a)) for a, b in spans)
            pieces.append(piece)
    rest = row["executed"] - sum(piece["executed"] for piece in pieces)
    pieces[0]["executed"] += max(rest, 0)
    return pieces


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge overlapping spans, so that nested executions count once."""
    whole: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if whole and start <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(end, whole[-1][1]))
        else:
            whole.append((start, end))
    return whole
