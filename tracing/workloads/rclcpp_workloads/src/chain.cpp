// Timers -> /a -> node B (reentrant) -> /b -> node C (waits for /b and /a2 of one sample) -> /c ->
// sink, with busy work. No pointer shows that C publishes for the later of its two inputs: the
// analysis of chains has to find this out, and samples.csv is the truth to compare it with.
//
// Writes samples.csv: sample, a_publish_realtime_ns, b_start_realtime_ns, b_publish_realtime_ns,
// b_end_realtime_ns, a2_publish_realtime_ns, c_b_start_realtime_ns, c_a2_start_realtime_ns,
// c_publish_realtime_ns, sink_start_realtime_ns.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "std_msgs/msg/u_int64.hpp"
#include "workload.hpp"

namespace
{

using Number = std_msgs::msg::UInt64;

struct Sample
{
  std::int64_t a_publish = 0, b_start = 0, b_publish = 0, b_end = 0, a2_publish = 0, c_b_start = 0,
    c_a2_start = 0, c_publish = 0, sink_start = 0;
};

int work(const workloads::Options & options)
{
  const auto period = std::chrono::duration_cast<std::chrono::nanoseconds>(
    std::chrono::duration<double>(options.number("period_us", 100) / 1e6));
  const auto busy = std::chrono::nanoseconds(
    static_cast<std::int64_t>(options.number("busy_us") * 1000));
  const auto room = static_cast<std::size_t>(
    options.number("seconds") * 1e9 / static_cast<double>(period.count()) * 1.2) + 16;
  std::vector<Sample> samples(room);
  const rclcpp::QoS qos(10);
  auto source = std::make_shared<rclcpp::Node>("source");
  auto b = std::make_shared<rclcpp::Node>("node_b");
  auto c = std::make_shared<rclcpp::Node>("node_c");
  auto sink = std::make_shared<rclcpp::Node>("sink");
  auto a_out = source->create_publisher<Number>("/a", qos);
  auto a2_out = source->create_publisher<Number>("/a2", qos);
  auto b_out = b->create_publisher<Number>("/b", qos);
  auto c_out = c->create_publisher<Number>("/c", qos);

  auto group = b->create_callback_group(rclcpp::CallbackGroupType::Reentrant);
  rclcpp::SubscriptionOptions in_group;
  in_group.callback_group = group;
  auto b_in = b->create_subscription<Number>(
    "/a", qos, [&](std::shared_ptr<const Number> message) {
      auto & sample = samples.at(message->data);
      sample.b_start = workloads::now_ns();
      workloads::busy(busy);
      sample.b_publish = workloads::now_ns();
      b_out->publish(*message);
      sample.b_end = workloads::now_ns();
    }, in_group);

  // The synchroniser: the first input waits for the other input of its sample.
  std::mutex mutex;
  std::vector<int> arrived(room, 0);
  const auto join = [&](const Number & message) {
      {
        const std::lock_guard<std::mutex> lock(mutex);
        if (++arrived.at(message.data) < 2) {
          return;
        }
      }
      workloads::busy(busy);
      samples.at(message.data).c_publish = workloads::now_ns();
      c_out->publish(message);
    };
  auto c_b_in = c->create_subscription<Number>(
    "/b", qos, [&](std::shared_ptr<const Number> message) {
      samples.at(message->data).c_b_start = workloads::now_ns();
      join(*message);
    });
  auto c_a2_in = c->create_subscription<Number>(
    "/a2", qos, [&](std::shared_ptr<const Number> message) {
      samples.at(message->data).c_a2_start = workloads::now_ns();
      join(*message);
    });
  auto sink_in = sink->create_subscription<Number>(
    "/c", qos, [&](std::shared_ptr<const Number> message) {
      samples.at(message->data).sink_start = workloads::now_ns();
    });

  std::size_t made = 0;
  rclcpp::TimerBase::SharedPtr timer;
  {
    workloads::Spinning spinning(
      options, {source->get_node_base_interface(), b->get_node_base_interface(),
        c->get_node_base_interface(), sink->get_node_base_interface()});
    workloads::wait_for(
      options, [&] {
        return a_out->get_subscription_count() && a2_out->get_subscription_count() &&
               b_out->get_subscription_count() && c_out->get_subscription_count();
      });
    workloads::say_ready();
    timer = source->create_wall_timer(
      period, [&] {
        if (made == room) {
          return;
        }
        auto & sample = samples[made];
        Number message;
        message.data = made++;
        sample.a_publish = workloads::now_ns();
        a_out->publish(message);
        sample.a2_publish = workloads::now_ns();
        a2_out->publish(message);
      });
    workloads::sleep_for(options.number("seconds"));
    timer->cancel();
    workloads::sleep_for(0.5);
  }
  workloads::Log log(
    options, "samples.csv",
    "sample,a_publish_realtime_ns,b_start_realtime_ns,b_publish_realtime_ns,b_end_realtime_ns,"
    "a2_publish_realtime_ns,c_b_start_realtime_ns,c_a2_start_realtime_ns,c_publish_realtime_ns,"
    "sink_start_realtime_ns");
  for (std::size_t i = 0; i < made; ++i) {
    const auto & x = samples[i];
    log.row(
      i, x.a_publish, x.b_start, x.b_publish, x.b_end, x.a2_publish, x.c_b_start, x.c_a2_start,
      x.c_publish, x.sink_start);
  }
  return 0;
}

}  // namespace

int main(int count, char ** values)
{
  return workloads::run(
    count, values, {{"period_us", "20000"}, {"busy_us", "1000"}}, work);
}
