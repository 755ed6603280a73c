"""The micro-ROS suite: firmware in an emulated board, and transports to an agent's end."""
