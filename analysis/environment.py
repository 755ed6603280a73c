"""Compare the environments of figures: machine, software, packages and tracing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from roslens.recording.manifest import Manifest

Environment = Mapping[str, Mapping[str, str]]
"""Properties by kind (`KINDS`) and name, as text; unknown properties are left out."""

KINDS = ("machine", "software", "packages", "tracing")
"""Only a difference of the machine forbids a comparison; versions are what one compares."""

_MOST_NAMED = 8
_LONGEST = 48
_FIRST = ("rcl", "rmw", "fast", "cyclone", "zenoh", "tracetools")


@dataclass(frozen=True)
class Difference:
    """One property that differs between two sides.

    Attributes
    ----------
    kind, name
        As in `Environment`.
    base, new
        The distinct values of the runs of each side; with their shares where only these differ.
    """

    kind: str
    name: str
    base: tuple[str, ...]
    new: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} {_values(self.base)} -> {_values(self.new)}"


@dataclass(frozen=True)
class Differences:
    """The properties that differ between two sides, and those that cannot be compared.

    Attributes
    ----------
    found
        The differences, in the order of `KINDS`.
    unknown_of_base, unknown_of_new
        Properties of the machine that are known of the other side and not of this one.
    silent
        The sides, ``BASE`` or ``NEW``, without any known property of their machines.
    """

    differences: Sequence[Difference] = ()
    unknown_of_base: Sequence[str] = ()
    unknown_of_new: Sequence[str] = ()
    silent: Sequence[str] = ()

    @property
    def of_machine(self) -> bool:
        """Whether the machines differ."""
        return any(difference.kind == "machine" for difference in self.differences)

    def in_words(self) -> list[str]:
        """Return the differences as one line; an empty list where there is none."""
        parts = []
        for kind in KINDS:
            named = [str(difference) for difference in self.differences if difference.kind == kind]
            more = len(named) - _MOST_NAMED if kind == "packages" else 0
            if more > 0:
                named = [*named[:_MOST_NAMED], f"{more} more (see the JSON)"]
            if named:
                parts.append(f"{kind}: {', '.join(named)}")
        return [f"BASE and NEW differ in {'; '.join(parts)}"] if parts else []

    def unknown_in_words(self) -> list[str]:
        """Return the unknown properties of the machines, one line per side."""
        if self.silent:
            of_side = f" of {self.silent[0]}" if len(self.silent) == 1 else ""
            return [f"the recordings{of_side} do not say on which machines they were made"]
        lines = []
        for side, names in (("BASE", self.unknown_of_base), ("NEW", self.unknown_of_new)):
            if names:
                lines.append(f"not known of the machine of {side}: {', '.join(names)}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return the differences as plain data."""
        return {
            "differences": [asdict(difference) for difference in self.differences],
            "unknown_of_base": list(self.unknown_of_base),
            "unknown_of_new": list(self.unknown_of_new),
        }


def environment_of(manifest: Manifest) -> Environment:
    """Return the environment of a run, from its manifest."""
    environment, host, tracing = manifest.environment, manifest.host, manifest.tracing
    changed = " (changed)" if environment.git_dirty else ""
    gibibytes = None if host.memory_bytes is None else round(host.memory_bytes / 2**30)
    buffers = (
        tracing.subbuf_count and f"{tracing.subbuf_count} x {tracing.subbuf_size_bytes or '?'} B"
    )
    by_kind: dict[str, dict[str, Any]] = {
        "machine": {
            "CPU": host.cpu_model,
            "CPUs": host.cpu_count,
            "governor": host.governor,
            "turbo": None if host.turbo is None else ("off", "on")[host.turbo],
            "memory": None if gibibytes is None else f"{gibibytes} GiB",
            "kernel": host.kernel,
            "preemption": host.preemption,
            "virtual machine": host.virtual_machine,
        },
        "software": {
            "ROS 2": environment.ros_distro,
            "ROS 2 is": environment.ros,
            "RMW": environment.rmw,
            "workload's commit": environment.git_commit and environment.git_commit + changed,
            "system": environment.system,
            "container": environment.container,
            "compiler": environment.compiler,
            "Python": environment.python,
        },
        "packages": {**environment.system_packages, **environment.packages},
        "tracing": {
            "tracer": f"{tracing.tracer} {tracing.tracer_version or ''}".strip(),
            "kernel trace": tracing.kernel or ("lttng" if "kernel" in tracing.domains else None),
            "events": ", ".join(tracing.events),
            "mode": tracing.mode,
            "buffers": buffers,
            "sampler": manifest.sampler and f"{manifest.sampler.hz:g} Hz",
            "recorded by": environment.roslens and f"roslens {environment.roslens}",
        },
    }
    return {
        kind: {name: str(value) for name, value in things.items() if value not in (None, "")}
        for kind, things in by_kind.items()
    }


