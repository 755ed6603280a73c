"""Traces of Perfetto, written with its own protobuf classes."""

from __future__ import annotations

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

REALTIME, MONOTONIC, RAW, BOOT = 1, 3, 5, 6
MONO_RAW = 4
SLEPT = 1000
"""So much later is the clock that also counts while the machine sleeps, at first."""


def snapshot(trace: pb.Trace, **times: int) -> None:
    packet = trace.packet.add()
    for name, time in times.items():
        packet.clock_snapshot.clocks.add(clock_id=globals()[name], timestamp=time)


def bundle(trace: pb.Trace, cpu: int, **more: object) -> pb.FtraceEventBundle:
    packet = trace.packet.add(trusted_packet_sequence_id=3)
    packet.ftrace_events.cpu = cpu
    for name, value in more.items():
        setattr(packet.ftrace_events, name, value)
    return packet.ftrace_events


def compact(to: pb.FtraceEventBundle, *switches: tuple[int, int, int, int, str]) -> None:
    """Time, state of the one that leaves, and who comes: thread, priority, name."""
    own, last = to.compact_sched, 0
    for time, state, tid, prio, name in switches:
        if name not in own.intern_table:
            own.intern_table.append(name)
        own.switch_timestamp.append(time - last)
        own.switch_prev_state.append(state)
        own.switch_next_pid.append(tid)
        own.switch_next_prio.append(prio)
        own.switch_next_comm_index.append(list(own.intern_table).index(name))
        last = time


def wake(to: pb.FtraceEventBundle, told: tuple[int, int, str, int, int]) -> None:
    """Time, who is woken: thread and name, on which CPU, and flags."""
    own, (since, tid, name, cpu, flags) = to.compact_sched, told
    if name not in own.intern_table:
        own.intern_table.append(name)
    own.waking_timestamp.append(since)
    own.waking_pid.append(tid)
    own.waking_target_cpu.append(cpu)
    own.waking_prio.append(120)
    own.waking_comm_index.append(list(own.intern_table).index(name))
    own.waking_common_flags.append(flags)
