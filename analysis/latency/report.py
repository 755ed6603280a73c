"""Define the parameters of the latency notebook, and build its sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain

import polars as pl
from pydantic import Field

from roslens.analysis.estimate import Estimate, not_none, short_labels
from roslens.analysis.figures.plot import Plot
from roslens.analysis.latency.headline import dropped, scope, untold
from roslens.analysis.measures.callbacks import (
    callback_duration_estimates,
    durations,
    worst_messages,
)
from roslens.analysis.measures.drift import order_effect
from roslens.analysis.measures.latency import (
    PERCENTILES,
    clocks_refusal,
    corrected_estimates,
    latency_estimates,
    latency_metric,
    medians,
    tails,
)
from roslens.analysis.measures.loss import how_lost, outcomes_by_cell
from roslens.analysis.measures.pauses import paused_runs
from roslens.analysis.measures.resources import resource_estimates, usage_over_time, usage_per_run
from roslens.analysis.measures.samples import (
    LOST,
    Headline,
    RunSamples,
    TopicGroup,
    run_samples,
    samples_of_each,
    topic_groups,
    topic_traffic,
)
from roslens.analysis.measures.services import has_every_node, service_estimates, unanswered
from roslens.analysis.reports.base import Part, Report, Section, count_of_runs
from roslens.analysis.reports.front import (
    arrival_sentence,
    effect_sentence,
    loss_sentence,
    p99_sentences,
    with_interval,
)
from roslens.analysis.reports.given import Tables
from roslens.analysis.reports.numbers import counted, milliseconds
from roslens.analysis.reports.parameters import ReportParameters, Texts
from roslens.analysis.reports.table import Sentence
from roslens.analysis.reports.tables import (
    durations_table,
    effects_table,
    estimates_table,
    outcomes_table,
    runs_table,
    worst_table,
)
from roslens.analysis.runs import cells_of
from roslens.analysis.statistics.factorial import FactorEffect, Observation, effects
from roslens.analysis.statistics.flags import OUTLIER, outlying, same_series, warm_up
from roslens.analysis.statistics.omission import CorrectedRun, corrected_runs
from roslens.collectors.topics import internal
from roslens.recording.errors import TooLargeError
from roslens.recording.text import some_of


class LatencyParameters(ReportParameters):
    """Parameters of the latency notebook.

    Attributes
    ----------
    topics
        Topics to report; none: all, the work topic of the runs first.
    headline
        Which topic of the application comes first where the runs name no work topic: the
        ``busiest``, or the ``slowest`` by median latency.
    worst
        Number of the worst messages to explain.
    correct_omission
        Whether to add percentiles corrected for coordinated omission to the measured ones.
    bag
        The bag recorded together with the one run; empty: the bags in the runs' folders.
    """

    topics: Texts = Field(default_factory=list)
    headline: Headline = "busiest"
    worst: int = Field(10, ge=1, le=1000)
    correct_omission: bool = False
    bag: str = ""


# Figures are imported where they are drawn: a comparison needs the estimates only.
# ruff: noqa: PLC0415

_MOST_FURTHER_TOPICS = 20
_NAMED = 20
"""Most services without answers that are named."""
_PICTURED = 10
"""Greatest number of pictures; the table has all messages."""
_MOST_FOLLOWED = 1_000_000
"""Greatest number of messages for which chains are followed unasked."""
_CORRECTED = ("latency_p50", "latency_p90", "latency_p99")


class LatencyReport(Report[LatencyParameters]):
    """The sections of a latency report; each is computed when it is asked for."""

    def __init__(self, tables: Tables, parameters: LatencyParameters) -> None:
        super().__init__(tables, parameters)
        self.messages = tables.table("messages")
        self.callback_instances = tables.table("callback_instances")
        self.losses = tables.table("losses")
        self.service_calls = tables.table("service_calls")

    # ------------------------------------------------------------ what is computed once

    @cached_property
    def groups(self) -> list[TopicGroup]:
        """Groups of runs per topic; the headline and the figures cover the first."""
        return topic_groups(
            self.messages, self.counting, self.parameters.topics, self.parameters.headline
        )

    @cached_property
    def traffic(self) -> pl.DataFrame:
        """Outcomes of the messages of each topic (`measures.samples.topic_traffic`)."""
        return topic_traffic(self.messages, self.counting)

    @cached_property
    def _chosen(self) -> frozenset[str]:
        """The topics that the headline covers."""
        return frozenset().union(*self.groups[0].topics_of_run.values())

    @cached_property
    def samples(self) -> list[RunSamples]:
        """Samples of the first topic, one entry per run that counts."""
        return self._samples(self.groups[0])

    def _samples(self, group: TopicGroup) -> list[RunSamples]:
        return run_samples(self.messages, self.counting, group, self.parameters.warm_up_s)

    @cached_property
    def main_estimates(self) -> list[Estimate]:
        """Estimates of latency and loss of the first topic."""
        return latency_estimates(self.samples, self.groups[0], self.level)

    @cached_property
    def further_estimates(self) -> list[list[Estimate]]:
        """Estimates of latency and loss of each further topic."""
        return self.estimates_of(self.groups[1:])

    def estimates_of(
        self, groups: Sequence[TopicGroup], percentiles: Sequence[float] = PERCENTILES
    ) -> list[list[Estimate]]:
        """Return estimates of latency and loss of each of these topics."""
        given = self.messages, self.counting, groups, self.parameters.warm_up_s
        return [
            latency_estimates(samples, group, self.level, percentiles)
            for group, samples in samples_of_each(*given)
        ]

    @cached_property
    def service_estimates(self) -> list[Estimate]:
        """Estimates of response times of services."""
        return service_estimates(self.service_calls, self.counting, self.level)

    def callback_estimates(
        self, groups: Sequence[TopicGroup], percentiles: Sequence[float] = ()
    ) -> list[list[Estimate]]:
        """Return mean durations, or percentiles, of the callbacks on each of these topics."""
        return callback_duration_estimates(
            self.callback_instances, self.counting, groups, self.level, percentiles
        )

    @cached_property
    def _callback_means(self) -> list[list[Estimate]]:
        return self.callback_estimates(self.groups)

    @cached_property
    def callback_durations(self) -> pl.DataFrame:
        """Durations of each callback, from `durations`."""
        return durations(
            self.tables.touching_executions,
            self.tables.recorded_processes,
            self.losses,
            {run.name: run.label for run in self.counting},
        )

    @cached_property
    def resource_estimates(self) -> list[Estimate]:
        """Estimates of CPU load and memory."""
        usage = usage_per_run(self.tables.resources, self.measured_parts, self.parameters.warm_up_s)
        return resource_estimates(usage, self.counting, self.level)

    @cached_property
    def _services(self) -> set[str]:
        """The application's services that answered."""
        return {str(e.cell["service"]) for e in self.service_estimates}

    @property
    def estimates(self) -> list[Estimate]:
        """All estimates of the report."""
        first, *further = self._callback_means
        return [
            *self.main_estimates,
            *self.corrected_estimates,
            *first,
            *self.resource_estimates,
            *self.service_estimates,
            *chain.from_iterable(self.further_estimates),
            *chain.from_iterable(further),
        ]

    # ------------------------------------------------------------ sections

    def sentences(self) -> list[str]:
        """Summarise topics without any arrived message, latency, and the other topics."""
        first, of_all_topics = dropped(self.traffic), scope(self.traffic, self._chosen)
        sentences = [first] if first and not self.parameters.topics else []
        if sentences and self._services:
            sentences.append(f"Calls of {counted(len(self._services), 'service')} follow below.")
        calls = untold(self.service_calls, self.tables.table("health"))
        topic = self.groups[0].topic
        on = f" on {topic}" if topic else ""
        if not self._delivered:
            warm_up = sum(s.left_out for s in self.samples)
            if warm_up and not any(s.outcomes for s in self.samples):
                sentences.append(
                    f"{'The only message' if warm_up == 1 else f'All {warm_up:,} messages'}{on} "
                    f"{'is' if warm_up == 1 else 'are'} left out as warm-up: give a shorter "
                    "warm_up_s."
                )
            nothing = f"No message{on} with a latency was delivered: nothing can be said of it."
            return [*(sentences or [nothing]), *filter(None, (of_all_topics, calls))]
        effect = effect_sentence(
            self._effects, f"The median latency{on}", self._effects_of(tails(self.samples))
        )
        by_metric = {
            name: [e for e in self.main_estimates if e.metric == name and e.value is not None]
            for name in ("latency_p50", "latency_p99")
        }
        cells = short_labels([e.cell for e in by_metric["latency_p50"]])
        if effect:
            sentences.append(effect)
        of_all = dict(zip(cells, by_metric["latency_p50"], strict=True))
        if len(of_all) == 1:
            p99 = by_metric["latency_p99"][:1]
            tail = f", P99 {with_interval(p99[0])}" if p99 else ""
            sentences.append(
                f"Messages{on} take {with_interval(*of_all.values())} at the median{tail}."
            )
        elif of_all:
            slow = max(of_all, key=lambda name: not_none(of_all[name].value))
            fast = min(of_all, key=lambda name: not_none(of_all[name].value))
            sentences.append(
                f"At the median messages{on} take from {with_interval(of_all[fast])} ({fast}) to "
                f"{with_interval(of_all[slow])} ({slow})."
            )
            ends = ((fast, of_all[fast]), (slow, of_all[slow]))
            sentences += p99_sentences(*ends, by_metric["latency_p99"])
        if of_all_topics:
            sentences.append(of_all_topics)
        losses = [e for e in self.main_estimates if e.metric == "loss"]
        sentences.append(loss_sentence(self.samples, losses))
        return [*sentences, *filter(None, (calls,))]

    def picture(self) -> Plot | None:
        """Plot the distribution of every cell, or medians of more cells than there are colours."""
        if not self._told:
            return None
        from roslens.analysis.figures.distributions import SIDE_BY_SIDE

        estimates = [
            e for e in self.main_estimates if e.metric == "latency_p50" and e.value is not None
        ]
        if len(estimates) > SIDE_BY_SIDE:
            from roslens.analysis.figures.grid import value_grid

            return value_grid(estimates, "median latency")
        return self._distributions()[0]

    def _distributions(self) -> list[Plot]:
        from roslens.analysis.figures.distributions import distribution_plots

        definition = latency_metric("mean", self.groups[0].scope).definition
        return distribution_plots(self.samples, definition)

    def _headline(self) -> list[Part]:
        """Say which topic the headline covers, where there are several candidates."""
        topic, count = self.groups[0].topic, len(self.groups)
        if topic is None or count < 2:
            return []
        basis = f"the {self.parameters.headline} of the application's"
        if not self.traffic.filter("own")["topic"].is_in([topic]).any():
            basis = "as no topic of the application was recorded"
        if self.parameters.topics:
            basis = "the first that was asked for"
        elif any(run.work_topic == topic for run in self.counting):
            basis = "the work topic of the runs that name one"
        text = (
            f"Headline and figures speak of {topic}, {basis}; {count - 1} more topics have rows of "
            "their own under Further topics. No figure is over several topics."
        )
        return [text]

    def loss(self) -> Section:
        """Report losses of the tracer, oddities of the recordings, and undelivered messages."""
        parts = [*self._headline(), *self.tracer_loss()]
        bags = self.tables.bags(self.parameters.bag)
        parts += [f"{run}: {bag}" for run, bag in bags.items()]
        outcomes = outcomes_by_cell(self.samples)
        missed = int(outcomes["missed"].sum())
        sent, unknown = int(outcomes["sent"].sum()), sum(s.unknown for s in self.samples)
        early = sum(s.outcomes.get("not_matched", 0) for s in self.samples)
        ways = {name: sum(s.outcomes.get(name, 0) for s in self.samples) for name in LOST}
        if not outcomes.height or not any(s.outcomes for s in self.samples):
            parts.append(
                Sentence(f"There is no message to look at ({self.groups[0].scope}).", loud=True)
            )
        elif missed:
            parts.append(
                Sentence(
                    f"{missed:,} of {counted(sent + unknown, 'message')} did not "
                    f"arrive ({how_lost(ways)}): percentiles over delivered messages look "
                    "better than what the receiver got. Read those over sent ones beside them.",
                    loud=True,
                )
            )
        elif not unknown:
            text = arrival_sentence(known=sent, early=early) if early else "Every message arrived."
            parts.append(f"{text[:-1]} ({self.groups[0].scope}).")
        if unknown:
            parts.append(Sentence(arrival_sentence(unknown=unknown), loud=True))
        if outcomes.height:
            parts.append(outcomes_table(outcomes))
        if self.parameters.warm_up_s:
            parts.append(
                f"The first {self.parameters.warm_up_s:g} s of each run are left out as "
                f"warm-up: {counted(int(outcomes['left_out'].sum()), 'message')}."
            )
        return Section(*parts)

    def runs(self) -> Section:
        """Report every run, and name those left out."""
        table = runs_table(
            self.tables.tracer_loss, self.samples, [run.name for run in self.counting]
        )
        campaigns = {(run.suite, run.campaign) for run in self.tables.runs if run.campaign}
        parts = [*self.runs_left_out(), *self.design()]
        if len(campaigns) > 1:
            parts.append(
                f"The runs are of {len(campaigns)} campaigns; those of one cell are taken together."
            )
        return Section(*parts, table, *self._flags())

    def _flags(self) -> list[Part]:
        """List oddities of the runs; no run is dropped for them."""
        parts: list[Part] = []
        for names in same_series({s.run.name: s.delivered_ns for s in self.samples}):
            text = f"The same latencies, bit by bit, are in {' and '.join(names)}: the same data?"
            parts.append(Sentence(text, loud=True))
        values = medians(self.samples)
        far = [
            f"{members[place].name} ({members[place].label})"
            for members in cells_of([s.run for s in self.samples if s.run.name in values]).values()
            for place in outlying([values[run.name] for run in members])
        ]
        if far:
            text = (
                f"P50 lies far off the other runs of its cell in {count_of_runs(len(far))} "
                f"(modified z score above {OUTLIER:g}), which stays in: {'; '.join(far[:5])}."
            )
            parts.append(Sentence(text, loud=True))
        cuts = [warm_up(s.delivered_ns) for s in self.samples if s.delivered_ns.size]
        long = sorted(cut for cut in cuts if cut)
        if long:
            parts.append(
                f"Warm-up by MSER-5: {len(long)} of {count_of_runs(len(cuts))} would settle "
                f"faster without their first messages (median {long[len(long) // 2]:,}). "
                f"Nothing is left out but what warm_up_s = {self.parameters.warm_up_s:g} says."
            )
        return parts

    def distributions(self) -> Section:
        """Report ECDF and CCDF of latencies."""
        if not self._delivered:
            return self._nothing_to_show()
        if not self._told:
            bound = max(s.clock_bound_ns for s in self.samples)
            return Section(f"Not drawn: {clocks_refusal(bound)}.")
        return Section(*self._distributions())

    def statistics(self) -> Section:
        """Report mean and percentiles with intervals, over delivered and over sent messages."""
        from roslens.analysis.latency.figures import interval_plot

        main = self.main_estimates
        delivered = [e for e in main if not e.metric.startswith(("latency_sent", "loss"))]
        sent = [e for e in main if e.metric.startswith(("latency_sent", "loss"))]
        if not main:
            return self._nothing_to_show()
        return Section(
            estimates_table(
                delivered, f"Over delivered messages. {delivered[0].definition}", prefix="latency_"
            ),
            estimates_table(
                sent,
                f"Over sent messages, a lost one infinitely late. {sent[0].definition}",
                prefix="latency_",
            ),
            *(
                [interval_plot([e for e in main if not e.metric.startswith("loss")])]
                if self._delivered
                else self._nothing_to_show().parts
            ),
        )

    def factors(self) -> Section:
        """Report main effects and interactions of the factors on the median of each run."""
        if not self._effects:
            return Section("No factor has two levels.")
        return Section(effects_table(self._effects, "P50 of each run"))

    @cached_property
    def _effects(self) -> list[FactorEffect]:
        return self._effects_of(medians(self.samples))

    def _effects_of(self, values: Mapping[str, float]) -> list[FactorEffect]:
        observed = [
            Observation(s.run.cell, values[s.run.name], s.run.block)
            for s in self.samples
            if s.run.name in values
        ]
        return effects(observed, level=self.level)

    @cached_property
    def corrected(self) -> list[CorrectedRun]:
        """Latencies of the first topic, with samples for messages kept from being sent."""
        return corrected_runs(self._headline_messages)

    @property
    def _headline_messages(self) -> pl.LazyFrame:
        """The messages that the headline covers."""
        of_runs = self.groups[0].topics_of_run
        topics = pl.LazyFrame(
            [(run, topic) for run, chosen in of_runs.items() for topic in sorted(chosen)],
            schema={"run": pl.String, "topic": pl.String},
            orient="row",
        )
        return self.messages.join(topics, on=["run", "topic"])

    @cached_property
    def corrected_estimates(self) -> list[Estimate]:
        """Percentiles corrected for coordinated omission, if asked for and no recording paused."""
        if not self.parameters.correct_omission or paused_runs(self.losses):
            return []
        return corrected_estimates(self.samples, self.corrected, self.groups[0], self.level)

    def omission(self) -> Section:
        """Report measured and corrected percentiles side by side, where asked for."""
        if not self.parameters.correct_omission:
            return Section()
        if paused := paused_runs(self.losses):
            return Section(f"Not corrected: nobody knows what {paused[0]} sent while it paused.")
        if not self.corrected_estimates:
            return self._nothing_to_show()
        measured = [e for e in self.main_estimates if e.metric in _CORRECTED]
        added = sum(run.added for run in self.corrected)
        periods = [p for run in self.corrected for p in run.periods_ns]
        irregular = sum(run.not_periodic for run in self.corrected)
        if periods:
            spread = f"{milliseconds(min(periods))} to {milliseconds(max(periods))} ms"
            text = f"{added:,} samples were added, by expected periods of {spread}."
        else:
            text = "No publisher is periodic: nothing was added."
        if irregular and periods:
            text += f" {irregular} publishers are not periodic and stay as measured."
        title = "As measured, and corrected for coordinated omission (a model, no measurement)"
        table = estimates_table([*measured, *self.corrected_estimates], title, prefix="latency_")
        return Section(text, table)

    def further_topics(self) -> Section:
        """Report the main figures of other topics."""
        estimates = chain.from_iterable(self.further_estimates[:_MOST_FURTHER_TOPICS])
        wanted = [e for e in estimates if e.metric in _IN_SHORT]
        further = len(self.groups) - 1
        if not wanted:
            return Section("There is no further topic with a subscription.")
        hidden = further - _MOST_FURTHER_TOPICS
        more = f" {hidden} more are not shown." if hidden > 0 else ""
        order = "the application's own before the system's, then by traffic"
        if self.parameters.headline == "slowest":
            order = order.replace("by traffic", "by median latency")
        if self.parameters.topics:
            order = "as asked for"
        return Section(
            f"{further} further topic{'s' * (further > 1)}, {order}.{more}",
            estimates_table(wanted, "Further topics", prefix="latency_"),
        )

    def worst(self) -> Section:
        """Report the worst messages and their causes."""
        processes = self.tables.table("processes")
        worst = worst_messages(
            self._headline_messages, processes, self.counting, self.parameters.worst
        )
        if not worst.height:
            return self._nothing_to_show()
        from roslens.analysis.figures.timeline import LEGEND
        from roslens.analysis.path.late import explained
        from roslens.analysis.path.path import Paths
        from roslens.analysis.reports.moment import drawn

        worst = explained(worst, lambda run: Paths.of_run(self.tables, run))
        counts = Counter(cause or "not known" for cause in worst["cause"]).most_common()
        causes = ", ".join(f"{count} {cause.replace('_', ' ')}" for cause, count in counts)
        more = f" The first {_PICTURED} are drawn." if worst.height > _PICTURED else ""
        return Section(
            f"What made them late: {causes}.{more}",
            worst_table(worst),
            *(
                drawn(number, row, self.tables)
                for number, row in enumerate(worst.head(_PICTURED).iter_rows(named=True), 1)
            ),
            "From publish to callback_start. A message is late if it takes longer than the P99 of "
            "its subscription in its run. Its cause is what took longest beyond its usual time; "
            "share is the part of this cause in all time beyond the usual. "
            f"Pictures: {LEGEND[:1].lower()}{LEGEND[1:]}, dark grey: on a CPU; "
            "time since a quarter of the latency before the publication.",
        )

    def chains(self) -> Section:
        """Report the main chain; empty where no message led to another."""
        from roslens.analysis.chains.report import ChainsParameters, ChainsReport
        from roslens.analysis.chains.tables import chains_table, parts_table

        count = int(self.messages.select(pl.len()).collect().item())
        if count > _MOST_FOLLOWED:
            return Section(f"Chains of {count:,} messages are followed by: roslens chains PATH.")
        parameters = ChainsParameters.checked(
            {"recordings": self.parameters.recordings, "warm_up_s": self.parameters.warm_up_s,
             "include_failed": self.parameters.include_failed,
             "leave_out": list(self.parameters.leave_out)}
        )  # fmt: skip
        report = ChainsReport(self.tables, parameters)
        try:
            followed = report.chains
        except TooLargeError as error:
            return Section(f"Chains: {error}.")
        longer = [
            c for c in followed if c.instances.complete.height and len(c.named.chain.topics) > 1
        ]
        if not longer:
            return Section()
        return Section(
            *report.sentences(),
            chains_table(longer[:1]),
            parts_table(longer[0]),
            f"Found: {counted(len(longer), 'chain')} of several hops; all of them, and what "
            "is required of them: roslens chains PATH, roslens report chains PATH.",
        )

    def drift(self) -> Section:
        """Report per-run medians against order of execution."""
        from roslens.analysis.latency.figures import drift_plot

        values = medians(self.samples)
        runs = [run for run in self.counting if run.name in values and run.order is not None]
        if len(runs) < 2:
            return Section("Order of execution: not known for at least two runs.")
        effect = order_effect(runs, [values[run.name] for run in runs], self.level)
        definition = latency_metric("p50", self.groups[0].scope).definition
        plot = drift_plot(runs, values, effect, definition)
        drifts = effect.low is not None and effect.high is not None and effect.low * effect.high > 0
        if not drifts:
            return Section(plot)
        return Section(
            Sentence("Latency drifts with the order of execution: see the slope below.", loud=True),
            plot,
        )

    def callbacks(self) -> Section:
        """Report callback durations, and functions in them where stacks were recorded."""
        frame = self.callback_durations
        if not frame.height:
            return Section("No callback was traced.")
        from roslens.analysis.latency.figures import durations_plot
        from roslens.analysis.reports.functions import functions_parts

        return Section(
            *([durations_plot(frame)] if frame["max_ns"].count() else []),
            durations_table(frame),
            *functions_parts(
                self.tables.table("cpu_samples"),
                self.tables.table("waits"),
                self.tables.table("callback_instances"),
                self.level,
            ),
        )

    def services(self) -> Section:
        """Report response times of services, and which requests have no answer."""
        # Where no event shows requests, nothing tells which have no answer.
        shown = pl.col("request_sent_ns").is_not_null() | pl.col("response_taken_ns").is_not_null()
        calls = unanswered(
            self.service_calls.filter(shown), self.tables.table("clients"),
            self.tables.recorded_processes, self.losses,
        ).with_columns(
            pl.col("service").cast(pl.String).fill_null("an unknown service")
        ).filter(~internal("service"), ~has_every_node("service"))  # fmt: skip
        if calls.is_empty() and not self.service_estimates:
            return Section("No call of a service of the application was traced.")
        calls = calls.group_by("service").agg(pl.exclude("run").sum()).sort("service")
        missing, unknown = int(calls["not_answered"].sum()), int(calls["unknown"].sum())
        text = (
            f"{counted(int(calls['requests'].sum()), 'request')}, {missing:,} without an answer"
            + (f"; of {unknown:,} more nobody can say." if unknown else ".")
        )
        without = [
            f"{row['not_answered']:,} of {row['requests']:,} to {row['service']}"
            for row in calls.filter(pl.col("not_answered") > 0).iter_rows(named=True)
        ]
        if without:
            text += f" Without an answer: {some_of(without, _NAMED)}."
        if not self.service_estimates:
            return Section(Sentence(text, loud=missing > 0))
        return Section(
            Sentence(text, loud=missing > 0),
            estimates_table(
                self.service_estimates,
                "Response time of services: " + self.service_estimates[0].definition,
                prefix="service_latency_",
            ),
        )

    def resources(self) -> Section:
        """Report CPU load and memory over time."""
        without = {run.name for run in self.tables.without_resources}
        counting = [run for run in self.counting if run.name not in without]
        parts: list[Part] = []
        if without:
            parts.append(
                f"CPU and memory were not recorded in {count_of_runs(len(without))} (no "
                "resources.parquet)."
            )
        names = pl.LazyFrame({"run": [run.name for run in counting]}, schema={"run": pl.String})
        usage = usage_over_time(self.tables.resources.join(names, on="run"))
        if usage.height:
            from roslens.analysis.latency.figures import usage_plot

            parts.append(usage_plot(usage, counting))
            parts.append(estimates_table(self.resource_estimates, "CPU and memory per run"))
        elif not without:
            parts.append("No sample of CPU or memory was recorded.")
        return Section(*parts)

    # ------------------------------------------------------------ small things

    @property
    def _delivered(self) -> bool:
        return any(s.delivered_ns.size for s in self.samples)

    @property
    def _told(self) -> bool:
        return any(s.is_told for s in self.samples)

    def _nothing_to_show(self) -> Section:
        taken = sum(s.outcomes.get("taken", 0) for s in self.samples)
        why = f" {taken:,} were taken, but their callbacks are not in the trace." if taken else ""
        return Section(Sentence(f"No delivered message with a latency.{why}", loud=True))


_IN_SHORT = ("latency_p50", "latency_p99", "loss")
