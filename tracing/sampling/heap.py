"""Bytes that malloc has in use, read inside the workload's processes by a preloaded library.

The library asks ``mallinfo2`` (glibc 2.33 or newer): its ``uordblks`` and ``hblkhd`` are 64-bit,
those of ``mallinfo`` overflow at 2 GiB. Programs with an allocator of their own (jemalloc, a
static libc) say nothing useful, and 0 is then what is read.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from contextlib import suppress
from pathlib import Path

from roslens.tracing.proc import namespace_id, read
from roslens.tracing.sampling.preloaded import preloadable, preloaded

_SOURCE = Path(__file__).with_name("heap_probe.c")
_NUMBERS = struct.Struct("QQ")


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
        return {
            "LD_PRELOAD": preloaded(environment, self.library),
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
        return sum(int(_NUMBERS.unpack(text)[1]) for text in texts if len(text) == _NUMBERS.size)

    def close(self) -> None:
        """Remove its folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def build_probe() -> Path:
    """The compiled library.

    Raises
    ------
    UsageError
        There is no compiler, or it fails (glibc older than 2.33).
    """
    return preloadable(_SOURCE, "samplers.heap")
