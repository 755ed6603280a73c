"""Provide Zstandard from the standard library from Python 3.14 on, else from its backport."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError, ZstdFile, decompress
else:
    from backports.zstd import ZstdError, ZstdFile, decompress

__all__ = ["ZstdError", "ZstdFile", "decompress"]
