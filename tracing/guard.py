"""Watch the recorder from a small process, which cleans up if the recorder is killed.

It waits at the other end of a pipe. When the pipe closes without a final message, the recorder is
gone: every process that carries the mark is ended, the session destroyed, the folder removed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from roslens.recording.files import shipped
from roslens.tracing.proc import process_name
from roslens.tracing.processes import GENTLE, end_all, end_process, marked

_WELL = b"well"
_STARTING_SECONDS = 1.0
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from roslens.tracing.guard import main; main()"
)


@contextmanager
def guarded(
    mark: str, folder: Path | None, command: Sequence[str] = (), hold: Sequence[int] = ()
) -> Iterator[None]:
    """Have a guard watch this process as long as the context lasts.

    Parameters
    ----------
    mark
        ``NAME=VALUE``: processes with this variable in their environment are ended.
    folder
        A folder to remove if this process is killed, or None.
    command
        A command to run if this process is killed.
    hold
        Descriptors that the guard keeps open, so that a lock on one is held until it has cleaned
        up.
    """
    guard = subprocess.Popen(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            _START,
            str(shipped().parent),
            mark,
            str(folder or ""),
            *command,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        pass_fds=hold,
    )
    try:
        yield
    finally:
        with suppress(OSError, subprocess.TimeoutExpired):
            guard.communicate(_WELL, timeout=5)
        end_process(guard, 1.0)


def main() -> None:
    """Wait for the end of the pipe; then clean up, unless all is well."""
    mark, folder, *command = sys.argv[1:]
    if sys.stdin.buffer.read() == _WELL:
        return
    daemons = ("lttng", "nsenter")
    # End the programs first, so that their last events are still recorded.
    end_all(
        lambda: [pid for pid in marked(mark) if not process_name(pid).startswith(daemons)], GENTLE
    )
    if command:
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, check=False, timeout=20)
    # A process that was just being started when the recorder died did not have its mark yet.
    time.sleep(_STARTING_SECONDS)
    end_all(lambda: marked(mark), GENTLE[1:])
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
