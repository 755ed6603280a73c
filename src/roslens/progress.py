"""A bar on the terminal while something takes long."""

from __future__ import annotations

from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from roslens.recording.terminal import Console


def progress_bar(
    count: ProgressColumn, console: Console | None = None, *, disable: bool = False
) -> Progress:
    """A bar that leaves nothing behind; there is none if the output is no terminal.

    Parameters
    ----------
    count
        The column that shows how much of the work is done.
    console
        Where it is shown; None: on standard error.
    disable
        Show none.
    """
    console = console or Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        count,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=disable or not console.is_terminal,
    )
