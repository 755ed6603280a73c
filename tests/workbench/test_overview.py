"""Test the graph of nodes and topics and a chain's waterfall, against counting by hand."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from xml.etree import ElementTree

import ipywidgets  # type: ignore[import-untyped]
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roslens.analysis.figures.graph import MOST_TOPICS, draw_graph, layered
from roslens.analysis.figures.timeline import draw_timeline
from roslens.analysis.figures.waterfall import chain_waterfall, journey_waterfall
from roslens.analysis.flow.chain import Chain
from roslens.analysis.flow.chains import ChainInstances, mean_parts
from roslens.analysis.measures.samples import rate_hz
from roslens.analysis.overview.figure import topics_plot
from roslens.analysis.overview.in_range import callbacks_overview, chains_overview, worst_messages
from roslens.analysis.overview.runs_and_topics import (
    graph_edges,
    slowest_first,
    topics_overview,
    with_sizes,
)
from roslens.analysis.overview.thumbnails import health_thumbnails
from roslens.analysis.reports.table import Pictured, ReportTable
from roslens.analysis.timeline.journey import Hop, Journey
from roslens.analysis.timeline.tracks import Timeline, Track
from roslens.collectors.reader import open_trace
from roslens.recording import UsageError
from roslens.recording.errors import TooLargeError
from roslens.widgets import start
from roslens.widgets.parts import message_html
from roslens.widgets.start import StartPage
from roslens.widgets.timeline import TimelineWidget

ROOT = Path(__file__).parents[2]
MS = 1_000_000
NOT_APART = pl.lit(None, pl.Int64)
HOSTILE = '/<img src=x onerror="alert(1)">'


def messages() -> pl.LazyFrame:
    # /a sends five messages, 100 ms apart, to /b and /c; /b gets all, /c loses two of them.
    rows = []
    for i in range(5):
        common = {"run": "r", "topic": "/t", "publisher_node": "/a", "publish_ns": 100 * MS * i}
        rows.append({**common, "subscription_node": "/b", "outcome": "delivered",
                     "latency_ns": (i + 1) * MS})  # fmt: skip
        lost = i in (1, 2)
        rows.append({**common, "subscription_node": "/c",
                     "outcome": "lost" if lost else "delivered",
                     "latency_ns": None if lost else 10 * MS})  # fmt: skip
    rows.append({"run": "r", "topic": "/nobody", "publisher_node": "/b", "publish_ns": 0,
                 "subscription_node": None, "outcome": "no_subscriber",
                 "latency_ns": None})  # fmt: skip
    return pl.LazyFrame(rows, infer_schema_length=None).with_columns(clock_bound_ns=NOT_APART)


def test_edges_have_rate_latency_and_loss() -> None:
    edges = graph_edges(messages())
    by_edge = {
        (r["node"], r["topic"]): (
            r["publishes"],
            r["messages"],
            r["rate_hz"],
            r["p50_ms"],
            r["lost"],
        )
        for r in edges.iter_rows(named=True)
    }
    # A message to two subscriptions was published once; five messages have no rate.
    assert by_edge == {
        ("/a", "/t"): (True, 5, None, None, None),
        ("/b", "/t"): (False, 5, None, pytest.approx(3), 0),
        ("/c", "/t"): (False, 5, None, pytest.approx(10), pytest.approx(0.4)),
        ("/b", "/nobody"): (True, 1, None, None, None),
    }


@pytest.mark.parametrize(("counts", "rate"), [((21, 11), 7.5), ((21, 9), None)])
def test_a_rate_over_runs_is_of_all_runs(counts: tuple[int, int], rate: float | None) -> None:
    """By hand: 20 intervals of 0.1 s in one run, 10 of 0.2 s or eight in the other."""
    rows = [
        {"run": str(run), "topic": "/t", "publisher_node": "/a", "publisher_host": "h",
         "subscription_node": "/b", "publish_ns": (run + 1) * 100 * MS * i, "outcome": "delivered",
         "latency_ns": MS, "message_id": i}
        for run, count in enumerate(counts) for i in range(count)
    ]  # fmt: skip
    frame = pl.LazyFrame(rows).with_columns(clock_bound_ns=NOT_APART)
    sized = with_sizes(frame, frame.select("run", "message_id", size=2))
    (row,) = topics_overview(sized).rows(named=True)
    assert row["rate_hz"] == pytest.approx(rate)
    assert row["bytes_per_s"] == pytest.approx(None if rate is None else 2 * rate)
    assert graph_edges(frame)["rate_hz"].to_list() == [pytest.approx(rate)] * 2


def test_ten_messages_have_a_rate() -> None:
    # Nine intervals of 0.1 s.
    many = pl.DataFrame({"publish_ns": [10**8 * i for i in range(10)], "paused": False})
    assert many.select(rate_hz("publish_ns")).item() == pytest.approx(10)
    assert many.head(9).select(rate_hz("publish_ns")).item() is None
    # Each to two subscriptions is sent no more often.
    assert pl.concat([many, many]).select(rate_hz("publish_ns")).item() == pytest.approx(10)


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_drawing_shows_names_rates_latency_and_loss() -> None:
    drawing = draw_graph(graph_edges(messages()))
    assert drawing is not None
    assert sorted(texts(drawing.svg)) == sorted(
        ["/a", "/b", "/c", "/t", "/nobody", "3.00 ms", "10.0 ms", "40 % lost"]
    )


def test_hostile_names_are_text_and_what_every_node_has_is_left_out() -> None:
    renamed = messages().with_columns(pl.col("topic").replace({"/t": HOSTILE}))
    drawing = draw_graph(graph_edges(renamed))
    assert drawing is not None
    assert "<img" not in drawing._repr_html_()
    assert any(text.startswith("/<img") for text in texts(drawing.svg))
    assert draw_graph(graph_edges(messages().with_columns(topic=pl.lit("/rosout")))) is None


def test_more_topics_than_can_be_read_are_counted() -> None:
    many = pl.concat(
        [messages().with_columns(topic=pl.lit(f"/t{i}")) for i in range(MOST_TOPICS + 3)]
    )
    drawing = draw_graph(graph_edges(many))
    assert drawing is not None
    assert "3 less busy topics are not shown" in drawing.caption


def test_every_part_of_the_graph_says_what_it_is() -> None:
    renamed = messages().with_columns(pl.col("topic").replace({"/t": HOSTILE}))
    drawing = draw_graph(graph_edges(renamed))
    assert drawing is not None
    parts = {
        (g.get("data-node"), g.get("data-topic"))
        for g in ElementTree.fromstring(drawing.svg).iter("{http://www.w3.org/2000/svg}g")
    }
    nodes, topics = {"/a", "/b", "/c"}, {HOSTILE, "/nobody"}
    edges = {("/a", HOSTILE), ("/b", HOSTILE), ("/c", HOSTILE), ("/b", "/nobody")}
    assert parts == {(n, None) for n in nodes} | {(None, t) for t in topics} | edges


def test_what_runs_lost_is_counted_over_all_their_messages() -> None:
    """By hand: 10 of 100 and 1 of 400 are 11 of 500, and not the mean of 10 % and 0.25 %."""
    frame = pl.DataFrame({
        "run": ["a"] * 100 + ["b"] * 400,
        "outcome": ["lost"] * 10 + ["delivered"] * 489 + ["lost"],
        "latency_ns": [None] * 10 + [1000] * 489 + [None],
        "publish_ns": range(500),
    }).with_columns(
        topic=pl.lit("/t"), publisher_node=pl.lit("/a"), subscription_node=pl.lit("/b"),
        clock_bound_ns=NOT_APART,
    )  # fmt: skip
    (row,) = topics_overview(frame.lazy()).rows(named=True)
    assert (row["not_arrived"], row["messages"]) == (11, 500)
    assert row["lost"] == pytest.approx(11 / 500)


def between_hosts(bound_ms: int | None) -> pl.LazyFrame:
    """Ten messages of 1 to 10 ms; the table lacks those within the bound, or all without one."""
    told = [None if bound_ms is None or ms <= bound_ms else ms * MS for ms in range(1, 11)]
    return pl.LazyFrame(
        {"publish_ns": [100 * MS * i for i in range(10)], "latency_ns": told},
        schema_overrides={"latency_ns": pl.Int64},
    ).with_columns(
        run=pl.lit("r"), topic=pl.lit("/t"), publisher_node=pl.lit("/a"),
        subscription_node=pl.lit("/b"), outcome=pl.lit("delivered"),
        clock_bound_ns=pl.lit(None if bound_ms is None else bound_ms * MS, pl.Int64),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("bound_ms", "median", "longest"),
    [(0, 5.5, 10), (2, 5.5, 10), (5, None, 10), (6, None, None), (None, None, None)],
)
def test_the_shortest_between_hosts_count_and_no_time_is_within_twice_the_clocks_bound(
    bound_ms: int | None, median: float | None, longest: float | None
) -> None:
    """By hand: (5 + 6) / 2 of 1 to 10 ms, whether 1 and 2 ms are told or not; 5 ms hide it."""
    (row,) = topics_overview(between_hosts(bound_ms)).rows(named=True)
    assert (row["p50_ms"], row["worst_ms"]) == (median, longest)
    assert row["delivered"] == (0 if bound_ms is None else 10)
    edges = graph_edges(between_hosts(bound_ms)).filter(node="/b")
    assert edges["p50_ms"].to_list() == [median]


def test_the_order_of_rows_is_that_of_their_names_where_topics_are_as_slow() -> None:
    rows = [("/t", end, other, 9.0, 9.0) for end in ("/a", "/b") for other in ("/c", "/d")]
    schema = ["topic", "from", "to", "p99_ms", "worst_ms"]
    for order in permutations(rows):
        assert slowest_first(pl.DataFrame(order, schema, orient="row")).rows() == rows


def test_a_thumbnail_shows_what_arrived_when_what_did_not_and_holes() -> None:
    # 100 messages, one per ms; those from 50 ms to 74 ms are lost; a hole at 30 ms.
    sent = pl.LazyFrame(
        {
            "run": ["r"] * 100,
            "publish_ns": [i * MS for i in range(100)],
            "take_ns": [None] * 100,
            "outcome": ["lost" if 50 <= i < 75 else "delivered" for i in range(100)],
        },
        schema_overrides={"take_ns": pl.Int64},
    )
    losses = pl.LazyFrame({"run": ["r"], "begin_ns": [30 * MS], "end_ns": [31 * MS]})
    root = ElementTree.fromstring(health_thumbnails(sent, losses)["r"])
    bars: dict[str, float] = {}
    for bar in root.iter("{http://www.w3.org/2000/svg}rect"):
        fill = bar.attrib["fill"]
        bars[fill] = bars.get(fill, 0.0) + float(bar.attrib["height"])
    # A quarter of all is lost, whatever the scale.
    assert bars["#d55e00"] / sum(bars.values()) == pytest.approx(0.25, abs=0.01)
    (hole,) = root.iter("{http://www.w3.org/2000/svg}path")
    at = float(hole.attrib["d"].removeprefix("M").partition(",")[0])
    assert at / float(root.attrib["width"]) == pytest.approx(0.3, abs=0.02)


def test_the_text_of_a_cell_with_a_drawing_is_text() -> None:
    table = ReportTable(["a"], [[Pictured(HOSTILE, "<svg/>")]], "caption")
    page = table._repr_html_()
    assert "<svg/>" in page
    assert "<img" not in page
    assert HOSTILE in str(table)


def test_the_timeline_of_a_report_draws_each_track_and_escapes_names() -> None:
    few = Track(
        "k", HOSTILE, f"group {HOSTILE}", "callback", np.array([0, 50]), np.array([10, 70]),
        np.zeros(2, np.int32), np.arange(2),
    )  # fmt: skip
    cpu = Track(
        "c", "CPU", "group", "cpu", np.array([0]), np.array([100]), np.zeros(1, np.int32),
        np.arange(1), np.array([0.5]),
    )  # fmt: skip
    drawing = draw_timeline(Timeline([few, cpu], ["x"], 0, 100), 0, 100)
    root = ElementTree.fromstring(drawing.svg)
    labels = ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert f"group {HOSTILE}" in labels
    # Right of its tick at 1010, where the picture ends, this text would be cut.
    (last,) = (t for t in root.iter("{http://www.w3.org/2000/svg}text") if t.text == "100 ns")
    assert (last.attrib["x"], last.attrib["text-anchor"]) == ("1007.0", "end")
    marks = [r for r in root.iter("{http://www.w3.org/2000/svg}rect") if "opacity" in r.attrib]
    # 780 px are 100 ns: the widths are 78, 156 and all of it.
    assert [float(r.attrib["width"]) for r in marks] == [78.0, 156.0, 780.0]
    assert float(marks[2].attrib["height"]) < float(marks[0].attrib["height"])
    nothing = draw_timeline(Timeline([], [], 0, 1), 0, 1)
    assert ElementTree.fromstring(nothing.svg) is not None


def test_the_way_of_a_message_as_a_waterfall() -> None:
    def journey(number: int, begin: int) -> Journey:
        hops = [Hop("publish -> take", begin, begin + 2 * MS),
                Hop("take -> callback_start", begin + 2 * MS, begin + 3 * MS)]  # fmt: skip
        return Journey("message", number, f"/t{number}", f"/n{number}", f"/n{number + 1}",
                       "delivered", 3 * MS, number, hops)  # fmt: skip

    plot = journey_waterfall([journey(0, 0), journey(1, 5 * MS)])
    assert plot.caption.startswith("/n0 -> /t0 -> /n1 -> /t1 -> /n2: one message on each topic")
    assert "together 8.00 ms" in plot.caption
    (axes,) = plot.figure.axes
    begins = sorted(round(bar.get_x()) for bar in axes.patches)
    assert begins == [0, 2, 5, 7]


EDGES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25)


@given(EDGES)
def test_every_vertex_is_in_one_layer(edges: list[tuple[int, int]]) -> None:
    layers = layered(range(10), edges)
    assert sorted(v for layer in layers for v in layer) == list(range(10))
    assert all(layers)


@given(EDGES)
def test_without_cycles_every_edge_leads_on(edges: list[tuple[int, int]]) -> None:
    forward = [(min(e), max(e)) for e in edges if e[0] != e[1]]
    layers = layered(range(10), forward)
    place = {v: i for i, layer in enumerate(layers) for v in layer}
    assert all(place[a] < place[b] for a, b in forward)


def test_layers_keep_lines_from_crossing() -> None:
    layers = layered(["a", "b", "x", "y"], [("a", "y"), ("b", "x")])
    assert [layers[0].index("a"), layers[0].index("b")] == [
        layers[1].index("y"),
        layers[1].index("x"),
    ]


def test_the_worst_messages_come_first_and_those_of_every_node_not_at_all() -> None:
    rows = [
        {"run": "r", "topic": topic, "publisher_node": "/a", "subscription_node": "/b",
         "publish_ns": at, "latency_ns": latency, "callback_instance_id": number}
        for number, (topic, at, latency) in enumerate(
            [("/t", 1000, 5 * MS), ("/t", 10**9, 7 * MS), ("/t", 0, None), ("/rosout", 0, 99 * MS)]
        )
    ]  # fmt: skip
    worst = worst_messages(pl.LazyFrame(rows), 1000)
    assert worst.select("latency_ms", "at_s", "callback_instance_id").rows() == [
        (7.0, (10**9 - 1000) / 1e9, 1),
        (5.0, 0.0, 0),
    ]


def test_callbacks_of_a_range_are_counted_by_kind_and_without_unfinished_ones() -> None:
    """By hand: a subscription of 4 and 6 ms and one without an end, a service of 20 ms."""
    rows = [
        ("/b", "subscription", "/x", 0, 4 * MS), ("/b", "subscription", "/x", 10, 6 * MS),
        ("/b", "subscription", "/x", 20, None), ("/b", "service", "/x", 20, 20 * MS),
        ("/c", "timer", None, 30, None), ("/c", "timer", None, 40, None),
    ]  # fmt: skip
    columns = ["node", "kind", "name", "start_ns", "duration_ns"]
    instances = pl.DataFrame(rows, schema=columns, orient="row")
    assert callbacks_overview(instances).rows() == [
        ("/b", "/x (service)", 1, 20, 20, 20, 0),
        ("/b", "/x (subscription)", 3, 10, 5, 6, 1),
        ("/c", "timer", 2, None, None, None, 2),
    ]
    # From 10 on, and before 20: a whole duration, and one kind.
    assert callbacks_overview(instances, 10, 20).rows() == [("/b", "/x", 1, 6, 6, 6, 0)]


def test_chains_are_counted_by_where_they_began() -> None:
    both = chain_of_two()
    begun = ChainInstances(
        both.chain, both.instances.with_columns(begin_ns=pl.Series([0, 10, 20])), both.made_hops, ()
    )
    name = str(begun.chain)
    # There is no percentile of fewer instances than its interval needs.
    assert chains_overview([begun]).rows() == [(name, 3, 2, 1, 1, None, None, 14.0, False)]
    assert chains_overview([begun], 5, 30).rows() == [(name, 2, 1, 1, 1, None, None, 14.0, False)]
    assert chains_overview([begun], 40, 50).rows() == [(name, 0, 0, 0, 0, None, None, None, False)]
    assert chains_overview([]).height == 0
    # Whether an instance whose last message was taken reached the end is not known.
    outcomes = pl.Series(["complete", "taken", "lost"])
    untold = replace(begun, instances=begun.instances.with_columns(outcome=outcomes))
    row = chains_overview([untold]).row(0, named=True)
    assert (row["instances"], row["complete"], row["stopped"]) == (3, 1, 1)


@pytest.mark.recording
def test_two_runs_stand_side_by_side() -> None:
    page = StartPage([str(ROOT / "data" / "samples" / "demo")])
    # Each reason is as `why` says it of the message, up to the start of its callback.
    reasons = page._worst()["why"].to_list()
    assert all(reasons[:10])
    assert set(reasons[10:]) == {""}
    assert page._worst()["why"].to_list() == reasons
    page.beside = 3  # like the first one it has the 299 latencies that a P99 needs
    row = page._topics().filter(pl.col("topic") == "/samples").row(0, named=True)
    for name, index in (("P99 [ms]", 0), ("P99 ∥", 3)):
        overview = topics_overview(page.all.only(page.all.runs[index].name).messages)
        assert row[name] == overview.filter(pl.col("topic") == "/samples")["p99_ms"].item()
    assert row["∥/P99"] == row["P99 ∥"] / row["P99 [ms]"]


@pytest.mark.recording
def test_the_lab_counts_from_the_first_event_as_the_terminal_and_views_do() -> None:
    """By the raw events: the earliest of them is the zero, before the first callback."""
    folder = ROOT / "data" / "samples" / "two_process" / "000_r0_fastrtps"
    page = StartPage([str(folder)])
    first = min(int(f["time_ns"].min()) for f in open_trace(folder).read().values() if f.height)
    timeline = page.widget.timeline
    assert timeline.begin_ns > first
    assert int(page.widget.origin) == first
    assert page.widget.extent == [timeline.begin_ns - first, timeline.end_ns - first]
    worst = page.run.messages.filter(topic="/data").sort("latency_ns").last().collect()
    message, published = worst.row(0, named=True)["message_id"], worst["publish_ns"].item()
    after = (published - first) / 1e9
    assert page._worst().filter(topic="/data")["at [s]"][0] == pytest.approx(after, abs=1e-9)
    assert page.run.why(message=message)["at_s"].item() == pytest.approx(after, abs=1e-9)
    # So does the timeline of a part of the run.
    part = page.run.view(window=(after - 0.5, after + 0.5))
    assert message in part.messages.collect()["message_id"]
    widget = TimelineWidget(part)
    assert widget.origin == str(first)
    # The wait that goes on when the part begins is shown whole.
    assert after - 0.6 < widget.extent[0] / 1e9 < after < widget.extent[1] / 1e9 < after + 0.6


@pytest.mark.recording
def test_chains_through_a_node_that_waits_for_two_topics_end_as_the_program_logged() -> None:
    page = StartPage([str(ROOT / "data" / "samples" / "chain.tar.zst")])
    rows = {row["chain"].split(" -> ")[0]: row for row in page._chain_rows().rows(named=True)}
    log = pl.read_csv(page.all.recordings[0].path / "samples.csv")
    # Each of the 600 samples reached the sink, from either source.
    for source, published in (("/source", "a_publish"), ("/source2", "a2_publish")):
        assert (rows[source]["n"], rows[source]["stopped"]) == (600, 0)
        assert "not known" not in rows[source]
        took = (log["sink_start_realtime_ns"] - log[f"{published}_realtime_ns"]).median()
        assert isinstance(took, float)
        assert rows[source]["P50 [ms]"] == pytest.approx(took / 1e6, rel=0.01)


@pytest.mark.recording
def test_chains_tell_their_bounds_and_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    page = StartPage([str(ROOT / "data" / "samples" / "demo")])
    both = chain_of_two()
    bounds = replace(both, instances=both.instances.with_columns(at_least=pl.lit(value=True)))
    page._chains = {0: ([bounds, both], 3)}
    name = str(both.chain)
    *rows, more = page._chain_rows()["chain"].to_list()
    named = {f"{name} (1 approximate)", f"at least: {name} (1 approximate)"}
    assert (set(rows), more) == (named, "3 more chains are not shown.")

    def refuse(*_: object) -> None:
        raise TooLargeError("there are more than 1000 chains")

    # This is the pane of a further run; the first one's chains were known.
    monkeypatch.setattr(start, "find_chains", refuse)
    page.chosen = 1
    assert page._chain_rows().rows() == [("there are more than 1000 chains.",)]


@pytest.mark.recording
def test_a_run_that_was_deleted_meanwhile_is_not_one_without_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "data" / "samples" / "demo", tmp_path / "demo")
    page = StartPage([str(tmp_path / "demo")])
    page.timeline()
    pane = page.runs()
    assert isinstance(pane, ipywidgets.VBox)
    (choice, comparison), lost = pane.children[0].children, pane.children[1]
    page.topics()
    messages: list[dict[str, str]] = []
    monkeypatch.setattr(page.widget, "send", lambda content, _: messages.append(content))
    shutil.rmtree(tmp_path / "demo" / page.all.runs[1].name)
    choice.value = 1
    assert (choice.value, page.chosen) == (0, 0)
    assert "gone since it was opened" in lost.value
    with pytest.raises(UsageError, match="gone since it was opened"):
        page.all.only(page.all.runs[1].name).messages.collect()
    comparison.value = 1
    assert "gone since it was opened" in messages.pop()["text"]
    comparison.value = -1
    choice.value = 2
    assert page.run.runs[0].name == page.all.runs[2].name
    assert "The tracer lost nothing" in lost.value


def test_names_in_the_way_of_a_message_are_text() -> None:
    hop = Hop("publish -> take", 0, 2 * MS)
    journey = Journey("message", 3, HOSTILE, HOSTILE, HOSTILE, HOSTILE, None, 7, [hop])
    page = message_html([journey], 7)
    assert "<img" not in page
    assert page.count("&lt;img") == 4
    assert "2.000 ms" in page


def chain_of_two() -> ChainInstances:
    rows = []
    for instance, (transport, callback) in enumerate([(2, 4), (6, 8)]):
        rows += [
            ("r", instance, 0, "/t", "/b", "transport", transport * MS),
            ("r", instance, 0, "/t", "/b", "callback", callback * MS),
        ]
    columns = ["run", "instance", "hop", "topic", "node", "part", "duration_ns"]
    hops = pl.DataFrame(rows, schema=columns, orient="row").with_columns(clock_bound_ns=0.0)
    instances = pl.DataFrame(
        {
            "run": "r",
            "instance": [0, 1, 2],
            "outcome": ["complete", "complete", "lost"],
            "latency_ns": [6 * MS, 14 * MS, None],
            "clock_bound_ns": 0.0,
            "at_least": [False, False, False],
            "match": ["exact", "approximate", "approximate"],
        }
    )
    return ChainInstances(Chain(("/a", "/t", "/b")), instances, lambda: hops, ())


def test_parts_of_the_waterfall_add_up_to_the_mean_latency() -> None:
    parts = mean_parts(chain_of_two())
    assert parts["part"].to_list() == ["transport", "callback"]
    assert parts["begin_ms"].to_list() == [0, 4]
    assert parts["duration_ms"].to_list() == [4, 6]
    plot = chain_waterfall(chain_of_two())
    assert "2 complete instances" in plot.caption
    assert "together 10.0 ms" in plot.caption
    assert "1 more did not reach the end" in plot.caption
    # No event shows when a message arrived: tables say the same.
    labels = [label.get_text() for label in plot.figure.axes[0].get_yticklabels()]
    assert labels == ["/t  transport or waiting", "/t  callback"]


def test_rows_of_the_first_picture_are_told_apart_by_the_factors_that_differ() -> None:
    rows = [
        {"topic": "/data", "from": "/talker", "to": "/listener", "worst_ms": 3.0, "p50_ms": 1.0,
         "p99_ms": None,
         "cell": f"executor=single, a_factor_with_a_long_name=its_long_level, bytes={size}"}
        for size in range(9)
    ]  # fmt: skip
    plot = topics_plot(pl.DataFrame(rows))
    labels = [label.get_text() for label in plot.figure.axes[0].get_yticklabels()]
    assert labels == [f"/data to /listener, bytes={size}" for size in range(8)]
    shared = "executor=single, a_factor_with_a_long_name=its_long_level"
    assert plot.left_out == (
        f"8 of 9 rows (topic, publisher, subscription and cell) are drawn, all with {shared}."
    )
    # Where a topic has several publishers, its rows name them.
    rows = [{**rows[0], "cell": "", "from": name} for name in ("/talker", "/other")]
    ticks = topics_plot(pl.DataFrame(rows)).figure.axes[0].get_yticklabels()
    assert [label.get_text() for label in ticks] == [
        "/data from /talker to /listener", "/data from /other to /listener"
    ]  # fmt: skip


def test_what_is_clicked_in_the_graph_has_not_the_colour_of_loss() -> None:
    css = (ROOT / "src/roslens/widgets/graph.css").read_text()
    lossy = messages().filter(pl.col("subscription_node") == "/c")
    drawing = draw_graph(graph_edges(lossy))
    assert drawing is not None
    assert 'stroke="#d55e00"' in drawing.svg
    assert "#d55e00" not in css.lower()
