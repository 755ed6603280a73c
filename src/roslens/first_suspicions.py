"""Say what looks wrong in recordings, the gravest first, for the first page."""

from __future__ import annotations

import glob
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from roslens.analysis.estimate import short_labels
from roslens.analysis.measures.loss import biased_figures, health_findings, how_lost
from roslens.analysis.measures.samples import LOST, with_cells
from roslens.analysis.measures.services import INFRASTRUCTURE, unanswered
from roslens.analysis.overview.live import PAIR
from roslens.analysis.overview.runs_and_topics import with_several
from roslens.analysis.reports.front import with_interval
from roslens.analysis.reports.numbers import counted, duration
from roslens.first_facts import Facts
from roslens.recordings import Recordings

_PLAIN = re.compile(r"[\w/]+")
"""Names that neither a shell nor YAML interprets."""
_TAIL, _TAIL_MS = 10.0, 1.0
"""A tail is reported if P99 / median reaches the first value, and P99 the second [ms], wherever the
clocks of the hosts are within their bound."""
_BUSY = 0.8
_MOST_ALIKE = 3
"""Findings of one kind on more topics of a cell are one row."""
_GOALS = '"SELECT run, action, outcome, count(*) AS goals FROM action_goals GROUP BY ALL"'
_LOSSES = (
    *("discarded_events", "lost_packets", "truncated"),
    *("missing_head", "missing_tail", "missing_stream"),
)


@dataclass(frozen=True)
class Suspicion:
    """A suspicious finding, its evidence, and a command for a closer look."""

    sentence: str
    command: str


