"""Compile micro-ROS and its agent on demand from public sources: once, completely or not at all.

As in `roslens.tracing.ros.rclcpp`, the projects' CMake files are not used. The settings that
micro-ROS fixes at compile time (numbers of entities, sizes of buffers) belong to each program, see
`described`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from roslens.recording import RunFailedError
from roslens.recording.files import shipped
from roslens.tracing.ros.compiling import (
    Step,
    find_cpp_compiler,
    named_compiler,
    run_logged,
    run_steps,
)
from roslens.tracing.ros.configured import configured, defaults
from roslens.tracing.ros.environment import RosEnvironment
from roslens.tracing.ros.packages import (
    GENERATORS,
    LOG,
    Note,
    build_once,
    bundled,
    generating,
    prefix_of,
    put,
)
from roslens.tracing.sources import cached, obtain, pinned

SPACE = 300_000_000
"""Bytes that the build needs temporarily."""
AGENT = "MicroXRCEAgent"
_LIBRARY = "libmicroros.a"
DESCRIPTION = "programs.json"
"""File of the folder that states how to compile a program of micro-ROS: see `described`."""

_GENERATE = shipped("tracing", "ros", "generate_micro_ros.py")
_CLIENT, _RMW = "micro_xrce_dds_client", "uros_rmw_microxrcedds/rmw_microxrcedds_c"
_AGENT = "micro_xrce_dds_agent_3"
_AGENT_FLAGS = ("-std=c++17", "-O1", "-DNDEBUG", "-w")
_AGENT_PARTS = 4

INTERFACES = (
    *(f"iron_rcl_interfaces/builtin_interfaces/msg/{name}.msg" for name in ("Duration", "Time")),
    "iron_unique_identifier_msgs/msg/UUID.msg",
    "iron_rcl_interfaces/service_msgs/msg/ServiceEventInfo.msg",
    *(
        f"iron_rcl_interfaces/type_description_interfaces/msg/{name}.msg"
        for name in (
            *("FieldType", "Field", "IndividualTypeDescription", "KeyValue"),
            *("TypeDescription", "TypeSource"),
        )
    ),
    "iron_rcl_interfaces/type_description_interfaces/srv/GetTypeDescription.srv",
    *(
        f"iron_rcl_interfaces/action_msgs/msg/{name}.msg"
        for name in ("GoalInfo", "GoalStatus", "GoalStatusArray")
    ),
    "iron_rcl_interfaces/action_msgs/srv/CancelGoal.srv",
    *(f"iron_common_interfaces/std_msgs/msg/{name}.msg" for name in ("Int32", "String")),
    "iron_common_interfaces/std_srvs/srv/SetBool.srv",
)
# Packages whose files do not depend on a program's configuration; the packages with headers.
_PACKAGES = (
    "micro_cdr",
    "uros_rcutils",
    "iron_rmw/rmw",
    "iron_rosidl/rosidl_runtime_c",
    "iron_rosidl_typesupport/rosidl_typesupport_c",
    "uros_rosidl_typesupport_microxrcedds/rosidl_typesupport_microxrcedds_c",
    "uros_rcl/rcl",
    "uros_rcl/rcl_action",
    "uros_rclc/rclc",
)
_HEADERS = (
    *_PACKAGES,
    "iron_rosidl/rosidl_typesupport_interface",
    "iron_rosidl_dynamic_typesupport",
    "iron_ros2_tracing/tracetools",
    *(_CLIENT, _RMW),
)
SOURCES = tuple(
    sorted({*(path.partition("/")[0] for path in (*_HEADERS, *INTERFACES)), "iron_rosidl", _AGENT})
)
BELOW = ("freertos_kernel", "threadx", "lwip")
"""Sources that some programs of a board need below micro-ROS; compiled with each program."""
# Prefix of the pool sizes. Files that do not name them see pools as arrays of unknown length:
# the compiler's result for them is independent of the sizes.
_POOLS = "RMW_UXRCE_MAX_"
# Files that micro-ROS's own build for devices omits, and that no type support here needs.
_LEFT_OUT = (
    *("arguments", "logging_rosout", "logging", "log_level", "node_type_cache"),
    *("type_description_conversions", "rcl_wait_set_is_valid_backport", "time_win32"),
)


@dataclass(frozen=True)
class Target:
    """A target that micro-ROS is compiled for.

    Attributes
    ----------
    name
        The name of the target's folder.
    compiler, archiver
        Names of the programs.
    flags
        Flags for compiling all files.
    switches
        Options of micro-ROS's packages that are on, or have another value.
    """

    name: str
    compiler: str
    archiver: str
    flags: tuple[str, ...]
    switches: Mapping[str, str]


_COMMON = ("-std=gnu11", "-w", "-ffunction-sections", "-fdata-sections", "-DNDEBUG")
HOST = Target(
    "host",
    "cc",
    "ar",
    ("-O2", "-D_GNU_SOURCE", *_COMMON),
    {"UCLIENT_PLATFORM_POSIX": "ON", "UCLIENT_PROFILE_DISCOVERY": ""},
)
CORTEX_M3 = Target(
    "cortex-m3",
    "arm-none-eabi-gcc",
    "arm-none-eabi-ar",
    (
        *("-mcpu=cortex-m3", "-mthumb", "-Os", "-DCLOCK_MONOTONIC=0", *_COMMON),
        *("-D_POSIX_TIMERS=1", "-D_POSIX_C_SOURCE=200809L", "-D_DEFAULT_SOURCE"),
    ),
    {
        **dict.fromkeys(
            (f"UCLIENT_PROFILE_{profile}" for profile in ("UDP", "TCP", "SERIAL", "DISCOVERY")), ""
        ),
        "RCUTILS_NO_FILESYSTEM": "ON",
        "RCUTILS_NO_THREAD_SUPPORT": "ON",
        "RCUTILS_NO_64_ATOMIC": "ON",
    },
)
TARGETS = (HOST, CORTEX_M3)


@dataclass(frozen=True)
class MicroRos:
    """A compiled micro-ROS and its agent.

    Attributes
    ----------
    prefix
        The folder of ``MicroXRCEAgent`` and of a library for each target.
    trees
        The folder of the sources.
    """

    prefix: Path
    trees: Path

    @property
    def agent(self) -> Path:
        """Return the path of the agent's program."""
        return self.prefix / AGENT

    def include_flags(self, target: Target) -> list[str]:
        """Return compiler flags for the header folders."""
        folders = [self.prefix / target.name / "include", self.prefix / "include"]
        folders += [self.trees / package / "include" for package in _HEADERS]
        return [f"-I{folder}" for folder in folders]

    def values(self, target: Target) -> dict[str, str]:
        """Return the options of micro-ROS's packages."""
        values = {"CONFIG_MACHINE_ENDIANNESS": "UCDR_LITTLE_ENDIANNESS"}
        for tree in (_CLIENT, _RMW, "uros_rcutils"):
            values |= defaults(self.trees / tree / "CMakeLists.txt")
        return {**values, "TRACETOOLS_DISABLED": "ON", **target.switches}