def differences(base: Iterable[Environment], new: Iterable[Environment]) -> Differences:
    """Return the differences between the environments of the runs of two sides.

    Only properties that both sides know are compared: an unknown property is no difference.
    Machines also differ if the two sides ran on the same ones, but in shares of their runs that
    are further apart than one run.
    """
    left, right = _known_facts(base), _known_facts(new)
    common = [key for key in left if key in right]
    order = {kind: place for place, kind in enumerate(KINDS)}
    differing = []
    for key in common:
        one, other = left[key], right[key]
        if set(one) != set(other):
            differing.append(Difference(*key, tuple(sorted(one)), tuple(sorted(other))))
        elif key[0] == "machine" and any(
            abs(one[value] * other.total() - other[value] * one.total())
            > max(one.total(), other.total())
            for value in one
        ):
            differing.append(Difference(*key, shares(one), shares(other)))
    differing.sort(
        key=lambda difference: (
            order[difference.kind],
            difference.kind == "packages" and _unimportant(difference.name),
        )
    )
    machines = [[name for kind, name in side if kind == "machine"] for side in (left, right)]
    silent = [name for name, machine in zip(("BASE", "NEW"), machines, strict=True) if not machine]
    unknown = [
        [name for name in other if name not in own and not silent]
        for own, other in (machines, machines[::-1])
    ]
    return Differences(differing, unknown[0], unknown[1], silent)


def merged_differences(several: Sequence[Differences]) -> Differences:
    """Merge the differences of several pairs of sides, each property once."""
    merged: dict[tuple[str, str], Difference] = {}
    for pair in several:
        for difference in pair.differences:
            before = merged.get((difference.kind, difference.name), difference)
            merged[difference.kind, difference.name] = Difference(
                difference.kind,
                difference.name,
                _no_properties(before.base, difference.base),
                _no_properties(before.new, difference.new),
            )
    return Differences(
        sorted(merged.values(), key=lambda difference: KINDS.index(difference.kind)),
        _no_properties(*(pair.unknown_of_base for pair in several)),
        _no_properties(*(pair.unknown_of_new for pair in several)),
        _no_properties(*(pair.silent for pair in several)),
    )


def shares(counts: Counter[str]) -> tuple[str, ...]:
    """Return each value with its number of runs, such as ``8 of 10 runs: A``."""
    total = counts.total()
    return tuple(f"{counts[value]} of {total} runs: {value}" for value in sorted(counts))


def _known_facts(environments: Iterable[Environment]) -> dict[tuple[str, str], Counter[str]]:
    values: dict[tuple[str, str], Counter[str]] = {}
    for environment in environments:
        for kind, things in environment.items():
            for name, value in things.items():
                values.setdefault((kind, name), Counter())[value] += 1
    return values


def _no_properties(*parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for part in parts for text in part))


def _unimportant(package: str) -> bool:
    return not package.startswith(_FIRST)


def _values(values: Sequence[str]) -> str:
    short = (value if len(value) <= _LONGEST else f"{value[: _LONGEST - 3]}..." for value in values)
    return " and ".join(short)
