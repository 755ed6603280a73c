"""Callback and publish events for Python nodes: what rclcpp emits and rclpy does not.

Opt-in, and free when it is not used. Standard library only, so that it runs in the interpreter
that ROS 2 has (Python 3.10 and newer), where roslens itself is not installed::

    python3 <this folder> my_node.py ARGUMENTS...      # or: <this folder> -m package.module
    PYTHONPATH=<this folder>/start                     # for whatever is started: `roslens record`
    import rclpy_tracing; rclpy_tracing.enable()       # with this folder's parent on sys.path

The events are those of ros2_tracing, with rclpy's own handles, so a tool that reads C++ nodes
reads Python nodes too:

* ``rclcpp_subscription_init``, ``rclcpp_subscription_callback_added``,
  ``rclcpp_service_callback_added``, ``rclcpp_timer_callback_added``, ``rclcpp_timer_link_node``
  and ``rclcpp_callback_register`` when a callback is given to an entity;
* ``callback_start`` and ``callback_end`` around each call, also when it raises. A coroutine that
  waits in between gives one pair for each stretch that it runs, so that pairs on a thread always
  nest;
* ``rclcpp_publish`` when ``publish()`` begins. rclpy makes the C message only inside, so
  ``message`` is the address of the Python object: what belongs together is found by the order
  of events on the thread, not by this pointer;
* ``client_callback_start``, an event of roslens' own, when what waits for a response begins to be
  told of it. Only the libtracetools of roslens has it.

There is no ``rclcpp_take``: rclpy's events executor takes in C++, where nothing can be put
between the take and the call. ``rmw_take``, ``rcl_take`` and ``callback_start`` follow one
another on one thread in all three executors.
"""

from .instrument import enable, is_enabled

__all__ = ["enable", "is_enabled"]
