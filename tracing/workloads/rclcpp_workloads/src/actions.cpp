// One client sends goals to a Fibonacci action server at a rate.
//
// Writes goals.csv: action, sequence, order, goal_sent_realtime_ns, goal_callback_realtime_ns,
// accepted_realtime_ns, goal_response_realtime_ns, first_feedback_realtime_ns, feedback_count,
// succeed_realtime_ns, result_received_realtime_ns.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rclcpp_action/rclcpp_action.hpp"
#include "test_msgs/action/fibonacci.hpp"
#include "workload.hpp"

namespace
{

using Fibonacci = test_msgs::action::Fibonacci;
using ServerGoal = rclcpp_action::ServerGoalHandle<Fibonacci>;
using ClientGoal = rclcpp_action::ClientGoalHandle<Fibonacci>;
constexpr const char * kName = "/fibonacci";

struct Goal
{
  std::int64_t sent = 0, callback = 0, accepted = 0, response = 0, feedback = 0, succeed = 0,
    result = 0;
  std::size_t feedbacks = 0;
};

class Server
{
public:
  Server(rclcpp::Node::SharedPtr node, std::vector<Goal> & goals, int order, double step)
  : goals_(goals), step_(step)
  {
    server_ = rclcpp_action::create_server<Fibonacci>(
      node, kName,
      [this, order](const rclcpp_action::GoalUUID &, Fibonacci::Goal::ConstSharedPtr goal) {
        // The goal carries order + its number, because the server is in the same process.
        goals_[number_of(*goal, order)].callback = workloads::now_ns();
        return rclcpp_action::GoalResponse::ACCEPT_AND_EXECUTE;
      },
      [](std::shared_ptr<ServerGoal>) {return rclcpp_action::CancelResponse::ACCEPT;},
      [this, order](std::shared_ptr<ServerGoal> handle) {
        goals_[number_of(*handle->get_goal(), order)].accepted = workloads::now_ns();
        // Ended threads that are not joined would keep their stacks.
        ++running_;
        std::thread([this, handle, order] {execute(handle, order); --running_;}).detach();
      });
  }

  ~Server()
  {
    while (running_ > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

private:
  static std::size_t number_of(const Fibonacci::Goal & goal, int order)
  {
    return static_cast<std::size_t>(goal.order - order);
  }

  void execute(std::shared_ptr<ServerGoal> handle, int order)
  {
    auto & log = goals_[number_of(*handle->get_goal(), order)];
    auto feedback = std::make_shared<Fibonacci::Feedback>();
    auto result = std::make_shared<Fibonacci::Result>();
    feedback->sequence = {0, 1};
    for (int i = 1; i < order && rclcpp::ok(); ++i) {
      feedback->sequence.push_back(
        feedback->sequence[feedback->sequence.size() - 1] +
        feedback->sequence[feedback->sequence.size() - 2]);
      handle->publish_feedback(feedback);
      workloads::sleep_for(step_);
    }
    result->sequence = feedback->sequence;
    if (rclcpp::ok()) {
      log.succeed = workloads::now_ns();
      handle->succeed(result);
    }
  }

  std::vector<Goal> & goals_;
  double step_;
  std::atomic<int> running_{0};
  rclcpp_action::Server<Fibonacci>::SharedPtr server_;
};

int work(const workloads::Options & options)
{
  const auto order = static_cast<int>(options.count("order", 2));
  const auto period = 1.0 / options.number("rate", 1e-3);
  const auto seconds = options.number("seconds");
  const auto room = static_cast<std::size_t>(seconds / period) + 2;
  std::vector<Goal> goals(room);
  std::size_t sent = 0;
  auto serving = std::make_shared<rclcpp::Node>("action_server");
  auto asking = std::make_shared<rclcpp::Node>("action_client");
  {
    Server server(serving, goals, order, options.number("step_us") / 1e6);
    auto client = rclcpp_action::create_client<Fibonacci>(asking, kName);
    workloads::Spinning spinning(
      options, {serving->get_node_base_interface(), asking->get_node_base_interface()});
    workloads::wait_for(options, [&client] {return client->action_server_is_ready();});
    workloads::say_ready();
    sent = workloads::send_for(
      seconds, period, room, [&](std::size_t i) {
        auto & log = goals[i];
        Fibonacci::Goal goal;
        goal.order = order + static_cast<int>(i);
        rclcpp_action::Client<Fibonacci>::SendGoalOptions callbacks;
        callbacks.goal_response_callback = [&log](ClientGoal::SharedPtr) {
            log.response = workloads::now_ns();
          };
        callbacks.feedback_callback =
          [&log](ClientGoal::SharedPtr, const std::shared_ptr<const Fibonacci::Feedback>) {
            if (log.feedbacks++ == 0) {
              log.feedback = workloads::now_ns();
            }
          };
        callbacks.result_callback = [&log](const ClientGoal::WrappedResult &) {
            log.result = workloads::now_ns();
          };
        log.sent = workloads::now_ns();
        client->async_send_goal(goal, callbacks);
      });
    workloads::sleep_for(1.0);
  }
  workloads::Log log(
    options, "goals.csv",
    "action,sequence,order,goal_sent_realtime_ns,goal_callback_realtime_ns,accepted_realtime_ns,"
    "goal_response_realtime_ns,first_feedback_realtime_ns,feedback_count,succeed_realtime_ns,"
    "result_received_realtime_ns");
  for (std::size_t i = 0; i < sent; ++i) {
    const auto & goal = goals[i];
    log.row(
      std::string(kName), i, static_cast<std::size_t>(order), goal.sent, goal.callback,
      goal.accepted, goal.response, goal.feedback, goal.feedbacks, goal.succeed, goal.result);
  }
  return 0;
}

}  // namespace

int main(int count, char ** values)
{
  return workloads::run(
    count, values, {{"rate", "10"}, {"order", "4"}, {"step_us", "1000"}}, work);
}
