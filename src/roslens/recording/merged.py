"""The manifest of a merged recording: what its members have in common, and each of theirs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from roslens.recording.manifest import (
    Clock,
    Environment,
    Host,
    Loss,
    Manifest,
    Member,
    TracingSettings,
)

_Part = TypeVar("_Part", bound=BaseModel)
_WORST = ("failed", "interrupted", "running", "complete")


def merged_manifest(members: Sequence[Member], span: tuple[int, int]) -> Manifest:
    """The manifest of recordings as one.

    Parameters
    ----------
    members
        What it is made of.
    span
        First and last time of the traces, which count where a member has no manifest.

    Returns
    -------
    Manifest
        Fields have a value where all members have the same; counts are sums, where all are known.
    """
    known = [member.manifest for member in members if member.manifest is not None]
    every: list[Any] = [*known] if len(known) == len(members) else [*known, None]
    hosts = [of and of.host for of in every]
    losses = [of and of.loss for of in every]
    tracers = [of and of.tracing for of in every]
    worst = next((of for status in _WORST for of in known if of.status == status), None)
    return Manifest(
        suite=_same(of and of.suite for of in every) or "merged",
        campaign=_same(of and of.campaign for of in every) or "merged",
        run="",
        factors=_common(of.factors for of in known) if None not in every else {},
        repetition=_same(of and of.repetition for of in every) or 0,
        order=_same(of and of.order for of in every) or 0,
        seed=_same(of and of.seed for of in every),
        timing=_same(of and of.timing for of in every),
        work_topic=_same(of and of.work_topic for of in every),
        environment=_fields(Environment, [of and of.environment for of in every]),
        host=_fields(Host, hosts).model_copy(
            update={"cpu_count": _sum(of and of.cpu_count for of in hosts)}
        ),
        graph=[endpoint for of in known for endpoint in of.graph],
        clock=_fields(Clock, [of and of.clock for of in every]),
        tracing=_fields(TracingSettings, tracers, tracer="several" if known else "unknown"),
        start_ns=min([span[0]] if None in every else [of.start_ns for of in known]),
        end_ns=max([span[1]] if None in every else [of.end_ns or of.start_ns for of in known]),
        status="complete" if worst is None else worst.status,
        exit_status=_same(of and of.exit_status for of in every),
        failure=None if worst is None else worst.failure,
        loss=Loss(
            discarded_events=_sum(of and of.discarded_events for of in losses),
            lost_packets=_sum(of and of.lost_packets for of in losses),
        ),
        warnings=_of_members(members, "warnings"),
        disturbances=_of_members(members, "disturbances"),
        provenance=f"merged of {', '.join(member.name for member in members)}",
        members=list(members),
    )


def _of_members(members: Sequence[Member], field: str) -> list[str]:
    return [
        f"{member.name}: {line}"
        for member in members
        if member.manifest is not None
        for line in getattr(member.manifest, field)
    ]


def _same(values: Iterable[Any]) -> Any:
    """The value that all have; None where they differ."""
    first, *rest = values
    return first if all(value == first for value in rest) else None


def _sum(values: Iterable[int | None]) -> int | None:
    found = list(values)
    return None if None in found else sum(x for x in found if x is not None)


def _common(dicts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    first, *rest = dicts
    return {k: v for k, v in first.items() if all(k in d and d[k] == v for d in rest)}


def _fields(kind: type[_Part], parts: Sequence[Any], **told: Any) -> _Part:
    """Of each field what all have in common, else what it is where nothing is known."""
    found = dict(told)
    for name in kind.model_fields:
        values = [part and getattr(part, name) for part in parts]
        if values and all(isinstance(value, dict) for value in values):
            found[name] = _common(values)
        elif values and values[0] is not None and _same(values) is not None:
            found[name] = values[0]
    return kind.model_validate(found)
