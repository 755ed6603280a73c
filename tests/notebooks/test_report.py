"""Test ``run_report``: from recordings to HTML and metrics.json, in a real kernel."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import psutil
import pytest
from rich.console import Console

from roslens.analysis.metrics import read_metrics
from roslens.printed import table_lines
from roslens.recording import RunFailedError, UsageError
from roslens.report import ReportResult, find_notebook, parse_parameter, run_report
from roslens.summary import summary_table

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples"


@pytest.fixture(scope="module")
def sample(samples: Path) -> Path:
    return samples / "communication"


@pytest.fixture(scope="module")
def result(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReportResult]:
    """Make a report from another directory than the repository's."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(elsewhere)
        yield run_report("latency", [sample], console=Console(quiet=True))


@pytest.mark.recording
def test_a_report_of_a_sample(result: ReportResult) -> None:
    assert result.folder.parent == Path("data", "reports", "latency")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ", result.folder.name)
    assert result.metrics is not None
    metrics = read_metrics(result.metrics.resolve())
    assert len(metrics.recordings) == 6
    # Further topics name themselves in the cell.
    main = [e for e in metrics.estimates if "topic" not in e.cell]
    by_cell = {(e.metric, e.cell["intra_process"]): e for e in main}
    assert by_cell["loss", True].value == 0
    # Ground truth: what the program itself logged; 743 of 1,778 messages without a callback.
    loss = by_cell["loss", False].value
    assert loss is not None
    assert loss == pytest.approx(logged_loss(), abs=1e-12)


def logged_loss() -> float:
    """Return the mean over runs of the fraction of messages not logged as received."""
    fractions = []
    for path in sorted(SAMPLES.glob("communication/*_ipc-off/native/messages.csv")):
        rows = path.read_text().splitlines()[1:]
        fractions.append(sum(row.endswith(",") for row in rows) / len(rows))
    return sum(fractions) / len(fractions)


@pytest.mark.recording
def test_the_page_of_a_sample(result: ReportResult, sample: Path) -> None:
    page = result.html.read_text()
    # This is the only script, as test_every_notebook.py counts them.
    assert f"<script>{(ROOT / 'src/roslens/report_page.js').read_text()}</script>" in page
    assert page.index("Loss first") < page.index("Runs") < page.index("Distribution")
    # Code stays in the notebook, and so does the recordings' location.
    assert "LatencyParameters" not in page
    assert str(sample) not in page
    assert page.count("<figure") >= 5


@pytest.mark.recording
def test_the_summary_names_loss_and_refusals(result: ReportResult) -> None:
    assert result.metrics is not None
    table = summary_table(result.metrics.resolve(), "latency")
    text = "\n".join(line for line, _ in table_lines(table, 100))
    assert "the tracer lost nothing" in text
    assert "no interval: " in text
    assert "P99 [ms]" in text


