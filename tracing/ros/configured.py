"""Generate headers that a project's CMake makes from templates, without CMake."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path


def defaults(cmake: Path) -> dict[str, str]:
    """Return the default options in a ``CMakeLists.txt``; switches are ``ON`` or empty."""
    text = cmake.read_text(encoding="utf-8")
    values = dict(re.findall(r'\bset\((\w+)\s+"?([^"\s)]*)"?\s+CACHE\b', text))
    switches = re.findall(r'\boption\((\w+)\s+"[^"]*"\s*(ON|OFF)?\s*\)', text)
    return values | {name: "ON" if state == "ON" else "" for name, state in switches}


def configured(template: Path, values: Mapping[str, str]) -> str:
    """Fill in a template like CMake's ``configure_file``."""

    def define(match: re.Match[str]) -> str:
        return f"#define {match[1]}" if values.get(match[1]) else f"/* #undef {match[1]} */"

    text = re.sub(r"#cmakedefine (\w+)", define, template.read_text(encoding="utf-8"))
    return re.sub(r"@(\w+)@", lambda match: values.get(match[1], ""), text)
