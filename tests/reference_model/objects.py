"""Find all objects: processes, contexts, nodes, endpoints, timers, ring buffers, callbacks, ...

An address names, within its process, the object that an init event gave it to last. No event shows
when an object is destroyed: it ends, at the latest, when one of its addresses is given to the next
object.

Decided when the event comes: the node of an object, the owner of a service's or timer's callback,
the intra-process buffer of a ring buffer.

* ``rmw_publisher_init`` begins an endpoint and ``rcl_publisher_init`` of the same rmw handle
  completes it (subscriptions and clients likewise); its rmw handle is known from the first event
  on, ``created_ns`` is that of the second. An endpoint that is never completed is the middleware's.
* rcl records the publisher of ``/rosout`` by an address on the stack, which names nothing later.

Decided at the end: the rcl subscription of an object of rclcpp. The intra-process twin of a
subscription gets its callback before its own init event, so that an init before or one after may
be meant: the nearest in time counts. The same holds for a callback's symbol.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partialmethod
from typing import Any, TypeAlias

from reference_model.events import Event, Proc
from reference_model.walk import place

Row: TypeAlias = dict[str, Any]
DISCOVERY, ROSOUT = "ros_discovery_info", "/rosout"


class Objects:
    """Objects of all kinds; each is a row that is filled as more becomes known."""

    def __init__(self, declared: set[str]) -> None:
        self.declared = declared
        self.processes: dict[Proc, Row] = {}
        self.rows: dict[str, list[Row]] = defaultdict(list)
        self._named: dict[tuple[str, Proc, int], list[Row]] = defaultdict(list)
        self._inits: dict[tuple[Proc, int], list[Event]] = defaultdict(list)
        self._registered: dict[tuple[Proc, int], list[Event]] = defaultdict(list)
        self._last_publisher: dict[Any, Row] = {}
        self._typed: dict[tuple[str, Proc, int], Row] = {}
        """Endpoints whose type is not known yet, by kind and handle."""

    # ------------------------------------------------------------ addresses

    def now(self, address_of: str, proc: Proc, address: int | None) -> Row | None:
        """Return the object that an address names now; `address_of` is the name of its column."""
        rows = self._named.get((address_of, proc, address))  # type: ignore[arg-type]
        return rows[-1] if rows else None

    def then(self, address_of: str, proc: Proc, address: int | None, time_ns: int) -> Row | None:
        """Return the object that an address named at a time."""
        rows = self._named.get((address_of, proc, address), ())  # type: ignore[arg-type]
        before = [row for row in rows if row["created_ns"] <= time_ns]
        return before[-1] if before else None

    def _name(self, row: Row, address_of: str) -> None:
        address = row[address_of]
        if address is None:
            return
        rows = self._named[address_of, row["_proc"], address]
        if rows and rows[-1] is row:
            return
        if rows:
            rows[-1]["_next"].append(row)
        rows.append(row)

    def _new(self, table: str, e: Event, addresses: Sequence[str] = (), **columns: Any) -> Row:
        row = {**place(e), "created_ns": e["time_ns"], "ended_ns": None, "_next": [], **columns}
        self.rows[table].append(row)
        for name in addresses:
            self._name(row, name)
        return row

    def _node(self, e: Event) -> Row | None:
        return self.now("node_handle", e["proc"], e["node_handle"])

    # ------------------------------------------------------------ processes, contexts, nodes

    def on_event(self, e: Event) -> None:
        if e.get("vpid") is None:
            return
        process = self.processes.get(e["proc"])
        if process is None:
            process = self.processes[e["proc"]] = {
                "host": e["host"],
                "vpid": e.get("vpid"),
                "pid_namespace": e["proc"][1] or None,
                "procname": e.get("procname"),
                "begin_ns": e["time_ns"],
                "tracetools_version": None,
                "events": 0,
            }
        process["events"] += 1
        process["end_ns"] = e["time_ns"]

    def on_rcl_init(self, e: Event) -> None:
        process = self.processes.get(e["proc"])
        if process is not None:
            process["tracetools_version"] = e["version"]
        self._new(
            "contexts",
            e,
            ("context_handle",),
            context_handle=e["context_handle"],
            tracetools_version=e["version"],
            _process=process,
        )

    def on_rcl_node_init(self, e: Event) -> None:
        self._new(
            "nodes",
            e,
            ("node_handle",),
            node=e["namespace"].rstrip("/") + "/" + e["node_name"],
            name=e["node_name"],
            namespace=e["namespace"],
            node_handle=e["node_handle"],
            rmw_handle=e["rmw_handle"],
        )

    # ------------------------------------------------------------ publishers, subscriptions

    def _rmw_endpoint(self, kind: str, e: Event) -> None:
        rmw = f"rmw_{kind}_handle"
        topic = DISCOVERY if f"rcl_{kind}_init" in self.declared else None
        columns = {
            rmw: e[rmw],
            f"{kind}_handle": None,
            "gid": e["gid"],
            "topic": topic,
            "type": None,
        }
        self._new(f"{kind}s", e, (rmw,), **columns, queue_depth=None, _node=None, _rcl=False)

    on_rmw_publisher_init = partialmethod(_rmw_endpoint, "publisher")
    on_rmw_subscription_init = partialmethod(_rmw_endpoint, "subscription")

    def _rcl_endpoint(self, kind: str, e: Event) -> None:
        handle, rmw = f"{kind}_handle", f"rmw_{kind}_handle"
        endpoint = self.now(rmw, e["proc"], e[rmw])
        if endpoint is None or endpoint["_rcl"]:
            endpoint = self._new(f"{kind}s", e, (), **{rmw: e[rmw]}, gid=None, type=None)
            self._name(endpoint, rmw)
        endpoint.update(
            place(e),
            created_ns=e["time_ns"],
            topic=e["topic_name"],
            queue_depth=e["queue_depth"],
            _node=self._node(e),
            _rcl=True,
        )
        endpoint[handle] = e[handle]
        self._typed[kind, e["proc"], e[handle]] = endpoint
        if not (kind == "publisher" and e["topic_name"] == ROSOUT):
            self._name(endpoint, handle)
        if kind == "publisher":
            self._last_publisher[e["thread"]] = endpoint

    on_rcl_publisher_init = partialmethod(_rcl_endpoint, "publisher")
    on_rcl_subscription_init = partialmethod(_rcl_endpoint, "subscription")

    def on_message_type_init(self, e: Event) -> None:
        for kind in ("publisher", "subscription"):
            row = self._typed.pop((kind, e["proc"], e["handle"]), None)
            if row is not None:
                row["type"] = e["type"]

    # ------------------------------------------------------------ services, clients, timers

    def on_rcl_client_init(self, e: Event) -> None:
        client = self._service_end("client", e)
        rmw_client = self.now("_client_gid", e["proc"], e["rmw_client_handle"])
        client["gid"] = rmw_client["gid"] if rmw_client else None

    def on_rmw_client_init(self, e: Event) -> None:
        self._new("_", e, ("_client_gid",), _client_gid=e["rmw_client_handle"], gid=e["gid"])

    def _service_end(self, kind: str, e: Event) -> Row:
        handle, rmw = f"{kind}_handle", f"rmw_{kind}_handle"
        columns = {handle: e[handle], rmw: e[rmw], "service": e["service_name"]}
        return self._new(f"{kind}s", e, (handle, rmw), **columns, _node=self._node(e))

    on_rcl_service_init = partialmethod(_service_end, "service")

    def on_rcl_timer_init(self, e: Event) -> None:
        columns = {"timer_handle": e["timer_handle"], "period_ns": e["period"]}
        self._new("timers", e, ("timer_handle",), **columns, _node=None, _linked=False)

    def on_rclcpp_timer_link_node(self, e: Event) -> None:
        timer = self.now("timer_handle", e["proc"], e["timer_handle"])
        if timer is not None and not timer["_linked"]:
            timer.update(_node=self._node(e), _linked=True)

    # ------------------------------------------------------------ callbacks

    def on_rclcpp_subscription_init(self, e: Event) -> None:
        self._inits[e["proc"], e["subscription"]].append(e)

    def on_rclcpp_subscription_callback_added(self, e: Event) -> None:
        self._callback("subscription", e, None)["_object"] = e["subscription"]

    def on_rclcpp_service_callback_added(self, e: Event) -> None:
        self._callback("service", e, self.now("service_handle", e["proc"], e["service_handle"]))

    def on_rclcpp_timer_callback_added(self, e: Event) -> None:
        self._callback("timer", e, self.now("timer_handle", e["proc"], e["timer_handle"]))

    def _callback(self, kind: str | None, e: Event, owner: Row | None) -> Row:
        callback = {"callback": e["callback"], "kind": kind, "_owner": owner, "symbol": None}
        return self._new("callbacks", e, ("callback",), **callback)

    def on_rclcpp_callback_register(self, e: Event) -> None:
        if self.now("callback", e["proc"], e["callback"]) is None:
            # The owner is not known; the event that names it may still come.
            self._callback(None, e, None)
        self._registered[e["proc"], e["callback"]].append(e)

    def on_function_register(self, e: Event) -> None:
        self._callback("function", {**e, "callback": e["function"]}, None)["_name"] = e[
            "function_name"
        ]

    # ------------------------------------------------------------ ring buffers

    def on_rclcpp_construct_ring_buffer(self, e: Event) -> None:
        self._ring_buffer(e, e["capacity"])

    def _ring_buffer(self, e: Event, capacity: int | None) -> Row:
        columns = {"buffer": e["buffer"], "capacity": capacity, "ipb": None, "_link": None}
        after = self._last_publisher.get(e["thread"])
        return self._new("ring_buffers", e, ("buffer",), **columns, _after=after)

    def on_rclcpp_buffer_to_ipb(self, e: Event) -> None:
        buffer = self.now("buffer", e["proc"], e["buffer"])
        if buffer is None or buffer["ipb"] is not None:
            buffer = self._ring_buffer(e, None)
        buffer["ipb"] = e["ipb"]
        rows = self._named["ipb", e["proc"], e["ipb"]]
        rows.append(buffer)

    def on_rclcpp_ipb_to_subscription(self, e: Event) -> None:
        buffer = self.now("ipb", e["proc"], e["ipb"])
        if buffer is not None and buffer["_link"] is None:
            buffer["_link"] = e

    # ------------------------------------------------------------ the end

    def finish(self) -> None:
        for rows in self.rows.values():
            for row in rows:
                following = [after["created_ns"] for after in row["_next"]]
                row["ended_ns"] = min(following, default=None)
            rows.sort(key=lambda row: row["created_ns"])
        for callback in self.rows["callbacks"]:
            self._finish_callback(callback)
        for buffer in self.rows["ring_buffers"]:
            self._finish_ring_buffer(buffer)
        for kind in ("publishers", "subscriptions", "services", "clients", "timers"):
            for row in self.rows[kind]:
                row["node"] = row["_node"] and row["_node"]["node"]

    def subscription_of(self, e: Event, at_ns: int) -> Row | None:
        """Return the rcl subscription to which an event refers by an object of rclcpp."""
        init = nearest(self._inits[e["proc"], e["subscription"]], e["time_ns"])
        # If no init was recorded, the object itself is taken for the handle.
        handle = init["subscription_handle"] if init else e["subscription"]
        return self.then("subscription_handle", e["proc"], handle, at_ns)

    def _finish_callback(self, callback: Row) -> None:
        proc, created = callback["_proc"], callback["created_ns"]
        if callback["kind"] == "subscription":
            added = {"proc": proc, "subscription": callback["_object"], "time_ns": created}
            callback["_owner"] = self.subscription_of(added, created)
        register = nearest(self._registered[proc, callback["callback"]], created)
        callback["symbol"] = register and register["symbol"]
        owner = callback["_owner"]
        callback["_node"] = owner and owner["_node"]
        callback["node"] = callback["_node"] and callback["_node"]["node"]
        names = {"subscription": "topic", "service": "service"}
        if owner is None:
            callback["name"] = callback.get("_name")
        elif callback["kind"] == "timer":
            callback["name"] = in_words(owner["period_ns"])
        else:
            callback["name"] = owner[names[callback["kind"]]]

    def _finish_ring_buffer(self, buffer: Row) -> None:
        link, subscription, publisher = buffer["_link"], None, None
        if link is not None:
            init = nearest(self._inits[link["proc"], link["subscription"]], link["time_ns"])
            if init is not None:
                subscription = self.then(
                    "subscription_handle",
                    buffer["_proc"],
                    init["subscription_handle"],
                    buffer["created_ns"],
                )
        elif buffer["capacity"] is not None and "rclcpp_ipb_to_subscription" in self.declared:
            # It is the history of the publisher that was made just before on the same thread.
            publisher = buffer["_after"]
        owner = subscription or publisher
        buffer.update(
            _subscription=subscription,
            _publisher=publisher,
            _node=owner and owner["_node"],
            node=owner and owner["_node"] and owner["_node"]["node"],
            topic=owner and owner["topic"],
        )


def nearest(events: Sequence[Event], time_ns: int) -> Event | None:
    """Return the event nearest in time, the earlier one of two."""
    return min(events, key=lambda e: abs(e["time_ns"] - time_ns), default=None)


def in_words(period_ns: int) -> str:
    """Format a period in the largest unit that keeps it whole: ``2 ms``."""
    for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if period_ns % size == 0:
            return f"{period_ns // size} {unit}"
    return f"{period_ns} ns"
