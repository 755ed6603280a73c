"""Other processes of this machine at work, reached by pipes alone.

No port and no socket with a name: nobody else can reach them, whoever they are.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_END_SECONDS = 5


class WorkersDiedError(Exception):
    """Each process that tried an item died."""


@dataclass
class _Worker(Generic[T]):
    process: SpawnProcess
    pipe: Connection
    item: int | None = None


def results(
    function: Callable[[T], R], items: Sequence[T], number: int, threads: int, deaths: int
) -> Iterator[tuple[int, R | WorkersDiedError]]:
    """Call a function on each item in other processes; yields number and result as they come.

    A process that dies is replaced, and its item tried again by another, so often.

    Parameters
    ----------
    function
        Can be pickled, as the items can, and raises nothing.
    number, threads
        How many processes, and how many threads each of them may take.
    deaths
        With one more than these, an item is given up.
    """
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
                    if died[item] <= deaths:
                        todo.append(item)
                        continue
                    result = WorkersDiedError(f"each of {died[item]} died")
                assert item is not None, "only who has work answers"
                left -= 1
                yield item, result
    finally:
        _end(workers)


def _started(threads: int) -> _Worker[Any]:
    # Not forked: this process has threads, and what they hold would stay held for ever.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, threads))
    with _without_working_directory():
        process.start()
    theirs.close()
    return _Worker(process, ours)


@contextmanager
def _without_working_directory() -> Iterator[None]:
    """A process that is started meanwhile never imports from the working directory."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _send(worker: _Worker[T], task: tuple[Callable[[T], R], T]) -> None:
    # Who died meanwhile is found when it is waited for.
    try:
        worker.pipe.send(task)
    except OSError:
        worker.process.kill()


def _end(workers: Sequence[_Worker[T]]) -> None:
    for worker in workers:
        worker.pipe.close()
        worker.process.terminate()
    for worker in workers:
        worker.process.join(_END_SECONDS)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


def _work(pipe: Connection, threads: int) -> None:
    """Do what is sent until nobody is there to send."""
    # Before polars is imported, as what is sent does.
    for name in ("POLARS_MAX_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(threads)
    try:
        while True:
            function, item = pipe.recv()
            pipe.send(function(item))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return
