// One bag, written as rosbag2's writer does: a plugin by its name, whole batches at once; or by
// that writer itself, where it compresses.
#include "sink.h"

#include <rcutils/logging.h>
#include <rcutils/types/uint8_array.h>
#include <sqlite3.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <mcap/types.hpp>
#include <rosbag2_compression/sequential_compression_writer.hpp>
#include <rosbag2_cpp/writer.hpp>
#include <rosbag2_cpp/writers/sequential_writer.hpp>
#include <rosbag2_storage/storage_factory.hpp>
#include <rosbag2_storage/storage_interfaces/read_write_interface.hpp>
#include <string>
#include <vector>

namespace {

using rosbag2_storage::SerializedBagMessage;
using Batch = std::vector<std::shared_ptr<const SerializedBagMessage>>;

std::string failure;
std::unique_ptr<rosbag2_storage::StorageFactory> factory;
// Not let go at exit: a plugin that failed to write would throw there.
auto &storage = *new std::shared_ptr<rosbag2_storage::storage_interfaces::ReadWriteInterface>;
std::unique_ptr<rosbag2_cpp::Writer> writer;
std::vector<std::string> names;
// Made once and filled anew: a recorder's messages are there before it writes them.
std::vector<std::shared_ptr<SerializedBagMessage>> messages;
Batch batch;
size_t used = 0;  // of those, by rosbag2's writer, which may still have them

// rosbag2's default for 'ros2 bag record'.
constexpr uint64_t CACHE = 100 * 1024 * 1024;

template <typename Call>
int guarded(Call &&call) {
  try {
    call();
    return 0;
  } catch (const std::exception &error) {
    failure = error.what();
  } catch (...) {
    failure = "an exception of no known kind";
  }
  return 1;
}

void reserve(size_t count) {
  while (messages.size() < count) {
    auto message = std::make_shared<SerializedBagMessage>();
    message->serialized_data = std::make_shared<rcutils_uint8_array_t>();
    *message->serialized_data = rcutils_get_zero_initialized_uint8_array();
    messages.push_back(std::move(message));
  }
  batch.reserve(count);
}

std::unique_ptr<rosbag2_cpp::Writer> writer_that(const std::string &compression) {
  if (compression == "none")
    return std::make_unique<rosbag2_cpp::Writer>(
        std::make_unique<rosbag2_cpp::writers::SequentialWriter>());
  rosbag2_compression::CompressionOptions options;
  options.compression_format = "zstd";
  options.compression_mode = rosbag2_compression::compression_mode_from_string(compression);
  options.compression_queue_size = 0;  // nothing is dropped
  options.compression_threads = 1;     // messages keep their order
  return std::make_unique<rosbag2_cpp::Writer>(
      std::make_unique<rosbag2_compression::SequentialCompressionWriter>(options));
}

}  // namespace

int roslens_sink_reserve(size_t count) {
  return guarded([&] { reserve(count); });
}

int roslens_sink_open(const char *id, const char *preset, const char *configuration,
                      const char *uri, uint16_t topics, const char *type,
                      const char *compression) {
  return guarded([&] {
    setenv("AMENT_PREFIX_PATH", ROSLENS_PREFIXES, 1);
    setenv("ROS_DISTRO", ROSLENS_DISTRO, 1);
    rcutils_logging_set_default_logger_level(RCUTILS_LOG_SEVERITY_WARN);
    rosbag2_storage::StorageOptions options;
    options.uri = uri;
    options.storage_id = id;
    options.storage_preset_profile = preset;
    options.storage_config_uri = configuration;
    if (*compression) {
      options.max_cache_size = CACHE;
      writer = writer_that(compression);
      writer->open(options, {"cdr", "cdr"});
    } else {
      factory = std::make_unique<rosbag2_storage::StorageFactory>();
      storage = factory->open_read_write(options);
      if (!storage) throw std::runtime_error(std::string("rosbag2 cannot open a bag as ") + id);
    }
    rosbag2_storage::MessageDefinition definition;
    definition.topic_type = type;
    definition.encoding = "ros2msg";
    definition.encoded_message_definition = "uint8[] data";
    for (uint16_t number = 0; number < topics; ++number) {
      rosbag2_storage::TopicMetadata topic;
      topic.name = "/topic_" + std::to_string(number);
      topic.type = type;
      topic.serialization_format = "cdr";
      if (writer)
        writer->create_topic(topic, definition);
      else
        storage->create_topic(topic, definition);
      names.push_back(topic.name);
    }
  });
}

int roslens_sink_prepare(const roslens_message *given, size_t count) {
  return guarded([&] {
    const size_t first = used;
    if (writer) used += count;
    reserve(first + count);
    batch.clear();
    for (size_t at = 0; at < count; ++at) {
      SerializedBagMessage &message = *messages[first + at];
      message.recv_timestamp = message.send_timestamp = given[at].time_ns;
      message.topic_name = names[given[at].topic];
      message.serialized_data->buffer = const_cast<uint8_t *>(given[at].data);
      message.serialized_data->buffer_length = given[at].length;
      message.serialized_data->buffer_capacity = given[at].length;
      batch.push_back(messages[first + at]);
    }
  });
}

int roslens_sink_write() {
  return guarded([] {
    if (!writer) return storage->write(batch);
    for (const auto &message : batch) writer->write(message);
  });
}

int roslens_sink_close() {
  return guarded([] {
    if (writer) writer->close();
    writer.reset();
    storage.reset();
  });
}

const char *roslens_sink_error() { return failure.c_str(); }

const char *roslens_sink_versions() {
  static const std::string text = std::string(ROSLENS_ROSBAG2_STORAGE) + " " +
                                  sqlite3_libversion() + " " + MCAP_LIBRARY_VERSION;
  return text.c_str();
}
