"""Write every foreign format that is read as the table in ``docs/other_tools.md``.

    python -m roslens.formats docs/other_tools.md

updates the table in the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

from roslens.collectors.results.formats import FORMATS
from roslens.recording.files import write_atomically
from roslens.tracing.archive_names import SUFFIXES

BEGIN, END = "<!-- formats: written from the readers -->", "<!-- end of formats -->"

TRACES = (
    (
        "CTF traces",
        "1.8 and 2.0; LTTng 2.1 to 2.16, perf, barectf, Zephyr, NuttX",
        "diamon.org/ctf, lttng/lttng-tools",
        "every event, packet and loss of a folder, whatever recorded it",
        "live streams; the offset of a clock beyond 2262 is left out",
    ),
    (
        "CTF 2 drafts",
        "CTF2-7.0 and other proposals of 2021 to 2023",
        "eclipse-tracecompass/tracecompass-test-traces",
        "the same: clocks by name, locations as lists, types of enumerations",
        "-",
    ),
    (
        "Archives of traces",
        ", ".join(f"`{suffix}`" for suffix in SUFFIXES),
        "-",
        "a trace or several, by every verb and `rl.open`; unpacked into your cache for 30 days",
        "encrypted ones, links, what leads out or is too large ([security](security.md))",
    ),
    (
        "CARET traces",
        "Galactic to Jazzy, its own rclcpp or its preloaded library",
        "tier4/caret_trace, tier4/caret_demos",
        "its init events; exact matches and losses by `dds_bind_addr_to_stamp` and `dds:write`",
        "its executors and callback groups; simulated time; TILDE; Agnocast",
    ),
    (
        "Tables of `roslens collect -o`",
        "of the same version",
        "-",
        "opened as the recording is that they were made of",
        "the trace itself: `roslens events` needs it",
    ),
)
"""Traces: format, version, source, what is read, what is refused."""


def formats_markdown() -> str:
    """Return the table, one row per format."""
    lines = ["| format | version | source | what is read | refused, corrected or left out |"]
    lines.append("|---|---|---|---|---|")
    rows = [*TRACES, *((f"{f.tool}: {f.files}", f.versions, f.source, f.gives, f.refused)
                       for f in FORMATS)]  # fmt: skip
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def with_formats(page: str) -> str:
    """Replace the table between the marks of a page.

    Raises
    ------
    ValueError
        The page has no such marks.
    """
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{formats_markdown()}\n{END}{after}"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    write_atomically(place, with_formats(place.read_text(encoding="utf-8")))
