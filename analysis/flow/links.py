"""Read links between a node's input and output, beyond publishing in the callback.

Recordings declare links with ``message_link_*`` events (from 2026 on), or a YAML file does::

    links:
      - kind: partial_sync
        node: /fusion
        subscriptions: [/left, /right]
        publishers: [/fused]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

import polars as pl

from roslens.recording import UsageError

LinkKind: TypeAlias = Literal["periodic_async", "partial_sync"]
_KEYS = {"kind", "node", "subscriptions", "publishers"}


@dataclass(frozen=True)
class Link:
    """A link between a subscription and a publisher of a node, by full names of node and topics.

    Attributes
    ----------
    kind
        ``periodic_async``: a publication uses the last message received before it, again and
        again until there is a newer one. ``partial_sync``: a publication happens when the last of
        the subscriptions has received; it uses the last message of each, and each message once.
    """

    kind: LinkKind
    node: str
    subscription: str
    publisher: str


def links_of(entries: object, where: str) -> list[Link]:
    """Parse links from the content of a YAML file.

    Parameters
    ----------
    where
        Name of the file, for error messages.

    Raises
    ------
    UsageError
        The content is not a list of links.
    """
    if not isinstance(entries, list):
        raise UsageError(f"{where}: expected a list under the key 'links'")
    return [
        link
        for number, entry in enumerate(entries, start=1)
        for link in _entry(entry, f"{where}: link {number}")
    ]


def _entry(entry: Any, where: str) -> list[Link]:
    if not isinstance(entry, dict) or set(entry) != _KEYS:
        raise UsageError(f"{where}: expected the keys {', '.join(sorted(_KEYS))}, no others")
    kind, node = entry["kind"], entry["node"]
    if kind not in get_args(LinkKind):
        raise UsageError(f"{where}: kind is {kind!r}, not one of {', '.join(get_args(LinkKind))}")
    ends = [entry["subscriptions"], entry["publishers"]]
    if not isinstance(node, str) or not all(
        isinstance(topics, list) and topics and all(isinstance(t, str) for t in topics)
        for topics in ends
    ):
        raise UsageError(f"{where}: node is a name, subscriptions and publishers are lists of them")
    return [Link(cast("LinkKind", kind), node, s, p) for s in ends[0] for p in ends[1]]


def declared_links(message_links: pl.DataFrame) -> list[Link]:
    """Return the links of a table ``message_links``, without those of unknown ends."""
    rows = (
        message_links.select("kind", "node", "subscription_topic", "publisher_topic")
        .drop_nulls()
        .unique(maintain_order=True)
        .iter_rows()
    )
    return [Link(*row) for row in rows]


def link_between(links: Sequence[Link], node: str, inlet: str, outlet: str) -> LinkKind | None:
    """Return the kind of the first link between these topics, None if there is none."""
    for link in links:
        if (link.node, link.subscription, link.publisher) == (node, inlet, outlet):
            return link.kind
    return None
