"""Define the parameters of the executors notebook, and build its sections."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

import polars as pl
from pydantic import Field

from roslens.analysis.estimate import Cell, Estimate, cell_label, not_none, telling_factors
from roslens.analysis.figures.grid import value_grid
from roslens.analysis.figures.plot import Plot
from roslens.analysis.measures.busy import (
    NO_EVENTS,
    PAUSED,
    busy_estimates,
    busy_per_run,
    callbacks_per_run,
)
from roslens.analysis.measures.pauses import lost_events, paused_runs
from roslens.analysis.measures.resources import (
    cpu_between_samples,
    resource_estimates,
    usage_per_run,
)
from roslens.analysis.reports.base import Part, Report, Section, count_of_runs
from roslens.analysis.reports.front import larger_first
from roslens.analysis.reports.functions import functions_parts
from roslens.analysis.reports.numbers import milliseconds, significant
from roslens.analysis.reports.parameters import OptionalText, ReportParameters
from roslens.analysis.reports.study_of_executors import LONG_S, study_table
from roslens.analysis.reports.table import ReportTable, Sentence
from roslens.analysis.reports.tables import estimates_table
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.factorial import FactorEffect, Observation, effects
from roslens.analysis.statistics.over_runs import has_interval
from roslens.analysis.statistics.quantiles import quantile
from roslens.analysis.verdicts.pairs import Pair, overall_pairs, pairs
from roslens.analysis.verdicts.statement import Statement
from roslens.collectors.results.tool_result import ToolResult
from roslens.collectors.ros2.callbacks import is_callback
from roslens.recording import UsageError
from roslens.recording.arrays import Floats, np
from roslens.recording.text import some_of
from roslens.studies.executors import statements
from roslens.studies.executors.agreement import EXPLANATION, STATISTICS, agreement
from roslens.studies.executors.figures import effects_plot, load_plot, pairs_plot
from roslens.studies.executors.work import (
    COUNT,
    ENTITY,
    Work,
    entity_estimates,
    work_estimates,
    work_of_runs,
)


class ExecutorsParameters(ReportParameters):
    """Parameters of the executors notebook.

    Attributes
    ----------
    factor
        The factor whose levels are compared in pairs.
    load
        The factor on the axis; empty: the first of payload, message size and clients that
        varies.
    threshold
        Smallest relative difference that matters.
    """

    factor: str = Field("executor", min_length=1)
    load: OptionalText = None
    threshold: float = Field(0.05, gt=0, lt=1)


LOADS = ("payload", "message_bytes", "clients", "size", COUNT)
"""Factors that are a load; the first that varies is on the axis."""

PAYLOADS = ("payload", "message_bytes", "size")
_TAILS = ("p99", "mean", "max")
"""Statistics that appear in statements and tables only, not in figures."""

_SURE = ("more", "less")
_BYTES = "rss"
_PICTURED = 9
_NAMES = {
    "latency_p50": "The median latency",
    "response_time_p50": "The median response time of calls",
    "goal_time_p50": "The median time of goals",
    "cpu": "The CPU time per second",
}


class ExecutorsReport(Report[ExecutorsParameters]):
    """The sections of a report on executors; each is computed when it is asked for."""

    # ------------------------------------------------------------ what is computed once

    @cached_property
    def work(self) -> list[Work]:
        """The work of each run, with the duration of each piece."""
        return work_of_runs(
            self.tables.table("messages"),
            self.tables.table("service_calls"),
            self.tables.table("action_goals"),
            self.counting,
            self.parameters.warm_up_s,
        )

    @cached_property
    def usage(self) -> pl.DataFrame:
        """CPU load and memory, one row per run."""
        return usage_per_run(self.tables.resources, self.measured_parts, self.parameters.warm_up_s)

    @cached_property
    def work_estimates(self) -> list[Estimate]:
        """Estimates of how long the work took."""
        return work_estimates(self.work, self.level)

    @cached_property
    def resource_estimates(self) -> list[Estimate]:
        """Estimates of CPU load and memory."""
        return resource_estimates(self.usage, self.counting, self.level)

    @cached_property
    def busy_estimates(self) -> list[Estimate]:
        """Estimates of waiting, callbacks, lock waits, and the executor's own work."""
        # In runs that paused, an interval longer than one recorded part would be missed.
        whole = ~pl.col("run").is_in(self._paused)
        losses = self.tables.table("losses")
        busy = busy_per_run(self.tables.table("executor_intervals").filter(whole), losses)
        cut = [run for run, lost in lost_events(losses).items() if lost == math.inf]
        whole &= ~pl.col("run").is_in(cut)
        callbacks = callbacks_per_run(
            self.tables.table("callback_instances").filter(is_callback(), whole),
            self.tables.table("threads"),
            self.measured_parts,
        )
        return busy_estimates(busy, callbacks, self.counting, self.level, self._paused)

    @cached_property
    def _paused(self) -> list[str]:
        return paused_runs(self.tables.table("losses"))

    @cached_property
    def entity_estimates(self) -> list[Estimate]:
        """Estimates of memory per entity."""
        memory = dict(self.usage.select("run", _BYTES).drop_nulls().iter_rows())
        return entity_estimates(memory, self.counting, self.level)

    @property
    def estimates(self) -> list[Estimate]:
        """All estimates of the report."""
        return [
            *self.work_estimates,
            *self.resource_estimates,
            *self.busy_estimates,
            *self.entity_estimates,
        ]

    @cached_property
    def observations(self) -> dict[str, list[Observation]]:
        """Observations by metric: one value per run, with the factors that distinguish cells.

        Percentiles of a cell are left out if its runs have too few samples for them.
        """
        observations: dict[str, list[Observation]] = {}
        # Lower bounds do not show which executor is faster.
        work = {w.run.name: w for w in self.work if w.measured}
        cpu = dict(self.usage.select("run", "cpu").drop_nulls().iter_rows())
        # Sorted by size of the levels, so that the smallest level becomes the reference.
        for members in cells_of(self.counting).values():
            times = {run.name: work[run.name].values_ns for run in members if run.name in work}
            statistics: dict[str, Callable[[Floats], float]] = {
                f"p{round(100 * q)}": partial(quantile, q=q)
                for q in (0.5, 0.99)
                if has_interval(list(times.values()), q, self.level)
            }
            statistics |= {"mean": np.mean, "max": np.max}
            for run in members:
                for name, value in statistics.items():
                    if run.name in work:
                        observation = self._observation(run, float(value(times[run.name])))
                        metric = f"{work[run.name].kind.prefix}_{name}"
                        observations.setdefault(metric, []).append(observation)
                if run.name in cpu:
                    observation = self._observation(run, float(cpu[run.name]))
                    observations.setdefault("cpu", []).append(observation)
        return observations

    @cached_property
    def _distinguishing(self) -> list[str]:
        names = telling_factors([run.cell for run in self.counting])
        factor = self.parameters.factor
        known = any(factor in run.cell for run in self.counting)
        return names if factor in names or not known else [factor, *names]

    def _observation(self, run: Run, value: float) -> Observation:
        cell = {name: run.cell[name] for name in self._distinguishing if name in run.cell}
        return Observation(cell, value, run.block, run.environment)

    @cached_property
    def pairs(self) -> dict[str, list[Pair]]:
        """All pairs of levels of the factor, by metric."""
        return self._compared_by(pairs)

    @cached_property
    def overall(self) -> dict[str, list[Pair]]:
        """The pairs of levels averaged over all conditions that have both, by metric."""
        return self._compared_by(overall_pairs)

    def _compared_by(self, compare: Callable[..., list[Pair]]) -> dict[str, list[Pair]]:
        factor, threshold = self.parameters.factor, self.parameters.threshold
        pairs_by_metric = {
            metric: compare(metric, members, factor, threshold=threshold, level=self.level)
            for metric, members in self.observations.items()
        }
        return {metric: members for metric, members in pairs_by_metric.items() if members}

    @cached_property
    def load(self) -> str:
        """The factor on the axis; empty where no factor is a load."""
        if self.parameters.load:
            return self.parameters.load
        cells = [run.cell for run in self.counting]
        varying = [n for n in LOADS if len({c[n] for c in cells if n in c}) > 1]
        return varying[0] if varying else ""

    # ------------------------------------------------------------ sections

    @cached_property
    def _headline(self) -> dict[str, list[Pair]]:
        """Pairs by metric, averaged over conditions, or within them if there is no average."""
        averaged = {
            metric: members
            for metric, members in self.overall.items()
            if any(p.low is not None for p in members)
        }
        return {metric: averaged.get(metric, members) for metric, members in self.pairs.items()}

    @cached_property
    def _headline_pairs(self) -> list[Pair]:
        """Pairs of medians and of CPU from the headline, the largest sure difference first."""
        return sorted(
            _pairs_with_ratio(self._headline),
            key=lambda p: (p.verdict not in _SURE, -abs(math.log(not_none(p.ratio)))),
        )

    def sentences(self) -> list[str]:
        """State which executor is slower or takes more CPU, by how much, or why none is named."""
        factor = self.parameters.factor
        headline = self._headline_pairs
        if not headline:
            cells = len(cells_of(self.counting))
            refused = [p.refused for members in self.pairs.values() for p in members if p.refused]
            if refused:
                return [f"No two levels of the factor {factor!r} can be compared: {refused[0]}."]
            where = "in the one cell" if cells == 1 else f"in any of the {cells} cells"
            return [f"There are no two levels of the factor {factor!r} to compare {where}."]
        sentences = []
        for metric in dict.fromkeys(p.metric for p in headline):
            pair = next(p for p in headline if p.metric == metric)
            if pair.verdict in _SURE:
                where = f" ({cell_label(pair.conditions)})" if pair.conditions else ""
                where = f" over {pair.over} conditions" if pair.over > 1 else where
                bounds = not_none(pair.ratio), not_none(pair.low), not_none(pair.high)
                more, less, how = larger_first(str(pair.level), str(pair.reference), bounds)
                sentences.append(
                    f"{_NAMES.get(metric, metric)} of {more} is {how.relation} of {less}: "
                    f"{how.numbers}{where}{self._at_p99(pair)}."
                )
        averaged = [p for p in headline if p.over > 1]
        if averaged:
            sentences.append(self._counted(averaged, "on average over conditions"))
        sentences.append(
            self._counted(_pairs_with_ratio(self.pairs), "within one condition" if averaged else "")
        )
        return sentences

    def _counted(self, pairs: Sequence[Pair], where: str) -> str:
        """Return a sentence with the number of pairs that differ."""
        unsure = sum(p.verdict == "not_enough_evidence" for p in pairs)
        alike = sum(p.verdict == "no_difference" for p in pairs)
        differ = len(pairs) - unsure - alike
        sentence = f"Of {len(pairs)} pairs{' ' * bool(where)}{where} {differ} differ"
        sentence += "s" * (differ == 1)
        not_so = "does not" if alike == 1 else "do not"
        sentence += (
            f", {alike} {not_so} (within {100 * self.parameters.threshold:g} %)" if alike else ""
        )
        return sentence + (f", and {unsure} cannot be told apart." if unsure else ".")

    def _at_p99(self, pair: Pair) -> str:
        """Return a clause if P99 surely contradicts a pair of medians, else an empty text."""
        where = (pair.conditions, pair.over, pair.level, pair.reference)
        for p in self._headline.get(f"{pair.metric.removesuffix('_p50')}_p99", ()):
            same = (p.conditions, p.over, p.level, p.reference) == where
            if same and p.verdict in _SURE and p.verdict != pair.verdict:
                # The sentence begins with the larger of the medians.
                ratio = not_none(p.ratio)
                ratio = ratio if pair.verdict == "more" else 1 / ratio
                return f"; at P99 it is the other way round: {ratio:.2f}"
        return ""

    def picture(self) -> Plot | None:
        """Plot the pairs, first the metrics and conditions in which levels differ most.

        Without pairs, plot the medians of all cells.
        """
        if not self._headline_pairs:
            of_work = [e for e in self.work_estimates if e.metric.endswith("_p50")]
            medians = [e for e in of_work if e.value is not None]
            first = [e for e in medians if e.metric == medians[0].metric]
            return (
                value_grid(first, first[0].metric.replace("_p50", ", median").replace("_", " "))
                if len(first) > 1
                else None
            )
        averaged = [
            p
            for members in self._headline.values()
            for p in members
            if p.over > 1 and not p.metric.endswith(("mean", "max"))
        ]
        within = [p for p in self._headline_pairs if p.over == 1]
        return pairs_plot([*averaged, *within], self.parameters.factor, _PICTURED)

    def loss(self) -> Section:
        """Report losses of the tracer, and the runs that enter no estimate."""
        return Section(*self.tracer_loss(), *self.runs_left_out())

    def work_done(self) -> Section:
        """Report how long messages, calls and goals took, against the load."""
        if not self.work:
            text = "No message, service call or goal with a beginning and an end was traced."
            return Section(Sentence(text, loud=True))
        parts: list[Part] = [*self._runs_without_work(), *self._runs_with_bounds()]
        for prefix, noun in dict.fromkeys((w.kind.prefix, w.kind.noun) for w in self.work):
            for statistic in ("p50", "p99"):
                parts += self._against_load(f"{prefix}_{statistic}", f"{noun}, {statistic.upper()}")
        parts.append(estimates_table(self.work_estimates, "How long the work took, per cell"))
        return Section(*parts)

    def _runs_without_work(self) -> list[Part]:
        worked = {w.run.name for w in self.work}
        without = [run.name for run in self.counting if run.name not in worked]
        if not without:
            return []
        text = (
            f"In {count_of_runs(len(without))} no piece of work has both its ends in the trace: "
            f"{some_of(without, 5)}. Before Kilted the trace of a service or an action "
            "has no requests and responses; only its CPU and memory are given."
        )
        return [text]

    def _runs_with_bounds(self) -> list[Part]:
        bounds = [w for w in self.work if not w.measured]
        if not bounds:
            return []
        nouns = " and ".join(dict.fromkeys(f"{w.kind.noun}s" for w in bounds))
        text = (
            f"In {count_of_runs(len(bounds))} the trace does not show when {nouns} began: how long "
            "they took has lower bounds alone, and executors are not compared by them."
        )
        return [Sentence(text, loud=True)]

    def _against_load(self, metric: str, title: str) -> list[Part]:
        shown = [e for e in self.estimates if e.metric == metric and e.value is not None]
        if not shown:
            return []
        narrowed = [self._narrowed(e) for e in shown]
        return [load_plot(narrowed, self.parameters.factor, self.load or "load", title)]

    def _narrowed(self, estimate: Estimate) -> Estimate:
        """Return the estimate with only the factors that distinguish cells."""
        names = {*self._distinguishing, self.load}
        return replace(estimate, cell={k: v for k, v in estimate.cell.items() if k in names})

    def cpu(self) -> Section:
        """Report CPU load and memory against the load."""
        if not self.resource_estimates:
            return Section("CPU and memory were not recorded.")
        return Section(
            *self._against_load("cpu", "CPU"),
            *self._against_load("rss", "RSS"),
            estimates_table(self.resource_estimates, "CPU and memory per run"),
        )

    def busy(self) -> Section:
        """Report how long executors waited and worked."""
        metrics = {e.metric for e in self.busy_estimates if e.value is not None}
        without = (
            "have no executor events (record ros2:*; only the tracers of roslens record when an "
            "events executor waits). Their callbacks and the CPU time of their threads "
            "(samplers.threads) show how busy they were."
        )
        if not metrics and not self._paused:
            return Section(f"No callback was traced, and the executors {without}")
        refused = [e.refused for e in self.busy_estimates if e.metric == "executor_wait"]
        return Section(
            *([f"Some executors {without}"] if NO_EVENTS in refused else []),
            *([f"How busy executors were is not known of {PAUSED}."] if self._paused else []),
            *self._against_load("executor_overhead", "the executor's own work"),
            *self._against_load("executor_blocked", "blocked by the executor's lock"),
            estimates_table(self.busy_estimates, "Where the time of the executor's threads went"),
            *functions_parts(
                self.tables.table("cpu_samples"),
                self.tables.table("waits"),
                self.tables.table("callback_instances"),
                self.level,
            ),
        )

    def compared(self) -> Section:
        """Report every pair of executors under the same conditions."""
        all_pairs = [pair for members in self.pairs.values() for pair in members]
        if not all_pairs:
            text = f"There are no two levels of the factor {self.parameters.factor!r} to compare."
            return Section(text)
        shown = [p for p in all_pairs if not p.metric.endswith(_TAILS)]
        return Section(
            f"A difference matters from {100 * self.parameters.threshold:g} % on. Ratios are "
            "of geometric means, within blocks (repetitions) where there are at least three.",
            pairs_plot(shown, self.parameters.factor),
        )

    def factor_effects(self) -> Section:
        """Report main effects and interactions, per kind of work."""
        parts: list[Part] = []
        for metric, members in self.observations.items():
            if metric.endswith(_TAILS):
                continue
            for title, part in _by_design(members):
                estimated = self._effects(part)
                bounded = [e for e in estimated if e.value is not None and e.low is not None]
                name = f"{metric} ({title})" if title else metric
                if bounded:
                    parts.append(effects_plot(estimated, name))
                elif estimated and estimated[0].refused:
                    parts.append(f"{name}: no effects: {estimated[0].refused}.")
        return Section(*parts) if parts else Section("There is only one cell.")

    def _effects(self, members: Sequence[Observation]) -> list[FactorEffect]:
        names = telling_factors([o.cell for o in members])
        narrow = [
            Observation({k: o.cell[k] for k in names if k in o.cell}, o.value, o.block)
            for o in members
        ]
        return effects(narrow, level=self.level)

    def entities(self) -> Section:
        """Report memory against the number of entities."""
        if not self.entity_estimates:
            return Section()
        return Section(
            load_plot(
                [e for e in self.resource_estimates if {ENTITY, COUNT} <= e.cell.keys()
                 and e.metric == _BYTES],
                ENTITY,
                COUNT,
                "RSS",
            ),
            estimates_table(self.entity_estimates, "Memory per entity"),
        )  # fmt: skip

    def tools(self) -> Section:
        """Report the benchmark's own figures next to those from the trace."""
        parts: list[Part] = []
        for run in self.counting:
            result = self.tables.tool_results.get(run.name)
            if result is None:
                continue
            if isinstance(result, UsageError):
                text = f"{run.name}: what a benchmark tool wrote cannot be read: {result}"
                parts.append(Sentence(text, loud=True))
                continue
            rows = self.tables.only(run.name).table("messages").collect()
            parts.append(_agreement_table(agreement(rows, result), run.name, result))
        if not parts:
            return Section()
        return Section(EXPLANATION, *parts)

    def statements(self) -> Section:
        """Report statements of the published study, and whether these recordings support them."""
        cpu_pairs = self.pairs.get("cpu", [])
        cpu = self.observations.get("cpu", [])
        middlewares = {run.environment.get("software", {}).get("RMW", "") for run in self.counting}
        rmw = middlewares.pop() if len(middlewares) == 1 else ""
        done = [(w.run.cell.get(self.parameters.factor), w.kind) for w in self.work]
        return Section(
            study_table(
                [
                    statements.cpu_statement(cpu_pairs, done, self._cpu_without_actions(cpu)),
                    statements.latency_statement(
                        self.pairs.get("latency_mean", []), self.overall.get("latency_mean", [])
                    ),
                    statements.payload_statement("CPU", self._by_payload("cpu"), rmw),
                    statements.payload_statement("Latency", self._by_payload("latency_mean"), rmw),
                    statements.saving_statement(cpu, self.parameters.factor, self.level),
                    *self._over_time(),
                ]
            )
        )

    def _cpu_without_actions(self, cpu: Sequence[Observation]) -> list[Pair]:
        """Return pairs over all conditions except those of actions."""
        rest = [o for o in cpu if not statements.is_of_actions(o.cell)]
        parameters = self.parameters
        return overall_pairs(
            "cpu", rest, parameters.factor, threshold=parameters.threshold, level=self.level
        )

    def _over_time(self) -> list[Statement]:
        """Judge the study's statements on CPU over time, by the runs that were long enough."""
        samples = cpu_between_samples(
            self.tables.resources, self.measured_parts, self.parameters.warm_up_s
        )
        cpu, length = pl.col("cpu"), pl.col("seconds").sum()
        of_run = (
            samples.group_by("run")
            .agg(
                length,
                mean=(cpu * pl.col("seconds")).sum() / length,
                largest=cpu.max(),
                deviation=cpu.std(),
            )
            .filter(pl.col("seconds") >= LONG_S)
        )
        by_run = {row["run"]: row for row in of_run.iter_rows(named=True)}
        return [
            claim.judged(
                pairs(
                    claim.measure,
                    [
                        self._observation(run, by_run[run.name][claim.measure])
                        for run in self.counting
                        if run.name in by_run
                        and run.cell.get("workload") in claim.workloads
                        and statements.is_of_the_study(run.cell.get(self.parameters.factor))
                    ],
                    self.parameters.factor,
                    threshold=claim.threshold,
                    level=self.level,
                )
            )
            for claim in statements.OVER_TIME
        ]

    def _by_payload(self, metric: str) -> list[Pair]:
        """Return pairs of payloads, in all conditions; empty where another load was varied."""
        if self.load not in PAYLOADS:
            return []
        members = self.observations.get(metric, [])
        numbers = [o for o in members if isinstance(o.cell.get(self.load), int | float)]
        threshold = self.parameters.threshold
        return pairs(metric, numbers, self.load, threshold=threshold, level=self.level)

    def files(self) -> Mapping[str, pl.DataFrame]:
        """Return the frame of all pairs: over all conditions, then within each."""
        groups = (self.overall, self.pairs)
        return {
            "pairs.csv": pairs_frame(
                [p for group in groups for members in group.values() for p in members]
            )
        }


