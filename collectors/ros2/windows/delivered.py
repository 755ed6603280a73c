"""Messages: rows by stretch of their publication, settled once all of them are known."""

from __future__ import annotations

from bisect import bisect_right

import polars as pl

from roslens.collectors.ros2.approximate import ORDERED, TOLERANCE_NS, by_order, ran, without_takes
from roslens.collectors.ros2.clock_bounds import (
    CROSSINGS,
    crossings_of,
    joined,
    with_bounds,
)
from roslens.collectors.ros2.evidence import (
    ABOVE,
    AFTER,
    AHEAD,
    ATTEMPTS,
    BEFORE,
    FOLLOWED,
    HINTS,
    OF_PROCESS,
    ORDINARY,
    STRAYS,
    Around,
    above,
    attempts,
    first_of_each,
    first_pushed,
    hints,
    hints_of_process,
    last_taken,
    next_taken,
    ordinary,
    weigh,
)
from roslens.collectors.ros2.health import OfMessages, untold_messages, ways_of
from roslens.collectors.ros2.messages import existing_pairs, message_rows, public, without_gone
from roslens.collectors.ros2.one_sided import find_one_sided
from roslens.collectors.ros2.outcomes import Bounds, bounds_of, fate_of, first_taken, settle
from roslens.collectors.ros2.types import I64, NAME
from roslens.collectors.ros2.windows.buckets import Buckets
from roslens.collectors.ros2.windows.calls import OfPublications, near_stamps
from roslens.collectors.ros2.windows.matched import Matches
from roslens.collectors.ros2.windows.run import Run, frame_of, number_of
from roslens.collectors.work import State

_WAY = ["publisher_id", "subscription_id"]
_LATER = {"publisher_id": I64, "subscription_id": I64, "later_ns": I64}
_FOLLOWING = {"later": _LATER, "after": AFTER, "ahead": AHEAD}
"""What the rows of a stretch need of those after it."""


