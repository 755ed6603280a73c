"""Run the verbs ``pack`` and ``unpack``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from roslens.recording.terminal import Console, say
from roslens.sizes import parse_size
from roslens.tracing.archive import pack
from roslens.tracing.archive_names import SUFFIX
from roslens.tracing.campaign import RECORDINGS
from roslens.tracing.unpacking import unpack


def pack_recordings(
    paths: Sequence[Path],
    output: Path | None,
    *,
    keep_names: bool,
    with_tables: bool,
    console: Console,
) -> None:
    """Pack recordings; print the archive's path last.

    Raises
    ------
    UsageError
        A path holds no recording, or the archive already exists.
    RunFailedError
        The archive cannot be written.
    """
    if output is None:
        output = Path(f"{paths[0].resolve().name}{SUFFIX}")
    with console.status("packing") as status:
        packed = pack(
            paths,
            output,
            keep_names=keep_names,
            with_tables=with_tables,
            progress=lambda name: status.update(f"packing {escape(name)}"),
        )
    size = output.stat().st_size
    console.print(
        f"{packed.files:,} files, {packed.bytes_unpacked:,} B in {size:,} B", highlight=False
    )
    for name in packed.left_out:
        console.print(f"[yellow]left out:[/] {escape(name)}: no regular file", soft_wrap=True)
    say(output)


def unpack_recordings(archive: Path, folder: Path | None, max_size: str | None) -> None:
    """Unpack an archive; print the unpacked recordings.

    Raises
    ------
    UsageError
        The archive is invalid, damaged or hostile, or its content already exists.
    RunFailedError
        The folder cannot be written.
    """
    limit = parse_size("--max-size", max_size)
    err = Console(stderr=True)
    paths = unpack(
        archive, folder or RECORDINGS, max_bytes=limit,
        note=lambda line: err.print(escape(line), highlight=False, soft_wrap=True),
    )  # fmt: skip
    for path in paths:
        say(path)
