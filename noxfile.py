#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["nox[uv]>=2025.2.9"]
# ///
"""Everything one does with roslens, one session each.

``python3 noxfile.py -s trace`` is the same as ``nox -s trace``: where nox is not installed it is
fetched into a private environment first. Arguments after ``--`` go to the session.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent
CONSTRAINTS = ROOT / "requirements" / "constraints.txt"
NOX_REQUIREMENT = "nox[uv]==2026.10.20"
OLDEST_PYTHON = (3, 11)
NATIVE_LIBRARIES = ROOT / "tracing" / "native_tracer" / "lib"
WHEEL_TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")


# ---------------------------------------------------------------- system packages


def ok(*command: str, stdin: str = "") -> bool:
    """Return whether a command succeeds, hiding its output."""
    return (
        subprocess.run(command, input=stdin, text=True, capture_output=True, check=False).returncode
        == 0
    )


class Need:
    """A system package: how to detect it, and its name with apt and dnf."""

    def __init__(self, apt: str, dnf: str, why: str, *probe: str, stdin: str = "") -> None:
        self.apt, self.dnf, self.why, self.probe, self.stdin = apt, dnf, why, probe, stdin

    def met(self) -> bool:
        """Return whether the package is installed."""
        if shutil.which(self.probe[0]) is None:
            return False
        return ok(*self.probe, stdin=self.stdin)


COMPILER = Need(
    "build-essential",
    "gcc gcc-c++",
    "compiles the trace reader and the ROS tracepoints",
    *("cc", "-x", "c", "-fsyntax-only", "-"),
    stdin="#include <stdint.h>\n#include <stdio.h>\n",
)
VENV = Need(
    f"python{sys.version_info.major}.{sys.version_info.minor}-venv",
    "python3-pip",
    "makes the environments",
    *(sys.executable, "-c", "import venv, ensurepip"),
)
LTTNG_TOOLS = Need("lttng-tools", "lttng-tools", "records traces", "lttng", "--version")
LTTNG_UST = Need(
    "liblttng-ust-dev",
    "lttng-ust-devel",
    "tracepoints in user space",
    *("cc", "-x", "c", "-fsyntax-only", "-"),
    stdin="#include <lttng/tracepoint.h>\n",
)
BABELTRACE = Need(
    "babeltrace2", "babeltrace2", "the independent reader of the tests", "babeltrace2", "--version"
)
BT2 = Need(
    "python3-bt2",
    "python3-bt2",
    "the independent reader of the tests",
    *("/usr/bin/python3", "-c", "import bt2"),
)
CHROMIUM = Need("chromium", "chromium", "the browser of the tests", "chromium", "--version")
RECORDING = (COMPILER, LTTNG_TOOLS, LTTNG_UST)
TESTING = (*RECORDING, BABELTRACE, BT2)
# The toolchain of micro-ros takes a download of 113 MB, 920 MB of disk, and half a minute.
ARM_COMPILER = Need(
    "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "arm-none-eabi-gcc-cs arm-none-eabi-newlib",
    "compiles firmware for the suite micro-ros",
    *("arm-none-eabi-gcc", "--specs=nano.specs", "-x", "c", "-fsyntax-only", "-"),
    stdin="#include <stdlib.h>\n",
)
ARM_EMULATOR = Need(
    "qemu-system-arm",
    "qemu-system-arm-core",
    "runs that firmware",
    *("qemu-system-arm", "-M", "mps2-an385,help"),
)
MICRO_ROS = (ARM_COMPILER, ARM_EMULATOR)
ROSBAG2 = Need(
    "libyaml-cpp-dev libtinyxml2-dev libconsole-bridge-dev liblz4-dev libzstd-dev",
    "yaml-cpp-devel tinyxml2-devel console-bridge-devel lz4-devel libzstd-devel",
    "rosbag2's storage plugins are compiled with them",
    *("c++", "-x", "c++", "-fsyntax-only", "-"),
    stdin="#include <yaml-cpp/yaml.h>\n#include <tinyxml2.h>\n#include <console_bridge/console.h>\n"
    "#include <lz4.h>\n#include <zstd.h>\n",
)
CYCLONE = Need(
    "cyclonedds-dev",
    "cyclonedds-devel",
    "Cyclone DDS, a second middleware for the embedded ROS 2, is compiled with it",
    *("c++", "-x", "c++", "-fsyntax-only", "-"),
    stdin="#include <dds/dds.h>\n",
)
HEAPTRACK = Need("heaptrack", "heaptrack", "records who allocates", "heaptrack", "--version")


SSHD = Need(
    "openssh-server iproute2",
    "openssh-server iproute",
    "another host for the tests, which is this one",
    *("test", "-x", "/usr/sbin/sshd"),
)


def need(*needs: Need, optional: bool = False) -> None:
    """Install missing packages with apt if that needs no question; else stop with one line.

    Optional packages that cannot be installed are only named in the output.
    """
    missing = [n for n in needs if not n.met()]
    if not missing:
        return
    apt = " ".join(n.apt for n in missing)
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    sudo = [] if is_root else ["sudo", "-n"]
    can_install = shutil.which("apt-get") is not None and (
        is_root or (shutil.which("sudo") is not None and ok("sudo", "-n", "true"))
    )
    if can_install:
        print(f"roslens: installing system packages: {apt}", flush=True)
        apt_get = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
        for step in (["update"], ["install", "-y", "--no-install-recommends", *apt.split()]):
            subprocess.run([*apt_get, "-q", *step], stdout=subprocess.DEVNULL, check=False)
        missing = [n for n in missing if not n.met()]
        if not missing:
            return
    left_out = ": what needs them is left out" if optional else ""
    lines = [f"roslens: system packages are missing{left_out}:"]
    lines += [f"  {n.apt}: {n.why}" for n in missing]
    apt = " ".join(n.apt for n in missing)
    dnf = " ".join(n.dnf for n in missing)
    lines += [
        f"Debian, Ubuntu:  sudo apt-get install -y {apt}",
        f"Fedora, RHEL:    sudo dnf install -y {dnf}",
        "(conda-forge has neither lttng-tools nor babeltrace2: use the system's.)",
    ]
    print("\n".join(lines), file=sys.stderr)
    if not optional:
        sys.exit(2)


def check_cargo(oldest: str) -> None:
    """Stop with one line if there is a cargo that cannot compile; a missing one is fetched.

    `oldest` is the version of Rust that the crates need, such as ``1.88``.
    """
    if shutil.which("cargo") is None:
        return
    done = subprocess.run(["cargo", "--version"], text=True, capture_output=True, check=False)
    words = done.stdout.split()
    if done.returncode != 0 or len(words) < 2:
        reason = (done.stderr.strip() or "it prints no version").splitlines()[0]
        sys.exit(
            f"roslens: cargo does not run: {reason}; run 'rustup default stable', or take cargo "
            "off the PATH: then one is fetched"
        )
    present, needed = (tuple(map(int, version.split(".")[:2])) for version in (words[1], oldest))
    if present < needed:
        sys.exit(
            f"roslens: cargo {words[1]} is older than {oldest}: run 'rustup update', or take it "
            "off the PATH: then a newer one is fetched"
        )


# ---------------------------------------------------------------- nox itself


def start_under_nox() -> None:
    """Start this file again with nox, fetched into a private environment if need be."""
    home = ROOT / ".nox" / ".bootstrap"
    python = home / "bin" / "python"
    done = home / NOX_REQUIREMENT.replace("[", "_").replace("]", "_")
    if not done.is_file():
        need(VENV)
        print("roslens: nox is not installed; fetching it into .nox/.bootstrap", flush=True)
        steps = (
            [sys.executable, "-m", "venv", "--clear", str(home)],
            [str(python), "-m", "pip", "install", "-q", NOX_REQUIREMENT],
        )
        for step in steps:
            if subprocess.run(step, check=False).returncode != 0:
                sys.exit("roslens: could not fetch nox (see above); is a package index reachable?")
        done.touch()
    os.environ["PATH"] = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    os.execv(python, [str(python), str(Path(__file__).resolve()), *sys.argv[1:]])  # noqa: S606


if sys.version_info < OLDEST_PYTHON:
    sys.exit(
        f"roslens needs Python 3.11 or newer, this is {sys.version.split()[0]}; "
        "start it as 'python3.11 noxfile.py ...' or 'python3.12 noxfile.py ...'"
    )
try:
    import nox
except ModuleNotFoundError:
    if __name__ != "__main__":
        raise
    start_under_nox()

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["trace"]
PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")


def extra(name: str) -> list[str]:
    """Return the requirements of an extra, including those of the extras that it contains."""
    requirements: list[str] = []
    for requirement in PYPROJECT["project"]["optional-dependencies"][name]:
        if requirement.startswith("roslens["):
            within = requirement.removeprefix("roslens[").removesuffix("]").split(",")
            requirements += itertools.chain.from_iterable(map(extra, within))
        else:
            requirements.append(requirement)
    return requirements


def install(session: nox.Session, *groups: str, extras: str = "") -> None:
    """Install roslens (editable) with dependency groups, unless nothing has changed."""
    sources = [
        ROOT / "pyproject.toml",
        CONSTRAINTS,
        ROOT / "Cargo.toml",
        ROOT / "Cargo.lock",
        *sorted((ROOT / "collectors").rglob("*.rs")),
        *sorted((ROOT / "collectors").rglob("Cargo.toml")),
    ]
    digest = hashlib.sha256(repr((groups, extras)).encode())
    for source in sources:
        digest.update(source.read_bytes())
    stamp = Path(session.virtualenv.location) / "roslens.stamp"
    native = any((ROOT / "collectors").glob("_native*.so"))
    if native and stamp.is_file() and stamp.read_text() == digest.hexdigest():
        return
    need(COMPILER)
    crates = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    check_cargo(crates["workspace"]["package"]["rust-version"])
    session.log("installing roslens; the first time this compiles the reader, 2 to 3 minutes")
    requirements = list(nox.project.dependency_groups(PYPROJECT, *groups)) if groups else []
    constraints = ("-c", str(CONSTRAINTS))
    # First the packages from an index, then the project itself without any cache of builds: its
    # compiled module lies in this tree, and a cached build would not put it there again.
    dependencies = [*PYPROJECT["project"]["dependencies"]]
    for name in filter(None, extras.split(",")):
        dependencies += extra(name)
    by_uv = session.venv_backend == "uv"
    # Otherwise modules are compiled at every import where PYTHONDONTWRITEBYTECODE is set.
    compiled = ("--compile-bytecode",) if by_uv else ()
    session.install(*dependencies, *requirements, *constraints, *compiled)
    fresh = ("--refresh-package", "roslens") if by_uv else ()
    session.install(
        "--no-deps",
        "--reinstall-package" if fresh else "--force-reinstall",
        *(("roslens",) if fresh else ()),
        *fresh,
        "-e",
        str(ROOT),
    )
    stamp.write_text(digest.hexdigest())


# ---------------------------------------------------------------- the main job


@nox.session
def trace(session: nox.Session) -> None:
    """Record a suite, collect it, execute its notebook, print the results.

    ``-- --tracer native`` records without LTTng.
    """
    arguments = session.posargs
    tracers = {value for name, value in itertools.pairwise(arguments) if name == "--tracer"}
    need(
        *((COMPILER,) if tracers & {"native", "auto"} else RECORDING),
        *(MICRO_ROS if "micro-ros" in arguments else ()),
    )
    if any(argument.startswith("storage") for argument in arguments):
        need(ROSBAG2, optional=True)
    asked = os.environ.get("RMW_IMPLEMENTATION") == "rmw_cyclonedds_cpp"
    if asked or "executors-rclcpp" in arguments:
        need(CYCLONE, optional=True)
    install(session, extras="report")
    if "--suite" not in arguments:
        arguments = ["--suite", "demo", *arguments]
    output = Path(session.virtualenv.location, "record.txt")
    with output.open("w", encoding="utf-8") as stream:
        # 4: some runs failed; they are kept and marked, and the others are worth a report.
        session.run(
            "roslens", "record", *arguments, stdout=stream, stderr=None, success_codes=[0, 4]
        )
    lines = output.read_text(encoding="utf-8").splitlines()
    print(*lines, sep="\n", flush=True)
    if not lines or not Path(lines[-1]).is_dir():
        session.error("nothing was recorded")
    campaign = Path(lines[-1])
    session.run("roslens", "collect", str(campaign))
    suite = json.loads((campaign / "plan.json").read_text())["suite"]
    session.run("roslens", "report", suite["report"], str(campaign))
    manifests = campaign.glob("*/manifest.json")
    failed = [m.parent.name for m in manifests if json.loads(m.read_text())["status"] != "complete"]
    if failed:
        session.error(f"runs failed and are marked so in {campaign}: {', '.join(sorted(failed))}")


@nox.session
def collect(session: nox.Session) -> None:
    """Turn recordings into tables: ``-- PATH...`` (default: all of data/recordings)."""
    install(session)
    session.run("roslens", "collect", *(session.posargs or ["data/recordings"]))


@nox.session
def notebooks(session: nox.Session) -> None:
    """Execute every notebook: ``-- PATH...`` (default: the samples)."""
    install(session, extras="lab")
    paths = session.posargs or ["data/samples"]
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        session.run("roslens", "report", notebook.stem, *paths)


@nox.session
def lab(session: nox.Session) -> None:
    """Open JupyterLab on the start page (this machine only): ``-- PATH``."""
    install(session, extras="lab")
    session.run("roslens", "lab", *session.posargs)


# ---------------------------------------------------------------- development


@nox.session
def tests(session: nox.Session) -> None:
    """Run all tests: Rust, Python, real recordings, live LTTng and ROS 2."""
    need(*TESTING, CHROMIUM)
    need(*MICRO_ROS, ROSBAG2, CYCLONE, HEAPTRACK, SSHD, optional=True)
    install(session, "tests", "lint", "types", "docs", extras="all")
    if not session.posargs:
        if shutil.which("cargo"):
            session.run("cargo", "test", "--workspace", "--locked", external=True)
        else:
            session.warn("cargo is not installed: the Rust unit tests are left out")
    # One worker records, so that no recording disturbs another; it often waits. The other two yield
    # to it, and run their longest tests first: tests/conftest.py.
    spread = ("-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder")
    session.run("pytest", *(session.posargs or spread))


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, imports against the data flow, notebooks, Rust."""
    install(session, "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")
    notebooks = map(str, (ROOT / "notebooks").glob("*.ipynb"))
    session.run("nbstripout", "--keep-id", "--verify", *notebooks)
    if shutil.which("cargo"):
        session.run("cargo", "fmt", "--all", "--check", external=True)
        session.run(
            *("cargo", "clippy", "--workspace", "--all-targets", "--locked"),
            "--",
            *("-D", "warnings"),
            external=True,
        )
    else:
        session.warn("cargo is not installed: rustfmt and clippy are left out")


