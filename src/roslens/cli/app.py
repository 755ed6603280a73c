"""The application, its groups of commands, and options that several of them have."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import App, Group, Parameter, validators

V = TypeVar("V", bound=Callable[..., int | None])

RECORD = Group("Record", sort_key=1)
LOOK = Group("Look at a recording", sort_key=2)
REPORT = Group("Report", sort_key=3)
JUDGE = Group("Judge", sort_key=4)
SHARE = Group("Share", sort_key=5)


def _default_text(default: object) -> str | None:
    """A default as one would type it; None where there is nothing to show."""
    if isinstance(default, tuple):
        return ", ".join(default) or None
    return None if default is None or isinstance(default, bool) else str(default)


app = App(
    name="roslens",
    help="Record ROS 2 with LTTng, turn the traces into tables, and the tables into answers with "
    "confidence intervals.",
    help_format="plaintext",  # what renders Markdown takes a third of the start
    help_epilogue="'roslens COMMAND --help' explains a command.\n\nExit codes: 0 done; 1 a verdict "
    "failed; 2 wrong use or unreadable input; 3 not enough evidence; 4 ran, but failed or is "
    "incomplete; 70 an error of roslens itself; 130 interrupted.",
    usage="Usage: roslens PATH... [--html FILE] [--json]\n"
    "       roslens COMMAND [ARGUMENTS] [OPTIONS]",
    version=lambda: version("roslens"),
    version_flags=["--version", "-V"],
    group_commands=Group("Help", sort_key=8),
    group_parameters=Group("Options", sort_key=7),
    # The name of a folder may begin with a bracket.
    default_parameter=Parameter(
        negative=(), show_default=_default_text, json_list=False, json_dict=False
    ),
)
app["--help"].help = "Show this help."
app["--version"].help = "Show the version."
_order = itertools.count()


dev = App(
    name="dev",
    help="Define tables, compile ROS 2, generate recordings: tools for developers of roslens.",
    group=Group("Develop", sort_key=6),
    group_commands=Group("Commands"),
    usage="Usage: roslens dev COMMAND [ARGUMENTS] [OPTIONS]",
    help_epilogue="",
)
app.command(dev)


def verb(
    group: Group | None,
    *usages: str,
    example: str,
    parent: App = app,
    show: bool = True,
) -> Callable[[V], V]:
    """Make a function a command; `usages` are the ways to call it, `example` one such call."""
    return parent.command(
        group=group,
        show=show,
        sort_key=next(_order),
        usage="Usage: " + "\n       ".join(f"roslens {usage}" for usage in usages),
        help_format="markdown",
        help_epilogue=f"Example: `roslens {example}`",
    )


Paths = Annotated[
    Path, Parameter(name="PATH", help="Recordings, or folders that contain recordings.")
]
OutputOption = Annotated[Path | None, Parameter(name=["--output", "-o"])]
JsonSwitch = Annotated[bool, Parameter(name="--json")]
WorkersOption = Annotated[
    int | None,
    Parameter(
        help="Number of worker processes; 0 means as many as cores and memory allow. Default: 1, "
        "or 0 from 16 recordings on."
    ),
]
SchedulerOption = Annotated[
    str | None,
    Parameter(help="Address of a running dask scheduler whose workers are used instead."),
]
ThreadsOption = Annotated[
    int,
    Parameter(help="Number of threads; 0 means one per CPU.", validator=validators.Number(gte=0)),
]
FactorsFile = Annotated[
    Path | None,
    Parameter(
        name="--factors",
        help="A CSV file with the factors of recordings without a manifest, by path or name.",
    ),
]
JsonFile = Annotated[
    Path | None, Parameter(name="--json", help="Also write all figures to this file, as JSON.")
]
PlotFile = Annotated[
    Path | None, Parameter(help="Also draw the changes to this file (.png, .svg or .pdf).")
]
MarkdownSwitch = Annotated[
    bool,
    Parameter(name="--markdown", help="Print Markdown for a pull request: only what changed."),
]
Threshold = Annotated[str, Parameter(help="Changes smaller than this do not matter.")]
