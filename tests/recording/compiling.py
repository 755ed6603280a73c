"""Compiles the small programs of these tests."""

import subprocess
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent / "programs"


def compiled(folder: Path, name: str, *libraries: str) -> Path:
    """``programs/<name>.c`` as a program in `folder`."""
    program = folder / name
    subprocess.run(
        ["cc", "-O1", f"-I{PROGRAMS}", str(PROGRAMS / f"{name}.c"), "-o", str(program), *libraries],
        check=True,
    )
    return program
