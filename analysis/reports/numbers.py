"""Numbers for people: ms, %, MB, with as many digits as the interval supports."""

from __future__ import annotations

import math

from roslens.analysis.estimate import Estimate

_SHOWN = {
    "ns": (1e-6, "ms"),
    "1": (100.0, "%"),
    "byte": (1e-6, "MB"),
    "byte/s": (1e-6, "MB/s"),
    "core": (1.0, "cores"),
    "1/run": (100.0, "% per run"),
}


def shown_unit(unit: str) -> tuple[float, str]:
    """Factor and name of the unit in which values of `unit` are shown."""
    return _SHOWN.get(unit, (1.0, unit))


def milliseconds(ns: float | None, digits: int = 4) -> str:
    """``0.1234``; an infinity as such, nothing as a dash."""
    return significant(None if ns is None else ns * 1e-6, digits)


def significant(value: float | None, digits: int = 4) -> str:
    """`digits` significant digits without exponent; an infinity as such, nothing as a dash."""
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return "infinite"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 9)}f}"


def value_and_interval(estimate: Estimate) -> tuple[str, str]:
    """Value and interval in the unit shown, both to two digits of the interval's half width.

    The interval is ``refused`` where there is none.
    """
    factor, _ = shown_unit(estimate.unit)
    if estimate.value is None or not math.isfinite(estimate.value):
        return significant(estimate.value), "refused"
    value = estimate.value * factor
    if estimate.low is None or estimate.high is None:
        return significant(value), "refused"
    low, high = estimate.low * factor, estimate.high * factor
    half = (high - low) / 2
    if half <= 0:
        return significant(value), f"[{significant(low)}, {significant(high)}]"
    decimals = min(9, max(0, 1 - math.floor(math.log10(half))))
    shown = f"{value:,.{decimals}f}" if value else "0"
    return shown, f"[{low:,.{decimals}f}, {high:,.{decimals}f}]"
