"""Show the timeline in a notebook: ``rl.timeline(opened)``."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import anywidget
import polars as pl
import traitlets

from roslens.analysis.interop.perfetto import write_perfetto
from roslens.analysis.path.path import Paths
from roslens.analysis.reports.numbers import milliseconds
from roslens.analysis.timeline.arrows import MOST_ARROWS, Arrows, Flows
from roslens.analysis.timeline.build import build_timeline
from roslens.analysis.timeline.journey import Journey, journey_of
from roslens.analysis.timeline.latencies import ROWS, Latencies
from roslens.analysis.timeline.tracks import Picture, Timeline, Track
from roslens.export import perfetto_tables
from roslens.recording import RoslensError, UsageError
from roslens.recording.arrays import Ints, NDArray, np
from roslens.recordings import Recordings
from roslens.widgets import STATIC

_VIEW = Path(__file__).resolve().parent / "timeline_view"
_PARTS = (
    *("drawing", "layout", "axis", "marks", "search", "answers", "tracks", "latency", "choice"),
    *("saving", "help", "input", "view"),
)
"""A widget's script must be one text: it has no address from which to import other files."""

_CLICK_PIXELS = 4
_FIRST_WIDTH = 1200
_FIRST_TRACKS = 60
"""The number of tracks in the first picture, which is sent before the visible part is known."""

_LATENCY_PIXELS = 3
"""The width of the latency picture's columns, in pixels."""

_MOST_SHOWN = 5_000
_MOST_FOR_PERFETTO = 500_000
"""Number of callbacks; a file of more is too large to pass through the browser."""


