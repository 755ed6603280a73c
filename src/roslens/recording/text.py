"""Make names from foreign sources safe to look at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

UNSEEN = r"\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Control characters of ASCII and Latin 1, and marks that change text direction or end a line."""

# This also matches bytes that are not UTF-8, as Python represents them.
_ANY = re.compile(rf"[{UNSEEN}\ud800-\udfff]")
_IN_LINES = re.compile(rf"(?![\n\t])[{UNSEEN}\ud800-\udfff]")


def shown(text: str, *, lines: bool = False) -> str:
    r"""Return `text` with characters that a terminal would obey or hide escaped, as ``\x1b``.

    All text passes through here on its way to a terminal, a graph or a summary: a name in a trace
    must neither rewrite the screen nor pretend to be another line.

    Parameters
    ----------
    lines
        Whether to keep line ends and tabs.
    """
    return (_IN_LINES if lines else _ANY).sub(_escaped, text)


def shown_lines(text: str) -> str:
    """Return `text` of several lines, made safe by `shown`."""
    return shown(text, lines=True)


def some_of(names: Sequence[str], most: int) -> str:
    """Return ``a, b and 3 more``: the first names, and the number of the others."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def first_problem(error: ValidationError) -> tuple[str, str]:
    """Return the place and the description of a validation's first problem; one line each."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return shown(where), shown(first["msg"].removeprefix("Value error, "))


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    # A byte that is not UTF-8 is represented as U+DC00 plus the byte (PEP 383).
    code = code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else code
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
