"""Find service calls: one request of one client, at each server that took it.

The key of a request is the client's gid (its first 16 bytes) and the sequence number; a response
has that key too, and its timestamp distinguishes those of several servers.

Decided when the event comes: the client or service that a handle names, and the execution that
serves a request. This is the first on the thread before its next request, the end of a callback, a
response that it takes or an event of its executor, if it may be one of this service.
Decided at the end, because Fast DDS records a request after it was taken: the events of the same
key. A response of a server that is not known to have taken the request belongs to the call that no
server took, if there is one. The response that a client took is the one of this timestamp; else the
only one of this key, if only one server is known to have been asked.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from reference_model.callbacks import Callbacks, within
from reference_model.events import Event
from reference_model.objects import Objects, Row
from reference_model.walk import place

TIMES = ("request_sent_ns", "request_taken_ns", "response_sent_ns", "response_taken_ns",
         "response_received_ns")  # fmt: skip


class Services:
    """Requests and responses. Must get events after `Callbacks`."""

    def __init__(self, objects: Objects, callbacks: Callbacks) -> None:
        self.objects, self.callbacks = objects, callbacks
        self.told: dict[str, list[Row]] = {name: [] for name in TIMES}
        self.happened = False
        self.rows: list[Row] = []
        self._request: dict[Any, Row] = {}
        self._calling: dict[Any, tuple[str, Row | None, int]] = {}

    def _tell(self, e: Event, column: str, gid: Any, **columns: Any) -> Row:
        gid = None if gid is None or len(gid) < 16 else tuple(gid[:16])
        row = {**place(e), column: e["time_ns"], "_gid": gid, **columns}
        row["sequence_number"] = e["sequence_number"]
        self.told[column].append(row)
        return row

    def _client(self, e: Event) -> Row | None:
        self.happened = True
        return self.objects.now("rmw_client_handle", e["proc"], e["rmw_client_handle"])

    def _service(self, e: Event) -> Row | None:
        self.happened = True
        return self.objects.now("rmw_service_handle", e["proc"], e["rmw_service_handle"])

    def on_rmw_send_request(self, e: Event) -> None:
        client = self._client(e)
        running = self.callbacks.running(e["thread"])
        gid = client and client["gid"]
        called = self._called(e, "client", client)
        self._tell(e, "request_sent_ns", gid, _client=client, _running=running, _called=called)

    def on_rcl_send_request(self, e: Event) -> None:
        client = self.objects.now("rmw_client_handle", e["proc"], e["rmw_client_handle"])
        self._calling[e["thread"]] = ("client", client, e["time_ns"])

    def on_rcl_send_response(self, e: Event) -> None:
        service = self.objects.now("rmw_service_handle", e["proc"], e["rmw_service_handle"])
        self._calling[e["thread"]] = ("service", service, e["time_ns"])

    def _called(self, e: Event, kind: str, endpoint: Row | None) -> int | None:
        """Return when the call of rcl began in which a thread sends a request or response."""
        calling_kind, calling, began = self._calling.pop(e["thread"], (None, None, None))
        return began if calling_kind == kind and calling is endpoint else None

    def on_client_callback_start(self, e: Event) -> None:
        client = self.objects.now("rmw_client_handle", e["proc"], e["rmw_client_handle"])
        self._tell(e, "response_received_ns", client and client["gid"])

    def on_rmw_take_request(self, e: Event) -> None:
        service = self._service(e)
        if e["taken"]:
            row = self._tell(e, "request_taken_ns", e["client_gid"], _service=service, _first=None)
            self._request[e["thread"]] = row

    def on_callback_start(self, e: Event) -> None:
        request = self._request.pop(e["thread"], None)
        if request is not None:
            request["_first"] = self.callbacks.latest[e["thread"]]

    def on_gap(self, e: Event) -> None:
        self._request.pop(e["thread"], None)
        self._calling.pop(e["thread"], None)

    on_callback_end = on_rclcpp_executor_wait_for_work = on_gap
    on_rclcpp_executor_get_next_ready = on_rclcpp_executor_execute = on_gap
    on_executor_wait_start = on_executor_wait_end = on_gap

    def on_rmw_send_response(self, e: Event) -> None:
        service = self._service(e)
        self._tell(e, "response_sent_ns", e["client_gid"], _service=service,
                   _stamp=e["timestamp"], _called=self._called(e, "service", service))  # fmt: skip

    def on_rmw_take_response(self, e: Event) -> None:
        client = self._client(e)
        self.on_gap(e)
        if e["taken"]:
            gid = client and client["gid"]
            self._tell(e, "response_taken_ns", gid, _stamp=e["source_timestamp"])

    # ------------------------------------------------------------ the end

    def finish(self) -> None:
        self.rows = self._calls() if self.happened else self._callbacks_alone()

    def _callbacks_alone(self) -> list[Row]:
        """Make calls of the servers' executions, which are all that is known before Kilted."""
        return [
            _named(_call(instance["_proc"], _service=instance["_owner"]) | _served(instance))
            for instance in self.callbacks.instances
            if instance["kind"] == "service"
        ]

    def _calls(self) -> list[Row]:
        # Calls by key; a call of unknown key is alone.
        by_key: dict[Any, list[Row]] = defaultdict(list)
        taken = defaultdict(list)
        for row in self.told["request_sent_ns"]:
            call = _call(row["_proc"], **{k: row[k] for k in ("_client", "sequence_number")})
            call["request_sent_ns"] = row["request_sent_ns"]
            call["request_called_ns"] = row["_called"]
            call["_client_callback_instance"] = within(row["_running"])
            by_key[_key(row)].append(call)
        for row in self.told["request_taken_ns"]:
            _take(row, by_key[_key(row)])
        for row in self.told["response_sent_ns"]:
            _answer(row, by_key[_key(row)])
        for row in self.told["response_taken_ns"]:
            taken[_key(row)].append(row)
        received = {}
        for row in self.told["response_received_ns"]:
            if row["_gid"] is not None:
                received.setdefault(_key(row), row["response_received_ns"])
        for key, calls in by_key.items():
            for call in calls:
                stamp = call["_stamp"]
                exact = [r for r in taken[key] if stamp is not None and r["_stamp"] == stamp]
                if not exact and len(calls) == len(taken[key]) == 1:
                    exact = taken[key]
                call["response_taken_ns"] = exact[0]["response_taken_ns"] if exact else None
                call["response_received_ns"] = received.get(key)
        return [_named(call) for calls in by_key.values() for call in calls]


