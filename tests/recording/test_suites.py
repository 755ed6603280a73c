"""Test that plans follow a suite's design, and that invalid suites are refused with the reason."""

import collections
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from roslens.recording import UsageError
from roslens.tracing.plan import Plan, chosen_levels, plan_runs, read_plan, write_plan
from roslens.tracing.suite import (
    Suite,
    list_suites,
    load_suite,
    parse_suite,
    suite_command,
    suite_schema,
    suite_variables,
)

LEVELS = st.lists(
    st.integers(0, 9) | st.sampled_from("abc"), min_size=1, max_size=4, unique_by=repr
)
FACTORS = st.dictionaries(st.sampled_from(["a", "b", "c"]), LEVELS, max_size=3)


def suite_of(factors, repetitions=1, exclude=()) -> Suite:
    return Suite.model_validate(
        {
            "name": "s",
            "workload": {"command": ["true"]},
            "factors": factors,
            "repetitions": repetitions,
            "exclude": list(exclude),
        }
    )


@given(FACTORS, st.integers(1, 5), st.integers(0, 2**32))
def test_each_block_holds_each_combination_once(factors, repetitions, seed):
    suite = suite_of(factors, repetitions)
    runs = plan_runs(suite, seed)
    expected = 1
    for levels in factors.values():
        expected *= len(levels)
    blocks = collections.defaultdict(list)
    for place, run in enumerate(runs):
        assert run.order == place
        blocks[run.repetition].append(repr(sorted(run.factors.items())))
    assert [run.repetition for run in runs] == sorted(run.repetition for run in runs)
    assert set(blocks) == set(range(repetitions))
    for block in blocks.values():
        assert len(block) == len(set(block)) == expected
    assert len({run.run for run in runs}) == len(runs)
    assert plan_runs(suite, seed) == runs


def test_the_order_within_a_block_is_uniform():
    # Each of the 6 orders of 3 levels is expected 1000 times in 6000 blocks; chi-squared with 5
    # degrees of freedom exceeds 20.5 once in 1000 (tables of the distribution). The seed is fixed.
    runs = plan_runs(suite_of({"a": [1, 2, 3]}, repetitions=6000), seed=1)
    orders = collections.Counter(
        tuple(run.factors["a"] for run in runs[start : start + 3]) for start in range(0, 18000, 3)
    )
    assert len(orders) == 6
    assert sum((count - 1000) ** 2 / 1000 for count in orders.values()) < 20.5


def test_other_seeds_give_other_orders():
    suite = suite_of({"a": list(range(8))})
    assert len({tuple(r.factors["a"] for r in plan_runs(suite, seed)) for seed in range(20)}) == 20


@pytest.mark.parametrize("repetitions", [300_000_000, 2**64 - 1])
def test_more_runs_than_anyone_can_wait_for_are_refused(repetitions):
    with pytest.raises(UsageError, match="more than 100,000 runs"):
        plan_runs(suite_of({"a": [1, 2]}, repetitions=repetitions), seed=1)


def test_excluded_combinations_are_left_out():
    suite = suite_of(
        {"a": [1, 2], "b": ["x", "y"]}, exclude=[{"a": 1, "b": "x"}, {"b": "y", "a": 2}]
    )
    assert list(suite.combinations()) == [{"a": 1, "b": "y"}, {"a": 2, "b": "x"}]


def test_a_plan_is_read_back_as_it_was_written(tmp_path):
    suite, text = load_suite("demo")
    plan = Plan(
        campaign="c",
        created_ns=1,
        seed=7,
        suite=suite,
        suite_text=text,
        runs=tuple(plan_runs(suite, 7)),
    )
    write_plan(plan, tmp_path)
    assert read_plan(tmp_path) == plan
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(UsageError, match=r"plan\.json: not a valid plan"):
        read_plan(tmp_path)


