"""Test the study of chains.

Expected values are by hand from events in microseconds and, on the sample, what the program itself
logged at each stage with the system clock.
"""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from ros2_trace import Trace, at
from test_chains import CHAIN, Model, once
from tests.samples import MAIN, REQUIRED, RUN, SAMPLES, uncollected

import roslens as rl
from roslens.analysis.chains.estimates import (
    FollowedChain,
    chain_estimates,
    check_requirements,
)
from roslens.analysis.chains.figures import response_times_plot, where_time_goes
from roslens.analysis.chains.report import ChainsParameters, ChainsReport
from roslens.analysis.chains.requirements import NamedChain, read_requirements
from roslens.analysis.chains.tables import (
    CLOCKS,
    chains_table,
    parts_table,
    reached,
    slowest_part,
    slowest_table,
)
from roslens.analysis.flow.chain import Chain
from roslens.analysis.flow.chains import UNTOLD, ChainInstances, chain_instances
from roslens.analysis.flow.links import Link
from roslens.analysis.flow.taking_turns import as_yaml, suggested_links
from roslens.analysis.runs import Run
from roslens.analysis.verdicts.budgets import check_budgets, parse_budget
from roslens.analysis.verdicts.sides import Side
from roslens.recording import UsageError
from roslens.sides import measured

SAMPLE = SAMPLES / "chain.tar.zst"
LEFT, RIGHT, OUT, FUSION, SINK = 0x100, 0x110, 0x120, 0x20, 0x30
SUB_LEFT, SUB_RIGHT, SUB_OUT = 0x130, 0x140, 0x150
CALL_LEFT, CALL_RIGHT, CALL_OUT = 0x200, 0x210, 0x220


def fusion(order: str, *, each: bool = False) -> Trace:
    """Make /left and /right -> /fusion -> /out -> /sink; `order` is such as ``lrrl``.

    /fusion publishes when it has one more of both, or `each` time.
    """
    trace = Trace()
    trace.node(1, 0x10, "source")
    trace.publisher(3, LEFT, "/left", node=0x10)
    trace.publisher(3, RIGHT, "/right", node=0x10)
    trace.node(1, FUSION, "fusion", pid=2)
    trace.subscription(10, SUB_LEFT, "/left", node=FUSION, callback=CALL_LEFT, pid=2)
    trace.subscription(10, SUB_RIGHT, "/right", node=FUSION, callback=CALL_RIGHT, pid=2)
    trace.publisher(20, OUT, "/out", node=FUSION, pid=2)
    trace.node(1, SINK, "sink", pid=3)
    trace.subscription(10, SUB_OUT, "/out", node=SINK, callback=CALL_OUT, pid=3)
    got = {"l": 0, "r": 0}
    out = 0
    for number, side in enumerate(order):
        us = 100 + 100 * number
        trace.publish(us, LEFT if side == "l" else RIGHT)
        sub, call = (SUB_LEFT, CALL_LEFT) if side == "l" else (SUB_RIGHT, CALL_RIGHT)
        trace.take(us + 20, sub, stamp=at(us + 2), pid=2)
        trace.run(us + 23, call, lasts=17, pid=2)
        got[side] += 1
        if each or min(got.values()) > out:
            out += 1
            trace.publish(us + 30, OUT, pid=2)
            trace.receive(us + 60, SUB_OUT, CALL_OUT, stamp=at(us + 32), pid=3)
    return trace


BOTH = [
    Link("partial_sync", "/fusion", "/left", "/out"),
    Link("partial_sync", "/fusion", "/right", "/out"),
]


def test_a_node_that_waits_for_two_topics_is_found() -> None:
    model = Model(fusion("lrrl" * 5))
    assert suggested_links(model) == BOTH
    # Declared links are left alone.
    assert suggested_links(model, BOTH[:1]) == []


@pytest.mark.parametrize(
    ("order", "each"),
    [
        ("lr" * 10, True),  # sends on whatever it receives
        ("lr" * 10, False),  # always /right is the last: nothing says that /left was needed
        ("lrrl" * 4 + "l" * 8, False),  # more of one than it could use
        ("lrrl" * 2, False),  # too few
    ],
)
def test_others_are_not(order: str, *, each: bool) -> None:
    assert suggested_links(Model(fusion(order, each=each))) == []


