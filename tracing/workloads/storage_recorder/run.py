"""Records messages as rosbag2 does, from publishers to the file, and counts them on their way.

``python3 run.py --plugin_config mcap_default --message_size 10KiB --rate 50MiB --seconds 3
--output FOLDER``

Publishers are one process; another subscribes and gives each message, still serialized, to
rosbag2's writer: its cache, its thread, a storage plugin. The bag lies on a RAM disk, is read back
by a library that did not write it, and removed.

Written into FOLDER: ``recorder.json``. Every message carries its number, so that those published,
received, dropped by the cache (rosbag2's own count) and written are counted one by one.

Exit status: 0 done; 2 wrong use; 4 it failed, or the counts contradict each other; 128 + N ended by
signal N.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# By the interpreter of ROS, which has no roslens.
sys.path.insert(0, str(HERE.parent / "storage"))

from scratch import RAM_DISK, scratch_folder  # type: ignore[import-not-found]  # noqa: E402
from verify import NotAsWrittenError, messages_of  # type: ignore[import-not-found]  # noqa: E402

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "B": 1}
PLUGINS = {"sqlite": "sqlite3", "mcap": "mcap"}
PRESETS = ("resilient", "fastwrite", "zstd_fast", "zstd_small")
CONFIGURATIONS = HERE.parent / "storage" / "rosbag2" / "configurations"
# A serialized UInt8MultiArray: encapsulation, no dimensions, data_offset, length; then the data,
# which begins with the publisher's number and the message's.
HEAD = struct.Struct("<4xIIIQ")
TAG = 8
ROOM = 2
"""Bytes of a bag, and of its log, per byte of messages."""
END_SECONDS = 60.0
"""So long the recorder may write on after the last message was published."""


class RunError(Exception):
    """What went wrong."""


def main() -> int:
    """Run one cell."""
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    if "ROSLENS_STORAGE_RECORDER" not in os.environ:
        return _fail("run it as 'roslens record --suite storage-recorder'", 2)
    # ROS 2's own Python may lack what reads bags back.
    python = os.environ["ROSLENS_STORAGE_PYTHON"]
    if python != sys.executable:
        os.execv(python, [python, *sys.orig_argv[1:]])  # noqa: S606 (the one that records)
    try:
        size, rate, cache = (_bytes(options, x) for x in ("message_size", "rate", "cache"))
        plugin = plugin_of(options.plugin_config)
    except ValueError as error:
        return _fail(str(error), 2)
    if size < TAG:
        return _fail(f"--message_size: at least {TAG}B, which carry a message's number", 2)
    try:
        with scratch_folder(Path(options.place)) as scratch:
            _need_room(scratch, ROOM * rate * float(options.seconds))
            counts = _record(options, _of_programs(options, plugin, size, rate, cache), scratch)
            found = _read_back(scratch / "recording", size, counts)
            found["bytes_on_disk"] = sum(
                x.stat().st_size for x in (scratch / "recording").glob("recording_*")
            )
    except RunError as error:
        return _fail(f"{options.plugin_config}: {error}", 4)
    except OSError as error:
        return _fail(f"{error.filename or options.place}: {error.strerror}", 4)
    facts = {
        "schema_version": 1,
        "plugin_config": options.plugin_config,
        "message_bytes": size,
        "rate_bytes_per_s": rate,
        "cache_bytes": cache,
        "publishers": int(options.publishers),
        "depth": int(options.depth),
        **counts,
        **found,
        "rosbag2_version": os.environ["ROSLENS_STORAGE_VERSION"],
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
    parser.add_argument("--place", default=RAM_DISK, help="a folder on a RAM disk")
    parser.add_argument("--output", type=Path, required=True, help="where the results go")
    return parser.parse_args()


def plugin_of(config: str) -> tuple[str, str, str]:
    """Storage plugin, preset and configuration file (or empty) by the name of a configuration.

    Raises
    ------
    ValueError
        There is none of that name.
    """
    kind, _, rest = config.partition("_")
    file = CONFIGURATIONS / f"{config}.yaml"
    if kind in PLUGINS:
        if rest == "default":
            return PLUGINS[kind], "", ""
        if rest in PRESETS:
            return PLUGINS[kind], rest, ""
        if file.is_file():
            return PLUGINS[kind], "", str(file)
    raise ValueError(f"unknown configuration {config!r} of rosbag2's plugins")


def _bytes(options: argparse.Namespace, name: str) -> int:
    text = getattr(options, name)
    for unit, factor in UNITS.items():
        if text.endswith(unit) and text.removesuffix(unit).isdecimal():
            return int(text.removesuffix(unit)) * factor
    raise ValueError(f"--{name} {text}: not such as 100B, 10KiB or 1MiB")


def _need_room(place: Path, wanted: float) -> None:
    free = shutil.disk_usage(place).free
    if free < wanted:
        raise RunError(
            f"{place.parent}: {free >> 20} MiB free, {wanted / 2**20:.0f} MiB needed; make room, "
            "or take a lower rate (--only rate=...) or a shorter duration"
        )


def _of_programs(
    options: argparse.Namespace, plugin: tuple[str, str, str], size: int, rate: int, cache: int
) -> dict[str, dict[str, str]]:
    """The options that only one program has."""
    named = dict(zip(("storage", "preset", "configuration"), plugin, strict=True))
    return {
        "recorder": {**named, "cache": str(cache)},
        "publishers": {"payload": str(size), "rate": str(rate), "seconds": options.seconds},
    }


def _record(
    options: argparse.Namespace, of_programs: dict[str, dict[str, str]], scratch: Path
) -> dict[str, int]:
    programs = Path(os.environ["ROSLENS_STORAGE_RECORDER"])
    both = {
        "publishers": options.publishers,
        "depth": options.depth,
        "ready": str(scratch / "ready"),
        "output": str(scratch),
    }
    of_programs["recorder"]["bag"] = str(scratch / "recording")
    environment = {
        **os.environ,
        # By it rosbag2 finds its plugins.
        "AMENT_PREFIX_PATH": os.environ["ROSLENS_STORAGE_PREFIXES"],
    }
    commands = {
        name: [
            str(programs / name),
            *(x for key, value in {**both, **own}.items() if value for x in (f"--{key}", value)),
        ]
        for name, own in of_programs.items()
    }
    running = {
        name: subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
        for name, command in commands.items()
    }
    try:
        # Where the recorder fails, the publishers stop waiting for it, or publish to nobody.
        running["publishers"].wait()
        for name in ("recorder", "publishers"):
            status = running[name].wait(END_SECONDS)
            if status:
                raise RunError(f"the program {name} ended with {status}")
    except subprocess.TimeoutExpired:
        raise RunError(f"the recorder still writes after {END_SECONDS:g} s") from None
    finally:
        for process in running.values():
            if process.poll() is None:
                process.kill()
                process.wait()
    said: dict[str, int] = {}
    for name in commands:
        said |= json.loads((scratch / f"{name}.json").read_bytes())
    return said


def _read_back(bag: Path, size: int, counts: dict[str, int]) -> dict[str, object]:
    """How many messages are in the file, each once and with its content; and who read them."""
    (path,) = bag.glob("recording_*")
    content = bytes(i & 255 for i in range(TAG, 256 + TAG)) * (size // 256 + 1)
    content = content[: size - TAG]
    seen: set[int] = set()
    reader, found = messages_of(path)
    try:
        for _, data in found:
            none, _, length, number = HEAD.unpack_from(data)
            # Serialized messages end at a multiple of 4 bytes.
            if (none, length) != (0, size) or data[HEAD.size :][: size - TAG] != content:
                raise RunError("a message in the bag is not as published")
            if number in seen:
                raise RunError("a message is in the bag twice")
            seen.add(number)
    except NotAsWrittenError as error:
        raise RunError(str(error)) from error
    received, lost = counts["received"], counts["lost_in_cache"]
    if len(seen) != received - lost or received > counts["published"]:
        raise RunError(
            f"{counts['published']} published, {received} received, {lost} lost in the cache, but "
            f"{len(seen)} in the bag"
        )
    return {"written": len(seen), "reader": reader}


def _fail(text: str, code: int) -> int:
    print(f"storage_recorder: error: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
