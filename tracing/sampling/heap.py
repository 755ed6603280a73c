"""Read the bytes in use by malloc inside the workload's processes, with a preloaded library.

The library calls ``mallinfo2`` (glibc 2.33 or newer): its ``uordblks`` and ``hblkhd`` are 64-bit,
those of ``mallinfo`` overflow at 2 GiB. For programs with their own allocator (jemalloc, a static
libc) the numbers are meaningless, and 0 is read.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from contextlib import suppress
from pathlib import Path

from roslens.tracing.proc import namespace_id, read
from roslens.tracing.ros.environment import preloaded
from roslens.tracing.sampling.preloaded import preloadable

_SOURCE = Path(__file__).with_name("heap_probe.c")
_NUMBERS = struct.Struct("QQ")


class HeapProbe:
    """The preloaded library of one run, and its output.

    Parameters
    ----------
    hz
        Readings of the heap per second, in each process.
    parent
        The parent of its folder; default: the folder of temporary files.

    Raises
    ------
    UsageError
        The library cannot be compiled.
    """

    def __init__(self, hz: float, parent: Path | None = None) -> None:
        self.library = build_probe()
        self.hz = hz
        self.folder = Path(tempfile.mkdtemp(prefix="roslens-heap-", dir=parent))
        # Programs of other users write here, too.
        self.folder.chmod(0o1777)

    def variables(self, environment: dict[str, str]) -> dict[str, str]:
        """Return the environment variables that the programs need."""
        return {
            "LD_PRELOAD": preloaded(environment, last=[self.library]),
            "ROSLENS_HEAP": str(self.folder),
            "ROSLENS_HEAP_HZ": repr(self.hz),
        }

    def heap_bytes(self, pid: int) -> int | None:
        """Return the bytes in use in a process, or None if the process does not report them."""
        with suppress(OSError):
            space = Path(f"/proc/{pid}/ns/pid").stat().st_ino
            text = read(f"{self.folder}/{space}.{namespace_id(pid)}")
            if len(text) == _NUMBERS.size:
                return int(_NUMBERS.unpack(text)[0]) or None
        return None

    def own_cpu_ns(self) -> int:
        """Return the CPU time in ns that the library's threads used, over all processes."""
        texts = [read(str(path)) for path in self.folder.iterdir()]
        return sum(int(_NUMBERS.unpack(text)[1]) for text in texts if len(text) == _NUMBERS.size)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def build_probe() -> Path:
    """Return the compiled library.

    Raises
    ------
    UsageError
        There is no compiler, or it fails (glibc older than 2.33).
    """
    return preloadable(_SOURCE, "samplers.heap")
