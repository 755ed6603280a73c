"""Define suites: experiments described in YAML, validated before anything runs."""

import itertools
import math
import re
import string
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from roslens.recording import UsageError
from roslens.recording.files import shipped
from roslens.recording.manifest import NO_FACTORS, Level
from roslens.recording.models import Frozen
from roslens.recording.text import first_problem
from roslens.recording.yaml_file import read_yaml, text_of_yaml
from roslens.tracing.host import HostLimits
from roslens.tracing.lttng.settings import TracingOptions
from roslens.tracing.processes import GENTLE
from roslens.tracing.sampling.rates import SamplerRates
from roslens.tracing.sources import pinned

ROOMS = (shipped("tracing"), *shipped("studies").glob("*"))
"""Folders that hold ``suites/NAME.yaml`` and ``workloads/NAME/run.py``."""

RosChoice = Literal["auto", "sourced", "embedded", "rclcpp", "none"]
Factors = dict[str, Level]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
NEEDS = ("package", "header", "python", "source")
MOST_RUNS = 100_000
"""Limit of the runs of a campaign: more is a mistake, and would take weeks."""
RESERVED = ("native", "ready", "seconds", "messages", "repetition", "order")
"""Placeholders of every template, in addition to factors and parameters."""


class WorkloadSpec(Frozen):
    """The program that each run starts: a workload that ships with roslens, or any command.

    A built-in gets ``--<name> <value>`` for each factor and parameter, ``--seconds``, ``--output``,
    and ``--messages`` if the suite gives a number. In a command, and in the values of environment
    variables, ``{name}`` stands for a factor, a parameter, or one of ``{native}`` (folder for its
    files), ``{ready}`` (file that it creates when it is ready), ``{seconds}``, ``{messages}``,
    ``{repetition}``, ``{order}``.
    """

    builtin: str | None = None
    command: tuple[str, ...] | None = None
    parameters: dict[str, Level] = Field(default_factory=dict)
    environment: dict[str, str] = Field(
        default_factory=dict, description="variables for it; {name} as in a command"
    )
    not_told: tuple[str, ...] = Field(
        default=(), description="factors that a built-in gets no option for, see 'levels'"
    )
    says_ready: bool = Field(
        default=False,
        description="whether it makes the file {ready} (also in $ROSLENS_READY_FILE) once all of "
        "it has found each other; a run in which it does not has failed",
    )
    ros: RosChoice = Field(
        default="auto",
        description="sourced: the ROS 2 of the shell; embedded: the one roslens makes; auto: the "
        "sourced one where there is one, else the embedded one; rclcpp: the same for programs in "
        "C++ (the embedded one gets an rclcpp, compiled once); none",
    )
    trace_rclpy: bool = Field(
        default=False, description="whether Python nodes emit callback and publish events"
    )

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if (self.builtin is None) == (self.command is None):
            raise ValueError("give either 'builtin' or 'command'")
        if self.command is not None and not self.command:
            raise ValueError("'command' is empty")
        if self.builtin is not None:
            scripts = builtin_scripts()
            if self.builtin not in scripts:
                names = ", ".join(scripts)
                raise ValueError(f"no built-in workload {self.builtin!r}; there is: {names}")
        return self


class Expectations(Frozen):
    """Expected results of a run; a run without them has failed."""

    ros2_events: bool = Field(default=True, description="at least one ros2 event")
    max_discarded_events: int | None = Field(
        default=None,
        ge=0,
        description="more than these dropped by the tracer: failed; null: marked",
    )
    exit_status: int = Field(default=0, description="the workload's; negative: a signal")
    files: tuple[str, ...] = Field(default=(), description="paths relative to the run's folder")

    @field_validator("files")
    @classmethod
    def _check_files(cls, files: tuple[str, ...]) -> tuple[str, ...]:
        for name in files:
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise ValueError(f"{name!r} is not a path below the run's folder")
        return files


