"""Test what a user installs: the wheel and the sdist, outside the checkout and without Rust.

They run in folders whose files have the names of roslens' parts, and README's own lines run in a
fresh clone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

import nbformat
import pytest
from tests.free_port import free_port
from tests.samples import RUN, uncollected

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "requirements" / "constraints.txt"
TWO_PROCESS_EVENTS = "18,314"  # as babeltrace2 counts them
TARGET = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
OURS = ("analysis", "tracing", "collectors", "data", "studies")
UNRELATED = "polars"
CRATES = ("ctf", "model", "native", "parquet")
# The files that git tracks: patterns of those that a wheel has, by folder.
ROOMS = {
    "src/roslens/*": (),
    "analysis/*": (),
    "collectors/*": tuple(f"collectors/{crate}/*" for crate in CRATES),
    "studies/*": (),
    "tracing/*": (),
    "notebooks/*.ipynb": (),
    "requirements/ros-kilted.txt": (),
    "requirements/ros-generators.txt": (),
    "data/samples/README.md": (),
    "data/samples/demo/*": (),
    "data/calibration/*": (),
}


def building() -> dict[str, str]:
    """Return the environment of builds, which reuses what Cargo compiled before."""
    dropped = ("PYTHONPATH", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {
        **kept,
        "CARGO_TARGET_DIR": TARGET,
        "CARGO_BUILD_JOBS": "1",  # other tests record meanwhile
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]]),
    }


def bare(venv: Path, home: Path) -> dict[str, str]:
    """Return the environment of a user who has only a virtual environment."""
    return {"PATH": str(venv / "bin"), "HOME": str(home), "LC_ALL": "C.UTF-8"}


def run(*command: str | Path, env: Mapping[str, str], cwd: Path) -> str:
    done = subprocess.run(
        list(map(str, command)),
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def uv(*arguments: str | Path) -> None:
    run(sys.executable, "-m", "uv", "--quiet", *arguments, env=building(), cwd=ROOT)


def new_venv(folder: Path, *requirements: str | Path) -> Path:
    uv("venv", "--seed", "--python", sys.executable, folder)
    if requirements:
        python = folder / "bin" / "python"
        uv("pip", "install", "--python", python, "-c", CONSTRAINTS, *requirements)
    return folder


def site_packages(venv: Path) -> Path:
    (folder,) = (venv / "lib").glob("python*/site-packages")
    return folder


def files_below(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--wheel", "--out-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    uv("build", "--sdist", "--out-dir", folder, ROOT)
    (built,) = folder.glob("*.tar.gz")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a virtual environment with only the wheel, the workbench and workers."""
    return new_venv(
        tmp_path_factory.mktemp("installed") / "venv", f"roslens[lab,scale] @ file://{wheel}"
    )


