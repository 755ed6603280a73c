"""Test the chains of random graphs against the messages of a simulation."""

from collections import deque
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from synthetic import Tables

from roslens.analysis.flow.flow_graph import find_chains
from roslens.recording import UsageError

NODES = [f"/n{k}" for k in range(5)]
TOPICS = [f"/t{k}" for k in range(5)]
UNTRACED = None
Rules = dict[tuple[str, str], list[str]]
"""What a node publishes in the callback of a topic: (node, topic received) -> topics."""


class Sent:
    """The messages of a graph; `hops`, (publisher, topic, receiver), by the message they took."""

    def __init__(self, begins: list[tuple[str | None, str]], rules: Rules) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("messages", "publications", "callback_instances")
        }
        self.forwarded: set[tuple[str, str, str]] = set()
        self.turns: set[tuple[str, str, str, str, str]] = set()
        queue: deque[tuple[str | None, str, int | None, tuple[str, str | None] | None]] = deque(
            (node, topic, None, None) for node, topic in begins
        )
        seen = set()
        number = -1
        while queue:
            node, topic, within, received = queue.popleft()
            if (node, topic, received) in seen:  # or cycles would not end
                continue
            seen.add((node, topic, received))
            number += 1
            if node is not UNTRACED:
                self.rows["publications"].append(
                    {"message_id": number, "topic": topic, "node": node, "publish_ns": number,
                     "callback_instance_id": within}
                )  # fmt: skip
            for receiver in sorted({n for n, inlet in rules if inlet == topic}):
                self._deliver(number, node, topic, receiver, rules[receiver, topic])
                instance = len(self.rows["callback_instances"]) - 1
                queue.extend((receiver, t, instance, (topic, node)) for t in rules[receiver, topic])
                if within is not None and received is not None and received[1] is not UNTRACED:
                    assert node is not UNTRACED
                    self.turns.add((received[1], received[0], node, topic, receiver))

    def _deliver(
        self, number: int, node: str | None, topic: str, receiver: str, outlets: list[str]
    ) -> None:
        instance = len(self.rows["callback_instances"])
        self.rows["callback_instances"].append(
            {"callback_instance_id": instance, "kind": "subscription", "name": topic,
             "node": receiver, "start_ns": number, "end_ns": number + 1}
        )  # fmt: skip
        self.rows["messages"].append(
            {"message_id": number, "topic": topic, "publisher_node": node,
             "subscription_node": receiver, "callback_instance_id": instance,
             "outcome": "delivered", "reason": "same_timestamp"}
        )  # fmt: skip
        if node is not UNTRACED and outlets:
            self.forwarded.add((node, topic, receiver))

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table as a recording gives it."""
        return Tables(**self.rows).table(name).with_columns(host=pl.lit("h0"))


begins = st.lists(
    st.tuples(st.sampled_from([UNTRACED, *NODES]), st.sampled_from(TOPICS)),
    min_size=1, max_size=4, unique=True,
)  # fmt: skip
rules = st.dictionaries(
    st.tuples(st.sampled_from(NODES), st.sampled_from(TOPICS)),
    st.lists(st.sampled_from(TOPICS), max_size=3, unique=True),
    min_size=1,
    max_size=10,
)


@settings(max_examples=150)
@given(begins, rules)
def test_each_delivered_message_whose_callback_published_is_a_hop_of_some_chain(
    begins: list[tuple[str | None, str]], rules: Rules
) -> None:
    """This holds whether or not a subscription exists, and each node leads to what it caused."""
    sent = Sent(begins, rules)
    try:
        paths = [chain.path for chain in find_chains(sent)]
    except UsageError:
        assume(False)
    hops = {p[k : k + 3] for p in paths for k in range(0, len(p) - 2, 2)}
    assert sent.forwarded <= hops
    turns = {p[k : k + 5] for p in paths for k in range(0, len(p) - 4, 2)}
    assert turns <= sent.turns
    assert {turn[1:4] for turn in turns} == {turn[1:4] for turn in sent.turns}
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize(
    ("begins", "rules", "expected"),
    [
        # An untraced driver receives /t2: the chain ends where it is published.
        (
            [("/n0", "/t0")],
            {("/n1", "/t0"): ["/t1"], ("/n2", "/t1"): ["/t2"]},
            ["/n0 -> /t0 -> /n1 -> /t1 -> /n2"],
        ),
        # Only one of two outputs has a subscription.
        (
            [("/n0", "/t0")],
            {("/n1", "/t0"): ["/t1", "/t3"], ("/n2", "/t1"): []},
            ["/n0 -> /t0 -> /n1 -> /t1 -> /n2"],
        ),
        # The trigger of /n1 is not traced.
        (
            [(UNTRACED, "/t0")],
            {("/n1", "/t0"): ["/t1"], ("/n2", "/t1"): ["/t2"]},
            ["/n1 -> /t1 -> /n2"],
        ),
        # What started the two is not traced, either.
        (
            [(UNTRACED, "/t0")],
            {("/n1", "/t0"): ["/t1"], ("/n2", "/t1"): ["/t0"]},
            ["/n1 -> /t1 -> /n2 -> /t0 -> /n1 -> /t1 -> /n2"],
        ),
    ],
)
def test_chains_by_hand(
    begins: list[tuple[str | None, str]], rules: Rules, expected: list[str]
) -> None:
    assert [str(chain) for chain in find_chains(Sent(begins, rules))] == expected
