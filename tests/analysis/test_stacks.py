"""Test call-stack samples: perf script's output, their owners, shares and changes by hand."""

import gzip
import io
import json
import shutil
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tests.samples import RUN

import roslens as rl
from roslens.analysis.figures.flame import frames_of
from roslens.analysis.interop.stack_files import collapsed, pprof, speedscope
from roslens.analysis.measures.stacks import (
    as_samples,
    assign_to_executions,
    changed,
    per_execution,
    shares,
    time_by_function,
)
from roslens.analysis.reports.functions import functions_parts
from roslens.collectors.schema import CPU_SAMPLES, TABLES, WAITS
from roslens.explore.stacks import Stacks
from roslens.recording import UsageError
from roslens.tracing.sampling.stacks import forget_old_maps, tables_of, unseen

PRINTED = """\
  40/41 100.000000007:    5000000 
\tffffffff8141a775 ns_to_timespec64 ([kernel.kallsyms])
\t            be1 __vdso_clock_gettime ([vdso])
\t            1237 operator()(int) const (/opt/my (old)/lib/libx.so)
\t           cf438 clone3@@GLIBC_2.34 (/usr/lib/libc.so.6)

  40/40 101.500000000:    5000000 
\t            1237 [unknown] (/opt/lib/libstripped.so.1)
\t            1270 main (/opt/gone (deleted))
\t    7f3f7beb57cc py::Node.spin:/opt/ws/my node.py (/tmp/perf-40.map)

  40/40 102.000000000:    5000000 
\t            1237 [unknown] ([unknown])
\t            1238 _PyEval_EvalFrameDefault (/usr/bin/python3.11)

"""  # noqa: W291


def test_what_perf_script_prints() -> None:
    sampled, waits = tables_of(io.StringIO(PRINTED), 1_000)
    assert not waits.height
    assert sampled.drop("path", "host").rows() == [
        (100_000_001_007, 40, 41, 5_000_000, True),
        (101_500_001_000, 40, 40, 5_000_000, False),
        (102_000_001_000, 40, 40, 5_000_000, False),
    ]
    assert [path.split("\n") for path in sampled["path"]] == [
        ["ns_to_timespec64 [kernel]", "__vdso_clock_gettime", "operator()(int) const", "clone3"],
        ["[libstripped.so.1]", "main", "py::Node.spin:my node.py"],
        ["[unknown]", "_PyEval_EvalFrameDefault"],
    ]
    cut, nameless, python = unseen(sampled)
    assert "2 of 3 samples do not reach" in cut
    assert "2 of 3 samples are in functions without symbols" in nameless
    assert "libstripped.so.1" in nameless
    assert "1 of 3 samples are in Python code whose functions have no names" in python
    (none,) = unseen(sampled.clear())
    assert "no sample was taken" in none


SWITCHED = """\
  40/41 100.000000010:          1 
\tffffffff821f94c3 schedule ([kernel.kallsyms])
\t           cf503 clock_nanosleep@GLIBC_2.2.5 (/usr/lib/libc.so.6)
\t           cf438 clone3@@GLIBC_2.34 (/usr/lib/libc.so.6)

  40/41 100.000000020: PERF_RECORD_SWITCH OUT        
  40/40 100.000000025: PERF_RECORD_SWITCH OUT        
  40/41 100.000000120: PERF_RECORD_SWITCH IN         
  40/41 100.000000130:    5000000 
\t            1237 f (/opt/libx.so)

  40/41 100.000000140:          1 
\t            1237 f (/opt/libx.so)

  40/41 100.000000150: PERF_RECORD_SWITCH OUT preempt
  40/41 100.000000250: PERF_RECORD_SWITCH IN         
  40/40 100.000000325: PERF_RECORD_SWITCH IN         
  40/41 100.000000400: PERF_RECORD_SWITCH OUT        
  40/41 100.000000500:          1 
\t            1237 f (/opt/libx.so)

  40/41 100.000000510: PERF_RECORD_SWITCH IN         
"""  # noqa: W291


