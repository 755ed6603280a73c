"""A recording cut into stretches of time, and the events of one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from roslens.collectors.ros2.events import INIT_EVENTS, Events, Raw

_RARE = frozenset((*INIT_EVENTS, "rcl_lifecycle_transition", "rclcpp_ring_buffer_clear"))
"""Read whole: they concern what comes long after them, or came long before."""
_SAMPLES = 64
"""So many times are looked at per stretch."""


@dataclass(frozen=True)
class Windows:
    """Consecutive stretches of time.

    Attributes
    ----------
    edges
        Where each but the first one begins; the first has no begin, the last no end.
    """

    edges: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.edges) + 1

    def begin(self, number: int) -> int | None:
        """First time of a stretch; None where it is open."""
        return self.edges[number - 1] if number else None

    def end(self, number: int) -> int | None:
        """The time after its last; None where it is open."""
        return self.edges[number] if number < len(self.edges) else None

    @property
    def spans(self) -> list[tuple[int | None, int | None]]:
        """Begin (included) and end (excluded) of each."""
        return [(self.begin(number), self.end(number)) for number in range(len(self))]


def cut(raw: Raw, size: int) -> Windows:
    """Cut the time into stretches of about `size` events."""
    every = max(1, size // _SAMPLES)
    samples = [
        frame.lazy().select(pl.col("time_ns").cast(pl.Int64).gather_every(every))
        for frame in raw.values()
    ]
    found = [sample.collect(engine="streaming").to_series() for sample in samples]
    times = pl.concat([pl.Series("time_ns", [], pl.Int64), *found]).sort()
    edges = times.gather_every(max(1, size // every)).unique().sort()
    return Windows(tuple(edges.slice(1).to_list()))


class Part(Events):
    """The events of one stretch of time.

    What is known of the whole stays so: processes, what was declared and what happened. Init
    events and others that are rare are those of the whole, too.

    Parameters
    ----------
    whole
        All events.
    begin_ns, end_ns
        The stretch, its end excluded; None where it is open.
    before
        Events of earlier times to be seen as well, by name.
    """

    def __init__(
        self,
        whole: Events,
        begin_ns: int | None,
        end_ns: int | None,
        before: Mapping[str, pl.DataFrame] | None = None,
    ) -> None:
        # Not made anew: that reads everything.
        self.__dict__.update(whole.__dict__)
        self._whole = whole
        self._span = (begin_ns, end_ns)
        self._before = before or {}
        self._read: dict[str, pl.DataFrame] = {}

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name in _RARE:
            return self._whole[name]
        if name not in self._read:
            frame = self._whole.within(name, *self._span)
            if name in self._before:
                frame = pl.concat([self._before[name].select(frame.columns), frame])
            self._read[name] = frame
        return self._read[name]

    def instead(self, name: str, frame: pl.DataFrame) -> None:
        """Have these be the events of a name."""
        self._read[name] = frame
