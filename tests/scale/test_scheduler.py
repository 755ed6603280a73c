"""Test workers of a running cluster: a scheduler and workers as separate processes."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from distributed import Client
from tests.free_port import free_port
from tests.programs import roslens, wait_for
from tests.samples import SAMPLES, uncollected

from roslens.fleet.cluster import Workers, each
from roslens.fleet.scheduler import version_differences
from roslens.recording import RoslensError, RunFailedError, UsageError

ROOT = Path(__file__).resolve().parents[2]
TESTS = Path(__file__).parent
RUNS = [SAMPLES / "demo" / f"00{n}_r{r}_executor-{executor}" for n, r, executor in
        ((0, 0, "Events"), (1, 0, "SingleThreaded"), (2, 1, "SingleThreaded"))]  # fmt: skip
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Yield a function that starts parts of a cluster; all are ended afterwards."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(part: str, *options: str, path: Path = ROOT / "src") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{part}", "--no-dashboard"]
        command += ["--host", "127.0.0.1", *options]
        folder = tmp_path / f"part{len(running)}"
        folder.mkdir()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (path, TESTS, ROOT)))},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
def scheduler(start: Start) -> str:
    """Return the address of a scheduler without workers."""
    port = free_port()
    start("scheduler", "--port", str(port))
    listening(port)
    return f"tcp://127.0.0.1:{port}"


def listening(port: int) -> None:
    def connects() -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", port)) == 0

    wait_for(connects, 120)


@pytest.fixture
def worker(start: Start, scheduler: str) -> Callable[..., subprocess.Popen[bytes]]:
    """Return a function that starts a worker and waits until the scheduler knows it."""

    def begin(path: Path = ROOT / "src") -> subprocess.Popen[bytes]:
        with Client(scheduler, set_as_default=False) as client:
            count = len(client.scheduler_info()["workers"])
            process = start("worker", scheduler, "--nthreads", "1", "--no-nanny", path=path)
            client.wait_for_workers(count + 1, timeout=120)
        return process

    return begin


def collect(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return roslens("collect", folder.name, *options, cwd=folder.parent)


def copies(folder: Path) -> Path:
    for run in RUNS:
        uncollected(run, folder / run.name)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.parquet")
    }


def pid_or_end(item: tuple[str, str]) -> int:
    """Announce that the task runs, wait until it may end, and return its worker's process id."""
    _, marker = item
    Path(marker).with_name(str(os.getpid())).touch()
    wait_for(Path(marker).exists, 120)
    return os.getpid()


@pytest.mark.recording
def test_files_are_those_of_one_process(tmp_path: Path, scheduler: str, worker: Start) -> None:
    """Workers run in other folders, paths are relative, and one recording is damaged."""
    worker()
    worker()
    bad = sorted(copies(tmp_path / "one").iterdir())[1].name
    copies(tmp_path / "two")
    for name in ("one", "two"):
        next((tmp_path / name / bad).rglob("metadata")).write_bytes(b"")
    local = collect(tmp_path / "one", "--workers", "1")
    remote = collect(tmp_path / "two", "--scheduler", scheduler)
    assert (local.returncode, remote.returncode) == (2, 2), remote.stderr
    assert remote.stdout.count("failed:") == local.stdout.count("failed:") == 1
    assert remote.stderr.count("roslens: error:") == 1
    lines = {
        line.replace("two/", "one/") for line in remote.stdout.splitlines() if "events" in line
    }
    assert lines == {line for line in local.stdout.splitlines() if "events" in line}
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_a_worker_that_goes_away(tmp_path: Path, scheduler: str, worker: Start) -> None:
    """A worker is killed while it works, and the other one does all."""
    first, second = worker(), worker()
    marker = tmp_path / "go"
    items = [(str(n), str(marker)) for n in range(4)]

    def kill() -> None:
        wait_for((tmp_path / str(first.pid)).exists, 120)
        first.kill()
        first.wait()
        marker.touch()

    killer = threading.Thread(target=kill)
    killer.start()
    pids = dict(each(pid_or_end, items, Workers(scheduler=scheduler)))
    killer.join()
    assert pids == dict.fromkeys(range(4), second.pid)


