// A timer and a subscription that each burn a part of their time in alpha(), the rest in beta().
// Ends after so many executions of the timer; prints the CPU time of all four [s].
#include <cstdio>
#include <cstdlib>
#include <rclcpp/rclcpp.hpp>
#include <statistics_msgs/msg/metrics_message.hpp>

extern "C" {
double alpha(double);
double beta(double);
}
using Message = statistics_msgs::msg::MetricsMessage;

int main(int argc, char ** argv)
{
  rclcpp::init(argc, argv);
  auto node = std::make_shared<rclcpp::Node>("burner");
  int left = std::atoi(argv[1]);
  double spent[4] = {};
  auto publisher = node->create_publisher<Message>("/burnt", 10);
  auto subscription = node->create_subscription<Message>("/burnt", 10, [&](const Message &) {
    spent[2] += alpha(0.0016);
    spent[3] += beta(0.0064);
  });
  auto timer = node->create_wall_timer(std::chrono::milliseconds(20), [&] {
    spent[0] += alpha(0.007);
    spent[1] += beta(0.003);
    publisher->publish(Message());
    if (--left == 0) {
      rclcpp::shutdown();
    }
  });
  rclcpp::spin(node);
  std::printf("%.9f %.9f %.9f %.9f\n", spent[0], spent[1], spent[2], spent[3]);
}
