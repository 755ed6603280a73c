"""Compiles the benchmark's program once, before the first run of a campaign."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs

from roslens.tracing.recording import RunFailedError, UsageError
from roslens.tracing.ros.cache import cache_folder, cached_file, locked

PROGRAM = "roslens-storage"
PROGRAM_VARIABLE = "ROSLENS_STORAGE_PROGRAM"
_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[2]
_SYSTEM_HEADERS = Path("/usr/include")


def prepare(note: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """The variables that ``run.py`` needs: where the program is.

    Parameters
    ----------
    note
        Called with one line when it is compiled, which takes some minutes.

    Raises
    ------
    UsageError
        This is no source tree of roslens, or there is no cargo.
    RunFailedError
        It does not compile.
    """
    return {PROGRAM_VARIABLE: str(program(note))}


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
            note("compiling the storage benchmark, once: 2 to 4 minutes")
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
