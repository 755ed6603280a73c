"""Runs the storage benchmark for one cell and removes what it wrote.

``python3 run.py --plugin_config mcap_default --message_size 10KiB --batch_size 1KiB
--bytes 64MiB --output FOLDER``

Writes into FOLDER: ``writes.csv`` (a row per write call, in the format of the published
comparison), ``run.json`` (the cell and its cost), with ``--allocations True`` ``allocations.csv``
(the allocations of each call), and ``verification.json`` (the result of reading back with other
libraries). Meanwhile the recording itself lies on a RAM disk.

Exit status: 0 done; 2 wrong use; 4 it failed, or the data read back differ from those written;
128 + N ended by signal N.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from roslens.recording import RunFailedError, UsageError
from roslens.recording.files import shipped
from roslens.studies.storage.workloads.storage.cells import (
    PROGRAMS_VARIABLE,
    RAM_DISK,
    bytes_of,
    checked_place,
    failed,
    plugin_of,
    run_cell,
)
from roslens.studies.storage.workloads.storage.verify import NotAsWrittenError, read_back

HERE = Path(__file__).resolve().parent
SAMPLES = shipped("data", "samples")
SUITES = {
    "1MiB": ((1 << 20, 10),),
    "10KiB": ((10 << 10, 10),),
    "100B": ((100, 10),),
    "mixed": ((1_000_000, 7), (10_000, 2), (100, 1)),
}
"""Message sizes in bytes, one topic each, and the share of each in tenths of all bytes."""
ALSO = ", and null, which writes nothing; each may end in +fsync"
"""Configurations that the program supports in addition to those of rosbag2's plugins."""


@dataclass(frozen=True)
class Load:
    """Messages to write, which carry consecutive slices of `content`, and then start over.

    Attributes
    ----------
    sizes
        Message sizes in bytes, by topic.
    order
        The topic of each message, one byte per message.
    content
        Bytes of real files, which are neither zeros nor noise.
    """

    sizes: tuple[int, ...]
    order: bytes
    content: bytes


