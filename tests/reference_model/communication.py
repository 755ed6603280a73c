"""Find publications, takes and service calls.

The rules are those of docs/model.md, under "What a thread does" and "Service calls and goals". What
an event belongs to is added to it: ``call`` to publish events and enqueues, ``take`` to takes and
dequeues, ``serving`` and ``called_ns`` to requests and responses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from reference_model.events import EXECUTOR, Event, Row, column, first, place
from reference_model.gaps import Stretch
from reference_model.objects import DISCOVERY, ROSOUT, Objects

KINDS = ("rclcpp_intra_publish", "rclcpp_publish", "rcl_publish", "rmw_publish")
INTRA, RCLCPP, RCL, RMW = KINDS
INTERNAL = frozenset({ROSOUT, "/parameter_events", DISCOVERY})
ENDS_TAKE = frozenset({"callback_end", "rmw_take_request", "rmw_take_response", *EXECUTOR})
MIDDLEWARE = ("rmw_send_request", "rmw_take_request", "rmw_send_response", "rmw_take_response")
CALLS = {"rcl_send_request": "rmw_send_request", "rcl_send_response": "rmw_send_response"}
ENDS_REQUEST = frozenset({"callback_end", "rmw_take_response", *EXECUTOR})
COLUMNS = (
    "request_called_ns", "request_sent_ns", "request_taken_ns", "callback_start_ns",
    "callback_end_ns", "response_called_ns", "response_sent_ns", "response_taken_ns",
    "response_received_ns", "sequence_number", "_client", "_service", "_server_proc",
    "_callback_instance", "_client_callback_instance", "_stamp",
)  # fmt: skip


def publications(stretches: Iterable[Stretch], objects: Objects) -> list[Row]:
    """Return all calls of publish(), in order of time.

    An enqueue gets the call of an intra event just before it, and whether no publish event can be
    missing in between (``sure``).
    """
    calls: list[Row] = []
    for stretch in stretches:
        published = [e for e in stretch if e["event"] in KINDS]
        for e, following in zip_longest(published, published[1:]):
            e["following"] = following
        before: Event | None = None
        for e in stretch:
            name, of_before = e["event"], column(before, "event")
            if name in KINDS:
                if before is not None and _goes_on(before, e):
                    e["call"] = before["call"]
                else:
                    cut = stretch[0]["cut"] and before is None and name != INTRA
                    e["call"] = {**place(e), "_events": {}, "_cut": cut, "_content": {}}
                    calls.append(e["call"])
                e["call"]["_events"][name] = before = e
            elif name == "rclcpp_ring_buffer_enqueue":
                e["call"] = column(before, "call") if of_before == INTRA else None
                e["sure"] = before is not None or not stretch[0]["cut"]
            elif name == "message_content" and of_before in {RCL, RMW} and _same(before, e):
                before["call"]["_content"] = e
    for call in calls:
        _fill_call(call, objects)
    return sorted(calls, key=lambda call: call["_first"]["n"])


def _goes_on(before: Event, e: Event) -> bool:
    """Whether a publish event belongs to the call of the one before it on its thread."""
    kinds, following = (before["event"], e["event"]), e["following"]
    if kinds == (INTRA, RCLCPP) and column(following, "event") == RCL:
        return bool(before["publisher_handle"] == following["publisher_handle"])
    if kinds == (INTRA, RCL):
        return bool(before["publisher_handle"] == e["publisher_handle"])
    return kinds == (RCLCPP, RCL) or (kinds in {(INTRA, RCLCPP), (RCL, RMW)} and _same(before, e))


def _same(before: Event, e: Event) -> bool:
    return before["message"] == e["message"] is not None


def _fill_call(call: Row, objects: Objects) -> None:
    events, content = call["_events"], call["_content"]
    call["_first"] = earliest = next(iter(events.values()))
    publisher, topic, node = _published_by(call, objects)
    call |= {
        "publish_ns": earliest["time_ns"],
        "intra_publish_ns": column(events.get(INTRA), "time_ns"),
        **{f"{kind}_ns": column(events.get(kind), "time_ns") for kind in (RCLCPP, RCL, RMW)},
        "source_timestamp_ns": events.get(RMW, {}).get("timestamp"),
        "size": content.get("size") or None,
        "header_stamp_ns": content.get("header_stamp") or None,
        "_callback_instance": earliest["within"],
        "_publisher": publisher, "topic": topic, "node": column(node, "node"),
    }  # fmt: skip


def _published_by(call: Row, objects: Objects) -> tuple[Row | None, str | None, Row | None]:
    """Return publisher, topic and node."""
    events, rcl_declared = call["_events"], RCL in objects.declared
    publishers = [p for p in objects.rows["publishers"] if p["_proc"] == call["_proc"]]
    # rcl's handle has precedence over rclcpp's, because a call has at most one publisher.
    named = (events[kind] for kind in (RCL, INTRA, RCLCPP) if kind in events)
    handle = next((e for e in named if e.get("publisher_handle") is not None), None)
    publisher = column(events.get(RMW), "of") or column(handle, "of")
    topic, node = column(publisher, "topic"), column(publisher, "_node")
    kinds, rmw_handle = set(events), events.get(RMW, {}).get("rmw_publisher_handle")
    if kinds == {RMW} and publisher is None and rcl_declared:
        topic = DISCOVERY
    elif kinds != {RMW} and topic == DISCOVERY and rcl_declared:
        topic = None
    elif publisher is None and rmw_handle is None and kinds in ({RCL}, {RCL, RMW}):
        topic = ROSOUT if any(p["topic"] == ROSOUT for p in publishers) else None
    elif topic is None and RCLCPP in kinds and RCL not in kinds and not rcl_declared:
        made = [
            p for p in publishers
            if p["created_ns"] <= call["_first"]["time_ns"]
            and p["topic"] not in {None, ROSOUT, DISCOVERY}
        ]  # fmt: skip
        made = [p for p in made if p["topic"] not in INTERNAL] or made
        if len({p["topic"] for p in made}) == 1:
            topic = made[0]["topic"]
        if len(made) == 1:
            publisher, node = made[0], made[0]["_node"]
    return publisher, topic, node


def takes(stretches: Iterable[Stretch], objects: Objects) -> list[Row]:
    """Return all takes in order of time."""
    rows = []
    for stretch in stretches:
        take: Row | None = None
        for e in stretch:
            name = e["event"]
            if name in {"rmw_take", "rclcpp_ring_buffer_dequeue"}:
                take = e["take"] = {"_event": e, "_started": None}
                if e.get("taken", True):
                    rows.append(take)
            elif name in ENDS_TAKE:
                take = None
            elif name == "callback_start" and take is not None:
                take["_started"] = take["_started"] or e["instance"]
            elif (
                name in {"rcl_take", "message_received", "rclcpp_take"} and take is not None
                and take["_event"].get("message") == e["message"] is not None
            ):  # fmt: skip
                take.setdefault(name, e)
    for take in rows:
        _fill_take(take, rcl_declared="rcl_take" in objects.declared)
    return sorted(rows, key=lambda take: take["_event"]["n"])


def _fill_take(take: Row, *, rcl_declared: bool) -> None:
    e, started, of = take["_event"], take["_started"], take["_event"]["of"]
    intra = e["event"] != "rmw_take"
    subscription, owner = column(of, "_subscription") if intra else of, column(started, "_owner")
    owners_known = owner is not None and subscription is not None
    fits = started is not None and started["intra_process"] == intra
    fits = fits and (owner is subscription or not owners_known)
    instance = started if fits else None
    topic, by_rcl = column(subscription, "topic"), "rcl_take" in take
    if subscription is None and not by_rcl and not intra and rcl_declared:
        topic = DISCOVERY
    elif by_rcl and topic == DISCOVERY:
        topic = None
    take |= {
        **place(e), "take_ns": e["time_ns"], "intra_process": intra,
        "source_timestamp_ns": None if intra else e["source_timestamp"],
        "rcl_take_ns": column(take.get("rcl_take"), "time_ns"),
        "rclcpp_take_ns": column(take.get("rclcpp_take"), "time_ns"),
        "received_ns": column(take.get("message_received"), "received_timestamp"),
        "_subscription": subscription, "topic": topic, "node": column(subscription, "node"),
        "_callback_instance": instance, "_next": fits and not owners_known,
        "callback_start_ns": column(instance, "start_ns"),
        "callback_end_ns": column(instance, "end_ns"),
    }  # fmt: skip


def service_calls(
    events: Iterable[Event], stretches: Iterable[Stretch], instances: Iterable[Row]
) -> list[Row]:
    """Return a row per request and server that took it."""
    for stretch in stretches:
        _follow(stretch)
    by_key: dict[Any, dict[str, list[Event]]] = defaultdict(lambda: defaultdict(list))
    happened = False
    for e in events:
        if e["event"] in {*MIDDLEWARE, "client_callback_start"}:
            happened |= e["event"] in MIDDLEWARE
            gid = column(e["of"], "gid") if "rmw_client_handle" in e else e["client_gid"]
            known = gid is not None and len(gid) >= 16
            key = (*gid[:16], e["sequence_number"]) if known else (e["n"],)
            if e.get("taken", True):
                by_key[key][e["event"]].append(e)
    calls = [call for of_key in by_key.values() for call in _calls(of_key)]
    if not happened:
        calls = [_call(i["_proc"], _service=i["_owner"], **_served(i))
                 for i in instances if i["kind"] == "service"]  # fmt: skip
    for call in calls:
        client, service = call["_client"], call["_service"]
        proc = first(column(service or client, "_proc"), call["_server_proc"], call["_proc"])
        call |= {
            "client_node": column(client, "node"), "server_node": column(service, "node"),
            "service": column(service or client, "service"), "host": proc[0], "vpid": proc[2],
        }  # fmt: skip
    return calls


def _follow(stretch: Stretch) -> None:
    """Give requests their execution (``serving``), and what is sent when rcl was called."""
    request: Event | None = None
    calling: Event | None = None
    for e in stretch:
        name = e["event"]
        if name in CALLS:
            calling = e
        elif name in CALLS.values():
            of_this = calling and CALLS[calling["event"]] == name and calling["of"] is e["of"]
            e["called_ns"], calling = column(calling, "time_ns") if of_this else None, None
        elif name == "rmw_take_request" and e["taken"]:
            request = e
        elif name == "callback_start" and request is not None:
            request["serving"], request = e["instance"], None
        elif name in ENDS_REQUEST:
            request = calling = None


def _calls(of_key: Mapping[str, Sequence[Event]]) -> list[Row]:
    """Make the calls of the events of one key."""
    calls = [
        _call(
            e["proc"], _client=e["of"], sequence_number=e["sequence_number"],
            request_called_ns=e["called_ns"], request_sent_ns=e["time_ns"],
            _client_callback_instance=e["within"],
        )
        for e in of_key["rmw_send_request"]
    ]  # fmt: skip
    for e in of_key["rmw_take_request"]:
        call = next((c for c in calls if c["request_taken_ns"] is None), None)
        if call is None:
            # Another server took the request as well.
            sent = calls[0] if calls else _call(e["proc"])
            call = _call(sent["_proc"], **{name: sent[name] for name in (
                "_client", "request_called_ns", "request_sent_ns", "_client_callback_instance"
            )})  # fmt: skip
            calls.append(call)
        call |= _at_server(e) | {"request_taken_ns": e["time_ns"]}
        serving = e.get("serving")
        owner = column(serving, "_owner")
        if column(serving, "kind") == "service" and (None in (owner, e["of"]) or owner is e["of"]):
            call |= _served(serving)
    for e in of_key["rmw_send_response"]:
        unanswered = [c for c in calls if c["response_sent_ns"] is None]
        asked = [c for c in unanswered
                 if c["request_taken_ns"] is not None and c["_service"] is e["of"]]  # fmt: skip
        asked = asked or [c for c in unanswered if c["request_taken_ns"] is None]
        if not asked:
            asked = [_call(e["proc"])]
            calls += asked
        answer = {"response_called_ns": e["called_ns"], "response_sent_ns": e["time_ns"]}
        asked[0] |= _at_server(e) | answer | {"_stamp": e["timestamp"]}
    taken, received = of_key["rmw_take_response"], of_key["client_callback_start"]
    for call in calls:
        stamp = call["_stamp"]
        exact = [e for e in taken if stamp is not None and e["source_timestamp"] == stamp]
        if not exact and len(calls) == len(taken) == 1:
            exact = list(taken)
        call["response_taken_ns"] = exact[0]["time_ns"] if exact else None
        call["response_received_ns"] = received[0]["time_ns"] if received else None
    return calls


def _call(proc: Any, **columns: Any) -> Row:
    return {**dict.fromkeys(COLUMNS), "_proc": proc, **columns}


def _at_server(e: Event) -> Row:
    number = e["sequence_number"]
    return {"_service": e["of"], "_server_proc": e["proc"], "sequence_number": number}


def _served(i: Row) -> Row:
    times = {"callback_start_ns": i["start_ns"], "callback_end_ns": i["end_ns"]}
    return times | {"_callback_instance": i}
