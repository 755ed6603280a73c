"""Explore ways from a publisher to a subscription, within a process or between processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from roslens.analysis.overview.discovery import discovery_overview
from roslens.explore.noun import Noun, estimates_frame, shows_section
from roslens.paths import resolve
from roslens.studies.communication.report import (
    CommunicationParameters,
    CommunicationReport,
)

if TYPE_CHECKING:
    from roslens.runs import Runs


class Communication(Noun[CommunicationReport]):
    """Periods, latency, backlog, hops, copies and losses of each way of communication."""

    loss_first = shows_section(CommunicationReport.loss)
    overview = shows_section(CommunicationReport.overview)
    published = shows_section(CommunicationReport.published)
    statements = shows_section(CommunicationReport.statements)
    periods = shows_section(CommunicationReport.periods)
    latency = shows_section(CommunicationReport.latency)
    backlog = shows_section(CommunicationReport.backlog)
    pairs = shows_section(CommunicationReport.pairs)
    hops = shows_section(CommunicationReport.hops)
    flow = shows_section(CommunicationReport.flow)
    copies = shows_section(CommunicationReport.copies)
    log = shows_section(CommunicationReport.log)

    def _made(self, run: Runs, parameters: Mapping[str, object]) -> CommunicationReport:
        checked = CommunicationParameters.checked(parameters)
        return CommunicationReport(run, checked, resolve(checked.published))

    def frame(self, by: Sequence[str] | None = None) -> pl.DataFrame:
        """Return one row per cell: periods, latency, loss, and queue contents.

        Parameters
        ----------
        by
            Factors that make the cells; None: all factors.

        Returns
        -------
        One row per cell; column names end with their unit.

        Raises
        ------
        UsageError
            There is no such factor.
        """
        return self._report(by).files()["cells.csv"]

    def discovery(self) -> pl.DataFrame:
        """Return how long each publisher and subscription took to discover each other.

        Only pairs whose messages went through the middleware are included; pairs within a process
        that pass pointers need no discovery.

        Returns
        -------
        As in `roslens.analysis.overview.discovery.discovery_overview`: ``run``, ``topic``,
        ``from``, ``to``, ``publisher_id``, ``subscription_id``, ``since_ns`` (when the later of
        both was made), ``published_ms``, ``at_least_ms``, ``delivered_ms`` (from then to the first
        message, to the last missed message, and to the first take: the discovery lies between the
        latter two), ``missed`` (messages).

        Raises
        ------
        UsageError
            The tables cannot be read.
        """
        names = ("messages", "publishers", "subscriptions", "losses")
        return discovery_overview(*(self._run.table(name) for name in names))

    def estimates(self, by: Sequence[str] | None = None, *, full: bool = False) -> pl.DataFrame:
        """Estimate periods, latency, loss, backlog, hops, copies and CPU, with intervals over runs.

        Parameters
        ----------
        by
            As in `frame`.
        full
            Whether to add what each estimate rests on, as in `run.latency.estimates`.

        Returns
        -------
        One row per metric (``latency_mean`` in ns, ``loss`` 0..1, ``publisher_period`` in ns, ...)
        and cell, as in ``run.latency.estimates``.

        Raises
        ------
        UsageError
            There is no such factor.
        """
        return estimates_frame(self._report(by).estimates, full=full)
