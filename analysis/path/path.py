"""Build the causal path of each message: consecutive segments that add up to its latency.

Also split a quantile of the latency into the segments of the messages next to it.
"""

from collections.abc import Mapping
from typing import Self

import polars as pl

from roslens.analysis.path.causes import STATES, WAITING, Kernel, PieceCauses, Pieces, joined, tell
from roslens.analysis.path.groups import proven_groups
from roslens.analysis.path.kernel import KernelView, kernel_view
from roslens.analysis.path.lines import Axis, Layer, cut, edges_of
from roslens.analysis.path.moments import MOMENTS, delivered_messages, messages_without_times
from roslens.analysis.path.names import named
from roslens.analysis.reports.given import Tables
from roslens.analysis.statistics.quantiles import quantile
from roslens.collectors.ros2.blocked import executors_of
from roslens.collectors.ros2.callbacks import is_callback
from roslens.recording.arrays import ArrayLike, Ints, np

NEEDED = ("messages", "callback_instances", "publications", "executor_intervals")
"""The tables from which a path is built."""
_THREAD = ["host", "vpid", "tid"]
_NUMBER = ["host", "tid"]
_MOST_PIECES = 5_000_000
"""Greatest number of pieces held at once; after joining there are far fewer."""


class Paths:
    """One run: its messages with their moments, its threads, and the stretches on these threads.

    Messages whose publication or callback end was not recorded have no path, nor have those of
    `without_times`.

    Parameters
    ----------
    tables
        At least the tables named in `NEEDED`.
    kernel
        Kernel events by name; empty where the kernel was not recorded.

    Attributes
    ----------
    messages
        As `roslens.analysis.path.moments.delivered_messages` returns them.
    without_times
        As `roslens.analysis.path.moments.messages_without_times` returns them.
    """

    def __init__(
        self, tables: Mapping[str, pl.DataFrame], kernel: Mapping[str, pl.LazyFrame]
    ) -> None:
        tid = pl.col("vtid").cast(pl.Int64).alias("tid")
        ran = tables["callback_instances"].filter(is_callback())
        tables = {**tables, "callback_instances": ran}
        self._callback_instances = tables["callback_instances"]
        self.executions = tables["callback_instances"].with_row_index("row").with_columns(tid)
        self.intervals = tables["executor_intervals"].with_columns(tid)
        self.messages = m = delivered_messages(tables, kernel)
        self.without_times = messages_without_times(tables)
        ends = m["publish_ns"].min(), m["callback_end_ns"].max()
        first, last = (end if isinstance(end, int) else 0 for end in ends)
        self.axis = Axis(first - 1, last - first + 3)
        sender = m.select(host="sender_host", vpid="sender_vpid", tid="sender")
        # The receiver is known only by its number in the kernel.
        receiver = m.select("host", pl.lit(None, m["vpid"].dtype).alias("vpid"), tid="receiver")
        ros = [frame.select(_THREAD) for frame in (self.executions, sender, self.intervals)]
        ros_threads = pl.concat(ros).unique().drop_nulls("tid")
        more = receiver.unique().drop_nulls("tid").join(ros_threads, on=_NUMBER, how="anti")
        self.threads = (
            pl.concat([ros_threads, more]).with_row_index("line").cast({"line": pl.Int64})
        )
        self.by_number = self.threads.unique(_NUMBER, keep="none", maintain_order=True)
        self.lines = {
            "sender": self._line(sender),
            "receiver": self._line(receiver, by_number=True),
            "own": self._line(m),
        }
        ran = self.executions.drop_nulls("end_ns").sort("start_ns")
        before = pl.col("end_ns").cum_max().shift(1).over(_THREAD)
        # Executions within another one on their thread are part of it.
        self.callbacks = self._layer(
            ran.filter(before.is_null() | (pl.col("start_ns") >= before)), begin="start_ns"
        )
        # The end of a stretch without one is unknown if another stretch follows on its thread.
        over = pl.col("end_ns").is_not_null()
        over |= pl.col("begin_ns") == pl.col("begin_ns").max().over(_THREAD)
        self.states = self._layer(
            self.intervals.filter(over).with_columns(
                pl.col("state").cast(pl.String).replace_strict(STATES, return_dtype=pl.Int64)
                .alias("row"),
                pl.col("end_ns").fill_null(last + 1),
            )
        )  # fmt: skip
        self.executors = self._executors()
        waits = pl.col("state").cast(pl.String) == "wait"
        self.waits, self.executor = self._executor_layer(waits), self._executor(m)
        self.group, self.groups = self._groups()
        # Per execution; the last entry is the one that index -1 selects.
        self.callback_id = _filled(self.executions["callback_id"])
        self.ended_ns = _filled(self.executions["end_ns"])
        self.thread_of = np.append(self._line(self.executions), -1)
        self.own_callback, self.receiver = _filled(m["callback_id"], -2), _filled(m["receiver"], -2)
        ended = self.executions.select(*_NUMBER, "end_ns")
        view = kernel_view(kernel, self.by_number.select(_NUMBER), ended) if m.height else None
        self.kernel = None if view is None else self._kernel(view)
        layers = [] if self.kernel is None else self.kernel.layers
        self.edges = edges_of([self.callbacks, self.states, *layers])

    @classmethod
    def of_run(cls, tables: Tables, run: str) -> Self:
        """Build the paths of a run by its name, including causes that lie outside of a view."""
        tables = tables.whole().only(run)
        frames = dict(zip(NEEDED, pl.collect_all(map(tables.table, NEEDED)), strict=True))
        return cls(frames, tables.kernel_events(run))

    def segments_of(self, rows: Ints | None = None, *, to_start: bool = False) -> pl.DataFrame:
        """Return where the time of some messages went.

        Parameters
        ----------
        rows
            Rows of `messages`, in order; none: all.
        to_start
            Whether paths end at callback_start instead of callback_end.

        Returns
        -------
        One row per segment: ``message`` (row of `messages`), ``message_id``, ``subscription_id``,
        ``segment`` (from 0 in order of time), ``kind`` (of `roslens.analysis.path.kinds.KINDS`),
        ``begin_ns``, ``end_ns``, ``duration_ns``, ``who`` (the thread, callback or interrupt that
        held the message up; null: none or not known), ``who_node``, ``who_callback``, ``who_vtid``,
        ``source`` (``ros events`` or
        ``kernel``). The segments of a message begin at its ``publish_ns``, end at its
        ``callback_end_ns`` and leave out nothing in between.
        """
        rows = np.arange(self.messages.height) if rows is None else rows
        pieces = self._all_pieces(rows, len(MOMENTS) - 1 - to_start)
        return named(pieces, self.messages, self._callback_instances, self.kernel)

    def _line(self, frame: pl.DataFrame, *, by_number: bool = False) -> Ints:
        """Return the line of each thread; -1, on which nothing lies, for unknown threads."""
        on, threads = (_NUMBER, self.by_number) if by_number else (_THREAD, self.threads)
        lines = frame.select(on).join(
            threads.select(*on, "line"), on=on, how="left", maintain_order="left", nulls_equal=True
        )
        return lines["line"].fill_null(-1).to_numpy()

    def _layer(
        self, frame: pl.DataFrame, *, begin: str = "begin_ns", by_number: bool = False
    ) -> Layer:
        """Return the stretches of threads, each with its ``row`` or its place in the frame."""
        line = self._line(frame, by_number=by_number)
        layer = Layer.of(self.axis, line, frame[begin].to_numpy(), frame["end_ns"].to_numpy())
        if "row" not in frame.columns:
            return layer
        return Layer(layer.begin, layer.end, frame["row"].to_numpy().astype(np.int64)[layer.row])

    def _executors(self) -> pl.DataFrame:
        """Return the number of the executor of each thread that executed a callback."""
        ran = self.executions.select(*_THREAD, "callback_id").drop_nulls().unique().sort(pl.all())
        threads = ran.select(_THREAD).unique(maintain_order=True)
        members = executors_of(
            ((host, vpid, tid), callback) for host, vpid, tid, callback in ran.rows()
        )
        number = {thread: n for n, thread in enumerate(threads.rows())}
        executors = [number[members[host, vpid, tid][0]] for host, vpid, tid in threads.rows()]
        return threads.with_columns(executor=pl.Series(executors, dtype=pl.Int64))

    def _executor(self, frame: pl.DataFrame) -> Ints:
        """Return the executor number of each thread; -1 for threads that executed no callback."""
        executors = frame.select(_THREAD).join(
            self.executors, on=_THREAD, how="left", maintain_order="left", nulls_equal=True
        )
        return executors["executor"].fill_null(-1).to_numpy()

    def _executor_layer(self, condition: pl.Expr) -> Layer:
        """Return the stretches of matching intervals; the lines are the numbers of `_executor`."""
        rows = self.intervals.filter(condition).drop_nulls("end_ns").sort("begin_ns")
        executor = self._executor(rows)
        until = rows.select(executor=executor, end_ns="end_ns").select(
            pl.col("end_ns").cum_max().over("executor")
        )  # fmt: skip
        return Layer.of(
            self.axis, executor, rows["begin_ns"].to_numpy(), until["end_ns"].to_numpy()
        )

    def _kernel(self, view: KernelView) -> Kernel:
        def layer(frame: pl.DataFrame) -> Layer:
            return self._layer(frame, by_number=True)

        every = view.interrupts.with_row_index("row")
        soft, hard = (layer(every.filter(pl.col("soft") == is_soft)) for is_soft in (True, False))
        layers = layer(view.states), layer(view.had_cpu), hard, soft, layer(view.faults)
        return Kernel(view, *layers, self._ran_by)

    def _ran_by(self, tid: Ints, line: Ints, time_ns: Ints) -> Ints:
        """Return the executions that threads, on the hosts of other lines, were in; -1 for none."""
        hosts = self.threads["host"].cast(pl.String)
        host = pl.Series([*hosts, None], dtype=pl.String)[np.where(line < 0, len(hosts), line)]
        frame = pl.DataFrame(
            {"host": host, "tid": tid}, schema={"host": pl.String, "tid": pl.Int64}
        )
        threads = self.by_number.with_columns(pl.col("host").cast(pl.String))
        lines = frame.join(threads, on=_NUMBER, how="left", maintain_order="left")["line"]
        return self.callbacks.row_at(self.axis.at(lines.fill_null(-1).to_numpy(), time_ns))

    def _groups(self) -> tuple[Ints, Layer]:
        """Return each message's proven group, -1 without one, and the executions of the groups."""
        in_vain = (pl.col("state").cast(pl.String) == "busy") & (pl.col("executed") == 0)
        free = self._executor_layer((pl.col("state").cast(pl.String) == "wait") | in_vain)

        def idle_ns(rows: pl.DataFrame) -> Ints:
            executor = rows["executor"].to_numpy()
            begin, end = (
                self.axis.at(executor, rows[name].to_numpy()) for name in ("from_ns", "end_ns")
            )
            return free.within(begin, end)

        waits = self.messages.select(
            "callback_id", "node", "taken_ns", since_ns="handed_ns", executor=self.executor
        )
        groups = proven_groups(
            waits.drop_nulls(["callback_id", "node"]),
            self.executions.with_columns(executor=self._executor(self.executions)), idle_ns,
        )  # fmt: skip
        pairs = [
            (callback, n, holder)
            for n, (callback, holders) in enumerate(groups.items())
            for holder in holders
        ]
        schema = {"own": pl.Int64, "group": pl.Int64, "callback_id": pl.Int64}
        members = pl.DataFrame(pairs, schema=schema, orient="row")
        number = self.messages.select(own=pl.col("callback_id").cast(pl.Int64)).join(
            members.select("own", "group").unique(), on="own", how="left", maintain_order="left"
        )["group"].fill_null(-1).to_numpy()  # fmt: skip
        ran = (
            self.executions.with_columns(pl.col("callback_id").cast(pl.Int64))
            .drop_nulls("end_ns")
            .join(members, on="callback_id")
        )
        if ran.is_empty():
            return number, Layer(*(np.empty(0, np.int64),) * 3)
        times = (ran[name].to_numpy() for name in ("start_ns", "end_ns"))
        layer = Layer.of(self.axis, ran["group"].to_numpy(), *times)
        row = ran["row"].to_numpy().astype(np.int64)[layer.row]
        return number, Layer(layer.begin, layer.end, row)

    def _all_pieces(self, messages: Ints, phases: int) -> pl.DataFrame:
        """Return the pieces that `named` takes."""
        m = self.messages[messages]
        own_line, edges = self.lines["own"][messages], self.callbacks.begin
        moments = (
            self.axis.at(own_line, m[name].to_numpy()) for name in ("publish_ns", "callback_end_ns")
        )
        begin, end = (np.searchsorted(edges, moment) for moment in moments)
        # Messages that wait behind many others have many pieces.
        part = np.cumsum(8 * (end - begin + 1)) // _MOST_PIECES
        rows = [messages[part == number] for number in np.unique(part)] or [messages]
        return pl.concat([self._with_sentences(self._pieces(chunk, phases)) for chunk in rows])

    def _pieces(self, messages: Ints, phases: int) -> pl.DataFrame:
        """Cut messages into ordered pieces: message, phase, line, begin_ns, end_ns, idle, group."""
        m = self.messages[messages]
        moments = np.stack([m[name].to_numpy() for name in MOMENTS[: phases + 1]], 1)
        lines = {name: line[messages] for name, line in self.lines.items()}
        sending = np.where(m["itself"].to_numpy(), lines["sender"], -1)
        of_phase = [lines["sender"], sending, lines["receiver"], *[lines["own"]] * 3]
        rows = pl.DataFrame(
            {
                "message": np.repeat(messages, phases),
                "phase": np.tile(np.arange(phases), m.height),
                "line": np.stack(of_phase[:phases], 1).ravel(),
                "begin_ns": moments[:, :-1].ravel(),
                "end_ns": moments[:, 1:].ravel(),
            }
        )
        rows, _ = self._cut(rows, rows["line"].to_numpy(), self.edges)
        for name, number, layer in (
            ("idle", self.executor, self.waits), ("group", self.group, self.groups)
        ):  # fmt: skip
            if layer.row.size == 0:
                rows = rows.with_columns(pl.lit(-1, pl.Int64).alias(name))
                continue
            waiting = rows["phase"].to_numpy() == WAITING
            line = np.where(waiting, number[rows["message"].to_numpy()], -1)
            rows, line = self._cut(rows, line, edges_of([layer]))
            layer_rows = layer.row_at(self.axis.at(line, rows["begin_ns"].to_numpy()))
            rows = rows.with_columns(pl.Series(name, layer_rows))
        return rows

    def _cut(self, rows: pl.DataFrame, line: Ints, edges: Ints) -> tuple[pl.DataFrame, Ints]:
        begin, end = (rows[name].to_numpy() for name in ("begin_ns", "end_ns"))
        row, begin, end = cut(self.axis, line, begin, end, edges)
        return rows[row].with_columns(begin_ns=begin, end_ns=end), line[row]

    def _with_sentences(self, rows: pl.DataFrame) -> pl.DataFrame:
        message, phase, line, begin, idle, group = (
            rows[name].to_numpy()
            for name in ("message", "phase", "line", "begin_ns", "idle", "group")
        )
        place = self.axis.at(line, begin)
        m, callback, last = (
            self.messages,
            self.callbacks.row_at(place),
            self.callbacks.row_before(place),
        )
        own_callback = self.own_callback[message]
        behind = (self.callback_id[last] == own_callback) & (self.thread_of[last] == line)
        pieces = Pieces(
            message=message,
            lasted_ns=rows["end_ns"].to_numpy() - begin,
            phase=phase,
            arrived=m["arrived"].to_numpy()[message],
            state=self.states.row_at(place),
            callback=callback,
            same=(callback >= 0) & (self.callback_id[callback] == own_callback),
            earlier=np.where(
                behind & (self.ended_ns[last] > m["handed_ns"].to_numpy()[message]), last, -1
            ),
            idle=idle >= 0,
            group=group,
            receiver=self.receiver[message],
        )
        seen = None if self.kernel is None else self.kernel.seen(place, line, begin)
        labels = PieceCauses(rows.height)
        tell(pieces, seen, labels)
        return joined(rows.select("message", "begin_ns", "end_ns").with_columns(labels.columns()))


