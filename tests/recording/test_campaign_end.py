"""Test what `record` says when all runs of a suite are done, with manifests made by hand."""

import io
from pathlib import Path

from roslens.recorded import ResultPrinter
from roslens.recording.manifest import Host, Loss, Manifest, TracingSettings
from roslens.recording.terminal import Console
from roslens.tracing.campaign import CampaignResult


def run(name: str, *notes: str) -> Manifest:
    return Manifest(
        suite="s", campaign="c", run=name, host=Host(cpu_count=2), start_ns=5, status="complete",
        tracing=TracingSettings(tracer="lttng", notes=list(notes)),
        loss=Loss(discarded_events=0, lost_packets=0),
    )  # fmt: skip


def said(*runs: Manifest) -> str:
    text = io.StringIO()
    teller = ResultPrinter(console=Console(file=text, width=300))
    teller.print_campaign(CampaignResult(Path("campaign"), list(runs)))
    return text.getvalue()


def test_what_the_kernel_left_out_of_a_run_is_said_at_the_end() -> None:
    lacks = "the kernel's trace lacks 118 switches"
    text = said(run("000_r0"), run("001_r0", lacks), run("002_r0", lacks))
    assert f"the traces of 2 of 3 runs have a note (such as 001_r0: {lacks})" in text
    assert "have a note" not in said(run("000_r0"))
