"""Actions, and the goals that clients sent.

An action is the services and topics ``<action>/_action/...``. All of it is decided at the end.

* The services and topics of one node and action that were made at the same place of the order are
  one end of it: the first ``send_goal`` belongs to the first ``get_result``, and so on.
* A goal is a call of ``send_goal``. Its result is the call of ``get_result`` that its client made
  after the goal was answered and before it had the answer to the next; where that gives a goal two
  results, results and goals go together in order, if the goal was answered before.
* It was rejected if its server published no status before it took its next goal, though it did at
  other times.
* Status, feedback and cancel are told apart only where the server had no other goal meanwhile;
  feedback only where its publisher is known.
* Where something may be missing between a goal and its result, its result is an approximate one,
  and nothing tells whether it was alone; where something may be missing before the server's next
  goal, nothing tells that it was rejected. What counts is what is missing on the hosts of the
  server and of all clients that sent it goals (on any, where one of these is not known).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

from reference_model.objects import ACTION, Objects, Row
from reference_model.services import TIMES

FOREVER = 2**62
GOAL = ("goal_called_ns", "goal_sent_ns", "goal_taken_ns", "goal_response_sent_ns",
        "goal_response_taken_ns")  # fmt: skip
RESULT = ("result_called_ns", "result_requested_ns", "result_request_taken_ns", "result_sent_ns",
          "result_taken_ns")  # fmt: skip
_OF_CALL = ("request_called_ns", *TIMES[:4])
PARTS = ("send_goal", "cancel_goal", "get_result", "feedback", "status")


def placed(objects: Objects) -> list[tuple[str, str, tuple[Any, ...], Row]]:
    """What actions consist of: role, part, which end (process, node, action, place), the object."""
    found = []
    kinds = {"services": "server", "publishers": "server", "clients": "client",
             "subscriptions": "client"}  # fmt: skip
    for kind, role in kinds.items():
        count: dict[Any, int] = defaultdict(int)
        for row in objects.rows[kind]:
            name = row.get("service") or row.get("topic")
            parts = name and ACTION.match(name)
            if parts and (parts[2] in PARTS[:3]) == (kind in {"services", "clients"}):
                key = (row["_proc"], row["node"], name)
                found.append((role, parts[2], (*key[:2], parts[1], count[key]), row))
                count[key] += 1
    return found


def ends(objects: Objects) -> list[Row]:
    """Servers and clients of actions."""
    by_end: dict[Any, dict[str, Row]] = defaultdict(dict)
    for role, part, end, row in placed(objects):
        by_end[role, end].setdefault(part, row)
    rows = []
    for (role, (proc, node, action, _)), parts in by_end.items():
        if not {"send_goal", "get_result"} & parts.keys():
            # Whoever only listens to feedback or status is no client.
            continue
        services = [parts[p] for p in PARTS[:3] if p in parts]
        rows.append(
            {
                "host": proc[0],
                "vpid": proc[2],
                "_node": next(iter(parts.values()))["_node"],
                "node": node,
                "action": action,
                "role": role,
                "created_ns": min(row["created_ns"] for row in parts.values()),
                "ended_ns": min(
                    (s["ended_ns"] for s in services if s["ended_ns"] is not None), default=None
                ),
                **{f"_{part}": parts.get(part) for part in PARTS},
            }
        )
    return rows


def goals(
    objects: Objects, calls: Iterable[Row], publications: Iterable[Row], losses: Iterable[Row]
) -> list[Row]:
    """A row per goal sent; `losses` are those and what is seen to be missing."""
    parts, told = _parts(objects, calls), _told(publications)
    tellers = {
        (end[2], end[1]) for role, part, end, _ in placed(objects)
        if (role, part) == ("server", "feedback")
    }  # fmt: skip
    sent = [_renamed(call, GOAL) for call in parts["send_goal"]]
    servers, ways, results = defaultdict(list), defaultdict(list), defaultdict(list)
    for goal in sent:
        servers[goal["_server"]].append(goal)
        ways[goal["_server"], goal["_client_end"]].append(goal)
    matters = {server: _on_its_hosts(of_server, losses) for server, of_server in servers.items()}
    for server, of_server in servers.items():
        _reject(of_server, told, matters[server])
    for call in parts["get_result"]:
        results[call["_server"], call["_client_end"]].append(_renamed(call, RESULT))
    for way, of_way in ways.items():
        _give_results(of_way, results[way])
    for server, of_server in servers.items():
        _alone(of_server)
        cancels = [call for call in parts["cancel_goal"] if call["_server"] == server]
        for goal in of_server:
            _doubt(goal, matters[server])
            _tell(goal, told, tellers, cancels)
    return sent


def _on_its_hosts(of_server: Iterable[Row], losses: Iterable[Row]) -> list[Row]:
    """The losses that tell of the goals of one server."""
    ends = [goal[side] for goal in of_server for side in ("_client", "_service")]
    hosts = {None} | {end["_proc"][0] for end in ends if end is not None}
    return [loss for loss in losses if None in ends or loss["host"] in hosts]


def _missing(losses: Iterable[Row], begin: int, until: int) -> bool:
    return any(
        _first(loss["end_ns"], FOREVER) >= begin and (loss["begin_ns"] or 0) <= until
        for loss in losses
    )


def _doubt(goal: Row, losses: Iterable[Row]) -> None:
    """Take back what order and absence tell where something may be missing."""
    begin = _first(goal["goal_sent_ns"], goal["goal_taken_ns"], goal["goal_response_sent_ns"])
    until = _first(goal["result_taken_ns"], goal["result_sent_ns"], FOREVER)
    if begin is not None and (_missing(losses, begin, until) or (losses and _torn(goal))):
        goal["alone"] = None
        goal["match"] = goal["match"] and "approximate"


def _torn(goal: Row) -> bool:
    """Whether a side tells a later time of it, but not an earlier one."""
    orders = (
        ("goal_sent_ns", "goal_response_taken_ns", "result_requested_ns", "result_taken_ns"),
        ("goal_taken_ns", "goal_response_sent_ns", "result_sent_ns"),
        ("result_request_taken_ns", "result_sent_ns"),
    )
    return any(
        goal[early] is None and goal[late] is not None
        for order in orders
        for early, late in combinations(order, 2)
    )


def _parts(objects: Objects, calls: Iterable[Row]) -> dict[str, list[Row]]:
    """Calls of the services of actions, by which part of an action they are of."""
    end_of = {id(row): end for _, _, end, row in placed(objects)}
    parts: dict[str, list[Row]] = defaultdict(list)
    for call in calls:
        found = call["service"] and ACTION.match(call["service"])
        if found:
            sides = {
                "_client_end": end_of.get(id(call["_client"]), "?"),
                "_server": (found[1], end_of.get(id(call["_service"]), "?")),
                "action": found[1],
            }
            parts[found[2]].append(call | sides)
    return parts


def _told(publications: Iterable[Row]) -> dict[Any, list[int]]:
    """When status and feedback were published: by part, action and node."""
    told: dict[Any, list[int]] = defaultdict(list)
    for call in publications:
        found = call["topic"] and ACTION.match(call["topic"])
        if found and call["node"] is not None:
            told[found[2], found[1], call["node"]].append(call["publish_ns"])
    for times in told.values():
        times.sort()
    return told


def _renamed(call: Row, names: Sequence[str]) -> Row:
    return call | dict(zip(names, (call[time] for time in _OF_CALL), strict=True))


def _reject(of_server: Sequence[Row], told: dict[Any, list[int]], losses: Iterable[Row]) -> None:
    taken = sorted((g for g in of_server if g["goal_taken_ns"] is not None),
                   key=lambda g: g["goal_taken_ns"])  # fmt: skip
    counts = []
    for goal, after in zip(taken, [*taken[1:], None], strict=False):
        status = told["status", goal["action"], goal["server_node"]]
        until = after["goal_taken_ns"] if after else FOREVER
        sure = not _missing(losses, goal["goal_taken_ns"], until)
        counts.append((_upto(status, goal["goal_taken_ns"]), _upto(status, until), sure))
    tells = any(upto > 0 for _, upto, _ in counts)
    for goal in of_server:
        goal["_rejected"] = False
    for goal, (before, upto, sure) in zip(taken, counts, strict=True):
        goal["_rejected"] = sure and tells and before == upto


def _give_results(of_way: Sequence[Row], results: list[Row]) -> None:
    for goal in of_way:
        goal.update(dict.fromkeys(RESULT), match=None)
        goal["_answered"] = _first(goal["goal_response_taken_ns"], goal["goal_response_sent_ns"])
    waiting = sorted((g for g in of_way if g["_answered"] is not None and not g["_rejected"]),
                     key=lambda g: g["_answered"])  # fmt: skip
    for result in results:
        result["_asked"] = _first(*(result[name] for name in RESULT[1:3]))
    results = sorted((r for r in results if r["_asked"] is not None), key=lambda r: r["_asked"])
    answered = [g["_answered"] for g in waiting]
    places = [bisect_right(answered, r["_asked"]) - 1 for r in results]
    known = [p for p in places if p >= 0]
    in_order = len(set(known)) < len(known)
    for nth, (result, found) in enumerate(zip(results, places, strict=True)):
        belongs = nth if in_order else found
        if 0 <= belongs < len(waiting) and answered[belongs] <= result["_asked"]:
            exact = nth == found and not in_order
            waiting[belongs] |= {name: result[name] for name in RESULT}
            waiting[belongs]["match"] = "exact" if exact else "approximate"


def _alone(of_server: Sequence[Row]) -> None:
    for goal in of_server:
        goal["alone"], until = None, _first(goal["result_sent_ns"], FOREVER)
        goal["_begin"] = _first(goal["goal_taken_ns"], goal["goal_response_sent_ns"])
        goal["_until"] = goal["goal_taken_ns"] if goal["_rejected"] else until
    taken = sorted((g for g in of_server if g["_begin"] is not None), key=lambda g: g["_begin"])
    for i, goal in enumerate(taken):
        if goal["goal_taken_ns"] is None:
            continue
        after = [g["_begin"] for g in taken[i + 1 :] if not g["_rejected"]]
        alone = set()
        # One without an end may have ended at once, or never.
        for at_once in (True, False):
            until = [
                g["_begin"] if at_once and g["_until"] == FOREVER else g["_until"]
                for g in taken[: i + 1]
            ]
            before = max(until[:i], default=0)
            fits = before <= goal["goal_taken_ns"] and (not after or after[0] > until[i])
            alone.add(goal["_rejected"] or fits)
        goal["alone"] = alone.pop() if len(alone) == 1 else None


def _tell(goal: Row, told: dict[Any, list[int]], tellers: set[Any], cancels: Iterable[Row]) -> None:
    """Status, feedback and cancel, and what lies between the times."""
    goal |= dict.fromkeys(
        ("finished_ns", "first_feedback_ns", "last_feedback_ns", "feedback_count",
         "feedback_rate_hz", "cancel_sent_ns")
    )  # fmt: skip
    begin, end = goal["goal_taken_ns"], goal["result_sent_ns"]
    of = goal["action"], goal["server_node"]
    if goal["alone"]:
        status, feedback = told["status", *of], told["feedback", *of]
        if end is not None:
            during = status[_upto(status, begin) : _upto(status, end)]
            if len(during) >= 2:
                goal["finished_ns"] = during[-1]
            given = feedback[_upto(feedback, begin) : _upto(feedback, end)]
            if not goal["_rejected"] and of in tellers:
                goal["feedback_count"] = len(given)
                if given:
                    goal["first_feedback_ns"], goal["last_feedback_ns"] = given[0], given[-1]
                    lasted = given[-1] - given[0]
                    if lasted > 0:
                        goal["feedback_rate_hz"] = (len(given) - 1) * 1e9 / lasted
        if goal["_rejected"]:
            goal["feedback_count"] = 0
        asked = sorted(
            (c["request_taken_ns"], i) for i, c in enumerate(cancels)
            if c["request_taken_ns"] is not None
        )  # fmt: skip
        first = bisect_left(asked, (begin, -1))
        if first < len(asked) and asked[first][0] <= goal["_until"]:
            goal["cancel_sent_ns"] = list(cancels)[asked[first][1]]["request_sent_ns"]
    asked, wanted = _began(goal, GOAL), _began(goal, RESULT)
    for name, end, begun in (
        ("accept_ns", goal["goal_response_taken_ns"], asked),
        ("execute_ns", goal["finished_ns"], goal["goal_response_sent_ns"]),
        ("result_ns", goal["result_taken_ns"], wanted),
        ("total_ns", goal["result_taken_ns"], asked),
    ):
        goal[name] = None if None in {end, begun} else end - begun


def _began(goal: Row, times: Sequence[str]) -> int | None:
    """When it was called; else no later than it was sent and taken."""
    called, sent, taken = (goal[name] for name in times[:3])
    if called is not None or sent is None:
        return called
    return sent if taken is None else min(sent, taken)


def _upto(times: Sequence[int], moment: int) -> int:
    return bisect_right(times, moment)


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
