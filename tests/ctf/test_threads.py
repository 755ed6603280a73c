"""Test several threads on traces so long that each thread decodes several slices of time."""

import polars as pl
import pytest

from roslens.collectors.reader import Trace, open_trace
from roslens.generate import Shape, generate

EVENTS = 300_000


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Generate some 14 MB, of which a thread takes 4 at a time; packets cross the borders."""
    folder = tmp_path_factory.mktemp("long")
    generate(Shape(threads=2), folder, EVENTS)
    return open_trace(folder / "trace")


@pytest.fixture(scope="module")
def alone(trace: Trace) -> dict[str, pl.DataFrame]:
    """Return what one thread reads, which merges all packets at once."""
    frames = trace.read(threads=1)
    # There are eight events per message; with two layers of 4 nodes and 4 topics, the events that
    # announce them are 8 of nodes, 4 of publishers, and 3 of each of 4 subscriptions.
    assert sum(frame.height for frame in frames.values()) == EVENTS // 8 * 8 + 24
    return frames


@pytest.mark.parametrize("threads", [2, 3])
def test_several_threads_read_what_one_reads(trace, alone, threads):
    frames = trace.read(threads=threads)
    assert frames.keys() == alone.keys()
    assert all(frame.equals(alone[name]) for name, frame in frames.items())


def test_several_threads_stream_what_one_reads(trace, alone):
    parts = {}
    for name, batch in trace.stream(threads=2):
        parts.setdefault(name, []).append(batch)
    assert parts.keys() == alone.keys()
    assert all(pl.concat(frames).equals(alone[name]) for name, frames in parts.items())


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_files_hold_what_is_read(trace, alone, threads, tmp_path):
    steps = []
    info = trace.write_events(
        tmp_path, threads=threads, progress=lambda done, total: steps.append((done, total))
    )
    assert info.events_by_name == {name: frame.height for name, frame in alone.items()}
    for name, frame in alone.items():
        provider, event = name.split(":")
        assert pl.read_parquet(tmp_path / provider / f"{event}.parquet").equals(frame)
    assert steps == sorted(steps)
    assert steps[-1][0] == steps[-1][1] > 0


def test_a_window_over_several_slices(trace, alone):
    begin, end = trace.span
    times = begin + (end - begin) // 10, end - (end - begin) // 10
    within = pl.col("time_ns").is_between(*times)
    frames = trace.read(begin_ns=times[0], end_ns=times[1], threads=2)
    assert all(frame.equals(alone[name].filter(within)) for name, frame in frames.items())


def test_an_error_while_progress_is_told_ends_all_threads(trace, tmp_path):
    def fail(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        trace.write_events(tmp_path, threads=2, progress=fail)
    assert not list(tmp_path.rglob("*.parquet*"))
