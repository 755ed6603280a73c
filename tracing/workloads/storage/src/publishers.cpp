// Publishers that share a rate of bytes, a topic each: /data_0, /data_1, ...
//
// Writes publishers.json: published (messages), publishing_ns, late_ns (how far behind at most).

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "std_msgs/msg/u_int8_multi_array.hpp"
#include "workload.hpp"

namespace
{

using Bytes = std_msgs::msg::UInt8MultiArray;
using Clock = std::chrono::steady_clock;

class Sender
{
public:
  Sender(const workloads::Options & options, rclcpp::Node & node, std::uint64_t number)
  : number_(number),
    period_(
      options.number("payload") * options.number("publishers") / options.number("rate", 1)),
    messages_(static_cast<std::uint64_t>(options.number("seconds") / period_.count())),
    publisher_(node.create_publisher<Bytes>(
        "/data_" + std::to_string(number), rclcpp::QoS(options.count("depth", 1))))
  {
    message_.data.resize(options.count("payload", sizeof(std::uint64_t)));
    for (std::size_t i = 0; i < message_.data.size(); ++i) {
      message_.data[i] = static_cast<std::uint8_t>(i);
    }
  }

  void run()
  {
    const auto begin = Clock::now();
    for (; published < messages_ && rclcpp::ok(); ++published) {
      const auto due = begin + std::chrono::duration_cast<std::chrono::nanoseconds>(
        period_ * static_cast<double>(published));
      std::this_thread::sleep_until(due);
      late = std::max<std::chrono::nanoseconds>(late, Clock::now() - due);
      const std::uint64_t tag = number_ << 32 | published;
      std::memcpy(message_.data.data(), &tag, sizeof(tag));
      publisher_->publish(message_);
    }
    took = Clock::now() - begin;
    // What lies in the publisher's history is not lost yet.
    publisher_->wait_for_all_acked(std::chrono::seconds(10));
  }

  std::uint64_t published = 0;
  std::chrono::nanoseconds late{0}, took{0};

private:
  std::uint64_t number_;
  std::chrono::duration<double> period_;
  std::uint64_t messages_;
  Bytes message_;
  rclcpp::Publisher<Bytes>::SharedPtr publisher_;
};

int work(const workloads::Options & options)
{
  auto node = std::make_shared<rclcpp::Node>("publishers");
  std::vector<std::unique_ptr<Sender>> senders;
  for (std::size_t i = 0; i < options.count("publishers", 1); ++i) {
    senders.push_back(std::make_unique<Sender>(options, *node, i));
  }
  // The recorder says when it has found all of them.
  const auto ready = options.text("ready");
  if (!workloads::wait_for(options, [&] {return std::ifstream(ready).good();})) {
    throw std::runtime_error("the recorder has not found the publishers");
  }
  std::vector<std::thread> threads;
  for (auto & sender : senders) {
    threads.emplace_back([&sender] {sender->run();});
  }
  for (auto & thread : threads) {
    thread.join();
  }
  std::uint64_t published = 0;
  std::chrono::nanoseconds late{0}, took{0};
  for (const auto & sender : senders) {
    published += sender->published;
    late = std::max(late, sender->late);
    took = std::max(took, sender->took);
  }
  std::ofstream(options.text("output") + "/publishers.json")
    << "{\"published\": " << published << ", \"publishing_ns\": " << took.count()
    << ", \"late_ns\": " << late.count() << "}\n";
  return 0;
}

}  // namespace

int main(int count, char ** values)
{
  return workloads::run(
    count, values,
    {{"publishers", "2"}, {"payload", "10240"}, {"rate", "1e6"}, {"depth", "10"}, {"ready", ""}},
    work);
}