def described(made: MicroRos, target: Target) -> dict[str, object]:
    """Describe how a program is compiled for a target.

    Returns
    -------
    dict
        ``command``: the command, to which sources and ``-o NAME`` must be added; ``parts``: sources
        that depend on ``values``, each with the ``template`` of their ``header`` (see
        `roslens.tracing.ros.configured`): those of the client, of its RMW, and the few RMW sources
        that use sizes of ``pools``, which are options with this prefix; ``values``: values for the
        templates; ``library``: everything else.
    """
    values = {**made.values(target), "RMW_UXRCE_TRANSPORT_CUSTOM": "ON"}
    for step in ("CREATION", "DESTROY"):
        timeout = values["RMW_UXRCE_ENTITY_CREATION_DESTROY_TIMEOUT"]
        values[f"RMW_UXRCE_ENTITY_{step}_TIMEOUT"] = timeout
    client, rmw = made.trees / _CLIENT, made.trees / _RMW
    of_client = [
        *_listed(client, ("src/c/core/", "src/c/util/")),
        *_transport_sources(client / "src/c/profile/transport", target),
    ]
    of_rmw = [*_listed(rmw, ("src/",)), rmw / "src/rmw_microros/custom_transport.c"]
    include = [f"-I{client / 'src/c'}", f"-I{rmw / 'src'}", *made.include_flags(target)]
    return {
        "command": [find_compiler(target), *target.flags, "-DHAVE_C_TYPESUPPORT", *include],
        "parts": [
            {
                "header": "uxr/client/config.h",
                "template": str(client / "include/uxr/client/config.h.in"),
                "files": [str(file) for file in of_client],
            },
            *(
                {
                    "header": "rmw_microxrcedds_c/config.h",
                    "template": str(rmw / "src/config.h.in"),
                    "files": [
                        str(file) for file in of_rmw if (_POOLS in file.read_text("utf-8")) == sized
                    ],
                }
                for sized in (False, True)
            ),
        ],
        "pools": _POOLS,
        "values": values | _version_values(client),
        "library": str(made.prefix / target.name / _LIBRARY),
    }


