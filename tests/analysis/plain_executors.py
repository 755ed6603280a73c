"""Model rclcpp's executors a second time, slow and plain, by their documented dispatch orders.

SingleThreaded and MultiThreaded: a free thread executes what is left of the wait set in the order
timers, subscriptions, services, waitables (of which intra-process subscriptions are some); each is
in it once, waitables whether ready or not until their turn comes. A callback that an exclusive
group forbids is dropped, except timers, which stay. Of the threads that were idle when a callback
was chosen, one comes after the takeover of its execution. If nothing is left, one thread waits and
the others wait for it: if something is ready, for the time of a poll; then all that is ready is in
the wait set. Otherwise it sleeps until something is ready, which wakes it before its handover is
over by its gap; then it looks what is ready. MultiThreaded: the end of an exclusive callback
interrupts the wait, or the next one, which then is a poll. A wait that was interrupted and found
nothing begins anew; before the wait after an interrupted one, callbacks of groups that run leave
the wait set, and others that had left come back behind those of their kind. Events: first in, first
out; a timer is called when a thread that waits for the first timer that is due wakes up, which its
handover delays. EventsCBG: groups take turns, one callback at a time each, first in, first out
within a group; such a thread reports timers, which are armed again after their execution. Time goes
in steps of 1. Each execution repeats the recorded one whose time is nearest, of two the later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

STEP = 50
Run = tuple[int, int, int, int]
"""Callback, when it became ready, start, end."""


@dataclass
class Callback:
    """A callback; `kind` is 0 for a timer, 1 subscription, 2 service, 4 waitable."""

    executor: int
    group: int
    takes: list[int]
    """Durations recorded every `STEP`."""
    kind: int = 1
    period: int | None = None
    phase: int = 0
    depth: int | None = None
    handover: int = 0
    gap: int = 0
    takeovers: list[int] = field(default_factory=list)
    publishes: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class World:
    """Executors as kind and thread count, topics as receivers, sources as times and topic."""

    callbacks: list[Callback]
    executors: list[tuple[str, int]]
    exclusive: list[bool]
    topics: list[list[int]]
    sources: list[tuple[list[int], int]]
    length: int
    polls: list[int] = field(default_factory=list)


@dataclass
class Waiter:
    """A thread that waits for its executor; it sleeps if `until` is None; what woke it, its gap."""

    thread: Thread
    until: int | None
    woken_by: tuple[int, int] | None = None


@dataclass
class Thread:
    executor: int
    ended: int = -1
    callback: int | None = None
    ready: int = 0
    start: int = 0
    took: int = 0
    steps: list[tuple[int, str, int]] = field(default_factory=list)


class Schedule:
    """The schedule of a world: `done` in the order of ends, `lost` by callback."""

    def __init__(self, world: World) -> None:
        self.world, self.all = world, world.callbacks
        self.waiting: list[list[int]] = [[] for _ in self.all]
        self.due = [c.phase for c in self.all]
        self.told = [-1] * len(self.all)
        self.armed = [c.period is not None for c in self.all]
        self.alarms: list[int | None] = [None for _ in world.executors]
        self.lost = [0] * len(self.all)
        self.queue: list[list[int]] = [[] for _ in world.executors]
        self.turns: list[list[int]] = [[] for _ in world.executors]
        self.of_group: list[list[int]] = [[] for _ in world.exclusive]
        self.working = [0] * len(world.exclusive)
        self.released = [-1] * len(world.exclusive)
        self.waiters: list[Waiter | None] = [None for _ in world.executors]
        every = range(len(self.all))
        self.wait_sets = [self.in_order(e, every) for e in range(len(world.executors))]
        self.interrupted = [False for _ in world.executors]
        self.to_collect = [False for _ in world.executors]
        self.chosen = [-1 for _ in world.executors]
        self.taken_over = [-1 for _ in world.executors]
        self.threads = [Thread(e) for e, (_, n) in enumerate(world.executors) for _ in range(n)]
        self.done: list[Run] = []
        self.now = 0
        for executor in range(len(world.executors)):
            self.set_alarm(executor)
        for self.now in range(world.length):
            self.tick()

    def kind(self, number: int) -> str:
        return self.world.executors[self.all[number].executor][0]

    def tick(self) -> None:
        self.threads_step()
        self.timers()
        for times, topic in self.world.sources:
            for _ in range(times.count(self.now)):
                self.publish(topic)
        while True:
            for executor in range(len(self.world.executors)):
                self.choose(executor)
            if not self.threads_step():
                return
            self.timers()

    def threads_step(self) -> bool:
        """Do the starts, publications and ends that are due; return whether there were any."""
        stepped = False
        while late := [t for t in self.threads if t.steps and t.steps[0][0] <= self.now]:
            self.step(late[0])
            stepped = True
        return stepped

    def step(self, thread: Thread) -> None:
        _, action, topic = thread.steps.pop(0)
        number, callback = thread.callback, self.all[thread.callback]
        if action == "start":
            thread.start = self.now
            thread.steps = [
                (self.now + min(offset, thread.took), "publish", topic)
                for offset, topic in callback.publishes
            ]
            thread.steps.append((self.now + thread.took, "end", 0))
        elif action == "publish":
            self.publish(topic)
        else:
            self.done.append((number, thread.ready, thread.start, self.now))
            thread.callback, thread.ended = None, self.now
            self.working[callback.group] -= 1
            self.released[callback.group] = self.now
            if self.kind(number) == "MultiThreaded" and self.world.exclusive[callback.group]:
                self.interrupt(callback.executor)
            if self.kind(number) == "EventsCBG":
                self.take_turn(callback)
                self.armed[number] = callback.period is not None
                self.set_alarm(callback.executor)

    def timers(self) -> None:
        """Wake the threads of executors without a wait set, which report all due timers."""
        for executor, (kind, _) in enumerate(self.world.executors):
            while (alarm := self.alarms[executor]) is not None and alarm <= self.now:
                self.alarms[executor] = None
                for number in sorted(range(len(self.all)), key=lambda n: (self.due[n], n)):
                    callback = self.all[number]
                    if callback.executor != executor or not self.armed[number]:
                        continue
                    if self.due[number] > self.now:
                        continue
                    self.told[number] = self.now
                    if kind == "Events":
                        self.call(number)
                        self.queue[executor].append(number)
                    else:
                        self.armed[number] = False
                        self.of_group[callback.group].append(number)
                        self.take_turn(callback)
                self.set_alarm(executor)

    def set_alarm(self, executor: int) -> None:
        """Let the thread sleep until the first armed timer is due, late by its handover."""
        armed = [n for n, c in enumerate(self.all) if c.executor == executor and self.armed[n]]
        if armed and not self.waits(executor):
            first = min(armed, key=lambda n: (self.due[n], n))
            alarm = max(self.now, self.due[first]) + self.all[first].handover
            before = self.alarms[executor]
            self.alarms[executor] = alarm if before is None else min(before, alarm)

    def call(self, number: int) -> None:
        """Do what rcl_timer_call does: the grid goes on, and passed periods are skipped."""
        self.waiting[number].append(self.due[number])
        period = self.all[number].period
        self.due[number] += period
        while self.due[number] < self.now:
            self.due[number] += period

    def publish(self, topic: int) -> None:
        for number in self.world.topics[topic]:
            callback = self.all[number]
            self.waiting[number].append(self.now)
            if callback.depth is not None and len(self.waiting[number]) > callback.depth:
                del self.waiting[number][0]
                self.lost[number] += 1
            if self.kind(number) == "Events":
                self.queue[callback.executor].append(number)
            elif self.kind(number) == "EventsCBG":
                self.of_group[callback.group].append(number)
                self.take_turn(callback)

    def take_turn(self, callback: Callback) -> None:
        """Queue the callback's group if it has work, and neither runs nor is queued."""
        group, turns = callback.group, self.turns[callback.executor]
        if self.of_group[group] and not self.working[group] and group not in turns:
            turns.append(group)

    def choose(self, executor: int) -> None:
        if self.waits(executor):
            while self.look(executor):
                pass
            return
        for thread in self.threads:
            if thread.executor == executor and thread.callback is None:
                number = self.next_of(executor)
                if number is None:
                    return
                self.give(thread, number)

    def waits(self, executor: int) -> bool:
        return self.world.executors[executor][0] in {"SingleThreaded", "MultiThreaded"}

    def look(self, executor: int) -> bool:
        """Do what an executor with a wait set does next; return whether it did anything."""
        waiter = self.waiters[executor]
        if waiter is None:
            idle = self.idle(executor)
            if not idle:
                return False
            number = self.of_wait_set(executor)
            if number is None:
                self.poll(executor, idle[0])
            else:
                self.give(idle[0], number)
            return True
        wait_set = self.wait_sets[executor]
        if waiter.until is None:
            able = [n for n in wait_set if self.ready(n) and self.free(n)]
            if able:
                first = min(able, key=self.since)
                handover = self.all[first].handover
                gap = min(self.all[first].gap, handover)
                waiter.until = max(self.now, self.since(first) + handover - gap)
                waiter.woken_by = first, gap
            return bool(able)
        if waiter.until > self.now:
            return False
        self.queue[executor] = [n for n in wait_set if self.all[n].kind == 4 or self.ready(n)]
        number = self.of_wait_set(executor)
        if self.interrupted[executor]:
            self.interrupted[executor], self.to_collect[executor] = False, True
            if number is None:
                self.poll(executor, waiter.thread)
                return True
        if number is None:
            waiter.until = waiter.woken_by = None
            return False
        self.waiters[executor] = None
        same = waiter.woken_by is not None and waiter.woken_by[0] == number
        self.give(waiter.thread, number, waiter.woken_by[1] if same and waiter.woken_by else None)
        return True

    def idle(self, executor: int) -> list[Thread]:
        """Return threads that may look, first those that came back since the last choice."""
        idle = [t for t in self.threads if t.executor == executor and t.callback is None]
        back = [t for t in idle if t.ended >= self.chosen[executor]]
        return back if back or self.now < self.taken_over[executor] else idle

    def interrupt(self, executor: int) -> None:
        waiter = self.waiters[executor]
        if waiter and waiter.until is None:
            self.to_collect[executor] = True
            self.poll(executor, waiter.thread)
        else:
            self.interrupted[executor] = True

    def poll(self, executor: int, thread: Thread) -> None:
        if self.to_collect[executor]:
            self.to_collect[executor] = False
            stayed = [n for n in self.wait_sets[executor] if self.free(n)]
            back = [n for n in range(len(self.all)) if self.free(n) and n not in stayed]
            self.wait_sets[executor] = self.in_order(executor, stayed + back)
        took = self.world.polls[executor] if self.world.polls else 0
        able = any(self.ready(n) and self.free(n) for n in self.wait_sets[executor])
        polls = able or self.interrupted[executor]
        self.waiters[executor] = Waiter(thread, self.now + took if polls else None)

    def since(self, number: int) -> int:
        return self.waiting[number][0] if self.waiting[number] else self.due[number]

    def in_order(self, executor: int, numbers: Iterable[int]) -> list[int]:
        callbacks = [n for n in numbers if self.all[n].executor == executor]
        return sorted(callbacks, key=lambda n: self.all[n].kind)

    def give(self, thread: Thread, number: int, gap: int | None = None) -> None:
        callback = self.all[number]
        if callback.period is not None and self.kind(number) != "Events":
            self.call(number)
        thread.callback, thread.ready = number, self.waiting[number].pop(0)
        held = self.world.exclusive[callback.group] or self.kind(number) == "EventsCBG"
        free = max(thread.ended, self.released[callback.group] if held else -1)
        start = self.now + (callback.gap if gap is None else gap)
        if not self.waits(callback.executor):
            if callback.period is not None and free <= self.told[number]:
                start = self.now
            elif callback.period is None and free <= thread.ready:
                start = max(self.now, thread.ready + callback.handover)
        thread.steps = [(start, "start", 0)]
        recorded = range(len(callback.takes))
        used = min(recorded, key=lambda n: (abs(n * STEP - start), -n))
        thread.took = callback.takes[used]
        self.chosen[thread.executor] = self.now
        self.taken_over[thread.executor] = self.now
        if callback.takeovers:
            self.taken_over[thread.executor] = start + callback.takeovers[used]
        self.working[callback.group] += 1

    def ready(self, number: int) -> bool:
        if self.all[number].period is not None and self.kind(number) != "Events":
            return self.due[number] <= self.now
        return bool(self.waiting[number])

    def free(self, number: int) -> bool:
        group = self.all[number].group
        return not self.world.exclusive[group] or not self.working[group]

    def next_of(self, executor: int) -> int | None:
        kind, _ = self.world.executors[executor]
        return self.first_event(executor) if kind == "Events" else self.of_groups(executor)

    def of_wait_set(self, executor: int) -> int | None:
        left = self.queue[executor]
        for number in list(left):
            if not self.free(number):
                if self.all[number].period is None:
                    left.remove(number)
                continue
            left.remove(number)
            if self.ready(number):
                return number
        return None

    def first_event(self, executor: int) -> int | None:
        while self.queue[executor]:
            number = self.queue[executor].pop(0)
            if self.ready(number):
                return number
        return None

    def of_groups(self, executor: int) -> int | None:
        while self.turns[executor]:
            group = self.turns[executor].pop(0)
            number = self.of_group[group].pop(0)
            if self.ready(number):
                return number
            self.take_turn(self.all[number])
        return None
