"""A day of ``roslens watch`` with triggers on a healthy system, by replay: what hits falsely?

``python benchmarks/watched_day.py [RECORDING] [--hours 24]`` cuts a recording (a sample of two
processes, if none is given) where no activity is in progress, and feeds its pieces of about a
second, in random order, to the code of ``watch``, with a refresh every 10 s of a clock that is
replayed as well. Nothing goes wrong in the recording, so every hit is false. Printed are the hits,
the refreshes whose count of messages differs from that of the publications fed, and memory.

The process samples of triggers (cpu, memory, died) cannot be replayed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import polars as pl

from roslens.collectors.reader import open_trace
from roslens.collectors.ros2 import build_tables
from roslens.collectors.ros2.events import INIT_EVENTS
from roslens.collectors.schema.tables import LOSSES
from roslens.live.triggers import read_triggers
from roslens.live.watch import Limits, Watch

Frames = dict[str, pl.DataFrame]
SAMPLE = Path(__file__).parents[1] / "data" / "samples" / "two_process" / "000_r0_fastrtps"
EVERY_NS, WINDOW_NS, PIECE_NS = 10_000_000_000, 10_000_000_000, 1_000_000_000
MARGIN_NS = 50_000_000
# These columns are shifted: event times, and timestamps of the middleware.
STAMPS = ("time_ns", "timestamp", "source_timestamp")
OF_TOPIC = ("rate of {0} < {rate} Hz", "gap of {0} > 2 s")
OF_NODE = ("silence of {0} > 5 s",)
OF_ALL = ("latency > 1 s", "callback > 1 s", "loss > 1 %", "goal aborted")


def quiet_moments(tables: Frames, begin: int, end: int) -> list[int]:
    """Return moments, about `PIECE_NS` apart, without a message or a callback in progress."""
    messages = tables["messages"].select("publish_ns", until="callback_end_ns")
    ran = tables["callback_instances"].select(publish_ns="start_ns", until="end_ns")
    busy = pl.concat([messages, ran]).drop_nulls().sort("publish_ns")
    busy = busy.with_columns(before=pl.col("until").cum_max().shift())
    moments = [begin]
    for at, before in busy.select("publish_ns", "before").drop_nulls().iter_rows():
        if at - before > 100_000 and before - moments[-1] >= PIECE_NS and at < end:
            moments.append((before + at) // 2)
    # The stretches at both ends are left out, as programs start and stop there.
    return moments[1:]


class Replay:
    """A source that plays pieces one after the other, like `roslens.live.source.Source`."""

    flight = None
    broken: tuple[str, ...] = ()

    def __init__(self, raw: Frames, cuts: list[int]) -> None:
        init = {f"ros2:{name}" for name in INIT_EVENTS}
        # Events that never happened in the pieces are passed once, too.
        self.named = {
            name: frame for name, frame in raw.items() if name in init or frame.is_empty()
        }
        self.pieces = [
            (last - first, first, {
                name: frame.filter(pl.col("time_ns").is_between(first, last, closed="left"))
                for name, frame in raw.items() if name not in self.named
            })
            for first, last in pairwise(cuts)
        ]  # fmt: skip
        self.random = random.Random(1)
        self.now = cuts[0]
        self.played = self.now
        self.until_ns: int | None = None
        self.pending: Frames = {}
        self.published: list[int] = []
        self.published_until = 0

    def read(self, *, all_of_it: bool) -> tuple[Frames, pl.DataFrame]:
        assert not all_of_it
        batches = dict(self.named) if self.until_ns is None else {}
        self.now += EVERY_NS
        self.until_ns = self.now - MARGIN_NS
        parts = {name: [frame] for name, frame in self.pending.items()}
        while self.played < self.now:
            length, first, frames = self.random.choice(self.pieces)
            by = self.played - first
            for name, piece in frames.items():
                moved = [column for column in STAMPS if column in piece.columns]
                parts.setdefault(name, []).append(piece.with_columns(pl.col(moved) + by))
            self.played += length
        for name, frames in parts.items():
            frame = pl.concat(frames)
            batches[name] = frame.filter(pl.col("time_ns") <= self.until_ns)
            self.pending[name] = frame.filter(pl.col("time_ns") > self.until_ns)
        self.published += batches["ros2:rclcpp_publish"]["time_ns"].to_list()
        # A message still within publish() has no topic yet.
        self.published_until = max(batches["ros2:rcl_publish"]["time_ns"])
        return batches, LOSSES.empty()

    def again(self, _: int | None) -> tuple[Frames, pl.DataFrame]:
        raise AssertionError("nothing new is told, so nothing is to be read again")

    def count(self) -> int:
        """Return the number of calls of publish() fed in the window that ends now."""
        assert self.until_ns is not None
        self.published = [stamp for stamp in self.published if stamp >= self.until_ns - WINDOW_NS]
        return sum(stamp <= self.published_until for stamp in self.published)


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", type=Path, nargs="?", default=SAMPLE)
    parser.add_argument("--hours", type=float, default=24)
    options = parser.parse_args()
    raw = open_trace(options.recording).read()
    tables = build_tables(raw)
    times = pl.concat([frame["time_ns"].cast(pl.Int64) for frame in raw.values()])
    cuts = quiet_moments(tables, times.min(), times.max())
    replay = Replay(raw, cuts)
    # Topics that are received all the time, and the nodes that receive them.
    steady = tables["messages"].filter(pl.col("outcome") == "delivered")
    seconds = (cuts[-1] - cuts[0]) / 1e9
    counts = Counter(steady["topic"].cast(pl.String).to_list())
    texts = [
        text.format(topic, rate=round(count / seconds / 2, 3))
        for topic, count in counts.items() if count > 2 * seconds for text in OF_TOPIC
    ]  # fmt: skip
    nodes = steady["subscription_node"].cast(pl.String).drop_nulls().unique().to_list()
    texts += [text.format(node) for node in nodes for text in OF_NODE]
    texts += OF_ALL
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump({"cooldown_s": 0, "triggers": texts}, file)
        file.flush()
        settings = read_triggers(Path(file.name))
    print(f"{len(replay.pieces)} pieces of {seconds:.1f} s; {len(texts)} triggers: {texts}")
    watch = Watch(replay, WINDOW_NS, Limits(None), settings)  # type: ignore[arg-type]
    hits: Counter[str] = Counter()
    wrong, sizes, looks = 0, [], round(options.hours * 3600e9 / EVERY_NS)
    begun = time.monotonic()
    for number in range(looks):
        moment = watch.moment()
        hits.update(str(hit["trigger"]) for hit in moment.hits)
        assert moment.figures is not None
        if number:
            messages = moment.figures.topics["messages"].sum()
            lost = (moment.figures.topics["lost"] > 0).any()
            wrong += messages != replay.count() or bool(lost)
        if number % 360 == 359:
            sizes.append(resident_mib())
            print(f"{(number + 1) // 360} h: {sizes[-1]:.0f} MiB, hits {dict(hits)}, "
                  f"{wrong} refreshes with other counts", flush=True)  # fmt: skip
    took = time.monotonic() - begun
    print(
        f"{looks * EVERY_NS / 3600e9:g} h in {took / 60:.1f} min: false hits "
        f"{dict(hits) or 'none'}; {wrong} of {looks} refreshes with other counts; memory "
        + (f"{sizes[0]:.0f} MiB after an hour, {sizes[-1]:.0f} at the end" if sizes else "-")
        + f", {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} at most"
    )


if __name__ == "__main__":
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    main()
