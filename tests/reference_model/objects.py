"""Find all objects: processes, contexts, nodes, endpoints, timers, ring buffers, callbacks, ...

docs/model.md says under "Processes and objects" what an address names, and when. Each event that is
no init event gets the object that its address names then (``of``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from reference_model.events import FREE, INIT, Event, Proc, Row, column, grouped, place

DISCOVERY, ROSOUT = "ros_discovery_info", "/rosout"
MADE = {
    "rcl_init": ("contexts", ("context_handle",), {"tracetools_version": "version"}),
    "rcl_node_init": ("nodes", ("node_handle",), {"name": "node_name", "namespace": "namespace",
                                                  "rmw_handle": "rmw_handle"}),
    "rmw_publisher_init": ("publishers", ("rmw_publisher_handle",), {}),
    "rmw_subscription_init": ("subscriptions", ("rmw_subscription_handle",), {}),
    "rcl_service_init":
        ("services", ("service_handle", "rmw_service_handle"), {"service": "service_name"}),
    "rcl_client_init":
        ("clients", ("client_handle", "rmw_client_handle"), {"service": "service_name"}),
    "rcl_timer_init": ("timers", ("timer_handle",), {"period_ns": "period"}),
    "rclcpp_construct_ring_buffer": ("ring_buffers", ("buffer",), {"capacity": "capacity"}),
    "rclcpp_subscription_callback_added": ("callbacks", ("callback",), {}, "subscription"),
    "rclcpp_service_callback_added": ("callbacks", ("callback",), {}, "service"),
    "rclcpp_timer_callback_added": ("callbacks", ("callback",), {}, "timer"),
    "function_register": ("callbacks", ("callback",), {"name": "function_name"}, "function"),
}  # fmt: skip
"""By init event: the table of its object, the addresses that name it, columns by field, and kind.
"""
UNKNOWN = dict.fromkeys((
    "publisher_handle", "subscription_handle", "type", "queue_depth", "name", "symbol",
    "capacity", "ipb", "_link", "_rcl", "_linked",
))  # fmt: skip
"""What later events may tell of an object."""
ADDRESSES = (
    "rmw_publisher_handle", "publisher_handle", "rmw_subscription_handle", "buffer", "callback",
    "rmw_client_handle", "rmw_service_handle",
)  # fmt: skip
"""Fields by which events that are no init events refer to an object."""


class Objects:
    """Objects of all kinds (`rows`, by table), each a row that is filled as more becomes known."""

    def __init__(self, events: Sequence[Event], declared: set[str]) -> None:
        self.declared = declared
        self.processes = _processes(events)
        self.rows: dict[str, list[Row]] = defaultdict(list)
        self._named: dict[tuple[str, Proc, int], list[Row]] = defaultdict(list)
        by_name = grouped(events, itemgetter("event"))
        key = itemgetter("proc", "subscription")
        self._inits = grouped(by_name["rclcpp_subscription_init"], key)
        key = itemgetter("proc", "callback")
        self._registered = grouped(by_name["rclcpp_callback_register"], key)
        self._gids: dict[tuple[Proc, int | None], list[int]] = {}
        self._last_publisher: dict[Any, Row] = {}
        self._untyped: dict[tuple[str, Proc, int], Row] = {}
        for e in events:
            if "function" in e:
                e["callback"] = e["function"]
            if e["event"] in MADE:
                self._make(e, *MADE[e["event"]])
            if e["event"] in INIT:
                getattr(self, "_" + e["event"], lambda _: None)(e)
            else:
                e["of"] = next((self._now(a, e) for a in ADDRESSES if a in e), None)
        self._finish()

    def _now(self, address: str, e: Event) -> Row | None:
        """Return the object that an address names now; `address` is the field's name."""
        named = self._named.get((address, e["proc"], e.get(address, -1)))
        return named[-1] if named else None

    def _name(self, address: str, row: Row) -> None:
        rows = self._named[address, row["_proc"], row[address]]
        if row[address] is not None and not (rows and rows[-1] is row):
            for before in rows[-1:]:
                before["_next"].append(row)
            rows.append(row)

    def _make(
        self, e: Event, table: str, addresses: Sequence[str], fields: Mapping[str, str],
        kind: str | None = None,
    ) -> Row:  # fmt: skip
        layer, _, rest = e["event"].partition("_")
        of_middleware = layer == "rmw" and f"rcl_{rest}" in self.declared
        row = {
            **place(e), **UNKNOWN, "created_ns": e["time_ns"], "kind": kind, "_init": e,
            "topic": DISCOVERY if of_middleware else None,
            **{address: e[address] for address in addresses},
            **{name: e[field] for name, field in fields.items()},
            "gid": e.get("gid", self._gids.get((e["proc"], e.get("rmw_client_handle")))),
            "_next": [], "_node": self._now("node_handle", e),
            "_owner": self._now(f"{kind}_handle", e),
            "_after": self._last_publisher.get(e["thread"]),
        }  # fmt: skip
        self.rows[table].append(row)
        for address in addresses:
            self._name(address, row)
        return row

    def _rcl_init(self, e: Event) -> None:
        process = self.rows["contexts"][-1]["_process"] = self.processes.get(e["proc"])
        if process is not None:
            process["tracetools_version"] = e["version"]

    def _rcl_node_init(self, e: Event) -> None:
        node = self.rows["nodes"][-1]
        node |= {"_node": node, "node": e["namespace"].rstrip("/") + "/" + e["node_name"]}

    def _rcl_publisher_init(self, e: Event) -> None:
        kind = e["event"].split("_")[1]
        handle, rmw, topic = f"{kind}_handle", f"rmw_{kind}_handle", e["topic_name"]
        endpoint = self._now(rmw, e)
        if endpoint is None or endpoint["_rcl"]:
            endpoint = self._make(e, f"{kind}s", (rmw,), {})
        endpoint |= {
            **place(e), "created_ns": e["time_ns"], "_node": self._now("node_handle", e),
            handle: e[handle], "topic": topic, "queue_depth": e["queue_depth"], "_rcl": True,
        }  # fmt: skip
        self._untyped[kind, e["proc"], e[handle]] = endpoint
        if kind == "publisher":
            self._last_publisher[e["thread"]] = endpoint
        if (kind, topic) != ("publisher", ROSOUT):
            self._name(handle, endpoint)

    _rcl_subscription_init = _rcl_publisher_init

    def _message_type_init(self, e: Event) -> None:
        for kind in ("publisher", "subscription"):
            self._untyped.pop((kind, e["proc"], e["handle"]), {})["type"] = e["type"]

    def _rmw_client_init(self, e: Event) -> None:
        self._gids[e["proc"], e["rmw_client_handle"]] = e["gid"]

    def _rclcpp_timer_link_node(self, e: Event) -> None:
        timer = self._now("timer_handle", e)
        if timer is not None and not timer["_linked"]:
            timer |= {"_node": self._now("node_handle", e), "_linked": True}

    def _rclcpp_callback_register(self, e: Event) -> None:
        if self._now("callback", e) is None:
            # The owner is not known; the event that names it may still come.
            self._make(e, "callbacks", ("callback",), {})

    def _rclcpp_buffer_to_ipb(self, e: Event) -> None:
        buffer = self._now("buffer", e)
        if buffer is None or buffer["ipb"] is not None:
            buffer = self._make(e, "ring_buffers", ("buffer",), {})
        buffer["ipb"] = e["ipb"]
        self._named["ipb", e["proc"], e["ipb"]].append(buffer)

    def _rclcpp_ipb_to_subscription(self, e: Event) -> None:
        buffer = self._now("ipb", e)
        if buffer is not None:
            buffer["_link"] = buffer["_link"] or e

    def _finish(self) -> None:
        for rows in self.rows.values():
            rows.sort(key=lambda row: row["created_ns"])
            for row in rows:
                row["ended_ns"] = min((after["created_ns"] for after in row["_next"]), default=None)
        for callback in self.rows["callbacks"]:
            self._finish_callback(callback)
        for buffer in self.rows["ring_buffers"]:
            self._finish_ring_buffer(buffer)
        for row in (row for rows in self.rows.values() for row in rows):
            row["node"] = column(row["_node"], "node")

    def _subscription(self, e: Event, handle: int | None, at_ns: int) -> Row | None:
        """Return the rcl subscription of an event's object of rclcpp, at a time.

        If no init of that object was recorded, its handle is the given one.
        """
        init = nearest(self._inits[e["proc"], e["subscription"]], e["time_ns"])
        handle = init["subscription_handle"] if init else handle
        rows = self._named.get(("subscription_handle", e["proc"], handle), ())
        return next((row for row in reversed(rows) if row["created_ns"] <= at_ns), None)

    def _finish_callback(self, callback: Row) -> None:
        kind, created, init = callback["kind"], callback["created_ns"], callback["_init"]
        if kind == "subscription":
            callback["_owner"] = self._subscription(init, init["subscription"], created)
        registered = self._registered[init["proc"], callback["callback"]]
        callback["symbol"] = column(nearest(registered, created), "symbol")
        owner = callback["_owner"]
        if owner is not None:
            callback["_node"] = owner["_node"]
            names = {"subscription": owner["topic"], "service": owner.get("service")}
            callback["name"] = in_words(owner["period_ns"]) if kind == "timer" else names[kind]

    def _finish_ring_buffer(self, buffer: Row) -> None:
        link, subscription, publisher = buffer["_link"], None, None
        if link is not None:
            subscription = self._subscription(link, None, buffer["created_ns"])
        elif buffer["capacity"] is not None and "rclcpp_ipb_to_subscription" in self.declared:
            # It is the history of the publisher that was made just before on the same thread.
            publisher = buffer["_after"]
        owner = subscription or publisher
        buffer |= {"_node": column(owner, "_node"), "topic": column(owner, "topic"),
                   "_subscription": subscription, "_publisher": publisher}  # fmt: skip


def _processes(events: Sequence[Event]) -> dict[Proc, Row]:
    numbered = (e for e in events if e.get("vpid") is not None)
    return {
        proc: {
            "host": proc[0], "vpid": proc[2], "pid_namespace": proc[1] or None,
            "procname": of[0].get("procname"), "tracetools_version": None, "events": len(of),
            "begin_ns": of[0]["time_ns"], "end_ns": of[-1]["time_ns"],
            "free_ns": next((e["time_ns"] for e in reversed(of) if e["event"] in FREE),
                            of[-1]["time_ns"]),
        }
        for proc, of in grouped(numbered, itemgetter("proc")).items()
    }  # fmt: skip


def nearest(events: Sequence[Event], time_ns: int) -> Event | None:
    """Return the event nearest in time, the earlier one of two."""
    return min(events, key=lambda e: abs(e["time_ns"] - time_ns), default=None)


def in_words(period_ns: int) -> str:
    """Format a period in the largest unit that keeps it whole: ``2 ms``."""
    units = ((10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns"))
    return next(f"{period_ns // size} {unit}" for size, unit in units if period_ns % size == 0)