def test_with_the_link_nothing_seems_lost() -> None:
    model = Model(fusion("lrrl" * 5))
    chain = Chain.of("/source -> /left -> /fusion -> /out -> /sink")
    without = chain_instances(model, chain).instances
    assert without["outcome"].value_counts().sort("outcome").rows() == [
        ("complete", 5),
        ("no_output", 5),
    ]
    instances = chain_instances(model, chain, BOTH).instances
    assert instances["outcome"].unique().to_list() == ["complete"]
    assert instances["match"].unique().to_list() == ["exact"]
    # l at 100 waits for r at 200: out at 230, its callback from 260 + 3 to + 8. l at 400 completes.
    assert instances["latency_ns"].to_list()[:2] == [168_000, 68_000]


def test_which_of_several_waiting_messages_was_used_is_not_sure() -> None:
    model = Model(fusion("llrr" * 5))
    chain = Chain.of("/source -> /left -> /fusion -> /out -> /sink")
    instances = chain_instances(model, chain, BOTH[:1]).instances
    assert instances["outcome"].unique().to_list() == ["complete"]
    assert "approximate" in instances["match"].to_list()


@pytest.mark.parametrize(
    ("hosts", "overview", "slowest"),
    [
        (("h0", "h1", "h1"), ["-", "-", "-", "-", "-"], []),
        (("h0", "h1", "h0"), ["0.108", "-", "-", "-", "-"],
         [["run0", "2.000", "0.1080", "-", "-"]]),
        (("h0", "h0", "h0"), ["0.108", "-", "-", "-", "/a transport or waiting (44 %)"],
         [["run0", "2.000", "0.1080", "/a transport or waiting", "0.0480"]]),
    ],
)  # fmt: skip
def test_tables_state_no_time_by_clocks_that_are_apart(
    hosts: tuple[str, str, str], overview: list[str], slowest: list[list[str]]
) -> None:
    """By hand: 108 us, 48 of them the transport of /a; how far the clocks are apart is unknown."""
    model = Model(once())
    model.tables["messages"] = model.tables["messages"].with_columns(
        publisher_host=pl.Series(hosts[:2]),
        subscription_host=pl.Series(hosts[1:]),
        clock_bound_ns=pl.lit(None, pl.Int64),
    )
    followed = FollowedChain(NamedChain(CHAIN, "line"), chain_instances(model, CHAIN))
    table = chains_table([followed])
    assert table.rows[0][3:8] == overview
    assert (CLOCKS in table.notes) == (hosts != ("h0", "h0", "h0"))
    # The first process began two seconds before the message was published.
    begins = [at(100), at(100) - 2_000_000_000]
    processes = pl.LazyFrame({"run": ["run0"] * 2, "begin_ns": begins})
    assert slowest_table(followed, 10, processes).rows == slowest
    shares = {(row[0], row[2]): row[6] for row in parts_table(followed).rows}
    told = {"h0h1h1": "-", "h0h1h0": "6.5 %", "h0h0h0": "6.5 %"}["".join(hosts)]
    assert shares["/a", "callback"] == told  # 7 of 108 us
    # Of one instance no percentile is told; what is told to be small can be left out.
    table = parts_table(followed, 0.1)
    assert {(row[4], row[5]) for row in table.rows} == {("-", "-")}
    assert (("/a", "callback") in {(row[0], row[2]) for row in table.rows}) == (told == "-")
    assert ("Parts below 10 % are not shown." in table.notes) == (told != "-")


