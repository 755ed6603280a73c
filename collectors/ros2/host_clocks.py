"""How far the clocks of hosts are apart, from the messages that went between them.

A message is taken after it was sent. What was sent at ``s`` by the clock of one host and taken at
``t`` by that of another therefore says that the second clock is at most ``t - s`` ahead: the
smallest such difference is a bound, and messages the other way give the other bound. No delay is
assumed to be equal to another; the estimate is the middle of what is possible, and half of its
width is the most by which it can be wrong. So does NTP (RFC 5905, section 8: offset and delay of
the exchange with the smallest delay), with every message as half of an exchange.

Through other hosts bounds add up, so the tightest are the shortest paths between hosts, and bounds
that contradict each other are a cycle of negative length: then the clocks drift apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from roslens.collectors.ros2.events import FIELDS, Events, Raw
from roslens.collectors.ros2.processes import PID_NS
from roslens.collectors.ros2.services import KEY, halves
from roslens.tracing.recording import NotEnoughEvidenceError

MESSAGES = ("ros2:rmw_publish", "ros2:rmw_take")
SERVICES = (
    "ros2:rmw_client_init",
    "ros2:rmw_send_request",
    "ros2:rmw_take_request",
    "ros2:rmw_send_response",
    "ros2:rmw_take_response",
)
EVENTS = (*MESSAGES, *SERVICES)
"""What `find_crossings` reads."""
COLUMNS = frozenset(
    {"host", "vpid", "vtid", "procname", PID_NS}.union(
        *(FIELDS[name.removeprefix("ros2:")] for name in EVENTS)
    )
    - {"message", "request", "response"}
)
"""Columns of them that it needs."""

_SCHEMA = {"from_host": pl.String, "to_host": pl.String, "sent_ns": pl.Int64, "taken_ns": pl.Int64}


@dataclass(frozen=True)
class ClockOffset:
    """How far a host's clock is ahead of the first host's.

    Attributes
    ----------
    host
        Its label.
    ahead_ns
        Estimate; to be subtracted from its times.
    within_ns
        The true value is no further from it than this.
    there, back
        Messages that went to it, and came from it, over all hosts.
    """

    host: str
    ahead_ns: int
    within_ns: int
    there: int
    back: int

    def __str__(self) -> str:
        return (
            f"the clock of {self.host} is {self.ahead_ns:+,} ns ahead, within "
            f"{self.within_ns:,} ns, by {self.there:,} messages to it and {self.back:,} from it"
        )


def find_crossings(raw: Raw) -> pl.DataFrame:
    """Messages, requests and responses that were sent on one host and taken on another.

    Parameters
    ----------
    raw
        `EVENTS`, as far as they were recorded.

    Returns
    -------
    polars.DataFrame
        from_host, to_host, sent_ns, taken_ns: each by the clock of its host. Messages are known
        by their source timestamp, where no two have the same; requests and responses by the
        client's gid and their number.
    """
    events = Events(raw)
    sent = events["rmw_publish"].select("proc", "time_ns", stamp="timestamp")
    taken = events["rmw_take"].filter(pl.col("taken") != 0)
    taken = taken.select("proc", "time_ns", stamp="source_timestamp")
    gids = events["rmw_client_init"].unique(["proc", "rmw_client_handle"], keep="none")
    gids = gids.select("proc", "rmw_client_handle", *halves("gid"))

    def client(name: str) -> pl.DataFrame:
        return events[name].join(gids, on=["proc", "rmw_client_handle"])

    def server(name: str) -> pl.DataFrame:
        return events[name].with_columns(halves("client_gid"))

    arrived = pl.col("taken") != 0
    pairs = [
        _joined(sent, taken, ["stamp"]),
        _joined(client("rmw_send_request"), server("rmw_take_request").filter(arrived), KEY),
        _joined(server("rmw_send_response"), client("rmw_take_response").filter(arrived), KEY),
    ]
    hosts = events.processes.select("proc", "host")
    return (
        pl.concat(pairs)
        .join(hosts.rename({"host": "from_host"}), on="proc")
        .join(hosts.rename({"host": "to_host"}), left_on="proc_right", right_on="proc")
        .filter(pl.col("from_host") != pl.col("to_host"))
        .select(*_SCHEMA)
    )


def _joined(sent: pl.DataFrame, taken: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """What was sent and taken, by what only one of those that were sent has."""
    alone = sent.drop_nulls(key).unique(key, keep="none", maintain_order=True)
    pairs = alone.select("proc", *key, pl.col("time_ns").alias("sent_ns")).join(
        taken.select("proc", *key, pl.col("time_ns").alias("taken_ns")), on=key
    )
    return pairs.select("proc", "proc_right", "sent_ns", "taken_ns")


def clock_offsets(crossings: pl.DataFrame, hosts: Sequence[str]) -> list[ClockOffset]:
    """Estimate how far the clocks of all hosts are ahead of the first one's.

    Parameters
    ----------
    crossings
        As of `find_crossings`.
    hosts
        Labels of all hosts.

    Raises
    ------
    NotEnoughEvidenceError
        A host that nothing reached from the first one, directly or through others, or nothing
        came back from; or clocks that drift, so that no offset fits all messages.
    """
    bounds = crossings.group_by("from_host", "to_host").agg(
        (pl.col("taken_ns") - pl.col("sent_ns")).min().alias("bound"), pl.len().alias("messages")
    )
    most: dict[tuple[str, str], int] = {}
    counts: dict[tuple[str, str], int] = {}
    for start, end, bound, messages in bounds.rows():
        most[start, end], counts[start, end] = bound, messages
    most |= {(host, host): min(0, most.get((host, host), 0)) for host in hosts}
    # Shortest paths (Floyd and Warshall): hosts are few.
    for via in hosts:
        for start in hosts:
            for end in hosts:
                if (start, via) in most and (via, end) in most:
                    length = most[start, via] + most[via, end]
                    most[start, end] = min(length, most.get((start, end), length))
    first = hosts[0]
    found = []
    for host in hosts[1:]:
        for start, end in ((first, host), (host, first)):
            if (start, end) not in most:
                raise NotEnoughEvidenceError(
                    f"--clock-offset auto: no message went from {start} to {end}, directly or "
                    f"through others, that both recorded; give {host}=NANOSECONDS, or record "
                    "ros2:rmw_publish (with its timestamp, Jazzy and later) and ros2:rmw_take, "
                    "or the four rmw service events, on both"
                )
        high, low = most[first, host], -most[host, first]
        if low > high or most[host, host] < 0:
            raise NotEnoughEvidenceError(
                f"--clock-offset auto: the clocks of {first} and {host} drift apart: messages one "
                f"way say at most {high:+,} ns ahead, the other way at least {low:+,} ns; give "
                f"{host}=NANOSECONDS, or collect a shorter recording"
            )
        middle = (low + high) // 2
        there = sum(n for (_, end), n in counts.items() if end == host)
        back = sum(n for (start, _), n in counts.items() if start == host)
        found.append(ClockOffset(host, middle, max(high - middle, middle - low), there, back))
    return found
