"""Run the ``info`` verb: print the content of a recording."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.progress import DownloadColumn

from roslens.analysis.reports.table import ReportTable
from roslens.collectors.decoding import open_recording, recorded_until
from roslens.collectors.reader import Process, Trace, TraceInfo
from roslens.collectors.resolving import find_runs, read_each, resolved_in_words
from roslens.collectors.schema import TABLES
from roslens.collectors.times import LEAST_NS, utc
from roslens.printed import show_table, show_text
from roslens.progress import progress_bar
from roslens.recording import NotEnoughEvidenceError, Recording, UsageError
from roslens.recording.files import text_path
from roslens.recording.layout import NOT_SAMPLED
from roslens.recording.terminal import Console, print_json
from roslens.tracing.opening import opened

if TYPE_CHECKING:
    from roslens.analysis.runs import Run

_NS = 1e9
_PROCESS = ("host", "vpid", "procname")


def find_info(path: Path) -> tuple[TraceInfo, dict[str, Any] | None]:
    """Read the content of a recording, and for an excerpt which part of the recording it is.

    Raises
    ------
    UsageError
        There is no trace, or it cannot be read.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory; give the folder of a recording")
    recording = Recording.at(opened(path))
    if not recording.is_excerpt:
        return _counted(open_recording(recording.path)), None
    # The imports take a tenth of a second, which counting events does not need.
    import polars as pl  # noqa: PLC0415

    from roslens.collectors.collection import collect  # noqa: PLC0415
    from roslens.collectors.excerpt import excerpt_of  # noqa: PLC0415

    collected = collect(recording)
    processes = TABLES["processes"].empty()
    if collected.rows:
        processes = pl.read_parquet(text_path(recording.tables / "processes.parquet"), glob=False)
    info = TraceInfo(
        events=collected.events,
        events_by_name=collected.events_by_name,
        discarded_events=collected.discarded_events,
        begin_ns=processes.select(pl.col("begin_ns").min()).item(),
        end_ns=processes.select(pl.col("end_ns").max()).item(),
        processes=[Process(*about) for about in processes.select(_PROCESS).iter_rows()],
        hosts=sorted(processes["host"].unique()),
        log_levels={},
        warnings=collected.warnings,
        loss_rows=[],
    )
    return info, excerpt_of(recording)