def _filled(column: pl.Series, null: int = -1) -> Ints:
    """Return the column as numbers, with one further entry for null."""
    numbers = column.cast(pl.Int64).fill_null(null).to_numpy()
    return np.append(numbers, null)


def parts_of_quantile(
    paths: Paths, topics: frozenset[str], latency_ns: ArrayLike, q: float
) -> Mapping[str, float]:
    """Return mean segments, from publish to callback_start, of the messages around a quantile.

    These are the messages between the quantiles (1 - q) / 2, at most 0.05, to either side of q. The
    means are scaled so that they add up to the q-quantile of the latency.

    Parameters
    ----------
    topics, latency_ns
        Topics and latencies of the quantile; at least one latency, in ns.

    Returns
    -------
    ns by kind of segment and, where known, the callback that held the message up; empty where no
    message has a path.
    """
    value, half = quantile(latency_ns, q), min(0.05, (1 - q) / 2)
    low, high = (quantile(latency_ns, max(level, 0.0)) for level in (q - half, q + half))
    took = pl.col("callback_start_ns") - pl.col("publish_ns")
    rows = (
        paths.messages.with_row_index("row")
        .filter(pl.col("topic").is_in(list(topics)))
        .sort((took - value).abs(), maintain_order=True)
    )
    near = rows.filter(took.is_between(low, high))
    near = rows.head(1) if near.is_empty() else near
    path = paths.segments_of(np.sort(near["row"].to_numpy().astype(np.int64)), to_start=True)
    who = pl.format(", {} of {}", "who_callback", pl.col("who_node").fill_null("a node"))
    cause = pl.concat_str(pl.col("kind").cast(pl.String).str.replace_all("_", " "),
                          who.fill_null(""))  # fmt: skip
    spent = dict(path.group_by(cause.alias("cause")).agg(pl.sum("duration_ns")).iter_rows())
    total = sum(spent.values())
    return {name: ns * value / total for name, ns in spent.items()} if total else {}
