"""Test the catalog against the manifests and tables that it describes."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb
import fsspec
import polars as pl
import pytest
from tests.nights import manifests
from tests.samples import RUN, SAMPLES, uncollected

import roslens as rl
from roslens.collectors.resolving import find_sessions
from roslens.fleet.catalog import Catalog, moment
from roslens.fleet.cluster import Workers
from roslens.fleet.trees import open_tree
from roslens.recording import UsageError
from roslens.recording.layout import session_of

OTHER = SAMPLES / "lifecycle" / "000_r0_cell"


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that writes no log."""

    def log_message(self, *_: object) -> None:
        return


def in_turn(data: dict[str, Any], number: int) -> None:
    """Alternate payloads and distributions."""
    data["factors"] = {"payload": 100 * (number % 2)}
    data["environment"]["ros_distro"] = ("humble", "jazzy")[number % 2]


def test_selecting(tmp_path: Path) -> None:
    """Counts by hand: 40 nights, every second one jazzy with payload 100."""
    manifests(tmp_path, 40, in_turn)
    catalog = rl.catalog(tmp_path)
    assert len(catalog.select()) == 40
    assert len(catalog.select(distro="jazzy")) == 20
    assert len(catalog.select(distro=["jazzy", "humble"], suite="two_*")) == 40
    assert len(catalog.select(since="2026-01-11")) == 30
    assert len(catalog.select(since="2026-01-11", until="2026-01-21", distro="jazzy")) == 5
    assert len(catalog.select(factors={"payload": 100})) == 20
    assert len(catalog.select(factors={"payload": 7})) == 0
    assert len(catalog.select(campaign="night00?")) == 10
    assert len(catalog.select(suite="another")) == 0
    assert len(catalog.select(where=pl.col("repetition") == 0)) == 40
    with pytest.raises(UsageError, match="no time"):
        catalog.select(since="yesterday")


def test_moments() -> None:
    assert moment("2026-11-01") == datetime(2026, 11, 1, tzinfo=UTC)
    assert moment("2026-11-01T02:00+02:00") == datetime(2026, 11, 1, tzinfo=UTC)
    before = datetime.now(UTC)
    assert before <= moment("30d") + timedelta(days=30) <= datetime.now(UTC)
    assert before <= moment(timedelta(hours=1)) + timedelta(hours=1) <= datetime.now(UTC)
    for early in ("99999999999d", "999999999d", "99999999999999999999h", timedelta.max):
        with pytest.raises(UsageError, match="is no time; give 2026-11-01"):
            moment(early)


def test_only_what_changed_is_looked_at_again(tmp_path: Path) -> None:
    manifests(tmp_path, 5, in_turn)
    catalog = Catalog(rl.catalog(tmp_path).tree, tmp_path / "own.parquet")
    first = catalog.update()
    assert (first.recordings, first.renewed, first.removed) == (5, 5, 0)
    again = catalog.update()
    assert (again.renewed, again.removed) == (0, 0)
    shutil.rmtree(tmp_path / "night000")
    (tmp_path / "night001" / "run" / "manifest.json").write_text("{")
    changes = catalog.update()
    assert (changes.recordings, changes.renewed, changes.removed) == (4, 1, 1)
    (problem,) = catalog.frame.collect()["problem"].drop_nulls()
    assert "not" in problem


