"""Test that the tables of `roslens dev generate` recordings are what their truth says."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

import roslens as rl
from roslens.analysis.latency.report import LatencyParameters, LatencyReport
from roslens.cli import main
from roslens.collectors.reader import open_trace
from roslens.generate import TRUTH, Shape, generate
from roslens.widgets.parts import TableWidget
from roslens.widgets.start import StartPage

WHERE = ("topic", "publisher_node", "subscription_node", "publisher_vpid", "subscription_vpid")
WHEN = ("publish_ns", "source_timestamp_ns", "take_ns", "callback_start_ns", "callback_end_ns")


def drawn(seed: int) -> Shape:
    """Draw a random shape."""
    draw = random.Random(seed)
    topics = draw.randint(1, 20)
    nodes = draw.randint(1, topics)
    fan_out = draw.randint(1, 4)
    return Shape(
        layers=draw.randint(1, 5), fan_out=fan_out, topics=topics, nodes=nodes,
        processes=draw.randint(1, nodes), threads=draw.randint(1, 6),
        period_ns=draw.randint(3_000 * fan_out, 1_000_000), lag=draw.choice((1, 3, 9, 200)),
        loss=draw.choice((0.0, 0.01, 0.3)), stamp_offset_ns=draw.choice((0, 10**10)), seed=seed,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_messages_are_as_the_truth_says(tmp_path: Path, seed: int) -> None:
    shape = drawn(seed)
    count = generate(shape, tmp_path, 20_000)
    truth = pl.read_parquet(tmp_path / TRUTH)
    assert open_trace(tmp_path).info().events == count
    opened = rl.open(tmp_path)
    messages = opened.messages.collect()
    columns = [*WHERE, *WHEN]
    delivered = messages.filter(pl.col("outcome") == "delivered").select(columns).sort(columns)
    assert delivered.equals(truth.drop_nulls().select(columns).sort(columns))
    # Lost messages are called lost or, at the edges and with a short history, possibly lost.
    missed = messages.filter(pl.col("outcome") != "delivered")
    assert missed.height == truth.height - delivered.height
    assert set(missed["outcome"]) <= {"lost", "replaced", "unknown", "not_matched"}
    assert opened.processes.collect().height == shape.processes * (shape.layers + 1)
    assert opened.nodes.collect().height == shape.nodes * (shape.layers + 1)


def test_all_that_is_published_on_is_a_chain_of_all_layers(tmp_path: Path) -> None:
    """Without loss each message that enters goes through every layer: counted by hand."""
    shape = Shape(layers=4, topics=2, nodes=2, period_ns=50_000)
    generate(shape, tmp_path, 32_000)
    truth = pl.read_parquet(tmp_path / TRUTH)
    assert truth.group_by("topic").len()["len"].to_list() == [500] * 8
    chains = rl.open(tmp_path).chains.frame()
    assert chains.height == 1_000


def test_a_first_page_goes_without_chains_where_they_are_too_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(Shape(topics=1_001, nodes=1_001), tmp_path, 8_008)
    with pytest.raises(SystemExit) as ended:
        main((str(tmp_path),))
    assert ended.value.code == 0
    assert "Not followed unasked, of so many" in capsys.readouterr().out
    given = LatencyParameters.checked({"recordings": str(tmp_path)})
    recordings = rl.open(tmp_path)
    page = StartPage([str(tmp_path)], recordings)
    pane = page.chains()
    assert isinstance(pane, TableWidget)
    for shown in (LatencyReport(recordings, given).chains(), pane.content["rows"]):
        assert "there are more than 1000 chains; name those of interest" in str(shown)


def test_the_same_shape_is_the_same_recording(tmp_path: Path) -> None:
    contents = []
    for place, seed in (("a", 1), ("b", 1), ("c", 2)):
        generate(Shape(loss=0.5, seed=seed), tmp_path / place, 1_000)
        files = sorted(path for path in (tmp_path / place).rglob("*") if path.is_file())
        contents.append([file.read_bytes() for file in files])
    assert contents[0] == contents[1]
    assert contents[0][0] != contents[2][0]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("layers=0", "layers: from 1 to 100"),
        ("layers=x", "'layers=x': no number"),
        ("depth=3", "'depth=3': give each of these once: layers"),
        ("processes=9", "at least as many topics as nodes"),
        ("loss=2", "loss: from 0 to 1"),
        ("loss=nan", "loss: from 0 to 1"),
        ("period_ns=10", "period_ns: from 3,000 to"),
        ("fan_out=7", "period_ns: at least 3,000 for each"),
        ("seed=99999999999999999999", "seed: from 0 to"),
    ],
)
def test_what_is_no_shape_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str, told: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(("dev", "generate", str(tmp_path / "made"), given))
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert not (tmp_path / "made").exists()


def test_nothing_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("dev", "generate", str(tmp_path / "made"), "fan-out=2", "--events", "1000")
    with pytest.raises(SystemExit):
        main(words)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "is there already; give another folder" in capsys.readouterr().err
