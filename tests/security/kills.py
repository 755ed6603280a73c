"""Verbs ended at random moments, and on full disks: nothing half-made stays, the next run works.

    python tests/security/kills.py [--kills 100] [--sizes 20] [--seed 1] [VERB ...]

Each verb is first run to its end, for its time, its files and the largest of them. Then it is ended
at random moments before that, by SIGKILL (as the kernel does when memory is short) or, as Ctrl-C
does, by SIGINT to all its processes, as often as asked. A minute later at most there must be no
process of it, no shared memory, no instance or probe of the kernel's tracing and no LTTng session
daemon; the programs that it looks at must run on; what it wrote must be whole, or not pass for
whole. A scratch folder may lie there after SIGKILL until the next start: never two, and none after
the last run, which must end as the first did, of those that can on what the last kill left. Verbs
that write what is given to them are also run with files limited to random sizes below the largest
(RLIMIT_FSIZE, as on a disk that is full there). As root /tmp and /dev/shm are this driver's own, so
that several may run at a time, each with a seed of its own: of 100 kills of `report` three do 34,
in a third of the time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import resource
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

import polars as pl
import psutil
from tests.free_port import free_port
from tests.native_tracer.test_native_tracer import compile_program, environment
from tests.programs import programs_of_ros, wait_for
from tests.samples import RUN, SAMPLES, uncollected

import roslens as rl
from roslens.analysis.metrics import read_metrics
from roslens.collectors.collected import NOTE
from roslens.collectors.collection import collect
from roslens.collectors.reader import open_trace
from roslens.recording import Recording, RoslensError
from roslens.recording.manifest import read_manifest
from roslens.tracing.archive import pack
from roslens.tracing.ftrace.tracefs import PROBES, tracefs
from roslens.tracing.native_tracer.library import native_library
from roslens.tracing.ros import embedded_ros
from roslens.tracing.ros.domain import own_domain

TESTS = Path(__file__).resolve().parents[1]
MARK = "ROSLENS_KILLS"
SECONDS = 60
MESSAGES = 100
TALKER = f"""
import signal, time
# Whom Ctrl-C meets before rclpy has its handlers, leaves the shared memory of Fast DDS behind.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
import rclpy
from std_msgs.msg import String
rclpy.init()
publisher = rclpy.create_node("talker").create_publisher(String, "chatter", 10)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
for _ in range({MESSAGES}):
    publisher.publish(String(data="x"))
    time.sleep(0.01)
"""
# Builds, as a command, what a recorder builds when it needs it.
BUILD = """
import sys
from pathlib import Path
from roslens.cli import app, main
from roslens.tracing.ros.environment import embedded_ros
from roslens.tracing.ros.tracetools import build_stub, build_tracetools
from roslens.tracing.sampling.heap import build_probe

@app.command
def build(include: Path):
    build_tracetools(include)
    build_stub("liblttng-ust.so.0")
    build_probe()

@app.command
def build_ros():
    embedded_ros()

main(sys.argv[1:])
"""
TRIGGERS = "triggers: [callback > 1 us]\nafter_s: 0\ncooldown_s: 0.3\nmost_mb: 200\n"


@dataclass
class Place:
    """The place where a verb works, and the programs that it looks at.

    The files in ``given`` are in its working folder at each start; ``whole`` is that folder after
    the first run.
    """

    folder: Path
    programs: list[subprocess.Popen[bytes]] = field(default_factory=list)
    shared: set[str] = field(default_factory=set)

    def __getattr__(self, name: str) -> Path:
        return self.folder / name

    @property
    def out(self) -> Path:
        """Return the folder or file that the verb writes."""
        return self.work / "out"

    def alive(self) -> list[psutil.Process]:
        """Return the verb's process and those that it started."""
        processes = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == str(self.folder):
                    processes.append(process)
        return processes

    def end_all(self) -> list[str]:
        """Kill the processes that are still there, and describe each."""
        ended = []
        for process in self.alive():
            with suppress(psutil.Error):
                ended.append(
                    f"process {process.name()} is left: {' '.join(process.cmdline())[-200:]}"
                )
                process.kill()
                process.wait(SECONDS)
        return ended


def flight(place: Place, stack: ExitStack) -> None:
    """Start a program that records itself as a flight recorder."""
    library, program = native_library("kilted"), place.folder / "talking"
    compile_program(TESTS / "native_tracer" / "talking.c", library, program)
    folder = place.folder / "flight"
    folder.mkdir(mode=0o700)
    begin(
        place, stack, [str(program), "100000000", "500", "400", "800"],
        environment(library, folder, ROSLENS_TRACE_FLIGHT="5"),
    )  # fmt: skip
    (place.folder / "triggers.yaml").write_text(TRIGGERS)
    wait_for(lambda: len(list(folder.glob("ros2-*/ros2_[0-9]*"))) >= 2)


