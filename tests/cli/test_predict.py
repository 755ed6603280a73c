"""Test ``roslens predict``: verdicts, files, and refusals."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_line import Roslens
from test_errors import check_one_line
from tests.samples import RUN, SAMPLES

CHAIN = SAMPLES / "chain.tar.zst"


@pytest.mark.recording
def test_half_the_rate_takes_half_the_cpu_and_leaves_the_latency(
    roslens: Roslens, tmp_path: Path
) -> None:
    written = tmp_path / "figures.json"
    run = roslens("predict", RUN, "--rate", "/data=100Hz", "--json", written)
    assert run.returncode == 0, run.stderr
    (prediction,) = json.loads(written.read_text())
    figures = {(figure["metric"], figure["topic"]): figure for figure in prediction["figures"]}
    cpu, p50 = figures["cpu", None], figures["latency_p50", "/data"]
    # The run was recorded at 200 Hz, and no callback waits for another in either process.
    assert cpu["value"] == pytest.approx(cpu["simulated"] / 2, rel=0.15)
    assert p50["low"] <= p50["recorded"] <= p50["high"]
    # All 999 messages except the last count: the start-up was over, and nothing was published after
    # the last. The log begins before publish() and ends in the callback, which adds 2 to 12 us.
    log = pl.read_csv(RUN / "native" / "messages.csv").drop_nulls().head(998)
    logged = float(np.median(log["callback_realtime_ns"] - log["publish_realtime_ns"]))
    assert 2_000 < logged - p50["recorded"] < 12_000
    shown = f"P50   /data  /listener  us   {p50['recorded'] / 1e3:12.0f}"
    assert " ".join(shown.split()) in " ".join(run.stdout.split())
    assert "Callback groups were not recorded" in run.stdout


@pytest.mark.recording
def test_a_seed_repeats_it_and_an_edited_model_is_predicted(
    roslens: Roslens, tmp_path: Path
) -> None:
    model = tmp_path / "model.json"
    first = roslens("predict", RUN, "--model", model, "--seed", "4")
    again = roslens("predict", model, "--seed", "4")
    assert first.returncode == again.returncode == 0, first.stderr + again.stderr
    figures = [run.stdout[run.stdout.index("what  topic") :] for run in (first, again)]
    assert figures[0] == figures[1]
    text = json.loads(model.read_text())
    text["executors"][0]["threads"] = 0
    model.write_text(json.dumps(text))
    said = "not a timing model: executors.0.threads"
    check_one_line(roslens("predict", model), 2, said)


@pytest.mark.recording
def test_models_of_the_same_file_name_are_both_predicted(roslens: Roslens, tmp_path: Path) -> None:
    models = [tmp_path / folder / "model.json" for folder in ("one", "two")]
    for model in models:
        model.parent.mkdir()
        roslens("predict", RUN, "--model", model)
    written = tmp_path / "found.json"
    assert roslens("predict", *models, "--json", written).returncode == 0
    assert [prediction["cell"] for prediction in json.loads(written.read_text())] == [
        str(model) for model in models
    ]


@pytest.mark.recording
def test_what_the_simulation_does_not_reproduce_is_not_predicted(roslens: Roslens) -> None:
    """The chain's reentrant callbacks ran one after the other though threads were idle."""
    run = roslens("predict", CHAIN)
    assert run.returncode == 3
    shown = " ".join(run.stdout.split())
    assert "nothing is predicted: latency_p50: the simulation of what was recorded is" in shown
    assert "lost all % 0 - refused" in shown
    run = roslens("predict", CHAIN, "--executor", "Events")
    assert run.returncode == 3
    assert "callbacks shared a CPU with those of other threads" in " ".join(run.stdout.split())


@pytest.mark.recording
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "/listener:+2ms"], "expected such as callback=/planner:+2ms"),
        (["--rate", "/nothing=5Hz"], "nobody published /nothing; there are /data"),
        (["--executor", "Lottery"], "Lottery"),
        (["--threads", "0"], "threads"),
    ],
)
def test_wrong_use_is_told_in_one_line(roslens: Roslens, options: list[str], said: str) -> None:
    run = roslens("predict", RUN, *options)
    assert run.returncode == 2
    assert said in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_nothing_given_is_wrong_use(roslens: Roslens, tmp_path: Path) -> None:
    assert roslens("predict").returncode == 2
    assert roslens("predict", tmp_path / "no.json").returncode == 2
    assert roslens("predict", tmp_path / "nothing").returncode == 2
