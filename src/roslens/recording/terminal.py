"""Write to a terminal without any control characters but our own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import PurePath
from typing import IO

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from roslens.recording.text import shown


class Console(rich.console.Console):
    """Rich's console, with control characters in text shown instead of obeyed."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as rich does, with the text of each piece made safe."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(shown(piece.text, lines=True), piece.style)


def say(text: object, *, exact: bool = False) -> None:
    """Print a line with control characters made visible, even to a log, which people view too.

    Parameters
    ----------
    text
        The text; a path is printed byte by byte unless the output is a terminal.
    exact
        Whether any other text is printed exactly, too.
    """
    exact = exact or isinstance(text, PurePath)
    line = str(text)
    try:
        print(line if exact and not sys.stdout.isatty() else shown(line, lines=True))
    except BrokenPipeError:
        say_no_more(sys.stdout)


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    say(json.dumps(value, indent=1), exact=True)


def say_no_more(stream: IO[str]) -> None:
    """Drop what is still to be written to a stream that nobody reads on ('| head')."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
