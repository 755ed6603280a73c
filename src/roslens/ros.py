"""Run the ``ros`` verb: compile rclcpp, middlewares and plugins for the embedded ROS 2."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from roslens.recording import UsageError
from roslens.recording.terminal import Console, say
from roslens.tracing.needs import prepared_variables
from roslens.tracing.ros import embedded_ros
from roslens.tracing.ros.cache import cache_folder, locked, trusted
from roslens.tracing.ros.compiling import Step, run_steps
from roslens.tracing.ros.packages import LOG, MARKER, existing, facts_of
from roslens.tracing.ros.rclcpp import rclcpp_for
from roslens.tracing.ros.rosbag2 import rosbag2_for
from roslens.tracing.ros_choice import MIDDLEWARES, is_sourced, with_middlewares
from roslens.tracing.sources import VARIABLE, archives_folder
from roslens.tracing.suite import WorkloadSpec

PROGRAMS = WorkloadSpec(builtin="rclcpp_workloads")


def build(sources: Path | None, console: Console) -> None:
    """Compile rclcpp and its suites' programs, two more middlewares, and rosbag2's plugins.

    A middleware's missing needs are only reported. Prints rclcpp's and the plugins' folders last.

    Raises
    ------
    UsageError, RunFailedError
        Something needed for compiling is missing.
    """

    def note(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    if sources is not None:
        os.environ[VARIABLE] = str(sources)
    archives_folder()  # An invalid folder is refused before anything is compiled.
    ros = embedded_ros(note)
    rclcpp = rclcpp_for(ros, note)
    if is_sourced():
        note("a ROS 2 is sourced: suites take that one, whose programs colcon builds")
    else:
        prepared_variables(PROGRAMS, note)
    _, missing = with_middlewares(ros, MIDDLEWARES, note)
    for name, why in missing.items():
        note(f"{name} is left out: {why}")
    say(rclcpp.prefix)
    say(rosbag2_for(ros, note).prefixes[0])


def compile_nodes(path: Path, output: Path, console: Console) -> None:
    """Compile a user's C++ nodes against the embedded ROS 2's rclcpp; print the programs.

    Parameters
    ----------
    path
        A file, or the folder of a package: each of its ``add_executable`` becomes a program.
    output
        The folder for the programs, which are rebuilt.

    Raises
    ------
    UsageError
        There is nothing to compile.
    RunFailedError
        The nodes do not compile, or as in `build`.
    """

    def note(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    programs = _programs(path.resolve())
    rclcpp = rclcpp_for(embedded_ros(note), note)
    includes = [folder for folder in (path.resolve() / "include",) if folder.is_dir()]
    flags = [*rclcpp.compile_flags(), *(f"-I{path}" for path in includes)]
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output, prefix=".roslens-") as scratch:
        steps = [
            Step(
                Path(scratch, name),
                (*rclcpp.compiler, *flags, *map(str, files), *rclcpp.link_flags()),
            )
            for name, files in programs.items()
        ]
        log = cache_folder() / "ros" / f"own-{LOG}"
        run_steps(steps, what=path.name, log=log, note=note)
        for step in steps:
            say(step.product.replace(output / step.product.name))


def _programs(path: Path) -> dict[str, list[Path]]:
    """Return the source files of each program by its name."""
    if path.is_file():
        return {path.stem: [path]}
    if not (path / "CMakeLists.txt").is_file():
        raise UsageError(f"{path}: give a file of C++, or a package with a CMakeLists.txt")
    text = re.sub(r"#.*", "", (path / "CMakeLists.txt").read_text(errors="replace"))
    project = re.search(r"\bproject\s*\(\s*([\w.-]+)", text)
    text = text.replace("${PROJECT_NAME}", project[1]) if project else text
    targets = {
        kind: {
            name: [path / file for file in files.split() if file.endswith((".cpp", ".cc", ".cxx"))]
            for name, files in re.findall(rf"\badd_{kind}\s*\(\s*([\w.-]+)\s([^)]*)\)", text)
        }
        for kind in ("executable", "library")
    }
    # Link all libraries into every program: uncalled code does no harm.
    common = [file for files in targets["library"].values() for file in files]
    programs = {name: [*files, *common] for name, files in targets["executable"].items() if files}
    missing = [file for files in programs.values() for file in files if not file.is_file()]
    if missing or not programs:
        why = f"{missing[0].name} is not there" if missing else "no add_executable names its files"
        raise UsageError(f"{path / 'CMakeLists.txt'}: {why}; give the file of one node")
    return programs


def status(console: Console) -> None:
    """Print the state of the compiled packages."""
    folders = [*existing()]
    if not folders:
        note = (
            f"nothing was compiled yet; 'roslens dev ros build' does it ({VARIABLE} or a network)"
        )
        console.print(note, highlight=False, soft_wrap=True)
    for folder in folders:
        if (folder / MARKER).is_file():
            facts = facts_of(folder)
            packages = ", ".join(f"{k} {v}" for k, v in facts.packages.items())
            text = f"complete, made in {facts.seconds:.0f} s: {packages}"
        else:
            objects = sum(1 for _ in folder.rglob("*.o"))
            text = f"not complete ({objects} files compiled); what needs it goes on with it"
        console.print(
            f"{folder}: {text}; log: {folder / LOG}", highlight=False, markup=False, soft_wrap=True
        )


def clean(console: Console) -> None:
    """Remove compiled packages, their programs and sources; keep the embedded ROS 2."""
    removed = 0
    cache = cache_folder()
    programs = ("rclcpp_workloads/rclcpp-*", "storage/rosbag2-*", "storage/recorder-*")
    used = [folder for pattern in programs for folder in cache.glob(pattern)]
    for folder in [*existing(), *used, cache / "sources"]:
        if not folder.is_dir():
            continue
        with locked(folder.with_name(folder.name + ".lock")):
            removed += sum(
                file.stat().st_size for file in trusted(folder).rglob("*") if file.is_file()
            )
            shutil.rmtree(folder)
    console.print(f"removed {removed / 1e6:,.0f} MB", highlight=False)
