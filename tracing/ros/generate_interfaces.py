"""Runs in the embedded ROS's Python: makes C and C++ of interfaces, and expands templates.

``python generate_interfaces.py interfaces SHARE PACKAGE OUTPUT`` makes the code of the messages
in ``PACKAGE/msg``; ``... expand TEMPLATE OUTPUT [name=value]`` expands one template of EmPy.
"""

from __future__ import annotations

import sys
from importlib import import_module
from inspect import signature
from pathlib import Path

# Introspection is left out: nothing here asks for it.
IMPLEMENTATION = "rosidl_typesupport_fastrtps_cpp"
GENERATORS = {
    "rosidl_generator_c": "GenerateC",
    "rosidl_generator_cpp": "GenerateCpp",
    "rosidl_typesupport_cpp": "GenerateCppTypesupport",
    IMPLEMENTATION: "GenerateFastRTPSCppTypesupport",
}


def interfaces(share: Path, package: Path, output: Path) -> None:
    """Make the code of all messages of a package."""
    from rosidl_adapter.msg import convert_msg_to_idl  # noqa: PLC0415
    from rosidl_generator_type_description.cli import HashTypeDescription  # noqa: PLC0415

    name = package.name
    # As absolute paths, from whose folders the packages' names are read.
    packages = [str(folder) for folder in sorted(share.iterdir()) if (folder / "msg").is_dir()]
    translated = output / "idl" / name
    files = []
    for message in sorted((package / "msg").glob("*.msg")):
        idl = convert_msg_to_idl(package, name, message.relative_to(package), translated / "msg")
        files.append(f"{translated}:msg/{idl.name}")
    code = output / name
    hashes = HashTypeDescription("hash").generate_type_hashes(name, files, packages, code)
    for module, kind in GENERATORS.items():
        generator = getattr(import_module(f"{module}.cli"), kind)
        if "typesupport_implementations" in signature(generator).parameters:
            made_by = generator(module, typesupport_implementations=[IMPLEMENTATION])
        else:
            made_by = generator(module)
        wanted = signature(made_by.generate).parameters
        more = {"type_description_files": hashes} if "type_description_files" in wanted else {}
        made_by.generate(name, files, packages, code, **more)


def expand(template: Path, output: Path, *definitions: str) -> None:
    """Expand one template."""
    import em  # noqa: PLC0415

    output.parent.mkdir(parents=True, exist_ok=True)
    defined = [word for definition in definitions for word in ("-D", definition)]
    em.invoke([*defined, "-o", str(output), str(template)])


if __name__ == "__main__":
    what, *paths = sys.argv[1:]
    if what == "interfaces":
        interfaces(*(Path(path).resolve() for path in paths))
    else:
        expand(Path(paths[0]), Path(paths[1]), *paths[2:])