@nox.session
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    install(session, "types", extras="all")
    session.run("mypy")


@nox.session
def wheels(session: nox.Session) -> None:
    """Build wheels for Linux on x86-64 and aarch64, and the sdist, into dist/.

    zig compiles and links for both, so that they run with glibc 2.17 and newer; one wheel is for
    every Python from 3.11 on. The native tracer's libraries go into each, for its machine.
    """
    make_packages(session)


def make_packages(session: nox.Session) -> None:
    """Build wheels and sdist, for the sessions `wheels` and `release`."""
    need(COMPILER)
    groups = nox.project.dependency_groups(PYPROJECT, "wheels")
    dependencies = PYPROJECT["project"]["dependencies"]
    session.install(*groups, *dependencies, "-c", str(CONSTRAINTS))
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    for target in WHEEL_TARGETS:
        native = target.startswith(platform.machine())
        if not native and not (shutil.which("rustup") and ok("rustup", "target", "add", target)):
            session.warn(f"no wheel for {target}: rustup cannot fetch Rust's library for it")
            continue
        machine = target.partition("-")[0]
        session.run(
            *("python", "-P", "-m", "roslens.tracing.native_tracer.prebuilt", machine),
            str(NATIVE_LIBRARIES),
            env={"PYTHONPATH": str(ROOT / "src")},
        )
        session.run(
            *("maturin", "build", "--release", "--locked", "--zig", "--target", target),
            *("--compatibility", "manylinux_2_17", "--out", "dist"),
            # Takes minutes, for a release only: the module is a third smaller, and no slower.
            env={"CARGO_PROFILE_RELEASE_LTO": "fat"},
        )
        # The libraries belong neither into the other machine's wheel nor into the sdist.
        shutil.rmtree(NATIVE_LIBRARIES)
    session.run("maturin", "sdist", "--out", "dist")
    wheels = [str(path) for path in sorted((ROOT / "dist").glob("*.whl"))]
    session.run("abi3audit", "--strict", *wheels)
    for path in wheels:
        session.run("auditwheel", "show", path)


