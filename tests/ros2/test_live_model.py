"""Test that events fed as they happen give the same tables so far as collecting them does.

Expected values are those of `build_tables`, which is checked against the reference model elsewhere.
"""

from collections.abc import Iterator

import polars as pl
import pytest
from random_system import System
from ros2_trace import Trace, at
from tests.samples import RUN, SAMPLES

from roslens.collectors.reader import open_trace
from roslens.collectors.ros2 import build_tables
from roslens.collectors.ros2.live import Model
from roslens.collectors.schema import TABLES
from roslens.collectors.schema.tables import LOSSES


def stretches(raw: dict[str, pl.DataFrame], count: int) -> Iterator[dict[str, pl.DataFrame]]:
    """Split the events into `count` stretches of equal length in time."""
    times = pl.concat([frame["time_ns"].cast(pl.Int64) for frame in raw.values()])
    begin, end = times.min(), times.max()
    size = (end - begin) // count + 1
    for number in range(count):
        low = begin + number * size
        during = pl.col("time_ns").is_between(low, low + size, closed="left")
        yield {name: frame.filter(during) for name, frame in raw.items()}


class Fed:
    """A model, and the events fed to it, all of which it may ask for again."""

    def __init__(self, keep_ns: int | None = None) -> None:
        self.stretches: list[dict[str, pl.DataFrame]] = []
        self.asked = 0
        self.model = Model(keep_ns, self.again)

    def feed(self, stretch: dict[str, pl.DataFrame]) -> None:
        self.stretches.append(stretch)
        self.model.feed(stretch)

    def so_far(self) -> dict[str, pl.DataFrame]:
        parts = self.stretches
        return {
            name: pl.concat([part[name] for part in parts]).sort("time_ns") for name in parts[0]
        }

    def again(self) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
        self.asked += 1
        return self.so_far(), LOSSES.empty()


def assert_same(model: Model, expected: dict[str, pl.DataFrame]) -> None:
    tables = model.tables()
    for name in TABLES.keys() & tables.keys() - {"executor_intervals"}:
        frame = TABLES[name].conform(tables[name].frame())
        # How well the clocks of hosts agree depends on all messages together.
        wanted = expected[name]
        if "clock_bound_ns" in frame.columns:
            unbounded = pl.col("clock_bound_ns").is_null()
            wanted = wanted.with_columns(pl.when(unbounded).then("latency_ns").alias("latency_ns"))
            frame, wanted = (table.drop("clock_bound_ns") for table in (frame, wanted))
        assert frame.equals(wanted), name


@pytest.mark.parametrize("seed", range(4))
def test_objects_that_appear_meanwhile_are_taken_in(seed: int) -> None:
    raw = System(seed).trace.frames()
    fed = Fed()
    for stretch in stretches(raw, 9):
        fed.feed(stretch)
        assert_same(fed.model, build_tables(fed.so_far()))
    assert_same(fed.model, build_tables(raw))


@pytest.mark.recording
@pytest.mark.parametrize(
    "run", ["two_process/000_r0_fastrtps", "communication/001_r0_unique_ptr_ipc-on"]
)
def test_recordings(run: str) -> None:
    raw = open_trace(SAMPLES / run).read()
    fed = Fed()
    for stretch in stretches(raw, 25):
        fed.feed(stretch)
    assert_same(fed.model, build_tables(raw))
    # The model does not ask for each stretch.
    assert fed.asked < 20