def find_compiler(target: Target) -> str:
    """Return the path of a target's compiler.

    Raises
    ------
    RunFailedError
        The compiler is not installed.
    """
    command = named_compiler("CC", "cc", "gcc") if target is HOST else []
    path = command[0] if command else shutil.which(target.compiler)
    if path is None:
        package = "gcc" if target is HOST else "gcc-arm-none-eabi libnewlib-arm-none-eabi"
        raise RunFailedError(
            f"no {target.compiler}, which micro-ROS must be compiled with for {target.name}; "
            f"apt-get install {package}"
        )
    return path


def micro_ros_for(ros: RosEnvironment, note: Note = lambda _: None) -> MicroRos:
    """Return micro-ROS and its agent, compiling them if needed.

    Parameters
    ----------
    ros
        The embedded ROS 2, whose DDS the agent uses to communicate with ROS nodes.
    note
        Called with a line when a step begins, and with its progress.

    Raises
    ------
    UsageError
        The content of ``$ROSLENS_SOURCES`` is not as expected.
    RunFailedError
        A compiler, disk space or a source is missing, or compiling fails.
    """
    prefix = _prefix(ros)
    micro_ros = MicroRos(prefix, prefix / "sources")

    def build() -> dict[str, str]:
        micro_ros.trees.mkdir(exist_ok=True)
        for name in SOURCES:
            place = micro_ros.trees / name
            place.unlink(missing_ok=True)
            place.symlink_to(obtain(name, note))
        note("compiling micro-ROS and its agent, once: some minutes")
        _build(micro_ros, ros, note)
        return {
            "micro-ROS": f"iron for {' and '.join(target.name for target in TARGETS)}",
            "Micro-XRCE-DDS-Client": ".".join(_version_of(micro_ros.trees / _CLIENT)),
            "Micro-XRCE-DDS-Agent": ".".join(_version_of(micro_ros.trees / _AGENT)),
        }

    build_once(prefix, "micro-ROS", SPACE, build)
    targets = {target.name: described(micro_ros, target) for target in TARGETS}
    below = {name: str(tree) for name in BELOW if (tree := cached(name)) is not None}
    description = {"agent": str(micro_ros.agent), "targets": targets, "sources": below}
    text = json.dumps(description, indent=1)
    put(prefix / DESCRIPTION, text)
    return micro_ros


def _prefix(ros: RosEnvironment) -> Path:
    """Return the folder of the compiled micro-ROS."""
    compilers = [find_cpp_compiler(), *([find_compiler(target)] for target in TARGETS)]
    parts = (
        repr((INTERFACES, _HEADERS, _LEFT_OUT, TARGETS, _AGENT_PARTS, _AGENT_FLAGS)),
        *(pinned()[name].sha256 for name in SOURCES),
        *(script.read_text(encoding="utf-8") for script in (_GENERATE, GENERATORS)),
    )
    return prefix_of("micro-ros", ros, compilers, parts)


