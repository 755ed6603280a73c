"""The timeline in a notebook: ``rl.timeline(opened)``."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import traitlets

from analysis.interop.perfetto import write_perfetto
from analysis.reports.numbers import milliseconds
from analysis.timeline.journey import Flows, Journey, journey_of
from analysis.timeline.tracks import Picture, build_timeline
from roslens.export import tables_of_one
from roslens.recordings import Recordings
from tracing.recording import UsageError

_HERE = Path(__file__).resolve().parent
_CLICK_PIXELS = 4


class TimelineWidget(anywidget.AnyWidget):
    """Tracks by process, thread and node; slices for callbacks and waiting; arrows for messages.

    Zoom with the wheel, + and -; pan by dragging, or with the arrow keys; click a callback for the
    whole way of its message; drag with shift to select a range, which `view` applies to every
    table. The kernel sends at most `analysis.timeline.tracks.MOST_MARKS` marks per picture.

    Attributes
    ----------
    selection
        The range selected: begin and end in ns since the epoch; None without one.
    journey
        The message clicked: topic, nodes, outcome, and its hops with their durations; None without
        one.
    """

    _esm = _HERE / "timeline.js"
    _css = _HERE / "timeline.css"

    tracks: traitlets.List[dict[str, str]] = traitlets.List().tag(sync=True)
    names: traitlets.List[str] = traitlets.List().tag(sync=True)
    origin = traitlets.Unicode().tag(sync=True)
    length = traitlets.Float().tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    # As text: a moment in ns does not fit into a number of JavaScript.
    selected_range: traitlets.List[str] = traitlets.List(traitlets.Unicode()).tag(sync=True)
    journey: Any = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
    selection: Any = traitlets.Tuple(allow_none=True, default_value=None)

    def __init__(self, recordings: Recordings) -> None:
        if len(recordings.runs) != 1:
            raise UsageError(
                f"a timeline is of one run, and these are {len(recordings.runs)}: open one of them"
            )
        self.recordings = recordings
        self.timeline = build_timeline(
            recordings.callback_instances, recordings.executor_intervals, recordings.processes
        )
        self._flows = Flows(recordings.messages, recordings.publications)
        found = self.timeline
        super().__init__(
            tracks=[{"label": t.label, "group": t.group, "kind": t.kind} for t in found.tracks],
            names=list(found.names),
            origin=str(found.begin_ns),
            length=float(found.end_ns - found.begin_ns),
            title=recordings.runs[0].name,
        )
        self.on_msg(self._answer)
        self.observe(self._on_range, "selected_range")

    def view(self) -> Recordings:
        """The recording with only the selected range; all of it without a selection."""
        if self.selection is None:
            return self.recordings
        return self.recordings.view(window_ns=self.selection)

    def export_perfetto(self, path: str | Path) -> Path:
        """Write the selected range (or all) for ui.perfetto.dev."""
        target = Path(path)
        write_perfetto(tables_of_one(self.view(), self.title), target)
        return target

    # ------------------------------------------------------------ what the browser asks

    def _answer(self, _widget: object, content: dict[str, Any], _buffers: object) -> None:
        if content.get("type") == "view":
            self._send_picture(content)
        elif content.get("type") == "click":
            self._click(int(content["track"]), float(content["time"]), float(content["within"]))

    def _send_picture(self, content: dict[str, Any]) -> None:
        begin = self.timeline.begin_ns + int(content["begin"])
        end = self.timeline.begin_ns + int(content["end"])
        shown = [int(i) for i in content["shown"] if 0 <= int(i) < len(self.timeline.tracks)]
        picture = self.timeline.picture(begin, end, int(content["width"]), shown)
        arrows = self._flows.arrows(begin, end)
        meta = {
            "type": "picture",
            "request": content.get("request"),
            "begin": begin - self.timeline.begin_ns,
            "end": end - self.timeline.begin_ns,
            "columns": picture.bins.columns,
            "arrows": arrows.count,
        }
        origin = self.timeline.begin_ns
        ends = [_relative(arrows.begin_ns, origin), _relative(arrows.end_ns, origin)]
        ids = [self._track_of(arrows.from_id).tobytes(), self._track_of(arrows.to_id).tobytes()]
        self.send(meta, [*_buffers(picture, origin), *ends, *ids])

    @cached_property
    def _callbacks(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """All callback instances, sorted, and the track of each."""
        parts = [(i, t.ids) for i, t in enumerate(self.timeline.tracks) if t.kind == "callback"]
        known = np.concatenate([np.zeros(0, np.int64), *(ids for _, ids in parts)])
        tracks = np.repeat(np.array([i for i, _ in parts], np.int32), [p.size for _, p in parts])
        order = np.argsort(known)
        return known[order], tracks[order]

    def _track_of(self, ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Index of the track of each callback instance; -1 where it has none."""
        if not ids.size:
            return np.zeros(0, np.int32)
        known, tracks = self._callbacks
        if not known.size:
            return np.full(ids.size, -1, np.int32)
        place = np.minimum(np.searchsorted(known, ids), known.size - 1)
        return np.where(known[place] == ids, tracks[place], -1).astype(np.int32)

    def _click(self, track: int, time: float, within: float) -> None:
        if not 0 <= track < len(self.timeline.tracks):
            return
        found = self.timeline.tracks[track]
        moment = self.timeline.begin_ns + round(time)
        index = self.timeline.at(track, moment, round(_CLICK_PIXELS * within))
        if index is None or found.kind != "callback":
            self.journey = None
            return
        clicked = {
            "node": found.label,
            "name": self.timeline.names[int(found.names[index])],
            "begin": float(found.begin_ns[index] - self.timeline.begin_ns),
            "end": float(found.end_ns[index] - self.timeline.begin_ns),
            "duration_ms": milliseconds(int(found.end_ns[index] - found.begin_ns[index])),
            "hops": [],
        }
        journey = journey_of(self.recordings.messages, int(found.ids[index]))
        self.journey = clicked | (_as_dict(journey, self.timeline.begin_ns) if journey else {})

    def _on_range(self, change: Any) -> None:
        given = change["new"]
        self.selection = None if len(given) != 2 else (int(given[0]), int(given[1]))


