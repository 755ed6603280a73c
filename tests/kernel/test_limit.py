"""Test when probes are switched off and on again, with a made-up clock and program.

What the kernel does is in tests/kernel/test_attach.py. Expected values are what the program made
here spends.
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from roslens.tracing.ftrace.limit import Limit
from roslens.tracing.ftrace.recorder import Instance
from roslens.tracing.ftrace.tracefs import PROBES, group_of

CALL_S, SHARE = 20e-6, 0.01
STEP_S = 0.05


class Program:
    """Two functions that are called at a rate, in a folder like that of tracefs."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.own = 0.0
        self.calls = {"often": 0.0, "seldom": 0.0}
        self.rates = {"often": 0.0, "seldom": 0.0}
        self.own_rate = 0.0
        self.profile = folder / "uprobe_profile"
        events = folder / "instance" / "events" / group_of("one")
        self.enabled = {name: events / name / "enable" for name in self.calls}
        for file in self.enabled.values():
            file.parent.mkdir(parents=True)
            file.write_text("1")
        self.passes(0)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "monotonic_ns", lambda: round(self.now * 1e9))
        monkeypatch.setattr(time, "process_time", lambda: self.own)
        formats = {f"{PROBES}:{name}": "" for name in self.calls}
        instance = SimpleNamespace(
            root=folder, path=folder / "instance", name="one", formats=formats
        )
        self.path = folder / "pauses"
        self.limit = Limit(cast("Instance", instance), self.path, CALL_S, SHARE)

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.own += self.own_rate * seconds
        for name, file in self.enabled.items():
            self.calls[name] += self.rates[name] * seconds * (file.read_text().endswith("1"))
        lines = [f"  /lib.so {name} {int(count)}" for name, count in self.calls.items()]
        self.profile.write_text("\n".join(lines))

    def runs(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.passes(STEP_S)
            self.limit.step()

    def pauses(self) -> list[float]:
        lines = self.path.read_text().split() if self.path.exists() else []
        return [int(line) / 1e9 for line in lines]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(tmp_path, monkeypatch)


@pytest.mark.parametrize("seconds", [3, 10, 30, 100])
def test_what_it_costs_stays_within_the_limit(program: Program, seconds: float) -> None:
    program.rates, program.own_rate = {"often": 2000, "seldom": 1}, 0.003
    program.runs(seconds)
    sentence = program.limit.cost_in_words()
    cost = sum(program.calls.values()) * CALL_S + program.own - 0.003 * 0.6
    assert cost / program.now <= SHARE + 1e-3 / program.now
    assert f"attaching cost {cost / program.now:.2%} of a CPU" in sentence
    # The probes use most of what the limit allows, except in the last pause.
    if seconds == 100:
        assert program.calls["often"] * CALL_S / program.now > 0.8 * (SHARE - 0.003)
    assert program.calls["seldom"] == pytest.approx(program.now, rel=0.01)
    assert program.pauses() == sorted(program.pauses())


def test_a_recording_of_five_seconds_costs_no_more(program: Program) -> None:
    program.rates = {"often": 5000, "seldom": 1}
    program.runs(5)
    assert sum(program.calls.values()) * CALL_S <= SHARE * program.now
    begin, end = program.pauses()[:2]
    assert 0.2 < begin < 0.4
    assert end > begin


def test_nothing_pauses_below_the_limit(program: Program) -> None:
    program.rates, program.own_rate = {"often": 200, "seldom": 1}, 0.003
    program.runs(60)
    assert program.pauses() == []
    assert "probes were on" not in program.limit.cost_in_words()


def test_no_pause_is_written_while_nothing_is_called(program: Program) -> None:
    """The recorder alone exceeds the limit, so switching probes off would save nothing."""
    program.own_rate = 0.05
    program.runs(10)
    assert program.pauses() == []
    program.rates = {"often": 2000, "seldom": 1}
    program.runs(60)
    begin, end = program.pauses()[:2]
    assert 10 < begin < 12
    assert end > begin


def test_each_pause_ends_even_if_the_recorder_takes_more_than_the_limit(program: Program) -> None:
    program.rates, program.own_rate = {"often": 2000, "seldom": 1}, 0.02
    program.runs(200)
    pauses = program.pauses()
    assert len(pauses) > 10
    recorded = [begin - end for end, begin in pairwise(pauses)][1::2]
    assert min(recorded) >= 0.5 - STEP_S
