"""Define the on-disk layout of a recording, the only thing that recorders and readers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roslens.recording.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_NOT_ENOUGH_EVIDENCE,
    EXIT_OK,
    EXIT_UNEXPECTED,
    EXIT_USAGE,
    EXIT_VERDICT,
    InterruptedRunError,
    NotEnoughEvidenceError,
    RoslensError,
    RunFailedError,
    UsageError,
)
from roslens.recording.layout import Recording, find_recordings

if TYPE_CHECKING:
    from roslens.recording.manifest import Manifest, read_manifest, write_manifest

__all__ = [
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_NOT_ENOUGH_EVIDENCE",
    "EXIT_OK",
    "EXIT_UNEXPECTED",
    "EXIT_USAGE",
    "EXIT_VERDICT",
    "InterruptedRunError",
    "Manifest",
    "NotEnoughEvidenceError",
    "Recording",
    "RoslensError",
    "RunFailedError",
    "UsageError",
    "find_recordings",
    "read_manifest",
    "write_manifest",
]


def __getattr__(name: str) -> object:
    # Lazily: pydantic takes a tenth of a second, which a trace without a manifest does not need.
    if name in {"Manifest", "read_manifest", "write_manifest"}:
        from roslens.recording import manifest  # noqa: PLC0415

        return getattr(manifest, name)
    raise AttributeError(f"module 'roslens.recording' has no attribute {name!r}")
