"""Programs of micro-ROS, compiled with the options of each; runs in the interpreter of ROS."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(_HERE.parents[1] / "ros"))
from configured import configured  # type: ignore[import-not-found]  # noqa: E402

VARIABLE = "MICRO_ROS"
"""Names the description of the compiled micro-ROS, see `prepare`."""
DEVICE = _HERE / "device"
_PROGRAM, _MAP = "program", "program.map"
_ON_BOARD = ("start", "board", "semihosting", "text", "stack")
_WRAPPED = ("malloc", "calloc", "realloc", "free", "_sbrk")
_LINKED = (
    *("-nostartfiles", "-T", str(DEVICE / "mps2.ld")),
    # Neither page alignment nor what differs between builds of the same.
    *("-Wl,-n,--build-id=none", "-lc", "-lgcc"),
)


class BuildError(Exception):
    """A program does not compile; its text says why."""


def description() -> dict[str, Any]:
    """What `roslens.tracing.ros.micro_ros.described` says, and the path of the agent.

    Raises
    ------
    BuildError
        There is no micro-ROS.
    """
    path = os.environ.get(VARIABLE, "")
    if not path:
        raise BuildError(f"no micro-ROS: {VARIABLE} is not set; record the suite micro-ros")
    found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return found


def build(
    target: str,
    sources: Sequence[str],
    output: Path,
    options: Mapping[str, object],
    definitions: Mapping[str, object],
) -> None:
    """Compile and link a program, or take the same of another run; its linker's map goes beside.

    Parameters
    ----------
    target
        ``host`` or ``cortex-m3``.
    sources
        Names in the folder ``device``.
    output
        The program; the map is ``NAME.map``.
    options
        Of micro-ROS.
    definitions
        Constants of the sources.

    Raises
    ------
    BuildError
        It does not compile.
    """
    told = description()["targets"][target]
    values = told["values"] | {name: str(value) for name, value in options.items()}
    headers = {x: configured(Path(y), values) for x, y in told["headers"].items()}
    own = [DEVICE / f"{name}.c" for name in sources]
    link = ["-pthread"]
    if target != "host":
        own += [DEVICE / f"{name}.c" for name in _ON_BOARD]
        wrapped = _WRAPPED if "heap" in sources else ()
        link = [*(f"-Wl,--wrap={name}" for name in wrapped), *_LINKED]
    command = [
        *(f"-I{DEVICE}", *(f"-D{k}={v}" for k, v in definitions.items())),
        *(*map(str, own), *told["files"], told["library"], "-Wl,--gc-sections", *link),
    ]
    ours = (*own, *sorted(DEVICE.glob("*.h")), DEVICE / "mps2.ld")
    written = [x.read_text(encoding="utf-8") for x in ours]
    key = hashlib.sha256(repr((told["command"], headers, command, written)).encode()).hexdigest()
    made = Path(os.environ[VARIABLE]).parent / "programs" / key[:16]
    if not (made / _PROGRAM).is_file():
        _compile(told["command"], headers, command, made, output.name)
    shutil.copy(made / _PROGRAM, output)
    shutil.copy(made / _MAP, output.with_suffix(".map"))


def _compile(
    begin: Sequence[str], headers: Mapping[str, str], rest: Sequence[str], made: Path, name: str
) -> None:
    made.parent.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
        folder = Path(scratch)
        for header, text in headers.items():
            place = folder / "include" / header
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        made.mkdir(mode=0o700, exist_ok=True)
        command = [
            # First: what is made of this program's options.
            *(begin[0], f"-I{folder / 'include'}", *begin[1:], *rest),
            *(f"-Wl,-Map={folder / _MAP}", "-o", str(folder / _PROGRAM)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [x for x in done.stderr.splitlines() if "error" in x or "undefined" in x]
            raise BuildError(f"{name}: {(lines or [done.stderr.strip()])[0]}")
        # The program last: where it is, so is its map.
        for file in (_MAP, _PROGRAM):
            (folder / file).replace(made / file)
