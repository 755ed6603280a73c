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

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "ros2"))
from clock_simulation import draw, wrong


def main() -> int:
    """Run all trials and print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    failed = 0
    for kind, count, step in (("drift", options.trials, False), ("step", options.steps, True)):
        begin, widths, bad = time.perf_counter(), [], 0
        for seed in range(count):
            if text := wrong(draw(seed, step=step), widths):
                bad += 1
                print(f"{kind} {seed}: {text}")
        seconds = time.perf_counter() - begin
        width = np.median(widths) / 1e3 if widths else float("nan")
        print(
            f"{kind}: {count - bad} of {count} hold; median width {width:.0f} us; {seconds:.0f} s"
        )
        failed += bad
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
