"""The layout of a recording on disk: the one thing that recorders and readers share."""

from tracing.recording.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_NOT_ENOUGH_EVIDENCE,
    EXIT_OK,
    EXIT_USAGE,
    EXIT_VERDICT,
    NotEnoughEvidenceError,
    RoslensError,
    RunFailedError,
    UsageError,
)
from tracing.recording.layout import Recording, find_recordings
from tracing.recording.manifest import Manifest, read_manifest, write_manifest

__all__ = [
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_NOT_ENOUGH_EVIDENCE",
    "EXIT_OK",
    "EXIT_USAGE",
    "EXIT_VERDICT",
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
