"""Recognise bags, to tell users by name that they gave one instead of a trace."""

from __future__ import annotations

from pathlib import Path

from roslens.recording.errors import UsageError

_MAGIC = {
    b"\x89MCAP0\r\n": "an MCAP bag",
    b"SQLite format 3\0": "a rosbag2 bag (SQLite)",
    b"#ROSBAG V": "a ROS 1 bag",
}
_SUFFIXES = (".mcap", ".db3", ".bag")
_METADATA, _KEY = "metadata.yaml", b"rosbag2_bagfile_information"


def bag_at(path: Path) -> str | None:
    """Return the kind of bag that a file or folder is, by its content; None if it is no bag.

    A folder is a bag if it contains rosbag2's ``metadata.yaml`` or a bag's file.
    """
    if path.is_dir():
        if (path / _METADATA).is_file() and _KEY in _begin_of(path / _METADATA):
            return "a rosbag2 bag"
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        return next((kind for file in files if (kind := bag_at(file))), None)
    if not path.is_file():
        return None
    begin = _begin_of(path)
    return next((kind for magic, kind in _MAGIC.items() if begin.startswith(magic)), None)


def refuse_bag(path: Path) -> None:
    """Raise an error if the path is a bag instead of a trace.

    Raises
    ------
    UsageError
        The path is a bag; the error names its kind and what to give instead.
    """
    bag = bag_at(path)
    if bag is not None:
        raise UsageError(
            f"{path}: {bag}, not a trace: it holds messages, not what happened to them; record a "
            "trace with 'roslens record' or 'ros2 trace' beside 'ros2 bag record', and give that"
        )


def _begin_of(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(4096)
    except OSError:
        return b""
