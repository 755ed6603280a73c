"""Trace rclpy: Python runs this file before a program if this folder is on PYTHONPATH.

Nothing is imported until the program imports rclpy; for a program that never does, the cost is
one check of the name of each import.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120


class _Rclpy:
    """An import hook that finds rclpy where Python does, and traces it once it is imported."""

    def find_spec(self, name: str, *_: Any) -> Any:
        if name != "rclpy":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                _trace()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _trace() -> None:
    main = os.path.join(os.path.dirname(_FOLDER), "__main__.py")  # noqa: PTH118, PTH120
    try:
        runpy.run_path(main, run_name="rclpy_tracing_main")["load"]().enable()
    except Exception as error:  # noqa: BLE001 (whatever it is, the program goes on, untraced)
        print(f"roslens: callbacks of Python nodes are not recorded: {error}", file=sys.stderr)


def _run_hidden_module() -> None:
    """Run the sitecustomize module that this one hides, if there is one."""
    sys.path.remove(_FOLDER)
    module = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = module


sys.meta_path.insert(0, _Rclpy())
_run_hidden_module()
