"""How far a campaign is, read from what lies in its folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from roslens.recording import Manifest, RunFailedError, UsageError, read_manifest
from roslens.recording.layout import MANIFEST_NAME
from roslens.tracing.claim import is_claimed
from roslens.tracing.plan import PLAN_NAME, Plan, PlannedRun, read_plan


@dataclass
class RunState:
    """One planned run: what was made of it.

    Attributes
    ----------
    planned
        Its plan.
    attempts
        The manifests of attempts that ended, complete or failed, in order.
    torn
        The folder of an attempt that was killed or interrupted; it is made again.
    retries
        How often a failed run is repeated.
    """

    planned: PlannedRun
    attempts: list[Manifest] = field(default_factory=list)
    torn: Path | None = None
    retries: int = 0

    @property
    def complete(self) -> bool:
        """Whether an attempt is complete."""
        return any(m.status == "complete" for m in self.attempts)

    @property
    def wanted(self) -> bool:
        """Whether an attempt is still to be made."""
        return not self.complete and len(self.attempts) <= self.retries


@dataclass(frozen=True)
class CampaignState:
    """A campaign: its folder, its plan, and what was made of each run."""

    folder: Path
    plan: Plan
    runs: list[RunState]

    @property
    def finished(self) -> bool:
        """Whether no run is left to make."""
        return not any(run.wanted for run in self.runs)

    @property
    def status(self) -> Literal["recording", "finished", "unfinished"]:
        """For people."""
        if is_claimed(self.folder):
            return "recording"
        return "finished" if self.finished else "unfinished"

    @property
    def executions(self) -> int:
        """How often it has been begun or resumed, as far as runs tell."""
        executions = [m.design.execution for run in self.runs for m in run.attempts if m.design]
        return max(executions, default=-1) + 1


def campaign_state(folder: Path) -> CampaignState:
    """Read a campaign.

    Raises
    ------
    UsageError
        The plan is missing or not valid, or a manifest is not.
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
    """Remove the folders of torn runs, which are made again.

    Raises
    ------
    RunFailedError
        One cannot be removed.
    """
    for run in state.runs:
        if run.torn is None:
            continue
        note(f"{run.torn.name} was torn and is made again")
        try:
            shutil.rmtree(run.torn)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise RunFailedError(f"{run.torn}: cannot be removed: {reason}") from error
        run.torn = None


def find_campaigns(root: Path, suite: str | None = None) -> list[Path]:
    """The folders of campaigns (those with a plan) below the folder of all recordings, by age."""
    plans = root.glob(f"{suite or '*'}/*/{PLAN_NAME}")
    return [plan.parent for plan in sorted(plans, key=lambda plan: plan.stat().st_mtime_ns)]


def find_campaign(root: Path, name: str, suite: str | None = None) -> Path:
    """A campaign by its folder or its name.

    Raises
    ------
    UsageError
        There is none, or several suites have one of that name.
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
    """The campaign begun last of those that have runs to make and that nobody records.

    Raises
    ------
    UsageError
        There is none.
    """
    for folder in reversed(find_campaigns(root, suite)):
        if campaign_state(folder).status == "unfinished":
            return folder
    of_suite = f" of suite {suite}" if suite else ""
    raise UsageError(f"no unfinished campaign{of_suite} below {root}")
