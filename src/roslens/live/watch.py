"""Run ``roslens watch``: show what programs do, from the files that they write."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
from rich.live import Live

from roslens.analysis.overview.live import PAIR, LastSeconds, Since, last_seconds
from roslens.analysis.reports.numbers import seen
from roslens.analysis.verdicts.budgets import Budget, read_budgets
from roslens.collectors.ros2.live import Model
from roslens.live.chains import Watched, chain_figures, watched_chains
from roslens.live.screen import Moment, clock, html, line, screen
from roslens.live.snapshots import Snapshots
from roslens.live.source import Source, following
from roslens.live.triggers import Settings, Tables, Triggers, read_triggers
from roslens.recording import EXIT_OK, NotEnoughEvidenceError, UsageError
from roslens.recording.manifest import Hit
from roslens.recording.terminal import Console, say
from roslens.recording.text import shown
from roslens.tracing.proc import own_namespace
from roslens.tracing.run import TRIGGERED_NAME

MESSAGES = (
    *("topic", "publisher_node", "subscription_node", "publish_ns", "callback_start_ns"),
    *("latency_ns", "clock_bound_ns", "outcome"),
)
INSTANCES = (
    *("host", "vpid", "vtid", "kind", "name", "node", "start_ns", "end_ns", "duration_ns"),
)


SPARE_NS = 1_000_000_000
"""Events are kept for this much longer than figures and triggers need, in ns."""
_LINES = 6
_MOST_CPU = 0.015
_READ_S = 2.0
_LONGEST_S = 1e9
_LONGEST = 5
"""Refreshes slow down at most by this factor to keep below that fraction of a CPU."""


@dataclass(frozen=True)
class Options:
    """Options of watching.

    Attributes
    ----------
    window_s
        Seconds that figures cover; 0: everything since the start.
    every_s
        Seconds between refreshes.
    once
        Whether to refresh only once.
    as_json
        Whether to print JSON, one line per refresh.
    seconds
        Seconds to watch; None: until the recording ends.
    budgets, triggers
        YAML files; None: no file.
    snapshots
        The folder for recordings of triggers; None: beside the watched folder.
    beside
        The descriptor of a recorder: when it ends, one last look follows, and only actions of
        triggers are printed. None: no recorder.
    chains
        Chains to show, as in `roslens.live.chains.watched_chains`.
    prometheus, token_file, otlp
        Destinations of moments, as in `roslens.live.exports.exporting`.
    """

    window_s: float = 10
    every_s: float = 2
    once: bool = False
    as_json: bool = False
    seconds: float | None = None
    budgets: Path | None = None
    triggers: Path | None = None
    snapshots: Path | None = None
    beside: int | None = None
    chains: Sequence[str] = ()
    prometheus: str | None = None
    token_file: Path | None = None
    otlp: str | None = None

    @property
    def window_ns(self) -> int | None:
        """Return the window in ns; None for everything."""
        return round(self.window_s * 1e9) or None


class Watch:
    """Programs that are being watched.

    Parameters
    ----------
    source
        The events of the programs.
    window_ns
        How far back figures reach, in ns; None: to the start.
    limits
        The budgets that figures are compared with.
    settings
        The triggers and their settings.
    snapshots
        Maker of snapshots when triggers hit; None: no snapshots.
    shows
        Whether to compute figures; otherwise only triggers are evaluated.
    chains
        The chains for which figures are computed.
    living
        Says of nodes, as `Model.nodes` returns them, which processes live, as `last_seconds` takes
        it; None: all live.
    """

    def __init__(
        self,
        source: Source,
        window_ns: int | None,
        limits: Limits,
        settings: Settings | None = None,
        snapshots: Snapshots | None = None,
        *,
        shows: bool = True,
        chains: Sequence[Watched] = (),
        living: Callable[[Iterable[tuple[str, int, int, int]]], Mapping[int, bool]] | None = None,
    ) -> None:
        self._living = living
        self._source = source
        self._window_ns = window_ns
        self._limits = limits
        self._shows = shows
        self._chains = chains
        self._triggers = Triggers(settings) if settings else None
        self.processes = settings.processes if settings else None
        self._snapshots = snapshots
        self._said: deque[str] = deque(maxlen=_LINES)
        self.asked = False
        self.model = Model(
            keep_of(window_ns, settings), lambda: source.read_again(self.model.needed_ns)
        )
        self._back_ns = settings.longest_ns + SPARE_NS if settings else None
        self._dropped = self._events = 0
        self._before: int | None = None
        self._since: Since | None = None
        self._completed: set[str] = set()

    def read(self, *, all_of_it: bool = False) -> None:
        """Read the events since the last call; `all_of_it` as in `Source.read`."""
        frames, losses = self._source.read(all_of_it=all_of_it)
        self.model.feed(frames, losses)
        self._events += sum(frame.height for frame in frames.values())
        dropped = losses.filter(pl.col("kind") == "discarded_events")["count"].sum()
        self._dropped += int(dropped)

    def moment(self, *, all_of_it: bool = False, to_last: bool = False) -> Moment:
        """Read the events since the last call, and return the current moment.

        Parameters
        ----------
        all_of_it
            Nobody writes any more, as in `Source.read`.
        to_last
            Whether figures end at the last event if nothing happened for longer than the window.
        """
        # A due snapshot comes first: its events are being overwritten.
        snapshots = self.make_due()
        self.read(all_of_it=all_of_it)
        notes = [f"{name}: not what a tracer writes, left out" for name in self._source.broken]
        if self._triggers is not None and self._source.flight is None:
            notes.append(
                "no flight recorder writes there: triggers are reported, and record nothing"
            )
        last = self.model.last_ns
        if last is None:
            return Moment(None, None, self._dropped, notes=notes, new=snapshots)
        end = self._source.until_ns or last
        if self._window_ns is not None and end - last > self._window_ns:
            notes.append(f"no event for {(end - last) / 1e9:,.0f} s")
            end = last if to_last else end
        events, self._events = self._events, 0
        since, self._before = self._before, end
        rate = events / ((end - since) / 1e9) if since is not None and end > since else None
        made = self.model.tables()
        tables = Tables(made, self.model.goal_ends, self.processes, self._completed)
        if self.processes is not None:
            self.processes.add(self.model.nodes())
        figures = self._figures(tables, end) if self._shows else None
        exceeded = self._limits.exceeded(figures.topics.to_dicts()) if figures else []
        before = list(self._said)
        hits = self._trigger_hits(tables, end)
        if self._back_ns is not None:
            # However late the next look is, triggers are evaluated on everything up to then.
            self.model.needed_ns = end - self._back_ns
        new = [
            *snapshots,
            *(f"{clock(hit.at_ns)} triggered: {hit.trigger}{seen(hit)}" for hit in hits),
        ]
        new += self.make_due()
        self._said.extend(new)
        records = [hit.model_dump() for hit in hits]
        return Moment(figures, rate, self._dropped, exceeded, records, notes, new, before)

    def _trigger_hits(self, tables: Tables, end: int) -> list[Hit]:
        """Return the triggers that hit now and are not in a cooldown."""
        hits: list[Hit] = []
        if self._triggers is not None and self.model.first_ns is not None:
            hits = self._triggers.hits(tables, self.model.first_ns, end)
        if self.asked:
            hits.append(Hit(trigger="SIGUSR2", at_ns=end))
            self.asked = False
        return hits if self._snapshots is None else self._snapshots.outside_cooldown(hits)

    def make_due(self, *, at_once: bool = False) -> list[str]:
        """Make a due snapshot, or with `at_once` one that is not yet due; return what was made."""
        snapshot = None if self._snapshots is None else self._snapshots.take(at_once=at_once)
        return [snapshot] if snapshot else []

    @property
    def due(self) -> float | None:
        """Return when a snapshot is due, by `time.monotonic`; None if none is due."""
        return None if self._snapshots is None else self._snapshots.due

    def _figures(self, tables: Tables, end: int) -> LastSeconds:
        first = self.model.first_ns
        begin = first if first is not None else end
        used = None
        if self._window_ns is not None:
            begin = max(begin, end - self._window_ns)
        if self.processes is not None:
            used = self.processes.used()
        figures = last_seconds(
            tables.columns("messages", *MESSAGES),
            tables.columns("callback_instances", *INSTANCES),
            begin,
            end,
            self._since,
            used=used,
            alive=None if self._living is None else self._living(self.model.nodes()),
            is_whole=self.model.is_whole,
        )
        self._since = figures.since
        if not self._chains:
            return figures
        return replace(figures, chains=chain_figures(self._chains, tables, begin, end))


class Living:
    """Which processes live; of those that were never seen here, it is not known."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def of(self, nodes: Iterable[tuple[str, int, int, int]]) -> dict[int, bool]:
        """Return whether the processes of nodes live, by number.

        Processes of another PID namespace have other numbers here. If the namespace is not known
        (0), a number that is not there may be of another one.
        """
        own = own_namespace()
        here = {pid: namespace == own for _, pid, namespace, _ in nodes if namespace in (0, own)}
        living = {pid for pid in here if Path(f"/proc/{pid}").exists()}
        self._seen |= living
        return {pid: pid in living for pid, is_own in here.items() if is_own or pid in self._seen}


