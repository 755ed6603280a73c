"""Test what a recording with a cut or missing stream reports, against the whole one."""

import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from tests.samples import SAMPLES, uncollected

import roslens as rl
from roslens.first_page import FirstPage
from roslens.pack import unpack_recordings

pytestmark = pytest.mark.recording
Two = tuple[rl.Recordings, rl.Recordings]


def halved(stream: Path) -> None:
    os.truncate(stream, stream.stat().st_size // 2)


def gone(stream: Path) -> None:
    stream.unlink()
    (stream.parent / "index" / f"{stream.name}.idx").unlink()


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    for name in ("chain", "leak"):
        unpack_recordings(SAMPLES / f"{name}.tar.zst", folder / name, None)
    return folder


@pytest.fixture(params=[halved, gone])
def hurt(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Path], Two]:
    """Return a function that opens a run, and a copy whose last stream of programs is damaged."""

    def opened(run: Path) -> Two:
        copy = uncollected(run, tmp_path / "copy")
        streams = [x for x in copy.rglob("*_[0-9]") if x.is_file() and "kernel" not in x.parts]
        request.param(max(streams))
        return rl.open(run), rl.open(copy)

    return opened


def lacks_a_stream(run: rl.Recordings) -> bool:
    """Whether a stream is missing, so that nothing is known of any time."""
    return not run.losses.filter(kind="missing_stream").collect().is_empty()


def test_rates_and_shares_are_of_the_time_in_which_nothing_was_lost(
    unpacked: Path, hurt: Callable[[Path], Two]
) -> None:
    whole, rest = hurt(next(unpacked.glob("chain/*multi3*")))
    none = lacks_a_stream(rest)
    key = ["kind", "name", "node"]
    for frame_of, columns in (
        (lambda run: run.latency.topics().drop_nulls("rate_hz"), ["rate_hz"]),
        (lambda run: run.callbacks.periods().filter(kind="timer"), ["period_ns", "skipped"]),
        (lambda run: run.callbacks.summary().filter(pl.col("busy") > 0.001), ["busy", "p50_ns"]),
    ):
        by = [name for name in (*key, "topic", "from", "to") if name in frame_of(whole).columns]
        joined = frame_of(rest).join(frame_of(whole), on=by, suffix="_whole", nulls_equal=True)
        assert joined.height == frame_of(rest).height == (0 if none else frame_of(whole).height)
        for column in columns:
            for value, expected in (
                joined.select(column, f"{column}_whole").drop_nulls(column).iter_rows()
            ):
                assert value == pytest.approx(expected, rel=0.15), (column, joined)


def test_no_grid_is_made_up_beside_a_gap(unpacked: Path, hurt: Callable[[Path], Two]) -> None:
    whole, rest = hurt(next(unpacked.glob("chain/*multi3*")))
    columns = ["start_ns", "lateness_ns", "skipped"]
    whole_timers, rest_timers = (
        run.table("timer_activations").select(columns).collect() for run in (whole, rest)
    )
    joined = rest_timers.drop_nulls("lateness_ns").join(
        whole_timers, on="start_ns", suffix="_whole"
    )
    assert rest_timers["lateness_ns"].null_count() > 0
    assert joined.is_empty() == lacks_a_stream(rest)
    assert joined["skipped"].to_list() == joined["skipped_whole"].to_list()


def test_the_own_work_of_an_executor_is_not_what_was_lost(
    unpacked: Path, hurt: Callable[[Path], Two]
) -> None:
    whole, rest = hurt(next(unpacked.glob("chain/*multi3*")))
    columns = ["topic", "publish_ns", "cause", "who"]
    frames = (run.why.frame().select(columns).with_columns(pl.col("cause").cast(pl.String))
              for run in (rest, whole))  # fmt: skip
    rest_causes, whole_causes = frames
    own_work = rest_causes.filter(pl.col("cause") == "executor", pl.col("who").is_null())
    own_work = own_work.join(whole_causes, on=["topic", "publish_ns"], suffix="_whole")
    assert own_work.filter(pl.col("cause_whole") != "executor").is_empty()


def test_memory_per_message_needs_all_messages(unpacked: Path, hurt: Callable[[Path], Two]) -> None:
    """The program leaks 1,024 bytes per message, plus what malloc adds."""
    name = "memory_slope_per_message"
    whole, rest = hurt(next(unpacked.glob("leak/*r1*1024*")))
    (slope,) = whole.memory.estimates().filter(metric=name)["value"]
    assert 1_024 <= slope <= 1_060
    (row,) = rest.memory.estimates().filter(metric=name).rows(named=True)
    assert row["value"] is None
    assert "the tracer lost events" in row["refused"]


def test_a_lost_answer_is_no_missing_one(hurt: Callable[[Path], Two]) -> None:
    whole, rest = hurt(SAMPLES / "demo" / "002_r1_executor-SingleThreaded")
    for run in (whole, rest):
        page = FirstPage(run, [run.recordings[0].path])
        assert not [
            suspicion.sentence for suspicion in page.suspicions if "no answer" in suspicion.sentence
        ]
