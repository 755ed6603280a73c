"""Format numbers for people: ms, %, MB, with as many digits as the interval supports."""

from __future__ import annotations

import math
from collections.abc import Iterable

from roslens.analysis.estimate import Estimate
from roslens.recording.manifest import Hit

_SHOWN = {
    "ns": (1e-6, "ms"),
    "1": (100.0, "%"),
    "byte": (1e-6, "MB"),
    "byte/s": (1e-6, "MB/s"),
    "core": (1.0, "cores"),
    "1/run": (100.0, "% per run"),
}


def shown_unit(unit: str) -> tuple[float, str]:
    """Return factor and name of the unit in which values of `unit` are shown."""
    return _SHOWN.get(unit, (1.0, unit))


_TIMES = ((1e-9, "s"), (1e-6, "ms"), (1e-3, "us"), (1.0, "ns"))
_SIZES = ((1e-9, "GB"), (1e-6, "MB"), (1e-3, "kB"), (1.0, "B"))


def unit_of_all(values: Iterable[float | None], unit: str) -> tuple[float, str]:
    """Return factor and name of the unit in which all values of a column are read best.

    For times and sizes (powers of 1,000) that is the largest unit in which the middle value is 1 or
    more; for other units that of `shown_unit`.

    Parameters
    ----------
    values
        Values in `unit`; null, zero and non-finite ones do not count.
    """
    base, _, per = unit.partition("/")
    ladder = {"ns": _TIMES, "byte": _SIZES, "B": _SIZES}.get(base)
    magnitudes = sorted(abs(v) for v in values if v is not None and v and math.isfinite(v))
    if ladder is None or not magnitudes:
        return shown_unit(unit)
    middle = magnitudes[len(magnitudes) // 2]
    factor, name = next(((f, n) for f, n in ladder if middle * f >= 1), ladder[-1])
    return factor, f"{name}/{per}" if per else name


def seen(hit: Hit) -> str:
    """Return what a trigger saw in brackets: `` (73.2 ms)``, if it goes on `` (73.2 ms so far)``.

    The text is empty if it saw nothing.
    """
    if hit.value is None or hit.unit is None:
        return ""
    factor, unit = shown_unit(hit.unit)
    return f" ({significant(hit.value * factor, 3)} {unit}{' so far' * hit.at_least})"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 cell`` or ``2 cells``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def milliseconds(ns: float | None, digits: int = 4) -> str:
    """Format ns as ms, such as ``0.1234``; an infinity as ``infinite``, None as a dash."""
    return significant(None if ns is None else ns * 1e-6, digits)


def duration(ns: float | None, digits: int = 3) -> str:
    """Format ns as ``604 ns``, ``38.2 us``, ``1.05 ms`` or ``2.30 s``; None as a dash."""
    if ns is None:
        return "-"
    factor, unit = unit_of_all([ns], "ns") if ns else (1.0, "ns")
    return f"{significant(ns * factor, digits)} {unit}"


def significant(value: float | None, digits: int = 4) -> str:
    """Format `digits` significant digits, no exponent; infinity as ``infinite``, None as a dash."""
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return "infinite"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 9)}f}"


def value_and_interval(estimate: Estimate, factor: float | None = None) -> tuple[str, str]:
    """Return value and interval in the unit shown, to two digits of the interval's half width.

    The interval is ``refused`` if there is none.

    Parameters
    ----------
    factor
        Factor from the estimate's unit to the unit shown; by default that of `shown_unit`.
    """
    factor = shown_unit(estimate.unit)[0] if factor is None else factor
    if estimate.value is None or not math.isfinite(estimate.value):
        return significant(estimate.value), "refused"
    value = estimate.value * factor
    if estimate.low is None or estimate.high is None:
        return significant(value), "refused"
    low, high = estimate.low * factor, estimate.high * factor
    half = (high - low) / 2
    if half <= 1e-9 * abs(value):  # all runs alike, but for rounding
        return significant(value), f"[{significant(low)}, {significant(high)}]"
    decimals = min(9, max(0, 1 - math.floor(math.log10(half))))
    shown = f"{value:,.{decimals}f}" if value else "0"
    return shown, f"[{low:,.{decimals}f}, {high:,.{decimals}f}]"
