"""``python3 <this folder> publisher|subscriber OPTIONS``: one process of the demo."""

import importlib
import importlib.util
import os
import sys


def main() -> int:
    """Load the folder as a package, then become the node that the first argument names."""
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    spec = importlib.util.spec_from_file_location(
        "roslens_demo",
        os.path.join(folder, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[folder],
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} is not the demo")
    package = importlib.util.module_from_spec(spec)
    sys.modules["roslens_demo"] = package
    spec.loader.exec_module(package)
    role = sys.argv.pop(1)
    return int(importlib.import_module(f"roslens_demo.{role}").main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
