"""Follow a device's messages from its publisher to the callback of a ROS node, and the answers.

The device is not traced: it only gives stamps of its own clock. The node is traced. Both form one
row where the node logged the source timestamp of a stamped message, which the agent had given it
and which identifies it in the recording. The bounds of `roslens.studies.micro_ros.clocks` bring
both to one clock: nothing arrives before it was sent.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from roslens.analysis.verdicts.statement import Statement
from roslens.recording.arrays import np
from roslens.studies.micro_ros.checks import none_wrong
from roslens.studies.micro_ros.clocks import fit_clocks, to_agent
from roslens.studies.micro_ros.results.folder import Link, MicroRosResults

DEVICE_MESSAGES = pl.Schema(
    {
        "source": pl.String,
        "transport": pl.String,
        **dict.fromkeys(
            (
                "sequence",
                "device_publish_ns",  # before rcl_publish on the device
                "error_ns",  # error of the device's times: hard bounds on either side
                "agent_write_ns",  # the agent's source timestamp, on the clock of the events
                "take_ns",  # rmw_take of the node
                "callback_start_ns",
                "callback_end_ns",
                "answer_publish_ns",  # the answer's first event of publishing, in that callback
                "device_callback_ns",  # the answer's callback on the device
            ),
            pl.Int64,
        ),
    }
)
"""One row per exchange; all times are on the clock of the recording's events."""

HOPS = {
    "device to agent": ("device_publish_ns", "agent_write_ns"),
    "agent to take": ("agent_write_ns", "take_ns"),
    "take to callback": ("take_ns", "callback_start_ns"),
    "callback to answer": ("callback_start_ns", "answer_publish_ns"),
    "answer to device": ("answer_publish_ns", "device_callback_ns"),
}
"""Begin and end of each hop, as columns."""
OF_DEVICE = ("device to agent", "answer to device")
"""Hops whose durations contain the error of the device's clock."""


def device_messages(
    found: MicroRosResults, one_sided: pl.LazyFrame, publications: pl.LazyFrame
) -> pl.DataFrame:
    """Return each exchange with its hops.

    Parameters
    ----------
    one_sided, publications
        Tables ``one_sided_messages`` and ``publications`` of the recordings.

    Returns
    -------
    polars.DataFrame
        Columns of `DEVICE_MESSAGES`, without exchanges that the recording does not contain, and
        without those of a transport whose clocks cannot be synchronised.
    """
    if found.takes.is_empty():
        return DEVICE_MESSAGES.to_frame()
    answers = publications.filter(pl.col("callback_instance_id").is_not_null()).select(
        *("run", "callback_instance_id"), pl.col("publish_ns").alias("answer_publish_ns")
    )
    # The callback of an account publishes too, but in no exchange; in others the first event
    # counts.
    answers = answers.group_by("run", "callback_instance_id").agg(pl.min("answer_publish_ns"))
    traced = (
        one_sided.filter(
            pl.col("callback_instance_id").is_not_null() & pl.col("clock_offset_ns").is_not_null()
        )
        .join(answers, on=["run", "callback_instance_id"])
        .select(
            pl.col("run").alias("source"),
            "source_timestamp_ns",
            (pl.col("source_timestamp_ns") - pl.col("clock_offset_ns")).alias("agent_write_ns"),
            *("take_ns", "callback_start_ns", "callback_end_ns", "answer_publish_ns"),
            "clock_offset_ns",
        )
        .collect()
    )
    rows = found.exchanges.join(
        found.takes, on=["source", "transport", "sequence"], maintain_order="left"
    ).join(traced, on=["source", "source_timestamp_ns"], maintain_order="left")
    parts = [
        _synchronised(group.sort("sequence"), found.links)
        for _, group in rows.group_by("source", "transport", maintain_order=True)
    ]
    return pl.concat([DEVICE_MESSAGES.to_frame(), *parts])


