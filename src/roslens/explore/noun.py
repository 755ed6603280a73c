"""Provide the base of all nouns: their report, estimates as frames, pictures of sections."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Self, TypeVar

import polars as pl

from roslens.analysis.estimate import Estimate
from roslens.analysis.figures.plot import Plot
from roslens.analysis.reports.base import Report, Section
from roslens.collectors.views import matching
from roslens.recording import UsageError
from roslens.recording.text import shown_lines

if TYPE_CHECKING:
    from roslens.analysis.figures.picture import Picture
    from roslens.runs import Runs

R_co = TypeVar("R_co", bound=Report[Any], covariant=True)
S = TypeVar("S")


def shows_section(section: Callable[[R_co], S]) -> Callable[Concatenate[Noun[R_co], ...], S]:
    """Make a method that shows a section of the report."""

    def verb(noun: Noun[R_co], by: Sequence[str] | None = None, **parameters: object) -> S:
        return section(noun._report(by, **parameters))

    verb.__name__ = section.__name__
    verb.__doc__ = f"""{section.__doc__}

        Parameters
        ----------
        by
            Factors that make the cells; runs that differ in others are taken together. None: all.
        **parameters
            Of the notebook, in place of those given before, such as ``warm_up_s=2`` (s).

        Returns
        -------
        Sentences, tables (with units) and figures, as the report shows them; ``pictures`` are the
        figures, of matplotlib.

        Raises
        ------
        UsageError
            There is no such factor or parameter, or it does not take the value.
        """
    return verb


class Noun(ABC, Generic[R_co]):
    """Frames, pictures and sections of runs, from one report.

    Frames are polars (``.to_pandas()`` for pandas), pictures are matplotlib figures; sections are
    those that the notebook of the same name shows.
    """

    answer = shows_section(Report.answer)
    definitions = shows_section(Report.definitions)
    write = shows_section(Report.write)

    def __init__(self, run: Runs, parameters: Mapping[str, object] | None = None) -> None:
        self._run = run
        self._parameters = dict(parameters or {})
        self._reports: dict[object, R_co] = {}

    @abstractmethod
    def _made(self, run: Runs, parameters: Mapping[str, object]) -> R_co:
        """Make the report of these runs."""

    def with_parameters(self, **parameters: object) -> Self:
        """Return this noun with parameters of its notebook changed, such as ``warm_up_s=2``.

        ``roslens report NAME --list-parameters`` lists them: ``level`` (nominal coverage, 0..1),
        ``warm_up_s`` (s), ``include_failed``, ``leave_out`` and more.

        Raises
        ------
        UsageError
            There is no such parameter, or the value is invalid.
        """
        changed = type(self)(self._run, {**self._parameters, **parameters})
        changed._report()
        return changed

    def _report(self, by: Sequence[str] | None = None, **parameters: object) -> R_co:
        by = [by] if isinstance(by, str) else by
        key = (None if by is None else tuple(by), repr(sorted(parameters.items())))
        if key not in self._reports:
            run = self._run if by is None else grouped(self._run, by)
            places = [str(recording.path) for recording in run.recordings]
            given = {"recordings": places, **self._parameters, **parameters}
            self._reports[key] = self._made(run, given)
        return self._reports[key]

    @property
    def _counting(self) -> pl.Expr:
        """Return an expression: whether a row belongs to a run that counts."""
        return pl.col("run").is_in([run.name for run in self._report().counting])

    def sentences(self) -> list[str]:
        """Describe the findings in whole sentences with units, the answer first.

        Raises
        ------
        UsageError
            A parameter names something that does not exist.
        """
        return self._report().answers()

    def __repr__(self) -> str:
        return shown_lines("\n".join(self.sentences()))


def grouped(run: Runs, by: Sequence[str]) -> Runs:
    """Return the same runs, in cells by the given factors alone.

    Raises
    ------
    UsageError
        No run has such a factor.
    """
    factors = {name for r in run.runs for name in r.cell}
    for name in by:
        matching(name, factors, "factor")
    runs = [replace(r, cell={n: r.cell[n] for n in by if n in r.cell}) for r in run.runs]
    return run.with_runs(runs)


def estimates_frame(estimates: Sequence[Estimate], *, full: bool = False) -> pl.DataFrame:
    """Return one row per estimate, as documented in `roslens.explore.latency.Latency.estimates`.

    The columns of factors are text.
    """
    kinds: dict[str, pl.DataType] = {
        **dict.fromkeys(("value", "low", "high"), pl.Float64()),
        **dict.fromkeys(("unit", "refused"), pl.String()),
    }
    if full:
        kinds |= {
            "level": pl.Float64(),
            **dict.fromkeys(("runs", "samples"), pl.Int64()),
            "effective_samples": pl.Float64(),
            **dict.fromkeys(("method", "verdict", "definition"), pl.String()),
        }
    factors = list(dict.fromkeys(name for e in estimates for name in e.cell))
    rows = [
        (
            e.metric,
            *(None if n not in e.cell else str(e.cell[n]) for n in factors),
            *(getattr(e, name) for name in kinds),
        )
        for e in estimates
    ]
    names = dict.fromkeys(("metric", *factors), pl.String())
    return pl.DataFrame(rows, schema={**names, **kinds}, orient="row")


def picture(plot: Plot) -> Picture:
    """Return a report's figure as an editable picture, with its caption."""
    from roslens.analysis.figures.picture import Picture  # noqa: PLC0415  (half a second)

    assert isinstance(plot.figure, Picture)
    plot.figure.caption = plot.caption
    return plot.figure


def picture_of(section: Section, number: int = 0) -> Picture:
    """Return a picture from a section of a report.

    Raises
    ------
    UsageError
        There is nothing to draw, for the reason given in the section.
    """
    plots = [part for part in section.parts if isinstance(part, Plot)]
    if not plots:
        reason = " ".join(str(part).removeprefix("! ") for part in section.parts)
        raise UsageError(reason or "there is nothing to draw")
    return picture(plots[number])
