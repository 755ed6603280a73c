"""Read bags of rosbag2: what was recorded of each message, from MCAP and SQLite files."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from roslens.collectors.database import open_database
from roslens.recording import UsageError
from roslens.recording.bags import bag_at
from roslens.recording.foreign import SECONDS, read_foreign

BAG_MESSAGES = pl.Schema(
    {
        "topic": pl.String,
        "type": pl.String,
        "size_bytes": pl.Int64,  # serialized
        # header.stamp, or stamp; null if the type does not begin with it, or if it is unset
        "stamp_ns": pl.Int64,
        "publish_ns": pl.Int64,  # source timestamp of the middleware; null if not stored
        "recorded_ns": pl.Int64,  # when the recorder received it
    }
)
"""Columns of a row per message; times are those of the system clocks of sender and recorder."""

_TABLES = ("messages", "topics", "message_definitions")
_ROWS_AT_ONCE = 100_000
_STAMP_BYTES = 12
_STAMP_OF_MSG = re.compile(
    r"(?:std_msgs/)?(?:msg/)?Header\s+\w+|builtin_interfaces/(?:msg/)?Time\s+stamp"
)
_CONSTANT_OF_MSG = re.compile(r"\S+\s+[A-Z]\w*\s*=.*")
_FIRST_OF_IDL = re.compile(r"struct\s+\w+\s*\{\s*([^;]*?)\s*;")
_STAMP_OF_IDL = re.compile(r"std_msgs::msg::Header\s+\w+|builtin_interfaces::msg::Time\s+stamp")
_ANNOTATION = re.compile(r'@\w+\s*\((?:"[^"]*"|[^")])*\)', re.DOTALL)


def find_bag(folder: Path) -> Path | None:
    """Return the bag in a recording's folder, or in a folder of it; None if there is none."""
    if not folder.is_dir():
        return None
    places = [folder, *sorted(child for child in folder.iterdir() if child.is_dir())]
    return next((place for place in places if bag_at(place) is not None), None)


def read_bag(path: Path) -> pl.DataFrame:
    """Read every message of a bag, as `BAG_MESSAGES`, in order of recording.

    Parameters
    ----------
    path
        A file, or the folder that rosbag2 made.

    Raises
    ------
    UsageError
        The path is no bag of rosbag2, is compressed by rosbag2 itself, cannot be read, or exceeds
        the limits of `roslens.recording.foreign`.
    """
    if path.suffix == ".mcap" or any(path.glob("*.mcap")):
        import mcap  # noqa: F401, PLC0415  (optional: fail here, not in another process)

    remedy = "is it cut off? 'ros2 bag reindex' or 'mcap recover' may help"
    rows: pl.DataFrame = read_foreign("roslens.collectors.bag:messages_of", path, "a bag", remedy)
    return rows.sort("recorded_ns")


def messages_of(path: Path) -> pl.DataFrame:
    """Do `read_bag` in the calling process; a damaged file may raise any exception."""
    parts = [pl.DataFrame(schema=BAG_MESSAGES)]
    for file in _files(path):
        rows = _mcap(file) if file.suffix == ".mcap" else _sqlite(file)
        while batch := list(islice(rows, _ROWS_AT_ONCE)):
            parts.append(pl.DataFrame(batch, schema=BAG_MESSAGES, orient="row"))
    return pl.concat(parts)


def _files(path: Path) -> list[Path]:
    kind = bag_at(path)
    if kind is None or "ROS 1" in kind:
        raise UsageError(f"{path}: {kind or 'no bag'}; give a bag of rosbag2 (.mcap, .db3)")
    if path.is_file():
        return [path]
    metadata, about = path / "metadata.yaml", {}
    if metadata.is_file():
        about = yaml.safe_load(metadata.read_bytes())["rosbag2_bagfile_information"]
    mode = about.get("compression_mode") or ""
    files = sorted(file for file in path.iterdir() if file.suffix in {".mcap", ".db3"})
    if mode.upper() in {"MESSAGE", "FILE"} or not files:
        raise UsageError(
            f"{path}: a bag without files that can be read as they are (compression of whole files "
            "or single messages by rosbag2); convert it with 'ros2 bag convert' first"
        )
    return files


def _mcap(file: Path) -> Iterator[tuple[Any, ...]]:
    from mcap.reader import make_reader  # noqa: PLC0415

    with file.open("rb") as stream:
        stamped: dict[int, bool] = {}
        for schema, channel, message in make_reader(stream).iter_messages(log_time_order=False):
            if channel.id not in stamped:
                stamped[channel.id] = (
                    channel.message_encoding == "cdr"
                    and schema is not None
                    and begins_with_stamp(schema.encoding, schema.data.decode(errors="replace"))
                )
            yield (
                *(channel.topic, None if schema is None else schema.name, len(message.data)),
                _stamp(message.data) if stamped[channel.id] else None,
                # Writers that know no publish time repeat the log time.
                message.publish_time if message.publish_time != message.log_time else None,
                message.log_time,
            )


def _sqlite(file: Path) -> Iterator[tuple[Any, ...]]:
    with open_database(file, _TABLES, SECONDS) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        definitions = (
            database.execute(
                "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
            ).fetchall()
            if "message_definitions" in tables
            else []
        )
        stamped = {name for name, *definition in definitions if begins_with_stamp(*definition)}
        rows = database.execute(
            "SELECT topics.name, topics.type, topics.serialization_format, timestamp, "
            "length(data), substr(data, 1, ?) "
            "FROM messages JOIN topics ON messages.topic_id = topics.id",
            (_STAMP_BYTES,),
        )
        for topic, kind, serialization, time_ns, size, head in rows:
            has_stamp = serialization == "cdr" and kind in stamped
            # The plugin keeps only the time of reception.
            yield (topic, kind, size, _stamp(head) if has_stamp else None, None, time_ns)


def begins_with_stamp(encoding: str, definition: str) -> bool:
    """Return whether a type begins with a header or a stamp, by its definition in the bag.

    Parameters
    ----------
    encoding
        ``ros2msg`` or ``ros2idl``; False for others.
    """
    if encoding == "ros2msg":
        lines = (line.partition("#")[0].strip() for line in definition.splitlines())
        first = next((line for line in lines if line and not _CONSTANT_OF_MSG.fullmatch(line)), "")
        return _STAMP_OF_MSG.fullmatch(first) is not None
    if encoding == "ros2idl":
        member = _FIRST_OF_IDL.search(_ANNOTATION.sub("", definition))
        return member is not None and _STAMP_OF_IDL.fullmatch(member[1]) is not None
    return False


def _stamp(data: bytes) -> int | None:
    """Return the stamp in ns of a message that begins with it, in CDR of either byte order."""
    if len(data) < _STAMP_BYTES or data[0] != 0 or data[1] > 1:
        return None
    seconds, nanoseconds = struct.unpack_from("<iI" if data[1] else ">iI", data, 4)
    return seconds * 1_000_000_000 + nanoseconds or None