@pytest.mark.recording
def test_parts_have_percentiles_and_their_names() -> None:
    """By the table of executions: the last part is the whole execution on /c in /sink.

    The median of as many as there are complete instances lies between the 300th and the 301st.
    """
    run = rl.open(SAMPLE)
    (row,) = run.chains.parts(MAIN).filter(node="/sink", part="callback").rows(named=True)
    messages = run.chains.frame(MAIN).filter(outcome="complete")["last_message_id"]
    ran = (
        run.messages.filter(pl.col("message_id").is_in(messages.implode()), topic="/c")
        .join(run.callback_instances, on=["run", "callback_instance_id"])
        .collect()
    )
    assert ran.height == 600
    assert row["p50_ms"] == pytest.approx(sum(sorted(ran["duration_ns"])[299:301]) / 2e6)
    assert row["p50_ms"] < row["p99_ms"]
    report = ChainsReport(run, ChainsParameters.checked({"recordings": ["x"], "chains": [MAIN]}))
    plot = where_time_goes([(MAIN, report.slowest_chain.instances)])
    texts = [text.get_text() for text in plot.figure.axes[0].texts]
    # By hand: parts of a tenth of the response time and more, from topic to callback.
    assert texts[:4] == ["/a", "/node_b", "/b", "/node_c"]


ROUND = "/a -> /t -> /b"


def followed(runs: dict[str, list[tuple[int, int | None]]]) -> FollowedChain:
    """Instances as (message, end in ms or None where it was lost), published 1 ms before."""
    rows = [
        {"run": run, "instance": n, "last_message_id": message, "clock_bound_ns": 0.0,
         "end_ns": None if ms is None else ms * 10**6, "latency_ns": None if ms is None else 10**6,
         "worst_ns": None, "at_least": False, "outcome": "lost" if ms is None else "complete"}
        for run, ends in runs.items()
        for n, (message, ms) in enumerate(ends)
    ]  # fmt: skip
    schema = {"end_ns": pl.Int64, "latency_ns": pl.Int64, "worst_ns": pl.Int64}
    found = ChainInstances(
        Chain.of(ROUND), pl.DataFrame(rows, schema_overrides=schema), pl.DataFrame, ()
    )
    return FollowedChain(NamedChain(found.chain, ROUND), found)


@pytest.mark.parametrize(
    ("ends", "rate"),
    [
        # 10 periods of 10 ms from 0 to 100 ms; the part of 105 ms ends within one more.
        ([(n, 10 * n) for n in range(11)], 100),
        # Two subscriptions, the second one 3 ms later: as many messages.
        ([(n, 10 * n + later) for n in range(11) for later in (0, 3)], 100),
        # 5 periods, then nothing from 50 to 105 ms, which is longer than 10 ms.
        ([(n, 10 * n if n < 6 else None) for n in range(11)], 5 / 0.105),
        ([(0, 5), (1, None)], 1 / 0.105),
        ([(0, None)], 0),
        ([], None),
    ],
)
def test_the_rate_of_a_chain(ends: list[tuple[int, int | None]], rate: float | None) -> None:
    """By hand, of a run that was measured from 0 to 105 ms."""
    regular = [(n, 10 * n) for n in range(11)]
    runs = [Run("a", {}), Run("b", {})]
    parts = {"a": (0, 105 * 10**6), "b": (0, 105 * 10**6)}
    estimates = chain_estimates(followed({"a": ends, "b": regular}), runs, parts=parts)
    (estimate,) = (e for e in estimates if e.metric == "chain_rate")
    assert estimate.per_run == pytest.approx((100,) if rate is None else (rate, 100))
    # Where the measured part is not known, the rate is that between the ends.
    (estimate,) = (e for e in chain_estimates(followed({"a": regular}), runs[:1])
                   if e.metric == "chain_rate")  # fmt: skip
    assert estimate.per_run == pytest.approx((100,))


