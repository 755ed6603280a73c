"""Determine the progress of a campaign from the contents of its folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from roslens.recording import Manifest, UsageError, read_manifest
from roslens.recording.errors import failing
from roslens.recording.layout import MANIFEST_NAME
from roslens.tracing.claim import is_claimed
from roslens.tracing.plan import PLAN_NAME, Plan, PlannedRun, read_plan


@dataclass
class RunState:
    """The state of one planned run.

    Attributes
    ----------
    planned
        The planned run.
    attempts
        The manifests of attempts that ended, complete or failed, in order.
    torn
        The folder of an attempt that was killed or interrupted; the attempt is repeated.
    retries
        How often a failed run is repeated.
    """

    planned: PlannedRun
    attempts: list[Manifest] = field(default_factory=list)
    torn: Path | None = None
    retries: int = 0

    @property
    def complete(self) -> bool:
        """Return whether any attempt is complete."""
        return any(m.status == "complete" for m in self.attempts)

    @property
    def wanted(self) -> bool:
        """Return whether another attempt is to be made."""
        return not self.complete and len(self.attempts) <= self.retries


@dataclass(frozen=True)
class CampaignState:
    """The state of a campaign: its folder, its plan, and the states of its runs."""

    folder: Path
    plan: Plan
    runs: list[RunState]

    @property
    def finished(self) -> bool:
        """Return whether no run is left to make."""
        return not any(run.wanted for run in self.runs)

    @property
    def status(self) -> Literal["recording", "finished", "unfinished"]:
        """Return the status to display."""
        if is_claimed(self.folder):
            return "recording"
        return "finished" if self.finished else "unfinished"

    @property
    def executions(self) -> int:
        """Return how often the campaign was begun or resumed, according to its runs."""
        executions = [m.design.execution for run in self.runs for m in run.attempts if m.design]
        return max(executions, default=-1) + 1


def campaign_state(folder: Path) -> CampaignState:
    """Read the state of a campaign.

    Raises
    ------
    UsageError
        The plan is missing or not valid, or a manifest is not valid.
    """
    plan = read_plan(folder)
    return CampaignState(folder, plan, [_run_state(folder, plan, run) for run in plan.runs])


def _run_state(folder: Path, plan: Plan, planned: PlannedRun) -> RunState:
    state = RunState(planned, retries=plan.suite.retries)
    for attempt in range(plan.suite.retries + 1):
        path = folder / planned.folder(attempt)
        if not path.is_dir():
            break
        manifest = read_manifest(path / MANIFEST_NAME) if (path / MANIFEST_NAME).is_file() else None
        if manifest is None or manifest.status not in {"complete", "failed"}:
            state.torn = path
            break
        state.attempts.append(manifest)
    return state


def clear_torn(state: CampaignState, note: Callable[[str], None]) -> None:
    """Remove the folders of torn runs, which will be repeated.

    Raises
    ------
    RunFailedError
        A folder cannot be removed.
    """
    for run in state.runs:
        if run.torn is None:
            continue
        note(f"{run.torn.name} was torn and is made again")
        with failing(f"{run.torn}: cannot be removed"):
            shutil.rmtree(run.torn)
        run.torn = None


def find_campaigns(root: Path, suite: str | None = None) -> list[Path]:
    """Return the folders of campaigns (folders with a plan) below a root, oldest first."""
    plans = root.glob(f"{suite or '*'}/*/{PLAN_NAME}")
    return [plan.parent for plan in sorted(plans, key=lambda plan: plan.stat().st_mtime_ns)]


def find_campaign(root: Path, name: str, suite: str | None = None) -> Path:
    """Find a campaign by its folder or its name.

    Raises
    ------
    UsageError
        No campaign, or campaigns of several suites, have this name.
    """
    if (Path(name) / PLAN_NAME).is_file():
        return Path(name)
    folders = [
        folder
        for folder in find_campaigns(root, suite)
        if name in (folder.name, f"{folder.parent.name}/{folder.name}")
    ]
    if not folders:
        raise UsageError(f"{name}: no such campaign below {root}; 'roslens record --status' lists")
    if len(folders) > 1:
        names = ", ".join(f"{folder.parent.name}/{folder.name}" for folder in folders)
        raise UsageError(f"{name}: several campaigns have this name: {names}")
    return folders[0]


def last_unfinished(root: Path, suite: str | None = None) -> Path:
    """Return the latest campaign that has runs to make and is not being recorded.

    Raises
    ------
    UsageError
        There is no such campaign.
    """
    for folder in reversed(find_campaigns(root, suite)):
        if campaign_state(folder).status == "unfinished":
            return folder
    of_suite = f" of suite {suite}" if suite else ""
    raise UsageError(f"no unfinished campaign{of_suite} below {root}")
