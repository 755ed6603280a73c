"""Ends the storage benchmark in mid-write, again and again, and counts what comes back.

``python3 run.py --failure kill --plugin_config mcap_default --output FOLDER``

kill: SIGKILL once a random number of messages has been acknowledged (its write call returned).
power_dropped, power_torn: the benchmark runs once with all its writes logged; each trial makes the
files that a power loss at a random moment leaves, see ``power_loss.py``.

Written into FOLDER: ``recovery.csv``, a row per trial: trial, failure, acknowledged (messages),
recovered, wrong, whole (the plain reader ended without complaint), recovered_with_tool, tool.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from roslens.recording.files import shipped

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "storage"))

from power_loss import UNLINK, WRITE, after_power_loss, read_log  # type: ignore[import-not-found]  # noqa: E402
from recover import Expected, Recovered, recover  # type: ignore[import-not-found]  # noqa: E402
from verify import RECORDINGS, recording_in  # type: ignore[import-not-found]  # noqa: E402

SIZES = {"1MiB": 1 << 20, "10KiB": 10 << 10, "100B": 100}
SAMPLES = shipped("data", "samples")
COUNT = "acknowledged"
COLUMNS = (
    *("trial", "failure", "acknowledged", "recovered", "wrong", "whole"),
    *("recovered_with_tool", "tool"),
)
KILL_SECONDS = 60.0


class Benchmark:
    """The benchmark's program on a RAM disk.

    Parameters
    ----------
    options
        The command line.
    scratch
        A folder of our own on the RAM disk.
    """

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        self.options = options
        self.place, self.results = scratch / "place", scratch / "results"
        self.content = scratch / "content"
        self.content.write_bytes(_content(SIZES[options.message_size]))
        self.log = scratch / "writes"
        self.scratch = scratch

    def start(self, *, logged: bool = False) -> subprocess.Popen[bytes]:
        """Begin to write anew."""
        for folder in (self.place, self.results):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        self.log.unlink(missing_ok=True)
        options = self.options
        environment = dict(os.environ)
        if logged:
            environment |= {
                "LD_PRELOAD": os.environ["ROSLENS_WRITE_LOGGER"],
                "ROSLENS_WRITE_FOLDER": str(self.place),
                "ROSLENS_WRITE_LOG": str(self.log),
            }
        return subprocess.Popen(
            [
                *(os.environ["ROSLENS_STORAGE_PROGRAM"], "--configuration", options.plugin_config),
                *("--messages", options.message_size, "--batch", options.batch_size),
                *("--bytes", options.bytes, "--content", str(self.content)),
                *("--place", str(self.place), "--results", str(self.results)),
                *("--acknowledge", str(self.place / COUNT)),
                *("--rosbag2", os.environ["ROSLENS_STORAGE_ROSBAG2"]),
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
        )

    @property
    def acknowledged(self) -> int:
        """Messages whose write call has returned."""
        try:
            return int.from_bytes((self.place / COUNT).read_bytes(), sys.byteorder)
        except OSError:
            return 0

    def expected(self) -> Expected:
        """The content of a message by its number: consecutive slices, then from the start."""
        content, size = self.content.read_bytes(), SIZES[self.options.message_size]
        each = len(content) // size

        def slice_of(number: int) -> bytes:
            begin = number % each * size
            return content[begin : begin + size]

        return slice_of


def main() -> int:
    """Run all trials of one cell."""
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    wanted = {"ROSLENS_STORAGE_PROGRAM", "ROSLENS_STORAGE_ROSBAG2", "ROSLENS_WRITE_LOGGER"}
    if wanted - set(os.environ):
        return _fail("run it as 'roslens record --suite storage-resilience'", 2)
    source = random.Random(f"{options.seed} {options.plugin_config} {options.failure}")  # noqa: S311
    scratch = Path(tempfile.mkdtemp(prefix=f"roslens-storage-{os.getpid()}-", dir=options.place))
    try:
        benchmark = Benchmark(options, scratch)
        trials = _killed if options.failure == "kill" else _power
        with (options.output / "recovery.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(COLUMNS)
            for trial, (acknowledged, plain, tool) in enumerate(trials(benchmark, source)):
                writer.writerow(
                    (
                        *(trial, options.failure, acknowledged, plain.messages, plain.wrong),
                        *(int(plain.whole), tool.messages, tool.tool),
                    )
                )
    except RuntimeError as error:
        return _fail(str(error), 4)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


Trial = tuple[int, Recovered, Recovered]


def _killed(benchmark: Benchmark, source: random.Random) -> Iterator[Trial]:
    total = int(_messages(benchmark.options))
    expected = benchmark.expected()
    for _ in range(benchmark.options.trials):
        target = source.randrange(total // 20, total * 19 // 20)
        process = benchmark.start()
        # Not just when a call has returned, but somewhere within the next ones.
        _wait_for(benchmark, process, target)
        time.sleep(source.random() * 1e-3)
        process.kill()
        process.wait()
        acknowledged = benchmark.acknowledged
        yield acknowledged, *recover(recording_in(benchmark.place), expected)


def _wait_for(benchmark: Benchmark, process: subprocess.Popen[bytes], target: int) -> None:
    deadline = time.monotonic() + KILL_SECONDS
    while benchmark.acknowledged < target and process.poll() is None:
        if time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"the program did not write {target} messages in a minute")
    if process.returncode not in (None, 0):
        raise RuntimeError(f"the program ended with status {process.returncode}")


def _power(benchmark: Benchmark, source: random.Random) -> Iterator[Trial]:
    process = benchmark.start(logged=True)
    if process.wait() != 0:
        raise RuntimeError(f"the program ended with status {process.returncode}")
    operations = read_log(benchmark.log)
    if not any(x.name in RECORDINGS and x.kind == WRITE for x in operations):
        raise RuntimeError("none of the program's writes was logged; is it statically linked?")
    begin = next(i for i, x in enumerate(operations) if x.name == COUNT and x.kind == WRITE)
    end = max(i for i, x in enumerate(operations) if x.name == COUNT and x.kind == WRITE)
    # What tells how far it was is no part of the recording, nor is the index of a log in memory.
    own = {COUNT, "recording.db3-shm"}
    expected, later = benchmark.expected(), benchmark.options.failure.removeprefix("power_")
    for _ in range(benchmark.options.trials):
        cut = source.randrange(begin, end)
        done = operations[:cut]
        count = [x.data for x in done if x.name == COUNT and x.kind == WRITE]
        acknowledged = int.from_bytes(count[-1], sys.byteorder) if count else 0
        folder = benchmark.scratch / "after"
        folder.mkdir()
        kept = [x for x in done if x.name not in own or x.kind == UNLINK]
        after_power_loss(kept, folder, later, source)
        yield acknowledged, *recover(recording_in(folder), expected)
        shutil.rmtree(folder)


def _messages(options: argparse.Namespace) -> int:
    number = int(options.bytes.rstrip("KMGiB"))
    shift = {"K": 10, "M": 20, "G": 30}.get(options.bytes.strip("0123456789")[:1], 0)
    return (number << shift) // SIZES[options.message_size]


def _content(longest: int) -> bytes:
    """Bytes of the sample recordings' traces, a whole number of the longest message's."""
    streams = sorted(p for p in SAMPLES.rglob("trace/ust/**/64-bit/*_[0-9]*") if p.is_file())
    blocks = (
        data[i : i + 512]
        for p in streams
        for data in [p.read_bytes()]
        for i in range(0, len(data), 512)
    )
    content = b"".join(block for block in blocks if block.strip(b"\0"))
    if len(content) < longest:
        raise RuntimeError(f"{SAMPLES}: {len(content)} bytes of traces; {longest} are needed")
    return content


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plugin_config", required=True)
    parser.add_argument("--implementation", choices=("rosbag2",), help="not used: there is one")
    parser.add_argument("--failure", choices=("kill", "power_dropped", "power_torn"), required=True)
    parser.add_argument("--message_size", choices=sorted(SIZES), default="10KiB")
    parser.add_argument("--batch_size", default="1KiB")
    parser.add_argument("--bytes", default="16MiB")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--place", default="/dev/shm")  # noqa: S108
    parser.add_argument("--seed", default=os.environ.get("ROSLENS_REPETITION", "0"))
    parser.add_argument("--seconds", help="not used")
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args()


def _fail(text: str, code: int) -> int:
    print(f"storage_resilience: error: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
