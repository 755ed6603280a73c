"""Represent the memory of one run over time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from roslens.analysis.statistics.trends import theil_sen
from roslens.recording.arrays import Bools, Floats, NDArray, np

PUBLICATION = "publication on the work topic"


@dataclass(frozen=True)
class Series:
    """Memory of one run over time.

    Attributes
    ----------
    seconds
        Time since the first sample, increasing, shape (n,).
    values
        Memory in bytes, shape (n,).
    messages
        Number of publications on the work topic (or of what `work` says) until each sample, shape
        (n,); None if not known.
    work
        Name of what is counted in `messages`.
    """

    seconds: Floats
    values: Floats
    messages: Floats | None = None
    work: str = PUBLICATION

    def part(self, begin: float, end: float) -> Series:
        """Return the samples with begin <= seconds <= end."""
        return self.at((self.seconds >= begin) & (self.seconds <= end))

    def at(self, chosen: Bools | NDArray[np.intp]) -> Series:
        """Return the samples chosen by a mask or by their indices."""
        messages = None if self.messages is None else self.messages[chosen]
        return Series(self.seconds[chosen], self.values[chosen], messages, self.work)

    @cached_property
    def slope(self) -> float:
        """Theil-Sen slope in bytes per second."""
        return theil_sen(self.seconds, self.values)

    @property
    def length(self) -> float:
        """Seconds from the first to the last sample."""
        return float(self.seconds[-1] - self.seconds[0]) if self.seconds.size else 0.0
