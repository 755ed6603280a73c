"""What each notebook finds in each sample, kept as files.

    python tests/notebooks/golden.py [NOTEBOOK [SAMPLE]]

writes them anew. Read the difference before you commit it: the files are what was found when they
were written, by this implementation. Each metric has its origin in them: those that independent.py
computes a second time, from the raw events and without this implementation, and those of which the
file only shows that they changed. See golden/README.md.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from roslens.execution import known_parameters
from roslens.recording import RoslensError
from roslens.report import ReportResult, find_notebook, run_report

sys.path.insert(0, str(Path(__file__).parent))
import independent

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "golden"
SAMPLES = ROOT / "data" / "samples"
TOLERANCE = 1e-6
ORIGIN = "written by tests/notebooks/golden.py; per metric see origins, and README.md"
INDEPENDENT = "independent: computed again from the raw events by independent.py"
REGRESSION = "regression only: what this implementation found"


def pairs() -> list[tuple[str, str]]:
    """Every notebook that takes recordings with every sample.

    Calibration is about simulations, and the same for every sample but for one table: once. Of the
    sample of chains only what it is for is looked at.
    """
    samples = sorted(p.name for p in SAMPLES.iterdir() if p.suffix != ".md")
    notebooks = sorted(p.stem for p in (ROOT / "notebooks").glob("*.ipynb"))
    taking = [n for n in notebooks if "recordings" in known_parameters(find_notebook(n))]
    return [(notebook, sample) for notebook in taking for sample in samples
            if (notebook != "calibration" or sample == "demo")
            and (sample != "chain.tar.zst" or notebook == "chains")]  # fmt: skip


def place(notebook: str, sample: str) -> Path:
    """The file of a pair."""
    return FOLDER / f"{notebook}-{sample.partition('.')[0]}.json"


def run(notebook: str, sample: Path, output: Path) -> ReportResult | str:
    """The report of a sample, or why it is refused, without the sample's place."""
    try:
        return run_report(notebook, [sample], output, console=Console(quiet=True))
    except RoslensError as error:
        return f"exit {error.exit_code}: {error}".replace(str(sample), sample.name)


def found_by(result: ReportResult | str) -> dict[str, Any]:
    """What is kept of it."""
    if isinstance(result, str):
        return {"refused": result}
    if result.metrics is None:
        return {"metrics": {}, "estimates": []}
    estimates = json.loads(result.metrics.read_text(encoding="utf-8"))["estimates"]
    # Stored simulations are data/calibration/results.csv, which tests/analysis holds to its bars.
    estimates = [e for e in estimates if "section" not in e["cell"]]
    names = ("unit", "better", "definition")
    return {
        "metrics": {e["metric"]: {name: e[name] for name in names} for e in estimates},
        "estimates": [
            {
                "metric": e["metric"],
                "cell": e["cell"],
                "verdict": e["verdict"],
                "refused": e["refused"],
                **{name: _short(e[name]) for name in ("value", "low", "high")},
            }
            for e in estimates
        ],
    }


def origins(found: dict[str, Any], sample: str) -> dict[str, str]:
    """Where the expected value of each metric comes from."""
    again = {e["metric"] for e in found.get("estimates", []) if independent.computed(e, sample)}
    return {m: INDEPENDENT if m in again else REGRESSION for m in found.get("metrics", {})}


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.9g}")


def main() -> None:
    """Write them."""
    wanted = sys.argv[1:]
    FOLDER.mkdir(exist_ok=True)
    for pair in pairs():
        if wanted != list(pair[: len(wanted)]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = found_by(run(pair[0], SAMPLES / pair[1], Path(folder)))
        about = {
            "notebook": pair[0],
            "sample": pair[1],
            "origin": ORIGIN,
            "tolerance": TOLERANCE,
            "origins": origins(found, pair[1]),
        }
        place(*pair).write_text(json.dumps(about | found, indent=1) + "\n", encoding="utf-8")
        print(*pair, found.get("refused", f"{len(found.get('estimates', []))} estimates"))


if __name__ == "__main__":
    main()