def test_runs_in_which_a_chain_did_nothing_keep_no_requirement() -> None:
    """Of four runs one has no instance, and one has lost its only one."""
    regular = [(n, 10 * n) for n in range(101)]
    chain = followed({"a": regular, "b": [*regular, (101, None)], "c": [(0, None)], "e": regular})
    texts = ("response_time_p50 < 1 s", "response_time_max < 1 s", "chain_rate > 1 Hz")
    budgets = [parse_budget({"budget": text, "where": {"chain": ROUND}}) for text in texts]
    chain = replace(chain, named=replace(chain.named, budgets=budgets))
    silent = "1 of 4 runs had no instance that reached the chain's end"
    none = "1 of 4 runs had no instance of the chain, or lost too many events for a rate"
    for names, stopped, verdicts, last_notes in (
        ("abe", 1, ["within"] * 3, [None, "1 more did not reach the end", None]),
        ("abde", 1, ["not_enough_evidence"] * 3, [silent, silent, none]),
        # The run that reached nothing counts as 0 Hz: 75 Hz on average.
        ("abce", 2, ["not_enough_evidence"] * 2 + ["within"], [silent, silent, None]),
    ):
        runs = [Run(name, {}) for name in names]
        parts = dict.fromkeys(names, (0, 10**9))
        estimates = chain_estimates(chain, runs, parts=parts)
        side = Side("runs", estimates, [{}] * len(runs), len(runs))
        of_chains = check_requirements([chain], estimates, runs, side).checks
        for checks in (
            check_budgets(budgets, side).checks,
            sorted(of_chains, key=lambda c: texts.index(c.budget.text)),
        ):
            assert [c.verdict for c in checks] == verdicts
            assert [c.notes[-1] if c.notes else None for c in checks] == last_notes
            assert f"{stopped} more did not reach the end" in checks[1].notes


@pytest.mark.parametrize(
    ("outcomes", "value", "bounds", "shown"),
    [
        # 99 of 100 arrived; of 50 more nobody can say: 99 / 150 to 149 / 150.
        ({"complete": 99, "lost": 1, "unknown": 50}, None, (0.66, 149 / 150), "not known"),
        ({"complete": 99, "lost": 1, "unfinished": 25, "taken": 25}, None, (0.66, 149 / 150),
         "not known"),
        # One of 101 is less than none of 303 leave open: 1 - 0.025 ** (1 / 303) = 1.2 %.
        ({"complete": 99, "lost": 1, "unknown": 1}, 0.99, None, "99 %"),
        # What had nowhere to go counts neither way.
        ({"complete": 99, "lost": 1, "not_matched": 50}, 0.99, None, "99 %"),
        ({"not_matched": 50}, None, None, "not known"),
    ],
)  # fmt: skip
def test_completeness_that_unknown_instances_could_change_is_refused(
    outcomes: dict[str, int],
    value: float | None,
    bounds: tuple[float, float] | None,
    shown: str,
) -> None:
    """By hand, of three runs that are alike."""
    names = [name for name, count in outcomes.items() for _ in range(count)]
    ends = [(n, 10 * n if name == "complete" else None) for n, name in enumerate(names)]
    chain = followed(dict.fromkeys("abc", ends))
    frame = chain.instances.instances.with_columns(
        outcome=pl.Series(names * 3), worst_ns=pl.lit(None, pl.Int64)
    )
    chain = replace(chain, instances=replace(chain.instances, instances=frame))
    runs = [Run(name, {}) for name in "abc"]
    estimates = chain_estimates(chain, runs)
    (estimate,) = (e for e in estimates if e.metric == "chain_complete")
    assert (estimate.value, estimate.bounds) == (
        value if value is None else pytest.approx(value),
        bounds if bounds is None else pytest.approx(bounds),
    )
    assert reached(frame["outcome"]) == shown
    if bounds is not None:
        assert "of 150 of 450 instances nobody can say" in str(estimate.refused)
        budget = parse_budget({"budget": "chain_complete > 60 %", "where": {"chain": ROUND}})
        (checked,) = check_budgets([budget], Side("runs", estimates, [{}] * 3, 3)).checks
        assert checked.verdict == "not_enough_evidence"


@pytest.fixture(scope="module")
def recording() -> rl.Recordings:
    return rl.open(SAMPLE)


