"""Write the recorder's ROS 2 package: ``python -m roslens.tracing.native_tracer.package FOLDER``.

It has C sources for every known distribution, the tracing of Python's callbacks, and variables
that enable both; it depends on ament and launch only, so that a build farm can build it.
"""

from __future__ import annotations

import shutil
import sys
from importlib.metadata import version
from pathlib import Path

from roslens.recording.files import shipped
from roslens.tracing.native_tracer.source import library_source
from roslens.tracing.native_tracer.table import distributions, instrumentation_of

_OWN = Path(__file__).parent


def write_package(folder: Path) -> None:
    """Write the package to a new folder.

    Raises
    ------
    FileExistsError
        Something with that name exists.
    """
    shutil.copytree(_OWN / "ros_package", folder)
    description = folder / "package.xml"
    description.write_text(
        description.read_text("utf-8").replace("@VERSION@", version("roslens")), "utf-8"
    )
    sources = folder / "src"
    sources.mkdir()
    for distribution in distributions():
        text = library_source(instrumentation_of(distribution), distribution)
        (sources / f"{distribution}.c").write_text(text, "utf-8")
    for name in ("tracer.c", "tracer.h"):
        shutil.copy(_OWN / name, sources)
    python = shipped("tracing", "rclpy_tracing")
    shutil.copytree(python, folder / "rclpy_tracing", ignore=shutil.ignore_patterns("__pycache__"))


if __name__ == "__main__":
    write_package(Path(sys.argv[1]))
