"""Prepare a suite before its first run: find available levels, and get its programs ready."""

from __future__ import annotations

import importlib
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from roslens.recording import RunFailedError, UsageError
from roslens.recording.files import shipped
from roslens.recording.manifest import Level
from roslens.tracing.ros import RosEnvironment
from roslens.tracing.sources import obtain
from roslens.tracing.suite import Suite, WorkloadSpec, builtin_scripts


def needed(suite: Suite, chosen: Mapping[str, Sequence[Level]], kind: str) -> Iterator[str]:
    """Yield what levels of a suite need of one kind, such as the names of packages.

    Parameters
    ----------
    suite, chosen
        The suite, and the considered levels of some of its factors.
    kind
        The word before the colon: ``package``, ``header``, ...
    """
    levels = [
        (name, level)
        for name, all_of in suite.factors.items()
        for level in chosen.get(name, all_of)
    ]
    needs = [need for name, level in levels for need in suite.level(name, level).needs]
    for need in dict.fromkeys(needs):
        of_kind, _, name = need.partition(":")
        if of_kind == kind:
            yield name


def without_sources(names: Iterable[str], note: Callable[[str], None]) -> dict[str, str]:
    """Obtain pinned sources; return the reason for each source that is unavailable, by name.

    Parameters
    ----------
    names
        Names in the table of `roslens.tracing.sources`.
    note
        Called with a line when a source is cloned.
    """
    missing = {}
    for name in names:
        try:
            obtain(name, note)
        except (UsageError, RunFailedError) as error:
            missing[name] = str(error)
    return missing


def available_levels(
    suite: Suite,
    chosen: Mapping[str, Sequence[Level]],
    ros: RosEnvironment | None,
    unprepared: Mapping[str, str] | None = None,
) -> tuple[dict[str, tuple[Level, ...]], list[str]]:
    """Return the available levels, and one line for each level that is left out.

    Parameters
    ----------
    suite
        The suite, whose levels may name what they need.
    chosen
        The levels that are requested, for some of the factors.
    ros
        The ROS 2 of the runs, or None.
    unprepared
        Software that could not be prepared, and why (`with_middlewares`, `without_sources`).

    Returns
    -------
    tuple
        `chosen` without the missing levels; and why each of these is left out.

    Raises
    ------
    UsageError
        No level of a factor would be left.
    """
    kept, lines = dict(chosen), []
    unprepared = unprepared or {}
    for name, levels in suite.factors.items():
        wanted = tuple(chosen.get(name, levels))
        missing = [
            level for level in wanted if not _has(ros, suite.level(name, level).needs, unprepared)
        ]
        if missing:
            kept[name] = tuple(level for level in wanted if level not in missing)
            for x in missing:
                reason = _why_unavailable(suite.level(name, x).needs, ros, unprepared)
                lines.append(f"{name} {x} is left out: {reason}")
        if not kept.get(name, levels):
            raise UsageError("; ".join(lines))
    return {name: tuple(levels) for name, levels in kept.items()}, lines


def _why_unavailable(
    needs: Sequence[str], ros: RosEnvironment | None, unprepared: Mapping[str, str]
) -> str:
    names = [need.partition(":")[2] for need in needs]
    reasons = [unprepared[name] for name in names if name in unprepared]
    if reasons:
        return "; ".join(reasons)
    ros_name = "ROS 2 of the suite (none)" if ros is None else f"{ros.kind} ROS 2 {ros.distro}"
    return f"the {ros_name} has no {' or '.join(names)}"


def _has(ros: RosEnvironment | None, needs: Sequence[str], unprepared: Mapping[str, str]) -> bool:
    pairs = [need.split(":", 1) for need in needs]
    return not needs or any(
        name not in unprepared if kind == "source" else ros is not None and _is_met(ros, kind, name)
        for kind, name in pairs
    )


def _is_met(ros: RosEnvironment, kind: str, name: str) -> bool:
    environment = ros.process_environment()
    if kind == "python":
        module, _, attribute = name.rpartition(".")
        code = f"import {module}; {module}.{attribute}"
        # Modules of the working directory must not be imported.
        command = [str(ros.python), "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, check=False, cwd="/")
        return done.returncode == 0
    prefixes = filter(None, environment.get("AMENT_PREFIX_PATH", "").split(os.pathsep))
    pattern = f"share/{name}/package.xml" if kind == "package" else f"include/*/{name}"
    plain = f"include/{name}"
    return any(
        next(Path(prefix).glob(pattern), None) is not None
        or (kind == "header" and (Path(prefix) / plain).is_file())
        for prefix in prefixes
    )


def prepared_variables(workload: WorkloadSpec, note: Callable[[str], None]) -> dict[str, str]:
    """Prepare a workload; return the environment variables by which its runs find it.

    A built-in workload that needs preparation has a module ``prepare`` next to its ``run.py``.

    Parameters
    ----------
    note
        Called with a line when something takes long.

    Raises
    ------
    RoslensError
        Something that the workload needs is missing.
    """
    if workload.builtin is None:
        return {}
    folder = builtin_scripts()[workload.builtin].parent
    if not (folder / "prepare.py").is_file():
        return {}
    package = ".".join(("roslens", *folder.relative_to(shipped()).parts))
    module = importlib.import_module(f"{package}.prepare")
    return dict(module.prepare(note))
