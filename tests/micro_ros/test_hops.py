"""Test the hops of a device's messages against moments that are known by construction."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from roslens.studies.micro_ros.hops import (
    DEVICE_MESSAGES,
    device_messages,
    hop_checks,
    hop_medians,
    hops_sentence,
)
from roslens.studies.micro_ros.results.folder import (
    EXCHANGED,
    TAKEN,
    Link,
    MicroRosResults,
)

COUNT = 200
BEGIN = 1_700_000_000_000_000_000
OFFSET, DRIFT = -123_456_789, 3e-4
"""By how much the device's clock is wrong at the beginning, and its drift."""
SYSTEM = 5_000
"""The system's clock minus that of the events."""
PLACE = ("run", "udp reliable")


def known() -> tuple[pl.DataFrame, MicroRosResults, pl.LazyFrame, pl.LazyFrame]:
    """Make true moments, and what device, node and recording report of them."""
    random = np.random.default_rng(1)
    begin = BEGIN + np.arange(COUNT) * 5_000_000
    steps = np.cumsum(random.integers(20_000, 400_000, (7, COUNT)), axis=0)
    names = (
        *("device_publish_ns", "agent_write_ns", "take_ns", "callback_start_ns"),
        *("answer_publish_ns", "callback_end_ns", "device_callback_ns"),
    )
    true = pl.DataFrame({name: begin + step for name, step in zip(names, steps, strict=True)})
    device = {
        name: true[name] + OFFSET + ((true[name] - BEGIN) * DRIFT).round().cast(pl.Int64)
        for name in ("device_publish_ns", "device_callback_ns")
    }
    sequence = pl.int_range(COUNT, eager=True)
    exchanges = pl.DataFrame(
        {
            "source": [PLACE[0]] * COUNT,
            "transport": [PLACE[1]] * COUNT,
            "sequence": sequence,
            "client_sent_ns": device["device_publish_ns"],
            # The node's own clock plays no part here.
            "agent_received_ns": sequence,
            "agent_sent_ns": sequence,
            "client_received_ns": device["device_callback_ns"],
            "rtt_ns": sequence,
            "rtt_uncertainty_ns": sequence,
        },
        schema=EXCHANGED,
    )
    takes = exchanges.select(
        *("source", "transport", "sequence"),
        (true["agent_write_ns"] + SYSTEM).alias("source_timestamp_ns"),
    ).cast(dict(TAKEN))  # type: ignore[arg-type]
    one_sided = true.lazy().select(
        pl.lit(PLACE[0]).alias("run"),
        (pl.col("agent_write_ns") + SYSTEM).alias("source_timestamp_ns"),
        *("take_ns", "callback_start_ns", "callback_end_ns"),
        pl.lit(SYSTEM).alias("clock_offset_ns"),
        pl.int_range(pl.len()).alias("callback_instance_id"),
    )
    publications = true.lazy().select(
        pl.lit(PLACE[0]).alias("run"),
        pl.int_range(pl.len()).alias("callback_instance_id"),
        pl.col("answer_publish_ns").alias("publish_ns"),
    )
    results = MicroRosResults(exchanges=exchanges, takes=takes, links={PLACE: Link(PLACE[1])})
    return true, results, one_sided, publications


def test_times_of_the_device_lie_within_their_error() -> None:
    true, results, one_sided, publications = known()
    messages = device_messages(results, one_sided, publications)
    assert messages.schema == DEVICE_MESSAGES
    assert messages["sequence"].to_list() == list(range(COUNT))
    for name in true.columns:
        error = (messages[name] - true[name]).abs()
        of_device = name.startswith("device_")
        assert (error <= (messages["error_ns"] if of_device else 0)).all(), name
    # The shortest round trip leaves no more open.
    assert messages["error_ns"].max() <= 400_000  # type: ignore[operator]


def test_a_message_that_the_recording_does_not_hold_is_no_row() -> None:
    _, results, one_sided, publications = known()
    messages = device_messages(results, one_sided.slice(3), publications)
    assert messages["sequence"].to_list() == list(range(3, COUNT))
    (check,) = hop_checks(messages, results.exchanges)
    assert check.verdict == "holds"
    assert check.because == "in 197 of 197 messages; 200 were exchanged"


def test_transports_are_in_the_order_of_their_exchanges() -> None:
    """The node's trace has more messages than were exchanged, and in another order."""
    _, results, one_sided, publications = known()
    halves = pl.when(pl.col("sequence") < 100).then(pl.lit("first")).otherwise(pl.lit("second"))
    results.exchanges = results.exchanges.slice(5).with_columns(halves.alias("transport"))
    results.takes = results.takes.with_columns(halves.alias("transport"))
    results.links = {(PLACE[0], name): Link(name) for name in ("first", "second")}
    messages = device_messages(results, one_sided.reverse(), publications)
    assert messages["transport"].to_list() == ["first"] * 95 + ["second"] * 100


def test_clocks_that_cannot_be_brought_together_give_no_row() -> None:
    _, results, one_sided, publications = known()
    assert device_messages(results, one_sided.head(9), publications).is_empty()
    assert device_messages(MicroRosResults(), one_sided, publications).is_empty()


def test_hops_that_run_backwards_are_found() -> None:
    _, results, one_sided, publications = known()
    messages = device_messages(results, one_sided, publications)
    late = pl.when(pl.col("sequence") == 7).then(pl.col("callback_start_ns") + 1)
    wrong = messages.with_columns(late.otherwise(pl.col("take_ns")).alias("take_ns"))
    (check,) = hop_checks(wrong, results.exchanges)
    assert (check.verdict, check.value) == ("broken", 1.0)


def test_medians_and_what_is_said() -> None:
    """By hand: hops of 1 to 5 ms, twice."""
    times = np.cumsum([0, 1, 2, 3, 4, 5]) * 1_000_000
    names = ("device_publish_ns", "agent_write_ns", "take_ns", "callback_start_ns")
    row = dict(zip((*names, "answer_publish_ns", "device_callback_ns"), times, strict=True))
    row |= {"callback_end_ns": row["answer_publish_ns"], "error_ns": 250_000}
    rows = [{"source": "run", "transport": "udp", "sequence": i} | row for i in range(2)]
    medians = hop_medians(pl.DataFrame(rows, DEVICE_MESSAGES))
    expected = ("udp", 2, 1e6, 2e6, 3e6, 4e6, 5e6, 6e6, 250_000)
    assert medians.row(0) == pytest.approx(expected)
    assert hops_sentence(medians).startswith("A message takes 6.00 ms ± 0.25 (udp) from the device")
