"""What a built-in workload needs before its first run, such as a program to be compiled."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roslens.recording import RoslensError
from roslens.recording.manifest import Level
from roslens.tracing.needs import needed
from roslens.tracing.suite import Suite, WorkloadSpec, builtin_script


def prepared_variables(workload: WorkloadSpec, note: Callable[[str], None]) -> dict[str, str]:
    """Make it ready, and the environment variables by which its runs find it.

    A built-in that needs this has a module ``prepare`` beside its ``run.py``.

    Parameters
    ----------
    note
        Called with one line when something takes long.

    Raises
    ------
    RoslensError
        Something is missing for it.
    """
    module = _module(workload)
    return {} if module is None else dict(module.prepare(note))


def optional_variables(
    suite: Suite, chosen: Mapping[str, Sequence[Level]], note: Callable[[str], None]
) -> tuple[dict[str, str], dict[str, str]]:
    """Make ready what only some levels need of a built-in workload (``workload:NAME``).

    The built-in's module ``prepare`` has a function ``optional`` for it.

    Parameters
    ----------
    suite, chosen
        Of these factors only these levels are looked at.
    note
        Called with one line when something takes long.

    Returns
    -------
    tuple
        Environment variables for the runs; name of what cannot be had -> why.
    """
    variables: dict[str, str] = {}
    missing: dict[str, str] = {}
    module = _module(suite.workload)
    for name in needed(suite, chosen, "workload"):
        try:
            variables |= module.optional(name, note)
        except RoslensError as error:
            missing[name] = str(error)
    return variables, missing


def _module(workload: WorkloadSpec) -> Any:
    if workload.builtin is None:
        return None
    if not builtin_script(workload.builtin).with_name("prepare.py").is_file():
        return None
    return importlib.import_module(f"roslens.tracing.workloads.{workload.builtin}.prepare")
