"""Run ``roslens why``: print the late messages, and why they were late."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from roslens.analysis.estimate import Estimate, short_labels
from roslens.analysis.path.kinds import KINDS
from roslens.analysis.path.late import untold_in_words
from roslens.analysis.reports.numbers import value_and_interval
from roslens.analysis.reports.table import ReportTable
from roslens.collectors.times import parse_duration
from roslens.explore.why import LEAST_SHARE, cause_of, shares_by_cause
from roslens.printed import show_table, show_text
from roslens.recording import NotEnoughEvidenceError
from roslens.recording.terminal import print_json
from roslens.recordings import open_recordings

MOST_SHOWN = 20
"""The maximum number of late messages in a terminal; JSON has all."""
_DEFINITION = (
    "At: its publication, since the run's first event. A message is late if it takes longer, from "
    "publish to callback_end, than the deadline, or else than the P99 of its subscription in its "
    "run without the start; between hosts, by more than their clocks may be apart. Its cause is "
    "what took longest beyond its usual time; share is the part of this cause in all time beyond "
    "the usual."
)


def run_why(
    paths: Sequence[Path],
    *,
    topic: str | None,
    message: int | None,
    deadline: str | None,
    warm_up: str | None,
    as_json: bool,
) -> None:
    """Print what hangs, the late messages, the worst first, and the share of each cause.

    Raises
    ------
    UsageError
        A recording, topic or message does not exist, or the deadline or warm-up is not a duration.
    NotEnoughEvidenceError
        No message has both its publication and the end of its callback recorded, or of none it can
        be told whether it was late.
    """
    opened = open_recordings(paths)
    why = opened.why
    warm_up_s = None if warm_up is None else parse_duration("--warm-up", warm_up) / 1e9
    silences = opened.silences().to_dicts() if message is None else []
    late = why(topic, message, deadline, warm_up_s).sort(
        "late_by_ns", descending=True, maintain_order=True
    )
    late_by_run = why.lateness_by_run(topic, None, deadline, warm_up_s) if message is None else {}
    judged = sum(lateness.judged for lateness in late_by_run.values())
    left_out = sum(lateness.left_out for lateness in late_by_run.values())
    untold = untold_in_words(late_by_run.values())
    if message is None and not judged and not silences:
        raise NotEnoughEvidenceError(
            f"{untold[0].lower()}{untold[1:-1]}"
            if untold
            else f"all {left_out:,} messages are left out as warm-up: give a shorter --warm-up"
            if left_out
            else "of no message both the publication and the end of its callback were recorded"
        )
    shares = shares_by_cause(why, topic, deadline, warm_up_s) if message is None else []
    if as_json:
        answer = {
            "messages": judged,
            "untold": sum(lateness.untold for lateness in late_by_run.values()),
            "left_out": left_out,
            "silences": silences,
            "late": late.to_dicts(),
            "causes": [share.to_json() for share in shares],
        }
        print_json(answer)
        return
    for row in silences:
        show_text(row["sentence"])
    if judged or untold:
        show_text(why.sentences(topic, deadline, warm_up_s)[0])
    if late.height:
        asked = "Late messages, the worst first" if message is None else "The message"
        show_table(_late_table(late, asked, several=len(opened.runs) > 1))
    if shares:
        show_table(_shares_table(shares))


def _late_table(late: pl.DataFrame, title: str, *, several: bool) -> ReportTable:
    shown = late.head(MOST_SHOWN)
    rows = [
        [
            *([row["run"]] if several else []),
            str(row["message_id"]),
            f"{row['at_s']:.3f}",
            "none" if row["share"] is None else row["cause"].replace("_", " "),
            "" if row["share"] is None else f"{100 * row['share']:.0f} %",
            row["sentence"],
        ]
        for row in shown.iter_rows(named=True)
    ]
    more = late.height - shown.height
    return ReportTable(
        [*(["run"] if several else []), "message", "at [s]", "cause", "share", "why"],
        rows,
        title,
        [_DEFINITION, *([f"{more:,} more are not shown; --json has all."] if more else [])],
        left=frozenset({"run", "cause", "why"}),
        minor=["share"],
    )


def _shares_table(shares: Sequence[Estimate]) -> ReportTable:
    shares = [share for share in shares if share.value is not None and share.value >= LEAST_SHARE]
    labels = short_labels([share.cell for share in shares])
    rows = [
        [label, cause_of(share), *value_and_interval(share),
         KINDS[share.metric.removeprefix("lateness_")]]
        for label, share in zip(labels, shares, strict=True)
    ]  # fmt: skip
    several = len(set(labels)) > 1
    refused = {share.refused for share in shares if share.refused}
    return ReportTable(
        ["cell", "cause", "share [%]", "95 % interval", "meaning"][not several :],
        [row[not several :] for row in rows],
        "What late messages took beyond the usual, by cause",
        [
            f"Causes below {100 * LEAST_SHARE:g} % are not shown.",
            *(f"No interval: {why}." for why in sorted(refused)),
        ],
        left=frozenset({"cell", "cause", "meaning"}),
        minor=["meaning"],
    )
