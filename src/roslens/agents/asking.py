"""Answer a question by running a verb of the command line in a process of its own, with limits.

The answer is the JSON that the verb prints, so that nothing is computed a second time here.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import anyio.abc
from typing_extensions import TypedDict

from roslens.recording import (
    EXIT_NOT_ENOUGH_EVIDENCE,
    EXIT_OK,
    EXIT_VERDICT,
    RunFailedError,
    UsageError,
    find_recordings,
)
from roslens.recording.files import ONLY_READ
from roslens.recording.layout import walk
from roslens.recording.text import shown
from roslens.tracing.archive_names import SUFFIXES

MEANINGS = {
    EXIT_OK: "done",
    EXIT_VERDICT: "a verdict failed",
    EXIT_NOT_ENOUGH_EVIDENCE: "not enough evidence",
}
"""The meaning of each exit code that comes with an answer."""
_FILE = "FILE"
"""Placeholder, in the words of a verb, for the file that receives its JSON."""
_MOST_RAW = 64 << 20
_AT_ONCE = 2


class Answer(TypedDict):
    """What a verb answers.

    command: the same question as a command line; FILE stands for a file that gets the JSON,
    budgets.yaml for one with the budgets that were asked. exit_code, meaning: as of the command
    line. answer: the verb's JSON, null where it has none. refused: why not, null where it has.
    numbers: what the numbers are, and where their intervals stand. cut: by the place of each list
    that was cut, how many entries it has in all.
    """

    command: str
    exit_code: int
    meaning: str
    answer: Any
    refused: str | None
    numbers: str
    cut: dict[str, int]


@dataclass(frozen=True)
class Asker:
    """Runner of verbs on the recordings in some folders.

    Attributes
    ----------
    folders
        The folders that questions may read; no path leads out of them.
    rows
        The maximum number of entries in a list of an answer.
    size
        The maximum size of an answer as JSON, in bytes.
    seconds
        The time limit of a question, in seconds.
    """

    folders: Sequence[Path]
    rows: int
    size: int
    seconds: float
    _turns: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_AT_ONCE))

    def place(self, path: str) -> Path:
        """Return the file or folder that a path stands for, with links resolved.

        Parameters
        ----------
        path
            An absolute path, or a path relative to one of the folders.

        Raises
        ------
        UsageError
            The path does not exist in the folders.
        """
        for folder in self.folders:
            with suppress(OSError, ValueError):
                candidate = (folder / path).resolve(strict=True)
                if self._is_inside(candidate):
                    return candidate
        # The name may have been shown with marks in place of terminal control characters.
        for candidate in self.recordings():
            if shown(str(candidate)) == path:
                return candidate.resolve()
        roots = ", ".join(map(str, self.folders))
        raise UsageError(shown(f"{path}: nothing of that name in what may be read: {roots}"))

    def _whole_folder(self, path: str) -> Path:
        """Return `place` of a path, and refuse a folder from which a link leads out."""
        place = self.place(path)
        for folder, names, files in walk(place) if place.is_dir() else ():
            for entry in (folder / name for name in (*names, *files)):
                if entry.is_symlink() and not self._is_inside(entry):
                    raise UsageError(
                        shown(f"{path}: the link {entry.name} leads out of what may be read")
                    )
        return place

    def _is_inside(self, path: Path) -> bool:
        return any(path.resolve().is_relative_to(root) for root in self.folders)

    def recordings(self) -> list[Path]:
        """List the recordings and archives in the folders, except links that lead outside."""
        paths: list[Path] = []
        for folder in self.folders:
            with suppress(UsageError):
                paths += (recording.path for recording in find_recordings(folder))
            paths += sorted(path for path in folder.glob("*") if path.name.endswith(SUFFIXES))
        return [path for path in paths if self._is_inside(path)]

    async def ask(
        self,
        *words: str,
        paths: Sequence[str],
        numbers: str,
        first: str | None = None,
        files: Mapping[str, str] = MappingProxyType({}),
        lines: bool = False,
    ) -> Answer:
        """Run a verb about recordings.

        Parameters
        ----------
        words
            The verb and its options; ``--json=FILE`` if it writes JSON to a file.
        paths
            The paths of recordings, as in `place`.
        numbers
            A description of the numbers in the answer.
        first
            The argument before the paths, such as a query.
        files
            The texts of files for the verb's working folder, by file name.
        lines
            Whether the verb prints one value per line.

        Raises
        ------
        UsageError
            A path leads outside the folders, or the verb refuses the question.
        RunFailedError
            The verb took too long, printed too much, or failed.
        """
        places = [str(self._whole_folder(path)) for path in paths]
        about = [*([] if first is None else [first]), *places]
        async with self._turns:
            with tempfile.TemporaryDirectory(prefix="roslens-mcp-") as scratch:
                for name, text in files.items():
                    Path(scratch, name).write_text(text, encoding="utf-8")
                # ``--`` keeps words of a question from being taken for options.
                code, out, err = await self._run([*words, "--", *about], Path(scratch))
                output = _json(out, Path(scratch) / _FILE, lines=lines)
        if code not in MEANINGS:
            kind = UsageError if code == UsageError.exit_code else RunFailedError
            raise kind(shown(_error_message(err)) or f"roslens ended with exit code {code}")
        answer, cut = self._bounded(_quoted(output))
        return Answer(
            command=shown(shlex.join(["roslens", *words, "--", *about])),
            exit_code=code,
            meaning=MEANINGS[code],
            answer=answer,
            refused=shown(_error_message(err)) or None
            if code == EXIT_NOT_ENOUGH_EVIDENCE
            else None,
            numbers=numbers,
            cut=cut,
        )

    async def _run(self, words: Sequence[str], folder: Path) -> tuple[int, bytes, bytes]:
        """Run roslens in a process group that ends with us; return exit code, output and error."""
        command = [sys.executable, "-P", "-m", "roslens", *words]
        async with await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, ONLY_READ: "1", "COLUMNS": "200"},
            start_new_session=True,
        ) as process:
            try:
                with anyio.fail_after(self.seconds):
                    async with anyio.create_task_group() as group:
                        parts: dict[str, bytes] = {}
                        for name in ("stdout", "stderr"):
                            group.start_soon(_drain, parts, name, getattr(process, name))
                    code = await process.wait()
            except BaseException as error:
                # The child leads a process group, so its own processes end too.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, TimeoutError):
                    raise RunFailedError(
                        f"no answer in {self.seconds:g} s; of large recordings answers are faster "
                        "after 'roslens collect'"
                    ) from error
                raise
        if len(parts["stdout"]) > _MOST_RAW:
            raise RunFailedError("the answer is too long; ask of fewer recordings, or one topic")
        return code, parts["stdout"], parts["stderr"]

    def _bounded(self, value: Any) -> tuple[Any, dict[str, int]]:
        """Cut the longest lists of an answer until it is small enough.

        Raises
        ------
        RunFailedError
            The answer is too long even without its lists.
        """
        rows = self.rows
        while rows:
            cut: dict[str, int] = {}
            answer = _cut(value, rows, "", cut)
            # A client receives the answer with this indentation.
            if len(json.dumps({"answer": answer}, indent=2)) <= self.size:
                return answer, cut
            rows //= 2
        raise RunFailedError("the answer is too long; ask of fewer recordings, or one topic")


async def _drain(parts: dict[str, bytes], name: str, stream: anyio.abc.ByteReceiveStream) -> None:
    """Read a whole stream, but keep only one byte more than the limit."""
    kept = bytearray()
    async for block in stream:
        kept += block[: max(0, _MOST_RAW + 1 - len(kept))]
    parts[name] = bytes(kept)


def _json(out: bytes, file: Path, *, lines: bool) -> Any:
    """Return the JSON from a verb's file or its output; None if there is none."""
    if lines:
        return [json.loads(line) for line in out.splitlines()]
    text = file.read_bytes() if file.is_file() else out
    return json.loads(text) if text.strip() else None


def _error_message(err: bytes) -> str:
    """Return the error message of a verb, without the program's name."""
    lines = err.decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("roslens: error: ") if lines else ""


def _quoted(value: Any) -> Any:
    """Return plain data with terminal control and hidden characters of its texts made visible."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, list):
        return [_quoted(item) for item in value]
    if isinstance(value, dict):
        return {shown(name): _quoted(item) for name, item in value.items()}
    return value


def _cut(value: Any, rows: int, place: str, cut: dict[str, int]) -> Any:
    """Cut each list of plain data to `rows` entries; record the full lengths in `cut`."""
    if isinstance(value, dict):
        return {
            name: _cut(item, rows, f"{place}.{name}".lstrip("."), cut)
            for name, item in value.items()
        }
    if not isinstance(value, list):
        return value
    if len(value) > rows:
        cut[place] = len(value)
    return [_cut(item, rows, f"{place}[{i}]", cut) for i, item in enumerate(value[:rows])]