def find_delivered(
    run: Run,
    of: OfPublications,
    matches: Matches,
    linked: Buckets,
    *,
    losses: pl.DataFrame,
    synchronisation: str | None,
) -> OfMessages:
    """All messages and the takes without one; the two counts that this does not see are 0."""
    untaken = _without_takes(run)
    ordered = _by_order(run, of, untaken)
    raw = Buckets(run.work, "unsettled")
    firsts = {name: Buckets(run.work, f"first_{name}") for name in _FOLLOWING}
    # After the last stretch comes what no publication of the recording was delivered by.
    steps = len(run.windows) + 1

    def join(number: int, state: State) -> State:
        calls = _keyed(run, matches, number)
        intra = linked.read(linked.rest if number == steps - 1 else number)
        if number < steps - 1:
            intra = intra.filter(pl.col("message_id").is_not_null())
        existing = existing_pairs(calls, run.objects, run.events)
        pairs, gone = without_gone(existing, of.first_after_end)
        matched = matches.rows.read(number)
        known = ordered.read(number) if ordered is not None else pl.DataFrame(schema=ORDERED)
        if number == steps - 1:
            matched, known = matched.clear(), known.clear()
        rows = message_rows(calls, pairs, matched, intra, known)
        raw.put(rows, number)
        told = rows.with_columns(fate_of(rows, run.objects))
        firsts["later"].put(first_taken(rows).cast(pl.Schema(_LATER)), number)
        firsts["after"].put(next_taken(told, pl.DataFrame(schema=AFTER)), number)
        firsts["ahead"].put(first_pushed(told, pl.DataFrame(schema=AHEAD), run.objects), number)
        bounds = bounds_of(rows, run.objects)
        waited = pl.concat([frame_of(state, "waited"), bounds.waited])
        shared = pl.concat([frame_of(state, "shared"), bounds.shared])
        counts = pl.concat([frame_of(state, "gone"), gone])
        crossed = crossings_of(rows, run.objects, run.events.places)
        return {
            "waited": waited.group_by("subscription_id").agg(pl.col("longest_ns").max()),
            "shared": shared.unique(),
            "gone": counts.group_by("subscription_id").agg(pl.col("count").sum()),
            "crossings": joined(pl.concat([frame_of(state, "crossings"), crossed])),
            "ordinary": pl.concat([frame_of(state, "ordinary"), ordinary(rows)])
            .group_by("subscription_id")
            .agg(pl.col("ordinary_ns").min()),
            "above": pl.concat([frame_of(state, "above"), above(rows)]).unique(),
        }

    number = {"subscription_id": I64}
    known = run.work.stage(
        "messages joined",
        steps,
        join,
        {
            "waited": pl.DataFrame(schema=number | {"longest_ns": I64}),
            "shared": pl.DataFrame(schema={"topic": NAME, "key_ns": I64}),
            "gone": pl.DataFrame(schema=number | {"count": I64}),
            "crossings": pl.DataFrame(schema=CROSSINGS),
            "ordinary": pl.DataFrame(schema=ORDINARY),
            "above": pl.DataFrame(schema=ABOVE),
        },
    )
    following = _look_back(run, steps, firsts)
    told = _hints(run, untaken)
    alone, alone_on, strays = _alone(run, of, matches, synchronisation)

    def finish(number: int, state: State) -> State:
        later = following["later"].read(number)
        bounds = Bounds(frame_of(known, "waited"), frame_of(known, "shared"), later, untaken)
        rows = settle(raw.read(number), run.objects, run.events, losses, bounds)
        before = frame_of(state, "before")
        around = Around(
            bounds.waited,
            _near(run, strays, rows, number),
            before,
            following["after"].read(number),
            following["ahead"].read(number),
            told["hints"],
            told["of_process"],
            frame_of(known, "ordinary"),
            frame_of(known, "above"),
        )
        rows = weigh(rows, run.objects, run.events, losses, around)
        rows = with_bounds(rows, frame_of(known, "crossings"), run.events.places)
        run.write("messages", rows, number)
        ways = pl.concat([frame_of(state, "ways"), ways_of(rows)])
        approximate = rows.filter(pl.col("match") == "approximate").height
        return {
            "before": last_taken(rows, before),
            "approximate": number_of(state, "approximate") + approximate,
            "untold": number_of(state, "untold") + untold_messages(rows, run.events),
            "ways": ways.group_by("subscription_id", "publisher_id", maintain_order=True).agg(
                pl.col("all").all(), pl.col("len").sum()
            ),
        }

    ways = {"subscription_id": I64, "publisher_id": I64, "all": pl.Boolean(), "len": pl.UInt32()}
    settled = run.work.stage(
        "messages",
        steps,
        finish,
        {
            "before": pl.DataFrame(schema=BEFORE),
            "approximate": 0,
            "untold": 0,
            "ways": pl.DataFrame(schema=ways),
        },
    )
    raw.drop()
    return OfMessages(
        unnamed=of.unnamed,
        unknown_publishers=of.unknown,
        unknown_subscriptions=0,
        ambiguous=matches.shared,
        cleared=0,
        gone=frame_of(known, "gone").sort("subscription_id"),
        alone=alone,
        alone_on=alone_on,
        approximate=number_of(settled, "approximate"),
        ways=frame_of(settled, "ways"),
        untaken=untaken,
        untold=number_of(settled, "untold"),
        crossings=frame_of(known, "crossings"),
    )


def _look_back(run: Run, steps: int, firsts: dict[str, Buckets]) -> dict[str, Buckets]:
    """What follows each stretch, of what each has first."""
    following = {name: Buckets(run.work, name) for name in _FOLLOWING}

    def step(step: int, state: State) -> State:
        number = steps - 1 - step
        both = {}
        for name, kept in following.items():
            kept.put(frame_of(state, name), number)
            both[name] = pl.concat([firsts[name].read(number), frame_of(state, name)])
        once = {n: both[n].unique(_WAY, keep="first", maintain_order=True) for n in both}
        return {**once, "ahead": first_of_each(both["ahead"], run.objects)}

    none = {name: pl.DataFrame(schema=schema) for name, schema in _FOLLOWING.items()}
    run.work.stage("later", steps, step, none)
    return following


