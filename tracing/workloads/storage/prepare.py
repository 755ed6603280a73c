"""Compiles the benchmark's program and what calls rosbag2's plugins, once before a campaign."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs

from roslens.recording import RunFailedError, UsageError
from roslens.recording.files import write_atomically
from roslens.tracing.ros import embedded_ros
from roslens.tracing.ros.cache import cache_folder, cached_file, locked, private_folder
from roslens.tracing.ros.compiling import Step, run_steps
from roslens.tracing.ros.packages import LOG
from roslens.tracing.ros.rosbag2 import Rosbag2, announce, rosbag2_for, sourced_rosbag2
from roslens.tracing.ros_choice import is_sourced

PROGRAM = "roslens-storage"
PROGRAM_VARIABLE = "ROSLENS_STORAGE_PROGRAM"
ROSBAG2_VARIABLE = "ROSLENS_STORAGE_ROSBAG2"
_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[2]
_ROSBAG2 = _HERE / "rosbag2"
_NULL = "roslens_null_storage"
_SYSTEM_HEADERS = Path("/usr/include")


def prepare(note: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """The variables that ``run.py`` needs: where the program and the library of rosbag2 are.

    Parameters
    ----------
    note
        Called with one line when something is compiled, which takes some minutes.

    Raises
    ------
    UsageError
        This is no source tree of roslens, there is no cargo, or rosbag2 cannot be had here.
    RunFailedError
        Something does not compile.
    """
    sourced = is_sourced()
    rosbag2 = sourced_rosbag2(os.environ) if sourced else rosbag2_for(embedded_ros(note), note)
    return {
        PROGRAM_VARIABLE: str(program(note)),
        ROSBAG2_VARIABLE: str(rosbag2_sink(rosbag2, note)),
    }


def rosbag2_sink(rosbag2: Rosbag2, note: Callable[[str], None] = lambda _: None) -> Path:
    """The folder of the library by which the program calls rosbag2's plugins.

    Raises
    ------
    RunFailedError
        It does not compile.
    """
    sources = sorted(x for x in _ROSBAG2.rglob("*") if x.is_file())
    digest = hashlib.sha256(repr(rosbag2).encode())
    for path in sources:
        digest.update(path.read_bytes())
    folder = cache_folder() / "storage" / f"rosbag2-{digest.hexdigest()[:16]}"
    prefixes = ":".join(map(str, (folder, *rosbag2.prefixes)))
    defined = {
        "ROSLENS_PREFIXES": prefixes,
        "ROSLENS_DISTRO": rosbag2.distro,
        "ROSLENS_ROSBAG2_STORAGE": rosbag2.packages["rosbag2_storage"],
    }
    shared = (*rosbag2.compiler, *rosbag2.compile_flags, "-shared")
    steps = [
        Step(
            folder / "lib" / f"lib{name}.so",
            (
                *shared,
                *(f'-D{name}="{text}"' for name, text in defined.items()),
                str(_ROSBAG2 / source),
                *rosbag2.link_flags,
                "-lsqlite3",
            ),
        )
        for name, source in (("roslens_rosbag2_sink", "sink.cpp"), (_NULL, "null_storage.cpp"))
    ]
    with locked(folder.with_name(folder.name + ".lock")):
        private_folder(folder / "configurations")
        for path in (_ROSBAG2 / "configurations").iterdir():
            text = path.read_text(encoding="utf-8")
            write_atomically(folder / "configurations" / path.name, text)
        announce(folder, _ROSBAG2 / _NULL)
        run_steps(steps, what="what calls rosbag2's plugins", log=folder / LOG, note=note)
    return folder


def program(note: Callable[[str], None] = lambda _: None) -> Path:
    """The program, from the user's cache folder or compiled into it.

    The cache's key is its source, the locked crates, and whether there is an LTTng-UST.
    """
    workspace = _ROOT / "Cargo.toml"
    if not workspace.is_file():
        raise UsageError(
            "the storage benchmark is compiled from roslens' source tree, and this installation "
            "has none: clone the repository and run 'python3 noxfile.py -s trace -- --suite "
            "storage' there"
        )
    folder = cache_folder() / "storage" / _key()
    found = folder / PROGRAM
    if cached_file(found):
        return found
    with locked(folder.with_name(folder.name + ".lock")):
        if not found.is_file():
            note("compiling the storage benchmark, once")
            _compile(workspace, found)
    return found


def find_cargo() -> tuple[str, dict[str, str]]:
    """Cargo, and the variables that it needs: the user's, or the one that pip's build fetched.

    Raises
    ------
    UsageError
        There is none.
    """
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    cargo = shutil.which("cargo") or shutil.which("cargo", path=str(home / "bin"))
    if cargo is not None:
        return cargo, {}
    # Where maturin found no Rust when it built roslens, it fetched one to here.
    fetched = platformdirs.user_cache_path("puccinialin")
    cargo = shutil.which("cargo", path=str(fetched / "cargo" / "bin"))
    if cargo is not None:
        variables = {
            "CARGO_HOME": str(fetched / "cargo"),
            "RUSTUP_HOME": str(fetched / "rustup"),
            "PATH": f"{Path(cargo).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        return cargo, variables
    raise UsageError(
        "no cargo: the storage benchmark is a Rust program and is compiled on this machine; "
        "install Rust (https://rustup.rs, or apt-get install cargo if it is 1.88 or newer)"
    )


def _sources() -> Iterator[Path]:
    yield _ROOT / "Cargo.toml"
    yield _ROOT / "Cargo.lock"
    yield _HERE / "Cargo.toml"
    yield _HERE / "build.rs"
    yield from sorted(path for path in (_HERE / "src").rglob("*") if path.is_file())


def _key() -> str:
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(path.read_bytes())
    for pattern in ("lttng/tracepoint.h", "*/lttng/tracepoint.h"):
        for header in sorted(_SYSTEM_HEADERS.glob(pattern)):
            digest.update(header.read_bytes())
    return digest.hexdigest()[:16]


def _compile(workspace: Path, made: Path) -> None:
    cargo, variables = find_cargo()
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as target:
        run = subprocess.run(
            [
                *(cargo, "build", "--quiet", "--locked", "--profile", "benchmark"),
                *("--package", PROGRAM, "--manifest-path", str(workspace)),
            ],
            env={**os.environ, **variables, "CARGO_TARGET_DIR": target},
            text=True,
            capture_output=True,
            check=False,
        )
        if run.returncode != 0:
            errors = [x for x in run.stderr.splitlines() if x.startswith("error")]
            first = (errors or run.stderr.splitlines() or ["it says nothing"])[0]
            raise RunFailedError(f"the storage benchmark does not compile: {first}")
        built = Path(target, "benchmark", PROGRAM)
        # Renamed into place, so that it is there whole or not at all.
        built.replace(made)