def test_a_damaged_catalog_is_made_again(tmp_path: Path) -> None:
    manifests(tmp_path, 3, in_turn)
    catalog = rl.catalog(tmp_path)
    catalog.file.write_bytes(catalog.file.read_bytes()[:100])
    assert catalog.update().renewed == 3
    assert len(catalog.select()) == 3


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Collect two roslens runs and a bare trace."""
    folder = tmp_path_factory.mktemp("fleet")
    uncollected(RUN, folder / "a" / "run")
    uncollected(OTHER, folder / "b" / "run")
    shutil.copytree(RUN / "trace", folder / "bare")
    rl.catalog(folder, collect=True)
    return folder


@pytest.mark.recording
def test_tables_of_all(collected: Path) -> None:
    """The tables themselves, read one by one, are the truth; polars and DuckDB read them all."""
    catalog = rl.catalog(collected)
    chosen = catalog.select()
    assert sorted(chosen.rows["path"]) == ["a/run", "b/run", "bare"]
    assert chosen.rows["collected"].all()
    files = [
        collected / "a" / "run" / "tables" / "messages.parquet",
        collected / "b" / "run" / "tables" / "messages.parquet",
        collected / "bare" / "roslens" / "tables" / "messages.parquet",
    ]
    expected = [pl.read_parquet(file) for file in files]
    frame = chosen.messages.collect()
    assert frame.height == sum(table.height for table in expected)
    for path, table in zip(("a/run", "b/run", "bare"), expected, strict=True):
        assert frame.filter(path=path).select(table.columns).equals(table)
    query = f"select count(*) from read_parquet({chosen.files('messages')})"
    ((count,),) = duckdb.sql(query).fetchall()
    assert count == frame.height
    assert chosen.rows["messages"].to_list() == [table.height for table in expected]
    assert len(catalog.select(suite="two_process").messages.collect()) == expected[0].height
    assert catalog.select(suite="none").messages.collect().is_empty()


@pytest.mark.recording
def test_metrics_are_those_of_the_report(collected: Path) -> None:
    from roslens.sides import load_side

    row = rl.catalog(collected).select(suite="two_process").rows.row(0, named=True)
    side = load_side(collected / "a" / "run")
    for metric in ("latency_p50", "latency_p99", "loss", "cpu"):
        # The headline's estimate comes first, then those of further topics.
        estimate = next(e for e in side.estimates if e.metric == metric)
        assert row[metric] == estimate.value
    health = pl.read_parquet(collected / "a" / "run" / "tables" / "health.parquet")
    assert row["health_errors"] == health.filter(severity="error").height
    assert row["health_kinds"] == sorted(health["kind"].unique())


@pytest.mark.recording
def test_no_percentile_of_too_few_messages(tmp_path: Path) -> None:
    """By hand: .99^n is above 5 % up to 298 messages, and .9^n up to 28."""
    uncollected(SAMPLES / "demo" / "001_r0_executor-SingleThreaded", tmp_path / "run")
    row = rl.catalog(tmp_path, collect=True).frame.collect().row(0, named=True)
    assert 28 < row["messages"] <= 298
    assert row["latency_p99"] is None
    assert row["latency_p90"] > 0
    # This number is not needed to know that more than one in a hundred was lost.
    assert row["latency_sent_p99"] == math.inf


@pytest.mark.recording
def test_workers_make_the_same_catalog(collected: Path, tmp_path: Path) -> None:
    serial = rl.catalog(collected, file=tmp_path / "one.parquet").frame.collect()
    parallel = rl.catalog(
        collected, file=tmp_path / "two.parquet", workers=Workers(2)
    ).frame.collect()
    assert serial.equals(parallel)


@pytest.fixture
def remote(collected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of the same tree in fsspec's memory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = fsspec.filesystem("memory")
    for path in collected.rglob("*"):
        if path.is_file() and path.suffix != ".lock":
            files.pipe_file(f"/fleet/{path.relative_to(collected).as_posix()}", path.read_bytes())
    yield "memory://fleet"
    files.rm("/fleet", recursive=True)


@pytest.mark.recording
def test_behind_an_address(collected: Path, remote: str, tmp_path: Path) -> None:
    """The rows equal those of the local tree, except times and sizes of files."""
    served = rl.catalog(remote, file=tmp_path / "c.parquet")
    local = rl.catalog(collected)
    assert served.frame.collect().drop("stamp").equals(local.frame.collect().drop("stamp"))
    assert served.update().renewed == 0
    # Neither polars nor DuckDB knows this kind of address.
    messages = served.select().messages.collect()
    assert messages.equals(local.select().messages.collect())
    manifest = remote.removeprefix("memory:/") + "/a/run/manifest.json"
    files = fsspec.filesystem("memory")
    files.pipe_file(manifest, files.cat_file(manifest).replace(b'"campaign"', b'"campaign" '))
    assert served.update().renewed == 1


@pytest.mark.recording
def test_behind_a_web_server(
    collected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server lists its folders, but sends no sizes or tags, and no parts of files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(collected, tmp_path / "served")
    handler = partial(Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        served = rl.catalog(address, file=tmp_path / "c.parquet")
        local = rl.catalog(collected)
        assert served.frame.collect().drop("stamp").equals(local.frame.collect().drop("stamp"))
        assert served.select().takes.collect().equals(local.select().takes.collect())
        assert served.update().renewed == 0
        manifest = tmp_path / "served" / "a" / "run" / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"repetition": 0', '"repetition": 3'))
        assert served.update().renewed == 1
        assert served.select(where=pl.col("repetition") == 3).rows["path"].to_list() == ["a/run"]
        server.shutdown()


@pytest.mark.recording
def test_a_file_address_is_a_folder(collected: Path) -> None:
    assert rl.catalog(collected.as_uri(), update=False).file == collected / "catalog.parquet"


@pytest.mark.recording
def test_dataset_in_hive_layout(collected: Path, tmp_path: Path) -> None:
    """polars and DuckDB read the folder alone; the tables one by one are the truth."""
    chosen = rl.catalog(collected).select()
    folder = tmp_path / "set"
    written = chosen.write_dataset(folder, ["messages", "nodes"])
    assert (written.files, written.new, written.removed) == (6, 6, 0)
    (folder / "messages" / "mine.txt").touch()
    files = str(folder / "messages" / "**" / "*.parquet")
    frame = pl.scan_parquet(files, hive_partitioning=True)
    counts = dict(frame.group_by("recording").len().collect().rows())
    expected = dict(zip(chosen.rows["path"], chosen.rows["messages"], strict=True))
    assert counts == expected
    query = (
        f"select suite, count(*) from read_parquet('{files}', hive_partitioning=true) group by 1"
    )
    by_suite = dict(duckdb.sql(query).fetchall())
    assert by_suite == dict(chosen.rows.group_by("suite").agg(pl.col("messages").sum()).rows())
    assert chosen.write_dataset(folder, ["messages", "nodes"]).new == 0
    fewer = rl.catalog(collected).select(suite="two_process").write_dataset(folder, ["messages"])
    assert (fewer.files, fewer.new, fewer.removed) == (1, 0, 2)
    assert len(list(folder.glob("messages/suite=*"))) == 1
    assert (folder / "messages" / "mine.txt").exists()
    with pytest.raises(UsageError, match="no table 'mesages'"):
        chosen.write_dataset(folder, ["mesages"])


def test_places_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        rl.catalog(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="no such folder"):
        rl.catalog("memory://nowhere/at/all", file=tmp_path / "c.parquet")
    with pytest.raises(UsageError, match="cannot be opened"):
        rl.catalog("protocol-of-nobody://x", file=tmp_path / "c.parquet")


@pytest.mark.parametrize(
    ("folder", "session"),
    [
        ("s/ust/uid/1000/64-bit", "s"),
        ("a/s/kernel", "a/s"),
        ("s/ust/pid/talker-123-20261101-120000", "s"),
        ("s/kernel", "s"),
        ("kernel", "."),
        ("s/archives/20261101T120000+0100-20261101T120100+0100-0/ust/uid/0/64-bit", "s"),
        ("s/snapshot-1-20261101-120000-0/kernel", "s"),
        ("a/s/snapshot/snapshot-1-20261101-120000-0/ust/uid/0/64-bit", "a/s"),
        ("a/s/runtime/ust/uid/0/64-bit", "a/s"),
        ("runtime/ust/uid/0/64-bit", "."),
        # The folder ``ust`` alone was copied, under another name.
        ("copy/uid/1000/64-bit", "copy"),
        ("copy/pid/talker-123-20261101-120000", "copy"),
        # Folders that people named so above a session are not parts of it.
        ("kernel/s/ust/uid/0/64-bit", "kernel/s"),
        ("runtime/s/kernel", "runtime/s"),
        ("pid/s/ust/uid/0/64-bit", "pid/s"),
        ("12/ust/uid/0/64-bit", "12"),
        ("run-3-20261101-120000/kernel", "run-3-20261101-120000"),
        ("plain", "plain"),
        (".", "."),
    ],
)
def test_the_session_of_a_trace(folder: str, session: str) -> None:
    """These are the layouts in which LTTng writes, by its manual."""
    assert session_of(folder) == session


@pytest.mark.parametrize("where", ["folder", "address"])
def test_a_catalog_has_the_sessions_that_every_verb_has(tmp_path: Path, where: str) -> None:
    """The folders are those of LTTng's rotations and of a dual session; the names are given."""
    parts = ["rotated/archives/x", "rotated/archives/y", "dual/runtime", "dual/snapshot/snapshot-1"]
    for part in [*parts, "kernel/one", "kernel/two"]:
        shutil.copytree(RUN / "trace", tmp_path / part)
    place = str(tmp_path) if where == "folder" else f"local://{tmp_path}"
    sessions = [Path(place.path) for place in open_tree(place).places()]
    assert sorted(map(str, sessions)) == ["dual", "kernel/one", "kernel/two", "rotated"]
    assert find_sessions(tmp_path) == sorted(tmp_path / session for session in sessions)


@pytest.mark.recording
def test_a_tree_that_cannot_be_written_is_collected_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even root may not write here, as `os.access` is made to say no."""
    shutil.copytree(RUN, tmp_path / "tree" / "run", ignore=shutil.ignore_patterns("tables"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tree = tmp_path / "tree"
    monkeypatch.setattr("os.access", lambda path, *_, **__: not Path(path).is_relative_to(tree))
    chosen = rl.catalog(tmp_path / "tree", collect=True).select()
    assert chosen.messages.collect().height > 0
    assert not (tmp_path / "tree" / "run" / "tables").exists()
    assert not (tmp_path / "tree" / "catalog.parquet").exists()