def test_a_wait_lasts_from_leaving_a_cpu_to_the_next_one() -> None:
    """No preemptions count; 40 waits without a stack; the end of 41's last wait was lost."""
    sampled, waits = tables_of(io.StringIO(SWITCHED), 1_000)
    assert sampled.select("vtid", "cpu_ns", "path").rows() == [(41, 5_000_000, "f")]
    assert waits.drop("host", "vpid").rows() == [
        (100_000_001_020, 41, 100, True, "schedule [kernel]\nclock_nanosleep\nclone3"),
        (100_000_001_025, 40, 300, False, "[unknown]"),
    ]


def test_where_slow_executions_wait_by_hand() -> None:
    """The slow one of ten, 1000 ns long, waits 600 ns for a lock and 100 ns asleep."""
    ends = [100] * 9 + [1000]
    timers = executions(*((k, 1, "timer", 2000 * k, 2000 * k + end) for k, end in enumerate(ends)))
    lock = ("schedule [kernel]", "futex [kernel]", "lock", "g", "f", "main")
    nap = ("schedule [kernel]", "nap", "main")
    rows = [(10, 90, nap), (18_100, 400, lock), (18_500, 200, lock), (18_800, 100, nap)]
    table = WAITS.of_rows(
        [
            {"time_ns": at, "host": "h0", "vpid": 1, "vtid": 1, "wait_ns": ns, "whole": True,
             "path": "\n".join(path)}
            for at, ns, path in rows
        ]
    ).select(pl.lit("r").alias("run"), pl.all())  # fmt: skip
    (sentence,) = functions_parts(samples().lazy(), table.lazy(), timers.lazy(), 0.95)
    assert str(sentence) == (
        "The slow executions of the timer /x of /n wait 70% of their time, 60% in lock <- g <- f."
    )
    waits = assign_to_executions(as_samples(table.lazy()), timers.lazy())
    function_shares = shares(time_by_function(waits), waits, timers, 0.95)
    assert function_shares.select("function", "self_share", "total_share", "total_ns").rows() == [
        ("lock", 600 / 790, 600 / 790, 60.0), ("nap", 190 / 790, 190 / 790, 19.0),
        ("main", 0.0, 1.0, 79.0), ("f", 0.0, 600 / 790, 60.0), ("g", 0.0, 600 / 790, 60.0),
    ]  # fmt: skip


def test_waits_without_samples(tmp_path: Path) -> None:
    """Every execution of the sample's timer waits for a lock for half of its time."""
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    timers = rl.open(run).table("callback_instances").filter(kind="timer").collect()
    WAITS.of_rows(
        [
            {"time_ns": row["start_ns"], "wait_ns": row["duration_ns"] // 2, "whole": True,
             "path": "schedule [kernel]\nlock\nmain"}
            | {name: row[name] for name in ("host", "vpid", "vtid")}
            for row in timers.drop_nulls("end_ns").iter_rows(named=True)
        ]
    ).write_parquet(run / "waits.parquet")  # fmt: skip
    stacks = rl.open(run).stacks
    every = stacks.functions(waits=True)
    assert every["node"].unique().to_list() == ["/talker"]
    assert sorted(every["function"]) == ["lock", "main"]
    assert stacks.functions("/talker", waits=True).equals(every)
    # The listener waits nowhere, but it is known.
    assert stacks.functions("/listener", waits=True).is_empty()
    with pytest.raises(UsageError, match="no callback's node is named '/nobody'"):
        stacks.frame("/nobody", waits=True)
    with pytest.raises(UsageError, match="no stacks were recorded"):
        stacks.frame("/talker")
    first, second = stacks.sentences()
    assert first == "Waits were recorded, but no CPU samples."
    assert second == (
        "The slow executions of the timer 5 ms of /talker wait 50% of their time, "
        "50% in lock <- main."
    )