def _synchronised(rows: pl.DataFrame, links: Mapping[tuple[str, str], Link]) -> pl.DataFrame:
    """Synchronise the clocks of one transport of one run."""
    link = links[rows["source"][0], rows["transport"][0]]
    offsets = rows["clock_offset_ns"]
    # The agent stamps by the system clock, known relative to that of the events up to its scatter.
    scatter = int(np.ptp(offsets.to_numpy()))
    fit = fit_clocks(
        rows["client_sent_ns"].to_numpy(),
        rows["agent_write_ns"].to_numpy(),
        rows["answer_publish_ns"].to_numpy(),
        rows["client_received_ns"].to_numpy(),
        resolution_ns=scatter + 1 + link.client_resolution_ns,
    )
    if fit.refused is not None:
        return DEVICE_MESSAGES.to_frame()
    sent, sent_width = to_agent(fit, rows["client_sent_ns"].to_numpy())
    received, received_width = to_agent(fit, rows["client_received_ns"].to_numpy())
    error = pl.Series(np.maximum(sent_width, received_width)).ceil() + scatter
    return rows.with_columns(
        (pl.Series(sent).round().cast(pl.Int64) + fit.origin_ns).alias("device_publish_ns"),
        (pl.Series(received).round().cast(pl.Int64) + fit.origin_ns).alias("device_callback_ns"),
        error.cast(pl.Int64).alias("error_ns"),
    ).select(DEVICE_MESSAGES.names())


def hop_medians(messages: pl.DataFrame) -> pl.DataFrame:
    """Return the median of each hop, of the whole way, and of the error, by transport.

    Parameters
    ----------
    messages
        Frame with the columns of `DEVICE_MESSAGES`.

    Returns
    -------
    polars.DataFrame
        ``transport``, ``messages``, each of `HOPS`, ``device to callback``, ``error`` in ns.
    """
    return (
        messages.sort("transport")
        .group_by("transport", maintain_order=True)
        .agg(
            pl.len().alias("messages"),
            *(
                (pl.col(end) - pl.col(start)).median().alias(hop)
                for hop, (start, end) in HOPS.items()
            ),
            (pl.col("callback_start_ns") - pl.col("device_publish_ns"))
            .median()
            .alias("device to callback"),
            pl.col("error_ns").median().alias("error"),
        )
    )


def hop_checks(messages: pl.DataFrame, exchanges: pl.DataFrame) -> list[Statement]:
    """Check that no hop of a message ends before it begins, within the error of the clocks.

    Parameters
    ----------
    messages
        Frame with the columns of `DEVICE_MESSAGES`.
    exchanges
        All exchanges, of which some may not be in the recording.
    """
    checks = []
    groups = messages.group_by("source", "transport", maintain_order=True)
    for (source, transport), group in groups:
        ends = [
            pl.col(end) - pl.col(start) + (pl.col("error_ns") if hop in OF_DEVICE else 0) >= 0
            for hop, (start, end) in HOPS.items()
        ]
        right = group.filter(pl.all_horizontal(ends)).height
        exchanged = exchanges.filter(source=source, transport=transport).height
        because = f"in {right:,} of {group.height:,} messages; {exchanged:,} were exchanged"
        claim, wrong = "the hops of a message follow each other", group.height - right
        checks.append(none_wrong(claim, because, f"{transport}, {source}", wrong, "message"))
    return checks


def hops_sentence(medians: pl.DataFrame) -> str:
    """Return a sentence on the time from the device to the node's callback, by transport.

    Parameters
    ----------
    medians
        Medians from `hop_medians`.
    """
    each = [
        f"{m['device to callback'] / 1e6:,.2f} ms ± {m['error'] / 1e6:,.2f} "
        f"({m['transport'].replace('_', ' ')})"
        for m in medians.sort("device to callback").iter_rows(named=True)
    ]
    between = " to ".join(dict.fromkeys((each[0], each[-1])))
    return f"A message takes {between} from the device's publisher to the ROS callback (median)."
