"""Find callbacks that share a mutually exclusive callback group, as far as a run proves it.

No event states the callback groups. A run proves that callback X keeps the messages of a
subscription waiting if these were repeatedly not taken before X had ended, although a thread of
the same executor waited for work or looked for it in vain, and if such messages usually take a
fraction of that time, and if the two callbacks never ran at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from roslens.recording.arrays import Ints, np

LEAST_HELD = 3
"""Number of messages that have to be held up."""
LONGER = 5
"""Least factor between the time a message was held up and the median wait of messages not held."""
_LEAST_FREE = 10
_IDLE = 0.9
"""Least part of the time for which another thread has to be free."""
_OF = ["executor", "node"]


def proven_groups(
    waits: pl.DataFrame, executions: pl.DataFrame, idle_ns: Callable[[pl.DataFrame], Ints]
) -> Mapping[int, Sequence[int]]:
    """Find callbacks that keep a subscription's messages waiting, by the subscription's callback.

    Parameters
    ----------
    waits
        One row per message: callback_id (of the receiver), executor, node, since_ns (time of
        arrival, or of sending where the arrival is not known), taken_ns.
    executions
        ``callback_instances`` with executor, the number of the thread's executor.
    idle_ns
        Returns for how many ns of rows (executor, from_ns, end_ns) a thread of it was free.
    """
    ran = executions.drop_nulls(["callback_id", "node", "end_ns"]).select(
        *_OF, "start_ns", "end_ns", pl.col("callback_id").alias("other")
    )
    last = waits.sort("taken_ns").join_asof(
        ran.sort("end_ns"), left_on="taken_ns", right_on="end_ns", by=_OF, strategy="backward",
        check_sortedness=False, coalesce=False,
    )  # fmt: skip
    begin = pl.max_horizontal("since_ns", "start_ns")
    held = (pl.col("end_ns") - begin).clip(0).fill_null(0)
    last = last.with_columns(
        begin.alias("from_ns"),
        pl.when(pl.col("other") != pl.col("callback_id")).then(held).otherwise(0).alias("held_ns"),
    )
    free = last.filter(pl.col("held_ns") == 0).group_by("callback_id").agg(
        (pl.col("taken_ns") - pl.col("since_ns")).median().alias("usual_ns"),
        pl.len().alias("free"),
    ).filter(pl.col("free") >= _LEAST_FREE)  # fmt: skip
    long = last.join(free, on="callback_id").filter(
        pl.col("held_ns") > LONGER * pl.col("usual_ns"), pl.col("held_ns") > 0
    )
    holders: dict[int, list[int]] = {}
    for (executor, callback, holder), rows in long.group_by(
        "executor", "callback_id", "other", maintain_order=True
    ):
        if rows.height < LEAST_HELD:
            continue
        of_executor = pl.col("executor") == executor
        proven = int((idle_ns(rows) >= _IDLE * rows["held_ns"].to_numpy()).sum())
        if proven >= LEAST_HELD and not _ran_concurrently(
            ran.filter(of_executor), int(callback), int(holder)
        ):
            holders.setdefault(int(callback), []).append(int(holder))
    return holders


def _ran_concurrently(ran: pl.DataFrame, own: int, other: int) -> bool:
    """Return whether two callbacks, or two executions of the other, ever ran at the same time."""
    a, b = (
        ran.filter(pl.col("other") == callback)
        .sort("start_ns")
        .select("start_ns", "end_ns")
        .to_numpy()
        for callback in (own, other)
    )
    latest = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(b[:, 1]))
    twice = (latest[1:-1] > b[1:, 0]).any()
    return bool(twice or (latest[np.searchsorted(b[:, 0], a[:, 1], "left")] > a[:, 0]).any())