def _pairs_with_ratio(pairs_by_metric: Mapping[str, Sequence[Pair]]) -> list[Pair]:
    """Return pairs of medians and of CPU that have a ratio."""
    return [
        p
        for members in pairs_by_metric.values()
        for p in members
        if not p.metric.endswith(_TAILS) and p.ratio is not None
    ]


def pairs_frame(found: Sequence[Pair]) -> pl.DataFrame:
    """Return one row per pair: metric, conditions, their number, ratio, interval, p, verdict."""
    names = list(dict.fromkeys(name for p in found for name in p.conditions))
    return pl.DataFrame(
        [
            {
                "metric": p.metric,
                **{n: None if n not in p.conditions else str(p.conditions[n]) for n in names},
                "over": p.over,
                "level": str(p.level),
                "reference": str(p.reference),
                "ratio": p.ratio,
                "low": p.low,
                "high": p.high,
                "p_holm": p.p_holm,
                "verdict": p.verdict,
                "refused": p.refused,
            }
            for p in found
        ],
        infer_schema_length=None,
    )


def _by_design(members: Sequence[Observation]) -> list[tuple[str, list[Observation]]]:
    """Split observations by the first factor if its levels have other factors (messages, calls)."""
    names = list(dict.fromkeys(name for o in members for name in o.cell))
    cells = {tuple(str(o.cell.get(n)) for n in names) for o in members}
    product = 1
    for i in range(len(names)):
        product *= len({cell[i] for cell in cells})
    first = names[0] if names else ""
    if product == len(cells) or len({o.cell.get(first) for o in members}) < 2:
        return [("", list(members))]
    parts: dict[str, list[Observation]] = {}
    for o in members:
        rest: Cell = {k: v for k, v in o.cell.items() if k != first}
        label = f"{first}={o.cell.get(first)}"
        parts.setdefault(label, []).append(Observation(rest, o.value, o.block))
    return list(parts.items())


