"""Record a program that has every kind of field, with a private session daemon."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from roslens.tracing.lttng.daemon import session_daemon

PROGRAMS = Path(__file__).resolve().parent / "programs"

Record = Callable[..., Path]


@pytest.fixture(scope="session")
def kinds(tmp_path_factory) -> Path:
    """Compile the program ``kinds COUNT``."""
    program = tmp_path_factory.mktemp("programs") / "kinds"
    subprocess.run(
        [
            *("cc", "-O1", f"-I{PROGRAMS}", str(PROGRAMS / "kinds.c"), "-o", str(program)),
            *("-llttng-ust", "-ldl", "-lpthread"),
        ],
        check=True,
    )
    return program


@pytest.fixture
def record(kinds, tmp_path) -> Record:
    """Record ``kinds COUNT``; options are those of ``lttng enable-channel``.

    With ``snapshots``, only a snapshot of the buffers is written after each run.
    """

    def run(
        count: int,
        *options: str,
        contexts: tuple[str, ...] = ("vpid", "vtid", "procname"),
        runs: int = 1,
        blocking: bool = False,
        create: tuple[str, ...] = (),
        snapshots: bool = False,
        sessions: int = 1,
    ) -> Path:
        output = tmp_path / "trace"
        with session_daemon() as daemon:
            names = [f"{daemon.session_name}{'_' * number}" for number in range(sessions)]
            call = daemon.tool.call
            how = ("--snapshot",) if snapshots else ()
            for name in names:
                folder = output if sessions == 1 else output / str(len(name))
                call("create", name, f"--output={folder}", *how, *create)
            try:
                for name in names:
                    call("enable-channel", "-u", "-s", name, *options, "ch")
                    call("enable-event", "-u", "-s", name, "-c", "ch", "kinds:*")
                    for context in contexts:
                        call("add-context", "-u", "-s", name, "-c", "ch", "-t", context)
                    call("start", name)
                variables = {**os.environ, **daemon.workload_variables}
                variables["LTTNG_UST_REGISTER_TIMEOUT"] = "-1"
                if blocking:
                    variables["LTTNG_UST_ALLOW_BLOCKING"] = "1"
                for _ in range(runs):
                    subprocess.run([str(kinds), str(count)], env=variables, check=True, timeout=60)
                    if snapshots:
                        call("snapshot", "record", "-s", names[0])
            finally:
                for name in names:
                    call("destroy", name)
        return output

    return run
