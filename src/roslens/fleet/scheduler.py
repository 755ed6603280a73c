"""Connect to an external cluster and check that it can do the work, or raise one clear error."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from distributed import Client
from distributed.comm import connect, parse_address, parse_host_port

from roslens.collectors.fingerprint import collector_version
from roslens.recording import UsageError

_CONNECT_SECONDS = 5
_WORKERS_SECONDS = 10


@contextmanager
def connected(address: str, paths: Sequence[Path]) -> Iterator[Client]:
    """Connect a client to the scheduler at an address.

    Parameters
    ----------
    paths
        Paths that its workers must be able to read.

    Raises
    ------
    UsageError
        No scheduler answers there, it has no workers, or a worker has different versions, lacks
        roslens or does not see a path.
    """
    with _without_dask_messages():
        try:
            _require_scheduler(address)
            client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except Exception as error:  # any kind, by what answers there in place of a scheduler
            raise UsageError(
                f"--scheduler {address}: no dask scheduler answers there; give the address that "
                "'dask scheduler' prints, such as tcp://10.0.0.1:8786"
            ) from error
        with client:
            _check_workers(client, address)
            _check_fitness(client, address, paths)
            yield client


@contextmanager
def _without_dask_messages() -> Iterator[None]:
    """Suppress dask's messages, which our errors repeat; after an error nothing more is logged."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        # Above all levels: otherwise a lost connection would be reported even after the end.
        logger.setLevel(logging.CRITICAL + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


def _require_scheduler(address: str) -> None:
    """Fail soon if no scheduler is there: a client retries again and again, and waits without end
    for the greeting of a different kind of server.
    """  # noqa: D205
    scheme, place = parse_address(address)
    if scheme in ("tcp", "tls"):
        socket.create_connection(parse_host_port(place), _CONNECT_SECONDS).close()

    async def greet() -> None:
        comm = await asyncio.wait_for(connect(address), _CONNECT_SECONDS)
        await comm.close()

    if scheme != "tls":  # which needs keys that only the client knows
        # In a notebook, this thread already has a running loop.
        with ThreadPoolExecutor(1) as executor:
            executor.submit(lambda: asyncio.run(greet())).result()


def _check_workers(client: Client, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_WORKERS_SECONDS)
    except TimeoutError as error:
        raise UsageError(
            f"--scheduler {address}: it has no workers; start some with 'dask worker {address}'"
        ) from error


def _check_fitness(client: Client, address: str, paths: Sequence[Path]) -> None:
    ours = fitness([])
    answers: dict[str, Any] = {}
    try:
        answers["the scheduler"] = client.run_on_scheduler(fitness, [])
    except Exception as error:  # noqa: BLE001  (what it cannot import, or cannot unpickle)
        answers["the scheduler"] = error
    by_worker = client.run(fitness, [str(path) for path in paths], on_error="return")
    answers |= {f"worker {name}": answer for name, answer in by_worker.items()}
    for who, answer in answers.items():
        if isinstance(answer, BaseException):
            message = f"{type(answer).__name__}: {' '.join(str(answer).split())}"
            why = f"cannot use roslens: {message}; install it there"
        elif versions := version_differences(answer["versions"], ours["versions"]):
            why = f"runs {versions}; install the same versions there"
        elif answer["missing"]:
            more = f" and {len(answer['missing']) - 1} more" if len(answer["missing"]) > 1 else ""
            why = (
                f"does not see {answer['missing'][0]}{more}; workers need the recordings under the "
                "same paths"
            )
        else:
            continue
        raise UsageError(f"--scheduler {address}: {who} {why}")


def version_differences(found: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Describe the versions that differ from ours, next to ours; empty if all agree."""
    return ", ".join(
        f"{name} {found[name]} (here {version})"
        for name, version in here.items()
        if found[name] != version
    )


def fitness(paths: Sequence[str]) -> dict[str, Any]:
    """Return versions that tasks and results depend on, and missing paths; runs on the cluster."""
    return {
        "versions": {
            "roslens": collector_version(),
            "Python": f"{sys.version_info.major}.{sys.version_info.minor}",
            **{name: version(name) for name in ("distributed", "cloudpickle", "polars")},
        },
        "missing": [path for path in paths if not Path(path).exists()],
    }
