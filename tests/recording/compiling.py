"""Compile the small programs of these tests."""

import subprocess
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent / "programs"


def compiled(folder: Path, name: str, *libraries: str) -> Path:
    """Compile ``programs/<name>.c`` into `folder`, and return the program."""
    program = folder / name
    subprocess.run(
        ["cc", "-O1", f"-I{PROGRAMS}", str(PROGRAMS / f"{name}.c"), "-o", str(program), *libraries],
        check=True,
    )
    return program
