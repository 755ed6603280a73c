"""Test message types, sizes and stamps against what the program itself writes down."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import polars as pl
import pytest

import roslens as rl
from roslens.tracing.command import record_command
from roslens.tracing.lttng import TracingOptions

NODE = Path(__file__).parent / "typed_node.py"
# rmw_serialize of Fast DDS returns its reserved length; Cyclone DDS pads what it sends.
LENGTH = {
    "rmw_fastrtps_cpp": "heard",
    "rmw_cyclonedds_cpp": "serialized",
    "rmw_zenoh_cpp": "heard",
}
pytestmark = pytest.mark.live


# Both tracers record the same for every event, whatever the middleware.
@pytest.mark.parametrize(
    ("middleware", "tracer"),
    [*((middleware, "native") for middleware in LENGTH), ("rmw_fastrtps_cpp", "lttng")],
    indirect=["middleware"],
)
def test_types_sizes_and_stamps_are_those_of_the_program(
    program: list[str],
    tracer: Literal["native", "lttng"],
    middleware: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROSLENS_CYCLONE_SIZES", "1")
    folder, manifest = record_command(
        [*program, str(tmp_path / "log.csv")],
        tmp_path / "run",
        options=TracingOptions(tracer=tracer, kernel="off"),
        ros="embedded",
        time_limit=90,
    )
    assert manifest.status == "complete", manifest.failure
    log = pl.read_csv(tmp_path / "log.csv")
    run = rl.open(folder)
    types = log.select("topic", "type").unique().sort("topic")
    for ends in (run.publishers, run.subscriptions):
        named = ends.filter(pl.col("topic").cast(str).str.starts_with("/typed_"))
        declared = named.select(pl.col("topic", "type").cast(str)).sort("topic").collect()
        assert declared.equals(types)
    typed = pl.col("topic").cast(str).str.starts_with("/typed_")
    sent = run.publications.filter(typed).sort("publish_ns").collect()
    assert sent["topic"].to_list() == log["topic"].to_list()
    assert sent["size"].to_list() == log[LENGTH[middleware]].to_list()
    assert sent["header_stamp_ns"].to_list() == log["stamp"].to_list()
    ages = run.messages.filter(typed).join(run.publications, on="message_id").collect()
    assert ages.height == log.height
    assert ages["data_age_ns"].null_count() == log["stamp"].null_count()
    stamped = ages.drop_nulls("data_age_ns")
    assert (stamped["take_ns"] - stamped["data_age_ns"] == stamped["header_stamp_ns"]).all()
