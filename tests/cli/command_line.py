"""Run the command line in this process, as starting Python takes half the time of most verbs."""

import subprocess
from collections.abc import Callable

import pytest

from roslens.cli import main

Roslens = Callable[..., subprocess.CompletedProcess[str]]
"""The type of the fixture `roslens`."""


def roslens_here(
    capfd: pytest.CaptureFixture[str], *arguments: object
) -> subprocess.CompletedProcess[str]:
    """Run a verb as another process would, and return its exit code and output."""
    words = list(map(str, arguments))
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(words)
    out, err = capfd.readouterr()
    return subprocess.CompletedProcess(words, ended.value.code, out, err)
