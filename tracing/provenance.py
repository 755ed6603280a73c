"""Record what software a run was made with, besides ROS 2; copy the RMW's configuration."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from roslens.recording.files import write_atomically

FOLDER = "provenance"
"""Folder inside the run's folder for copies of configuration files."""

CONFIGURATION = (
    "CYCLONEDDS_URI",
    "FASTDDS_DEFAULT_PROFILES_FILE",
    "FASTRTPS_DEFAULT_PROFILES_FILE",
    "RMW_CONNEXT_CYCLONE_URI",
    "NDDS_QOS_PROFILES",
    "ZENOH_ROUTER_CONFIG_URI",
    "ZENOH_SESSION_CONFIG_URI",
    "ROS_PYTHON_LOG_CONFIG_FILE",
)
"""Variables that contain the RMW's configuration as paths, ``file://`` URIs, or the text itself."""

_PACKAGES = (
    *("lttng-*", "liblttng-*", "liburcu*", "babeltrace2", "gcc", "g++", "clang", "libc6"),
    *("libstdc++6", "ros-*", "libfastcdr*", "libfastrtps*", "libddsc*", "python3"),
)
_LARGEST = 1 << 20
_CONTAINER_ID = re.compile(r"(docker|libpod|containerd|lxc|kubepods)")


@cache
def system_packages() -> dict[str, str]:
    """Return the versions of relevant installed Debian packages; empty without dpkg."""
    program = shutil.which("dpkg-query")
    if program is None:
        return {}
    line = "${db:Status-Abbrev} ${Package} ${Version}\n"
    try:
        run = subprocess.run(
            [program, "-W", "-f", line, *_PACKAGES],
            text=True,
            capture_output=True,
            check=False,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = (entry.split() for entry in run.stdout.splitlines() if entry.startswith("ii"))
    return {row[1]: row[2] for row in rows if len(row) == 3}


@cache
def operating_system() -> str | None:
    """Return the name of the operating system, such as ``Debian GNU/Linux 12 (bookworm)``."""
    with suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    return None


@cache
def compiler() -> str | None:
    """Return the C compiler's version line, or None without a compiler."""
    program = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if program is None:
        return None
    run = subprocess.run([program, "--version"], text=True, capture_output=True, check=False)
    return run.stdout.partition("\n")[0].strip() or None


@cache
def container() -> str | None:
    """Return the image of our container if known, else its kind; None outside of containers."""
    image = os.environ.get("ROSLENS_IMAGE")
    if image:
        return image
    with suppress(OSError):
        text = Path("/run/.containerenv").read_text(encoding="utf-8")
        match = re.search(r'^image="?([^"\n]+)"?$', text, re.MULTILINE)
        return f"podman {match.group(1)}" if match else "podman"
    if Path("/.dockerenv").exists():
        return "docker"
    with suppress(OSError):
        match = _CONTAINER_ID.search(Path("/proc/1/cgroup").read_text(encoding="utf-8"))
        if match:
            return match.group(1)
    return os.environ.get("container") or None  # noqa: SIM112 (systemd-nspawn's and lxc's name)


def copy_configuration(environment: Mapping[str, str], run: Path) -> tuple[list[str], list[str]]:
    """Copy the files named by the `CONFIGURATION` variables into ``<run>/provenance``.

    Returns
    -------
    tuple
        The copies, relative to the run's folder; and what could not be copied, one line each.
    """
    copied, complaints = [], []
    for variable in CONFIGURATION:
        value = environment.get(variable)
        if not value:
            continue
        if value.lstrip().startswith("<"):
            copied.append(_write(run, f"{variable}.xml", value.encode()))
            continue
        for path in _paths(value):
            try:
                with path.open("rb") as stream:
                    text = stream.read(_LARGEST + 1)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                complaints.append(f"{variable}: {path.name} could not be copied: {reason}")
                continue
            if len(text) > _LARGEST:
                complaints.append(f"{variable}: {path.name} is larger than 1 MiB and not copied")
                continue
            copied.append(_write(run, f"{variable}-{path.name}", text))
    return copied, complaints


def _paths(value: str) -> Iterator[Path]:
    # Cyclone DDS takes a comma-separated list, Connext a semicolon-separated one.
    for part in re.split(r"[,;]", value):
        text = part.strip()
        if text:
            uri = urlsplit(text)
            yield Path(unquote(uri.path) if uri.scheme == "file" else text)


def _write(run: Path, name: str, text: bytes) -> str:
    folder = run / FOLDER
    folder.mkdir(exist_ok=True)
    write_atomically(folder / name, text)
    return f"{FOLDER}/{name}"
