"""Provide another host, which is this one, reached through our own sshd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.remote.own_sshd import SSHD, OwnSshd


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[OwnSshd]:
    if SSHD is None:
        pytest.skip("sshd is not installed (openssh-server)")
    server = OwnSshd(tmp_path / "ssh")
    yield server
    server.close()
