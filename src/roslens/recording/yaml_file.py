"""Read YAML that people write: plain values, without duplicate keys."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from roslens.recording.errors import UsageError

LONGEST = 1 << 20
"""The maximum characters of a file: a longer one takes minutes and gigabytes to read."""


MOST_MERGED = 10_000
"""The maximum number of keys that '<<' may add to one mapping."""


class _Loader(yaml.SafeLoader):
    """Safe loader that reports a duplicate key, of which the last value would silently win."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge the mappings that '<<' names; nested ones could make billions of keys."""
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
    """Return the value of a YAML text.

    Raises
    ------
    yaml.YAMLError, ValueError, RecursionError
        The text is not YAML, has a duplicate key or an invalid date, is too long or too nested.
    """
    if len(text) > LONGEST:
        raise ValueError(f"it has more than {LONGEST >> 20} MiB")
    return yaml.load(text, Loader=_Loader)  # noqa: S506  (a SafeLoader)


def text_of_yaml(path: Path) -> str:
    """Return a YAML file's text, but no more than `read_yaml` needs to refuse it.

    Raises
    ------
    OSError, UnicodeDecodeError
        The file cannot be read, or is not UTF-8.
    """
    with path.open(encoding="utf-8") as file:
        return file.read(LONGEST + 1)


def read_yaml_file(path: Path) -> Any:
    """Return the value of a YAML file that people write.

    Raises
    ------
    UsageError
        The file cannot be read, or is not valid YAML for `read_yaml`.
    """
    try:
        return read_yaml(text_of_yaml(path))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: no YAML: {' '.join(str(error).split())}") from error
