"""Test bags beside traces: read, joined by the time of publication, and what they report.

The public writer of MCAP writes the bags, or the test in the tables of rosbag2's SQLite plugin;
expected values are what was written.
"""

import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from mcap.writer import CompressionType, Writer
from tests.samples import RUN, uncollected

import roslens as rl
from roslens.analysis.latency.report import LatencyParameters, LatencyReport
from roslens.collectors.bag import BAG_MESSAGES, begins_with_stamp, read_bag
from roslens.recording import UsageError
from roslens.recording.foreign import read_foreign

IMU = "# Measured.\nuint8 A=1\nstd_msgs/Header header\nfloat64 x\n===\nMSG: std_msgs/Header\n"
TEXT = "string data\n"
BEGIN = 1_700_000_000_000_000_000


def cdr(stamp_ns: int, *, big: bool = False) -> bytes:
    """Serialize a header's stamp and four bytes more, as the middleware does."""
    order = ">" if big else "<"
    seconds, rest = divmod(stamp_ns, 1_000_000_000)
    return bytes((0, int(not big), 0, 0)) + struct.pack(f"{order}iII", seconds, rest, 0)


def write_mcap(path: Path, rows: list[tuple[str, str, bytes, int, int]]) -> None:
    """Write messages, each with topic, definition, data, and publication and recording times."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start("ros2")
        channels: dict[str, int] = {}
        for topic, definition, data, publish_ns, recorded_ns in rows:
            if topic not in channels:
                schema = writer.register_schema(
                    f"p/msg/{topic[1:]}", "ros2msg", definition.encode()
                )
                channels[topic] = writer.register_channel(topic, "cdr", schema)
            writer.add_message(channels[topic], recorded_ns, data, publish_ns)
        writer.finish()


def test_an_mcap_bag(tmp_path: Path) -> None:
    rows = [
        ("/imu", IMU, cdr(BEGIN), BEGIN + 5, BEGIN + 9),
        ("/imu", IMU, cdr(BEGIN + 1, big=True), BEGIN + 6, BEGIN + 10),
        # An unset stamp counts as none, and the recording time is no publication time.
        ("/imu", IMU, cdr(0), BEGIN + 11, BEGIN + 11),
        ("/text", TEXT, cdr(BEGIN), BEGIN + 7, BEGIN + 12),
    ]
    write_mcap(tmp_path / "bag_0.mcap", rows)
    messages = read_bag(tmp_path)
    assert messages.schema == BAG_MESSAGES
    assert messages.rows() == [
        ("/imu", "p/msg/imu", 16, BEGIN, BEGIN + 5, BEGIN + 9),
        ("/imu", "p/msg/imu", 16, BEGIN + 1, BEGIN + 6, BEGIN + 10),
        ("/imu", "p/msg/imu", 16, None, None, BEGIN + 11),
        ("/text", "p/msg/text", 16, None, BEGIN + 7, BEGIN + 12),
    ]


@pytest.mark.parametrize("with_definitions", [True, False])
def test_an_sqlite_bag(tmp_path: Path, *, with_definitions: bool) -> None:
    path = tmp_path / "a bag_0.db3"
    definitions = (
        "CREATE TABLE message_definitions(topic_type, encoding, encoded_message_definition);"
        f"INSERT INTO message_definitions VALUES ('p/msg/Imu', 'ros2msg', '{IMU}');"
    )
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            f"{SCHEMA} INSERT INTO topics VALUES (1, '/imu', 'p/msg/Imu', 'cdr');"
            f"INSERT INTO messages VALUES (1, 1, {BEGIN + 9}, x'{cdr(BEGIN).hex()}');"
            f"{definitions if with_definitions else ''}"
        )
    stamp = BEGIN if with_definitions else None
    assert read_bag(path).rows() == [("/imu", "p/msg/Imu", 16, stamp, None, BEGIN + 9)]


@pytest.mark.parametrize(
    ("encoding", "definition", "expected"),
    [
        ("ros2msg", IMU, True),
        ("ros2msg", "Header header # an old way\n", True),
        ("ros2msg", "float64 x\nstd_msgs/Header header\n", False),
        ("ros2msg", "std_msgs/Header[] headers\n", False),
        ("ros2msg", "byte INFO=20\nbuiltin_interfaces/Time stamp\nstring name\n", True),
        ("ros2msg", "builtin_interfaces/Time time\n", False),
        ("ros2msg", "string<=8 name\nbuiltin_interfaces/Time stamp\n", False),
        ("ros2msg", "", False),
        (
            "ros2idl",
            'struct I {\n@verbatim (language="comment", text="a (b) c")\nstd_msgs::msg::Header h;',
            True,
        ),
        ("ros2idl", "struct Log { builtin_interfaces::msg::Time stamp; uint8 level; };", True),
        ("ros2idl", "struct A { sequence<uint8> a; builtin_interfaces::msg::Time stamp; };", False),
        ("ros2idl", "struct Imu { double x; std_msgs::msg::Header header; };", False),
        ("protobuf", IMU, False),
    ],
)
def test_whether_a_type_begins_with_a_stamp(
    encoding: str, definition: str, *, expected: bool
) -> None:
    assert begins_with_stamp(encoding, definition) is expected


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    whole = tmp_path / "whole.mcap"
    write_mcap(whole, [("/imu", IMU, cdr(BEGIN), BEGIN, BEGIN)])
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(whole.read_bytes()[:60])
    with pytest.raises(UsageError, match=r"cut\.mcap: cannot be read as a bag: .*cut off"):
        read_bag(cut)
    with pytest.raises(UsageError, match="nothing: no bag"):
        read_bag(tmp_path / "nothing")
    broken = tmp_path / "broken.db3"
    broken.write_bytes(b"SQLite format 3\0" + bytes(100))
    with pytest.raises(UsageError, match=r"broken\.db3: cannot be read"):
        read_bag(broken)
    folder = tmp_path / "compressed"
    folder.mkdir()
    shutil.copy(whole, folder)
    (folder / "metadata.yaml").write_text(
        "rosbag2_bagfile_information:\n  version: 9\n  compression_mode: MESSAGE\n"
    )
    with pytest.raises(UsageError, match="ros2 bag convert"):
        read_bag(folder)


SCHEMA = (
    "CREATE TABLE topics(id INTEGER, name TEXT, type TEXT, serialization_format TEXT);"
    "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp, data);"
)
"""Tables as rosbag2 makes them, without what SQLite would check."""
TOPIC = "INSERT INTO topics VALUES (1, 't', 'p', 'cdr');"

ENDLESS = (
    "DROP TABLE messages; CREATE VIEW messages AS WITH RECURSIVE x(topic_id, timestamp, data) AS "
    "(VALUES (1, 1, 'a') UNION ALL SELECT topic_id, timestamp + 1, data FROM x) SELECT * FROM x"
)
# 10^10 rows of a join, by topics of one number.
JOINED = (
    "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
    "INSERT INTO topics SELECT 1, 't', 'p', 'cdr' FROM n;"
    "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
    "INSERT INTO messages SELECT i, 1, i, x'00' FROM n"
)


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (ENDLESS, "messages is a view"),
        (
            TOPIC + "INSERT INTO messages VALUES (1, 1, 'yesterday', x'00')",
            "cannot be read as a bag",
        ),
        ("DROP TABLE topics", "no such table"),
        (JOINED, "takes more than (2 s of CPU|64 MiB)"),
    ],
    ids=("endless view", "text for a time", "no topics", "a join of 10^10 rows"),
)
def test_a_hostile_database_is_one_sentence(statements: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "bag.db3"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMA + statements)
    with pytest.raises(UsageError, match=rf"bag\.db3: .*{why}"):
        read_foreign(
            "roslens.collectors.bag:messages_of", path, "a bag", "", seconds=2, memory_bytes=1 << 26
        )


def test_a_message_without_data_has_no_size(tmp_path: Path) -> None:
    path = tmp_path / "bag.db3"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMA + TOPIC + "INSERT INTO messages VALUES (1, 1, 5, NULL)")
    assert read_bag(path).rows() == [("t", "p", None, None, None, 5)]


def test_a_chunk_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    """One chunk of a file with an index holds 1.5 GB of zeros in less than 1 MiB."""
    path = tmp_path / "bomb.mcap"
    with path.open("wb") as stream:
        writer = Writer(stream, compression=CompressionType.ZSTD, chunk_size=1 << 40)
        writer.start(profile="ros2")
        schema = writer.register_schema("p/msg/T", "ros2msg", b"")
        channel = writer.register_channel("/t", "cdr", schema)
        zeros = bytes(1 << 28)
        for time_ns in range(6):
            writer.add_message(channel, time_ns, zeros, time_ns)
        writer.finish()
    assert path.stat().st_size < 1 << 20
    with pytest.raises(UsageError, match=r"bomb\.mcap: .*more than 1024 MiB"):
        read_bag(path)


@pytest.mark.recording
def test_a_bag_beside_a_trace(tmp_path: Path) -> None:
    """A recorder gets the sample's own messages, except every tenth."""
    place = uncollected(RUN, tmp_path / "run")
    opened = rl.open(place)
    assert opened.bags() == {}
    with pytest.raises(UsageError, match="no bag lies there"):
        opened.bag()
    messages = opened.messages.collect().filter(pl.col("outcome") == "delivered")
    messages = messages.filter(topic=messages["topic"].mode()[0]).sort("source_timestamp_ns")
    topic, age_ns = messages["topic"][0], 5_000_000
    kept = messages.filter(pl.int_range(pl.len()) % 10 != 5)
    times = kept["source_timestamp_ns"].to_list()
    rows = [(topic, IMU, cdr(time - age_ns), time, time + 100_000) for time in times]
    write_mcap(place / "bag" / "bag_0.mcap", rows)
    bag = opened.bag()
    # The age runs from the publication, when the data were that old, to the callback.
    expected = (kept["callback_start_ns"] - kept["rmw_publish_ns"] + age_ns).to_list()
    assert bag.messages.sort("publish_ns")["age_ns"].to_list() == expected
    between = messages["source_timestamp_ns"].is_between(times[0], times[-1])
    missed = messages.filter(between).height - len(times)
    assert missed > 1
    assert bag.topics.select("topic", "messages", "bytes", "known", "missed").rows() == [
        (topic, len(times), 16 * len(times), len(times) + missed, missed)
    ]
    line = f"its recorder missed {missed:,} of {len(times) + missed:,}"
    assert line in str(bag)
    assert str(opened.bag(place / "bag" / "bag_0.mcap")).partition(": ")[2] in str(bag)
    for given, name in (("", "bag"), (str(place / "bag" / "bag_0.mcap"), "bag_0.mcap")):
        parameters = LatencyParameters.checked({"recordings": [str(place)], "bag": given})
        sentence = str(LatencyReport(opened, parameters).loss())
        assert f"{opened.runs[0].name}: bag {name}: {len(times):,} messages" in sentence
    (place / "bag" / "bag_0.mcap").write_bytes(b"\x89MCAP0\r\n" + bytes(100))
    (damaged,) = opened.bags().values()
    assert isinstance(damaged, UsageError)
    assert "cannot be read as a bag" in str(damaged)


@pytest.mark.recording
def test_a_bag_of_what_the_trace_does_not_know(tmp_path: Path) -> None:
    write_mcap(tmp_path / "a.mcap", [("/imu", IMU, cdr(BEGIN), BEGIN + 5, BEGIN + 9)])
    bag = rl.open(RUN).bag(tmp_path / "a.mcap")
    assert bag.messages.select("callback_start_ns", "age_ns").rows() == [(None, None)]
    assert bag.topics.select("known", "missed").rows() == [(None, None)]
    assert str(bag) == (
        "bag a.mcap: 1 message of 1 topic; none of them is known to the trace by its time of "
        "publication."
    )
