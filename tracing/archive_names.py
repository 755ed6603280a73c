"""How archives of recordings are called."""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".tar.zst"
"""Of archives that `roslens.tracing.archive` makes."""
HEAD, SUMS = "roslens-pack.json", "checksums.sha256"
"""Its first file, which tells the format, and its last."""
FORMAT = 1
SUFFIXES = (SUFFIX, ".tzst", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".zip")


def bare_name(archive: Path) -> str:
    """The archive's name without what says that it is one."""
    ends = next((suffix for suffix in SUFFIXES if archive.name.endswith(suffix)), "")
    return archive.name.removesuffix(ends)
