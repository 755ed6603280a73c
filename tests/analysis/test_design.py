"""Test proving from the runs alone whether a campaign followed its design; deviations are named."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roslens.analysis.design import check_designs
from roslens.analysis.reports.parameters import ReportParameters
from roslens.analysis.runs import Run, why_left_out
from roslens.recording import UsageError
from roslens.recording.manifest import Design
from roslens.tracing.plan import plan_runs
from roslens.tracing.suite import parse_suite

SUITE = parse_suite(
    "{name: s, workload: {command: ['true']}, repetitions: 4, factors: {a: [1, 2, 3], b: [x, y]}}",
    "s.yaml",
)


def runs_as_planned(seed: int) -> list[Run]:
    """Return the runs that the planner (tracing.plan) makes of a suite, one per second."""
    return [
        Run(
            name=run.run,
            suite="s",
            campaign="c",
            repetition=run.repetition,
            order=run.order,
            status="complete",
            seed=seed,
            start_ns=run.order * 10**9,
            design=Design(combination=run.combination, combinations=6, blocks=4),
        )
        for run in plan_runs(SUITE, seed)
    ]


@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_what_was_made_as_planned_follows_its_design(seed, shuffle):
    runs = runs_as_planned(seed)
    random.Random(shuffle).shuffle(runs)
    (check,) = check_designs(runs)
    assert check.deviations == ()
    assert (check.runs, check.planned) == (24, 24)
    # A part of the campaign does not deviate, either.
    assert check_designs(runs[:7])[0].deviations == ()


def deviations_of(runs: list[Run]) -> str:
    (check,) = check_designs(runs)
    return "; ".join(check.deviations)


def test_deviations_are_named():
    runs = runs_as_planned(7)
    assert "not what the seed gives" in deviations_of([replace(run, seed=8) for run in runs])
    swapped = [replace(runs[0], start_ns=runs[1].start_ns), replace(runs[1], start_ns=0), *runs[2:]]
    assert f"{runs[0].name}: made after place 1, is of place 0" in deviations_of(swapped)
    late = [replace(runs[0], start_ns=10**12), *runs[1:]]
    assert "made after a later block had begun" in deviations_of(late)
    assert "combination" in deviations_of([*runs, replace(runs[3], name="again")])
    assert "seed" in deviations_of([replace(run, seed=None) for run in runs])


def test_a_retry_may_come_at_the_end_of_its_block_only():
    runs = runs_as_planned(7)
    design = runs[0].design.model_copy(update={"attempt": 1, "retry_of": runs[0].name})
    retry = replace(runs[0], name="retry", design=design)
    within = replace(retry, start_ns=runs[5].start_ns + 1)
    assert deviations_of([*runs, within]) == ""
    after = replace(retry, start_ns=runs[7].start_ns + 1)
    assert "retry: made after a later block" in deviations_of([*runs, after])


def test_runs_without_a_design_are_not_judged():
    assert check_designs([Run("bare")]) == []


@pytest.mark.parametrize(
    ("change", "rule", "reason"),
    [
        ({}, {"leave_out": ["lossy", "disturbed"]}, None),
        ({"status": "failed"}, {}, "did not complete"),
        ({"status": "failed"}, {"include_failed": True}, None),
        ({"discarded_events": 3}, {}, None),
        ({"discarded_events": 3}, {"leave_out": ["lossy"]}, "lost events in the tracer"),
        ({"lost_packets": 3}, {"leave_out": ["lossy"]}, "lost events in the tracer"),
        ({"disturbances": ("steal",)}, {"leave_out": ["lossy"]}, None),
        ({"disturbances": ("steal",)}, {"leave_out": ["disturbed"]}, "was disturbed by its host"),
    ],
)
def test_runs_are_left_out_by_explicit_rules_only(change, rule, reason):
    run = replace(Run("r", status="complete"), **change)
    assert why_left_out(run, **rule) == reason


def test_other_rules_are_refused():
    with pytest.raises(UsageError, match="leave_out"):
        ReportParameters.checked({"recordings": "x", "leave_out": ["odd"]})
    assert ReportParameters.checked({"recordings": "x", "leave_out": "lossy"}).leave_out == [
        "lossy"
    ]
