"""Run the verb ``merge``: merge recordings of several hosts into one, with one time line.

The result is a recording like any other: traces below ``trace/<member>/``, samples of all members,
and a manifest with those of its members. Its clocks are stored beside the traces
(`roslens.collectors.clocks`); every reader of the traces applies them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import polars as pl
from rich.markup import escape

from roslens.collectors.clock_logs import LOGS, boot_ns, find_logs, read_logs
from roslens.collectors.clocks import Clocks, Points, find_clocks, read_clocks, write_clocks
from roslens.collectors.decoding import ClockOffsets
from roslens.collectors.reader import Trace, open_trace
from roslens.collectors.resolving import find_runs
from roslens.collectors.resources import scan_samples
from roslens.collectors.schema import SAMPLED
from roslens.collectors.table_file import write_table
from roslens.recording import Recording, UsageError
from roslens.recording.arrays import np
from roslens.recording.errors import writing
from roslens.recording.files import link_or_copy
from roslens.recording.layout import MANIFEST_NAME, find_traces
from roslens.recording.manifest import Manifest, Member, write_manifest
from roslens.recording.merged import merged_manifest
from roslens.recording.scratch import locked_folder, scratch_folder
from roslens.recording.terminal import Console
from roslens.tracing.opening import opened


def merge(
    paths: Sequence[Path],
    output: Path,
    *,
    clock_offsets: ClockOffsets | None = None,
    progress: Callable[[str], object] = lambda _: None,
) -> tuple[Recording, Clocks | None]:
    """Merge several recordings into one; leave an existing result of the same members as it is.

    Parameters
    ----------
    paths
        Recordings, bare traces, folders of them, or archives; the result uses the clock of the
        first recording's host.
    output
        The folder to make. Files of traces are linked if possible, else copied.
    clock_offsets
        Nanoseconds to add to all times of hosts, by name or label, instead of offsets from messages
        and logs; ``"auto"``: refuse if these do not determine the offsets.
    progress
        Callback with the name of the step that begins.

    Returns
    -------
    recording, clocks
        Clocks are None if there is one host, or if offsets were given.

    Raises
    ------
    UsageError
        There are fewer than two recordings, one has no trace, or the output contains something
        else, which another merge may be making.
    RunFailedError
        The disk is full.
    NotEnoughEvidenceError
        With ``"auto"``: clock offsets cannot be determined.
    """
    recordings = [recording for path in paths for recording in find_runs(opened(path))]
    if len(recordings) < 2:
        raise UsageError("only one recording; give two or more to merge")
    if excerpts := [recording.path for recording in recordings if recording.is_excerpt]:
        raise UsageError(f"{excerpts[0]}: only tables; give the recording that it was made of")
    members = [
        Member(
            name=name,
            hosts=[],
            content=_content(recording, clock_offsets),
            manifest=recording.manifest,
        )
        for name, recording in zip(_names(recordings), recordings, strict=True)
    ]
    with _new_folder(output, members) as folder:
        if folder is not None:
            manifest = _fill(
                folder, recordings, members, clock_offsets=clock_offsets, progress=progress
            )
            named = manifest.model_copy(update={"run": output.resolve().name})
            write_manifest(named, folder / MANIFEST_NAME)
    recording = Recording.at(output)
    return recording, read_clocks(recording.clocks)


def _names(recordings: Sequence[Recording]) -> list[str]:
    """Number the names, so that no two are equal and the first stays first."""
    digits = len(str(len(recordings) - 1))
    return [f"{place:0{digits}}_{recording.name}" for place, recording in enumerate(recordings)]


def _content(recording: Recording, clock_offsets: ClockOffsets | None) -> str:
    """Return a digest of the inputs of the result."""
    files = [*_trace_files(recording), *recording.samples.values(), *find_logs(recording.path)]
    if recording.has_manifest:
        files.append(recording.path / MANIFEST_NAME)
    lines = [repr(clock_offsets or None)]
    for file in sorted(files):
        state = file.stat()
        name = file.relative_to(recording.path).as_posix()
        lines.append(f"{name} {state.st_size} {state.st_mtime_ns}")
    return hashlib.sha256(os.fsencode("\n".join(lines))).hexdigest()


def _trace_files(recording: Recording) -> Iterator[Path]:
    folders = find_traces(recording.trace_root)
    if not folders:
        raise UsageError(f"{recording.path}: no trace here, so nothing that can be merged")
    for folder in folders:
        nested = {inner for inner in folders if inner != folder and inner.is_relative_to(folder)}
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not any(file.is_relative_to(inner) for inner in nested):
                yield file


@contextmanager
def _new_folder(output: Path, members: Sequence[Member]) -> Iterator[Path | None]:
    """Yield a folder that replaces the output at the end; None if the output is up to date."""
    with writing(output), ExitStack() as stack:
        stack.enter_context(locked_folder(output))
        # The output folder is created for its lock; remove it if it stays empty.
        stack.callback(_remove_empty, output)
        existing = Recording.at(output)
        if any(output.iterdir()):
            old = existing.manifest.members if existing.has_manifest and existing.manifest else []
            if not old:
                raise UsageError(
                    f"{output}: something else lies there; give another folder with -o"
                )
            if [(member.name, member.content) for member in old] == [
                (member.name, member.content) for member in members
            ]:
                yield None
                return
        scratch = stack.enter_context(scratch_folder(output.parent, ".merging-"))
        folder = scratch / output.name
        folder.mkdir()
        yield folder
        if any(output.iterdir()):
            shutil.rmtree(output)
        folder.rename(output)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _fill(
    folder: Path,
    recordings: Sequence[Recording],
    members: Sequence[Member],
    *,
    clock_offsets: ClockOffsets | None,
    progress: Callable[[str], object],
) -> Manifest:
    """Put everything except the manifest into a folder; return the manifest."""
    for recording, member in zip(recordings, members, strict=True):
        progress(f"taking {member.name}")
        for file, place in _files(recording, member.name):
            link_or_copy(file, folder / place)
    progress("reading clocks")
    trace = open_trace(folder / "trace")
    labels = _labels(trace, members)
    for member, host_by_label in zip(members, labels, strict=True):
        member.hosts = sorted(host_by_label.values())
    if clock_offsets and clock_offsets != "auto":
        trace = open_trace(folder / "trace", clock_offsets=clock_offsets)
        clocks = find_clocks(trace, given=clock_offsets)
    else:
        logs = [_logs(folder, member) for member in members]
        clocks = find_clocks(trace, more=pl.concat(logs), strict=clock_offsets == "auto")
    if clocks is not None:
        write_clocks(clocks, Recording.at(folder).clocks)
    added = {} if clocks is None else clocks.added
    for table in SAMPLED:
        rows = [
            _by_clock(
                scan_samples(table, recording.samples[table.name]).collect(), host_by_label, added
            )
            for recording, host_by_label in zip(recordings, labels, strict=True)
            if table.name in recording.samples
        ]
        if rows:
            whole = pl.concat(rows).sort("time_ns")
            write_table(whole, folder / f"{table.name}.parquet", table.about())
    begin, end = trace.span
    return merged_manifest(members, (begin or 0, end or 0))


def _files(recording: Recording, name: str) -> Iterator[tuple[Path, Path]]:
    """Yield the files taken from a recording, each with its place in the result."""
    for file in _trace_files(recording):
        yield file, Path("trace", name, file.relative_to(recording.trace_root))
    if recording.native != recording.path:
        for file in sorted(recording.native.rglob("*")):
            if file.is_file():
                yield file, Path("native", name, file.relative_to(recording.native))
    for file in find_logs(recording.path):
        yield file, Path(LOGS, name, file.name)


def _logs(folder: Path, member: Member) -> pl.DataFrame:
    """Return a member's clock from its logs; logs cannot be assigned if it has several hosts."""
    files = find_logs(folder / LOGS / member.name) if len(member.hosts) == 1 else []
    boot = boot_ns(find_traces(folder / "trace" / member.name))
    return read_logs(files, "".join(member.hosts[:1]), boot)


