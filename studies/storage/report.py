"""Define the parameters of the storage notebook, and build its sections."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol, Self

import polars as pl
from pydantic import Field, model_validator

from roslens.analysis.estimate import Cell, Estimate
from roslens.analysis.figures.plot import Plot
from roslens.analysis.reports.base import Part, Report, Section
from roslens.analysis.reports.given import Tables
from roslens.analysis.reports.parameters import OptionalText, ReportParameters, Texts
from roslens.analysis.reports.table import Sentence
from roslens.analysis.reports.tables import estimates_table, statements_table
from roslens.analysis.runs import Run
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.analysis.verdicts.statement import Statement, verdict_counts
from roslens.recording import Recording, UsageError
from roslens.recording.text import some_of
from roslens.studies.storage import allocations, compression, recorder, recovery, statements, tables
from roslens.studies.storage.clocks import Agreement, agreement
from roslens.studies.storage.figures import bars_plot, effects_plot, write_times_plot
from roslens.studies.storage.live import (
    AS_PUBLISHED,
    DROPPED,
    FACTORS,
    THROUGHPUT,
    LiveRun,
    digests_of,
    estimates,
    machine_of,
    study_cell,
    write_times,
)
from roslens.studies.storage.pairs import claims_table, disk_claims
from roslens.studies.storage.published import CELL, REFUSED, cells, throughput_bounds
from roslens.studies.storage.recorder import RecorderRun
from roslens.studies.storage.recovery import RESILIENCE_RULE, RecoveryRun
from roslens.studies.storage.results.runs import (
    RECORDER_NAME,
    RECOVERY_NAME,
    Facts,
    is_storage_run,
    read_recorder,
    read_recovery,
    read_storage_run,
)


class StorageParameters(ReportParameters):
    """Parameters of the storage notebook.

    Attributes
    ----------
    recordings
        Recordings of the suite storage, or folders with recordings; none: the published rows.
    source
        ``recordings`` or ``published``; empty: depends on whether `recordings` is empty.
    digests
        A digest CSV of the study's ``sweep.py``, or a folder of them, instead of the published.
    threshold
        Relative slowdown that still counts as on par.
    """

    recordings: Texts = Field(default_factory=list)
    source: Literal["", "published", "recordings"] = ""
    digests: OptionalText = None
    threshold: float = Field(0.05, gt=0, lt=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.source == "recordings" and not self.recordings:
            raise UsageError("source = 'recordings', but none is given; give PATH")
        if self.source == "published" and self.recordings:
            raise UsageError("source = 'published' takes no recordings; leave out PATH")
        if self.digests and self.recordings:
            raise UsageError("digests are no recordings; give either PATH or digests")
        return self


CSV_COLUMNS = [*CELL, "mean", "half_width_published", "half_width_t"]
_PUBLISHED = replace(AS_PUBLISHED, scale="signed")
"""The interval by Student's t, of the metric as its authors defined it."""
_HEADLINES = ("storage_throughput", "storage_write_p99", "storage_close_time")


class Opened(Tables, Protocol):
    """Recordings, as ``rl.open`` returns them."""

    @property
    def recordings(self) -> Sequence[Recording]: ...  # noqa: D102