def keep_of(window_ns: int | None, settings: Settings | None = None) -> int | None:
    """Return how long events are kept for a window: one that began before it still counts in it."""
    if window_ns is None:
        return None
    return max(window_ns, settings.longest_ns if settings else 0) + SPARE_NS


def run_watch(path: Path, options: Options, console: Console) -> int:
    """Watch until the recording ends, time is up, or Ctrl-C; return the verb's exit code.

    Raises
    ------
    UsageError
        No native tracer writes there, budgets, triggers or a chain are invalid, or times are
        negative.
    RunFailedError
        The recordings of triggers cannot be made in their folder.
    NotEnoughEvidenceError
        Only one refresh was requested, and there is no event.
    """
    times = options.window_s, options.every_s, options.seconds or 0
    if not all(0 <= seconds < _LONGEST_S for seconds in times) or options.every_s == 0:
        raise UsageError("--window and --seconds are 0 or more, --every is more than 0")
    limits = Limits(options.budgets)
    settings = read_triggers(options.triggers) if options.triggers else None
    chains = watched_chains(options.chains, settings)
    moment = None
    with following(path, keep_of(options.window_ns, settings)) as source:
        snapshots = None
        if not options.once:
            output = options.snapshots or path.with_name(f"{path.resolve().name}-snapshots")
            noted = source.run / "native" / TRIGGERED_NAME if source.run else None
            snapshots = Snapshots(source.flight, output, settings or Settings(()), noted)
        shows = options.beside is None
        watch = Watch(
            source,
            options.window_ns,
            limits,
            settings,
            snapshots,
            shows=shows,
            chains=chains,
            living=Living().of,
        )
        with (
            _exported(options, path.resolve().name) as export,
            suppress(KeyboardInterrupt),
            _display(options, console) as show,
            _snapshot_signal() as asked,
            watch.processes or nullcontext(),
        ):
            for moment in _moments(watch, source, options, asked):
                show(moment)
                export(moment)
        # Nobody is there later to make a snapshot that is not due yet.
        for snapshot in watch.make_due(at_once=True):
            print(shown(f"roslens: {snapshot}"), file=sys.stderr)
    if options.once and (moment is None or moment.figures is None):
        raise NotEnoughEvidenceError(
            f"{path}: no event of late; of what has ended 'roslens report latency' tells"
        )
    return EXIT_OK


