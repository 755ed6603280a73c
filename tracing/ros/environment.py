"""Provide the ROS 2 to run nodes with: the sourced one, else an embedded one from wheels.

The embedded environment is a virtual environment in the user's cache, created once from the pinned
versions in ``requirements/ros-kilted.txt``.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from roslens.recording import RunFailedError, UsageError
from roslens.recording.files import shipped, write_atomically
from roslens.tracing.ros.cache import cache_folder, locked
from roslens.tracing.ros.domain import own_domain, without_leftovers
from roslens.tracing.ros.tracetools import build_stub, build_tracetools

EMBEDDED_DISTRO = "kilted"
EMBEDDED_RMW = "rmw_fastrtps_cpp"
RMW_VARIABLE = "RMW_IMPLEMENTATION"
SUPPORTED_PYTHONS = ((3, 12), (3, 11))
PINS = shipped("requirements", f"ros-{EMBEDDED_DISTRO}.txt")
RCLPY_TRACING = shipped("tracing", "rclpy_tracing")
_AT_START = str(RCLPY_TRACING / "start")

_MARKER = "roslens-complete"
_NAMED_PACKAGES = (
    *("rclcpp", "rclcpp_action", "rclcpp_lifecycle", "cm_executors"),
    *("rclpy", "rcl", "tracetools"),
)
_PROBE = """
import sys, json
import rclpy
json.dump({"python": sys.version.split()[0], "rmw": rclpy.get_rmw_implementation_identifier()},
          sys.stdout)
