"""Make manifests of nightly runs, and a catalog of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tests.samples import RUN

import roslens as rl

START = datetime(2026, 1, 1, tzinfo=UTC)


def manifests(folder: Path, count: int, change: Callable[[dict[str, Any], int], None]) -> None:
    """Write manifests only, one per day from 2026-01-01; `change` edits each, given its number."""
    data = json.loads((RUN / "manifest.json").read_text())
    for number in range(count):
        run = folder / f"night{number:03d}" / "run"
        run.mkdir(parents=True)
        start = int((START + timedelta(days=number)).timestamp()) * 10**9
        data |= {"campaign": f"night{number:03d}", "start_ns": start}
        change(data, number)
        (run / "manifest.json").write_text(json.dumps(data))


def nights(folder: Path) -> Path:
    """Make a catalog of 20 nights; from the 15th on the P99 is 30 % higher, at another commit."""

    def code(data: dict[str, Any], number: int) -> None:
        data["environment"]["git_commit"] = ("a" if number < 14 else "b") * 40

    manifests(folder, 20, code)
    found = rl.catalog(folder)
    level = np.where(np.arange(20) < 14, 1e6, 1.3e6)
    rows = found.frame.collect().with_columns(
        pl.Series("latency_p99", level * (1 + 0.01 * np.random.default_rng(1).standard_normal(20))),
        pl.lit(value=True).alias("collected"),
    )
    metadata = pl.read_parquet_metadata(found.file)
    rows.write_parquet(
        found.file, metadata={k: v for k, v in metadata.items() if k.startswith("roslens")}
    )
    return folder
