"""A cluster that somebody else runs: reached, and found fit for the work, or one clear error."""

from __future__ import annotations

import asyncio
import logging
import socket
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distributed import Client
from distributed.comm import connect, parse_address, parse_host_port

from roslens.collectors.fingerprint import collector_version
from roslens.recording import UsageError

_CONNECT_SECONDS = 5
_WORKERS_SECONDS = 10
_PACKAGES = ("distributed", "cloudpickle", "polars")


@contextmanager
def connected(address: str, paths: Sequence[Path]) -> Iterator[Client]:
    """A client of the scheduler at an address.

    Parameters
    ----------
    paths
        What its workers must be able to read.

    Raises
    ------
    UsageError
        No scheduler answers there, it has no workers, or a worker has other versions, lacks
        roslens or does not see a path.
    """
    with _quiet():
        try:
            _look_for(address)
            client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except Exception as error:  # any kind, by what answers there in place of a scheduler
            raise UsageError(
                f"--scheduler {address}: no dask scheduler answers there; give the address that "
                "'dask scheduler' prints, such as tcp://10.0.0.1:8786"
            ) from error
        with client:
            _check_workers(client, address)
            _check_versions(client, address)
            _check_paths(client, address, paths)
            yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """What dask says beside its errors is said again by ours; after one nothing more is said."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        # Beyond all levels: what a lost connection leaves undone is told after the end.
        logger.setLevel(logging.CRITICAL + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


def _look_for(address: str) -> None:
    """Fail soon where there is none: a client tries again and again, and waits without end for
    the greeting of a server of another kind.
    """  # noqa: D205
    scheme, place = parse_address(address)
    if scheme in ("tcp", "tls"):
        socket.create_connection(parse_host_port(place), _CONNECT_SECONDS).close()

    async def greet() -> None:
        comm = await asyncio.wait_for(connect(address), _CONNECT_SECONDS)
        await comm.close()

    if scheme != "tls":  # which needs keys that only the client knows
        # In a notebook this thread has a loop that runs already.
        with ThreadPoolExecutor(1) as beside:
            beside.submit(lambda: asyncio.run(greet())).result()


def _check_workers(client: Client, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_WORKERS_SECONDS)
    except TimeoutError as error:
        raise UsageError(
            f"--scheduler {address}: it has no workers; start some with 'dask worker {address}'"
        ) from error


def _check_versions(client: Client, address: str) -> None:
    different = other_versions(client.get_versions(packages=["polars"]))
    if different:
        worker, text = next(iter(different.items()))
        raise UsageError(
            f"--scheduler {address}: worker {worker} runs {text}; install the same versions there"
        )


def other_versions(found: Mapping[str, Any]) -> dict[str, str]:
    """Workers whose versions are not ours, of what ``Client.get_versions`` tells, and which."""
    mine = _versions(found["client"])
    different = {}
    for worker, about in found["workers"].items():
        theirs = _versions(about)
        other = [
            f"{name} {theirs[name]} (here {version})"
            for name, version in mine.items()
            if theirs[name] != version
        ]
        if other:
            different[worker] = ", ".join(other)
    return different


def _versions(about: Mapping[str, Any]) -> dict[str, str]:
    """Of what pickled tasks, and results that are to be the same, depend on."""
    packages = about["packages"]
    python = str(packages["python"]).split(".")[:2]
    return {"Python": ".".join(python), **{name: str(packages.get(name)) for name in _PACKAGES}}


def _check_paths(client: Client, address: str, paths: Sequence[Path]) -> None:
    wanted = [str(path) for path in paths]
    here = fitness([])["collectors"]
    try:
        client.run_on_scheduler(fitness, [])
    except Exception as error:  # what it cannot import, or cannot unpickle
        raise UsageError(
            f"--scheduler {address}: the scheduler cannot use roslens: {_in_a_line(error)}; "
            "install it there"
        ) from error
    for worker, found in client.run(fitness, wanted, on_error="return").items():
        if isinstance(found, BaseException):
            raise UsageError(
                f"--scheduler {address}: worker {worker} cannot use roslens: {_in_a_line(found)}; "
                "install it there"
            )
        if found["collectors"] != here:
            raise UsageError(
                f"--scheduler {address}: worker {worker} has another version of roslens; "
                "install the same one there"
            )
        if found["missing"]:
            more = f" and {len(found['missing']) - 1} more" if len(found["missing"]) > 1 else ""
            raise UsageError(
                f"--scheduler {address}: worker {worker} does not see "
                f"{found['missing'][0]}{more}; workers need the recordings under the same paths"
            )


def _in_a_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def fitness(paths: Sequence[str]) -> dict[str, Any]:
    """Run by a worker: its version of the collectors, and which of the paths it does not see."""
    return {
        "collectors": collector_version(),
        "missing": [path for path in paths if not Path(path).exists()],
    }
