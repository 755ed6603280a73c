"""Records messages as rosbag2 does, from publishers to the file, and counts them on their way.

``python3 run.py --plugin_config mcap_default --message_size 10KiB --rate 50MiB --seconds 3
--output FOLDER``

Publishers are one process; another subscribes and gives each message, still serialized, to
rosbag2's writer: its cache, its thread, a storage plugin. The bag lies on a RAM disk, is read back
by a library that did not write it, and removed.

Writes into FOLDER: ``recorder.json``. Every message carries its number, so that messages
published, received, dropped by the cache (rosbag2's own count) and written are counted singly.

Exit status: 0 done; 2 wrong use; 4 it failed, or the counts contradict each other; 128 + N ended by
signal N.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

# The interpreter of ROS has no roslens, and may lack the libraries that read bags back.
if (python := os.environ.get("ROSLENS_STORAGE_PYTHON", sys.executable)) != sys.executable:
    os.execv(python, [python, *sys.orig_argv[1:]])  # noqa: S606 (the one that records)

from roslens.recording import RunFailedError, UsageError
from roslens.studies.storage.workloads.storage.cells import (
    PROGRAMS_VARIABLE,
    RAM_DISK,
    bytes_of,
    need_room,
    plugin_of,
    run_cell,
)
from roslens.studies.storage.workloads.storage.verify import (
    NotAsWrittenError,
    messages_of,
)

# A serialized UInt8MultiArray: encapsulation, no dimensions, data_offset, length; then the data,
# which begins with the publisher's number and the message's.
HEAD = struct.Struct("<4xIIIQ")
TAG = 8
ROOM = 2
"""Bytes of a bag, and of its log, per byte of messages."""
END_SECONDS = 60.0
"""Time that the recorder may keep writing after the last publication, s."""


def main() -> int:
    """Run one cell; return the exit status."""
    options = _options()
    return run_cell("storage-recorder", options.place, lambda scratch: _run(options, scratch))


def _run(options: argparse.Namespace, scratch: Path) -> int:
    size, rate, cache = (
        bytes_of(name, getattr(options, name)) for name in ("message_size", "rate", "cache")
    )
    plugin = plugin_of(options.plugin_config)
    if int(options.publishers) < 1:
        raise UsageError("--publishers: at least 1")
    if size < TAG:
        raise UsageError(f"--message_size: at least {TAG}B, which carry a message's number")
    need_room(
        *(scratch, ROOM * rate * float(options.seconds)),
        "take a lower rate (--only rate=...) or a shorter duration",
    )
    counts = _record(options, plugin, size, cache, scratch)
    bag = scratch / "recording"
    facts = {
        "schema_version": 1,
        "plugin_config": options.plugin_config,
        "message_bytes": size,
        "rate_bytes_per_s": rate,
        "cache_bytes": cache,
        "publishers": int(options.publishers),
        "depth": int(options.depth),
        **counts,
        **_read_back(bag, size, counts),
        "bytes_on_disk": sum(file.stat().st_size for file in bag.glob("recording_*")),
    }
    path = options.output / "recorder.json"
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plugin_config", required=True, help="such as mcap_default")
    parser.add_argument("--message_size", required=True, help="such as 10KiB")
    parser.add_argument("--rate", required=True, help="bytes per second of all publishers")
    parser.add_argument("--cache", default="100MiB", help="bytes that rosbag2's cache holds")
    parser.add_argument("--publishers", default="2", help="each with a topic of its own")
    parser.add_argument("--depth", default="10", help="of the queues of both sides (reliable)")
    parser.add_argument("--seconds", default="3", help="how long they publish")
    parser.add_argument("--place", type=Path, default=RAM_DISK, help="a folder on a RAM disk")
    parser.add_argument("--output", type=Path, required=True, help="where the results go")
    return parser.parse_args()


def _record(
    options: argparse.Namespace, plugin: tuple[str, str, str], size: int, cache: int, scratch: Path
) -> dict[str, Any]:
    """Run the publishing and the recording program; return the counts of both."""
    publishers = int(options.publishers)
    hz = bytes_of("rate", options.rate) / (size * publishers)
    ready = str(scratch / "ready")
    of_programs = {
        "recorder": {
            **dict(zip(("storage", "preset", "configuration"), plugin, strict=True)),
            "cache": cache,
            "bag": scratch / "recording",
            "ready": ready,
        },
        "messages": {
            "role": "publisher",
            "topics": "each",
            "payload": size,
            "rate": hz,
            "messages": max(1, int(hz * float(options.seconds))),
            "after": ready,
        },
    }
    common = {"publishers": publishers, "depth": options.depth, "output": scratch}
    running = {
        name: subprocess.Popen(
            [
                str(Path(os.environ[PROGRAMS_VARIABLE], name)),
                *(
                    word
                    for k, v in {**common, **settings}.items()
                    if v
                    for word in (f"--{k}", str(v))
                ),
            ],
            stdin=subprocess.DEVNULL,
        )
        for name, settings in of_programs.items()
    }
    try:
        # If the recorder fails, the publishers stop waiting for it, or publish without a receiver.
        running["messages"].wait()
        for name in of_programs:
            status = running[name].wait(END_SECONDS)
            if status:
                raise RunFailedError(f"the program {name} ended with {status}")
    except subprocess.TimeoutExpired:
        raise RunFailedError(f"the recorder still writes after {END_SECONDS:g} s") from None
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    counts = json.loads((scratch / "recorder.json").read_bytes())
    return {**counts, **_published(scratch / "messages_publisher.csv", 1e9 / hz)}


def _published(log: Path, period_ns: float) -> dict[str, int]:
    """Return number of messages logged by publishers, their duration, and the greatest delay."""
    times: dict[str, list[int]] = {}
    with log.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            times.setdefault(row["publisher"], []).append(int(row["publish_realtime_ns"]))
    if not times:
        raise RunFailedError("the publishers logged no message")
    late = (at - sent[0] - n * period_ns for sent in times.values() for n, at in enumerate(sent))
    return {
        "published": sum(map(len, times.values())),
        "publishing_ns": max(int(sent[-1] - sent[0] + period_ns) for sent in times.values()),
        "late_ns": max(0, *(int(ns) for ns in late)),
    }


def _read_back(bag: Path, size: int, counts: dict[str, int]) -> dict[str, object]:
    """Return the reader, and the number of messages in the file, each once and with its content."""
    (path,) = bag.glob("recording_*")
    content = bytes(i & 255 for i in range(TAG, 256 + TAG)) * (size // 256 + 1)
    content = content[: size - TAG]
    seen: set[int] = set()
    reader, messages = messages_of(path)
    try:
        for _, data in messages:
            none, _, length, number = HEAD.unpack_from(data)
            # Serialized messages are padded to a multiple of 4 bytes.
            if (none, length) != (0, size) or data[HEAD.size :][: size - TAG] != content:
                raise RunFailedError("a message in the bag is not as published")
            if number in seen:
                raise RunFailedError("a message is in the bag twice")
            seen.add(number)
    except NotAsWrittenError as error:
        raise RunFailedError(str(error)) from error
    received, lost = counts["received"], counts["lost_in_cache"]
    if len(seen) != received - lost or received > counts["published"]:
        raise RunFailedError(
            f"{counts['published']} published, {received} received, {lost} lost in the cache, but "
            f"{len(seen)} in the bag"
        )
    return {"written": len(seen), "reader": reader}


if __name__ == "__main__":
    sys.exit(main())
