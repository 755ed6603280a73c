"""The workbench over recorded ROS 2 traces, for notebooks: ``import roslens as rl``.

``rl.open(path)`` gives the tables of recordings, ``rl.timeline(recordings)`` shows them,
``rl.watch(path)`` shows one that is being made, ``rl.catalog(folder)`` finds recordings among
many, and ``rl.read_result(file)`` reads results of other benchmark tools; ``rl.reports`` has
the reports that need no recordings.
"""

from __future__ import annotations

from importlib import import_module

# Not from typing: anything imported here runs before Ctrl-C can be handled.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from roslens import reports
    from roslens.explore.timing import read_timing_model
    from roslens.fleet.catalog import Catalog, catalog
    from roslens.live.watch import watch
    from roslens.recording.errors import NotEnoughEvidenceError, RoslensError, UsageError
    from roslens.recordings import Recordings, open  # noqa: A004  (reads well as rl.open)
    from roslens.reports import read_result
    from roslens.widgets.timeline import timeline

    __version__: str

__all__ = [
    "Catalog",
    "NotEnoughEvidenceError",
    "Recordings",
    "RoslensError",
    "UsageError",
    "catalog",
    "open",
    "read_result",
    "read_timing_model",
    "reports",
    "timeline",
    "watch",
]

_HOMES = {
    "Catalog": "fleet.catalog",
    "NotEnoughEvidenceError": "recording.errors",
    "RoslensError": "recording.errors",
    "UsageError": "recording.errors",
    "catalog": "fleet.catalog",
    "read_result": "reports",
    "read_timing_model": "explore.timing",
    "timeline": "widgets.timeline",
    "watch": "live.watch",
}


def __getattr__(name: str) -> object:
    # Lazily, so that the command line starts quickly.
    if name == "reports":
        return import_module("roslens.reports")
    if name in __all__:
        return getattr(import_module(f"roslens.{_HOMES.get(name, 'recordings')}"), name)
    if name == "__version__":
        return import_module("importlib.metadata").version("roslens")
    raise AttributeError(f"module 'roslens' has no attribute {name!r}")


def __dir__() -> list[str]:
    # Leave out both the import system's names and the names that only this file needs.
    return [*__all__, *(name for name in globals() if name.startswith("__")), "__version__"]
