"""Test that a recording's content never becomes code: no pickle of it, no shell with its names.

Worker processes are sent pickled tasks over pipes that nobody else can open (or, with
``--scheduler``, over the user's own cluster): the pickles are ours, never a file's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.programs import roslens
from tests.samples import RUN, uncollected

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("analysis", "collectors", "notebooks", "studies", "src", "tracing")
# Rules against pickles and the like, code from text, YAML that makes objects, shells, and names of
# temporary files that others can guess.
RULES = "S102,S301,S302,S306,S307,S403,S506,S602,S604,S605,S609,S612"
# A SafeLoader that refuses a key given twice.
JUSTIFIED = {("src/roslens/recording/yaml_file.py", "S506")}
NAME = "a; touch pwned $(touch pwned) `touch pwned` | touch pwned"
AUDIT = """
import json, os, sys
def heard(event, given):
    if event in {"os.system", "pickle.find_class", "subprocess.Popen", "os.exec", "os.mkdir"}:
        arguments = [x if isinstance(x, (int, list)) else str(x) for x in given[:2]]
        told = [event, sys.argv[0], arguments]
        line = json.dumps(told, default=str) + "\\n"
        descriptor = os.open(os.environ["HEARD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line.encode())
        os.close(descriptor)
sys.addaudithook(heard)
"""


def test_no_line_unpickles_or_starts_a_shell() -> None:
    """Ruff's rules decide, whatever a comment excuses."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ruff", "check", "--isolated", "--ignore-noqa", "--no-cache"),
            *("--output-format", "json", "--select", RULES, *PRODUCT),
        ],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    findings = {
        (Path(finding["filename"]).resolve().relative_to(ROOT).as_posix(), finding["code"])
        for finding in json.loads(done.stdout)
    }
    assert findings == JUSTIFIED


@pytest.mark.recording
def test_verbs_unpickle_nothing_start_no_shell_and_keep_temporary_folders_to_themselves(
    tmp_path: Path,
) -> None:
    """Python's audit hooks report it, in the verbs and in every Python that they start."""
    hooks, temporary, heard = tmp_path / "hooks", tmp_path / "tmp", tmp_path / "heard"
    hooks.mkdir()
    temporary.mkdir()
    (hooks / "sitecustomize.py").write_text(AUDIT)
    run = uncollected(RUN, tmp_path / NAME)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest |= {"run": NAME, "suite": NAME, "campaign": NAME, "factors": {NAME: NAME}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    environment = os.environ | {
        "HEARD": str(heard), "TMPDIR": str(temporary),
        "PYTHONPATH": os.pathsep.join([str(hooks), str(ROOT / "src")]),
    }  # fmt: skip
    for verb in (
        ["info", NAME],
        ["collect", NAME],
        ["report", "latency", NAME, "-o", "report"],
        ["export", "--format", "perfetto", NAME, "out.json"],
        ["pack", NAME, "-o", "packed"],
        ["unpack", "packed", "unpacked"],
        ["catalog", "unpacked", "--collect"],
    ):
        done = roslens(*verb, cwd=tmp_path, env=environment, umask=0)
        assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in heard.read_text().splitlines()]
    events = {event for event, *_ in records}
    assert "os.mkdir" in events  # the hook worked at all, and in the kernel of the report, too
    assert "subprocess.Popen" in events
    assert len({argument for _, argument, _ in records}) > 1
    assert not events & {"os.system", "pickle.find_class"}
    started = [given for event, _, given in records if event in {"subprocess.Popen", "os.exec"}]
    assert not {Path(program).name for program, _ in started} & {"sh", "bash", "dash"}
    created = [given for event, _, given in records if event == "os.mkdir"]
    modes = [mode for folder, mode in created if Path(folder).parent == temporary]
    assert modes
    assert set(modes) == {0o700}
    assert not list(tmp_path.rglob("pwned"))
