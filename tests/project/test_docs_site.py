"""Test that the site builds strictly: links lead somewhere, all pages are in the contents."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"""<(?:script|img|link)\b[^>]*(?:src|href)=["']?(https?:|//)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return target


def test_generated_pages_name_every_verb_field_and_metric(site: Path) -> None:
    verbs = (site / "reference" / "cli.html").read_text()
    for verb in ("record", "collect", "report", "lab", "index", "compare", "check", "export"):
        assert f"roslens {verb}" in verbs
        assert f"roslens {verb} {verb}" not in verbs
    assert "[default: ros2:*]" in verbs
    fields = (site / "reference" / "suite_schema.html").read_text()
    assert all(f"<code>{name}</code>" in fields for name in ("factors", "repetitions", "tracing"))
    metrics = (site / "reference" / "metrics.html").read_text()
    assert all(f"<code>{name}</code>" in metrics for name in ("latency_p99", "loss"))


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        assert not LOADED.search(page.read_text()), page.name
