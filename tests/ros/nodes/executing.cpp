// A timer and a subscription, each 200 times a second, on the executor that is named, for 4 s. Each
// execution burns 1 ms and notes its thread, the time and the CPU time of the thread; prints them.
//
// executing SingleThreaded|MultiThreaded|Events|EventsCBG|EventsCBGMultiThreaded
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cm_executors/events_cbg_executor.hpp"
#include "rclcpp/experimental/executors/events_executor/events_executor.hpp"
#include "rclcpp/rclcpp.hpp"
#include "std_msgs/msg/empty.hpp"

static std::int64_t now(clockid_t clock)
{
  timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000ll + time.tv_nsec;
}

struct Note
{
  long thread;
  std::int64_t time, cpu;
};
static std::mutex mutex;
static std::vector<Note> notes;

static void burn()
{
  const auto end = now(CLOCK_THREAD_CPUTIME_ID) + 1000000;
  // The kernel records an event for each reading, so there are not many.
  while (now(CLOCK_THREAD_CPUTIME_ID) < end) {
    const auto next = now(CLOCK_MONOTONIC) + 20000;
    while (now(CLOCK_MONOTONIC) < next) {}
  }
  const Note note{syscall(SYS_gettid), now(CLOCK_REALTIME), now(CLOCK_THREAD_CPUTIME_ID)};
  const std::lock_guard<std::mutex> lock(mutex);
  notes.push_back(note);
}

static std::unique_ptr<rclcpp::Executor> made(const std::string & name)
{
  const rclcpp::ExecutorOptions options;
  if (name == "SingleThreaded") {
    return std::make_unique<rclcpp::executors::SingleThreadedExecutor>();
  }
  if (name == "MultiThreaded") {
    return std::make_unique<rclcpp::executors::MultiThreadedExecutor>(options, 2);
  }
  if (name == "Events") {
    return std::make_unique<rclcpp::experimental::executors::EventsExecutor>();
  }
  return std::make_unique<rclcpp::executors::EventsCBGExecutor>(
    options, name == "EventsCBG" ? 1 : 2);
}

int main(int count, char ** values)
{
  rclcpp::init(count, values);
  auto node = std::make_shared<rclcpp::Node>("executing");
  auto group = node->create_callback_group(rclcpp::CallbackGroupType::MutuallyExclusive);
  rclcpp::SubscriptionOptions in_group;
  in_group.callback_group = group;
  auto publisher = node->create_publisher<std_msgs::msg::Empty>("tick", 10);
  auto subscription = node->create_subscription<std_msgs::msg::Empty>(
    "tick", 10, [](const std_msgs::msg::Empty &) {burn();}, in_group);
  auto timer = node->create_wall_timer(
    std::chrono::milliseconds(5), [&] {publisher->publish(std_msgs::msg::Empty()); burn();});
  auto executor = made(values[1]);
  executor->add_node(node);
  std::atomic<bool> ended{false};
  std::thread stop(
    [&] {
      std::this_thread::sleep_for(std::chrono::seconds(4));
      // One alone may be lost on EventsCBG.
      while (!ended) {
        executor->cancel();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  executor->spin();
  ended = true;
  stop.join();
  for (const auto & note : notes) {
    std::cout << note.thread << ' ' << note.time << ' ' << note.cpu << '\n';
  }
  std::cout.flush();
  // EventsCBG waits for ever for itself if the context ends before it.
  executor.reset();
  rclcpp::shutdown();
}
