"""A small process that clears up when the recorder is killed and cannot do it itself.

It waits at the other end of a pipe. When the pipe closes without a last word, the recorder is
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
        ``NAME=VALUE``: what has it in its environment is ended.
    folder
        Removed then; None for none.
    command
        Run then.
    hold
        Descriptors that the guard keeps open: a lock on one is held until all is cleared up.
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
    """Wait for the end of the pipe; then clear up, unless all is well."""
    mark, folder, *command = sys.argv[1:]
    if sys.stdin.buffer.read() == _WELL:
        return
    daemons = ("lttng", "nsenter")
    # The programs first, so that what they did last is still recorded.
    end_all(
        lambda: [pid for pid in marked(mark) if not process_name(pid).startswith(daemons)], GENTLE
    )
    if command:
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, check=False, timeout=20)
    # One that was being started when the recorder went did not have its mark yet.
    time.sleep(_STARTING_SECONDS)
    end_all(lambda: marked(mark), GENTLE[1:])
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
