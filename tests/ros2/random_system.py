"""Run a made-up system of nodes and their objects, whose threads take turns at random.

Each thread does one thing after the other (publish, receive, serve, ...), a step at a time, and the
events of all threads come in the order in which they happen. The system also keeps what became of
each message, which is the ground truth for tables made of the events.
"""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ros2_trace import Trace, at

TOPICS = ("/a", "/b", "/c")


@dataclass
class Subscription:
    """A subscription with the queue and the ring buffer in which its messages wait."""

    handle: int
    topic: str
    where: dict[str, Any]
    callback: int
    queue: deque[tuple[Any, int]] = field(default_factory=deque)
    buffer: int | None = None
    capacity: int = 2
    ring: list[Any] = field(default_factory=list)
    next_in: int = 0
    next_out: int = 0


@dataclass
class Process:
    """A process and the objects with which it can act."""

    where: dict[str, Any]
    publishers: list[tuple[int, str]] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    timers: list[tuple[int, int]] = field(default_factory=list)
    services: list[tuple[int, int, deque[tuple[list[int], int]]]] = field(default_factory=list)
    clients: list[tuple[int, list[int]]] = field(default_factory=list)
    machine: int | None = None


class System:
    """A random system: ``trace`` holds its events, ``truth`` the fate of each message."""

    def __init__(self, seed: int, steps: int = 120) -> None:
        self.rng = random.Random(seed)
        self.trace = Trace()
        self.now = 0.0
        self.directly = self.rng.random() < 0.1
        """Whether publications that also go through a ring buffer have no ``rclcpp_publish``."""
        self.addresses = iter(range(0x1000, 0x100000, 0x100))
        self.stamp = 0
        self.sequence = 0
        self.truth: dict[tuple[int, tuple[Any, ...]], int | None] = {}
        """The callback_start by first publish event (ns) and subscription (host, vpid, handle)."""
        self.answers: list[tuple[list[int], int, int]] = []
        self.processes = [self._process(number) for number in range(self.rng.randint(1, 3))]
        self._run(steps)

    def emit(self, name: str, where: dict[str, Any], **payload: Any) -> int:
        self.now += self.rng.choice((0.5, 1, 3, 40))
        self.trace.emit(self.now, name, **where, **payload)
        return at(self.now)

    # ------------------------------------------------------------ the objects of a process

    def _process(self, number: int) -> Process:
        rng, trace = self.rng, self.trace
        where = {"pid": 10 + number, "host": rng.choice(("h0", "h0", "h1"))}
        process = Process(where)
        self.emit("rcl_init", where, context_handle=1, version="8.2.2")
        for n in range(rng.randint(1, 2)):
            node = next(self.addresses)
            self.now += 10
            trace.node(self.now, node, f"node_{number}_{n}", **where)
            for _ in range(rng.randint(0, 2)):
                handle, topic = next(self.addresses), rng.choice(TOPICS)
                self.now += 10
                trace.publisher(self.now, handle, topic, node=node, **where)
                process.publishers.append((handle, topic))
            for _ in range(rng.randint(0, 2)):
                self._subscription(process, node)
            if rng.random() < 0.4:
                self._timer(process, node)
            self._ends_of_service(process, node)
        if rng.random() < 0.3:
            process.machine = next(self.addresses)
            self.emit("rcl_lifecycle_state_machine_init", where, node_handle=node,
                      state_machine=process.machine)  # fmt: skip
        return process

    def _subscription(self, process: Process, node: int) -> None:
        handle, topic = next(self.addresses), self.rng.choice(TOPICS)
        self.now += 10
        self.trace.subscription(
            self.now, handle, topic, node=node, callback=handle + 0x40, **process.where
        )
        subscription = Subscription(handle, topic, process.where, handle + 0x40)
        if self.rng.random() < 0.5:
            subscription.buffer = next(self.addresses)
            subscription.capacity = self.rng.randint(1, 3)
            subscription.ring = [None] * subscription.capacity
            self.now += 10
            self.trace.ring_buffer(
                self.now, subscription.buffer, subscription=handle,
                callback=subscription.buffer + 0x40, capacity=subscription.capacity,
                **process.where,
            )  # fmt: skip
        self.now += 10
        process.subscriptions.append(subscription)

    def _timer(self, process: Process, node: int) -> None:
        handle, where = next(self.addresses), process.where
        self.emit("rcl_timer_init", where, timer_handle=handle, period=50_000)
        self.emit("rclcpp_timer_callback_added", where, timer_handle=handle, callback=handle + 0x40)
        self.emit("rclcpp_timer_link_node", where, timer_handle=handle, node_handle=node)
        process.timers.append((handle, handle + 0x40))

    def _ends_of_service(self, process: Process, node: int) -> None:
        where = process.where
        if self.rng.random() < 0.3:
            handle = next(self.addresses)
            self.emit("rcl_service_init", where, service_handle=handle, node_handle=node,
                      rmw_service_handle=handle + 1, service_name="/ask")  # fmt: skip
            self.emit("rclcpp_service_callback_added", where, service_handle=handle,
                      callback=handle + 0x40)  # fmt: skip
            process.services.append((handle + 1, handle + 0x40, deque()))
        if self.rng.random() < 0.3:
            handle = next(self.addresses)
            gid = list(handle.to_bytes(8, "big")) * 2
            self.emit("rmw_client_init", where, rmw_client_handle=handle + 1, gid=gid)
            self.emit("rcl_client_init", where, client_handle=handle, node_handle=node,
                      rmw_client_handle=handle + 1, service_name="/ask")  # fmt: skip
            process.clients.append((handle + 1, gid))

    # ------------------------------------------------------------ the steps of a thread

    def _run(self, steps: int) -> None:
        threads: dict[tuple[int, int], Iterator[None]] = {}
        for _ in range(steps):
            number = self.rng.randrange(len(self.processes))
            key = number, self.rng.randrange(2)
            process = self.processes[number]
            thread = {**process.where, "tid": process.where["pid"] * 10 + key[1]}
            if key not in threads:
                threads[key] = self._something(process, thread)
            try:
                next(threads[key])
            except StopIteration:
                del threads[key]

    def _something(self, process: Process, thread: dict[str, Any]) -> Iterator[None]:
        rng = self.rng
        can = ["executor"]
        can += ["publish"] * 2 * bool(process.publishers)
        waiting = [s for s in process.subscriptions if s.queue]
        held = [s for s in process.subscriptions if any(s.ring)]
        asked = [s for s in process.services if s[2]]
        can += ["receive"] * 3 * bool(waiting) + ["dequeue"] * 3 * bool(held)
        can += ["timer"] * bool(process.timers) + ["ask"] * bool(process.clients)
        can += ["serve"] * 2 * bool(asked)
        can += ["answered"] * any(gid == a[0] for _, gid in process.clients for a in self.answers)
        can += ["transition"] * bool(process.machine)
        action = rng.choice(can)
        if action == "executor":
            yield from self._wait(thread)
        elif action == "publish":
            yield from self._publish(process, thread)
        elif action == "receive":
            yield from self._receive(process, rng.choice(waiting), thread)
        elif action == "dequeue":
            yield from self._dequeue(process, rng.choice(held), thread)
        elif action == "timer":
            handle, callback = rng.choice(process.timers)
            self._execute(handle, thread)
            yield from self._callback(process, callback, thread, 0)
        elif action == "serve":
            yield from self._serve(process, rng.choice(asked), thread)
        elif action == "transition":
            yield from self._transition(process, thread)
        else:
            yield from self._ask(process, action, thread)

    def _execute(self, handle: int, thread: dict[str, Any]) -> None:
        self.emit("rclcpp_executor_get_next_ready", thread)
        self.emit("rclcpp_executor_execute", thread, handle=handle)

    def _wait(self, thread: dict[str, Any]) -> Iterator[None]:
        self.emit("rclcpp_executor_wait_for_work", thread, timeout=-1)
        yield
        self.emit("rclcpp_executor_get_next_ready", thread)

    def _transition(self, process: Process, thread: dict[str, Any]) -> Iterator[None]:
        ways = ("unconfigured", "configuring", "inactive", "activating", "active")
        place = self.rng.randrange(4)
        self.emit("rcl_lifecycle_transition", thread, state_machine=process.machine,
                  start_label=ways[place], goal_label=ways[place + 1])  # fmt: skip
        yield

    def _publish(self, process: Process, thread: dict[str, Any]) -> Iterator[None]:
        rng = self.rng
        handle, topic = rng.choice(process.publishers)
        message = rng.choice((0x9000, 0x9100))
        subscribed = [s for p in self.processes for s in p.subscriptions if s.topic == topic]
        near = [s for s in subscribed if s.buffer is not None and s.where is process.where]
        first = None
        if near:
            first = self.emit("rclcpp_intra_publish", thread, publisher_handle=handle,
                              message=message)  # fmt: skip
            # Every subscription already exists: all were made before anything ran.
            for s in near:
                yield
                self._enqueue(s, first, thread)
        far = [s for s in subscribed if s not in near]
        if near and not far:
            return
        yield
        if near:
            message += rng.choice((0, 0x800))
        if not near or not self.directly:
            moment = self.emit("rclcpp_publish", thread, message=message)
            first = first or moment
            yield
        moment = self.emit("rcl_publish", thread, publisher_handle=handle, message=message)
        first = first or moment
        yield
        self.stamp = max(self.stamp + 1, at(self.now) + 200)
        self.emit("rmw_publish", thread, rmw_publisher_handle=handle + 1, message=message,
                  timestamp=self.stamp)  # fmt: skip
        self.emit("message_content", thread, message=message, size=8, header_stamp=at(self.now))
        for s in far:
            self.truth[first, _who(s)] = None
            if rng.random() < 0.9:
                s.queue.append((first, self.stamp))

    def _enqueue(self, s: Subscription, first: int, thread: dict[str, Any]) -> None:
        index = s.next_in % s.capacity
        full = s.ring[index] is not None
        s.ring[index] = first
        s.next_in += 1
        if full:
            s.next_out += 1
        self.truth[first, _who(s)] = None
        self.emit("rclcpp_ring_buffer_enqueue", thread, buffer=s.buffer, index=index, size=1,
                  overwritten=int(full))  # fmt: skip

    def _dequeue(self, process: Process, s: Subscription, thread: dict[str, Any]) -> Iterator[None]:
        index = s.next_out % s.capacity
        first, s.ring[index] = s.ring[index], None
        s.next_out += 1
        self.emit("rclcpp_ring_buffer_dequeue", thread, buffer=s.buffer, index=index, size=0)
        yield
        yield from self._callback(process, s.buffer + 0x40, thread, 1, (first, _who(s)))

    def _receive(self, process: Process, s: Subscription, thread: dict[str, Any]) -> Iterator[None]:
        first, stamp = s.queue.popleft()
        message = self.rng.choice((0xA000, 0xA100))
        self._execute(s.handle, thread)
        self.emit("rmw_take", thread, rmw_subscription_handle=s.handle + 1, message=message,
                  source_timestamp=stamp, taken=1)  # fmt: skip
        yield
        for name, fields in (
            ("rcl_take", {}),
            ("message_received", {"received_timestamp": stamp}),
            ("rclcpp_take", {}),
        ):
            self.emit(name, thread, message=message, **fields)
            yield
        yield from self._callback(process, s.callback, thread, 0, (first, _who(s)))

    def _callback(
        self, process: Process, callback: int, thread: dict[str, Any], intra: int,
        delivery: Any = None, *, nested: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        start = self.emit("callback_start", thread, callback=callback, is_intra_process=intra)
        if delivery:
            self.truth[delivery] = start
        yield
        if process.publishers and self.rng.random() < 0.3:
            yield from self._publish(process, thread)
        spins = [timer for timer in process.timers if timer[1] != callback and not nested]
        if spins and self.rng.random() < 0.1:
            # A callback that spins within itself would look like a missing event.
            handle, inner = spins[0]
            self._execute(handle, thread)
            yield from self._callback(process, inner, thread, 0, nested=True)
        if self.rng.random() < 0.95:
            self.emit("callback_end", thread, callback=callback)

    def _ask(self, process: Process, action: str, thread: dict[str, Any]) -> Iterator[None]:
        handle, gid = self.rng.choice(process.clients)
        if action == "ask":
            self.sequence += 1
            if self.rng.random() < 0.7:
                self.emit("rcl_send_request", thread, rmw_client_handle=handle)
            self.emit("rmw_send_request", thread, rmw_client_handle=handle, request=1,
                      sequence_number=self.sequence)  # fmt: skip
            for p in self.processes:
                for service in p.services:
                    service[2].append((gid, self.sequence))
            yield
            return
        for answer in self.answers:
            if answer[0] == gid:
                self.answers.remove(answer)
                _, sequence, stamp = answer
                self.emit("rmw_take_response", thread, rmw_client_handle=handle, response=1,
                          sequence_number=sequence, source_timestamp=stamp, taken=1)  # fmt: skip
                if self.rng.random() < 0.7:
                    self.emit("client_callback_start", thread, rmw_client_handle=handle,
                              sequence_number=sequence)  # fmt: skip
                yield
                return

    def _serve(self, process: Process, service: Any, thread: dict[str, Any]) -> Iterator[None]:
        handle, callback, requests = service
        gid, sequence = requests.popleft()
        self.emit("rmw_take_request", thread, rmw_service_handle=handle, request=1, client_gid=gid,
                  sequence_number=sequence, taken=1)  # fmt: skip
        yield
        yield from self._callback(process, callback, thread, 0)
        self.stamp = max(self.stamp + 1, at(self.now) + 200)
        if self.rng.random() < 0.7:
            self.emit("rcl_send_response", thread, rmw_service_handle=handle)
        self.emit("rmw_send_response", thread, rmw_service_handle=handle, response=1,
                  client_gid=gid, sequence_number=sequence, timestamp=self.stamp)  # fmt: skip
        self.answers.append((gid, sequence, self.stamp))


def _who(s: Subscription) -> tuple[Any, ...]:
    return s.where["host"], s.where["pid"], s.handle