def test_the_demo_suite_is_what_the_readme_promises():
    suite, _ = load_suite("demo")
    assert suite.factors == {"payload": (100, 100000), "executor": ("SingleThreaded", "Events")}
    assert (suite.repetitions, suite.duration) == (5, 5)
    assert suite.workload.parameters == {"rate": 500}
    assert "demo" in [listed.name for _, listed in list_suites()]
    command = suite_command(
        suite,
        {"payload": 100, "executor": "Events"},
        {"native": "N", "seconds": 5.0, "repetition": 0, "order": 0},
    )
    assert command[1:] == [
        *("--rate", "500", "--payload", "100", "--executor", "Events"),
        *("--seconds", "5.0", "--output", "N"),
    ]


def test_a_command_is_a_template():
    suite = parse_suite(
        "{name: s, factors: {a: [1]}, workload: {parameters: {p: q}, "
        "command: [x, '--a={a}', '{p}', '{native}/f', '{{}}']}}",
        "s.yaml",
    )
    values = {"native": "N", "seconds": 1.0, "repetition": 0, "order": 0}
    assert suite_command(suite, {"a": 1}, values) == ["x", "--a=1", "q", "N/f", "{}"]


GOOD = {"name": "s", "workload": {"command": ["true"]}, "factors": {"a": [1, 2]}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": None}, "name: "),
        ({"name": "a/b"}, "name: "),
        ({"surprise": 1}, "surprise: "),
        ({"workload": {}}, "workload: give either 'builtin' or 'command'"),
        (
            {"workload": {"builtin": "nosuch"}},
            "no built-in workload 'nosuch'; there is: causes, communication",
        ),
        ({"workload": {"builtin": "9" * 400}}, "no built-in workload '999"),
        ({"workload": {"builtin": "../workloads/demo"}}, "no built-in workload '../"),
        ({"workload": {"command": []}}, "'command' is empty"),
        ({"workload": {"command": ["x", "{nope}"]}}, "{nope} is no factor"),
        ({"factors": {"a": []}}, "a has no levels"),
        ({"factors": {"a": [1, 1]}}, "a has a level twice"),
        ({"factors": {"native": [1]}}, "'native' cannot be a factor's name"),
        ({"factors": {"topic": [1]}}, "'topic' cannot be a factor's name"),
        ({"factors": {"a": [1]}, "exclude": [{"a": 2}]}, "2 is not a level"),
        ({"factors": {"a": [1]}, "exclude": [{"a": 1}]}, "leaves no combination"),
        ({"repetitions": 0}, "repetitions: "),
        ({"duration": -1}, "duration: "),
        ({"tracing": {"subbuf_size": "3M"}}, "must be a power of two"),
        ({"tracing": {"subbuf_size": "lots"}}, "is not a size"),
        ({"tracing": {"mode": "sometimes"}}, "tracing.mode: "),
        ({"tracing": {"blocking_timeout_us": 5}}, "is for mode: blocking"),
        ({"expect": {"files": ["../x"]}}, "is not a path below the run's folder"),
        ({"levels": {"a": {3: {}}}}, "levels: a: 3 is not a level"),
        ({"levels": {"a": {1: {"tracing": {"mode": "odd"}}}}}, "levels: tracing: mode"),
        ({"levels": {"a": {1: {"tracing": {"nope": 1}}}}}, "levels: tracing: nope"),
        ({"levels": {"a": {1: {"parameters": {"a": 1}}}}}, "a is a factor, no parameter"),
        ({"workload": {"command": ["x"], "not_told": ["b"]}}, "not_told: 'b' is no factor"),
        ({"workload": {"command": ["x"], "environment": {"X": "{b}"}}}, "{b} is no factor"),
        ({"samplers": {"heap": 1}, "sampler_hz": 0}, "samplers.heap"),
        ({"tracing": {"start": "ready"}}, "tracing.start: ready needs"),
        ({"tracing": {"mode": "snapshot", "max_disk": "1G"}}, "max_disk is for traces"),
        ({"host_limits": {"steal": 2}}, "host_limits.steal"),
        ({"retries": -1}, "retries"),
    ],
)
def test_a_suite_that_is_not_valid_is_refused_with_the_reason(tmp_path, change, said):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**GOOD, **change}))
    with pytest.raises(UsageError) as caught:
        load_suite(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert said in message
    assert "\n" not in message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("text", "said"), [("a: [", "not YAML"), ("- 1", "a suite is a mapping")])
