"""Make the manifest of a merged recording from its members' common values and manifests."""

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
    """Merge the manifests of recordings into one.

    Parameters
    ----------
    members
        The recordings that are merged.
    span
        First and last time of the traces, used if a member has no manifest.

    Returns
    -------
    Manifest
        Fields have the value that all members share; counts are sums if all are known.
    """
    manifests = [member.manifest for member in members if member.manifest is not None]
    every: list[Any] = [*manifests] if len(manifests) == len(members) else [*manifests, None]
    hosts = [manifest and manifest.host for manifest in every]
    losses = [manifest and manifest.loss for manifest in every]
    tracers = [manifest and manifest.tracing for manifest in every]
    worst = next(
        (manifest for status in _WORST for manifest in manifests if manifest.status == status), None
    )
    return Manifest(
        suite=_common_value(manifest and manifest.suite for manifest in every) or "merged",
        campaign=_common_value(manifest and manifest.campaign for manifest in every) or "merged",
        run="",
        factors=_common(manifest.factors for manifest in manifests) if None not in every else {},
        repetition=_common_value(manifest and manifest.repetition for manifest in every) or 0,
        order=_common_value(manifest and manifest.order for manifest in every) or 0,
        seed=_common_value(manifest and manifest.seed for manifest in every),
        timing=_common_value(manifest and manifest.timing for manifest in every),
        work_topic=_common_value(manifest and manifest.work_topic for manifest in every),
        environment=_fields(Environment, [manifest and manifest.environment for manifest in every]),
        host=_fields(Host, hosts).model_copy(
            update={"cpu_count": _sum(host and host.cpu_count for host in hosts)}
        ),
        graph=[endpoint for manifest in manifests for endpoint in manifest.graph],
        clock=_fields(Clock, [manifest and manifest.clock for manifest in every]),
        tracing=_fields(TracingSettings, tracers, tracer="several" if manifests else "unknown"),
        start_ns=min([span[0]] if None in every else [manifest.start_ns for manifest in manifests]),
        end_ns=max(
            [span[1]]
            if None in every
            else [manifest.end_ns or manifest.start_ns for manifest in manifests]
        ),
        status="complete" if worst is None else worst.status,
        exit_status=_common_value(manifest and manifest.exit_status for manifest in every),
        failure=None if worst is None else worst.failure,
        loss=Loss(
            discarded_events=_sum(loss and loss.discarded_events for loss in losses),
            lost_packets=_sum(loss and loss.lost_packets for loss in losses),
        ),
        warnings=_common_values(members, "warnings"),
        disturbances=_common_values(members, "disturbances"),
        provenance=f"merged of {', '.join(member.name for member in members)}",
        members=list(members),
    )


def _common_values(members: Sequence[Member], field: str) -> list[str]:
    return [
        f"{member.name}: {line}"
        for member in members
        if member.manifest is not None
        for line in getattr(member.manifest, field)
    ]


def _common_value(values: Iterable[Any]) -> Any:
    """Return the common value of all; None if they differ."""
    first, *rest = values
    return first if all(value == first for value in rest) else None


def _sum(values: Iterable[int | None]) -> int | None:
    numbers = list(values)
    return None if None in numbers else sum(number for number in numbers if number is not None)


def _common(dicts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    first, *rest = dicts
    return {k: v for k, v in first.items() if all(k in d and d[k] == v for d in rest)}


def _fields(kind: type[_Part], parts: Sequence[Any], **defaults: Any) -> _Part:
    """Return each field's common value, else its default for an unknown value."""
    fields = dict(defaults)
    for name in kind.model_fields:
        values = [part and getattr(part, name) for part in parts]
        if values and all(isinstance(value, dict) for value in values):
            fields[name] = _common(values)
        elif values and values[0] is not None and _common_value(values) is not None:
            fields[name] = values[0]
    return kind.model_validate(fields)
