"""Test real nodes on two namespace hosts, whose clocks differ, recorded at once.

Another time namespace shifts the second host's CLOCK_MONOTONIC, by which the tracer takes its
times: its traces begin like those of another boot. It does not shift CLOCK_REALTIME, to which a
trace relates its clock; ``clock.c`` does, and lets both run fast. (libfaketime would, too, but with
a true CLOCK_MONOTONIC it makes Python's time.sleep fail.)
"""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.programs import roslens, roslens_command
from tests.remote.own_sshd import GOOD, SSHD, OwnSshd
from tests.remote.two_hosts import AHEAD_OF_BOOT_S, two_hosts

from roslens.collectors.reader import open_trace

pytestmark = pytest.mark.live

AHEAD_NS = 2_500_000_000
PPM = 50
COUNT = 200
HERE = Path(__file__).parent
UDP = ("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4")
"""A setting that leaves no shared memory behind, which both hosts have in common."""


@dataclass(frozen=True)
class Campaign:
    """A recorded campaign, and how the second host's clock went.

    Attributes
    ----------
    folder
        The folder of all recordings.
    ahead_ns
        By how much the clock was ahead, at least and at most.
    began_ns
        When the clock began to run fast, by the first host's clock.
    """

    folder: Path
    ahead_ns: tuple[int, int]
    began_ns: int


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Record both hosts: PING on this one, PONG on the other."""
    if SSHD is None:
        pytest.skip("sshd is not installed (openssh-server)")
    folder = tmp_path_factory.mktemp("hosts")
    clock = folder / "clock.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", HERE / "clock.c", "-o", clock], check=True)
    with two_hosts(folder) as (desk, robot):
        sshd = OwnSshd(folder / "ssh", robot.address, robot.prefix)
        begun, began_ns = time.monotonic_ns(), time.time_ns()
        since = begun + AHEAD_OF_BOOT_S * 1_000_000_000
        variables = {"AHEAD_NS": AHEAD_NS, "PPM": PPM, "SINCE_NS": since, "LD_PRELOAD": clock}
        words = [f"{name}={value}" for name, value in {**variables, UDP[0]: UDP[1]}.items()]
        sshd.program(f"export {' '.join(words)}")
        talker = f"python {HERE / 'talker.py'}"
        options = ("--tracer", "native", "--kernel", "off", "--trace-rclpy", "--time-limit", "300")
        try:
            done = subprocess.run(
                [
                    *(*desk.prefix, *roslens_command("record", *options, "-o", folder / "out")),
                    *("--host-setup", sshd.setup, "--host", f"{GOOD}:{talker} PONG {COUNT}"),
                    *("--", *talker.split(), "PING", str(COUNT)),
                ],
                env={**sshd.environment(), UDP[0]: UDP[1]},
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            sshd.close()
    assert done.returncode == 0, done.stderr + done.stdout
    gained = (time.monotonic_ns() - begun) * PPM // 1_000_000
    return Campaign(folder / "out", (AHEAD_NS, AHEAD_NS + gained), began_ns)


def test_both_hosts_are_recorded_whole(campaign: Campaign) -> None:
    for name in ("here", "robot"):
        manifest = json.loads((campaign.folder / name / "manifest.json").read_text())
        assert manifest["status"] == "complete", manifest["failure"]
        assert manifest["loss"] == {"discarded_events": 0, "lost_packets": 0}


def test_messages_between_them_bound_the_shift(campaign: Campaign) -> None:
    """No message is taken before it is sent: by hand, from the events of each recording."""
    published, taken = {}, {}
    for name in ("here", "robot"):
        events = open_trace(campaign.folder / name).read(["ros2:rmw_publish", "ros2:rmw_take"])
        published[name] = events["ros2:rmw_publish"].select("timestamp", sent="time_ns")
        taken[name] = events["ros2:rmw_take"].filter(pl.col("taken") == 1)

    def least(sender: str, receiver: str) -> int:
        joined = taken[receiver].join(
            published[sender], left_on="source_timestamp", right_on="timestamp"
        )
        assert joined.height >= COUNT
        return int((joined["time_ns"] - joined["sent"]).min())  # type: ignore[arg-type]

    low, high = -least("robot", "here"), least("here", "robot")
    assert low <= campaign.ahead_ns[1]
    assert high >= campaign.ahead_ns[0]
    assert low < high + campaign.ahead_ns[1] - campaign.ahead_ns[0]


def test_merging_finds_the_shift_within_its_bounds(campaign: Campaign) -> None:
    merged = campaign.folder / "merged"
    clocks = json.loads((merged / "clocks.json").read_text())
    [(host, added)] = clocks["added"].items()
    bounds = {(first, second): points for first, second, points in clocks["bounds"]}
    times, within = zip(*bounds[host, "h0"], strict=True)
    for time_ns, add in added:
        # The second host's time is a linear function of the first one's, solved for the latter.
        true = (time_ns - AHEAD_NS + campaign.began_ns * PPM / 1_000_000) / (1 + PPM / 1_000_000)
        assert abs(time_ns + add - true) <= np.interp(time_ns + add, times, within)
    # The messages of half a second bound it to less than a millisecond.
    assert min(within) < 1_000_000
    assert roslens("collect", merged).returncode == 0
    messages = pl.read_parquet(merged / "tables" / "messages.parquet").filter(
        pl.col("publisher_host") != pl.col("subscription_host")
    )
    chatter = messages.filter(pl.col("topic").is_in(["/from_ping", "/from_pong"]))
    assert chatter.height >= 2 * COUNT
    assert (chatter["latency_ns"].drop_nulls() > 0).all()
    assert (chatter["clock_bound_ns"] <= max(within)).all()
