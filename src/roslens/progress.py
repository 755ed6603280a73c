"""Show a bar on the terminal during long work."""

from __future__ import annotations

from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from roslens.recording.terminal import Console


def progress_bar(
    count: ProgressColumn, console: Console | None = None, *, disable: bool = False
) -> Progress:
    """Make a bar that leaves nothing behind; it is hidden if the output is not a terminal.

    Parameters
    ----------
    count
        The column that shows how much of the work is done.
    console
        Where the bar is shown; None: on standard error.
    disable
        Whether to hide the bar.
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
