"""Test that tables which are read without collecting again are named if they were damaged."""

import random
import shutil
from pathlib import Path

import pytest
from tests.samples import RUN, uncollected

from roslens.collectors.collection import collect, tables
from roslens.fleet.catalog import catalog
from roslens.recording import Recording, UsageError
from roslens.recordings import open_recordings


def damaged(whole: bytes, draw: random.Random) -> bytes:
    """Cut the content off, or flip one of its bits."""
    at = draw.randrange(len(whole))
    if draw.random() < 0.3:
        return whole[:at]
    return whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :]


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    run = uncollected(RUN, tmp_path / "run")
    recording = Recording.at(run)
    collect(recording)
    draw = random.Random(1)
    paths = sorted(recording.tables.glob("*.parquet"))
    for path in paths * 3:
        whole = path.read_bytes()
        path.write_bytes(damaged(whole, draw))
        for read in (lambda: open_recordings(run, collect=False), lambda: tables(recording)):
            with pytest.raises(UsageError, match=f"{path}: damaged.* run 'roslens collect' again"):
                read()
        path.write_bytes(whole)
    assert len(paths) > 10
    assert open_recordings(run, collect=False).messages.collect().height > 900
    # Without the list of digests, a table without its end is still known to be damaged.
    (recording.tables / "collected.json").unlink()
    paths[-1].write_bytes(paths[-1].read_bytes()[:-9])
    with pytest.raises(UsageError, match=f"{paths[-1]}: damaged"):
        open_recordings(run, collect=False)
    # Damage within is found, too: each page is decoded, in a process that the damage may end.
    paths[-1].write_bytes(whole)
    messages = recording.tables / "messages.parquet"
    content = messages.read_bytes()
    messages.write_bytes(content[:200] + bytes(400) + content[600:])
    with pytest.raises(UsageError, match=f"{messages}: damaged; run 'roslens collect' again"):
        open_recordings(run, collect=False)


def test_a_note_that_is_nested_without_end_is_no_note(tmp_path: Path) -> None:
    """With an unreadable note, tables are decoded, like those without digests."""
    run = uncollected(RUN, tmp_path / "run")
    recording = Recording.at(run)
    collect(recording)
    (recording.tables / "collected.json").write_text("[" * 100_000)
    assert open_recordings(run, collect=False).messages.collect().height > 900
    for number, note in enumerate(("[" * 100_000, "[1]")):
        (recording.tables / "collected.json").write_text(note)
        (row,) = catalog(tmp_path, file=tmp_path / f"{number}").select().rows.to_dicts()
        assert (row["collected"], row["problem"]) == (False, None)


def test_damaged_events_are_named(tmp_path: Path) -> None:
    """This includes a file added after the events were written; the tables remain readable."""
    run = uncollected(RUN, tmp_path / "run")
    recording = Recording.at(run)
    collect(recording)
    opened = open_recordings(run, collect=False)
    (name,) = (entry.name for entry in opened.runs)
    assert {"ros2:rcl_publish", "ros2:rmw_take"} <= opened.raw_events(name).keys()
    draw = random.Random(2)
    for note in (True, False):
        for path in sorted(recording.events.rglob("*.parquet"))[:: 1 if note else 9]:
            whole = path.read_bytes()
            path.write_bytes(damaged(whole, draw) if note else whole[:-9])
            with pytest.raises(UsageError, match=f"{path}: damaged.* run 'roslens collect' again"):
                opened.raw_events(name)
            path.write_bytes(whole)
        assert opened.messages.collect().height > 900
        if note:
            (recording.tables / "collected.json").rename(tmp_path / "note")
    (tmp_path / "note").rename(recording.tables / "collected.json")
    for folder, read in (("more", opened.raw_events), ("kernel", opened.kernel_events)):
        more = recording.events / folder / "x.parquet"
        more.parent.mkdir()
        shutil.copy(recording.tables / "messages.parquet", more)
        with pytest.raises(UsageError, match=f"{more}: damaged, or changed"):
            read(name)
