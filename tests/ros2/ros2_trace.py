"""Write traces as events named like the tracepoints, and read tables back as rows."""

import zlib
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from twin import differences

from roslens.collectors.ros2 import build_tables, model
from roslens.collectors.ros2.events import FIELDS, HEAP_FIELDS, Events, Raw
from roslens.collectors.ros2.one_pass import Rows, batches_of
from roslens.collectors.schema import TABLES

T0 = 1_700_000_000_000_000_000
TYPES = {
    "time_ns": pl.Int64(),
    "host": pl.String(),
    "trace": pl.String(),
    "cpu_id": pl.Int32(),
    "vpid": pl.Int32(),
    "vtid": pl.Int32(),
    "procname": pl.String(),
}
KERNEL_FIELDS = {
    "sched_switch": {"prev_tid": pl.Int32(), "prev_state": pl.Int64(), "next_tid": pl.Int32()},
    "sched_waking": {"tid": pl.Int32()},
    "sched_stat_runtime": {"tid": pl.Int32(), "runtime": pl.UInt64()},
    "power_cpu_frequency": {"state": pl.UInt32(), "field_cpu_id": pl.UInt32()},
}
"""Fields as LTTng's kernel modules define them; without contexts."""
CALLS = {"rmw_send_request", "rmw_take_request", "rmw_send_response", "rmw_take_response"}


def at(microseconds: float) -> int:
    """Return the time in ns since the epoch."""
    return T0 + round(microseconds * 1000)


