// Subscriptions that feed rosbag2's writer, as its Recorder does: messages stay serialized, go into
// the writer's cache, and its thread hands them to a storage plugin.
//
// Writes recorder.json: received (messages that reached a callback), lost_in_cache (as rosbag2
// itself counts them).

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "rcutils/logging.h"
#include "rosbag2_cpp/writer.hpp"
#include "rosbag2_storage/storage_options.hpp"
#include "workload.hpp"

namespace
{

constexpr char kTotal[] = "Total lost: ";

std::atomic<std::int64_t> lost{0};
rcutils_logging_output_handler_t handler;

// How many its cache dropped rosbag2 says in its log only, once, when it closes.
void listen(
  const rcutils_log_location_t * location, int severity, const char * name,
  rcutils_time_point_value_t time, const char * format, va_list * arguments)
{
  char text[4096];
  va_list copy;
  va_copy(copy, *arguments);
  std::vsnprintf(text, sizeof(text), format, copy);
  va_end(copy);
  if (const char * found = std::strstr(text, kTotal)) {
    lost += std::atoll(found + std::strlen(kTotal));
  }
  handler(location, severity, name, time, format, arguments);
}

int work(const workloads::Options & options)
{
  // By it rosbag2 finds its plugins.
  setenv("AMENT_PREFIX_PATH", ROSLENS_PREFIXES, 1);
  handler = rcutils_logging_get_output_handler();
  rcutils_logging_set_output_handler(listen);
  rosbag2_storage::StorageOptions storage;
  storage.uri = options.text("bag");
  storage.storage_id = options.text("storage");
  storage.storage_preset_profile = options.text("preset");
  storage.storage_config_uri = options.text("configuration");
  storage.max_cache_size = options.count("cache");
  rosbag2_cpp::Writer writer;
  writer.open(storage);

  const auto type = options.text("type");
  std::atomic<std::uint64_t> received{0};
  auto node = std::make_shared<rclcpp::Node>("recorder");
  std::vector<rclcpp::GenericSubscription::SharedPtr> subscriptions;
  for (std::size_t i = 0; i < options.count("publishers", 1); ++i) {
    const auto topic = "/data_" + std::to_string(i);
    subscriptions.push_back(
      node->create_generic_subscription(
        topic, type, rclcpp::QoS(options.count("depth", 1)),
        [&, topic](
          std::shared_ptr<const rclcpp::SerializedMessage> message,
          const rclcpp::MessageInfo & info) {
          const auto & times = info.get_rmw_message_info();
          writer.write(
            std::move(message), topic, type, times.received_timestamp, times.source_timestamp);
          ++received;
        }));
  }
  const auto matched = [&](std::size_t each) {
      return std::all_of(
        subscriptions.begin(), subscriptions.end(),
        [each](const auto & one) {return one->get_publisher_count() == each;});
    };
  {
    workloads::Spinning spinning(options, {node->get_node_base_interface()});
    workloads::wait_for(options, [&] {return matched(1);});
    std::ofstream(options.text("ready")).put('\n');
    // Until the publishers have gone, and all that had arrived is taken.
    for (std::uint64_t before = 0; rclcpp::ok(); before = received) {
      workloads::sleep_for(0.5);
      if (matched(0) && before == received) {
        break;
      }
    }
  }
  writer.close();
  std::ofstream(options.text("output") + "/recorder.json")
    << "{\"received\": " << received << ", \"lost_in_cache\": " << lost
    << ", \"rosbag2_version\": \"" << ROSLENS_ROSBAG2_STORAGE << "\"}\n";
  return 0;
}

}  // namespace

int main(int count, char ** values)
{
  return workloads::run(
    count, values,
    {{"type", "std_msgs/msg/UInt8MultiArray"}, {"publishers", "2"}, {"depth", "10"},
      {"ready", ""}, {"bag", "bag"}, {"storage", "mcap"}, {"preset", ""}, {"configuration", ""},
      {"cache", "104857600"}},
    work);
}
