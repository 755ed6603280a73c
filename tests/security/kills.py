"""Verbs that run for a while, ended at random moments: nothing stays behind, the next run works.

    python tests/security/kills.py [--kills 100] [--seed 1] [VERB ...]

Each verb is first run to its end, for its time. Then it is ended at random moments before that,
by SIGKILL (as the kernel does when memory is short) or, as Ctrl-C does, by SIGINT to all its
processes, as often as asked. A minute later at most there must be no process of it, no shared
memory, no instance or probe of the kernel's tracing and no LTTng session daemon; the programs that
it looks at must run on; what it wrote must be whole, or not pass for whole. A scratch folder may
lie there after SIGKILL until the next start: never two, and none after the last run, which must end
as the first did. As root /tmp and /dev/shm are this driver's own, so that several may run at a
time, each with a seed of its own: of 100 kills of `report` three do 34, in a third of the time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

import psutil
from tests.free_port import free_port
from tests.native_tracer.test_native_tracer import compile_program, environment

from roslens.analysis.metrics import read_metrics
from roslens.collectors.collected import NOTE
from roslens.collectors.reader import open_trace
from roslens.recording import RoslensError
from roslens.recording.manifest import read_manifest
from roslens.tracing.ftrace.tracefs import PROBES, tracefs
from roslens.tracing.native_tracer.library import native_library
from roslens.tracing.ros import embedded_ros
from roslens.tracing.ros.domain import own_domain

TESTS = Path(__file__).resolve().parents[1]
RUN = TESTS.parent / "data" / "samples" / "two_process" / "000_r0_fastrtps"
MARK = "ROSLENS_KILLS"
SECONDS = 60
TALKER = """
import signal, time
# Whom Ctrl-C meets before rclpy has its handlers, leaves the shared memory of Fast DDS behind.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
import rclpy
from std_msgs.msg import String
rclpy.init()
publisher = rclpy.create_node("talker").create_publisher(String, "chatter", 10)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
for _ in range(100):
    publisher.publish(String(data="x"))
    time.sleep(0.01)
"""
TRIGGERS = "triggers: [callback > 1 us]\nafter_s: 0\ncooldown_s: 0.3\nmost_mb: 200\n"


@dataclass
class Place:
    """Where a verb works, and the programs that it looks at."""

    folder: Path
    programs: list[subprocess.Popen[bytes]] = field(default_factory=list)
    shared: set[str] = field(default_factory=set)

    @property
    def out(self) -> Path:
        """What the verb writes; emptied after each."""
        return self.folder / "work" / "out"

    def alive(self) -> list[psutil.Process]:
        """Processes that the verb started, it among them."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == str(self.folder):
                    found.append(process)
        return found

    def end_all(self) -> list[str]:
        """Kill those that are still there, and say which."""
        ended = []
        for one in self.alive():
            with suppress(psutil.Error):
                ended.append(f"process {one.name()} is left: {' '.join(one.cmdline())[-200:]}")
                one.kill()
                one.wait(SECONDS)
        return ended


def flight(place: Place, stack: ExitStack) -> None:
    """A program that records itself as a flight recorder."""
    library, made = native_library("kilted"), place.folder / "talking"
    compile_program(TESTS / "native_tracer" / "talking.c", library, made)
    folder = place.folder / "flight"
    folder.mkdir(mode=0o700)
    begin(
        place, stack, [str(made), "100000000", "500", "400", "800"],
        environment(library, folder, ROSLENS_TRACE_FLIGHT="5"),
    )  # fmt: skip
    (place.folder / "triggers.yaml").write_text(TRIGGERS)
    wait(lambda: len(list(folder.glob("ros2-*/ros2_[0-9]*"))) == 2)


def pair(place: Place, stack: ExitStack) -> None:
    """A talker and a listener."""
    ros = embedded_ros()
    # One of its own: who is found elsewhere on the machine is given shared memory, too.
    domain = stack.enter_context(own_domain())
    for role in ("listener", "talker"):
        node = [str(TESTS / "kernel" / "pair_node.py"), role, str(place.folder / role)]
        command = [str(ros.python), *node, str(place.folder / "stop")]
        apart = {"ROS_DOMAIN_ID": str(domain)}
        begin(place, stack, command, ros.process_environment(os.environ | apart))
    wait((place.folder / "listener.on").exists)


