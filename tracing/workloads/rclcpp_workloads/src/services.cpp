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
  const auto period = 1.0 / options.number("rate", 1e-3);
  const auto seconds = options.number("seconds");
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
  std::size_t sent = 0;
  std::vector<rclcpp::Client<Service>::SharedPtr> made;
  for (std::size_t i = 0; i < clients; ++i) {
    made.push_back(caller->create_client<Service>(kName));
  }
  {
    workloads::Spinning spinning(
      options, {server->get_node_base_interface(), caller->get_node_base_interface()});
    workloads::wait_for(
      options, [&made] {
        for (const auto & client : made) {
          if (!client->service_is_ready()) {
            return false;
          }
        }
        return true;
      });
    workloads::say_ready();
    sent = workloads::send_for(
      seconds, period, room, [&](std::size_t i) {
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
        }
      });
    workloads::sleep_for(0.5);
  }
  workloads::Log log(
    options, "calls.csv",
    "service,sequence,request_sent_realtime_ns,service_callback_realtime_ns,"
    "response_received_realtime_ns,client");
  for (std::size_t c = 0; c < clients; ++c) {
    for (std::size_t i = 0; i < sent; ++i) {
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
