// Shared by all workloads: options, clock, logs, readiness, executors.
#ifndef RCLCPP_WORKLOADS__WORKLOAD_HPP_
#define RCLCPP_WORKLOADS__WORKLOAD_HPP_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rclcpp/rclcpp.hpp"

#if __has_include("rclcpp/executors/static_single_threaded_executor.hpp")
#include "rclcpp/executors/static_single_threaded_executor.hpp"
#define WORKLOADS_STATIC 1
#endif
#if __has_include("rclcpp/experimental/executors/events_executor/events_executor.hpp")
#include "rclcpp/experimental/executors/events_executor/events_executor.hpp"
#define WORKLOADS_EVENTS 1
#endif
#if __has_include("rclcpp/executors/events_cbg_executor/events_cbg_executor.hpp")
#include "rclcpp/executors/events_cbg_executor/events_cbg_executor.hpp"
#define WORKLOADS_EVENTS_CBG 1
#elif __has_include("cm_executors/events_cbg_executor.hpp")
#include "cm_executors/events_cbg_executor.hpp"
#define WORKLOADS_EVENTS_CBG 1
#endif

namespace workloads
{

// The time of all logs: ns since the epoch.
inline std::int64_t now_ns()
{
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
    std::chrono::system_clock::now().time_since_epoch()).count();
}

