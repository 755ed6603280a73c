"""Test HdrHistogram files: by hand, and read back by HdrHistogram's own package."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from hypothesis import given
from hypothesis import strategies as st

from roslens.analysis.statistics.hdr import log, percentile_table
from roslens.recording.errors import UsageError


def rows(table: str) -> list[list[float]]:
    lines = table.splitlines()
    assert lines[0].split() == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    return [
        [float(word) for word in line.split()] for line in lines[2:] if not line.startswith("#")
    ]


def test_a_table_by_hand() -> None:
    # Two ticks to each halving: 0, 1/4, 1/2, then 5/8, 3/4, 13/16, ...; of 4 samples up to 3/4.
    text = percentile_table([3.0, 1.0, 2.0, 2.0], ticks=2)
    assert [row[:3] for row in rows(text)] == [
        *([1, 0, 1], [1, 0.25, 1], [2, 0.5, 3], [2, 0.625, 3]),
        [3, 1, 4],
    ]
    assert rows(text)[2][3] == 2
    assert "#[Mean    =        2.000, StdDeviation   =        0.707]" in text
    assert "#[Max     =        3.000, TotalCount     =            4]" in text
    lossy = percentile_table([1e6, 3e6, math.inf], unit=1e6)
    assert rows(lossy)[-1] == [3, 1, 2]
    assert "#[Lost    =            1, of                          3]" in lossy
    assert rows(percentile_table([5.0])) == [[5, 1, 1]]


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=200))
def test_lines_agree_with_hdrhistogram(samples: list[int]) -> None:
    histogram = HdrHistogram(1, 10_000, 5)
    for value in samples:
        histogram.record_value(value)
    for value, fraction, count, *_ in rows(percentile_table(samples)):
        assert count == sum(s <= value for s in samples)
        # With 5 digits each value has its own bucket. The package rounds the requested count to the
        # nearest, at least 1; ours is the least number of samples that makes up the fraction.
        if abs(fraction * len(samples) % 1 - 0.5) > 0.49:
            assert value == histogram.get_value_at_percentile(100 * fraction)


def test_a_log_is_read_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    latencies = rng.lognormal(13, 1, 5000)
    path = tmp_path / "latency.hlog"
    path.write_text(log({"a=1, b=2": latencies, "other": [1000.0, math.inf]}, seconds=12.5))
    reader = HistogramLogReader(str(path), HdrHistogram(1, 3_600_000_000_000, 3))
    first = reader.get_next_interval_histogram()
    assert first.get_tag() == "a=1;_b=2"
    assert first.get_total_count() == 5000
    for q in (50, 90, 99):
        exact = float(np.quantile(latencies, q / 100, method="inverted_cdf"))
        assert first.get_value_at_percentile(q) == pytest.approx(exact, rel=2e-3)
    second = reader.get_next_interval_histogram()
    assert second.get_total_count() == 1


def test_what_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ([], [math.inf], [math.nan], [-math.inf]):
        with pytest.raises(ValueError, match=r"number|finite"):
            percentile_table(wrong)
        with pytest.raises(ValueError, match=r"number|finite"):
            log({"x": wrong})
    for beyond, told in (([-1e6, 2e6], "-1 to 2 ms"), ([4e12], "4e[+]06 ms")):
        with pytest.raises(UsageError, match=f"hour, .*{told}; --format hgrm has all"):
            log({"x": beyond})
    monkeypatch.setitem(sys.modules, "hdrh.histogram", None)
    with pytest.raises(UsageError, match=r"roslens\[hdr\]"):
        log({"x": [1.0]})
