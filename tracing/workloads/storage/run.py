"""Runs the storage benchmark for one cell and removes what it wrote.

``python3 run.py --plugin_config mcap_default --message_size 10KiB --batch_size 1KiB
--bytes 64MiB --output FOLDER``

Written into FOLDER: ``writes.csv`` (a row per write call, in the format of the published
comparison), ``run.json`` (what the cell was, and what it took), and, where the recording was read
back, ``verification.json``. The recording itself lies on a RAM disk meanwhile.

Exit status: 0 done; 2 wrong use; 4 it failed, or what was read back is not what was written;
128 + N ended by signal N.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roslens.tracing.recording.files import shipped

HERE = Path(__file__).resolve().parent
PREFIX = "roslens-storage-"
RAM_DISK = "/dev/shm"  # noqa: S108 (the RAM disk of every Linux)
SAMPLES = shipped("data", "samples")


def main() -> int:
    """Run one cell."""
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    place = Path(options.place)
    if not place.is_dir():
        return _fail(f"{place}: no such folder; give a RAM disk with --place", 2)
    try:
        program = os.environ.get("ROSLENS_STORAGE_PROGRAM") or _compiled()
        _remove_left_over(place)
        with _scratch(place) as scratch:
            done = subprocess.run(
                [program, *_arguments(options, scratch)],
                check=False,
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
    except OSError as error:
        return _fail(f"{error.filename or place}: {error.strerror}", 4)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plugin_config", required=True, help="such as mcap_default")
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
    parser.add_argument("--rate", default="", help="bytes per second at which messages come")
    parser.add_argument("--queue", default="", help="bytes that the queue before the writer holds")
    parser.add_argument("--seed", default="0", help="of the order of messages of mixed sizes")
    parser.add_argument(
        "--verify", choices=("first", "always", "never"), default="always", help="read it back"
    )
    parser.add_argument("--seconds", help="not used: a run lasts as long as writing takes")
    parser.add_argument("--output", type=Path, required=True, help="where the results go")
    return parser.parse_args()


def _arguments(options: argparse.Namespace, scratch: Path) -> list[str]:
    content = [options.content or str(SAMPLES)]
    found = [
        *("--configuration", options.plugin_config),
        *("--messages", options.message_size),
        *("--batch", options.batch_size),
        *("--bytes", options.bytes),
        *("--place", str(scratch)),
        *("--results", str(options.output)),
        *("--seed", options.seed),
    ]
    for path in content[:1]:
        found += ["--content", path]
    if options.any_disk.lower() == "true":
        found.append("--any-disk")
    for name in ("rate", "queue"):
        if getattr(options, name):
            found += [f"--{name}", getattr(options, name)]
    return found


def _verify(options: argparse.Namespace, scratch: Path) -> int:
    first = os.environ.get("ROSLENS_REPETITION", "0") == "0"
    if options.verify == "never" or (options.verify == "first" and not first):
        return 0
    written = json.loads((options.output / "run.json").read_bytes())
    if not (scratch / "recording").exists():
        return 0  # the configuration that writes nothing
    sys.path.insert(0, str(HERE))
    from verify import NotAsWrittenError, read_back  # type: ignore[import-not-found]  # noqa: PLC0415

    try:
        found = read_back(scratch)
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


@contextmanager
def _scratch(place: Path) -> Iterator[Path]:
    """A folder of our own that is gone afterwards, whatever happens."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_left_over(place: Path) -> None:
    """Remove what runs left that were killed, for a RAM disk is memory."""
    for folder in place.glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if (
            pid.isdigit()
            and not Path("/proc", pid).exists()
            and folder.stat().st_uid == os.getuid()
        ):
            shutil.rmtree(folder, ignore_errors=True)


def _compiled() -> str:
    # Only by hand: a campaign has compiled it before its first run.
    from roslens.tracing.recording import RoslensError  # noqa: PLC0415
    from roslens.tracing.workloads.storage.prepare import program  # noqa: PLC0415

    try:
        return str(program(lambda text: print(text, file=sys.stderr)))
    except RoslensError as error:
        sys.exit(_fail(str(error), error.exit_code))


def _fail(text: str, code: int) -> int:
    print(f"storage: error: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
