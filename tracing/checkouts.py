"""Check out and build commits of a git repository, each in its own scratch folder."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from roslens.recording import InterruptedRunError, RunFailedError, UsageError
from roslens.tracing.guard import guarded
from roslens.tracing.interruption import Interruption
from roslens.tracing.workload import RUN_MARK, Workload, describe_exit

_REMOVE = 'for tree; do git -C "$0" worktree remove --force "$tree"; done'


@contextmanager
def checkouts(
    refs: Sequence[str], build: str | None, interruption: Interruption, note: Callable[[str], None]
) -> Iterator[list[Path]]:
    """Check out and build commits of the working directory's repository; remove them at the end.

    They are also removed when this process is killed, after ending a build that still runs.

    Parameters
    ----------
    refs
        Branches, tags or commits.
    build
        A shell command that is run at the top of each checkout; None: nothing is built.
    interruption
        Ends a build. Must outlive this context, so that Ctrl-C does not disturb the removal.
    note
        Called with a line about each build, because a build may take long.

    Returns
    -------
    The folders of the checkouts, in the order of `refs`.

    Raises
    ------
    UsageError
        The working directory is in no git repository, or a commit does not exist.
    RunFailedError
        git cannot check out a commit, or a build fails; its output is kept in a file.
    InterruptedRunError
        An interruption was requested.
    """
    top = _git(["rev-parse", "--show-toplevel"], UsageError("--ref: this is no git repository"))
    commits = [
        _git(
            ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"],
            UsageError(f"--ref {ref}: no commit of {top}; 'git log --all --oneline' lists them"),
        )
        for ref in refs
    ]
    with tempfile.TemporaryDirectory(prefix="roslens-", ignore_cleanup_errors=True) as scratch:
        trees = [Path(scratch) / str(number) for number in range(len(refs))]
        mark = Path(scratch).name
        remove = ["sh", "-c", _REMOVE, top, *map(str, trees)]
        with guarded(f"{RUN_MARK}={mark}", Path(scratch), remove):
            try:
                for tree, ref, commit in zip(trees, refs, commits, strict=True):
                    add = ["-C", top, "worktree", "add", "--detach", str(tree), commit]
                    _git(add, RunFailedError(f"git cannot check out {ref} in {tree}"))
                    if build is not None:
                        note(f"building {ref} ({commit[:10]})")
                        _build(build, tree, ref, mark, interruption)
                    if interruption.wanted:
                        raise InterruptedRunError(f"interrupted while {ref} was made ready")
                yield trees
            finally:
                subprocess.run(remove, capture_output=True, check=False, start_new_session=True)


def _build(command: str, tree: Path, ref: str, mark: str, interruption: Interruption) -> None:
    """Build one checkout; end the processes that the build leaves, keep its output if it fails."""
    log = tree.parent.with_suffix(".log")
    with log.open("wb") as out:
        shell = ["sh", "-c", command]
        workload = Workload(shell, os.environ, mark, cwd=tree, stdout=out, stderr=out)
        try:
            ended, _ = workload.wait(None, interruption)
        finally:
            workload.end(interruption)
    if ended == "ended" and workload.exit_status:
        how = describe_exit(workload.exit_status)
        raise RunFailedError(f"--build {command!r} {how} at {ref}; what it printed is in {log}")
    log.unlink()


def _git(arguments: Sequence[str], refused: UsageError | RunFailedError) -> str:
    """Return what git prints; raise `refused`, with git's reason, if git fails."""
    try:
        run = subprocess.run(
            ["git", *arguments],
            capture_output=True, text=True, check=False, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise UsageError(f"git cannot be run: {error.strerror}") from error
    if run.returncode != 0:
        raise type(refused)(": ".join([str(refused), *run.stderr.strip().splitlines()[-1:]]))
    return run.stdout.strip()