"""

Progress = Callable[[str], None]
"""Called with a line whenever a long step begins."""


@dataclass(frozen=True)
class RosEnvironment:
    """A ROS 2 and how to start its programs.

    Attributes
    ----------
    kind
        ``sourced`` (the user's own) or ``embedded`` (made by roslens).
    distro, rmw, python_version
        The distribution, the middleware, and the version of Python.
    python
        The interpreter that has ``rclpy``.
    variables
        Environment variables that its programs need in addition to the caller's.
    packages
        Versions by package name.
    include
        Folder of tracetools' headers, for an embedded one.
    superseded
        Sonames of libraries that must not be loaded (another generation of LTTng-UST).
    middlewares
        Libraries that programs preload for each middleware of an embedded ROS 2.
    """

    kind: Literal["sourced", "embedded"]
    distro: str
    rmw: str | None
    python: Path
    python_version: str
    variables: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    include: Path | None = None
    superseded: tuple[str, ...] = ()
    middlewares: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)

    def with_middleware(self, name: str | None) -> RosEnvironment:
        """Return the environment with one of its `middlewares`; unchanged for any other name."""
        if name is None or name not in self.middlewares:
            return self
        return replace(self, rmw=name, variables={**self.variables, RMW_VARIABLE: name})

    def process_environment(
        self, base: Mapping[str, str] | None = None, *, preload: Sequence[Path] = ()
    ) -> dict[str, str]:
        """Return a program's environment: `base` (default: ours) with the needed variables.

        Parameters
        ----------
        base
            The environment to start from.
        preload
            Libraries to put in front of ``LD_PRELOAD``.
        """
        merged = dict(os.environ if base is None else base)
        merged.update(self.variables)
        middleware = self.middlewares.get(self.rmw or "", ())
        if preload or middleware:
            merged["LD_PRELOAD"] = preloaded(merged, first=preload, last=middleware)
        return merged

    def preload(self) -> list[Path]:
        """Return the libraries to preload so that ROS's own events reach LTTng; none if sourced.

        The first call compiles libtracetools.

        Raises
        ------
        HeaderError, CompileError
            A library cannot be built; the message states why.
        """
        if self.include is None:
            return []
        return [build_tracetools(self.include), *(build_stub(name) for name in self.superseded)]

    @contextmanager
    def isolated(self, log_folder: Path) -> Iterator[RosEnvironment]:
        """Yield the environment of one run: own domain, only this machine, no leftovers.

        Shared memory that a killed process of the run leaves is removed at the end.

        Parameters
        ----------
        log_folder
            The folder for ROS's log files, created if missing.

        Raises
        ------
        RunFailedError
            No ROS domain is free.
        """
        log_folder.mkdir(parents=True, exist_ok=True)
        with own_domain() as domain, without_leftovers():
            yield replace(
                self,
                variables={
                    **self.variables,
                    "ROS_DOMAIN_ID": str(domain),
                    "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
                    # The equivalent before Iron; newer versions warn about the variable, whatever
                    # its value.
                    **({} if self.distro >= "iron" else {"ROS_LOCALHOST_ONLY": "1"}),
                    "ROS_LOG_DIR": str(log_folder.resolve()),
                },
            )


def python_path(environment: Mapping[str, str]) -> str:
    """Return the ``PYTHONPATH`` with which Python nodes emit callback and publish events."""
    before = environment.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([_AT_START, *(path for path in before if path and path != _AT_START)])


def preloaded(
    environment: Mapping[str, str], *, first: Sequence[Path] = (), last: Sequence[Path] = ()
) -> str:
    """Return ``LD_PRELOAD`` with libraries before and after those that it names."""
    already = re.split("[: ]", environment.get("LD_PRELOAD", ""))
    return ":".join([*map(str, first), *filter(None, already), *map(str, last)])


def sourced_ros(environ: Mapping[str, str], *, rclpy: bool = True) -> RosEnvironment:
    """Return the ROS that is sourced in `environ`.

    Parameters
    ----------
    environ
        The environment to look in.
    rclpy
        Whether rclpy is required. Without rclpy, only a variable names the middleware.

    Raises
    ------
    UsageError
        ``python3 -c 'import rclpy'`` fails in it, although rclpy is required.
    """
    distro = environ["ROS_DISTRO"]
    python = shutil.which("python3", path=environ.get("PATH"))
    if python is None:
        raise UsageError(f"ROS 2 {distro} is sourced, but there is no python3 on PATH")
    # Our own virtual environment in front of PATH hides the interpreter that ROS was built for.
    python = str(Path(python).absolute())
    candidates = [python, *(p for p in ("/usr/bin/python3",) if p != python and Path(p).exists())]
    failure, facts = "", {}
    for candidate in candidates:
        probe = subprocess.run(
            [candidate, "-c", _PROBE],
            env=environ,
            text=True,
            capture_output=True,
            check=False,
            cwd="/",  # never modules of the working directory
        )
        if probe.returncode == 0:
            python, facts = candidate, json.loads(probe.stdout)
            break
        failure = failure or (probe.stderr.strip().splitlines() or ["no message"])[-1]
    if not facts and rclpy:
        raise UsageError(
            f"ROS 2 {distro} is sourced, but rclpy cannot be imported ({failure}); "
            "repair it, or start roslens in a shell where no ROS is sourced"
        )
    return RosEnvironment(
        kind="sourced",
        distro=distro,
        rmw=facts.get("rmw") or environ.get(RMW_VARIABLE) or None,
        python=Path(python),
        python_version=facts.get("python") or platform.python_version(),
        packages=ament_packages(environ["AMENT_PREFIX_PATH"]),
    )


def embedded_ros(progress: Progress | None = None) -> RosEnvironment:
    """Return the embedded ROS, creating it if needed.

    Raises
    ------
    UsageError
        The wheels cannot run on this machine.
    RunFailedError
        It cannot be installed (no network, no venv module, ...).
    """
    _check_machine()
    interpreter, version = _find_python()
    digest = hashlib.sha256(PINS.read_bytes()).hexdigest()[:12]
    folder = cache_folder() / "ros" / f"{EMBEDDED_DISTRO}-py{version}-{digest}"
    marker = folder / _MARKER
    if not marker.is_file():
        with locked(folder.with_name(folder.name + ".lock")):
            if not marker.is_file():
                _install(folder, interpreter, progress or (lambda _: None))
                # Written last: a folder without the marker was interrupted, and is created again.
                write_atomically(marker, json.dumps(_wheel_packages(folder)))
    return _embedded_at(folder)


def _embedded_at(folder: Path) -> RosEnvironment:
    site = next((folder / "lib").glob("python*/site-packages"))
    bundled = sorted(site.glob("ros_*.libs"))
    packages = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
    return RosEnvironment(
        kind="embedded",
        distro=EMBEDDED_DISTRO,
        rmw=EMBEDDED_RMW,
        python=folder / "bin" / "python",
        python_version=site.parent.name.removeprefix("python"),
        variables={
            "AMENT_PREFIX_PATH": str(folder),
            "ROS_DISTRO": EMBEDDED_DISTRO,
            RMW_VARIABLE: EMBEDDED_RMW,
            "LD_LIBRARY_PATH": ":".join(map(str, [folder / "lib", *bundled])),
            # The wheels would restart Python to set the library path, which is already set.
            "_ROS_WHEELS_BOOTSTRAP_COMPLETE": "1",
            "PYTHONNOUSERSITE": "1",
        },
        packages=packages,
        include=folder / "include" / "tracetools" / "tracetools",
        superseded=tuple(
            sorted({f.name for libs in bundled for f in libs.glob("liblttng-ust*.so*")})
        ),
        middlewares={EMBEDDED_RMW: ()},
    )


def _check_machine() -> None:
    system, machine = platform.system(), platform.machine()
    if system != "Linux" or machine != "x86_64":
        raise UsageError(
            f"no ROS 2 is sourced, and the embedded ROS 2 {EMBEDDED_DISTRO} exists for Linux on "
            f"x86-64 only, this is {system} on {machine}; install ROS 2 and source its setup file"
        )
    library, version = platform.libc_ver()
    if library == "glibc" and tuple(map(int, version.split(".")[:2])) < (2, 28):
        raise UsageError(
            f"no ROS 2 is sourced, and the embedded one needs glibc 2.28 or newer, this is "
            f"{version}; install ROS 2 and source its setup file"
        )


def _find_python() -> tuple[str, str]:
    """Return an interpreter supported by the wheels, and its version, such as ``3.11``."""
    own = sys.version_info[:2]
    if own in SUPPORTED_PYTHONS:
        # Not the virtual environment's interpreter, which may vanish before the cache does.
        base = Path(sys.base_prefix) / "bin" / f"python{own[0]}.{own[1]}"
        return str(base if base.exists() else sys.executable), f"{own[0]}.{own[1]}"
    versions = [f"{major}.{minor}" for major, minor in SUPPORTED_PYTHONS]
    for version in versions:
        interpreter = shutil.which(f"python{version}")
        # A pyenv shim may exist without the interpreter.
        if (
            interpreter
            and subprocess.run(
                [interpreter, "--version"], capture_output=True, check=False
            ).returncode
            == 0
        ):
            return interpreter, version
    if shutil.which("uv"):
        # Given only the version, uv finds an interpreter elsewhere or downloads one.
        return versions[0], versions[0]
    raise UsageError(
        f"no ROS 2 is sourced, and the wheels of the embedded ROS 2 {EMBEDDED_DISTRO} are for "
        f"CPython 3.11 and 3.12 only, this is {own[0]}.{own[1]}; install python3.12 beside it, "
        "or uv, which fetches one"
    )


def _install(folder: Path, interpreter: str, progress: Progress) -> None:
    """Create the virtual environment from scratch and install its packages."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    uv = shutil.which("uv")
    progress(f"making the embedded ROS 2 {EMBEDDED_DISTRO} (once; 250 MB, about half a minute)")
    python = folder / "bin" / "python"
    if uv:
        _run(
            [uv, "venv", "--quiet", "--python", interpreter, str(folder)],
            f"make its environment with {Path(interpreter).name}",
        )
    else:
        if subprocess.run(
            [interpreter, "-P", "-c", "import venv, ensurepip"], capture_output=True, check=False
        ).returncode:
            version = re.sub(r".*python", "python", interpreter)
            raise RunFailedError(
                f"{interpreter} has no venv module, which the embedded ROS 2 needs; "
                f"install it (apt-get install {version}-venv) or install uv"
            )
        _run([interpreter, "-P", "-m", "venv", str(folder)], "make its environment")
    progress(f"installing the wheels of ROS 2 {EMBEDDED_DISTRO}")
    _run(
        [
            *install_command(python),
            "--no-deps",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "-r",
            str(PINS),
        ],
        "install its wheels; is a Python package index reachable?",
    )


def install_command(python: Path) -> list[str]:
    """Return the command that installs packages for an interpreter: uv if available, else pip."""
    uv = shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--quiet", "--python", str(python)]
    return [str(python), "-P", "-m", "pip", "install", "-q", "--disable-pip-version-check"]


def _run(command: list[str], task: str) -> None:
    environment = {
        k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV", "LD_PRELOAD"}
    }
    run = subprocess.run(command, text=True, capture_output=True, check=False, env=environment)
    if run.returncode:
        lines = [line.strip() for line in (run.stderr + run.stdout).splitlines() if line.strip()]
        errors = [
            line for line in lines if re.search("error|failed|no solution", line, re.IGNORECASE)
        ]
        reason = " ".join((errors or lines or ["no message"])[-2:])
        raise RunFailedError(f"the embedded ROS 2 could not {task} ({reason})")


def _wheel_packages(folder: Path) -> dict[str, str]:
    """Return the versions of the installed ROS packages, by ROS package name."""
    site = next((folder / "lib").glob("python*/site-packages"))
    packages = {}
    for info in site.glob("ros_*.dist-info"):
        name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
        packages[name.removeprefix("ros_")] = version
    return dict(sorted(packages.items()))


def ament_packages(prefixes: str) -> dict[str, str]:
    """Return the versions of an ament installation's packages that matter for a recording."""
    packages = {}
    for prefix in prefixes.split(":"):
        share = Path(prefix, "share")
        for name in (*_NAMED_PACKAGES, *sorted(rmw.name for rmw in share.glob("rmw_*_cpp"))):
            manifest = share / name / "package.xml"
            if name not in packages and manifest.is_file():
                match = re.search(
                    r"<version[^>]*>\s*([^<\s]+)", manifest.read_text(encoding="utf-8")
                )
                if match:
                    packages[name] = match.group(1)
    return dict(sorted(packages.items()))