def _hints(run: Run, untaken: pl.Series) -> dict[str, pl.DataFrame]:
    """`hints` and `hints_of_process` over all stretches."""

    def step(number: int, state: State) -> State:
        takes, instances = run.takes.read(number), run.instances.read(number)
        linked, followed = frame_of(state, "linked"), frame_of(state, "followed")
        found = hints(instances, takes, untaken, linked=linked["callback_instance_id"])
        part, tried = run.part(number), frame_of(state, "tried")
        others = hints_of_process(part, run.objects, takes, untaken, followed=followed, tried=tried)
        last = (
            pl.concat([tried, attempts(part)])
            .sort("time_ns")
            .unique("thread", keep="last", maintain_order=True)
        )
        end = run.windows.end(number)
        later = pl.lit(value=False) if end is None else pl.col("time_ns") >= end
        columns = ("rcl_take_ns", "rclcpp_take_ns")
        times = [takes.select("thread", pl.col(c).alias("time_ns")) for c in columns]
        starts = takes.with_columns(pl.col("callback_start_ns").alias("time_ns"))
        return {
            "hints": pl.concat([frame_of(state, "hints"), found]),
            "of_process": pl.concat([frame_of(state, "of_process"), others]),
            "linked": pl.concat([linked, starts.select("callback_instance_id", "time_ns")]).filter(
                later
            ),
            "followed": pl.concat([followed, *times]).filter(later),
            "tried": last,
        }

    none = {
        "hints": pl.DataFrame(schema=HINTS),
        "of_process": pl.DataFrame(schema=OF_PROCESS),
        "linked": pl.DataFrame(schema={"callback_instance_id": I64, "time_ns": I64}),
        "followed": pl.DataFrame(schema=FOLLOWED),
        "tried": pl.DataFrame(schema=ATTEMPTS),
    }
    state = run.work.stage("hints", len(run.windows), step, none)
    return {name: frame_of(state, name) for name in ("hints", "of_process")}


def _keyed(run: Run, matches: Matches, number: int) -> pl.DataFrame:
    """The publications of a stretch with their timestamps, known or guessed."""
    if number == len(run.windows):
        calls = run.publications.read(0).clear()
    else:
        calls = run.publications.read(number).filter(public())
    key = pl.col("source_timestamp_ns").alias("key_ns")
    if matches.keys is None or calls.is_empty():
        return calls.with_columns(key, pl.lit(value=False).alias("estimated"))
    guesses = matches.keys.read(number).rename({"key_ns": "guess_ns"})
    return (
        calls.join(guesses, on="message_id", how="left", maintain_order="left")
        .with_columns(
            key.fill_null(pl.col("guess_ns")), pl.col("guess_ns").is_not_null().alias("estimated")
        )
        .drop("guess_ns")
    )


def _without_takes(run: Run) -> pl.Series:
    """As `without_takes`, over all stretches."""

    def step(number: int, state: State) -> State:
        here = {
            "ran": ran(run.instances.read(number)).select("owner_id", "kind", "intra"),
            "taken": run.takes.read(number).select("subscription_id", "intra_process"),
        }
        both = {
            name: pl.concat([frame_of(state, name), new]) if name in state else new
            for name, new in here.items()
        }
        return {name: frame.unique() for name, frame in both.items()}

    state = run.work.stage("subscriptions without takes", len(run.windows), step)
    return without_takes(frame_of(state, "ran"), frame_of(state, "taken"))


