"""Read a transport's stamped exchanges and counted messages, and the message of each exchange."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from roslens.collectors.results.tool_result import read_rows
from roslens.recording import UsageError

EXCHANGES = pl.Schema(
    dict.fromkeys(
        (
            "sequence",
            "client_sent_ns",  # on the client's clock
            "agent_received_ns",  # on the agent's clock
            "agent_sent_ns",
            "client_received_ns",
            "rtt_ns",  # on a stopwatch of the client, independent of its clock
            "rtt_uncertainty_ns",
        ),
        pl.Int64,
    )
)
COUNTED = pl.Schema(
    dict.fromkeys(
        ("payload_bytes", "sent", "received", "received_bytes", "first_ns", "last_ns"), pl.Int64
    )
)

TAKES = pl.Schema(
    {
        "sequence": pl.Int64,  # of an exchange
        "source_timestamp_ns": pl.Int64,  # of its ping, as the ROS node took it
    }
)


def read_exchanges(path: Path) -> pl.DataFrame:
    """Read ``exchanges.csv``, in the order in which the pings were sent.

    Raises
    ------
    UsageError
        The file cannot be read or is cut off, a sequence number is repeated, or a clock of one side
        ran backwards within an exchange.
    """
    frame = read_rows(path, EXCHANGES)
    twice = frame.filter(pl.col("sequence").is_duplicated())
    if twice.height:
        raise UsageError(
            f"{path}: exchange {twice['sequence'][0]} is there twice: two runs in one file?"
        )
    frame = frame.sort("sequence")
    for first, second in (
        ("client_sent_ns", "client_received_ns"),
        ("agent_received_ns", "agent_sent_ns"),
    ):
        wrong = frame.filter(pl.col(first) > pl.col(second))
        if wrong.height:
            raise UsageError(
                f"{path}: exchange {wrong['sequence'][0]}: {second} lies before {first}: columns "
                "of two clocks exchanged, or lines mixed"
            )
    return frame


def read_counted(path: Path) -> pl.DataFrame:
    """Read ``throughput.csv``: messages counted per payload size.

    Raises
    ------
    UsageError
        The file cannot be read or is cut off, a size is repeated, or bytes are not messages x size.
    """
    frame = read_rows(path, COUNTED, optional=("sent",))
    twice = frame.filter(pl.col("payload_bytes").is_duplicated())
    if twice.height:
        raise UsageError(f"{path}: payload {twice['payload_bytes'][0]} B is there twice")
    wrong = frame.filter(
        (pl.col("received_bytes") != pl.col("received") * pl.col("payload_bytes"))
        | (pl.col("last_ns") < pl.col("first_ns"))
        | (pl.col("received") > pl.col("sent"))
    )
    if wrong.height:
        row = wrong.row(0, named=True)
        raise UsageError(
            f"{path}: payload {row['payload_bytes']} B: {row['received']} messages, "
            f"{row['received_bytes']} bytes, {row['sent']} sent: these do not belong together"
        )
    return frame


def read_takes(path: Path) -> pl.DataFrame:
    """Read ``takes.csv``, which assigns a message of the recording to each ping.

    Raises
    ------
    UsageError
        The file cannot be read or is cut off, or a ping or a message is repeated.
    """
    frame = read_rows(path, TAKES)
    for column in TAKES:
        twice = frame.filter(pl.col(column).is_duplicated())
        if twice.height:
            raise UsageError(f"{path}: {column} {twice[column][0]} is there twice")
    return frame
