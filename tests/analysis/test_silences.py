"""Test silence and hangs, with cases made by hand and a real recording of a hung program."""

import polars as pl
import pytest
from synthetic import table
from tests.samples import SAMPLES

import roslens as rl
from roslens.analysis.measures.silences import NEEDED, silences, unfinished

SECOND = 10**9
P = {"host": "h0", "vpid": 70}


def timer(last: int, *, tid: int = 71, callback: int = 1, since: int = 0) -> list[dict]:
    """Make executions of 1 ms, ten per second."""
    return [
        {**P, "vtid": tid, "callback_id": callback, "kind": "timer", "name": "100 ms",
         "node": "/node", "start_ns": t, "end_ns": t + 10**6, "duration_ns": 10**6}
        for t in range(since * SECOND, last * SECOND, SECOND // 10)
    ]  # fmt: skip


def found(
    ran: list[dict], *, recorded: int | None = 60, sampled: int | None = None,
    events: int | None = None, failure: str | None = None, used: float | None = None,
    **more: list[dict],
) -> pl.DataFrame:  # fmt: skip
    """Return the silences of process 70, of which `events` is the last event; all times in s.

    The process used `used` CPUs.
    """
    ends = [instance["end_ns"] or instance["start_ns"] for instance in ran]
    process = {**P, "procname": "program", "begin_ns": 0,
               "end_ns": max(ends, default=0) if events is None else events * SECOND}  # fmt: skip
    rows = {"callback_instances": ran, "processes": [process], **more}
    tables = {name: table(name, *rows.get(name, [])).lazy() for name in NEEDED}
    schema = {"host": pl.String, "vpid": pl.Int32, "time_ns": pl.Int64, "cpu_time_ns": pl.Int64}
    cpu = None if used is None else 0
    seen = [] if sampled is None else [("h0", 70, sampled * SECOND, cpu)]
    if sampled is not None and used is not None:
        seen = [("h0", 70, t * SECOND, round(used * t * SECOND)) for t in range(sampled + 1)]
    until = None if recorded is None else recorded * SECOND
    return silences(tables, until, pl.DataFrame(seen, schema, orient="row"), failure)


def sent(*times: float) -> list[dict]:
    return [
        {"message_id": n, "subscription_id": 5, "topic": "/scan", "publish_ns": round(t * SECOND)}
        for n, t in enumerate(times)
    ]


INSIDE = {**P, "vtid": 71, "callback_id": 1, "kind": "timer", "name": "100 ms", "node": "/node",
          "start_ns": 10 * SECOND, "end_ns": None}  # fmt: skip


SCAN = [{**instance, "kind": "subscription", "name": "/scan"} for instance in timer(10)]
OF_SCAN = [{**P, "callback_id": 1, "kind": "subscription", "owner_id": 5}]


def test_a_timer_of_a_run_that_failed() -> None:
    (row,) = found(timer(10), sampled=50, failure="killed by signal 9").to_dicts()
    assert (row["state"], row["vtid"], row["until_ns"]) == ("hung", 71, 50 * SECOND)
    assert row["since_ns"] == 9_900_000_000 + 10**6
    assert row["sentence"] == (
        "program (/node) hangs: it fell silent after 9.90 s of 50.0 s; its 100 ms timer did not "
        "fire again; the run failed: killed by signal 9."
    )


def test_what_may_be_intention_is_told_where_it_lasts_longer_than_all_before() -> None:
    assert found(timer(10), sampled=50)["state"].to_list() == ["stopped_or_hung"]
    assert found(timer(10))["state"].to_list() == ["ended_or_hung"]
    assert found(timer(10), sampled=19).is_empty()
    assert found(timer(10), recorded=19).is_empty()


def test_a_program_that_ends_with_its_recording_or_before() -> None:
    assert found(timer(10), recorded=None).is_empty()
    assert found(timer(10), recorded=11).is_empty()
    assert found(timer(10), sampled=11, failure="ended with status 1").is_empty()
    assert found(timer(1), recorded=60).is_empty(), "ten executions do not tell what is usual"


@pytest.mark.parametrize(("own_end", "states"), [(10, []), (60, ["ended_or_hung"])])
def test_each_host_was_recorded_until_its_own_last_event(own_end: int, states: list[str]) -> None:
    """The timer of h0 fires until 10 s, while h1 and, or not, another program of h0 go on to 60."""
    processes = [
        {**P, "host": host, "vpid": vpid, "procname": "program", "begin_ns": 0,
         "end_ns": end * SECOND}
        for host, vpid, end in (("h0", 70, 10), ("h0", 80, own_end), ("h1", 70, 60))
    ]  # fmt: skip
    assert found(timer(10), processes=processes)["state"].to_list() == states


@pytest.mark.parametrize("host", ["h0", "h1", None])
def test_clocks_that_nothing_bounds_do_not_tell_what_was_published_since(host: str | None) -> None:
    """Of which host nothing is known, or that none is apart, the three messages of h1 wait."""
    messages = [{**message, "publisher_host": "h1"} for message in sent(10.5, 11, 12)]
    health = [] if host is None else [{"host": host, "kind": "clocks_not_bounded"}]
    more = {"callbacks": OF_SCAN, "messages": messages, "health": health}
    assert found(SCAN, sampled=15, **more)["waiting"].to_list() == ([3] if host is None else [])


def test_a_timer_was_cancelled_where_its_executor_goes_on() -> None:
    second_timer = timer(60, callback=2)
    assert found(timer(10) + second_timer, sampled=60).is_empty()
    # It may go on on another thread of the same executor, as both ran a callback.
    moved = timer(10, tid=72, callback=2) + timer(60, callback=2, since=10)
    assert found(timer(10) + moved, sampled=60).is_empty()


def test_a_thread_inside_a_callback() -> None:
    (row,) = found([*timer(10), INSIDE], sampled=15).to_dicts()
    assert (row["state"], row["callback"], row["silent_ns"]) == ("hung", "100 ms", 5 * SECOND)
    assert row["sentence"] == (
        "program (/node) hangs: its thread 71 has been inside the timer callback 100 ms since "
        "10.0 s of 15.0 s, which took at most 1.00 ms before; its 100 ms timer did not fire again."
    )
    # The process may have ended within it; and it may take as long as before.
    assert found([*timer(10), INSIDE], recorded=15).is_empty()
    slow = {**INSIDE, "start_ns": SECOND, "end_ns": 3 * SECOND, "duration_ns": 2 * SECOND}
    assert found([slow, INSIDE], sampled=15).is_empty()


def within(start_ns: int, callback: int, end: int | None = 100_000) -> dict:
    """Make an execution that begins 0.2 ms after another and, unless it has no end, takes 0.1."""
    return {**INSIDE, "callback_id": callback, "name": f"timer {callback}",
            "start_ns": start_ns + 200_000, "duration_ns": end,
            "end_ns": None if end is None else start_ns + 200_000 + end}  # fmt: skip


def test_a_thread_inside_a_callback_that_runs_others_within_itself() -> None:
    """Each execution of 1 ms has another one within; so has the one that never ends."""
    earlier = timer(10)
    nested = [within(row["start_ns"], 2) for row in [*earlier, INSIDE]]
    (row,) = found([*earlier, *nested, INSIDE], sampled=15).to_dicts()
    assert (row["callback"], row["since_ns"]) == ("100 ms", 10 * SECOND)
    assert "has been inside the timer callback 100 ms since 10.0 s" in row["sentence"]
    # If none is known to have others within, it was left, as by an exception.
    (row,) = found([*earlier, nested[-1], INSIDE], sampled=50).to_dicts()
    assert (row["callback"], row["state"]) == (None, "stopped_or_hung")
    assert "it fell silent after 10.0 s" in row["sentence"]


def test_the_innermost_callback_comes_last_and_one_that_began_again_is_over() -> None:
    earlier = timer(10)
    nested = [within(row["start_ns"], 2) for row in earlier]
    left = {**INSIDE, "start_ns": 9 * SECOND + SECOND // 20}
    rows = [*earlier, *nested, left, INSIDE, within(10 * SECOND, 3, None)]
    ran = table("callback_instances", *rows).lazy()
    acts = ran.select("host", "vpid", "vtid", time_ns="start_ns")
    assert unfinished(ran, acts).select("name", "start_ns").rows() == [
        ("100 ms", 10 * SECOND), ("timer 3", 10 * SECOND + 200_000)
    ]  # fmt: skip


def test_other_threads_of_the_executor_go_on_beside_one_inside_a_callback() -> None:
    ran = timer(10, callback=2) + timer(60, tid=72, callback=2, since=10) + timer(10)
    (row,) = found([*ran, INSIDE], recorded=60).to_dicts()
    assert (row["state"], row["vtid"]) == ("hung", 71)


def test_messages_that_nobody_takes() -> None:
    more = {"callbacks": OF_SCAN, "sampled": 15}
    assert found(SCAN, **more).is_empty(), "nothing was due"
    assert found(SCAN, **more, messages=sent(10.5, 11, 14.5)).is_empty(), "two, and one just now"
    (row,) = found(SCAN, **more, messages=sent(10.5, 11, 12)).to_dicts()
    assert (row["state"], row["waiting"]) == ("hung", 3)
    ending = "3 messages published on /scan since then were not taken"
    assert row["sentence"].endswith(f"{ending}.")
    wait = {**P, "vtid": 71, "state": "wait", "begin_ns": 10 * SECOND, "end_ns": None}
    (row,) = found(SCAN, **more, messages=sent(10.5, 11, 12), executor_intervals=[wait]).to_dicts()
    assert row["sentence"].endswith(f"{ending}; its wait set was not woken.")


def test_messages_after_the_last_event_of_a_subscription_are_not_taken_either() -> None:
    """Ten a second are published until 60 s; from 11 s on the subscription counts as ended.

    Those from 10 s to 60 s were not taken: 501. Another subscription that takes them is no excuse.
    """
    messages = sent(*(t / 10 for t in range(601)))
    for message in messages:
        if message["publish_ns"] < 10 * SECOND:
            message["take_ns"] = message["publish_ns"]
        elif message["publish_ns"] > 11 * SECOND:
            message["subscription_id"] = None
    (row,) = found(SCAN, callbacks=OF_SCAN, messages=messages).to_dicts()
    assert row["waiting"] == 501
    assert "501 messages published on /scan since then were not taken" in row["sentence"]
    others = [
        {**message, "subscription_id": 6, "take_ns": message["publish_ns"]} for message in messages
    ]
    known = [message for message in messages if message["subscription_id"] is not None]
    (row,) = found(SCAN, callbacks=OF_SCAN, messages=known + others).to_dicts()
    assert row["waiting"] == 501


def test_events_that_the_tracer_lost_say_nothing() -> None:
    lost = {"host": "h0", "kind": "discarded_events", "begin_ns": 11 * SECOND,
            "end_ns": 12 * SECOND}  # fmt: skip
    assert found([*timer(10), INSIDE], sampled=15, losses=[lost]).is_empty()
    before = {**lost, "begin_ns": SECOND, "end_ns": 2 * SECOND}
    assert found([*timer(10), INSIDE], sampled=15, losses=[before]).height == 1


def test_a_thread_that_publishes_outside_of_callbacks() -> None:
    rows = [{**P, "vtid": 75, "publisher_id": 1, "topic": "/scan", "node": "/driver",
             "publish_ns": instance["start_ns"]} for instance in timer(10)]  # fmt: skip
    (row,) = found(timer(60), publications=rows).to_dicts()
    assert (row["state"], row["vtid"]) == ("stopped_or_hung", 75)
    assert "nothing more was published on /scan" in row["sentence"]


@pytest.mark.recording
def test_a_hung_program_is_named_and_sound_ones_are_not() -> None:
    # The log of its last timer, by babeltrace2, is 44.515 s after its first event.
    (row,) = rl.open(SAMPLES / "hung.tar.zst").silences().to_dicts()
    assert row["state"] == "hung"
    assert "hangs: it fell silent after 44.5 s of 699 s; its 50 ms timer" in row["sentence"]
    sound = rl.open(
        [path for path in SAMPLES.iterdir() if path.name not in ("README.md", "hung.tar.zst")]
    )
    assert len(sound) > 20
    assert sound.silences().is_empty()


def inside(tid: int, node: str, *, end: float | None = None, number: int = 1) -> dict:
    """Make the execution that a thread of a node is in from 10 s on."""
    return INSIDE | {
        "vtid": tid, "callback_id": tid, "node": node, "callback_instance_id": number,
        "end_ns": None if end is None else round(end * SECOND),
        "duration_ns": None if end is None else round((end - 10) * SECOND),
    }  # fmt: skip


def request(service: str, node: str, at: float = 10.5, **more: object) -> dict:
    """Make a request that was sent and got no answer."""
    return {"host": "h0", "service": service, "client_node": node,
            "request_called_ns": round(at * SECOND), **more}  # fmt: skip


def serves(*pairs: tuple[str, str]) -> list[dict]:
    return [{"host": "h0", "service": service, "node": node} for service, node in pairs]


@pytest.mark.parametrize(
    ("used", "waited", "verb", "end"),
    [
        (0.01, True, "waits for", "."),
        (0.01, False, "has not got", ", if it waits for that."),
        (None, True, "has not got", ", if it waits for that."),
        (0.9, True, None, None),
    ],
)
def test_a_service_of_the_own_thread(
    used: float | None, waited: bool, verb: str | None, end: str | None
) -> None:
    """It waits if its process uses no CPU and it took an earlier answer before its callback ended.

    Without the latter it may have sent its request without waiting, and sleep for another reason.
    """
    answered = request("/own", "/node", 5.1, client_callback_instance_id=2,
                       response_taken_ns=round(5.9 * SECOND))  # fmt: skip
    earlier = inside(71, "/node", end=6, number=2)
    earlier |= {"start_ns": SECOND, "duration_ns": 5 * SECOND}
    rows = found([earlier, inside(71, "/node")], sampled=50,
                 service_calls=[*[answered] * waited, request("/own", "/node")],
                 services=serves(("/own", "/node")), used=used)  # fmt: skip
    assert rows["state"].to_list() == ([] if verb is None else ["hung"])
    ending = (
        f"it {verb} the answer of /own of /node, which only this thread could serve: a deadlock"
    )
    assert verb is None or rows["sentence"].item().endswith(f"{ending}{end}")


@pytest.mark.parametrize(("taken", "hung"), [(5.9, ["hung"]), (6.1, [])])
def test_a_callback_that_once_ended_before_its_answer_does_not_wait_for_it(
    taken: float, hung: list[str]
) -> None:
    """Its earlier execution lasted until 6 s; the answer was taken before or after that."""
    earlier = inside(71, "/node", end=6, number=2) | {"start_ns": 5 * SECOND, "duration_ns": SECOND}
    calls = [
        request("/own", "/node", 5.1, client_callback_instance_id=2,
                response_taken_ns=round(taken * SECOND)),
        request("/own", "/node"),
    ]  # fmt: skip
    rows = found([earlier, inside(71, "/node")], sampled=14, used=0.01, service_calls=calls,
                 services=serves(("/own", "/node")))  # fmt: skip
    assert rows["state"].to_list() == hung


def test_an_answer_that_only_the_own_thread_could_take() -> None:
    """The other node's thread is free and has answered."""
    free = timer(49, tid=72, callback=72)
    free = [row | {"node": "/server"} for row in free]
    rows = found([inside(71, "/node"), *free], sampled=50, events=50,
                 service_calls=[request("/add", "/node", response_sent_ns=11 * SECOND)],
                 services=serves(("/add", "/server")))  # fmt: skip
    assert rows["vtid"].to_list() == [71]
    assert "the answer of /add of /server, which only this thread could take" in rows["sentence"][0]


def test_two_threads_that_wait_for_each_other() -> None:
    calls = [request("/b", "/one"), request("/a", "/two", 10.6)]
    services = serves(("/a", "/one"), ("/b", "/two"))
    waiting = [inside(71, "/one"), inside(72, "/two")]
    rows = found(waiting, sampled=50, service_calls=calls, services=services, used=0.0)
    assert rows["state"].to_list() == ["hung", "hung"]
    expected = (
        "/b of /two, which only thread 72 could serve, which has not got that of /a: a deadlock"
    )
    ending = ", if it waits for that."
    assert expected in rows["sentence"][0]
    assert rows["sentence"][0].endswith(ending)
    # What one of them is known to wait for does not tell what the other does.
    earlier = inside(71, "/one", end=6, number=3) | {"start_ns": 5 * SECOND, "duration_ns": SECOND}
    answered = request("/b", "/one", 5.1, client_callback_instance_id=3,
                       response_taken_ns=round(5.9 * SECOND))  # fmt: skip
    rows = found([earlier, *waiting], sampled=50, service_calls=[answered, *calls],
                 services=services, used=0.0)  # fmt: skip
    assert "it waits for the answer of /b" in rows["sentence"][0]
    assert rows["sentence"].str.ends_with(ending).all()
    # A free thread of the same executor could serve.
    free = [row | {"callback_id": 72, "node": "/two"} for row in timer(49, tid=73)]
    rows = found([*waiting, *free], sampled=50, events=50, service_calls=calls, services=services)
    assert not rows["sentence"].str.contains("deadlock").any()


def test_a_service_that_a_thread_that_waits_for_work_does_not_serve() -> None:
    """Before that this thread ran the same timer; another node's request would be its own."""
    free = [row | {"callback_id": 71} for row in timer(9, tid=72)]
    wait = {**P, "vtid": 72, "state": "wait", "begin_ns": 9 * SECOND, "end_ns": None}
    ran = [*free, inside(71, "/node")]
    given = {"service_calls": [request("/own", "/node")], "executor_intervals": [wait]}
    (row,) = found(ran, sampled=50, services=serves(("/own", "/node")), **given).to_dicts()
    assert row["state"] == "hung"
    assert (
        "it has not got the answer of /own of /node, which no thread has served although thread 72 "
        "waits for work: a deadlock, if it waits for that and one mutually exclusive group has both"
    ) in row["sentence"]
    rows = found(ran, sampled=50, services=serves(("/own", "/other")), **given)
    assert not rows["sentence"].str.contains("deadlock").any()


def test_a_deadlock_that_ctrl_c_ended() -> None:
    """The callback ends with its program, 39 s later; one that gave up after 0.5 s is none."""
    call = request("/own", "/node", client_callback_instance_id=1)
    services = serves(("/own", "/node"))
    given = {"recorded": 50, "events": 50, "service_calls": [call], "services": services}
    assert found([inside(71, "/node", end=11.0)], **given).is_empty()
    ended = [inside(71, "/node", end=49.5)]
    (row,) = found(ended, **given).to_dicts()
    assert (row["since_ns"], row["until_ns"]) == (10 * SECOND, 49_500_000_000)
    assert "was inside the timer callback 100 ms from 10.0 s until 49.5 s;" in row["sentence"]
    # Whose process went on for 2 s, and so did not end within it.
    assert found([inside(71, "/node", end=48.0)], **given).is_empty()
    # The answer may be among what the tracer lost meanwhile.
    lost = {"host": "h0", "begin_ns": 20 * SECOND, "end_ns": 21 * SECOND}
    assert found(ended, losses=[lost], **given).is_empty()


def test_a_service_that_nobody_serves() -> None:
    ran = [*timer(10), inside(71, "/node") | {"callback_id": 1}]
    (row,) = found(ran, sampled=50, service_calls=[request("/x", "/node")]).to_dicts()
    assert "the answer of /x, which no recorded node serves" in row["sentence"]
