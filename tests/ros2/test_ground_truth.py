"""The messages table of real recordings against what their workloads logged themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

from collectors.collect import read_raw
from collectors.ros2 import build_tables
from tracing.recording import Recording

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from ground_truth import compare, recordings, truth_of  # noqa: E402

SAMPLES = list(recordings([ROOT / "data" / "samples"]))


def test_there_are_samples_with_ground_truth() -> None:
    assert SAMPLES


@pytest.mark.recording
@pytest.mark.parametrize("run", SAMPLES, ids=lambda run: f"{run.parent.name}/{run.name}")
def test_every_logged_message_is_one_row(run: Path) -> None:
    """The log is the workload's own: CLOCK_REALTIME before publish() and in the callback.

    The trace's latency is shorter, as the events lie inside: by less than 50 us at the median,
    but for messages that are copied after callback_start (unique_ptr callbacks of rclcpp without
    intra-process communication), where it grows with the message.
    """
    recording = Recording.at(run)
    truth = truth_of(run)
    assert truth is not None
    raw = read_raw(recording)
    verdict = compare(build_tables(raw.events, raw.losses)["messages"], truth)
    assert verdict.problems == []
    assert verdict.logged == truth.height > 0
    factors = recording.manifest.factors if recording.manifest else {}
    if factors.get("callback") != "unique_ptr" or factors.get("intra_process"):
        assert -20_000 < verdict.longer_ns.median() < 50_000


def messages(*rows: tuple[int, int, int | None, str]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"topic": "/t", "message_id": m, "publish_ns": p, "latency_ns": latency, "outcome": o}
            for m, p, latency, o in rows
        ],
        schema_overrides={"latency_ns": pl.Int64},
    )


TRUTH = pl.DataFrame(
    {"topic": ["/t"] * 3, "sent_ns": [1000, 2000, 3000], "received_ns": [1500, None, 3500]}
)


def test_the_check_accepts_what_is_right() -> None:
    right = messages(
        (0, 1010, 450, "delivered"), (1, 2010, None, "lost"), (2, 3010, 440, "delivered")
    )
    verdict = compare(right, TRUTH)
    assert verdict.problems == []
    assert verdict.longer_ns.to_list() == [50, 60]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (((0, 1010, 450, "delivered"), (1, 2010, None, "lost")), "logged, but not in the table"),
        (
            ((0, 1010, 450, "delivered"), (1, 2010, None, "lost"), (2, 3010, 4, "delivered"),
             (3, 4000, None, "lost")),
            "in the table, but not logged",
        ),
        (
            ((0, 1010, 450, "delivered"), (1, 2010, None, "lost"), (2, 3010, None, "lost")),
            "received, but not delivered",
        ),
        (
            ((0, 1010, 450, "delivered"), (1, 2010, 3, "delivered"), (2, 3010, 4, "delivered")),
            "not received, but not lost either",
        ),
        (
            ((0, 1010, 450, "delivered"), (0, 2010, None, "lost"), (2, 3010, 4, "delivered")),
            "more than one row",
        ),
        (
            ((0, 1010, 450, "delivered"), (1, 2010, None, "lost"),
             (2, 3_000_000_000, 4, "delivered")),
            "out of step with the log",
        ),
    ],
)  # fmt: skip
def test_the_check_finds_what_is_wrong(
    rows: tuple[tuple[int, int, int | None, str], ...], problem: str
) -> None:
    assert any(problem in found for found in compare(messages(*rows), TRUTH).problems)
