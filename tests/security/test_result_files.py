"""Test readers of other programs' files, changed at random: what they say, and that they end.

`mutations.py` beside this does the same with thousands of mutants of each.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.security.mutations import TARGETS, TOKENS, failures

from roslens.recording import RoslensError

TEXTS = st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass"))
PIECES = st.lists(
    st.one_of(st.sampled_from(TOKENS), st.binary(max_size=20), TEXTS), max_size=12
).map(b"".join)


@pytest.mark.parametrize("name", TARGETS)
def test_mutants_are_read_or_refused_in_a_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "own").mkdir()
    mutants = TARGETS[name].mutants
    problems = failures(TARGETS[name], tmp_path / "own", mutants, random.Random(name))
    assert list(problems) == [None] * mutants


@pytest.mark.parametrize("name", TARGETS)
def test_what_follows_a_whole_beginning_is_read_or_refused_in_a_line(name: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = TARGETS[name].make(Path(scratch))
        files = [path] if path.is_file() else path.glob(TARGETS[name].files)
        changing = {file: file.read_bytes() for file in sorted(files) if file.is_file()}

        @settings(max_examples=max(3, TARGETS[name].mutants // 2))
        @given(st.sampled_from(sorted(changing)), st.floats(0, 1), PIECES, st.booleans())
        def read(file: Path, kept: float, pieces: bytes, goes_on: bool) -> None:
            whole = changing[file]
            at = round(kept * len(whole))
            file.write_bytes(whole[:at] + pieces + (whole[at:] if goes_on else b""))
            try:
                TARGETS[name].read(path)
            except RoslensError as error:
                assert "\n" not in str(error)  # noqa: PT017
            finally:
                file.write_bytes(whole)

        read()
