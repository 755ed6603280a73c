"""Count the copies of a message on its way, by the rules of rclcpp and where a log shows them.

No event marks a copy. The number of copies follows from how each subscription takes a message,
which the symbols of its callbacks show. Rules: rclcpp
``IntraProcessManager::do_intra_process_publish`` and ``AnySubscriptionCallback::dispatch`` (Iron to
Kilted), for a message published as unique_ptr.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import polars as pl

from roslens.analysis.estimate import Metric
from roslens.studies.communication.logged import link_log

Signature = Literal["unique_ptr", "shared_ptr", "const", "unknown"]

COPY_HOP = Metric(
    "copy_after_callback_start",
    "callback_start -> the callback's first line, as its program logged it: the copy that a "
    "callback with unique_ptr gets of a message from the middleware; median of a run",
    "ns",
)

BEFORE_HOP = Metric(
    "copy_before_publish_event",
    "the line before publish(), as its program logged it -> first publish event, where the trace's "
    "latency begins: within a process the copy of what is published by reference lies there; "
    "median of a run",
    "ns",
)
LOGGED_LATENCY = Metric(
    "logged_latency_mean",
    "the line before publish() -> the callback's first line, as the program logged both; mean over "
    "received messages",
    "ns",
)

_CONST = re.compile(r"shared_ptr<[^()]*? const>|[^()]*const ?&\)")


def signature(symbol: str | None) -> Signature:
    """Return how a subscription's callback takes its message, from its symbol.

    unique_ptr and shared_ptr (to non-const) own the message; const (shared_ptr to const, or a
    reference) shares it.
    """
    arguments = (symbol or "").rpartition("{lambda(")[2] or (symbol or "")
    if "unique_ptr<" in arguments:
        return "unique_ptr"
    if _CONST.search(arguments):
        return "const"
    return "shared_ptr" if "shared_ptr<" in arguments else "unknown"


@dataclass(frozen=True)
class Copies:
    """Copies of one publication.

    Attributes
    ----------
    by_rclcpp
        Number of whole copies that rclcpp makes; None where a signature is not known.
    by_middleware
        Number of serialisations plus deserialisations.
    """

    by_rclcpp: int | None
    by_middleware: int


def copies_of(owners: int, sharers: int, unknown: int, *, intra_process: bool) -> Copies:
    """Count the copies of one publication for a number of subscriptions.

    Parameters
    ----------
    owners, sharers, unknown
        Numbers of subscriptions that own the message, that share it, and with unknown signature.
    """
    every = owners + sharers + unknown
    if not intra_process:
        # Serialised once, deserialised for each; an owner then gets a copy of the taken message.
        return Copies(None if unknown else owners, 1 + every)
    if unknown:
        return Copies(None, 0)
    if owners == 0:
        return Copies(0, 0)
    # The last owner gets the message itself; several sharers share one copy.
    return Copies(every - 1 if sharers <= 1 else owners, 0)


def with_log(
    messages: pl.DataFrame, logged: pl.DataFrame, signatures: pl.DataFrame
) -> pl.DataFrame:
    """Add the columns of `link_log` and `copy_hops`, run by run, as there may be millions of rows.

    Parameters
    ----------
    messages
        Messages, with those of one run in adjacent rows.
    """
    frames = []
    for run in messages["run"].unique(maintain_order=True):
        of_run = pl.col("run") == run
        linked = link_log(messages.filter(of_run).select(_LINKED), logged.filter(of_run))
        hops = copy_hops(linked, signatures.filter(of_run))
        frames.append(hops.select("logged_publish_ns", "logged_callback_ns", "copy_ns"))
    columns = pl.concat(frames) if frames else pl.DataFrame(schema=_LOGGED)
    return pl.concat([messages, columns], how="horizontal")


_LINKED = (
    *("run", "topic", "message_id", "subscription_id", "intra_process", "publish_ns"),
    "callback_start_ns",
)
_LOGGED = {"logged_publish_ns": pl.Int64, "logged_callback_ns": pl.Int64, "copy_ns": pl.Int64}


def copy_hops(linked: pl.DataFrame, signatures: pl.DataFrame) -> pl.DataFrame:
    """Add ``copy_ns``, the copy after callback_start, where there is one and the log shows it.

    Parameters
    ----------
    linked
        Messages with ``logged_callback_ns``.
    signatures
        ``run``, ``subscription_id``, ``symbol``.
    """
    owners = (
        signatures.with_columns(
            pl.col("symbol")
            .map_elements(signature, return_dtype=pl.String, skip_nulls=False)
            .alias("signature")
        )
        .group_by("run", "subscription_id")
        .agg((pl.col("signature") == "unique_ptr").any().alias("owns"))
    )
    copied = pl.col("owns").fill_null(value=False) & ~pl.col("intra_process").fill_null(value=True)
    return (
        linked.join(owners, on=["run", "subscription_id"], how="left", maintain_order="left")
        .with_columns(
            pl.when(copied)
            .then(pl.col("logged_callback_ns") - pl.col("callback_start_ns"))
            .alias("copy_ns")
        )
        .drop("owns")
    )
