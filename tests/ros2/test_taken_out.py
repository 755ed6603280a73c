"""Events are taken out of recordings: no row may then say what is not so.

The tables of the whole recording are the truth; `benchmarks/taken_out.py` is the long form.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from roslens.tracing.recording import Recording

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from taken_out import Count, trials  # noqa: E402

RUNS = ("communication/001_r0_unique_ptr_ipc-on", "two_process/000_r0_fastrtps")
TRIALS = 2


@pytest.mark.recording
@pytest.mark.parametrize("run", RUNS)
def test_few_missing_events_make_no_row_wrong(run: str) -> None:
    """0.1 and 0.5 % of all events, init events, a stream, the head, the tail."""
    found = Count()
    ways = ("random", "init", "stream", "head", "tail")
    for _, _, of in trials(Recording.at(ROOT / "data" / "samples" / run), TRIALS, 1, ways):
        found.add(of)
    assert found.removed > 100
    assert found.rows > 1000
    assert found.wrong == {}, found.examples
    assert found.unknown < 0.05 * found.messages
