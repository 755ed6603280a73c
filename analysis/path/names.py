"""Add the names of threads, callbacks and interrupts that held messages up to segments."""

from __future__ import annotations

import polars as pl

from roslens.analysis.measures.callbacks import readable
from roslens.analysis.path.causes import Kernel


def named(
    pieces: pl.DataFrame, messages: pl.DataFrame, executions: pl.DataFrame, kernel: Kernel | None
) -> pl.DataFrame:
    """Return the columns of `roslens.analysis.path.path.Paths.of`.

    Parameters
    ----------
    pieces
        In order: message (row of `messages`), begin_ns, end_ns, kind, kernel (whether kernel events
        show it), tid, and row numbers, -1 for none: execution (of `executions`), cpu and interrupt
        (of the frames in `kernel`).
    """
    held_up = pieces.filter(pl.col("execution") >= 0)["execution"].unique()
    runs = executions[held_up].select(
        held_up, "node", _callback().alias("callback"), pl.col("vtid").cast(pl.Int64)
    )
    keys = messages.select("message_id", "subscription_id", "host").with_row_index("message")
    empty = pl.DataFrame(schema={"by_name": pl.String})
    had, interrupts = (
        (empty, empty) if kernel is None else (kernel.view.had_cpu, kernel.view.interrupts)
    )
    threads = pl.DataFrame(schema={"host": keys["host"].dtype, "tid": pl.Int64, "name": pl.String})
    threads = threads if kernel is None else kernel.view.names.cast(threads.schema)

    def texts(frame: pl.DataFrame, row: str) -> pl.DataFrame:
        names = frame.select(pl.col("by_name").cast(pl.String).alias(f"{row}_name"))
        return names.with_row_index(row).cast({row: pl.Int64})

    joined = (
        pieces.join(keys.cast({"message": pl.Int64}), on="message", how="left",
                    maintain_order="left")
        .join(runs, on="execution", how="left", maintain_order="left")
        .join(texts(had, "cpu"), on="cpu", how="left", maintain_order="left")
        .join(texts(interrupts, "interrupt"), on="interrupt", how="left", maintain_order="left")
        .join(threads, on=["host", "tid"], how="left", maintain_order="left")
    )  # fmt: skip
    of_callback = pl.format("{} of {}", "callback", pl.col("node").fill_null("a node"))
    tid = pl.when(pl.col("tid") > 0).then("tid")
    thread = pl.format(
        "{} (thread {})", pl.coalesce("cpu_name", "name", pl.lit("another thread")), tid
    )
    idle = pl.when(pl.col("cpu") >= 0).then(pl.lit("the CPU, which came out of its sleep"))
    number = pl.coalesce(tid, "vtid")
    return joined.select(
        "message", "message_id", "subscription_id",
        pl.int_range(pl.len()).over("message").alias("segment"),
        "kind", "begin_ns", "end_ns", (pl.col("end_ns") - pl.col("begin_ns")).alias("duration_ns"),
        pl.coalesce(
            "interrupt_name",
            pl.when(tid.is_not_null() & pl.col("callback").is_not_null())
            .then(pl.format("{} in the {}", thread, of_callback)),
            pl.when(tid.is_not_null()).then(thread),
            of_callback,
            idle,
        ).alias("who"),
        pl.col("node").alias("who_node"), pl.col("callback").alias("who_callback"),
        number.cast(pl.Int64).alias("who_vtid"),
        pl.when("kernel").then(pl.lit("kernel")).otherwise(pl.lit("ros events")).alias("source"),
    )  # fmt: skip


def _callback() -> pl.Expr:
    """Return text such as ``timer callback (100 ms)``, ``subscription callback (/scan)``."""
    kind = pl.col("kind").cast(pl.String).fill_null("unknown")
    return pl.format(
        "{} callback ({})", kind, readable(pl.col("name").cast(pl.String)).fill_null("?")
    )
