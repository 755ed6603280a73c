"""What is written to a terminal: never with control characters but our own."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from roslens.tracing.recording.text import shown


class Console(rich.console.Console):
    """Rich's console; what names carry is shown, not obeyed."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As rich does, with the text of each piece made safe."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(shown(piece.text, lines=True), piece.style)


def say(text: object) -> None:
    """Print a line, to the byte where a program reads it and safe to see where a person does."""
    line = str(text)
    print(shown(line, lines=True) if sys.stdout.isatty() else line)