def pair(place: Place, stack: ExitStack) -> None:
    """Start a talker and a listener."""
    stack.enter_context(programs_of_ros())
    ros = embedded_ros()
    # The nodes have their own domain: nodes found elsewhere on the machine share memory with them.
    domain = stack.enter_context(own_domain())
    for role in ("listener", "talker"):
        node = [str(TESTS / "kernel" / "pair_node.py"), role, str(place.folder / role)]
        command = [str(ros.python), *node, str(place.folder / "stop")]
        variables = {"ROS_DOMAIN_ID": str(domain)}
        begin(place, stack, command, ros.process_environment(os.environ | variables))
    wait_for(lambda: all((place.folder / f"{role}.on").exists() for role in ("listener", "talker")))


def recording(place: Place, _: ExitStack) -> None:
    """Copy a recording without tables."""
    uncollected(RUN, place.given / "run")


def talker(place: Place, stack: ExitStack) -> None:
    """Write a program that publishes for a second."""
    stack.enter_context(programs_of_ros())
    (place.given / "talker.py").write_text(TALKER)


def files(place: Place, stack: ExitStack) -> None:
    """Provide recordings, also packed, another's tables, two hosts' traces, budgets, reports."""
    given = place.given
    recording(place, stack)
    uncollected(RUN, given / "other")
    another = next((SAMPLES / "lifecycle").rglob("manifest.json")).parent
    collect(Recording.at(another, given / "another"))
    for host in ("host1", "host2"):
        shutil.copytree(RUN / "trace", given / host)
    (given / "budgets.yaml").write_text("budgets: ['latency_p99 < 50 ms']")
    pack([given / "run"], given / "packed")
    for page in ("one", "two"):
        (given / page).mkdir()
        (given / page / "latency.ipynb").write_text("{}")
        (given / page / "latency.html").write_text("<html></html>")


def headers(place: Place, _: ExitStack) -> None:
    """Provide the headers of tracetools."""
    (place.given / "include").symlink_to(str(embedded_ros().include))


def begin(place: Place, stack: ExitStack, command: list[str], variables: dict[str, str]) -> None:
    program = subprocess.Popen(command, env=variables, start_new_session=True)
    place.programs.append(program)
    stack.callback(program.wait)
    stack.callback(program.kill)


def manifests(place: Place) -> list[str]:
    """Return what is wrong with manifests, and with complete ones whose trace cannot be read."""
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
    """Return the snapshots that are not whole."""
    folders = [folder for folder in place.out.glob("*") if not folder.name.startswith(".")]
    without = [
        f"{folder.name}: no manifest"
        for folder in folders
        if not (folder / "manifest.json").is_file()
    ]
    return without + manifests(place)


def recorded(place: Place) -> list[str]:
    """Return wrong manifests, and complete runs that lack messages without reporting a loss."""
    wrong = manifests(place)
    for path in place.out.rglob("manifest.json"):
        opened = None if wrong or read_manifest(path).status != "complete" else rl.open(path.parent)
        if opened is not None and not any(loss.any for loss in opened.tracer_loss):
            count = opened.publications.filter(pl.col("topic") == "/chatter").collect().height
            wrong += [] if count == MESSAGES else [f"complete with {count} of {MESSAGES} messages"]
    return wrong


def tables(place: Place) -> list[str]:
    """Return tables that differ from their note, or have none."""
    wrong = []
    for folder in place.work.rglob("tables"):
        # Tables lie in a hidden folder until they are whole.
        if any(part.startswith(".") for part in folder.relative_to(place.work).parts):
            continue
        note = folder / NOTE
        if not note.is_file():
            wrong += [f"{path.name} without a note" for path in folder.glob("*.parquet")]
            continue
        for name, about in json.loads(note.read_text())["files"].items():
            path = folder.parent / name
            if not path.is_file() or digest(path) != about["sha256"]:
                wrong.append(f"{name} is not what the note says")
    return wrong


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def below(folder: Path) -> dict[Path, str]:
    """Return the digest of each file below a folder, by its path there."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): digest(path) for path in files}


def unlike(place: Place) -> list[str]:
    """Return files that differ from the whole run's; of pictures only the end is compared."""
    wrong = []
    for path in (*place.work.glob("out*"), *place.work.glob("*.html")):
        same = place.whole / path.name
        if path.suffix == ".svg":  # which tells when it was drawn
            ended = path.read_bytes().rstrip().endswith(b"</svg>")
        else:
            ended = same.is_file() and digest(path) == digest(same)
        wrong += [] if ended else [f"{path.name} is not whole"]
    return wrong


