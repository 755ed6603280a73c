"""Runs the storage benchmark for one cell and removes what it wrote.

``python3 run.py --plugin_config mcap_default --message_size 10KiB --batch_size 1KiB
--bytes 64MiB --output FOLDER``

Written into FOLDER: ``writes.csv`` (a row per write call, in the format of the published
comparison), ``run.json`` (what the cell was, and what it took), with ``--allocations True``
``allocations.csv`` (what each call allocated), and ``verification.json`` (what other libraries
read back). The recording itself lies on a RAM disk meanwhile.

Exit status: 0 done; 2 wrong use; 4 it failed, or what was read back is not what was written;
128 + N ended by signal N.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from roslens.recording import RoslensError
from roslens.recording.files import shipped
from roslens.tracing.workloads.storage.scratch import RAM_DISK, scratch_folder

HERE = Path(__file__).resolve().parent
SAMPLES = shipped("data", "samples")


def main() -> int:
    """Run one cell."""
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    place = Path(options.place)
    if not place.is_dir():
        return _fail(f"{place}: no such folder; give a RAM disk with --place", 2)
    if {"ROSLENS_STORAGE_PROGRAM", "ROSLENS_STORAGE_ROSBAG2"} - set(os.environ):
        return _fail("run it as 'roslens record --suite storage'", 2)
    try:
        with scratch_folder(place) as scratch:
            done = subprocess.run(
                [os.environ["ROSLENS_STORAGE_PROGRAM"], *_arguments(options, scratch)],
                check=False,
                env=_environment(options),
                stdin=subprocess.DEVNULL,
                # Beyond a limit on the size of files writing fails then, and says so.
                restore_signals=False,
            )
            if done.returncode < 0:
                name = signal.Signals(-done.returncode).name
                return _fail(f"the program was ended by {name}", 128 - done.returncode)
            if done.returncode != 0:
                return done.returncode
            return _verify(options, scratch)
    except RoslensError as error:
        return _fail(str(error), error.exit_code)
    except OSError as error:
        return _fail(f"{error.filename or place}: {error.strerror}", 4)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plugin_config", required=True, help="such as mcap_default")
    parser.add_argument("--implementation", choices=("rosbag2",), help="not used: there is one")
    parser.add_argument("--message_size", required=True, help="1MiB, 10KiB, 100B or mixed")
    parser.add_argument("--batch_size", required=True, help="such as 1KiB")
    parser.add_argument("--bytes", default="250MiB", help="of all messages together")
    parser.add_argument(
        "--content",
        default="",
        help="a file, or the folder of a recording, whose bytes the messages carry; default: the "
        "traces of the sample recordings",
    )
    parser.add_argument("--place", default=RAM_DISK, help="a folder on a RAM disk")
    parser.add_argument("--any_disk", default="False", help="True: it need be no RAM disk")
    parser.add_argument(
        "--compression",
        default="",
        help="none, message or file: rosbag2's writer writes, and compresses this",
    )
    parser.add_argument("--rate", default="", help="bytes per second at which messages come")
    parser.add_argument("--queue", default="", help="bytes that the queue before the writer holds")
    parser.add_argument(
        "--allocations", default="False", help="True: count them, which slows what is timed"
    )
    parser.add_argument("--seed", default="0", help="of the order of messages of mixed sizes")
    parser.add_argument("--seconds", help="not used: a run lasts as long as writing takes")
    parser.add_argument("--output", type=Path, required=True, help="where the results go")
    return parser.parse_args()


def _arguments(options: argparse.Namespace, scratch: Path) -> list[str]:
    found = [
        *("--configuration", options.plugin_config),
        *("--rosbag2", os.environ["ROSLENS_STORAGE_ROSBAG2"]),
        *("--messages", options.message_size),
        *("--batch", options.batch_size),
        *("--bytes", options.bytes),
        *("--place", str(scratch)),
        *("--results", str(options.output)),
        *("--seed", options.seed),
        *("--content", options.content or str(SAMPLES)),
    ]
    if options.any_disk.lower() == "true":
        found.append("--any-disk")
    for name in ("rate", "queue", "compression"):
        if getattr(options, name):
            found += [f"--{name}", getattr(options, name)]
    return found


def _environment(options: argparse.Namespace) -> dict[str, str]:
    environment = dict(os.environ)
    if options.allocations.lower() == "true":
        # Only where it is needed: the package reads Polars, which takes longer than most cells.
        from roslens.tracing.sampling.preloaded import preloadable, preloaded  # noqa: PLC0415

        library = preloadable(HERE / "allocations.c", "--allocations")
        environment["LD_PRELOAD"] = preloaded(environment, library)
    return environment


def _verify(options: argparse.Namespace, scratch: Path) -> int:
    written = json.loads((options.output / "run.json").read_bytes())
    if not any(scratch.iterdir()):
        return 0  # the configuration that writes nothing
    sys.path.insert(0, str(HERE))
    from verify import NotAsWrittenError, read_back  # type: ignore[import-not-found]  # noqa: PLC0415

    try:
        found = read_back(scratch, options.compression)
    except NotAsWrittenError as error:
        return _fail(f"{options.plugin_config}: what was written cannot be read back: {error}", 4)
    wanted = {
        "messages": written["message_count"],
        "bytes": written["bytes"],
        "crc32": written["crc32"],
    }
    wrong = [
        f"{k} {getattr(found, k)} for {v}" for k, v in wanted.items() if getattr(found, k) != v
    ]
    if wrong:
        return _fail(f"{options.plugin_config}: {found.reader} reads {', '.join(wrong)}", 4)
    text = json.dumps({"reader": found.reader, **wanted}, indent=1)
    (options.output / "verification.json").write_text(text + "\n", encoding="utf-8")
    return 0


def _fail(text: str, code: int) -> int:
    print(f"storage: error: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
