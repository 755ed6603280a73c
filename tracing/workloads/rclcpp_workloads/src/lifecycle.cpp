// A lifecycle node that publishes while it is active, led through its states.
//
// Writes transitions.csv (node, transition, resulting_state, start_realtime_ns, end_realtime_ns)
// and messages.csv (topic, sequence, publish_realtime_ns, callback_realtime_ns).

#include <memory>
#include <string>
#include <vector>

#include "lifecycle_msgs/msg/transition.hpp"
#include "rclcpp_lifecycle/lifecycle_node.hpp"
#include "std_msgs/msg/u_int64.hpp"
#include "workload.hpp"

namespace
{

using Number = std_msgs::msg::UInt64;
using lifecycle_msgs::msg::Transition;
constexpr const char * kTopic = "/cell_data";

int work(const workloads::Options & options)
{
  const auto seconds = options.number("seconds");
  const auto period = std::chrono::duration_cast<std::chrono::nanoseconds>(
    std::chrono::duration<double>(1.0 / options.number("rate", 1e-3)));
  const auto cycles = options.count("cycles", 1);
  const auto room = static_cast<std::size_t>(
    seconds * 1e9 / static_cast<double>(period.count()) * 1.2) + 16;
  std::vector<std::int64_t> sent(room, 0), received(room, 0);
  std::size_t count = 0;
  auto cell = std::make_shared<rclcpp_lifecycle::LifecycleNode>("cell");
  auto reader = std::make_shared<rclcpp::Node>("reader");
  auto publisher = cell->create_publisher<Number>(kTopic, rclcpp::QoS(10));
  auto subscription = reader->create_subscription<Number>(
    kTopic, rclcpp::QoS(10), [&received](std::shared_ptr<const Number> message) {
      if (message->data < received.size()) {
        received[message->data] = workloads::now_ns();
      }
    });
  auto timer = cell->create_wall_timer(
    period, [&] {
      if (publisher->is_activated() && count < room) {
        Number message;
        message.data = count;
        sent[count++] = workloads::now_ns();
        publisher->publish(message);
      }
    });
  workloads::Log transitions(
    options, "transitions.csv",
    "node,transition,resulting_state,start_realtime_ns,end_realtime_ns");
  const auto change = [&](std::uint8_t id, const std::string & name) {
      const auto start = workloads::now_ns();
      const auto state = cell->trigger_transition(id).label();
      transitions.row(std::string("/cell"), name, state, start, workloads::now_ns());
    };
  {
    workloads::Spinning spinning(
      options, {cell->get_node_base_interface(), reader->get_node_base_interface()});
    workloads::wait_for(options, [&] {return publisher->get_subscription_count() > 0;});
    workloads::say_ready();
    for (std::size_t cycle = 0; cycle < cycles && rclcpp::ok(); ++cycle) {
      change(Transition::TRANSITION_CONFIGURE, "configure");
      change(Transition::TRANSITION_ACTIVATE, "activate");
      workloads::sleep_for(seconds / static_cast<double>(cycles));
      change(Transition::TRANSITION_DEACTIVATE, "deactivate");
      change(Transition::TRANSITION_CLEANUP, "cleanup");
    }
    change(Transition::TRANSITION_UNCONFIGURED_SHUTDOWN, "shutdown");
    workloads::sleep_for(0.3);
  }
  workloads::Log log(
    options, "messages.csv", "topic,sequence,publish_realtime_ns,callback_realtime_ns");
  for (std::size_t i = 0; i < count; ++i) {
    log.row(std::string(kTopic), i, sent[i], received[i]);
  }
  return 0;
}

}  // namespace

int main(int count, char ** values)
{
  return workloads::run(count, values, {{"rate", "50"}, {"cycles", "2"}}, work);
}
