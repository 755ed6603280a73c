"""Write and read metrics.json: the estimates of a report, for programs."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from roslens.analysis.environment import Environment
from roslens.analysis.estimate import Estimate
from roslens.analysis.measures.loss import TracerLoss
from roslens.recording import UsageError
from roslens.recording.files import write_atomically
from roslens.recording.json_file import read_json
from roslens.recording.text import first_problem

METRICS_NAME = "metrics.json"
SCHEMA_VERSION = 1

_LARGEST = 256 << 20
"""The maximum size in bytes; about 7 KiB for each topic of each cell."""

_PACKAGES = ("roslens", "numpy", "polars", "scipy")


@dataclass(frozen=True)
class Metrics:
    """The contents of a metrics.json.

    Attributes
    ----------
    recordings
        One entry per run: ``run``, ``suite``, ``campaign``, ``cell``, ``status``, ``counts``
        (whether it entered the estimates), ``discarded_events``, ``lost_packets``,
        ``truncated``, ``git_commit`` (of the measured program), ``disturbances``, ``environment``
        (its index in `environments`); ``excerpt`` where only part of a recording was analysed.
    versions
        Versions of the computing software; ``git_commit`` is that of its source tree, if it is one.
    answer
        The findings in sentences; empty in older files.
    environments
        The distinct environments of the runs; in the file, every estimate has the indices of the
        environments that it holds for. Empty in older files.
    recorded
        What was recorded, by name, as on the first screen; empty in older files.
    """

    recordings: list[dict[str, Any]]
    versions: dict[str, str | None]
    estimates: list[Estimate] = field(default_factory=list)
    answer: list[str] = field(default_factory=list)
    environments: list[Environment] = field(default_factory=list)
    recorded: dict[str, str] = field(default_factory=dict)

    def environment_of(self, entry: Mapping[str, Any]) -> Environment:
        """Return the environment of one entry of `recordings`; empty where it is not known."""
        place = entry.get("environment")
        return {} if place is None else self.environments[place]

    def environments_of(self, estimate: Estimate) -> list[int]:
        """Return the indices of the environments of the runs that entered an estimate."""
        places = {
            entry["environment"]
            for entry in self.recordings
            if entry["counts"]
            and entry.get("environment") is not None
            and all(
                estimate.cell.get(name, level) == level for name, level in entry["cell"].items()
            )
        }
        return sorted(places)


def metrics_of(
    estimates: Sequence[Estimate],
    losses: Sequence[TracerLoss],
    counting: Sequence[str],
    answer: Sequence[str] = (),
    recorded: Mapping[str, str] = MappingProxyType({}),
) -> Metrics:
    """Collect the results of a report.

    Parameters
    ----------
    losses
        Losses of every run that was analysed.
    counting
        Names of the runs that entered the estimates.
    answer
        The findings in sentences.
    recorded
        What was recorded, by name.
    """
    environments: list[Environment] = []
    for loss in losses:
        if loss.run.environment and loss.run.environment not in environments:
            environments.append(loss.run.environment)
    recordings = [
        {
            "run": loss.run.name,
            "suite": loss.run.suite,
            "campaign": loss.run.campaign,
            "cell": dict(loss.run.cell),
            "status": loss.run.status,
            "counts": loss.run.name in counting,
            "discarded_events": loss.discarded_events,
            "lost_packets": loss.lost_packets,
            "truncated": loss.truncated,
            "git_commit": loss.run.git_commit,
            "disturbances": list(loss.run.disturbances),
            "environment": environments.index(loss.run.environment)
            if loss.run.environment
            else None,
            **({"excerpt": loss.run.excerpt} if loss.run.excerpt is not None else {}),
        }
        for loss in losses
    ]
    return Metrics(
        recordings, versions(), list(estimates), list(answer), environments, dict(recorded)
    )


def write_metrics(metrics: Metrics, folder: Path) -> Path:
    """Write ``metrics.json`` into `folder`, which is created if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / METRICS_NAME
    data = {
        "schema_version": SCHEMA_VERSION,
        "answer": metrics.answer,
        "recorded": metrics.recorded,
        "recordings": metrics.recordings,
        "versions": metrics.versions,
        "environments": metrics.environments,
        "estimates": [
            {**estimate.to_json(), "environments": metrics.environments_of(estimate)}
            for estimate in metrics.estimates
        ],
    }
    write_atomically(path, json.dumps(data, indent=1, allow_nan=False) + "\n")
    return path


def read_metrics(path: Path) -> Metrics:
    """Read a metrics.json, or the one in folder `path`.

    Raises
    ------
    UsageError
        The file cannot be read, is too large, has another schema version, or has other fields.
    """
    path = path / METRICS_NAME if path.is_dir() else path
    data = read_json(path, "make the report again", _LARGEST)
    found = data.get("schema_version") if isinstance(data, dict) else None
    if found != SCHEMA_VERSION:
        raise UsageError(
            f"{path}: metrics schema version {found!r}, this roslens reads {SCHEMA_VERSION}"
        )
    from pydantic import ValidationError  # noqa: PLC0415  (only callers that read a file need it)

    from roslens.analysis.metrics_file import MetricsFile  # noqa: PLC0415

    try:
        read = MetricsFile.model_validate(data)
    except ValidationError as error:
        where, problem = first_problem(error)
        raise UsageError(f"{path}: field '{where}': {problem}; make the report again") from error
    estimates = [
        Estimate(**estimate.model_dump(exclude={"environments"})) for estimate in read.estimates
    ]
    found = Metrics(
        data["recordings"],
        read.versions,
        estimates,
        read.answer,
        [*read.environments],
        read.recorded,
    )
    try:
        # Every index must exist.
        for entry in found.recordings:
            found.environment_of(entry)
    except IndexError as error:
        raise UsageError(f"{path}: not as expected: {error}; make the report again") from error
    return found


def versions() -> dict[str, str | None]:
    """Return versions of the computing software, and the commit of its source tree, if any."""
    by_name: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            by_name[package] = version(package)
        except PackageNotFoundError:
            by_name[package] = None
    by_name["git_commit"] = _git_commit(Path(__file__).resolve().parent)
    return by_name


def _git_commit(folder: Path) -> str | None:
    # Only a tree that tracks this file counts: site-packages inside another repository does not.
    try:
        subprocess.run(
            ["git", "-C", str(folder), "ls-files", "--error-unmatch", Path(__file__).name],
            capture_output=True,
            check=True,
        )
        done = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"],
            capture_output=True,
            check=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