class LevelSettings(Frozen):
    """Special settings of the runs with a certain level of a factor."""

    parameters: dict[str, Level] = Field(
        default_factory=dict, description="further or other parameters of the workload"
    )
    environment: dict[str, str] = Field(
        default_factory=dict, description="further or other environment variables"
    )
    tracing: dict[str, Any] = Field(
        default_factory=dict, description="fields of 'tracing' with other values"
    )
    needs: tuple[str, ...] = Field(
        default=(),
        description="without one of these the level is left out: package:NAME, header:PATH or "
        "python:MODULE.NAME of the ROS 2, source:NAME of the pinned sources",
    )

    @field_validator("needs")
    @classmethod
    def _known_needs(cls, needs: tuple[str, ...]) -> tuple[str, ...]:
        for need in needs:
            kind, _, name = need.partition(":")
            if kind not in NEEDS or not name:
                raise ValueError(f"{need!r}: give {', '.join(f'{prefix}:...' for prefix in NEEDS)}")
            if kind == "source" and name not in pinned():
                raise ValueError(f"{need!r}: the pinned sources are {', '.join(pinned())}")
        return needs


class Suite(Frozen):
    """A suite: factors x levels, repeated in blocks, and how each run is made and recorded."""

    name: str = Field(pattern=rf"^{_NAME.pattern}$")
    description: str = ""
    workload: WorkloadSpec
    factors: dict[str, tuple[Level, ...]] = Field(default_factory=dict)
    exclude: tuple[Factors, ...] = Field(
        default=(),
        description="combinations left out: every one that has all the levels of an entry",
    )
    repetitions: int = Field(default=1, ge=1, description="blocks: each combination once in each")
    seed: int | None = Field(
        default=None, description="of the order within blocks; None: drawn, recorded"
    )
    levels: dict[str, dict[Level, LevelSettings]] = Field(
        default_factory=dict, description="factor -> level -> what is special about its runs"
    )
    duration: float = Field(
        default=5.0, gt=0, allow_inf_nan=False, description="seconds a run works"
    )
    messages: int | None = Field(
        default=None, gt=0, description="messages a run sends, where the workload counts them"
    )
    warm_up: float = Field(
        default=0.0, ge=0, description="seconds that a run works before the duration begins"
    )
    cool_down: float = Field(
        default=0.0, ge=0, description="seconds that a run works after the duration has ended"
    )
    pause: float = Field(default=0.0, ge=0, description="seconds of rest between two runs")
    time_limit: float | None = Field(
        default=None,
        gt=0,
        description="seconds after which a run is ended; by default so that one that hangs is gone "
        "30 s after the time that it works",
    )
    retries: int = Field(
        default=0,
        ge=0,
        le=20,
        description="how often a run that failed is repeated, at the end of its block; what "
        "failed is kept and marked",
    )
    work_topic: str | None = Field(
        default=None, description="the topic whose latency is of interest"
    )
    report: str = Field(
        default="latency",
        pattern=rf"^{_NAME.pattern}$",
        description="the notebook that answers the suite's question",
    )
    tracing: TracingOptions = Field(
        default_factory=dict,
        validate_default=True,
        description="the kernel is recorded only where it says so, since each switch costs",
    )
    sampler_hz: float = Field(default=2.0, ge=0, le=1000, description="0: no sampling")
    samplers: SamplerRates = Field(default_factory=SamplerRates)
    host_limits: HostLimits = Field(
        default_factory=HostLimits, description="beyond which a run counts as disturbed"
    )
    expect: Expectations = Field(default_factory=Expectations)

    @field_validator("tracing", mode="before")
    @classmethod
    def _kernel_unasked(cls, given: Any) -> Any:
        return {"kernel": "off", **given} if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name, levels in self.factors.items():
            _check_factor(name, levels)
        if math.prod(map(len, self.factors.values())) > MOST_RUNS:
            raise ValueError(f"factors: they have more than {MOST_RUNS:,} combinations of levels")
        shared = sorted(set(self.factors) & set(self.workload.parameters))
        if shared:
            raise ValueError(f"{', '.join(shared)}: both a factor and a parameter")
        for name, level in [pair for entry in self.exclude for pair in entry.items()]:
            if level not in self.factors.get(name, ()):
                raise ValueError(f"exclude: {name}: {level!r} is not a level of a factor")
        if self.samplers.heap and not self.sampler_hz:
            raise ValueError("samplers.heap: is read by the sampler of processes; sampler_hz is 0")
        if not any(True for _ in self.combinations()):
            raise ValueError("exclude: leaves no combination")
        self._check_levels()
        if self.tracing.start == "ready" and not self.workload.says_ready:
            raise ValueError("tracing.start: ready needs a workload with says_ready: true")
        defined = {*self.factors, *self.workload.parameters, *RESERVED}
        defined.update(*(settings.parameters for settings in self._all_settings()))
        unknown = sorted(self._placeholders() - defined)
        if unknown:
            raise ValueError(
                f"workload: {{{unknown[0]}}} is no factor, no parameter and none of "
                f"{', '.join(RESERVED)} (a brace itself is written twice)"
            )
        return self

    def combinations(self) -> Iterator[Factors]:
        """Yield all combinations of levels except excluded ones, in the file's order."""
        for levels in itertools.product(*self.factors.values()):
            factors = dict(zip(self.factors, levels, strict=True))
            if not any(
                all(factors[name] == level for name, level in entry.items())
                for entry in self.exclude
            ):
                yield factors

    @property
    def limit_seconds(self) -> float:
        """Return the seconds after which a run is asked to end, and then killed."""
        if self.time_limit is not None:
            return self.time_limit
        return self.seconds + 30.0 - sum(seconds for _, seconds in GENTLE)

    @property
    def seconds(self) -> float:
        """Return the seconds that a run works: warm-up, duration, cool-down."""
        return self.warm_up + self.duration + self.cool_down

    def settings(self, factors: Mapping[str, Level]) -> LevelSettings:
        """Return the special settings of a combination's runs; later factors take precedence."""
        merged: dict[str, dict[str, Any]] = {"parameters": {}, "environment": {}, "tracing": {}}
        for name, level in factors.items():
            for field, values in merged.items():
                values.update(getattr(self.level(name, level), field))
        return LevelSettings.model_validate(merged)

    def level(self, factor: str, level: Level) -> LevelSettings:
        """Return the special settings of one level of a factor."""
        return self.levels.get(factor, {}).get(level) or LevelSettings()

    def parameters_of(self, factors: Mapping[str, Level]) -> dict[str, Level]:
        """Return the workload's parameters in the runs of a combination."""
        return {**self.workload.parameters, **self.settings(factors).parameters}

    def tracing_of(self, factors: Mapping[str, Level]) -> TracingOptions:
        """Return the tracing options of a combination's runs."""
        special = self.settings(factors).tracing
        if not special:
            return self.tracing
        return TracingOptions.model_validate({**self.tracing.model_dump(), **special})

    def _all_settings(self) -> Iterator[LevelSettings]:
        for levels in self.levels.values():
            yield from levels.values()

    def _check_levels(self) -> None:
        for name in self.workload.not_told:
            if name not in self.factors:
                raise ValueError(f"workload.not_told: {name!r} is no factor")
        for name, levels in self.levels.items():
            for level, settings in levels.items():
                if level not in self.factors.get(name, ()):
                    raise ValueError(f"levels: {name}: {level!r} is not a level of a factor")
                shared = sorted(set(settings.parameters) & set(self.factors))
                if shared:
                    raise ValueError(f"levels: {name}: {shared[0]} is a factor, no parameter")
        for factors in self.combinations():
            try:
                self.tracing_of(factors)
            except ValidationError as error:
                field, problem = first_problem(error)
                raise ValueError(f"levels: tracing: {field}: {problem}") from error

    def _placeholders(self) -> set[str]:
        names = set()
        variables = [self.workload.environment]
        variables += [settings.environment for settings in self._all_settings()]
        values = [value for environment in variables for value in environment.values()]
        for part in (*(self.workload.command or ()), *values):
            for _, name, _, _ in string.Formatter().parse(part):
                if name is not None:
                    names.add(name)
        return names


