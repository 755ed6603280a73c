// Two sensors, and thirteen nodes that work on what these measure, all on one executor.
//
// /image (33 ms) -> tracker, recorder, lanes, features, odometry, detector (-> /objects -> control)
// /scan (47 ms)  -> safety, planner, clusters, matcher, ground, mapper (-> /map -> control)
//
// How long a callback works is drawn evenly within 30 % around its mean. Options: load (multiplies
// all means), extra_us (more for the detector), scan_us (period of /scan), seed, and those of all
// workloads.

#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "std_msgs/msg/u_int64.hpp"
#include "workload.hpp"

namespace
{

using Number = std_msgs::msg::UInt64;

class System
{
public:
  explicit System(const workloads::Options & options)
  : load_(options.number("load")), seed_(static_cast<unsigned>(options.count("seed")))
  {
    sensor("camera", "/image", 33000);
    sensor("lidar", "/scan", options.number("scan_us", 1));
    step("tracker", "/image", 1500, "");
    step("recorder", "/image", 800, "");
    step("detector", "/image", 2000, "/objects", options.number("extra_us"));
    step("lanes", "/image", 1200, "");
    step("features", "/image", 1000, "");
    step("odometry", "/image", 1300, "");
    step("safety", "/scan", 1000, "");
    step("planner", "/scan", 2000, "");
    step("mapper", "/scan", 2500, "/map");
    step("clusters", "/scan", 1400, "");
    step("matcher", "/scan", 1700, "");
    step("ground", "/scan", 1100, "");
    step("control", "/objects", 800, "");
    step("control", "/map", 600, "");
  }

  std::vector<rclcpp::node_interfaces::NodeBaseInterface::SharedPtr> bases() const
  {
    std::vector<rclcpp::node_interfaces::NodeBaseInterface::SharedPtr> found;
    for (const auto & node : nodes_) {
      found.push_back(node->get_node_base_interface());
    }
    return found;
  }

  bool matched() const
  {
    for (const auto & subscription : subscriptions_) {
      if (subscription->get_publisher_count() == 0) {
        return false;
      }
    }
    return true;
  }

  // Timers begin when all have found each other.
  void begin()
  {
    for (const auto & [node, publisher, period_us] : sensors_) {
      timers_.push_back(
        node->create_wall_timer(
          std::chrono::microseconds(static_cast<std::int64_t>(period_us)),
          [publisher = publisher] {publisher->publish(Number());}));
    }
  }

private:
  rclcpp::Node & node(const std::string & name)
  {
    if (nodes_.empty() || nodes_.back()->get_name() != name) {
      nodes_.push_back(std::make_shared<rclcpp::Node>(name));
    }
    return *nodes_.back();
  }

  void sensor(const std::string & name, const std::string & topic, double period_us)
  {
    auto publisher = node(name).create_publisher<Number>(topic, 10);
    sensors_.emplace_back(nodes_.back(), publisher, period_us);
  }

  void step(
    const std::string & name, const std::string & from, double mean_us, const std::string & to,
    double extra_us = 0)
  {
    mean_us = mean_us * load_ + extra_us;
    auto & of = node(name);
    auto publisher = to.empty() ? nullptr : of.create_publisher<Number>(to, 10);
    auto random = std::make_shared<std::mt19937>(seed_ * 100 + subscriptions_.size());
    subscriptions_.push_back(
      of.create_subscription<Number>(
        from, 10, [publisher, random, mean_us](std::shared_ptr<const Number> message) {
          std::uniform_real_distribution<double> within(0.7 * mean_us, 1.3 * mean_us);
          workloads::busy(std::chrono::nanoseconds(static_cast<std::int64_t>(within(*random) * 1000)));
          if (publisher) {
            publisher->publish(*message);
          }
        }));
  }

  double load_;
  unsigned seed_;
  std::vector<std::shared_ptr<rclcpp::Node>> nodes_;
  std::vector<std::tuple<
      std::shared_ptr<rclcpp::Node>, rclcpp::Publisher<Number>::SharedPtr, double>> sensors_;
  std::vector<rclcpp::Subscription<Number>::SharedPtr> subscriptions_;
  std::vector<rclcpp::TimerBase::SharedPtr> timers_;
};

int work(const workloads::Options & options)
{
  System system(options);
  workloads::Spinning spinning(options, system.bases());
  workloads::wait_for(options, [&system] {return system.matched();});
  workloads::say_ready();
  system.begin();
  workloads::sleep_for(options.number("seconds"));
  return 0;
}

}  // namespace

int main(int count, char ** values)
{
  return workloads::run(
    count, values, {{"load", "1"}, {"extra_us", "0"}, {"scan_us", "47000"}, {"seed", "1"}}, work);
}
