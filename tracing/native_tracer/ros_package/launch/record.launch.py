"""Record all programs launched after this file into the folder `output`; include it first."""

import shlex
import subprocess
from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable
from launch.substitutions import LaunchConfiguration

ENV = Path(__file__).resolve().parents[3] / "lib" / "roslens_tracer" / "env"


def _variables(context):
    output, events = (LaunchConfiguration(name).perform(context) for name in ("output", "events"))
    text = subprocess.run([ENV, output, events], capture_output=True, check=True, text=True).stdout
    exports = shlex.split(text.replace("export ", ""))
    return [SetEnvironmentVariable(*export.split("=", 1)) for export in exports]


def generate_launch_description():
    """Set the environment variables of the programs."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("output", description="The folder of the recording."),
            DeclareLaunchArgument("events", default_value="ros2:*", description="Which events."),
            OpaqueFunction(function=_variables),
        ]
    )
