"""Simulate the coverage of effects of factors in blocks: why blocks are analysed one by one."""

from __future__ import annotations

import math
from itertools import product

from roslens.analysis.calibration.intervals import BAR, covered
from roslens.analysis.calibration.results import Result, Section
from roslens.analysis.calibration.series import autoregressive, generator
from roslens.analysis.estimate import not_none
from roslens.analysis.leaks.leak import leak
from roslens.analysis.leaks.series import Series
from roslens.analysis.statistics.factorial import Observation, effects
from roslens.analysis.statistics.student import t_quantile
from roslens.recording.arrays import Floats, np

WORLDS = {
    "additive": "blocks add a common effect",
    "blocks change effects": "each block also has its own effect of the factor",
    "unequal variances": "one level varies three times as much",
}


def factors(count: int) -> Section:
    """Simulate main effect and interaction of a 3 x 2 design, by blocks and an additive model."""
    title = "Effects of factors in blocks"
    results = []
    for world, blocks in product(WORLDS, (5, 10)):
        y = _experiments(world, blocks, count)
        main = y[:, :, 1, :].mean(axis=2) - y[:, :, 0, :].mean(axis=2)
        interaction = (y[:, :, 1, 1] - y[:, :, 1, 0]) - (y[:, :, 0, 1] - y[:, :, 0, 0])
        _check(y, main, interaction)
        for name, contrast, squares in (
            ("main effect", main, 1.0),
            ("interaction", interaction, 4.0),
        ):
            cell = {"world": world, "effect": name, "blocks": f"{blocks} blocks"}
            hits = covered(contrast, 0.0)
            results.append(Result(title, cell, "block by block", hits, count, *BAR))
            for method, hits in _additive(y, contrast, squares).items():
                results.append(Result(title, cell, method, hits, count))
    worlds = ", ".join(f"*{name}* ({text})" for name, text in WORLDS.items())
    text = (
        f"Each block has 3 x 2 cells, each once. The worlds are {worlds}. Block by block is what "
        "`roslens.analysis.statistics.factorial` does. The additive model pools its residuals over "
        "all cells, with the t distribution. A mixed model's Wald interval has the same standard "
        "error in balanced blocks, but the normal distribution. Both are shown for comparison, "
        "without a bar."
    )
    return Section(title, text, ("blocks",), results)


def _experiments(world: str, blocks: int, count: int) -> Floats:
    """Draw values without any true effect, shape (count, blocks, 3, 2)."""
    rng = generator("factors", world, blocks)
    y: Floats = rng.standard_normal((count, blocks, 3, 2))
    if world == "unequal variances":
        y[:, :, 1] *= 3
    y += 2 * rng.standard_normal((count, blocks, 1, 1))
    if world == "blocks change effects":
        y += rng.standard_normal((count, blocks, 3, 1))
        y += rng.standard_normal((count, blocks, 3, 2))
    return y


def _additive(y: Floats, contrast: Floats, squares: float) -> dict[str, int]:
    """Count hits of the additive model's intervals; `squares`: sum of squared contrast weights."""
    blocks, a, b = y.shape[1:]
    cells = a * b
    residual = y - y.mean(axis=1, keepdims=True) - y.mean(axis=(2, 3), keepdims=True)
    residual += y.mean(axis=(1, 2, 3), keepdims=True)
    freedom = (blocks - 1) * (cells - 1)
    variance = (residual**2).sum(axis=(1, 2, 3)) / freedom
    error = np.sqrt(variance * squares / blocks)
    distance = np.abs(contrast.mean(axis=1))
    t, z = t_quantile(0.975, freedom), 1.959964
    return {
        "additive, t": int((distance <= t * error).sum()),
        "mixed, Wald": int((distance <= z * error).sum()),
    }


def _check(y: Floats, main: Floats, interaction: Floats) -> None:
    """Check that the contrasts above are those of `roslens.analysis.statistics.factorial`."""
    observations = [
        Observation({"f": f, "g": g}, float(y[0, block, f, g]), str(block))
        for block in range(y.shape[1])
        for f, g in product(range(3), range(2))
    ]
    computed = effects(observations, scale="difference")
    expected = {("f",): main[0].mean(), ("f", "g"): interaction[0].mean()}
    for names, value in expected.items():
        (effect,) = [e for e in computed if e.factors == names and e.levels[0] == 1]
        assert effect.value is not None
        assert math.isclose(effect.value, value, rel_tol=1e-9, abs_tol=1e-12)


INJECTED_TITLE = "Injected leaks"
_RATE_HZ = 500
_PAGE = 4096
_BEND_S = 300.0
_WITHIN_S = 30.0


def injected_leaks(count: int) -> Section:
    """Simulate how often intervals hold the bytes leaked per message, and bends are found."""
    results = []
    for chunk in (1040, 8208):
        for phi in (0.0, 0.9):
            hits = _covered(count, chunk, phi)
            cell = {"injected": f"{chunk:,} B per message", "phi": f"{phi:g}"}
            results.append(
                Result(INJECTED_TITLE, cell, "interval holds it", hits, count, 0.93, 0.97)
            )
    for phi in (0.0, 0.9):
        called, placed = _levelled(count, phi)
        cell = {"injected": "20 kB/s for 5 of 10 min", "phi": f"{phi:g}"}
        results.append(Result(INJECTED_TITLE, cell, "levels off", called, count, 0.95, None))
        results.append(Result(INJECTED_TITLE, cell, "within 30 s", placed, count, 0.95, None))
    text = (
        "There are five runs. Leaks: resident memory in whole pages is read five times per second "
        "for 60 s at 500 messages per second, with stationary AR(1) noise of 300 kB. Levelling "
        "off: 300 samples in 10 min, with noise of 30 kB. Within 30 s: the bend is stated at 300 "
        "s, give or take 30."
    )
    return Section(INJECTED_TITLE, text, (), results)


def _covered(count: int, chunk: int, phi: float) -> int:
    rng = generator("injected", chunk, phi)
    seconds = np.arange(0, 60, 0.2)
    messages = np.floor(_RATE_HZ * seconds)
    hits = 0
    for _ in range(count):
        noise = 300e3 * autoregressive(rng, (5, seconds.size), phi)
        grown = 5e7 + chunk * messages + noise
        runs = [Series(seconds, np.floor(row / _PAGE) * _PAGE, messages) for row in grown]
        growth = leak("rss", {}, runs).per_message
        hits += (
            growth.low is not None
            and growth.high is not None
            and growth.low <= chunk <= growth.high
        )
    return hits


def _levelled(count: int, phi: float) -> tuple[int, int]:
    rng = generator("levelled", phi)
    seconds = np.arange(0, 600, 2.0)
    shape = 5e7 + 20e3 * np.minimum(seconds, _BEND_S)
    called = placed = 0
    for _ in range(count):
        noise = 30e3 * autoregressive(rng, (5, seconds.size), phi)
        judged = leak("rss", {}, [Series(seconds, shape + row) for row in noise])
        bend = math.nan if judged.bend_s is None else not_none(judged.bend_s.value)
        called += judged.verdict == "levels_off"
        placed += judged.verdict == "levels_off" and abs(bend - _BEND_S) <= _WITHIN_S
    return called, placed
