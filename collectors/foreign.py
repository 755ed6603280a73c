"""The gate for files of others beside a trace: read in a process of its own, which has limits.

Whatever such a file does to its reader (an exception that nobody foresaw, memory without end, a
query that does not return, a crash of native code) becomes one sentence about this file.
"""

from __future__ import annotations

import importlib
import io
import json
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import polars as pl

from roslens.recording import RoslensError, UsageError

SECONDS = 120
MEMORY_BYTES = 1 << 30
_UNREADABLE, _MESSAGE = 65, 66
_LONGEST_REASON = 300
_STEPS = 10_000


def read_foreign(
    reader: str,
    path: Path,
    what: str,
    remedy: str,
    *,
    seconds: int = SECONDS,
    memory_bytes: int = MEMORY_BYTES,
) -> pl.DataFrame:
    """What a reader makes of a file, from a process that is limited.

    Parameters
    ----------
    reader
        A function as ``module:name``. It takes the path and returns a frame.
    path
        A file or folder that another program wrote.
    what
        What it should be, for the sentence: "a bag".
    remedy
        What may help, the end of that sentence.
    seconds, memory_bytes
        CPU time of the process, and what it may take beside the interpreter and its libraries.

    Raises
    ------
    UsageError
        The reader refused it, failed in whatever way, or needed more than the limits.
    """
    request = json.dumps([reader, str(path.absolute()), seconds, memory_bytes])
    done = subprocess.run(
        [sys.executable, "-P", "-m", "roslens.collectors.foreign", request],
        capture_output=True,
        check=False,
    )
    said = done.stderr.decode(errors="replace").strip()
    if done.returncode == 0:
        return pl.read_ipc_stream(io.BytesIO(done.stdout))
    if done.returncode == _MESSAGE:
        raise UsageError(said)
    if done.returncode == -signal.SIGXCPU:
        reason = f"reading it takes more than {seconds} s of CPU"
    elif done.returncode < 0:
        # Native code that gets no more memory ends the process.
        reason = (
            f"reading it ended with signal {-done.returncode}: it is damaged, or takes more than "
            f"{memory_bytes >> 20} MiB of memory"
        )
    else:
        reason = said.splitlines()[-1][:_LONGEST_REASON] if said else "reading it failed"
    raise UsageError(f"{path}: cannot be read as {what}: {reason}; {remedy}")


@contextmanager
def open_database(
    path: Path, tables: Collection[str], seconds: float
) -> Iterator[sqlite3.Connection]:
    """A database of SQLite from which nothing but these tables can be read, for so many seconds.

    Raises
    ------
    UsageError
        One of the names is a view, which could compute for ever.
    sqlite3.Error
        It is no database, or damaged; or the time is over.
    """
    # Only read, and nothing beside it is made; what a journal holds that lies there is read, too.
    journals = [path.with_name(path.name + end) for end in ("-wal", "-journal")]
    as_it_is = "" if any(x.exists() for x in journals) else "&immutable=1"
    where = f"{path.absolute().as_uri()}?mode=ro{as_it_is}"
    with closing(sqlite3.connect(where, uri=True)) as database:
        database.execute("PRAGMA trusted_schema = OFF")
        end = time.monotonic() + seconds
        database.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        for name, kind in database.execute("SELECT name, type FROM sqlite_master"):
            if name in tables and kind != "table":
                raise UsageError(f"{path}: {name} is a {kind} where a table is expected")
        database.set_authorizer(_only({*tables, "sqlite_master"}))
        yield database


def _only(tables: Collection[str]) -> Callable[..., int]:
    def authorize(action: int, first: str | None, *_: str | None) -> int:
        allowed = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION) or (
            action == sqlite3.SQLITE_READ and first in tables
        )
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    return authorize


def _child(request: str) -> int:
    name, path, seconds, memory_bytes = json.loads(request)
    module, _, function = name.partition(":")
    reader = getattr(importlib.import_module(module), function)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (_own_bytes() + memory_bytes,) * 2)
    try:
        frame = reader(Path(path))
    except RoslensError as error:
        sys.stderr.write(str(error))
        return _MESSAGE
    except MemoryError:
        sys.stderr.write(f"reading it takes more than {memory_bytes >> 20} MiB of memory")
        return _UNREADABLE
    except BaseException as error:  # noqa: BLE001  (a damaged file; native readers panic, too)
        sys.stderr.write(" ".join(str(error).split()) or type(error).__name__)
        return _UNREADABLE
    frame.write_ipc_stream(sys.stdout.buffer)
    return 0


def _own_bytes() -> int:
    """What the interpreter and its libraries have reserved before they read anything."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData:"))


if __name__ == "__main__":
    sys.exit(_child(sys.argv[1]))
