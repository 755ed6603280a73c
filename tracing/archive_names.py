"""Names of archives of recordings and of files inside them."""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".tar.zst"
"""Suffix of the archives that `roslens.tracing.archive` writes."""
HEAD, SUMS = "roslens-pack.json", "checksums.sha256"
"""First file of an archive, which states the format, and last file."""
FORMAT = 1
SUFFIXES = (SUFFIX, ".tzst", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".zip")


def bare_name(archive: Path) -> str:
    """Return the archive's name without its suffix."""
    ends = next((suffix for suffix in SUFFIXES if archive.name.endswith(suffix)), "")
    return archive.name.removesuffix(ends)
