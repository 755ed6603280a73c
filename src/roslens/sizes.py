"""Parse the sizes that options take."""

from __future__ import annotations

from roslens.recording import UsageError


def parse_size(option: str, text: str | None) -> int | None:
    """Parse ``500M`` or ``50G`` as bytes; None stays None.

    Raises
    ------
    UsageError
        The text is not a size.
    """
    if text is None:
        return None
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415  (most give no size)

    from roslens.tracing.lttng.settings import Size  # noqa: PLC0415

    try:
        return TypeAdapter(Size).validate_python(text)
    except ValidationError as error:
        raise UsageError(f"{option}: {text!r} is not a size such as 50G") from error