def recording(place: Place, _: ExitStack) -> None:
    """A recording without tables."""
    made = shutil.ignore_patterns("events", "tables")
    shutil.copytree(RUN, place.folder / "run", ignore=made)


def talker(place: Place, _: ExitStack) -> None:
    """A program that publishes for a second."""
    (place.folder / "talker.py").write_text(TALKER)


def begin(place: Place, stack: ExitStack, command: list[str], variables: dict[str, str]) -> None:
    program = subprocess.Popen(command, env=variables, start_new_session=True)
    place.programs.append(program)
    stack.callback(program.wait)
    stack.callback(program.kill)


def wait(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(condition)
        time.sleep(0.02)


def manifests(place: Place) -> list[str]:
    """Those that cannot be read, and complete ones of which no trace can be."""
    wrong = []
    for path in place.out.rglob("manifest.json"):
        try:
            complete = read_manifest(path).status == "complete"
            if complete and next((path.parent / "trace").rglob("metadata"), None):
                open_trace(path.parent).info()
        except RoslensError as error:
            wrong.append(str(error))
    return wrong


def snapshots(place: Place) -> list[str]:
    """Those that are not whole."""
    made = [x for x in place.out.glob("*") if not x.name.startswith(".")]
    without = [f"{x.name}: no manifest" for x in made if not (x / "manifest.json").is_file()]
    return without + manifests(place)


def tables(place: Place) -> list[str]:
    """Tables that are not as their note says, or that no note tells of."""
    wrong = []
    for path in place.out.rglob("tables/*.parquet"):
        if any(part.startswith(".") for part in path.relative_to(place.out).parts):
            continue
        note = path.with_name(NOTE)
        told = json.loads(note.read_text())["files"] if note.is_file() else {}
        about = told.get(f"tables/{path.name}", {"sha256": None})
        if about["sha256"] != hashlib.sha256(path.read_bytes()).hexdigest():
            wrong.append(f"{path.name} is not what a note says")
    return wrong


def report(place: Place) -> list[str]:
    """Pages without an end, and metrics that cannot be read."""
    wrong = [
        f"{page.name} without an end"
        for page in place.out.rglob("*.html")
        if not page.read_bytes().rstrip().endswith(b"</html>")
    ]
    for path in place.out.rglob("metrics.json"):
        try:
            read_metrics(path)
        except RoslensError as error:
            wrong.append(str(error))
    return wrong


def race(place: Place) -> list[str]:
    """Recordings, and the answer."""
    for path in place.out.glob("answer.json"):
        json.loads(path.read_text())
    return manifests(place)


def lab(place: Place) -> list[str]:
    """The notebook, if it is there, can be read."""
    for path in place.folder.glob("work/data/reports/start/*/start.ipynb"):
        json.loads(path.read_text())
    return []


@dataclass(frozen=True)
class Verb:
    """A verb, what must be there before it, and what is wrong with what it left.

    Attributes
    ----------
    ends
        Exit codes of a whole run; None where it ends only when it is told to.
    """

    arguments: Callable[[Place], Sequence[str | Path]]
    prepare: Callable[[Place, ExitStack], None]
    wrong: Callable[[Place], list[str]]
    ends: tuple[int, ...] | None = (0,)


VERBS = {
    "watch": Verb(
        lambda place: [
            "watch", place.folder / "flight", "--seconds", "3", "--every", "0.3", "--json",
            "--triggers", place.folder / "triggers.yaml", "-o", place.out,
        ],
        flight, snapshots,
    ),
    "attach": Verb(
        lambda place: [
            "record", "--attach", *(str(x.pid) for x in place.programs), "--time-limit", "1",
            "--stacks", "-o", place.out / "new",
        ],
        pair, manifests,
    ),
    "snapshot": Verb(
        lambda place: ["snapshot", place.folder / "flight", "-o", place.out / "new"],
        flight, snapshots,
    ),
    "race": Verb(
        lambda place: [
            "race", "--tracer", "lttng", "--metric", "time", "--pause", "0", "--max-time", "1",
            "-o", place.out, "--json", place.out / "answer.json", "--", "true", "---", "true",
        ],
        lambda place, _: None, race, (0, 1, 3),
    ),
    **{
        f"record {tracer}": Verb(
            lambda place, tracer=tracer: [
                "record", "--tracer", tracer, "--kernel", "off", "--ros", "embedded",
                "-o", place.out / "new", "--", "python3", place.folder / "talker.py",
            ],
            talker, manifests,
        )
        for tracer in ("native", "lttng")
    },
    "collect": Verb(
        lambda place: ["collect", place.folder / "run", "--workers", "2", "-o", place.out / "new"],
        recording, tables,
    ),
    "report": Verb(
        lambda place: ["report", "latency", place.folder / "run", "-o", place.out / "report"],
        recording, report,
    ),
    "lab": Verb(
        lambda place: [
            "lab", place.folder / "run", "--no-browser", "--port", str(free_port())
        ],
        recording, lab, None,
    ),
}  # fmt: skip


def start(verb: Verb, place: Place) -> subprocess.Popen[bytes]:
    """The verb at work; all that it starts has the mark."""
    shutil.rmtree(place.out, ignore_errors=True)
    place.out.mkdir(parents=True)
    # Also where these tests run in the background of a shell, which lets them ignore Ctrl-C.
    heeding = ("env", "--default-signal=INT")
    with (place.folder / "said").open("wb") as said:
        return subprocess.Popen(
            [*heeding, sys.executable, "-m", "roslens", *map(str, verb.arguments(place))],
            cwd=place.folder / "work", env=os.environ | {MARK: str(place.folder)},
            stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip


def whole(verb: Verb, place: Place) -> tuple[float, list[str]]:
    """Run it to its end, a lab until it has a kernel: seconds, and what was wrong."""
    begun = time.monotonic()
    process = start(verb, place)
    if verb.ends is None:
        wait(lambda: process.poll() is not None or kernel_answers(place), 5 * SECONDS)
        seconds = time.monotonic() - begun
        wrong = end(process, signal.SIGINT, place)
    else:
        process.wait()
        seconds, wrong = time.monotonic() - begun, []
        if process.returncode not in verb.ends:
            wrong.append(f"exit code {process.returncode}: {said(place)}")
    return seconds, wrong + left(process, place) + verb.wrong(place)


def kernel_answers(place: Place) -> bool:
    """Whether the lab has told its address, and its kernel runs."""
    text = (place.folder / "said").read_text()
    # Jupyter itself tells it, too, with dots for the token.
    found = re.search(r"http://127\S+token=\w+", text)
    if found is None:
        return False
    address = found[0]
    with suppress(URLError, OSError), urlopen(address.replace("/lab?", "/api/kernels?")) as answer:
        # It is idle only once a page has asked for it.
        return bool(json.load(answer))
    return False


def said(place: Place) -> str:
    return (place.folder / "said").read_text(errors="replace")[-600:]


def end(process: subprocess.Popen[bytes], how: signal.Signals, place: Place) -> list[str]:
    """End it; what it did wrong about that."""
    if how is signal.SIGKILL:
        process.kill()
        process.wait()
        return []
    with suppress(ProcessLookupError):
        os.killpg(process.pid, how)
    try:
        code = process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return [f"did not end by {how.name}: {said(place)}"]
    # Python itself ends by the signal, with a traceback, before it has begun with our modules.
    if re.search(r"Traceback(.|\n)*/roslens/(?!__)", said(place)) or code not in {
        0,
        1,
        3,
        130,
        -how,
    }:
        return [f"exit code {code} by {how.name}: {said(place)}"]
    return []


def left(process: subprocess.Popen[bytes], place: Place) -> list[str]:
    """What is still there of a verb that has ended; processes are ended."""
    with suppress(TimeoutError):
        # A look at the graph of ROS 2 has the programs' environment, and ends by itself.
        wait(lambda: not place.alive() and not shared_memory() - place.shared)
    wrong = place.end_all()
    with suppress(OSError), tracefs() as root:
        there = [*(root / "instances").iterdir(), *(root / "events").glob(f"{PROBES}*")]
        mine = f"-{process.pid}-"
        wrong += [f"{x.name} is left" for x in there if mine in x.name.replace("_", "-")]
    wrong += [f"{x} is left" for x in sorted(shared_memory() - place.shared)]
    wrong += [f"program {x.args!r} ended" for x in place.programs if x.poll() is not None]
    return wrong


def shared_memory() -> set[str]:
    """All but the one page of all programs with LTTng, which it keeps for ever."""
    found = (x.name for x in Path("/dev/shm").iterdir())
    return {x for x in found if not x.startswith("lttng-ust-wait-")} if own_places() else set()


def scratch(place: Place) -> list[Path]:
    """Folders that verbs work in."""
    hidden = [x for x in (place.folder / "work").rglob(".*") if x.is_dir()]
    return hidden + [x for x in Path(tempfile.gettempdir()).glob("roslens-*") if x != place.folder]


def own_places() -> bool:
    """Whether /tmp and /dev/shm are of this driver alone."""
    return os.environ.get(f"{MARK}_OWN") == "1"


@contextmanager
def prepared(verb: Verb) -> Iterator[Place]:
    """A place with what the verb needs; its programs and what the verb started end with it."""
    with tempfile.TemporaryDirectory(prefix="kills-") as made, ExitStack() as stack:
        place = Place(Path(made))
        stack.callback(place.end_all)
        verb.prepare(place, stack)
        (place.folder / "work").mkdir()
        place.shared = shared_memory()
        yield place


def tried(name: str, kills: int, chance: random.Random) -> list[str]:
    """End a verb so often: what was wrong; prints a line about it."""
    verb, ended, wrong = VERBS[name], Counter[str](), []
    begun = time.monotonic()
    with prepared(verb) as place:
        seconds, wrong = whole(verb, place)
        most = 0
        while ended.total() < kills and not wrong[20:]:
            there = set(scratch(place))
            process = start(verb, place)
            how = chance.choice((signal.SIGKILL, signal.SIGINT))
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, seconds))
                # Quicker than the first time.
                continue
            ended[how.name] += 1
            found = end(process, how, place)
            found += left(process, place) + verb.wrong(place)
            here = set(scratch(place))
            most = max(most, len(here))
            if how is signal.SIGINT and here - there:
                found.append(f"scratch is left: {sorted(here - there)}")
            for problem in found:
                print(f"  {name} {ended.total()} {how.name}: {problem}", flush=True)
            wrong += found
        _, last = whole(verb, place)
        last += [f"{x} is left at last" for x in scratch(place)]
        for problem in last:
            print(f"  {name} at last: {problem}", flush=True)
        wrong += last
    minutes = (time.monotonic() - begun) / 60
    killed, told = ended["SIGKILL"], ended["SIGINT"]
    print(
        f"{name}: {seconds:.1f} s whole, {killed} SIGKILL and {told} SIGINT in {minutes:.1f} min, "
        f"{most} scratch folders at most, {len(wrong)} wrong",
        flush=True,
    )
    return wrong


def main() -> None:
    """End them; exit code 1 where something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verbs", nargs="*", metavar="VERB", choices=[[], *VERBS])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if os.getuid() == 0 and not own_places():
        own = 'mount -t tmpfs none /tmp && mount -t tmpfs none /dev/shm && exec "$@"'
        command = [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:]]
        os.environ[f"{MARK}_OWN"] = "1"
        os.execvp("unshare", ["unshare", "-m", "sh", "-c", own, "sh", *command])
    bad = [
        tried(name, options.kills, random.Random(f"{options.seed} {name}"))
        for name in options.verbs or VERBS
    ]
    sys.exit(any(bad))


if __name__ == "__main__":
    main()
