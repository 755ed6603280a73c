"""The message, service and action types of the demo."""

from std_msgs.msg import UInt8MultiArray
from std_srvs.srv import Trigger

try:
    from test_msgs.action import Fibonacci
except ImportError:  # a ROS install without the test packages
    from example_interfaces.action import Fibonacci

__all__ = ["Fibonacci", "Trigger", "UInt8MultiArray"]
