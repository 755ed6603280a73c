"""Every case of public CTF test suites through our reader and babeltrace2; writes a page.

Usage: ``python benchmarks/conformance.py DIR [-o docs/conformance.md]``

DIR holds checkouts (or links to them), for example the folder ``tests/1.8`` of ctf-testsuite
(whose stress traces its own ``test.py -s SIZE prepare`` writes) and ``tests/data/ctf-traces`` of
babeltrace. A case is a folder with a file named ``metadata``. Its path says what a reader must do:
below ``fail`` refuse it, else read it. Where that is in doubt, `conformance_verdicts.csv` beside
this file judges by the specification.

A reader *refuses* a trace when it reports an error, or says what it had to leave out.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

VERDICTS = Path(__file__).with_name("conformance_verdicts.csv")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "conformance.md"
CPU_S = 30
"""Seconds of CPU time after which a reader counts as hanging; wall time depends on other load."""
WAIT_S = 900
"""Seconds of wall time after which a reader counts as hanging, whatever it waits for."""
_OURS = """
import json, sys
from pathlib import Path
from roslens.collectors.reader import open_trace
from roslens.recording import RoslensError
for line in sys.stdin:
    try:
        trace = open_trace(Path(line.rstrip("\\n")))
        info = trace.info(threads=1)
        if info.events < 200_000:
            trace.read(threads=1)
        lost = [w for w in info.warnings if "begins with packet number" not in w]
        found = {"events": info.events, "said": lost[0] if lost else None}
    except RoslensError as error:
        found = {"events": None, "said": str(error)}
    print(json.dumps(found), flush=True)
"""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a reader on a trace: ``reads``, ``refuses``, ``crashes`` or ``hangs``."""

    what: str
    events: int | None = None
    said: str = ""


@dataclass(frozen=True)
class Verdict:
    """The behaviour that the specification requires, and why."""

    expected: str
    clause: str
    why: str


@dataclass(frozen=True)
class Case:
    """One trace, what both readers did with it, and what a reader must do."""

    name: str
    ours: Outcome
    theirs: Outcome
    expected: str
    verdict: Verdict | None

    def right(self, outcome: Outcome) -> bool:
        """Return whether a reader did what is expected."""
        return outcome.what == self.expected

    @property
    def odd(self) -> bool:
        """Whether a reader is wrong, or the two read different numbers of events."""
        events = {o.events for o in (self.ours, self.theirs) if o.what == "reads"}
        return len(events) > 1 or not self.right(self.ours) or not self.right(self.theirs)


class OurReader:
    """Our reader, in its own process, which is started again when it dies or hangs."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, trace: Path) -> Outcome:
        """Read a trace and return the outcome."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _OURS],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        print(trace, file=process.stdin, flush=True)
        ready = self._wait(process)
        answer = process.stdout.readline() if ready else ""
        if not answer:
            process.kill()
            self._process = None
            return Outcome("crashes" if ready else "hangs")
        reply = json.loads(answer)
        if reply["said"] is None:
            return Outcome("reads", reply["events"])
        return Outcome("refuses", reply["events"], reply["said"].replace(f"{trace}", "."))

    @staticmethod
    def _wait(process: subprocess.Popen[str]) -> bool:
        """Return whether the process answers, or ends, in time."""
        times = psutil.Process(process.pid).cpu_times
        begun, since = times(), time.monotonic()
        while time.monotonic() - since < WAIT_S:
            if select.select([process.stdout], [], [], 1)[0]:
                return True
            now = times()
            if now.user + now.system - begun.user - begun.system > CPU_S:
                break
        return False

    def close(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()


def babeltrace2(trace: Path) -> Outcome:
    """Run the command babeltrace2 on a trace and count the lines of its text as events."""
    # The loglevel field alone: the host's name may have several lines.
    run = _run(["babeltrace2", "--fields=loglevel", str(trace)])
    if isinstance(run, Outcome):
        return run
    events = run.stdout.count("\n")
    if run.returncode == 0:
        return Outcome("reads", events)
    if run.returncode == -signal.SIGXCPU:
        return Outcome("hangs")
    if run.returncode < 0:
        return Outcome("crashes", events, f"signal {-run.returncode}")
    return Outcome("refuses", events)


def _run(command: list[str]) -> subprocess.CompletedProcess[str] | Outcome:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=WAIT_S,
            check=False,
            preexec_fn=_limit,
        )
    except subprocess.TimeoutExpired:
        return Outcome("hangs")


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
    # A core file would be as large as the memory of a hanging reader.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def verdicts() -> dict[str, Verdict]:
    """Return the judged cases by name."""
    with VERDICTS.open(newline="") as file:
        return {
            row["case"]: Verdict(row["expected"], row["clause"], row["why"])
            for row in csv.DictReader(file)
        }


