"""``recorder.json`` of the suite storage-recorder: where messages were lost on their way."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from roslens.collectors.results.storage_runs import read_model
from roslens.recording.errors import UsageError

RECORDER_NAME = "recorder.json"


class RecorderFacts(BaseModel):
    """What became of the messages of one run.

    Attributes
    ----------
    message_bytes, rate_bytes_per_s
        Data of each message; of all publishers together, as asked for.
    cache_bytes
        What rosbag2's cache holds (of each of its two buffers).
    depth
        Of the queues of publishers and subscriptions, which are reliable.
    published, received, lost_in_cache, written
        Messages: published; that reached a subscription's callback; that rosbag2 says its cache
        dropped; read back from the file, each once, by `reader`.
    publishing_ns, late_ns
        How long the publishers took, and how far they were behind at most.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1]
    plugin_config: str
    message_bytes: int
    rate_bytes_per_s: int
    cache_bytes: int
    publishers: int
    depth: int
    published: int
    received: int
    lost_in_cache: int
    written: int
    publishing_ns: int
    late_ns: int
    bytes_on_disk: int
    reader: str
    rosbag2_version: str


def read_recorder(path: Path) -> RecorderFacts:
    """Read one run.

    Raises
    ------
    UsageError
        It is no such file, or its counts contradict each other.
    """
    facts = read_model(path, RecorderFacts)
    published, received, lost = facts.published, facts.received, facts.lost_in_cache
    if not published >= received >= lost >= 0 or facts.written != received - lost:
        raise UsageError(
            f"{path}: of {published} messages published {received} were received, {lost} lost in "
            f"the cache and {facts.written} written: these contradict each other; record it again"
        )
    if published == 0:
        raise UsageError(f"{path}: nothing was published; record the run again")
    return facts
