"""Rows on the disk by the stretch that they belong to, in whatever order they are found."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.collectors.work import Work

_PLACE = "_bucket"


class Buckets:
    """Rows of one kind in numbered buckets.

    Parameters
    ----------
    work
        In whose folder they lie.
    name
        Their own name there.
    column, edges
        A row is in the bucket of as many edges as are at most its value in `column`; one without
        a value is in the last bucket, after that of the last edge. Without edges the column is
        the number itself.
    """

    def __init__(
        self, work: Work, name: str, column: str = "", edges: Sequence[int] | None = None
    ) -> None:
        self._work = work
        self._folder = work.folder / "rows" / name
        self._folder.mkdir(parents=True, exist_ok=True)
        self._column = column
        self._edges = None if edges is None else pl.Series(edges, dtype=pl.Int64)

    @property
    def rest(self) -> int:
        """The bucket of what has no value."""
        return 0 if self._edges is None else self._edges.len() + 1

    def add(self, frame: pl.DataFrame, step: int) -> None:
        """Put each row into its bucket; `step` is the number of who adds, for the order."""
        column = frame[self._column]
        place = (
            column if self._edges is None else self._edges.search_sorted(column, side="right")
        ).cast(pl.Int64)
        if column.null_count():
            known = pl.select(pl.when(column.is_not_null()).then(place).otherwise(self.rest))
            place = known.to_series()
        if frame.is_empty():
            self.put(frame, 0, step)
        elif place.n_unique() == 1:
            self.put(frame, place[0], step)
        else:
            parts = frame.with_columns(place.alias(_PLACE)).partition_by(
                _PLACE, as_dict=True, include_key=False, maintain_order=True
            )
            for (bucket,), part in parts.items():
                self.put(part, int(bucket), step)

    def put(self, frame: pl.DataFrame, bucket: int, step: int = 0) -> None:
        """Put all rows into one bucket."""
        schema = self._folder / "schema"
        if not schema.exists():
            frame.clear().write_ipc(schema)
            self._work.wrote(schema)
        if frame.is_empty():
            return
        path = self._folder / f"{bucket:06}-{step:06}"
        frame.write_ipc(path, compression="lz4")
        self._work.wrote(path)

    def drop(self) -> None:
        """No later step needs these rows."""
        self._work.drop(self._folder)

    def read(self, bucket: int) -> pl.DataFrame:
        """All rows of a bucket, in the order of the steps that added them."""
        found = sorted(self._folder.glob(f"{bucket:06}-*"))
        frames = [pl.read_ipc(path) for path in found]
        return pl.concat(frames or [pl.read_ipc(self._folder / "schema")])