def _take(row: Row, calls: list[Row]) -> None:
    """Add a request that a server took to its call; `calls` are those of its key."""
    call = next((c for c in calls if c["request_taken_ns"] is None), None)
    if call is None:
        # Another server took the request as well.
        original = calls[0] if calls else _call(row["_proc"])
        sent = ("_client", "request_called_ns", "request_sent_ns", "_client_callback_instance")
        call = _call(original["_proc"]) | {k: original[k] for k in sent}
        calls.append(call)
    call |= {k: row[k] for k in ("request_taken_ns", "_service", "sequence_number")}
    call["_server_proc"] = row["_proc"]
    first, service = row["_first"], row["_service"]
    if first and first["kind"] == "service":
        owner = first["_owner"]
        if owner is None or service is None or owner is service:
            call.update(_served(first))


def _answer(row: Row, calls: list[Row]) -> None:
    """Add a response that a server sent to its call; `calls` are those of its key."""
    unanswered = [c for c in calls if c["response_sent_ns"] is None]
    taken = [c for c in unanswered if c["request_taken_ns"] is not None]
    matching = [c for c in taken if c["_service"] is row["_service"]]
    matching = matching or [c for c in unanswered if c["request_taken_ns"] is None]
    if not matching:
        matching = [_call(row["_proc"])]
        calls += matching
    columns = ("response_sent_ns", "_service", "sequence_number", "_stamp")
    matching[0].update({k: row[k] for k in columns}, _server_proc=row["_proc"])
    matching[0]["response_called_ns"] = row["_called"]


def _key(row: Row) -> Any:
    return (id(row),) if row["_gid"] is None else (*row["_gid"], row["sequence_number"])


def _call(proc: Any, **columns: Any) -> Row:
    nothing = dict.fromkeys(
        (*TIMES, "request_called_ns", "response_called_ns", "callback_start_ns",
         "callback_end_ns", "sequence_number")
    )  # fmt: skip
    keys = ("_client", "_service", "_callback_instance", "_client_callback_instance", "_stamp")
    return nothing | dict.fromkeys(keys) | {"_proc": proc, "_server_proc": None} | columns


def _served(instance: Row) -> Row:
    return {
        "callback_start_ns": instance["start_ns"],
        "callback_end_ns": instance["end_ns"],
        "_callback_instance": instance,
    }


def _named(call: Row) -> Row:
    client, service = call["_client"], call["_service"]
    call["client_node"] = client and client["node"]
    call["server_node"] = service and service["node"]
    call["service"] = (service and service["service"]) or (client and client["service"])
    # The process of the server, else of the client.
    proc = (service or client or {}).get("_proc") or call["_server_proc"] or call["_proc"]
    call["host"], call["vpid"] = proc[0], proc[2]
    return call
