"""Describe the analysed runs: the cell and block of each, and whether it counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from roslens.analysis.environment import Environment, environment_of
from roslens.analysis.estimate import Cell, cell_label, shared_factors
from roslens.collectors.excerpt import excerpt_of
from roslens.recording import Recording
from roslens.recording.layout import STILL_RECORDED
from roslens.recording.manifest import Design, Hit, Level, Manifest, Timing
from roslens.recording.text import shown

BARE = "recording"
"""The factor that separates bare traces about which nothing else is known."""
FOLDER = "folder"
"""The factor of bare traces in several folders whose names give no other factor."""


@dataclass(frozen=True)
class Run:
    """One run as the analysis sees it; properties that a bare trace does not give are None.

    Attributes
    ----------
    name
        Name, unique among the analysed runs.
    cell
        The level of each factor.
    block
        Runs of one block were made close together: suite, campaign and repetition.
    order
        Position within its campaign, from 0.
    tracer_buffer_bytes
        Shared memory of the tracer's buffers, which counts as memory of a process once touched.
    ready_ns
        Time at which the workload reported that it was ready.
    work_s
        Planned working time from then on, in s; None where the workload counts messages instead.
    seed, start_ns, design
        Values by which `roslens.analysis.design` checks that the design was followed.
    disturbances
        Properties of the host that were beyond the suite's limits.
    status
        ``complete``, ``failed``, ``interrupted``, ``running``; None without a manifest.
    triggered
        Hits of triggers.
    excerpt
        Description of the part of a recording that the run covers; None for all of it.
    environment
        The machine, the software and the tracer; empty for a bare trace.
    hosts
        Hosts of each member of a merged recording.
    parameters
        Parameters of its workload that are the same in all runs of a suite.
    """

    name: str
    cell: Cell = field(default_factory=dict)
    suite: str | None = None
    campaign: str | None = None
    block: str | None = None
    repetition: int | None = None
    order: int | None = None
    status: str | None = None
    failure: str | None = None
    work_topic: str | None = None
    steal_fraction: float | None = None
    discarded_events: int | None = None
    lost_packets: int | None = None
    git_commit: str | None = None
    ros_distro: str | None = None
    tracer_buffer_bytes: int | None = None
    ready_ns: int | None = None
    elapsed_ns: int | None = None
    work_s: float | None = None
    seed: int | None = None
    start_ns: int | None = None
    design: Design | None = None
    disturbances: tuple[str, ...] = ()
    triggered: tuple[Hit, ...] = ()
    excerpt: str | None = None
    environment: Environment = field(default_factory=dict)
    hosts: str | None = None
    parameters: Cell = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether the run counts: complete, or a bare trace without known status."""
        return self.status in (None, "complete")

    @property
    def why_incomplete(self) -> str | None:
        """Why the run did not complete, as a sentence without its name; None: complete."""
        if self.complete:
            return None
        if self.status == "running":
            return STILL_RECORDED
        return f"did not complete: {self.failure or self.status}"

    @property
    def lossy(self) -> bool:
        """Whether the tracer dropped any events, as far as the recorder knows."""
        return bool(self.discarded_events or self.lost_packets)

    @property
    def label(self) -> str:
        """The cell as text."""
        return cell_label(self.cell)


LeaveOut = Literal["lossy", "disturbed"]
"""Runs that a user may want to leave out: the tracer dropped events; the host was disturbed."""


def why_left_out(
    run: Run, *, include_failed: bool = False, leave_out: Sequence[LeaveOut] = ()
) -> str | None:
    """Return why a run enters no estimate; None: it does.

    Parameters
    ----------
    run
        The run.
    include_failed
        Whether runs that failed count.
    leave_out
        Further kinds of runs to leave out.
    """
    if not run.complete and not include_failed:
        return "did not complete"
    if "lossy" in leave_out and run.lossy:
        return "lost events in the tracer"
    if "disturbed" in leave_out and run.disturbances:
        return "was disturbed by its host"
    return None


@dataclass(frozen=True)
class GivenFactors:
    """Factors that a user gives for a recording, in addition to its manifest or instead of one."""

    factors: Cell = field(default_factory=dict)
    repetition: int | None = None


