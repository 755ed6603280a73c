// N clients call one service at a rate.
//
// Writes calls.csv: service, sequence, request_sent_realtime_ns, service_callback_realtime_ns,
// response_received_realtime_ns, client.

#include <memory>
#include <string>
#include <vector>

#include "test_msgs/srv/basic_types.hpp"
#include "workload.hpp"

namespace
{

using Service = test_msgs::srv::BasicTypes;
constexpr const char * kName = "/call";

struct Call
{
  std::int64_t sent = 0, served = 0, answered = 0;
};

int work(const workloads::Options & options)
{
  const auto clients = options.count("clients", 1);
  const auto busy = std::chrono::nanoseconds(
    static_cast<std::int64_t>(options.number("busy_us") * 1000));
  const auto period = std::chrono::duration<double>(1.0 / options.number("rate", 1e-3));
  const auto seconds = std::chrono::duration<double>(options.number("seconds"));
  auto server = std::make_shared<rclcpp::Node>("server");
  auto caller = std::make_shared<rclcpp::Node>("clients");
  auto service = server->create_service<Service>(
    kName, [busy](
      const std::shared_ptr<Service::Request> request,
      std::shared_ptr<Service::Response> response) {
      response->int64_value = workloads::now_ns();
      response->uint64_value = request->uint64_value;
      workloads::busy(busy);
    });
  const auto room = static_cast<std::size_t>(seconds / period) + 2;
  std::vector<std::vector<Call>> calls(clients, std::vector<Call>(room));
  std::vector<std::size_t> counts(clients, 0);
  std::vector<rclcpp::Client<Service>::SharedPtr> made;
  for (std::size_t i = 0; i < clients; ++i) {
    made.push_back(caller->create_client<Service>(kName));
  }
  {
    workloads::Spinning spinning(
      options, {server->get_node_base_interface(), caller->get_node_base_interface()});
    const bool found = workloads::wait_for(
      options, [&made] {
        for (const auto & client : made) {
          if (!client->service_is_ready()) {
            return false;
          }
        }
        return true;
      });
    if (!found) {
      throw std::runtime_error("the clients have not found the service");
    }
    workloads::say_ready();
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < room && rclcpp::ok(); ++i) {
      const auto due = begin + std::chrono::duration_cast<std::chrono::nanoseconds>(
        period * static_cast<double>(i));
      if (due - begin >= seconds) {
        break;
      }
      std::this_thread::sleep_until(due);
      for (std::size_t c = 0; c < clients; ++c) {
        auto request = std::make_shared<Service::Request>();
        request->uint64_value = i;
        auto & call = calls[c][i];
        call.sent = workloads::now_ns();
        made[c]->async_send_request(
          request, [&call](rclcpp::Client<Service>::SharedFuture future) {
            call.answered = workloads::now_ns();
            call.served = future.get()->int64_value;
          });
        counts[c] = i + 1;
      }
    }
    workloads::sleep_for(0.5);
  }
  workloads::Log log(
    options, "calls.csv",
    "service,sequence,request_sent_realtime_ns,service_callback_realtime_ns,"
    "response_received_realtime_ns,client");
  for (std::size_t c = 0; c < clients; ++c) {
    for (std::size_t i = 0; i < counts[c]; ++i) {
      const auto & call = calls[c][i];
      log.row(std::string(kName), i, call.sent, call.served, call.answered, c);
    }
  }
  return 0;
}

}  // namespace

int main(int count, char ** values)
{
  return workloads::run(
    count, values, {{"clients", "1"}, {"rate", "100"}, {"busy_us", "0"}}, work);
}