def with_changes(suite: Suite, changes: Mapping[str, object]) -> Suite:
    """Return the suite with some values replaced.

    Parameters
    ----------
    suite
        The suite.
    changes
        New values by field, such as ``duration`` or ``tracing.mode``.

    Raises
    ------
    UsageError
        A value is not valid, alone or in combination; or a level of the suite sets the field
        itself, so that the given value would not apply to all runs.
    """
    data = suite.model_dump()
    for path, value in changes.items():
        *parts, name = path.split(".")
        if parts == ["tracing"] and any(
            name in settings.tracing for settings in suite._all_settings()
        ):
            raise UsageError(
                f"{suite.name}: its levels have {path} of their own; change the suite's file"
            )
        field = data
        for part in parts:
            field = field[part]
        field[name] = value
    return _validated(data, suite.name)


def _check_factor(name: str, levels: tuple[Level, ...]) -> None:
    if not _NAME.fullmatch(name) or name in (*RESERVED, *NO_FACTORS):
        raise ValueError(f"factors: {name!r} cannot be a factor's name")
    if not levels:
        raise ValueError(f"factors: {name} has no levels")
    # repr, because 1 == 1.0 == True
    if len({repr(level) for level in levels}) != len(levels):
        raise ValueError(f"factors: {name} has a level twice")


