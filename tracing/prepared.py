"""What a built-in workload needs before its first run, such as a program to be compiled."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from roslens.tracing.suite import WorkloadSpec, builtin_script


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
    if workload.builtin is None:
        return {}
    if not builtin_script(workload.builtin).with_name("prepare.py").is_file():
        return {}
    module = importlib.import_module(f"roslens.tracing.workloads.{workload.builtin}.prepare")
    return dict(module.prepare(note))
