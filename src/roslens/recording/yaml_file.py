"""YAML that people write: plain values, and no key twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from roslens.recording.errors import UsageError

LONGEST = 1 << 20
"""Characters of a file that people write: what is longer takes minutes and gigabytes to read."""


MOST_MERGED = 10_000
"""Keys that '<<' may put into one mapping."""


class _Loader(yaml.SafeLoader):
    """Safe, and says that a key is there twice, where the last would silently hold."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Put in what '<<' names, of which mappings within mappings could make billions of keys."""
        keys = 0
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(merged, yaml.MappingNode) and merged is not node:
                        self.flatten_mapping(merged)
                        keys += len(merged.value)
                    if keys > MOST_MERGED:
                        raise yaml.constructor.ConstructorError(
                            None, None, "'<<' makes too many keys", node.start_mark
                        )
        super().flatten_mapping(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        seen = Counter(names)
        twice = next((name for name in names if seen[name] > 1 and name != "<<"), None)
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
        It is none, has a key twice, a date that is none, is too long, or is nested too deep.
    """
    if len(text) > LONGEST:
        raise ValueError(f"it has more than {LONGEST >> 20} MiB")
    return yaml.load(text, Loader=_Loader)  # noqa: S506  (a SafeLoader)


def text_of_yaml(path: Path) -> str:
    """The text of a file that people write, no more of it than `read_yaml` has to refuse.

    Raises
    ------
    OSError, UnicodeDecodeError
        It cannot be read, or is no UTF-8.
    """
    with path.open(encoding="utf-8") as file:
        return file.read(LONGEST + 1)


def read_yaml_file(path: Path) -> Any:
    """What a file holds that people write.

    Raises
    ------
    UsageError
        It cannot be read, or is no YAML as of `read_yaml`.
    """
    try:
        return read_yaml(text_of_yaml(path))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: no YAML: {' '.join(str(error).split())}") from error
