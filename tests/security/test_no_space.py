"""Test disks without space or room for another file: each verb that writes names the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.command_line import roslens_here
from tests.programs import roslens
from tests.samples import RUN, SAMPLES, uncollected
from tests.small_disk import small_disk

from roslens.tracing.native_tracer.library import native_library

EMIT = "import ctypes; ctypes.CDLL(None).ros_trace_callback_start(1, True)"
pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(os.getuid() != 0, reason="mounting a small disk needs root"),
]


@dataclass(frozen=True)
class Given:
    """Inputs of the verbs: two runs with tables, a campaign, an archive, budgets, a recorder."""

    folder: Path

    def __getattr__(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    prepared = Given(tmp_path_factory.mktemp("given"))
    uncollected(RUN, prepared.run)
    uncollected(RUN, prepared.other)
    uncollected(SAMPLES / "communication", prepared.campaign)
    prepared.budgets.write_text("budgets: ['latency_p99 < 50 ms']")
    for arguments in (
        ("collect", prepared.run, prepared.other, prepared.campaign),
        ("catalog", prepared.campaign, "--file", prepared.catalog),
        ("pack", prepared.run, "-o", prepared.archive),
    ):
        done = roslens(*arguments, cwd=prepared.folder)
        assert done.returncode == 0, done.stderr
    # Any program belongs to a flight recorder once it has the library.
    prepared.flight.mkdir(mode=0o700)
    environment = {
        "LD_PRELOAD": str(native_library("kilted")),
        "ROSLENS_TRACE_FOLDER": str(prepared.flight),
        "ROSLENS_TRACE_FLIGHT": "5",
    }
    subprocess.run([sys.executable, "-c", EMIT], env=os.environ | environment, check=True)
    return prepared


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder on a separate small disk, which is still empty."""
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place, "size=4m,nr_inodes=2000"):
        (place / "out").mkdir()
        yield place / "out"


def reports(folder: Path) -> Path:
    """Write two reports that an index lists."""
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "latency.ipynb").write_text("{}")
        (folder / name / "latency.html").write_text("<html></html>")
    return folder