def catalog(place: Place) -> list[str]:
    """Check that the catalog can be read; return dataset files that are no recording's tables."""
    for path in place.work.glob("catalog.parquet"):
        pl.read_parquet(path, glob=False)
    digests = {digest(path) for path in place.work.rglob("tables/*.parquet")}
    files = (place.work / "dataset").rglob("*.parquet")
    return tables(place) + [
        f"{file.parent} is not whole" for file in files if digest(file) not in digests
    ]


def unpacked(place: Place) -> list[str]:
    """Return an unpacked folder that lacks packed files, or has other content."""
    folders = [
        folder for folder in (place.work / "unpacked").glob("*") if not folder.name.startswith(".")
    ]
    whole = below(place.whole / "unpacked")
    files = {
        path: content
        for path, content in below(place.work / "unpacked").items()
        if path.parts[0][0] != "."
    }
    return [] if not folders or files == whole else ["unpacked is not whole"]


def cached(place: Place) -> list[str]:
    """Return libraries and environments marked as whole that differ from the whole run's."""
    cache, whole = place.work / "cache", below(place.whole / "cache")
    wrong = [
        f"{name} is not whole"
        for name, content in below(cache).items()
        # A compiler's output lies elsewhere until it is whole.
        if ".so" in name.name and "tmp" not in str(name) and name.parts[0] != "ros"
        if content != whole.get(name)
    ]
    for marker in cache.glob("ros/*/roslens-complete"):
        folder = marker.parent.relative_to(cache)
        wanted = {path for path in whole if path.is_relative_to(folder)}
        wrong += [
            f"ros is without {path}" for path in sorted(wanted) if not (cache / path).is_file()
        ][:1]
    return wrong


def report(place: Place) -> list[str]:
    """Return pages without an end, and metrics that cannot be read."""
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
    """Check that the answer can be read, and return wrong manifests of the recordings."""
    for path in place.out.glob("answer.json"):
        json.loads(path.read_text())
    return manifests(place)


def lab(place: Place) -> list[str]:
    """Check that the notebook, if it is there, can be read."""
    for path in place.folder.glob("work/data/reports/start/*/start.ipynb"):
        json.loads(path.read_text())
    return []


@dataclass(frozen=True)
class Verb:
    """A verb, what must be there before it, and a check of what it left.

    Attributes
    ----------
    ends
        Exit codes of a whole run; None if it ends only when told to.
    writes
        Whether it writes its given output anywhere, so that a full disk may occur at any point.
    again
        Whether it can be run where it was run before.
    """

    arguments: Callable[[Place], Sequence[str | Path]]
    prepare: Callable[[Place, ExitStack], None]
    wrong: Callable[[Place], list[str]]
    ends: tuple[int, ...] | None = (0,)
    writes: bool = False
    again: bool = False


def writing(
    *words: str,
    wrong: Callable[[Place], list[str]] = unlike,
    prepare: Callable[[Place, ExitStack], None] = files,
    ends: int = 0,
    again: bool = True,
) -> Verb:
    """Return a verb that writes its given output."""
    return Verb(lambda _: words, prepare, wrong, (ends,), writes=True, again=again)


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
            "record", "--attach", *(str(program.pid) for program in place.programs),
            "--time-limit", "1", "--stacks", "-o", place.out / "new",
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
                "-o", place.out / "new", "--", "python3", "talker.py",
            ],
            talker, recorded, writes=True,
        )
        for tracer in ("native", "lttng")
    },
    "collect": writing("collect", "run", "--workers", "2", "-o", "out/new", wrong=tables),
    "report": writing("report", "latency", "run", "-o", "out/report", wrong=report),
    "lab": Verb(
        lambda _: ["lab", "run", "--no-browser", "--port", str(free_port())],
        recording, lab, None,
    ),
}  # fmt: skip
FORMATS = ("perfetto", "dot", "mermaid", "hgrm", "hlog", "mcap", "otlp")
CATALOG = ("catalog", ".", "--collect")
WRITING = {
    "collect anew": writing("collect", "--force", "run", wrong=tables),
    "collect over": writing("collect", "run", "-o", "another", wrong=tables),
    "merge": writing("collect", "--merge", "host1", "host2", "-o", "merged", wrong=tables),
    "index": writing("index", "."),
    "build": writing(BUILD, "build", "include", prepare=headers, wrong=cached),
    "ros": writing(BUILD, "build-ros", prepare=headers, wrong=cached),
    "pack": writing("pack", "--keep-names", "run", "-o", "out", again=False),
    "unpack": writing("unpack", "packed", "unpacked", wrong=unpacked, again=False),
    "catalog": writing(*CATALOG, wrong=catalog),
    "dataset": writing(*CATALOG, "--dataset", "dataset", wrong=catalog),
    "events": writing("events", "run", "-o", "out.csv"),
    "csv": writing("export", "--format", "csv", "--table", "messages", "run", "out"),
    **{form: writing("export", "--format", form, "run", "out") for form in FORMATS},
    "compare": writing(
        "compare", "run", "other", "--json", "out.json", "--plot", "out.svg", ends=3
    ),
    "check": writing("check", "budgets.yaml", "run", "--json", "out.json", ends=3),
    "schema": writing("dev", "schema", "-o", "out.md"),
}
"""Verbs that end within seconds; those above last as long as programs, or take longest."""


