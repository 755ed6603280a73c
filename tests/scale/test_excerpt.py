"""Test tables of a part of a recording against the view of the whole recording's tables."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.analysis.synthetic import write_run
from tests.programs import roslens
from tests.samples import RUN, SAMPLES, uncollected

import roslens as rl
from roslens.analysis.measures.loss import TracerLoss
from roslens.analysis.metrics import metrics_of
from roslens.collectors.collected import NOTE
from roslens.collectors.collection import collect
from roslens.collectors.excerpt import Excerpt, cut, excerpt_of
from roslens.collectors.limits import Limits
from roslens.collectors.reader import open_trace
from roslens.collectors.schema import TABLES
from roslens.collectors.views import View, matching
from roslens.recording import Recording, UsageError, find_recordings

ROOT = Path(__file__).resolve().parents[2]
DEMO = SAMPLES / "demo" / "001_r0_executor-SingleThreaded"
NUMBERS = ("message_id", "callback_instance_id", "client_callback_instance_id", "take_id")
pytestmark = pytest.mark.recording


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Recording]:
    """Collect two whole recordings: messages between processes; services, goals and timers."""
    folder = tmp_path_factory.mktemp("whole")
    recordings = {run: Recording.at(run, folder / run.name) for run in (RUN, DEMO)}
    for recording in recordings.values():
        collect(recording)
    return recordings


def span(recording: Recording) -> tuple[int, int]:
    frame = pl.read_parquet(recording.tables / "processes.parquet")
    begin, end = frame.select(pl.col("begin_ns").min(), pl.col("end_ns").max()).row(0)
    return int(begin), int(end)


def assert_same(part: Recording, whole: Recording, view: View) -> None:
    """Check that all tables are as the view shows the whole's, except for row numbers."""
    for name, table in TABLES.items():
        if name == "health":
            continue
        expected = pl.read_parquet(whole.tables / f"{name}.parquet").filter(
            *view.filters(table, "", None)
        )
        actual = pl.read_parquet(part.tables / f"{name}.parquet")
        aside = [column for column in actual.columns if column in NUMBERS]
        if name in ("hosts", "processes"):
            aside += ["begin_ns", "end_ns", "events"]
        if name == "timer_activations":
            # These are estimated from the activations around.
            aside += ["release_ns", "lateness_ns", "skipped", "drift_ns"]
        aside = [column for column in aside if column in actual.columns]
        assert_frame_equal(actual.drop(aside), expected.drop(aside))


