"""Test opening archives, whose content stays in the user's cache for some time."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from tests.samples import SAMPLES

from roslens.tracing.opening import KEPT_DAYS, opened

SAMPLE = SAMPLES / "chain.tar.zst"


def test_what_nobody_opened_for_long_goes_when_another_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROSLENS_CACHE", str(tmp_path / "cache"))
    archives = [tmp_path / f"{name}.tar.zst" for name in ("old", "used", "new")]
    for archive in archives:
        shutil.copy(SAMPLE, archive)
    old, used = opened(archives[0]), opened(archives[1])
    before = time.time() - (KEPT_DAYS + 1) * 86400
    for folder in (old, used):
        os.utime(folder.parent, (before, before))
    assert opened(archives[1]) == used
    new = opened(archives[2])
    assert [folder.is_dir() for folder in (old, used, new)] == [False, True, True]
    assert opened(archives[0]).is_dir()
