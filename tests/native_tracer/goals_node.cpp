// As goals_node.py, with rclcpp.

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rclcpp/rclcpp.hpp"
#include "rclcpp_action/rclcpp_action.hpp"
#include "test_msgs/action/fibonacci.hpp"

using Fibonacci = test_msgs::action::Fibonacci;
using ServerGoal = rclcpp_action::ServerGoalHandle<Fibonacci>;
using ClientGoal = rclcpp_action::ClientGoalHandle<Fibonacci>;
using namespace std::chrono_literals;

static std::string hexadecimal(const rclcpp_action::GoalUUID & id)
{
  std::string text;
  for (const auto byte : id) {
    char two[3];
    std::snprintf(two, sizeof(two), "%02x", byte);
    text += two;
  }
  return text;
}

static void execute(const std::shared_ptr<ServerGoal> goal)
{
  auto result = std::make_shared<Fibonacci::Result>();
  if (goal->get_goal()->order == 1) {
    while (!goal->is_canceling()) {
      std::this_thread::sleep_for(1ms);
    }
    goal->canceled(result);
    return;
  }
  std::this_thread::sleep_for(10ms);
  if (goal->get_goal()->order == 0) {
    goal->succeed(result);
  } else {
    goal->abort(result);
  }
}

int main(int argc, char ** argv)
{
  rclcpp::init(argc, argv);
  const std::size_t count = std::stoul(argv[1]);
  auto serving = std::make_shared<rclcpp::Node>("server");
  auto asking = std::make_shared<rclcpp::Node>("client");
  std::mutex mutex;
  std::vector<std::thread> threads;
  std::vector<std::string> rows;
  auto server = rclcpp_action::create_server<Fibonacci>(
    serving, "/ends",
    [](const rclcpp_action::GoalUUID &, std::shared_ptr<const Fibonacci::Goal> goal) {
      return goal->order == 3 ? rclcpp_action::GoalResponse::REJECT :
      rclcpp_action::GoalResponse::ACCEPT_AND_EXECUTE;
    },
    [](std::shared_ptr<ServerGoal>) {return rclcpp_action::CancelResponse::ACCEPT;},
    [&](std::shared_ptr<ServerGoal> goal) {
      const std::lock_guard<std::mutex> lock(mutex);
      threads.emplace_back(execute, goal);
    });
  auto client = rclcpp_action::create_client<Fibonacci>(asking, "/ends");
  rclcpp::executors::SingleThreadedExecutor executor;
  executor.add_node(serving);
  executor.add_node(asking);
  std::thread spinning([&] {executor.spin();});
  client->wait_for_action_server();
  std::ofstream(std::string(argv[2]) + ".ready");
  while (argc > 3 && !std::ifstream(argv[3])) {
    std::this_thread::sleep_for(10ms);
  }
  auto told = [&](const rclcpp_action::GoalUUID & id, const std::string & outcome) {
      const std::lock_guard<std::mutex> lock(mutex);
      rows.push_back(hexadecimal(id) + "," + outcome);
    };
  auto answered = [&] {
      const std::lock_guard<std::mutex> lock(mutex);
      return rows.size();
    };
  for (std::size_t number = 0; number < count; ++number) {
    // A queue of an action's services drops what is beyond ten.
    while (number >= answered() + 8) {
      std::this_thread::sleep_for(1ms);
    }
    Fibonacci::Goal goal;
    goal.order = static_cast<int>(number % 4);
    rclcpp_action::Client<Fibonacci>::SendGoalOptions options;
    options.goal_response_callback = [&, order = goal.order](ClientGoal::SharedPtr handle) {
        if (!handle) {
          // The client is not told the id of a goal that was rejected.
          const std::lock_guard<std::mutex> lock(mutex);
          rows.push_back(",rejected");
        } else if (order == 1) {
          client->async_cancel_goal(handle);
        }
      };
    options.result_callback = [&](const ClientGoal::WrappedResult & result) {
        told(
          result.goal_id,
          result.code == rclcpp_action::ResultCode::SUCCEEDED ? "succeeded" :
          result.code == rclcpp_action::ResultCode::CANCELED ? "canceled" : "aborted");
      };
    client->async_send_goal(goal, options);
    std::this_thread::sleep_for(5ms);
  }
  for (int waited = 0; waited < 600 && answered() < count; ++waited) {
    std::this_thread::sleep_for(50ms);
  }
  std::ofstream log(argv[2]);
  log << "goal_id,outcome\n";
  for (const auto & row : rows) {
    log << row << "\n";
  }
  log.close();
  while (argc > 3 && std::ifstream(argv[3])) {
    std::this_thread::sleep_for(10ms);
  }
  executor.cancel();
  spinning.join();
  for (auto & thread : threads) {
    thread.join();
  }
  rclcpp::shutdown();
  return 0;
}