@pytest.fixture(scope="session")
def light(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a virtual environment with the wheel and its dependencies."""
    return new_venv(tmp_path_factory.mktemp("light") / "venv", wheel)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def hostile_folder(folder: Path, *names: str) -> Path:
    """Make a folder with a recording, a user's helper, and modules that roslens must not import."""
    folder.mkdir()
    for name in names:
        (folder / f"{name}.py").write_text(f"raise RuntimeError('{name}.py was imported')\n")
    (folder / "helper.py").write_text("WORD = 'found'\n")
    uncollected(RUN, folder / "run")
    return folder


def wheel_of_tracked_files() -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    expected = set()
    for name in filter(None, listed.stdout.split("\0")):
        for pattern, without in ROOMS.items():
            wanted = fnmatchcase(name, pattern) and (ROOT / name).is_file()
            if wanted and not any(fnmatchcase(name, excluded) for excluded in without):
                expected.add(f"roslens/{name.removeprefix('src/roslens/')}")
    return expected


def test_the_wheel_holds_what_git_tracks_and_the_module(wheel: Path) -> None:
    """Other files of the checkout are left out: sample tables, caches, a module built in place."""
    # One wheel serves every Python from 3.11 on.
    assert re.fullmatch(r"roslens-[\d.]+-cp311-abi3-\w*linux\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    information = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert names - information == wheel_of_tracked_files() | {"roslens/collectors/_native.abi3.so"}
    assert any(name.endswith("/licenses/LICENSE") for name in information)


def test_the_sdist_holds_real_files_and_makes_the_same_wheel(
    wheel: Path, sdist: Path, tmp_path: Path, home: Path
) -> None:
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
        # Extracting keeps the files' old times, so Cargo compiles nothing again.
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert all(member.isfile() for member in members)
    names = {member.name.partition("/")[2] for member in members}
    assert {"Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "pyproject.toml"} <= names
    # The build has Rust, but its user has not.
    (source,) = (tmp_path / "unpacked").iterdir()
    venv = new_venv(tmp_path / "venv", f"roslens[report] @ file://{source}")
    with zipfile.ZipFile(wheel) as archive:
        wanted = {name for name in archive.namelist() if name.startswith("roslens/")}
    files = files_below(site_packages(venv) / "roslens")
    assert {f"roslens/{name}" for name in files} == wanted
    folder = hostile_folder(tmp_path / "folder", *OURS, UNRELATED)
    output = run(venv / "bin" / "roslens", "collect", "run", env=bare(venv, home), cwd=folder)
    assert f"{TWO_PROCESS_EVENTS} events" in output
    run(venv / "bin" / "roslens", "report", "latency", "run", env=bare(venv, home), cwd=folder)


def test_an_installation_adds_one_name_and_leaves_nothing(
    wheel: Path, tmp_path: Path, home: Path
) -> None:
    venv = new_venv(tmp_path / "venv")
    site, python = site_packages(venv), venv / "bin" / "python"
    before = {path.name for path in [*site.iterdir(), *(venv / "bin").iterdir()]}
    everything = files_below(venv)
    run(python, "-m", "pip", "install", "--no-deps", wheel, env=bare(venv, home), cwd=tmp_path)
    after = {path.name for path in [*site.iterdir(), *(venv / "bin").iterdir()]}
    version = wheel.name.split("-")[1]
    # The second roslens is the command.
    assert after - before == {"roslens", f"roslens-{version}.dist-info"}
    assert (site / "roslens").is_dir()
    assert (venv / "bin" / "roslens").is_file()
    run(python, "-c", "import roslens", env=bare(venv, home), cwd=tmp_path)
    run(python, "-m", "pip", "uninstall", "-y", "roslens", env=bare(venv, home), cwd=tmp_path)
    assert not (site / "roslens").exists()
    assert files_below(venv) == everything


def test_a_plain_installation_is_light(light: Path) -> None:
    """The size is that of the files pip lists, without the bytecode that it compiles."""
    site, size = site_packages(light), 0
    names = {path.name.lower() for path in site.iterdir()}
    assert not names & {"ipykernel", "jinja2", "matplotlib", "mcap", "numpy", "pandas", "scipy"}
    for record in site.glob("*.dist-info/RECORD"):
        if not record.parent.name.startswith("pip-"):
            lines = record.read_text().splitlines()
            size += sum(int(line.rpartition(",")[2] or 0) for line in lines)
    # polars 182, roslens 20
    assert size < 230_000_000


def test_a_plain_installation_reads_and_collects(light: Path, tmp_path: Path, home: Path) -> None:
    folder = hostile_folder(tmp_path / "folder", *OURS, UNRELATED)
    shutil.copytree(folder / "run", folder / "another")
    command, env = light / "bin" / "roslens", bare(light, home)
    assert TWO_PROCESS_EVENTS in run(command, "info", "run", env=env, cwd=folder)
    output = run(command, "collect", "run", env=env, cwd=folder)
    assert f"{TWO_PROCESS_EVENTS} events" in output
    for arguments, code, hint in (
        (("compare", "run", "another"), 2, "pip install 'roslens[numpy]'"),
        (("report", "latency", "run"), 2, "pip install 'roslens[report]'"),
    ):
        done = subprocess.run(
            [command, *arguments], env=env, cwd=folder, text=True, capture_output=True, check=False
        )
        assert done.returncode == code, done.stderr
        assert hint in done.stdout + done.stderr


@pytest.mark.parametrize("names", [OURS, (UNRELATED,)], ids=" ".join)
def test_commands_ignore_modules_of_the_working_directory(
    names: tuple[str, ...], installed: Path, tmp_path: Path, home: Path
) -> None:
    folder, env = hostile_folder(tmp_path / "folder", *names), bare(installed, home)
    command, python = installed / "bin" / "roslens", installed / "bin" / "python"
    assert shutil.which("cargo", path=env["PATH"]) is None
    assert TWO_PROCESS_EVENTS in run(command, "info", "run", env=env, cwd=folder)
    assert TWO_PROCESS_EVENTS in run(python, "-m", "roslens", "info", "run", env=env, cwd=folder)
    limited = run(command, "collect", "--max-time", "600", "run", env=env, cwd=folder)
    assert f"{TWO_PROCESS_EVENTS} events" in limited
    again = run(command, "collect", "--force", "run", env=env, cwd=folder)
    assert f"{TWO_PROCESS_EVENTS} events" in again
    if names == OURS:  # Python itself would take the other one from there
        opened = "import roslens as rl; print(rl.open('run').messages.collect().height)"
        assert int(run(python, "-c", opened, env=env, cwd=folder)) > 0


def test_reports_ignore_modules_of_the_working_directory(
    installed: Path, tmp_path: Path, home: Path
) -> None:
    folder = hostile_folder(tmp_path / "folder", *OURS, UNRELATED)
    command, env = installed / "bin" / "roslens", bare(installed, home)
    output = run(command, "report", "latency", "run", env=env, cwd=folder)
    assert (folder / output.splitlines()[-1] / "metrics.json").is_file()


def test_workers_ignore_modules_of_the_working_directory(
    installed: Path, tmp_path: Path, home: Path
) -> None:
    """They even ignore modules with which Python itself starts a process."""
    folder = hostile_folder(tmp_path / "folder", *OURS, UNRELATED, "multiprocessing")
    shutil.copytree(folder / "run", folder / "another")
    command, env = installed / "bin" / "roslens", bare(installed, home)
    output = run(command, "collect", "--workers", "2", "run", "another", env=env, cwd=folder)
    assert output.count(f"{TWO_PROCESS_EVENTS} events") == 2


def test_the_lab_finds_modules_beside_a_notebook_after_all_packages(
    installed: Path, tmp_path: Path, home: Path
) -> None:
    """This covers the server itself, and a notebook run by the kernel that it offers."""
    folder = hostile_folder(tmp_path / "folder", *OURS, UNRELATED, "jupyterlab", "tornado")
    env = bare(installed, home)
    cell = (
        "import roslens as rl, polars, helper\n"
        "from roslens.widgets.start import StartPage\n"
        "assert rl.open('run').messages.collect().height > 0\n"
        "print(helper.WORD, 'site-packages' in polars.__file__)"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbformat.write(notebook, folder / "own.ipynb")
    kernels = site_packages(installed) / "roslens" / "widgets"
    run(
        *(installed / "bin" / "papermill", "-k", "python3", "own.ipynb", "done.ipynb"),
        env={**env, "JUPYTER_PATH": str(kernels)},
        cwd=folder,
    )
    done = nbformat.read(folder / "done.ipynb", as_version=4)
    assert [output.text for output in done.cells[0].outputs] == ["found True\n"]
    assert "Python 3 (roslens)" in kernels_offered(installed, folder, env)


def kernels_offered(installed: Path, folder: Path, env: Mapping[str, str]) -> str:
    """Return what a lab started in `folder` says about its kernels."""
    command = [installed / "bin" / "roslens", "lab", "--no-browser", "--port", str(free_port())]
    log = folder / "lab.log"
    with (
        log.open("w") as stream,
        subprocess.Popen(
            command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=stream, text=True
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            page, _, token = line.strip().partition("?token=")
            address = f"{page.partition('/lab')[0]}/api/kernelspecs?token={token}"
            while process.poll() is None:
                with suppress(OSError), urllib.request.urlopen(address, timeout=60) as answer:
                    return str(answer.read().decode())
                time.sleep(0.2)
        finally:
            process.terminate()
            process.communicate()
    raise AssertionError(line + log.read_text())


def readme_section(title: str) -> str:
    text = (ROOT / "README.md").read_text()
    match = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, title
    return match[1]


def fences(section: str) -> list[tuple[str, str]]:
    """Return language and text of each block of code."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def test_the_lines_of_the_readme_work_in_a_fresh_clone(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    run("git", "clone", "--quiet", ROOT, clone, env=building(), cwd=tmp_path)
    # Equal sources were compiled before, which Cargo recognises by the times of files.
    for source in [*clone.glob("collectors/**/*.rs"), *clone.glob("**/Cargo.*")]:
        same = ROOT / source.relative_to(clone)
        if source.read_bytes() == same.read_bytes():
            shutil.copystat(same, source)
    env = building() | {
        "PIP_CONSTRAINT": str(CONSTRAINTS),
        "JUPYTER_DATA_DIR": str(tmp_path / "jupyter"),
    }
    blocks = fences(readme_section("Your own trace"))
    shell = [text for language, text in blocks if language in {"", "sh", "bash", "console"}]
    python = [text for language, text in blocks if language == "python"]
    (papermill,) = re.findall(r"`(papermill notebooks/\S+ .*?)`", (ROOT / "README.md").read_text())
    lines = re.sub(r"~/\.ros/tracing/\S+", "data/samples/two_process", shell[0])
    assert lines != shell[0]
    assert "pip install '.[report]'" in lines
    output = run("bash", "-euc", lines, env=env, cwd=clone)
    assert TWO_PROCESS_EVENTS in output
    assert (clone / output.splitlines()[-1] / "metrics.json").is_file()
    assert python
    for text in python:
        run(clone / ".venv" / "bin" / "python", "-c", text, env=env, cwd=clone)
    env["PATH"] = os.pathsep.join([str(clone / ".venv" / "bin"), env["PATH"]])
    run("bash", "-euc", papermill.replace("PATH", "data/samples/two_process"), env=env, cwd=clone)
    assert (clone / "out.ipynb").is_file()
