"""The way of a message as a table: each part with its duration, and a bar where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from roslens.analysis.reports.numbers import milliseconds
from roslens.analysis.timeline.journey import Journey

_BAR = "background:#0072b2;height:9px;min-width:1px"


def _name(text: str) -> str:
    """A name from the trace: text, whose direction of writing stays its own."""
    return f"<bdi>{escape(text or '?')}</bdi>"


def message_html(way: Sequence[Journey], clicked: int | None) -> str:
    """The messages that led to each other, one below the other on one time axis.

    Parameters
    ----------
    way
        In order of time, each with at least one hop.
    clicked
        Callback instance whose message is the one meant.
    """
    begin = min(hop.begin_ns for each in way for hop in each.hops)
    whole = max(1, max(hop.end_ns for each in way for hop in each.hops) - begin)
    rows = []
    for each in way:
        what = "request" if each.kind == "call" else "message"
        latency = "" if each.latency_ns is None else f", {milliseconds(each.latency_ns)} ms"
        own = each.callback_instance_id == clicked and len(way) > 1
        rows.append(
            f'<tr><th colspan="3">{"▸ " if own else ""}{_name(each.topic)}: '
            f"{_name(each.publisher_node)} → {_name(each.subscription_node)}, "
            f"{what} {each.message_id}, {escape(each.outcome)}{latency}</th></tr>"
        )
        rows += [
            f"<tr><td>{escape(hop.name)}</td><td>{milliseconds(hop.duration_ns)} ms</td>"
            f'<td><div style="{_BAR};margin-left:{100 * (hop.begin_ns - begin) / whole:.2f}%;'
            f'width:{100 * hop.duration_ns / whole:.2f}%"></div></td></tr>'
            for hop in each.hops
        ]
    return f'<table class="roslens-message">{"".join(rows)}</table>'
