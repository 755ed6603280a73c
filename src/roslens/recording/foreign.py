"""Read foreign files in a process of its own, with limits.

Whatever a file does to its reader (an unforeseen exception, memory without end, a query
that does not return, a crash of native code) becomes one sentence about this file.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from roslens.recording import RoslensError, RunFailedError, UsageError

if TYPE_CHECKING:
    import polars as pl

SECONDS = 120
MEMORY_BYTES = 1 << 30
_UNREADABLE = 65
_MESSAGES: dict[int, type[RoslensError]] = {66: UsageError, 68: RunFailedError}
_LONGEST_REASON = 300
_FRAME = "\0frame"


def read_foreign(
    reader: str,
    path: Path,
    what: str,
    remedy: str = "is it cut off?",
    *,
    options: dict[str, Any] | None = None,
    seconds: int = SECONDS,
    memory_bytes: int = MEMORY_BYTES,
) -> Any:
    """Read a file with a reader in a limited process, and return the result.

    Parameters
    ----------
    reader
        A function as ``module:name``. It takes the path, and returns frames and JSON data; tuples
        arrive as lists.
    path
        A file or folder that another program wrote.
    what
        What the file should be, for the sentence: "a bag".
    remedy
        What may help, as the end of that sentence.
    options
        Keyword arguments of the reader that JSON can hold.
    seconds, memory_bytes
        Limits on the process's CPU time, and on memory beyond the interpreter and its libraries.

    Raises
    ------
    UsageError
        The reader refused the file, failed in any way, or exceeded the limits.
    RunFailedError
        The reader reported that its output could not be written.
    """
    request = json.dumps([reader, str(path), options or {}, seconds, memory_bytes])
    done = subprocess.run(
        [sys.executable, "-P", "-m", "roslens.recording.foreign", request],
        capture_output=True,
        check=False,
    )
    message = done.stderr.decode(errors="replace").strip()
    if done.returncode == 0:
        return _received(io.BytesIO(done.stdout))
    if done.returncode in _MESSAGES:
        raise _MESSAGES[done.returncode](message)
    if done.returncode == -signal.SIGXCPU:
        reason = f"reading it takes more than {seconds} s of CPU"
    elif done.returncode < 0:
        # Native code that cannot get more memory ends the process.
        reason = (
            f"reading it ended with signal {-done.returncode}: it is damaged, or takes more than "
            f"{memory_bytes >> 20} MiB of memory"
        )
    else:
        reason = message.splitlines()[-1] if message else "reading it failed"
    raise _refusal(path, what, reason, remedy)


@contextmanager
def read_here(path: Path, what: str, remedy: str = "is it cut off?") -> Iterator[None]:
    """Read a small file in the calling process; report any failure as one sentence about it.

    Raises
    ------
    UsageError
        The reader refused the file, or failed in any way.
    """
    try:
        yield
    except RoslensError:
        raise
    except Exception as error:
        raise _refusal(path, what, _reason(error), remedy) from error


def _refusal(path: Path, kind: str, reason: str, remedy: str) -> UsageError:
    text = f"{path}: cannot be read as {kind}: {reason[:_LONGEST_REASON]}"
    return UsageError(f"{text}; {remedy}")


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _send(value: Any, stream: BinaryIO) -> None:
    frames: list[bytes] = []

    def of_frame(frame: pl.DataFrame) -> dict[str, int]:
        buffer = io.BytesIO()
        frame.write_ipc_stream(buffer)
        frames.append(buffer.getvalue())
        return {_FRAME: len(frames) - 1}

    text = json.dumps(value, default=of_frame)
    stream.write(json.dumps([text, [len(frame) for frame in frames]]).encode() + b"\n")
    stream.writelines(frames)


def _received(stream: BinaryIO) -> Any:
    text, sizes = json.loads(stream.readline())
    if not sizes:
        return json.loads(text)
    import polars as pl  # noqa: PLC0415  (a tenth of a second, for nothing where there is no frame)

    frames = [pl.read_ipc_stream(io.BytesIO(stream.read(size))) for size in sizes]

    def of_object(mapping: dict[str, Any]) -> Any:
        number = mapping.get(_FRAME)
        return frames[number] if isinstance(number, int) else mapping

    return json.loads(text, object_hook=of_object)


def _child(request: str) -> int:
    name, path, options, seconds, memory_bytes = json.loads(request)
    # Output that libraries print must not mix with the answer.
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    module, _, function = name.partition(":")
    reader = getattr(importlib.import_module(module), function)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (_reserved_bytes() + memory_bytes,) * 2)
    try:
        with answer:
            _send(reader(Path(path), **options), answer)
    except RoslensError as error:
        sys.stderr.write(str(error))
        return 66 if error.exit_code == UsageError.exit_code else 68
    except MemoryError:
        sys.stderr.write(f"reading it takes more than {memory_bytes >> 20} MiB of memory")
        return _UNREADABLE
    except BaseException as error:  # noqa: BLE001  (a damaged file; native readers panic, too)
        sys.stderr.write(_reason(error))
        return _UNREADABLE
    return 0


def _reserved_bytes() -> int:
    """Return the memory that the interpreter and its libraries reserve before reading anything."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData:"))


if __name__ == "__main__":
    sys.exit(_child(sys.argv[1]))