@pytest.mark.parametrize("run", [RUN, DEMO])
@pytest.mark.parametrize("margin", [5_000_000_000, 400_000_000])
def test_a_window_is_the_view_of_all(
    whole: dict[Path, Recording], tmp_path: Path, run: Path, margin: int
) -> None:
    """Both ends are times of a publication, and are included."""
    sent = pl.read_parquet(whole[run].tables / "messages.parquet")["publish_ns"]
    times = sent.drop_nulls().unique().sort()
    begin, end = times[len(times) // 3], times[len(times) // 2]
    part = Recording.at(run, tmp_path / "part")
    done = collect(part, excerpt=Excerpt(str(begin), str(end), margin_ns=margin))
    assert_same(part, whole[run], View(window_ns=(begin, end + 1)))
    messages = pl.read_parquet(part.tables / "messages.parquet")
    assert (messages["publish_ns"].min(), messages["publish_ns"].max()) == (begin, end)
    assert done.rows["messages"] == messages.height
    less = Excerpt(str(begin + 1), str(end - 1), margin_ns=margin)
    fewer = collect(part, excerpt=less).rows["messages"]
    assert fewer == messages.filter(~pl.col("publish_ns").is_in([begin, end])).height


def test_what_lies_outside_is_not_decoded(whole: dict[Path, Recording], tmp_path: Path) -> None:
    begin, end = span(whole[RUN])
    middle = (begin + end) // 2
    part = Recording.at(RUN, tmp_path / "part")
    collect(part, excerpt=Excerpt(str(middle), margin_ns=0))
    takes = pl.read_parquet(part.events / "ros2" / "rmw_take.parquet")
    all_takes = pl.read_parquet(whole[RUN].events / "ros2" / "rmw_take.parquet")
    assert_frame_equal(takes, all_takes.filter(pl.col("time_ns") >= middle))
    nodes = pl.read_parquet(part.events / "ros2" / "rcl_node_init.parquet")
    assert nodes["time_ns"].max() < middle
    assert_frame_equal(nodes, pl.read_parquet(whole[RUN].events / "ros2" / "rcl_node_init.parquet"))


def test_topics_and_nodes(whole: dict[Path, Recording], tmp_path: Path) -> None:
    messages = pl.read_parquet(whole[RUN].tables / "messages.parquet")
    topic = messages["topic"].value_counts().sort("count", "topic")["topic"][-1]
    nodes = pl.read_parquet(whole[RUN].tables / "nodes.parquet")["node"].sort()
    part = Recording.at(RUN, tmp_path / "part")
    collect(part, excerpt=Excerpt(topics=(topic,)))
    assert_same(part, whole[RUN], View(topics=frozenset([topic])))
    pattern = nodes[0][:-1] + "?"
    collect(part, excerpt=Excerpt(nodes=(pattern,)))
    assert_same(part, whole[RUN], View(nodes=matching(pattern, nodes, "node")))


def test_an_excerpt_says_that_it_is_one(whole: dict[Path, Recording], tmp_path: Path) -> None:
    """The note, health, rl.open and info say so; the manifest comes along."""
    begin, end = span(whole[RUN])
    part = Recording.at(RUN, tmp_path / "part")
    excerpt = Excerpt("+2s", f"{(begin + end) // 2}")
    collect(part, excerpt=excerpt)
    note = json.loads((part.tables / NOTE).read_text())
    first = min(
        frame["time_ns"].min()
        for frame in open_trace(RUN / "trace").read().values()
        if frame.height
    )
    assert note["excerpt"]["start_ns"] == first + 2_000_000_000
    assert note["excerpt"]["of"] == RUN.name
    (recording,) = find_recordings(tmp_path)
    assert recording.is_excerpt
    assert recording.manifest == Recording.at(RUN).manifest
    opened = rl.open(part.output)
    assert f"only part of {RUN.name}: from +2s" in repr(opened)
    # More was read for the excerpt, which is not reported.
    assert repr(opened).startswith("1 run in 1 cell\n")
    assert "recorded for" not in repr(opened)
    page = roslens(part.output, check=True).stdout
    assert re.search(r"2 nodes in 2 processes, \d+ topics?; the tracer reported no loss", page)
    whole_page = roslens(whole[RUN].output, check=True).stdout
    assert re.search(r"topics?, [\d,]+ events; the tracer reported no loss", whole_page)
    (run,) = opened.runs
    assert run.excerpt == note["excerpt"]["in_words"]
    loss = TracerLoss(run, 0, 0, 0)
    (entry,) = metrics_of([], [loss], [run.name]).recordings
    assert entry["excerpt"] == run.excerpt
    health = opened.health.filter(kind="excerpt").collect()
    assert health["severity"].to_list() == ["warning"]
    samples = pl.read_parquet(RUN / "resources.parquet")
    within = samples.filter(
        pl.col("time_ns").is_between(note["excerpt"]["start_ns"], note["excerpt"]["end_ns"])
    )
    assert opened.resources.collect().height == within.height > 0
    done = roslens("info", part.output, "--json", check=True)
    info = json.loads(done.stdout)
    assert info["excerpt"]["asked"]["start"] == "+2s"
    assert info["events"] == sum(note["events_by_name"].values())


def test_something_else_is_made_again(tmp_path: Path) -> None:
    part = Recording.at(RUN, tmp_path / "part")
    excerpt = Excerpt("+2s", "+3s")
    assert collect(part, excerpt=excerpt).rebuilt
    assert not collect(part, excerpt=excerpt).rebuilt
    assert collect(part, excerpt=replace(excerpt, end="+4s")).rebuilt
    assert collect(part).rebuilt, "all of it was asked for"
    assert excerpt_of(Recording.at(part.output)) is None
    with pytest.raises(UsageError, match="tables of a whole recording lie there"):
        collect(part, excerpt=excerpt)


def test_it_does_not_pass_for_the_recording(tmp_path: Path) -> None:
    run = uncollected(RUN, tmp_path / "run")
    with pytest.raises(UsageError, match="a folder of its own"):
        collect(Recording.at(run), excerpt=Excerpt("+2s"))
    collect(Recording.at(run, run / "part"), excerpt=Excerpt("+2s"))
    assert [recording.path for recording in find_recordings(tmp_path)] == [run]
    assert collect(Recording.at(run)).excerpt is None
    part = Recording.at(run / "part")
    assert not collect(part).rebuilt
    messages = part.tables / "messages.parquet"
    messages.write_bytes(messages.read_bytes()[:100])
    with pytest.raises(UsageError, match="it is damaged: run 'roslens collect' on 'run' again"):
        collect(part)


def test_within_limits(tmp_path: Path) -> None:
    """Another process collects, which is told what is wanted."""
    excerpt = Excerpt("+2s", "+3s", topics=("/*",))
    collect(Recording.at(RUN, tmp_path / "one"), excerpt=excerpt)
    limits = Limits(seconds=500)
    done = collect(Recording.at(RUN, tmp_path / "two"), excerpt=excerpt, limits=limits)
    assert done.excerpt == "from +2s to +3s, topic /*"
    for name in TABLES:
        plain, limited = (
            tmp_path / folder / "tables" / f"{name}.parquet" for folder in ("one", "two")
        )
        assert plain.read_bytes() == limited.read_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--topic", "/chattr"], "no topic is named '/chattr'; there are "),
        (["--node", "/nobody"], "no node is named '/nobody'; there are "),
        (["--start", "+4s", "--end", "+3s"], "--start +4s is after --end +3s"),
        (["--start", "+400s"], "nothing was recorded from +400s: the trace lasts"),
        (["--start", "soon"], "'soon' is no time"),
        (["--end", "+3s", "--margin", "much"], "--margin much: give a duration"),
        (["--topic", "/x", "--events-only"], "leave out --events-only"),
    ],
)
def test_wrong_use(tmp_path: Path, options: list[str], said: str) -> None:
    done = roslens("collect", RUN, "-o", tmp_path / "part", *options)
    assert done.returncode == 2
    assert done.stderr.count("roslens: error:") == 1
    assert said in done.stderr
    assert not list(tmp_path.iterdir())


