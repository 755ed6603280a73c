"""Write the files that a verb was asked for: text and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from roslens.recording import UsageError
from roslens.recording.errors import writing
from roslens.recording.files import replaced_whole, write_atomically

if TYPE_CHECKING:
    from roslens.analysis.figures.plot import Plot


def write_text(path: Path, text: str) -> None:
    """Write a file, and create its folder if missing.

    Raises
    ------
    UsageError, RunFailedError
        The file cannot be written; RunFailedError if the disk is full.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)


def save_plot(path: Path, plot: Plot) -> None:
    """Write a figure in the format given by the file name's suffix.

    Raises
    ------
    UsageError, RunFailedError
        The file cannot be written or its format is unknown; RunFailedError if the disk is full.
    """
    formats = sorted(plot.figure.canvas.get_supported_filetypes())
    if path.suffix.lower().removeprefix(".") not in formats:
        raise UsageError(f"--plot {path}: end the name with one of .{', .'.join(formats)}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_whole(path) as part:
            form = path.suffix.lower().removeprefix(".")
            plot.figure.savefig(part, facecolor="white", format=form)
