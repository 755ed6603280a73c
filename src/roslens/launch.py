"""Provide an action for launch files that records the processes launched after it.

    from roslens.launch import RoslensRecord

    LaunchDescription([RoslensRecord(output="recording"), Node(package="demo_nodes_cpp", ...)])

In XML ``<roslens_record output="recording"/>``, in YAML ``roslens_record: {output: recording}``.
The action needs neither LTTng nor root: programs record themselves, as with ``roslens env``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launch.action import Action
from launch.actions import LogInfo, RegisterEventHandler
from launch.event_handlers import OnShutdown
from launch.frontend import expose_action
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions

if TYPE_CHECKING:
    from launch import LaunchContext
    from launch.frontend import Entity, Parser


@expose_action("roslens_record")
class RoslensRecord(Action):  # type: ignore[misc]
    """Record the processes that are launched after this action.

    Parameters
    ----------
    output
        New folder of the recording; substitutions are performed.
    events
        User-space events to record; ``*`` stands for any text.
    flight
        Keep only this many last seconds of each thread, and the names of nodes and topics:
        ``roslens snapshot`` makes a recording of them.
    """

    def __init__(
        self,
        *,
        output: Any,
        events: Iterable[str] = ("ros2:*",),
        flight: float | None = None,
        **others: Any,
    ) -> None:
        super().__init__(**others)
        self._output = normalize_to_list_of_substitutions(output)
        self._events = tuple(events)
        self._flight = flight

    @classmethod
    def parse(cls, entity: Entity, parser: Parser) -> tuple[type[RoslensRecord], dict[str, Any]]:
        """Parse ``output``, ``events`` (separated by blanks) and ``flight`` from XML or YAML."""
        _, arguments = super().parse(entity, parser)
        arguments["output"] = parser.parse_substitution(entity.get_attr("output"))
        events = entity.get_attr("events", optional=True)
        if events:
            arguments["events"] = events.split()
        flight = entity.get_attr("flight", data_type=float, optional=True)
        if flight is not None:
            arguments["flight"] = flight
        return cls, arguments

    def execute(self, context: LaunchContext) -> list[Action]:
        """Set the environment of all processes launched from now on."""
        from roslens.record import LISTS, variables  # noqa: PLC0415  (a launch file is read without it)

        folder = Path(perform_substitutions(context, self._output)).absolute()
        for name, value in variables(folder, self._events, self._flight).items():
            before = context.environment.get(name, "") if name in LISTS else ""
            context.environment[name] = f"{value}{os.pathsep}{before}" if before else value
        message = LogInfo(msg=f"recorded by roslens: {folder}")
        return [RegisterEventHandler(OnShutdown(on_shutdown=[message]))]
