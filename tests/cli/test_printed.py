"""Test tables for terminals of any width: no digit and no name is ever cut."""

import os
import pty
import random
import re
import subprocess
import sys

import pytest

from roslens.analysis.reports.table import ReportTable
from roslens.printed import table_lines

WIDTHS = (20, 60, 80, 100, 160, 200)


def some_table(seed: int) -> ReportTable:
    """Draw a table like those of verbs: names, numbers with intervals, sentences."""
    chance = random.Random(seed)
    columns = [f"c{i} [ms]" for i in range(chance.randint(1, 12))]
    left = frozenset(chance.sample(columns, chance.randint(0, len(columns))))

    def cell(name: str) -> str:
        if name in left:
            return " ".join(
                "/" + "x" * chance.randint(0, 30) for _ in range(chance.choice([0, 1, 2, 25]))
            )
        value = f"{chance.uniform(0, 10 ** chance.randint(0, 9)):,.3f}"
        return value + chance.choice(["", f" [{value}, {value}]", " (refused)"])

    rows = [[cell(name) for name in columns] for _ in range(chance.randint(0, 6))]
    minor = [name for name in columns if name in left][:2]
    return ReportTable(columns, rows, "What it shows", ["A note."], left=left, minor=minor)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", range(60))
def test_every_word_of_every_cell_is_there_and_lines_fit(seed: int, width: int) -> None:
    table = some_table(seed)
    lines = [line for line, _ in table_lines(table, width)]
    words = " ".join(lines).split()
    hidden = next((line for line in lines if line.startswith("Not shown in")), "")
    for i, name in enumerate(table.columns):
        if name in table.minor and hidden:
            continue
        for word in (word for row in table.rows for word in row[i].split()):
            assert words.count(word) >= 1, (word, lines)
    pieces = (re.findall(r"\[\S+, \S+\]|\S+", cell) for row in table.rows for cell in row)
    longest = max((len(piece) for cell in pieces for piece in cell), default=0)
    # An interval stays in one piece, and rows in a block are indented.
    assert max(map(len, lines)) <= max(width, 2 + longest)


def test_each_line_knows_its_row() -> None:
    table = ReportTable(["a", "b"], [["x", "1"], ["y", "2"]], "", left=frozenset("a"))
    assert table_lines(table, 80) == [("a  b", -1), ("x  1", 0), ("y  2", 1)]


def test_first_text_breaks_then_minor_columns_go_then_rows_become_blocks() -> None:
    """The expected tables are drawn by hand."""
    table = ReportTable(
        ["topic", "from", "P99 [ms]", "limit"],
        [["/a/long/name", "/node of the left arm", "12.5", "10.0"]],
        "",
        left=frozenset({"topic", "from"}),
        minor=["from"],
    )

    def drawn(width: int) -> list[str]:
        return [line for line, _ in table_lines(table, width)]

    assert drawn(80) == [
        "topic         from                   P99 [ms]  limit",
        "/a/long/name  /node of the left arm      12.5   10.0",
    ]
    assert drawn(44) == [
        "topic         from           P99 [ms]  limit",
        "/a/long/name  /node of the       12.5   10.0",
        "              left arm",
    ]
    assert drawn(30) == [
        "topic         P99 [ms]  limit",
        "/a/long/name      12.5   10.0",
        "Not shown in 30 columns: from.",
    ]
    assert drawn(20) == [
        "/a/long/name",
        "  from: /node of the",
        "  left arm",
        "  P99 [ms]: 12.5",
        "  limit: 10.0",
    ]


def test_a_column_without_a_heading_is_kept() -> None:
    table = ReportTable(["a", ""], [["x", "a remark"]], "", left=frozenset({"a", ""}))
    assert table_lines(table, 80) == [("a", -1), ("x  a remark", 0)]


@pytest.mark.parametrize("columns", ["60", None])
def test_width_is_that_of_columns_or_of_the_terminal(columns: str | None) -> None:
    """A pipe without COLUMNS has the width of a log; a terminal has its own."""
    code = "from roslens.printed import terminal_width; print(terminal_width())"
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    environment |= {"COLUMNS": columns} if columns else {}
    piped = subprocess.check_output(
        [sys.executable, "-c", code], text=True, env=environment, stdin=subprocess.DEVNULL
    )
    assert piped.split() == [columns or "200"]
    ours, theirs = pty.openpty()
    try:
        subprocess.run(["stty", "cols", "91"], stdin=theirs, check=True)
        subprocess.run([sys.executable, "-c", code], stdout=theirs, check=True, env=environment)
        assert os.read(ours, 100).split() == [(columns or "91").encode()]
    finally:
        os.close(ours)
        os.close(theirs)
