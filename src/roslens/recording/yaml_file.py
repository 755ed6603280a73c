"""YAML that people write: plain values, and no key twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from roslens.recording.errors import UsageError


class _Loader(yaml.SafeLoader):
    """Safe, and says that a key is there twice, where the last would silently hold."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((name for name in names if names.count(name) > 1 and name != "<<"), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {twice!r} is there twice", node.start_mark
            )
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """What a YAML text holds.

    Raises
    ------
    yaml.YAMLError, ValueError, RecursionError
        It is none, has a key twice, a date that is none, or is nested too deep.
    """
    return yaml.load(text, Loader=_Loader)  # noqa: S506  (a SafeLoader)


def read_yaml_file(path: Path) -> Any:
    """What a file holds that people write.

    Raises
    ------
    UsageError
        It cannot be read, or is no YAML as of `read_yaml`.
    """
    try:
        return read_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: no YAML: {' '.join(str(error).split())}") from error
