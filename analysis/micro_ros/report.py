"""What the micro-ROS notebook shows, section by section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import polars as pl

from analysis.estimate import Estimate
from analysis.figures.micro_ros import (
    history_plot,
    memory_plot,
    printed_latency_plot,
    throughput_plot,
)
from analysis.loss import TracerLoss
from analysis.micro_ros.checks import (
    Check,
    budget_checks,
    checks_frame,
    printed_sum_checks,
    throughput_checks,
)
from analysis.micro_ros.directions import PrintedSum, printed_sums
from analysis.micro_ros.lines import PhysicalLine, lines_of
from analysis.micro_ros.parameters import MicroRosParameters
from analysis.micro_ros.slopes import HISTORY, Slope, slopes_frame, slopes_of, with_totals
from analysis.micro_ros.statements import differences_of_totals, memory_statements
from analysis.micro_ros.tables import (
    Key,
    checks_table,
    printed_latency_table,
    slopes_table,
    statements_table,
    throughput_table,
)
from analysis.report_base import Report, Section, Tables
from analysis.report_table import Sentence
from analysis.runs import Run
from collectors.results.micro_ros_published import PublishedFigures
from collectors.schema import TABLES


class NoRecordings:
    """What a report of published figures has in place of recordings."""

    runs: Sequence[Run] = ()
    tracer_loss: Sequence[TracerLoss] = ()
    without_resources: Sequence[Run] = ()
    resources = pl.LazyFrame()

    def table(self, name: str) -> pl.LazyFrame:
        """No rows."""
        return TABLES[name].empty().lazy()


class MicroRosReport(Report):
    """The sections of a micro-ROS report; each is computed when it is asked for.

    Parameters
    ----------
    tables
        Recordings; None: the published figures are looked at.
    """

    def __init__(
        self, tables: Tables | None, published: PublishedFigures, parameters: MicroRosParameters
    ) -> None:
        super().__init__(tables or NoRecordings(), parameters)
        self.published = published
        self.parameters = parameters

    # ------------------------------------------------------------ what is computed once

    @cached_property
    def lines(self) -> dict[str, PhysicalLine]:
        """Physical lines by transport."""
        return lines_of(self.published.lines, self.parameters.lines)

    @cached_property
    def slopes(self) -> list[Slope]:
        """Memory per entity."""
        return slopes_of(with_totals(self.published.memory), self.parameters.level)

    @property
    def claims(self) -> dict[Key, float]:
        """Bytes that the publication states in words."""
        return {
            (row["entity"], row["memory"]): float(row["claimed_bytes"])
            for row in self.published.claims.iter_rows(named=True)
        }

    @cached_property
    def sums(self) -> list[PrintedSum]:
        """Printed exchanges."""
        return printed_sums(self.published.latency)

    @cached_property
    def all_checks(self) -> list[Check]:
        """Every verdict."""
        return [
            *budget_checks(self.slopes, self.parameters.budgets),
            *throughput_checks(self.published.throughput, self.lines),
            *printed_sum_checks(self.sums),
        ]

    @property
    def estimates(self) -> list[Estimate]:
        """All of them."""
        return [slope.estimate for slope in self.slopes]

    # ------------------------------------------------------------ sections

    def checks(self) -> Section:
        """Verdicts, first what is wrong."""
        failed = [c for c in self.all_checks if c.failed]
        said = (
            Sentence(f"{len(failed)} of {len(self.all_checks)} checks failed.", loud=True)
            if failed
            else Sentence(f"None of {len(self.all_checks)} checks failed.")
        )
        return Section(said, checks_table(sorted(self.all_checks, key=lambda c: not c.failed)))

    def memory(self) -> Section:
        """Memory per entity."""
        slopes = [s for s in self.slopes if s.entity != HISTORY]
        if not slopes:
            return Section(Sentence("There is no memory of entities to look at."))
        return Section(memory_plot(slopes), slopes_table(slopes, {}, self.claims))

    def history(self) -> Section:
        """Memory per slot of the RMW history."""
        slopes = [s for s in self.slopes if s.entity == HISTORY]
        if not slopes:
            return Section(Sentence("There is no memory of the RMW history to look at."))
        claim = self.claims.get((HISTORY, slopes[0].memory))
        return Section(history_plot(slopes[0], claim), slopes_table(slopes, {}, self.claims))

    def statements(self) -> Section:
        """What the publication says against what its figures say."""
        apart = differences_of_totals(self.published.memory)["difference_bytes"].to_list()
        return Section(
            statements_table(memory_statements(self.published.claims, self.slopes)),
            Sentence(
                "Static, stack and dynamic memory were read off another figure than the total; "
                f"their sum and it differ by at most {max(map(abs, apart), default=0):,.0f} B."
            ),
            Sentence(
                "One board, one build and one configuration were measured once per point: the "
                "figures support a slope, and no statement about how builds or boards differ."
            ),
        )

    def throughput(self) -> Section:
        """Throughput against payload."""
        found = self.published.throughput
        return Section(throughput_plot(found, self.lines), throughput_table(found, self.lines))

    def latency(self) -> Section:
        """Latency by direction."""
        return Section(printed_latency_plot(self.sums), printed_latency_table(self.sums))

    def write(self, files: Mapping[str, pl.DataFrame] | None = None) -> Section:
        """Write metrics.json, slopes.csv and checks.csv where the parameters say so."""
        own = {
            "slopes.csv": slopes_frame(self.slopes),
            "checks.csv": checks_frame(self.all_checks),
        }
        return super().write({**own, **(files or {})})
