"""What all stages of a model built by windows share."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from roslens.collectors.ros2.callbacks import Callbacks
from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.model import table_of
from roslens.collectors.ros2.objects import Objects
from roslens.collectors.ros2.windows.buckets import Buckets
from roslens.collectors.ros2.windows.part import Part, Windows
from roslens.collectors.schema.tables import TABLES
from roslens.collectors.work import Work


class Run:
    """One recording, its stretches of time, and where its rows are put.

    Attributes
    ----------
    events, objects, callbacks
        Those of the whole; of callbacks the objects.
    windows, work
        The stretches, and the folder of the work.
    instances, publications, takes
        Finished rows of `Callbacks.instances`, `find_publications` and `find_takes`, by stretch.
    running
        Executions that began before a stretch and may last into it.
    """

    def __init__(
        self,
        events: Events,
        objects: Objects,
        callbacks: pl.DataFrame,
        windows: Windows,
        work: Work,
    ) -> None:
        self.events = events
        self.objects = objects
        self.callbacks = callbacks
        self.windows = windows
        self.work = work
        self.instances = Buckets(work, "instances")
        self.running = Buckets(work, "running")
        self.publications = Buckets(work, "publications")
        self.takes = Buckets(work, "takes")

    def part(self, number: int, before: Mapping[str, pl.DataFrame] | None = None) -> Part:
        """The events of a stretch, and some of before."""
        return Part(self.events, *self.windows.spans[number], before)

    def last(self, number: int) -> bool:
        """Whether nothing follows a stretch."""
        return number == len(self.windows) - 1

    def runs(self, number: int) -> Callbacks:
        """The executions of a stretch, those that began before it included; sorted by number."""
        both = pl.concat([self.running.read(number), self.instances.read(number)])
        return self.seen(both.sort("callback_instance_id"))

    def seen(self, instances: pl.DataFrame) -> Callbacks:
        """Some executions as those that there are."""
        return Callbacks(objects=self.callbacks, instances=instances, ends_alone=0)

    def write(self, table: str, frame: pl.DataFrame, step: int) -> None:
        """Write the next rows of a table."""
        found = TABLES[table].conform(table_of(table, frame, self.events))
        if found.is_empty() and step:
            return
        path = self.work.folder / "tables" / table / f"{step:06}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        found.write_parquet(path, compression="zstd", compression_level=1)
        self.work.wrote(path)


def frame_of(state: Mapping[str, pl.DataFrame | int], key: str) -> pl.DataFrame:
    """A frame of a state."""
    found = state[key]
    assert isinstance(found, pl.DataFrame)
    return found


def number_of(state: Mapping[str, pl.DataFrame | int], key: str) -> int:
    """A number of a state."""
    found = state[key]
    assert isinstance(found, int)
    return found