def released_version() -> str:
    """Return the version of everything, which is in Cargo.toml."""
    crates = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    return str(crates["workspace"]["package"]["version"])


def release_notes(version: str, *, tagged: bool) -> str:
    """Return the changelog's section about a version; without a tag, the unreleased one."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    for name in (f"[{version}]", *(() if tagged else ("[Unreleased]",))):
        for section in sections:
            if section.startswith(name):
                return f"## {section.strip()}\n"
    sys.exit(f"roslens: CHANGELOG.md has no section [{version}]: write it, or tag another version")


@nox.session
def release(session: nox.Session) -> None:
    """Make what a release consists of, and stop before what needs a network.

    Wheels and sdist in dist/; the section of the changelog, the documentation, the recorder as a
    ROS 2 package and the checksums of all in build/release/. ``-- --tag v1.2.3`` also holds the tag
    against version and changelog.
    """
    version = released_version()
    tag = session.posargs[session.posargs.index("--tag") + 1] if session.posargs else None
    if tag not in (None, f"v{version}"):
        session.error(f"the tag is {tag} and the version {version}: Cargo.toml has it")
    notes = release_notes(version, tagged=tag is not None)
    make_packages(session)
    out = ROOT / "build" / "release"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "NOTES.md").write_text(notes, encoding="utf-8")
    # The wheel makes the site, which also tests the wheel.
    (wheel,) = (ROOT / "dist").glob(f"*_{platform.machine()}.whl")
    groups = nox.project.dependency_groups(PYPROJECT, "docs")
    of_wheel = f"roslens[report] @ {wheel.as_uri()}"
    session.install(*groups, of_wheel, "-c", str(CONSTRAINTS))
    session.run("mkdocs", "build", "--strict", "--quiet")
    recorder = ROOT / "build" / "roslens_tracer"
    shutil.rmtree(recorder, ignore_errors=True)
    session.run("python", "-m", "roslens.tracing.native_tracer.package", str(recorder))
    for name, folder in (
        ("roslens-{}-docs", ROOT / "build" / "site"),
        ("roslens_tracer-{}", recorder),
    ):
        with tarfile.open(out / f"{name.format(version)}.tar.gz", "w:gz") as archive:
            archive.add(folder, arcname=name.format(version))
    files = sorted([*(ROOT / "dist").iterdir(), *out.glob("*.tar.gz")], key=lambda path: path.name)
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files]
    (out / "SHA256SUMS").write_text("\n".join(sums) + "\n", encoding="utf-8")
    print(*sums, sep="\n")
    session.log(f"next, with a network: push the tag v{version}, see .github/workflows/release.yml")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure: ``-- NAME`` runs benchmarks/NAME.py (default: all)."""
    need(*TESTING)
    install(session, extras="all")
    benchmarks = {p.stem for p in (ROOT / "benchmarks").glob("[a-z]*.py")} - {"calibrate"}
    names = session.posargs[:1] or sorted(benchmarks)
    for name in names:
        session.run("python", f"benchmarks/{name}.py", *session.posargs[1:])


@nox.session
def calibrate(session: nox.Session) -> None:
    """Simulate the coverage of intervals and the errors of verdicts: docs/calibration.md."""
    install(session, extras="report")
    session.run("python", "benchmarks/calibrate.py", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Write docs/tables.md anew and build the site into build/site, every link checked."""
    install(session, "docs")
    session.run("roslens", "dev", "schema", "--format", "markdown", "-o", "docs/tables.md")
    session.run("mkdocs", "build", "--strict", "--quiet")


if __name__ == "__main__":
    nox.main()