class StorageReport(Report[StorageParameters]):
    """The sections of a storage report; each is computed when it is asked for.

    Parameters
    ----------
    opened
        Recordings of the suite storage; None: `published` is analysed.
    published
        Digests of the study, from `results.comparison.read_digests`.
    """

    # The benchmark runs without ROS 2.
    expected_findings = frozenset({"no_ros_events", "missing_events"})

    def __init__(
        self, opened: Opened | None, published: pl.DataFrame, parameters: StorageParameters
    ) -> None:
        super().__init__(opened, parameters)
        self._published = published
        self._opened = opened
        if opened is not None and not (self.live or self.counted or self.recovery or self.recorded):
            raise UsageError(
                "none of the recordings is a run of the storage benchmark that is complete and not "
                "left out (leave_out); record some with 'roslens record --suite storage'"
            )

    # ------------------------------------------------------------ what is computed once

    @cached_property
    def _recording_of(self) -> Mapping[str, Recording]:
        if self._opened is None:
            return {}
        pairs = zip(self._opened.runs, self._opened.recordings, strict=True)
        return {run.name: recording for run, recording in pairs}

    @cached_property
    def live(self) -> list[LiveRun]:
        """Runs that count and were timed."""
        return [live for live in self._benchmark if live.storage.allocations is None]

    @cached_property
    def counted(self) -> list[LiveRun]:
        """Runs of the suite storage-allocations: counting slowed the calls that they timed."""
        return [live for live in self._benchmark if live.storage.allocations is not None]

    @cached_property
    def _benchmark(self) -> list[LiveRun]:
        runs = []
        for run in self.counting:
            recording = self._recording_of[run.name]
            native = recording.path / "native"
            if is_storage_run(native):
                runs.append(LiveRun(run, machine_of(recording), read_storage_run(native)))
        # Cells are in the order of the study; blocks keep their order within a cell.
        return sorted(runs, key=lambda live: _in_order(live.run.cell))

    @cached_property
    def recovery(self) -> list[RecoveryRun]:
        """Runs of the suite storage-resilience that count."""
        return [
            RecoveryRun(run, machine_of(self._recording_of[run.name]), read_recovery(path))
            for run, path in self._logs(RECOVERY_NAME)
        ]

    @cached_property
    def recorded(self) -> list[RecorderRun]:
        """Runs of the suite storage-recorder that count."""
        return [RecorderRun(run, read_recorder(path)) for run, path in self._logs(RECORDER_NAME)]

    def _logs(self, name: str) -> Iterator[tuple[Run, Path]]:
        """Yield the runs that count and wrote a file of this name."""
        for run in self.counting:
            path = self._recording_of[run.name].path / "native" / name
            if path.is_file():
                yield run, path

    @cached_property
    def resilience(self) -> list[Statement]:
        """Statements on whether MCAP resists a crash better."""
        return recovery.resilience(self.recovery)

    @cached_property
    def compressed(self) -> list[LiveRun]:
        """Runs of the suite storage-compression that count."""
        return [live for live in self.live if live.storage.facts.compression]

    @cached_property
    def compression_claims(self) -> list[Statement]:
        """Claims on the cost of compressing messages, chunks and files."""
        return compression.compression_claims(self.compressed)

    @cached_property
    def disk_claims(self) -> list[Statement]:
        """Claims on the cost of a disk; empty where there is only one place."""
        on = [live for live in self.live if "place" in live.run.cell]
        return disk_claims(on) if len({live.run.cell["place"] for live in on}) > 1 else []

    @property
    def compared_runs(self) -> list[LiveRun]:
        """Runs that have the factors of the study, and no others."""
        # Recordings of earlier versions have a factor `implementation` with one level.
        most = {*FACTORS, "implementation", "suite"}
        return [live for live in self.live if {*FACTORS} <= set(live.run.cell) <= most]

    @cached_property
    def digests(self) -> pl.DataFrame:
        """Throughput of each run, by bytes over time where the calls are known."""
        return self._published if self._opened is None else digests_of(self.compared_runs)

    @cached_property
    def cells(self) -> pl.DataFrame:
        """Each cell with both intervals."""
        return cells(self.digests, self.level)

    @cached_property
    def compared(self) -> pl.DataFrame:
        """Every comparison of the statements."""
        return statements.comparisons(self.digests, self.parameters.threshold)

    @cached_property
    def takeaways(self) -> list[Statement]:
        """The study's statements with their verdicts."""
        return statements.takeaways(self.digests, self.compared)

    @cached_property
    def agreements(self) -> list[Agreement]:
        """Agreement of both clocks, for every run with tracepoints."""
        pairs = [(live, agreement(live, self._recording_of[live.run.name])) for live in self.live]
        return [result for _, result in pairs if result is not None]

    @cached_property
    def estimates(self) -> list[Estimate]:
        """All estimates of the report."""
        if self._opened is not None:
            level = self.level
            return [
                *self._run_estimates,
                *self._allocation_estimates,
                *recorder.recorder_estimates(self.recorded, level),
            ]
        published = []
        for key, group in self.digests.group_by(CELL, maintain_order=True):
            cell = {name: str(level) for name, level in zip(CELL, key, strict=True)}
            values = group["avg_byte_throughput"].to_list()
            published.append(value_over_runs(_PUBLISHED, cell, values, len(values), self.level))
        return published

    @cached_property
    def _run_estimates(self) -> list[Estimate]:
        more = recovery.recovery_estimates(self.recovery, self.level)
        more += compression.compression_estimates(self.compressed, self.level)
        return [*estimates(self.live, self.level), *more]

    @cached_property
    def _allocation_estimates(self) -> list[Estimate]:
        return allocations.allocation_estimates(self.counted, self.level)

    # ------------------------------------------------------------ sections

    def sentences(self) -> list[str]:
        """Summarise the verdicts on the study's takeaways."""
        if self.recovery and not self.live:
            sentences = [_headline(self.resilience, "claims about resilience")]
            return sentences + _sentences(self.resilience)
        if self.recorded and not self.live:
            return [
                recorder.recorder_headline(self.recorded),
                *recorder.recorder_sentences(self.recorded),
            ]
        if self.counted and not self.live:
            return allocations.allocation_sentences(self._allocation_estimates)
        for claims, about in (
            (self.compression_claims, "compression"),
            (self.disk_claims, "a disk"),
        ):
            if claims and self.digests.is_empty():
                figures = compression.compression_sentences(self.compressed)
                return [_headline(claims, f"claims about {about}"), *figures, *_sentences(claims)]
        if self.digests.is_empty():
            count = len(self.live) + len(self.recovery)
            return [f"None of {count} runs has the factors of the study; see the estimates."]
        against = [s for s in self.takeaways if s.failed]
        several = len({s.subject for s in self.takeaways}) > 1
        return [
            _headline(self.takeaways, "statements of the study"),
            *(
                f"{s.told.capitalize()}{f' on {s.subject}' if several else ''}: {s.claim}: "
                f"{s.because}."
                for s in against[:2]
            ),
        ]

    def origin(self) -> Mapping[str, str]:
        """Return the number of rows of the study, or of another sweep, and their machines."""
        machines = ", ".join(self.digests["machine"].unique(maintain_order=True))
        rows = f"{self.digests.height:,}"
        if self.parameters.digests:
            return {"from": self.parameters.digests, "rows": rows, "machines": machines}
        return {"rows of the study": rows, "machines": machines}

    @property
    def _rows(self) -> str:
        """Name of the digests, where no recordings are analysed."""
        given = self.parameters.digests
        return f"rows from {given}" if given else "published rows"

    def picture(self) -> Plot | None:
        """Plot the throughput of every configuration on the first machine."""
        if self.digests.is_empty():
            return None
        definition = _PUBLISHED.definition if self._opened is None else THROUGHPUT.definition
        return bars_plot(self.cells, self.digests["machine"][0], definition)

    def loss(self) -> Section:
        """Report what ran, losses of the tracer, and incomplete runs."""
        if self._opened is None and self.parameters.digests:
            return Section(
                f"{self.digests.height:,} rows from {self.parameters.digests}, digests of the "
                "study's sweep.py; the intervals and answers are computed here."
            )
        if self._opened is None:
            return Section(
                f"{self.digests.height:,} published rows of rosbag2's own plugins (C++); the "
                "measurements are the study's, the intervals and answers are computed here."
            )
        parts: list[Part] = [self._programs_in_words()] if self.live else []
        parts += [*self.tracer_loss(), *self.runs_left_out(), *self._cells_left_out()]
        parts += self.design()
        if not self.live:
            return Section(*parts)
        verified = [live for live in self.live if live.storage.verification]
        readers = sorted({live.storage.verification.reader for live in verified})  # type: ignore[union-attr]
        cells_read = len({live.run.label for live in verified})
        total = len({live.run.label for live in self.live})
        text = (
            f"Read back with {' and '.join(readers)} in {len(verified)} runs ({cells_read} of "
            f"{total} cells): number of messages, bytes and CRC-32 are those written."
            if verified
            else "Nothing was read back."
        )
        parts.append(Sentence(text, loud=not verified))
        return Section(*parts)

    def _cells_left_out(self) -> list[Part]:
        """Name the cells of which every run was left out, as nothing can be compared with them."""
        left = {run.label: run.cell for run in self.left_out}
        for run in self.counting:
            left.pop(run.label, None)
        if not left:
            return []
        labels = [f"({label})" for label in sorted(left, key=lambda label: _in_order(left[label]))]
        them = "it is" if len(labels) == 1 else "they are"
        text = f"No run is left of {some_of(labels, 5)}, so {them} compared with nothing."
        return [Sentence(text, loud=True)]

    def _programs_in_words(self) -> str:
        facts = [live.storage.facts for live in self.live]
        places = " and ".join(sorted({f.file_system for f in facts}))
        sizes = sorted({round(f.bytes / 2**20) for f in facts})
        synced = (
            " Those named +fsync were synced at close, which is in its time; of the others the "
            "system wrote what it held back later, in nobody's time."
            if any(f.plugin_config.endswith("+fsync") for f in facts)
            else ""
        )
        return (
            f"{len(self.live)} runs of {' or '.join(map(str, sizes))} MiB each on {places}: "
            f"rosbag2 {_versions(facts, 'rosbag2')}'s own plugins, with the C++ library mcap "
            f"{_versions(facts, 'mcap')} and SQLite {_versions(facts, 'sqlite')}.{synced}"
        )

    def verdicts(self) -> Section:
        """Report the statements of the study."""
        if self.digests.is_empty():
            return Section("No run has the factors of the study.")
        columns = {"machine": "subject", "the study says": "claim", "answer": "told"}
        title = "What the study says, judged by rules declared beforehand"
        return Section(statements_table(self.takeaways, columns | {"cells": "because"}, title))

    def throughput(self) -> Section:
        """Report bar charts as published."""
        definition = _PUBLISHED.definition if self._opened is None else THROUGHPUT.definition
        machines = self.digests["machine"].unique(maintain_order=True)
        return Section(*(bars_plot(self.cells, m, definition) for m in machines))

    def as_it_should_be(self) -> Section:
        """Report the metric as published against all bytes over all time."""
        if self._opened is None:
            return Section(
                f"All bytes over all time is refused: {REFUSED}.",
                tables.bounds_table(throughput_bounds(self.digests)),
            )
        biased = [e for e in self.estimates if e.metric == AS_PUBLISHED.name]
        right = {str(e.cell): e for e in self.estimates if e.metric == "storage_throughput"}
        factors = [
            (e.value / r.value, e)
            for e in biased
            if (r := right.get(str(e.cell))) is not None
            and e.value is not None
            and r.value is not None
            and r.value > 0
        ]
        if not factors:
            return Section("No throughput was estimated.")
        most, worst = max(factors, key=lambda pair: pair[0])
        return Section(
            "The published metric, the mean of each call's own ratio without the close, says "
            f"up to {most:.1f} times as much as bytes over time (in {dict(worst.cell)}): calls "
            "that only fill a buffer look free."
        )

    def effects(self) -> Section:
        """Report comparisons between configurations."""
        if self.compared.is_empty():
            return Section("There is nothing to compare.")
        each = [tables.compared_table(self.compared, s) for s in statements.STATEMENTS]
        shown = effects_plot(self.compared, statements.STATEMENTS, self.parameters.threshold)
        return Section(shown, *(table for table in each if table.rows))

    def write_calls(self) -> Section:
        """Report how long single write calls take."""
        if self._opened is None:
            return Section(f"The {self._rows} are digests: single calls are not known.")
        samples: dict[tuple[str, str], dict[str, list[object]]] = {}
        for live in self.compared_runs:
            size, batch, config = study_cell(live)
            panel = samples.setdefault((size, batch), {})
            panel.setdefault(config, []).append(write_times(live))
        if not samples:
            return Section("No run has the factors of the study.")
        ordered = {key: dict(sorted(panel.items())) for key, panel in samples.items()}
        return Section(write_times_plot(ordered))  # type: ignore[arg-type]

    def resources(self) -> Section:
        """Report all estimates, with CPU load, memory, size and close time."""
        if self._opened is None:
            return Section(f"CPU, memory and size on disk are not in the {self._rows}.")
        if not self._run_estimates:
            return Section("No run was timed.")
        first = [e for e in self._run_estimates if e.metric in _HEADLINES]
        rest = [e for e in self._run_estimates if e.metric not in _HEADLINES]
        return Section(
            estimates_table(first, "Throughput, slow calls, close", prefix="storage_", most=300),
            estimates_table(rest, "CPU, memory, size", prefix="storage_", most=300),
        )

    def sustained(self) -> Section:
        """Report how many messages were dropped when they came at a rate."""
        dropped = [e for e in self.estimates if e.metric == DROPPED.name]
        if not dropped:
            return Section("Not measured here: 'roslens record --suite storage-sustained' does.")
        late = max(live.storage.facts.producer_late_ns or 0 for live in self.live) / 1e6
        return Section(
            f"The source itself was late by at most {late:,.1f} ms; what it could not send in "
            "time it sent as a burst.",
            estimates_table(dropped, DROPPED.definition, prefix="storage_", most=300),
        )

    def recorder(self) -> Section:
        """Report where a recorder loses messages, from the publishers to the file."""
        if not self.recorded:
            return Section("Not measured here: 'roslens record --suite storage-recorder' does.")
        facts = [run.facts for run in self.recorded]
        versions = " and ".join(sorted({f.rosbag2_version for f in facts}))
        readers = " and ".join(sorted({f.reader for f in facts}))
        late = max(f.late_ns for f in facts) / 1e6
        return Section(
            f"Serialized subscriptions fed the writer of rosbag2 {versions}; the bags were "
            f"read back with {readers}. Publishers were behind by at most {late:,.1f} ms.",
            *recorder.recorder_sentences(self.recorded),
            recorder.recorder_table(self.recorded, self.level),
        )

    def allocations(self) -> Section:
        """Report the allocations of write calls."""
        if not self.counted:
            return Section("Not counted here: 'roslens record --suite storage-allocations' does.")
        return Section(allocations.allocations_table(self._allocation_estimates))

    def compression(self) -> Section:
        """Report the bytes and the cost of compressing each message, chunks, or the file."""
        if not self.compressed:
            return Section("Not measured here: 'roslens record --suite storage-compression' does.")
        return Section(
            claims_table(self.compression_claims, "Which compression leaves and takes less?"),
            compression.compression_table(self._run_estimates),
        )

    def disk(self) -> Section:
        """Report the cost of a disk compared with memory, and of a sync."""
        if not self.disk_claims:
            return Section("Not measured here: 'roslens record --suite storage-disk' does.")
        return Section(claims_table(self.disk_claims, "What does a disk cost?"))

    def recovered(self) -> Section:
        """Report the messages that survive a crash or a power loss."""
        if not self.recovery:
            return Section(
                "Not measured here (the study claimed it and did not measure it either): "
                "'roslens record --suite storage-resilience' does."
            )
        title = "Does MCAP resist a crash better?"
        claims = claims_table(self.resilience, title, RESILIENCE_RULE)
        return Section(claims, recovery.recovery_table(self.recovery))

    def clocks(self) -> Section:
        """Report tracepoints against the program's own clock."""
        if self._opened is None:
            return Section(f"No traces belong to the {self._rows}.")
        if not self.agreements:
            return Section(
                Sentence("No run has tracepoints of write calls to compare with.", loud=True)
            )
        differ = [a for a in self.agreements if not a.agrees]
        text = (
            f"In {len(differ)} of {len(self.agreements)} runs tracepoints and own clock disagree."
            if differ
            else f"Tracepoints and own clock agree in all {len(self.agreements)} runs."
        )
        return Section(Sentence(text, loud=bool(differ)), tables.agreement_table(self.agreements))

    def files(self) -> Mapping[str, pl.DataFrame]:
        """Return the frames of cells and comparisons; for published rows also of bounds."""
        frames = {"cells.csv": self.cells.select(CSV_COLUMNS), "statements.csv": self.compared}
        if self._opened is None:
            frames["bounds.csv"] = throughput_bounds(self.digests)
        return frames


def _headline(statements: Sequence[Statement], noun: str) -> str:
    """Return the sentence of `verdict_counts` on the answers of each machine to each statement."""
    machines = len({s.subject for s in statements})
    if machines > 1:
        noun = f"answers ({len({s.claim for s in statements})} {noun} on {machines} machines)"
    return verdict_counts(statements, noun)


def _sentences(statements: Sequence[Statement]) -> list[str]:
    """Return each statement as a sentence, with its subject if there are several."""
    several = len({s.subject for s in statements}) > 1
    return [
        f"{f'{s.subject}: ' if several else ''}{s.claim}: {s.told} ({s.because})."
        for s in statements
    ]


def _versions(facts: Sequence[Facts], library: str) -> str:
    return " and ".join(sorted({str(getattr(f, f"{library}_version")) for f in facts}))


_SIZES = {"1MiB": 0, "10KiB": 1, "100B": 2, "mixed": 3}


def _in_order(cell: Cell) -> tuple[int, int, list[tuple[str, str]]]:
    batch = str(cell.get("batch_size", ""))
    rest = [(name, str(level)) for name, level in cell.items() if name != "message_size"]
    return _SIZES.get(str(cell.get("message_size")), 9), len(batch), rest