@pytest.mark.recording
def test_what_lies_back_is_forgotten() -> None:
    """Rows within the kept time equal those of the whole recording; rows before it are gone."""
    raw = open_trace(RUN).read()
    published = raw["ros2:rmw_publish"]["time_ns"].cast(pl.Int64)
    end = published[published.len() * 3 // 4]
    raw = {name: frame.filter(pl.col("time_ns") <= end) for name, frame in raw.items()}
    keep = end - published[published.len() * 5 // 8]
    fed, most = Fed(keep), 0
    model = fed.model
    for stretch in stretches(raw, 40):
        fed.feed(stretch)
        most = max(most, model.tables()["messages"].frame().height)
    messages = model.tables()["messages"].frame()
    whole = build_tables(raw)["messages"]
    columns = ["topic", "publish_ns", "take_ns", "latency_ns", "outcome", "match"]
    late = pl.col("publish_ns") > end - keep // 2
    assert 0 < most < whole.height
    of_both = [
        frame.filter(late).select(columns).cast({"topic": pl.String, "outcome": pl.String})
        for frame in (TABLES["messages"].conform(messages), whole)
    ]
    assert of_both[0].height > 50
    assert of_both[0].equals(of_both[1])
    assert messages["publish_ns"].min() > end - 3 * keep


@pytest.mark.recording
def test_what_is_needed_is_not_forgotten() -> None:
    """However little is kept, every execution since the needed moment equals the whole's."""
    raw = open_trace(RUN).read()
    whole = build_tables(raw)["callback_instances"]["start_ns"]
    needed = whole[whole.len() // 3]
    fed = Fed(1)
    fed.model.needed_ns = needed
    for stretch in stretches(raw, 20):
        fed.feed(stretch)
    starts = fed.model.tables()["callback_instances"].frame("start_ns")["start_ns"]
    assert starts.filter(starts >= needed).equals(whole.filter(whole >= needed))
    assert starts.len() < whole.len()


def two_threads(ends: float | None) -> Trace:
    """In thread 1 a callback begins at 0.5 s; in thread 2 another runs 2000 times, every 5 ms.

    So rows are forgotten by pages of 512 executions (2.56 s).
    """
    trace = Trace()
    trace.emit(1, "rclcpp_callback_register", callback=5, symbol="hangs")
    trace.emit(2, "rclcpp_callback_register", callback=6, symbol="works")
    trace.run(500_000, 5, lasts=None if ends is None else ends - 500_000, tid=1)
    for k in range(2000):
        trace.run(10_000 + k * 5000, 6, lasts=1000, tid=2)
    return trace


def last_of(model: Model) -> list[tuple[float, float | None]]:
    """Return start and end of what thread 1 executed, in us."""
    frame = model.tables()["callback_instances"].frame("vtid", "start_ns", "end_ns")
    times = frame.filter(vtid=1).select("start_ns", "end_ns").rows()
    return [((start - at(0)) / 1000, end and (end - at(0)) / 1000) for start, end in times]


@pytest.mark.parametrize("ends", [None, 7_000_000])
def test_what_has_not_ended_is_not_forgotten(ends: float | None) -> None:
    """Of 10 s one is kept: what began at 0.5 s stays while it runs, and 1 s longer."""
    fed = Fed(1_000_000_000)
    seen = []
    for stretch in stretches(two_threads(ends).frames(), 20):
        fed.feed(stretch)
        seen.append(last_of(fed.model))
    running, ended = [(500_000, None)], [(500_000, ends)]
    # Each stretch is of half a second.
    if ends is None:
        assert seen[1:] == [running] * 19
    else:
        assert seen[1:13] == [running] * 12
        assert seen[13:15] == [ended] * 2
        assert seen[-1] == []
    assert fed.model.tables()["callback_instances"].frame("start_ns").height < 1000


@pytest.mark.parametrize("ends", [None, 9_200_000])
def test_what_has_not_ended_goes_on_when_events_are_read_again(ends: float | None) -> None:
    """At 6.1 s a callback is registered, and only what is later than 5.5 s is read again."""
    trace = two_threads(ends)
    trace.emit(6_100_000, "rclcpp_callback_register", callback=7, symbol="new")
    raw = trace.frames()
    so_far: list[dict[str, pl.DataFrame]] = []

    def again() -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
        since = at(5_500_000)
        late = {
            name: pl.concat([part[name] for part in so_far]).filter(
                (pl.col("time_ns") >= since) | (name == "ros2:rclcpp_callback_register")
            )
            for name in raw
        }
        forgotten = {"host": "h0", "kind": "lost_packets", "begin_ns": at(1), "end_ns": since}
        return late, LOSSES.conform(pl.DataFrame([forgotten], schema=LOSSES.schema))

    model = Model(1_000_000_000, again)
    for stretch in stretches(raw, 20):
        so_far.append(stretch)
        model.feed(stretch)
        if at(6_500_000) < (model.last_ns or 0) < at(9_200_000):
            assert last_of(model) == [(500_000, None)]
    assert last_of(model) == [(500_000, ends)]
    # The first pass began with the first event.
    assert model.is_whole


def test_a_late_event_is_put_in_its_place() -> None:
    trace = Trace()
    trace.emit(1, "ros2:rclcpp_callback_register", callback=5, symbol="f")
    trace.emit(10, "ros2:callback_start", callback=5, is_intra_process=0)
    trace.emit(30, "ros2:callback_start", callback=5, is_intra_process=0)
    trace.emit(20, "ros2:callback_end", callback=5)
    trace.emit(40, "ros2:callback_end", callback=5)
    raw = trace.frames()
    fed = Fed()
    for cut in ([1, 10, 30], [20], [40]):
        times = [at(us) for us in cut]
        fed.feed(
            {name: frame.filter(pl.col("time_ns").is_in(times)) for name, frame in raw.items()}
        )
    durations = fed.model.tables()["callback_instances"].frame()["duration_ns"]
    assert durations.to_list() == [10_000, 10_000]


def test_nothing_so_far() -> None:
    assert Model().tables()["messages"].frame().is_empty()
    model = Model(1)
    model.feed({})
    assert model.tables()["publications"].frame().is_empty()
    assert model.last_ns is None
