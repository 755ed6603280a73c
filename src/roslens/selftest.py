"""Run ``roslens dev selftest``: measure the instrument's own error against programs' logs."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from roslens.analysis.statistics.over_runs import student_t
from roslens.analysis.statistics.quantiles import quantile
from roslens.collectors.decoding import read_raw
from roslens.collectors.ros2 import build_tables
from roslens.recording import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_VERDICT,
    InterruptedRunError,
    Recording,
    find_recordings,
)
from roslens.tracing.campaign import run_campaign
from roslens.tracing.progress import show_progress
from roslens.tracing.suite import load_suite, with_changes

SUITE = "selftest"
TOLERANCE_NS = 100_000
"""The largest difference between the clocks of log and trace, in ns."""


@dataclass(frozen=True)
class Pairs:
    """Messages of a run, compared with the program's log.

    Attributes
    ----------
    logged
        Number of messages that the program published.
    right
        Number of messages on which the trace agrees: received in the callback that the log says,
        or not received.
    shorter_ns
        For received messages: the log's latency minus the trace's, in ns.
    """

    logged: int
    right: int
    shorter_ns: pl.Series


@dataclass(frozen=True)
class SelfTest:
    """Effect of the instrument on what it measures.

    Attributes
    ----------
    tracer
        The tracer's name and version.
    runs
        Number of pairs of runs, one run of each recorded.
    messages, right
        As in `Pairs`, over all runs.
    shorter_p50_ns, shorter_p99_ns
        Percentiles of `Pairs.shorter_ns`, over all runs.
    discarded_events
        Events that the tracer discarded.
    p99_ratio, p99_low, p99_high
        P99 of the log's latency with events recorded, divided by that without: geometric mean over
        pairs of runs, with its 95 % interval (Student's t on logarithms); null with fewer than
        three pairs.
    failed
        Number of runs that are not complete.
    """

    tracer: str
    runs: int
    messages: int
    right: int
    shorter_p50_ns: float | None
    shorter_p99_ns: float | None
    discarded_events: int
    p99_ratio: float | None
    p99_low: float | None
    p99_high: float | None
    failed: int

    @property
    def exit_code(self) -> int:
        """Return 1 if a message is wrong or the tracer dropped something; 4 if a run failed."""
        if self.failed or not self.messages:
            return EXIT_FAILED
        return EXIT_VERDICT if self.right < self.messages or self.discarded_events else EXIT_OK

    def sentences(self) -> list[str]:
        """Describe the findings, with units."""
        sentences = [
            f"{self.right:,} of {self.messages:,} messages agree with the program's log.",
            f"{self.tracer} dropped {self.discarded_events:,} events."
            if self.discarded_events
            else f"{self.tracer} dropped nothing.",
        ]
        if self.shorter_p50_ns is not None and self.shorter_p99_ns is not None:
            sentences.append(
                f"Latencies are {self.shorter_p50_ns / 1e3:.1f} us shorter than by the log "
                f"(median; P99 {self.shorter_p99_ns / 1e3:.1f} us)."
            )
        if self.p99_ratio is not None and self.p99_low is not None:
            sentences.append(
                f"P99 of the latency with the events recorded is {self.p99_ratio:.2f} "
                f"[{self.p99_low:.2f}, {self.p99_high:.2f}] times that without, over {self.runs} "
                "pairs of runs in turn."
            )
        if self.failed:
            sentences.append(f"{self.failed} runs are not complete.")
        return sentences


def check_pairs(log: pl.DataFrame, messages: pl.DataFrame) -> Pairs:
    """Compare a run's messages with the program's log.

    Parameters
    ----------
    log
        topic, sequence, publish_realtime_ns, callback_realtime_ns (null: not received).
    messages
        The table ``messages``.
    """
    topic = log["topic"].first()
    rows = messages.filter(pl.col("topic") == topic, pl.col("publish_ns").is_not_null())
    paired = (
        log.sort("publish_realtime_ns")
        .with_row_index("place")
        .join(
            rows.sort("publish_ns").drop("topic").with_row_index("place"),
            on="place",
            how="full",
            coalesce=True,
        )
        .sort("place")
    )
    logged, traced = pl.col("publish_realtime_ns"), pl.col("publish_ns")
    # A traced message belongs to the logged one before whose successor it was published.
    following = logged.shift(-1).fill_null(traced + 1)
    same = (traced + TOLERANCE_NS >= logged) & (traced <= following + TOLERANCE_NS)
    received, delivered = pl.col("callback_realtime_ns"), pl.col("outcome") == "delivered"
    ended = pl.col("callback_end_ns").fill_null(received)
    inside = (pl.col("callback_start_ns") - TOLERANCE_NS <= received) & (
        received <= ended + TOLERANCE_NS
    )
    right = pl.when(received.is_null()).then(~delivered).otherwise(delivered & inside)
    judged = paired.with_columns(right=(same & right).fill_null(value=False))
    times = judged.filter(pl.col("right") & delivered)
    return Pairs(
        judged.height,
        int(judged["right"].sum()),
        times.select(received - logged - pl.col("latency_ns")).to_series(),
    )


def self_test(runs: Sequence[Recording]) -> SelfTest:
    """Evaluate the runs of the suite."""
    pairs: list[Pairs] = []
    p99: dict[tuple[int, str], float] = {}
    discarded = failed = 0
    tracer = ""
    for run in runs:
        about = run.manifest
        assert about is not None
        recorded = str(about.factors["recorded"])
        if about.status != "complete":
            failed += 1
            continue
        log = pl.read_csv((run.native / "messages.csv").read_bytes())
        took = (log["callback_realtime_ns"] - log["publish_realtime_ns"]).drop_nulls()
        if took.len():
            p99[about.repetition, recorded] = quantile(took, 0.99)
        if recorded == "yes":
            tracer = f"{about.tracing.tracer} {about.tracing.tracer_version or ''}".strip()
            discarded += about.loss.discarded_events or 0
            raw = read_raw(run)
            pairs.append(check_pairs(log, build_tables(raw.events, raw.losses)["messages"]))
    blocks = sorted({block for block, _ in p99})
    logs = [
        math.log(p99[block, "yes"] / p99[block, "no"])
        for block in blocks
        if (block, "yes") in p99 and (block, "no") in p99
    ]
    ratio = student_t(logs)
    shorter = pl.concat([pair.shorter_ns for pair in pairs]) if pairs else pl.Series(dtype=pl.Int64)

    def times(log_ratio: float | None) -> float | None:
        return None if log_ratio is None else math.exp(log_ratio)

    return SelfTest(
        tracer=tracer,
        runs=len(logs),
        messages=sum(pair.logged for pair in pairs),
        right=sum(pair.right for pair in pairs),
        shorter_p50_ns=quantile(shorter, 0.5) if shorter.len() else None,
        shorter_p99_ns=quantile(shorter, 0.99) if shorter.len() else None,
        discarded_events=discarded,
        p99_ratio=times(ratio.value),
        p99_low=times(ratio.low),
        p99_high=times(ratio.high),
        failed=failed,
    )


def run_selftest(tracer: str | None, pairs: int | None) -> SelfTest:
    """Record the suite and evaluate it.

    Raises
    ------
    UsageError
        Something that recording needs is missing.
    """
    suite, text = load_suite(SUITE)
    given: dict[str, Any] = {"tracing.tracer": tracer, "repetitions": pairs}
    suite = with_changes(suite, {name: value for name, value in given.items() if value is not None})
    with tempfile.TemporaryDirectory(prefix="roslens-selftest-") as scratch:
        with show_progress() as on_event:
            result = run_campaign(suite, text, root=Path(scratch), on_event=on_event)
        if result.interrupted:
            raise InterruptedRunError("interrupted")
        return self_test(find_recordings(result.folder))
