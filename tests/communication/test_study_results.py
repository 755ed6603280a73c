"""Test results of the original tool, written here from the description of its format.

Expected values follow from how the files are made, and from the published table's arithmetic.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from roslens.analysis.estimate import Cell
from roslens.analysis.runs import Run
from roslens.recording import UsageError
from roslens.recording.manifest import Level
from roslens.studies.communication.logged import study_messages, study_table
from roslens.studies.communication.published import published_cell, read_published
from roslens.studies.communication.results import read_study

ROOT = Path(__file__).parents[2]
NAME = "test_{}_10ms_n1_s1_m{}_l10000000"
START_US = 1_550_000_000_000_000


def write(
    folder: Path, kind: str, *, messages: int, period_us: int, latency_us: int, every: int = 1
) -> Path:
    """Write a run of one publisher; the subscription gets one of every `every` messages."""
    run = folder / NAME.format(kind, messages)
    run.mkdir(parents=True)
    times = [START_US + i * period_us for i in range(messages)]
    (run / "publisher_0").write_text("".join(f"{i}, {t}\n" for i, t in enumerate(times)))
    got = [(i, t + latency_us) for i, t in enumerate(times) if i % every == 0]
    (run / "subscription_0").write_text("".join(f"0, {i}, {t}\n" for i, t in got))
    return run


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    write(tmp_path, "inter_shared", messages=100, period_us=16_800, latency_us=178_000, every=2)
    write(tmp_path, "intra_unique", messages=10, period_us=11_400, latency_us=510)
    (tmp_path / "plots").mkdir()
    inter, intra = read_study(tmp_path)
    assert inter.name == NAME.format("inter_shared", 100)
    assert inter.published.height == 100
    assert inter.received.height == 50
    assert inter.received.row(1) == (0, 0, 2, START_US + 2 * 16_800 + 178_000)
    assert read_study(tmp_path / intra.name)[0].name == intra.name


def test_losses_that_the_tool_did_not_count_and_the_age_of_its_queue(tmp_path: Path) -> None:
    write(tmp_path, "inter_shared", messages=100, period_us=16_800, latency_us=178_000, every=2)
    messages = study_messages(read_study(tmp_path)[0])
    assert dict(messages["outcome"].value_counts().iter_rows()) == {"delivered": 50, "lost": 50}
    table = study_table(tmp_path)
    (row,) = table.rows
    # Sent every 16.8 ms, every other one received: 33.6 ms; 178 / 16.8 = 10.6 publications behind.
    assert list(row[1:]) == ["16.80", "33.60", "178.0", "100", "50", "50.0", "10.0", "backlog"]


def test_within_a_process_nothing_waits(tmp_path: Path) -> None:
    write(tmp_path, "intra_unique", messages=10, period_us=11_400, latency_us=510)
    (row,) = study_table(tmp_path).rows
    assert list(row[1:]) == ["11.40", "11.40", "0.5100", "10", "0", "0", "0", "latency"]


def test_one_publisher_for_many(tmp_path: Path) -> None:
    run = write(tmp_path, "intra_shared", messages=4, period_us=100, latency_us=10)
    (run / "subscription_1").write_text("".join(f"0,{i},{START_US + 200 + i}\n" for i in (0, 3)))
    (run / "subscription_2").write_text("")
    (run / "publisher_1").write_text(f"0,{START_US}\n")
    messages = study_messages(read_study(run)[0])
    outcomes = messages.group_by("publisher_id", "subscription_id", "outcome").len()
    assert set(outcomes.iter_rows()) == {
        (0, 0, "delivered", 4),
        (0, 1, "delivered", 2),
        (0, 1, "lost", 2),
        # The files tell nothing about a pair in which nothing arrived.
        (1, None, "unknown", 1),
    }


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("subscription_0", "0,7,1\n", "received message 7 of publisher 0, which did not publish"),
        ("subscription_0", "0,1\n", "2 columns; expected publisher_id, message_id, callback_us"),
        ("subscription_0", "0,1,2\n0,2,x\n", "line 2: expected publisher_id"),
        ("publisher_0", "0,1\n1,\n", "line 2: expected message_id, publish_us"),
        ("publisher_0", "0,1\n0,2\n", "a message is named twice"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, file: str, text: str, message: str) -> None:
    run = write(tmp_path, "inter_unique", messages=3, period_us=10, latency_us=1)
    (run / file).write_text(text)
    with pytest.raises(UsageError, match=message):
        read_study(tmp_path)


def test_no_results(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder named test_"):
        read_study(tmp_path)
    with pytest.raises(UsageError, match="not a folder"):
        read_study(tmp_path / "nothing")
    (tmp_path / NAME.format("intra_unique", 1)).mkdir()
    with pytest.raises(UsageError, match="no file publisher_"):
        read_study(tmp_path)


def test_what_the_printed_table_implies() -> None:
    table = read_published(ROOT / "studies" / "communication" / "data")
    implied = (100 * pl.col("implied_loss")).round(1)
    assert table.select("pointer", "intra_process", implied, "full").rows() == [
        ("shared", False, 58.5, True),
        ("shared", True, 0.0, False),
        ("unique", False, 56.0, True),
        ("unique", True, 0.0, False),
    ]
    assert table["periods"].round(1).to_list() == [10.6, 0.2, 10.4, 0.0]


def test_which_published_cell_is_ours() -> None:
    def published(parameters: Cell, **cell: Level) -> tuple[str, bool] | None:
        return published_cell(Run("r", cell=cell, parameters=parameters))

    whole: dict[str, Level] = {"callback": "unique_ptr", "intra_process": False}
    whole["message_bytes"] = 10_000_000
    assert published({}, **whole) == ("unique", False)
    assert published({}, **whole, publishers=1) is not None
    assert published({}, **whole, publishers=100) is None
    assert published({}, intra_process=False, payload=10_000_000) is None
    # The size may be a parameter; it must be known, and be the study's.
    size = 10_000_000
    del whole["message_bytes"]
    assert published({"message_bytes": size}, **whole) == ("unique", False)
    assert published({"message_bytes": 1000}, **whole) is None
    assert published({"message_bytes": size, "publishers": 10}, **whole) is None
    assert published({}, **whole) is None
