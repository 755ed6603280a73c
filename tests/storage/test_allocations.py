"""Test allocations of write calls: the counting library, the program's files, the table."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
from storage_cells import ROOT, SHM, Cell, facts_of

from roslens.analysis.runs import Run
from roslens.recording import UsageError
from roslens.studies.storage.allocations import (
    allocation_estimates,
    allocation_sentences,
    allocations_table,
)
from roslens.studies.storage.live import LiveRun
from roslens.studies.storage.results.comparison import Batches
from roslens.studies.storage.results.runs import (
    ALLOCATIONS_NAME,
    StorageRun,
    read_storage_run,
)
from roslens.tracing.sampling.preloaded import preloadable

SOURCE = ROOT / "studies" / "storage" / "workloads" / "storage" / "allocations.c"
# Calls each function once, between two readings of the counts; both are printed afterwards.
PROGRAM = """
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct counted { uint64_t number, bytes; };
extern const struct counted *roslens_allocations(void) __attribute__((weak));
int main(void) {
  const struct counted *now = roslens_allocations();
  struct counted before = *now;
  void *volatile found[6];
  found[0] = malloc(1000);
  found[1] = calloc(7, 30);
  found[2] = realloc(NULL, 5);
  memset(found[0], 1, 1000);
  found[0] = realloc(found[0], 2000);
  if (posix_memalign((void **)&found[3], 64, 128)) return 1;
  found[4] = aligned_alloc(64, 256);
  struct counted after = *now;
  for (int i = 0; i < 5; ++i) free(found[i]);
  struct counted freed = *now;
  printf("%d %d %d\\n", (int)(after.number - before.number), (int)(after.bytes - before.bytes),
         (int)(freed.number - after.number));
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_library_counts_what_a_program_allocates(tmp_path: Path) -> None:
    """Ground truth: the program's own calls."""
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(PROGRAM)
    subprocess.run(["cc", "-O0", "-fno-builtin", str(source), "-o", str(program)], check=True)
    output = subprocess.check_output(
        [str(program)],
        env={**os.environ, "LD_PRELOAD": str(preloadable(SOURCE, "test"))},
        text=True,
    )
    total = 1000 + 7 * 30 + 5 + 2000 + 128 + 256
    assert output.split() == ["6", str(total), "0"]


@pytest.mark.live
@pytest.mark.skipif(not SHM.is_dir(), reason="no /dev/shm")
@pytest.mark.skipif(ctypes.util.find_library("c") is None, reason="not glibc")
def test_what_writes_nothing_allocates_nothing(cell: Cell) -> None:
    done = cell(plugin_config="null", allocations=True)
    assert done.status == 0, done.said
    counted = read_storage_run(done.folder).allocations
    assert counted is not None
    assert counted.height == done.facts["write_calls"] + 1
    assert counted.sum().row(0) == (0, 0)
    # Chunks are assembled in memory that grows.
    done = cell(plugin_config="mcap_default", allocations=True)
    counted = read_storage_run(done.folder).allocations
    assert counted is not None
    assert counted["allocations"].sum() > 0
    assert counted["allocated_bytes"].sum() > 0


@pytest.mark.live
@pytest.mark.skipif(not SHM.is_dir(), reason="no /dev/shm")
def test_nobody_counts_unless_asked(cell: Cell) -> None:
    done = cell()
    assert done.status == 0, done.said
    assert read_storage_run(done.folder).allocations is None


def run_of(name: str, allocations: list[tuple[int, int]], memory: int | None) -> LiveRun:
    """Make a run with two write calls of two messages of 100 bytes each, and the close."""
    facts = facts_of(
        batch_bytes=200,
        bytes=400,
        message_count=4,
        write_calls=2,
        rss_before_bytes=None if memory is None else 1000,
        rss_peak_bytes=None if memory is None else 1000 + memory,
    )
    calls = pl.DataFrame({"num_bytes": [200, 200], "num_msgs": [2, 2], "write_ns": [1, 1]})
    counted = pl.DataFrame(allocations, schema=["allocations", "allocated_bytes"], orient="row")
    run = Run(name=name, cell={"plugin_config": "a"}, block=name)
    return LiveRun(run, "m", StorageRun(facts, Batches(calls, 1), None, counted))


def test_the_table_by_hand() -> None:
    runs = [
        run_of("1", [(4, 100), (6, 300), (2, 400)], 2_000_000),
        run_of("2", [(4, 100), (8, 300), (4, 400)], None),
    ]
    by_metric = {e.metric: e for e in allocation_estimates(runs, 0.95)}
    # (4 + 6) / 2 and (4 + 8) / 2 per call; 12 and 16 for four messages; 800 bytes for 400.
    assert by_metric["storage_allocations_per_call"].value == pytest.approx(5.5)
    assert by_metric["storage_allocations_per_message"].value == pytest.approx(3.5)
    assert by_metric["storage_allocated_per_byte"].value == pytest.approx(2)
    # One run's memory is unknown, and is not taken for 0.
    assert by_metric["storage_memory"].value == pytest.approx(2_000_000)
    assert by_metric["storage_memory"].runs == 1
    headline, of_a = allocation_sentences(list(by_metric.values()))
    assert headline.startswith("Per message a allocates least (3.5 times)")
    assert of_a == "a: 3.5 allocations per message; at most 2.0 MB more are resident."
    (row,) = allocations_table(list(by_metric.values())).rows
    assert row[0] == "plugin_config=a"
    assert len(row) == 9


@pytest.mark.live
def test_a_file_that_is_cut_off_is_refused(cell: Cell) -> None:
    done = cell(allocations=True)
    path = done.folder / ALLOCATIONS_NAME
    lines = path.read_text().splitlines(keepends=True)
    for wrong in ("".join(lines[:-1]), "".join(lines[:-2]) + lines[-1], "sqc\n1\n", "\0"):
        path.write_text(wrong)
        with pytest.raises(UsageError, match=r"allocations\.csv"):
            read_storage_run(done.folder)