def test_maps_from_before_exec_are_taken_away_in_any_order(tmp_path: Path) -> None:
    """Process 8 is 7's child and runs exec twice, 9 does not; the file is not ordered by time."""

    def record(kind: int, misc: int, pids: tuple[int, ...], time: int, rest: bytes = b"") -> bytes:
        # Each record ends with process, thread and time, as only TID and TIME are requested.
        body = struct.pack(f"<{len(pids)}I", *pids) + rest + struct.pack("<IIQ", *pids[:2], time)
        return struct.pack("<IHH", kind, misc, 8 + len(body)) + body

    nobody = ((1 << 31) - 2,) * 2
    wanted = [
        (record(10, 0, (8, 8), 4, b"old"), (10, 0, *nobody)),
        (struct.pack("<IHH", 68, 0, 8), (68, 0)),
        (record(3, 1 << 13, (8, 8), 5, b"second"), (3, 1 << 13, 8, 8)),
        (record(10, 0, (8, 8), 6, b"new"), (10, 0, 8, 8)),
        (record(3, 1 << 13, (8, 8), 3, b"first"), (3, 1 << 13, 8, 8)),
        (record(7, 0, (8, 7, 8, 7), 2), (7, 1 << 13, 8, 7)),
        (record(7, 0, (9, 7, 9, 7), 2), (7, 0, 9, 7)),
        (record(7, 0, (8, 8, 10, 8), 7), (7, 0, 8, 8)),
        (record(10, 0, (9, 9), 1, b"kept"), (10, 0, 9, 9)),
        (record(2, 0, (1, 0, 30, 0), 7), (2, 0, 1, 0)),
        (record(13, 0, (4, 0), 8), (13, 0, 4, 0)),
    ]
    attribute = struct.pack("<II3Q", 1, 136, 0, 0, 1 << 1 | 1 << 2)
    content = b"".join(piece for piece, _ in wanted)
    begin = 104 + len(attribute)
    places = (104, 0, 104, len(attribute), begin, len(content), *[0] * 6)
    path = tmp_path / "perf.data"
    path.write_bytes(struct.pack("<8s12Q", b"PERFILE2", *places) + attribute + content)
    assert forget_old_maps(path) == (30, {8, 9})
    data, at = path.read_bytes(), begin
    for part, expected in wanted:
        kind, misc, _ = struct.unpack_from("<IHH", data, at)
        header = (kind, misc, *struct.unpack_from("<II", data, at + 8))
        assert header[: len(expected)] == expected
        at += len(part)


def executions(*rows: tuple[object, ...], run: str = "r") -> pl.DataFrame:
    """Make executions from id, thread, kind, start and end."""
    frame = TABLES["callback_instances"].of_rows(
        [
            {
                "callback_instance_id": number, "host": "h0", "vpid": 1, "vtid": tid,
                "kind": kind, "name": "/x", "node": "/n", "start_ns": start, "end_ns": end,
                "duration_ns": None if end is None else end - start, "intra_process": False,
            }
            for number, tid, kind, start, end in rows
        ]
    )  # fmt: skip
    return frame.select(pl.lit(run).alias("run"), pl.all())


def samples(*rows: tuple[int, int, str], run: str = "r") -> pl.DataFrame:
    """Make samples from thread, time and path."""
    frame = CPU_SAMPLES.of_rows(
        [
            {
                "time_ns": at, "host": "h0", "vpid": 1, "vtid": tid, "cpu_ns": 5, "whole": True,
                "path": "\n".join(path),
            }
            for tid, at, path in rows
        ]
    )  # fmt: skip
    return frame.select(pl.lit(run).alias("run"), pl.all())


