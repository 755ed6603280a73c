"""Run ``roslens race``: run two sides in pairs until it is known which one is slower."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from roslens.analysis.estimate import Better, Estimate, Metric, cell_label, not_none
from roslens.analysis.reports.numbers import counted
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.analysis.statistics.sequential import (
    OPENING,
    RatioInterval,
    confidence_sequence,
    resolution_of,
)
from roslens.analysis.verdicts.comparison import Comparisons, SideName, Unmatched, compare_sides
from roslens.analysis.verdicts.one_cell import Comparison
from roslens.analysis.verdicts.race import decided
from roslens.analysis.verdicts.sides import Key, key_of
from roslens.analysis.verdicts.statement import Verdict
from roslens.compare import parse_threshold
from roslens.compare_shown import comparison_table
from roslens.output import save_plot, write_text
from roslens.printed import NO_BOUND, escaped, markdown_rows, print_verdicts
from roslens.recording import InterruptedRunError, RunFailedError, UsageError
from roslens.recording.terminal import Console, say
from roslens.sides import estimates_of_run, load_side
from roslens.tracing.campaign import RECORDINGS
from roslens.tracing.checkouts import checkouts
from roslens.tracing.interruption import Interruption
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.race import (
    SIDES,
    Ended,
    Note,
    Pair,
    Side,
    race,
    side_of_command,
    side_of_suite,
)
from roslens.tracing.suite import RosChoice

RACE_NAME = "race.json"
THRESHOLD = "5%"
TIME = "time"
_BY_DEFAULT = ("latency_p50", TIME)
"""The default metrics: the first one measured in both runs of the first pair is raced."""
_NO_LATENCY = "no message that reached a callback was recorded on both sides"
_LEVEL = 0.95
_BAR = 41
METHOD = (
    "confidence sequence for the ratio of runs in random order, the level shared by all cells "
    "(docs/racing.md)"
)


@dataclass
class _Race:
    """State of a race: values and intervals of the pairs so far.

    Attributes
    ----------
    lacking
        By cell, number of pairs after the opening in which A and B had no value.
    only_in
        The side that has a metric of a cell that the other side lacks, and that is not raced.
    """

    metrics: Sequence[str]
    topics: Sequence[str]
    threshold: float | None
    precision: float | None
    console: Console
    values: dict[Key, tuple[list[float], list[float]]] = field(default_factory=dict)
    metric: Metric | None = None
    cells: list[Key] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    lacking: dict[Key, list[int]] = field(default_factory=dict)
    only_in: dict[tuple[str, Key], SideName] = field(default_factory=dict)

    @property
    def better(self) -> Better:
        assert self.metric is not None
        return self.metric.better or "lower"

    def interval(self, key: Key, pairs: int | None = None) -> RatioInterval:
        """Return the interval of B / A after some pairs; all cells' hold jointly at 95 %."""
        level = 1 - (1 - _LEVEL) / max(1, len(self.cells))
        a, b = (values[:pairs] for values in self.values[key])
        return confidence_sequence(a, b, resolution_of(self.threshold, self.precision), level)

    def intervals(self) -> dict[Key, RatioInterval]:
        """Return the latest interval of each cell."""
        return {key: self.interval(key) for key in self.values}

    def add(self, pairs: Sequence[Pair]) -> bool:
        """Add the newest of the pairs so far; return whether the race is over."""
        of_a, of_b = measured = self._measured(pairs[-1])
        seen = list(self.values)
        if len(pairs) == 1:
            # The number of cells that share the level is fixed before any comparison.
            self.cells = self.cells or [key for key in of_a if key in of_b]
            self.values = {key: ([], []) for key in self.cells}
            self.lacking = {key: [0, 0] for key in self.cells}
            seen = list(dict.fromkeys([*self.cells, *of_a, *of_b]))
        self.pairs = list(pairs)
        if len(pairs) <= OPENING:
            # The order of the remaining runs of a cell that lacks one would no longer be random.
            for key in [key for key in seen if key not in of_a or key not in of_b]:
                self._leave_out(key, *measured)
        if not self.values:
            raise UsageError("nothing was measured in each of the first runs of the race")
        for key, values in self.values.items():
            if key in of_a and key in of_b:
                for of_side, side in zip(values, measured, strict=True):
                    of_side.append(_value(side[key]))
            else:
                lacking = [key not in side for side in measured]
                self.lacking[key] = [
                    n + more for n, more in zip(self.lacking[key], lacking, strict=True)
                ]
        verdicts = {
            key: self.unless_lacking(
                key, decided(interval, self.threshold, self.precision, self.better)
            )
            for key, interval in self.intervals().items()
        }
        self._print_progress(pairs[-1], verdicts)
        return "regression" in verdicts.values() or None not in verdicts.values()

    def unless_lacking(self, key: Key, verdict: Verdict | None) -> Verdict | None:
        """Withdraw a verdict against the side that has values of more runs, as in `compare`.

        A side may lack those of its slow runs: it is neither faster nor no different for it.
        """
        of_a, of_b = self.lacking[key]
        doubtful: Verdict = "improvement" if of_b > of_a else "regression"
        if of_a != of_b and verdict in ("no_difference", doubtful):
            return "not_enough_evidence"
        return verdict

    def _leave_out(self, key: Key, of_a: Collection[Key], of_b: Collection[Key]) -> None:
        where = cell_label(dict(key))
        self._print(f"{where}: not measured in each of the first runs, and left out")
        self.values.pop(key, None)
        assert self.metric is not None
        self._note_one_sided(self.metric.name, key, of_a, of_b)

    def _note_one_sided(
        self, metric: str, key: Key, of_a: Collection[Key], of_b: Collection[Key]
    ) -> None:
        if (key in of_a) != (key in of_b):
            self.only_in[metric, key] = "base" if key in of_a else "new"

    def _measured(self, pair: Pair) -> tuple[Mapping[Key, Estimate], Mapping[Key, Estimate]]:
        """Return what A and B have of the raced metric, by cell."""
        sides = [
            estimates_of_run(pair.folders[name], self.metrics or _BY_DEFAULT, self.topics)
            for name in SIDES
        ]
        wanted = self.metrics or _BY_DEFAULT if self.metric is None else [self.metric.name]
        for name in wanted:
            a, b = (
                {key_of(e.cell): e for e in estimates if _has_value(e, name)} for estimates in sides
            )
            if self.metric is not None:
                return a, b
            shared = [e for key, e in a.items() if key in b]
            if shared:
                self._choose(shared[0])
                return a, b
            for key in [*a, *b]:
                self._note_one_sided(name, key, a, b)
        measured = sorted(
            {e.metric for estimates in sides for e in estimates if e.value is not None}
        )
        raise UsageError(
            f"{wanted[0]} was not measured in both runs of the first pair; there are: "
            f"{', '.join(measured) or 'none'}"
        )

    def _choose(self, example: Estimate) -> None:
        e = example
        if e.better is None:
            raise UsageError(f"{e.metric} has no better direction: nobody can win by it")
        self.metric = Metric(e.metric, e.definition, e.unit, e.better)
        if not self.metrics:
            why = f" ({_NO_LATENCY})" if e.metric == TIME else ""
            self._print(f"racing {e.metric}: {e.definition}{why}")

    def _print_progress(self, pair: Pair, verdicts: Mapping[Key, Verdict | None]) -> None:
        """Print in one line how far the widest undecided interval has shrunk."""
        intervals = self.intervals()
        open_ones = [key for key, verdict in verdicts.items() if verdict is None]
        key = max(open_ones or intervals, key=lambda k: _width(intervals[k]))
        i = intervals[key]
        where = f" of {cell_label(dict(key))}" if key else ""
        more = f"; {len(verdicts) - len(open_ones)} of {len(verdicts)} cells decided"
        self._print(
            f"pair {pair.number + 1} ({pair.order[0].upper()} first): B / A{where} {i.value:.3g} "
            f"{_drawn_interval(i)}{more if len(verdicts) > 1 else ''}"
        )

    def _print(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def run_race(
    command: Sequence[str],
    suites: Sequence[str],
    refs: Sequence[str],
    *,
    build: str | None,
    only: Sequence[str],
    metrics: Sequence[str],
    topics: Sequence[str],
    threshold: str | None,
    precision: str | None,
    max_time: float,
    pause: float,
    seed: int | None,
    options: TracingOptions,
    ros: RosChoice,
    trace_rclpy: bool,
    time_limit: float | None,
    output: Path | None,
    json_file: Path | None,
    markdown_file: Path | None,
    plot_file: Path | None,
) -> int:
    """Race, print the table, write requested files; return the exit code as ``compare`` does.

    Raises
    ------
    UsageError
        There are not two sides, or something that recording needs is missing.
    RunFailedError
        Runs fail, or no pair is complete.
    InterruptedRunError
        The user asked to end the race.
    """
    console = Console(stderr=True)

    def note(text: str) -> None:
        console.print(f"note: {text}", markup=False, highlight=False, soft_wrap=True)

    if precision is None and threshold is None:
        threshold = THRESHOLD
    wanted = None if threshold is None else parse_threshold(threshold)
    narrow = None if precision is None else parse_threshold(precision, "--precision")
    of_command = partial(
        side_of_command,
        options=options, ros=ros, trace_rclpy=trace_rclpy, time_limit=time_limit, note=note,
    )  # fmt: skip
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    state = _Race(metrics, topics, wanted, narrow, console)
    with _sides(
        command, suites, refs, build=build, only=only, of_command=of_command, note=note
    ) as sides:
        ended = race(
            sides,
            state.add,
            opening=OPENING,
            root=output or RECORDINGS,
            seed=seed,
            max_seconds=max_time,
            longest_pause=pause,
            note=note,
        )
    if state.metric is None:
        if ended.ending == "interrupted":
            raise InterruptedRunError(
                f"interrupted before the first pair was whole; {ended.folder}"
            )
        raise RunFailedError(f"no pair was whole within {max_time:g} s; see {ended.folder}")
    comparisons = _compared(state, ended, wanted or parse_threshold(THRESHOLD))
    sentences = [_sentence(c) for c in comparisons.compared]
    data = {
        **comparisons.to_json(),
        "method": METHOD,
        "race": {
            "sides": dict(zip(SIDES, (side.what for side in sides), strict=True)),
            "refs": dict(zip(SIDES, refs, strict=True)) if refs else None,
            "seed": seed,
            "order": _order(state.pairs),
            "pairs_left_out": list(ended.left_out),
            "threshold": wanted,
            "precision": narrow,
            "ended": ended.ending,
        },
    }
    text = json.dumps(data, indent=1, allow_nan=False) + "\n"
    for file in filter(None, (ended.folder / RACE_NAME, json_file)):
        write_text(file, text)
    if markdown_file is not None:
        lines = [f"**{escaped(sentence)}**  " for sentence in sentences]
        table = comparison_table(comparisons)
        notes = [f"{escaped(footnote)}  " for footnote in table.notes]
        write_text(markdown_file, "\n".join([*lines, "", *markdown_rows(table), "", *notes]) + "\n")
    print_verdicts(comparison_table(comparisons), "\n".join(sentences))
    if plot_file is not None:
        _draw(plot_file, state, dict(zip(sentences, comparisons.compared, strict=True)))
    say(ended.folder)
    if ended.ending == "interrupted":
        raise InterruptedRunError(f"interrupted; what was recorded is in {ended.folder}")
    return comparisons.exit_code


@contextmanager
def _sides(
    command: Sequence[str],
    suites: Sequence[str],
    refs: Sequence[str],
    *,
    build: str | None,
    only: Sequence[str],
    of_command: Callable[..., Side],
    note: Note,
) -> Iterator[list[Side]]:
    """Yield the two requested sides while the folders in which they run exist."""
    if suites:
        if len(suites) != len(SIDES) or command:
            raise UsageError("a race of suites has two, and no command: --suite A --suite B")
        yield [side_of_suite(n, s, only, note) for n, s in zip(SIDES, suites, strict=True)]
    elif refs:
        if len(refs) != len(SIDES) or not command or "---" in command:
            raise UsageError("a race of commits has two and a command: --ref A --ref B -- COMMAND")
        # The context spans the race as well: Ctrl-C must not leave the checkouts behind.
        with Interruption() as interruption, checkouts(refs, build, interruption, note) as trees:
            yield [of_command(n, command, cwd=t) for n, t in zip(SIDES, trees, strict=True)]
    else:
        yield [of_command(n, c) for n, c in zip(SIDES, _commands(command), strict=True)]


def _commands(command: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split the two commands at '---'."""
    if command.count("---") != 1:
        raise UsageError("give two commands: roslens race [OPTIONS] -- COMMAND_A --- COMMAND_B")
    cut = command.index("---")
    if not 0 < cut < len(command) - 1:
        raise UsageError("a command is empty: give roslens race -- COMMAND_A --- COMMAND_B")
    return command[:cut], command[cut + 1 :]


def _compared(state: _Race, ended: Ended, threshold: float) -> Comparisons:
    """Compare the two sides as ``compare`` does, with the race's own intervals and verdicts."""
    metric = state.metric
    assert metric is not None
    pairs_by_cell = {
        key: [value_over_runs(metric, dict(key), v, len(v)) for v in pair]
        for key, pair in state.values.items()
    }
    base, new = (
        replace(
            load_side(ended.folder / name, [metric.name], state.topics),
            estimates=[pair[i] for pair in pairs_by_cell.values()],
            cells=[],
            undisturbed=None,
        )
        for i, name in enumerate(SIDES)
    )
    intervals = state.intervals()
    comparisons = compare_sides(base, new, [metric.name], threshold)
    notes = [] if ended.ending == "decided" else [f"the race ended undecided: {ended.ending}"]
    if ended.left_out:
        notes.append(f"{counted(len(ended.left_out), 'pair')} left out, for a run failed")
    raced = {(metric.name, key) for key in state.values}
    return replace(
        comparisons,
        compared=[
            _judged(c, intervals[key_of(c.base.cell)], state, threshold)
            for c in comparisons.compared
        ],
        unmatched=[
            Unmatched(name, dict(key), side)
            for (name, key), side in state.only_in.items()
            if (name, key) not in raced
        ],
        notes=[*notes, *comparisons.notes],
    )


def _judged(c: Comparison, i: RatioInterval, state: _Race, threshold: float) -> Comparison:
    ratio, low, high = i.value, i.low, i.high
    if state.better == "higher":
        ratio, low, high = _inverse(ratio, low, high)
    verdict = decided(i, state.threshold or threshold, math.inf, state.better)
    verdict = state.unless_lacking(key_of(c.base.cell), verdict)
    assert verdict is not None
    of_a, of_b = state.lacking[key_of(c.base.cell)]
    dropped = counted(len(state.pairs) - c.base.runs, "pair")
    note = f"{dropped} left out: no value in {counted(of_a, 'run')} of A and in {of_b} of B"
    return Comparison(
        base=c.base,
        new=c.new,
        ratio=ratio,
        low=low,
        high=high,
        level=i.level,
        verdict=verdict,
        confirmed=True if verdict in ("regression", "improvement") else None,
        difference=c.difference,
        shift=c.shift,
        delta=c.delta,
        notes=(note,) if of_a or of_b else (),
    )


def _draw(path: Path, state: _Race, compared: Mapping[str, Comparison]) -> None:
    """Draw the interval against the number of pairs; see `save_plot`."""
    from roslens.analysis.figures.race import race_plot  # noqa: PLC0415  (matplotlib)

    assert state.metric is not None
    history = {
        sentence: [state.interval(key_of(c.base.cell), n + 1) for n in range(c.base.runs)]
        for sentence, c in compared.items()
    }
    save_plot(path, race_plot(history, state.metric.name, state.threshold))


def _sentence(c: Comparison) -> str:
    """Describe a result in a sentence: the factor and its uncertainty."""
    where = f" ({cell_label(c.cell)})" if c.cell else ""
    ratio, low, high = map(not_none, (c.ratio, c.low, c.high))
    worse = "slower" if c.base.unit in ("ns", "s") else "worse"
    better = "faster" if worse == "slower" else "better"
    word = worse if ratio >= 1 else better
    if ratio < 1:
        ratio, low, high = _inverse(ratio, low, high)
    half = max(ratio - low, high - ratio)
    about = f"{ratio:.2f} ± {half:.2f}" if half < NO_BOUND else f"about {ratio:.2f}"
    bounds = f"{low:.4g} to {high:.4g}" if high < NO_BOUND else "not known yet"
    return (
        f"{c.metric}{where}: B is {about} times {word} than A: {c.verdict} "
        f"({100 * c.level:.4g} % interval {bounds}, {counted(c.base.runs, 'pair')})"
    )


def _inverse(ratio: float, low: float, high: float) -> tuple[float, float, float]:
    """Convert B / A and its interval to A / B, or the other way round."""
    return 1 / ratio, 1 / high, 1 / low if low > 0 else math.inf


def _order(pairs: Sequence[Pair]) -> list[str]:
    """Return the sides in the order in which they ran."""
    place = {run.order: name for pair in pairs for name, run in pair.manifests.items()}
    return [place[i] for i in sorted(place)]


def _has_value(e: Estimate, metric: str) -> bool:
    return e.metric == metric and e.value is not None and math.isfinite(e.value)


def _value(e: Estimate) -> float:
    if e.value is None or e.value <= 0:
        raise UsageError(f"{e.metric} of a run is {e.value}: a race is about a ratio, above 0")
    return e.value


def _width(i: RatioInterval) -> float:
    return math.inf if i.low <= 0 else math.log(i.high) - math.log(i.low)


def _drawn_interval(i: RatioInterval) -> str:
    """Format an interval and draw it between half and twice on a log scale; '|' is 1."""
    if i.low <= 1 / NO_BOUND or i.high >= NO_BOUND:
        return "[no bound yet]"
    middle = _BAR // 2
    places = (math.log2(ratio) * middle for ratio in (i.low, i.value, i.high))
    low, value, high = (round(min(max(place, -middle), middle)) + middle for place in places)
    bar = ["-" if low <= k <= high else " " for k in range(_BAR)]
    bar[middle] = "|"
    bar[value] = "o"
    return f"[{i.low:.4g}, {i.high:.4g}]  0.5 {''.join(bar)} 2"
