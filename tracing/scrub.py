"""Make commands and variables shareable: without absolute paths, user names or host names."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from roslens.recording.files import shipped

PREFIXES = ("ROS_", "RMW_", "FASTDDS_", "FASTRTPS_", "CYCLONEDDS_", "ZENOH_", "ROSLENS_TRACE_")
# Our own variables of a single run, which do not affect how it ran.
_OWN = {"ROS_LOG_DIR", "ROS_PYTHON_LOG_CONFIG_FILE"}
_PACKAGE = shipped("tracing")
_HOME = re.compile(r"(/(?:home|Users)/)[^/\s]+")
_PATH = re.compile(r"""(?<![\w.~/<>*-])(?:/[^\s:;,"'<>=|]+)+""")


def shared_command(command: Sequence[str], run: Path) -> list[str]:
    """Return a command for the manifest: the program's base name, paths relative or shortened."""
    if not command:
        return []
    return [Path(command[0]).name, *(shared_text(word, run) for word in command[1:])]


def shared_variables(environment: Mapping[str, str], run: Path) -> dict[str, str]:
    """Return the variables that affect how ROS 2 runs, for the manifest."""
    return {
        name: shared_text(value, run)
        for name, value in sorted(environment.items())
        if name.startswith(PREFIXES) and name not in _OWN
    }


def shared_text(text: str, run: Path) -> str:
    """Make the paths in `text` relative or shorter, and replace host and user names.

    A path begins with ``/``, and at least its first folder exists here, so that topics such as
    ``/scan`` are kept. Below the run's folder and the working directory, paths become relative;
    below home, they begin with ``~``; elsewhere only their last part is kept.
    """
    return _without_names(_PATH.sub(lambda match: _shared_path(match.group(), run), text))


def _without_names(text: str) -> str:
    host = socket.gethostname()
    for name, label in ((host, "<host>"), (host.partition(".")[0], "<host>"), (_user(), "<user>")):
        # Short names may also be ordinary words.
        if len(name) > 3 and name not in {"root", "user", "localhost"}:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", label, text)
    return text


def text_scrubber(run: Path) -> Callable[[str], str]:
    """Return `shared_text` for many texts of one run; it also replaces homes of unknown users."""
    by_path: dict[str, str] = {}

    def path_of(match: re.Match[str]) -> str:
        path = match.group()
        if path not in by_path:
            by_path[path] = _HOME.sub(r"\1<user>", _shared_path(path, run))
        return by_path[path]

    return lambda text: _without_names(_PATH.sub(path_of, text))


def _shared_path(text: str, run: Path) -> str:
    path = Path(os.path.normpath(text))
    # '//' begins a host, as in http://...; 'file:///' begins a path.
    if (text.startswith("//") and not text.startswith("///")) or not _is_path(path):
        return text
    resolved = run.resolve()
    for base, label in (
        (resolved, ""),
        (run.absolute(), ""),
        (_PACKAGE, "tracing/"),
        (Path.cwd(), ""),
        (Path.home(), "~/"),
    ):
        if base != Path("/") and path.is_relative_to(base):
            return label + str(path.relative_to(base))
    return f".../{path.name}"


def _is_path(path: Path) -> bool:
    """Return whether the path, or a folder on it below the root, exists."""
    return any(part.exists() for part in (path, *path.parents) if part != Path("/"))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
