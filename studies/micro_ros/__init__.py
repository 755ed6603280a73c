"""Study micro-ROS: memory by kind, throughput by transport, latency by direction."""