def test_a_sample_belongs_to_the_innermost_execution_of_its_thread() -> None:
    """Execution 0 holds 1 and 2; 3 never ended; 4 is of another thread."""
    instances = executions(
        (0, 1, "timer", 100, 200), (1, 1, "service", 110, 120), (2, 1, "service", 130, 140),
        (3, 1, "timer", 300, None), (4, 2, "timer", 100, 400),
    )  # fmt: skip
    expected = {
        99: None, 100: 0, 110: 1, 119: 1, 120: 0, 125: 0, 130: 2, 150: 0, 199: 0, 200: None,
        299: None, 310: None,
    }  # fmt: skip
    taken = samples(*((1, at, "f") for at in expected), (2, 350, "f"), (3, 150, "f"))
    attributed = assign_to_executions(taken.lazy(), instances.lazy())
    assert attributed.height == taken.height
    mine = attributed.filter(pl.col("vtid") == 1)
    assert dict(mine.select("time_ns", "callback_instance_id").iter_rows()) == expected
    elsewhere = attributed.filter(pl.col("vtid") > 1).sort("vtid")
    assert elsewhere["callback_instance_id"].to_list() == [4, None]


def test_executions_that_begin_at_the_same_time_as_one_within() -> None:
    """By hand: 0 holds 1, which holds 2, and all begin at 100; 3 takes no time."""
    instances = executions(
        (0, 1, "timer", 100, 140), (1, 1, "service", 100, 130), (2, 1, "service", 100, 120),
        (3, 1, "service", 100, 100),
    )  # fmt: skip
    expected = {99: None, 100: 2, 119: 2, 120: 1, 130: 0, 139: 0, 140: None}
    taken = samples(*((1, at, "f") for at in expected))
    attributed = assign_to_executions(taken.lazy(), instances.lazy())
    assert dict(attributed.select("time_ns", "callback_instance_id").iter_rows()) == expected


def test_two_timers_of_a_node_with_one_period_and_a_callback_that_never_ended() -> None:
    """By hand: of two timers, the first takes 10 ns in f, the second 5 ns in g; at 200 one hangs.

    Samples are of 5 ns; that at 55 is outside, and two follow the start at 200.
    """
    instances = executions(
        (0, 1, "timer", 0, 50), (1, 1, "timer", 60, 70), (2, 1, "timer", 100, 150),
        (3, 1, "timer", 160, 170), (4, 1, "timer", 200, None),
    ).with_columns(callback_id=pl.Series([1, 2, 1, 2, 1]))  # fmt: skip
    taken = samples(
        *((1, at, ("f",)) for at in (10, 20, 55, 110, 120, 210, 220)),
        *((1, at, ("g",)) for at in (65, 165)),
    )
    run = SimpleNamespace(
        cpu_samples=taken.lazy(), waits=WAITS.empty().lazy(), table=lambda _: instances.lazy()
    )
    stacks = Stacks(run)
    rows = stacks.functions().select("name", "function", "total_ns", "executions").rows()
    assert rows == [("/x", "f", 10, 2), ("/x #2", "g", 5, 2)]
    assert "Of 9 samples 1 lie outside of callbacks, 2 after the start" in stacks.sentences()[-1]