def test_a_file_that_is_no_suite(tmp_path, text, said):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        load_suite(path)


def test_a_suite_that_is_not_there():
    with pytest.raises(UsageError, match=r"no such suite; there is: .*demo"):
        load_suite("nosuch")


SPECIAL = """
name: s
workload:
  command: [x, "{size}", "{extra}"]
  parameters: {extra: plain}
  environment: {SIZE: "{size}", READY: "{ready}"}
factors: {size: [1, 2], how: [none, all]}
levels:
  size:
    2: {parameters: {extra: special}, environment: {SIZE: "two of {how}"}}
  how:
    none: {tracing: {events: ["no:*"], subbuf_size: 64k}}
"""
VALUES = {"native": "N", "ready": "R", "seconds": 1.0, "messages": 0, "repetition": 0, "order": 0}


def test_levels_change_parameters_environment_and_tracing():
    suite = parse_suite(SPECIAL, "s.yaml")
    plain, special = {"size": 1, "how": "all"}, {"size": 2, "how": "none"}
    assert suite_command(suite, plain, VALUES) == ["x", "1", "plain"]
    assert suite_command(suite, special, VALUES) == ["x", "2", "special"]
    assert suite_variables(suite, plain, VALUES) == {"SIZE": "1", "READY": "R"}
    assert suite_variables(suite, special, VALUES) == {"SIZE": "two of none", "READY": "R"}
    assert suite.tracing_of(plain) == suite.tracing
    assert suite.tracing_of(special).events == ("no:*",)
    assert suite.tracing_of(special).subbuf_size == 65536


def test_only_some_levels():
    suite = suite_of({"a": [1, 2, 3], "b": ["x", "y"]}, repetitions=2)
    only = chosen_levels(suite, ["a=1", "a=3", "b=Y"])
    assert only == {"a": (1, 3), "b": ("y",)}
    runs = plan_runs(suite, 1, only)
    assert len(runs) == 4
    assert {(run.factors["a"], run.factors["b"]) for run in runs} == {(1, "y"), (3, "y")}
    for wrong, reason in (("a=9", "levels of a are"), ("c=1", "factors are: a, b"), ("a", "give")):
        with pytest.raises(UsageError, match=reason):
            chosen_levels(suite, [wrong])


def test_a_run_works_for_warm_up_duration_and_cool_down():
    text = yaml.safe_dump({**GOOD, "warm_up": 2, "duration": 3, "cool_down": 1})
    suite = parse_suite(text, "s.yaml")
    assert suite.seconds == 6
    # A run that hangs has 9 s to end in order, and is gone 30 s later.
    assert suite.limit_seconds == 27


def test_the_schema_describes_every_field():
    schema = suite_schema()
    json.dumps(schema)

    def undescribed(node, where):
        for name, field in node.get("properties", {}).items():
            place = f"{where}.{name}"
            if not ({"description", "$ref", "allOf"} & set(field)) and name not in SPEAKING:
                yield place

    missing = list(undescribed(schema, "suite"))
    for name, part in schema["$defs"].items():
        missing += undescribed(part, name)
    assert missing == []
    assert schema["properties"]["retries"]["maximum"] == 20


SPEAKING = {
    *("name", "description", "factors", "workload", "builtin", "command", "parameters"),
    *("trace_rclpy", "kernel_events", "environment"),
}
"""Fields whose name, or the part's own description, says enough."""


def test_the_suite_in_the_docs_is_valid():
    text = (Path(__file__).parents[2] / "docs" / "suites.md").read_text()
    block = text.split("```yaml\n")[1].split("```")[0]
    suite = parse_suite(block, "suites.md")
    assert sum(1 for _ in suite.combinations()) == 3
    assert suite.retries == 1
