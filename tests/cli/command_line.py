"""The type of the fixture `roslens`."""

import subprocess
from collections.abc import Callable

Roslens = Callable[..., subprocess.CompletedProcess[str]]
