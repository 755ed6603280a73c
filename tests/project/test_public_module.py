"""Test what completion, ``dir`` and ``help`` show of ``import roslens as rl``."""

from __future__ import annotations

import pydoc
import warnings
from importlib.metadata import version

import pytest
from IPython.core.interactiveshell import InteractiveShell

import roslens as rl
from roslens.collectors.schema import TABLES


@pytest.mark.parametrize("jedi", [True, False])
def test_completion_offers_the_public_names_and_no_others(jedi: bool) -> None:
    shell = InteractiveShell()
    shell.user_ns["rl"] = rl
    shell.Completer.use_jedi = jedi
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = {c.text.removeprefix(".") for c in shell.Completer.completions("rl.", 3)}
    assert names == set(rl.__all__)


def test_dir_is_what_there_is() -> None:
    names = dir(rl)
    assert {name for name in names if not name.startswith("_")} == set(rl.__all__)
    assert all(getattr(rl, name) is not None for name in rl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        _ = rl.opne


def test_version_is_that_of_the_distribution() -> None:
    assert "__version__" in dir(rl)
    assert rl.__version__ == version("roslens")


def test_help_calls_things_by_their_public_names() -> None:
    for name in rl.__all__:
        text = pydoc.plain(pydoc.render_doc(getattr(rl, name)))
        title = text.splitlines()[0].split(" in ")[0].removeprefix("Python Library Documentation: ")
        assert title.split()[-1] in {name, f"roslens.{name}"}
    assert pydoc.plain(pydoc.render_doc(rl.open)).splitlines()[2].startswith("open(paths")


def test_help_of_a_table_says_what_its_columns_mean() -> None:
    for name, table in TABLES.items():
        if name == "callbacks":  # a noun: the table is table("callbacks")
            continue
        text = pydoc.render_doc(getattr(rl.Recordings, name))
        assert all(column.meaning in text for column in table.columns)
