"""Test what is passed to ssh and to the recorder elsewhere, and what is refused."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from roslens.recording import Manifest, RunFailedError, UsageError, manifest, write_manifest
from roslens.recording.manifest import TracingSettings
from roslens.tracing.interruption import Interruption
from roslens.tracing.lifeline import BeginMessage, Lifeline
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.lttng.settings import KERNEL_EVENTS
from roslens.tracing.remote.arguments import record_arguments
from roslens.tracing.remote.campaign import (
    HOSTS_NAME,
    HostsState,
    HostState,
    fetch,
    read_hosts,
    resume_hosts,
)
from roslens.tracing.remote.ssh import Host, ssh_command
from roslens.tracing.sampling.rates import SamplerRates


def test_a_host_is_a_destination_and_a_command() -> None:
    assert Host.parsed("user@robot") == Host("user@robot")
    host = Host.parsed("user@robot:ros2 launch 'my package' x.py a:=1")
    assert host == Host("user@robot", ("ros2", "launch", "my package", "x.py", "a:=1"))
    assert host.name == "robot"
    assert Host.parsed("a@..").name == "host"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no name of a host"),
        ("-oProxyCommand=id", "no name of a host"),
        ("user@", "no name of a host"),
        ("a b", "no name of a host"),
        ("a\nb", "no name of a host"),
        (":ls", "no name of a host"),
        ("robot:", "no command after the colon"),
        ("robot:'x", "no closing quotation"),
        ("ssh://robot:22", "a port belongs"),
    ],
)
def test_what_is_no_host_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Host.parsed(text)


def test_words_arrive_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # In place of ssh, sh does what a login shell does with the words that ssh passes to it.
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("ROSLENS_SSH", str(ssh))
    words = ["a b", "$(touch hit)", "`id`", "'", '"', ";ls", "*", "\\", "\n", "-x", "~"]
    show = [sys.executable, "-c", "import sys; print(sys.argv[1:])"]
    output = subprocess.check_output(ssh_command("robot", [*show, *words], "X=1"), text=True)
    assert output == f"{words}\n"
    assert "BatchMode=yes" in ssh_command("robot", ["true"])
    assert ssh_command("robot", ["true"])[-3:] == ["--", "robot", "exec true"]


def test_without_ssh_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROSLENS_SSH", "/nowhere/ssh -v")
    with pytest.raises(UsageError, match="/nowhere/ssh: not found on PATH"):
        ssh_command("robot", ["true"])


def test_options_are_passed_on_where_they_are_not_the_default() -> None:
    assert record_arguments(TracingOptions(), "auto", SamplerRates()) == []
    options = TracingOptions.checked(
        tracer="native", events=("ros2:rcl*", "x:*"), flight=2.5, subbuf_size="64k", kernel="off"
    )
    samplers = SamplerRates(allocations=True)
    assert record_arguments(options, "none", samplers, trace_rclpy=False) == [
        *("--tracer", "native", "--event", "ros2:rcl*", "--event", "x:*", "--kernel", "off"),
        *("--flight", "2.5", "--subbuf-size", "65536", "--ros", "none", "--no-trace-rclpy"),
        "--allocations",
    ]
    more = TracingOptions(kernel_events=(*KERNEL_EVENTS, "irq:*"), max_disk=1 << 20)
    assert record_arguments(more, "auto", SamplerRates(stacks=99, waits=True)) == [
        *("--kernel-event", "irq:*", "--max-disk", "1048576", "--stacks", "99", "--waits")
    ]


def test_a_lifeline_ends_with_its_input_or_its_silence() -> None:
    read, write = os.pipe()
    line = Lifeline(read, silent_seconds=1e6)
    assert not line.ended()
    os.write(write, b"\n")
    assert not line.ended()
    os.close(write)
    assert line.ended()
    assert not line.lost
    os.close(read)
    read, write = os.pipe()
    line = Lifeline(read, silent_seconds=-1.0)
    os.write(write, b"\n")
    assert not Lifeline(read, silent_seconds=1e6).ended()
    assert line.ended()
    assert line.lost
    os.close(read)
    os.close(write)


def test_only_what_a_recorder_says_is_read_as_such() -> None:
    line = '{"roslens": "1.2", "recording": "/a", "pid": 3}'
    assert BeginMessage.read(line) == BeginMessage("1.2", "/a", 3)
    for text in ("", "Welcome!", "1", "[]", '{"roslens": 1}', '{"pid": "x"}'):
        assert BeginMessage.read(text) is None


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped"])
def test_an_archive_writes_nowhere_else(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "hostile.tar"
    with tarfile.open(archive, "w") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        tar.addfile(link)
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\nexec cat {archive}\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("ROSLENS_SSH", str(ssh))
    before = set(tmp_path.iterdir())
    with Interruption() as interruption, pytest.raises(RunFailedError, match="would lie outside"):
        fetch("robot", "x", tmp_path / "here", interruption)
    assert set(tmp_path.iterdir()) == before


def test_links_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "there"
    (folder / "native").mkdir(parents=True)
    (folder / "native" / "latest").symlink_to("/etc")
    (folder / "native" / "log").write_text("x")
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\nexec tar -C {folder} -cf - .\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("ROSLENS_SSH", str(ssh))
    with Interruption() as interruption:
        fetch("robot", "x", tmp_path / "here", interruption)
    assert [path.name for path in (tmp_path / "here" / "native").iterdir()] == ["log"]


def test_half_an_archive_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = tmp_path / "content"
    content.write_bytes(bytes(100_000))
    archive = tmp_path / "half.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(content, "content")
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\nexec head -c 50000 {archive}\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("ROSLENS_SSH", str(ssh))
    with Interruption() as interruption, pytest.raises(RunFailedError, match="no whole archive"):
        fetch("robot", "x", tmp_path / "here", interruption)
    assert not (tmp_path / "here").exists()
    assert not (tmp_path / ".here.part").exists()


def test_a_recording_that_is_here_already_is_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed roslens had fetched it, and removed it there, but not noted this yet."""
    monkeypatch.setenv("ROSLENS_SSH", "true")  # does what it is told, and has no recording
    host = HostState(name="robot", destination="robot", command=(), folder="/gone/robot")
    (tmp_path / HOSTS_NAME).write_text(HostsState(hosts=[host]).model_dump_json())
    (tmp_path / "robot").mkdir()
    machine, tracing = manifest.Host(), TracingSettings(tracer="native")
    whole = Manifest(
        suite="s", campaign="c", run="r", host=machine, tracing=tracing, start_ns=1,
        status="complete",
    )  # fmt: skip
    write_manifest(whole, tmp_path / "robot" / "manifest.json")
    result = resume_hosts(tmp_path)
    assert (result.recordings, result.troubles) == ({"robot": whole}, {})
    assert read_hosts(tmp_path).hosts[0].status == "fetched"