def run_info(path: Path, *, as_json: bool) -> None:
    """Print the content of a recording, or one line per run if there are several at a path.

    Raises
    ------
    UsageError
        There is no trace, or it cannot be read.
    NotEnoughEvidenceError
        There is no event; the rest is printed all the same.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory; give the folder of a recording")
    place = opened(path)
    runs = find_runs(place) if place.is_dir() else []
    if len(runs) < 2:
        recording = runs[0] if runs else Recording.at(place)
        read = read_each([recording], lambda run: find_info(run.path), [recording])[0]
        info, excerpt = read[recording]
        silences = _silences(recording, info)
        ros = _ros_facts(recording)
        if as_json:
            more = {"excerpt": excerpt} if excerpt else {}
            print_json(info.to_json() | {"silences": silences, "ros": ros} | more)
        else:
            show_info(info, Console(), excerpt)
            _show_ros(ros, path)
            _show_silences(silences, Console())
        has_events = bool(info.events)
    else:
        infos, not_read = read_each(runs, lambda run: find_info(run.path)[0])
        silent = {run: _silences(run, info) for run, info in infos.items()}
        if as_json:
            rows = [
                {"path": str(run.path), **info.to_json(), "silences": silent[run]}
                for run, info in infos.items()
            ]
            unread = [{"path": str(run.path), "why": why} for run, why in not_read.items()]
            print_json({"recordings": rows, **({"not_read": unread} if unread else {})})
        else:
            _show_runs(path, place, infos, len(not_read), Console())
            _show_silences([row for rows in silent.values() for row in rows], Console())
        has_events = any(info.events for info in infos.values())
    if not has_events:
        raise NotEnoughEvidenceError(f"{path}: no event was recorded, or none was saved")


def _silences(recording: Recording, info: TraceInfo) -> list[dict[str, Any]]:
    """Return what fell silent or hangs, as rows of `roslens.runs.Runs.silences`.

    Only for collected recordings, and for recordings that go on after their last event.
    """
    if recording.is_excerpt or info.end_ns is None:
        return []
    until = recorded_until(recording)
    goes_on = until is not None and until - info.end_ns >= LEAST_NS
    if not goes_on and not (recording.tables / "processes.parquet").is_file():
        return []
    # As in `run_check`.
    from roslens.opening import open_as  # noqa: PLC0415
    from roslens.runs import Runs  # noqa: PLC0415

    return open_as(Runs, recording.path).silences().to_dicts()


def _ros_facts(recording: Recording) -> dict[str, Any] | None:
    """Return distribution, middleware, nodes and topics of a collected recording."""
    if not (recording.tables / "messages.parquet").is_file():
        return None
    # As in `run_check`.
    from roslens.analysis.overview.discovery import discovery_overview  # noqa: PLC0415
    from roslens.first_facts import Facts  # noqa: PLC0415
    from roslens.opening import open_as  # noqa: PLC0415
    from roslens.recordings import Recordings  # noqa: PLC0415

    recordings = open_as(Recordings, recording.path, collect=False)
    facts = Facts(recordings)
    topics = facts.topics.select("topic", "from", "to", "messages", "rate_hz")
    names = ("messages", "publishers", "subscriptions", "losses")
    return {
        "distro": facts.recorded["ROS 2"],
        "middleware": facts.recorded["middleware"],
        "nodes": sorted(recordings.names("node", "nodes")),
        "topics": topics.to_dicts(),
        "discovery": discovery_overview(*(recordings.table(name) for name in names)).to_dicts(),
    }


def _show_ros(ros: Mapping[str, Any] | None, path: Path) -> None:
    from roslens.analysis.reports.numbers import significant  # noqa: PLC0415

    if ros is None:
        show_text(f"Nodes, topics and rates: roslens {shlex.quote(str(path))}")
        return
    show_text(f"ROS 2 {ros['distro']}, middleware {ros['middleware']}")
    show_text(f"nodes: {', '.join(ros['nodes']) or 'none known'}")
    columns = ["topic", "from", "to", "n", "Hz", "discovery [ms]"]
    pair = itemgetter("topic", "from", "to")
    delays: dict[tuple[Any, ...], str] = {}
    for x in ros["discovery"]:
        least, most = (significant(x[name], 3) for name in ("at_least_ms", "delivered_ms"))
        delays.setdefault(pair(x), f"{least} to {most}")
    rows = [
        [row["topic"], row["from"] or "?", row["to"] or "?", f"{row['messages']:,}",
         significant(row["rate_hz"], 3), delays.get(pair(row), "-")]
        for row in ros["topics"]
    ]  # fmt: skip
    if rows:
        note = (
            "Discovery: how long after both were created publisher and subscription had discovered "
            "each other; at least and at most."
        )
        show_table(ReportTable(columns, rows, "", notes=[note], left=frozenset(columns[:3])))


def _show_silences(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    for row in rows:
        colour = "bold red" if row["state"] == "hung" else "yellow"
        console.print(f"[{colour}]{escape(row['sentence'])}[/]", soft_wrap=True, highlight=False)


def run_check(path: Path, *, as_json: bool) -> None:
    """Print what could be wrong with recordings, with the source of each finding.

    The findings are the table ``health`` of all runs, runs that are not complete, and files
    beside a trace that cannot be read.

    Raises
    ------
    UsageError
        There is no trace, or it cannot be read.
    NotEnoughEvidenceError
        A finding is more severe than information; all findings are printed.
    """
    # This needs the model, which the rest of 'info' does without.
    from roslens.analysis.measures.loss import health_findings  # noqa: PLC0415
    from roslens.opening import open_as  # noqa: PLC0415
    from roslens.runs import Runs  # noqa: PLC0415

    runs = open_as(Runs, path)
    issues = [row for run, recording in zip(runs.runs, runs.recordings, strict=True)
              for row in _problems_of_files(run, recording)]  # fmt: skip
    rows = [*issues, *health_findings(runs.table("health")).iter_rows(named=True)]
    if as_json:
        print_json({"findings": rows})
    else:
        console = Console()
        for row in rows:
            console.print(
                f"{row['severity']}: {row['kind']}: {row['count']:,} in {row['runs']} of "
                f"{len(runs)} runs: {row['what']} (by {row['where']})",
                soft_wrap=True, markup=False, highlight=False,
            )  # fmt: skip
    grave = [row for row in rows if row["severity"] != "info"]
    if grave:
        raise NotEnoughEvidenceError(
            f"{path}: {len(grave)} of {len(rows)} findings could distort results"
        )
    if not as_json:
        console.print("Nothing was found that could distort results.")


def _problems_of_files(run: Run, recording: Recording) -> Iterator[dict[str, Any]]:
    """List problems that the manifest reports, and files beside the trace that cannot be read."""
    from roslens.collectors.bag import find_bag, read_bag  # noqa: PLC0415
    from roslens.collectors.resources import scan_samples  # noqa: PLC0415
    from roslens.recording.schema import SAMPLED  # noqa: PLC0415

    def row(kind: str, text: str, where: str) -> dict[str, Any]:
        return {
            "severity": "warning", "kind": kind, "runs": 1, "count": 1,
            "what": f"{run.name}: {text}", "where": where,
        }  # fmt: skip

    if not run.complete:
        yield row("incomplete_run", run.failure or str(run.why_incomplete), "manifest.json")
    for disturbance in run.disturbances:
        yield row("disturbed_run", disturbance, "manifest.json")
    for name, file in recording.samples.items():
        try:
            scan_samples(next(table for table in SAMPLED if table.name == name), file)
        except UsageError as error:
            yield row("damaged_neighbour", str(error), file.name)
    bag = find_bag(recording.path)
    if bag is not None:
        try:
            read_bag(bag)
        except UsageError as error:
            yield row("damaged_neighbour", str(error), bag.name)


def _show_runs(
    path: Path,
    place: Path,
    infos: Mapping[Recording, TraceInfo],
    not_read: int,
    console: Console,
) -> None:
    console.print(resolved_in_words(place, list(infos), not_read, path), soft_wrap=True)
    columns = ["run", "begin (UTC)", "seconds", "events", "discarded", "processes"]
    rows = []
    for run, info in infos.items():
        begin, end = info.begin_ns, info.end_ns
        times = (
            ("", "")
            if begin is None or end is None
            else (utc(begin)[:19], f"{(end - begin) / _NS:.3f}")
        )
        counts = (info.events, info.discarded_events, len(info.processes))
        name = run.path.relative_to(place).as_posix()
        rows.append([name, *times, *(f"{count:,}" for count in counts)])
    show_table(ReportTable(columns, rows, "", left=frozenset(columns[:2])))
    console.print("Give one of them for its events.")


def _counted(trace: Trace) -> TraceInfo:
    with progress_bar(DownloadColumn()) as bar:
        task = bar.add_task("counting events", total=None)
        return trace.info(
            progress=lambda done, total: bar.update(task, completed=done, total=total)
        )


def show_info(info: TraceInfo, console: Console, excerpt: Mapping[str, Any] | None = None) -> None:
    """Print a trace's summary, loss first."""
    if excerpt is not None:
        text = escape(excerpt["text"])
        console.print(f"[yellow]Only part of the recording is here: {text}.[/]", soft_wrap=True)
    lost_kinds = ("lost_packets", "missing_stream")
    packets = sum(row["count"] or 0 for row in info.loss_rows if row["kind"] in lost_kinds)
    if info.discarded_events:
        discarded = [row for row in info.loss_rows if row["kind"] == "discarded_events"]
        of_kernel = sum(
            row["count"] or 0 for row in discarded if "kernel" in Path(row["trace"]).parts
        )
        share = {info.discarded_events: ", all of the kernel", 0: ""}.get(
            of_kernel, f", {of_kernel:,} of them of the kernel"
        )
        console.print(f"[bold red]The tracer discarded {info.discarded_events:,} events{share}.[/]")
    if packets:
        console.print(f"[bold red]{packets:,} packets of the recording are missing.[/]")
    if info.events and all(row["kind"] == NOT_SAMPLED for row in info.loss_rows):
        console.print("[green]The tracer discarded no events.[/]")
    for warning in info.warnings:
        console.print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)
    if info.begin_ns is not None and info.end_ns is not None:
        seconds = (info.end_ns - info.begin_ns) / _NS
        console.print(f"{utc(info.begin_ns)} to {utc(info.end_ns)} UTC, {seconds:.3f} s")
    processes = ", ".join(
        escape(f"{p.procname or '?'} ({p.host}:{p.vpid})") for p in info.processes
    )
    console.print(f"processes: {processes or 'none known'}", soft_wrap=True)
    # A single level gives no information: LTTng assigns one to each event.
    levels = info.log_levels if len(set(info.log_levels.values())) > 1 else {}
    columns = ["event", "count", *(["log level"] if levels else [])]
    rows = []
    for name, count in sorted(info.events_by_name.items(), key=lambda item: (-item[1], item[0])):
        if count:
            rows.append([name, f"{count:,}", *([levels.get(name) or ""] if levels else [])])
    rows.append(["total", f"{info.events:,}", *([""] if levels else [])])
    show_table(ReportTable(columns, rows, "", left=frozenset({"event", "log level"})))
