"""Generate recordings of any shape, together with the truth about them, as loads for tests."""

from __future__ import annotations

from pathlib import Path

from roslens.generate.ctf import write_trace
from roslens.generate.shape import Shape, generated
from roslens.recording import UsageError
from roslens.recording.scratch import locked_folder

TRUTH = "truth.parquet"
__all__ = ["TRUTH", "Shape", "generate", "generated", "parse_shape"]


def parse_shape(texts: tuple[str, ...]) -> Shape:
    """Parse a shape from texts such as ``layers=3``.

    Raises
    ------
    UsageError
        A text is not of that form, or its value is invalid.
    """
    kinds = {name: type(value) for name, value in vars(Shape()).items()}
    given: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        name = name.replace("-", "_")
        if name not in kinds or name in given:
            raise UsageError(f"'{text}': give each of these once: {', '.join(kinds)}")
        try:
            given[name] = kinds[name](value)
        except ValueError as error:
            raise UsageError(f"'{text}': no number") from error
    return Shape(**given)  # type: ignore[arg-type]


def generate(shape: Shape, folder: Path, events: int) -> int:
    """Write a trace and its truth into a folder; return the number of events.

    Raises
    ------
    UsageError
        A trace already exists there, or the number of events is out of range.
    """
    content = generated(shape, events)
    with locked_folder(folder):
        trace = folder / "trace"
        try:
            write_trace(trace, content.events, f"{shape} {events}")
        except FileExistsError as error:
            raise UsageError(f"{trace}: is there already; give another folder") from error
        content.truth.write_parquet(folder / TRUTH)
    return sum(frame.height for frame in content.events.values())
