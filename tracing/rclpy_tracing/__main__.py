"""``python3 <this folder> SCRIPT|-m MODULE [ARGUMENTS...]``: run a Python node, traced."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from types import ModuleType


def load() -> ModuleType:
    """Import the package, even if the folder itself was given to the interpreter."""
    if __package__:
        return importlib.import_module(__package__)
    if "rclpy_tracing" in sys.modules:
        return sys.modules["rclpy_tracing"]
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    spec = importlib.util.spec_from_file_location(
        "rclpy_tracing",
        os.path.join(folder, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[folder],
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} is not the rclpy_tracing package")
    module = importlib.util.module_from_spec(spec)
    sys.modules["rclpy_tracing"] = module
    spec.loader.exec_module(module)
    return module


def main(arguments: list[str]) -> int:
    """Instrument rclpy, then run the program that `arguments` name."""
    if not arguments or arguments[0] in {"-h", "--help"} or arguments == ["-m"]:
        print(__doc__, file=sys.stdout if arguments[:1] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    is_module = arguments[0] == "-m"
    target, rest = (arguments[1], arguments[2:]) if is_module else (arguments[0], arguments[1:])
    if not is_module and not os.path.exists(target):  # noqa: PTH110
        print(f"rclpy_tracing: {target}: no such file", file=sys.stderr)
        return 2
    try:
        load().enable()
    except (ImportError, RuntimeError) as error:
        print(f"rclpy_tracing: {error}", file=sys.stderr)
        return 2
    sys.argv = [target, *rest]
    if is_module:
        sys.path[0] = os.getcwd()  # noqa: PTH109
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(target))  # noqa: PTH100, PTH120
        runpy.run_path(target, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
