"""Run the command line as ``python -m roslens`` or as the command ``roslens``."""

import _signal  # type: ignore[import-not-found]  # without enum, at once
import sys

# Ctrl-C during the imports ends the process without a traceback.
_on_interrupt = _signal.getsignal(_signal.SIGINT)
if _on_interrupt is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

if __name__ == "__main__" and not sys.flags.safe_path:
    # ``-m`` searches the working directory first, whatever files lie there.
    del sys.path[0]

import atexit  # noqa: E402
import gc  # noqa: E402
import os  # noqa: E402

# The next opened file would take a closed stream's number, and no error could be reported.
while (_closed := os.open(os.devnull, os.O_RDWR)) <= 2:
    os.set_inheritable(_closed, True)
os.close(_closed)
sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115

import threading  # noqa: E402
from typing import NoReturn  # noqa: E402

# Modules are never garbage, and collecting during the imports takes a sixth of the start time.
gc.disable()

from roslens.cli import main  # noqa: E402

gc.freeze()
gc.enable()
_signal.signal(_signal.SIGINT, _on_interrupt)


def run() -> NoReturn:
    """Run the command line and exit.

    The memory of large tables returns to the system at once, not object by object.
    """
    try:
        main()
    except SystemExit as ended:
        threads = (thread for thread in threading.enumerate() if not thread.daemon)
        if isinstance(ended.code, int) and all(
            thread is threading.main_thread() for thread in threads
        ):
            _leave(ended.code)
        raise


def _leave(code: int) -> None:
    """Exit without tearing down the interpreter; return if the output cannot be flushed."""
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


# Worker processes import this module again.
if __name__ == "__main__":
    run()
