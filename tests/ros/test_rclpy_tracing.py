"""Test what rclpy_tracing emits, with real recordings of real nodes in all three executors.

Ground truth: the node counts its own callbacks and prints rclpy's handles (nodes/entities.py).
"""

from __future__ import annotations

import asyncio
import functools
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.ros.conftest import Event, Recorder

from roslens.tracing.lttng import SessionDaemon
from roslens.tracing.rclpy_tracing.callbacks import symbol_of, traced
from roslens.tracing.rclpy_tracing.tracepoints import Tracepoints
from roslens.tracing.ros import RosEnvironment
from roslens.tracing.ros.environment import RCLPY_TRACING, python_path

NODES = Path(__file__).parent / "nodes"
EXECUTORS = ("SingleThreaded", "MultiThreaded", "Events")


@pytest.fixture(scope="module", params=EXECUTORS)
def recording(
    request: pytest.FixtureRequest,
    ros: RosEnvironment,
    daemon: SessionDaemon,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, dict[str, Any], list[Event]]:
    folder = tmp_path_factory.mktemp("entities")
    with ros.isolated(folder / "log") as isolated:
        recorder = Recorder(daemon, folder)
        run, events, _ = recorder.record(
            [str(isolated.python), str(RCLPY_TRACING), str(NODES / "entities.py"), request.param],
            isolated.process_environment(recorder.environment, preload=ros.preload()),
        )
    assert run.returncode == 0, run.stderr
    truth = json.loads(run.stdout.splitlines()[-1])
    assert truth["done"], truth
    return request.param, truth, events


def pairs(events: list[Event]) -> list[tuple[Event, Event]]:
    """Pair starts with ends, by a stack for each thread; fail where they do not nest."""
    open_calls: dict[int, list[Event]] = defaultdict(list)
    matched = []
    for event in events:
        if event.name == "callback_start":
            open_calls[event.vtid].append(event)
        elif event.name == "callback_end":
            assert open_calls[event.vtid], "an end without a start"
            start = open_calls[event.vtid].pop()
            assert start.fields["callback"] == event.fields["callback"]
            matched.append((start, event))
    assert not any(open_calls.values()), "a start without an end"
    return matched


def owners(events: list[Event]) -> dict[str, tuple[str, int]]:
    """Return each callback's kind and its owner's rcl handle, from the init events."""
    handle_of = {
        e.fields["subscription"]: e.fields["subscription_handle"]
        for e in events
        if e.name == "rclcpp_subscription_init"
    }
    by_callback = {}
    for e in events:
        if e.name == "rclcpp_subscription_callback_added":
            handle = handle_of[e.fields["subscription"]]
            by_callback[e.fields["callback"]] = ("subscription", int(handle, 16))
        elif e.name == "rclcpp_service_callback_added":
            by_callback[e.fields["callback"]] = ("service", int(e.fields["service_handle"], 16))
        elif e.name == "rclcpp_timer_callback_added":
            by_callback[e.fields["callback"]] = ("timer", int(e.fields["timer_handle"], 16))
    return by_callback


@pytest.mark.live
def test_every_call_has_a_start_and_an_end_of_the_right_owner(
    recording: tuple[str, dict[str, Any], list[Event]],
) -> None:
    _, truth, events = recording
    owner = owners(events)
    counted = Counter(owner[start.fields["callback"]][1] for start, _ in pairs(events))
    names = {handle: name for name, handle in truth["handles"].items()}
    assert set(counted) == set(names)
    got = {names[handle]: number for handle, number in counted.items()}
    expected = {name: truth["counts"][name] for name in truth["handles"]}
    if "coroutine" in expected:  # each waits once, so each runs in two stretches
        expected["coroutine"] *= 2
    assert got == expected
    kinds = {names[h]: kind for kind, h in owner.values() if h in names}
    assert kinds.pop("timer") == "timer"
    assert kinds.pop("service") == "service"
    assert set(kinds.values()) == {"subscription"}