// Uses the CPU for some time, like real work.
inline void busy(std::chrono::nanoseconds duration)
{
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Options as "--name value"; missing options have defaults.
class Options
{
public:
  Options(int count, char ** values, std::map<std::string, std::string> defaults)
  : values_(std::move(defaults))
  {
    const auto arguments = rclcpp::remove_ros_arguments(count, values);
    for (std::size_t i = 1; i < arguments.size(); i += 2) {
      const auto name = arguments[i].substr(0, 2) == "--" ? arguments[i].substr(2) : "";
      const auto known = values_.find(name);
      if (known == values_.end() || i + 1 == arguments.size()) {
        throw std::invalid_argument("unknown option or no value: " + arguments[i]);
      }
      known->second = arguments[i + 1];
    }
  }

  std::string text(const std::string & name) const {return values_.at(name);}

  bool is(const std::string & name, const std::string & value) const
  {
    return text(name) == value;
  }

  // Returns the option's value, which must be one of several words.
  std::string word(const std::string & name, const std::vector<std::string> & allowed) const
  {
    for (const auto & one : allowed) {
      if (is(name, one)) {
        return one;
      }
    }
    throw std::invalid_argument("--" + name + ": not " + text(name));
  }

  double number(const std::string & name, double least = 0.0) const
  {
    std::size_t used = 0;
    double value = 0;
    try {
      value = std::stod(text(name), &used);
    } catch (const std::exception &) {
    }
    if (used == 0 || used != text(name).size() || value < least) {
      throw std::invalid_argument("--" + name + ": no number of at least " +
              std::to_string(least) + ": " + text(name));
    }
    return value;
  }

  std::size_t count(const std::string & name, std::size_t least = 0) const
  {
    return static_cast<std::size_t>(number(name, static_cast<double>(least)));
  }

private:
  std::map<std::string, std::string> values_;
};

// Adds the options that every workload has.
inline std::map<std::string, std::string> with_common(std::map<std::string, std::string> own)
{
  const char * folder = std::getenv("ROSLENS_NATIVE_DIR");
  own.insert({
    {"executor", "SingleThreaded"}, {"threads", "2"}, {"seconds", "5"},
    {"output", folder ? folder : "."}, {"discovery", "15"}});
  return own;
}

// A log with rows of text; an empty field means that the event did not happen.
class Log
{
public:
  Log(const Options & options, const std::string & name, const std::string & header)
  : stream_(options.text("output") + "/" + name)
  {
    if (!stream_) {
      throw std::runtime_error(options.text("output") + "/" + name + ": cannot be written");
    }
    stream_ << header << "\n";
  }

  template<typename First, typename ... Rest>
  void row(const First & first, const Rest & ... rest)
  {
    field(first);
    ((stream_ << ",", field(rest)), ...);
    stream_ << "\n";
  }

private:
  // 0 is a time that was never set.
  void field(std::int64_t value) {if (value != 0) {stream_ << value;}}
  void field(const std::string & value) {stream_ << value;}
  void field(std::size_t value) {stream_ << value;}

  std::ofstream stream_;
};

// Tells the recorder that all sides have found each other.
inline void say_ready()
{
  if (const char * path = std::getenv("ROSLENS_READY_FILE")) {
    std::ofstream(path).put('\n');
  }
}

struct Interrupted {};

// Waits until `found` holds; that it takes longer than --discovery seconds is an error.
template<typename Found>
void wait_for(const Options & options, Found found)
{
  const auto end = std::chrono::steady_clock::now() +
    std::chrono::duration<double>(options.number("discovery"));
  while (!found()) {
    if (!rclcpp::ok()) {
      throw Interrupted();
    }
    if (std::chrono::steady_clock::now() > end) {
      throw std::runtime_error("the two sides have not found each other");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Calls send(0), send(1), ..., one per period, for some seconds; returns the number of calls.
template<typename Send>
std::size_t send_for(double seconds, double period, std::size_t most, Send send)
{
  const auto begin = std::chrono::steady_clock::now();
  std::size_t sent = 0;
  for (; sent < most && rclcpp::ok(); ++sent) {
    const std::chrono::duration<double> after(period * static_cast<double>(sent));
    if (after.count() >= seconds) {
      break;
    }
    std::this_thread::sleep_until(
      begin + std::chrono::duration_cast<std::chrono::nanoseconds>(after));
    send(sent);
  }
  return sent;
}

// Sleeps, but ends when the context does.
inline void sleep_for(double seconds)
{
  rclcpp::sleep_for(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
}

// Returns the executor with a name; names that this rclcpp does not have are refused.
inline std::shared_ptr<rclcpp::Executor> make_executor(const Options & options)
{
  const auto name = options.text("executor");
  const auto threads = options.count("threads", 1);
  if (name == "SingleThreaded") {
    return std::make_shared<rclcpp::executors::SingleThreadedExecutor>();
  }
  if (name == "MultiThreaded") {
    return std::make_shared<rclcpp::executors::MultiThreadedExecutor>(
      rclcpp::ExecutorOptions(), threads);
  }
#ifdef WORKLOADS_STATIC
  if (name == "StaticSingleThreaded") {
    // Deprecated in versions in which it is the same as SingleThreaded.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return std::make_shared<rclcpp::executors::StaticSingleThreadedExecutor>();
#pragma GCC diagnostic pop
  }
#endif
#ifdef WORKLOADS_EVENTS
  if (name == "Events") {
    return std::make_shared<rclcpp::experimental::executors::EventsExecutor>();
  }
#endif
#ifdef WORKLOADS_EVENTS_CBG
  if (name == "EventsCBG" || name == "EventsCBGMultiThreaded") {
    return std::make_shared<rclcpp::executors::EventsCBGExecutor>(
      rclcpp::ExecutorOptions(), name == "EventsCBG" ? 1 : threads);
  }
#endif
  throw std::invalid_argument("--executor: this rclcpp has none of the name " + name);
}

// Spins nodes in a separate thread for as long as the object lives.
class Spinning
{
public:
  using Nodes = std::vector<rclcpp::node_interfaces::NodeBaseInterface::SharedPtr>;

  Spinning(const Options & options, const Nodes & nodes)
  : Spinning(make_executor(options), nodes) {}

  // Calls `first` in the thread before it spins.
  Spinning(
    std::shared_ptr<rclcpp::Executor> executor, const Nodes & nodes,
    std::function<void()> first = [] {})
  : executor_(executor), nodes_(nodes)
  {
    for (const auto & node : nodes_) {
      executor_->add_node(node);
    }
    thread_ = std::thread(
      [this, first] {
        first();
        executor_->spin();
        ended_ = true;
      });
  }

  ~Spinning()
  {
    // A cancel before spin() has begun is lost, and is_spinning() is not virtual: EventsCBGExecutor
    // has its own.
    while (!ended_) {
      executor_->cancel();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    thread_.join();
    for (const auto & node : nodes_) {
      executor_->remove_node(node);
    }
  }

  Spinning(const Spinning &) = delete;
  Spinning & operator=(const Spinning &) = delete;

private:
  std::shared_ptr<rclcpp::Executor> executor_;
  Nodes nodes_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

// Runs a workload. Exit status: 0 done, 1 failed, 2 wrong options, 128 + 2 interrupted.
template<typename Work>
int run(
  int count, char ** values, std::map<std::string, std::string> defaults, Work work)
{
  try {
    rclcpp::init(count, values);
    const Options options(count, values, with_common(std::move(defaults)));
    const int status = work(options);
    const bool interrupted = !rclcpp::ok();
    rclcpp::shutdown();
    return interrupted ? 130 : status;
  } catch (const Interrupted &) {
    return 130;
  } catch (const std::invalid_argument & error) {
    std::cerr << values[0] << ": " << error.what() << std::endl;
    return 2;
  } catch (const std::exception & error) {
    std::cerr << values[0] << ": " << error.what() << std::endl;
    return 1;
  }
}

}  // namespace workloads

#endif  // RCLCPP_WORKLOADS__WORKLOAD_HPP_
