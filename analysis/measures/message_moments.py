"""Determine when each message was where, with the kernel's events.

publish -> sent (rmw_publish) -> arrived (the middleware's receiving thread is woken) -> woken (the
executor's thread is woken) -> on the CPU -> taken (rmw_take) -> callback.
"""

from __future__ import annotations

import polars as pl

from roslens.analysis.measures.cpu_waits import find_waits

_MOMENTS = ("rmw_publish_ns", "arrived_ns", "woken_ns", "on_cpu_ns", "take_ns", "callback_start_ns")
_IN_INTERRUPT = 0x18
"""Bits of ftrace's ``common_flags`` in a hard or soft interrupt: the thread then woke nobody."""


def message_moments(
    messages: pl.DataFrame,
    executions: pl.DataFrame,
    switches: pl.LazyFrame,
    wakes: pl.LazyFrame,
    publications: pl.DataFrame,
) -> pl.DataFrame:
    """Return when each message arrived, woke its executor, and when that thread was on a CPU.

    Parameters
    ----------
    messages
        Rows of ``messages``; only those within one host that went through the middleware and have a
        callback are used.
    executions
        ``callback_instances``, which identify the executor's thread.
    switches, wakes
        The events ``sched_switch`` and ``sched_waking``, with ``ctx_tid``: the thread that woke.
    publications
        ``publications``, which identify the publisher's thread.

    Returns
    -------
    DataFrame
        message_id, subscription_id, latency_ns, the moments (publish_ns, rmw_publish_ns,
        arrived_ns, woken_ns, on_cpu_ns, take_ns, callback_start_ns), reason, receiver (the thread
        that most often wakes the executor's), and itself: whether the publisher's thread woke the
        receiver.

    Notes
    -----
    The reason says why a message was not observed to arrive, be handed over and be taken in that
    order. ``busy``: the executor's thread did not sleep between rmw_publish, or the end of its
    callback before this one, and the take (woken_ns and on_cpu_ns are null). ``interrupt``: an
    interrupt, such as a timer's, woke the executor's thread. ``publisher``: the publisher's own
    thread woke it. ``receiver``: the thread that woke it was not woken after rmw_publish.
    ``other``: another thread than the usual receiver woke it, or the receiver was woken after the
    next message of the subscription was sent, and maybe for that message. Except for
    ``publisher``, the arrival is then the time when the usual receiver was first woken after
    rmw_publish, if that was before the take.
    """
    rows = _through_middleware(messages, executions)
    threads = publications.select("message_id", pl.col("vtid").cast(pl.Int64).alias("sender"))
    rows = rows.join(threads, on="message_id", how="left", maintain_order="left")
    columns = set(wakes.collect_schema())
    flags = pl.col("ctx_flags").cast(pl.Int64) if "ctx_flags" in columns else pl.lit(0)
    by = pl.col("ctx_tid").cast(pl.Int64) if "ctx_tid" in columns else pl.lit(None, dtype=pl.Int64)
    # Only executors' threads and the threads that wake them are needed.
    executors = rows["tid"].drop_nulls().unique()
    of_executors = wakes.filter(pl.col("tid").is_in(executors.implode()))
    wakers = of_executors.select(by.unique()).collect().to_series()
    tids = pl.concat([executors, wakers.drop_nulls()]).unique().implode()
    wakes = wakes.filter(pl.col("tid").is_in(tids))
    switches = switches.filter(pl.col("prev_tid").is_in(tids) | pl.col("next_tid").is_in(tids))
    waits = find_waits(switches, wakes).filter(pl.col("kind") == "woken", pl.col("tid").is_in(tids))
    woken = (
        wakes.select(
            "host", pl.col("tid").cast(pl.Int64), pl.col("time_ns").alias("begin_ns"),
            by.alias("waker"), ((flags & _IN_INTERRUPT) != 0).alias("in_interrupt"),
        )
        .collect()
        .join(waits, on=["host", "tid", "begin_ns"])
    )  # fmt: skip
    rows = _near_wake(_with_end_before(rows, executions), woken, "tid", "take_ns", "woken_ns")
    # Within a callback the thread may sleep for other reasons.
    free = pl.max_horizontal("rmw_publish_ns", "busy_until_ns")
    asleep = (pl.col("woken_ns") >= free).fill_null(value=False)
    on_cpu = pl.when(asleep & (pl.col("ran_ns") <= pl.col("take_ns"))).then("ran_ns")
    rows = rows.with_columns(
        on_cpu.alias("on_cpu_ns"), pl.when(asleep).then("woken_ns").alias("woken_ns"),
        pl.when(asleep).then("waker").alias("waker"), pl.col("in_interrupt").alias("by_interrupt"),
    ).drop("ran_ns", "in_interrupt")  # fmt: skip
    rows = _near_wake(
        rows.rename({"waker": "receiver"}), woken, "receiver", "woken_ns", "arrived_ns"
    )
    arrived = (pl.col("arrived_ns") >= pl.col("rmw_publish_ns")).fill_null(value=False)
    reason = (
        pl.when(pl.col("woken_ns").is_null())
        .then(pl.lit("busy"))
        .when(pl.col("by_interrupt"))
        .then(pl.lit("interrupt"))
        .when((pl.col("receiver") == pl.col("sender")).fill_null(value=False))
        .then(pl.lit("publisher"))
        .when(~arrived)
        .then(pl.lit("receiver"))
    )
    rows = _with_usual_receiver(rows.with_columns(reason.alias("reason")))
    # The receiver may have been woken for a later message of the subscription.
    rows = rows.sort("rmw_publish_ns", maintain_order=True)
    later = pl.col("rmw_publish_ns").shift(-1).over("subscription_id") <= pl.col("arrived_ns")
    by_other = (pl.col("receiver") != pl.col("usual")) | later.fill_null(value=False)
    rows = rows.with_columns(
        pl.when(by_other & pl.col("reason").is_null())
        .then(pl.lit("other"))
        .otherwise("reason")
        .alias("reason")
    )
    rows = _near_wake(
        rows.rename({"waker": "by"}).drop("ran_ns", "in_interrupt"), woken, "usual",
        "rmw_publish_ns", "first_ns", forward=True,
    )  # fmt: skip
    in_time = pl.when(pl.col("first_ns") <= pl.col("take_ns")).then("first_ns")
    exact = pl.when(pl.col("reason").is_null()).then("arrived_ns")
    guessed = pl.when(pl.col("reason") != "publisher").then(in_time)
    by = pl.when(pl.col("reason").is_null()).then("by").otherwise("waker")
    itself = (by == pl.col("sender")).fill_null(value=False) | (pl.col("reason") == "publisher")
    rows = rows.with_columns(
        pl.coalesce(exact, guessed).alias("arrived_ns"),
        itself.fill_null(value=False).alias("itself"),
    )
    # A thread that was woken before the message arrived was woken for something else.
    since = (pl.col("woken_ns") >= pl.col("arrived_ns")).fill_null(value=True)
    return rows.with_columns(
        pl.when(since).then(pl.col(name)).alias(name) for name in ("woken_ns", "on_cpu_ns")
    ).select(
        "message_id", "subscription_id", "latency_ns", "publish_ns", *_MOMENTS, "reason",
        pl.col("usual").alias("receiver"), "itself",
    )  # fmt: skip


