"""Define chains, and the tables in which their messages are found."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import polars as pl

from roslens.analysis.flow.call_flow import with_calls
from roslens.analysis.flow.links import Link, declared_links
from roslens.collectors.ros2.callbacks import is_callback
from roslens.recording import UsageError

_ARROW = " -> "


class Tables(Protocol):
    """Tables by name, as ``rl.open`` returns them."""

    def table(self, name: str) -> pl.LazyFrame: ...  # noqa: D102


@dataclass(frozen=True)
class Chain:
    """Nodes and the topics between them: node, topic, node, topic, ..., node."""

    path: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.path) < 3 or len(self.path) % 2 == 0:
            raise UsageError(
                f"chain {self}: expected node, topic, node and so on, ending with a node"
            )

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse text such as ``/camera -> /image -> /detector``.

        Raises
        ------
        UsageError
            The text does not end with a node.
        """
        return cls(tuple(name.strip() for name in text.split(_ARROW.strip())))

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes, one more than there are topics."""
        return self.path[::2]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics."""
        return self.path[1::2]

    def __str__(self) -> str:
        return _ARROW.join(self.path)


Flow = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, list[Link]]
"""Messages, publications, callback instances and declared links."""


class HeldFlow:
    """The tables in which chains are found, read once for many chains.

    Parameters
    ----------
    tables
        Tables of one run or of several.
    runs
        The runs that count; none: all.
    """

    def __init__(self, tables: Tables, runs: Sequence[str] | None = None) -> None:
        messages, publications, instances, links = flow_tables(tables)
        if runs is not None:
            counts = pl.col("run").is_in(list(runs))
            messages, publications, instances = (
                frame.filter(counts) for frame in (messages, publications, instances)
            )
        self.flow: Flow = (messages, publications, instances, links)
        self._tables = tables

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table that is not part of the flow, of all runs."""
        return self._tables.table(name)


def flow_tables(tables: Tables, *, calls: bool = True) -> Flow:
    """Return messages, publications, callback instances and declared links.

    With `calls`, service calls and action goals are among the messages
    (`roslens.analysis.flow.call_flow`).
    """
    if calls and isinstance(tables, HeldFlow):
        return tables.flow
    frames = [tables.table(n) for n in ("messages", "publications", "callback_instances")]
    frames[-1] = frames[-1].filter(is_callback())
    messages, publications, instances = pl.collect_all(frames)
    if calls:
        more = pl.collect_all([tables.table(n) for n in ("service_calls", "action_goals")])
        messages, publications, instances = with_calls(messages, publications, instances, *more)
    return (
        messages,
        publications,
        instances,
        declared_links(tables.table("message_links").collect()),
    )
