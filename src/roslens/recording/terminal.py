"""What is written to a terminal: never with control characters but our own."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import PurePath

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from roslens.recording.text import shown


class Console(rich.console.Console):
    """Rich's console; what names carry is shown, not obeyed."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As rich does, with the text of each piece made safe."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(shown(piece.text, lines=True), piece.style)


def say(text: object, *, exact: bool = False) -> None:
    """Print a line, safe to see wherever it ends up: a log is looked at in a terminal, too.

    Parameters
    ----------
    text
        A path goes out to the byte where a program reads it, and not a person.
    exact
        So does any other text.
    """
    exact = exact or isinstance(text, PurePath)
    line = str(text)
    print(line if exact and not sys.stdout.isatty() else shown(line, lines=True))
