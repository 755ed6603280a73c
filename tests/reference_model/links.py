"""Links that nodes declare between what they receive and what they publish.

Decided when the event comes: which subscriptions and publishers its handles name. Each pair is one
row.
"""

from __future__ import annotations

from reference_model.events import Event
from reference_model.objects import Objects, Row
from reference_model.walk import place


class Links:
    """Declared links. To be told after `Objects`."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.rows: list[Row] = []
        self._count = 0

    def on_message_link_periodic_async(self, e: Event) -> None:
        self._declare(e, "periodic_async")

    def on_message_link_partial_sync(self, e: Event) -> None:
        self._declare(e, "partial_sync")

    def _declare(self, e: Event, kind: str) -> None:
        for sub in e["subs"] or [None]:
            for pub in e["pubs"] or [None]:
                self.rows.append(
                    {
                        **place(e),
                        "link_id": self._count,
                        "kind": kind,
                        "declared_ns": e["time_ns"],
                        "_subscription": self.objects.now("subscription_handle", e["proc"], sub),
                        "_publisher": self.objects.now("publisher_handle", e["proc"], pub),
                    }
                )
        self._count += 1

    def finish(self) -> None:
        for row in self.rows:
            subscription, publisher = row["_subscription"], row["_publisher"]
            row["subscription_topic"] = subscription and subscription["topic"]
            row["publisher_topic"] = publisher and publisher["topic"]
            of = [end["node"] for end in (subscription, publisher) if end and end["node"]]
            row["node"] = of[0] if of else None
