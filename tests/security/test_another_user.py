"""Test that another user can read, write and reach nothing of verbs that run for a while.

The intruder is user 65534, who knows every process, socket, port and open file that root sees of
the verbs. The content of recordings' and reports' folders can be read as the user's umask allows,
and only read.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil
import pytest
from tests.programs import wait_for
from tests.security.kills import (
    VERBS,
    Place,
    Verb,
    end,
    kernel_answers,
    left,
    prepared,
    recording,
    start,
)

from roslens.tracing.ftrace.tracefs import why_no_ftrace

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(400),
    pytest.mark.skipif(os.getuid() != 0, reason="becoming another user needs root"),
]
# These are of LTTng and of ROS 2's middleware, which all their programs share.
NOT_OURS = ("/dev/shm/lttng-ust-wait-", "/dev/shm/fastdds_", str(Path.home() / ".ros" / "log"))
# The verbs that only read, and take a second or more for this recording.
READING = {
    name: Verb(lambda _, words=words: [*words, "run"], recording, lambda _: [])
    for name, words in {
        "first page": (),
        "why": ("why",),
        "chains": ("chains",),
        "predict": ("predict", "--executor", "EventsCBG"),
    }.items()
} | {
    "compare": Verb(lambda _: ["compare", "run", "run"], recording, lambda _: [], (3,)),
    "export": Verb(
        lambda _: ["export", "--format", "perfetto", "run", "out"], recording, lambda _: []
    ),
}  # fmt: skip

INTRUDER = """
import json, os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)

def can(path, flags):
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK))
    except OSError:
        return False
    return True

