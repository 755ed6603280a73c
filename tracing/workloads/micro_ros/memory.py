"""What entities take of which memory: a build and a run for each number of them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from roslens.tracing.workloads.micro_ros import toolchain
from roslens.tracing.workloads.micro_ros.toolchain import FIRMWARE, ToolError

ENTITIES = ("publisher", "subscriber", "service", "client", "history")
_STACK_WORDS = {"app": 1024}
_CLOCK_HZ = 25_000_000


@dataclass(frozen=True)
class MemorySettings:
    """What is built.

    Attributes
    ----------
    counts
        Numbers of entities, or slots.
    mtu, depth
        A slot of the history holds mtu x depth bytes.
    stack_first, stack_each
        Bytes of its stack that the task uses deliberately, and how many more per entity.
    keep
        Allocations that are not given back (0: none), to see that it is noticed.
    board
        ``qemu``, or a command that does the same with a real board.
    """

    counts: Sequence[int]
    mtu: int = 512
    depth: int = 4
    stack_first: int = 1024
    stack_each: int = 16
    keep: int = 0
    board: str = "qemu"


def measure(entity: str, settings: MemorySettings, output: Path, traces: Path) -> None:
    """Build and run the baseline and each number of an entity.

    Written: ``<output>/baseline.elf``, ``<output>/about.json`` and per count, in
    ``<output>/<count>/``: ``firmware.elf``, ``tasks.txt`` (as vTaskList()), ``stacks.json``
    (words of each task's stack), ``heap.mtrace``; and ``<traces>/<count>/``, a CTF trace.

    Raises
    ------
    ToolError
        Something does not compile, run, or leave its files.
    """
    output.mkdir(parents=True, exist_ok=True)
    about = {"entity": entity, **asdict(settings), "counts": list(settings.counts)}
    (output / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    for count in (0, *settings.counts):
        print(f"{entity} x {count}", file=sys.stderr, flush=True)
        folder = output / str(count)
        folder.mkdir(exist_ok=True)
        started_ns = time.time_ns()
        if settings.board == "qemu":
            _emulate(entity, count, settings, folder)
        else:
            _on_board(settings.board, entity, count, settings, folder)
        if count == 0:
            (folder / "firmware.elf").rename(output / "baseline.elf")
            for left in folder.iterdir():
                left.unlink()
            folder.rmdir()
            continue
        expected = ("firmware.elf", "tasks.txt", "stacks.json", "heap.mtrace")
        missing = [name for name in expected if not (folder / name).is_file()]
        if missing:
            raise ToolError(f"{entity} x {count}: the board left no {', '.join(missing)}")
        _keep_trace(folder, traces / str(count), started_ns)


def _emulate(entity: str, count: int, settings: MemorySettings, folder: Path) -> None:
    elf = folder / "firmware.elf"
    toolchain.build(
        "memory",
        elf,
        {
            "KIND": ENTITIES.index(entity),
            "COUNT": count,
            "MTU": settings.mtu,
            "DEPTH": settings.depth,
            "STACK_FIRST": settings.stack_first,
            "STACK_EACH": settings.stack_each,
            "KEEP": settings.keep,
        },
    )
    toolchain.run_board(elf.resolve(), folder)
    (folder / "stacks.json").write_text(json.dumps(_STACK_WORDS) + "\n", encoding="utf-8")


def _on_board(
    command: str, entity: str, count: int, settings: MemorySettings, folder: Path
) -> None:
    variables = {
        "MICRO_ROS_ENTITY": entity,
        "MICRO_ROS_COUNT": str(count),
        "MICRO_ROS_MTU": str(settings.mtu),
        "MICRO_ROS_DEPTH": str(settings.depth),
    }
    run = subprocess.run(
        shlex.split(command), cwd=folder, env={**os.environ, **variables}, check=False
    )
    if run.returncode:
        raise ToolError(f"the board's command ended with status {run.returncode}")
    if count == 0 and not (folder / "firmware.elf").is_file():
        raise ToolError("the board's command left no firmware.elf of the baseline (0 entities)")


def _keep_trace(folder: Path, trace: Path, started_ns: int) -> None:
    """The device's stream and the metadata that belongs to it, as a trace of the run."""
    stream = folder / "stream"
    if not stream.is_file():
        return
    trace.mkdir(parents=True)
    stream.rename(trace / "stream")
    metadata = folder / "metadata"
    if metadata.is_file():
        metadata.rename(trace / "metadata")
        return
    # The board's counter began when the emulator did, as exactly as it takes to start.
    seconds, rest = divmod(started_ns, 1_000_000_000)
    text = (FIRMWARE / "trace.tsdl").read_text(encoding="utf-8")
    text = text.replace("@SECONDS@", str(seconds))
    text = text.replace("@TICKS@", str(rest * _CLOCK_HZ // 1_000_000_000))
    (trace / "metadata").write_text(text, encoding="utf-8")
