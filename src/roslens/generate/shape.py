"""Generate the events of a made-up system, and the outcome of each of its messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from roslens.generate.ctf import CLOCK_OFFSET_NS
from roslens.recording import UsageError
from roslens.recording.arrays import Bools, Ints, NDArray, np

START_NS = CLOCK_OFFSET_NS + 5_000_000_000
_BEFORE_NS = 1_000_000_000
_APART_NS = 3_000
"""The time between the takes of one message by several subscriptions, in ns."""
_BOUNDS = {
    "layers": (1, 100),
    "fan_out": (1, 100),
    "topics": (1, 100_000),
    "nodes": (1, 100_000),
    "processes": (1, 20_000),
    "threads": (1, 1_000),
    "period_ns": (_APART_NS, 1_000_000_000),
    "lag": (1, 1_000_000),
    "loss": (0, 1),
    "taken": (0, 1),
    "stamp_rate": (0, 10),
    "stamp_offset_ns": (-(10**15), 10**15),
    "seed": (0, 2**63),
}
_MOST_EVENTS = 100_000_000


@dataclass(frozen=True)
class Shape:
    """Layers of nodes: the callback that takes a message publishes it to the next layer.

    Attributes
    ----------
    layers
        The number of topics that a message passes, one after the other.
    fan_out
        Subscriptions of each topic; the callback of the first one publishes to the next layer.
    topics, nodes
        The numbers of topics and nodes of each layer.
    processes
        The number of processes of each layer; nodes are assigned to them in turn.
    threads
        The number of threads of each process.
    period_ns
        Time between two messages that enter the system, in ns.
    lag
        The number of messages that enter before a message is taken.
    loss
        The fraction of deliveries, drawn at random, that are lost.
    taken
        The fraction of topics whose messages are taken.
    stamp_rate
        The rate of the source timestamps' clock, relative to that of the events.
    stamp_offset_ns
        The offset of that clock, for every second topic, in ns.
    seed
        The seed of the random numbers.
    """

    layers: int = 1
    fan_out: int = 1
    topics: int = 4
    nodes: int = 4
    processes: int = 1
    threads: int = 4
    period_ns: int = 20_000
    lag: int = 1
    loss: float = 0.0
    taken: float = 1.0
    stamp_rate: float = 1.0
    stamp_offset_ns: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (least, most) in _BOUNDS.items():
            if not least <= getattr(self, name) <= most:
                raise UsageError(f"{name}: from {least:,} to {most:,}")
        if self.processes > self.nodes or self.nodes > self.topics:
            raise UsageError("there are at least as many topics as nodes, and nodes as processes")
        if self.period_ns < self.fan_out * _APART_NS:
            raise UsageError(f"period_ns: at least {_APART_NS:,} for each of fan_out")

    @property
    def events_per_message(self) -> int:
        """Return the number of events of a message that is lost nowhere."""
        return self.layers * (3 + 5 * self.fan_out)


@dataclass
class MadeUp:
    """Events by name, each in time order, and the truth about messages.

    Attributes
    ----------
    truth
        One row per message and subscription, with the columns of the table `messages` for sender,
        receiver and times; a lost message has no ``take_ns`` and no later times.
    """

    events: dict[str, pl.DataFrame]
    truth: pl.DataFrame


def generated(shape: Shape, events: int) -> MadeUp:
    """Generate about the given number of message events, after those that create the objects."""
    if not 0 <= events <= _MOST_EVENTS:
        raise UsageError(f"events: from 0 to {_MOST_EVENTS:,}")
    system = _System(shape)
    for layer in range(shape.layers + 1):
        system.begin(layer)
    number = np.arange(events // shape.events_per_message)
    topic, published = number % shape.topics, START_NS + number * shape.period_ns
    for layer in range(shape.layers):
        system.publish(layer, topic, published, number)
        # Several subscriptions take a message; only the first one's callback publishes it again.
        first = system.deliver(layer, topic, published, number)
        topic, published, number = topic[first], system.forwarded(published[first]), number[first]
    return system.result()


@dataclass
class _System:
    shape: Shape
    parts: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    truth: list[pl.DataFrame] = field(default_factory=list)
    now: int = START_NS - _BEFORE_NS

    def __post_init__(self) -> None:
        self.draw = np.random.default_rng(self.shape.seed)
        self.delay = self.shape.lag * self.shape.period_ns - self.shape.period_ns // 2

    # ------------------------------------------------------------ who is there

    def process(self, layer: int, topic: Ints) -> Ints:
        """Return the process of a topic's node at this layer's end of the topic."""
        node = topic % self.shape.nodes
        return 1 + layer * self.shape.processes + node % self.shape.processes

    def node_names(self, layer: int, topic: Ints) -> Sequence[str]:
        return [f"node_{layer + 1}_{n}" for n in topic % self.shape.nodes]

    def topic_names(self, layer: int, topic: Ints) -> Sequence[str]:
        return [f"/topic_{n}" for n in topic + layer * self.shape.topics]

    def begin(self, layer: int) -> None:
        """Create a layer's objects: its publishers, and its subscriptions to the layer before."""
        shape = self.shape
        topic, node = np.arange(shape.topics), np.arange(shape.nodes)

        def create(name: str, index: Ints, **columns: object) -> None:
            times = self.now + np.arange(len(index)) * 100
            self.now = int(times[-1]) + 100
            process = self.process(layer, index)
            self.emit(name, times, process, process, **columns)

        create(
            "rcl_node_init", node, node_handle=_pointers(1, node), rmw_handle=_pointers(2, node),
            node_name=self.node_names(layer, node), namespace=["/"] * len(node),
        )  # fmt: skip
        if layer < shape.layers:
            create(
                "rcl_publisher_init", topic, publisher_handle=_pointers(3, topic),
                node_handle=_pointers(1, topic % shape.nodes),
                rmw_publisher_handle=_pointers(4, topic),
                topic_name=self.topic_names(layer, topic),
                queue_depth=np.full(len(topic), 10, np.uint64),
            )  # fmt: skip
        if layer == 0:
            return
        topic = np.repeat(topic, shape.fan_out)
        subscription = np.arange(len(topic))
        create(
            "rcl_subscription_init", topic, subscription_handle=_pointers(5, subscription),
            node_handle=_pointers(1, topic % shape.nodes),
            rmw_subscription_handle=_pointers(6, subscription),
            topic_name=self.topic_names(layer - 1, topic),
            queue_depth=np.full(len(topic), 10, np.uint64),
        )  # fmt: skip
        create(
            "rclcpp_subscription_init", topic, subscription_handle=_pointers(5, subscription),
            subscription=_pointers(7, subscription),
        )  # fmt: skip
        create(
            "rclcpp_subscription_callback_added", topic, subscription=_pointers(7, subscription),
            callback=_pointers(8, subscription),
        )  # fmt: skip

    # ------------------------------------------------------------ what happens

    def publish(self, layer: int, topic: Ints, published: Ints, number: Ints) -> None:
        process = self.process(layer, topic)
        # A callback publishes on its own thread.
        callback = topic * self.shape.fan_out if layer else topic
        who = process, 1_000 * process + callback % self.shape.threads
        message = _messages(layer, number)
        self.emit("rclcpp_publish", published, *who, message=message)
        self.emit(
            "rcl_publish", published + 500, *who, publisher_handle=_pointers(3, topic),
            message=message,
        )  # fmt: skip
        self.emit(
            "rmw_publish", published + 1_000, *who, rmw_publisher_handle=_pointers(4, topic),
            message=message, timestamp=self.stamp(topic, published),
        )  # fmt: skip

    def stamp(self, topic: Ints, published: Ints) -> Ints:
        late = np.where(topic % 2 == 1, self.shape.stamp_offset_ns, 0)
        return START_NS + ((published - START_NS) * self.shape.stamp_rate).astype(np.int64) + late

    def deliver(self, layer: int, topic: Ints, published: Ints, number: Ints) -> Bools:
        """Deliver messages to each subscription; return where the first one received them."""
        shape = self.shape
        reached = np.zeros(len(topic), bool)
        for place in range(shape.fan_out):
            arrived = topic < shape.taken * shape.topics
            arrived &= self.draw.random(len(topic)) >= shape.loss
            at = published + self.delay + place * _APART_NS
            forwards = place == 0 and layer + 1 < shape.layers
            end = at + (2_500 if forwards else 1_500)
            target, process = topic * shape.fan_out + place, self.process(layer + 1, topic)
            times = {"take_ns": at, "callback_start_ns": at + 900, "callback_end_ns": end}
            self.truth.append(self.truth_rows(layer, topic, published, arrived, **times))
            if place == 0:
                reached = arrived
            target, at, end, process = (
                target[arrived],
                at[arrived],
                end[arrived],
                process[arrived],
            )
            who = process, 1_000 * process + target % shape.threads
            message = _messages(layer, number[arrived])
            self.emit(
                "rmw_take", at, *who, rmw_subscription_handle=_pointers(6, target), message=message,
                source_timestamp=self.stamp(topic, published)[arrived],
                taken=np.ones(len(target), np.int32),
            )  # fmt: skip
            self.emit("rcl_take", at + 300, *who, message=message)
            self.emit("rclcpp_take", at + 600, *who, message=message)
            callback = _pointers(8, target)
            self.emit(
                "callback_start", at + 900, *who, callback=callback,
                is_intra_process=np.zeros(len(target), np.int32),
            )  # fmt: skip
            self.emit("callback_end", end, *who, callback=callback)
        return reached

    def forwarded(self, published: Ints) -> Ints:
        """Return when the first subscription's callback publishes the messages it received."""
        return published + self.delay + 1_000

    def truth_rows(
        self, layer: int, topic: Ints, published: Ints, arrived: Bools,
        **times: Ints,
    ) -> pl.DataFrame:  # fmt: skip
        """Return rows of the truth; messages that were not taken get no times."""
        return pl.DataFrame(
            {
                "topic": self.topic_names(layer, topic),
                "publisher_node": [f"/{name}" for name in self.node_names(layer, topic)],
                "subscription_node": [f"/{name}" for name in self.node_names(layer + 1, topic)],
                "publisher_vpid": self.process(layer, topic).astype(np.int32),
                "subscription_vpid": self.process(layer + 1, topic).astype(np.int32),
                "publish_ns": published,
                "source_timestamp_ns": self.stamp(topic, published),
                **times,
            }
        ).with_columns(pl.when(pl.lit(pl.Series(arrived))).then(pl.col(*times)))

    def emit(self, name: str, times: Ints, process: Ints, thread: Ints, **columns: object) -> None:
        who = {"vpid": process.astype(np.int32), "vtid": thread.astype(np.int32)}
        frame = pl.DataFrame({"time_ns": times, **who, **columns})
        self.parts.setdefault(name, []).append(frame)

    def result(self) -> MadeUp:
        events = {name: pl.concat(frames).sort("time_ns") for name, frames in self.parts.items()}
        return MadeUp(events, pl.concat(self.truth))


def _pointers(kind: int, index: Ints) -> NDArray[np.uint64]:
    return ((kind << 40) + index * 0x100).astype(np.uint64)


def _messages(layer: int, number: Ints) -> NDArray[np.uint64]:
    return (0x7F00_0000_0000 + layer * 0x10_0000 + number % 1024 * 0x100).astype(np.uint64)
