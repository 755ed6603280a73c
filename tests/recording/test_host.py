"""Test that the host's state is judged against limits."""

import os
import resource

import pytest

from roslens.recording.manifest import Host
from roslens.tracing.host import (
    HostLimits,
    HostWatch,
    judge_host,
    other_cpu_fraction,
    steal_fraction,
)

CALM = {
    "cpu_count": 2,
    "memory_bytes": 1000,
    "memory_available_bytes": 500,
    "load_1min": 1.0,
    "steal_fraction": 0.0,
    "other_cpu_fraction": 0.0,
    "swapped_pages": 0,
    "governor": "performance",
    "turbo": False,
    "temperature_c": 50.0,
}


@pytest.mark.parametrize(
    ("change", "limits", "said"),
    [
        ({}, {"governor": ("performance",), "turbo": False}, None),
        ({"steal_fraction": 0.3}, {}, "other tenants of the machine took 30% of the CPU time"),
        ({"steal_fraction": 0.3}, {"steal": None}, None),
        ({"other_cpu_fraction": 0.5}, {}, "other programs used 50% of the CPU time (limit 20%)"),
        ({"load_1min": 2.5}, {}, "the load was 2.5 on 2 CPUs before the run (limit 2)"),
        ({"memory_available_bytes": 20}, {}, "only 2% of the memory was available"),
        ({"swapped_pages": 3}, {}, "3 pages were swapped during the run"),
        ({"swapped_pages": 3}, {"swapping": False}, None),
        ({"temperature_end_c": 95.0}, {}, "a sensor read 95 degrees C (limit 90)"),
        ({"governor": "performance, powersave"}, {"governor": ("performance",)}, "powersave"),
        ({"turbo": True}, {"turbo": False}, "the turbo was on"),
    ],
)
def test_what_lies_beyond_a_limit_is_said(change, limits, said):
    lines = judge_host(Host.model_validate({**CALM, **change}), HostLimits(**limits))
    if said is None:
        assert lines == []
    else:
        (line,) = lines
        assert said in line


def test_what_is_not_known_disturbs_nobody():
    assert judge_host(Host(cpu_count=2), HostLimits(governor=("performance",), turbo=True)) == []


def test_shares_by_hand():
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    before = dict.fromkeys(names, 0)
    ticks = os.sysconf("SC_CLK_TCK")
    # 10 s of CPU time: 4 used, 3 of them by us; 5 idle; 1 stolen.
    after = {**before, "user": 4 * ticks, "idle": 5 * ticks, "steal": ticks}
    assert steal_fraction(before, after) == 0.1
    assert other_cpu_fraction(before, after, 3_000_000_000) == 0.1
    assert other_cpu_fraction(before, after, None) is None
    assert other_cpu_fraction(before, before, 0) is None


def test_own_cpu_time_is_not_that_of_others():
    watch = HostWatch()
    begin = resource.getrusage(resource.RUSAGE_SELF)
    used = 0.0
    while used < 1.5:
        now = resource.getrusage(resource.RUSAGE_SELF)
        used = now.ru_utime + now.ru_stime - begin.ru_utime - begin.ru_stime
    whole, without = watch.facts(0), watch.facts(round(used * 1e9))
    assert whole.other_cpu_fraction > without.other_cpu_fraction
    assert whole.cpu_count == os.cpu_count()
    assert whole.memory_available_bytes <= whole.memory_bytes
