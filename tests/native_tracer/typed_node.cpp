// As typed_node.py, with rclcpp.

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rclcpp/rclcpp.hpp"
#include "rclcpp/serialization.hpp"
#include "rclcpp/serialized_message.hpp"
#include "std_msgs/msg/empty.hpp"
#include "std_msgs/msg/header.hpp"
#include "std_msgs/msg/string.hpp"
#include "std_msgs/msg/u_int8_multi_array.hpp"
#include "test_msgs/msg/nested.hpp"
#include "test_msgs/msg/unbounded_sequences.hpp"

static std::vector<rclcpp::PublisherBase::SharedPtr> publishers;
static std::vector<rclcpp::SubscriptionBase::SharedPtr> subscriptions;

template<typename MessageT>
static std::string stamp(MessageT &)
{
  return "";
}

static std::string stamp(std_msgs::msg::Header & message)
{
  message.stamp = rclcpp::Clock(RCL_SYSTEM_TIME).now();
  return std::to_string(rclcpp::Time(message.stamp).nanoseconds());
}

template<typename MessageT>
static void publish(rclcpp::Node & node, std::ostream & log, std::vector<MessageT> some)
{
  const std::string topic = "/typed_" + std::to_string(publishers.size());
  std::size_t heard = 0;
  subscriptions.push_back(
    node.create_subscription<MessageT>(
      topic, 100, [&heard](std::shared_ptr<const rclcpp::SerializedMessage> message) {
        heard = message->size();
      }));
  auto publisher = node.create_publisher<MessageT>(topic, 100);
  publishers.push_back(publisher);
  while (!publisher->get_subscription_count()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (auto & message : some) {
    const auto stamped = stamp(message);
    publisher->publish(message);
    for (heard = 0; !heard;) {
      rclcpp::spin_some(node.get_node_base_interface());
    }
    rclcpp::SerializedMessage serialized;
    rclcpp::Serialization<MessageT>().serialize_message(&message, &serialized);
    log << topic << "," << rosidl_generator_traits::name<MessageT>() << "," << heard << "," <<
      serialized.size() << "," << stamped << "\n";
  }
}

int main(int argc, char ** argv)
{
  rclcpp::init(argc, argv);
  rclcpp::Node node("typed");
  std::ofstream log(argv[1]);
  log << "topic,type,heard,serialized,stamp\n";
  publish<std_msgs::msg::Empty>(node, log, {{}});
  std::vector<std_msgs::msg::String> strings(20);
  std::vector<std_msgs::msg::Header> headers(9);
  std::vector<test_msgs::msg::UnboundedSequences> sequences(9);
  for (std::size_t number = 0; number < 20; ++number) {
    strings[number].data = std::string(std::size_t{1} << number, 'x');
  }
  for (std::size_t number = 0; number < 9; ++number) {
    headers[number].frame_id = std::string(number, 'f');
    sequences[number].string_values.assign(number, std::string(number, 'y'));
  }
  publish(node, log, strings);
  publish(node, log, headers);
  publish(node, log, sequences);
  publish<test_msgs::msg::Nested>(node, log, {{}});
  std::vector<std_msgs::msg::UInt8MultiArray> arrays;
  for (const std::size_t size : {0, 1, 1000, 65535, 1000000}) {
    arrays.emplace_back().data.resize(size);
  }
  publish(node, log, arrays);
  log.close();
  subscriptions.clear();
  publishers.clear();
  rclcpp::shutdown();
  return 0;
}