def _by_order(run: Run, of: OfPublications, untaken: pl.Series) -> Buckets | None:
    """What `by_order` joins, one subscription after the other."""
    if untaken.is_empty():
        return None
    found = Buckets(run.work, "ordered", "message_id", of.counts[1:-1])
    sent = Buckets(run.work, "sent_to", "subscription_id")
    executed = Buckets(run.work, "ran", "subscription_id")
    times = ("message_id", "publish_ns", "intra_publish_ns")

    def spread(number: int, state: State) -> State:
        calls = run.publications.read(number).filter(public())
        existing = existing_pairs(calls, run.objects, run.events)
        pairs, _ = without_gone(existing, of.first_after_end)
        pairs = pairs.filter(pl.col("subscription_id").is_in(untaken.implode()))
        sent.add(pairs.join(calls.select(times), on="message_id", maintain_order="left"), number)
        runs = ran(run.instances.read(number)).filter(pl.col("owner_id").is_in(untaken.implode()))
        columns = ("owner_id", "callback_instance_id", "kind", "intra", "start_ns", "end_ns")
        runs = runs.select(columns).with_columns(pl.col("owner_id").alias("subscription_id"))
        executed.add(runs, number)
        return state

    run.work.stage("by subscription", len(run.windows), spread)
    subscriptions = run.objects.subscriptions.height

    def join(number: int, state: State) -> State:
        pairs = sent.read(number)
        calls = pairs.select(times)
        both = pairs.select("message_id", "subscription_id")
        found.add(by_order(calls, both, executed.read(number), untaken), number)
        return state

    found.put(pl.DataFrame(schema=ORDERED), 0)
    run.work.stage("in order", subscriptions, join)
    return found


def _alone(
    run: Run, of: OfPublications, matches: Matches, synchronisation: str | None
) -> tuple[int, pl.Series, Buckets | None]:
    """Write takes whose publication was not recorded; their number, their topics, and, where
    publications have no timestamps, theirs, by the stretch in which they were made.
    """  # noqa: D205
    strays = (
        None if of.stamps else Buckets(run.work, "strays", "source_timestamp_ns", run.windows.edges)
    )
    stamps = ("proc", "rmw_publish_ns", "source_timestamp_ns")

    def step(number: int, state: State) -> State:
        inter = run.takes.read(number).filter(public() & ~pl.col("intra_process"))
        alone = inter.join(
            matches.takes.read(number), on="take_id", how="anti", maintain_order="left"
        )
        calls = run.publications.read(number).select(stamps).drop_nulls()
        if "late" in state:
            calls = pl.concat([frame_of(state, "late"), calls])
        end = run.windows.end(number)
        late = calls.clear() if end is None else calls.filter(pl.col("rmw_publish_ns") >= end)
        here = calls if end is None else calls.filter(pl.col("rmw_publish_ns") < end)
        near = pl.concat([here, near_stamps(of, number)])
        if strays is not None:
            strays.add(alone.select(list(STRAYS)), number)
        rows = find_one_sided(alone, run.events, run.objects, near, synchronisation)
        run.write("one_sided_messages", rows, number)
        topics = pl.concat([frame_of(state, "topics"), alone.select("topic").unique()])
        return {
            "late": late,
            "count": number_of(state, "count") + alone.height,
            "topics": topics.unique(),
        }

    start: State = {"count": 0, "topics": pl.DataFrame(schema={"topic": NAME})}
    state = run.work.stage("takes alone", len(run.windows), step, start)
    return number_of(state, "count"), frame_of(state, "topics")["topic"], strays


def _near(run: Run, strays: Buckets | None, rows: pl.DataFrame, number: int) -> pl.DataFrame:
    """The timestamps that may be those of a stretch's publications."""
    called = rows.select(pl.max_horizontal("publish_ns", "rcl_publish_ns", "rmw_publish_ns").max())
    if strays is None or called.item() is None:
        return pl.DataFrame(schema=STRAYS)
    last = bisect_right(run.windows.edges, called.item() + TOLERANCE_NS)
    return pl.concat([strays.read(n) for n in range(number, max(number, last) + 1)])
