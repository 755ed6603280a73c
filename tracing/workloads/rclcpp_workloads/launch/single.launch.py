"""Any workload of one process, recorded by ``ros2 launch`` itself: ``workload:=chain``."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from tracetools_launch.action import Trace


def generate_launch_description():
    """Trace and the program."""
    names = {"executor": "SingleThreaded", "seconds": "5", "output": "."}
    options = [text for name in names for text in (f"--{name}", LaunchConfiguration(name))]
    return LaunchDescription(
        [
            DeclareLaunchArgument("workload", default_value="messages"),
            *(DeclareLaunchArgument(name, default_value=value) for name, value in names.items()),
            Trace(
                session_name=["rclcpp-workloads-", LaunchConfiguration("workload")],
                append_timestamp=True,
                events_ust=["ros2:*"],
                events_kernel=[],
                context_fields={"userspace": ["vpid", "vtid", "procname"]},
                subbuffer_size_ust=1 << 20,
            ),
            Node(
                package="rclcpp_workloads",
                executable=LaunchConfiguration("workload"),
                arguments=options,
                output="screen",
            ),
        ]
    )