def runs_of(
    recordings: Sequence[Recording], given: Sequence[GivenFactors] | None = None
) -> list[Run]:
    """Describe recordings as runs, in the same order.

    Runs of different suites never share a cell: with several suites, ``suite`` becomes a
    factor. Nor do bare traces, unless `given` says that they are replications: with other runs,
    ``recording`` becomes a factor.

    Parameters
    ----------
    given
        The given factors of each recording.
    """
    names = unique_names([recording.path for recording in recordings])
    suites = {r.manifest.suite for r in recordings if r.manifest}
    given_factors = [GivenFactors()] * len(recordings) if given is None else given
    # Levels identify a cell, whatever the order in which a manifest lists them.
    order = dict.fromkeys(
        name
        for recording in recordings
        if recording.manifest
        for name in recording.manifest.factors
    )
    runs = []
    for recording, name, more in zip(recordings, names, given_factors, strict=True):
        manifest = recording.manifest
        excerpt = (excerpt_of(recording) or {}).get("in_words")
        if manifest is None:
            alone = len(recordings) == 1
            cell: dict[str, Level] = dict(more.factors)
            if not alone and given is None:
                cell = {BARE: name}
            block = None if more.repetition is None else str(more.repetition)
            bare = Run(name, cell, block=block, repetition=more.repetition, excerpt=excerpt)
            runs.append(bare)
            continue
        cell = {"suite": manifest.suite} if len(suites) > 1 else {}
        of_manifest = manifest.factors
        cell |= {name: of_manifest[name] for name in order if name in of_manifest}
        cell |= more.factors
        runs.append(
            Run(
                name,
                cell,
                parameters=manifest.parameters,
                suite=manifest.suite,
                campaign=manifest.campaign,
                block=f"{manifest.suite}/{manifest.campaign}/{manifest.repetition}",
                repetition=manifest.repetition,
                order=manifest.order,
                status=manifest.status,
                failure=manifest.failure,
                work_topic=manifest.work_topic,
                steal_fraction=manifest.host.steal_fraction,
                discarded_events=manifest.loss.discarded_events,
                lost_packets=manifest.loss.lost_packets,
                git_commit=manifest.environment.git_commit,
                ros_distro=manifest.environment.ros_distro,
                tracer_buffer_bytes=_buffers(manifest),
                ready_ns=manifest.timing.ready_ns if manifest.timing else None,
                elapsed_ns=manifest.elapsed_ns,
                work_s=_work_seconds(manifest.timing),
                seed=manifest.seed,
                start_ns=manifest.start_ns,
                design=manifest.design,
                disturbances=tuple(manifest.disturbances),
                triggered=tuple(manifest.triggered),
                excerpt=excerpt,
                environment=environment_of(manifest),
                hosts=", ".join(
                    f"{member.name} ({', '.join(member.hosts)})" for member in manifest.members
                )
                or None,
            )
        )
    return runs


def _work_seconds(timing: Timing | None) -> float | None:
    if timing is None or timing.messages is not None:
        return None
    return timing.warm_up_s + timing.duration_s + timing.cool_down_s


def _buffers(manifest: Manifest) -> int | None:
    size, count = manifest.tracing.subbuf_size_bytes, manifest.tracing.subbuf_count
    cpus = manifest.host.cpu_count
    return None if size is None or count is None or cpus is None else size * count * cpus


_NAMES_OF_TRACES = ("ust_trace", "ust", "trace", "kernel")
"""Folders that many tools name alike, whose parent has the name of the recording."""


def unique_names(paths: Sequence[Path]) -> list[str]:
    """Return the shortest distinct tail of each path (run, campaign/run, ...).

    The last folder is left out if it has a name that many tools give to traces.
    """
    each = [tuple(map(shown, path.resolve().parts)) for path in paths]
    without = [
        parts[:-1] if len(parts) > 2 and parts[-1] in _NAMES_OF_TRACES else parts for parts in each
    ]
    each = without if len(set(without)) == len(set(each)) else each
    depth = 1
    while True:
        names = ["/".join(parts[-depth:]) for parts in each]
        if len(set(names)) == len(names) or depth > max(map(len, each), default=0):
            return names
        depth += 1


def cells_of(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Group runs by the label of their cell, in order of first appearance of the sorted levels."""
    grouped: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda r: _sort_key(r.cell)):
        grouped.setdefault(run.label, []).append(run)
    return grouped


class OfRun(Protocol):
    """A result of one run."""

    @property
    def run(self) -> Run: ...  # noqa: D102


_T = TypeVar("_T", bound=OfRun)


def by_cell(found: Iterable[_T]) -> list[list[_T]]:
    """Group results of runs by cell, as `cells_of` does."""
    of_run = {result.run.name: result for result in found}
    groups = cells_of(result.run for result in of_run.values()).values()
    return [[of_run[run.name] for run in members] for members in groups]


def constant_factors(runs: Iterable[Run]) -> Cell:
    """Return factors with one level in all of several cells; empty if there is only one cell."""
    cells = [members[0].cell for members in cells_of(runs).values()]
    return shared_factors(cells) if len(cells) > 1 else {}


def _sort_key(cell: Mapping[str, Level]) -> tuple[tuple[str, int, float, str], ...]:
    # Numbers sort by size, before text.
    return tuple(
        (name, 0, float(level), "")
        if isinstance(level, (int, float))
        else (name, 1, 0.0, str(level))
        for name, level in cell.items()
    )
