"""Bytes that malloc has in use, read inside the workload's processes by a preloaded library.

The library asks ``mallinfo2`` (glibc 2.33 or newer): its ``uordblks`` and ``hblkhd`` are 64-bit,
those of ``mallinfo`` overflow at 2 GiB. Programs with an allocator of their own (jemalloc, a
static libc) say nothing useful, and 0 is then what is read.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from roslens.tracing.recording import UsageError
from roslens.tracing.ros.cache import cache_folder, cached_file, locked, private_folder
from roslens.tracing.sampling.proc import namespace_id, read

_SOURCE = Path(__file__).with_name("heap_probe.c")
_NUMBERS = struct.Struct("QQ")
_FLAGS = ("-shared", "-fPIC", "-O2", "-Wall", "-pthread")


class HeapProbe:
    """The preloaded library of one run, and what it writes.

    Parameters
    ----------
    hz
        How often each process looks at its heap.
    parent
        Where its folder goes; default: the folder of temporary files.

    Raises
    ------
    UsageError
        The library cannot be compiled.
    """

    def __init__(self, hz: float, parent: Path | None = None) -> None:
        self.library = build_probe()
        self.hz = hz
        self.folder = Path(tempfile.mkdtemp(prefix="roslens-heap-", dir=parent))
        # Programs of other users write here too.
        self.folder.chmod(0o1777)

    def variables(self, environment: dict[str, str]) -> dict[str, str]:
        """What the programs need in their environment."""
        preload = " ".join(filter(None, (environment.get("LD_PRELOAD"), str(self.library))))
        return {
            "LD_PRELOAD": preload,
            "ROSLENS_HEAP": str(self.folder),
            "ROSLENS_HEAP_HZ": repr(self.hz),
        }

    def heap_bytes(self, pid: int) -> int | None:
        """Bytes in use in a process; None if it does not say."""
        with suppress(OSError):
            space = Path(f"/proc/{pid}/ns/pid").stat().st_ino
            text = read(f"{self.folder}/{space}.{namespace_id(pid)}")
            if len(text) == _NUMBERS.size:
                return int(_NUMBERS.unpack(text)[0]) or None
        return None

    def own_cpu_ns(self) -> int:
        """CPU time that the threads of the library have used, over all processes."""
        texts = [read(str(path)) for path in self.folder.iterdir()]
        return sum(int(_NUMBERS.unpack(x)[1]) for x in texts if len(x) == _NUMBERS.size)

    def close(self) -> None:
        """Remove its folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def build_probe() -> Path:
    """The compiled library, made once for each version of its source.

    Raises
    ------
    UsageError
        There is no compiler, or it fails (glibc older than 2.33).
    """
    key = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    library = cache_folder() / "heap" / key / "libroslens_heap.so"
    if cached_file(library):
        return library
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise UsageError("samplers.heap: no C compiler for its probe (apt-get install gcc)")
    with locked(library.parent.with_suffix(".lock")):
        private_folder(library.parent)
        made = library.with_suffix(".part")
        run = subprocess.run(
            [compiler, *_FLAGS, str(_SOURCE), "-o", str(made)],
            text=True,
            capture_output=True,
            check=False,
        )
        if run.returncode:
            first = next((x for x in run.stderr.splitlines() if "error" in x), "it says nothing")
            raise UsageError(f"samplers.heap: its probe cannot be compiled: {first}")
        made.replace(library)
    return library
