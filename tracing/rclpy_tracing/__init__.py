"""Emit callback and publish events for Python nodes, which rclcpp emits and rclpy does not.

This is opt-in, and free when not used. Only the standard library is used, so that it runs in the
interpreter of ROS 2 (Python 3.10 and newer), where roslens itself is not installed::

    python3 <this folder> my_node.py ARGUMENTS...      # or: <this folder> -m package.module
    PYTHONPATH=<this folder>/start                     # for all started programs: `roslens record`
    import rclpy_tracing; rclpy_tracing.enable()       # with this folder's parent on sys.path

The events are those of ros2_tracing, with rclpy's own handles, so that a tool that reads C++ nodes
reads Python nodes too:

* ``rclcpp_subscription_init``, ``rclcpp_subscription_callback_added``,
  ``rclcpp_service_callback_added``, ``rclcpp_timer_callback_added``, ``rclcpp_timer_link_node``
  and ``rclcpp_callback_register`` when a callback is given to an entity;
* ``callback_start`` and ``callback_end`` around each call, even if it raises. A coroutine that
  awaits in between has one pair of events for each stretch that it runs, so that pairs on a
  thread always nest;
* ``rclcpp_publish`` when ``publish()`` begins. rclpy makes the C message only inside, so
  ``message`` is the address of the Python object: events are matched by their order on the
  thread, not by this pointer;
* ``client_callback_start``, an event of roslens's own, when a waiter for a response begins to be
  notified of it. Only roslens's libtracetools has it.

There is no ``rclcpp_take``: rclpy's events executor takes in C++, where no code can run between
the take and the call. ``rmw_take``, ``rcl_take`` and ``callback_start`` follow each other on one
thread in all three executors.
"""

from .instrument import enable, is_enabled

__all__ = ["enable", "is_enabled"]
