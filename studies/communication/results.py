"""Read results of rclcpp_performance, the tool of the study of rclcpp's communication (2019).

A run is a folder ``test_<intra|inter>_<shared|unique>_<P>ms_n<N>_s<S>_m<M>_l<L>`` (period, number
of publishers, of subscriptions and of each publisher's messages, bytes of a message) with a file
``publisher_<id>`` per publisher (message id, timestamp) and ``subscription_<id>`` per subscription
(publisher id, message id, timestamp): comma separated, no header, microseconds of the system
clock, taken just before publish() and at the entry of the callback. A message that was lost is
absent from the subscription's file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from roslens.recording.errors import UsageError

_NAME = re.compile(r"test_(intra|inter)_(shared|unique)_\d+ms_n\d+_s\d+_m\d+_l\d+")
_FILE = re.compile(r"(publisher|subscription)_(\d+)(?:\.csv)?")
_PUBLISHED = ("message_id", "publish_us")
_RECEIVED = ("publisher_id", "message_id", "callback_us")


@dataclass(frozen=True)
class StudyRun:
    """One run of the tool.

    Attributes
    ----------
    name
        Name of the run's folder.
    published
        ``publisher_id``, ``message_id``, ``publish_us``; all int64, in order of time.
    received
        ``subscription_id``, ``publisher_id``, ``message_id``, ``callback_us``.
    """

    name: str
    published: pl.DataFrame
    received: pl.DataFrame


def read_study(folder: Path) -> list[StudyRun]:
    """Read all runs in a folder, or the folder as one run, in order of name.

    Raises
    ------
    UsageError
        There is no run; a file is cut off, has text for a number, or names a message twice; or a
        subscription received a message that no publisher published.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: not a folder; give the one that holds test_<...>")
    paths = [folder] if _NAME.fullmatch(folder.resolve().name) else sorted(folder.iterdir())
    runs = [path for path in paths if path.is_dir() and _NAME.fullmatch(path.resolve().name)]
    if not runs:
        raise UsageError(f"{folder}: no folder named test_<intra|inter>_<shared|unique>_... in it")
    return [_run(path) for path in runs]


def _run(path: Path) -> StudyRun:
    tables: dict[str, list[pl.DataFrame]] = {"publisher": [], "subscription": []}
    for file in sorted(path.iterdir()):
        match = _FILE.fullmatch(file.name)
        if match is None:
            continue
        kind, number = match.group(1), int(match.group(2))
        columns = _PUBLISHED if kind == "publisher" else _RECEIVED
        frame = _read(file, columns)
        identity = pl.lit(number, dtype=pl.Int64).alias(f"{kind}_id")
        tables[kind].append(frame.select(identity, *columns))
    if not tables["publisher"]:
        raise UsageError(f"{path}: no file publisher_<id> in it")
    published = pl.concat(tables["publisher"]).sort("publish_us", "publisher_id", "message_id")
    nothing = pl.DataFrame(schema=dict.fromkeys(("subscription_id", *_RECEIVED), pl.Int64))
    received = pl.concat([nothing, *tables["subscription"]])
    unknown = received.join(published, on=["publisher_id", "message_id"], how="anti")
    if unknown.height:
        row = unknown.row(0, named=True)
        raise UsageError(
            f"{path}: subscription {row['subscription_id']} received message "
            f"{row['message_id']} of publisher {row['publisher_id']}, which did not publish it"
        )
    received = received.sort("callback_us", "subscription_id")
    return StudyRun(path.resolve().name, published, received)


def _read(file: Path, columns: tuple[str, ...]) -> pl.DataFrame:
    if file.stat().st_size == 0:
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))
    try:
        # Reading text first gives an error with its line for a broken number, instead of a null.
        texts = pl.read_csv(file.read_bytes(), has_header=False, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UsageError(f"{file}: cannot be read: {str(error).splitlines()[0]}") from error
    if texts.width != len(columns):
        raise UsageError(f"{file}: {texts.width} columns; expected {', '.join(columns)}")
    frame = texts.rename(dict(zip(texts.columns, columns, strict=True))).select(
        pl.col(name).str.strip_chars().cast(pl.Int64, strict=False) for name in columns
    )
    broken = frame.with_row_index("line", offset=1).filter(
        pl.any_horizontal(pl.col(name).is_null() for name in columns)
    )
    if broken.height:
        raise UsageError(f"{file}, line {broken['line'][0]}: expected {', '.join(columns)}")
    key = list(columns[:-1])
    if frame.select(key).is_duplicated().any():
        raise UsageError(f"{file}: a message is named twice")
    return frame