def test_a_scheduler_that_goes_away(tmp_path: Path, start: Start) -> None:
    """The scheduler is killed while a worker works: done work is known, the rest is one error."""
    port = free_port()
    first = start("scheduler", "--port", str(port))
    place = f"tcp://127.0.0.1:{port}"
    listening(port)
    begun = start("worker", place, "--nthreads", "1", "--no-nanny")
    marker = tmp_path / "never"

    def kill() -> None:
        wait_for((tmp_path / str(begun.pid)).exists, 120)
        first.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(RunFailedError, match="went away when 0 of 3 were done; run it again"):
        list(each(pid_or_end, [(str(n), str(marker)) for n in range(3)], Workers(scheduler=place)))
    killer.join()
    marker.touch()


def test_a_worker_that_does_not_see_the_files(
    tmp_path: Path, scheduler: str, worker: Start
) -> None:
    worker()
    present, missing = tmp_path / "here", tmp_path / "not_there"
    present.touch()
    with pytest.raises(UsageError) as error:
        list(
            each(pid_or_end, [("", str(present))], Workers(scheduler=scheduler), [present, missing])
        )
    assert f"does not see {missing}; workers need the recordings" in str(error.value)

    async def in_a_notebook() -> list[tuple[int, int | RoslensError]]:
        return list(each(pid_or_end, [("", str(present))], Workers(scheduler=scheduler), [present]))

    # A loop runs already, as in a notebook.
    (answer,) = asyncio.run(in_a_notebook())
    assert not isinstance(answer[1], RoslensError)


@pytest.mark.recording
def test_a_worker_with_another_roslens(tmp_path: Path, scheduler: str, worker: Start) -> None:
    folder = tmp_path / "other"
    ignored = shutil.ignore_patterns("target", "tests", "workloads", "notebooks", "data")
    shutil.copytree(ROOT / "src" / "roslens", folder / "roslens", ignore=ignored)
    with (folder / "roslens" / "collectors" / "store.py").open("a") as file:
        file.write("# another version\n")
    worker(folder)
    done = collect(copies(tmp_path / "runs"), "--scheduler", scheduler)
    assert done.returncode == 2
    assert done.stderr.startswith("roslens: error:")
    assert re.search(r"worker \S+ runs roslens \S+ \(here \S+\); install", done.stderr)
    assert done.stderr.count("\n") == 1


def test_a_worker_without_roslens(tmp_path: Path, scheduler: str, worker: Start) -> None:
    (tmp_path / "none" / "roslens").mkdir(parents=True)
    text = "raise ModuleNotFoundError(\"No module named 'roslens'\")\n"
    (tmp_path / "none" / "roslens" / "__init__.py").write_text(text)
    worker(tmp_path / "none")
    with pytest.raises(UsageError, match=r"cannot use roslens: .*No module named"):
        list(each(pid_or_end, [("", "")], Workers(scheduler=scheduler)))


def test_other_versions() -> None:
    """Expected texts are by hand."""
    ours = {"roslens": "a1", "Python": "3.12", "polars": "1.30"}
    assert version_differences(ours, ours) == ""
    assert version_differences({**ours, "Python": "3.8"}, ours) == "Python 3.8 (here 3.12)"
    assert version_differences({**ours, "roslens": "b2", "polars": "1.0"}, ours) == (
        "roslens b2 (here a1), polars 1.0 (here 1.30)"
    )


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:{port}", "nonsense", "what://is:this"])
def test_no_scheduler_there(tmp_path: Path, address: str) -> None:
    """The addresses are a port where nobody listens, and texts that are no address."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        place = address.format(port=bound.getsockname()[1])
        tmp_path.joinpath("x").mkdir()
        with pytest.raises(UsageError, match="no dask scheduler answers there") as error:
            list(each(pid_or_end, [("", "")], Workers(scheduler=place)))
    assert place in str(error.value)


def test_a_server_of_another_kind() -> None:
    """The server accepts the connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(UsageError, match="no dask scheduler answers there"):
            list(each(pid_or_end, [("", "")], Workers(scheduler=place)))
