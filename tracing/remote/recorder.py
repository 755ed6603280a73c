"""Control one recorder on another host: begin it through ssh, keep it alive, stop it."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import IO

from roslens.tracing.interruption import Interruption
from roslens.tracing.lifeline import BEAT_SECONDS, BeginMessage
from roslens.tracing.remote.ssh import UNREACHABLE, Host, ssh_command, why_unreachable

_NOT_FOUND = 127
_WRONG_USE = 2


class RemoteRecorder:
    """A ``roslens record --as-host`` on another host, for as long as its input is open.

    Parameters
    ----------
    host
        The host, and the command to run there.
    folder
        The new folder of the recording on that host.
    arguments
        Arguments of ``record``.
    setup
        A command that the login shell there runs first.
    note
        Called from other threads with the notes of the recorder.

    Attributes
    ----------
    begun
        The recorder's message that it has begun to record.
    """

    def __init__(
        self,
        host: Host,
        folder: str,
        arguments: Sequence[str],
        setup: str | None,
        note: Callable[[str], None],
    ) -> None:
        self.host, self._note = host, note
        self.begun: BeginMessage | None = None
        self._errors: deque[str] = deque(maxlen=20)
        self._stopping = threading.Event()
        words = ["roslens", "record", "--as-host", "-o", folder, *arguments]
        if host.command:
            words += ["--", *host.command]
        # In a session of its own, because Ctrl-C is for us, who then stop it in order.
        self._process = subprocess.Popen(
            ssh_command(host.destination, words, setup),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self._threads = [
            threading.Thread(target=work, args=arguments, daemon=True)
            for work, arguments in (
                (self._listen, (self._process.stdout, self._on_output)),
                (self._listen, (self._process.stderr, self._on_error)),
                (self._beat, ()),
            )
        ]
        for thread in self._threads:
            thread.start()

    @property
    def ended(self) -> bool:
        """Return whether the recorder, or the connection to it, has ended."""
        return self._process.poll() is not None

    @property
    def broke_off(self) -> bool:
        """Return whether the connection ended before the recorder."""
        return self._process.poll() in {None, UNREACHABLE} or (self._process.returncode < 0)

    def stop(self) -> None:
        """Ask the recorder to end its recording."""
        self._stopping.set()
        stdin = self._process.stdin
        if stdin is not None:
            with suppress(OSError):
                stdin.close()

    def wait(self, seconds: float, interruption: Interruption) -> None:
        """Wait for the recorder's end; give up after `seconds` or at another request to end."""
        asked, deadline = interruption.count, time.monotonic() + seconds
        while not self.ended and time.monotonic() < deadline and interruption.count == asked:
            time.sleep(0.05)
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join(1.0)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    @property
    def trouble(self) -> str:
        """Describe why the recorder did not begin, or its last error."""
        complaint, status = (self._errors or [""])[-1], self._process.poll()
        if status == UNREACHABLE:
            return why_unreachable(complaint, self.host.destination)
        own = version("roslens")
        if status == _NOT_FOUND:
            return (
                f"has no roslens on its PATH: 'pip install roslens=={own}' there, or say how its "
                "shell finds it, such as --host-setup '. ~/venv/bin/activate'"
            )
        if status == _WRONG_USE and "--as-host" in complaint:
            return f"has a roslens that cannot be begun from here: install {own} there"
        return complaint.removeprefix("roslens: error: ") or f"ended with status {status}"

    def _listen(self, stream: IO[bytes], take: Callable[[str], None]) -> None:
        with suppress(OSError, ValueError):
            for line in stream:
                take(line.decode(errors="replace").strip())

    def _on_output(self, line: str) -> None:
        self.begun = self.begun or BeginMessage.read(line)

    def _on_error(self, line: str) -> None:
        if line.startswith("note: "):
            self._note(line.removeprefix("note: "))
        elif line:
            self._errors.append(line)

    def _beat(self) -> None:
        stdin = self._process.stdin
        with suppress(OSError, ValueError):
            while stdin is not None and not self._stopping.wait(BEAT_SECONDS):
                stdin.write(b"\n")
