"""Builds the firmware and runs it on an emulated Arm MPS2 board."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

FIRMWARE = Path(__file__).resolve().parent / "firmware"
COMPILER = "arm-none-eabi-gcc"
EMULATOR = "qemu-system-arm"
BOARD_SECONDS = 30.0

_FLAGS = (
    *("-mcpu=cortex-m3", "-mthumb", "-std=c11", "-Os", "-Wall", "-Wextra", "-Werror"),
    *("-ffunction-sections", "-fdata-sections", "-nostartfiles", "--specs=nano.specs"),
    # Neither page alignment nor what differs between builds of the same.
    "-Wl,--gc-sections,-n,--build-id=none",
)
_COMMON = ("start", "board", "semihosting", "text")
_PARTS = {"memory": ("trace", "heap", "stack", "memory"), "transport": ("transport",)}


class ToolError(Exception):
    """A tool is missing, or failed; its text says which and how."""


def require() -> None:
    """See that compiler, C library and emulator are there.

    Raises
    ------
    ToolError
        One is not; says which and how it is installed.
    """
    missing = [name for name in (COMPILER, EMULATOR) if shutil.which(name) is None]
    if missing:
        raise ToolError(
            f"{' and '.join(missing)} not found; Debian, Ubuntu: sudo apt-get install "
            "gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
        )


def version(tool: str) -> str:
    """The first line of what a tool says about itself."""
    run = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    return run.stdout.partition("\n")[0].strip()


def build(part: str, elf: Path, definitions: Mapping[str, int]) -> None:
    """Compile and link one firmware; what is for debuggers is taken out.

    Parameters
    ----------
    part
        ``memory`` or ``transport``.
    definitions
        Constants of the C source by name.

    Raises
    ------
    ToolError
        It does not compile.
    """
    sources = [str(FIRMWARE / f"{name}.c") for name in (*_COMMON, *_PARTS[part])]
    constants = [f"-D{name}={value}" for name, value in definitions.items()]
    script = str(FIRMWARE / "mps2.ld")
    _run([COMPILER, *_FLAGS, *constants, "-T", script, *sources, "-o", str(elf)])
    _run(["arm-none-eabi-strip", "--strip-debug", "--keep-file-symbols", str(elf)])


def _run(command: list[str]) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        lines = [line for line in run.stderr.splitlines() if "error" in line] or [run.stderr]
        raise ToolError(f"{command[0]} failed: {lines[0].strip()}")


def emulator(elf: Path, serial_fd: int | None = None) -> list[str]:
    """The command that runs a firmware; its files appear in the working directory.

    Parameters
    ----------
    serial_fd
        A connected socket to which the board's UART is wired, inherited.
    """
    line = ["-chardev", f"socket,id=line,fd={serial_fd}", "-serial", "chardev:line"]
    return [
        *(EMULATOR, "-M", "mps2-an385", "-display", "none", "-monitor", "none"),
        *(line if serial_fd is not None else ["-serial", "none"]),
        *("-kernel", str(elf), "-semihosting-config", "enable=on,target=native"),
    ]


def run_board(elf: Path, folder: Path) -> None:
    """Run a firmware until it ends.

    Raises
    ------
    ToolError
        It does not end, or not well.
    """
    try:
        run = subprocess.run(
            emulator(elf),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=BOARD_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{elf.name} still ran after {BOARD_SECONDS:g} s") from error
    if run.returncode:
        said = run.stderr.strip().partition("\n")[0]
        raise ToolError(f"{elf.name} ended with status {run.returncode} {said}".rstrip())