Arguments = Callable[[Given, Path], list[str | Path]]
FORMATS = ("perfetto", "otlp", "mcap", "dot", "mermaid", "hgrm", "hlog")
NATIVE = ("--tracer", "native", "--kernel", "off")
RACE = ("--metric", "time", "--tracer", "native", "--pause", "0", "--max-time", "1")
PAIR = ("--", "true", "---", "true")
VERBS: dict[str, Arguments] = {
    "first page": lambda given, out: [given.run, "--html", out / "x.html"],
    "events": lambda given, out: ["events", given.run, "-o", out / "x"],
    "events as parquet": lambda given, out: [
        "events", given.run, "--format", "parquet", "-o", out / "x"
    ],
    "events of a kind": lambda given, out: [
        "events", given.run, "--name", "ros2:rmw_take", "--format", "parquet", "-o", out / "x"
    ],
    "collect": lambda given, out: ["collect", uncollected(RUN, out / "x")],
    "collect -o": lambda given, out: ["collect", given.run, "-o", out / "x"],
    "collect --workers": lambda given, out: [
        "collect", given.campaign, "--workers", "2", "-o", out / "x"
    ],
    "collect --merge": lambda given, out: [
        "collect", "--merge", given.run, given.other, "-o", out / "x"
    ],
    "merge": lambda given, out: ["merge", given.run, given.other, "-o", out / "x"],
    "report": lambda given, out: ["report", "latency", given.run, "-o", out / "x"],
    "index": lambda given, out: ["index", reports(out)],
    "chains": lambda given, out: ["chains", given.run, "--json", out / "x"],
    "compare --json": lambda given, out: ["compare", given.run, given.other, "--json", out / "x"],
    "compare --plot": lambda given, out: [
        "compare", given.run, given.other, "--plot", out / "x.svg"
    ],
    "check": lambda given, out: ["check", given.budgets, given.run, "--json", out / "x"],
    "trend": lambda given, out: ["trend", given.campaign, "--file", out / "x"],
    "trend --json": lambda given, out: [
        "trend", given.campaign, "--file", given.catalog, "--json", out / "x"
    ],
    "trend --plot": lambda given, out: [
        "trend", given.campaign, "--file", given.catalog, "--plot", out / "x.png"
    ],
    "catalog": lambda given, out: ["catalog", given.campaign, "--file", out / "x"],
    "catalog --dataset": lambda given, out: [
        "catalog", given.campaign, "--file", given.catalog, "--dataset", out / "x"
    ],
    "pack": lambda given, out: ["pack", given.run, "-o", out / "x"],
    "unpack": lambda given, out: ["unpack", given.archive, out / "x"],
    "schema": lambda given, out: ["dev", "schema", "-o", out / "x"],
    "env": lambda given, out: ["env", "-o", out / "x"],
    "snapshot": lambda given, out: ["snapshot", given.flight, "-o", out / "x"],
    "record": lambda given, out: ["record", *NATIVE, "-o", out / "x", "--", "true"],
    "record --suite": lambda given, out: ["record", "--suite", "demo", "-o", out / "x"],
    "race": lambda given, out: ["race", *RACE, "-o", out / "x", *PAIR],
    "race --json": lambda given, out: [
        "race", *RACE, "-o", out.parents[1] / "runs", "--json", out / "x", *PAIR
    ],
    "race --export-markdown": lambda given, out: [
        "race", *RACE, "-o", out.parents[1] / "runs", "--export-markdown", out / "x", *PAIR
    ],
    "lab": lambda given, out: ["lab", given.run, "--no-browser", "--port", "0"],
    "csv": lambda given, out: [
        "export", "--format", "csv", "--table", "messages", given.run, out / "x"
    ],
    **{
        name: lambda given, out, name=name: ["export", "--format", name, given.run, out / "x"]
        for name in FORMATS
    },
}  # fmt: skip
# Folders in which whole parts were made one by one, and the folder given to hold them.
PARTS = {"events as parquet", "catalog --dataset", "record", "record --suite", "race", "report"}
FOLDERS = {"collect -o", "collect --workers", "unpack", "env", "lab"}
# These start other programs, record, or have a kernel: each runs as a separate process.
APART = {"collect --workers", "lab", "record", "record --suite", "report", "snapshot",
         *(verb for verb in VERBS if verb.startswith("race"))}  # fmt: skip


@pytest.fixture
def ask(
    given: Given, disk: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a verb, in this process if possible, which is faster."""

    def run(verb: str, arguments: list[str | Path]) -> subprocess.CompletedProcess[str]:
        if verb in APART:
            return roslens(*arguments, cwd=disk if verb == "lab" else given.folder)
        monkeypatch.chdir(given.folder)
        return roslens_here(capfd, *arguments)

    return run


def no_space(disk: Path) -> None:
    with (disk.parent / "ballast").open("wb") as ballast:
        state = os.statvfs(disk)
        ballast.write(bytes(state.f_bfree * state.f_frsize))


def no_more_files(disk: Path) -> None:
    state = os.statvfs(disk)
    used = f"remount,nr_inodes={state.f_files - state.f_ffree}"
    subprocess.run(["mount", "-o", used, str(disk.parent)], check=True)


@pytest.mark.parametrize("full", [no_space, no_more_files])
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_names_what_cannot_be_written(
    given: Given,
    disk: Path,
    ask: Callable[..., subprocess.CompletedProcess[str]],
    verb: str,
    full: Callable[[Path], None],
) -> None:
    arguments = VERBS[verb](given, disk)
    full(disk)
    before = set(disk.rglob("*"))
    done = ask(verb, arguments)
    assert done.returncode == 4, done.stderr
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("roslens: error: ")]
    # The lab's folder is below the working directory.
    assert ("data/reports/start" if verb == "lab" else str(disk)) in error
    left = set(disk.rglob("*")) - before
    if verb in FOLDERS:
        assert not [path for path in left if not path.is_dir()]
    elif verb not in PARTS:
        assert left == set()
