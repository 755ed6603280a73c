"""What was recorded on another host is fetched: as a stream of ``tar`` through ssh."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from roslens.recording import RoslensError, RunFailedError
from roslens.tracing.interruption import Interruption
from roslens.tracing.remote.ssh import UNREACHABLE, ssh_command, why_unreachable
from roslens.tracing.unpacking import unpack_stream


def fetch(destination: str, there: str, here: Path, interruption: Interruption) -> None:
    """Fetch a folder; what lies in `here` is whole, or it is not there.

    Parameters
    ----------
    destination
        The other host.
    there, here
        The folder on it, and the new one for its content.
    interruption
        Ends it early where it is asked once more.

    Raises
    ------
    RunFailedError
        It cannot be reached, has no such folder, broke off, or there is no room here.
    """
    part = here.with_name(f".{here.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    command = ssh_command(destination, ["tar", "-C", there, "-cf", "-", "."])
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
        )
        asked, trouble = interruption.count, None

        def read(size: int) -> bytes:
            if interruption.count > asked:
                raise RunFailedError("interrupted")
            assert process.stdout is not None
            return process.stdout.read(size)

        try:
            unpack_stream(read, part, "what it sent")
        except OSError as error:
            trouble = f"{part}: cannot be written: {(error.strerror or str(error)).lower()}"
        except RoslensError as error:
            trouble = str(error)
        finally:
            if trouble is not None:
                process.kill()
            status = process.wait()
            if process.stdout is not None:
                process.stdout.close()
        said.seek(0)
        words = said.read().decode(errors="replace").strip().splitlines() or [""]
    if status == UNREACHABLE:
        trouble = why_unreachable(words[-1], destination)
    elif status > 0:
        trouble = f"tar ended with status {status} there: {words[0]}"
    if trouble is not None:
        shutil.rmtree(part, ignore_errors=True)
        raise RunFailedError(trouble)
    part.rename(here)
