"""Test that tables of ``collect -o``, which lie without their trace, open like the recording."""

import json
import shutil
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal
from tests.samples import RUN, uncollected

import roslens as rl
from roslens.collect import Options, collect_all
from roslens.collectors.excerpt import Excerpt
from roslens.fleet.cluster import Workers
from roslens.info import find_info
from roslens.recording import UsageError, find_recordings
from roslens.recording.terminal import Console
from roslens.tracing.archive import pack

pytestmark = pytest.mark.recording


def collected(*paths: Path, output: Path, **options: object) -> None:
    settings = Options(**options)  # type: ignore[arg-type]
    collect_all(
        paths, output=output, options=settings, workers=Workers(1), console=Console(quiet=True)
    )


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Collect tables of a recording, and remove the recording itself."""
    folder = tmp_path_factory.mktemp("elsewhere")
    uncollected(RUN, folder / "run")
    collected(folder / "run", output=folder / "out")
    shutil.rmtree(folder / "run")
    return folder / "out"


def test_they_open_with_all_that_is_known(elsewhere: Path) -> None:
    opened, whole = rl.open(elsewhere), rl.open(RUN)
    assert_frame_equal(opened.messages.drop("run").collect(), whole.messages.drop("run").collect())
    assert opened.resources.collect().height == whole.resources.collect().height > 0
    (run,), (original,) = opened.runs, whole.runs
    assert (run.suite, run.cell, run.excerpt) == (original.suite, original.cell, None)


def test_info_counts_what_was_collected(elsewhere: Path) -> None:
    info, excerpt = find_info(elsewhere)
    assert excerpt is None
    assert info.events == find_info(RUN)[0].events


def test_what_is_damaged_or_wanted_anew_is_refused_in_a_line(
    elsewhere: Path, tmp_path: Path
) -> None:
    place = shutil.copytree(elsewhere, tmp_path / "copy")
    (recording,) = find_recordings(place)
    with pytest.raises(UsageError, match="only tables"):
        collected(place, output=tmp_path / "other")
    note = place / "tables" / "collected.json"
    content = json.loads(note.read_text())
    note.write_text(json.dumps(content | {"collector": "0+old"}))
    with pytest.raises(UsageError, match="tables without their trace, and another version"):
        rl.open(place)
    (place / "tables" / "excerpt.json").write_text("{")
    with pytest.raises(UsageError, match="damaged"):
        rl.open(place)
    assert recording.is_excerpt


def test_tables_outlast_the_trace_that_they_were_made_of(tmp_path: Path) -> None:
    """A trace is often removed for its size; what was made of it is not made again of nothing."""
    uncollected(RUN, tmp_path / "run")
    messages = rl.open(tmp_path / "run").messages.collect()
    shutil.rmtree(tmp_path / "run" / "trace")
    assert_frame_equal(rl.open(tmp_path / "run").messages.collect(), messages)
    for force, content in ((True, {}), (False, {"collector": "0+old"})):
        note = tmp_path / "run" / "tables" / "collected.json"
        note.write_text(json.dumps(json.loads(note.read_text()) | content))
        with pytest.raises(UsageError, match=r"without their trace.*: restore the trace below"):
            collected(tmp_path / "run", output=tmp_path / "run", force=force)


def test_a_part_does_not_take_the_place_of_the_whole(tmp_path: Path) -> None:
    collected(RUN, output=tmp_path / "out")
    with pytest.raises(UsageError, match="tables of a whole recording"):
        collected(RUN, output=tmp_path / "out", excerpt=Excerpt(topics=("/*",)))
    # Collecting the same again finds the tables up to date.
    collected(RUN, output=tmp_path / "out")


def test_verbs_take_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROSLENS_CACHE", str(tmp_path / "cache"))
    pack([RUN], tmp_path / "run.tar.zst")
    whole = find_info(RUN)[0]
    assert find_info(tmp_path / "run.tar.zst")[0].events == whole.events
    collected(tmp_path / "run.tar.zst", output=tmp_path / "out")
    assert rl.open(tmp_path / "out").messages.collect().height


def test_a_file_is_told_which_verb_reads_it(tmp_path: Path) -> None:
    (tmp_path / "results.yaml").touch()
    with pytest.raises(UsageError, match="report tool FILE"):
        find_recordings(tmp_path / "results.yaml")