def start(
    verb: Verb, place: Place, *, anew: bool = True, size: int = resource.RLIM_INFINITY
) -> subprocess.Popen[bytes]:
    """Start the verb, anew or where it was, with limited file sizes; mark all it starts."""
    if anew:
        shutil.rmtree(place.work, ignore_errors=True)
        shutil.copytree(place.given, place.work, symlinks=True)
        (place.work / "cache").mkdir(mode=0o700)
    first, *words = map(str, verb.arguments(place))
    environment = os.environ | {MARK: str(place.folder)}
    how = ["-m", "roslens", first]
    if first == BUILD:
        how = ["-c", BUILD]
        # Links to files fetched before are not hindered by a full disk.
        environment |= {"ROSLENS_CACHE": str(place.work / "cache"), "UV_LINK_MODE": "copy"}

    def limit() -> None:
        # Tests that run in the background of a shell would otherwise ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    with (place.folder / "said").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-P", *how, *words], cwd=place.work, env=environment,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True, preexec_fn=limit,  # noqa: PLW1509  (this process has one thread)
        )  # fmt: skip


def whole(verb: Verb, place: Place, *, anew: bool = True) -> tuple[float, list[str]]:
    """Run the verb to its end, a lab until it has a kernel; return seconds and faults."""
    begun = time.monotonic()
    process = start(verb, place, anew=anew)
    if verb.ends is None:
        wait_for(lambda: process.poll() is not None or kernel_answers(place), 5 * SECONDS)
        seconds = time.monotonic() - begun
        wrong = end(process, signal.SIGINT, place)
    else:
        process.wait()
        seconds, wrong = time.monotonic() - begun, []
        if process.returncode not in verb.ends:
            wrong.append(f"exit code {process.returncode}: {said(place)}")
    wrong += left(process, place)
    if not place.whole.exists():
        shutil.copytree(place.work, place.whole, symlinks=True)
    return seconds, wrong + verb.wrong(place)


def full(verb: Verb, place: Place, size: int) -> tuple[bool, list[str]]:
    """Run the verb with limited file sizes; return whether it met the limit, and faults."""
    process = start(verb, place, size=size)
    code, wrong = process.wait(), left(process, place) + verb.wrong(place)
    reported = code in (verb.ends or ()) or (
        code == 4 and re.search("cannot (be written|write)|file too large", said(place)) is not None
    )
    if "Traceback" in said(place) or not reported:
        wrong.append(f"exit code {code}: {said(place)}")
    return code not in (verb.ends or ()), wrong


def kernel_answers(place: Place) -> bool:
    """Return whether the lab has printed its address and its kernel runs."""
    text = (place.folder / "said").read_text()
    # Jupyter itself prints the address, too, with dots for the token.
    match = re.search(r"http://127\S+token=\w+", text)
    if match is None:
        return False
    address = match[0]
    with suppress(URLError, OSError), urlopen(address.replace("/lab?", "/api/kernels?")) as answer:
        # The kernel is idle only once a page has asked for it.
        return bool(json.load(answer))
    return False


def said(place: Place) -> str:
    return (place.folder / "said").read_text(errors="replace")[-600:]


def end(process: subprocess.Popen[bytes], how: signal.Signals, place: Place) -> list[str]:
    """End the verb, and return the faults in how it ended."""
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
    # Python ends by the signal, with a traceback, before it has begun with our modules.
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
    """Return what is left of an ended verb, after ending its processes."""
    with suppress(AssertionError):
        # A look at the graph of ROS 2 has the programs' environment, and ends by itself.
        wait_for(lambda: not place.alive() and not shared_memory() - place.shared)
    wrong = place.end_all()
    with suppress(OSError), tracefs() as root:
        entries = [*(root / "instances").iterdir(), *(root / "events").glob(f"{PROBES}*")]
        mine = f"-{process.pid}-"
        wrong += [
            f"{entry.name} is left" for entry in entries if mine in entry.name.replace("_", "-")
        ]
    wrong += [f"{name} is left" for name in sorted(shared_memory() - place.shared)]
    wrong += [
        f"program {program.args!r} ended"
        for program in place.programs
        if program.poll() is not None
    ]
    return wrong


