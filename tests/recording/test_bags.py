"""Test that bags given in place of a trace are recognised, and not called an empty folder."""

import sqlite3
from pathlib import Path

import pytest
from mcap.writer import Writer

from roslens.collectors.reader import open_trace
from roslens.recording import UsageError
from roslens.recording.layout import find_recordings


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    """Write a folder as rosbag2 does, with a file of each storage."""
    folder = tmp_path / "bag"
    folder.mkdir()
    with (folder / "bag_0.mcap").open("wb") as stream:
        writer = Writer(stream)
        writer.start("ros2")
        writer.finish()
    connection = sqlite3.connect(folder / "bag_0.db3")
    connection.execute("CREATE TABLE topics(id INTEGER PRIMARY KEY)")
    connection.close()
    return folder


@pytest.mark.parametrize("read", [find_recordings, open_trace])
def test_a_bag_is_named_as_one(bag: Path, read: object) -> None:
    for name, kind in (("bag_0.mcap", "an MCAP bag"), ("bag_0.db3", "a rosbag2 bag .SQLite.")):
        with pytest.raises(UsageError, match=rf"{name}: {kind}, not a trace"):
            read(bag / name)  # type: ignore[operator]
    with pytest.raises(UsageError, match=r"bag: a rosbag2 bag .SQLite., not a trace"):
        read(bag)  # type: ignore[operator]
    (bag / "metadata.yaml").write_text("rosbag2_bagfile_information:\n  version: 9\n")
    with pytest.raises(UsageError, match="bag: a rosbag2 bag, not a trace"):
        read(bag)  # type: ignore[operator]


def test_what_only_has_the_name_of_a_bag_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.mcap").write_bytes(b"")
    (tmp_path / "metadata.yaml").write_text("something: else\n")
    with pytest.raises(UsageError, match="no recording here"):
        find_recordings(tmp_path)
