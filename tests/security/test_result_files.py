"""Test readers of other programs' files, changed at random: what they say, and that they end.

`mutations.py` beside this does the same with thousands of mutants of each.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.security.mutations import TARGETS, failures


@pytest.mark.parametrize("name", TARGETS)
def test_mutants_are_read_or_refused_in_a_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "own").mkdir()
    mutants = TARGETS[name].mutants
    problems = failures(TARGETS[name], tmp_path / "own", mutants, random.Random(name))
    assert list(problems) == [None] * mutants