def load_of(messages: str, total: int, content: Path, seed: int) -> Load:
    """Return a load of `total` bytes of messages; sizes are mixed by the seed.

    Raises
    ------
    UsageError
        There is no such suite of messages, no such content, or one of them is too small.
    """
    if messages not in SUITES:
        raise UsageError(f"--message_size {messages}: there are {', '.join(SUITES)}")
    sizes = tuple(size for size, _ in SUITES[messages])
    counts = [total * tenths // 10 // size for size, tenths in SUITES[messages]]
    if not all(counts):
        raise UsageError(f"--bytes {total}: too few for one message of each size of {messages}")
    order = [topic for topic, count in enumerate(counts) for _ in range(count)]
    if len(sizes) > 1:
        random.Random(seed).shuffle(order)  # noqa: S311
    data = _content(content)
    if len(data) < max(sizes):
        raise UsageError(
            f"--content {content}: {len(data)} bytes, but the longest message has {max(sizes)}; "
            "give a larger file of robotics data"
        )
    return Load(sizes, bytes(order), data)


def _content(path: Path) -> bytes:
    """Return the bytes of a file, or of the trace streams in a folder, without packet padding."""
    if path.is_file():
        return path.read_bytes()
    if not path.is_dir():
        raise UsageError(f"--content {path}: no such file or folder")
    # Files that vanish meanwhile, such as tables that are being collected, are no traces.
    streams = sorted(
        Path(folder, name)
        for folder, _, names in os.walk(path)
        if "metadata" in names
        for name in names
        if name != "metadata"
    )
    # Zero blocks are padding, which no message would carry.
    blocks = (
        data[i : i + 512]
        for data in (stream.read_bytes() for stream in streams)
        for i in range(0, len(data), 512)
    )
    return b"".join(block for block in blocks if block.strip(b"\0"))


def start(
    config: str,
    load: Load,
    batch: int,
    place: Path,
    results: Path,
    *,
    environment: dict[str, str] | None = None,
    **more: str,
) -> subprocess.Popen[bytes]:
    """Start the program, which writes the load into `place` by a configuration.

    Parameters
    ----------
    batch
        Least number of bytes of messages per write call.
    results
        Folder for the program's measurements.
    environment
        Variables added to our environment.
    more
        ``acknowledge`` (a file with the number of messages written so far), ``rate`` (bytes per
        second) and ``queue`` (bytes), ``compression``.

    Raises
    ------
    UsageError
        There is no such configuration.
    """
    base = config.removesuffix("+fsync")
    plugin = ("null", "", "") if base == "null" else plugin_of(base, ALSO)
    options = {
        **dict(zip(("storage", "preset", "configuration"), plugin, strict=True)),
        "compression": "",
        "acknowledge": "",
        "batch": str(batch),
        "messages": str(len(load.order)),
        "sizes": " ".join(map(str, load.sizes)),
        "place": str(place),
        "results": str(results),
        **({"fsync": "yes"} if base != config else {}),
        **more,
    }
    process = subprocess.Popen(
        [
            str(Path(os.environ[PROGRAMS_VARIABLE], "bag_writer")),
            *(word for name, value in options.items() for word in (f"--{name}", value)),
        ],
        env={**os.environ, **(environment or {})},
        stdin=subprocess.PIPE,
        # Beyond a limit on file sizes, writing then fails with an error.
        restore_signals=False,
    )
    assert process.stdin is not None
    # The program itself reports why it ended.
    with killed_on_error(process), suppress(BrokenPipeError), process.stdin as stream:
        stream.write(load.order + load.content)
    return process


@contextmanager
def killed_on_error(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill the process if the block is left by an exception, such as that of a signal."""
    try:
        yield
    except BaseException:
        process.kill()
        process.wait()
        raise


def main() -> int:
    """Run one cell; return the exit status."""
    options = _options()

    def work(scratch: Path) -> int:
        status = _write(options, scratch)
        if status == 0:
            _verify(options, scratch)
        return status

    return run_cell("storage", options.place, work)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plugin_config", required=True, help="such as mcap_default")
    parser.add_argument("--message_size", required=True, help="1MiB, 10KiB, 100B or mixed")
    parser.add_argument("--batch_size", required=True, help="such as 1KiB")
    parser.add_argument("--bytes", default="250MiB", help="of all messages together")
    parser.add_argument(
        "--content",
        type=Path,
        default=SAMPLES,
        help="a file, or the folder of a recording, whose bytes the messages carry; default: the "
        "traces of the sample recordings",
    )
    parser.add_argument("--place", type=Path, default=RAM_DISK, help="a folder on a RAM disk")
    parser.add_argument("--any_disk", default="False", help="True: it need be no RAM disk")
    parser.add_argument(
        "--compression",
        default="",
        help="none, message or file: rosbag2's writer writes, and compresses this",
    )
    parser.add_argument("--rate", default="", help="bytes per second at which messages come")
    parser.add_argument(
        "--queue", default="100MiB", help="bytes that the queue before the writer holds"
    )
    parser.add_argument(
        "--allocations", default="False", help="True: count them, which slows what is timed"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the order of messages of mixed sizes"
    )
    parser.add_argument("--seconds", help="not used: a run lasts as long as writing takes")
    parser.add_argument("--output", type=Path, required=True, help="where the results go")
    return parser.parse_args()


def _write(options: argparse.Namespace, scratch: Path) -> int:
    """Write the cell, and the file of its facts; return the exit status, 0 on success."""
    total, batch = (bytes_of(name, getattr(options, name)) for name in ("bytes", "batch_size"))
    disk = checked_place(scratch, total, any_disk=options.any_disk.lower() == "true")
    load = load_of(options.message_size, total, options.content, options.seed)
    cell: dict[str, object] = {
        "schema_version": 1,
        "plugin_config": options.plugin_config,
        "messages": options.message_size,
        "batch_bytes": batch,
        "content_bytes": len(load.content),
        "seed": options.seed,
        "file_system": disk,
    }
    more = {}
    if options.compression not in ("", "none", "message", "file"):
        raise UsageError(f"--compression {options.compression}: there are none, message, file")
    if options.compression:
        more["compression"] = cell["compression"] = options.compression
    if options.rate:
        rate = bytes_of("rate", options.rate)
        more |= {"rate": str(rate), "queue": str(bytes_of("queue", options.queue))}
        cell["rate_bytes_per_s"] = rate
    process = start(
        *(options.plugin_config, load, batch, scratch, options.output),
        environment=_counting(options),
        **more,
    )
    with killed_on_error(process):
        status = process.wait()
    if status < 0:
        signalled = signal.Signals(-status).name
        return failed("storage", f"the program was ended by {signalled}", 128 - status)
    if status == 0:
        path = options.output / "run.json"
        # The kernel may not report how much memory is resident.
        unknown = {"rss_before_bytes": None, "rss_peak_bytes": None}
        cell |= {**unknown, **json.loads(path.read_bytes())}
        cell["bytes_on_disk"] = sum(
            file.stat().st_size for file in scratch.rglob("*") if file.is_file()
        )
        path.write_text(json.dumps(cell, indent=1) + "\n", encoding="utf-8")
    return status


def _counting(options: argparse.Namespace) -> dict[str, str]:
    if options.allocations.lower() != "true":
        return {}
    # This import is local because the package loads Polars, which takes longer than most cells.
    from roslens.tracing.ros.environment import preloaded  # noqa: PLC0415
    from roslens.tracing.sampling.preloaded import preloadable  # noqa: PLC0415

    library = preloadable(HERE / "allocations.c", "--allocations")
    return {"LD_PRELOAD": preloaded(os.environ, last=[library])}


def _verify(options: argparse.Namespace, scratch: Path) -> None:
    written = json.loads((options.output / "run.json").read_bytes())
    if not any(scratch.iterdir()):
        return  # the configuration that writes nothing
    try:
        actual = read_back(scratch, options.compression)
    except NotAsWrittenError as error:
        raise RunFailedError(
            f"{options.plugin_config}: what was written cannot be read back: {error}"
        ) from error
    wanted = {
        "messages": written["message_count"],
        "bytes": written["bytes"],
        "crc32": written["crc32"],
    }
    wrong = [
        f"{k} {getattr(actual, k)} for {v}" for k, v in wanted.items() if getattr(actual, k) != v
    ]
    if wrong:
        raise RunFailedError(f"{options.plugin_config}: {actual.reader} reads {', '.join(wrong)}")
    text = json.dumps({"reader": actual.reader, **wanted}, indent=1)
    (options.output / "verification.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
