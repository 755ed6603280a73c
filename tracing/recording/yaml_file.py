"""YAML that people write: plain values, and no key twice."""

from __future__ import annotations

from typing import Any

import yaml


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