def _labels(trace: Trace, members: Sequence[Member]) -> list[dict[str, str]]:
    """Return, for each member, a mapping from its own host labels to those in the result."""
    hosts = (
        dict.fromkeys(
            host for label, host in trace.host_of.items() if label.split("/")[0] == member.name
        )
        for member in members
    )
    return [{f"h{place}": host for place, host in enumerate(own)} for own in hosts]


def _by_clock(
    rows: pl.DataFrame, labels: Mapping[str, str], added: Mapping[str, Points]
) -> pl.DataFrame:
    """Convert samples to the labels and the clock of the result."""
    renamed = rows.with_columns(pl.col("host").replace(labels))
    parts = []
    for (host,), part in renamed.group_by("host", maintain_order=True):
        times = part["time_ns"].to_numpy()
        if points := added.get(str(host)):
            first = points[0][0]
            at = [float(time - first) for time, _ in points]
            more = np.interp((times - first).astype(np.float64), at, [add for _, add in points])
            times = times + np.round(more).astype(np.int64)
        parts.append(part.with_columns(pl.Series("time_ns", times, dtype=pl.Int64)))
    return pl.concat(parts) if parts else renamed


def show_merged(recording: Recording, clocks: Clocks | None, console: Console) -> None:
    """Print the members of the merged recording, and the findings on its clocks."""
    manifest = recording.manifest
    for member in manifest.members if manifest else ():
        console.print(f"{escape(member.name)}: {', '.join(member.hosts)}", highlight=False)
    for finding in clocks.findings if clocks else ():
        mark = "[yellow]warning:[/] " if finding["severity"] == "warning" else ""
        console.print(f"{mark}{escape(finding['what'])}", soft_wrap=True, highlight=False)
