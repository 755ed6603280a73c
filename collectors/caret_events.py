"""Name the events that CARET's preloaded library writes."""

PROVIDER, CLOCK = "ros2_caret:", "caret_init"
REPEATED = (
    "rcl_init",
    "rcl_node_init",
    "rcl_publisher_init",
    "rcl_subscription_init",
    "rclcpp_subscription_init",
    "rclcpp_subscription_callback_added",
    "rcl_timer_init",
    "rclcpp_timer_callback_added",
    "rclcpp_timer_link_node",
    "rclcpp_callback_register",
    "rcl_service_init",
    "rclcpp_service_callback_added",
    "rcl_client_init",
    "rcl_lifecycle_state_machine_init",
    "rclcpp_ipb_to_subscription",
    "rclcpp_buffer_to_ipb",
    "rclcpp_construct_ring_buffer",
)
"""Events of ROS 2 that CARET replaces by its own with the same names and fields."""
