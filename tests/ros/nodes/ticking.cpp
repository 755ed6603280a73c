// Publishes three messages to itself, and prints what it hears.
#include <chrono>
#include <cstdio>

#include "rclcpp/rclcpp.hpp"
#include "std_msgs/msg/string.hpp"

int main(int argc, char ** argv)
{
  rclcpp::init(argc, argv);
  auto node = std::make_shared<rclcpp::Node>("ticking");
  auto publisher = node->create_publisher<std_msgs::msg::String>("ticks", 10);
  int sent = 0, heard = 0;
  auto subscription = node->create_subscription<std_msgs::msg::String>(
    "ticks", 10, [&heard](const std_msgs::msg::String & message) {
      std::printf("%s\n", message.data.c_str());
      if (++heard == 3) {
        rclcpp::shutdown();
      }
    });
  auto timer = node->create_wall_timer(std::chrono::milliseconds(50), [&sent, publisher] {
    std_msgs::msg::String message;
    message.data = std::to_string(++sent);
    publisher->publish(message);
  });
  rclcpp::spin(node);
  return 0;
}
