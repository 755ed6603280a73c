"""A recording packed into one file for sharing, and unpacked with distrust.

The file is a tar archive compressed by Zstandard: ``roslens-pack.json`` first, then the files of
the recordings, ``checksums.sha256`` last. Names of hosts and users and absolute paths are
replaced in text files and in CTF metadata; what events themselves carry is left as it is.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

import pyarrow as pa

from roslens.tracing.plan import PLAN_NAME
from roslens.tracing.recording import RunFailedError, UsageError, find_recordings
from roslens.tracing.scrub import text_scrubber

HEAD, SUMS = "roslens-pack.json", "checksums.sha256"
SUFFIX = ".tar.zst"
_FORMAT = 1
_REBUILT = ("events", "tables")
_BLOCK = 1 << 20
_LARGEST_TEXT = 64 << 20
_MOST_MEMBERS = 1_000_000
_SMALL = 256 << 20
_HIGHEST_RATIO = 500
"""Traces of many equal events shrink to a 50th; what grows more than 500 times is a bomb."""
_NO_NAME = {"host", "localhost"}
_HOSTNAME = re.compile(rb'(hostname = ")([^"]*)(")')


@dataclass
class Packed:
    """What was packed.

    Attributes
    ----------
    path
        The archive.
    files, bytes_unpacked
        How many files it holds, and their size.
    left_out
        Files that are no regular files, and so are not in it.
    """

    path: Path
    files: int = 0
    bytes_unpacked: int = 0
    left_out: list[str] = field(default_factory=list)


def pack(
    paths: Sequence[Path],
    output: Path,
    *,
    keep_names: bool = False,
    with_tables: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Packed:
    """Pack recordings, or folders that hold some.

    Parameters
    ----------
    paths
        Recordings or campaigns.
    output
        The new archive.
    keep_names
        Leave names of hosts and users and paths as they are.
    with_tables
        Also the events and tables that ``roslens collect`` made and can make again.
    progress
        Called with each file's name.

    Raises
    ------
    UsageError
        A path holds no recording, or `output` is there already.
    RunFailedError
        The archive cannot be written.
    """
    if output.exists():
        raise UsageError(f"{output}: is there already; give another name")
    members = _members(paths, with_tables)
    packed = Packed(output)
    temporary = output.with_name(f".{output.name}.{secrets.token_hex(4)}")
    try:
        with pa.CompressedOutputStream(str(temporary), "zstd") as stream:
            _write(stream, members, packed, _Anonymiser(members, keep_names), progress)
        temporary.replace(output)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RunFailedError(f"{output}: cannot be written: {reason}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return packed


def _write(
    stream: Any,
    members: dict[str, Path],
    packed: Packed,
    anonymiser: _Anonymiser,
    progress: Callable[[str], None],
) -> None:
    sums = []
    with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="w|") as tar:
        head = {"format": _FORMAT, "anonymised": not anonymiser.keep}
        _add(tar, HEAD, json.dumps(head).encode())
        for name, path in members.items():
            if path.is_symlink() or not path.is_file():
                packed.left_out.append(name)
                continue
            progress(name)
            changed = anonymiser.changed(path)
            if changed is None:
                digest, size = _add_file(tar, name, path)
            else:
                _add(tar, name, changed)
                digest, size = hashlib.sha256(changed).hexdigest(), len(changed)
            sums.append(f"{digest}  {name}\n")
            packed.files += 1
            packed.bytes_unpacked += size
        _add(tar, SUMS, "".join(sums).encode())


def _members(paths: Sequence[Path], with_tables: bool) -> dict[str, Path]:
    """Name in the archive -> file."""
    members: dict[str, Path] = {}
    for path in paths:
        root = path.resolve()
        for recording in find_recordings(path):
            if recording.is_excerpt and not with_tables:
                raise UsageError(
                    f"{recording.path}: an excerpt holds nothing but tables: pack the recording "
                    "that it is of, or give --with-tables"
                )
            run = recording.path.resolve()
            plan = run.parent / PLAN_NAME
            # suite/campaign/run where it is a run of ours, else from the given folder's name on.
            base = run.parents[2] if plan.is_file() and len(run.parents) > 2 else root.parent
            found = [plan] if plan.is_file() else []
            found += sorted(x for x in run.rglob("*") if not x.is_dir() or x.is_symlink())
            skip = set() if with_tables else {recording.output.resolve() / x for x in _REBUILT}
            for file in found:
                if skip.isdisjoint(file.parents) and file.name != ".reserve":
                    members[file.relative_to(base).as_posix()] = file
    return members


class _Anonymiser:
    """Replaces names in text files and CTF metadata; equal names get equal labels."""

    def __init__(self, members: dict[str, Path], keep: bool) -> None:
        self.keep = keep
        self._salt = secrets.token_bytes(16)
        hosts: set[bytes] = set()
        if not keep:
            for path in members.values():
                if path.name == "metadata" and path.is_file():
                    hosts |= {x[1] for x in _HOSTNAME.findall(path.read_bytes())}
        self._hosts = sorted(hosts, key=len, reverse=True)
        self._scrubbers: dict[Path, Callable[[str], str]] = {}

    def changed(self, path: Path) -> bytes | None:
        """The file's content with names replaced; None: as it is."""
        if self.keep:
            return None
        if path.name == "metadata":
            # Of the same length, for the text lies in packets.
            return _HOSTNAME.sub(
                lambda m: m.group(1) + self._label(m.group(2)) + m.group(3), path.read_bytes()
            )
        if path.stat().st_size > _LARGEST_TEXT:
            return None
        content = path.read_bytes()
        if b"\0" in content[:8192]:
            return None
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return None
        run = next((x for x in path.parents if (x / "manifest.json").is_file()), path.parent)
        scrub = self._scrubbers.setdefault(run, text_scrubber(run))
        text = scrub(text)
        words = [word for x in self._hosts if (word := x.decode(errors="replace")) not in _NO_NAME]
        for word in (w for w in words if len(w) > 3):
            name = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
            # The name of a field is no host, even where a host is called the same.
            text = _in_values(text, name) if path.suffix == ".json" else name.sub("<host>", text)
        return text.encode()

    def _label(self, host: bytes) -> bytes:
        digest = hashlib.sha256(self._salt + host).hexdigest().encode()
        return (b"h" + digest * (1 + len(host) // 64))[: len(host)]


def _in_values(text: str, name: re.Pattern[str]) -> str:
    """JSON with a host's name replaced in its texts; anything else as text."""

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replaced(x) for key, x in value.items()}
        if isinstance(value, list):
            return [replaced(x) for x in value]
        return name.sub("<host>", value) if isinstance(value, str) else value

    if not name.search(text):
        return text
    try:
        return json.dumps(replaced(json.loads(text)), indent=1) + "\n"
    except ValueError:
        return name.sub("<host>", text)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    tar.addfile(_entry(name, len(content)), io.BytesIO(content))


def _add_file(tar: tarfile.TarFile, name: str, path: Path) -> tuple[str, int]:
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        digest = hashlib.sha256()
        while block := stream.read(_BLOCK):
            digest.update(block)
        stream.seek(0)
        tar.addfile(_entry(name, size), stream)
    return digest.hexdigest(), size


def _entry(name: str, size: int) -> tarfile.TarInfo:
    # No owner, no time: they say who packed it, and where.
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, 0o644, 0
    return entry


# ------------------------------------------------------------------ unpacking


def unpack(archive: Path, folder: Path, *, max_bytes: int | None = None) -> list[Path]:
    """Unpack an archive; all of it, with right checksums, or nothing.

    Parameters
    ----------
    archive
        What `pack` wrote.
    folder
        Where to; made if missing. What lies there already is not touched.
    max_bytes
        More than this unpacked is refused; default: 500 times the archive's size, at least
        256 MiB, at most nine tenths of the free space.

    Returns
    -------
    list of Path
        What was made in `folder`, the top-most entries.

    Raises
    ------
    UsageError
        It is no such archive, is damaged or hostile, or its content is there already.
    RunFailedError
        The folder cannot be written.
    """
    if not archive.is_file():
        raise UsageError(f"{archive}: no such file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        limit = _limit(archive, folder, max_bytes)
        with tempfile.TemporaryDirectory(prefix=".unpack-", dir=folder) as scratch:
            found, named = _extract(archive, Path(scratch), limit)
            _check(archive, found, named)
            return _move(Path(scratch), folder)
    except OSError as error:
        if isinstance(error, pa.ArrowException) or error.errno is None:
            raise UsageError(f"{archive}: damaged: {_first_line(error)}") from error
        reason = (error.strerror or str(error)).lower()
        raise RunFailedError(f"{folder}: cannot be written: {reason}") from error


def _limit(archive: Path, folder: Path, max_bytes: int | None) -> int:
    if max_bytes is not None:
        return max_bytes
    wanted = max(_SMALL, _HIGHEST_RATIO * archive.stat().st_size)
    return min(wanted, shutil.disk_usage(folder).free * 9 // 10)


def _extract(archive: Path, scratch: Path, limit: int) -> tuple[dict[str, str], dict[str, str]]:
    """Write the members below `scratch`; their digests, and those that the archive names."""
    digests: dict[str, str] = {}
    named: dict[str, str] = {}
    left, first = limit, True
    try:
        with (
            pa.CompressedInputStream(str(archive), "zstd") as stream,
            tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as tar,
        ):
            for entry in tar:
                name = _safe_name(archive, entry)
                left -= entry.size
                if left < 0 or len(digests) > _MOST_MEMBERS:
                    raise UsageError(
                        f"{archive}: unpacks to more than {limit:,} B; if you trust it, give "
                        "--max-size"
                    )
                content = tar.extractfile(entry)
                if content is None:
                    raise UsageError(f"{archive}: {name}: cannot be read")
                if first != (name == HEAD):
                    raise UsageError(f"{archive}: not packed by 'roslens pack'")
                if first:
                    _check_head(archive, content.read(65536))
                    first = False
                elif name == SUMS:
                    named = dict(_sums(archive, content))
                elif name in digests:
                    raise UsageError(f"{archive}: {name}: is in it twice")
                else:
                    digests[name] = _save(content, scratch / name)
    except (tarfile.TarError, EOFError, pa.ArrowException) as error:
        raise UsageError(f"{archive}: damaged or no archive: {_first_line(error)}") from error
    if first:
        raise UsageError(f"{archive}: not packed by 'roslens pack'")
    return digests, named


def _safe_name(archive: Path, entry: tarfile.TarInfo) -> str:
    if not entry.isreg():
        raise UsageError(f"{archive}: {entry.name!r}: is no regular file; refused")
    path = PurePosixPath(entry.name)
    parts = path.parts
    bad = path.is_absolute() or not parts or any(x in {"..", "."} for x in parts)
    if bad or "\\" in entry.name or "\0" in entry.name or str(path) != entry.name:
        raise UsageError(f"{archive}: {entry.name!r}: would lie outside of the folder; refused")
    return entry.name


def _check_head(archive: Path, text: bytes) -> None:
    try:
        found = json.loads(text)["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{archive}: not packed by 'roslens pack'") from error
    if found != _FORMAT:
        raise UsageError(f"{archive}: format {found!r}, this roslens reads {_FORMAT}")


def _sums(archive: Path, content: IO[bytes]) -> Iterator[tuple[str, str]]:
    for line in content.read(_SMALL).decode(errors="replace").splitlines():
        digest, blanks, name = line.partition("  ")
        if not blanks:
            raise UsageError(f"{archive}: {SUMS}: not a list of checksums")
        yield name, digest


def _save(content: IO[bytes], path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with path.open("xb") as stream:
        while block := content.read(_BLOCK):
            digest.update(block)
            stream.write(block)
    return digest.hexdigest()


def _check(archive: Path, found: dict[str, str], named: dict[str, str]) -> None:
    wrong = sorted(x for x in {*found, *named} if found.get(x) != named.get(x))
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise UsageError(f"{archive}: {wrong[0]}{more}: missing or with a wrong checksum")


def _move(scratch: Path, folder: Path) -> list[Path]:
    """Move what was unpacked to its place, folder by folder where some are there already."""
    made: list[Path] = []
    pairs = [(entry, folder / entry.name) for entry in sorted(scratch.iterdir())]
    moves: list[tuple[Path, Path]] = []
    while pairs:
        source, target = pairs.pop()
        if target.is_symlink() or (target.exists() and not (source.is_dir() and target.is_dir())):
            raise UsageError(f"{target}: is there already; unpack elsewhere")
        if target.exists():
            if (target / "manifest.json").exists():
                raise UsageError(f"{target}: is there already; unpack elsewhere")
            pairs += [(entry, target / entry.name) for entry in source.iterdir()]
        else:
            moves.append((source, target))
    for source, target in moves:
        source.rename(target)
        made.append(target)
    return sorted(made)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