@pytest.mark.live
def test_handles_are_those_that_rcl_names(
    recording: tuple[str, dict[str, Any], list[Event]],
) -> None:
    _, truth, events = recording
    topics = {
        int(e.fields["subscription_handle"], 16): e.fields["topic_name"]
        for e in events
        if e.name == "rcl_subscription_init"
    }
    services = {
        int(e.fields["service_handle"], 16): e.fields["service_name"]
        for e in events
        if e.name == "rcl_service_init"
    }
    timers = {int(e.fields["timer_handle"], 16) for e in events if e.name == "rcl_timer_init"}
    for name, handle in truth["handles"].items():
        if name == "timer":
            assert handle in timers
        elif name == "service":
            assert services[handle] == "/answer"
        else:
            assert topics[handle] == f"/{name}"
    # rclpy's own services are traced as well.
    traced_services = {h for kind, h in owners(events).values() if kind == "service"}
    assert {services[h] for h in traced_services} >= {
        "/answer",
        "/entities/get_parameters",
        "/entities/get_type_description",
    }
    node = {e.fields["node_handle"] for e in events if e.name == "rcl_node_init"}
    linked = [e.fields for e in events if e.name == "rclcpp_timer_link_node"]
    assert {fields["node_handle"] for fields in linked} == node
    assert truth["handles"]["timer"] in {int(fields["timer_handle"], 16) for fields in linked}


@pytest.mark.live
def test_symbols_name_the_code(recording: tuple[str, dict[str, Any], list[Event]]) -> None:
    _, truth, events = recording
    symbols = {
        e.fields["callback"]: e.fields["symbol"]
        for e in events
        if e.name == "rclcpp_callback_register"
    }
    names = {handle: name for name, handle in truth["handles"].items()}
    got = {names[h]: symbols[c] for c, (_, h) in owners(events).items() if h in names}
    expected = {
        "method": "__main__.Entities.on_method",
        "lambda": "__main__.Entities.__init__.<locals>.<lambda>",
        "partial": "__main__.plain_function",
        "object": "__main__.Called.__call__",
        "raises": "__main__.Entities.on_raises",
        "info": "__main__.Entities.on_info",
        "coroutine": "__main__.Entities.on_coroutine",
        "raw": "__main__.Entities.on_raw",
        "timer": "__main__.Entities.on_timer",
        "service": "__main__.Entities.on_service",
    }
    assert got == {name: expected[name] for name in truth["handles"]}


@pytest.mark.live
def test_a_take_is_followed_by_its_callback_on_the_same_thread(
    recording: tuple[str, dict[str, Any], list[Event]],
) -> None:
    _, truth, events = recording
    subscription_of = {
        e.fields["rmw_subscription_handle"]: int(e.fields["subscription_handle"], 16)
        for e in events
        if e.name == "rcl_subscription_init"
    }
    owner = owners(events)
    ours = set(truth["handles"].values())
    threads: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        threads[event.vtid].append(event)
    taken = 0
    for thread in threads.values():
        for at, event in enumerate(thread):
            if event.name != "rmw_take" or event.fields["taken"] != "1":
                continue
            handle = subscription_of.get(event.fields["rmw_subscription_handle"])
            if handle not in ours:
                continue
            taken += 1
            above, received, start = thread[at + 1 : at + 4]
            names = ["rcl_take", "message_received", "callback_start"]
            assert [call.name for call in (above, received, start)] == names
            message = event.fields["message"]
            assert above.fields["message"] == received.fields["message"] == message
            # Both timestamps are of the system's clock.
            sent, came = event.fields["source_timestamp"], received.fields["received_timestamp"]
            assert int(sent) <= int(came)
            assert owner[start.fields["callback"]] == ("subscription", handle)
    assert taken == sum(
        n for name, n in truth["counts"].items() if name not in {"timer", "service", "refused"}
    )


