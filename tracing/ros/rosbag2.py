"""Provide rosbag2's storage plugins and writer, sourced or compiled for the embedded ROS 2.

They are compiled like rclcpp, on which they depend: from public sources without their CMake files,
into their own prefix. System libraries that rosbag2 uses (SQLite, yaml-cpp, TinyXML-2, LZ4,
Zstandard) are used here too; a missing one is compiled as well, in the version that rosbag2 uses.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from roslens.recording import RunFailedError, UsageError
from roslens.tracing.ros.compiling import Step, find_cpp_compiler, preprocessed, run_steps
from roslens.tracing.ros.environment import RosEnvironment
from roslens.tracing.ros.packages import (
    AMENT_INDEX,
    CPP,
    FILES_AT_ONCE,
    LOG,
    MANIFEST,
    C,
    Library,
    Note,
    build_once,
    described,
    facts_of,
    joined,
    listed,
    prefix_of,
    put,
    soname,
    version_of,
)
from roslens.tracing.ros.rclcpp import Rclcpp, rclcpp_for
from roslens.tracing.sources import obtain, pinned

SPACE = 500_000_000
"""Bytes that the build needs temporarily."""
PLUGINS = ("rosbag2_storage_mcap", "rosbag2_storage_sqlite3")
COMPRESSION = ("rosbag2_compression", "rosbag2_compression_zstd")

LIBRARIES = (
    Library("class_loader", "class_loader"),
    Library("mcap", "rosbag2", "mcap_vendor"),
    Library("rosbag2_storage", "rosbag2", "rosbag2_storage"),
    Library("rosbag2_cpp", "rosbag2", "rosbag2_cpp"),
    *(Library(name, "rosbag2", name) for name in (*PLUGINS, *COMPRESSION)),
)
# From rosbag2_storage_mcap's own CMakeLists.txt, for a rosbag2_storage of this version.
_DEFINED = {
    "rosbag2_storage_mcap": tuple(
        f"-DROSBAG2_STORAGE_MCAP_{option}"
        for option in (
            *("HAS_STORAGE_OPTIONS", "WRITER_CREATES_DIRECTORY", "OVERRIDE_SEEK_METHOD"),
            *("HAS_YAML_HPP", "HAS_SET_READ_ORDER", "HAS_UPDATE_METADATA"),
        )
    )
}
_LINKED = ("rosbag2_compression", "rosbag2_cpp", "rosbag2_storage", "class_loader")
_OF_ROS = ("rclcpp", "rcutils", "rmw", "std_msgs__rosidl_typesupport_cpp")
_CONSOLE = "-lconsole_bridge"
_SOURCES = ("class_loader", "pluginlib", "rosbag2", "mcap")


@dataclass(frozen=True)
class OfSystem:
    """A system library that rosbag2 uses.

    Attributes
    ----------
    name
        The linker's name of the library.
    header
        A header whose presence shows that the library can be compiled against.
    debian
        The Debian package of the library.
    source
        The name in the table of pinned sources, for systems without the library; None: no source.
    include
        The folder of its headers, inside the source.
    files
        The files to compile, inside the source.
    options
        Compiler options for these files.
    makes
        A header that its CMake generates, and the content that we use.
    """

    name: str
    header: str
    debian: str
    source: str | None = None
    include: str = "."
    files: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    makes: tuple[str, str] | None = None


OF_SYSTEM = (
    OfSystem("sqlite3", "sqlite3.h", "libsqlite3-dev"),
    OfSystem(
        *("yaml-cpp", "yaml-cpp/yaml.h", "libyaml-cpp-dev", "yaml_cpp", "include"),
        ("src/*.cpp",),
    ),
    OfSystem(
        *("console_bridge", "console_bridge/console.h", "libconsole-bridge-dev", "console_bridge"),
        *("include", ("src/console.cpp",), ()),
        ("console_bridge_export.h", "#define CONSOLE_BRIDGE_DLLAPI\n"),
    ),
    OfSystem("tinyxml2", "tinyxml2.h", "libtinyxml2-dev", "tinyxml2", ".", ("tinyxml2.cpp",)),
    OfSystem(
        *("lz4", "lz4frame.h", "liblz4-dev", "lz4", "lib"),
        ("lib/*.c",),
        ("-DXXH_NAMESPACE=LZ4_",),
    ),
    OfSystem(
        *("zstd", "zstd.h", "libzstd-dev", "zstd", "lib"),
        tuple(f"lib/{folder}/*.c" for folder in ("common", "compress", "decompress")),
        ("-DZSTD_DISABLE_ASM",),
    ),
)


@dataclass(frozen=True)
class Rosbag2:
    """A rosbag2's writer, storage library and plugins, and how C++ programs use them.

    Attributes
    ----------
    prefixes
        The folders of its packages, as for ``AMENT_PREFIX_PATH``.
    compiler
        The C++ compiler.
    compile_flags, link_flags
        Compiler and linker flags for a library that uses it; the library then loads without further
        variables.
    packages
        Versions by package name.
    distro
        The distribution of its ROS 2.
    """

    prefixes: tuple[Path, ...]
    compiler: tuple[str, ...]
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    packages: Mapping[str, str]
    distro: str


def sourced_rosbag2(environ: Mapping[str, str]) -> Rosbag2:
    """Return the rosbag2 of the sourced ROS 2.

    Raises
    ------
    UsageError
        The sourced ROS 2 has no rosbag2, or lacks a plugin.
    RunFailedError
        There is no C++ compiler.
    """
    prefixes = tuple(Path(path) for path in environ["AMENT_PREFIX_PATH"].split(os.pathsep) if path)
    packages = {}
    for name in ("rosbag2_storage", *PLUGINS, *COMPRESSION):
        package = next(
            (path for prefix in prefixes if (path := prefix / "share" / name / MANIFEST).is_file()),
            None,
        )
        if package is None:
            debian = f"ros-{environ.get('ROS_DISTRO', 'DISTRO')}-{name.replace('_', '-')}"
            raise UsageError(f"the sourced ROS 2 has no {name}; apt-get install {debian}")
        packages[name] = version_of(package)[1]
    # Headers are in include/PACKAGE/PACKAGE, in older distributions in include/PACKAGE.
    roots = [prefix / "include" for prefix in prefixes]
    folders = [
        *(folder for root in roots for folder in sorted(root.glob("*")) if folder.is_dir()),
        *roots,
    ]
    folders_of_libraries = [prefix / "lib" for prefix in prefixes]
    names = [
        "-l:" + library.name
        for folder in folders_of_libraries
        for library in sorted(folder.glob("lib*.so"))
        if library.stem.removeprefix("lib") in {*_LINKED, *_OF_ROS}
    ]
    return Rosbag2(
        prefixes,
        tuple(find_cpp_compiler()),
        (*CPP, *(f"-I{folder}" for folder in folders)),
        (
            *(f"-L{folder}" for folder in folders_of_libraries),
            "-Wl,--disable-new-dtags",
            *(f"-Wl,-rpath,{folder}" for folder in folders_of_libraries),
            # These libraries name their own dependencies.
            "-Wl,--unresolved-symbols=ignore-in-shared-libs",
            *names,
            _CONSOLE,
        ),
        packages,
        environ.get("ROS_DISTRO", ""),
    )


def rosbag2_for(ros: RosEnvironment, note: Note = lambda _: None) -> Rosbag2:
    """Return the rosbag2 of the embedded ROS 2, compiling it and rclcpp if needed.

    Parameters
    ----------
    ros
        The embedded ROS 2.
    note
        Called with a line when a step begins, and with its progress.

    Raises
    ------
    UsageError
        The content of ``$ROSLENS_SOURCES`` is not as expected.
    RunFailedError
        A compiler, disk space or a source is missing, or compiling fails.
    """
    compiler = tuple(find_cpp_compiler())
    lacking = tuple(library for library in OF_SYSTEM if not _has_library(compiler, library))
    prefix = _prefix(ros, compiler, lacking)
    nowhere = [library for library in lacking if library.source is None]
    if nowhere:
        raise RunFailedError(
            f"no {nowhere[0].header}, which rosbag2's plugins are compiled with; apt-get install "
            f"{nowhere[0].debian}"
        )

    def build() -> dict[str, str]:
        names = [*_SOURCES, *(library.source for library in lacking if library.source is not None)]
        # Obtain all sources first, because compiling takes long.
        trees = {name: _obtain(name, lacking, note) for name in names}
        rclcpp = rclcpp_for(ros, note)
        note("compiling rosbag2's storage plugins for the embedded ROS 2, once: some minutes")
        return _build(prefix, rclcpp, trees, lacking, note)

    build_once(prefix, "rosbag2's plugins", SPACE, build)
    return _rosbag2_in(prefix, rclcpp_for(ros, note), ros)


def _obtain(name: str, lacking: Sequence[OfSystem], note: Note) -> Path:
    try:
        return obtain(name, note)
    except (UsageError, RunFailedError) as error:
        needed = [library for library in lacking if library.source is not None]
        if name not in {library.source for library in needed}:
            raise
        debian = " ".join(library.debian for library in needed)
        raise type(error)(f"{error}; or, instead, apt-get install {debian}") from error


def _has_library(compiler: Sequence[str], library: OfSystem) -> bool:
    return preprocessed(compiler, "c++", f"#include <{library.header}>") is not None


def _prefix(ros: RosEnvironment, compiler: tuple[str, ...], lacking: Sequence[OfSystem]) -> Path:
    parts = (
        repr((LIBRARIES, _DEFINED, lacking, CPP, C, FILES_AT_ONCE)),
        *(pinned()[name].sha256 for name in ("rclcpp", *_SOURCES)),
        *(pinned()[library.source].sha256 for library in lacking if library.source is not None),
    )
    return prefix_of("rosbag2", ros, [compiler], parts)


def _rosbag2_in(prefix: Path, rclcpp: Rclcpp, ros: RosEnvironment) -> Rosbag2:
    # Loaded before the wheels' own libraries, which bring another generation of LTTng-UST.
    ours = ros.preload()
    return Rosbag2(
        (prefix, rclcpp.prefix, rclcpp.ros),
        rclcpp.compiler,
        _compile_flags(prefix, rclcpp),
        (
            *(f"-Wl,-rpath,{library.parent}" for library in ours),
            *("-Wl,--no-as-needed", *map(str, ours)),
            *_link_flags(prefix, rclcpp, *_LINKED),
            _CONSOLE,
        ),
        facts_of(prefix).packages,
        ros.distro,
    )


def _compile_flags(prefix: Path, rclcpp: Rclcpp) -> tuple[str, ...]:
    folders = sorted((prefix / "include").iterdir())
    return (*rclcpp.compile_flags(), *(f"-I{folder}" for folder in folders))


def _link_flags(prefix: Path, rclcpp: Rclcpp, *names: str) -> tuple[str, ...]:
    folder = prefix / "lib"
    return (
        *(f"-L{folder}", "-Wl,--disable-new-dtags", f"-Wl,-rpath,{folder}", "-Wl,--as-needed"),
        *(f"-l:{soname(name)}" for name in names),
        *rclcpp.link_flags(),
    )


def _build(
    prefix: Path,
    rclcpp: Rclcpp,
    trees: Mapping[str, Path],
    lacking: Sequence[OfSystem],
    note: Note,
) -> dict[str, str]:
    build, log = prefix / "build", prefix / LOG
    build.mkdir(exist_ok=True)
    folders = {library.name: trees[library.source] / library.folder for library in LIBRARIES}
    pluginlib = trees["pluginlib"] / "pluginlib"
    headers = {name: folder / "include" for name, folder in folders.items() if name != "mcap"}
    headers |= {"mcap": trees["mcap"] / "cpp/mcap/include", "pluginlib": pluginlib / "include"}
    compiled: dict[str, tuple[list[Path], tuple[str, ...]]] = {}
    for library in LIBRARIES:
        files = joined(listed(folders[library.name]), build / library.name)
        compiled[library.name] = (files, _DEFINED.get(library.name, ()))
    for of_system in lacking:
        root = trees[str(of_system.source)]
        headers[of_system.name] = root / of_system.include
        files = [file for pattern in of_system.files for file in sorted(root.glob(pattern))]
        compiled[of_system.name] = (files, of_system.options)
    for name, folder in headers.items():
        shutil.copytree(folder, prefix / "include" / name, dirs_exist_ok=True)
    for of_system in lacking:
        if of_system.makes is not None:
            header, text = of_system.makes
            put(prefix / "include" / of_system.name / header, text)
    flags = _compile_flags(prefix, rclcpp)
    steps = {
        name: [_compiling(build / name, file, rclcpp, flags, options) for file in files]
        for name, (files, options) in compiled.items()
    }
    every = [step for of_one in steps.values() for step in of_one]
    run_steps(every, what="rosbag2's plugins", log=log, note=note)
    note("linking rosbag2's plugins")
    # Each group is linked with the libraries of the groups before it.
    first = [library.name for library in lacking]
    groups = (
        *(first, ["class_loader", "mcap"], ["rosbag2_storage"], ["rosbag2_cpp", *PLUGINS]),
        *([name] for name in COMPRESSION),
    )
    for group in groups:
        before = [
            library.name
            for library in LIBRARIES
            if (prefix / "lib" / soname(library.name)).is_file()
        ]
        of_system_flags = [f"-l{library.name}" for library in OF_SYSTEM]
        needed = (*_link_flags(prefix, rclcpp, *before), *of_system_flags)
        links = [
            Step(
                prefix / "lib" / soname(name),
                (
                    *(*rclcpp.compiler, "-shared", f"-Wl,-soname,{soname(name)}"),
                    *(str(step.product) for step in steps[name]),
                    *(() if group == first else needed),
                ),
            )
            for name in group
        ]
        run_steps(links, what="libraries of rosbag2", log=log, note=lambda _: None)
    for name in PLUGINS:
        announce(prefix, folders[name])
    announce(prefix, folders[COMPRESSION[1]], "rosbag2_compression")
    return dict(described(prefix, [*folders.values(), pluginlib]))


def _compiling(
    folder: Path, file: Path, rclcpp: Rclcpp, flags: Sequence[str], options: Sequence[str]
) -> Step:
    kind = ("-x", "c", *C) if file.suffix == ".c" else flags
    target = folder / f"{file.parent.name}-{file.name}.o"
    return Step(target, (*rclcpp.compiler, *kind, *options, "-c", str(file)))


def announce(prefix: Path, package: Path, base: str = "rosbag2_storage") -> None:
    """Put the descriptions of a package and of its plugins where pluginlib finds them.

    `base` is the package whose interface the plugins implement.
    """
    ((name, _),) = described(prefix, [package])
    place = Path("share") / name / "plugin_description.xml"
    put(prefix / place, (package / place.name).read_text(encoding="utf-8"))
    put(prefix / AMENT_INDEX / f"{base}__pluginlib__plugin" / name, f"{place}\n")
