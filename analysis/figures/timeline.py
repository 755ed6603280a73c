"""Draw the timeline for reports, without a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from types import MappingProxyType

from roslens.analysis.figures.drawing import Drawing, short
from roslens.analysis.figures.style import COLOURS, LOUD
from roslens.analysis.reports.numbers import duration
from roslens.analysis.timeline.tracks import Picture, Timeline, Track

_MOST_TRACKS = 60
_MOST_MARKS = 4000
_LABEL, _WIDTH, _ROW, _HEADING, _AXIS = 230, 780, 17, 18, 22
_CPU, _TEXT = "#7a7a7a", "#1c1c1c"
_STATES = {"wait": "#dcdcdc", "blocked": "#d8b4b0", "running": "#5f8f5f", "runnable": "#c9a227"}
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


LEGEND = (
    "Callbacks by thread and node (a colour per topic, service or timer; where they are many, "
    "blue, the darker the busier), light grey: the executor waits for work, light red: for its lock"
)


def draw_timeline(
    timeline: Timeline,
    begin_ns: int,
    end_ns: int,
    *,
    marks: Mapping[str, int] = MappingProxyType({}),
    caption: str = "",
    zero_ns: int | None = None,
) -> Drawing:
    """Draw tracks with their callbacks, waiting and use of CPUs from `begin_ns` to `end_ns`.

    Parameters
    ----------
    marks
        Times in ns at which a line is drawn, by name.
    caption
        Caption to use instead of the legend.
    zero_ns
        The run's first event; the legend says how long after it the picture begins.
    """
    shown = timeline.tracks[:_MOST_TRACKS]
    picture = timeline.picture(begin_ns, end_ns, _WIDTH, list(range(len(shown))), most=_MOST_MARKS)
    tops, parts, y = {}, [], float(_AXIS)
    for group, members in groupby(enumerate(shown), key=lambda pair: pair[1].group):
        parts.append(
            f'<rect x="0" y="{y:g}" width="{_LABEL + _WIDTH}" height="{_HEADING}" '
            f'fill="#f0f0f0"/><text x="6" y="{y + 13:g}" font-weight="600">{escape(group)}</text>'
        )
        y += _HEADING
        for index, track in members:
            tops[index] = y
            parts.append(f'<text x="14" y="{y + 12:g}">{escape(short(track.label))}</text>')
            y += _ROW
    scale = _WIDTH / max(1, end_ns - begin_ns)
    axis = _axis(end_ns - begin_ns, scale, y)
    drawn = _marks(picture, timeline, tops, scale)
    places = {name: _LABEL + (time - begin_ns) * scale for name, time in marks.items()}
    moments = "".join(
        f'<path d="M{x:.1f},{_AXIS - 4} V{y:g}" stroke="{LOUD}" stroke-width="1.5"/>'
        f"{_text_next_to(x, y + 11, name, LOUD)}"
        for name, x in places.items()
    )
    y += 14 if marks else 0
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LABEL + _WIDTH} {y + 4:g}" '
        f'style="width:100%;min-width:700px;max-width:{_LABEL + _WIDTH}px;background:#fff" '
        'role="img" aria-label="timeline of callbacks" font-family="system-ui, sans-serif" '
        f'font-size="11" fill="{_TEXT}">{axis}{"".join(parts)}{drawn}{moments}</svg>'
    )
    hidden = len(timeline.tracks) - len(shown)
    after = "" if zero_ns is None else f", {(begin_ns - zero_ns) / 1e9:.6f} s after the first event"
    return Drawing(
        svg,
        caption
        or f"{LEGEND}, dark grey: CPUs in use, full height one CPU. Time since the picture's "
        f"begin{after}."
        + (f" {hidden} more tracks are not drawn." if hidden else ""),
    )


def _text_next_to(x: float, y: float, text: str, fill: str) -> str:
    """Place text right of a line, or left of it where the picture would cut it off."""
    fits = x + 3 + 7 * len(text) <= _LABEL + _WIDTH
    place = f'x="{x + 3:.1f}"' if fits else f'x="{x - 3:.1f}" text-anchor="end"'
    return f'<text {place} y="{y:g}" fill="{fill}">{escape(text)}</text>'


def _axis(span_ns: int, scale: float, bottom: float) -> str:
    unit, name = next((u, n) for u, n in _UNITS if span_ns >= u or u == 1)
    raw = span_ns / 7
    power = 10.0 ** int(f"{raw:e}".partition("e")[2])
    by = next(f * power for f in (1, 2, 5, 10) if f * power >= raw)
    ticks = []
    for i in range(int(span_ns / by) + 1):
        x = _LABEL + i * by * scale
        ticks.append(
            f'<path d="M{x:.1f},{_AXIS - 4} V{bottom:g}" stroke="#e4e4e4"/>'
            f"{_text_next_to(x, 13, f'{i * by / unit:g} {name}', '#555')}"
        )
    return "".join(ticks)


def _marks(picture: Picture, timeline: Timeline, tops: dict[int, float], scale: float) -> str:
    marks: list[str] = []
    tracks = timeline.tracks
    slices, bins = picture.slices, picture.bins
    for i, track in enumerate(slices.track.tolist()):
        begin = max(0.0, (int(slices.begin_ns[i]) - picture.begin_ns) * scale)
        end = min(float(_WIDTH), (int(slices.end_ns[i]) - picture.begin_ns) * scale)
        if end < 0 or begin > _WIDTH:
            continue
        kind = tracks[track].kind
        colour = _STATES.get(kind, COLOURS[int(slices.names[i]) % 6])
        level = float(slices.levels[i]) if kind == "cpu" else None
        marks.append(
            _mark(
                tops[track], begin, max(end - begin, 0.7), colour=colour, opacity=0.9, level=level,
                told=_description(tracks[track], timeline.names, picture, i),
            )
        )  # fmt: skip
    column = _WIDTH / bins.columns
    for track, place, busy in zip(
        bins.track.tolist(), bins.column.tolist(), bins.busy.tolist(), strict=True
    ):
        kind = tracks[track].kind
        colour = _STATES.get(kind, COLOURS[0])
        level = busy if kind == "cpu" else None
        shade = 0.25 + 0.75 * min(1.0, busy)
        marks.append(
            _mark(tops[track], place * column, column, colour=colour, opacity=shade, level=level)
        )
    return "".join(marks)


def _description(track: Track, names: Sequence[str], picture: Picture, at: int) -> str:
    """Describe a mark, for users who point at it or click it."""
    begin, end = (int(times[at]) for times in (picture.slices.begin_ns, picture.slices.end_ns))
    text = f"{names[int(picture.slices.names[at])]}, {track.label}"
    if track.kind == "cpu":
        text = f"{float(picture.slices.levels[at]):.2f} CPUs in use"
    since = begin - picture.begin_ns
    when = f"at {duration(since)}" if since >= 0 else f"{duration(-since)} before the picture"
    return f"{text}: {duration(end - begin)}, begun {when}"


def _mark(
    y: float, x: float, width: float, *, colour: str, opacity: float, level: float | None,
    told: str = "",
) -> str:  # fmt: skip
    high = _ROW - 5.0
    if level is not None:
        high, colour = max(0.5, min(1.0, level) * (_ROW - 3)), _CPU
    return (
        f'<rect x="{_LABEL + x:.1f}" y="{y + _ROW - 2 - high:.1f}" width="{width:.1f}" '
        f'height="{high:.1f}" fill="{colour}" opacity="{opacity:.2f}"'
        + (f"><title>{escape(told)}</title></rect>" if told else "/>")
    )
