"""Test at each width that every number a verb gives as JSON stands whole in its text.

Text rounds to three digits or more and scales units, so a number of the text matches one of the
JSON if it is the same except for a power of ten, to within half of its last digit.
"""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.nights import nights
from tests.samples import SAMPLES

from roslens.cli import main

NUMBER = re.compile(r"(?<![\w.,/-])[-+]?\d[\d,]*(?:\.\d+)?(?:e\d+)?(?![\w/]*[\w/]\d)")
WIDTHS = ["60", "80", "100", "160", None]
BUDGETS = "budgets: [latency_p50 < 5 ms, latency_p99 < 5 ms, loss < 1 %, response_time_max < 1 s]"

WANTED = """
chains: [{path: /talker -> /data -> /listener, response_time: {p50: 5 ms, max: 1 s}, rate: 10 Hz}]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a run of two processes, and budgets beside it."""
    folder = tmp_path_factory.mktemp("width")
    shutil.copytree(SAMPLES / "two_process" / "000_r0_fastrtps", folder / "run")
    (folder / "budgets.yaml").write_text(BUDGETS)
    (folder / "wanted.yaml").write_text(WANTED)
    shutil.copytree(SAMPLES / "lifecycle" / "000_r0_cell", folder / "other")
    nights(folder / "nightly")
    return folder


def numbers(value: Any, names: tuple[str, ...], within: bool = False) -> Iterator[float]:
    """Yield the numbers below these keys."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from numbers(below, names, within or name in names)
    elif isinstance(value, list):
        for below in value:
            yield from numbers(below, names, within)
    elif within and isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def shown(number: float, text: str) -> bool:
    """Return whether the text holds this number, rounded and scaled."""
    for written in NUMBER.findall(text):
        digits = written.lstrip("+-").replace(",", "").partition("e")[0]
        scaled = digits.replace(".", "").lstrip("0")
        if not scaled:
            if number == 0:
                return True
            continue
        if number == 0 or (len(scaled) < 3 and number != float(digits)):
            continue
        exact = f"{abs(number):.15e}".replace(".", "").partition("e")[0]
        wanted, given = float(f"0.{exact}"), float(f"0.{scaled}")
        if abs(wanted - given) <= 0.5000001 * 10.0 ** -len(scaled):
            return True
    return False


VERBS = {
    "PATH": (("run",), ("messages", "p50_ms", "p99_ms", "worst_ms", "max_ns", "count", "complete")),
    "info": (("info", "run"), ("events", "events_by_name")),
    "why": (("why", "run"), ("message_id", "late_by_ns", "latency_ns")),
    "chains": (("chains", "run", "--requirements", "wanted.yaml"), ("value",)),
    "check": (("check", "budgets.yaml", "run"), ("value", "low", "high", "runs")),
    "compare": (("compare", "run", "run"), ("value", "runs")),
    "sql": (("sql", "SELECT count(*) AS n, avg(latency_ns) AS m FROM messages", "run"), ("n", "m")),
    "collect": (("collect", "run", "other"), ("events", "messages")),
    "export": (("export", "--format", "dot", "run", "graph.dot"), ("size_bytes",)),
    "suites": (("suites", "demo"), ("factors", "combinations", "repetitions", "time_limit")),
    "report": (("report", "latency", "run", "-o", "report"), ("value", "low", "high")),
    "trend": (("trend", "nightly", "--metric", "latency_p99"), ("before", "after")),
    "record": (("record", "--suite", "demo", "--dry-run", "--seed", "1"), ("order", "payload")),
}
TO_FILE = ("chains", "check", "compare", "trend")
WORDS = {
    "merge": ("merge", "run", "other", "-o", "merged"),
    "catalog": ("catalog", "nightly"),
}
"""Verbs of which only names and sentences are asserted to be whole."""


@pytest.fixture(scope="module")
def as_json() -> dict[str, str]:
    """Return the cache of each verb's JSON, which is the same at each width."""
    return {}


def ask(verb: str, as_json: dict[str, str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Return a verb's JSON and its printed text."""
    words = WORDS[verb] if verb in WORDS else VERBS[verb][0]
    out = Path("out.json")
    to_file = [str(out)] if verb in TO_FILE else []
    for more in ([], ["--json", *to_file]):
        if more and verb in as_json:
            break
        with pytest.raises(SystemExit) as ended:
            main([*words, *more])
        assert ended.value.code in (None, 0, 3) or verb == "trend"
        output = capsys.readouterr().out
        if more:
            as_json[verb] = out.read_text() if to_file else output
        else:
            text = output
    return as_json[verb], text


@pytest.fixture(params=WIDTHS)
def at_width(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in the folder, in a terminal of the requested width."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("COLUMNS", raising=False)
    if request.param:
        monkeypatch.setenv("COLUMNS", request.param)


@pytest.mark.usefixtures("at_width")
@pytest.mark.parametrize("verb", VERBS)
def test_every_number_stands_in_the_text(
    verb: str,
    as_json: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    written, text = ask(verb, as_json, capsys)
    given = json.loads(written)
    if verb == "report":
        words = text.split()
        assert [word for word in " ".join(given["answer"]).split() if word not in words] == []
        shown_there = ("latency_mean", "latency_p50", "latency_p99")
        estimates = json.loads(Path(given["metrics"]).read_text())["estimates"]
        # The terminal shows only the overall estimates; the page has those of all topics.
        given = [e for e in estimates if e["metric"] in shown_there and "topic" not in e["cell"]]
    if isinstance(given, dict):
        given = given.get("checks", given.get("comparisons", given))
    wanted = set(numbers(given, VERBS[verb][1]))
    assert wanted
    missing = [number for number in wanted if not shown(number, text)]
    assert missing == [], text


@pytest.mark.usefixtures("at_width")
@pytest.mark.parametrize("verb", WORDS)
def test_every_name_stands_in_the_text(
    verb: str, as_json: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    written, text = ask(verb, as_json, capsys)
    if verb == "catalog":
        rows = [json.loads(line) for line in written.splitlines()]
        wanted = [rows[0]["suite"], f"{len(rows)}"]
    else:
        wanted = [member["name"] + ":" for member in json.loads(written)["members"]]
    assert [word for word in wanted if word not in text.split()] == []


def test_a_cut_number_is_found_out() -> None:
    assert shown(356_195.0, "0.3562 ms")
    assert shown(1_016, "of 1,016 messages")
    assert not shown(356_195.0, "0.35 ms")
    assert not shown(356_195.0, "0.3563 ms")
    assert not shown(1_016, "of 1,01 messages")