def test_shares_by_hand() -> None:
    """Ten executions have two samples each; f calls itself and g; the last is the slow one."""
    timers = executions(
        *((k, 1, "timer", 100 * k, 100 * k + (60 if k == 9 else 50)) for k in range(10))
    )
    taken = [(1, 100 * k + 10, ("f", "f", "main")) for k in range(10)]
    taken += [(1, 100 * k + 20, ("g", "f", "main")) for k in range(8)]
    taken += [(1, 820, ("h", "main")), (1, 920, ("h", "main"))]
    attributed = assign_to_executions(samples(*taken).lazy(), timers.lazy())
    table = shares(time_by_function(attributed), attributed, timers, 0.95)
    got = {
        function: (self_share, total, slow, total_ns)
        for function, self_share, total, slow, total_ns in table.select(
            "function", "self_share", "total_share", "slow_share", "total_ns"
        ).iter_rows()
    }
    # 20 samples of 5 ns: f itself 10, with g 18; h 2, one of them in the slow one's two.
    assert got == {
        "f": (0.5, 0.9, 0.5, 9.0),
        "g": (0.4, 0.4, 0.0, 4.0),
        "h": (0.1, 0.1, 0.5, 1.0),
        "main": (0.0, 1.0, 1.0, 10.0),
    }
    assert table["function"].to_list() == ["f", "g", "h", "main"]
    none = WAITS.empty().lazy().with_columns(run=pl.lit("r"))
    sentence, bars = functions_parts(samples(*taken).lazy(), none, timers.lazy(), 0.95)
    assert str(sentence) == (
        "The timer /x of /n spends 50% of its CPU time in f (50% with what that calls in its "
        "slowest tenth, 90% in all; 20 samples)."
    )
    # All of it goes through main, which is not drawn.
    assert [label.get_text() for label in bars.figure.axes[0].get_yticklabels()] == ["f", "g", "h"]
    assert functions_parts(samples().lazy(), none, timers.lazy(), 0.95) == []
    # f: residuals 10 - 0.9 * 10 = 1 of eight, 5 - 9 = -4 of two: sum of squares 40, over ten
    # executions of 100 ns in all: sqrt(40 * 10 / 9) / 100; t of 9 degrees of freedom: 2.2622.
    low = table.row(0, named=True)["low"]
    assert low == pytest.approx(0.9 - 2.26216 * (400 / 9) ** 0.5 / 100, abs=1e-5)
    assert table["method"].unique().to_list() == ["ratio over executions, of these runs alone"]


def test_callbacks_with_the_same_cpu_time_are_in_order_of_their_names() -> None:
    names = [f"/t{k}" for k in range(8)]
    ran = executions(*((k, 1, "timer", 100 * k, 100 * k + 50) for k in range(8)))
    ran = ran.with_columns(pl.Series("name", names[::-1], ran.schema["name"]))
    taken = samples(*((1, 100 * k + 10, ("f",)) for k in range(8)))
    attributed = assign_to_executions(taken.lazy(), ran.lazy())
    table = shares(time_by_function(attributed), attributed, ran, 0.95)
    assert table["name"].to_list() == names


def test_shares_are_means_of_the_shares_of_three_runs() -> None:
    """f is in 24 of 30 samples of the first run, in 1 of 2 and 0 of 2 of the others.

    Each of the 34 executions has a sample. Three are slow: two of f in the first run, and one of g
    in the last.
    """
    taken, instances = [], []
    for run, functions in (("a", "g" * 6 + "f" * 22 + "FF"), ("b", "fg"), ("c", "gG")):
        spans = [60 if function.isupper() else 50 for function in functions]
        executed = executions(
            *((k, 1, "timer", 100 * k, 100 * k + span) for k, span in enumerate(spans))
        )
        instances.append(executed.with_columns(run=pl.lit(run)))
        rows = [(1, 100 * k + 10, (name.lower(), "main")) for k, name in enumerate(functions)]
        taken.append(samples(*rows, run=run))
    timers = pl.concat(instances)
    attributed = assign_to_executions(pl.concat(taken).lazy(), timers.lazy())
    table = shares(time_by_function(attributed), attributed, timers, 0.95)
    row = table.row(by_predicate=pl.col("function") == "f", named=True)
    assert row["self_share"] == pytest.approx((0.8 + 0.5 + 0) / 3)
    assert row["total_share"] == pytest.approx(row["self_share"])
    # Per execution, 25 of the 34 samples of 5 ns.
    assert (row["self_ns"], row["total_ns"]) == (125 / 34, 125 / 34)
    # All of the slow executions' time in the first run, nothing in the last.
    slow = dict(table.select("function", "slow_share").iter_rows())
    assert slow == {"f": 0.5, "g": 0.5, "main": 1.0}


PER_RUN = ("kind", "name", "node", "function", "run", "self_ns", "total_ns")


