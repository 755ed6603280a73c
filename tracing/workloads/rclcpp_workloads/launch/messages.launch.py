"""Launch publishers and subscriptions in one process each, recorded by ``ros2 launch`` itself."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from tracetools_launch.action import Trace


def generate_launch_description():
    """Describe the trace, the subscriber and the publisher."""
    names = {
        "executor": "SingleThreaded",
        "payload": "100",
        "rate": "100",
        "seconds": "5",
        "output": ".",
    }
    options = [text for name in names for text in (f"--{name}", LaunchConfiguration(name))]
    sides = [
        Node(
            package="rclcpp_workloads",
            executable="messages",
            arguments=[*options, "--role", role],
            output="screen",
        )
        for role in ("subscriber", "publisher")
    ]
    return LaunchDescription(
        [
            *(DeclareLaunchArgument(name, default_value=value) for name, value in names.items()),
            Trace(
                session_name="rclcpp-workloads-messages",
                append_timestamp=True,
                events_ust=["ros2:*"],
                events_kernel=[],
                context_fields={"userspace": ["vpid", "vtid", "procname"]},
                subbuffer_size_ust=1 << 20,
            ),
            *sides,
        ]
    )
