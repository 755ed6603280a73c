"""Sample the state of the whole machine into ``system.parquet``.

Sources: ``/proc/stat``, ``loadavg``, ``meminfo``, ``net/dev``, ``diskstats``, cpufreq and thermal
zones of ``/sys``; values that a machine does not provide are null.
"""

from __future__ import annotations

import os
import re
import time

from roslens.recording.schema import SYSTEM
from roslens.tracing.host import cpu_mhz, cpu_times, temperature_c
from roslens.tracing.proc import read
from roslens.tracing.sampling.periodic import TableSampler

_HOST = "h0"
_SECTOR_BYTES = 512
"""The unit of diskstats, whatever a disk's own sectors are (Documentation/admin-guide/iostats)."""
_VIRTUAL_DISKS = re.compile(r"loop|ram|zram|dm-|md|sr")


class SystemSampler(TableSampler):
    """A sampler that reads the machine's state `hz` times a second."""

    table, thread_name = SYSTEM, "system sampler"

    def _round(self) -> None:
        self.rows.append(system_sample())


def system_sample() -> dict[str, object]:
    """Return the machine's current state; keys are the columns of `SYSTEM`."""
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    now = time.time_ns()
    cpu = {name: ticks * tick_ns for name, ticks in cpu_times().items()}
    memory = read("/proc/meminfo")
    stat = read("/proc/stat")
    return {
        "time_ns": now,
        "host": _HOST,
        "cpu_busy_ns": sum(v for k, v in cpu.items() if k not in {"idle", "iowait", "steal"}),
        "cpu_idle_ns": cpu.get("idle"),
        "cpu_iowait_ns": cpu.get("iowait"),
        "cpu_steal_ns": cpu.get("steal"),
        "load_1min": os.getloadavg()[0],
        "running": _number_after(stat, rb"^procs_running (\d+)"),
        "switches": _number_after(stat, rb"^ctxt (\d+)"),
        "memory_available_bytes": _number_after(memory, rb"^MemAvailable:\s+(\d+)", 1024),
        "swap_free_bytes": _number_after(memory, rb"^SwapFree:\s+(\d+)", 1024),
        "cpu_mhz": cpu_mhz(),
        "temperature_c": temperature_c(),
        **network_counters(read("/proc/net/dev").decode()),
        **disk_counters(read("/proc/diskstats").decode()),
    }


def network_counters(text: str) -> dict[str, int]:
    """Sum bytes and drops of ``/proc/net/dev``: the loopback's, and those of all other devices."""
    counters = dict.fromkeys(
        ("loopback_bytes", "received_bytes", "sent_bytes", "dropped_packets"), 0
    )
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        fields = [int(number) for number in rest.split()]
        counters["dropped_packets"] += fields[3] + fields[11]
        if name.strip() == "lo":
            counters["loopback_bytes"] += fields[8]
        else:
            counters["received_bytes"] += fields[0]
            counters["sent_bytes"] += fields[8]
    return counters


def disk_counters(text: str) -> dict[str, int]:
    """Sum bytes of ``/proc/diskstats`` over disks, without partitions and virtual disks on them."""
    read_sectors = written = 0
    names: list[str] = []
    for line in text.splitlines():
        fields = line.split()
        name = fields[2]
        # The kernel lists a disk before its partitions: sda, sda1; nvme0n1, nvme0n1p1.
        if _VIRTUAL_DISKS.match(name) or any(
            re.fullmatch(rf"{re.escape(disk)}p?\d+", name) for disk in names
        ):
            continue
        names.append(name)
        read_sectors += int(fields[5])
        written += int(fields[9])
    return {
        "disk_read_bytes": read_sectors * _SECTOR_BYTES,
        "disk_written_bytes": written * _SECTOR_BYTES,
    }


def _number_after(text: bytes, pattern: bytes, factor: int = 1) -> int | None:
    match = re.search(pattern, text, re.MULTILINE)
    return int(match.group(1)) * factor if match else None