def _build(micro_ros: MicroRos, ros: RosEnvironment, note: Note) -> None:
    build, log = micro_ros.prefix / "build", micro_ros.prefix / LOG
    build.mkdir(exist_ok=True)
    _generate(micro_ros, ros, log)
    steps = []
    for target in TARGETS:
        _configure(micro_ros, target)
        steps += _library_steps(micro_ros, target, build / target.name)
    run_steps(steps, what="micro-ROS", log=log, note=note)
    for target in TARGETS:
        place = micro_ros.prefix / target.name / _LIBRARY
        place.unlink(missing_ok=True)
        objects = sorted((build / target.name).glob("*.o"))
        command = [target.archiver, "rcsD", str(place), *map(str, objects)]
        run_logged(command, log, place.name, dict(os.environ))
    _build_agent(micro_ros, ros.python.parents[1], log, note)


def _generate(micro_ros: MicroRos, ros: RosEnvironment, log: Path) -> None:
    done = micro_ros.prefix / "build" / "generated-complete"
    if done.is_file():
        return
    code = micro_ros.prefix / "build" / "generated"
    for folder in (code, micro_ros.prefix / "include"):
        shutil.rmtree(folder, ignore_errors=True)
    run_logged(
        [str(ros.python), "-s", str(_GENERATE), str(micro_ros.trees), str(code), *INTERFACES],
        log,
        "the code of interfaces",
        generating(ros, micro_ros.prefix / "build" / "tools", log),
    )
    (code / "include").rename(micro_ros.prefix / "include")
    done.touch()


def _configure(micro_ros: MicroRos, target: Target) -> None:
    """Generate the headers that packages derive from their options."""
    values = micro_ros.values(target)
    include = micro_ros.prefix / target.name / "include"
    # Generated code includes this header although it is compiled as C.
    put(include / "cstddef", "#include <stddef.h>\n")
    version = _version_values(micro_ros.trees / "micro_cdr")
    for template, header, more in (
        ("micro_cdr/include/ucdr/config.h.in", "ucdr/config.h", version),
        (
            "uros_rcutils/include/rcutils/configuration_flags.h.in",
            *("rcutils/configuration_flags.h", {}),
        ),
        (
            "iron_ros2_tracing/tracetools/include/tracetools/config.h.in",
            *("tracetools/config.h", {}),
        ),
    ):
        put(include / header, configured(micro_ros.trees / template, {**values, **more}))


def _library_steps(micro_ros: MicroRos, target: Target, folder: Path) -> list[Step]:
    files = [file for package in _PACKAGES for file in _files_of(micro_ros.trees / package, target)]
    files += sorted((micro_ros.prefix / "include").rglob("*.c*"))
    begin = (find_compiler(target), *target.flags, *micro_ros.include_flags(target))
    steps = []
    for file in files:
        # A unique name: the name of a package and the path below it.
        name = "-".join(file.parts[-4:])
        sources = ("-I", str(_package_of(file) / "src"))
        steps.append(Step(folder / f"{name}.o", (*begin, *sources, "-x", "c", "-c", str(file))))
    return steps


def _files_of(package: Path, target: Target) -> list[Path]:
    wanted = {"time_unix"} | ({"atomic_64bits"} if target is CORTEX_M3 else set())
    files = sorted((package / "src").rglob("*.c"))
    optional = {"time_unix", "atomic_64bits", *_LEFT_OUT}
    return [file for file in files if file.stem not in optional or file.stem in wanted]


def _version_of(package: Path) -> tuple[str, ...]:
    text = (package / "CMakeLists.txt").read_text(encoding="utf-8")
    match = re.search(r'VERSION "(\d+)\.(\d+)\.(\d+)"', text)
    if match is None:
        raise RunFailedError(f"{package}/CMakeLists.txt: names no version")
    return match.groups()


