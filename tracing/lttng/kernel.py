"""Find out whether LTTng can trace the kernel on this machine."""

from __future__ import annotations

import grp
import os
import platform
import shutil
import subprocess
from pathlib import Path

CONTROL = Path("/proc/lttng")
TRACING_GROUP = "tracing"


def why_no_kernel_tracing() -> str | None:
    """Return in one line why the kernel cannot be traced, or None if it can."""
    if os.geteuid() != 0 and not in_tracing_group():
        return "no kernel trace: it needs root, or membership in the group 'tracing'"
    if CONTROL.exists():
        return None
    program = shutil.which("modprobe") or shutil.which("modprobe", path="/usr/sbin:/sbin")
    release = platform.release()
    if program is None or not Path("/lib/modules", release).is_dir():
        return f"no kernel trace: there are no modules for the running kernel {release}"
    run = subprocess.run(
        [program, "--dry-run", "--quiet", "lttng-tracer"], capture_output=True, check=False
    )
    if run.returncode:
        return (
            f"no kernel trace: the modules of LTTng are not installed for the kernel {release} "
            "(apt-get install lttng-modules-dkms)"
        )
    return None


def in_tracing_group() -> bool:
    """Return whether this process may use root's session daemon."""
    try:
        return grp.getgrnam(TRACING_GROUP).gr_gid in {os.getegid(), *os.getgroups()}
    except KeyError:
        return False
