"""Define the parameters of the chains notebook, and build its sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import polars as pl
from pydantic import Field

from roslens.analysis.chains import tables
from roslens.analysis.chains.bounds import bound_estimates, bounds_table
from roslens.analysis.chains.estimates import (
    PERCENTILES,
    FollowedChain,
    chain_estimates,
    check_requirements,
)
from roslens.analysis.chains.requirements import NamedChain, Requirements, read_requirements
from roslens.analysis.estimate import Estimate, not_none, short_labels
from roslens.analysis.figures.plot import Plot
from roslens.analysis.flow.chain import Chain, HeldFlow
from roslens.analysis.flow.chains import ChainInstances, chain_instances, mean_parts
from roslens.analysis.flow.flow_graph import find_chains
from roslens.analysis.flow.links import Link
from roslens.analysis.flow.response_bounds import callback_bounds
from roslens.analysis.flow.taking_turns import as_yaml, suggested_links
from roslens.analysis.measures.latency import clocks_refusal
from roslens.analysis.measures.loss import that_may_bias
from roslens.analysis.measures.measured_part import measured_parts
from roslens.analysis.measures.pauses import lost_events
from roslens.analysis.reports.base import Part, Report, Section
from roslens.analysis.reports.front import with_interval
from roslens.analysis.reports.numbers import counted, milliseconds
from roslens.analysis.reports.parameters import OptionalText, ReportParameters, Texts
from roslens.analysis.reports.table import ReportTable, Verbatim
from roslens.analysis.reports.tables import estimates_table
from roslens.analysis.runs import cells_of
from roslens.analysis.statistics.quantiles import quantile
from roslens.analysis.verdicts.budgets import Checks
from roslens.analysis.verdicts.sides import Side


class ChainsParameters(ReportParameters):
    """Parameters of the chains notebook.

    Attributes
    ----------
    chains
        Chains to follow, such as ``/camera -> /image -> /detector``; none: the chains that the
        requirements name, else every chain that is found.
    requirements
        A YAML file with chains, requirements on them, and links
        (`roslens.analysis.chains.requirements`).
    bound
        Whether to also bound the response time of each chain.
    worst
        Number of the slowest instances to list.
    """

    chains: Texts = Field(default_factory=list)
    requirements: OptionalText = None
    bound: bool = False
    worst: int = Field(10, ge=1, le=1000)


# Figures are imported where they are drawn: the command line needs the tables only.
# ruff: noqa: PLC0415

_IN_FULL = 6
"""Number of chains, the slowest, of which all parts are shown."""


class ChainsReport(Report[ChainsParameters]):
    """The sections of a report on chains; each is computed when it is asked for.

    Raises
    ------
    UsageError
        On access to any section: a named chain does not exist, or the file of requirements
        cannot be read.
    """

    # ------------------------------------------------------------ what is computed once

    @cached_property
    def requirements(self) -> Requirements:
        """Contents of the file of requirements; empty where no file is given."""
        path = self.parameters.requirements
        return Requirements() if path is None else read_requirements(Path(path))

    @cached_property
    def _flow(self) -> HeldFlow:
        return HeldFlow(self.tables, [run.name for run in self.counting])

    @cached_property
    def suggested_links(self) -> list[Link]:
        """Undeclared links of nodes that wait for several topics."""
        return suggested_links(self._flow, self.requirements.links)

    @cached_property
    def chains(self) -> list[FollowedChain]:
        """The chains asked for, in their order; else all chains found, the slowest first."""
        links = [*self.requirements.links, *self.suggested_links]
        asked = [NamedChain(chain, text) for text in self.parameters.chains
                 for chain in [Chain.of(text)]]  # fmt: skip
        named = asked or list(self.requirements.chains)
        wanted = named or [NamedChain(c, str(c)) for c in find_chains(self._flow, links)]
        followed = [
            FollowedChain(chain, self._cut(chain_instances(self._flow, chain.chain, links)))
            for chain in wanted
        ]
        if named:
            return followed
        return sorted(followed, key=lambda c: -(_median(c) or 0))

    def _cut(self, followed: ChainInstances) -> ChainInstances:
        warm_up_ns = round(self.parameters.warm_up_s * 1e9)
        if not warm_up_ns:
            return followed
        first = pl.col("begin_ns").min().over("run")
        return followed.only(pl.col("begin_ns") >= first + warm_up_ns)

    @cached_property
    def _complete(self) -> list[FollowedChain]:
        return [chain for chain in self.chains if chain.instances.complete.height]

    @property
    def slowest_chain(self) -> FollowedChain | None:
        """The slowest chain at the median; None if no instance reached the end of any."""
        return max(self._complete, key=lambda chain: _median(chain) or 0.0, default=None)

    @cached_property
    def _within_clocks(self) -> list[FollowedChain]:
        """Chains of which the clocks of the hosts allow to say how long an instance took."""
        return [c for c in self._complete if c.instances.within_clocks(_longest(c)) is not None]

    @cached_property
    def _drawn(self) -> list[FollowedChain]:
        """Chains of which the clocks of the hosts allow to say how long every instance took."""
        return [
            chain
            for chain in self._within_clocks
            if chain.instances.within_clocks(_shortest(chain)) is not None
        ]

    @cached_property
    def estimates(self) -> list[Estimate]:
        """Estimates of response times, completeness and rate of each chain."""
        asked = self.requirements
        return self.estimates_with(asked.percentiles, bound=self.parameters.bound or asked.bound)

    def estimates_with(
        self, percentiles: Sequence[float], *, bound: bool = False
    ) -> list[Estimate]:
        """Return the estimates with further percentiles, as fractions, and with bounds if asked."""
        percentiles = sorted({*PERCENTILES, *percentiles})
        lost, parts = lost_events(self.tables.table("losses")), self._parts
        estimates = [
            estimate
            for chain in self.chains
            for estimate in chain_estimates(
                chain, self.counting, self.level, percentiles, lost=lost, parts=parts
            )
        ]
        if bound:
            estimates += bound_estimates(self.chains, self._bounds, self.counting, self.level)
        return estimates

    @cached_property
    def _parts(self) -> dict[str, tuple[int, int]]:
        """Begin and end of the measured part of each run that is seen as a whole, by one clock."""
        if self.tables.whole() is not self.tables:
            return {}
        messages = self.tables.table("messages")
        apart = (pl.col("publisher_host") != pl.col("subscription_host")) & pl.col(
            "clock_bound_ns"
        ).is_null()
        unknown = set(messages.filter(apart).select("run").unique().collect()["run"])
        whole = [r for r in self.counting if r.excerpt is None and r.name not in unknown]
        known = measured_parts(messages, whole).filter(pl.col("end_ns") > pl.col("begin_ns"))
        return {run: (begin, end) for run, begin, end, _ in known.iter_rows()}

    @cached_property
    def _bounds(self) -> pl.DataFrame:
        return callback_bounds(self.tables, self.parameters.warm_up_s or None)

    @cached_property
    def checks(self) -> Checks:
        """Requirements checked against the estimates; empty where nothing is required."""
        side = Side(
            "recordings",
            [],
            [run.cell for run in self.counting],
            *self.run_counts,
            that_may_bias(self.tables.tracer_loss),
        )
        return check_requirements(self.chains, self.estimates, self.counting, side)

    # ------------------------------------------------------------ sections

    def picture(self) -> Plot | None:
        """Plot where the time of the chains goes in each cell."""
        cells = list(cells_of(self.counting).values())
        labels = short_labels([members[0].cell for members in cells])
        bars = [
            (f"{chain.named.name}, {label}" if len(cells) > 1 else chain.named.name, instances)
            for chain in self._drawn
            for members, label in zip(cells, labels, strict=True)
            for instances in [chain.of_runs(members).instances]
            if instances.complete.height and not mean_parts(instances)["duration_ms"].null_count()
        ]
        if not bars:
            return None
        from roslens.analysis.chains.figures import where_time_goes

        return where_time_goes(bars)

    def sentences(self) -> list[str]:
        """Summarise the requirements, the slowest chain, and instances that did not arrive."""
        if not self.chains:
            return ["No chain was found: no recorded node received what a recorded one published."]
        sentences = []
        checks = self.checks.checks
        if checks:
            kept = sum(c.verdict == "within" for c in checks)
            broken = [c for c in checks if c.verdict == "exceeded"]
            unsure = len(checks) - kept - len(broken)
            names = "; ".join(f"{c.budget.where['chain']}: {c.budget.text}" for c in broken[:3])
            text = f"{kept} of {len(checks)} requirements are kept"
            text += f", {len(broken)} exceeded ({names})" if broken else ""
            sentences.append(text + (f", {unsure} cannot be told." if unsure else "."))
        if self._complete:
            sentences.append(self._slowest())
        reached = sum(c.instances.complete.height for c in self.chains)
        unsure = sum(c.instances.untold for c in self.chains)
        stopped = sum(c.instances.instances.height for c in self.chains) - reached - unsure
        text = f"All {reached:,} instances reached the end of their chain"
        if reached == 1:
            text = f"{'1' if unsure else 'The only'} instance reached the end of its chain"
        if not reached:
            text = "No instance reached the end of its chain, as far as is known"
        if stopped:
            share = tables.share(reached, reached + stopped)
            text = f"{counted(stopped, 'instance')} did not reach the end of their chain"
            text += f" ({share} did)"
        sentences.append(f"{text}; of {unsure:,} that is not known." if unsure else f"{text}.")
        return sentences

    def _slowest(self) -> str:
        """State how long the slowest chain takes in its slowest cell, without lower bounds."""
        p50, p99 = (
            {str(e.cell): e for e in self.estimates if e.metric == name and e.value is not None}
            for name in ("response_time_p50", "response_time_p99")
        )
        cells = list(cells_of(self.counting).values())
        medians = [
            (p50[cell], chain, members)
            for chain in self._complete
            for members in cells
            if (cell := str(chain.cell(members[0]))) in p50
        ]
        if not medians and not self._within_clocks:
            bound = max(chain.instances.clock_bound_ns for chain in self._complete)
            return f"How long chains take is not known: {clocks_refusal(bound)}."
        if not medians:
            longest = max(self._within_clocks, key=_longest)
            prefix = tables.AT_LEAST * longest.instances.at_least
            took = f"{prefix}{milliseconds(_longest(longest), 3)} ms"
            return f"The longest instance took {took}, on {longest.named.name}."
        median, slowest, members = max(medians, key=lambda entry: not_none(entry[0].value))
        tail = p99.get(str(median.cell))
        times = f"{with_interval(median)} at the median"
        times += f" and {with_interval(tail)} at P99" if tail else ""
        labels = short_labels([members[0].cell for members in cells])
        longer = [(their_p99, c.named.name, labels[cells.index(m)]) for e, c, m in medians
                  if (their_p99 := p99.get(str(e.cell))) and tail
                  and not_none(their_p99.value) > not_none(tail.value)]  # fmt: skip
        times += f" with {labels[cells.index(members)]}" if len(cells) > 1 else ""
        largest = tables.slowest_part(slowest.of_runs(members))
        spent = "" if largest is None else f"; {100 * largest[1]:.0f} % of it is {largest[0]}"
        count = len({chain.named.name for _, chain, _ in medians})
        begun = "" if count == len(self._complete) else " whose median is known"
        count = count if begun else len(self.chains)
        lead, comma = ("The chain ", "") if count == 1 else (
            f"Of {count} chains{begun} the slowest at the median, ", ","
        )  # fmt: skip
        sentence = f"{lead}{slowest.named.name}{comma} takes {times}{spent}."
        if not longer:
            return sentence
        most, name, label = max(longer, key=lambda entry: not_none(entry[0].value))
        where = f" with {label}" if len(cells) > 1 else ""
        return f"{sentence} At P99 the slowest is {name}{where}: {with_interval(most)}."

    def loss(self) -> Section:
        """Report losses of the tracer, and the runs that count."""
        return Section(*self.tracer_loss(), *self.runs_left_out(), *self.design())

    def required(self) -> Section:
        """Report the requirements, and whether they are kept."""
        if not self.checks.checks:
            return Section(
                "Nothing is required of the chains: a file given as 'requirements' says what "
                "is (docs/chains.md)."
            )
        return Section(tables.requirements_table(self.checks), *self.checks.notes)

    def overview(self) -> Section:
        """Report all chains, and why instances did not reach the end."""
        if not self.chains:
            return Section()
        parts: list[Part] = [tables.chains_table(self.chains)]
        stopped = tables.stopped_table(self.chains)
        if stopped is not None:
            parts.append(stopped)
        return Section(*parts)

    def bounds(self) -> ReportTable:
        """Return a table of the bound of each chain's response time."""
        return bounds_table(self.chains, self._bounds, self.counting)

    def turns(self) -> Section:
        """Report links that were found and not declared."""
        if not self.suggested_links:
            return Section("No node was found that waits for several topics.")
        nodes = ", ".join(dict.fromkeys(link.node for link in self.suggested_links))
        return Section(
            f"{nodes} published once for each message of several topics, in the callback of "
            "whichever came last. It is taken to wait for all of them; these lines in the file "
            "of requirements declare it:",
            Verbatim(as_yaml(self.suggested_links)),
        )

    def distributions(self) -> Section:
        """Report the distributions of response times."""
        if not self._complete:
            return Section("No instance reached the end of its chain.")
        if not self._drawn:
            return Section(
                "Not drawn: the clocks of the hosts may be more than half as far apart as these "
                "times."
            )
        from roslens.analysis.chains.figures import over_time_plot, response_times_plot

        return Section(response_times_plot(self._drawn), over_time_plot(self._drawn[0]))

    def statistics(self) -> Section:
        """Report estimates with intervals."""
        if not self.estimates:
            return Section()
        return Section(estimates_table(self.estimates, "Response times over runs"))

    def parts(self) -> Section:
        """Report where the time of each chain goes."""
        shown = self._complete[:_IN_FULL]
        more = len(self._complete) - len(shown)
        text = f"The {len(shown)} slowest; {more} more are in chain_parts.csv."
        notes = [text] if more > 0 else []
        return Section(*notes, *(tables.parts_table(chain) for chain in shown))

    def slowest(self) -> Section:
        """Report the slowest instances of the slowest chains."""
        return Section(
            *(
                tables.slowest_table(chain, self.parameters.worst, self.tables.table("processes"))
                for chain in self._within_clocks[:_IN_FULL]
            )
        )

    def files(self) -> Mapping[str, pl.DataFrame]:
        """Return the frames of ``chain_instances.csv`` and ``chain_parts.csv``."""
        if not self.chains:
            return {}

        def together(frames: list[pl.DataFrame]) -> pl.DataFrame:
            named = zip(self.chains, frames, strict=True)
            return pl.concat(
                frame.select(pl.lit(chain.named.name).alias("chain"), pl.all())
                for chain, frame in named
            )

        return {
            "chain_instances.csv": together([chain.instances.instances for chain in self.chains]),
            "chain_parts.csv": together([chain.instances.hops for chain in self.chains]),
        }


def _shortest(chain: FollowedChain) -> int:
    """Return the shortest latency of a chain's complete instances (ns)."""
    return int(chain.instances.complete.select(pl.col("latency_ns").min()).item())


def _longest(chain: FollowedChain) -> int:
    """Return the longest latency of a chain's complete instances (ns)."""
    return int(chain.instances.complete.select(pl.col("latency_ns").max()).item())


def _median(chain: FollowedChain) -> float | None:
    """Return the mean over runs of the median (ns), as in tables, from however few instances."""
    medians = [quantile(times, 0.5) for times in chain.instances.times_of_runs() if times.len()]
    return sum(medians) / len(medians) if medians else None
