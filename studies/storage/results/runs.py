"""Read the files that a run of a storage suite left in ``native/``.

``recorder.json`` of the suite storage-recorder shows where messages were lost on their way,
``recovery.csv`` of the suite storage-resilience those recovered after a crash or power loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import polars as pl
from pydantic import BaseModel, ValidationError

from roslens.collectors.results.tool_result import read_rows
from roslens.recording.errors import UsageError
from roslens.recording.files import text_path
from roslens.recording.models import Frozen
from roslens.recording.text import first_problem
from roslens.studies.storage.results.comparison import Batches, read_batches

Model = TypeVar("Model", bound=BaseModel)

FACTS_NAME, WRITES_NAME, VERIFICATION_NAME = "run.json", "writes.csv", "verification.json"
ALLOCATIONS_NAME = "allocations.csv"
_ALLOCATIONS = pl.Schema({"sqc": pl.Int64, "allocations": pl.Int64, "allocated_bytes": pl.Int64})


class Facts(Frozen):
    """Contents of ``run.json``: the data written, the settings, and the cost.

    Times are in ns, sizes in bytes; `cpu_ns` is CPU time of all threads from before the first write
    call until after the close. `compression` is set where rosbag2's writer compressed, the fields
    from `rate_bytes_per_s` on where messages came at a rate.
    """

    schema_version: Literal[1]
    plugin_config: str
    messages: str
    batch_bytes: int
    bytes: int
    message_count: int
    write_calls: int
    open_ns: int
    close_ns: int
    cpu_ns: int
    rss_before_bytes: int | None
    rss_peak_bytes: int | None
    bytes_on_disk: int
    crc32: int
    content_bytes: int
    seed: int
    file_system: str
    tracepoints: bool
    sqlite_version: str
    mcap_version: str
    rosbag2_version: str
    compression: str | None = None
    rate_bytes_per_s: int | None = None
    queue_bytes: int | None = None
    produced: int | None = None
    produced_bytes: int | None = None
    dropped: int | None = None
    dropped_bytes: int | None = None
    longest_queue_bytes: int | None = None
    producing_ns: int | None = None
    producer_late_ns: int | None = None


class Verification(Frozen):
    """Contents of ``verification.json``: an independent reader's counts, equal to those written."""

    reader: str
    messages: int
    bytes: int
    crc32: int


@dataclass(frozen=True)
class StorageRun:
    """One run of the storage benchmark.

    Attributes
    ----------
    facts
        Contents of ``run.json``.
    batches
        Times of each write call and of the close.
    verification
        Results of reading back; None in older recordings, which were not read back.
    allocations
        `allocations` and `allocated_bytes` of each write call, then those of the close; None where
        they were not counted. Counting slows the timed calls.
    """

    facts: Facts
    batches: Batches
    verification: Verification | None = None
    allocations: pl.DataFrame | None = None


def is_storage_run(folder: Path) -> bool:
    """Return whether a recording's ``native/`` comes from the storage benchmark."""
    return (folder / FACTS_NAME).is_file() and (folder / WRITES_NAME).is_file()


def read_storage_run(folder: Path) -> StorageRun:
    """Read one run of the storage benchmark.

    Parameters
    ----------
    folder
        The recording's ``native/``.

    Raises
    ------
    UsageError
        A file is missing or malformed, or the two contradict each other.
    """
    facts = read_model(folder / FACTS_NAME, Facts)
    batches = read_batches(folder / WRITES_NAME)
    calls = batches.calls
    written = (calls.height, int(calls["num_bytes"].sum()), int(calls["num_msgs"].sum()))
    stated = (facts.write_calls, facts.bytes, facts.message_count)
    if written != stated or batches.close_ns != facts.close_ns:
        raise UsageError(
            f"{folder}: {WRITES_NAME} and {FACTS_NAME} contradict each other (calls, bytes, "
            f"messages: {written} and {stated}); record the run again"
        )
    verified = folder / VERIFICATION_NAME
    verification = read_model(verified, Verification) if verified.is_file() else None
    counted = folder / ALLOCATIONS_NAME
    allocations = _allocations(counted, facts.write_calls) if counted.is_file() else None
    return StorageRun(facts, batches, verification, allocations)


