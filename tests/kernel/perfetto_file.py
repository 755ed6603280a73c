"""Write Perfetto traces with Perfetto's own protobuf classes."""

from __future__ import annotations

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

REALTIME, MONOTONIC, RAW, BOOT = 1, 3, 5, 6
MONO_RAW = 4
SLEPT = 1000
"""How far the clock that also counts while the machine sleeps is ahead at first."""


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
    """Add switches: time, state of the leaving thread, and the next thread's id, priority, name."""
    sched, last = to.compact_sched, 0
    for time, state, tid, prio, name in switches:
        if name not in sched.intern_table:
            sched.intern_table.append(name)
        sched.switch_timestamp.append(time - last)
        sched.switch_prev_state.append(state)
        sched.switch_next_pid.append(tid)
        sched.switch_next_prio.append(prio)
        sched.switch_next_comm_index.append(list(sched.intern_table).index(name))
        last = time


def wake(to: pb.FtraceEventBundle, told: tuple[int, int, str, int, int]) -> None:
    """Add a wake-up: time, the woken thread's id and name, its CPU, and flags."""
    sched, (since, tid, name, cpu, flags) = to.compact_sched, told
    if name not in sched.intern_table:
        sched.intern_table.append(name)
    sched.waking_timestamp.append(since)
    sched.waking_pid.append(tid)
    sched.waking_target_cpu.append(cpu)
    sched.waking_prio.append(120)
    sched.waking_comm_index.append(list(sched.intern_table).index(name))
    sched.waking_common_flags.append(flags)
