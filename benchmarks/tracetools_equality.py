"""Hold our tracetools data model against tracetools_analysis' own, on real recordings.

Usage: PYTHONPATH=CHECKOUTS python benchmarks/tracetools_equality.py FOLDER...

CHECKOUTS is a folder with the packages tracetools_analysis (3.1), tracetools_read and
tracetools_trace of ros2_tracing. Both are given the same events, read by our reader. Frames must be
equal in columns, index and values, apart from what is named there:

* callback_instances: executions that overlap another one of the same callback; there they are
  lost, or get the wrong length. Ours must hold all others, and as many as there are callback_end;
* services: its index there is the timestamp;
* empty frames have no columns there.

Exit status 1 if anything else differs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
from tracetools_analysis.processor import Processor
from tracetools_analysis.processor.ros2 import Ros2Handler

from roslens.analysis.interop.tracetools_model import TracetoolsDataModel, tracetools_frames
from roslens.collectors.decoding import read_raw
from roslens.recording import Recording, find_recordings


def theirs(events: dict[str, pl.DataFrame]) -> Any:
    """Their model of the events, and what their processor printed."""
    known = {name.removeprefix("ros2:") for name in events}
    rows = [
        {"_name": name, "_timestamp": row.pop("time_ns"), **row}
        for name, frame in events.items()
        if name.startswith("ros2:") and name.removeprefix("ros2:") in known
        for row in frame.iter_rows(named=True)
    ]
    rows.sort(key=lambda row: row["_timestamp"])
    handler = Ros2Handler()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        Processor(handler).process(rows)
    return handler.data, said.getvalue()


def differences(ours: TracetoolsDataModel, other: Any, ends: int) -> tuple[list[str], list[str]]:
    """What differs, and what differs as named above."""
    wrong, named = [], []
    for field in fields(ours):
        mine, their = getattr(ours, field.name), getattr(other, field.name)
        if their.empty and not len(their.columns):
            if len(mine):
                wrong.append(f"{field.name}: {len(mine)} rows, none there")
            continue
        if field.name == "services":
            mine, their = mine.reset_index(drop=True), their.reset_index(drop=True)
            named.append("services: index")
        if field.name == "callback_instances":
            lost = len(mine) - len(their)
            both = mine.merge(their, how="inner")
            if len(mine) != ends:
                wrong.append(f"{field.name}: {len(mine)} rows for {ends} callback_end")
            if lost or len(both) != len(mine):
                named.append(f"{field.name}: {lost} lost, {len(their) - len(both)} wrong there")
                continue
        try:
            pd.testing.assert_frame_equal(mine, their)
        except AssertionError as error:
            wrong.append(f"{field.name}: {' '.join(str(error).split())[:300]}")
    return wrong, named


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="+", type=Path)
    failed = checked = 0
    for recording in [r for f in parser.parse_args().folder for r in find_recordings(f)]:
        events = dict(read_raw(Recording.at(recording.path)).events)
        other, _ = theirs({name: frame.lazy().collect() for name, frame in events.items()})
        ours = tracetools_frames({name: frame.lazy() for name, frame in events.items()})
        ends = events["ros2:callback_end"].lazy().select(pl.len()).collect().item()
        wrong, named = differences(ours, other, ends)
        checked += 1
        failed += bool(wrong)
        print(f"{recording.path.parent.name}/{recording.name}: {'; '.join(named)}")
        for line in wrong:
            print(f"    FAILED: {line}")
    print(f"{checked} recordings checked, {failed} failed")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
