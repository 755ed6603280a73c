"""Facts about the machine, without its name."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from tracing.recording.manifest import Host

_CPU_TIMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


class HostWatch:
    """The machine's state just before a run; what happened to it meanwhile comes out of `facts`."""

    def __init__(self) -> None:
        self._before = cpu_times()
        self._load = os.getloadavg()[0]

    def facts(self) -> Host:
        """The facts, with the share of CPU time that other tenants took since the beginning."""
        return Host(
            cpu_count=os.cpu_count() or 1,
            cpu_model=cpu_model(),
            governor=governor(),
            kernel=platform.release(),
            memory_bytes=memory_bytes(),
            load_1min=round(self._load, 2),
            steal_fraction=steal_fraction(self._before, cpu_times()),
        )


def cpu_times() -> dict[str, int]:
    """CPU time of the whole machine since boot in ticks, by kind (proc(5), ``/proc/stat``)."""
    line = _read("/proc/stat").partition("\n")[0].split()
    return dict(zip(_CPU_TIMES, map(int, line[1:9]), strict=False)) if line[:1] == ["cpu"] else {}


def steal_fraction(before: dict[str, int], after: dict[str, int]) -> float | None:
    """The stolen share of all CPU time between two readings, 0..1; None if it cannot be told."""
    if "steal" not in before or "steal" not in after:
        return None
    total = sum(after.values()) - sum(before.values())
    if total <= 0:
        return None
    return round(max(0, after["steal"] - before["steal"]) / total, 5)


def cpu_model() -> str | None:
    """The processor's name."""
    found = re.search(
        r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE
    )
    return " ".join(found.group(1).split()) if found else (platform.processor() or None)


def governor() -> str | None:
    """The frequency governors of all CPUs, such as ``performance``; None where there is none."""
    folder = Path("/sys/devices/system/cpu")
    found = {_read(path).strip() for path in folder.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return ", ".join(sorted(found - {""})) or None


def memory_bytes() -> int | None:
    """The machine's memory."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    return int(found.group(1)) * 1024 if found else None


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
