"""Define the parameters of the communication notebook, and build its sections."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import polars as pl
from pydantic import Field

from roslens.analysis.estimate import Estimate, cell_label, not_none, short_labels
from roslens.analysis.figures.distributions import SIDE_BY_SIDE, distribution_plots
from roslens.analysis.figures.grid import value_grid
from roslens.analysis.figures.plot import Plot
from roslens.analysis.measures.latency import latency_estimates, latency_metric
from roslens.analysis.measures.pauses import lost_events
from roslens.analysis.measures.samples import RunSamples, TopicGroup, run_samples
from roslens.analysis.reports.base import Part, Report, Section, count_of_runs
from roslens.analysis.reports.front import loss_sentence, p99_sentences, with_interval
from roslens.analysis.reports.given import Tables
from roslens.analysis.reports.numbers import counted
from roslens.analysis.reports.parameters import OptionalText, ReportParameters, Texts
from roslens.analysis.reports.table import Sentence
from roslens.analysis.reports.tables import estimates_table, statements_table
from roslens.analysis.runs import cells_of, constant_factors
from roslens.analysis.statistics.factorial import Observation
from roslens.recording.text import some_of
from roslens.studies.communication import copies, estimates, tables
from roslens.studies.communication.backlog import Backlog, backlogs
from roslens.studies.communication.cells import cells
from roslens.studies.communication.evidence import Evidence, evidence
from roslens.studies.communication.figures import entity_plot, flow_plot, median_flows
from roslens.studies.communication.logged import (
    agreement,
    compare_with_log,
    study_table,
)
from roslens.studies.communication.periods import (
    PUBLISHER_PERIOD,
    SUBSCRIPTION_PERIOD,
    pairs,
    publisher_periods,
    subscription_periods,
)
from roslens.studies.communication.published import by_reference, published_cell, read_published
from roslens.studies.communication.statements import statements
from roslens.studies.communication.traffic import HOPS, Traffic, merged_hops, traffic


class CommunicationParameters(ReportParameters):
    """Parameters of the communication notebook.

    Attributes
    ----------
    topics
        Topics to report; none: the work topic of each run, else all topics of the application.
    published
        Folder with the published figures.
    results
        Folder with results of the study's own tool; none: only the printed table is shown.
    """

    topics: Texts = Field(default_factory=list)
    published: str = "studies/communication/data"
    results: OptionalText = None


LOGGED = (copies.BEFORE_HOP.name, copies.COPY_HOP.name)


class CommunicationReport(Report[CommunicationParameters]):
    """The sections of a communication report; each is computed when it is asked for."""

    def __init__(
        self, tables: Tables, parameters: CommunicationParameters, published: Path
    ) -> None:
        super().__init__(tables, parameters)
        self.logged = tables.logged_messages
        self.published_folder = published

    # ------------------------------------------------------------ what is computed once

    @cached_property
    def analysed(self) -> Traffic:
        """Messages and receptions of the runs that count."""
        return traffic(
            self.tables, self.counting, self.parameters.topics, self.parameters.warm_up_s
        )

    @cached_property
    def backlogs(self) -> dict[str, Backlog]:
        """The backlog of each run's queues."""
        return backlogs(self.analysed.messages, self.analysed.queues)

    @cached_property
    def evidence(self) -> dict[str, Evidence]:
        """Whether the figures of each run are exact, approximate or partial."""
        counting = {run.name for run in self.counting}
        return evidence(
            self.analysed, [loss for loss in self.tables.tracer_loss if loss.run.name in counting]
        )

    @cached_property
    def copied(self) -> pl.DataFrame:
        """The messages with their lines in the log, and the copies that the log shows."""
        return copies.with_log(self.analysed.messages, self.logged, self.analysed.signatures)

    @cached_property
    def cells(self) -> pl.DataFrame:
        """The frame of cells.csv."""
        return cells(self.counting, self.analysed, self.backlogs, self.evidence)

    @cached_property
    def group(self) -> TopicGroup:
        """The reported topics, as the latency estimates take them."""
        of_run: dict[str, frozenset[str]] = {}
        for run, topic in self.analysed.topics.iter_rows():
            of_run[run] = of_run.get(run, frozenset()) | {topic}
        topics = sorted({topic for names in of_run.values() for topic in names})
        shown = some_of(topics, 3)
        return TopicGroup(None, f"topics {shown}" if len(topics) != 1 else f"topic {shown}", of_run)

    @cached_property
    def samples(self) -> list[RunSamples]:
        """Latencies and outcomes of each run that counts."""
        return run_samples(
            self.tables.table("messages"), self.counting, self.group, self.parameters.warm_up_s
        )

    @cached_property
    def estimates(self) -> list[Estimate]:
        """All estimates of the report."""
        runs, level = self.counting, self.level
        return estimates.labelled(
            [
                *estimates.period_estimates(self.analysed, runs, level),
                *latency_estimates(self.samples, self.group, level),
                *estimates.depth_estimates(self.analysed, self.backlogs, runs, level),
                *estimates.hop_estimates(self.analysed.messages, runs, level),
                *estimates.copy_estimates(self.copied, runs, level),
                *estimates.cpu_estimates(
                    self.tables.resources,
                    self.measured_parts,
                    self.analysed,
                    runs,
                    level,
                    lost=lost_events(self.tables.table("losses")),
                ),
                *estimates.heap_estimates(self.tables.table("heap"), self.analysed, runs, level),
            ],
            runs,
            self.backlogs,
            self.evidence,
        )

    def _estimates_of(self, *metrics: str) -> list[Estimate]:
        """Return the estimates of these metrics, cell by cell."""
        wanted = [e for e in self.estimates if e.metric in metrics]
        labels = list(cells_of(self.counting))
        return sorted(wanted, key=lambda e: labels.index(cell_label(e.cell)))

    # ------------------------------------------------------------ sections

    def sentences(self) -> list[str]:
        """Summarise the fastest and the slowest way of communication, and the losses."""
        means = [e for e in self._estimates_of("latency_mean") if e.value is not None]
        if not means:
            return ["No message with a latency was delivered: nothing can be said of it."]
        # Where programs logged it, latency starts before publish(): the trace may start later.
        logged = [e for e in self._estimates_of(copies.LOGGED_LATENCY.name) if e.value is not None]
        by_log = len(logged) == len(means)
        means = logged if by_log else means
        of_all = dict(zip(short_labels([e.cell for e in means]), means, strict=True))
        slow = max(of_all, key=lambda name: not_none(of_all[name].value))
        fast = min(of_all, key=lambda name: not_none(of_all[name].value))
        sentences = [f"Messages take {with_interval(of_all[fast])} on average"]
        if len(of_all) > 1:
            sentences[0] += f" with {fast}, and {with_interval(of_all[slow])} with {slow}"
        sentences[0] += ", by the programs' own logs." if by_log else "."
        # The log's latencies have no P99, and those of the trace may begin later.
        if not by_log:
            ends = ((fast, of_all[fast]), (slow, of_all[slow]))
            sentences += p99_sentences(*ends, self._estimates_of("latency_p99"))
        names = dict(zip(map(cell_label, (e.cell for e in means)), of_all, strict=True))
        sentences.append(loss_sentence(self.samples, self._estimates_of("loss"), names))
        return [*sentences, *(warning.text for warning in self._backlog_warnings()[:1])]

    def picture(self) -> Plot | None:
        """Plot the distribution of every cell, or means of more cells than there are colours."""
        if not any(s.delivered_ns.size for s in self.samples):
            return None
        means = [e for e in self.estimates if e.metric == "latency_mean" and e.value is not None]
        if len(means) > SIDE_BY_SIDE:
            return value_grid(means, "mean latency")
        return self._distributions()[0]

    def _distributions(self) -> list[Plot]:
        return distribution_plots(self.samples, latency_metric("mean", self.group.scope).definition)

    def loss(self) -> Section:
        """Report losses of the tracer, and which figures are therefore approximate or partial."""
        parts = self.tracer_loss() + self.runs_left_out()
        labels: dict[str, list[str]] = {}
        for name, rests_on in self.evidence.items():
            if rests_on.kind != "exact":
                labels.setdefault(rests_on.label, []).append(name)
        for label, names in labels.items():
            text = f"The figures of {some_of(names, 3)} are {label}."
            parts.append(Sentence(text, loud=True))
        if not labels and self.counting:
            parts.append("Every message was followed by its identity: counts are exact.")
        return Section(*parts, *self._backlog_warnings())

    def overview(self) -> Section:
        """Report cells.csv as a table."""
        return Section(tables.cells_table(self.cells, self.counting))

    def log(self) -> Section:
        """Report the trace and the programs' own logs side by side."""
        if not self.logged.height:
            return Section("The programs logged nothing of their messages themselves.")
        compared = compare_with_log(self.copied, self.logged)
        wrong = compared.filter("differs")
        parts: list[Part] = []
        if self.parameters.warm_up_s or self.parameters.topics:
            parts.append("The log is of the whole run and all topics, the trace of a part.")
        elif wrong.height:
            text = f"In {count_of_runs(wrong.height)} counts differ from those of the log."
            parts.append(Sentence(text, loud=True))
        else:
            text = f"Counts equal those of the log in all {count_of_runs(compared.height)}."
            parts.append(text)
        return Section(*parts, *self._agreement(), tables.log_table(compared, self.counting))

    def _agreement(self) -> list[Part]:
        """Report whether trace and log have the same latency in each cell."""
        agreed = agreement(
            self.copied, [run.name for run in self.counting if by_reference(run.cell)]
        )
        received = self.copied.filter(pl.col("latency_ns").is_not_null())["run"].unique()
        alien = {*self.logged["run"]} & {*received} - {*agreed["run"]}
        parts: list[Part] = []
        if alien:
            text = (
                f"In {count_of_runs(len(alien))} no line of the log fits a message of the trace, "
                "by number and time: it is of another recording, or its times are not in "
                "nanoseconds. Latencies are not compared there."
            )
            parts.append(Sentence(text, loud=True))
        if not agreed.height:
            return parts
        wrong = agreed.filter(~pl.col("agrees")).height
        text = (
            f"The latencies of trace and log differ in {wrong} of {count_of_runs(agreed.height)}."
            if wrong
            else f"The latencies of trace and log agree in all {count_of_runs(agreed.height)}."
        )
        table = tables.agreement_table(agreed, self.counting, read_published(self.published_folder))
        return [*parts, Sentence(text, loud=wrong > 0), table]

    def periods(self) -> Section:
        """Report the periods of publishers and subscriptions."""
        published = publisher_periods(self.analysed.messages)
        received = subscription_periods(self.analysed.callbacks)
        if not self.counting or not (published.height or received.height):
            return self._nothing_to_show()
        to_ms = (pl.col("period_ns") / 1e6).alias("value_ms")
        return Section(
            entity_plot(
                published.with_columns(to_ms), ("topic", "publisher_id"), self.counting,
                self._estimates_of("publisher_period"), what="publisher period", of="publisher",
                definition=PUBLISHER_PERIOD.definition,
            ),
            entity_plot(
                received.with_columns(to_ms), ("topic", "subscription_id"), self.counting,
                self._estimates_of("subscription_period"), what="subscription period",
                of="subscription", definition=SUBSCRIPTION_PERIOD.definition,
            ),
            estimates_table(
                self._estimates_of("publisher_period", "subscription_period"), "Periods"
            ),
        )  # fmt: skip

    def latency(self) -> Section:
        """Report latency per pair, its distribution, mean and percentiles."""
        if not any(s.delivered_ns.size for s in self.samples):
            return self._nothing_to_show()
        of_pairs = pairs(self.analysed.messages).with_columns(
            (pl.col("latency_ns") / 1e6).alias("value_ms")
        )
        definition = latency_metric("mean", self.group.scope).definition
        latencies = [
            e
            for e in self.estimates
            if e.metric.startswith("latency_") and not e.metric.startswith("latency_sent")
        ]
        return Section(
            *self._backlog_warnings(),
            entity_plot(
                of_pairs, ("topic", "publisher_id", "subscription_id"), self.counting,
                self._estimates_of("latency_mean"), what="mean latency", of="pair",
                definition=definition,
            ),
            *self._distributions(),
            estimates_table(
                latencies, f"Over delivered messages. {definition}", prefix="latency_"
            ),
        )  # fmt: skip

    def pairs(self) -> Section:
        """Report loss per pair."""
        return Section(
            tables.pairs_table(pairs(self.analysed.messages), self.counting),
            estimates_table(self._estimates_of("loss"), "Loss per run"),
        )

    def backlog(self) -> Section:
        """Report the backlog of the queues, and what latency therefore measures."""
        return Section(
            *self._backlog_warnings(),
            tables.backlog_table(self.counting, self.backlogs, self.estimates),
        )

    def hops(self) -> Section:
        """Report where the latency goes, and that the hops add up to it."""
        messages = self.analysed.messages.filter(pl.col("latency_ns").is_not_null())
        total = pl.sum_horizontal(*(f"hop_{hop}_ns" for hop in HOPS))
        wrong = messages.filter(total != pl.col("latency_ns")).height
        text = (
            f"Publish call, queue and transport, take and dispatch add up to the latency of each "
            f"of {messages.height:,} messages, to the nanosecond."
            if not wrong
            else f"The hops of {wrong:,} of {messages.height:,} messages do not add up."
        )
        parts: list[Part] = [Sentence(text, loud=wrong > 0)]
        for hop, count in merged_hops(messages).items():
            note = f"{hop.replace('_', ' ')}: its end was not recorded for {count:,} messages"
            parts.append(Sentence(f"{note}; it is part of the hop after it.", loud=True))
        means = self._estimates_of(*(f"hop_{hop}" for hop in HOPS), *LOGGED)
        return Section(*parts, estimates_table(means, "Mean duration of each hop"))

    def flow(self) -> Section:
        """Report one publication of each cell, hop by hop."""
        flows = median_flows(self.copied, self.counting)
        if not flows:
            return self._nothing_to_show()
        return Section(flow_plot(flows, constant_factors(self.counting)))

    def copies(self) -> Section:
        """Report copies per message, and the cost of allocating them."""
        table = tables.copies_table(self.analysed, self.counting, self.estimates)
        heap = self._estimates_of("allocated_per_publication", "allocations_per_publication")
        means = self._estimates_of("hop_publish_call", *LOGGED, "cpu_per_publication")
        note = (
            "Blocks and bytes are those that the C library's allocator gave."
            if heap
            else "The allocator was not recorded (lttng_ust_libc:malloc and free): what allocating "
            "costs is part of the CPU time per publication, and cannot be told from the rest."
        )
        return Section(
            table,
            estimates_table([*means, *heap], "What a message costs"),
            f"{note} The end of publish() is no event: of it, the publish call is the part "
            "before the middleware.",
        )

    def published(self) -> Section:
        """Report the published figures next to ours."""
        table = tables.published_table(
            read_published(self.published_folder), self.counting, self.backlogs, self.estimates
        )
        if self.parameters.results is None:
            return Section(table)
        return Section(table, study_table(Path(self.parameters.results)))

    def statements(self) -> Section:
        """Report published statements, and whether the recordings support them."""
        delivered = self.copied.lazy().filter(pl.col("outcome") == "delivered")
        within = delivered.filter(pl.col("publisher_vpid") == pl.col("subscription_vpid"))
        of_10_mb = [run.name for run in self.counting if published_cell(run)]
        large = publisher_periods(self.analysed.messages).filter(pl.col("run").is_in(of_10_mb))
        judged = statements(
            self._mean_latencies(delivered),
            self._mean_latencies(within),
            self._observations(large.group_by("run").agg(pl.col("period_ns").mean())),
            level=self.level,
        )  # fmt: skip
        columns = {"statement": "claim", "here": "told", "because": "because"}
        notes = [
            "Where a queue was full, latency is that of its backlog: see Backlog.",
            (
                "Latency is that of the programs' own logs where each run has one; else it begins "
                "at the first publish event, within a process after the copy of what is published "
                "by reference."
            ),
        ]
        title = "Published statements, compared with these recordings"
        return Section(statements_table(judged, columns, title, notes))

    def _mean_latencies(self, messages: pl.LazyFrame) -> list[Observation]:
        """Return mean latencies, by the logs if all runs have one: cells share one definition."""
        logged = pl.col("logged_callback_ns") - pl.col("logged_publish_ns")
        means = messages.group_by("run").agg(logged.mean(), pl.col("latency_ns").mean()).collect()
        whole = means.height > 0 and means[:, 1].null_count() == 0
        return self._observations(means.select("run", means.columns[1 if whole else 2]))

    def _observations(self, of_run: pl.DataFrame) -> list[Observation]:
        """Return the observations in the second column, where it is not null."""
        by_run = dict(of_run.drop_nulls().iter_rows())
        return [
            Observation(dict(run.cell), float(by_run[run.name]), run.block, run.environment)
            for run in self.counting
            if run.name in by_run
        ]

    def files(self) -> Mapping[str, pl.DataFrame]:
        """Return the frame of one row per cell."""
        return {"cells.csv": self.cells}

    # ------------------------------------------------------------ small things

    def _backlog_warnings(self) -> list[Sentence]:
        warnings = []
        for label, members in cells_of(self.counting).items():
            full, known = estimates.full_runs(members, self.backlogs)
            if not full:
                continue
            seen = [self.backlogs[run.name] for run in members if run.name in self.backlogs]
            depths = sorted({b.queue_depth for b in seen if b.full and b.queue_depth})
            queue = f" (depth {', '.join(map(str, depths))})" if depths else ""
            most = max((b.largest_seen for b in seen if b.full and b.largest_seen), default=0)
            behind = f"; those received had up to {most:,} later ones behind them" if most else ""
            lost = counted(sum(b.pushed_out for b in seen), "message")
            text = (
                f"{label}: the queue{queue} was full in {full} of {count_of_runs(known)}. "
                f"It pushed out {lost}{behind}."
            )
            text += {
                "backlog": " Its latency measures the backlog, about depth x publisher period, and "
                "not the transport.",
                "latency and backlog": " Its latency holds waiting in the queue.",
            }.get(estimates.latency_measures(members, self.backlogs), "")
            warnings.append(Sentence(text, loud=True))
        return warnings

    def _nothing_to_show(self) -> Section:
        return Section(Sentence("No message with a publication and a callback.", loud=True))
