"""Run the ``suites`` verb: list the experiments, or explain one."""

from __future__ import annotations

from typing import Any

from rich.markup import escape

from roslens.recording.terminal import Console
from roslens.tracing.campaign import planned_seconds
from roslens.tracing.progress import duration
from roslens.tracing.suite import Suite, list_suites, load_suite, suite_path


def show_suites(console: Console) -> None:
    """Print the suites that ship with roslens."""
    for path, suite in list_suites():
        _head(path.stem, suite, console)


def explain_suite(name: str, console: Console) -> None:
    """Print what a suite varies, runs, records, samples and expects.

    Raises
    ------
    UsageError
        There is no suite of that name, or the file is not a valid suite.
    """
    suite, _ = load_suite(name)
    _head(suite.name, suite, console)
    console.print(f"  file: {suite_path(name)}", highlight=False, markup=False, soft_wrap=True)
    for title, lines in _parts(suite):
        console.print(f"  [bold]{title}[/]")
        for line in lines:
            console.print(f"    {escape(line)}", highlight=False, soft_wrap=True)


def suites_json(name: str | None) -> Any:
    """Return the shipped suites, or all details of one suite, as JSON data.

    Raises
    ------
    UsageError
        As in `explain_suite`.
    """
    if name is None:
        return [_head_json(path.stem, suite) for path, suite in list_suites()]
    suite, _ = load_suite(name)
    file = {"file": str(suite_path(name))}
    return _head_json(suite.name, suite) | file | suite.model_dump(mode="json")


def _head_json(name: str, suite: Suite) -> dict[str, Any]:
    return {
        "name": name,
        "description": suite.description,
        "factors": suite.factors,
        "combinations": sum(1 for _ in suite.combinations()),
        "repetitions": suite.repetitions,
        "seconds": suite.seconds,
        "planned_seconds": planned_seconds(suite),
    }


def _head(name: str, suite: Suite, console: Console) -> None:
    combinations = sum(1 for _ in suite.combinations())
    console.print(f"[bold]{escape(name)}[/]  {escape(suite.description)}", soft_wrap=True)
    for factor, levels in suite.factors.items():
        console.print(f"  {factor}: {', '.join(map(str, levels))}", highlight=False, markup=False)
    console.print(
        f"  {combinations} combinations x {suite.repetitions} repetitions of "
        f"{suite.seconds:g} s, about {duration(planned_seconds(suite))}",
        highlight=False,
    )


def _parts(suite: Suite) -> list[tuple[str, list[str]]]:
    workload, tracing = suite.workload, suite.tracing
    runs = [
        f"built-in {workload.builtin}" if workload.builtin else " ".join(workload.command or ())
    ]
    runs += [f"{name} = {value}" for name, value in workload.parameters.items()]
    runs += [f"${name} = {value}" for name, value in workload.environment.items()]
    runs.append(f"ROS 2: {workload.ros}")
    time = [f"{suite.duration:g} s, ended after {suite.limit_seconds:g} s"]
    for value, unit in (
        (suite.warm_up, "s of warm-up"),
        (suite.cool_down, "s of cool-down"),
        (suite.pause, "s of rest between runs"),
        (suite.messages, "messages"),
        (suite.retries, "retries of a run that failed"),
    ):
        if value:
            time.append(f"{value:g} {unit}")
    records = [
        f"events {', '.join(tracing.events)}",
        f"contexts {', '.join(tracing.all_contexts)}",
        f"kernel {tracing.kernel}",
        f"{tracing.mode}, {tracing.subbuf_count} buffers of {tracing.subbuf_size:,} B per CPU",
    ]
    samplers = suite.samplers.model_dump(exclude={"gives_way"})
    rates = {"processes": suite.sampler_hz, **samplers}
    samples = [f"{name} at {hz:g} Hz" for name, hz in rates.items() if hz] or ["nothing"]
    parts = [("runs", runs), ("time", time), ("records", records), ("samples", samples)]
    excluded = [
        ", ".join(f"{name} {level}" for name, level in entry.items()) for entry in suite.exclude
    ]
    if excluded:
        parts.append(("leaves out", excluded))
    special = [
        f"{name} {level}: "
        + ", ".join(
            [
                *(
                    f"{field} {key} = {value}"
                    for field, values in given.items()
                    for key, value in values.items()
                ),
                *([f"needs {' or '.join(settings.needs)}"] if settings.needs else []),
            ]
        )
        for name, levels in suite.levels.items()
        for level, settings in levels.items()
        for given in [settings.model_dump(exclude_defaults=True, exclude={"needs"})]
    ]
    if special:
        parts.append(("is different for", special))
    expected = [f"exit status {suite.expect.exit_status}", *suite.expect.files]
    if suite.expect.ros2_events:
        expected.append("at least one ros2 event")
    if suite.expect.max_discarded_events is not None:
        expected.append(f"at most {suite.expect.max_discarded_events} discarded events")
    parts.append(("expects", expected))
    return parts
