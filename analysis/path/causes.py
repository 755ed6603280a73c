"""Classify each piece of a message's path by what happened during it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from roslens.analysis.path.kernel import KernelView
from roslens.analysis.path.kinds import CODE, KIND
from roslens.analysis.path.lines import Layer
from roslens.recording.arrays import Bools, Ints, np

PUBLISHING, SENDING, RECEIVING, WAITING, TAKEN, CALLBACK = range(6)
"""Phases of a message, each between two of `roslens.analysis.path.moments.MOMENTS`."""
STATES = {"busy": 0, "wait": 1, "blocked": 2}
"""States of a thread of an executor; -1 where the state is not known."""


@dataclass(frozen=True)
class Pieces:
    """Pieces of messages, and the state when each began; numbers are -1 for nothing.

    Attributes
    ----------
    message, lasted_ns
        Number of the message; duration of the piece.
    phase, arrived
        Phase of the message; whether its time of arrival is known.
    state, callback
        State of the thread, of `STATES`; number of the execution it was in.
    same
        Whether that execution is one of the message's own callback.
    earlier
        The thread's last execution, if it was for an earlier message and kept this one waiting.
    idle, group
        Whether a thread of the process waited for work; the execution that held the callback group.
    receiver
        The middleware's thread that wakes the executor's thread.
    """

    message: Ints
    lasted_ns: Ints
    phase: Ints
    arrived: Bools
    state: Ints
    callback: Ints
    same: Bools
    earlier: Ints
    idle: Bools
    group: Ints
    receiver: Ints


@dataclass(frozen=True)
class KernelEvidence:
    """Kernel data on the threads of pieces, as row numbers of its frames; -1 for nothing.

    Attributes
    ----------
    on_cpu, off_cpu, asleep
        State of the thread.
    sleep
        Code of the kind of its sleep.
    waker, woken_in
        The thread that ended the sleep, and the execution that thread was in.
    throttled
        Whether the thread's CPU was idle.
    by_tid, by_name, by_execution
        The thread that had its CPU, and the execution of that thread.
    interrupt, fault
        Number of an interrupt that ran; whether the thread had page faults.
    """

    on_cpu: Bools
    off_cpu: Bools
    asleep: Bools
    sleep: Ints
    waker: Ints
    woken_in: Ints
    throttled: Bools
    by_tid: Ints
    by_name: Ints
    by_execution: Ints
    interrupt: Ints
    fault: Bools


class PieceCauses:
    """Kind, source and actors of each piece; the last statement about a piece holds."""

    def __init__(self, count: int, kind: str = "unexplained") -> None:
        self.code = np.full(count, CODE[kind], np.uint8)
        self.kernel = np.zeros(count, bool)
        self.who = {name: np.full(count, -1) for name in ("execution", "tid", "cpu", "interrupt")}

    def say(self, kind: str | Ints, where: Bools, *, kernel: bool = False, **who: Ints) -> None:
        """Set the kind and the actors of pieces; their previous actors are cleared."""
        self.code[where] = CODE[kind] if isinstance(kind, str) else kind[where]
        self.kernel[where] = kernel
        for name, numbers in self.who.items():
            numbers[where] = who[name][where] if name in who else -1

    def columns(self) -> list[pl.Series]:
        """Return the columns kind, kernel, execution, tid, cpu and interrupt."""
        return [
            pl.Series("kind", self.code),
            pl.Series("kernel", self.kernel),
            *(pl.Series(name, numbers) for name, numbers in self.who.items()),
        ]


def tell(p: Pieces, seen: KernelEvidence | None, told: PieceCauses) -> None:
    """Assign a kind to each piece."""
    waiting, taken, running = (p.phase == phase for phase in (WAITING, TAKEN, CALLBACK))
    arrived = waiting & p.arrived
    told.say("publishing", p.phase == PUBLISHING)
    by_kernel = seen is not None
    told.say("transport", (p.phase == SENDING) | (p.phase == RECEIVING), kernel=by_kernel)
    told.say("running", running)
    told.say("unexplained", waiting, kernel=by_kernel)
    told.say("transport_or_waiting", waiting & ~p.arrived)
    own_work = (waiting & (p.state == STATES["busy"])) | taken
    told.say("executor", own_work)
    if seen is not None:
        # A thread on a CPU no longer waits, whatever its last event was.
        more = (arrived | taken) & seen.on_cpu
        told.say("executor", more, kernel=True)
        told.say("running", running & seen.on_cpu, kernel=True)
        own_work |= more
    told.say("lock", arrived & (p.state == STATES["blocked"]) & ~own_work)
    # The thread's work between the messages of a queue counts as the queue.
    told.say("queue", own_work & waiting & (p.earlier >= 0), execution=p.earlier)
    in_callback = (waiting | taken) & (p.callback >= 0)
    told.say("executor", in_callback & ~p.same, execution=p.callback)
    told.say("queue", in_callback & p.same, execution=p.callback)
    # An idle thread would have taken the message.
    told.say("transport_or_waiting", waiting & ~p.arrived & p.idle & ~p.same)
    if seen is not None:
        _by_kernel(p, seen, told)
    held = waiting & (p.group >= 0)
    if seen is not None:
        held &= ~_stopped(p, seen)
    told.say("callback_group", held, execution=p.group)


def _stopped(p: Pieces, seen: KernelEvidence) -> Bools:
    """Return pieces that wait for a callback that itself mostly waited for a CPU.

    A callback that is preempted for less than half of the time counts as the cause of the wait.
    """
    behind = (p.phase == WAITING) & (p.callback >= 0)
    stopped = behind & (seen.off_cpu | (seen.interrupt >= 0))
    pair = np.unique(np.stack([p.message, p.callback]), axis=1, return_inverse=True)[1].ravel()
    stopped_ns = np.bincount(pair, p.lasted_ns * stopped)
    mostly: Bools = np.greater(2 * stopped_ns, np.bincount(pair, p.lasted_ns * behind))
    mostly_stopped: Bools = stopped & mostly[pair]
    return mostly_stopped


def _by_kernel(p: Pieces, seen: KernelEvidence, told: PieceCauses) -> None:
    waiting, taken, running = (p.phase == phase for phase in (WAITING, TAKEN, CALLBACK))
    between = waiting & p.arrived & (p.callback < 0)
    by_receiver = between & seen.asleep & (seen.waker == p.receiver)
    # If a thread waiting for work was woken for the message, its next wake-up ends another wait.
    known = (p.state <= STATES["busy"]) | ((p.state == STATES["wait"]) & (seen.waker > 0))
    awake = between & known
    slept = seen.asleep & (awake | taken | running | (p.phase == RECEIVING))
    who = {"tid": np.where(seen.sleep == CODE["futex"], seen.waker, -1), "execution": seen.woken_in}
    told.say(seen.sleep, slept & ~by_receiver, kernel=True, **who)
    told.say("transport", by_receiver, kernel=True)
    told.say("page_fault", running & seen.fault, kernel=True)
    known = np.where(waiting, np.where(p.callback < 0, p.arrived, _stopped(p, seen)), True)
    who = {"tid": seen.by_tid, "cpu": seen.by_name, "execution": seen.by_execution}
    told.say("preempted", known & seen.off_cpu, kernel=True, **who)
    told.say("throttled", known & seen.off_cpu & seen.throttled, kernel=True)
    told.say("interrupt", known & (seen.interrupt >= 0), kernel=True, interrupt=seen.interrupt)


@dataclass(frozen=True)
class Kernel:
    """The kernel's data on threads, as frames and as layers of rows of these frames.

    Attributes
    ----------
    ran
        Returns the executions that threads were in, from numbers of threads, lines of threads of
        the same hosts, and times in ns.
    """

    view: KernelView
    states: Layer
    had_cpu: Layer
    interrupts: Layer
    soft_interrupts: Layer
    faults: Layer
    ran: Callable[[Ints, Ints, Ints], Ints]

    @property
    def layers(self) -> list[Layer]:
        """Return all layers."""
        interrupts = [self.interrupts, self.soft_interrupts]
        return [self.states, self.had_cpu, *interrupts, self.faults]

    def seen(self, place: Ints, line: Ints, begin_ns: Ints) -> KernelEvidence:
        """Return the kernel's data on pieces at these places."""
        state, had, *interrupts = (layer.row_at(place) for layer in self.layers[:-1])
        interrupt = np.where(interrupts[0] < 0, interrupts[1], interrupts[0])
        states, had_cpu = self.view.states, self.view.had_cpu
        kind = _at(states["kind"].replace_strict(_STATE_KINDS, return_dtype=pl.Int64), state)
        waker, woken_at = _at(states["waker"], state), _at(states["end_ns"], state)
        by_tid = _at(had_cpu["by_tid"], had)
        return KernelEvidence(
            on_cpu=kind == _ON_CPU,
            off_cpu=kind == CODE["preempted"],
            asleep=(kind > 0) & (kind != CODE["preempted"]),
            sleep=kind,
            waker=waker,
            woken_in=self.ran(waker, line, woken_at),
            throttled=_at(had_cpu["throttled"].cast(pl.Int64), had) == 1,
            by_tid=by_tid,
            by_name=had,
            by_execution=self.ran(by_tid, line, begin_ns),
            interrupt=interrupt,
            fault=self.faults.row_at(place) >= 0,
        )


_ON_CPU = 0
_STATE_KINDS = {"ran": _ON_CPU} | {
    name: CODE[name] for name in ("preempted", "futex", "syscall", "disk", "page_fault")
}


def _at(column: pl.Series, row: Ints) -> Ints:
    """Return the numbers in the given rows, -1 where there is none."""
    return np.append(column.cast(pl.Int64).fill_null(-1).to_numpy(), -1)[row]


def joined(pieces: pl.DataFrame) -> pl.DataFrame:
    """Join consecutive pieces of one message that are alike."""
    alike = ["message", "kind", "kernel", "execution", "tid", "interrupt"]
    new = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in alike)
    first = pieces.select(new.fill_null(value=True)).to_series()
    last = first.shift(-1, fill_value=True)
    ends = pieces["end_ns"].filter(last)
    names = {code: name for name, code in CODE.items()}
    kind = pl.col("kind").replace_strict(names, return_dtype=KIND)
    return pieces.filter(first).with_columns(ends, kind)
