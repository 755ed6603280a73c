"""Join publications and takes, and give each message its row, by the rules of docs/model.md."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from reference_model.communication import KINDS
from reference_model.events import FOREVER, Proc, Row, column, first, grouped
from reference_model.gaps import Gaps
from reference_model.objects import DISCOVERY, Objects
from reference_model.outcomes import BEFORE, NO_SUBSCRIBER, NOBODY_KNOWN, PENDING, decide

GRACE_NS = 10**9
TOLERANCE_NS = 10**7
SAME, BUFFER, SHARED = "same_timestamp", "ring_buffer", "shared_timestamp"
NEAREST, ALONE, IN_ORDER = "nearest_timestamp", "timestamp_alone", "in_order"
FIRST_MISSING, NEXT_CALLBACK, BROKEN = "first_event_missing", "callback_unknown", "order_broken"
MATCH = {None: None, SAME: "exact", BUFFER: "exact", SHARED: "ambiguous"}
"""The match of joined rows, by how they were joined; all others are approximate."""
OF_CALL = ("publish_ns", "rcl_publish_ns", "rmw_publish_ns", "_publisher")
OF_TAKE = ("received_ns", "take_ns", "rclcpp_take_ns", "callback_start_ns", "callback_end_ns",
           "_callback_instance", "_next")  # fmt: skip
Joined: TypeAlias = tuple[Row, Row | None, str, Row]
"""Publication, subscription, how they were joined, and the take."""


def messages(
    objects: Objects, gaps: Gaps, happened: set[str], *, publications: Iterable[Row],
    takes: Iterable[Row], enqueued: Iterable[Row], instances: Iterable[Row],
    bounds: Mapping[tuple[str, str], int],
) -> tuple[list[Row], list[Row]]:  # fmt: skip
    """Return the rows of messages, and the takes without a publication."""
    calls = [call for call in publications if call["topic"] != DISCOVERY]
    takes = [take for take in takes if take["topic"] != DISCOVERY]
    between = [take for take in takes if not take["intra_process"]]
    _add_timestamps(calls, between)
    joined, takes_alone = _by_timestamp(calls, between)
    for s in objects.rows["subscriptions"]:
        # How far the clock of each publisher's host may be apart from that of the subscription's.
        host = s["_proc"][0]
        s["_apart"] = {call["host"]: bounds.get((call["host"], host), FOREVER) for call in calls}
        s["_apart"][host] = 0
    pairs = _pairs(calls, objects, gaps)
    for s in objects.rows["subscriptions"]:
        ran = [
            i for i in instances
            if i["_owner"] is s and i["kind"] == "subscription" and not i["intra_process"]
        ]  # fmt: skip
        s["_untaken"] = ran and not any(take["_subscription"] is s for take in between)
        if s["_untaken"]:
            joined += _by_order([call for call, of in pairs if of is s], s, ran)
    rows = _rows(enqueued, pairs, joined)
    with_rows = {id(row["_call"]) for row in rows}
    last_made = max((s["created_ns"] for s in objects.rows["subscriptions"]), default=-1)
    lost_since = min((max(begin, 0) for *_, begin, _ in gaps.losses), default=FOREVER)
    nameless = any(take["topic"] is None for take in takes)
    for call in (call for call in calls if id(call) not in with_rows):
        unheard = nameless or lost_since <= min(last_made, call["publish_ns"])
        fate = NOBODY_KNOWN if unheard or call["topic"] is None else NO_SUBSCRIBER
        rows.append(_row(call, None, fate=fate))
    rows.sort(key=lambda r: (first(r["publish_ns"], FOREVER), first(r["take_ns"], FOREVER)))
    _weaken(rows, gaps, happened)
    decide(rows, calls, takes_alone, objects, gaps, takes_recorded="rmw_take" in happened)
    for row in rows:
        row |= {"match": MATCH.get(row["_how"], "approximate"), "clock_bound_ns": None}
        hosts = row["publisher_host"], column(row["_callback_instance"], "host")
        if row["latency_ns"] is not None and hosts[0] != hosts[1]:
            bound = row["clock_bound_ns"] = bounds.get(hosts)
            if bound is None or row["latency_ns"] <= bound:
                row["latency_ns"] = None
    return rows, takes_alone


def _add_timestamps(calls: Iterable[Row], takes: Iterable[Row]) -> None:
    """Give publications without a timestamp the one that was taken soonest after them."""
    unstamped, published = defaultdict(list), set()
    for call in calls:
        call["_key"], call["_estimated"] = call["source_timestamp_ns"], False
        published.add((call["topic"], call["_key"]))
        moment = first(call["rmw_publish_ns"], call["rcl_publish_ns"])
        if call["_key"] is None and moment is not None:
            unstamped[call["topic"]].append((moment, call))
    for of_topic in unstamped.values():
        of_topic.sort(key=itemgetter(0))
    stamps = {(take["topic"], take["source_timestamp_ns"]) for take in takes} - published
    for topic, stamp in sorted(pair for pair in stamps if None not in pair):
        before = bisect_right(unstamped[topic], stamp, key=itemgetter(0))
        moment, call = unstamped[topic][before - 1] if before else (-FOREVER, {})
        if stamp - moment <= TOLERANCE_NS and call["_key"] is None:
            call |= {"_key": stamp, "_estimated": True}


def _by_timestamp(calls: Iterable[Row], takes: Iterable[Row]) -> tuple[list[Joined], list[Row]]:
    """Join by topic and timestamp; return the takes that remain, too."""
    sent = grouped(calls, itemgetter("topic", "_key"))
    stamped = grouped(calls, itemgetter("_key"))
    received = grouped(
        takes, lambda t: (t["topic"], t["source_timestamp_ns"], id(t["_subscription"]))
    )
    joined: list[Joined] = []
    takes_alone = []
    for (topic, stamp, _), same in received.items():
        partners = [] if None in {topic, stamp} else sent[topic, stamp]
        for call, take in zip(partners, same, strict=False):
            how = NEAREST if call["_estimated"] else SAME
            how = SHARED if len(partners) > 1 else how
            joined.append((call, take["_subscription"], how, take))
        for take in same[len(partners) :]:
            alone = stamped[stamp]
            known = stamp is not None and len(alone) == 1
            if known and None in {topic, alone[0]["topic"]}:
                joined.append((alone[0], take["_subscription"], ALONE, take))
            else:
                takes_alone.append(take)
    return joined, takes_alone


def _pairs(calls: Iterable[Row], objects: Objects, gaps: Gaps) -> list[tuple[Row, Row]]:
    """Pair each publication with each subscription of its topic that existed then."""
    named = (s for s in objects.rows["subscriptions"] if s["topic"] not in {None, DISCOVERY})
    by_topic = grouped(named, itemgetter("topic"))
    pairs: list[tuple[Row, Row]] = []
    first_after: dict[int, int] = {}
    host_ends: dict[str, int] = {}
    for process in objects.processes.values():
        host, end = process["host"], process["end_ns"]
        host_ends[host] = max(end, host_ends.get(host, end))
    for call in calls:
        now = call["publish_ns"]
        for s in by_topic[call["topic"]]:
            earliest, latest = now - s["_apart"][call["host"]], now + s["_apart"][call["host"]]
            if s["created_ns"] <= latest and earliest < first(s["ended_ns"], FOREVER):
                last_seen = objects.processes.get(s["_proc"], {"end_ns": now})["end_ns"]
                silent = earliest > last_seen and latest <= host_ends[s["_proc"][0]]
                silent = silent and s["_proc"] not in gaps.running
                first_one = first_after.setdefault(id(s), now) if silent else now
                gone = silent and earliest > max(first_one, last_seen + GRACE_NS)
                if not gone or gaps.dropped(s["_proc"], last_seen, latest):
                    pairs.append((call, s))
    return pairs


def _by_order(calls: Sequence[Row], subscription: Row, ran: Sequence[Row]) -> list[Joined]:
    """Join publications and executions of a subscription without recorded takes, in order."""
    calls = [call for call in calls if call["intra_publish_ns"] is None]
    times, starts = [call["publish_ns"] for call in calls], [i["start_ns"] for i in ran]
    if len(calls) != len(ran) or any(a > b for a, b in zip(times, starts, strict=True)):
        # The latest publication before each start, if they all differ.
        places = [bisect_right(times, start) - 1 for start in starts]
        if -1 in places or len(set(places)) < len(places):
            return []
        calls = [calls[place] for place in places]
    return [
        (call, subscription, IN_ORDER, {
            "callback_start_ns": i["start_ns"], "callback_end_ns": i["end_ns"],
            "_callback_instance": i,
        })
        for call, i in zip(calls, ran, strict=True)
    ]  # fmt: skip


def _rows(
    enqueued: Iterable[Row], pairs: Iterable[tuple[Row, Row]], joined: Iterable[Joined]
) -> list[Row]:
    """Make rows of what was put into ring buffers, of all pairs, and of what else was taken."""
    rows = []
    paired, nowhere = set(), set()
    by_pair: dict[Any, tuple[str, Row]] = {}
    for put in enqueued:
        call, subscription = put["_call"], column(put["_event"]["of"], "_subscription")
        how = BUFFER if call and put["_fate"] != PENDING else None
        row = _row(call, subscription, how, put["_take"], fate=put["_fate"], buffered=put["_proc"])
        rows.append(row)
        paired.add((id(call), id(subscription)))
        if subscription is None:
            nowhere.add(id(call))
    for call, subscription, how, take in joined:
        by_pair.setdefault((id(call), id(subscription)), (how, take))
    for call, subscription in pairs:
        pair = (id(call), id(subscription))
        if pair not in paired:
            paired.add(pair)
            fate = PENDING if id(call) in nowhere and pair not in by_pair else None
            rows.append(_row(call, subscription, *by_pair.get(pair, ()), fate=fate))
    for call, subscription, how, take in joined:
        if subscription is None or (id(call), id(subscription)) not in paired:
            # If it is not younger, the publisher is not known; it was no late joiner.
            late = False
            if subscription is not None:
                latest = call["publish_ns"] + subscription["_apart"][call["host"]]
                late = subscription["created_ns"] > latest
            rows.append(_row(call, subscription, how, take, fate=BEFORE if late else None))
    return rows


def _row(
    call: Row | None, subscription: Row | None, how: str | None = None, take: Row | None = None,
    *, fate: str | None = None, buffered: Proc | None = None,
) -> Row:  # fmt: skip
    """Make a row; `buffered` is the process in which it was put into a ring buffer."""
    of_call, of_take, intra = call or {}, take or {}, buffered is not None
    proc, sub_proc = of_call.get("_proc"), None if call else buffered
    sub_proc = subscription["_proc"] if subscription else sub_proc
    row = {name: of_call.get(name) for name in OF_CALL}
    row |= {name: of_take.get(name) for name in OF_TAKE}
    publish, take_ns, start = row["publish_ns"], row["take_ns"], row["callback_start_ns"]
    topic, stamp = column(subscription, "topic"), of_call.get("header_stamp_ns")
    below = first(row["rcl_publish_ns"], row["rmw_publish_ns"])
    return row | {
        "_call": call, "_subscription": subscription, "_how": how, "_fate": fate,
        "_apart": subscription["_apart"][call["host"]] if call and subscription else 0,
        "_sub_proc": sub_proc, "_below": below, "_taken": first(take_ns, start),
        "_pushed": first(row["rmw_publish_ns"], below, publish),
        "source_timestamp_ns": of_call.get("_key"),
        "publisher_node": of_call.get("node"), "subscription_node": column(subscription, "node"),
        "publisher_host": column(proc, 0), "publisher_vpid": column(proc, 2),
        "subscription_host": column(sub_proc, 0), "subscription_vpid": column(sub_proc, 2),
        "host": column(proc or sub_proc, 0),
        "topic": of_call.get("topic") or (None if topic == DISCOVERY else topic),
        "intra_process": intra if intra or subscription or take_ns is not None else None,
        "data_age_ns": None if None in {take_ns, stamp} else take_ns - stamp,
        "latency_ns": None if None in {start, publish} else start - publish,
    }  # fmt: skip


def _weaken(rows: Sequence[Row], gaps: Gaps, happened: set[str]) -> None:
    """Find the joined rows that are not exact because events are missing."""
    begins = {id(r["_publisher"]) for r in rows if r["_below"] not in {None, r["publish_ns"]}}
    begins -= {id(None)}
    for row in (row for row in rows if row["_how"] in {SAME, BUFFER}):
        since, until, call = row["publish_ns"], row["_taken"], row["_call"]
        late = id(row["_publisher"]) in begins and since == row["_below"]
        earlier = KINDS[: KINDS.index(call["_first"]["event"])]
        if row["_how"] == SAME and (late or (call["_cut"] and not happened.isdisjoint(earlier))):
            row["_how"] = FIRST_MISSING
        elif row["_next"]:
            row["_how"] = NEXT_CALLBACK
        elif until is not None and any(
            gaps.disordered(proc, since, until) for proc in {call["_proc"], row["_sub_proc"]}
        ):
            row["_how"] = BROKEN


def one_sided_messages(
    takes: Iterable[Row], publications: Iterable[Row], objects: Objects, synchronisation: str | None
) -> list[Row]:
    """Make a row per take whose publication was not recorded."""
    topics = {p["topic"] for p in objects.rows["publishers"]} - {None}
    offsets = defaultdict(list)
    for call in publications:
        published, stamp = call["rmw_publish_ns"], call["source_timestamp_ns"]
        if None not in {published, stamp}:
            offsets[call["host"]].append((published, stamp - published))
    rows = []
    for take in takes:
        stamp, start = take["source_timestamp_ns"], take["callback_start_ns"]
        known = sorted(offsets[take["host"]], key=itemgetter(0))
        later = bisect_left(known, take["take_ns"], key=itemgetter(0))
        around = reversed(known[max(later - 1, 0) : later + 1])
        offset = min(around, key=lambda o: abs(o[0] - take["take_ns"]), default=(0, None))[1]
        sent = None if stamp is None else stamp - (offset or 0)
        made = column(take["_subscription"], "created_ns")
        replayed = None not in {made, sent} and sent < made
        rows.append(take | {
            "_take": take, "subscription_node": take["node"], "clock_offset_ns": offset,
            "publisher_recorded": None if take["topic"] is None else take["topic"] in topics,
            "latency_ns": None if replayed or None in {start, sent} else start - sent,
            "synchronisation": synchronisation,
            "outcome": "replayed" if replayed else "taken" if start is None else "delivered",
        })  # fmt: skip
    return rows
