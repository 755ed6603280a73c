"""``run.chains``: from the first publication to the end of the last callback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from roslens.analysis.chains.report import ChainsParameters, ChainsReport
from roslens.analysis.figures.picture import Picture
from roslens.analysis.figures.waterfall import chain_waterfall
from roslens.analysis.flow.chains import ChainInstances, mean_parts
from roslens.explore.noun import Noun, estimates_frame, picture, picture_of, shown
from roslens.recording import UsageError

if TYPE_CHECKING:
    from roslens.runs import Runs


class Chains(Noun[ChainsReport]):
    """Chains of messages from node to node: how long they take, and which part of it where.

    ``chain`` is text such as ``/camera -> /image -> /detector``; none: all that are found (the
    slowest first), where one alone can be shown the slowest.
    """

    answer = shown(ChainsReport.answer)
    loss_first = shown(ChainsReport.loss)
    required = shown(ChainsReport.required)
    overview = shown(ChainsReport.overview)
    turns = shown(ChainsReport.turns)
    distributions = shown(ChainsReport.distributions)
    statistics = shown(ChainsReport.statistics)
    breakdown = shown(ChainsReport.parts)
    slowest = shown(ChainsReport.slowest)
    definitions = shown(ChainsReport.definitions)
    write = shown(ChainsReport.write)

    def _made(self, run: Runs, parameters: Mapping[str, object]) -> ChainsReport:
        return ChainsReport(run, ChainsParameters.checked(parameters))

    def _of(self, chain: str | None, by: Sequence[str] | None = None) -> ChainsReport:
        return self._report(by) if chain is None else self._report(by, chains=[chain])

    def frame(self, chain: str | None = None) -> pl.DataFrame:
        """Every instance of chains.

        Parameters
        ----------
        chain
            Which one; none: all.

        Returns
        -------
        One row per message at a chain's begin: ``chain``, ``run``, ``instance``, ``begin_ns`` and
        ``end_ns`` (ns since the epoch), ``latency_ns`` (ns; null where it did not reach the end),
        ``worst_ns`` (ns, from the begin of the instance before), ``clock_bound_ns`` (by how much
        these may be wrong, of hosts with clocks of their own), ``at_least`` (all of these are
        lower bounds: nothing tells when the call began), ``outcome``, ``stopped_at``,
        ``match``. No columns where there is no chain.

        Raises
        ------
        UsageError
            There is no such chain.
        """
        return self._of(chain).files().get("chain_instances.csv", pl.DataFrame())

    def parts(self, chain: str | None = None) -> pl.DataFrame:
        """Where the time of a chain goes, mean over the instances that reached its end.

        Parameters
        ----------
        chain
            Which one; none: the slowest.

        Returns
        -------
        One row per part, in order: ``hop``, ``topic``, ``node``, ``part``, ``begin_ms`` (since the
        chain's begin) and ``duration_ms`` (ms).

        Raises
        ------
        UsageError
            There is no such chain, or no instance reached its end.
        """
        return mean_parts(self._complete(chain))

    def estimates(
        self, chain: str | None = None, by: Sequence[str] | None = None, *, full: bool = False
    ) -> pl.DataFrame:
        """Response times, completeness and rate, with intervals over runs.

        Parameters
        ----------
        chain
            As in `frame`.
        by
            Factors that make the cells; none: all.
        full
            Also what each rests on, as of `run.latency.estimates`.

        Returns
        -------
        One row per metric (``response_time_p50`` in ns, ``chain_complete`` 0..1, ``chain_rate`` in
        Hz, ...), cell and ``chain``, as of ``run.latency.estimates``.

        Raises
        ------
        UsageError
            There is no such chain or factor.
        """
        return estimates_frame(self._of(chain, by).estimates, full=full)

    def ecdf(self, chain: str | None = None) -> Picture:
        """Distribution of response times [ms] and its tail, a colour for each chain.

        Parameters
        ----------
        chain
            As in `frame`.

        Raises
        ------
        UsageError
            There is no such chain, or no instance reached the end.
        """
        return picture_of(self._of(chain).distributions())

    def over_time(self, chain: str | None = None) -> Picture:
        """Each response time [ms] of a chain when it began [s].

        Parameters
        ----------
        chain
            As in `parts`.

        Raises
        ------
        UsageError
            As `parts`.
        """
        return picture_of(self._of(chain).distributions(), 1)

    def waterfall(self, chain: str | None = None) -> Picture:
        """`parts` as a picture: one bar [ms] per part, in order.

        Raises
        ------
        UsageError
            As `parts`.
        """
        return picture(chain_waterfall(self._complete(chain)))

    def _complete(self, chain: str | None) -> ChainInstances:
        chains = self._of(chain).chains
        for followed in chains:
            if followed.found.complete.height:
                return followed.found
        names = "; ".join(followed.named.name for followed in chains[:3])
        raise UsageError(f"no instance reached the end of a chain ({names or 'there is none'})")
