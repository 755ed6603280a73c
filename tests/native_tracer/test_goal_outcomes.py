"""Test goal outcomes of both tracers and of attaching against what the client was told."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import polars as pl
import pytest
from tests.programs import wait_for

import roslens as rl
from roslens.tracing.attach import record_attached
from roslens.tracing.command import record_command
from roslens.tracing.ftrace.recorder import RAW_NAME
from roslens.tracing.ftrace.tracefs import why_no_ftrace
from roslens.tracing.ftrace.uprobes import TRANSITIONS
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.ros import embedded_ros

NODE = Path(__file__).parent / "goals_node.py"
COUNT = 60
ATTACHED_S = 8
NO_KERNEL = TracingOptions(kernel="off")
REASON = why_no_ftrace()
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
    agrees(run, tmp_path / "log.csv")


@pytest.mark.skipif(REASON is not None, reason=str(REASON))
def test_attached_to_a_server_that_runs(program: list[str], tmp_path: Path) -> None:
    log, go, folder = tmp_path / "log.csv", tmp_path / "go", tmp_path / "run"
    with embedded_ros().isolated(tmp_path / "ros") as ros, ThreadPoolExecutor() as pool:
        command = [str(ros.python) if word == "python" else word for word in program]
        command += [str(COUNT), str(log), str(go)]
        with subprocess.Popen(command, env=ros.process_environment()) as node:
            wait_for(Path(f"{log}.ready").exists, process=node)
            attached = pool.submit(
                record_attached, [str(node.pid)], folder, options=NO_KERNEL, time_limit=ATTACHED_S
            )
            while not (folder / RAW_NAME / "cpu0").exists() and not attached.done():
                time.sleep(0.1)
            time.sleep(1)
            go.touch()
            manifest = attached.result()[1]
            go.unlink()
    assert manifest.status == "complete", manifest.failure
    agrees(folder, log)


def test_a_goal_changes_its_state_where_rcl_action_lets_it() -> None:
    """``rcl_action_transition_goal_state`` itself gives 0 for a transition it does not allow."""
    call = "ctypes.CDLL('librcl_action.so').rcl_action_transition_goal_state"
    code = f"import ctypes; print([{call}(s, e) for s in range(1, 7) for e in range(5)])"
    ros = embedded_ros()
    command = [str(ros.python), "-c", code]
    output = subprocess.check_output(command, env=ros.process_environment(), text=True)
    next_status = {
        (state, event): status
        for status, (event, least, greatest) in TRANSITIONS.items()
        for state in range(least, greatest + 1)
    }
    ours = [next_status.get((state, event), 0) for state in range(1, 7) for event in range(5)]
    assert ours == json.loads(output)


def agrees(run: Path, log_file: Path) -> None:
    log = pl.read_csv(log_file, schema_overrides={"goal_id": pl.String})
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