def _agreement_table(subscriptions: pl.DataFrame, run: str, result: ToolResult) -> ReportTable:
    statistics = [s for s in STATISTICS if f"{s}_tool_ns" in subscriptions.columns]
    rows, marked = [], set()
    for index, r in enumerate(subscriptions.iter_rows(named=True)):
        if r["received_tool"] != r["received_trace"]:
            marked.add(index)
        rows.append(
            [
                r["node"],
                r["topic"],
                f"{r['received_tool']:,}",
                f"{r['received_trace']:,}",
                *(
                    milliseconds(r[f"{s}_{source}_ns"])
                    for s in statistics
                    for source in ("tool", "trace")
                ),
            ]
        )
    headings = [f"{s}, {source} [ms]" for s in statistics for source in ("tool", "trace")]
    shared = subscriptions.drop_nulls(["mean_tool_ns", "mean_trace_ns"])
    above = ((shared["mean_tool_ns"] - shared["mean_trace_ns"]) / 1e3).to_list()
    note = (
        f"The tool's mean is {significant(min(above), 3)} to {significant(max(above), 3)} us above "
        "the trace's."
        if above
        else "No subscription is known to both."
    )
    return ReportTable(
        ["node", "topic", "received, tool", "received, trace", *headings],
        rows,
        f"{run}: {result.tool} and the trace",
        notes=[note, *result.notes],
        marked=frozenset(marked),
        left=frozenset({"node", "topic"}),
    )