class Suspicions(Facts):
    """What looks wrong in recordings, each with a command that shows more.

    Parameters
    ----------
    recordings
        Recordings that are open and collected.
    paths
        The paths as given, for the proposed commands.
    """

    def __init__(self, recordings: Recordings, paths: Sequence[Path]) -> None:
        super().__init__(recordings)
        self._paths = " ".join(shlex.quote(str(path)) for path in paths)
        self._given = paths

    @cached_property
    def _kinds(self) -> list[list[Suspicion]]:
        """List what looks wrong by kind, the gravest first."""
        kinds = (self._without_ros_events(), self._silences(), self._lost_events(), self._broken(),
                 self._lost_messages(), self._climbs(), self._disturbed(), self._late_timers(),
                 self._tails(), self._busy(), self._unanswered(), self._failed_goals(),
                 self._findings())  # fmt: skip
        return [list(kind) for kind in kinds]

    @property
    def suspicions(self) -> list[Suspicion]:
        """List what looks wrong, the gravest first."""
        return [suspicion for kind in self._kinds for suspicion in kind]

    def _without_ros_events(self) -> Iterator[Suspicion]:
        why = self._all.without_ros_events()
        if why is not None:
            yield Suspicion(f"{_capitalised(why)}.", self._info())

    def _silences(self) -> Iterator[Suspicion]:
        for row in self._all.silences().iter_rows(named=True):
            where = f"In {row['run']}, " if len(self._all.runs) > 1 else ""
            yield Suspicion(where + row["sentence"], f"roslens lab {self._paths}")

    def _lost_events(self) -> Iterator[Suspicion]:
        for loss in self._all.tracer_loss:
            if loss.any:
                text = f"The tracer lost events in {loss.run.name}: {loss.text}."
                check = self._info(loss.run.name, "--check ")
                yield Suspicion(f"{text} {biased_figures([loss])}", check)

    def _broken(self) -> Iterator[Suspicion]:
        for run in self._all.runs:
            if not run.complete:
                yield Suspicion(f"{run.name} {run.why_incomplete}.", self._info(run.name))

    def _disturbed(self) -> Iterator[Suspicion]:
        disturbed = [run for run in self._all.runs if run.disturbances]
        if disturbed:
            sources = "; ".join(
                dict.fromkeys(disturbance for run in disturbed for disturbance in run.disturbances)
            )
            without = f"roslens report latency {self._paths} -p 'leave_out=[disturbed]'"
            some_left = any(run.complete and not run.disturbances for run in self._all.runs)
            yield Suspicion(
                f"{_disturbed(len(disturbed), len(self._all.runs))}: {sources}. Latencies may be "
                "those of the machine's other work.",
                without if some_left else self._info(disturbed[0].name),
            )

    def _lost_messages(self) -> Iterator[Suspicion]:
        by_loss = self.topics.sort("not_arrived", descending=True, maintain_order=True)
        for row, others in self._alike(by_loss, pl.col("not_arrived") > 0):
            on = f"{row['topic']}{self._publisher(row)}"
            if others:
                yield Suspicion(
                    f"Messages on {others + 1} topics did not arrive{cell_in_words(row)}: the most "
                    f"on {on}{self._subscription(row)}, {row['not_arrived']:,} of "
                    f"{row['messages']:,}.",
                    f"roslens report latency {self._paths}",
                )
                continue
            count = f"{row['not_arrived']:,} of {counted(row['messages'], 'message')}"
            ways = self._ways[row["cell"], *(row[name] for name in PAIR)]
            text = (
                f"{count} on {on} did not arrive at {row['to'] or 'its subscription'}"
                f"{cell_in_words(row)}: {how_lost(ways)}."
            )
            topic = row["topic"] if _PLAIN.fullmatch(row["topic"]) else json.dumps(row["topic"])
            chosen = shlex.quote(f"topics=[{topic}]")
            yield Suspicion(text, f"roslens report latency {self._paths} -p {chosen}")

    def _alike(self, topics: pl.DataFrame, condition: pl.Expr) -> list[tuple[dict[str, Any], int]]:
        """Return topics, and how many others each stands for: of many in a cell the first."""
        found: list[tuple[dict[str, Any], int]] = []
        for of_cell in topics.filter(condition).partition_by("cell", maintain_order=True):
            others = of_cell["topic"].n_unique() - 1
            many = others >= _MOST_ALIKE
            rows = of_cell.head(1) if many else of_cell
            found += [(row, others * many) for row in rows.iter_rows(named=True)]
        return found

    @cached_property
    def _several_ends(self) -> dict[str, set[tuple[str, str]]]:
        """Return the cells and topics with several publishers (``from``), and subscriptions."""
        return {end: with_several(self.topics, end) for end in ("from", "to")}

    def _publisher(self, row: Mapping[str, Any]) -> str:
        """Name the publisher of a row of topics, where its topic has several."""
        several = (row["cell"], row["topic"]) in self._several_ends["from"]
        return f" from {row['from'] or '?'}" if several else ""

    def _subscription(self, row: Mapping[str, Any]) -> str:
        """Name the subscription of a row of topics, where its topic has several."""
        several = (row["cell"], row["topic"]) in self._several_ends["to"]
        return f" to {row['to'] or '?'}" if several else ""

    @cached_property
    def _ways(self) -> dict[tuple[str | None, ...], dict[str, int]]:
        """Count the messages that did not arrive by outcome, for each row of topics."""
        messages = with_cells(self._counting.table("messages"), self._cells)
        ways: dict[tuple[str | None, ...], dict[str, int]] = {}
        for *row, outcome, count in (
            messages.filter(pl.col("outcome").is_in(LOST))
            .group_by("cell", "topic", "publisher_node", "subscription_node", "outcome")
            .agg(pl.len())
            .collect()
            .iter_rows()
        ):
            ways.setdefault(tuple(row), {})[outcome] = count
        return ways

    def _late_timers(self) -> Iterator[Suspicion]:
        kind, skipped = ["node", "period_ns"], pl.col("skipped")
        late, longest = pl.col("lateness_ns").max(), skipped.max()
        timers = (
            self._counting.table("timer_activations")
            .group_by("run", "timer_id", *kind)
            .agg(skipped.sum(), len=skipped.count(), late=late, longest=longest)
            .group_by(kind)
            .agg(pl.col("skipped", "len", "longest").sum(), pl.col("late").max())
        )
        skipping = timers.filter(pl.col("skipped") > 0).sort("late", descending=True).collect()
        for row in skipping.iter_rows(named=True):
            due = row["skipped"] + row["len"]
            # No event shows that a timer was cancelled or reset, which leaves one long gap.
            in_one_gap = 1 < row["longest"] > row["skipped"] / 2
            yield Suspicion(
                f"{'Unless it was cancelled or reset meanwhile, the' if in_one_gap else 'The'} "
                f"{duration(row['period_ns'])} timer of {row['node'] or 'an unknown node'} "
                f"did not run {row['skipped']:,} of the {counted(due, 'time')} that it was due; "
                f"its latest start came {duration(row['late'])} after it was due.",
                f"roslens lab {self._paths}",
            )

    def _tails(self) -> Iterator[Suspicion]:
        apart = pl.col("apart_ms")
        surely = pl.coalesce("p99_ms", "worst_ms") - apart
        is_tail = (surely >= _TAIL * (pl.col("p50_ms") + apart)) & (surely >= _TAIL_MS)
        for row, others in self._alike(self.topics, is_tail):
            named = "P99" if row["p99_ms"] is not None else "the longest"
            value = in_ms(row["p99_ms"] or row["worst_ms"])
            ends = f"{self._publisher(row)}{self._subscription(row)}"
            topic = f" --topic {shlex.quote(glob.escape(row['topic']))}" * (not others)
            on = f"{others + 1} topics" if others else f"{row['topic']}{ends}"
            which = f" of {row['topic']}{ends}" * (others > 0)
            yield Suspicion(
                f"Some messages on {on} are late{cell_in_words(row)}: the median{which} is "
                f"{in_ms(row['p50_ms'])}, {named} {value}.",
                f"roslens why {self._paths}{topic}",
            )

    def _busy(self) -> Iterator[Suspicion]:
        for row in self.callbacks.filter(pl.col("busy") >= _BUSY).iter_rows(named=True):
            yield Suspicion(
                f"{callback_in_words(row)} runs for {100 * row['busy']:.0f} % of the time"
                f"{cell_in_words(row)}.",
                f"roslens lab {self._paths}",
            )

    def _unanswered(self) -> Iterator[Suspicion]:
        calls = self._all.table("service_calls").filter(pl.col("request_sent_ns").is_not_null())
        ends = (self._all.table("clients"), self._all.recorded_processes, self._all.table("losses"))
        for row in unanswered(calls, *ends).iter_rows(named=True):
            if row["not_answered"] and not (row["service"] or "").endswith(INFRASTRUCTURE):
                yield Suspicion(
                    f"{row['not_answered']:,} of {counted(row['requests'], 'request')} to "
                    f"{row['service'] or 'an unknown service'} "
                    f"{'has' if row['not_answered'] == 1 else 'have'} no answer in {row['run']}.",
                    f"roslens report latency {self._paths}",
                )

    def _failed_goals(self) -> Iterator[Suspicion]:
        goals = self._all.table("action_goals").group_by("run", "action").agg(
            pl.len(), *((pl.col("outcome") == x).sum().alias(x) for x in ("aborted", "rejected"))
        )  # fmt: skip
        for row in goals.sort("run", "action").collect().iter_rows(named=True):
            ends = [
                f"{row[outcome]:,} {outcome}" for outcome in ("aborted", "rejected") if row[outcome]
            ]
            if ends:
                yield Suspicion(
                    f"Of {counted(row['len'], 'goal')} of {row['action']} in {row['run']}, "
                    f"{' and '.join(ends)}.",
                    f"roslens sql {_GOALS} {self._paths}",
                )

    def _climbs(self) -> Iterator[Suspicion]:
        labels = short_labels([leak.per_second.cell for leak in self.leaks])
        for leak, label in zip(self.leaks, labels, strict=True):
            if leak.verdict == "climbs":
                where = f" with {label}" if len(self.leaks) > 1 else ""
                begin, end = leak.looked_at_s
                yield Suspicion(
                    f"Memory climbs{where}: {with_interval(leak.per_second)}, from "
                    f"{begin:.3g} to {end:.3g} s after the first sample.",
                    f"roslens report leaks {self._paths}",
                )

    def _findings(self) -> Iterator[Suspicion]:
        findings = health_findings(self._health.lazy(), "warning")
        covered = [*_LOSSES, *(["no_ros_events"] if self._all.without_ros_events() else [])]
        for row in findings.filter(~pl.col("kind").is_in(covered)).iter_rows(named=True):
            text = f"{_capitalised(row['what'])} ({row['count']:,} in {row['where']})."
            same_kind = self._health.filter(pl.col("kind") == row["kind"])
            yield Suspicion(text, self._info(same_kind["run"][0]))

    def _info(self, run: str | None = None, option: str = "") -> str:
        """Return an ``info`` command on the first path, or on the run of that name."""
        paths = self._given[:1]
        if run is not None and len(self._given) > 1:
            places = zip(self._all.runs, self._all.recordings, strict=True)
            paths = [recording.path for candidate, recording in places if candidate.name == run]
        return f"roslens info {option}{shlex.quote(str(paths[0]))}"


def _disturbed(count: int, total: int) -> str:
    if total == 1:
        return "The run was disturbed"
    return f"{count} of {total} runs {'was' if count == 1 else 'were'} disturbed"


def _capitalised(text: str) -> str:
    """Begin with a capital letter, unless the text begins with a path or an event name."""
    return re.sub(r"^[a-z](?=[a-z]*[ ,])", lambda first: first[0].upper(), text)


def in_ms(value: float | None) -> str:
    """Format a duration given in ms."""
    return duration(None if value is None else 1e6 * value)


def cell_in_words(row: Mapping[str, Any]) -> str:
    """Return the cell of a row as the end of a phrase; empty if all runs are alike."""
    return f" with {row['cell']}" if row["cell"] else ""


def callback_in_words(row: Mapping[str, Any]) -> str:
    """Name the callback of a row."""
    node = "" if row["kind"] == "function" else f" of {row['node'] or 'an unknown node'}"
    return f"{row['kind'] or 'callback'} {row['name'] or '?'}{node}"
