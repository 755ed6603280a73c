"""Explore chains from the first publication to the end of the last callback: ``run.chains``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from roslens.analysis.chains.report import ChainsParameters, ChainsReport
from roslens.analysis.figures.picture import Picture
from roslens.analysis.figures.waterfall import chain_waterfall
from roslens.analysis.flow.chains import ChainInstances, parts_with_percentiles
from roslens.explore.noun import Noun, estimates_frame, picture, picture_of, shows_section
from roslens.recording import UsageError

if TYPE_CHECKING:
    from roslens.runs import Runs


class Chains(Noun[ChainsReport]):
    """Chains of messages from node to node: their durations, and where the time is spent.

    ``chain`` is text such as ``/camera -> /image -> /detector``; None: all chains that are found
    (the slowest first), or the slowest where only one can be shown.
    """

    loss_first = shows_section(ChainsReport.loss)
    required = shows_section(ChainsReport.required)
    overview = shows_section(ChainsReport.overview)
    turns = shows_section(ChainsReport.turns)
    distributions = shows_section(ChainsReport.distributions)
    statistics = shows_section(ChainsReport.statistics)
    breakdown = shows_section(ChainsReport.parts)
    slowest = shows_section(ChainsReport.slowest)

    def _made(self, run: Runs, parameters: Mapping[str, object]) -> ChainsReport:
        return ChainsReport(run, ChainsParameters.checked(parameters))

    def _report_of(self, chain: str | None, by: Sequence[str] | None = None) -> ChainsReport:
        return self._report(by) if chain is None else self._report(by, chains=[chain])

    def frame(self, chain: str | None = None) -> pl.DataFrame:
        """Return every instance of chains.

        Parameters
        ----------
        chain
            The chain; None: all chains.

        Returns
        -------
        One row per message at a chain's start: ``chain``, ``run``, ``instance``, ``begin_ns`` and
        ``end_ns`` (ns since the epoch), ``latency_ns`` (ns; null if it did not reach the end),
        ``worst_ns`` (ns, from the start of the previous instance), ``clock_bound_ns`` (the possible
        error of these times between hosts with different clocks), ``at_least`` (all these times are
        lower bounds: the start of the call is unknown), ``outcome``, ``stopped_at``, ``match``,
        ``last_message_id`` (its message on the last topic). No columns if there is no chain.

        Raises
        ------
        UsageError
            There is no such chain.
        """
        return self._report_of(chain).files().get("chain_instances.csv", pl.DataFrame())

    def parts(self, chain: str | None = None) -> pl.DataFrame:
        """Return how the time of a chain is divided, as the mean over its complete instances.

        Parameters
        ----------
        chain
            The chain; None: the slowest.

        Returns
        -------
        One row per part, in order: ``hop``, ``topic``, ``node``, ``part``, ``begin_ms`` (since the
        chain's start) and ``duration_ms`` (ms), ``p50_ms`` and ``p99_ms`` (ms, of the instances
        that have the part; null if these are too few); all null where the clocks of hosts may be
        more than half as far apart as that.

        Raises
        ------
        UsageError
            There is no such chain, or no instance reached its end.
        """
        return parts_with_percentiles(self._complete(chain))

    def estimates(
        self, chain: str | None = None, by: Sequence[str] | None = None, *, full: bool = False
    ) -> pl.DataFrame:
        """Estimate response times, completeness and rate, with intervals over runs.

        Parameters
        ----------
        chain
            As in `frame`.
        by
            Factors that make the cells; None: all factors.
        full
            Whether to add what each estimate rests on, as in `run.latency.estimates`.

        Returns
        -------
        One row per metric (``response_time_p50`` in ns, ``chain_complete`` 0..1, ``chain_rate`` in
        Hz, ...), cell and ``chain``, as in ``run.latency.estimates``.

        Raises
        ------
        UsageError
            There is no such chain or factor.
        """
        return estimates_frame(self._report_of(chain, by).estimates, full=full)

    def ecdf(self, chain: str | None = None) -> Picture:
        """Draw the distribution of response times [ms] and its tail, one colour per chain.

        Parameters
        ----------
        chain
            As in `frame`.

        Raises
        ------
        UsageError
            There is no such chain, or no instance reached the end.
        """
        return picture_of(self._report_of(chain).distributions())

    def over_time(self, chain: str | None = None) -> Picture:
        """Draw each response time [ms] of a chain against its start [s].

        Parameters
        ----------
        chain
            As in `parts`.

        Raises
        ------
        UsageError
            As in `parts`.
        """
        return picture_of(self._report_of(chain).distributions(), 1)

    def waterfall(self, chain: str | None = None) -> Picture:
        """Draw `parts`: one bar [ms] per part, in order.

        Raises
        ------
        UsageError
            As in `parts`.
        """
        return picture(chain_waterfall(self._complete(chain)))

    def _complete(self, chain: str | None) -> ChainInstances:
        chains = self._report_of(chain).chains
        for followed in chains:
            if followed.instances.complete.height:
                return followed.instances
        names = "; ".join(followed.named.name for followed in chains[:3])
        raise UsageError(f"no instance reached the end of a chain ({names or 'there is none'})")
