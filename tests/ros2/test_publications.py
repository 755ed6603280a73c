"""Test what a process could publish on, against the definition applied to every publisher."""

import random

import polars as pl
import pytest

from roslens.collectors.ros2.one_pass import single_topic_processes
from roslens.collectors.topics import DISCOVERY, INTERNAL, ROSOUT

TOPICS = ("/a", "/b", "/c", *INTERNAL, None)


def by_definition(publishers: pl.DataFrame) -> set[tuple[object, ...]]:
    """Apply the definition: at each publisher a process makes, all it has made until then."""
    rows = publishers.filter(~pl.col("topic").is_in([ROSOUT, DISCOVERY])).rows(named=True)
    guesses = set()
    for proc, since in {(row["proc"], row["created_ns"]) for row in rows}:
        so_far = [row for row in rows if row["proc"] == proc and row["created_ns"] <= since]
        so_far = [row for row in so_far if row["topic"] not in INTERNAL] or so_far
        topics = {row["topic"] for row in so_far}
        topic = topics.pop() if len(topics) == 1 else None
        guesses.add((proc, since, topic, so_far[0]["publisher_id"] if len(so_far) == 1 else None))
    return guesses


@pytest.mark.parametrize("seed", range(60))
def test_what_a_process_could_publish_on(seed):
    draw = random.Random(seed)
    topics = TOPICS[: draw.randint(1, len(TOPICS))] if seed % 2 else TOPICS[2:]
    rows = [
        (draw.randrange(3), number, draw.randrange(8), draw.choice(topics))
        for number in range(draw.randrange(25))
    ]
    schema = {
        "proc": pl.Int32(), "publisher_id": pl.Int64(), "created_ns": pl.Int64(),
        "topic": pl.String(),
    }  # fmt: skip
    publishers = pl.DataFrame(rows, schema, orient="row")
    guesses = single_topic_processes(publishers)
    assert set(guesses) == by_definition(publishers)
    assert len(guesses) == len(set(guesses))
