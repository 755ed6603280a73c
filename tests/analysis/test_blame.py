"""What a late message is blamed on: made by hand, the time of each cause counted by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from roslens.analysis.latency.blame import Around, blamed
from roslens.collectors.schema import RESOURCES, SYSTEM, TABLES, THREADS, Table

MS = 1_000_000
THREAD = {"host": "h", "vpid": 1, "vtid": 7}
OWN = {**THREAD, "callback_instance_id": 0, "kind": "subscription", "name": "/t", "node": "/n",
       "start_ns": 20 * MS, "end_ns": 21 * MS}  # fmt: skip
MESSAGE = {
    "publish_ns": 10 * MS,
    "callback_start_ns": 20 * MS,
    "callback_instance_id": 0,
    "subscription_host": "h",
    "subscription_vpid": 1,
}


def rows(table: Table, *found: dict[str, Any]) -> pl.DataFrame:
    schema = dict(table.empty().schema)
    return pl.DataFrame(list(found), schema=schema, orient="row")


def ran(number: int, begin: float, end: float, name: str = "/other", **more: Any) -> dict[str, Any]:
    return {**OWN, "callback_instance_id": number, "name": name, "start_ns": int(begin * MS),
            "end_ns": int(end * MS), **more}  # fmt: skip


def around(**given: pl.DataFrame) -> Around:
    tables = {
        "callbacks": rows(TABLES["callback_instances"], OWN),
        "waits": rows(TABLES["executor_intervals"]),
        "scheduling": rows(TABLES["callback_scheduling"]),
        "processes": rows(RESOURCES),
        "threads": rows(THREADS),
        "system": rows(SYSTEM),
    }
    return Around(**{**tables, **given})


def callbacks(*others: dict[str, Any]) -> pl.DataFrame:
    return rows(TABLES["callback_instances"], OWN, *others)


def state(name: str, begin: float, end: float) -> pl.DataFrame:
    row = {**THREAD, "state": name, "begin_ns": int(begin * MS), "end_ns": int(end * MS),
           "executed": 0, "callback_ns": 0}  # fmt: skip
    return rows(TABLES["executor_intervals"], row)


def test_another_callback_that_began_before_and_one_nested_in_it() -> None:
    # 5 to 18 ms, of which 8 lie in the 10 that the message waited; nested ones count once, and
    # those of another thread not at all.
    found = blamed(
        MESSAGE,
        around(callbacks=callbacks(ran(1, 5, 18), ran(2, 12, 13), ran(3, 10, 20, vtid=8))),
    )
    assert (found.cause, found.parts["callback"]) == ("callback", 8 * MS)
    assert found.words == "other callbacks of the thread (80 %)"


def test_earlier_messages_of_the_same_callback_are_a_queue() -> None:
    found = blamed(MESSAGE, around(callbacks=callbacks(ran(1, 9, 14, "/t"), ran(2, 14, 16, "/t"))))
    assert (found.cause, found.parts["queue"], found.parts["callback"]) == ("queue", 6 * MS, 0)


def test_work_of_the_executor_between_earlier_messages_belongs_to_the_queue() -> None:
    # Busy for 9 of 10 ms, 4 of them in two callbacks of the same topic.
    others = callbacks(ran(1, 12, 14, "/t"), ran(2, 16, 18, "/t"))
    found = blamed(MESSAGE, around(callbacks=others, waits=state("busy", 11, 25)))
    assert (found.cause, found.parts["queue"]) == ("queue", 9 * MS)
    assert found.words == "queue: earlier messages of the same callback (90 %)"


@pytest.mark.parametrize(
    ("name", "cause"), [("blocked", "lock"), ("wait", "transport"), ("busy", "executor")]
)
def test_what_the_executor_did(name: str, cause: str) -> None:
    found = blamed(MESSAGE, around(waits=state(name, 13, 30)))
    assert (found.cause, found.parts[cause]) == (cause, 7 * MS)


def test_a_callback_that_waited_for_a_cpu_is_not_to_blame() -> None:
    scheduled = {**ran(1, 10, 20), "duration_ns": 10 * MS, "preempted_ns": 5 * MS}
    scheduled |= {"cpu_ns": 2 * MS, "scheduling_delay_ns": 3 * MS, "blocked_ns": 0}
    known = TABLES["callback_scheduling"].empty().columns
    scheduling = rows(
        TABLES["callback_scheduling"], {k: v for k, v in scheduled.items() if k in known}
    )
    found = blamed(MESSAGE, around(callbacks=callbacks(ran(1, 10, 20)), scheduling=scheduling))
    assert (found.cause, found.parts["CPU wait"], found.parts["callback"]) == (
        "CPU wait", 8 * MS, 2 * MS,
    )  # fmt: skip


def culprit(*values: object) -> dict[str, Any]:
    return dict(zip(("kind", "by_tid", "by_name", "by_process", "by_ns"), values, strict=True))


def test_waiting_for_a_cpu_is_cut_out_of_whatever_the_thread_did_by_the_kernels_events() -> None:
    # It waits for work from 10 to 16 ms, has a callback from 16 to 19, and waits for a CPU from
    # 11 to 14, and from 15 to 18: 1 + 1 ms of waiting for work are left, and 1 of the callback.
    off = pl.DataFrame(
        {"host": "h", "tid": [7, 7, 8], "begin_ns": [11 * MS, 15 * MS, 10 * MS],
         "end_ns": [14 * MS, 18 * MS, 20 * MS]}
    )  # fmt: skip
    found = blamed(
        MESSAGE,
        around(callbacks=callbacks(ran(1, 16, 19)), waits=state("wait", 10, 16), off_cpu=off),
        [
            culprit("preempted", 99, "burner", "p", 5 * MS),
            culprit("interrupt", None, "irq 7 nic", None, MS),
            culprit("woken", 0, "swapper/0", None, MS // 3),
        ],
    )
    parts = {cause: found.parts[cause] for cause in ("CPU wait", "transport", "callback")}
    assert parts == {"CPU wait": 6 * MS, "transport": 2 * MS, "callback": MS}
    assert found.words == (
        "waiting for a CPU (60 %); burner (thread 99 of p) had its CPU for 5.00 ms; irq 7 nic had "
        "its CPU for 1.00 ms"
    )


def sampled(table: Table, *values: tuple[float, dict[str, Any]]) -> pl.DataFrame:
    return rows(table, *({"time_ns": int(t * MS), "host": "h", **x} for t, x in values))


def test_what_was_only_sampled_is_said_with_perhaps() -> None:
    delay = sampled(
        THREADS,
        (0, {**THREAD, "run_delay_ns": 1 * MS}),
        (100, {**THREAD, "run_delay_ns": 8 * MS}),
    )
    found = blamed(MESSAGE, around(threads=delay))
    assert (found.cause, found.words) == (
        "CPU wait", "perhaps waiting for a CPU: 7.00 ms between two samples",
    )  # fmt: skip
    steal = sampled(
        SYSTEM,
        (0, {"cpu_steal_ns": 0, "cpu_busy_ns": 0, "cpu_idle_ns": 0}),
        (100, {"cpu_steal_ns": 20 * MS, "cpu_busy_ns": 60 * MS, "cpu_idle_ns": 120 * MS}),
    )
    found = blamed(MESSAGE, around(system=steal))
    assert (found.cause, "10 % of the machine" in found.words) == ("steal", True)
    read = sampled(RESOURCES, (15, {"vpid": 1, "process": "x"}))
    assert blamed(MESSAGE, around(processes=read)).cause == "sampler"


def test_nothing_is_made_up() -> None:
    few = blamed(MESSAGE, around(callbacks=callbacks(ran(1, 10, 13))))
    assert few.cause == "unknown"
    assert "fill 30 %" in few.words
    nobody = blamed({**MESSAGE, "callback_instance_id": 99}, around())
    assert (nobody.cause, nobody.parts) == ("unknown", {})