def per_run(generator: np.random.Generator, means: dict[str, float], side: str) -> pl.DataFrame:
    """Draw five runs with 3 % between them and the noise of 199 samples per s over 20 s."""
    rows = [
        ("timer", "/x", "/n", name, f"{side}{k}", *2 * (1e6 * mean * (1 + 0.03 * whole + error),))
        for k in range(5)
        for whole in generator.normal(size=1)
        for name, mean in means.items()
        for error in generator.normal(scale=(400 * mean) ** -0.5, size=1)
    ]
    return pl.DataFrame(rows, schema=PER_RUN, orient="row")


def executed(*runs: str) -> pl.DataFrame:
    """Return an execution of the callback of `per_run` in each run."""
    rows = [(run, "timer", "/x", "/n") for run in runs]
    return pl.DataFrame(
        rows, schema=dict.fromkeys(("run", "kind", "name", "node"), pl.String), orient="row"
    )


def test_false_alarms_and_what_is_found() -> None:
    """1,000 comparisons without a change name one in at most 5 %, as Holm promises."""
    generator = np.random.default_rng(46)
    means = {f"f{k}": 1.0 for k in range(10)}
    runs = executed(*(f"a{k}" for k in range(5))), executed(*(f"b{k}" for k in range(5)))
    alarms = 0
    for _ in range(1000):
        table = changed(per_run(generator, means, "a"), per_run(generator, means, "b"), runs, 0.95)
        alarms += table["confirmed"].any()
    assert alarms <= 50 + 3 * (1000 * 0.05 * 0.95) ** 0.5
    first = 0
    for _ in range(50):
        new = {**means, "f3": 1.5}
        table = changed(per_run(generator, means, "a"), per_run(generator, new, "b"), runs, 0.95)
        row = table.row(0, named=True)
        first += row["function"] == "f3" and row["confirmed"] and row["low"] > 0
    assert first >= 45


def test_a_slower_machine_is_no_change_of_a_function() -> None:
    """Of six functions, the new side runs 1.2, 1.25 and 1.3 times as long, and f0 twice that."""
    sides = [
        pl.DataFrame(
            [
                ("timer", "/x", "/n", f"f{k}", f"r{number}", *2 * (100.0 * (1 + k) * speed * more,))
                for number, speed in enumerate(speeds)
                for k in range(6)
                for more in [doubled if k == 0 else 1]
            ],
            schema=PER_RUN,
            orient="row",
        )
        for speeds, doubled in [((1.0, 1.0, 1.0), 1), ((1.2, 1.25, 1.3), 2)]
    ]
    runs = executed("r0", "r1", "r2")
    table = changed(*sides, (runs, runs), 0.95)
    first = table.row(0, named=True)
    assert (first["function"], first["confirmed"]) == ("f0", True)
    assert [first[column] for column in ("base_ns", "new_ns")] == pytest.approx([100, 200])
    assert table["change_ns"].to_list()[1:] == pytest.approx([0] * 5, abs=1e-9)
    assert table["common"].to_list() == pytest.approx([(1.2 * 1.25 * 1.3) ** (1 / 3)] * 6)
    # Four functions do not tell what is common: 25 % more of each.
    few = [side.filter(~pl.col("function").is_in(["f4", "f5"])) for side in sides]
    raw = changed(*few, (runs, runs), 0.95)
    assert raw["common"].null_count() == 4
    assert raw.filter(pl.col("function") == "f3")["change_ns"].item() == pytest.approx(100)