@pytest.mark.recording
@pytest.mark.parametrize(
    ("chain", "logged", "right"),
    [(MAIN, "a_publish", 598), ("/source2 -> /a2 -> /node_c -> /c -> /sink", "a2_publish", 524)],
)
def test_response_times_are_those_that_the_program_logged(
    recording: rl.Recordings, chain: str, logged: str, right: int
) -> None:
    report = ChainsReport(
        recording, ChainsParameters.checked({"recordings": [str(SAMPLE)], "chains": [chain]})
    )
    instances = report.chains[0].instances.instances.sort("begin_ns")
    assert instances["outcome"].value_counts().rows() == [("complete", 600)]
    log = pl.read_csv(recording.recordings[0].path / "samples.csv")
    published = log[f"{logged}_realtime_ns"].to_numpy()
    # The log's time is taken just before publish().
    instance = instances[np.searchsorted(instances["begin_ns"].to_numpy(), published)]
    assert instance["instance"].n_unique() == 600
    # The last callback takes a few microseconds.
    wrong = np.abs(instance["end_ns"].to_numpy() - log["sink_start_realtime_ns"]) > 200_000
    assert (instance["match"].to_numpy()[wrong] == "approximate").all()
    assert (~wrong).sum() >= right
    latency = log["sink_start_realtime_ns"].to_numpy() - published
    assert instance["latency_ns"].mean() == pytest.approx(latency.mean(), rel=1e-3)


@pytest.mark.recording
def test_chains_of_disturbed_runs_can_be_left_out(recording: rl.Recordings) -> None:
    disturbed = [replace(run, disturbances=("heat",)) for run in recording.runs]
    opened = recording.with_runs(disturbed)
    _, estimates = measured(opened, ["chain_rate"])
    _, rest = measured(opened, ["chain_rate"], leave_out=["disturbed"])
    assert any(e.metric == "chain_rate" for e in estimates)
    assert not any(e.metric == "chain_rate" for e in rest)