def _relative(times: np.ndarray[Any, Any], origin: int) -> bytes:
    """As doubles since the origin: exact up to 104 days."""
    return (times - origin).astype(np.float64).tobytes()


def _buffers(picture: Picture, origin: int) -> list[bytes]:
    slices, bins = picture.slices, picture.bins
    return [
        slices.track.tobytes(),
        _relative(slices.begin_ns, origin),
        _relative(slices.end_ns, origin),
        slices.names.astype(np.int32).tobytes(),
        bins.track.tobytes(),
        bins.column.tobytes(),
        bins.busy.astype(np.float32).tobytes(),
        bins.count.astype(np.int32).tobytes(),
    ]


def _as_dict(journey: Journey, origin: int) -> dict[str, Any]:
    """What the browser shows of a message."""
    return {
        "message_id": journey.message_id,
        "topic": journey.topic,
        "publisher_node": journey.publisher_node,
        "subscription_node": journey.subscription_node,
        "outcome": journey.outcome,
        "latency_ms": milliseconds(journey.latency_ns),
        "hops": [
            {
                "name": hop.name,
                "begin": float(hop.begin_ns - origin),
                "end": float(hop.end_ns - origin),
                "duration_ms": milliseconds(hop.duration_ns),
                "duration_ns": hop.duration_ns,
            }
            for hop in journey.hops
        ],
    }


def timeline(recordings: Recordings) -> TimelineWidget:
    """The timeline of one run, to be explored.

    >>> rl.timeline(rl.open("data/samples/two_process"))

    Raises
    ------
    UsageError
        These are several runs.
    """
    return TimelineWidget(recordings)