def watch(
    path: str | Path,
    *,
    window: float = 10,
    every: float = 2,
    chains: Sequence[str] = (),
    budgets: str | Path | None = None,
    triggers: str | Path | None = None,
) -> None:
    """Show live what programs do, below a notebook cell, as ``roslens watch`` does.

    The display ends with the recording, or when the kernel is interrupted; the last figures stay.

    Parameters
    ----------
    path
        The folder of a recording that the native tracer is making, or of ``roslens env``.
    window, every
        Seconds that figures cover (0: all so far), and seconds between refreshes.
    chains
        Chains such as ``/camera -> /image -> /viewer``, with ``> 100 ms`` as a deadline.
    budgets, triggers
        YAML files.

    Raises
    ------
    UsageError
        No native tracer writes there, or an argument cannot be read.
    """
    options = Options(
        window_s=window,
        every_s=every,
        chains=chains,
        budgets=None if budgets is None else Path(budgets),
        triggers=None if triggers is None else Path(triggers),
    )
    run_watch(Path(path), options, Console())


def _moments(watch: Watch, source: Source, options: Options, asked: int) -> Iterator[Moment]:
    begun, is_first, is_last = time.monotonic(), True, False
    while True:
        woken, used = time.monotonic(), time.process_time()
        ended = is_last or source.has_ended()
        yield watch.moment(all_of_it=ended, to_last=options.once or ended)
        over = options.seconds is not None and time.monotonic() - begun >= options.seconds
        if options.once or ended or over:
            return
        # The watched programs need the CPU more; the first refresh costs most, but only once.
        used = 0.0 if is_first else time.process_time() - used
        pause = max(options.every_s, min(used / _MOST_CPU, _LONGEST * options.every_s))
        is_first = False
        until = woken + pause
        if watch.due is not None:
            until = min(until, watch.due)
        who = [asked] if options.beside is None else [asked, options.beside]
        ready: list[int] = []
        while not ready and (rest := until - time.monotonic()) > 0:
            ready, _, _ = select.select(who, [], [], min(rest, _READ_S))
            # Read in small parts, so that little waits in memory.
            if not ready and rest > _READ_S:
                watch.read()
        is_last = options.beside in ready
        if asked in ready:
            os.eventfd_read(asked)
            watch.asked = True