@pytest.mark.live
def test_executors_say_when_they_wait_and_what_they_execute(
    recording: tuple[str, dict[str, Any], list[Event]],
) -> None:
    executor, truth, events = recording
    threads: dict[int, list[str]] = defaultdict(list)
    executed: Counter[int] = Counter()
    ran = {e.vtid for e in events if e.name == "callback_start"}
    for event in events:
        if event.name.startswith("rclcpp_executor_"):
            threads[event.vtid].append(event.name.removeprefix("rclcpp_executor_"))
        if event.name == "rclcpp_executor_execute":
            executed[int(event.fields["handle"], 16)] += 1
    if executor == "Events":
        assert not threads
        return
    names = {handle: name for name, handle in truth["handles"].items()}
    # A coroutine is executed once, though it runs in two stretches; services are not, as in rclcpp.
    by_name = {names[h]: n for h, n in executed.items() if h in names}
    # A timer that is due again as its node ends is no longer called.
    assert by_name.pop("timer") - truth["counts"]["timer"] in {0, 1}
    assert by_name == {
        name: truth["counts"][name] for name in truth["handles"] if name not in {"timer", "service"}
    }
    in_pool = {}
    for vtid, calls in threads.items():
        states = [name for name in calls if name != "execute"]
        turns = ["wait_for_work", "get_next_ready"]
        in_pool[vtid] = states[0] == "get_next_ready"
        whole = turns[::-1] if in_pool[vtid] else turns
        assert states == (whole * len(states))[: len(states)]
    assert ran <= set(threads)
    if executor == "SingleThreaded":
        assert list(in_pool.values()) == [False]
    else:
        assert {vtid for vtid, pool in in_pool.items() if pool} >= ran
        assert min(in_pool.values()) is False


@pytest.mark.live
def test_publish_comes_just_before_its_rcl_publish(
    recording: tuple[str, dict[str, Any], list[Event]],
) -> None:
    _, truth, events = recording
    topics = {
        e.fields["publisher_handle"]: e.fields["topic_name"]
        for e in events
        if e.name == "rcl_publisher_init"
    }
    threads: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        threads[event.vtid].append(event)
    published: Counter[str] = Counter()
    for thread in threads.values():
        for at, event in enumerate(thread):
            if event.name == "rclcpp_publish":
                follower = thread[at + 1]
                assert follower.name == "rcl_publish"
                published[topics[follower.fields["publisher_handle"]]] += 1
    # A message that publish() refuses gives no event, though publish() was called.
    assert truth["counts"]["refused"] == 5
    assert {k: v for k, v in published.items() if k != "/parameter_events"} == {
        f"/{name}": 5 for name in truth["handles"] if name not in {"timer", "service"}
    }


@pytest.mark.live
def test_off_means_nothing_is_touched(ros: RosEnvironment, tmp_path: Path) -> None:
    code = (
        "import rclpy.timer, rclpy.publisher, rclpy.node, sys;"
        "print('callback' in vars(rclpy.timer.Timer), rclpy.publisher.Publisher.publish.__module__,"
        "rclpy.node.Node.create_timer.__module__, any('rclpy_tracing' in m for m in sys.modules))"
    )
    output = subprocess.check_output(
        [str(ros.python), "-c", code], env=ros.process_environment(preload=ros.preload()), text=True
    )
    assert output.split() == ["False", "rclpy.publisher", "rclpy.node", "False"]


@pytest.mark.live
def test_the_folder_runs_scripts_and_modules_and_says_what_is_wrong(
    ros: RosEnvironment, tmp_path: Path
) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "import sys, rclpy_tracing\n"
        "print(sys.argv, sys.path[0], __name__, rclpy_tracing.is_enabled())\n"
    )
    environment = ros.process_environment(preload=ros.preload())

    def run(*arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(ros.python), str(RCLPY_TRACING), *arguments],
            env=environment | changed,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    done = run(str(script), "a", "b")
    assert done.stdout.strip() == f"{[str(script), 'a', 'b']} {tmp_path} __main__ True"
    done = run("-m", "mine", "a")
    assert done.stdout.strip() == f"{[str(script), 'a']} {tmp_path} __main__ True"
    for arguments, says in (((), "SCRIPT"), (("none.py",), "none.py: no such file")):
        done = run(*arguments)
        assert done.returncode == 2
        assert says in done.stderr
    done = run(str(script), LD_PRELOAD="", LD_LIBRARY_PATH="/nowhere")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1 or "rclpy" in done.stderr