def _version_values(package: Path) -> dict[str, str]:
    numbers = _version_of(package)
    names = [f"PROJECT_VERSION{part}" for part in ("_MAJOR", "_MINOR", "_PATCH", "")]
    return dict(zip(names, (*numbers, ".".join(numbers)), strict=True))


def _package_of(file: Path) -> Path:
    return next((folder.parent for folder in file.parents if folder.name == "src"), file.parent)


def _listed(package: Path, below: tuple[str, ...]) -> list[Path]:
    """Return the C files that a package's CMakeLists.txt names unconditionally."""
    text = (package / "CMakeLists.txt").read_text(encoding="utf-8")
    paths = re.findall(r"^\s*(src/\S+\.c)\s*$", text, re.MULTILINE)
    return [package / path for path in dict.fromkeys(paths) if path.startswith(below)]


def _transport_sources(transports: Path, target: Target) -> list[Path]:
    """Return the client's transports, all of which a program may be compiled with."""
    names = ["custom/custom_transport", "stream_framing/stream_framing_protocol"]
    if target is HOST:
        names.append("ip/ip_posix")
        for kind in ("ip/udp/udp", "ip/tcp/tcp", "serial/serial"):
            names += [f"{kind}_transport", f"{kind}_transport_posix"]
    return [transports / f"{name}.c" for name in names]


def _build_agent(micro_ros: MicroRos, root: Path, log: Path, note: Note) -> None:
    tree, build = micro_ros.trees / _AGENT, micro_ros.prefix / "build" / "agent"
    values = defaults(tree / "CMakeLists.txt")
    # Agent discovery, other middlewares and CAN are not needed; the logger needs a library.
    off = ("CED", "DISCOVERY", "P2P", "SOCKETCAN", "LOGGER")
    values |= {f"UAGENT_{profile}_PROFILE": "" for profile in off}
    put(
        build / "include/uxr/agent/config.hpp",
        configured(tree / "include/uxr/agent/config.hpp.in", values),
    )
    text = (tree / "CMakeLists.txt").read_text(encoding="utf-8")
    files = list(dict.fromkeys(re.findall(r"^\s*(src/cpp/\S+\.cpp)\s*$", text, re.MULTILINE)))
    files = [file for file in files if "Windows" not in file]
    files += re.findall(r"UAGENT_FAST_PROFILE}>:(src/cpp/\S+?\.cpp)>", text)
    files.append("microxrce_agent.cpp")
    include = root / "include"
    folders = [
        *(tree / "include", build / "include", tree / "src/cpp", include),
        *(include / name for name in ("fastcdr", "fastdds", "foonathan_memory")),
    ]
    compiler = find_cpp_compiler()
    flags = (*_AGENT_FLAGS, *(f"-I{folder}" for folder in folders))
    steps = []
    # Each file includes several, so that common headers are read once. Neighbours in the list
    # define the same names and must stay apart.
    for i in range(_AGENT_PARTS):
        together = build / f"agent-{i}.cpp"
        put(together, "".join(f'#include "{tree / file}"\n' for file in files[i::_AGENT_PARTS]))
        steps.append(Step(together.with_suffix(".o"), (*compiler, *flags, "-c", str(together))))
    run_steps(steps, what="micro-ROS' agent", log=log, note=note)
    # The wheels' libraries do not find each other.
    search = [root / "lib", *bundled(root)]
    program = Step(
        micro_ros.agent,
        (
            *(*compiler, *(str(step.product) for step in steps), f"-L{root / 'lib'}"),
            *("-Wl,--disable-new-dtags", *(f"-Wl,-rpath,{folder}" for folder in search)),
            *("-Wl,--unresolved-symbols=ignore-in-shared-libs", "-lfastdds", "-lfastcdr"),
            *("-pthread", "-lrt", "-ldl"),
        ),
    )
    run_steps([program], what=AGENT, log=log, note=lambda _: None)
