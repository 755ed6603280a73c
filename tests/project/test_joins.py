"""Test that no join makes pairs of all rows before a filter.

Every ``.join(...)`` below a ``.filter(...)`` of one expression is listed, with what has at most one
row for each key, unless it is declared to be of at most one row (``validate=``) or gives no pairs
(``semi``, ``anti``). tests/scale/many.py and benchmarks/shapes.py hold memory and time to bars.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("analysis", "collectors", "studies", "tracing", "src/roslens")
BETWEEN = {"group_by", "agg", "unique"}
NO_PAIRS = {"'semi'", "'anti'"}
ONE_ROW = {
    ("analysis/interop/perfetto.py", "number"): "delivered messages, numbered",
    ("analysis/measures/bag.py", "'topic'"): "topics of a bag, grouped",
    ("analysis/measures/busy.py", "'run'"): "the measured part of a run",
    ("analysis/measures/callbacks.py", "'run'"): "labels of runs",
    ("analysis/measures/cpu_waits.py", "[*_PLACE, 'turn']"): "turns are numbered",
    ("analysis/measures/silences.py", "[*_THREAD, 'callback_id']"): "callbacks of a thread, unique",
    ("analysis/measures/waits_for.py", "'client_callback_instance_id'"): "instances, numbered",
    ("analysis/measures/waits_for.py", "['host', 'client_node']"): "nodes with one open instance",
    ("analysis/measures/waits_for.py", "['host', 'vpid']"): "processes, grouped",
    ("analysis/overview/live.py", "('topic', 'from')"): "a pair per subscription, as in messages",
    ("analysis/path/groups.py", "'callback_id'"): "callbacks, grouped",
    ("collectors/ros2/actions.py", "[*_WAY, 'goal_place']"): "goals are numbered",
    ("collectors/ros2/blocked.py", "'thread'"): "a thread's last begin",
    ("collectors/ros2/host_clocks.py", "'proc'"): "processes",
    ("collectors/ros2/host_clocks.py", "'proc_right'"): "processes",
    ("collectors/ros2/processes.py", "key"): "addresses, unique",
    ("collectors/ros2/scheduling.py", "'host'"): "a host's span",
    ("collectors/ros2/scheduling.py", "'proc'"): "processes",
    ("collectors/ros2/scheduling.py", "['host', 'vpid', 'vtid']"): "unless a number was used again",
    ("collectors/ros2/sessions.py", "process"): "processes, grouped",
    ("studies/communication/backlog.py", "['run', 'subscription_id']"): "queues, unique",
    ("studies/communication/estimates.py", "'run'"): "what a run used",
    ("studies/communication/logged.py", "[*on, 'number', 'count']"): "both are numbered",
}


def before(call: ast.expr) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls that an expression ends with, the last one first."""
    while True:
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            yield call.func.attr, call
            call = call.func.value
        elif isinstance(call, ast.Attribute):
            call = call.value
        else:
            return


def filtered_joins(text: str) -> Iterator[str]:
    """Yield what each filtered join is joined by."""
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr != "filter":
            continue
        for name, call in before(node.func.value):
            if name in BETWEEN:
                break
            keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            if name == "join_where" or keywords.get("how") == "'cross'":
                yield "everything"
            elif name == "join" and not ("validate" in keywords or keywords.get("how") in NO_PAIRS):
                yield keywords.get("on") or keywords.get("left_on") or ast.unparse(call)


def test_no_join_makes_pairs_that_a_filter_takes_away() -> None:
    joins = {
        (path.relative_to(ROOT).as_posix(), on)
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        for on in filtered_joins(path.read_text())
    }
    assert joins == ONE_ROW.keys()


def test_the_check_sees_them() -> None:
    many = "a.join(b, on='x').with_columns(c).filter(d)"
    assert list(filtered_joins(many)) == ["'x'"]
    assert list(filtered_joins("a.join_where(b, c).filter(d)")) == ["everything"]
    assert list(filtered_joins("a.join(b, how='cross').filter(d)")) == ["everything"]
    assert list(filtered_joins("a.join(b, on='x', how='semi').filter(d)")) == []
    assert list(filtered_joins("a.join(b, on='x', validate='m:1').filter(d)")) == []
    assert list(filtered_joins("a.join(b, on='x').group_by('x').agg(c).filter(d)")) == []
