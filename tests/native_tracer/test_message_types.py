"""The type of each publisher and subscription, against what the program itself writes down."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import polars as pl
import pytest

import roslens as rl
from roslens.tracing.command import record_command
from roslens.tracing.lttng import TracingOptions

NODE = Path(__file__).parent / "typed_node.py"
pytestmark = pytest.mark.live


@pytest.mark.parametrize("tracer", ["native", "lttng"])
def test_types_are_those_of_the_program(
    program: list[str], tracer: Literal["native", "lttng"], tmp_path: Path
) -> None:
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
        found = named.select(pl.col("topic", "type").cast(str)).sort("topic").collect()
        assert found.equals(types)
