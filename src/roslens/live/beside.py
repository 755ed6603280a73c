"""Watch a run for triggers in a small process while it is recorded.

The process runs `roslens.live.watch`, and ends after a last look when its standard input ends:
when the workload has ended, or the recorder is gone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from roslens.live.triggers import read_triggers
from roslens.recording import UsageError
from roslens.tracing.workload import describe_exit

OF_FLIGHTS = Path(__file__).with_name("flight.yaml")
"""The triggers of a flight recorder without a triggers file."""
_START = "from roslens.live.beside import main; main()"
_STDIN, _STDERR = 0, 2
_LAST_LOOK_S = 60.0


def watched_for(
    triggers: Path, flight: float | None
) -> Callable[[Path, Callable[[str], None]], AbstractContextManager[None]]:
    """Make a context that watches a run for triggers, for `roslens.tracing.run.RunSpec`.

    Parameters
    ----------
    triggers
        The triggers' YAML file.
    flight
        The seconds that a flight recorder keeps; None if everything is recorded.

    Raises
    ------
    UsageError
        The file is invalid, or a snapshot would not reach back to its trigger.
    """
    settings = read_triggers(triggers)
    if flight is not None and flight <= settings.after_s:
        raise UsageError(
            f"--flight {flight:g}: a snapshot that is made {settings.after_s:g} s after its "
            f"trigger would have nothing of before; give more, or less as after_s in {triggers}"
        )
    return partial(_watching, triggers)


@contextmanager
def _watching(triggers: Path, run: Path, warn: Callable[[str], None]) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _START, str(run), str(triggers)],
        # The tables of a few seconds are small: threads would cost more than they save.
        env={**os.environ, "POLARS_MAX_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=_STDERR,
        # Ctrl-C is meant for the recorder only.
        start_new_session=True,
    )
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            code = process.wait(_LAST_LOOK_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code:
            warn(f"triggers were not watched for to the end: who watched {describe_exit(code)}")


def main() -> None:
    """Watch the run and triggers given as arguments until the standard input ends."""
    from roslens.live.watch import Options, run_watch  # noqa: PLC0415
    from roslens.recording import RoslensError  # noqa: PLC0415
    from roslens.recording.terminal import Console  # noqa: PLC0415

    run, triggers = map(Path, sys.argv[1:])
    try:
        run_watch(run, Options(triggers=triggers, beside=_STDIN), Console())
    except RoslensError as error:
        sys.exit(f"roslens: watching for triggers: {error}")
