"""Test recordings without ROS 2 events, empty arguments, and copies of one trace."""

import shutil
from pathlib import Path

import pytest
from tests.ctf import ctf_writer as w

import roslens as rl
from roslens.cli import main


def trace(root: Path, events: int = 3) -> Path:
    """Write a trace of events that are not ROS 2's."""
    event = w.Event("p:e", 0, w.structure({"n": w.integer(32)}))
    writer = w.TraceWriter([event])
    stream = w.Stream(writer, instance=0, cpu=0)
    for number in range(events):
        stream.event(event, 1_000 + number, {"n": number}, {})
    stream.packet()
    writer.save(root)
    (root / "s").write_bytes(bytes(stream.data))
    return root


def exit_code(*arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


def test_a_report_without_events_of_ros_lacks_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = trace(tmp_path / "trace")
    assert exit_code("report", "latency", str(root), "-o", str(tmp_path / "report")) == 3
    error = capsys.readouterr().err
    assert "nothing to report of 1 run: no ros2 event was recorded" in error
    assert "did not enable ros2:*" in error
    assert (tmp_path / "report" / "latency.html").is_file()


NONE = "trace: no event was recorded, or none was saved"


@pytest.mark.parametrize(
    ("verb", "said"),
    [(["info"], NONE), (["collect"], NONE), ([], "no ros2 event was recorded")],
)
def test_a_recording_without_any_event_is_no_success(
    verb: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = trace(tmp_path / "trace", events=0)
    assert exit_code(*verb, str(root)) == 3
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [("report", "latency", ""), ("check", "b.yaml", " "), ("info", "")]
)
def test_an_empty_argument_is_no_folder(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*arguments) == 2
    assert "an argument is empty: is a variable of the shell not set?" in capsys.readouterr().err


def test_copies_of_a_trace_are_one_run(tmp_path: Path) -> None:
    """Two copies have the same UUID and content; a third the same UUID and other events."""
    first = trace(tmp_path / "first")
    shutil.copytree(first, tmp_path / "second")
    trace(tmp_path / "third", events=4)
    opened = rl.open([tmp_path / name for name in ("first", "second", "third")], collect=False)
    assert [run.name for run in opened.runs] == ["first", "third"]
    assert opened.copies_in_words() == ["1 recording is a copy and left out: second of first"]


def test_copies_with_the_same_name_are_named_by_their_folders(tmp_path: Path) -> None:
    """Two recordings have a copy each, in a folder of the same name."""
    for number in (1, 2):
        one = trace(tmp_path / "a" / f"r{number}", events=number)
        shutil.copytree(one, tmp_path / "b" / f"r{number}")
    places = [tmp_path / folder / run for folder in "ab" for run in ("r1", "r2")]
    opened = rl.open(places, collect=False)
    assert opened.copies == {"a/r1": ["b/r1"], "a/r2": ["b/r2"]}
    assert opened.copies_in_words() == [
        "2 recordings are copies and left out: b/r1 of a/r1, b/r2 of a/r2"
    ]


def test_what_is_missing_is_not_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The index of one stream file shows that the file is gone."""
    root = trace(tmp_path / "trace")
    event = w.Event("p:e", 0, w.structure({"n": w.integer(32)}))
    stream = w.Stream(w.TraceWriter([event]), instance=1, cpu=1)
    stream.event(event, 2_000, {"n": 9}, {})
    stream.packet()
    assert exit_code("collect", str(root)) == 0
    assert "none discarded" in capsys.readouterr().out
    (root / "index").mkdir()
    (root / "index" / "t.idx").write_bytes(w.index(stream.entries))
    for arguments in ((), ("--events-only",)):
        assert exit_code("collect", str(root), *arguments, "--force") == 0
        output = " ".join(capsys.readouterr().out.split())
        assert "this stream file is not there" in output
        assert "none discarded" not in output


@pytest.mark.parametrize("verb", ["info", "catalog", "events"])
def test_a_pipe_gets_no_part_of_a_progress_bar(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = trace(tmp_path / "traces" / "one")
    given = root.parent if verb == "catalog" else root
    more = ("-o", str(tmp_path / "out.csv"), "--format", "csv") if verb == "events" else ()
    assert exit_code(verb, str(given), *more) == 0
    assert capsys.readouterr().err == ""