def builtin_scripts() -> dict[str, Path]:
    """Return the scripts of the workloads that ship with roslens, by name."""
    return dict(
        sorted((p.parent.name, p) for room in ROOMS for p in room.glob("workloads/*/run.py"))
    )


def _shipped_suites() -> dict[str, Path]:
    return dict(sorted((p.stem, p) for room in ROOMS for p in room.glob("suites/*.yaml")))


def suite_command(
    suite: Suite, factors: Mapping[str, Level], values: Mapping[str, Level]
) -> list[str]:
    """Return the command of a run; a built-in's command begins with its script.

    Parameters
    ----------
    suite
        The suite.
    factors
        The run's levels.
    values
        The values of `RESERVED`.
    """
    parameters = {**suite.parameters_of(factors), **factors}
    if suite.workload.command is not None:
        placeholders = {**parameters, **values}
        return [part.format_map(placeholders) for part in suite.workload.command]
    arguments = {k: v for k, v in parameters.items() if k not in suite.workload.not_told}
    options = [text for k, v in arguments.items() for text in (f"--{k}", str(v))]
    script = builtin_scripts()[suite.workload.builtin or ""]
    seconds, native = str(values["seconds"]), str(values["native"])
    count = ["--messages", str(suite.messages)] if suite.messages is not None else []
    return [str(script), *options, "--seconds", seconds, *count, "--output", native]


def suite_variables(
    suite: Suite, factors: Mapping[str, Level], values: Mapping[str, Level]
) -> dict[str, str]:
    """Return the environment variables of a run, with the placeholders of `suite_command`."""
    placeholders = {**suite.parameters_of(factors), **factors, **values}
    given = {**suite.workload.environment, **suite.settings(factors).environment}
    return {name: value.format_map(placeholders) for name, value in given.items()}


def suite_schema() -> dict[str, Any]:
    """Return the JSON schema of suite files, with which editors complete and check them."""
    schema = Suite.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "roslens suite",
        **{k: v for k, v in schema.items() if k != "title"},
    }


def suite_path(name_or_path: str | Path) -> Path:
    """Return the file of a suite, given the name of a shipped suite or a path.

    Raises
    ------
    UsageError
        There is no such suite.
    """
    path, suites = Path(name_or_path), _shipped_suites()
    if str(name_or_path) in suites:
        return suites[str(name_or_path)]
    if not path.is_file():
        names = ", ".join(suites)
        raise UsageError(f"{name_or_path}: no such suite; there is: {names}, or give a YAML file")
    return path


def load_suite(name_or_path: str | Path) -> tuple[Suite, str]:
    """Load a suite and its text, given the name of a shipped suite or a path.

    Raises
    ------
    UsageError
        There is no such suite, or the file is not a valid suite.
    """
    path = suite_path(name_or_path)
    try:
        text = text_of_yaml(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    return parse_suite(text, str(path)), text


def parse_suite(text: str, where: str) -> Suite:
    """Validate the text of a suite.

    Raises
    ------
    UsageError
        The text is not valid; the message states which field and why.
    """
    try:
        data: Any = read_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{where}: not YAML: {reason}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{where}: a suite is a mapping with 'name', 'workload', ...")
    return _validated(data, where)


def _validated(data: dict[str, Any], where: str) -> Suite:
    try:
        return Suite.model_validate(data)
    except ValidationError as error:
        field, reason = first_problem(error)
        raise UsageError(f"{where}: {f'{field}: ' if field else ''}{reason}") from error


def list_suites() -> list[tuple[Path, Suite]]:
    """Return the suites that ship with roslens, by name."""
    return [(path, load_suite(path)[0]) for path in _shipped_suites().values()]
