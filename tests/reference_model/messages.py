"""Find what became of each publication at each subscription that existed then.

Everything is decided at the end, from the rows that the walk left.

* A message belongs to a publication and a subscription of its topic that existed when it was
  published; unless the subscription's process had gone more than a second and more than one
  publication before, and none of its events may have been dropped since.
* Between processes, a publication and a take are the same message if topic and source timestamp
  are equal: `SAME`. If several publications share both, the first of them goes with the first
  take of a subscription, and so on: `SHARED`. If the topic of one side is not known, a timestamp
  that no other publication has joins them: `ALONE`.
* Publications without a timestamp (up to Iron) get the one that was taken soonest after them:
  `NEAREST`.
* Within a process, the ring buffer decides: `BUFFER`. A subscription that gets a message in this
  way drops the copy that also comes through the middleware.
* Messages of a subscription whose executions were recorded, but not its takes, are joined by
  order: `IN_ORDER`.
* A match that would be exact is not if the publication lacks the event that others of its
  publisher begin with (`FIRST_MISSING`), or if an order of one of the two processes was broken
  between publication and take (`BROKEN`).
* A message that was taken by a subscription that did not exist when it was published is replayed.
* If no subscription of the topic existed, there is no subscriber; but it is unknown if a
  subscription of unknown topic took anything, or if events may have been dropped before the
  publication, from before the last subscription was made: an init event of one may be missing.

`evidence` decides the outcomes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from reference_model.clocks import BoundsOf, bound_clocks
from reference_model.evidence import NO_SUBSCRIBER, NOBODY_KNOWN, decide, taken
from reference_model.gaps import FOREVER, Gaps
from reference_model.objects import DISCOVERY, Objects, Row
from reference_model.publications import KINDS
from reference_model.ring_buffers import PENDING, REPLAYED

GRACE_NS = 10**9
TOLERANCE_NS = 10**7
SAME, BUFFER, SHARED = "same_timestamp", "ring_buffer", "shared_timestamp"
NEAREST, ALONE, IN_ORDER = "nearest_timestamp", "timestamp_alone", "in_order"
FIRST_MISSING, BROKEN = "first_event_missing", "order_broken"
NEXT_CALLBACK = "callback_unknown"
MATCH = {SAME: "exact", BUFFER: "exact", SHARED: "ambiguous"} | dict.fromkeys(
    (NEAREST, ALONE, IN_ORDER, FIRST_MISSING, NEXT_CALLBACK, BROKEN), "approximate"
)
"""The match of joined rows, by how they were joined."""
_LINKS = ("received_ns", "take_ns", "rclcpp_take_ns", "callback_start_ns", "callback_end_ns")
_EMPTY: Row = dict.fromkeys((*_LINKS, "_callback_instance", "_how", "_fate", "_next"))


class Messages:
    """The rows of messages, and the takes without a publication."""

    def __init__(
        self,
        objects: Objects,
        *,
        publications: Iterable[Row],
        takes: Sequence[Row],
        enqueues: Iterable[Row],
        instances: Iterable[Row],
        gaps: Gaps,
        happened: set[str],
        bounds_of: BoundsOf,
    ) -> None:
        self.objects, self.gaps, self.bounds_of = objects, gaps, bounds_of
        self.calls = sorted(
            (call for call in publications if call["topic"] != DISCOVERY),
            key=lambda call: call["publish_ns"],
        )
        self.inter = [t for t in takes if not t["intra_process"] and t["topic"] != DISCOVERY]
        self.inter.sort(key=lambda take: take["take_ns"])
        self.enqueues = list(enqueues)
        self.ran = [
            i for i in instances
            if i["kind"] == "subscription" and not i["intra_process"] and i["_owner"] is not None
        ]  # fmt: skip
        took = {id(take["_subscription"]) for take in takes if not take["intra_process"]}
        self.untaken = {id(i["_owner"]) for i in self.ran} - took
        """Subscriptions without a recorded take whose callbacks ran."""
        self.happened = happened
        self.nameless = any(take["topic"] is None for take in takes)
        last_created = max((s["created_ns"] for s in objects.rows["subscriptions"]), default=-1)
        begin = min((loss["begin_ns"] or 0 for loss in gaps.rows), default=FOREVER)
        self.unseen_since = begin if begin <= last_created else FOREVER
        self._stamp()
        self._matched = self._by_timestamp()
        self.ends = {proc: process["end_ns"] for proc, process in objects.processes.items()}
        self._pairs = self._existing()
        self._matched += self._by_order()
        self.rows = self._settle(self._rows())

    # ------------------------------------------------------------ timestamps

    def _stamp(self) -> None:
        """Give publications without a timestamp the one that was taken soonest after them."""
        published, unstamped = set(), defaultdict(list)
        for call in self.calls:
            call["_key"], call["_estimated"] = call["source_timestamp_ns"], False
            published.add((call["topic"], call["_key"]))
            moment = _first(call["rmw_publish_ns"], call["rcl_publish_ns"])
            if call["_key"] is None and call["topic"] is not None and moment is not None:
                unstamped[call["topic"]].append((moment, call))
        stamps = {(t["topic"], t["source_timestamp_ns"]) for t in self.inter} - published
        for calls in unstamped.values():
            calls.sort(key=lambda pair: pair[0])
        for topic, stamp in sorted(
            ((t, s) for t, s in stamps if t is not None and s is not None),
            key=lambda pair: pair[1],
        ):
            calls = unstamped[topic]
            before = bisect_right(calls, stamp, key=lambda pair: pair[0])
            if before and stamp - calls[before - 1][0] <= TOLERANCE_NS:
                call = calls[before - 1][1]
                if call["_key"] is None:
                    call["_key"], call["_estimated"] = stamp, True

    def _by_timestamp(self) -> list[Row]:
        sent, received = defaultdict(list), defaultdict(list)
        for call in self.calls:
            if call["topic"] is not None and call["_key"] is not None:
                sent[call["topic"], call["_key"]].append(call)
        for take in self.inter:
            key = take["topic"], take["source_timestamp_ns"]
            if None not in key:
                received[*key, id(take["_subscription"])].append(take)
        matched = []
        for (topic, stamp, _), takes in received.items():
            calls = sent.get((topic, stamp), [])
            for call, take in zip(calls, takes, strict=False):
                how = NEAREST if call["_estimated"] else SAME
                matched.append(_joined(call, take, SHARED if len(calls) > 1 else how))
        joined = {id(row["_take"]) for row in matched}
        unmatched = [take for take in self.inter if id(take) not in joined]
        stamped = defaultdict(list)
        for call in self.calls:
            stamped[call["_key"]].append(call)
        self.takes_alone = []
        for take in unmatched:
            calls = stamped[take["source_timestamp_ns"]]
            known = take["source_timestamp_ns"] is not None and len(calls) == 1
            if known and None in {take["topic"], calls[0]["topic"]}:
                matched.append(_joined(calls[0], take, ALONE))
            else:
                self.takes_alone.append(take)
        return matched

    # ------------------------------------------------------------ who existed

    def _existing(self) -> list[tuple[Row, Row]]:
        """Pair each publication with each subscription of its topic that existed then."""
        by_topic = defaultdict(list)
        for subscription in self.objects.rows["subscriptions"]:
            if subscription["topic"] not in {None, DISCOVERY}:
                by_topic[subscription["topic"]].append(subscription)
        pairs, first_after = [], {}
        for call in self.calls:
            now = call["publish_ns"]
            for s in by_topic[call["topic"]]:
                ended = FOREVER if s["ended_ns"] is None else s["ended_ns"]
                if not s["created_ns"] <= now < ended:
                    continue
                last_seen = self.ends.get(s["_proc"], now)
                first = first_after.setdefault(id(s), now) if now > last_seen else now
                if now > max(first, last_seen + GRACE_NS) and not self.gaps.dropped(
                    s["_proc"], last_seen, now
                ):
                    continue
                pairs.append((call, s))
        return pairs

    def _by_order(self) -> list[Row]:
        """Join publications and executions of subscriptions without recorded takes, in order."""
        matched = []
        for subscription in self.objects.rows["subscriptions"]:
            if id(subscription) not in self.untaken:
                continue
            calls = [
                call for call, s in self._pairs
                if s is subscription and call["intra_publish_ns"] is None
            ]  # fmt: skip
            starts = [i for i in self.ran if i["_owner"] is subscription]
            if len(calls) == len(starts) and all(
                i["start_ns"] >= call["publish_ns"] for call, i in zip(calls, starts, strict=True)
            ):
                chosen = calls
            else:
                # The latest publication before each start, if they all differ.
                times = [call["publish_ns"] for call in calls]
                places = [bisect_right(times, i["start_ns"]) - 1 for i in starts]
                if -1 in places or len(set(places)) < len(places):
                    continue
                chosen = [calls[p] for p in places]
            matched += [
                _EMPTY | {
                    "_call": call, "_subscription": subscription, "_how": IN_ORDER,
                    "callback_start_ns": i["start_ns"], "callback_end_ns": i["end_ns"],
                    "_callback_instance": i, "_take": None,
                }
                for call, i in zip(chosen, starts, strict=True)
            ]  # fmt: skip
        return matched

    # ------------------------------------------------------------ rows

    def _unheard(self, call: Row) -> bool:
        """Whether a subscription that is not known could have taken the message."""
        late = self.unseen_since <= call["publish_ns"]
        return call["topic"] is None or self.nameless or late

    def _rows(self) -> list[Row]:
        buffered = [self._through_a_buffer(enqueue) for enqueue in self.enqueues]
        published = [row for row in buffered if row["_call"] is not None]
        within = {_pair(row) for row in published}
        nowhere = {id(row["_call"]) for row in published if row["_subscription"] is None}
        by_pair: dict[Any, Row] = {}
        for row in self._matched:
            by_pair.setdefault(_pair(row), row)
        between = []
        for call, subscription in self._pairs:
            pair = {"_call": call, "_subscription": subscription}
            if _pair(pair) not in within:
                row = _EMPTY | by_pair.get(_pair(pair), pair)
                if row["_how"] is None and id(call) in nowhere:
                    row["_fate"] = PENDING
                between.append(row)
        paired = within | {_pair(row) for row in between}
        unpaired = [
            _EMPTY | row | {"_fate": REPLAYED if row["_subscription"] else None}
            for row in self._matched
            if row["_subscription"] is None or _pair(row) not in paired
        ]
        with_rows = {id(row["_call"]) for row in (*buffered, *between, *unpaired)}
        unheard = [
            _EMPTY | {
                "_call": call, "_subscription": None,
                "_fate": NOBODY_KNOWN if self._unheard(call) else NO_SUBSCRIBER,
            }
            for call in self.calls
            if id(call) not in with_rows
        ]  # fmt: skip
        return [*buffered, *between, *unpaired, *unheard]

    @staticmethod
    def _through_a_buffer(enqueue: Row) -> Row:
        buffer, call, take = enqueue["_buffer"], enqueue["_call"], enqueue["_take"]
        row = _EMPTY | {
            "_call": call,
            "_subscription": buffer and buffer["_subscription"],
            "intra_process": True,
            "_fate": enqueue["_fate"],
            "_sub_proc": enqueue["_proc"] if call is None else None,
        }
        if take is not None:
            row |= {name: take[name] for name in (*_LINKS, "_callback_instance", "_next")}
        if call is not None and enqueue["_fate"] != PENDING:
            row["_how"] = BUFFER
        return row

    # ------------------------------------------------------------ outcomes

    def _settle(self, rows: list[Row]) -> list[Row]:
        for row in rows:
            self._fill(row)
        rows.sort(key=lambda r: (_last(r["publish_ns"]), _last(r["take_ns"])))
        self._weaken(rows)
        self._learn(rows)
        connections = defaultdict(list)
        for row in rows:
            if not row["intra_process"] and row["_fate"] != REPLAYED:
                connections[_connection(row)].append(row)
        for row in rows:
            row["outcome"], row["reason"] = decide(row, connections[_connection(row)], self)
            row["match"] = MATCH.get(row["_how"])
        bound_clocks(rows, self.bounds_of)
        return rows

    def _learn(self, rows: Iterable[Row]) -> None:
        """Collect the facts about the whole recording that the rules need."""
        times = Counter((call["topic"], call["_key"]) for call in self.calls)
        self.shared = {key for key, count in times.items() if count > 1 and None not in key}
        """Topic and source timestamp of several publications."""
        self.longest: dict[int, int] = {}
        """The longest time that a message of each subscription waited until it was taken or ran."""
        for row in rows:
            subscription, taken_ns = id(row["_subscription"]), taken(row)
            counts = row["_subscription"] is not None and row["_fate"] != REPLAYED
            if counts and taken_ns is not None and row["publish_ns"] is not None:
                waited = taken_ns - row["publish_ns"]
                self.longest[subscription] = max(self.longest.get(subscription, waited), waited)
        self.strays = defaultdict(list)
        """When each subscription took messages without a known publication."""
        for take in self.takes_alone:
            self.strays[id(take["_subscription"])].append(take["take_ns"])

    def _weaken(self, rows: Iterable[Row]) -> None:
        """Find the joined rows that are not exact because events are missing."""
        begins = {
            id(row["_publisher"])
            for row in rows
            if _above(row) is not None and row["publish_ns"] < _above(row)
        }
        for row in rows:
            first, until = row["publish_ns"], taken(row)
            of_rclcpp = row["_publisher"] is not None and id(row["_publisher"]) in begins
            starts_late = of_rclcpp and first == _above(row)
            if row["_how"] == SAME and (starts_late or self._may_lack_its_first(row["_call"])):
                row["_how"] = FIRST_MISSING
            if row["_how"] in {SAME, BUFFER} and row["_next"]:
                row["_how"] = NEXT_CALLBACK
            if row["_how"] in {SAME, BUFFER} and until is not None and any(
                self.gaps.disordered(proc, first, until)
                for proc in {row["_call"]["_proc"], row["_sub_proc"]}
            ):  # fmt: skip
                row["_how"] = BROKEN

    def _may_lack_its_first(self, call: Row) -> bool:
        """Whether a gap is before its first event, and an event that comes earlier happens."""
        kinds = list(KINDS)
        first = next(n for n, kind in enumerate(kinds) if call[KINDS[kind]] is not None)
        return call["_cut"] and not self.happened.isdisjoint(kinds[:first])

    def _fill(self, row: Row) -> None:
        call, subscription = row["_call"] or {}, row["_subscription"]
        created = subscription and subscription["created_ns"]
        publish = row["publish_ns"] = call.get("publish_ns")
        if row["_fate"] == REPLAYED and None not in {publish, created} and publish >= created:
            # The publisher is not known, and the subscription was no late joiner.
            row["_fate"] = None
        row["rcl_publish_ns"] = call.get("rcl_publish_ns")
        row["rmw_publish_ns"] = call.get("rmw_publish_ns")
        row["source_timestamp_ns"] = call.get("_key")
        row["_publisher"] = call.get("_publisher")
        row["publisher_node"] = call.get("node")
        topic = subscription["topic"] if subscription else None
        row["topic"] = call.get("topic") or (None if topic == DISCOVERY else topic)
        row["subscription_node"] = subscription and subscription["node"]
        row["_sub_proc"] = subscription["_proc"] if subscription else row.get("_sub_proc")
        sides = {"publisher": call.get("_proc"), "subscription": row["_sub_proc"]}
        for side, proc in sides.items():
            row[f"{side}_host"], row[f"{side}_vpid"] = (proc[0], proc[2]) if proc else (None, None)
        row["host"] = row["publisher_host"] or row["subscription_host"]
        if subscription is not None or row["take_ns"] is not None:
            row["intra_process"] = bool(row.get("intra_process"))
        else:
            row.setdefault("intra_process", None)
        start = row["callback_start_ns"]
        take, stamp = row["take_ns"], call.get("header_stamp_ns")
        row["data_age_ns"] = None if None in {take, stamp} else take - stamp
        row["latency_ns"] = None if None in {start, publish} else start - publish


def _pair(row: Row) -> tuple[int, int]:
    return id(row["_call"]), id(row["_subscription"])


def _connection(row: Row) -> tuple[int, int]:
    return id(row["_publisher"]), id(row["_subscription"])


def _above(row: Row) -> int | None:
    """Return the time of the first event below rclcpp."""
    return _first(row["rcl_publish_ns"], row["rmw_publish_ns"])


def _joined(call: Row, take: Row, how: str) -> Row:
    return {
        "_call": call,
        "_take": take,
        "_subscription": take["_subscription"],
        "_callback_instance": take["_callback_instance"],
        "_next": take["_next"],
        "_how": how,
        **{name: take[name] for name in _LINKS},
    }


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _last(value: int | None) -> int:
    return FOREVER if value is None else value
