"""What the samplers beside a run do to its latencies: on and off in turn, within each run.

``python benchmarks/sampler_effect.py [--runs N] [--seconds S] [--block S] [--payload N]
[--executor NAME] [--set sampler_hz=10] [--set samplers.memory=0.5] [--stacks HZ]``

The demo's workload is recorded as its suite says. Time is cut into blocks; in one of every two
consecutive blocks, drawn at random, the samplers of the suite are on, and in the other they sleep;
with ``--stacks`` this holds only for call stacks, and the other samplers stay on. Each pair gives
the ratio of P99 (and P50) on / off; the interval is Student's t on logarithms over pairs. Latency
is that of the workload's own log (native/messages.csv). A run takes about 12 minutes with the
defaults; other work on the machine adds noise, not bias, and is reported.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import yaml
from scipy import stats

import roslens.tracing.run as recording
from roslens.recording import Recording, find_recordings
from roslens.tracing.campaign import run_campaign
from roslens.tracing.sampling.periodic import Periodic
from roslens.tracing.sampling.processes import Sampler
from roslens.tracing.sampling.stacks import StackSampler
from roslens.tracing.sampling.system import SystemSampler
from roslens.tracing.sampling.threads import ThreadSampler
from roslens.tracing.suite import Suite, load_suite

SETTLE_NS = 200_000_000
"""Time left out at the beginning of a block, as effects of the previous block may persist."""


class Blocks:
    """The schedule of sampler states: which block of time, ns since the epoch, has samplers on."""

    def __init__(self, seconds: float, seed: int) -> None:
        self.length_ns = round(seconds * 1e9)
        self.seed = seed

    def on(self, block: int) -> bool:
        first = random.Random(self.seed + block // 2).random() < 0.5
        return first == (block % 2 == 0)

    def left(self, block: int) -> float:
        """Return the seconds until a block ends."""
        return max(0.0, ((block + 1) * self.length_ns - time.time_ns()) / 1e9)

    def off_for(self, now_ns: int) -> float:
        """Return the seconds until the samplers are on."""
        block = now_ns // self.length_ns
        while not self.on(block):
            block += 1
        return max(0.0, (block * self.length_ns - now_ns) / 1e9)


def in_turn(blocks: Blocks, kind: type[Periodic]) -> type[Periodic]:
    """Return a sampler class that sleeps in the blocks in which samplers are off."""

    class InTurn(kind):  # type: ignore[misc, valid-type]
        def _round(self) -> None:
            if wait := blocks.off_for(time.time_ns()):
                self._stop.wait(wait)
            else:
                super()._round()

    return InTurn


def stacks_in_turn(blocks: Blocks) -> type[StackSampler]:
    """Return a stack sampler class that does not sample in the blocks in which it is off."""

    class InTurn(StackSampler):
        def __enter__(self) -> None:
            super().__enter__()
            self._ended = threading.Event()
            threading.Thread(target=self._turn).start()

        def _turn(self) -> None:
            begun = time.time_ns() // blocks.length_ns
            while not self._ended.wait(blocks.left(begun)):
                begun += 1
                self.sample(on=blocks.on(begun))

        def __exit__(self, *error: object) -> None:
            self._ended.set()
            super().__exit__(*error)

    return InTurn


def pairs_of(run: Recording, blocks: Blocks) -> list[dict[str, float]]:
    """Return P50 and P99 in ms of each complete pair of blocks of a run."""
    log = pl.read_csv(run.native / "messages.csv").drop_nulls()
    sent = log["publish_realtime_ns"].to_numpy()
    latency = (log["callback_realtime_ns"] - log["publish_realtime_ns"]).to_numpy() / 1e6
    block, into = sent // blocks.length_ns, sent % blocks.length_ns
    whole = np.unique(block)[1:-1]
    rows = []
    for first in whole[whole % 2 == 0]:
        if first + 1 not in whole:
            continue
        row = {}
        for number in (first, first + 1):
            settled = latency[(block == number) & (into >= SETTLE_NS)]
            state = "on" if blocks.on(int(number)) else "off"
            for q in (50, 99):
                row[f"p{q}_{state}"] = float(np.percentile(settled, q))
        rows.append(row)
    return rows


def ratio(pairs: list[dict[str, float]], name: str) -> str:
    logs = np.log([p[f"{name}_on"] / p[f"{name}_off"] for p in pairs])
    low, high = stats.t.interval(0.95, logs.size - 1, logs.mean(), stats.sem(logs))
    medians = " ".join(
        f"{state} {np.median([p[f'{name}_{state}'] for p in pairs]):.3f} ms"
        for state in ("on", "off")
    )
    return (
        f"{name.upper()} on / off: {np.exp(logs.mean()):.3f} [{np.exp(low):.3f}, "
        f"{np.exp(high):.3f}], {logs.size} pairs, sd of logs "
        f"{logs.std(ddof=1):.2f}; medians {medians}"
    )


def changed(options: argparse.Namespace) -> tuple[Suite, str]:
    suite, text = load_suite("demo")
    changes = {
        "factors": {"payload": (options.payload,), "executor": (options.executor,)},
        "duration": options.seconds,
        "time_limit": options.seconds + 60,
        "repetitions": options.runs,
    }
    data = suite.model_dump() | changes
    for entry in options.set:
        name, _, value = entry.partition("=")
        first, _, second = name.partition(".")
        if second:
            data[first] = {**data[first], second: yaml.safe_load(value)}
        else:
            data[first] = float(value)
    return Suite.model_validate(data), text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=62.0, help="of each run")
    parser.add_argument("--block", type=float, default=4.0, help="seconds of a block")
    parser.add_argument("--payload", type=int, default=100)
    parser.add_argument("--executor", default="Events")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=NUMBER",
                        help="of the suite, such as samplers.memory=10")  # fmt: skip
    parser.add_argument("--stacks", type=float, help="call stacks per second alone in turn")
    options = parser.parse_args()
    blocks = Blocks(options.block, options.seed)
    if options.stacks:
        recording.StackSampler = stacks_in_turn(blocks)  # type: ignore[assignment, misc]
        options.set.append(f"samplers.stacks={options.stacks:g}")
    else:
        recording.Sampler = in_turn(blocks, Sampler)  # type: ignore[assignment, misc]
        recording.ThreadSampler = in_turn(blocks, ThreadSampler)  # type: ignore[assignment, misc]
        recording.SystemSampler = in_turn(blocks, SystemSampler)  # type: ignore[assignment, misc]
    suite, text = changed(options)
    folder = Path(tempfile.mkdtemp(prefix="roslens-sampler-effect-"))
    try:
        run_campaign(suite, text, root=folder, seed=options.seed)
        pairs: list[dict[str, float]] = []
        for run in find_recordings(folder):
            pairs += pairs_of(run, blocks)
            about = run.manifest
            assert about is not None
            print(f"{run.path.name}: {'; '.join(about.disturbances) or 'not disturbed'}")
    finally:
        shutil.rmtree(folder)
    print(f"sampler_hz {suite.sampler_hz:g}, {suite.samplers.model_dump()}, payload "
          f"{options.payload}, {options.executor}, blocks of {options.block:g} s")  # fmt: skip
    for name in ("p99", "p50"):
        print(ratio(pairs, name))


if __name__ == "__main__":
    main()
