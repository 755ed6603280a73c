"""Test Perfetto traces, decoded with Perfetto's own protobuf classes, against the tables."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
from ros2_trace import Trace, at
from test_messages import CALLBACK, NODE, PUB, SUB, one_delivered, talker_and_listener
from test_services import CLIENT, client_and_servers, serve
from tests.samples import SAMPLES

from roslens.analysis.interop.perfetto import write_perfetto
from roslens.collectors.decoding import read_raw
from roslens.collectors.ros2 import build_tables
from roslens.recording import Recording, UsageError

EVENT = pb.TrackEvent


class Decoded:
    """A file as a viewer sees it: slices by stack per track, moments, counters, flows.

    Slices and moments of messages and of executors are kept separately, with their arguments.
    """

    def __init__(self, path: Path) -> None:  # noqa: PLR0915  (one format, read once)
        trace = pb.Trace()
        trace.ParseFromString(path.read_bytes())
        names: dict[int, str] = {}
        categories: dict[int, str] = {}
        arguments: dict[int, str] = {}
        texts: dict[int, str] = {}
        self.messages: list[tuple[int, int | None, dict[str, Any]]] = []
        self.states: list[tuple[str, int, int]] = []
        self.told: list[dict[str, Any]] = []
        self.tracks: dict[int, Any] = {}
        self.slices: list[tuple[str, str, int, int, tuple[int, ...]]] = []
        self.moments: list[tuple[str, str, int, tuple[int, ...]]] = []
        self.counters: list[tuple[str, int, float]] = []
        open_slices: dict[int, list[Any]] = defaultdict(list)
        last = 0
        for packet in trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            names |= {n.iid: n.name for n in packet.interned_data.event_names}
            categories |= {n.iid: n.name for n in packet.interned_data.event_categories}
            arguments |= {n.iid: n.name for n in packet.interned_data.debug_annotation_names}
            strings = packet.interned_data.debug_annotation_string_values
            texts |= {text.iid: text.str.decode() for text in strings}
            if packet.HasField("track_descriptor"):
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if not packet.HasField("track_event"):
                continue
            event = packet.track_event
            assert packet.timestamp >= last
            last = packet.timestamp
            track = self.tracks[event.track_uuid].name
            flows = tuple(event.flow_ids)
            category = "".join(categories[iid] for iid in event.category_iids)
            annotations = {
                arguments[a.name_iid]: value_of(a, texts) for a in event.debug_annotations
            }
            if event.type == EVENT.TYPE_SLICE_BEGIN:
                began = (names[event.name_iid], last, flows, category, annotations)
                open_slices[event.track_uuid].append(began)
            elif event.type == EVENT.TYPE_SLICE_END:
                name, begin, flows, category, annotations = open_slices[event.track_uuid].pop()
                if category == "message":
                    self.messages.append((begin, last, annotations))
                elif category == "executor":
                    self.states.append((name, begin, last))
                else:
                    self.slices.append((track, name, begin, last, flows))
                    self.told.append({"category": category, **annotations})
            elif event.type == EVENT.TYPE_INSTANT and category == "message":
                self.messages.append((last, None, annotations))
            elif event.type == EVENT.TYPE_INSTANT:
                self.moments.append((track, names[event.name_iid], last, flows))
            else:
                self.counters.append((track, last, event.double_counter_value))
        assert not any(open_slices.values())
        self.slices.sort(key=lambda slice_: (slice_[2], -slice_[3]))


def value_of(argument: Any, texts: dict[int, str]) -> Any:
    if argument.HasField("string_value_iid"):
        return texts[argument.string_value_iid]
    return getattr(argument, argument.WhichOneof("value"))


def decoded(tables: dict[str, pl.DataFrame], path: Path) -> Decoded:
    write_perfetto(tables, path)
    return Decoded(path)


def test_a_message_and_its_flow(tmp_path: Path) -> None:
    viewed = decoded(one_delivered().tables(), tmp_path / "t")
    assert viewed.slices == [
        ("/talker [1]", "publish /data", at(100), at(102), (1,)),
        ("/listener [2]", "subscription /data", at(153), at(158), (1,)),
    ]
    node = next(t for t in viewed.tracks.values() if t.name == "/listener [2]")
    thread = viewed.tracks[node.parent_uuid].thread
    assert (thread.pid, thread.tid) == (2, 2)
    process = viewed.tracks[viewed.tracks[node.parent_uuid].parent_uuid].process
    assert (process.pid, process.process_name) == (2, "p2 (h0)")


def test_where_the_time_of_a_late_message_went(tmp_path: Path) -> None:
    """The segments lie within its slice, which ends when the callback starts, at 153."""
    tables = one_delivered().tables()
    ids = tables["messages"].select("message_id", "subscription_id").row(0, named=True)
    parts = [("transport", 100, 130, None), ("executor", 130, 160, "a timer"),
             ("running", 160, 170, None)]  # fmt: skip
    late = pl.DataFrame([
        {**ids, "kind": kind, "begin_ns": at(begin), "end_ns": at(end), "who": who, "why": "Late."}
        for kind, begin, end, who in parts
    ])  # fmt: skip
    viewed = decoded({**tables, "late": late}, tmp_path / "t")
    why = {"category": "why", "why": "Late."}
    slices = [piece for piece in viewed.slices if piece[1] in {name for name, *_ in parts}]
    assert slices == [
        ("messages /data", "transport", at(100), at(130), ()),
        ("messages /data", "executor", at(130), at(153), ()),
    ]
    assert [arguments for arguments in viewed.told if arguments["category"] == "why"] == [
        why,
        {**why, "who": "a timer"},
    ]
    ((begin, end, _),) = viewed.messages
    assert (begin, end) == (at(100), at(153))


def test_messages_and_callbacks_have_arguments(tmp_path: Path) -> None:
    """One message waits behind another, and one is lost; all three overlap."""
    trace = talker_and_listener()
    for us in (100, 110, 120):
        trace.publish(us, PUB)
    trace.receive(150, SUB, CALLBACK, stamp=at(102), pid=2)
    trace.receive(160, SUB, CALLBACK, stamp=at(122), pid=2)
    viewed = decoded(trace.tables(), tmp_path / "t")
    route = {"topic": "/data", "publisher_node": "/talker", "subscription_node": "/listener"}
    ends = {message["message_id"]: (begin, end) for begin, end, message in viewed.messages}
    assert sorted(ends.values(), key=str) == sorted(
        [(at(100), at(153)), (at(110), None), (at(120), at(163))], key=str
    )
    for begin, end, message in viewed.messages:
        assert message.items() >= route.items()
        assert message.get("latency_us") == (None if end is None else (end - begin) / 1e3)
        assert message["outcome"] == ("delivered" if end else "lost")
    callbacks = [callback for callback in viewed.told if callback["category"] == "callback"]
    assert [callback["latency_us"] for callback in callbacks] == [53.0, 43.0]
    assert {callback["node"] for callback in callbacks} == {"/listener"}


def test_states_of_executors(tmp_path: Path) -> None:
    trace = talker_and_listener()
    trace.emit(100, "rclcpp_executor_wait_for_work", timeout=-1, pid=2)
    trace.emit(150, "rclcpp_executor_get_next_ready", pid=2)
    trace.emit(180, "rclcpp_executor_wait_for_work", timeout=-1, pid=2)
    viewed = decoded(trace.tables(), tmp_path / "t")
    assert ("wait", at(100), at(150)) in viewed.states
    assert ("busy", at(150), at(180)) in viewed.states


def test_one_publication_for_two_and_one_for_nobody(tmp_path: Path) -> None:
    trace = talker_and_listener()
    trace.node(12, NODE + 16, "other", pid=3)
    trace.subscription(30, SUB, "/data", node=NODE + 16, callback=CALLBACK, pid=3)
    for us in (100, 300):
        trace.publish(us, PUB)
    for pid in (2, 3):
        trace.receive(150 + pid, SUB, CALLBACK, stamp=at(102), pid=pid)
    viewed = decoded(trace.tables(), tmp_path / "t")
    first, second = (s for s in viewed.slices if s[1] == "publish /data")
    received = [s[4] for s in viewed.slices if s[1] == "subscription /data"]
    assert sorted(flow for (flow,) in received) == sorted(first[4])
    assert len(set(first[4])) == 2
    assert second[4] == ()


def test_a_service_call(tmp_path: Path) -> None:
    trace = client_and_servers(2)
    trace.send_request(100, CLIENT, 1)
    serve(trace, 110, 1, pid=2)
    trace.take_response(140, CLIENT, 1, stamp=119)
    viewed = decoded(trace.tables(), tmp_path / "t")
    assert viewed.slices == [("/server2 [2]", "service /add", at(111), at(120), (2,))]
    assert viewed.moments == [
        ("/client [services]", "request /add", at(100), (2,)),
        ("/client [services]", "response /add", at(140), (2,)),
    ]


def test_nested_and_unfinished_callbacks(tmp_path: Path) -> None:
    """Two nested callbacks end together; one has no length; one never ends."""
    trace = talker_and_listener()
    trace.run(100, CALLBACK, lasts=50, pid=2)
    trace.run(120, CALLBACK + 8, lasts=30, pid=2)
    trace.run(160, CALLBACK, lasts=0, pid=2)
    trace.run(200, CALLBACK, lasts=None, pid=2)
    viewed = decoded(trace.tables(), tmp_path / "t")
    assert [(s[2], s[3]) for s in viewed.slices] == [
        (at(100), at(150)),
        (at(120), at(150)),
        (at(160), at(160)),
    ]
    assert [(m[1], m[2]) for m in viewed.moments] == [("subscription /data", at(200))]


def scheduled(path: Path) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], list[str]]:
    """Return switches (CPU, time, state before, thread, priority) and wake-ups, with their names.

    By Perfetto's own classes: times are distances, names are places in each packet's own table.
    """
    trace = pb.Trace()
    trace.ParseFromString(path.read_bytes())
    switches, wakes, names = [], [], []
    for packet in trace.packet:
        if not packet.HasField("ftrace_events"):
            continue
        cpu, sched = packet.ftrace_events.cpu, packet.ftrace_events.compact_sched
        table = sched.intern_table
        now = 0
        for values in zip(
            sched.switch_timestamp, sched.switch_prev_state, sched.switch_next_pid,
            sched.switch_next_prio, sched.switch_next_comm_index, strict=True,
        ):  # fmt: skip
            now += values[0]
            switches.append((cpu, now, *values[1:4]))
            names.append(table[values[4]])
        now = 0
        for values in zip(
            sched.waking_timestamp, sched.waking_pid, sched.waking_target_cpu, sched.waking_prio,
            sched.waking_comm_index, sched.waking_common_flags, strict=True,
        ):  # fmt: skip
            now += values[0]
            wakes.append((cpu, now, *values[1:4], values[5]))
            names.append(table[values[4]])
    return switches, wakes, names


@pytest.mark.parametrize("bundle", [2, 100])
def test_who_had_each_cpu_and_who_woke_whom(tmp_path: Path, monkeypatch, bundle: int) -> None:
    """Long waits, large numbers and a negative priority (a deadline task's) are kept."""
    monkeypatch.setattr("roslens.analysis.interop.perfetto._BUNDLE", bundle)
    switches = [
        (0, at(100), 0, 71, 120, "dds.ev"), (0, at(101), 1, 0, 120, "swapper/0"),
        (0, at(90_000_000), 256, 4_194_303, -1, "deadline"),
        (0, at(90_000_001), 1, 71, 120, "dds.ev"),
        (3, at(50), 2, 71, 98, "dds.ev"),
    ]  # fmt: skip
    wakes = [(0, at(99), 71, 0, 120, 16, "dds.ev"), (3, at(200), 5, 127, 130, 0, "other")]

    def frame(rows: list[tuple[Any, ...]], *names: str) -> pl.DataFrame:
        events = pl.DataFrame(rows, schema=["cpu_id", "time_ns", *names], orient="row")
        # They come in any order, as those of several CPUs do.
        return events.with_columns(host=pl.lit("h0")).reverse()

    tables: dict[str, pl.DataFrame] = {
        **talker_and_listener().tables(),
        "sched_switch": frame(switches, "prev_state", "next_tid", "next_prio", "next_comm"),
        "sched_waking": frame(wakes, "tid", "target_cpu", "prio", "ctx_flags", "comm"),
    }
    write_perfetto(tables, tmp_path / "t")
    switched, woken, names = scheduled(tmp_path / "t")
    assert sorted(switched) == sorted(row[:5] for row in switches)
    assert sorted(woken) == sorted(row[:6] for row in wakes)
    assert sorted(names) == sorted(row[-1] for row in (*switches, *wakes))
    unwoken = {name: rows for name, rows in tables.items() if name != "sched_waking"}
    write_perfetto(unwoken, tmp_path / "t")
    assert sorted(scheduled(tmp_path / "t")[0]) == sorted(switched)
    two_hosts = pl.concat(
        [tables["sched_switch"], tables["sched_switch"].with_columns(host=pl.lit("h1"))]
    )
    write_perfetto({**tables, "sched_switch": two_hosts}, tmp_path / "t")
    assert scheduled(tmp_path / "t") == ([], [], [])


def test_counters(tmp_path: Path) -> None:
    """Half a core is used between two samples one second apart; 3 MiB are resident."""
    resources = pl.DataFrame(
        {
            "time_ns": [at(0), at(1_000_000)],
            "host": ["h0", "h0"],
            "vpid": [7, 7],
            "process": ["p7", "p7"],
            "cpu_time_ns": [0, 500_000_000],
            "rss_bytes": [3 * 2**20] * 2,
            "pss_bytes": [None, 2**20],
            "heap_bytes": [None, None],
        },
        schema_overrides={"pss_bytes": pl.Int64, "heap_bytes": pl.Int64},
    )
    viewed = decoded({**Trace().tables(), "resources": resources}, tmp_path / "t")
    assert sorted(viewed.counters) == [
        ("CPU [cores]", at(1_000_000), 0.5),
        ("PSS [MiB]", at(1_000_000), 1.0),
        ("RSS [MiB]", at(0), 3.0),
        ("RSS [MiB]", at(1_000_000), 3.0),
    ]


def test_the_heap_as_the_allocator_tells(tmp_path: Path) -> None:
    """1 MiB is live at first; after 150 ms 3 MiB come and the 1 MiB goes, in one 100 ms step."""
    trace = Trace()
    for us, size, block in ((10, 1, 0x10), (150_000, 3, 0x20)):
        trace.emit(us, "lttng_ust_libc:malloc", size=size * 2**20, ptr=block, pid=7)
    trace.emit(160_000, "lttng_ust_libc:free", ptr=0x10, pid=7)
    viewed = decoded(trace.tables(), tmp_path / "t")
    name = "traced heap [MiB]"
    assert sorted(viewed.counters) == [(name, at(10), 1.0), (name, at(160_000), 3.0)]
    track = next(t for t in viewed.tracks.values() if t.name == name)
    assert viewed.tracks[track.parent_uuid].process.pid == 7


Sample = tuple[int, int, int, str]


def stacks_in(path: Path) -> list[Sample]:
    """Return samples (time, process, thread, functions) by Perfetto's classes.

    Functions are as in ``cpu_samples``. Stacks with missing parts are left out, as by Perfetto's
    trace processor.
    """
    trace = pb.Trace()
    trace.ParseFromString(path.read_bytes())
    data = pb.InternedData()
    for packet in trace.packet:
        data.MergeFrom(packet.interned_data)
    names = {function.iid: function.str.decode() for function in data.function_names}
    mappings = {mapping.iid for mapping in data.mappings}
    assert all(frame.mapping_id in mappings and frame.HasField("rel_pc") for frame in data.frames)
    frames = {frame.iid: names[frame.function_name_id] for frame in data.frames}
    # The outermost comes first.
    stacks = {
        stack.iid: [frames[iid] for iid in reversed(stack.frame_ids)] for stack in data.callstacks
    }
    return [
        (packet.timestamp, taken.pid, taken.tid, "\n".join(stacks[taken.callstack_iid]))
        for packet in trace.packet
        if packet.HasField("perf_sample") and (taken := packet.perf_sample)
    ]


def test_samples_of_stacks_are_on_the_thread_of_their_callback(tmp_path: Path) -> None:
    trace = talker_and_listener()
    trace.run(100, CALLBACK, lasts=50, pid=2)
    samples: list[Sample] = [
        (at(110), 2, 2, "a\nb\nmain"), (at(120), 2, 2, "b\nmain"),
        (at(130), 2, 2, "b\nb\nmain"), (at(140), 2, 2, "a\nb\nmain"),
        (at(145), 4_194_303, 4_194_304, "[libc.so.6]"),
    ]  # fmt: skip
    columns = ["time_ns", "vpid", "vtid", "path"]
    table = pl.DataFrame(samples, schema=columns, orient="row")
    viewed = decoded({**trace.tables(), "cpu_samples": table}, tmp_path / "t")
    assert stacks_in(tmp_path / "t") == samples
    assert [piece[2:4] for piece in viewed.slices] == [(at(100), at(150))]
    threads = [track.thread for track in viewed.tracks.values() if track.HasField("thread")]
    assert (2, 2) in [(thread.pid, thread.tid) for thread in threads]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        write_perfetto(Trace().tables(), tmp_path / "nowhere" / "t")


@pytest.mark.recording
@pytest.mark.parametrize("sample", ["two_process/000*", "communication/001*"])
def test_slices_and_flows_of_a_recording_are_those_of_the_tables(
    sample: str, tmp_path: Path
) -> None:
    run = next(iter(sorted(SAMPLES.glob(sample))))
    raw = read_raw(Recording.at(run))
    tables = build_tables(raw.events, raw.losses)
    viewed = decoded(tables, tmp_path / "t")
    ended = tables["callback_instances"].filter(pl.col("end_ns").is_not_null())
    published = tables["publications"].filter(pl.col("publish_ns").is_not_null())
    callbacks = [s for s in viewed.slices if not s[1].startswith("publish ")]
    assert sorted((b, e) for _, _, b, e, _ in callbacks) == sorted(
        ended.select("start_ns", "end_ns").iter_rows()
    )
    assert len(viewed.slices) - len(callbacks) == published.height
    sent = [s for s in viewed.slices if s[1].startswith("publish ")]
    began = {flow: s[2] for s in sent for flow in s[4]}
    flights = sorted((began[flow], s[2]) for s in callbacks for flow in s[4])
    delivered = tables["messages"].filter(
        pl.col("callback_instance_id").is_not_null() & pl.col("message_id").is_not_null()
    )
    assert flights == sorted(delivered.select("publish_ns", "callback_start_ns").iter_rows())