def shared_memory() -> set[str]:
    """Return the shared memory, except the one page that LTTng always keeps for all programs."""
    names = (path.name for path in Path("/dev/shm").iterdir())
    return (
        {name for name in names if not name.startswith("lttng-ust-wait-")}
        if own_places()
        else set()
    )


def scratch(place: Place) -> list[Path]:
    """Return the folders in which verbs work."""
    hidden = [path for path in place.work.rglob(".*") if path.is_dir()]
    return hidden + [
        path for path in Path(tempfile.gettempdir()).glob("roslens-*") if path != place.folder
    ]


def own_places() -> bool:
    """Return whether /tmp and /dev/shm belong to this driver alone."""
    return os.environ.get(f"{MARK}_OWN") == "1"


@contextmanager
def prepared(verb: Verb) -> Iterator[Place]:
    """Yield a place with what the verb needs; end its programs and the verb's processes after."""
    with tempfile.TemporaryDirectory(prefix="kills-") as folder, ExitStack() as stack:
        place = Place(Path(folder))
        stack.callback(place.end_all)
        place.given.mkdir()
        verb.prepare(place, stack)
        place.shared = shared_memory()
        yield place


def tried(name: str, kills: int, sizes: int, chance: random.Random) -> list[str]:
    """End a verb repeatedly, print a line about it, and return the faults."""
    verb, ended, wrong = {**VERBS, **WRITING}[name], Counter[str](), []
    begun = time.monotonic()
    with prepared(verb) as place:
        seconds, wrong = whole(verb, place)
        if wrong:
            print(f"{name}: does not run here: {wrong}", flush=True)
            return wrong
        new = below(place.whole).items() - below(place.given).items()
        largest = max(((place.whole / path).stat().st_size for path, _ in new), default=0)
        most = met = 0
        while ended.total() < kills and not wrong[20:]:
            before = set(scratch(place))
            process = start(verb, place)
            how = chance.choice((signal.SIGKILL, signal.SIGINT))
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, seconds))
                # The verb ended sooner than the first time.
                continue
            ended[how.name] += 1
            problems = end(process, how, place)
            problems += left(process, place) + verb.wrong(place)
            after = set(scratch(place))
            most = max(most, len(after))
            if how is signal.SIGINT and after - before:
                problems.append(f"scratch is left: {sorted(after - before)}")
            for problem in problems:
                print(f"  {name} {ended.total()} {how.name}: {problem}", flush=True)
            wrong += problems
        for _ in range(3 * sizes if verb.writes else 0):
            fails, problems = full(verb, place, chance.randrange(1, largest))
            for problem in problems:
                print(f"  {name} on a full disk: {problem}", flush=True)
            met, wrong = met + fails, wrong + problems
            if met == sizes:
                break
        _, last = whole(verb, place, anew=not verb.again)
        last += [f"{path} is left at last" for path in scratch(place)]
        for problem in last:
            print(f"  {name} at last: {problem}", flush=True)
        wrong += last
    minutes = (time.monotonic() - begun) / 60
    killed, asked = ended["SIGKILL"], ended["SIGINT"]
    print(
        f"{name}: {seconds:.1f} s whole, {killed} SIGKILL, {asked} SIGINT and {met} full disks in "
        f"{minutes:.1f} min, {most} scratch folders at most, {len(wrong)} wrong",
        flush=True,
    )
    return wrong


def main() -> None:
    """End the verbs; exit with code 1 if there were faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verbs", nargs="*", metavar="VERB", choices=[[], *VERBS, *WRITING])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--sizes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if os.getuid() == 0 and not own_places():
        script = 'mount -t tmpfs none /tmp && mount -t tmpfs none /dev/shm && exec "$@"'
        command = [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:]]
        os.environ[f"{MARK}_OWN"] = "1"
        os.execvp("unshare", ["unshare", "-m", "sh", "-c", script, "sh", *command])
    bad = [
        tried(name, options.kills, options.sizes, random.Random(f"{options.seed} {name}"))
        for name in options.verbs or (*VERBS, *WRITING)
    ]
    sys.exit(any(bad))


if __name__ == "__main__":
    main()
