"""Describe the machine without its name: hardware, state before a run, disturbances of the run."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from pydantic import Field

from roslens.recording.manifest import Host
from roslens.recording.models import Frozen

_CPU_TIMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_CPUS = Path("/sys/devices/system/cpu")


class HostLimits(Frozen):
    """Limits beyond which a run counts as disturbed by its host; null: no limit."""

    steal: float | None = Field(
        default=0.05, ge=0, le=1, description="share of CPU time that other tenants took"
    )
    other_cpu: float | None = Field(
        default=0.2, ge=0, le=1, description="share of all CPU time that other programs used"
    )
    load_per_cpu: float | None = Field(
        default=1.0, ge=0, description="load average per CPU just before the run"
    )
    free_memory: float | None = Field(
        default=0.05, ge=0, le=1, description="share of the memory that must be available"
    )
    swapping: bool = Field(default=True, description="whether pages swapped meanwhile disturb")
    temperature_c: float | None = Field(default=90.0, description="of the hottest sensor")
    governor: tuple[str, ...] | None = Field(
        default=None, description="frequency governors that are allowed, such as [performance]"
    )
    turbo: bool | None = Field(default=None, description="whether the turbo has to be on or off")
    throttling: bool = Field(
        default=True, description="whether cores slowed for their heat meanwhile disturb"
    )


class HostWatch:
    """The machine's state just before a run; `facts` adds the changes since then.

    Parameters
    ----------
    limits
        The limits that `disturbances` applies.
    """

    def __init__(self, limits: HostLimits | None = None) -> None:
        self.limits = limits or HostLimits()
        self._before = cpu_times()
        self._load = os.getloadavg()[0]
        self._memory = _meminfo()
        self._swapped = _swapped_pages()
        self._temperature = temperature_c()
        self._mhz = cpu_mhz()
        self._throttled = throttled()

    def facts(self, own_cpu_ns: int | None = None) -> Host:
        """Return the facts about the host, including the changes since the start.

        Parameters
        ----------
        own_cpu_ns
            CPU time that the workload and the recorder used since the start; None: unknown.
        """
        after = cpu_times()
        swapped = _swapped_pages()
        slowed = throttled()
        available, total = self._memory.get("MemAvailable"), self._memory.get("SwapTotal")
        free_swap = self._memory.get("SwapFree")
        return Host(
            cpu_count=os.cpu_count() or 1,
            cpu_model=cpu_model(),
            governor=governor(),
            kernel=platform.release(),
            preemption=preemption(),
            virtual_machine=virtual_machine(),
            memory_bytes=self._memory.get("MemTotal"),
            load_1min=round(self._load, 2),
            steal_fraction=steal_fraction(self._before, after),
            turbo=turbo(),
            memory_available_bytes=available,
            swap_used_bytes=None if total is None or free_swap is None else total - free_swap,
            swapped_pages=(
                None if swapped is None or self._swapped is None else swapped - self._swapped
            ),
            temperature_c=self._temperature,
            temperature_end_c=temperature_c(),
            cpu_mhz=self._mhz,
            throttled=(
                None if slowed is None or self._throttled is None else slowed - self._throttled
            ),
            other_cpu_fraction=other_cpu_fraction(self._before, after, own_cpu_ns),
        )

    def disturbances(self, host: Host) -> list[str]:
        """Return which facts exceed the limits, one line each."""
        return judge_host(host, self.limits)


def judge_host(host: Host, limits: HostLimits) -> list[str]:
    """Return which facts about a host exceed the limits, one line each; unknown facts do not."""
    return [*_judge_cpu(host, limits), *_judge_memory(host, limits), *_judge_clock(host, limits)]


def _judge_cpu(host: Host, limits: HostLimits) -> Iterator[str]:
    for value, limit, cause in (
        (host.steal_fraction, limits.steal, "other tenants of the machine took"),
        (host.other_cpu_fraction, limits.other_cpu, "other programs used"),
    ):
        if value is not None and limit is not None and value > limit:
            yield f"{cause} {value:.0%} of the CPU time (limit {limit:.0%})"
    load, per_cpu = host.load_1min, limits.load_per_cpu
    cpus = host.cpu_count
    if load is None or per_cpu is None or cpus is None:
        return
    if load > per_cpu * cpus:
        yield (f"the load was {load:g} on {cpus} CPUs before the run (limit {per_cpu * cpus:g})")


def _judge_memory(host: Host, limits: HostLimits) -> Iterator[str]:
    available, total = host.memory_available_bytes, host.memory_bytes
    if available is not None and total and limits.free_memory is not None:
        share = available / total
        if share < limits.free_memory:
            yield f"only {share:.0%} of the memory was available (limit {limits.free_memory:.0%})"
    if limits.swapping and host.swapped_pages:
        yield f"{host.swapped_pages} pages were swapped during the run"


def _judge_clock(host: Host, limits: HostLimits) -> Iterator[str]:
    hottest = max(host.temperature_c or 0, host.temperature_end_c or 0)
    if limits.temperature_c is not None and hottest > limits.temperature_c:
        yield f"a sensor read {hottest:g} degrees C (limit {limits.temperature_c:g})"
    if limits.throttling and host.throttled:
        yield f"cores were slowed for their heat {host.throttled:,} times during the run"
    if limits.governor is not None and host.governor is not None:
        forbidden = sorted(set(host.governor.split(", ")) - set(limits.governor))
        if forbidden:
            yield f"the frequency governor was {', '.join(forbidden)}"
    if limits.turbo is not None and host.turbo not in (None, limits.turbo):
        yield f"the turbo was {'on' if host.turbo else 'off'}"


def cpu_times() -> dict[str, int]:
    """Return the machine's CPU time since boot in ticks, by kind (proc(5), ``/proc/stat``)."""
    line = _read("/proc/stat").partition("\n")[0].split()
    return dict(zip(_CPU_TIMES, map(int, line[1:9]), strict=False)) if line[:1] == ["cpu"] else {}


