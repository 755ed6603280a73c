"""Test that CARET's events in place of ROS 2's give the model of the recording without CARET.

The input is a real recording rewritten by the fields that CARET documents: the init events under
CARET's provider, emitted late and twice, with the time at which they happened by LTTng's clock; no
timestamp at rmw_publish, as up to Iron, but a write event; and dispatches instead of takes.
"""

from dataclasses import replace

import polars as pl
import pytest
from tests.samples import RUN

from roslens.collectors.caret import with_caret
from roslens.collectors.caret_events import PROVIDER, REPEATED
from roslens.collectors.decoding import Raw, read_raw
from roslens.collectors.ros2 import build_tables
from roslens.recording import Recording

CLOCK_NS = 1_700_000_000_000_000_000
CALLBACK = "ros2:callback_start"


@pytest.fixture(scope="module")
def raw() -> Raw:
    return read_raw(Recording.at(RUN))


def tables(raw: Raw) -> dict[str, pl.DataFrame]:
    return build_tables(raw.events, raw.losses, raw.warnings, hosts=raw.hosts)


def named_by_caret(raw: Raw) -> dict[str, pl.DataFrame]:
    """Replace the init events by CARET's: one as each happens, and one when its session begins."""
    events = dict(raw.events)
    every = [events[f"ros2:{name}"] for name in REPEATED if f"ros2:{name}" in events]
    begin = max(frame["time_ns"].max() for frame in every if frame.height) + 1
    for name in REPEATED:
        frame = events.pop(f"ros2:{name}", None)
        if frame is None:
            continue
        first = frame.with_columns((pl.col("time_ns") - CLOCK_NS).alias("init_timestamp"))
        again = first.with_columns(pl.lit(begin, pl.Int64).alias("time_ns"))
        events[f"{PROVIDER}{name}"] = pl.concat([first, again])
    place = events[CALLBACK].select(pl.all().exclude("callback", "is_intra_process"))
    init = place.unique("vpid", keep="first").with_columns(
        pl.lit(begin, pl.Int64).alias("time_ns"),
        pl.lit(begin - CLOCK_NS).alias("clock_offset"),
        pl.lit("humble").alias("distribution"),
    )
    return {**events, f"{PROVIDER}caret_init": init}


def written(raw: Raw, name: str, field: str) -> dict[str, pl.DataFrame]:
    """Drop the timestamps of publications, and add a write event right after each."""
    events = dict(raw.events)
    publish = events["ros2:rmw_publish"]
    events["ros2:rmw_publish"] = publish.drop("timestamp", "rmw_publisher_handle")
    events[name] = publish.select(
        pl.col("time_ns") + 100,
        *(
            column
            for column in publish.columns
            if column not in ("time_ns", "message", "timestamp")
        ),
        pl.col("message").alias("addr"),
        pl.col("timestamp").cast(pl.UInt64).alias(field),
    )
    return events


def same(actual: dict[str, pl.DataFrame], expected: dict[str, pl.DataFrame], *names: str) -> None:
    for name in names:
        assert expected[name].height
        assert actual[name].equals(expected[name]), name


def test_objects_are_named_by_what_caret_tells(raw: Raw) -> None:
    events = named_by_caret(raw)
    without = tables(replace(raw, events=events))
    assert without["nodes"].is_empty()
    translated = with_caret(replace(raw, events=events))
    assert "init events of CARET" in translated.warnings[-1]
    expected = tables(raw)
    objects = ("nodes", "publishers", "subscriptions", "timers", "callbacks", "callback_instances")
    same(tables(translated), expected, *objects, "messages", "takes", "publications")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        (f"{PROVIDER}dds_bind_addr_to_stamp", "source_stamp"),
        (f"{PROVIDER}dds_write", "timestamp"),
        ("dds:write", "timestamp"),
    ],
)
def test_writes_make_matches_exact_and_losses_countable(raw: Raw, name: str, field: str) -> None:
    events = written(raw, name, field)
    expected = tables(raw)["messages"]
    blind = tables(replace(raw, events={x: f for x, f in events.items() if x != name}))["messages"]
    assert "exact" not in blind["match"].to_list()
    translated = with_caret(replace(raw, events=events))
    assert translated.warnings[-1] == f"publications have their source timestamps from {name}"
    messages = tables(translated)["messages"]
    columns = ["topic", "publish_ns", "take_ns", "outcome", "match", "key_ns"]
    kept = [column for column in columns if column in expected.columns]
    # Without the publisher's handle, the middleware's own publications cannot be attributed.
    of_program = pl.col("topic").is_in(expected["topic"].unique().drop_nulls().to_list())
    assert messages.filter(of_program).select(kept).equals(expected.filter(of_program).select(kept))


def test_dispatches_are_taken_for_takes(raw: Raw) -> None:
    events = dict(raw.events)
    take = events.pop("ros2:rmw_take")
    subscribed = (
        events["ros2:rclcpp_subscription_callback_added"]
        .select("vpid", "subscription", "callback")
        .join(
            events["ros2:rclcpp_subscription_init"].select(
                "vpid", "subscription", "subscription_handle"
            ),
            on=["vpid", "subscription"],
        )
        .join(
            events["ros2:rcl_subscription_init"].select(
                "vpid", "subscription_handle", "rmw_subscription_handle"
            ),
            on=["vpid", "subscription_handle"],
        )
    )
    events["ros2:dispatch_subscription_callback"] = (
        take.filter(pl.col("taken") == 1)
        .join(subscribed, on=["vpid", "rmw_subscription_handle"])
        .rename({"source_timestamp": "source_stamp"})
        .drop("rmw_subscription_handle", "taken", "subscription", "subscription_handle")
        .with_columns(pl.lit(0, pl.UInt64).alias("message_timestamp"))
    )
    translated = with_caret(replace(raw, events=events))
    expected = tables(raw)["messages"]
    delivered = pl.col("outcome") == "delivered"
    messages = tables(translated)["messages"].filter(delivered)
    assert set(messages["match"]) == {"exact"}
    columns = ["topic", "publish_ns", "take_ns", "callback_start_ns"]
    of_callbacks = expected.filter(delivered & pl.col("callback_start_ns").is_not_null())
    assert of_callbacks.height
    assert messages.select(columns).equals(of_callbacks.select(columns))


def test_a_recording_without_caret_stays_as_it_is(raw: Raw) -> None:
    assert with_caret(raw) is raw


def test_several_writes_of_one_call_and_writes_of_no_call(raw: Raw) -> None:
    """The first write after a call belongs to it; a write before any call of its thread to none."""
    base = {"host": "h0", "trace": "t", "cpu_id": 0, "vpid": 1, "vtid": 1, "procname": "p"}
    calls = pl.DataFrame([{"time_ns": t, **base, "message": t} for t in (100, 200, 300)])
    writes = pl.DataFrame(
        [{"time_ns": t, **base, "addr": 0, "source_stamp": 7_000 + t} for t in (50, 110, 120, 310)]
    )
    events = {
        "ros2:rcl_publish": calls,
        f"{PROVIDER}dds_bind_addr_to_stamp": writes,
    }
    translated = with_caret(replace(raw, events=events, warnings=[]))
    rows = translated.events["ros2:rmw_publish"].lazy().select("time_ns", "message", "timestamp")
    # By hand: the call at 200 wrote nothing.
    assert rows.collect().rows() == [(110, 100, 7110), (310, 300, 7310)]
