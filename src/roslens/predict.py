"""Run ``roslens predict``: latency, loss and CPU under another executor or load."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from roslens.analysis.reports.table import Sentence
from roslens.analysis.timing.schema import ExecutorKind, TimingModel, read_timing_model
from roslens.analysis.what_if.changes import Changes
from roslens.analysis.what_if.prediction import predicted
from roslens.analysis.what_if.tables import prediction_parts
from roslens.explore.what_if import timed
from roslens.output import write_text
from roslens.paths import resolve
from roslens.printed import show_table, show_text
from roslens.recording import EXIT_NOT_ENOUGH_EVIDENCE, EXIT_OK, UsageError
from roslens.recordings import open_recordings


def run_predict(
    paths: Sequence[Path],
    changes: Changes,
    *,
    recorded: ExecutorKind | None,
    warm_up_s: float | None,
    seed: int,
    factors: Path | None,
    model_file: Path | None,
    json_file: Path | None,
) -> int:
    """Simulate and print the predictions; return the exit code of the verb.

    Raises
    ------
    UsageError
        There is no recording and no timing model, or the changes do not fit.
    """
    cells = _models(paths, warm_up_s, factors, recorded)
    if model_file is not None:
        models = [model for timings in cells.values() for model in timings]
        if len(models) != 1:
            raise UsageError(f"--model: a model is of one run, and these are {len(models)}")
        models[0].write(model_file)
    predictions = {cell: predicted(models, changes, seed) for cell, models in cells.items()}
    if json_file is not None:
        text = json.dumps(
            [{"cell": c, **prediction.to_json()} for c, prediction in predictions.items()], indent=1
        )
        write_text(json_file, text + "\n")
    for part in prediction_parts(predictions):
        show_text(part.text) if isinstance(part, Sentence) else show_table(part)
    refused = any(prediction.refused is not None for prediction in predictions.values())
    return EXIT_NOT_ENOUGH_EVIDENCE if refused else EXIT_OK


def _models(
    paths: Sequence[Path],
    warm_up_s: float | None,
    factors: Path | None,
    recorded: ExecutorKind | None,
) -> dict[str, list[TimingModel]]:
    """Return the models of runs by cell; a model from a file is a cell of its own."""
    given = [resolve(path) for path in paths]
    files = [path for path in given if path.suffix == ".json"]
    stems = [path.stem for path in files]
    cells = {
        path.stem if stems.count(path.stem) == 1 else str(path): [
            read_timing_model(path).executed_by(recorded)
        ]
        for path in files
    }
    places = [path for path in given if path not in files]
    if places:
        cells |= timed(open_recordings(places, factors=factors), warm_up_s, recorded)
    return cells
