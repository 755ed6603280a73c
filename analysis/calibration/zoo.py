"""Simulate shapes that memory has over time, and the verdicts on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from roslens.analysis.calibration.results import Result, Section
from roslens.analysis.calibration.series import autoregressive, generator
from roslens.analysis.leaks.leak import leak
from roslens.analysis.leaks.series import Series
from roslens.analysis.verdicts.statement import Verdict
from roslens.recording.arrays import Floats, NDArray, np

TITLE = "Shapes of memory"
RUNS, LENGTH = 5, 600.0
MB = 1e6

Shape = Callable[[Floats, np.random.Generator], NDArray[np.floating[Any]]]
"""Function from seconds to the memory of one run in bytes."""

_RIGHT: Mapping[str, tuple[Verdict, ...]] = {
    "leak": ("climbs",),
    "flat": ("stable",),
    "settles": ("levels_off", "steep_start_then_stable", "stable"),
    "falls": (),
    "open": (),
}
"""Verdicts that are true of each kind; `not_enough_evidence` is wrong of none."""

_VERDICTS: tuple[Verdict, ...] = ("climbs", "stable", "levels_off", "steep_start_then_stable")


def _steps(at: Floats, size: float) -> Shape:
    return lambda t, _: size * np.searchsorted(at, t, side="right")


def _poisson(every: float, size: float) -> Shape:
    def shape(t: Floats, rng: np.random.Generator) -> NDArray[np.floating[Any]]:
        at = np.cumsum(rng.exponential(every, 200))
        return size * np.searchsorted(at, t, side="right")

    return shape


def _saw(period: float, size: float, *, in_phase: bool = True, leak: float = 0) -> Shape:
    def shape(t: Floats, rng: np.random.Generator) -> NDArray[np.floating[Any]]:
        begin = 0.0 if in_phase else rng.uniform(0, period)
        return size * ((t + begin) % period) / period + leak * t

    return shape


def _uneven_saw(period: float, size: float) -> Shape:
    """Return a shape of teeth whose length varies by a fifth."""

    def shape(t: Floats, rng: np.random.Generator) -> NDArray[np.floating[Any]]:
        falls = np.cumsum(period * rng.normal(1, 0.2, 200).clip(0.3)) - rng.uniform(0, period)
        last = np.searchsorted(falls, t, side="right")
        edges = np.concatenate([[falls[0] - period], falls])
        return np.asarray(size / period * (t - edges[last]))

    return shape


def _warm(size: float, tau: float, slope: float = 0) -> Shape:
    return lambda t, _: size * (1 - np.exp(-t / tau)) + slope * t


def _warm_saw(t: Floats, _: np.random.Generator) -> NDArray[np.floating[Any]]:
    return 20 * MB * (1 - np.exp(-t / 30)) + 10 * MB * (t % 250) / 250


def _restless(t: Floats, rng: np.random.Generator) -> NDArray[np.floating[Any]]:
    return 20e3 * t + 600e3 * rng.standard_normal(t.size) * (t > 300)


def _spurt(slope: float, end: float = 600) -> Shape:
    """Return growth that is three times as fast from 200 to 350 s."""
    return lambda t, _: slope * (np.minimum(t, end) + 2 * np.clip(t - 200, 0, 150))


def _logistic(size: float, at: float, width: float) -> Shape:
    return lambda t, _: size / (1 + np.exp((at - t) / width))


def _doubling(t: Floats, _: np.random.Generator) -> NDArray[np.floating[Any]]:
    return 4 * MB * 2.0 ** np.searchsorted([75.0, 150, 300], t, side="right")


SHAPES: Mapping[str, tuple[str, Shape]] = {
    # Memory that leaks.
    "20 kB/s": ("leak", lambda t, _: 20e3 * t),
    "3 kB/s": ("leak", lambda t, _: 3e3 * t),
    "10 kB/s, 20 % apart in runs": ("leak", lambda t, rng: 10e3 * t * rng.normal(1, 0.2)),
    "100 kB every 10 s": ("leak", _steps(np.arange(10, 600, 10.0), 0.1 * MB)),
    "1 MB every 100 s, in phase": ("leak", _steps(np.arange(100, 600, 100.0), MB)),
    "1 MB every 100 s, at random": ("leak", _poisson(100, MB)),
    "8 MB every 200 s, at random": ("leak", _poisson(200, 8 * MB)),
    "8 MB every 400 s, at random": ("leak", _poisson(400, 8 * MB)),
    "8 MB at 290 and 590 s": ("leak", _steps(np.array([290.0, 590]), 8 * MB)),
    "doubles at 75, 150, 300 s": ("leak", _doubling),
    "faster and faster": ("leak", lambda t, _: 10 * MB * (t / 600) ** 3),
    "from 300 s on": ("leak", lambda t, _: 20e3 * np.maximum(t - 300, 0)),
    "warm-up of 20 MB, tau 30 s, and 5 kB/s": ("leak", _warm(20 * MB, 30, 5e3)),
    "as the root of time, 12 MB": ("leak", lambda t, _: 12 * MB * np.sqrt(t / 600)),
    "saw of 10 MB, 60 s, and 20 kB/s": ("leak", _saw(60, 10 * MB, leak=20e3)),
    "20 kB/s in some runs": ("leak", lambda t, rng: 20e3 * t * (rng.random() < 0.6)),
    "20 kB/s, 60 from 200 to 350 s": ("leak", _spurt(20e3)),
    "5 kB/s, 15 from 200 to 350 s": ("leak", _spurt(5e3)),
    "20 kB/s, restless from 300 s on": ("leak", _restless),
    # Memory without a leak.
    "nothing": ("flat", lambda t, _: 0 * t),
    "saw of 10 MB, 20 s": ("flat", _saw(20, 10 * MB)),
    "saw of 10 MB, 60 s": ("flat", _saw(60, 10 * MB)),
    "saw of 10 MB, 80 s": ("flat", _saw(80, 10 * MB)),
    "saw of 10 MB, 120 s": ("flat", _saw(120, 10 * MB)),
    "saw of 10 MB, 120 s, any phase": ("flat", _saw(120, 10 * MB, in_phase=False)),
    "saw of 10 MB, about 100 s": ("flat", _uneven_saw(100, 10 * MB)),
    "saw of 10 MB, 250 s": ("flat", _saw(250, 10 * MB)),
    "saw of 10 MB, 250 s, any phase": ("flat", _saw(250, 10 * MB, in_phase=False)),
    "saw of 10 MB, 400 s": ("flat", _saw(400, 10 * MB)),
    "wave of 5 MB, 200 s": ("flat", lambda t, _: 5 * MB * np.sin(t / 200 * 2 * np.pi)),
    "wave of 5 MB, 250 s": ("flat", lambda t, _: 5 * MB * np.sin(t / 250 * 2 * np.pi)),
    "10 MB for 20 s at 300 s": ("flat", lambda t, _: 10 * MB * ((t > 300) & (t < 320))),
    # Memory that rises and then stays.
    "warm-up of 20 MB, tau 10 s": ("settles", _warm(20 * MB, 10)),
    "warm-up of 20 MB, tau 30 s": ("settles", _warm(20 * MB, 30)),
    "warm-up of 20 MB, tau 60 s": ("settles", _warm(20 * MB, 60)),
    "warm-up of 20 MB, tau 100 s": ("settles", _warm(20 * MB, 100)),
    "warm-up of 20 MB, tau 200 s": ("settles", _warm(20 * MB, 200)),
    "20 kB/s for 60 s": ("settles", lambda t, _: 20e3 * np.minimum(t, 60)),
    "20 kB/s for 300 s": ("settles", lambda t, _: 20e3 * np.minimum(t, 300)),
    "20 kB/s for 450 s": ("settles", lambda t, _: 20e3 * np.minimum(t, 450)),
    "20 kB/s, 60 from 200 to 350 s, none from 450 s on": ("settles", _spurt(20e3, 450)),
    "12 MB about 200 s, by and by": ("settles", _logistic(12 * MB, 200, 40)),
    "12 MB about 300 s, by and by": ("settles", _logistic(12 * MB, 300, 40)),
    "12 MB about 300 s, slowly": ("settles", _logistic(12 * MB, 300, 80)),
    "8 MB once, at 30 s": ("settles", _steps(np.array([30.0]), 8 * MB)),
    "falls by 3 kB/s": ("falls", lambda t, _: -3e3 * t),
    # A single rise, which may be the beginning of anything.
    "8 MB once, at 300 s": ("open", _steps(np.array([300.0]), 8 * MB)),
    "8 MB once, at 500 s": ("open", _steps(np.array([500.0]), 8 * MB)),
    "saw of 10 MB, 700 s: one flank": ("leak", _saw(700, 10 * MB)),
}
"""By name: the kind of the shape, and the shape."""


class OtherLength(NamedTuple):
    """A shape in runs of another length.

    Attributes
    ----------
    kind, shape
        See `SHAPES`.
    length, hz
        Length of a run in seconds, and samples per second.
    runs
        Number of runs.
    only
        Number of runs that have the shape; the others do nothing.
    """

    kind: str
    shape: Shape
    length: float
    hz: float = 0.5
    runs: int = RUNS
    only: int = 1000


def _trim(slope: float, size: float, at: float) -> Shape:
    """Return a leak of which a part is given back once."""
    return lambda t, _: slope * t - size * (t > at)


def _two_stages(t: Floats, _: np.random.Generator) -> NDArray[np.floating[Any]]:
    return 40 * MB * (1 - np.exp(-t / 2)) + 10 * MB * (1 - np.exp(-t / 20))


def _in_each_run(t: Floats, rng: np.random.Generator) -> NDArray[np.floating[Any]]:
    return rng.uniform(40, 80) * MB * (1 - np.exp(-t / rng.uniform(2, 5)))


OTHERS: Sequence[tuple[str, OtherLength]] = (
    # Short runs of a program that starts.
    *(
        (
            f"warm-up of 60 MB, tau {tau:g} s",
            OtherLength("settles", _warm(60 * MB, tau), length, hz),
        )
        for tau, length, hz in product((2.0, 3.0, 5.0, 10.0, 20.0), (60.0, 120.0), (1.0, 2.0))
    ),
    ("warm-up of 60 MB, tau 20 s", OtherLength("settles", _warm(60 * MB, 20), 300, 1)),
    ("warm-up of 20 MB, tau 2 s", OtherLength("settles", _warm(20 * MB, 2), 30, 2)),
    ("warm-up of 20 MB, tau 5 s", OtherLength("settles", _warm(20 * MB, 5), 30, 2)),
    ("warm-up of 60 MB, tau 2 s", OtherLength("settles", _warm(60 * MB, 2), 30, 1)),
    ("warm-up in two stages", OtherLength("settles", _two_stages, 120, 2)),
    ("warm-ups that differ", OtherLength("settles", _in_each_run, 60, 2)),
    ("60 MB in 10 s", OtherLength("settles", lambda t, _: 6 * MB * np.minimum(t, 10), 60, 2)),
    (
        "warm-up of 60 MB, tau 5 s, and 20 kB/s",
        OtherLength("leak", _warm(60 * MB, 5, 20e3), 120, 2),
    ),
    ("nothing", OtherLength("flat", lambda t, _: 0 * t, 30, 2)),
    ("20 kB/s", OtherLength("leak", lambda t, _: 20e3 * t, 30, 2)),
    ("100 kB/s", OtherLength("leak", lambda t, _: 100e3 * t, 30, 5)),
    # Leaks of which a part is given back, and leaks of one run.
    ("20 kB/s, 6 MB back at 300 s", OtherLength("leak", _trim(20e3, 6 * MB, 300), 600)),
    ("20 kB/s, 3 MB back at 300 s", OtherLength("leak", _trim(20e3, 3 * MB, 300), 600)),
    ("50 kB/s, 10 MB back at 400 s", OtherLength("leak", _trim(50e3, 10 * MB, 400), 600)),
    ("warm-up of 20 MB, tau 30 s, and saw of 10 MB, 250 s", OtherLength("settles", _warm_saw, 600)),
    ("100 kB/s in one run of five", OtherLength("leak", lambda t, _: 100e3 * t, 600, only=1)),
    ("20 kB/s in one run of ten", OtherLength("leak", lambda t, _: 20e3 * t, 600, runs=10, only=1)),
    (
        "100 kB/s in one run of ten",
        OtherLength("leak", lambda t, _: 100e3 * t, 600, runs=10, only=1),
    ),
    ("100 kB/s in one run of ten", OtherLength("leak", lambda t, _: 100e3 * t, 120, 1, 10, 1)),
    (
        "100 kB/s in one run of twenty",
        OtherLength("leak", lambda t, _: 100e3 * t, 600, runs=20, only=1),
    ),
)
"""Shapes by name, in runs of other lengths, in which those of the same name differ."""

NOISE = (30e3, 300e3)
PHI = 0.9


def simulated(shape: OtherLength, rng: np.random.Generator, noise: float) -> list[Series]:
    """Simulate runs of a shape, in whole pages, with AR(1) noise of this standard deviation."""
    seconds = np.arange(0, shape.length, 1 / shape.hz)
    rows = 5e7 + noise * autoregressive(rng, (shape.runs, seconds.size), PHI)
    for i in range(min(shape.only, shape.runs)):
        rows[i] += shape.shape(seconds, rng)
    return [Series(seconds, np.floor(row / 4096) * 4096) for row in rows]


def shapes(count: int) -> Section:
    """Simulate how often the verdict on each shape is wrong, with one 25th of `count` each."""
    results = []
    count = max(1, count // 25)
    same = [(name, OtherLength(kind, shape, LENGTH)) for name, (kind, shape) in SHAPES.items()]
    for name, plan in (*same, *OTHERS):
        kind = plan.kind
        for noise in NOISE:
            rng = generator("shape", name, noise, *([] if plan[2:] == same[0][1][2:] else plan[2:]))
            verdicts = [leak("rss", {}, simulated(plan, rng, noise)).verdict for _ in range(count)]
            runs = f"{plan.runs} of {plan.length:g} s at {plan.hz:g} Hz"
            cell = {"shape": name, "is": kind, "runs": runs, "noise": f"{noise / 1e3:g} kB"}
            right = ("not_enough_evidence", *_RIGHT[kind])
            wrong = sum(verdict not in right for verdict in verdicts)
            results.append(Result(TITLE, cell, "wrong", wrong, count, None, 0.05))
            results += [
                Result(TITLE, cell, verdict.replace("_", " "), verdicts.count(verdict), count)
                for verdict in _VERDICTS
            ]
    text = (
        f"There are {count:,} simulations of each shape. Memory is read in whole pages, with AR(1) "
        f"noise (phi {PHI:g}); the margin is 1,024 B/s. A verdict is wrong if it is not true of "
        "the shape: if it says that a leak is stable or over, that anything else climbs, or that "
        "there was a rise when there was none; and any verdict is wrong if a single rise leaves "
        "everything open. A tooth longer than the runs counts as a leak, because it is one while "
        "they last. All other verdicts are not enough evidence, which is never wrong and "
        "says how long runs would have to be."
    )
    return Section(TITLE, text, (), results)
