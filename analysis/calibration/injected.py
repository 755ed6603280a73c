"""Leaks of a known size, and memory that levels off: what the verdicts make of them."""

from __future__ import annotations

import math

import numpy as np

from roslens.analysis.calibration.results import Result, Section
from roslens.analysis.calibration.series import autoregressive, generator
from roslens.analysis.estimate import not_none
from roslens.analysis.leaks.leak import leak
from roslens.analysis.leaks.series import Series

TITLE = "Injected leaks"
_RATE_HZ = 500
_PAGE = 4096
_BEND_S = 300.0
_WITHIN_S = 30.0


def injected_leaks(count: int) -> Section:
    """How often the interval holds the bytes that leak per message, and bends are found."""
    results = []
    for chunk in (1040, 8208):
        for phi in (0.0, 0.9):
            hits = _covered(count, chunk, phi)
            cell = {"injected": f"{chunk:,} B per message", "phi": f"{phi:g}"}
            results.append(Result(TITLE, cell, "interval holds it", hits, count, 0.93, 0.97))
    for phi in (0.0, 0.9):
        called, placed = _levelled(count, phi)
        cell = {"injected": "20 kB/s for 5 of 10 min", "phi": f"{phi:g}"}
        results.append(Result(TITLE, cell, "levels off", called, count, 0.95, None))
        results.append(Result(TITLE, cell, "within 30 s", placed, count, 0.95, None))
    text = (
        "Five runs. Leaks: resident memory in whole pages, read five times per second for 60 s at "
        "500 messages per second, stationary AR(1) noise of 300 kB. Levelling off: 300 samples in "
        "10 min, noise of 30 kB; within 30 s: the bend is stated at 300 s, give or take 30."
    )
    return Section(TITLE, text, (), results)


def _covered(count: int, chunk: int, phi: float) -> int:
    rng = generator("injected", chunk, phi)
    seconds = np.arange(0, 60, 0.2)
    messages = np.floor(_RATE_HZ * seconds)
    hits = 0
    for _ in range(count):
        noise = 300e3 * autoregressive(rng, (5, seconds.size), phi)
        grown = 5e7 + chunk * messages + noise
        runs = [Series(seconds, np.floor(row / _PAGE) * _PAGE, messages) for row in grown]
        found = leak("rss", {}, runs).per_message
        hits += (
            found.low is not None and found.high is not None and found.low <= chunk <= found.high
        )
    return hits


def _levelled(count: int, phi: float) -> tuple[int, int]:
    rng = generator("levelled", phi)
    seconds = np.arange(0, 600, 2.0)
    shape = 5e7 + 20e3 * np.minimum(seconds, _BEND_S)
    called = placed = 0
    for _ in range(count):
        noise = 30e3 * autoregressive(rng, (5, seconds.size), phi)
        found = leak("rss", {}, [Series(seconds, shape + row) for row in noise])
        bend = math.nan if found.bend_s is None else not_none(found.bend_s.value)
        called += found.verdict == "levels_off"
        placed += found.verdict == "levels_off" and abs(bend - _BEND_S) <= _WITHIN_S
    return called, placed