def steal_fraction(before: dict[str, int], after: dict[str, int]) -> float | None:
    """Return the stolen share of all CPU time between two readings, 0..1, or None if unknown."""
    if "steal" not in before or "steal" not in after:
        return None
    total = sum(after.values()) - sum(before.values())
    if total <= 0:
        return None
    return round(max(0, after["steal"] - before["steal"]) / total, 5)


def other_cpu_fraction(
    before: dict[str, int], after: dict[str, int], own_ns: int | None
) -> float | None:
    """Return the share of all CPU time that others used between two readings, or None if unknown.

    The kernel counts in ticks of 10 ms per CPU, so below a second of CPU time the share is None.
    """
    if own_ns is None or not before or not after:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    total = (sum(after.values()) - sum(before.values())) / ticks
    if total < 1.0:
        return None
    idle = sum(after[kind] - before[kind] for kind in ("idle", "iowait", "steal")) / ticks
    return round(min(1.0, max(0.0, total - idle - own_ns / 1e9) / total), 4)


def cpu_model() -> str | None:
    """Return the processor's name."""
    match = re.search(
        r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE
    )
    return " ".join(match.group(1).split()) if match else (platform.processor() or None)


def governor() -> str | None:
    """Return the frequency governors of all CPUs, such as ``performance``, or None without any."""
    governors = {_read(path).strip() for path in _CPUS.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return ", ".join(sorted(governors - {""})) or None


def turbo() -> bool | None:
    """Return whether CPUs may exceed their base clock, or None if the kernel does not say."""
    for path, meaning_of_1 in (
        (_CPUS / "intel_pstate/no_turbo", False),
        (_CPUS / "cpufreq/boost", True),
    ):
        text = _read(path).strip()
        if text in {"0", "1"}:
            return meaning_of_1 if text == "1" else not meaning_of_1
    return None


def cpu_mhz() -> float | None:
    """Return the mean clock of the CPUs in MHz, or None if the kernel does not say."""
    kilohertz = _numbers(_CPUS.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
    if kilohertz:
        return round(sum(kilohertz) / len(kilohertz) / 1000, 1)
    megahertz = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", _read("/proc/cpuinfo"), re.MULTILINE)
    return round(sum(map(float, megahertz)) / len(megahertz), 1) if megahertz else None


def temperature_c() -> float | None:
    """Return the hottest thermal zone's temperature in degrees Celsius, or None without any."""
    millidegrees = _numbers(Path("/sys/class/thermal").glob("thermal_zone*/temp"))
    return round(max(millidegrees) / 1000, 1) if millidegrees else None


def throttled() -> int | None:
    """Return how often cores were throttled for heat since boot, or None if unknown."""
    counts = _numbers(_CPUS.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))
    return sum(counts) if counts else None


def preemption() -> str | None:
    """Return the preemption model: ``rt``, ``full``, ``lazy``, ``voluntary`` or ``none``.

    For a kernel that chooses the model when it starts (``PREEMPT_DYNAMIC``), debugfs states it,
    which only root may read; otherwise ``dynamic``. None if the kernel's build does not say.
    """
    built = platform.version()
    if "PREEMPT_RT" in built or _read("/sys/kernel/realtime").strip() == "1":
        return "rt"
    chosen = re.search(r"\((\w+)\)", _read("/sys/kernel/debug/sched/preempt"))
    if chosen:
        return chosen.group(1)
    return (
        "dynamic" if "PREEMPT_DYNAMIC" in built else "full" if "PREEMPT" in built.split() else None
    )


@cache
def virtual_machine() -> str | None:
    """Return the hypervisor as ``systemd-detect-virt --vm`` names it; ``none`` without one.

    Without that program: ``some`` if the processor reports a hypervisor, else None.
    """
    program = shutil.which("systemd-detect-virt")
    if program is not None:
        with suppress(OSError, subprocess.TimeoutExpired):
            run = subprocess.run(
                [program, "--vm"], text=True, capture_output=True, check=False, timeout=10
            )
            if run.stdout.strip():
                return run.stdout.strip()
    return (
        "some"
        if re.search(r"^flags\s*:.*\bhypervisor\b", _read("/proc/cpuinfo"), re.MULTILINE)
        else None
    )


def _meminfo() -> dict[str, int]:
    pairs = re.findall(r"^(\w+):\s+(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    return {name: int(value) * 1024 for name, value in pairs}


def _swapped_pages() -> int | None:
    counts = re.findall(r"^pswp(?:in|out) (\d+)$", _read("/proc/vmstat"), re.MULTILINE)
    return sum(map(int, counts)) if counts else None


def _numbers(paths: Iterable[Path]) -> list[int]:
    numbers = []
    for path in paths:
        with suppress(ValueError):
            numbers.append(int(_read(path)))
    return numbers


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
