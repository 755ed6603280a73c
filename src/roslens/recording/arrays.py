"""Load numpy on first use: a plain installation may lack it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roslens.recording.errors import UsageError, lacks

__all__ = ["ArrayLike", "Bools", "Bytes", "Floats", "Ints", "NDArray", "np"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Bools = NDArray[np.bool_]
    Bytes = NDArray[np.uint8]
    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
else:
    ArrayLike = Bools = Bytes = Floats = Ints = NDArray = list

    class _Numpy:
        def __getattr__(self, name: str) -> object:
            import numpy

            attribute = getattr(numpy, name)
            setattr(self, name, attribute)
            return attribute

    np = _Numpy()


def why_no_numpy() -> str | None:
    """Return how to install numpy if it is missing; None if it is installed."""
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError:
        return lacks("numpy", "numpy")
    return None


def need_numpy() -> None:
    """Check for numpy before polars returns an array: without numpy, polars would panic.

    Raises
    ------
    UsageError
        numpy is not installed.
    """
    if (reason := why_no_numpy()) is not None:
        raise UsageError(reason)
