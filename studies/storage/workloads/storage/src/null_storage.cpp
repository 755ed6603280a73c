// A plugin that writes nothing: what it takes is what measuring costs.
#include <memory>
#include <pluginlib/class_list_macros.hpp>
#include <rosbag2_storage/storage_interfaces/read_write_interface.hpp>
#include <string>
#include <vector>

namespace roslens {

using rosbag2_storage::SerializedBagMessage;

class NullStorage : public rosbag2_storage::storage_interfaces::ReadWriteInterface {
 public:
  void open(const rosbag2_storage::StorageOptions &,
            rosbag2_storage::storage_interfaces::IOFlag) override {}
  void write(std::shared_ptr<const SerializedBagMessage> message) override { look_at(*message); }
  void write(const std::vector<std::shared_ptr<const SerializedBagMessage>> &messages) override {
    for (const auto &message : messages) look_at(*message);
  }
  void update_metadata(const rosbag2_storage::BagMetadata &) override {}
  void create_topic(const rosbag2_storage::TopicMetadata &,
                    const rosbag2_storage::MessageDefinition &) override {}
  void remove_topic(const rosbag2_storage::TopicMetadata &) override {}

  rosbag2_storage::BagMetadata get_metadata() override { return {}; }
  std::string get_relative_file_path() const override { return {}; }
  uint64_t get_bagfile_size() const override { return 0; }
  std::string get_storage_identifier() const override { return "null"; }
  uint64_t get_minimum_split_file_size() const override { return 0; }
  bool set_read_order(const rosbag2_storage::ReadOrder &) override { return false; }
  bool has_next() override { return false; }
  std::shared_ptr<SerializedBagMessage> read_next() override { return nullptr; }
  std::vector<rosbag2_storage::TopicMetadata> get_all_topics_and_types() override { return {}; }
  void get_all_message_definitions(std::vector<rosbag2_storage::MessageDefinition> &) override {}
  void set_filter(const rosbag2_storage::StorageFilter &) override {}
  void reset_filter() override {}
  void seek(const rcutils_time_point_value_t &) override {}

 private:
  // Each message is looked at as a library would, and nothing may be optimised away.
  static void look_at(const SerializedBagMessage &message) {
    const void *data = message.serialized_data->buffer;
    asm volatile("" : : "r"(data), "r"(message.serialized_data->buffer_length) : "memory");
  }
};

}  // namespace roslens

PLUGINLIB_EXPORT_CLASS(roslens::NullStorage,
                       rosbag2_storage::storage_interfaces::ReadWriteInterface)
