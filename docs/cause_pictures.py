"""Make the pictures of five causes in docs/why.md from a recording of the suite `causes`.

``chrt -r 5 roslens record --suite causes --tracer native --duration 12``, then
``python docs/cause_pictures.py data/recordings/causes/CAMPAIGN``. With ``chrt``, only processes
that the suite itself starts can keep the recorded programs from the CPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

import roslens as rl

IMAGES = Path(__file__).resolve().parent / "images"
CAUSES = ("same_thread", "queue", "lock", "cpu_hog", "disk")


def main() -> None:
    """Make the pictures, and print the first sentence of each cause."""
    for cause in CAUSES:
        (run,) = Path(sys.argv[1]).glob(f"*cause-{cause}")
        why = rl.open(run).why
        why.waterfall("/work", deadline="5ms").savefig(IMAGES / f"why_{cause}.png")
        print(cause, why("/work", deadline="5ms")["sentence"][0], sep="\n  ")


if __name__ == "__main__":
    main()
