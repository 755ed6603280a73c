"""Provide ``ros2 roslens``: the verbs of roslens as a command of ROS 2's command line."""

from __future__ import annotations

import argparse
from typing import NoReturn

from ros2cli.command import CommandExtension

from roslens.cli import main


class RoslensCommand(CommandExtension):  # type: ignore[misc]
    """Record, look at and judge traces: latency with confidence intervals, loss first."""

    def add_arguments(self, parser: argparse.ArgumentParser, cli_name: str) -> None:
        """Accept a verb and leave all following arguments to it."""
        parser.usage = f"{cli_name} COMMAND [ARGUMENTS] [OPTIONS]"
        parser.epilog = "'roslens --help' lists the commands; info, record and report are the first"
        parser.add_argument("verb", metavar="COMMAND", help="such as info, record or report")
        parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="its own")

    def main(self, *, parser: argparse.ArgumentParser, args: argparse.Namespace) -> NoReturn:
        """Run the verb, and exit as ``roslens`` does."""
        del parser
        main([args.verb, *args.rest])
