"""Read a workload's own log of requests and goals, which not every trace shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from roslens.recording import UsageError
from roslens.recording.arrays import Ints
from roslens.recording.files import text_path

_LOGS: Sequence[tuple[str, str, tuple[str, ...]]] = (
    ("calls.csv", "request", ("request_sent_realtime_ns", "request_realtime_ns")),
    ("goals.csv", "goal", ("goal_sent_realtime_ns", "send_realtime_ns")),
)


@dataclass(frozen=True)
class WorkLog:
    """The times at which a workload did its work.

    Attributes
    ----------
    kind
        ``request`` or ``goal``.
    times_ns
        When each request or goal was sent, ns since the epoch, increasing, shape (n,).
    """

    kind: str
    times_ns: Ints


def read_work_log(native: Path) -> WorkLog | None:
    """Read a run's log of requests (``calls.csv``) or else of goals (``goals.csv``).

    Parameters
    ----------
    native
        The folder with the files that the workload wrote.

    Returns
    -------
    None if there is neither file, or an empty one.

    Raises
    ------
    UsageError
        The file is not a table, or has no column with the times of sending.
    """
    for name, kind, columns in _LOGS:
        path = native / name
        if not path.is_file():
            continue
        try:
            frame = pl.scan_csv(text_path(path), glob=False)
            column = next((c for c in frame.collect_schema().names() if c in columns), None)
            if column is None:
                raise UsageError(f"{path}: none of the columns {', '.join(columns)}")
            times = frame.select(pl.col(column).cast(pl.Int64)).collect().to_series()
        except (pl.exceptions.PolarsError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise UsageError(f"{path}: not a log of {kind}s: {reason}") from error
        if times.drop_nulls().len():
            return WorkLog(kind, times.drop_nulls().sort().to_numpy())
    return None
