"""Find out why a run recorded no ``ros2`` events, as far as causes can be checked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from roslens.tracing.lttng.daemon import GLOBAL_FOLDER, PROGRAMS_SOCKETS, answers

_RUNTIME_DISABLE = "TRACETOOLS_RUNTIME_DISABLE"
_SOCKET = re.compile(rb"lttng-ust-sock-(\d+)")


def diagnose_no_events(
    environ: Mapping[str, str],
    *,
    preload_expected: bool = False,
    home_of_daemon: Path | None = None,
) -> str:
    """Describe in one line likely causes of a run without ``ros2`` events, surest first.

    Parameters
    ----------
    environ
        The environment of the workload.
    preload_expected
        Whether ROS's events come only from a preloaded libtracetools (for the embedded ROS).
    home_of_daemon
        ``LTTNG_HOME`` (else ``HOME``) of the session daemon that recorded, if it has its own;
        default: our own home, and for root the machine's daemon.
    """
    home = _lttng_home(environ)
    daemon_home = home_of_daemon or _lttng_home(os.environ)
    library = _preloaded(environ)
    causes = []
    if preload_expected and library is None:
        causes.append(
            "libtracetools was not preloaded: LD_PRELOAD of the workload does not name one that "
            "exists (a wrapper such as sudo or env -i drops it)"
        )
    if environ.get(_RUNTIME_DISABLE) and not preload_expected:
        causes.append(
            f"{_RUNTIME_DISABLE} is set, by which libtracetools of ROS 2 Lyrical and newer emits "
            "nothing: unset it"
        )
    library = library or _installed(environ)
    daemons = _daemon_generations(daemon_home)
    if not daemons:
        causes.append("no session daemon listens: lttng-sessiond does not run, or has ended")
    if library is None:
        causes.append(
            "no libtracetools is on the library path: is ROS 2 sourced? For a program that was "
            "compiled for the embedded one, give --ros embedded, or --tracer native"
        )
    else:
        causes += _library_causes(library, environ, daemons)
    if home != daemon_home and (os.geteuid() != 0 or home_of_daemon is not None):
        causes.append(
            f"the workload's {'LTTNG_HOME' if environ.get('LTTNG_HOME') else 'HOME'} is not the "
            "session daemon's, so they cannot meet: give both the same LTTNG_HOME"
        )
    if not causes:
        causes.append(
            "the tracer and the library fit together, so the workload probably ran no ROS 2 node, "
            "ended before it made one, or ran it as another user or in a container; "
            "'lttng list --userspace' while it runs shows which processes have registered"
        )
    return "no ros2 events were recorded; likely cause: " + "; ".join(causes)


def ust_generations(file: Path) -> set[int]:
    """Return the generations of LTTng-UST's socket (6, 8, ...) that a library's bytes name."""
    try:
        return {int(number) for number in _SOCKET.findall(file.read_bytes())}
    except OSError:
        return set()


def _library_causes(library: Path, environ: Mapping[str, str], daemons: set[int]) -> list[str]:
    linked = _linked_ust(library, environ)
    if linked is None:
        return [f"{library.name} is built without LTTng (TRACETOOLS_DISABLED, or before Iron)"]
    if not linked.is_file():
        return [f"{library.name} needs {linked.name}, which is not found"]
    speaks = ust_generations(linked)
    if daemons and speaks and not speaks & daemons:
        cause = (
            f"ABI mismatch: {library.name} is linked with an LTTng-UST that registers at "
            f"lttng-ust-sock-{max(speaks)}, the session daemon listens at "
            f"lttng-ust-sock-{max(daemons)}; rebuild tracetools against the installed LTTng-UST"
        )
        return [cause]
    return []


def _lttng_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("LTTNG_HOME") or environ.get("HOME") or "/")


def _preloaded(environ: Mapping[str, str]) -> Path | None:
    for name in re.split("[: ]", environ.get("LD_PRELOAD", "")):
        if "libtracetools" in Path(name).name and Path(name).is_file():
            return Path(name)
    return None


def _installed(environ: Mapping[str, str]) -> Path | None:
    for folder in environ.get("LD_LIBRARY_PATH", "").split(":"):
        library = Path(folder) / "libtracetools.so"
        if folder and library.is_file():
            return library
    return None


def _linked_ust(library: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the LTTng-UST that the loader finds for `library`, or a bare name if none is found."""
    if shutil.which("ldd") is None:
        return None
    # LD_PRELOAD would put another library before the requested one.
    asked = {k: v for k, v in environ.items() if k != "LD_PRELOAD"}
    run = subprocess.run(
        ["ldd", str(library)], env=asked, text=True, capture_output=True, check=False
    )
    for line in run.stdout.splitlines():
        match = re.match(r"\s*(liblttng-ust(?:-[0-9a-f]{8})?\.so\S*) => (\S+)", line)
        if match:
            path = Path(match.group(2))
            return path if path.is_absolute() else Path(match.group(1))
    return None


def _daemon_generations(home: Path) -> set[int]:
    """Return the generations of the sockets at which a running session daemon accepts programs."""
    folders = [home / ".lttng"] if os.geteuid() else [home / ".lttng", GLOBAL_FOLDER]
    return {
        int(match.group(1))
        for folder in folders
        for path in folder.glob(PROGRAMS_SOCKETS)
        if (match := re.fullmatch(r"lttng-ust-sock-(\d+)", path.name)) and answers(path)
    }