def test_a_function_that_a_side_lacks_took_no_time_there() -> None:
    run_instances = [
        executions((0, 1, "timer", 0, 50), (1, 1, "timer", 60, 90), run=f"r{k}") for k in range(3)
    ]
    sides = []
    for path in ("f", "g"):
        attributed = [
            assign_to_executions(
                samples((1, 10, (path, "main")), run=f"r{k}").lazy(), instances.lazy()
            )
            for k, instances in enumerate(run_instances)
        ]
        functions = time_by_function(pl.concat(attributed))
        sides.append(per_execution(functions, pl.concat(run_instances)))
    ran = pl.concat(run_instances)
    table = changed(*sides, (ran, ran), 0.95)
    rows = {row["function"]: row for row in table.iter_rows(named=True)}
    # 5 ns in two executions; runs that do not differ at all.
    assert set(rows) == {"f", "g"}
    assert [rows["f"][column] for column in ("base_ns", "new_ns", "change_ns")] == [2.5, 0.0, -2.5]
    assert rows["g"]["change_ns"] == 2.5
    lone_run = changed(sides[0], sides[1], (ran.filter(pl.col("run") == "r0"), ran), 0.95)
    assert lone_run["refused"].to_list() == ["ran in 1 and 3 runs; at least 3 a side"] * 2
    assert lone_run["low"].null_count() == 2
    assert not lone_run["confirmed"].any()


def test_a_run_in_which_a_callback_did_not_run_says_nothing_about_its_functions() -> None:
    """By hand: f takes 100 ns where its callback runs; another callback runs in all runs."""
    taken = [100.0, 100.0, 100.0, 100.0]
    names = ["r0", "r1", "r2", "r3"]
    base = pl.DataFrame(
        [("timer", "/x", "/n", "f", run, ns, ns) for run, ns in zip(names, taken, strict=True)],
        schema=PER_RUN, orient="row",
    )  # fmt: skip
    other = executed(*names).with_columns(name=pl.lit("/y"))
    all_ran = pl.concat([executed(*names), other])
    for ran, after, refused in ((4, 100, None), (3, 100, None), (2, 100, 2), (0, None, 0)):
        new = base.filter(pl.col("run").is_in(names[:ran]))
        new_ran = pl.concat([executed(*names[:ran]), other])
        (row,) = changed(base, new, (all_ran, new_ran), 0.95).iter_rows(named=True)
        assert (row["base_ns"], row["new_ns"], row["confirmed"]) == (100, after, False)
        assert row["change_ns"] == (0 if ran else None)
        why = f"ran in 4 and {refused} runs; at least 3 a side"
        assert row["refused"] == (None if refused is None else why)
    # Executions without samples of the function took no time in it.
    idle = pl.concat([executed(*names), other])
    (row,) = changed(base, base.clear(), (all_ran, idle), 0.95).iter_rows(named=True)
    assert (row["new_ns"], row["change_ns"]) == (0, -100)


def test_frames_of_a_flame_graph_by_hand() -> None:
    """main calls f 6 of 10 times and g 4 times; the slow execution has f once, g three times."""
    paths = ["f\nmain"] * 6 + ["g\nmain"] * 4
    slow = [True] + [False] * 6 + [True] * 3
    taken = pl.DataFrame({"path": paths, "cpu_ns": [5] * 10, "slow": slow})
    assert frames_of(taken).rows() == [
        (0, None, 0, "all", 0, 1.0, 1.0),
        (1, 0, 1, "main", 0, 1.0, 1.0),
        (2, 1, 2, "f", 30, 0.6, 0.25),
        (3, 1, 2, "g", 20, 0.4, 0.75),
    ]
    # A frame that is too narrow counts for its caller.
    narrow = pl.DataFrame({"path": ["f\nmain"], "cpu_ns": [1], "slow": [False]})
    many = pl.DataFrame({"path": ["main"], "cpu_ns": [999], "slow": [False]})
    assert frames_of(pl.concat([narrow, many])).select(
        "function", "own_ns", "slow_share"
    ).rows() == [
        ("all", 0, None),
        ("main", 1000, None),
    ]


@pytest.fixture
def found() -> pl.DataFrame:
    """Make 10 ns of g;h in f in a timer, and 5 ns of f outside of it."""
    instances = executions((0, 1, "timer", 0, 50))
    taken = samples((1, 10, ("g;h", "f")), (1, 20, ("g;h", "f")), (1, 60, ("f",)))
    return assign_to_executions(taken.lazy(), instances.lazy())


