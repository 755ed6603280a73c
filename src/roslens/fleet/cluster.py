"""Run the same function on many recordings, in processes of this machine or of a cluster.

A task is one recording. A failure becomes the result of its task, an error of one line; the
other tasks go on. A worker that dies is replaced, and another worker retries its recording.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from roslens.recording import RoslensError, RunFailedError, UsageError
from roslens.recording.scratch import environment

if TYPE_CHECKING:
    from distributed import Client


T = TypeVar("T")
R = TypeVar("R")

WORTH_IT = 16
"""The number of tasks from which workers are started by default."""

_DEATHS = 3
_GIVEN_UP = RunFailedError(f"every one of {_DEATHS + 1} workers that tried it died")
_WORKER_BYTES = 1 << 30
_LONGEST = 300


@dataclass(frozen=True)
class Workers:
    """Choice of worker processes.

    Attributes
    ----------
    number
        Processes on this machine; 0: as many as its cores and memory allow; None: start them
        only if there are enough tasks.
    scheduler
        Address of a running dask scheduler, such as ``tcp://10.0.0.1:8786``. Its workers need
        roslens and the same paths.
    """

    number: int | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.number is not None and self.number < 0:
            raise UsageError(f"--workers {self.number}: give a number, or 0 for one per core")
        if self.number is not None and self.scheduler is not None:
            raise UsageError("give either --workers or --scheduler, not both")

    def wanted(self, tasks: int) -> bool:
        """Return whether other processes should do this number of tasks.

        Raises
        ------
        UsageError
            A scheduler is given, and dask is not installed.
        """
        asked = self.scheduler is not None or self.number is not None
        if self.number == 1 or tasks == 0:
            return False
        if self.scheduler is not None and importlib.util.find_spec("distributed") is None:
            raise UsageError("--scheduler needs dask: pip install 'roslens[scale]'")
        return asked or (tasks >= WORTH_IT and fitting_workers() > 1)


def fitting_workers() -> int:
    """Return the number of cores with 1 GiB of free memory for each; at least one."""
    import psutil  # noqa: PLC0415  (not for what one process does)

    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, psutil.virtual_memory().available // _WORKER_BYTES))


def each(
    function: Callable[[T], R],
    items: Sequence[T],
    workers: Workers,
    paths: Sequence[Path] = (),
) -> Iterator[tuple[int, R | RoslensError]]:
    """Call a function on each item; yield number and result in order of completion.

    Parameters
    ----------
    function
        A picklable function, as the items are; a `RoslensError` it raises is the item's result, any
        other error becomes one.
    paths
        Absolute paths that the workers of a scheduler must be able to see.

    Raises
    ------
    UsageError
        dask is missing, no scheduler is at the address, or its workers cannot do the work.
    RunFailedError
        The connection to the scheduler was lost.
    """
    if not workers.wanted(len(items)):
        for number, item in enumerate(items):
            yield number, attempt(function, item)
        return
    if workers.scheduler is None:
        number = min(workers.number or fitting_workers(), len(items))
        yield from _in_processes(partial(attempt, function), items, number)
        return
    from roslens.fleet.scheduler import connected  # noqa: PLC0415  (imports dask)

    with connected(workers.scheduler, paths) as client:
        yield from _on_cluster(client, function, items)


def attempt(function: Callable[[T], R], item: T) -> R | RoslensError:
    """Return the result of a call or, whatever goes wrong, an error of one line."""
    try:
        return function(item)
    except RoslensError as error:
        return error
    except Exception as error:  # noqa: BLE001  (one recording must not end the others)
        return one_line(error)


def one_line(error: BaseException) -> RoslensError:
    """Convert an unforeseen error to an error of one line."""
    text = " ".join(str(error).split())[:_LONGEST]
    return RunFailedError(f"{type(error).__name__}: {text}")


def _on_cluster(
    client: Client, function: Callable[[T], R], items: Sequence[T]
) -> Iterator[tuple[int, R | RoslensError]]:
    from distributed import CancelledError, as_completed  # noqa: PLC0415
    from distributed.scheduler import KilledWorker  # noqa: PLC0415

    futures = {
        client.submit(attempt, function, item, pure=False, retries=1): number
        for number, item in enumerate(items)
    }
    for done, future in enumerate(as_completed(list(futures), loop=client.loop)):
        result: Any
        try:
            result = future.result()
        except CancelledError as error:
            raise RunFailedError(
                f"the scheduler went away when {done:,} of {len(items):,} were done; run it again "
                "for the others"
            ) from error
        except KilledWorker:
            result = _GIVEN_UP
        except Exception as error:  # noqa: BLE001  (what dask itself has to say)
            result = one_line(error)
        yield futures[future], result
        future.release()


_END_SECONDS = 5
_ENDS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class _Worker(Generic[T]):
    process: SpawnProcess
    pipe: Connection
    item: int | None = None


def _in_processes(
    function: Callable[[T], R | RoslensError], items: Sequence[T], number: int
) -> Iterator[tuple[int, R | RoslensError]]:
    """Call a function on each item in a number of other processes of this machine.

    The processes are reached by pipes alone, without ports or named sockets, so nobody else can
    reach them. A process that dies is replaced, and another one retries its item.
    """
    threads = max(1, len(os.sched_getaffinity(0)) // number)
    todo = deque(range(len(items)))
    died = [0] * len(items)
    workers: list[_Worker[T]] = []
    try:
        left = len(items)
        while left:
            while todo and len(workers) < number:
                workers.append(_started(threads))
            for worker in workers:
                if worker.item is None and todo:
                    worker.item = todo.popleft()
                    _send(worker, (function, items[worker.item]))
            ready = wait([worker.pipe for worker in workers])
            for worker in [worker for worker in workers if worker.pipe in ready]:
                item, worker.item = worker.item, None
                try:
                    result: Any = worker.pipe.recv()
                except (EOFError, OSError):
                    workers.remove(worker)
                    _end([worker])
                    if item is None:
                        continue
                    died[item] += 1
                    if died[item] <= _DEATHS:
                        todo.append(item)
                        continue
                    result = _GIVEN_UP
                assert item is not None, "only who has work answers"
                left -= 1
                yield item, result
    finally:
        _end(workers)


def _started(threads: int) -> _Worker[Any]:
    # Not forked: locks held by threads of this process would stay locked for ever.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, threads))
    # Processes that are started meanwhile do not import from the working directory.
    with environment(PYTHONSAFEPATH="1"):
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _send(worker: _Worker[T], task: tuple[Callable[[T], R], T]) -> None:
    # A worker that has died is noticed when the caller waits for it.
    try:
        worker.pipe.send(task)
    except OSError:
        worker.process.kill()


def _end(workers: Sequence[_Worker[T]]) -> None:
    for worker in workers:
        worker.pipe.close()
        # An idle worker ends when its pipe closes.
        if worker.item is not None:
            worker.process.terminate()
    for worker in workers:
        worker.process.join(_END_SECONDS)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


def _interrupted(*_: object) -> NoReturn:
    """End in order, removing half-made files, however often a signal arrives."""
    for number in _ENDS:
        # Not SIG_IGN: Python reports a signal that is already pending.
        signal.signal(number, lambda *_: None)
    raise KeyboardInterrupt


def _work(pipe: Connection, threads: int) -> None:
    """Call the functions that are sent until the sender is gone."""
    for number in _ENDS:
        signal.signal(number, _interrupted)
    # Before polars is imported, which unpickling the functions does.
    for name in ("POLARS_MAX_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(threads)
    try:
        while True:
            function, item = pipe.recv()
            pipe.send(function(item))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return