@pytest.mark.recording
def test_papermill_by_itself_from_the_root(sample: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.ipynb"
    subprocess.run(
        [
            *(sys.executable, "-m", "papermill", "--no-progress-bar", "--start-timeout", "300"),
            *("notebooks/latency.ipynb", str(output), "-p", "recordings", str(sample)),
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    executed = nbformat.read(output, as_version=4)
    outputs = [c.outputs for c in executed.cells if c.cell_type == "code"]
    assert sum(bool(o) for o in outputs) >= 12
    assert not any(o.output_type in ("error", "stream") for cell in outputs for o in cell)


@pytest.mark.recording
def test_run_all_with_defaults_from_the_notebooks_folder(tmp_path: Path) -> None:
    # As in JupyterLab, the kernel's working directory is the notebook's.
    work = tmp_path / "work"
    shutil.copytree(SAMPLES / "two_process", work / "data" / "samples" / "two_process")
    shutil.copytree(ROOT / "notebooks", work / "notebooks")
    output = tmp_path / "out.ipynb"
    subprocess.run(
        [
            *(sys.executable, "-m", "papermill", "--no-progress-bar", "--start-timeout", "300"),
            *("latency.ipynb", str(output)),
        ],
        cwd=work / "notebooks",
        check=True,
        capture_output=True,
    )
    text = output.read_text()
    assert "two_process" in text or "rmw_fastrtps_cpp" in text


@pytest.mark.parametrize(
    ("notebook", "parameters", "message"),
    [
        (
            "latency",
            {"levle": 0.9},
            "no parameter 'levle'; it has: recordings, factors",
        ),
        ("nonsense", {}, "no notebook 'nonsense'; there are: "),
        ("nonsense", {}, "micro_ros, storage, tool"),
        ("latency", {"recordings": "nowhere"}, "nowhere: no such file or directory"),
        ("latency", {"topics": "/dat"}, "no topic is named '/dat'; did you mean /data? There are"),
    ],
)
def test_wrong_use(
    tmp_path: Path, notebook: str, parameters: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        run_report(notebook, [], tmp_path / "out", parameters, Console(quiet=True))
    assert not (tmp_path / "out" / "latency.html").exists()


def write_notebook(path: Path, *sources: str) -> Path:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    cells[0].metadata["tags"] = ["parameters"]
    spec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec})
    nbformat.write(notebook, path)
    return path


def test_a_failed_notebook_is_kept_and_named_in_one_line(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "own.ipynb", "x: int = 1  # a number", "print(1)\n1 / 0")
    with pytest.raises(RunFailedError) as caught:
        run_report(str(notebook), [], tmp_path / "out", {"x": 2}, Console(quiet=True))
    assert caught.value.exit_code == 4
    text = str(caught.value)
    assert "\n" not in text
    assert "own.ipynb failed in cell" in text
    assert "ZeroDivisionError" in text
    assert "ZeroDivisionError" in (tmp_path / "out" / "own.ipynb").read_text()


@pytest.mark.parametrize(
    "hanging",
    [
        "import time\ntime.sleep(1000)",
        "import signal as s\ns.pthread_sigmask(s.SIG_BLOCK, [s.SIGINT, s.SIGTERM])\ns.pause()",
    ],
    ids=["sleeps", "ignores signals"],
)
def test_a_cell_that_hangs_ends_in_one_line(tmp_path: Path, hanging: str) -> None:
    before = set(psutil.Process().children(recursive=True))
    notebook = write_notebook(tmp_path / "own.ipynb", "x: int = 1  # a number", hanging)
    with pytest.raises(RunFailedError) as caught:
        run_report(str(notebook), [], tmp_path / "out", {}, Console(quiet=True), cell_timeout_s=3)
    text = str(caught.value)
    assert "\n" not in text
    assert "own.ipynb: a cell took longer than 3 s" in text
    assert "--timeout" in text
    assert (tmp_path / "out" / "own.ipynb").is_file()
    # The kernel has ended.
    assert not [p for p in psutil.Process().children(recursive=True)
                if p not in before and p.status() != psutil.STATUS_ZOMBIE]  # fmt: skip


def test_a_kernel_that_ctrl_c_meets_while_it_starts_ends_with_its_report(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "own.ipynb", "x: int = 1  # a number", "print(1)")
    code = f"""
import psutil
from pathlib import Path
from roslens.execution import execute
try:
    execute(Path({str(notebook)!r}), Path({str(tmp_path / "out.ipynb")!r}), {{}})
except KeyboardInterrupt:
    left = [child.status() for child in psutil.Process().children()]
    print([status for status in left if status != psutil.STATUS_ZOMBIE])
"""
    command = ["env", "--default-signal=INT", sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        kernel: list[psutil.Process] = []
        while not kernel:
            assert program.poll() is None
            kernel = psutil.Process(program.pid).children()
        program.send_signal(signal.SIGINT)
        assert program.communicate(timeout=60)[0] == "[]\n"


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_a_limit_that_is_none(tmp_path: Path, seconds: float) -> None:
    with pytest.raises(UsageError, match="--timeout"):
        run_report("latency", [], tmp_path, {}, Console(quiet=True), cell_timeout_s=seconds)


def test_a_kernel_that_dies_ends_in_one_line(tmp_path: Path) -> None:
    source = "import os\nos.kill(os.getpid(), 9)"
    notebook = write_notebook(tmp_path / "own.ipynb", "x: int = 1  # a number", source)
    with pytest.raises(RunFailedError, match=r"own\.ipynb: Kernel died") as caught:
        run_report(str(notebook), [], tmp_path / "out", {}, Console(quiet=True))
    assert "\n" not in str(caught.value)


def test_a_notebook_of_ones_own_runs_in_this_interpreter(tmp_path: Path) -> None:
    source = "import sys\nprint(sys.executable, x)"
    notebook = write_notebook(tmp_path / "own.ipynb", "x: int = 1  # a number", source)
    result = run_report(str(notebook), [], tmp_path / "out", {"x": 5}, Console(quiet=True))
    assert f"{sys.executable} 5" in result.html.read_text()
    assert result.metrics is None


def test_files_beside_the_metrics_are_named_those_of_this_report_only(tmp_path: Path) -> None:
    notebook = write_notebook(
        tmp_path / "own.ipynb",
        'output_dir: str = ""  # folder',
        "from pathlib import Path\n_ = (Path(output_dir) / 'cells.csv').write_text('a')",
    )
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.csv").write_text("")
    result = run_report(str(notebook), [], tmp_path / "out", {}, Console(quiet=True))
    assert [path.name for path in result.files] == ["cells.csv"]


def test_find_notebook_by_name_and_by_path() -> None:
    by_name = find_notebook("latency")
    assert by_name.name == "latency.ipynb"
    assert find_notebook(str(by_name)) == by_name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("level=0.9", ("level", 0.9)),
        ("topics=[/a, /b]", ("topics", ["/a", "/b"])),
        ("recordings=a=b", ("recordings", "a=b")),
        ("include_failed=true", ("include_failed", True)),
    ],
)
def test_parameters_of_the_command_line(text: str, expected: tuple[str, object]) -> None:
    assert parse_parameter(text) == expected


@pytest.mark.parametrize("text", ["level", "=1", "x=[a"])
def test_malformed_parameters(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"-p {text}")):
        parse_parameter(text)