def test_both_formats_have_all_of_the_time(found: pl.DataFrame) -> None:
    assert collapsed(found) == "outside of callbacks;f 5\ntimer /x of /n;f;g,h 10\n"
    document = json.loads(speedscope(found))
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    profiles = {profile["name"]: profile for profile in document["profiles"]}
    timer = profiles["timer /x of /n"]
    assert [[frames[k] for k in stack] for stack in timer["samples"]] == [["f", "g;h"]]
    assert (timer["weights"], timer["endValue"], timer["unit"]) == ([10], 10, "nanoseconds")
    assert profiles["outside of callbacks"]["weights"] == [5]


# The written part of proto/profile.proto of github.com/google/pprof: number, name, kind.
PROFILE = {
    "Profile": "1 sample_type ValueType, 2 sample Sample, 4 location Location, "
    "5 function Function, 6 string_table string",
    "ValueType": "1 type int64, 2 unit int64",
    "Sample": "1 location_id uint64*, 2 value int64*, 3 label Label",
    "Label": "1 key int64, 2 str int64",
    "Location": "1 id uint64, 4 line Line",
    "Line": "1 function_id uint64",
    "Function": "1 id uint64, 2 name int64",
}


def profile_class() -> type:
    """Return the message class, by the Python protobuf package."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
    for message, fields in PROFILE.items():
        described = file.message_type.add(name=message)
        for number, name, kind in (field_text.split() for field_text in fields.split(", ")):
            plain = getattr(field, f"TYPE_{kind.rstrip('*').upper()}", None)
            many = plain is None or kind[-1] == "*" or plain == field.TYPE_STRING
            described.field.add(
                name=name, number=int(number),
                label=field.LABEL_REPEATED if many else field.LABEL_OPTIONAL,
                type=plain or field.TYPE_MESSAGE, type_name=None if plain else f".p.{kind}",
            )  # fmt: skip
    return message_factory.GetMessages([file], descriptor_pool.DescriptorPool())["p.Profile"]


def test_pprof_file_by_the_protobuf_package(found: pl.DataFrame) -> None:
    profile = profile_class().FromString(gzip.decompress(pprof(found)))
    texts = profile.string_table
    assert texts[0] == ""
    assert [(texts[kind.type], texts[kind.unit]) for kind in profile.sample_type] == [
        ("cpu", "nanoseconds")
    ]
    functions = {function.id: texts[function.name] for function in profile.function}
    frames = {location.id: functions[location.line[0].function_id] for location in profile.location}
    stacks_read = [
        (
            [frames[k] for k in sample.location_id],
            list(sample.value),
            {texts[label.key]: texts[label.str] for label in sample.label},
        )
        for sample in profile.sample
    ]
    assert stacks_read == [
        (["f"], [5], {"callback": "outside of callbacks"}),
        (["g;h", "f"], [10], {"callback": "timer /x of /n"}),
    ]
    json_total = sum(callback["endValue"] for callback in json.loads(speedscope(found))["profiles"])
    assert sum(sample.value[0] for sample in profile.sample) == json_total


def read_by_pprof(file: Path, *options: str) -> dict[str, tuple[int, int]]:
    """Return each function's own time and its time with callees [ns]."""
    command = ["go", "tool", "pprof", "-top", "-unit=ns", "-nodefraction=0", *options, file]
    printed = subprocess.check_output(command, text=True)
    rows = [line.split(maxsplit=5) for line in printed.splitlines() if line.strip()[:1].isdigit()]
    return {
        row[5]: (int(row[0].removesuffix("ns")), int(row[3].removesuffix("ns"))) for row in rows
    }


@pytest.mark.skipif(not shutil.which("go"), reason="pprof comes with go")
def test_pprof_file_by_pprof(found: pl.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "pb.gz").write_bytes(pprof(found))
    assert read_by_pprof(tmp_path / "pb.gz", "-tagroot=callback") == {
        "g;h": (10, 10),
        "f": (5, 15),
        "timer /x of /n": (0, 10),
        "outside of callbacks": (0, 5),
    }
