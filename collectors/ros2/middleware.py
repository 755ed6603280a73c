"""Which middleware a process used, from the libraries that it had loaded."""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.processes import identified
from roslens.collectors.ros2.types import I32, TEXT

_LIBRARIES = ("lttng_ust_statedump:bin_info", "lttng_ust_dl:dlopen", "lttng_ust_lib:load")
_NAME = r"lib(rmw_\w+?(?:_cpp|_dynamic_cpp|dds))\.so"
_GENERAL = ("rmw_implementation", "rmw_dds_common")


def loaded_middleware(events: Events) -> pl.DataFrame:
    """The last middleware that each process loaded: ``proc``, ``rmw``."""
    parts = [pl.DataFrame(schema={"proc": I32, "rmw": TEXT}).lazy()]
    for name in _LIBRARIES:
        frame = events.scan(name)
        if frame is None or not events.has_column(name, "path"):
            continue
        columns = frame.collect_schema().names()
        library = pl.col("path").cast(TEXT).str.extract(_NAME, 1).alias("rmw")
        parts.append(
            events.found.numbered(
                frame.select("time_ns", *identified(columns, events.found.host), library)
            )
            .filter(pl.col("rmw").is_not_null() & ~pl.col("rmw").is_in(_GENERAL))
            .sort("time_ns")
            .select("proc", "rmw")
        )
    found = pl.concat(pl.collect_all(parts))
    return found.unique("proc", keep="last", maintain_order=True)
