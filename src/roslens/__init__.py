"""What users import in notebooks (``import roslens as rl``) and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roslens.fleet.catalog import Catalog, catalog
    from roslens.recordings import Recordings, open_recordings
    from roslens.widgets.timeline import timeline

    open = open_recordings  # noqa: A001  (reads well as rl.open)

__all__ = ["Catalog", "Recordings", "catalog", "open", "timeline"]


def __getattr__(name: str) -> object:
    # Lazily, so that the command line starts quickly.
    if name in {"Catalog", "catalog"}:
        from roslens.fleet import catalog as catalogs  # noqa: PLC0415

        return getattr(catalogs, name)
    if name == "timeline":
        from roslens.widgets.timeline import timeline  # noqa: PLC0415

        return timeline
    if name in __all__:
        from roslens import recordings  # noqa: PLC0415

        return recordings.open_recordings if name == "open" else recordings.Recordings
    raise AttributeError(f"module 'roslens' has no attribute {name!r}")
