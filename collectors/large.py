"""Tables of any number of events: by stretches of time, resumed if interrupted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roslens.collectors.decoding import Raw
    from roslens.collectors.work import Work
    from roslens.tracing.recording import Recording

WINDOW_EVENTS = 500_000
"""Events in a stretch of time."""
WHOLE_EVENTS = 6_000_000
"""So many events are modelled in one piece: several times as fast, and takes up to a gibibyte."""


def model(
    raw: Raw,
    made: Recording,
    work: Work,
    *,
    rmw: str | None,
    synchronisation: str | None,
) -> dict[str, int]:
    """Write all tables; their numbers of rows.

    Raises
    ------
    OSError
        A file cannot be written.
    """
    import polars as pl  # noqa: PLC0415

    from roslens.collectors.ros2.windows import cut, write_tables  # noqa: PLC0415  (few need them)

    try:
        return write_tables(
            raw.events,
            made.tables,
            work,
            cut(raw.events, WINDOW_EVENTS),
            losses=raw.losses,
            warnings=raw.warnings,
            hosts=raw.hosts,
            rmw=rmw,
            synchronisation=synchronisation,
        )
    except pl.exceptions.ComputeError as error:
        # polars tells of a full disk by this, too.
        if "os error" not in str(error).lower():
            raise
        raise OSError(str(error)) from error


def is_large(counts: Mapping[str, int]) -> bool:
    """Whether so many events, by name, are too many to be modelled in one piece."""
    return sum(counts.values()) > WHOLE_EVENTS
