"""Run a recorder as a separate process, and examine independently what it left."""

import json
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

from tests.programs import roslens_command, wait_for

ROOT = Path(__file__).resolve().parents[2]


def events_of(trace: Path) -> list[str]:
    """Return a trace's events of programs, read by babeltrace2 (the independent reader)."""
    run = subprocess.run(["babeltrace2", str(trace)], text=True, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr
    return [line for line in run.stdout.splitlines() if " ros2:" in line]


class Recorder:
    """A recorder in a separate process, and all processes that it started.

    All of them carry a mark in their environment, which roslens does not know.
    """

    def __init__(self, folder: Path) -> None:
        self.output = folder / "run"
        # Sockets lie below this folder, so its path is short.
        self.scratch = Path(tempfile.mkdtemp(prefix="rl-", dir="/tmp"))
        self.scratch.chmod(0o755)
        self.mark = f"ROSLENS_TEST={uuid.uuid4().hex}"
        self.process: subprocess.Popen[str] | None = None

    def environment(self, **more: str) -> dict[str, str]:
        name, _, value = self.mark.partition("=")
        variables = {k: v for k, v in os.environ.items() if k != "XDG_RUNTIME_DIR"}
        paths = os.pathsep.join(filter(None, (str(ROOT / "src"), variables.get("PYTHONPATH", ""))))
        return {**variables, name: value, "TMPDIR": str(self.scratch), "PYTHONPATH": paths, **more}

    def start(self, *command: str, options=(), ros="none", **how):
        where = ("-o", self.output, "--ros", ros)
        return self.launch("record", *where, *options, "--", *command, **how)

    def launch(self, *words: object, prefix=(), environment=None):
        """Run a verb, after the words of `prefix`."""
        self.process = subprocess.Popen(
            [*prefix, *roslens_command(*words)],
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(**(environment or {})),
            start_new_session=True,
        )
        return self

    def wait(self, seconds: float = 120) -> tuple[int, str]:
        """Wait for the recorder, and return its exit status and standard error."""
        _, error = self.process.communicate(timeout=seconds)
        return self.process.returncode, error

    def run(self, *command: str, **how) -> tuple[int, str]:
        return self.start(*command, **how).wait()

    @property
    def manifest(self) -> dict:
        return json.loads((self.output / "manifest.json").read_text())

    def descendants(self) -> list[tuple[int, str]]:
        """Return id and name of each running process that stems from the recorder."""
        running = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                if self.mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    running.append((int(folder.name), (folder / "comm").read_text().strip()))
            except OSError:
                continue
        return running

    def pid_of(self, name: str) -> int:
        return next(pid for pid, comm in self.descendants() if comm == name)

    def wait_for(self, condition) -> None:
        wait_for(condition, process=self.process)

    def wait_for_workload(self, name: str) -> None:
        self.wait_for(lambda: any(comm == name for _, comm in self.descendants()))

    def assert_nothing_left(self) -> None:
        deadline = time.monotonic() + 60
        # Check twice: the environment of a process that is just executing a program reads as empty.
        while (self.left() or self.left()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.left() == []

    def left(self) -> list[object]:
        """Return processes, and files in the folder for temporary files, that are left."""
        files = [p.name for p in self.scratch.iterdir() if p.suffix != ".lock"]
        return [*self.descendants(), *files]

    def close(self) -> None:
        for pid, _ in self.descendants():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        if self.process is not None:
            self.process.wait()
            for stream in (self.process.stdout, self.process.stderr):
                stream.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
