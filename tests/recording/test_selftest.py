"""Test the self-test, on recordings whose truth is known, and on broken ones."""

import polars as pl
import pytest
from tests.samples import SAMPLES

from roslens.collectors.decoding import read_raw
from roslens.collectors.ros2 import build_tables
from roslens.recording import EXIT_FAILED, EXIT_OK, EXIT_VERDICT, Recording
from roslens.selftest import SelfTest, check_pairs

SAMPLE = SAMPLES / "demo" / "000_r0_executor-Events"


@pytest.fixture(scope="module")
def messages() -> pl.DataFrame:
    raw = read_raw(Recording.at(SAMPLE))
    return build_tables(raw.events, raw.losses)["messages"]


@pytest.fixture
def log() -> pl.DataFrame:
    return pl.read_csv(SAMPLE / "native" / "messages.csv")


@pytest.mark.recording
def test_a_right_recording_is_found_right(log: pl.DataFrame, messages: pl.DataFrame) -> None:
    """The program's own log is the truth; the sample's messages were all received."""
    check = check_pairs(log, messages)
    assert (check.logged, check.right) == (log.height, log.height)
    assert 0 < check.shorter_ns.median() < 1_000_000  # type: ignore[operator]


@pytest.mark.recording
def test_what_is_told_wrong_is_counted(log: pl.DataFrame, messages: pl.DataFrame) -> None:
    """Rows are altered by hand: one is lost, two have each other's callbacks, one is missing."""
    of_topic = pl.col("topic") == log["topic"][0]
    rows = messages.filter(of_topic).sort("publish_ns").with_row_index("at")
    at = pl.col("at")
    lost = rows.with_columns(outcome=pl.when(at == 5).then(pl.lit("lost")).otherwise("outcome"))
    assert check_pairs(log, lost.drop("at")).right == log.height - 1
    ends = ("callback_start_ns", "callback_end_ns", "latency_ns")
    exchanged = pl.when(at == 40).then(60).when(at == 60).then(40).otherwise(at)
    swapped = rows.with_columns(pl.col(name).gather(exchanged) for name in ends)
    assert check_pairs(log, swapped.drop("at")).right == log.height - 2
    # From there on each message is paired with the one before; some follow closely on another.
    shifted = check_pairs(log, rows.filter(at != 7).drop("at"))
    assert 7 <= shifted.right < 0.1 * log.height


def test_exit_codes() -> None:
    """As documented, the exit code is 1 for wrong results and 4 if a run failed."""

    def code(*, right: int = 10, discarded: int = 0, failed: int = 0) -> int:
        return SelfTest("lttng", 3, 10, right, 1.0, 2.0, discarded, 1.0, 0.9, 1.1, failed).exit_code

    assert code() == EXIT_OK
    assert code(right=9) == code(discarded=1) == EXIT_VERDICT
    assert code(failed=1) == EXIT_FAILED