@pytest.mark.live
def test_whatever_imports_rclpy_is_traced_and_what_python_ran_before_is_run(
    ros: RosEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('another')\n")
    program = "import sys, rclpy.node; print(sys.modules['rclpy_tracing'].is_enabled())"
    environment = ros.process_environment(preload=ros.preload())
    environment["PYTHONPATH"] = python_path({"PYTHONPATH": str(tmp_path)})

    def run(*arguments: str) -> tuple[list[str], list[str]]:
        done = subprocess.run(
            [str(ros.python), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines(), done.stderr.splitlines()

    assert run("-c", program) == (["another", "True"], [])
    # It is traced once, also by the folder's own command; `wrapped` is what publish() was before.
    script = tmp_path / "mine.py"
    script.write_text(
        "from rclpy.publisher import Publisher\n"
        "print(hasattr(Publisher.publish.__wrapped__, '__wrapped__'))\n"
    )
    assert run(str(RCLPY_TRACING), str(script)) == (["another", "False"], [])
    # A program that cannot be traced runs on, and one line says why: here rclpy lacks parts.
    (tmp_path / "rclpy").mkdir()
    (tmp_path / "rclpy" / "__init__.py").touch()
    printed, warned = run("-c", "import rclpy; print('on')")
    assert printed == ["another", "on"]
    assert len(warned) == 1
    assert warned[0].startswith("roslens: callbacks of Python nodes are not recorded: ")


# ---------------------------------------------------------------- without ROS


class Log:
    """Tracepoints that note their calls: the seam between the wrapper and libtracetools."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        names = Tracepoints.__dataclass_fields__
        self.tracepoints = Tracepoints(**{name: self._note(name) for name in names})

    def _note(self, name: str) -> Callable[..., None]:
        return lambda *_: self.calls.append(name)


def test_a_callback_that_raises_ends() -> None:
    log = Log()

    def fails() -> None:
        raise KeyError("mine")

    wrapper, _ = traced(fails, log.tracepoints)
    with pytest.raises(KeyError, match="mine"):
        wrapper()
    assert log.calls == ["callback_start", "callback_end"]


def test_a_coroutine_is_marked_while_it_runs_and_not_while_it_waits() -> None:
    log = Log()

    async def twice(value: int) -> int:
        log.calls.append("first")
        await asyncio.sleep(0)
        log.calls.append("second")
        await asyncio.sleep(0)
        log.calls.append("third")
        return value + 1

    wrapper, _ = traced(twice, log.tracepoints)
    assert asyncio.iscoroutinefunction(wrapper)

    async def main() -> int:
        return int(await wrapper(41))

    assert asyncio.run(main()) == 42
    marks = {"callback_start": "(", "callback_end": ")"}
    text = " ".join(marks.get(call, call) for call in log.calls)
    assert text == "( first ) ( second ) ( third )"


def test_a_coroutine_that_is_thrown_away_is_closed() -> None:
    log = Log()
    closed = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    wrapper, _ = traced(waits, log.tracepoints)

    async def main() -> None:
        task = asyncio.create_task(wrapper())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert closed == [True]
    assert log.calls.count("callback_start") == log.calls.count("callback_end")


def _plain(first: int, second: int) -> None:
    pass


class _Object:
    def method(self) -> None:
        pass

    def __call__(self) -> None:
        pass


@pytest.mark.parametrize(
    ("callback", "symbol"),
    [
        (_plain, f"{__name__}._plain"),
        (_Object().method, f"{__name__}._Object.method"),
        (_Object(), f"{__name__}._Object.__call__"),
        (functools.partial(functools.partial(_plain, 1), 2), f"{__name__}._plain"),
        (lambda: None, f"{__name__}.<lambda>"),
        ([].append, "builtins.list.append"),
        (print, "builtins.print"),
    ],
)
def test_symbols(callback: Callable[..., Any], symbol: str) -> None:
    assert symbol_of(callback) == symbol


def test_the_wrapper_has_the_signature_that_rclpy_looks_for() -> None:
    import inspect

    wrapper, address = traced(_plain, Log().tracepoints)
    assert inspect.signature(wrapper) == inspect.signature(_plain)
    assert address.value == id(wrapper)
    assert sys.getrefcount(wrapper) > 1