@contextmanager
def _snapshot_signal() -> Iterator[int]:
    """Yield a descriptor that becomes readable on SIGUSR2, which requests a snapshot."""
    asked = os.eventfd(0)
    before = signal.signal(signal.SIGUSR2, lambda *_: os.eventfd_write(asked, 1))
    try:
        yield asked
    finally:
        signal.signal(signal.SIGUSR2, before)
        os.close(asked)


@contextmanager
def _exported(options: Options, run: str) -> Iterator[Callable[[Moment], object]]:
    """Yield a function that exports moments; it does nothing, and imports nothing, by default."""
    if options.prometheus is None and options.otlp is None and options.token_file is None:
        yield lambda _: None
        return
    from roslens.live.exports import exporting  # noqa: PLC0415  (an extra)

    with exporting(options.prometheus, options.token_file, options.otlp, run) as take:
        yield take


def _print_new(moment: Moment) -> None:
    for text in moment.new:
        say(f"roslens: {text}")


@contextmanager
def _display(options: Options, console: Console) -> Iterator[Callable[[Moment], object]]:
    """Yield a function that shows a moment: as JSON, a screen, notebook output, or a line.

    Beside a recorder, it prints only the actions of triggers.
    """
    if options.beside is not None:
        yield _print_new
    elif options.as_json:
        yield lambda moment: say(json.dumps(moment.to_json()))
    elif options.once:
        yield lambda moment: console.print(screen(moment))
    elif console.is_jupyter:
        from IPython import display  # noqa: PLC0415  (an extra)

        shows: Any = display.display
        handle = shows({"text/html": ""}, raw=True, display_id=True)
        yield lambda moment: handle.update({"text/html": html(moment)}, raw=True)
    elif not console.is_terminal:
        yield lambda moment: console.print(
            line(moment), soft_wrap=True, markup=False, highlight=False
        )
    else:
        with Live(console=console, auto_refresh=False, screen=True) as live:
            yield lambda moment: live.update(screen(moment, console.height), refresh=True)


_WATCHED: Mapping[str, tuple[str, str, float]] = {
    "latency_p50": ("p50_ms", "ns", 1e-6),
    "latency_p99": ("p99_ms", "ns", 1e-6),
    "loss": ("lost", "1", 1.0),
}
"""For each metric: the column of topics, the metric's unit, and the factor to the column's unit."""


class Limits:
    """Budgets of topics, in the units of the screen.

    Parameters
    ----------
    path
        The YAML file, as in ``roslens check``; None: no budgets.

    Raises
    ------
    UsageError
        The file cannot be read, or has a budget that is not watched.
    """

    def __init__(self, path: Path | None) -> None:
        self._limits = [
            (budget, *_limit(budget)) for budget in (read_budgets(path) if path else ())
        ]

    def exceeded(self, topics: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
        """Return budget excesses in rows of topics: `PAIR`, ``column``, ``budget``, ``number``.

        The number is the place of the budget in its file, from 1.
        """
        excesses: list[dict[str, object]] = []
        for row in topics:
            for number, (budget, column, limit) in enumerate(self._limits, 1):
                value = row[column]
                if budget.topic not in (None, row["topic"]) or not isinstance(value, float):
                    continue
                if value > limit if budget.upper else value < limit:
                    about = {name: row[name] for name in PAIR}
                    excesses.append(
                        {**about, "column": column, "budget": budget.text, "number": number}
                    )
        return excesses


def _limit(budget: Budget) -> tuple[str, float]:
    measure = _WATCHED.get(budget.metric)
    if measure is None or set(budget.where) - {"topic"}:
        raise UsageError(
            f"budget '{budget.text}': not watched while programs run; there are "
            f"{', '.join(_WATCHED)}, with or without a topic"
        )
    column, unit, factor = measure
    return column, budget.limit_in(unit) * factor
