"""Whether `run.stacks.changed` names the function that does a tenth more, and no other.

``python benchmarks/stacks.py record FOLDER [--runs 40] [--changes 20] [--hz 997]``: runs of 20 s of
a node whose timer calls ten functions (programs/ten_functions.cpp), in random order: `--runs`
without a change, and for each of `--changes` five in which one function does a tenth more.

``python benchmarks/stacks.py judge FOLDER`` compares each change with five of the runs without
one; then it makes 1,000 comparisons of five such runs with five others, unchanged, and with every
tenth sample of a function doubled. All this is done at the recorded rate and at fractions of it:
every second sample is what half the rate would have taken.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

import roslens as rl
from roslens.analysis.measures.stacks import (
    assign_to_executions,
    changed,
    per_execution,
    time_by_function,
)
from roslens.tracing.command import record_command
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.sampling.rates import SamplerRates

PROGRAM = Path(__file__).parent / "programs" / "ten_functions.cpp"
SECONDS, PERIOD_S, BUSY = 20, 0.02, 0.6
FUNCTIONS, A_SIDE, COMPARISONS, LEVEL = 10, 5, 1000, 0.95
PARTS = (1, 2, 3, 5)
"""Factors by which samples are thinned: every n-th one is used."""
NONE = "none"


def record(folder: Path, options: argparse.Namespace) -> None:
    order = [NONE] * options.runs + [f"{change:02}" for change in range(options.changes)] * A_SIDE
    random.Random(1).shuffle(order)
    with TemporaryDirectory() as place:
        tool = [sys.executable, "-m", "roslens", "dev", "ros", "compile"]
        subprocess.run([*tool, str(PROGRAM), "-o", place], check=True)
        program = str(Path(place) / PROGRAM.stem)
        tried = [float(subprocess.check_output([program, "0", "50000000", "-1"])) for _ in range(3)]
        loops = round(50_000_000 * BUSY * PERIOD_S / min(tried))
        for number, change in enumerate(order):
            slower = -1 if change == NONE else int(change) % FUNCTIONS
            _, manifest = record_command(
                [program, str(round(SECONDS / PERIOD_S)), str(loops), str(slower)],
                folder / f"{number:03}_{change}",
                options=TracingOptions(tracer="native", kernel="off"),
                ros="embedded",
                samplers=SamplerRates(stacks=options.hz),
            )
            facts = manifest.samplers["stacks"]
            print(f"{number + 1} of {len(order)}: {manifest.status}, {facts}", flush=True)


def functions_of(folder: Path) -> dict[int, dict[str, pl.DataFrame]]:
    """Return the results of `per_execution` by thinning factor and run."""
    by_part: dict[int, dict[str, pl.DataFrame]] = {part: {} for part in PARTS}
    for path in sorted(folder.glob("[0-9]*")):
        run = rl.open(path)
        if not run.cpu_samples.head(1).collect().height:
            continue  # still being recorded
        ended = run.table("callback_instances").filter(pl.col("end_ns").is_not_null())
        samples, executions = assign_to_executions(run.cpu_samples, ended), ended.collect()
        for part in PARTS:
            taken = samples.gather_every(part).with_columns(pl.col("cpu_ns") * part)
            table = per_execution(time_by_function(taken), executions)
            # There is one timer: this is what a sample adds to its mean.
            each = pl.lit(taken["cpu_ns"].max() / executions.height)
            by_part[part][path.name] = table.with_columns(run=pl.lit(path.name), each=each)
    return by_part


def a_tenth_more(run: pl.DataFrame, function: str) -> pl.DataFrame:
    """Return a run's table with every tenth sample of a function doubled."""
    more = pl.col("each") * (pl.col("self_ns") / pl.col("each") / 10).round()
    matches = pl.col("function") == function
    return run.with_columns(self_ns=pl.col("self_ns") + pl.when(matches).then(more).otherwise(0))


def named(base: dict[str, pl.DataFrame], new: dict[str, pl.DataFrame]) -> tuple[str, bool]:
    """Return the function with the greatest change, and whether it is confirmed."""
    sides = (pl.concat(runs.values()).drop("each") for runs in (base, new))
    row = changed(*sides, (list(base), list(new)), LEVEL).row(0, named=True)
    return row["function"], row["confirmed"]


def judge(folder: Path) -> None:
    chance = np.random.default_rng(1)
    for part, runs in functions_of(folder).items():
        quiet = [name for name in runs if name.endswith(NONE)]
        hz = 1e9 / (part * rl.open(folder / quiet[0]).cpu_samples.collect()["cpu_ns"].max())
        live = []
        for change in sorted({name.rpartition("_")[2] for name in runs} - {NONE}):
            base = {name: runs[name] for name in chance.choice(quiet, A_SIDE, replace=False)}
            new = {name: runs[name] for name in runs if name.endswith(f"_{change}")}
            function, sure = named(base, new)
            first = f"<{int(change) % FUNCTIONS}>" in function
            live.append((first, first and sure))
        alarms, planted = 0, []
        steps = [name for name in runs[quiet[0]]["function"] if "step<" in name]
        for _ in range(COMPARISONS):
            names = chance.choice(quiet, 2 * A_SIDE, replace=False)
            base, new = (
                {name: runs[name] for name in side} for side in (names[:A_SIDE], names[A_SIDE:])
            )
            alarms += named(base, new)[1]
            wanted = str(chance.choice(steps))
            more = {name: a_tenth_more(run, wanted) for name, run in new.items()}
            function, sure = named(base, more)
            planted.append((function == wanted, function == wanted and sure))
        for source, outcomes in ((f"{len(live)} live", live), ("put into samples", planted)):
            first, sure = np.mean(outcomes, axis=0) if outcomes else (np.nan, np.nan)
            print(f"{hz:4.0f} Hz, a tenth more, {source}: comes first in {first:.1%}, "
                  f"first and confirmed in {sure:.1%}")  # fmt: skip
        print(f"{hz:4.0f} Hz, nothing changed: named in {alarms / COMPARISONS:.1%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("record", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=40, help="without a change")
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--hz", type=float, default=997.0)
    options = parser.parse_args()
    if options.what == "record":
        record(options.folder, options)
    else:
        judge(options.folder)


if __name__ == "__main__":
    main()
