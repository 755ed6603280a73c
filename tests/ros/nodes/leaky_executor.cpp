// An executor that keeps 256 bytes of each execution, and a callback that keeps 64 of each message.
// Prints how often each did, from its first to its last.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <rclcpp/rclcpp.hpp>
#include <statistics_msgs/msg/metrics_message.hpp>

using Message = statistics_msgs::msg::MetricsMessage;

void * volatile kept;
long executions = 0, messages = 0;

class LeakyExecutor : public rclcpp::Executor
{
public:
  void spin() override
  {
    spinning = true;  // else nothing is executed
    while (rclcpp::ok()) {
      spin_next();
    }
    spinning = false;
  }

private:
  __attribute__((noinline)) void spin_next()
  {
    rclcpp::AnyExecutable executable;
    if (get_next_executable(executable, std::chrono::milliseconds(100))) {
      execute_any_executable(executable);
      // Through two lines of one function.
      kept = executions++ % 2 ? std::malloc(256) : std::malloc(256);
    }
  }
};

int main(int argc, char ** argv)
{
  rclcpp::init(argc, argv);
  auto node = std::make_shared<rclcpp::Node>("leaky");
  auto publisher = node->create_publisher<Message>("/sent", 10);
  auto subscription = node->create_subscription<Message>(
    "/sent", 10, [](const Message &) {kept = std::malloc(64); messages++;});
  long sent = 0;
  auto timer = node->create_wall_timer(
    std::chrono::milliseconds(3), [&]() {
      publisher->publish(Message());
      if (++sent == 1500) {
        rclcpp::shutdown();
      }
    });
  LeakyExecutor executor;
  executor.add_node(node);
  executor.spin();
  std::printf("%ld %ld\n", executions, messages);
  return 0;
}