def _allocations(path: Path, calls: int) -> pl.DataFrame:
    frame = read_rows(path, _ALLOCATIONS, optional=("sqc",))
    if frame["sqc"].to_list() != [*range(calls), None]:
        raise UsageError(f"{path}: not a row for each of {calls} write calls and one for the close")
    return frame.drop("sqc")


def write_calls(events: Path) -> pl.DataFrame | None:
    """Return the write calls in the tracepoints' events; None where there are no events.

    Parameters
    ----------
    events
        The recording's folder of raw events.

    Returns
    -------
    `call` (number), `begin_ns`, `end_ns`: one row per call with both ends, in order.
    """
    begin, end = (events / "roslens_storage" / f"write_{edge}.parquet" for edge in ("begin", "end"))
    if not begin.is_file() or not end.is_file():
        return None
    frames = [
        pl.read_parquet(text_path(path), columns=["call", "time_ns"], glob=False).with_columns(
            pl.col("call").cast(pl.Int64)
        )
        for path in (begin, end)
    ]
    return (
        frames[0]
        .rename({"time_ns": "begin_ns"})
        .join(frames[1].rename({"time_ns": "end_ns"}), on="call")
        .sort("call")
    )


def read_model(path: Path, model: type[Model]) -> Model:
    """Read a JSON file and validate it.

    Raises
    ------
    UsageError
        The file cannot be read, or does not fit the model.
    """
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        where, problem = first_problem(error)
        raise UsageError(f"{path}: {where or 'it'}: {problem}") from error


RECORDER_NAME = "recorder.json"


class RecorderFacts(Frozen):
    """Counts of the messages of one run of the suite storage-recorder.

    Attributes
    ----------
    message_bytes, rate_bytes_per_s
        Data of each message; rate of all publishers together, as requested.
    cache_bytes
        Capacity of rosbag2's cache (of each of its two buffers).
    depth
        Depth of the queues of publishers and subscriptions, which are reliable.
    published, received, lost_in_cache, written
        Numbers of messages: published; that reached a subscription's callback; that the cache
        dropped, as rosbag2 counts them; read back from the file, each once, by `reader`.
    publishing_ns, late_ns
        How long the publishers took, and how far they were behind at most.
    """

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
    """Read ``recorder.json`` of one run.

    Raises
    ------
    UsageError
        The file is not of this kind, or its counts contradict each other.
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


RECOVERY_NAME = "recovery.csv"
SCHEMA = pl.Schema(
    {
        "trial": pl.Int64,
        "failure": pl.String,
        "acknowledged": pl.Int64,
        "recovered": pl.Int64,
        "wrong": pl.Int64,
        "whole": pl.Int64,
        "recovered_with_tool": pl.Int64,
        "tool": pl.String,
    }
)


def read_recovery(path: Path) -> pl.DataFrame:
    """Read one ``recovery.csv``: `SCHEMA`, a row per trial; counts are numbers of messages.

    `acknowledged` counts messages written as far as the writer knew; `recovered` those that a
    plain reader returned with the written content, `wrong` those with other content; `whole` is 1
    where that reader ended without complaint; `recovered_with_tool` is by the best tool there is.

    Raises
    ------
    UsageError
        The file is not of this kind, or is cut off.
    """
    frame = read_rows(path, SCHEMA)
    if frame.is_empty():
        raise UsageError(f"{path}: without a trial; record the run again")
    if frame.filter(pl.col("acknowledged") <= 0).height:
        raise UsageError(f"{path}: a trial without an acknowledged message")
    return frame