def test_near_names() -> None:
    with pytest.raises(UsageError, match=r"did you mean /scan\? There are /map, /scan$"):
        matching("/scna", ["/map", "/scan"], "topic")


def test_the_share_of_a_callback_is_that_of_the_time_of_the_excerpt(
    whole: dict[Path, Recording], tmp_path: Path
) -> None:
    """By hand: the time its executions took in the second that was collected."""
    begin_ns = span(whole[RUN])[0] + 1_000_000_000
    end_ns = begin_ns + 1_000_000_000
    excerpt = Excerpt(start=str(begin_ns), end=str(end_ns), nodes=["/listener"])
    collect(Recording.at(RUN, tmp_path / "part"), excerpt=excerpt)
    ran = pl.read_parquet(whole[RUN].tables / "callback_instances.parquet").filter(
        pl.col("start_ns").is_between(begin_ns, end_ns), pl.col("node") == "/listener",
        pl.col("name") == "/data",
    )  # fmt: skip
    summary = rl.open(tmp_path / "part").callbacks.summary().filter(pl.col("name") == "/data")
    assert summary["busy"].to_list() == pytest.approx([ran["duration_ns"].sum() / 1e9])


def test_without_the_longest_wait_of_all_no_message_is_lost_in_a_history_of_one(
    tmp_path: Path,
) -> None:
    """By docs/model.md, rule 6, a longer wait elsewhere in the recording makes these replaced.

    That does not concern another host, nor histories of two, nor parts that are whole in time.
    """
    run = write_run(tmp_path / "run", latencies_ns=[None] * 4)
    path = run / "tables" / "messages.parquet"
    changed = pl.read_parquet(path).with_columns(
        subscription_id=pl.Series([0, 0, 0, 1]),
        publisher_host=pl.lit("h0"),
        subscription_host=pl.Series(["h0", "h0", "h1", "h0"]),
        outcome=pl.Series(["lost", "replaced", "lost", "lost"]),
        reason=pl.Series(["overtaken", "pushed_out", "overtaken", "overtaken"]),
    )
    ends = pl.DataFrame({"subscription_id": [0, 1], "host": "h0", "topic": "/data"})
    ends = ends.with_columns(queue_depth=pl.Series([1, 2]))
    frames = {"subscriptions": TABLES["subscriptions"].conform(ends), "messages": changed}
    for excerpt, first in ((Excerpt(start="+0s"), "unknown"), (Excerpt(topics=["*"]), "lost")):
        for name, table in TABLES.items():
            table.write(frames.get(name, table.empty()), path.with_name(f"{name}.parquet"))
        recording = Recording.at(run)
        cut(recording, recording, excerpt, (0, None))
        part = pl.read_parquet(path)
        assert part["outcome"].to_list() == [first, "replaced", "lost", "lost"]
        assert (part["reason"][0] == "depth_unknown") == (first == "unknown")