def test_links_and_chains_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "required.yaml"
    path.write_text(REQUIRED + as_yaml(BOTH))
    requirements = read_requirements(path)
    assert list(requirements.links) == BOTH
    assert [str(b.text) for b in requirements.chains[0].budgets] == [
        "response_time_p50 < 8 ms",
        "response_time_max < 12 ms",
        "chain_rate > 10 Hz",
        "chain_complete > 99 %",
    ]
    assert requirements.percentiles == [0.5]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("links: [", "no YAML"),
        ("[]", "give 'chains', 'links', or both"),
        ("chain: []", "give 'chains', 'links', or both"),
        ("links: 3", "expected a list under the key 'links'"),
        ("links:\n- {kind: direct}\n", "link 1: expected the keys"),
        (
            "links:\n- {kind: sync, node: /f, subscriptions: [/l], publishers: [/o]}\n",
            "kind is 'sync'",
        ),
        (
            "links:\n- {kind: partial_sync, node: /f, subscriptions: /l, publishers: [/o]}\n",
            "lists of them",
        ),
        ("chains: [{name: x}]", "chain 1: path: Field required"),
        ("chains: [{path: /a}]", "chain 1: chain /a: expected node, topic, node"),
        ("chains: [{path: /a -> /t -> /b, rates: 3}]", "rates: Extra inputs"),
        ("chains: [{path: /a -> /t -> /b, rate: fast}]", "chain_rate > fast"),
        ("chains: [{path: /a -> /t -> /b, response_time: {p0: 1 ms}}]", "'p0' is none of"),
        ("chains: [{path: /a -> /t -> /b}, {path: /a->/t->/b}]", "two chains are called"),
    ],
)
def test_a_file_that_says_something_else(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "required.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=problem):
        read_requirements(path)


@pytest.mark.recording
@pytest.mark.parametrize("kept", [100_000, 200_000])
def test_what_lost_events_forbid_saying_is_not_said(tmp_path: Path, kept: int) -> None:
    """One stream is cut off; the whole recording tells how far every instance really came."""
    cut = uncollected(RUN, tmp_path / "cut")
    os.truncate(cut / "trace/ust/uid/0/64-bit/ch0_1", kept)
    chain = Chain.of("/talker -> /data -> /listener")
    whole, rest = (chain_instances(rl.open(path), chain).instances for path in (RUN, cut))
    # For two instances whose first publish event is lost, the second one is the first known.
    joined = rest.join(whole, on="begin_ns", suffix="_whole")
    assert rest.height - 2 <= joined.height <= rest.height
    assert set(joined["outcome"]) > {"complete"}
    sure = joined.filter(~pl.col("outcome").is_in(UNTOLD))
    assert sure["outcome"].to_list() == sure["outcome_whole"].to_list()
    worst = joined.drop_nulls("worst_ns")
    assert worst["worst_ns"].to_list() == worst["worst_ns_whole"].to_list()
    assert 50 < worst.height < joined.filter(outcome="complete").height


def spread(runs: dict[str, list[int]]) -> FollowedChain:
    """Instances of these times in ms, of which the callback is always 1 ms, the rest transport."""
    of_chain = followed(
        {run: [(n, ms) for n, ms in enumerate(times)] for run, times in runs.items()}
    )
    took = pl.Series([ms * 10**6 for times in runs.values() for ms in times])
    instances = of_chain.instances.instances.with_columns(latency_ns=took)
    of_instance = pl.struct("run", "instance")
    parts = [
        instances.select(
            "run", "instance", hop=0, topic=pl.lit("/t"), node=pl.lit("/b"), part=pl.lit(part),
            duration_ns=duration, clock_bound_ns=0.0,
        )
        for part, duration in (
            ("transport", pl.col("latency_ns") - 10**6), ("callback", pl.lit(10**6, pl.Int64)),
        )
    ]  # fmt: skip
    hops = pl.concat(parts).sort(of_instance, maintain_order=True)
    found = replace(of_chain.instances, instances=instances, made_hops=lambda: hops)
    return replace(of_chain, instances=found)


def test_a_part_longer_than_the_whole_has_no_share() -> None:
    """By hand: of 5 ms by one clock, a transport of 4.1 ms or 7 ms by two is 82 %, or cannot be."""
    chain = spread({"a": [5] * 6})
    for ms, share in ((4.1, 0.82), (7.0, None)):
        hops = chain.instances.hops.with_columns(
            duration_ns=pl.when(part="transport").then(round(ms * 10**6)).otherwise("duration_ns")
        )
        longer = replace(
            chain, instances=replace(chain.instances, made_hops=lambda hops=hops: hops)
        )
        found, (row, _) = slowest_part(longer), parts_table(longer).rows
        assert row[-1] == ("-" if share is None else "82.0 %")
        assert found == (None if share is None else ("/t transport or waiting", share))


def test_the_picture_has_a_bar_per_cell_the_longest_first() -> None:
    """By hand: 300 instances of 3 ms and 300 of 5 ms take 4 ms on average, and 5 ms at P99."""
    chain = spread({"a": [2] * 300, "b": [3] * 300, "c": [5] * 300})
    report = ChainsReport(rl.open(SAMPLE), ChainsParameters.checked({"recordings": [str(SAMPLE)]}))
    report.__dict__["_drawn"] = [chain]
    report.counting = [
        Run("a", {"mode": "short"}), Run("b", {"mode": "long"}), Run("c", {"mode": "long"})
    ]  # fmt: skip
    plot = report.picture()
    (axes,) = plot.figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [f"{ROUND}, mode=long", f"{ROUND}, mode=short"]
    widths = [(round(bar.get_y() + bar.get_height() / 2), bar.get_width()) for bar in axes.patches]
    assert widths == [(0, 3), (0, 1), (1, 1), (1, 1)]
    # The means over runs of the runs' P99: of 3 and 5 ms, and of 2 ms.
    assert [line.get_xdata()[0] for line in axes.lines] == [4, 2]
    assert axes.get_xlabel().startswith("mean time")


def test_few_instances_are_a_dotted_tail() -> None:
    """Of 30 instances of different times, those beyond which fewer than 20 lie are dotted."""
    plot = response_times_plot([spread({"a": list(range(2, 32))})])
    whole, dotted = plot.figure.axes[1].lines
    assert dotted.get_linestyle() == ":"
    assert whole.get_linestyle() == "-"
    assert dotted.get_ydata()[-1] == pytest.approx(1 / 30)
    assert "dotted where" in plot.caption
