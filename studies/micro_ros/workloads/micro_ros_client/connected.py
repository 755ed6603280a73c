"""Start and end the agent and the emulated board; runs in the interpreter of ROS."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import building  # type: ignore[import-not-found]  # beside it

EMULATOR = "qemu-system-arm"
_END_SECONDS = 5.0
_LINE_SECONDS = 10.0


class DeviceError(Exception):
    """Error of a program that failed; its text says which and how."""


@contextmanager
def agent(*arguments: str, log: Path) -> Iterator[None]:
    """Run micro-ROS' agent for as long as the context lasts.

    Raises
    ------
    DeviceError
        The agent ended by itself.
    """
    command = [building.description()["agent"], *arguments]
    # The domain is that of the recording; a device leaves the choice to the agent.
    environment = {**os.environ, "XRCE_DOMAIN_ID_OVERRIDE": os.environ.get("ROS_DOMAIN_ID", "0")}
    with log.open("wb") as stream:
        # The agent ends when its input is closed.
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
        if process.poll() is not None:
            raise DeviceError(f"the agent ended with status {process.returncode}; see {log}")
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdin is not None
        process.stdin.close()


@contextmanager
def board(
    elf: Path, words: Sequence[str] = (), nic: str = "none"
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the emulated board with a firmware; yield its process and the path of its serial line.

    Its files appear in the folder of the firmware. `nic` is qemu's option for the connection of
    the Ethernet controller.

    Raises
    ------
    DeviceError
        There is no emulator, or it made no serial line.
    """
    arguments = "".join(f",arg={word}" for word in words)
    command = [
        *(EMULATOR, "-M", "mps2-an385", "-display", "none", "-monitor", "none"),
        *("-serial", "pty", "-nic", nic, "-kernel", elf.name),
        *("-semihosting-config", f"enable=on,target=native{arguments}"),
    ]
    # Libraries preloaded into ROS programs are not meant for the emulator.
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    output = elf.with_suffix(".emulator.log")
    try:
        with output.open("w") as stream:
            process = subprocess.Popen(
                command,
                cwd=elf.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                text=True,
            )
    except FileNotFoundError as error:
        raise DeviceError(f"{EMULATOR}: not found; apt-get install qemu-system-arm") from error
    try:
        yield process, _line(process, output)
    finally:
        process.kill()
        process.wait()


def _line(process: subprocess.Popen[str], output: Path) -> str:
    end = time.monotonic() + _LINE_SECONDS
    while time.monotonic() < end and process.poll() is None:
        match = re.search(r"/dev/pts/\d+", output.read_text())
        if match:
            return match[0]
        time.sleep(0.02)
    raise DeviceError(f"{EMULATOR} made no serial line: {output.read_text().strip()}")


STATUS = {
    6: "its memory is used up",
    9: "no agent answered",
    20: "an entity could not be made",
    21: "an entity could not be used",
    22: "an entity could not be ended",
    30: "no ROS node answered",
    31: "the ROS node did not acknowledge what was sent",
}


def ended_well(process: subprocess.Popen[str], seconds: float, what: str) -> None:
    """Wait for a device to end.

    Raises
    ------
    DeviceError
        The device does not end in time, or ends with an error.
    """
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired as error:
        raise DeviceError(f"{what} still ran after {seconds:g} s") from error
    if status:
        why = STATUS.get(status, "see its code in the folder 'device'")
        raise DeviceError(f"{what} ended with status {status}: {why}")


def say(text: str) -> None:
    """Print the progress."""
    print(text, file=sys.stderr, flush=True)
