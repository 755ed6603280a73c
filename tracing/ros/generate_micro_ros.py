"""Runs in the embedded ROS's Python: makes micro-ROS' C code of interfaces, and rcutils' macros.

``python generate_micro_ros.py SOURCES OUTPUT FILE...``: the code of interfaces such as
``std_msgs/msg/String.msg`` below ``SOURCES``, by the generators that lie there too; each may use
those before it.
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path

_ROSIDL, _DISPATCH = "iron_rosidl", "iron_rosidl_typesupport/rosidl_typesupport_c"
_MICRO_ROS = "uros_rosidl_typesupport_microxrcedds/rosidl_typesupport_microxrcedds_c"
_MODULES = (
    *(f"{_ROSIDL}/rosidl_{name}" for name in ("adapter", "cli", "cmake", "parser", "pycommon")),
    *(f"{_ROSIDL}/rosidl_generator_{name}" for name in ("c", "type_description")),
    *(_DISPATCH, _MICRO_ROS),
)


class Package:
    """The interfaces of one package."""

    def __init__(self, name: str, sources: Path, output: Path, known: list[Package]) -> None:
        self.name, self.sources, self.output, self.known = name, sources, output, known
        self.idl, self.code = output / "idl" / name, output / "include" / name
        self.hashes = output / "hash" / name
        self.files: list[str] = []

    def translate(self, file: Path) -> None:
        """Bring a ``.msg`` or ``.srv`` file to IDL."""
        from rosidl_adapter.msg import convert_msg_to_idl  # noqa: PLC0415
        from rosidl_adapter.srv import convert_srv_to_idl  # noqa: PLC0415

        kind, folder = file.suffix[1:], file.parents[1]
        convert = {"msg": convert_msg_to_idl, "srv": convert_srv_to_idl}[kind]
        idl = convert(folder, self.name, file.relative_to(folder), self.idl / kind)
        self.files.append(f"{kind}/{idl.name}")

    def arguments(self, place: Path, generator: str = "", *, hashed: bool = True) -> str:
        """The file by which generators are told what to make."""
        hashes = [f"{file}:{self.hashes / Path(file).with_suffix('.json')}" for file in self.files]
        arguments = {
            "package_name": self.name,
            "idl_tuples": [f"{self.idl}:{file}" for file in self.files],
            "include_paths": [f"{package.name}:{package.hashes}" for package in self.known],
            "output_dir": str(place),
            "template_dir": str(self.sources / generator / "resource"),
            "type_description_tuples": hashes if hashed else [],
            "target_dependencies": [],
        }
        place.mkdir(parents=True, exist_ok=True)
        path = place / "arguments.json"
        path.write_text(json.dumps(arguments), encoding="utf-8")
        return str(path)

    def generate(self) -> None:
        """Make the C code, once all files are translated."""
        import rosidl_generator_c as c  # noqa: PLC0415
        import rosidl_generator_type_description as hashing  # noqa: PLC0415
        import rosidl_typesupport_c as dispatch  # noqa: PLC0415
        import rosidl_typesupport_microxrcedds_c as micro_ros  # noqa: PLC0415

        hashing.generate_type_hash(self.arguments(self.hashes, hashed=False))
        structures = f"{_ROSIDL}/rosidl_generator_c"
        c.generate_c(self.arguments(self.code, structures))
        micro_ros.generate_typesupport_microxrcedds_c(self.arguments(self.code, _MICRO_ROS))
        # With one type support there is nothing to choose at run time.
        dispatch.generate_c(self.arguments(self.code, _DISPATCH), [Path(_MICRO_ROS).name])
        for generator in (structures, _MICRO_ROS):
            header = f"{Path(generator).name}__visibility_control.h"
            template = self.sources / generator / "resource" / f"{header}.in"
            text = template.read_text(encoding="utf-8")
            text = text.replace("@PROJECT_NAME_UPPER@", self.name.upper())
            place = self.code / "msg" / header
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text.replace("@PROJECT_NAME@", self.name), encoding="utf-8")


def _package(file: Path) -> str:
    # That of a repository with one package lies in its root.
    return file.parents[1].name.removeprefix("iron_")


def main(sources: Path, output: Path, files: list[str]) -> None:
    """Make all code."""
    import em  # noqa: PLC0415

    packages: list[Package] = []
    for name, members in groupby((sources / file for file in files), _package):
        package = Package(name, sources, output, list(packages))
        for file in members:
            package.translate(file)
        package.generate()
        packages.append(package)
    module = sources / "uros_rcutils"
    target = output / "include" / "rcutils" / "logging_macros.h"
    target.parent.mkdir(parents=True, exist_ok=True)
    template = str(module / "resource" / "logging_macros.h.em")
    em.invoke(["-o", str(target), "-D", f"rcutils_module_path={str(module)!r}", template])


if __name__ == "__main__":
    root = Path(sys.argv[1]).resolve()
    sys.path[:0] = [str(root / module) for module in _MODULES]
    main(root, Path(sys.argv[2]).resolve(), sys.argv[3:])
