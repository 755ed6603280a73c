"""Define what a report is made from: runs and their tables, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import polars as pl

from roslens.analysis.measures.bag import BagBeside
from roslens.analysis.measures.loss import TracerLoss
from roslens.analysis.runs import Run
from roslens.collectors.results.tool_result import ToolResult
from roslens.collectors.schema import TABLES
from roslens.collectors.work_log import WorkLog
from roslens.recording import UsageError


class Tables(Protocol):
    """Runs and their tables, as ``rl.open`` returns them."""

    @property
    def runs(self) -> Sequence[Run]: ...  # noqa: D102
    @property
    def not_read(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def resources(self) -> pl.LazyFrame: ...  # noqa: D102
    @property
    def recorded_processes(self) -> pl.LazyFrame: ...  # noqa: D102
    @property
    def touching_executions(self) -> pl.LazyFrame: ...  # noqa: D102
    @property
    def without_resources(self) -> Sequence[Run]: ...  # noqa: D102
    @property
    def tracer_loss(self) -> Sequence[TracerLoss]: ...  # noqa: D102
    @property
    def tool_results(self) -> Mapping[str, ToolResult | UsageError]: ...  # noqa: D102
    @property
    def logged_messages(self) -> pl.DataFrame: ...  # noqa: D102
    @property
    def work_logs(self) -> Mapping[str, WorkLog]: ...  # noqa: D102
    def whole(self) -> Tables: ...  # noqa: D102
    def only(self, *names: str) -> Tables: ...  # noqa: D102
    def table(self, name: str) -> pl.LazyFrame: ...  # noqa: D102
    def kernel_events(self, run: str) -> Mapping[str, pl.LazyFrame]: ...  # noqa: D102
    def raw_events(self, run: str) -> Mapping[str, pl.LazyFrame]: ...  # noqa: D102
    def bags(self, path: str = "") -> Mapping[str, BagBeside | UsageError]: ...  # noqa: D102


def _without_rows(table: str) -> pl.LazyFrame:
    return TABLES[table].empty().lazy().with_columns(run=pl.lit("", pl.String))


class NoRecordings:
    """The replacement for recordings in a report of published figures."""

    runs: Sequence[Run] = ()
    not_read: Sequence[str] = ()
    tracer_loss: Sequence[TracerLoss] = ()
    without_resources: Sequence[Run] = ()
    resources = pl.LazyFrame()
    recorded_processes = _without_rows("processes")
    touching_executions = _without_rows("callback_instances")
    logged_messages = pl.DataFrame()
    tool_results: Mapping[str, ToolResult | UsageError] = MappingProxyType({})
    work_logs: Mapping[str, WorkLog] = MappingProxyType({})

    def whole(self) -> NoRecordings:
        """Return itself."""
        return self

    def only(self, *names: str) -> NoRecordings:  # noqa: ARG002
        """Return itself."""
        return self

    def table(self, name: str) -> pl.LazyFrame:
        """Return the table without rows."""
        return _without_rows(name) if name in TABLES else pl.LazyFrame()

    def kernel_events(self, run: str) -> Mapping[str, pl.LazyFrame]:  # noqa: ARG002
        """Return no events."""
        return {}

    def raw_events(self, run: str) -> Mapping[str, pl.LazyFrame]:  # noqa: ARG002
        """Return no events."""
        return {}

    def bags(self, path: str = "") -> Mapping[str, BagBeside | UsageError]:  # noqa: ARG002
        """Return no bags."""
        return {}