class TimelineWidget(anywidget.AnyWidget):
    """Timeline: tracks by process, node or executor, arrows for messages, and latency below.

    Zoom with the wheel, + and -; pan by dragging or with the arrow keys; click a callback, or a
    message in the latency picture, for the message's path; drag with shift to select a range, which
    `view` applies to every table; ? shows all keys. The timeline opens at the time of a trigger's
    hit, if there is one. The kernel sends at most
    `roslens.analysis.timeline.tracks.MOST_MARKS` marks per picture.

    Attributes
    ----------
    selection
        The selected range: begin and end in ns since the epoch; None if there is none.
    journey
        The clicked callback, and its message or request: topic, nodes, outcome, and the hops with
        their durations; None if nothing is clicked.
    clicked
        Number of the clicked callback instance; None if nothing is clicked.
    searched
        Topic or node to search for; in double quotes, the exact name.
    topic
        The topic whose latency is drawn below.
    """

    _esm = "\n".join((_VIEW / f"{name}.js").read_text(encoding="utf-8") for name in _PARTS)
    _css = _VIEW / "timeline.css"

    tracks: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    names: traitlets.List[str] = traitlets.List().tag(sync=True)
    origin = traitlets.Unicode().tag(sync=True)
    # Begin and end of the tracks, in ns since `origin`, the run's first event.
    extent: traitlets.List[float] = traitlets.List(traitlets.Float()).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    first: Any = traitlets.Dict().tag(sync=True)
    searched = traitlets.Unicode().tag(sync=True)
    topics: traitlets.List[str] = traitlets.List().tag(sync=True)
    topic = traitlets.Unicode().tag(sync=True)
    # As text: a time in ns does not fit into a JavaScript number.
    selected_range: traitlets.List[str] = traitlets.List(traitlets.Unicode()).tag(sync=True)
    journey: Any = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
    selection: Any = traitlets.Tuple(allow_none=True, default_value=None)
    clicked: Any = traitlets.Int(allow_none=True, default_value=None)

    def __init__(self, recordings: Recordings, topic: str = "") -> None:
        if len(recordings.runs) != 1:
            raise UsageError(
                f"a timeline is of one run, and these are {len(recordings.runs)}: open one of them"
            )
        self.recordings = recordings
        # The track of the clicked mark, and its index there.
        self._shown: tuple[int, int] | None = None
        self._jumps = 0
        self.timeline = timeline = timeline_of(recordings)
        run = recordings.runs[0].name
        # Without any event the timeline is empty.
        self._zero = recordings.first_events.get(run, timeline.begin_ns)
        self.flows = Flows(recordings.messages, recordings.publications, recordings.service_calls)
        self.latencies = Latencies(recordings.messages)
        topics = self.latencies.topics
        self.topic = topic or next(iter(topics), "")
        whole = self._picture(timeline.begin_ns, timeline.end_ns, _FIRST_WIDTH,
                              list(range(min(len(timeline.tracks), _FIRST_TRACKS))),
                              messages=self._messages)  # fmt: skip
        super().__init__(
            tracks=[_about(track) for track in timeline.tracks],
            names=list(timeline.names),
            origin=str(self._zero),
            extent=[float(ns - self._zero) for ns in (timeline.begin_ns, timeline.end_ns)],
            title=run,
            first={"meta": whole[0], "buffers": whole[1]},
            topics=topics,
            topic=self.topic,
        )
        self.on_msg(self._answer)
        self.observe(self._on_range, "selected_range")
        if around := timeline.around(recordings.runs[0].triggered):
            self.select(*around[1:])

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        if os.environ.get(STATIC):
            return {"text/html": self.drawing()._repr_html_(), "text/plain": self.title}
        return super()._repr_mimebundle_(**kwargs)

    def drawing(self) -> Any:
        """Draw the selected range (or everything) without a kernel."""
        from roslens.analysis.figures.timeline import draw_timeline  # noqa: PLC0415  (a second)

        begin, end = self.selection or (self.timeline.begin_ns, self.timeline.end_ns)
        return draw_timeline(self.timeline, begin, end, zero_ns=self._zero)

    def view(self) -> Recordings:
        """Return the recording cut to the selected range; uncut without a selection."""
        if self.selection is None:
            return self.recordings
        return self.recordings.view(window_ns=self.selection)

    def select(self, begin_ns: int | None = None, end_ns: int | None = None) -> None:
        """Select a range, in ns since the epoch; without arguments, clear the selection."""
        is_range = begin_ns is not None and end_ns is not None
        self.selected_range = [str(begin_ns), str(end_ns)] if is_range else []

    def export_perfetto(self, path: str | Path) -> Path:
        """Write the selected range (or everything) for ui.perfetto.dev."""
        target = Path(path)
        write_perfetto(perfetto_tables(self.view(), self.title), target)
        return target

    # ------------------------------------------------------------ what the browser asks

    def _answer(self, _widget: object, content: dict[str, Any], _buffers: object) -> None:
        kind = content.get("type")
        if kind == "view":
            begin, end = (self._zero + int(content[n]) for n in ("begin", "end"))
            shown = [i for i in content["shown"] if 0 <= i < len(self.timeline.tracks)]
            meta, buffers = self._picture(begin, end, int(content["width"]), shown)
            self.send(meta | {"view": content.get("view")}, buffers)
        elif kind in ("click", "step") and 0 <= int(content["track"]) < len(self.timeline.tracks):
            track, moment = int(content["track"]), self._moment(content)
            if kind == "click":
                within = round(_CLICK_PIXELS * float(content["within"]))
                self._show(track, self.timeline.at(track, moment, within))
            else:
                self._show(track, self._step(track, moment, int(content["by"])))
        elif kind == "hit":
            self._hit(content)
        elif kind == "message":
            near = round(float(content["within"])), float(content["factor"])
            latency = float(content["latency"])
            self.jump(self.latencies.nearest(self.topic, self._moment(content), latency, *near))
        elif kind == "nothing":
            self._clear()
        elif kind == "perfetto":
            self._send_perfetto()

    def _moment(self, content: dict[str, Any]) -> int:
        return self._zero + round(float(content["time"]))

    def _hit(self, content: dict[str, Any]) -> None:
        """Show the next callback that matches the search."""
        by, moment = int(content["by"]), self._moment(content)
        if self._shown is not None:
            track, index = self._shown
            moment = int(self.timeline.tracks[track].begin_ns[index])
        hit = self.timeline.hit(set(content["names"]), set(content["tracks"]), moment, by)
        if hit is None:
            self.send({"type": "told", "text": "no further hit"}, [])
        else:
            self._show(*hit)

    def jump(self, callback_instance_id: int | None) -> None:
        """Show a callback and its message, wherever it is; None clears the display."""
        callback_ids, tracks = self._callbacks
        place = (
            0
            if callback_instance_id is None
            else np.searchsorted(callback_ids, callback_instance_id)
        )
        if callback_instance_id is None or not (
            place < callback_ids.size and callback_ids[place] == callback_instance_id
        ):
            self._clear()
            return
        track = int(tracks[place])
        index = np.flatnonzero(self.timeline.tracks[track].ids == callback_instance_id)
        self._show(track, int(index[0]), jump=True)

    @property
    def _messages(self) -> int:
        count: int = self.recordings.messages.select(pl.len()).collect().item()
        return count

    def _picture(
        self, begin: int, end: int, width: int, shown: list[int], *, messages: int = 0
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Return the picture of a window; `messages`, the known count in it, may forbid arrows."""
        origin = self._zero
        picture = self.timeline.picture(begin, end, width, shown[:_MOST_SHOWN])
        arrows = self.flows.arrows(begin, end) if messages <= MOST_ARROWS else None
        columns = max(1, width // _LATENCY_PIXELS)
        grid = self.latencies.grid(self.topic, begin, end, columns)
        meta = {
            "type": "picture",
            "begin": begin - origin,
            "end": end - origin,
            "columns": picture.bins.columns,
            "shown": len(shown),
            "arrows": arrows.count if arrows else messages,
            "latency": {
                "topic": self.topic, "columns": columns, "rows": ROWS, "low": grid.low_ns,
                "high": grid.high_ns, "p50": grid.p50_ns, "p99": grid.p99_ns,
            },
        }  # fmt: skip
        cells = np.flatnonzero(grid.counts)
        drawn = (cells, grid.counts.ravel()[cells], grid.lost)
        return meta, [
            *_buffers(picture, origin),
            *self._arrow_buffers(arrows, origin),
            *(part.astype(np.int32).tobytes() for part in drawn),
        ]

    def _arrow_buffers(self, arrows: Arrows | None, origin: int) -> list[bytes]:
        if arrows is None or not arrows.rows.height:
            return [b""] * 7
        rows = arrows.rows
        return [
            _relative(rows["begin_ns"].to_numpy(), origin),
            _relative(rows["end_ns"].to_numpy(), origin),
            self._track_of(rows["from_id"], rows["from_node"]).tobytes(),
            self._track_of(rows["to_id"], rows["to_node"]).tobytes(),
            _places(rows["name"], self._name_places).tobytes(),
            rows["kind"].to_numpy().astype(np.int32).tobytes(),
            rows["place"].fill_null(0).to_numpy().astype(np.float32).tobytes(),
        ]

    @cached_property
    def _name_places(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.timeline.names)}

    @cached_property
    def _node_tracks(self) -> dict[str, int]:
        """Map each node to its first track of callbacks."""
        tracks = [(t.label, i) for i, t in enumerate(self.timeline.tracks) if t.kind == "callback"]
        return dict(reversed(tracks))

    @cached_property
    def _callbacks(self) -> tuple[Ints, NDArray[np.int32]]:
        """Return all callback instance ids, sorted, and the track of each."""
        parts = [(i, t.ids) for i, t in enumerate(self.timeline.tracks) if t.kind == "callback"]
        callback_ids = np.concatenate([np.zeros(0, np.int64), *(ids for _, ids in parts)])
        tracks = np.repeat(np.array([i for i, _ in parts], np.int32), [p.size for _, p in parts])
        order = np.argsort(callback_ids)
        return callback_ids[order], tracks[order]

    def _track_of(self, ids: pl.Series, nodes: pl.Series) -> NDArray[np.int32]:
        """Return each callback instance's track, else a track of its node, else -1."""
        by_node = _places(nodes, self._node_tracks)
        callback_ids, tracks = self._callbacks
        if not callback_ids.size:
            return by_node
        wanted = ids.fill_null(-1).to_numpy()
        place = np.minimum(np.searchsorted(callback_ids, wanted), callback_ids.size - 1)
        return np.where(callback_ids[place] == wanted, tracks[place], by_node).astype(np.int32)

    def _step(self, track: int, moment: int, by: int) -> int | None:
        """Return the next callback in a direction from the one shown, else from a moment."""
        if self._shown is None or self._shown[0] != track:
            return self.timeline.next(track, moment, by)
        index = self._shown[1] + (1 if by > 0 else -1)
        return index if 0 <= index < self.timeline.tracks[track].ids.size else self._shown[1]

    def _clear(self) -> None:
        self.journey = self.clicked = self._shown = None

    def _show(self, track: int, index: int | None, *, jump: bool = False) -> None:
        shown_track = self.timeline.tracks[track]
        if index is None or shown_track.kind != "callback":
            self._clear()
            return
        number = int(shown_track.ids[index])
        self._shown = track, index
        self._jumps += jump
        about = {
            "track": track,
            "jump": self._jumps if jump else 0,
            "node": shown_track.label,
            "name": self.timeline.names[int(shown_track.names[index])],
            "begin": float(shown_track.begin_ns[index] - self._zero),
            "end": float(shown_track.end_ns[index] - self._zero),
            "duration_ms": milliseconds(
                int(shown_track.end_ns[index] - shown_track.begin_ns[index])
            ),
            "cpu": self._scheduled(number),
            "hops": [],
        }
        opened = self.recordings
        journey = journey_of(opened.messages, number, lambda: self.paths, opened.service_calls)
        self.journey = about | (_as_dict(journey, self._zero) if journey else {})
        self.clicked = number

    @cached_property
    def paths(self) -> Paths:
        """Return the data from which the run's message paths are made."""
        return Paths.of_run(self.recordings, self.recordings.runs[0].name)

    def _scheduled(self, number: int) -> str:
        """Describe how a callback's time was spent, if the kernel's scheduler was recorded."""
        times = {
            "cpu_ns": "on a CPU",
            "preempted_ns": "preempted",
            "blocked_ns": "asleep",
            "scheduling_delay_ns": "waiting for a CPU",
        }
        rows = (
            self.recordings.callback_scheduling.filter(pl.col("callback_instance_id") == number)
            .select(*times)
            .collect()
        )
        if not rows.height:
            return ""
        row = rows.row(0, named=True)
        parts = [f"{milliseconds(row[n])} ms {state}" for n, state in times.items() if row[n]]
        return f"({', '.join(parts)})" if parts else ""

    def _send_perfetto(self) -> None:
        begin, end = self.selection or (self.timeline.begin_ns, self.timeline.end_ns)
        count = sum(
            last - first for first, last in (t.range(begin, end) for t in self.timeline.tracks)
        )
        if count > _MOST_FOR_PERFETTO:
            refused = (
                f"{count:,} intervals are too many to save from here: select a range, or use "
                "roslens export --format perfetto"
            )
            self.send({"type": "perfetto", "refused": refused}, [])
            return
        with tempfile.TemporaryDirectory() as place:
            try:
                path = self.export_perfetto(Path(place, "timeline"))
            except RoslensError as error:
                self.send({"type": "perfetto", "refused": str(error)}, [])
                return
            self.send({"type": "perfetto"}, [path.read_bytes()])

    def _on_range(self, change: Any) -> None:
        given = change["new"]
        self.selection = None if len(given) != 2 else (int(given[0]), int(given[1]))


def timeline_of(recordings: Recordings) -> Timeline:
    """Build the tracks of one run, covering its callbacks and publications."""
    timeline = build_timeline(
        recordings.callback_instances,
        recordings.executor_intervals,
        recordings.processes,
        resources=recordings.resources,
        scheduling=recordings.callback_scheduling,
        kernel=recordings.kernel_events(recordings.runs[0].name),
    )
    publish = pl.col("publish_ns")
    sent = recordings.messages.select(first=publish.min(), last=publish.max()).collect()
    if sent["first"].item() is None:
        return timeline
    first, last = sent.row(0)
    begin, end = (timeline.begin_ns, timeline.end_ns) if timeline.tracks else (first, last)
    return replace(timeline, begin_ns=min(begin, first), end_ns=max(end, last + 1))


def _about(track: Track) -> dict[str, Any]:
    about: dict[str, Any] = {"label": track.label, "kind": track.kind, "places": track.places}
    if track.levels is not None:
        about["top"] = max(1, math.ceil(float(track.levels.max(initial=0.0))))
    return about


def _places(names: pl.Series, places: dict[str, int]) -> NDArray[np.int32]:
    return np.array([places.get(name, -1) for name in names], dtype=np.int32)


def _relative(times: Ints, origin: int) -> bytes:
    """Encode times as doubles since the origin: exact up to 104 days."""
    return (times - origin).astype(np.float64).tobytes()


def _buffers(picture: Picture, origin: int) -> list[bytes]:
    slices, bins = picture.slices, picture.bins
    return [
        slices.track.tobytes(),
        _relative(slices.begin_ns, origin),
        _relative(slices.end_ns, origin),
        slices.names.astype(np.int32).tobytes(),
        slices.levels.astype(np.float32).tobytes(),
        bins.track.tobytes(),
        bins.column.tobytes(),
        bins.busy.astype(np.float32).tobytes(),
        bins.count.astype(np.int32).tobytes(),
    ]


def _as_dict(journey: Journey, origin: int) -> dict[str, Any]:
    """Return a message as the browser shows it."""
    return {
        "kind": journey.kind,
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


def timeline(recordings: Recordings, topic: str = "") -> TimelineWidget:
    """Explore the timeline of one run, and the latency of a topic (the busiest by default).

    >>> rl.timeline(rl.open("data/samples/two_process"))

    Raises
    ------
    UsageError
        There are several runs.
    """
    return TimelineWidget(recordings, topic)