class Trace:
    """A sequence of events in the order in which they are emitted."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, dict[str, Any]]] = []
        self.declared: set[str] = set()
        self.losses: list[dict[str, Any]] = []

    def emit(
        self,
        us: float,
        name: str,
        *,
        pid: int = 1,
        tid: int | None = None,
        host: str = "h0",
        cpu: int = 0,
        **payload: Any,
    ) -> None:
        common = {
            "time_ns": at(us),
            "host": host,
            "trace": "ust/uid/0/64-bit",
            "cpu_id": 0,
            "vpid": pid,
            "vtid": pid if tid is None else tid,
            "procname": f"p{pid}",
        }
        if name in KERNEL_FIELDS:
            common |= {"cpu_id": cpu, "vpid": None, "vtid": None, "procname": None}
            if "tid" in KERNEL_FIELDS[name]:
                payload["tid"] = tid
        self.rows.append((name, common | payload))

    def lose(
        self, begin_us: float, end_us: float, count: int | None, *, host: str = "h0", **about: Any
    ) -> None:
        self.losses.append(
            {
                "host": host,
                "trace": "ust/uid/0/64-bit",
                "stream": "ch0_0",
                "cpu_id": 0,
                "kind": "discarded_events",
                "count": count,
                "begin_ns": at(begin_us),
                "end_ns": at(end_us),
                **about,
            }
        )

    # Objects, initialised as rclcpp does it.

    def node(
        self, us: float, handle: int, name: str, *, namespace: str = "/", **where: Any
    ) -> None:
        self.emit(
            us, "rcl_node_init", node_handle=handle, rmw_handle=handle + 1, node_name=name,
            namespace=namespace, **where,
        )  # fmt: skip

    def publisher(
        self, us: float, handle: int, topic: str, *, node: int, rmw: int | None = None, **where: Any
    ) -> None:
        rmw = handle + 1 if rmw is None else rmw
        self.emit(us - 1, "rmw_publisher_init", rmw_publisher_handle=rmw, gid=[7] * 24, **where)
        self.emit(
            us, "rcl_publisher_init", publisher_handle=handle, node_handle=node,
            rmw_publisher_handle=rmw, topic_name=topic, queue_depth=10, **where,
        )  # fmt: skip

    def subscription(
        self, us: float, handle: int, topic: str, *, node: int, callback: int, symbol: str = "f",
        depth: int = 10, **where: Any,
    ) -> None:  # fmt: skip
        self.emit(
            us - 1, "rmw_subscription_init", rmw_subscription_handle=handle + 1, gid=[8] * 24,
            **where,
        )  # fmt: skip
        self.emit(
            us, "rcl_subscription_init", subscription_handle=handle, node_handle=node,
            rmw_subscription_handle=handle + 1, topic_name=topic, queue_depth=depth, **where,
        )  # fmt: skip
        self.emit(
            us + 1, "rclcpp_subscription_init", subscription_handle=handle,
            subscription=handle + 2, **where,
        )  # fmt: skip
        self.emit(
            us + 2, "rclcpp_subscription_callback_added", subscription=handle + 2,
            callback=callback, **where,
        )  # fmt: skip
        self.emit(us + 3, "rclcpp_callback_register", callback=callback, symbol=symbol, **where)

    def ring_buffer(
        self, us: float, buffer: int, *, subscription: int, callback: int, capacity: int = 2,
        **where: Any,
    ) -> None:  # fmt: skip
        """Emit a subscription's intra-process twin, whose callback comes before its init event."""
        twin, ipb = buffer + 1, buffer + 2
        self.emit(us, "rclcpp_construct_ring_buffer", buffer=buffer, capacity=capacity, **where)
        self.emit(us + 0.1, "rclcpp_buffer_to_ipb", buffer=buffer, ipb=ipb, **where)
        self.emit(us + 0.2, "rclcpp_ipb_to_subscription", ipb=ipb, subscription=twin, **where)
        self.emit(
            us + 0.3, "rclcpp_subscription_callback_added", subscription=twin, callback=callback,
            **where,
        )  # fmt: skip
        self.emit(us + 0.4, "rclcpp_callback_register", callback=callback, symbol="f", **where)
        self.emit(
            us + 0.5, "rclcpp_subscription_init", subscription_handle=subscription,
            subscription=twin, **where,
        )  # fmt: skip

    def timer(
        self, us: float, handle: int, period_ns: int, *, callback: int, node: int | None = None,
        **where: Any,
    ) -> None:  # fmt: skip
        self.emit(us, "rcl_timer_init", timer_handle=handle, period=period_ns, **where)
        self.emit(
            us + 1, "rclcpp_timer_callback_added", timer_handle=handle, callback=callback, **where
        )
        self.emit(us + 2, "rclcpp_callback_register", callback=callback, symbol="tick", **where)
        if node is not None:
            self.emit(
                us + 3, "rclcpp_timer_link_node", timer_handle=handle, node_handle=node, **where
            )

    def client(
        self, us: float, handle: int, service: str, *, node: int, gid: list[int], **where: Any
    ) -> None:
        self.emit(us - 0.5, "rmw_client_init", rmw_client_handle=handle + 1, gid=gid, **where)
        self.emit(
            us, "rcl_client_init", client_handle=handle, node_handle=node,
            rmw_client_handle=handle + 1, service_name=service, **where,
        )  # fmt: skip

    def service(
        self, us: float, handle: int, service: str, *, node: int, callback: int | None = None,
        **where: Any,
    ) -> None:  # fmt: skip
        self.emit(
            us, "rcl_service_init", service_handle=handle, node_handle=node,
            rmw_service_handle=handle + 1, service_name=service, **where,
        )  # fmt: skip
        if callback is not None:
            self.emit(
                us + 1, "rclcpp_service_callback_added", service_handle=handle, callback=callback,
                **where,
            )  # fmt: skip

    # Events at run time.

    def publish(self, us: float, publisher: int, *, message: int = 0x9000, **more: Any) -> None:
        """Emit rclcpp, rcl and rmw events, 1 us apart; `stamp` defaults to the last one's time."""
        where = {name: value for name, value in more.items() if name != "stamp"}
        self.emit(us, "rclcpp_publish", message=message, **where)
        self.publish_by_rcl(us + 1, publisher, message=message, **more)

    def publish_by_rcl(
        self, us: float, publisher: int, *, message: int = 0x9000, stamp: int | None = None,
        rmw: int | None = None, **where: Any,
    ) -> None:  # fmt: skip
        """Emit the rcl and rmw events only, as for log messages and serialized messages."""
        self.emit(us, "rcl_publish", publisher_handle=publisher, message=message, **where)
        self.emit(
            us + 1, "rmw_publish", rmw_publisher_handle=publisher + 1 if rmw is None else rmw,
            message=message, timestamp=at(us + 1) if stamp is None else stamp, **where,
        )  # fmt: skip

    def send_request(self, us: float, client: int, number: int, **where: Any) -> None:
        self.emit(
            us, "rmw_send_request", rmw_client_handle=client + 1, request=1,
            sequence_number=number, **where,
        )  # fmt: skip

    def take_request(
        self, us: float, service: int, number: int, *, gid: list[int], **where: Any
    ) -> None:
        self.emit(
            us, "rmw_take_request", rmw_service_handle=service + 1, request=1, client_gid=gid,
            sequence_number=number, taken=1, **where,
        )  # fmt: skip

    def send_response(
        self, us: float, service: int, number: int, *, gid: list[int], **where: Any
    ) -> None:
        self.emit(
            us, "rmw_send_response", rmw_service_handle=service + 1, response=1, client_gid=gid,
            sequence_number=number, timestamp=at(us), **where,
        )  # fmt: skip

    def take_response(
        self, us: float, client: int, number: int, *, stamp: float, **where: Any
    ) -> None:
        """Emit the take of the response that was sent at `stamp` us."""
        self.emit(
            us, "rmw_take_response", rmw_client_handle=client + 1, response=1,
            sequence_number=number, source_timestamp=at(stamp), taken=1, **where,
        )  # fmt: skip

    def take(
        self, us: float, subscription: int, *, stamp: int, message: int = 0xA000, taken: int = 1,
        **where: Any,
    ) -> None:  # fmt: skip
        self.emit(
            us, "rmw_take", rmw_subscription_handle=subscription + 1, message=message,
            source_timestamp=stamp, taken=taken, **where,
        )  # fmt: skip
        self.emit(us + 1, "rcl_take", message=message, **where)
        self.emit(us + 2, "rclcpp_take", message=message, **where)

    def run(
        self, us: float, callback: int, *, lasts: float | None = 5, intra: int = 0, **where: Any
    ) -> None:
        self.emit(us, "callback_start", callback=callback, is_intra_process=intra, **where)
        if lasts is not None:
            self.emit(us + lasts, "callback_end", callback=callback, **where)

    def receive(
        self, us: float, subscription: int, callback: int, *, stamp: int, **where: Any
    ) -> None:
        """Emit a take at `us` and a callback that starts 3 us later and lasts 5 us."""
        self.take(us, subscription, stamp=stamp, **where)
        self.run(us + 3, callback, **where)

    def frames(self) -> dict[str, pl.DataFrame]:
        """Return the raw events of all declared and emitted names, sorted by time."""
        by_name: dict[str, list[dict[str, Any]]] = {name: [] for name in self.declared}
        for name, row in sorted(self.rows, key=lambda item: item[1]["time_ns"]):
            by_name.setdefault(name, []).append(row)
        frames = {}
        for name, rows in by_name.items():
            fields = {field for row in rows for field in row} - set(TYPES)
            schema = FIELDS.get(name) or HEAP_FIELDS.get(name) or KERNEL_FIELDS.get(name) or {}
            kinds = {field: kind for field, kind in schema.items() if field in fields}
            raw = f"ros2:{name}" if name in FIELDS else name
            frames[raw] = pl.DataFrame(rows, schema=TYPES | kinds)
        return frames

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return every model table, after checking that a cut of the events changes none."""
        times = sorted({row["time_ns"] for _, row in self.rows})
        # Any event will do as the edge, as long as the same trace always gets the same one.
        edge = times[zlib.crc32(str(times).encode()) % len(times)] if times else T0
        return self.tables_cut_at([edge])

    def tables_cut_at(self, edges: Collection[int]) -> dict[str, pl.DataFrame]:
        """Return every model table, after checking that events split at these edges give the same
        tables and that the reference model agrees.
        """
        raw, losses = self.frames(), pl.DataFrame(self.losses) if self.losses else None
        tables = build_tables(raw, losses)
        cut = in_stretches(raw, losses, edges)
        for name, table in tables.items():
            assert_frame_equal(cut[name], table)
        different = differences(raw, losses)
        assert not different, "\n".join(map(": ".join, different.items()))
        return tables


def in_stretches(
    raw: Raw, losses: pl.DataFrame | None, edges: Collection[int], **about: Any
) -> dict[str, pl.DataFrame]:
    """Return every model table of events fed in stretches, with almost no rows kept in memory."""
    tables: dict[str, pl.DataFrame] = {}

    def give(name: str, table: pl.DataFrame | Rows) -> None:
        frame = table.frame() if isinstance(table, Rows) else table
        tables[name] = TABLES[name].conform(frame)

    def stretches(events: Events, _: object) -> Iterator[dict[str, pl.DataFrame]]:
        for batches in batches_of(events):
            frames = {n: f for n, f in batches.items() if isinstance(f, pl.DataFrame)}
            for begin, end in pairwise([-(2**63), *sorted(edges), 2**63 - 1]):
                within = (pl.col("time_ns") >= begin) & (pl.col("time_ns") < end)
                yield {name: frame.filter(within) for name, frame in frames.items()}

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "batches_of", stretches)
        path = Path(folder) / "rows"
        model.make_tables(raw, give, losses, path=path, rows=0, keys=1, **about)
    return {name: tables[name] for name in TABLES}


def rows(frame: pl.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns as tuples; times (``_ns``) are microseconds since the traces' instant."""
    return [
        tuple(
            (value - T0) / 1000
            if name.endswith("_ns") and name not in ("latency_ns", "duration_ns", "period_ns")
            and value is not None
            else value
            for name, value in zip(columns, row, strict=True)
        )
        for row in frame.select(columns).iter_rows()
    ]  # fmt: skip


def findings(tables: dict[str, pl.DataFrame]) -> dict[str, int]:
    """Return the counts of the health table by kind, without missing events."""
    health = tables["health"].filter(pl.col("kind") != "missing_events")
    return dict(health.group_by("kind", maintain_order=True).agg(pl.col("count").sum()).iter_rows())
