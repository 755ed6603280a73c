"""How goals ended, recorded by both tracers, against what the client was told of each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

import polars as pl
import pytest

import roslens as rl
from roslens.tracing.command import record_command
from roslens.tracing.lttng import TracingOptions

NODE = Path(__file__).parent / "goals_node.py"
COUNT = 60
pytestmark = pytest.mark.live


@pytest.mark.parametrize("tracer", ["native", "lttng"])
def test_every_goal_has_the_end_that_the_client_was_told(
    program: list[str], tracer: Literal["native", "lttng"], tmp_path: Path
) -> None:
    run, manifest = record_command(
        [*program, str(COUNT), str(tmp_path / "log.csv")],
        tmp_path / "run",
        options=TracingOptions(tracer=tracer, kernel="off"),
        ros="embedded",
        time_limit=90,
    )
    assert manifest.status == "complete", manifest.failure
    log = pl.read_csv(tmp_path / "log.csv", schema_overrides={"goal_id": pl.String})
    goals = rl.open(run).action_goals.collect()
    assert log.height == goals.height == COUNT
    assert goals["goal_id"].n_unique() == COUNT
    assert Counter(goals["outcome"]) == Counter(log["outcome"]) != Counter()
    named = log.drop_nulls("goal_id").join(goals, on="goal_id", suffix="_traced")
    assert named.height == log["goal_id"].drop_nulls().len() >= COUNT * 3 // 4
    assert named["outcome"].to_list() == named["outcome_traced"].to_list()
    ended = goals.filter(pl.col("outcome") != "rejected")
    assert set(ended["match"]) == {"exact"}
    in_order = (
        pl.col("goal_taken_ns") < pl.col("accepted_ns"),
        pl.col("accepted_ns") < pl.col("finished_ns"),
        pl.col("finished_ns") < pl.col("result_sent_ns"),
        pl.col("result_sent_ns") < pl.col("result_taken_ns"),
    )
    assert ended.filter(~pl.all_horizontal(in_order)).is_empty()
    cancelled = goals.filter(pl.col("cancel_sent_ns").is_not_null())
    assert set(cancelled["outcome"]) == {"canceled"}
    assert cancelled.height == COUNT // 4
