"""Measure the memory of micro-ROS entities by kind: a build and a run per number of entities."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import building  # type: ignore[import-not-found]  # beside it
from connected import (  # type: ignore[import-not-found]
    agent,
    board,
    ended_well,
    say,
)

ENTITIES = ("publisher", "subscriber", "service", "client", "history")
RTOSES = {"none": "no RTOS", "freertos": "FreeRTOS", "threadx": "ThreadX"}
"""Systems that the application runs on, by the name of our source for each."""
_STACK_WAYS = {"freertos": "paint", "threadx": "stack_check"}
"""Second method of counting the stack, in addition to that of tasks.txt: ours, or the RTOS's."""
_POOLS = ("PUBLISHERS", "SUBSCRIPTIONS", "SERVICES", "CLIENTS")
_RUN_SECONDS = 120.0


def pools(options: argparse.Namespace, **counts: int) -> dict[str, int]:
    """Return options of micro-ROS for exactly these numbers of entities of each kind."""
    limits = {
        f"RMW_UXRCE_MAX_{pool}": counts.get(kind, 0)
        for kind, pool in zip(ENTITIES, _POOLS, strict=False)
    }
    return limits | {
        # The timeouts are long because a computer may be busy; memory does not depend on them.
        **{f"RMW_UXRCE_{name}_TIMEOUT": 10_000 for name in ("ENTITY_CREATION", "PUBLISH_RELIABLE")},
        # The timeout is 0 because no agent confirms that a read was cancelled, so the end of a
        # subscriber, service or client would always wait for all of it.
        "RMW_UXRCE_ENTITY_DESTROY_TIMEOUT": 0,
        "RMW_UXRCE_MAX_NODES": 1,
        "RMW_UXRCE_MAX_HISTORY": counts.get("history", options.slots),
        "RMW_UXRCE_STREAM_HISTORY": options.depth,
        "UCLIENT_CUSTOM_TRANSPORT_MTU": options.mtu,
    }


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Build and run the baseline and each number of an entity.

    Writes, below `folder`: ``baseline.elf``, ``about.json`` and per count, in ``<count>/``:
    ``firmware.elf``, ``tasks.txt`` (as vTaskList()), ``stacks.json``, ``heap.mtrace`` and
    ``ways.json``: static and dynamic memory as counted in another way.

    Raises
    ------
    BuildError, DeviceError
        A program does not compile, or does not run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    about = {
        "system": "micro-ROS",
        "entity": options.entity,
        "board": "qemu",
        "rtos": RTOSES[options.rtos],
        "mtu": options.mtu,
        "depth": options.depth,
        "slots": options.slots,
        "reliability": options.reliability,
        "payload_bytes": options.payload,
        "topics": options.topics,
    }
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    elfs = {count: folder / str(count) / "firmware.elf" for count in options.counts}
    elfs = {0: folder / "baseline.elf", **elfs}
    for elf in elfs.values():
        elf.parent.mkdir(exist_ok=True)
    say(f"{options.part}: compiling {len(elfs)} programs")
    building.build([_program(options, count, elf) for count, elf in elfs.items()])
    static = {count: _sizes(elf) for count, elf in elfs.items()}
    for elf in elfs.values():
        elf.with_suffix(".map").unlink()
    say(f"{options.part}: {' and '.join(map(str, options.counts))} on boards")
    building.at_once(_run, [elfs[count] for count in options.counts])
    for count in options.counts:
        of_count = elfs[count].parent
        system = of_count / "system.json"
        ways = {
            f"static_bytes_by_{way}": static[count][way] - static[0][way] for way in static[count]
        }
        ways |= json.loads(system.read_text())
        stack = ways.pop("stack_bytes_otherwise")
        if options.rtos in _STACK_WAYS:
            ways[f"stack_bytes_by_{_STACK_WAYS[options.rtos]}"] = stack
        (of_count / "ways.json").write_text(json.dumps(ways, indent=1) + "\n")
        system.unlink()
    return {"schema_version": 2, "part": options.part, "system": "micro-ROS"}


def _program(options: argparse.Namespace, count: int, elf: Path) -> building.Program:
    entity = options.entity
    number = max(1, count) if entity == "history" else count
    return building.Program(
        "cortex-m3",
        ["memory", "heap", "board_line", f"rtos_{options.rtos}"],
        elf,
        pools(options, **{entity: number}) if number else pools(options),
        {
            "KIND": ENTITIES.index(entity),
            "COUNT": number,
            "PAYLOAD": options.payload,
            "RELIABLE": int(options.reliability == "reliable"),
            "ONE_TOPIC": int(options.topics == "one"),
            "KEEP": min(options.keep, count),
            "TOUCH": options.touch,
        },
    )


def _run(elf: Path) -> None:
    with board(elf) as (process, line):
        log = elf.with_name("agent.log")
        with agent("serial", "-D", line, "-b", "115200", log=log):
            ended_well(process, _RUN_SECONDS, f"the board with {elf.parent.name} entities")
    for left in (log, elf.with_suffix(".emulator.log")):
        left.unlink()


def _sizes(elf: Path) -> dict[str, int]:
    """Return bytes of ``.data`` and ``.bss`` by the linker's map, and by the symbols of nm."""
    text = elf.with_suffix(".map").read_text(encoding="utf-8")
    sections = re.findall(r"^\.(?:data|bss)\s+0x[0-9a-f]+\s+0x([0-9a-f]+)", text, re.MULTILINE)
    tool = building.description()["targets"]["cortex-m3"]["command"][0].replace("gcc", "nm")
    done = subprocess.run([tool, str(elf)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise building.BuildError(f"{tool} failed: {done.stderr.strip()}")
    at = {name: int(where, 16) for where, _, name in map(str.split, done.stdout.splitlines())}
    return {
        "map": sum(int(size, 16) for size in sections),
        "nm": at["data_end"] - at["data_begin"] + at["bss_end"] - at["bss_begin"],
    }
