"""Hold the bounds of hosts' clocks to the truth, in simulated recordings.

Usage: python benchmarks/clocks.py [--trials 1000] [--steps 100]

In each trial the clock of a second host is up to an hour apart and drifts by up to 200 ppm, delays
are of another size each way, and up to half of all messages are lost; in those with a step it also
jumps by 3 ms to 30 s, forwards, or backwards as where a machine is suspended. Bounds must hold at
200 moments of each, before and after clocks are brought together; steps must be found, and only
those. Exit status 1 if one does not.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from roslens.collectors.ros2.clock_fit import fit_clocks

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "ros2"))
from clock_simulation import EPOCH, Drawn, draw


def wrong(drawn: Drawn, widths: list[float]) -> str | None:
    """What does not hold in a trial."""
    fit = fit_clocks(drawn.crossings, ["h0", "h1"])
    if fit is None:
        return "no fit"
    true = np.linspace(0, drawn.seconds * 1e9, 200)
    true = true[drawn.awake(true)]
    ahead = drawn.ahead(true)
    first = EPOCH + np.round(true).astype(np.int64)
    own = EPOCH + np.round(true + ahead).astype(np.int64)
    low, high = fit.ahead("h1", own)
    if ((ahead < low) | (ahead > high)).any():
        return "the true offset is outside of the bounds"
    widths.append(float(np.median(high - low)))
    # A smaller step changes nothing that messages tell, nor one with nothing after it.
    after = true[-1] > drawn.step_at_s * 1e9
    seen = after and abs(drawn.step_ns) > 2 * np.max(high - low)
    if (seen and not fit.steps) or (fit.steps and not drawn.step_ns):
        return f"{len(fit.steps)} steps found"
    added, bounds = fit.added(), fit.bounds(aligned=True).get(("h0", "h1"), [])
    at = [x - EPOCH for x, _ in bounds]
    times = [
        x - EPOCH + np.interp(x - EPOCH, [t - EPOCH for t, _ in line], [a for _, a in line])
        for x, line in ((first, added.get("h0", [(0, 0)])), (own, added.get("h1", [(0, 0)])))
    ]
    if any((np.diff(x) < 0).any() for x in times):
        return "a time line goes back"
    within = np.interp(times[0], at, [bound for _, bound in bounds])
    if (np.abs(times[1] - times[0]) > within).any():
        return "times brought together are further apart than their bound"
    return None


def main() -> int:
    """Run all trials and print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    failed = 0
    for what, count, step in (("drift", options.trials, False), ("step", options.steps, True)):
        begin, widths, bad = time.perf_counter(), [], 0
        for seed in range(count):
            if text := wrong(draw(seed, step=step), widths):
                bad += 1
                print(f"{what} {seed}: {text}")
        seconds = time.perf_counter() - begin
        width = np.median(widths) / 1e3 if widths else float("nan")
        print(
            f"{what}: {count - bad} of {count} hold; median width {width:.0f} us; {seconds:.0f} s"
        )
        failed += bad
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