def cases(root: Path) -> list[Case]:
    """Run both readers on every trace below `root`."""
    by_name = verdicts()
    results = []
    ours = OurReader()
    walk = os.walk(root, followlinks=True)
    traces = sorted(Path(folder) for folder, _, names in walk if "metadata" in names)
    for number, trace in enumerate(traces):
        name = trace.relative_to(root).as_posix()
        print(f"\r{number + 1}/{len(traces)} {name:80.80}", end="", file=sys.stderr, flush=True)
        verdict = by_name.get(name)
        expected = "refuses" if "fail" in trace.parts else "reads"
        results.append(
            Case(
                name,
                ours(trace),
                babeltrace2(trace),
                verdict.expected if verdict else expected,
                verdict,
            )
        )
    ours.close()
    print(file=sys.stderr)
    return results


def page(found: list[Case]) -> str:
    """Return the page as Markdown."""
    version = _run(["babeltrace2", "--version"])
    assert isinstance(version, subprocess.CompletedProcess)
    peer = " ".join(version.stdout.split()[:2])
    lines = [
        "# Conformance",
        "",
        "`benchmarks/conformance.py` writes this page from checkouts of public suites, none of",
        "which is part of this project. A reader *refuses* a trace if it reports an error, or",
        "reports what it had to leave out. The suite (folders `pass` and `fail`) defines what is",
        "right; if in doubt, the clause of the specification given below does.",
        "[The reader](ctf_reader.md#how-it-is-tested) says how CTF 2 of LTTng 2.15 and",
        "newer was tested.",
        "",
        f"| suite | cases | roslens right | {peer} right |",
        "| --- | ---: | ---: | ---: |",
    ]
    for suite in dict.fromkeys(_suite(c) for c in found):
        part = [c for c in found if _suite(c) == suite]
        right = sum(c.right(c.ours) for c in part)
        theirs = sum(c.right(c.theirs) for c in part)
        lines.append(f"| {suite} | {len(part)} | {right} | {theirs} |")
    lines += [
        (
            f"| all | {len(found)} | {sum(c.right(c.ours) for c in found)} "
            f"| {sum(c.right(c.theirs) for c in found)} |"
        ),
        "",
        "## Cases where a reader is wrong, or the two differ",
        "",
        f"| case | right | roslens | {peer} | judged by |",
        "| --- | --- | --- | --- | --- |",
    ]
    for case in (c for c in found if c.odd or c.verdict):
        why = f"{case.verdict.clause}: {case.verdict.why}" if case.verdict else "the suite"
        lines.append(
            f"| {case.name} | {case.expected} | {_cell(case, case.ours)} "
            f"| {_cell(case, case.theirs)} | {why} |"
        )
    return "\n".join(lines) + "\n"


def _suite(case: Case) -> str:
    parts = case.name.split("/")
    depth = next((i for i, p in enumerate(parts) if p in {"pass", "fail", "succeed"}), 1)
    return "/".join(parts[: depth + 1])


def _cell(case: Case, outcome: Outcome) -> str:
    text = outcome.what if outcome.events is None else f"{outcome.what}, {outcome.events} events"
    return text if case.right(outcome) else f"**{text}**"


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", type=Path, metavar="DIR")
    parser.add_argument("-o", "--output", type=Path, default=PAGE)
    parser.add_argument("--details", action="store_true", help="print what our reader said")
    options = parser.parse_args()
    results = cases(options.suites.resolve())
    options.output.write_text(page(results))
    if options.details:
        for case in (c for c in results if c.odd):
            print(f"{case.name}\n  expected {case.expected}\n  {case.ours}\n  {case.theirs}")
    print(options.output)


if __name__ == "__main__":
    main()