def connects(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        try:
            tried.connect(address)
        except OSError:
            return False
    return True

for line in sys.stdin:
    files, folders, sockets, ports = json.loads(line)
    print(json.dumps({
        "reads": [x for x in files if can(x, os.O_RDONLY)],
        "writes": [x for x in files if can(x, os.O_WRONLY)]
        + [x for x in folders if os.access(x, os.W_OK)],
        "reaches": [x for x in sockets if connects(socket.AF_UNIX, x)],
        "ports": [x for x in ports if connects(socket.AF_INET, ("127.0.0.1", x))],
    }), flush=True)
"""


@contextmanager
def intruder() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-I", "-S", "-c", INTRUDER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    ) as process:
        yield process
        process.stdin.close()


def known(place: Place, before: set[Path]) -> list[list[str | int]]:
    """Return files, folders, sockets and ports of the verb's processes."""
    files: set[str] = set()
    sockets: set[str] = set()
    ports: set[int] = set()
    named = {line.split()[6]: line.split()[7] for line in unix_sockets() if len(line.split()) > 7}
    for process in place.alive():
        files |= {f"/proc/{process.pid}/{file}" for file in ("mem", "environ")}
        with suppress(psutil.Error, OSError):
            for link in Path(f"/proc/{process.pid}/fd").iterdir():
                target = str(link.readlink())
                if target.startswith("socket:["):
                    name = named.get(target[8:-1], "")
                    sockets |= {name.replace("@", "\0", 1)} if name else set()
                # A verb also lists these folders themselves, which everybody may.
                elif target.startswith(("/tmp/", "/dev/shm/", f"{Path.home()}/")):
                    files.add(target)
        # Ports are read even if a file was closed meanwhile.
        with suppress(psutil.Error, OSError):
            ports |= {
                connection.laddr.port
                for connection in process.net_connections(kind="tcp")
                if connection.status == psutil.CONN_LISTEN
            }
    roots = [path for path in Path("/tmp").glob("roslens-*") if path not in before]
    below = [path for root in (place.folder, *roots) for path in [root, *entries(root)]]
    sockets |= {str(path) for path in below if is_kind(path, stat.S_ISSOCK)}
    files |= {str(path) for path in below if is_kind(path, stat.S_ISREG)}
    folders = [str(path) for path in below if is_kind(path, stat.S_ISDIR)]
    files = {file for file in files if not file.startswith(NOT_OURS)}
    return [sorted(files), folders, sorted(sockets), sorted(ports)]


def entries(folder: Path) -> Iterator[Path]:
    """Yield the entries below; rglob would raise for a folder that the verb removes meanwhile."""
    for root, folders, files in os.walk(folder):
        yield from (Path(root, name) for name in (*folders, *files))


def unix_sockets() -> list[str]:
    return Path("/proc/net/unix").read_text().splitlines()[1:]


def is_kind(path: Path, kind: object) -> bool:
    with suppress(OSError):
        return kind(path.lstat().st_mode)
    return False


# Verbs that only read keep their tables as `collect` does.
@pytest.mark.parametrize(
    ("name", "umask"),
    [*((name, 0o022) for name in VERBS | READING), *((name, 0o077) for name in VERBS)],
)
def test_another_user_gets_at_nothing(name: str, umask: int) -> None:
    if name == "attach" and (reason := why_no_ftrace()):
        pytest.skip(reason)
    verb = (VERBS | READING)[name]
    by_kind: dict[str, set[str]] = {
        "reads": set(),
        "writes": set(),
        "reaches": set(),
        "ports": set(),
    }
    tried = [0, 0]
    before = set(Path("/tmp").glob("roslens-*"))
    umask_before = os.umask(umask)
    try:
        with prepared(verb) as place, intruder() as stranger:
            # No folder above keeps the other user out.
            place.folder.chmod(0o755)
            given = set(place.folder.rglob("*"))
            process = start(verb, place)
            until = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < until:
                # Ask before the look, so that the last look is at all that is open by then.
                answers = verb.ends is None and kernel_answers(place)
                targets = known(place, before)
                tried = [max(tried[0], len(targets[0])), max(tried[1], len(targets[2]))]
                print(json.dumps(targets), file=stranger.stdin, flush=True)
                for kind, items in json.loads(stranger.stdout.readline()).items():
                    by_kind[kind] |= set(items)
                if answers:
                    check_door(place, targets[3])
                    break
                time.sleep(0.1)
            if verb.ends is None:
                assert end(process, signal.SIGINT, place) == []
            assert left(process, place) == []
            # The verb's output goes to a file of the test, and the verb has a copy of what is
            # given.
            copies = {place.work / path.relative_to(place.given) for path in place.given.rglob("*")}
            allowed = {str(path) for path in (*given, *copies, place.folder, place.folder / "said")}
            reads = {path for path in by_kind["reads"] - allowed if not path.endswith("(deleted)")}
            if umask == 0o022:
                # The folder itself may be open, too.
                reads = {path for path in reads if not f"{path}/".startswith(f"{place.work}/")}
    finally:
        os.umask(umask_before)
    assert tried[0] > 0, "the verb had open files"
    assert reads == set()
    assert by_kind["writes"] == set()
    assert by_kind["reaches"] == set()
    assert len(by_kind["ports"]) == (name == "lab")


def test_what_a_verb_started_ends_where_the_test_fails() -> None:
    places = []

    def fails() -> None:
        with prepared(VERBS["lab"]) as place:
            places.append(place)
            process = start(VERBS["lab"], place)
            alive = wait_for(lambda: (found := place.alive())[1:] and found, process=process)
            raise AssertionError(f"of this test, with {len(alive)} processes")

    with pytest.raises(AssertionError, match=r"with [2-9] processes"):
        fails()
    assert places[0].alive() == []


def check_door(place: Place, ports: list[int]) -> None:
    """Check that the lab's port answers only with the token, which no list of processes shows."""
    (port,) = ports
    for path in ("/api/kernels", "/api/contents", "/files/work", "/api/sessions"):
        # The port asks for the token, or refuses.
        try:
            code, place_told = 200, urlopen(f"http://127.0.0.1:{port}{path}", timeout=20).url
        except HTTPError as refused:
            code, place_told = refused.code, ""
        asks = place_told.startswith(f"http://127.0.0.1:{port}/login?")
        assert code in {403, 404} or asks, f"{path}: {code}"
    # Jupyter itself prints the address, too, before or after, with "[secret]" for the token.
    (token,) = set(re.findall(r"token=(\w+)", (place.folder / "said").read_text()))
    assert len(token) == 48
    shown = " ".join(" ".join(process.cmdline()) for process in place.alive())
    assert token not in shown


def test_the_intruder_finds_what_is_open(tmp_path: Path) -> None:
    """Otherwise the answers above would mean nothing."""
    folder = Path("/tmp") / f"roslens-open-{os.getpid()}"
    folder.mkdir()
    try:
        folder.chmod(0o777)
        (folder / "file").write_text("x")
        (folder / "file").chmod(0o666)
        path = str(folder / "socket")
        with socket.socket(socket.AF_UNIX) as door, socket.create_server(("127.0.0.1", 0)) as port:
            door.bind(path)
            door.listen()
            Path(path).chmod(0o777)
            number = port.getsockname()[1]
            asked = [[str(folder / "file")], [str(folder)], [path], [number]]
            with intruder() as stranger:
                print(json.dumps(asked), file=stranger.stdin, flush=True)
                answer = json.loads(stranger.stdout.readline())
    finally:
        for left_there in folder.iterdir():
            left_there.unlink()
        folder.rmdir()
    assert answer == {
        "reads": asked[0], "writes": [*asked[0], *asked[1]], "reaches": asked[2], "ports": asked[3]
    }  # fmt: skip
