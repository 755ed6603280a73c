"""Make tables of a part of a recording: a stretch of time, some topics, some nodes.

Packets outside the time window are not decoded, except events that name objects and events whose
meaning depends on everything before (states of lifecycle nodes, the heap). A margin around the
window is read too, so that the ends of activities that begin within it are seen. The tables keep
what `roslens.collectors.views` would show of the whole recording's tables, with these differences:

* an activity that begins within the window and ends beyond the margin lacks its end, and one that
  begins before the margin is not known;
* messages, takes and executions of callbacks are numbered within the excerpt, and ``hosts`` and
  ``processes`` count the events that were read;
* the due time of a timer, and its drift, are estimated from the activations that were read;
* how long any message of a subscription waited is not known, so one that is lost, or was replaced
  in a history of one, is unknown (``depth_unknown``);
* ``health`` describes what was read, ``losses`` the whole recording.

An excerpt never lies where a recording's own tables do; ``health``, ``tables/excerpt.json`` and
``tables/collected.json`` name its source and extent. Whole tables that lie without their traces
have such a file, too (`take_along`), so that they can be opened like a recording.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from roslens.collectors.caret_events import CLOCK, PROVIDER
from roslens.collectors.resources import scan_samples
from roslens.collectors.schema import SAMPLED, TABLES
from roslens.collectors.table_file import write_frame
from roslens.collectors.times import parse_time, utc
from roslens.collectors.views import View, matching
from roslens.recording import Recording, UsageError
from roslens.recording.errors import writing
from roslens.recording.files import text_path, write_atomically
from roslens.recording.json_file import read_json
from roslens.recording.layout import EXCERPT_MANIFEST_NAME, EXCERPT_NAME
from roslens.recording.schema import ABOUT_KEYS, Table

if TYPE_CHECKING:
    from roslens.collectors.reader import Trace, TraceInfo

DEFAULT_MARGIN_NS = 5_000_000_000
FINDING = "excerpt"

_WHOLE = ("lttng_ust_statedump:", "lttng_ust_lib:", "lttng_ust_dl:", "lttng_ust_libc:")
"""Providers whose events are read from the beginning: they name the middleware that a process
loaded, and its heap is the sum of everything before."""


@dataclass(frozen=True)
class Excerpt:
    """The part of a recording that is wanted; without restrictions, all of it.

    Attributes
    ----------
    start, end
        First and last time, both included, as `roslens.collectors.times.parse_time` reads them.
    topics, nodes
        Full names, or patterns with ``*`` and ``?``.
    margin_ns
        How much more is read before and after the window.
    """

    start: str | None = None
    end: str | None = None
    topics: Sequence[str] = ()
    nodes: Sequence[str] = ()
    margin_ns: int = DEFAULT_MARGIN_NS

    @property
    def any(self) -> bool:
        """Whether anything is restricted."""
        return bool(self.has_window or self.topics or self.nodes)

    @property
    def has_window(self) -> bool:
        """Whether the time is restricted."""
        return self.start is not None or self.end is not None

    @property
    def as_request(self) -> dict[str, Any]:
        """The request as plain data, which is compared to detect equal requests."""
        lists = {"topics": sorted(set(self.topics)), "nodes": sorted(set(self.nodes))}
        return {**asdict(self), **lists, "margin_ns": self.margin_ns if self.has_window else 0}

    def in_words(self) -> str:
        """Return the request in words, such as ``from +10s to +20s, topics /scan``."""
        parts = []
        if self.start is not None:
            parts.append(f"from {self.start}")
        if self.end is not None:
            parts.append(f"{'to' if parts else 'up to'} {self.end}")
        texts = [" ".join(parts)] if parts else []
        for kind, names in (("topic", self.topics), ("node", self.nodes)):
            if names:
                texts.append(f"{kind}{'' if len(names) == 1 else 's'} {', '.join(names)}")
        return ", ".join(texts)

    def check(self, recording: Recording) -> None:
        """Reject an excerpt whose output belongs to whole tables.

        Raises
        ------
        UsageError
            Nothing is restricted, or the output belongs to whole tables.
        """
        if not self.any:
            raise UsageError("part of a recording: give a time, a topic or a node")
        default = Recording.at(recording.path).output
        if recording.output.resolve() in (default.resolve(), recording.path.resolve()):
            raise UsageError("part of a recording goes into a folder of its own: give one with -o")
        tables = recording.output / "tables"
        if (
            tables.is_dir()
            and any(tables.iterdir())
            and not excerpt_of(Recording.at(recording.output))
        ):
            raise UsageError(
                f"{recording.output}: tables of a whole recording lie there; "
                "give another folder for a part of one with -o"
            )

    def window(self, trace: Trace) -> tuple[int | None, int | None]:
        """Return the first and last time in ns since the epoch.

        Raises
        ------
        UsageError
            A time is invalid, the end comes before the start, or the trace has no events there.
        """
        first, last = trace.first_event_ns, trace.last_event_ns
        begin = None if self.start is None else parse_time(self.start, first)
        end = None if self.end is None else parse_time(self.end, first)
        if begin is not None and end is not None and begin > end:
            raise UsageError(f"--start {self.start} is after --end {self.end}")
        late = begin is not None and last is not None and begin > last
        early = end is not None and first is not None and end < first
        if (late or early) and first is not None and last is not None:
            raise UsageError(
                f"{trace.root}: nothing was recorded {self.in_words()}: the trace lasts "
                f"{(last - first) / 1e9:.3f} s, from {utc(first)} to {utc(last)} UTC"
            )
        return begin, end


def excerpt_of(recording: Recording) -> dict[str, Any] | None:
    """Return an excerpt's description of its source; None for anything else, such as whole tables.

    Raises
    ------
    UsageError
        The description cannot be read.
    """
    about = source_of(recording)
    return None if about is None or about.get("whole") else about


def source_of(recording: Recording) -> dict[str, Any] | None:
    """Return the description of the source of tables without traces; None for anything else.

    Raises
    ------
    UsageError
        The description cannot be read.
    """
    if not recording.is_excerpt:
        return None
    path = recording.tables / EXCERPT_NAME
    try:
        about = read_json(path)
        text = f"{about['of']}: {about['in_words']}"
    except (UsageError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: damaged; run 'roslens collect' again") from error
    return {**about, "text": text}


def write_events(
    trace: Trace,
    folder: Path,
    excerpt: Excerpt,
    window: tuple[int | None, int | None],
    *,
    threads: int,
    done: Callable[[int, int], object] | None,
) -> TraceInfo:
    """Decode the events that an excerpt needs to ``<folder>/<provider>/<event>.parquet``.

    Parameters
    ----------
    window
        First and last time, in ns.
    threads, done
        As in `Trace.write_events`.

    Returns
    -------
    TraceInfo
        Information on the events written, with the losses of the whole trace.
    """
    if not excerpt.has_window:
        return trace.write_events(folder, threads=threads, progress=done)
    begin, end = window
    begin = None if begin is None else begin - excerpt.margin_ns
    end = None if end is None else end + excerpt.margin_ns
    whole = [name for name in trace.event_names if _read_whole(name)]
    rest = [name for name in trace.event_names if name not in whole]
    options: dict[str, Any] = {"end_ns": end, "threads": threads, "progress": done}
    first = trace.write_events(folder, names=whole, **options)
    second = trace.write_events(folder, names=rest, begin_ns=begin, **options)
    return first.joined(second)


def _read_whole(name: str) -> bool:
    # Imported here because writing events needs no model.
    from roslens.collectors.ros2.events import INIT_EVENTS  # noqa: PLC0415

    if name.startswith(("ros2:", PROVIDER)):
        short = name.partition(":")[2]
        return short in (*INIT_EVENTS, CLOCK) or short.startswith("rcl_lifecycle_")
    return name.startswith(_WHOLE)


def cut(
    made: Recording,
    source: Recording,
    excerpt: Excerpt,
    window: tuple[int | None, int | None],
) -> tuple[dict[str, Any], dict[str, int]]:
    """Reduce the tables just made to the excerpt, and write a description beside them.

    Parameters
    ----------
    made
        Where all tables lie, made from the events of `write_events`; changed in place.
    source
        The recording itself, whose resource samples are copied.

    Returns
    -------
    about, rows
        Description of the excerpt, and number of rows per table.

    Raises
    ------
    UsageError
        No topic or node has such a name.
    """
    about = {
        "of": source.name,
        "in_words": excerpt.in_words(),
        "asked": excerpt.as_request,
        "start_ns": window[0],
        "end_ns": window[1],
    }
    # The end of a view's window is exclusive.
    view = View(
        window_ns=(window[0], None if window[1] is None else window[1] + 1)
        if excerpt.has_window
        else None,
        nodes=_chosen(made, excerpt.nodes, "node", ("nodes",)),
        topics=_chosen(made, excerpt.topics, "topic", ("publishers", "subscriptions")),
    )
    rows = {}
    for name, table in TABLES.items():
        path = made.tables / f"{name}.parquet"
        if not path.is_file():
            continue  # events only
        frame = (
            pl.scan_parquet(text_path(path), glob=False)
            .filter(*view.filters(table, "", None))
            .collect()
        )
        if name == "messages" and excerpt.has_window:
            subscriptions = pl.read_parquet(
                text_path(made.tables / "subscriptions.parquet"), glob=False
            )
            of_one = subscriptions.filter(queue_depth=1)["subscription_id"].implode()
            is_open = (
                (pl.col("outcome") == "lost")
                & (pl.col("publisher_host") == pl.col("subscription_host"))
                & pl.col("subscription_id").is_in(of_one)
            )
            frame = frame.with_columns(
                pl.when(is_open).then(pl.lit(word)).otherwise(column).alias(column)
                for column, word in (("outcome", "unknown"), ("reason", "depth_unknown"))
            )
        if name == "health":
            frame = pl.concat([_finding(about), frame]).sort(
                pl.col("severity") != "error", maintain_order=True
            )
        metadata = pl.read_parquet_metadata(text_path(path))
        write_frame(frame, path, {key: metadata[key] for key in ABOUT_KEYS})
        rows[name] = frame.height
    take_along(made, source, about, lambda table: view.filters(table, "", None))
    return about, rows


def take_along(
    made: Recording,
    source: Recording,
    about: Mapping[str, Any],
    filters: Callable[[Table], Sequence[pl.Expr]],
) -> None:
    """Copy manifest and resource samples beside tables that will lie without their traces.

    Parameters
    ----------
    about
        Description of the tables' source.
    filters
        Returns the filters for the samples of a table.

    Raises
    ------
    UsageError, RunFailedError
        The files cannot be written; RunFailedError if the disk is full.
    """
    for table in SAMPLED:
        if file := source.samples.get(table.name):
            kept = scan_samples(table, file).filter(*filters(table)).collect()
            write_frame(kept, made.tables / f"{table.name}.parquet", table.about())
    texts = {EXCERPT_NAME: json.dumps(about, indent=1) + "\n"}
    if (manifest := source.manifest) is not None:
        texts[EXCERPT_MANIFEST_NAME] = manifest.model_dump_json(indent=1)
    for name, text in texts.items():
        with writing(made.tables / name):
            write_atomically(made.tables / name, text)


def _chosen(
    pending: Recording, patterns: Sequence[str], column: str, tables: Sequence[str]
) -> frozenset[str] | None:
    if not patterns:
        return None
    frames = (
        pl.read_parquet(text_path(pending.tables / f"{name}.parquet"), columns=[column], glob=False)
        for name in tables
    )
    names = {name for frame in frames for name in frame[column].drop_nulls()}
    return matching(patterns, names, column)


def _finding(about: Mapping[str, Any]) -> pl.DataFrame:
    health = TABLES["health"]
    text = f"only part of the recording is here: {about['in_words']}"
    if about["asked"]["margin_ns"]:
        margin = about["asked"]["margin_ns"] / 1e9
        text += (
            f"; what began more than {margin:g} s before that is not known, and what went on for "
            f"more than {margin:g} s after it lacks its end"
        )
    row = {"kind": FINDING, "severity": "warning", "count": 1, "what": text, "where": about["of"]}
    return health.conform(pl.DataFrame([row], schema_overrides=health.schema))
