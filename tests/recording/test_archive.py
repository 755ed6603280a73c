"""Test packing and unpacking: content survives, names do not, and hostile archives are refused."""

import io
import json
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.samples import SAMPLES, uncollected

from roslens.collectors.reader import open_trace
from roslens.recording import UsageError, find_recordings
from roslens.tracing.archive import pack
from roslens.tracing.opening import KEPT_DAYS, opened
from roslens.tracing.unpacking import unpack

pytestmark = pytest.mark.recording


@pytest.fixture
def campaign(tmp_path) -> Path:
    """Make a real run, as if on a host ``workhorse`` by a user at home."""
    run = tmp_path / "rec" / "demo" / "first" / "000_r0"
    source = min((SAMPLES / "demo").glob("*/manifest.json")).parent
    uncollected(source, run)
    for metadata in run.rglob("metadata"):
        # The name is replaced in place, so that packets keep their sizes.
        text = metadata.read_bytes()
        start = text.index(b'hostname = "') + 12
        end = text.index(b'"', start)
        name = (b"workhorse" * 20)[: end - start]
        metadata.write_bytes(text[:start] + name + text[end:])
    (run / "native").mkdir(exist_ok=True)
    (run / "native" / "stderr.log").write_text(
        f"/home/somebody/ws/install failed on {os.uname().nodename} in {run}/native\n"
    )
    (run.parent / "plan.json").write_text("{}")
    return run.parent


def test_what_is_packed_comes_out_again(campaign, tmp_path):
    packed = pack([campaign], tmp_path / "c.tar.zst")
    (folder,) = unpack(tmp_path / "c.tar.zst", tmp_path / "out")
    assert folder == tmp_path / "out" / "demo"
    (recording,) = find_recordings(folder)
    source = campaign / "000_r0"
    names = {
        str(path.relative_to(campaign.parent.parent))
        for path in campaign.rglob("*")
        if path.is_file()
    }
    assert names == {
        str(path.relative_to(folder.parent)) for path in folder.rglob("*") if path.is_file()
    }
    assert packed.files == len(names)
    assert open_trace(recording.path).info().events == open_trace(source).info().events
    assert recording.manifest.suite == "demo"
    # Streams are unchanged, to the byte.
    for stream in source.rglob("ros2_0"):
        copy = recording.path / stream.relative_to(source)
        assert copy.read_bytes() == stream.read_bytes()
    # The common tools can read the archive, too.
    if shutil.which("zstd"):
        test = subprocess.run(["zstd", "-tq", str(tmp_path / "c.tar.zst")], check=False)
        assert test.returncode == 0
    with pytest.raises(UsageError, match="is there already"):
        unpack(tmp_path / "c.tar.zst", tmp_path / "out")
    with pytest.raises(UsageError, match="is there already"):
        pack([campaign], tmp_path / "c.tar.zst")
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


def test_no_name_remains(campaign, tmp_path):
    pack([campaign], tmp_path / "c.tar.zst")
    unpack(tmp_path / "c.tar.zst", tmp_path / "out")
    everything = b"".join(
        path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()
    )
    host = os.uname().nodename.encode()
    secrets = [b"somebody", str(tmp_path).encode(), b"workh"]
    secrets += [host] if len(host) > 3 else []
    for secret in secrets:
        assert secret not in everything
    log = next((tmp_path / "out").rglob("stderr.log")).read_text()
    assert log.endswith("in native\n")
    # The archive holds no owners and no times, either.
    with pa.CompressedInputStream(str(tmp_path / "c.tar.zst"), "zstd") as stream:
        content = io.BytesIO(stream.read())
    with tarfile.open(fileobj=content) as tar:
        entries = tar.getmembers()
    assert {(entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime) for entry in entries} == {
        (0, 0, "", "", 0)
    }
    pack([campaign], tmp_path / "names.tar.zst", keep_names=True)
    unpack(tmp_path / "names.tar.zst", tmp_path / "with")
    assert "somebody" in next((tmp_path / "with").rglob("stderr.log")).read_text()


def test_a_host_called_like_a_field_leaves_the_field_alone(tmp_path):
    run = tmp_path / "run"
    (run / "trace").mkdir(parents=True)
    (run / "trace" / "metadata").write_text('env {{ hostname = "factors"; }};')
    manifest = {"factors": {"where": "at factors"}, "suite": "x"}
    (run / "manifest.json").write_text(json.dumps(manifest))
    pack([run], tmp_path / "x.tar.zst")
    unpack(tmp_path / "x.tar.zst", tmp_path / "out")
    unpacked = json.loads(next((tmp_path / "out").rglob("manifest.json")).read_text())
    assert unpacked["factors"] == {"where": "at <host>"}


def test_links_are_not_followed(campaign, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (campaign / "000_r0" / "native" / "link").symlink_to(tmp_path / "secret")
    packed = pack([campaign], tmp_path / "c.tar.zst")
    assert packed.left_out == ["demo/first/000_r0/native/link"]


def test_a_linked_run_is_packed_by_its_own_name_only(campaign, tmp_path):
    links = tmp_path / "links"
    links.mkdir()
    (links / "one").symlink_to(campaign / "000_r0")
    with pytest.raises(UsageError, match=r"links/one: a link to a run elsewhere; name .*000_r0"):
        pack([links], tmp_path / "x.tar.zst")
    assert not (tmp_path / "x.tar.zst").exists()
    assert pack([links / "one"], tmp_path / "x.tar.zst").files


def test_what_is_damaged_or_something_else_is_refused(campaign, tmp_path):
    pack([campaign], tmp_path / "c.tar.zst")
    whole = (tmp_path / "c.tar.zst").read_bytes()
    for name, content in (
        ("cut", whole[: len(whole) // 2]),
        ("flipped", whole[:2000] + bytes([whole[2000] ^ 255]) + whole[2001:]),
        ("text", b"hello"),
        ("empty", b""),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match=name):
            unpack(tmp_path / name, tmp_path / "out")
        assert list((tmp_path / "out").iterdir()) == []
    archive = tmp_path / "other.tar.zst"
    with (
        pa.CompressedOutputStream(str(archive), "zstd") as stream,
        tarfile.open(fileobj=stream, mode="w|") as tar,
    ):
        tar.add(tmp_path / "text", "a")
    with pytest.raises(UsageError, match="holds no CTF trace"):
        unpack(archive, tmp_path / "out")
    with pytest.raises(UsageError, match="no such file"):
        unpack(tmp_path / "nothing", tmp_path / "out")
    with pytest.raises(UsageError, match="unpacks to more than 1,000 B"):
        unpack(tmp_path / "c.tar.zst", tmp_path / "out", max_bytes=1000)


def test_what_nobody_opened_for_long_goes_when_another_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROSLENS_CACHE", str(tmp_path / "cache"))
    archives = [tmp_path / f"{name}.tar.zst" for name in ("old", "used", "new")]
    for archive in archives:
        shutil.copy(SAMPLES / "chain.tar.zst", archive)
    old, used = opened(archives[0]), opened(archives[1])
    before = time.time() - (KEPT_DAYS + 1) * 86400
    for folder in (old, used):
        os.utime(folder.parent, (before, before))
    assert opened(archives[1]) == used
    new = opened(archives[2])
    assert [folder.is_dir() for folder in (old, used, new)] == [False, True, True]
    assert opened(archives[0]).is_dir()