def _with_end_before(rows: pl.DataFrame, executions: pl.DataFrame) -> pl.DataFrame:
    """Add the end of the thread's last callback before the take."""
    ends = (
        executions.select("host", pl.col("vtid").cast(pl.Int64).alias("tid"), "end_ns")
        .drop_nulls()
        .rename({"end_ns": "busy_until_ns"})
        .sort("busy_until_ns")
    )
    return rows.sort("take_ns").join_asof(
        ends, left_on="take_ns", right_on="busy_until_ns", by=["host", "tid"],
        strategy="backward", check_sortedness=False, coalesce=False,
    )  # fmt: skip


def _with_usual_receiver(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the thread that most often woke each executor's thread."""
    thread = ["host", "tid"]
    usual = (
        rows.filter(pl.col("reason").is_null())
        .group_by(*thread, "receiver")
        .len()
        .sort("len", "receiver", descending=[True, False])
        .group_by(thread, maintain_order=True)
        .agg(pl.col("receiver").first().alias("usual"))
    )
    return rows.join(usual, on=thread, how="left", maintain_order="left")


def _through_middleware(messages: pl.DataFrame, executions: pl.DataFrame) -> pl.DataFrame:
    threads = executions.select(
        "callback_instance_id", pl.col("vtid").cast(pl.Int64).alias("tid")
    ).drop_nulls()
    return (
        messages.filter(pl.col("publisher_host") == pl.col("subscription_host"))
        .drop_nulls(["message_id", "publish_ns", "rmw_publish_ns", "take_ns", "callback_start_ns"])
        .filter(pl.col("take_ns") >= pl.col("rmw_publish_ns"))
        .join(threads, on="callback_instance_id", maintain_order="left")
        .with_columns(pl.col("subscription_host").alias("host"))
    )


def _near_wake(
    rows: pl.DataFrame,
    woken: pl.DataFrame,
    thread: str,
    moment: str,
    name: str,
    *,
    forward: bool = False,
) -> pl.DataFrame:
    """Add when a thread was last woken before a moment, when it then ran, and who woke it.

    With `forward`, add when it was first woken after the moment.
    """
    wanted = rows.select(
        "message_id", "subscription_id", "host", pl.col(thread).alias("tid"), pl.col(moment)
    ).drop_nulls()
    wakes = (
        wanted.sort(moment)
        .join_asof(
            woken.select(
                "host", "tid", pl.col("begin_ns").alias(name), pl.col("end_ns").alias("ran_ns"),
                "waker", "in_interrupt",
            ).sort(name),
            left_on=moment, right_on=name, by=["host", "tid"],
            strategy="forward" if forward else "backward",
            check_sortedness=False, coalesce=False,
        )
        .drop("host", "tid", moment)
    )  # fmt: skip
    return rows.join(wakes, on=["message_id", "subscription_id"], how="left", maintain_order="left")
