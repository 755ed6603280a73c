"""Find notebooks, and make the folders of their output."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from roslens.recording import UsageError
from roslens.recording.errors import kind_of
from roslens.recording.files import shipped
from roslens.recording.scratch import locked_folder

START = "start"
"""The notebook that ``roslens lab`` opens, which is not a report."""


def find_notebook(notebook: str) -> Path:
    """Return the path of a notebook given by its name or its path.

    Raises
    ------
    UsageError
        There is no such notebook.
    """
    path = Path(notebook)
    if path.suffix == ".ipynb" and path.is_file():
        return path
    path_by_name = {
        candidate.stem: candidate for candidate in sorted(shipped("notebooks").glob("*.ipynb"))
    }
    if notebook in path_by_name:
        return path_by_name[notebook]
    reports = sorted(path_by_name.keys() - {START})
    raise UsageError(
        f"no notebook {notebook!r}; there are: {', '.join(reports) or 'none'} "
        "(or give the path of an .ipynb file)"
    )


def default_output(name: str) -> Path:
    """Return an unused folder for a report of that name, named by the time."""
    parent = Path("data", "reports", name)
    stamp = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    folder, number = parent / stamp, 1
    while folder.exists():
        number += 1
        folder = parent / f"{stamp}-{number}"
    return folder


@contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Make a folder for output, with its parents, where no other roslens writes meanwhile.

    Raises
    ------
    UsageError
        The folder cannot be made, or another roslens writes there.
    RunFailedError
        The disk is full.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_folder(folder))
        except OSError as error:
            raise kind_of(error)(
                f"{folder}: cannot be made: {error.strerror}; use another folder"
            ) from error
        yield
