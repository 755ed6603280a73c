"""Split a chain's latency into parts that add up to it exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from roslens.analysis.flow.chain import Chain
from roslens.analysis.flow.links import LinkKind

PARTS: Mapping[str, str] = {
    "source": "start of the callback that published first, to its publish event",
    "publish_call": "first publish event (rclcpp_publish, else rcl_publish), to rmw_publish",
    "transport": "rmw_publish (within a process: first publish event), to rmw_take or the dequeue: "
    "on its way, and waiting for the executor",
    "take": "rmw_take, to rclcpp_take",
    "dispatch": "rclcpp_take (within a process: the dequeue), to callback_start",
    "callback": "callback_start, to the next publication, or to callback_end at the end of the "
    "chain and where the publication comes later",
    "held": "callback_end, to the publication that uses the message, where a link is declared",
}
"""Parts of a hop, each from one event to another; ``+`` joins parts between which no event was
recorded."""


def part_in_words(part: str) -> str:
    """Return a part as text: no event shows when a message arrived and began to wait."""
    return part.replace("transport", "transport or waiting").replace("held", "held until published")


def hops_of(
    flow: pl.DataFrame,
    chain: Chain,
    kinds: Sequence[LinkKind | None],
    *,
    with_source: bool,
) -> pl.DataFrame:
    """Return the parts of complete instances, one below the other."""
    parts: list[pl.DataFrame] = []
    if with_source:
        parts.append(
            _part(flow, chain, number=0, part="source", end=pl.col("publish_ns_0"), order=0)
        )
    for number in range(len(chain.topics)):
        ends = _ends(number, kinds[number] if number < len(kinds) else None, len(kinds))
        for part, end in ends.items():
            parts.append(_part(flow, chain, number=number, part=part, end=end, order=len(parts)))
    instance = ["run", "instance"]
    line = pl.concat(parts).sort(*instance, "order")
    # A part whose end was not recorded extends into the next one, which is named after both.
    known = pl.col("end_ns").is_not_null()
    group = known.shift(1, fill_value=True).cum_sum()
    line = (
        line.with_columns(group.alias("group"))
        .group_by([*instance, "group"], maintain_order=True)
        .agg(
            pl.col("hop", "topic", "node", "message_id", "subscription_id", "begin_ns").last(),
            pl.col("part").filter(~pl.col("left_out")).str.join("+"),
            pl.col("end_ns").last(),
            pl.col("clock_bound_ns").sum(),
        )
        .filter(pl.col("end_ns").is_not_null())
    )
    start = pl.col("end_ns").shift(1).over(instance)
    return line.with_columns(start.fill_null(pl.col("begin_ns")).alias("begin_ns")).select(
        *instance, "hop", "topic", "node", "part", "begin_ns", "end_ns",
        (pl.col("end_ns") - pl.col("begin_ns")).alias("duration_ns"), "clock_bound_ns",
        "message_id", "subscription_id",
    )  # fmt: skip


def _ends(number: int, kind: LinkKind | None, between: int) -> dict[str, pl.Expr]:
    """Return the end of each part of a hop; null where no event was recorded or no part exists."""
    intra = pl.col(f"intra_process_{number}").fill_null(value=False)
    end = pl.col(f"callback_end_ns_{number}")
    out = pl.col(f"out_ns_{number + 1}") if number < between else end
    ends = {
        "publish_call": pl.when(~intra).then(f"rmw_publish_ns_{number}"),
        "transport": pl.col(f"take_ns_{number}"),
        "take": pl.when(~intra).then(f"rclcpp_take_ns_{number}"),
        "dispatch": pl.col(f"callback_start_ns_{number}"),
        "callback": out if kind is None else pl.min_horizontal(end, out),
    }
    return ends if kind is None else ends | {"held": pl.when(out > ends["callback"]).then(out)}


def _part(
    flow: pl.DataFrame,
    chain: Chain,
    *,
    number: int,
    part: str,
    end: pl.Expr,
    order: int,
) -> pl.DataFrame:
    # Within a process there are no publish_call and take; elsewhere their events may be missing. A
    # publication within the callback has no held part.
    intra = pl.col(f"intra_process_{number}").fill_null(value=False)
    left_out = {"publish_call": intra, "take": intra, "held": end.is_null()}.get(
        part, pl.lit(value=False)
    )
    return flow.select(
        "run",
        "instance",
        "begin_ns",
        pl.lit(number).alias("hop"),
        pl.lit(chain.topics[number]).alias("topic"),
        pl.lit(chain.nodes[number + 1]).alias("node"),
        pl.lit(part).alias("part"),
        end.alias("end_ns"),
        left_out.alias("left_out"),
        pl.lit(order).alias("order"),
        pl.col(f"message_id_{number}").alias("message_id"),
        pl.col(f"subscription_id_{number}").alias("subscription_id"),
        # Only the transport begins on one host and may end on another.
        (pl.col(f"clock_bound_ns_{number}") if part == "transport" else pl.lit(0.0)).alias(
            "clock_bound_ns"
        ),
    )
