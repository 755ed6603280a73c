// A timer and a subscription that each burn a part of their time in alpha(), the rest in beta().
// Ends after so many executions of the timer; prints the CPU time of all four, and how long both
// calls of alpha() lasted [s].
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <rclcpp/rclcpp.hpp>
#include <statistics_msgs/msg/metrics_message.hpp>

extern "C" {
double alpha(double);
double beta(double);
}

// Up to a tenth more or less: samples at a fixed rate beat with work that is always as long.
static double varied(double seconds)
{
  static double turn = 0.0;
  turn = std::fmod(turn + 0.618034, 1.0);
  return seconds * (0.9 + 0.2 * turn);
}

static double timed_alpha(double seconds, double & lasted)
{
  auto begin = std::chrono::steady_clock::now();
  double spent = alpha(seconds);
  lasted += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return spent;
}

using Message = statistics_msgs::msg::MetricsMessage;

int main(int argc, char ** argv)
{
  rclcpp::init(argc, argv);
  auto node = std::make_shared<rclcpp::Node>("burner");
  int left = std::atoi(argv[1]);
  double spent[4] = {}, lasted[2] = {};
  auto publisher = node->create_publisher<Message>("/burnt", 10);
  auto subscription = node->create_subscription<Message>("/burnt", 10, [&](const Message &) {
    spent[2] += timed_alpha(varied(0.0016), lasted[1]);
    spent[3] += beta(varied(0.0064));
  });
  auto timer = node->create_wall_timer(std::chrono::milliseconds(20), [&] {
    spent[0] += timed_alpha(varied(0.007), lasted[0]);
    spent[1] += beta(varied(0.003));
    publisher->publish(Message());
    if (--left == 0) {
      rclcpp::shutdown();
    }
  });
  rclcpp::spin(node);
  for (double seconds : {spent[0], spent[1], spent[2], spent[3], lasted[0], lasted[1]}) {
    std::printf("%.9f ", seconds);
  }
}
