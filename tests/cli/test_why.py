"""Test ``roslens why`` as a user types it, on a real recording of a chain of nodes."""

import json

import polars as pl
import pytest
from command_line import Roslens
from tests.samples import SAMPLES

import roslens as rl

pytestmark = pytest.mark.recording

SAMPLE = SAMPLES / "chain.tar.zst"
NS = 1_000_000


def _of_own_topics() -> pl.DataFrame:
    topics = pl.col("topic").is_in(["/a", "/a2", "/b", "/c"])
    return rl.open(SAMPLE).messages.filter(topics, outcome="delivered").collect()


def test_late_messages_are_those_beyond_the_deadline(roslens: Roslens) -> None:
    """Late messages follow from the messages table, which knows no causes; shares add up to one."""
    ended = roslens("why", SAMPLE, "--deadline", "8ms", "--json")
    assert ended.returncode == 0
    answer = json.loads(ended.stdout)
    took = pl.col("callback_end_ns") - pl.col("publish_ns")
    late = _of_own_topics().filter(took > 8 * NS)
    pairs = {(row["message_id"], row["subscription_id"]) for row in answer["late"]}
    assert pairs == set(late.select("message_id", "subscription_id").iter_rows())
    assert len(pairs) > 50
    lateness = [row["late_by_ns"] for row in answer["late"]]
    assert lateness == sorted(lateness, reverse=True)
    assert sum(cause["value"] for cause in answer["causes"]) == pytest.approx(1)
    # The trace reader, which knows no messages, gives the time of the first event.
    begin = json.loads(roslens("info", SAMPLE, "--json").stdout)["begin_ns"]
    for row in answer["late"]:
        assert row["at_s"] == pytest.approx((row["publish_ns"] - begin) / NS / 1e3, abs=1e-6)


def test_what_is_printed_is_the_latest_message_and_its_cause(
    roslens: Roslens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")  # keeps each row on one line
    frame = rl.open(SAMPLE).why(topic="/a2")
    ended = roslens("why", SAMPLE, "--topic", "/a2")
    assert ended.returncode == 0
    text = " ".join(ended.stdout.split())
    # The messages table is cut to the first tenth of the time between its first and last message.
    begin, end = _of_own_topics().select(pl.min("publish_ns"), last=pl.max("publish_ns")).row(0)
    sent = _of_own_topics().filter(topic="/a2")["publish_ns"]
    start = (sent - begin < (end - begin) / 10).sum()
    assert text.startswith(f"{frame.height} of {600 - start} messages took longer")
    assert f"tenth of each run, 5 s at most, is left out as warm-up: {start} messages." in text
    late, number = frame["sentence"][0].partition(":")[0], frame["message_id"][0]
    first = next(line for line in ended.stdout.splitlines() if late in line)
    assert first.split()[0] == str(number)
    assert late in first
    single = roslens("why", SAMPLE, "--message", number)
    assert [line for line in single.stdout.splitlines() if late in line]


def test_of_what_is_left_out_as_warm_up_nothing_is_late(roslens: Roslens) -> None:
    run = rl.open(SAMPLE)
    begin = _of_own_topics()["publish_ns"].min()
    kept = (_of_own_topics().filter(topic="/a2")["publish_ns"] >= begin + 2_000 * NS).sum()
    whole, part = run.why("/a2", deadline="4ms"), run.why("/a2", deadline="4ms", warm_up=2)
    late = whole.filter(pl.col("publish_ns") >= begin + 2_000 * NS)
    assert 0 < late.height < whole.height
    assert part["message_id"].to_list() == late["message_id"].to_list()
    ended = roslens("why", SAMPLE, "--topic", "/a2", "--deadline", "4ms", "--warm-up", "2s")
    text = " ".join(ended.stdout.split())
    assert text.startswith(f"{late.height} of {kept} messages took longer")
    assert f"The first 2 s of each run is left out as warm-up: {600 - kept} messages." in text
    left_out = whole["message_id"][0]
    assert left_out not in part["message_id"]
    assert roslens("why", SAMPLE, "--message", left_out).returncode == 0
    part = ("why", SAMPLE, "--topic", "/a2", "--json", "--warm-up")
    answer = json.loads(roslens(*part, "2s").stdout)
    assert (answer["messages"], answer["left_out"]) == (kept, 600 - kept)
    nothing = roslens(*part, "100s")
    assert (nothing.returncode, nothing.stdout) == (3, "")
    assert "all 600 messages are left out as warm-up" in nothing.stderr


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("--topic", "/none", "no topic is named '/none'; there are "),
        ("--message", "99999999", "no message 99999999"),
        ("--deadline", "soon", "deadline soon: give a duration"),
        ("--deadline", "5", "deadline 5: give a duration with its unit, such as 2.5s, 300ms"),
        ("--warm-up", "long", "--warm-up long: give a duration"),
    ],
)
def test_what_is_not_there(roslens: Roslens, option: str, value: str, error: str) -> None:
    ended = roslens("why", SAMPLE, option, value)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert error in ended.stderr


def test_views_choose_among_messages_and_change_no_path() -> None:
    run = rl.open(SAMPLE)
    keys = ["message_id", "subscription_id", "segment"]
    part = run.view(topics="/a2").path()
    whole = run.path().join(part.select(keys), on=keys, how="semi", nulls_equal=True)
    assert part.height > 1000
    assert part.equals(whole)
