"""Define the parameters of the micro-ROS notebook, and build its sections."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal, Self

import polars as pl
from pydantic import BeforeValidator, Field, model_validator

from roslens.analysis.estimate import Estimate
from roslens.analysis.figures.plot import Plot
from roslens.analysis.reports.base import Part, Report, Section
from roslens.analysis.reports.given import Tables
from roslens.analysis.reports.parameters import ReportParameters, Texts
from roslens.analysis.reports.table import Sentence
from roslens.analysis.reports.tables import estimates_table
from roslens.analysis.verdicts.statement import Statement
from roslens.recording import UsageError
from roslens.studies.micro_ros import checks, figures, hops, statements, tables, transports
from roslens.studies.micro_ros.lines import PhysicalLine, PrintedSum, printed_sums
from roslens.studies.micro_ros.results.folder import MicroRosResults
from roslens.studies.micro_ros.results.published import PublishedFigures
from roslens.studies.micro_ros.slopes import (
    HISTORY,
    Slope,
    is_history,
    on_rtos,
    slopes_frame,
    slopes_of,
    with_totals,
)
from roslens.studies.micro_ros.tables import Key

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Line = Annotated[
    list[Positive],
    BeforeValidator(lambda given: given if isinstance(given, (list, tuple)) else [given]),
    Field(min_length=1, max_length=2),
]


class MicroRosParameters(ReportParameters):
    """Parameters of the micro-ROS notebook.

    Attributes
    ----------
    recordings
        Recordings of the suite micro-ros, or folders with recordings; none: the published figures.
    results
        Folders with the files of a board's test bench, which are analysed like recordings.
    source
        ``recordings`` or ``published``; empty: published where nothing else is given.
    budgets
        Greatest number of bytes per entity (or slot), by entity.
    lines
        Line rates in bit/s by transport, each perhaps followed by the bits per byte.
    """

    recordings: Texts = Field(default_factory=list)
    results: Texts = Field(default_factory=list)
    source: Literal["", "published", "recordings"] = ""
    budgets: dict[str, Positive] = Field(default_factory=dict)
    lines: dict[str, Line] = Field(default_factory=dict)

    @property
    def is_published(self) -> bool:
        """Whether the published figures are analysed."""
        return not self.recordings and not self.results

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.source == "recordings" and self.is_published:
            raise UsageError("source = 'recordings', but none is given; give PATH or results")
        if self.source == "published" and not self.is_published:
            raise UsageError("source = 'published' takes no recordings; leave out PATH and results")
        return self


class MicroRosReport(Report[MicroRosParameters]):
    """The sections of a micro-ROS report; each is computed when it is asked for.

    Parameters
    ----------
    tables
        Recordings; None: no recordings.
    measured
        Results of recordings and of folders; None: the published figures are analysed.
    """

    def __init__(
        self,
        tables: Tables | None,
        measured: MicroRosResults | None,
        published: PublishedFigures,
        parameters: MicroRosParameters,
    ) -> None:
        super().__init__(tables, parameters)
        self.measured, self.published = measured, published

    # ------------------------------------------------------------ what is computed once

    @cached_property
    def analysed(self) -> MicroRosResults:
        """The analysed results: the measured, else the published ones."""
        if self.measured is not None:
            return self.measured
        return MicroRosResults(
            memory=self.published.memory,
            throughput=self.published.throughput,
            latency=self.published.latency,
        )

    @cached_property
    def lines(self) -> dict[str, PhysicalLine]:
        """Physical lines by transport."""
        lines = {}
        if self.measured is None:
            of_line = self.published.lines.select("transport", "bit_per_s", "bits_per_byte")
            lines = {name: PhysicalLine(*rates) for name, *rates in of_line.iter_rows()}
        lines |= {name: PhysicalLine(*rates) for name, rates in self.parameters.lines.items()}
        for link in self.analysed.links.values():
            if link.line_bit_per_s is not None and link.transport not in lines:
                lines[link.transport] = PhysicalLine(link.line_bit_per_s, link.bits_per_byte)
        return lines

    @cached_property
    def slopes(self) -> list[Slope]:
        """Slopes of memory per entity."""
        return slopes_of(with_totals(self.analysed.memory), self.level)

    @cached_property
    def published_slopes(self) -> dict[Key, Slope]:
        """Slopes of the published figures, shown next to measured ones."""
        if self.measured is None:
            return {}
        slopes = slopes_of(with_totals(self.published.memory), self.level)
        return {(s.entity, s.memory): s for s in slopes}

    @property
    def claims(self) -> dict[Key, float]:
        """Bytes that the publication states in words; only together with its own figures."""
        if self.measured is not None:
            return {}
        return {
            (row["entity"], row["memory"]): float(row["claimed_bytes"])
            for row in self.published.claims.iter_rows(named=True)
        }

    @cached_property
    def sums(self) -> list[PrintedSum]:
        """Sums of printed exchanges."""
        return printed_sums(self.analysed.latency)

    @cached_property
    def transport_runs(self) -> list[transports.TransportRun]:
        """Each transport of each run, with synchronised clocks."""
        return transports.transport_runs(self.analysed.exchanges, self.analysed.links)

    @cached_property
    def device_messages(self) -> pl.DataFrame:
        """Messages of the device with their hops to the node's callback and back."""
        return hops.device_messages(
            self.analysed,
            self.tables.table("one_sided_messages"),
            self.tables.table("publications"),
        )

    @cached_property
    def transport_estimates(self) -> list[Estimate]:
        """Estimates of latency by direction, round trips and clocks."""
        return transports.transport_estimates(self.transport_runs, self.level)

    @cached_property
    def throughput_estimates(self) -> list[Estimate]:
        """Estimates of throughput over runs; empty for published figures."""
        if self.measured is None:
            return []
        level = self.level
        emulated = {link.transport: link for link in self.analysed.links.values() if link.emulated}
        return [
            *transports.throughput_estimates(self.analysed.throughput, level),
            *(transports.refused_throughput(link, level) for link in emulated.values()),
        ]

    @cached_property
    def all_checks(self) -> list[Statement]:
        """All checks with their verdicts."""
        return [
            *checks.live_checks(self.analysed.live),
            *checks.checks_of_two_counts(self.analysed.ways),
            *checks.account_checks(self.analysed.accounts),
            *checks.budget_checks(self.slopes, self.parameters.budgets),
            *checks.throughput_checks(self.analysed.throughput, self.lines),
            *checks.measured_sum_checks(self.transport_runs),
            *hops.hop_checks(self.device_messages, self.analysed.exchanges),
            *checks.printed_sum_checks(self.sums),
        ]

    @property
    def _checked(self) -> str:
        """Sentence with the numbers of checks that failed and that could not be made."""
        failed = [c for c in self.all_checks if c.failed]
        decided = [c for c in self.all_checks if c.decided]
        first = f", first: {failed[0].claim} {failed[0].because}" if failed else ""
        left = len(self.all_checks) - len(decided)
        more = f"; {left} could not be made" if left else ""
        return f"{len(failed) or 'None'} of {len(decided)} checks failed{first}{more}."

    @property
    def estimates(self) -> list[Estimate]:
        """All estimates of the report."""
        return [
            *(slope.estimate for slope in self.slopes),
            *self.throughput_estimates,
            *self.transport_estimates,
        ]

    # ------------------------------------------------------------ sections

    def sentences(self) -> list[str]:
        """State the cost of an entity, the time of a message, and the checks; failures first."""
        sentences = []
        totals = [s for s in self.slopes if s.memory == "total" and not is_history(s.entity)]
        shown = [
            s
            for s in totals
            if s.estimate.value is not None
            and s.entity not in statements.VARIANTS
            and not on_rtos(s.entity)[1]
        ]
        if shown:
            each = ", ".join(f"each {s.entity} {s.estimate.value:,.0f} B" for s in shown[:6])
            sentences.append(f"Memory of the device: {each}.")
        if self.device_messages.height:
            sentences.append(hops.hops_sentence(hops.hop_medians(self.device_messages)))
        if self.all_checks:
            sentences.insert(
                0 if any(c.failed for c in self.all_checks) else len(sentences), self._checked
            )
        unused = self.analysed.findings["what"].unique(maintain_order=True)
        sentences = sentences or ["There are no figures of micro-ROS to look at."]
        if unused.len():
            sentences.append(
                f"Left out as it could not be used ({unused.len():,} in all): {unused[0]}."
            )
        return sentences

    def origin(self) -> Mapping[str, str]:
        """Return the board of the published figures, or the folders that were given."""
        if self.measured is None:
            return {"published by": "eProsima", "board": "Renesas EK-RA6M5"}
        return {"from": ", ".join(self.parameters.results)} if self.parameters.results else {}

    def picture(self) -> Plot | None:
        """Plot memory per entity, without an RTOS where that was measured, else throughput."""
        slopes = [s for s in self.slopes if not is_history(s.entity)]
        if slopes:
            return figures.memory_plot([s for s in slopes if not on_rtos(s.entity)[1]] or slopes)
        throughput = self.analysed.throughput
        return figures.throughput_plot(throughput, self.lines) if throughput.height else None

    def source(self) -> Section:
        """Report the analysed results, and files that could not be used."""
        if self.measured is None:
            return Section(
                "Published figures: one board, one build, digitised or printed; no runs."
            )
        parts: list[Part] = []
        found = self.analysed
        bench = (found.throughput, found.latency, found.captures)
        if not any(frame.height for frame in (found.memory, found.exchanges, *bench)):
            parts.append(
                Sentence(
                    "None of this has results of the suite micro-ros or of a device's test bench; "
                    "docs/micro_ros.md says which files are looked for.",
                    loud=True,
                )
            )
        if self.tables.runs:
            parts += [*self.tracer_loss(), *self.runs_left_out()]
        if self.analysed.findings.height:
            parts.append(Sentence("Something could not be used and is left out.", loud=True))
            parts.append(tables.findings_table(self.analysed.findings))
        if self.analysed.is_micro_ros:
            parts.append(_ITSELF)
        return Section(*parts)

    def checks(self) -> Section:
        """Report the verdicts of the checks, failures first."""
        if not self.all_checks:
            return Section("There is nothing to check.")
        sentence = Sentence(self._checked, loud=any(c.failed for c in self.all_checks))
        return Section(
            sentence, tables.checks_table(sorted(self.all_checks, key=lambda c: not c.failed))
        )

    def memory(self) -> Section:
        """Report memory per entity."""
        slopes = [s for s in self.slopes if not is_history(s.entity)]
        if not slopes:
            return Section("There is no memory of entities to look at.")
        parts: list[Part] = [figures.memory_plot(slopes)]
        comparison = tables.rtos_table(slopes, self.published_slopes)
        if comparison is not None:
            parts.append(comparison)
        parts.append(tables.slopes_table(slopes, self.published_slopes, self.claims))
        if self.analysed.static.height:
            parts.append(tables.static_table(self.analysed.static))
        return Section(*parts)

    def history(self) -> Section:
        """Report memory per slot of the RMW history."""
        slopes = [s for s in self.slopes if is_history(s.entity)]
        static = {s.entity: s for s in slopes if s.memory == "static"}
        if HISTORY not in static:
            return Section("There is no static memory of the RMW history to look at.")
        expected = self.analysed.slot_bytes
        claim = self.claims.get((HISTORY, "static"), expected.get(HISTORY))
        name = "MTU x depth" if HISTORY in expected else "claimed"
        parts: list[Part] = [figures.history_plot(static[HISTORY], claim, name)]
        rows = [(n, b, static[n]) for n, b in sorted(expected.items()) if n in static]
        if rows:
            parts.append(tables.history_table(rows))
        return Section(*parts, tables.slopes_table(slopes, self.published_slopes, self.claims))

    def statements(self) -> Section:
        """Report the publication's statements against its figures, and against measurements."""
        measured: list[Part] = []
        if self.analysed.is_micro_ros:
            estimates = [*self.transport_estimates, *self.throughput_estimates]
            emulated = {link.transport for link in self.analysed.links.values() if link.emulated}
            of_study = [
                *statements.memory_statements(self.published.claims, self.slopes),
                *self.decided(statements.measured_statements(self.slopes, estimates, emulated)),
            ]
            of_tcp = self.decided(statements.tcp_statements(estimates))
            measured += [
                tables.claims_table(of_study, "Statements of the study, held against this"),
                tables.claims_table(of_tcp, "What the study does not say", "said here"),
            ]
        differences = statements.differences_of_totals(self.published.memory)
        slopes = list(self.published_slopes.values()) or self.slopes
        return Section(
            *measured,
            tables.claims_table(
                [
                    *statements.memory_statements(self.published.claims, slopes),
                    *statements.published_statements(
                        slopes, self.published.throughput, self.published.latency
                    ),
                ]
            ),
            "Static, stack and dynamic memory were read off another figure than the total; "
            f"their sum and it differ by at most {max(map(abs, differences), default=0):,.0f} B.",
            "One board, one build and one configuration were measured once per point: the "
            "figures support a slope, and no statement about how builds or boards differ.",
        )

    def throughput(self) -> Section:
        """Report throughput against payload."""
        throughput = self.analysed.throughput
        parts: list[Part] = []
        if throughput.height:
            parts.append(figures.throughput_plot(throughput, self.lines))
            parts.append(tables.throughput_table(throughput, self.lines))
        if self.throughput_estimates:
            parts.append(estimates_table(self.throughput_estimates, "Throughput over runs"))
        if self.analysed.captures.height:
            parts.append(tables.captures_table(self.analysed.captures))
        return Section(*parts or ["No throughput was measured."])

    def latency(self) -> Section:
        """Report latency by direction."""
        parts: list[Part] = []
        if self.sums:
            parts += [
                figures.printed_latency_plot(self.sums),
                tables.printed_latency_table(self.sums),
            ]
        if self.transport_runs:
            if any(run.directions is not None for run in self.transport_runs):
                parts.append(figures.directions_plot(self.transport_runs))
            shown = [e for e in self.transport_estimates if not e.metric.startswith("clock")]
            parts += [
                tables.clocks_table(self.transport_runs),
                estimates_table(shown, "Latency by direction and round trip"),
                tables.sums_table(self.transport_runs),
            ]
        if self.device_messages.height:
            medians = hops.hop_medians(self.device_messages)
            parts += [
                hops.hops_sentence(medians),
                figures.hops_plot(medians),
                tables.hops_table(medians),
            ]
        return Section(*parts or ["No latency was measured."])

    def round_trips(self) -> Section:
        """Report the distribution of the round trip."""
        runs = [run for run in self.transport_runs if run.rtt_ns.size]
        if not runs:
            return Section("There is no distribution: at most one exchange is known.")
        return Section(figures.round_trip_plot(runs))

    def files(self) -> Mapping[str, pl.DataFrame]:
        """Return the slopes of memory, all verdicts, and the messages of a device by their hops."""
        files = {
            "slopes.csv": slopes_frame(self.slopes),
            "checks.csv": checks.checks_frame(self.all_checks),
        }
        if self.device_messages.height:
            files["device_messages.csv"] = self.device_messages
        return files


_ITSELF = (
    "This is micro-ROS itself: its client, its agent and a node of ROS 2. Memory is what the "
    "compiler for a Cortex-M3 makes of it, as it runs on an emulated board. Times of udp, tcp and "
    "serial are of a client on this computer; those of uart and udp_board are emulated."
)
