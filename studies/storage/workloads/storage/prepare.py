"""Compile the programs of the storage suites, and the null plugin, with rosbag2, once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from roslens.recording.files import shipped
from roslens.studies.storage.workloads.storage.cells import PROGRAMS_VARIABLE
from roslens.tracing.ros import embedded_ros
from roslens.tracing.ros.cache import cache_folder, locked, private_folder
from roslens.tracing.ros.compiling import Step, preprocessed, run_steps
from roslens.tracing.ros.packages import LOG
from roslens.tracing.ros.rosbag2 import announce, rosbag2_for, sourced_rosbag2
from roslens.tracing.ros_choice import is_sourced

_HERE = Path(__file__).resolve().parent
_SOURCES = _HERE / "src"
_SHARED = shipped("tracing", "workloads") / "rclcpp_workloads" / "src"
_NULL = "roslens_null_storage"
_LTTNG = "#include <lttng/tracepoint.h>"


def prepare(note: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """Return the variable by which ``run.py`` finds its program.

    Parameters
    ----------
    note
        Called with one line when a program is compiled, which takes some minutes.

    Raises
    ------
    RoslensError
        rosbag2 is not available here, or a program does not compile.
    """
    return {PROGRAMS_VARIABLE: str(programs(("bag_writer",), note))}


def programs(names: tuple[str, ...], note: Callable[[str], None]) -> Path:
    """Return the folder with these programs, which call rosbag2 and find its plugins by themselves.

    Raises
    ------
    RoslensError
        For the same reasons as in `prepare`.
    """
    rosbag2 = sourced_rosbag2(os.environ) if is_sourced() else rosbag2_for(embedded_ros(note), note)
    header = preprocessed(rosbag2.compiler, "c++", _LTTNG)
    traced = header is not None
    # Another LTTng has another header.
    digest = hashlib.sha256(repr((rosbag2, header)).encode())
    described = _HERE / "rosbag2" / _NULL
    shared = (_SHARED / "workload.hpp", _SHARED / "messages.cpp")
    sources = {path.stem: path for path in (*sorted(_SOURCES.iterdir()), *shared)}
    for path in (*sources.values(), *described.iterdir()):
        digest.update(path.read_bytes())
    folder = cache_folder() / "storage" / digest.hexdigest()[:16]
    defined = {
        "ROSLENS_PREFIXES": os.pathsep.join(map(str, (folder, *rosbag2.prefixes))),
        "ROSLENS_DISTRO": rosbag2.distro,
        "ROSLENS_ROSBAG2_STORAGE": rosbag2.packages["rosbag2_storage"],
    }
    command = (
        *(*rosbag2.compiler, *rosbag2.compile_flags, f"-I{_SOURCES}", f"-I{_SHARED}"),
        *(f'-D{name}="{text}"' for name, text in defined.items()),
        *(("-DROSLENS_TRACED",) if traced else ()),
        "-pthread",
    )
    tracer = ("-llttng-ust",) if traced else ()
    libraries = (*rosbag2.link_flags, "-lsqlite3", *tracer, "-ldl")
    plugin = Step(
        folder / "lib" / f"lib{_NULL}.so",
        (*command, "-shared", str(sources["null_storage"]), *libraries),
    )
    steps = [Step(folder / name, (*command, str(sources[name]), *libraries)) for name in names]
    with locked(folder.with_name(folder.name + ".lock")):
        private_folder(folder)
        announce(folder, described)
        run_steps([plugin, *steps], what="the storage benchmark", log=folder / LOG, note=note)
    return folder
