"""Read requirements on chains from a file.

::

    chains:
      - name: perception
        path: /camera -> /image -> /detector -> /objects -> /planner
        response_time: {p99: 50 ms, max: 100 ms}
        rate: 10 Hz
        complete: 99 %
    links:
      - {kind: partial_sync, node: /fusion, subscriptions: [/left, /right], publishers: [/fused]}
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from roslens.analysis.flow.chain import Chain
from roslens.analysis.flow.links import Link, links_of
from roslens.analysis.verdicts.budgets import Budget, parse_budget
from roslens.recording import UsageError
from roslens.recording.models import Strict
from roslens.recording.text import first_problem
from roslens.recording.yaml_file import read_yaml_file

_STATISTIC = re.compile(r"p(?=.*[1-9])\d{1,2}(\.\d+)?|mean|max|worst|bound")
DEADLINE = "response_time_max"
"""The metric of a limit that no instance may exceed."""


@dataclass(frozen=True)
class NamedChain:
    """A chain under the name that figures and budgets use for it."""

    chain: Chain
    name: str
    budgets: Sequence[Budget] = ()


@dataclass(frozen=True)
class Requirements:
    """Chains, the requirements on each, and the links that connect their hops."""

    chains: Sequence[NamedChain] = ()
    links: Sequence[Link] = ()

    @property
    def bound(self) -> bool:
        """Whether a requirement limits the bound of a chain."""
        return any(b.metric == "response_time_bound" for c in self.chains for b in c.budgets)

    @property
    def percentiles(self) -> list[float]:
        """Percentiles of response times with a requirement, as fractions, in order."""
        names = {b.metric.rpartition("_p")[2] for c in self.chains for b in c.budgets
                 if b.metric.startswith("response_time_p")}  # fmt: skip
        return sorted(float(name) / 100 for name in names)


class _Entry(Strict):
    """One chain as the file describes it."""

    path: str
    name: str | None = Field(None, min_length=1)
    response_time: dict[str, str] = Field({})
    rate: str | None = None
    complete: str | None = None

    def named(self) -> NamedChain:
        """Parse the limits of the entry; raise UsageError if one has another form."""
        chain = Chain.of(self.path)
        name = self.name or str(chain)
        asked = [
            (f"response_time_{_statistic(s)} < {limit}") for s, limit in self.response_time.items()
        ]
        asked += [f"chain_rate > {self.rate}"] if self.rate else []
        asked += [f"chain_complete > {self.complete}"] if self.complete else []
        where = {"chain": name}
        return NamedChain(
            chain, name, tuple(parse_budget({"budget": b, "where": where}) for b in asked)
        )


def _statistic(name: str) -> str:
    if not _STATISTIC.fullmatch(name):
        raise UsageError(
            f"response_time: {name!r} is none of mean, max, worst, bound, or a percentile such as "
            "p50, p99, p99.9"
        )
    return name


def read_requirements(path: Path) -> Requirements:
    """Read a YAML file with ``chains``, ``links``, or both.

    Raises
    ------
    UsageError
        The file cannot be read, or a part is not understood; the message says which.
    """
    data = read_yaml_file(path)
    if not isinstance(data, dict) or not data or not set(data) <= {"chains", "links"}:
        raise UsageError(f"{path}: give 'chains', 'links', or both, and nothing else")
    entries = data.get("chains", [])
    if not isinstance(entries, list):
        raise UsageError(f"{path}: chains is a list")
    chains = [_chain(entry, f"{path}: chain {n}") for n, entry in enumerate(entries, 1)]
    names = [chain.name for chain in chains]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{path}: two chains are called {twice!r}")
    return Requirements(chains, links_of(data.get("links", []), str(path)))


def _chain(entry: object, where: str) -> NamedChain:
    try:
        return _Entry.model_validate(entry).named()
    except ValidationError as error:
        key, problem = first_problem(error)
        raise UsageError(f"{where}: {f'{key}: ' if key else ''}{problem}") from error
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
