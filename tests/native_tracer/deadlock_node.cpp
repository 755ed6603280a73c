// Nodes of rclcpp that call a service within a timer's callback after 2 s and wait: NAME/SERVES/ASKS
// ... Each node has a thread and an executor of its own; with THREADS=2 an executor of two threads.
// The program ends after 6 s, or if STOP names a file, when that is there.

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "rclcpp/rclcpp.hpp"
#include "test_msgs/srv/empty.hpp"

using namespace std::chrono_literals;
using Empty = test_msgs::srv::Empty;

namespace
{

// No answer can come, as whoever would take it waits.
void spin(const std::string & told, std::shared_future<void> over)
{
  std::istringstream stream(told);
  std::string name, serves, asks;
  std::getline(stream, name, '/');
  std::getline(stream, serves, '/');
  std::getline(stream, asks, '/');
  auto node = std::make_shared<rclcpp::Node>(name);
  auto service = node->create_service<Empty>(
    serves, [](const std::shared_ptr<Empty::Request>, std::shared_ptr<Empty::Response>) {});
  auto client = node->create_client<Empty>(asks);
  const auto begun = std::chrono::steady_clock::now();
  bool asked = false;
  auto timer = node->create_wall_timer(
    50ms, [client, begun, over, &asked] {
      if (!asked && std::chrono::steady_clock::now() - begun > 2s) {
        asked = true;
        client->async_send_request(std::make_shared<Empty::Request>());
        over.wait();
        rclcpp::shutdown();
      }
    });
  std::unique_ptr<rclcpp::Executor> executor =
    std::make_unique<rclcpp::executors::SingleThreadedExecutor>();
  if (std::getenv("THREADS") != nullptr) {
    executor =
      std::make_unique<rclcpp::executors::MultiThreadedExecutor>(rclcpp::ExecutorOptions(), 2);
  }
  executor->add_node(node);
  executor->spin();
}

}  // namespace

int main(int count, char ** values)
{
  rclcpp::init(count, values);
  std::promise<void> over;
  const auto waits = over.get_future().share();
  const auto begun = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int i = 1; i < count; ++i) {
    threads.emplace_back(spin, values[i], waits);
  }
  const char * stop = std::getenv("STOP");
  while (stop ? !std::filesystem::exists(stop) : std::chrono::steady_clock::now() - begun < 6s) {
    std::this_thread::sleep_for(50ms);
  }
  over.set_value();
  for (auto & thread : threads) {
    thread.join();
  }
  return 0;
}
