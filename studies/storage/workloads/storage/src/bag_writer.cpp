// Writes messages by rosbag2's storage plugins as a bag recorder does, and times each write call.
//
// One process measures one cell. run.py lays out the messages: standard input has a byte for each
// of them, which is the number of its topic and thereby of its size, and then the bytes that they
// carry, in consecutive slices. Written into --results are writes.csv, in the format of the
// published comparison, run.json, and allocations.csv where allocations.c is preloaded.

#include <dlfcn.h>
#include <fcntl.h>
#include <rcutils/logging.h>
#include <rcutils/types/uint8_array.h>
#include <sqlite3.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <iterator>
#include <map>
#include <mcap/crc32.hpp>
#include <mcap/types.hpp>
#include <memory>
#include <mutex>
#include <rosbag2_compression/sequential_compression_writer.hpp>
#include <rosbag2_cpp/writer.hpp>
#include <rosbag2_cpp/writers/sequential_writer.hpp>
#include <rosbag2_storage/storage_factory.hpp>
#include <rosbag2_storage/storage_interfaces/read_write_interface.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#ifdef ROSLENS_TRACED
#define TRACEPOINT_CREATE_PROBES
#define TRACEPOINT_DEFINE
#include "probe.h"
constexpr bool kTracepoints = true;
#else
#define tracepoint(...)
constexpr bool kTracepoints = false;
#endif

namespace {

using rosbag2_storage::SerializedBagMessage;
using Numbers = std::map<std::string, std::uint64_t>;
using Options = std::map<std::string, std::string>;

// rosbag2's default for 'ros2 bag record'.
constexpr std::uint64_t kCache = 100 * 1024 * 1024;
constexpr char kType[] = "std_msgs/msg/UInt8MultiArray";
// Messages that are due within so long are put into the queue together.
constexpr std::uint64_t kTickNs = 500'000;

// Options as "--name value", which run.py has checked.
Options parsed(int count, char **values) {
  Options options;
  for (int i = 1; i + 1 < count; i += 2) options[values[i] + 2] = values[i + 1];
  return options;
}

std::uint64_t number_of(const Options &options, const std::string &name) {
  return std::stoull(options.at(name));
}

struct Message {
  const std::uint8_t *data;
  std::size_t length;
  std::uint8_t topic;
};

std::uint64_t nanoseconds(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000ULL + time.tv_nsec;
}

// The clock of LTTng's user-space tracer, too.
std::uint64_t now_ns() { return nanoseconds(CLOCK_MONOTONIC); }

// What was allocated so far; nothing where nobody counts.
struct Allocations {
  std::uint64_t number = 0, bytes = 0;
};

const auto counted =
    reinterpret_cast<const Allocations *(*)()>(dlsym(RTLD_DEFAULT, "roslens_allocations"));

Allocations allocated(const Allocations &before = {}) {
  if (!counted) return {};
  const Allocations *now = counted();
  return {__atomic_load_n(&now->number, __ATOMIC_RELAXED) - before.number,
          __atomic_load_n(&now->bytes, __ATOMIC_RELAXED) - before.bytes};
}

// Adds resident memory in bytes, such as VmRSS:, where the kernel says it.
void add_memory(Numbers &to, const std::string &name, const std::string &field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(field, 0) == 0) to[name] = std::stoull(line.substr(field.size())) << 10;
}

// What is written: messages of the layout on standard input.
std::vector<Message> laid_out(const std::string &input, std::size_t count,
                              const std::vector<std::size_t> &lengths) {
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  if (input.size() < count + longest) throw std::runtime_error("standard input is cut off");
  const auto *begin = reinterpret_cast<const std::uint8_t *>(input.data());
  const std::uint8_t *content = begin + count, *end = begin + input.size(), *at = content;
  std::vector<Message> messages;
  messages.reserve(count);
  for (const std::uint8_t *topic = begin; topic != begin + count; ++topic) {
    const std::size_t length = lengths.at(*topic);
    if (at + length > end) at = content;
    messages.push_back({at, length, *topic});
    at += length;
  }
  return messages;
}

// One bag, written as rosbag2's writer does: a plugin by its name, whole batches at once; or by
// that writer itself, where it compresses.
class Bag {
 public:
  // Makes room for the messages that it holds at once, so that a measurement does not.
  Bag(const Options &options, std::size_t at_once) : options_(options) { reserve(at_once); }

  void open(std::size_t topics) {
    rosbag2_storage::StorageOptions storage;
    storage.uri = options_.at("place") + "/recording";
    storage.storage_id = options_.at("storage");
    storage.storage_preset_profile = options_.at("preset");
    storage.storage_config_uri = options_.at("configuration");
    if (options_.at("compression").empty()) {
      factory_ = std::make_unique<rosbag2_storage::StorageFactory>();
      storage_ = factory_->open_read_write(storage);
      if (!storage_) throw std::runtime_error("rosbag2 cannot open a bag as " + storage.storage_id);
    } else {
      storage.max_cache_size = kCache;
      open_writer(options_.at("compression"));
      writer_->open(storage, {"cdr", "cdr"});
    }
    rosbag2_storage::MessageDefinition definition;
    definition.topic_type = kType;
    definition.encoding = "ros2msg";
    definition.encoded_message_definition = "uint8[] data";
    for (std::size_t number = 0; number < topics; ++number) {
      rosbag2_storage::TopicMetadata topic;
      topic.name = "/topic_" + std::to_string(number);
      topic.type = kType;
      topic.serialization_format = "cdr";
      if (writer_)
        writer_->create_topic(topic, definition);
      else
        storage_->create_topic(topic, definition);
      names_.push_back(topic.name);
    }
  }

  // Makes the next batch ready, whose first message has this number, and time in ns. Not part of a
  // write call: a recorder has its messages before it writes them.
  void prepare(std::uint64_t number, const Message *begin, const Message *end) {
    const std::size_t first = used_, count = end - begin;
    if (writer_) used_ += count;
    reserve(first + count);
    batch_.clear();
    for (const Message *message = begin; message != end; ++message) {
      const auto &filled = messages_[first + batch_.size()];
      filled->recv_timestamp = filled->send_timestamp = number++;
      filled->topic_name = names_[message->topic];
      filled->serialized_data->buffer = const_cast<std::uint8_t *>(message->data);
      filled->serialized_data->buffer_length = message->length;
      filled->serialized_data->buffer_capacity = message->length;
      batch_.push_back(filled);
    }
  }

  void write() {
    if (!writer_) return storage_->write(batch_);
    for (const auto &message : batch_) writer_->write(message);
  }

  // Ends the file so that it can be read; rosbag2's writer has then compressed all.
  void close() {
    if (writer_) writer_->close();
    writer_.reset();
    storage_.reset();
    if (options_.count("fsync") == 0) return;
    for (const auto &file : std::filesystem::recursive_directory_iterator(options_.at("place"))) {
      if (!file.is_regular_file()) continue;
      const int descriptor = ::open(file.path().c_str(), O_RDONLY);
      if (descriptor < 0 || ::fsync(descriptor) != 0)
        throw std::runtime_error(file.path().string() + ": cannot be synced");
      ::close(descriptor);
    }
  }

 private:
  void reserve(std::size_t count) {
    while (messages_.size() < count) {
      auto message = std::make_shared<SerializedBagMessage>();
      message->serialized_data = std::make_shared<rcutils_uint8_array_t>();
      *message->serialized_data = rcutils_get_zero_initialized_uint8_array();
      messages_.push_back(std::move(message));
    }
    batch_.reserve(count);
  }

  void open_writer(const std::string &compression) {
    if (compression == "none") {
      writer_ = std::make_unique<rosbag2_cpp::Writer>(
          std::make_unique<rosbag2_cpp::writers::SequentialWriter>());
      return;
    }
    rosbag2_compression::CompressionOptions options;
    options.compression_format = "zstd";
    options.compression_mode = rosbag2_compression::compression_mode_from_string(compression);
    options.compression_queue_size = 0;  // nothing is dropped
    options.compression_threads = 1;     // messages keep their order
    writer_ = std::make_unique<rosbag2_cpp::Writer>(
        std::make_unique<rosbag2_compression::SequentialCompressionWriter>(options));
  }

  Options options_;
  std::unique_ptr<rosbag2_storage::StorageFactory> factory_;
  std::shared_ptr<rosbag2_storage::storage_interfaces::ReadWriteInterface> storage_;
  std::unique_ptr<rosbag2_cpp::Writer> writer_;
  std::vector<std::string> names_;
  // Made once and filled anew.
  std::vector<std::shared_ptr<SerializedBagMessage>> messages_;
  std::vector<std::shared_ptr<const SerializedBagMessage>> batch_;
  std::size_t used_ = 0;  // of those, by rosbag2's writer, which may still have them
};

// One write call.
struct Row {
  std::uint64_t bytes, messages, write_ns;
  Allocations allocated;
};

// All write calls of a bag, one after the other.
class Calls {
 public:
  explicit Calls(Bag &bag) : bag_(bag) {}

  void write(const Message *begin, const Message *end) {
    // Of this thread: those of rosbag2's writer may be at work.
    const std::uint64_t ready = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    Row row{0, static_cast<std::uint64_t>(end - begin), 0, {}};
    for (const Message *message = begin; message != end; ++message) row.bytes += message->length;
    bag_.prepare(messages, begin, end);
    preparing_ns += nanoseconds(CLOCK_THREAD_CPUTIME_ID) - ready;
    tracepoint(roslens_storage, write_begin, rows.size(), row.bytes, row.messages);
    const Allocations before = allocated();
    const std::uint64_t from = now_ns();
    bag_.write();
    row.write_ns = now_ns() - from;
    row.allocated = allocated(before);
    tracepoint(roslens_storage, write_end, rows.size());
    rows.push_back(row);
    messages += row.messages;
    bytes += row.bytes;
  }

  // How long closing takes, ns.
  std::uint64_t close() {
    tracepoint(roslens_storage, close_begin);
    const Allocations before = allocated();
    const std::uint64_t from = now_ns();
    bag_.close();
    const std::uint64_t took = now_ns() - from;
    closing = allocated(before);
    tracepoint(roslens_storage, close_end);
    return took;
  }

  std::vector<Row> rows;
  Allocations closing;
  std::uint64_t messages = 0, bytes = 0, preparing_ns = 0;

 private:
  Bag &bag_;
};

// Batches of messages: each ends with the first message that fills so many bytes.
std::vector<std::size_t> ends_of_batches(const std::vector<Message> &messages,
                                         std::uint64_t batch) {
  std::vector<std::size_t> ends;
  std::uint64_t filled = 0;
  for (std::size_t number = 0; number < messages.size(); ++number) {
    filled += messages[number].length;
    if (filled >= batch || number + 1 == messages.size()) {
      ends.push_back(number + 1);
      filled = 0;
    }
  }
  return ends;
}

// Writes batch after batch; how many messages are written stands in a file, where one is asked for.
void write_batches(Calls &calls, const std::vector<Message> &messages,
                   const std::vector<std::size_t> &ends, const std::string &acknowledge) {
  const int file =
      acknowledge.empty() ? -1 : ::open(acknowledge.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!acknowledge.empty() && file < 0)
    throw std::runtime_error(acknowledge + ": cannot be opened");
  for (const std::size_t end : ends) {
    calls.write(messages.data() + calls.messages, messages.data() + end);
    if (file >= 0 && pwrite(file, &calls.messages, sizeof(calls.messages), 0) < 0)
      throw std::runtime_error(acknowledge + ": cannot be written");
  }
}

// As in rosbag2: one thread puts messages into a queue of so many bytes and drops those that find
// it full; another takes all that is queued at once and hands it over in one write call.
struct Queue {
  std::uint64_t capacity, bytes = 0;
  std::vector<Message> messages;
  bool ended = false;
  std::mutex mutex;
  std::condition_variable filled;

  // Takes all that waits; nothing at the end.
  void take(std::vector<Message> &batch) {
    batch.clear();
    std::unique_lock lock(mutex);
    filled.wait(lock, [this] { return ended || !messages.empty(); });
    std::swap(messages, batch);
    bytes = 0;
  }

  // Puts messages into it when they are due, at a rate in bytes per second.
  Numbers fill(const std::vector<Message> &all, double rate) {
    const std::uint64_t begin = now_ns();
    std::uint64_t produced = 0, late = 0, dropped = 0, dropped_bytes = 0, longest = 0;
    const auto due = [&] { return static_cast<std::uint64_t>(produced * 1e9 / rate); };
    for (auto next = all.begin(); next != all.end();) {
      const std::uint64_t now = now_ns() - begin;
      if (due() > now) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(std::max(due() - now, kTickNs)));
        continue;
      }
      late = std::max(late, now - due());
      {
        const std::lock_guard lock(mutex);
        for (; next != all.end() && due() <= now; ++next) {
          if (bytes + next->length > capacity) {
            ++dropped;
            dropped_bytes += next->length;
          } else {
            messages.push_back(*next);
            bytes += next->length;
          }
          produced += next->length;
        }
        longest = std::max(longest, bytes);
      }
      filled.notify_one();
    }
    const std::uint64_t took = now_ns() - begin;
    {
      const std::lock_guard lock(mutex);
      ended = true;
    }
    filled.notify_one();
    return {{"queue_bytes", capacity},        {"produced", all.size()},
            {"produced_bytes", produced},     {"dropped", dropped},
            {"dropped_bytes", dropped_bytes}, {"longest_queue_bytes", longest},
            {"producing_ns", took},           {"producer_late_ns", late}};
  }
};

// Writes messages that come at a rate; returns what was written, and adds how they fared.
std::vector<Message> write_as_they_come(Calls &calls, const std::vector<Message> &messages,
                                        double rate, std::uint64_t capacity, Numbers &fared) {
  Queue queue{capacity};
  auto filling = std::async(std::launch::async, [&] { return queue.fill(messages, rate); });
  std::vector<Message> written, batch;
  written.reserve(messages.size());
  for (queue.take(batch); !batch.empty(); queue.take(batch)) {
    calls.write(batch.data(), batch.data() + batch.size());
    written.insert(written.end(), batch.begin(), batch.end());
  }
  fared.merge(filling.get());
  return written;
}

// CRC-32 over the content of messages in their order.
std::uint32_t checksum(const std::vector<Message> &messages) {
  std::uint32_t crc = mcap::internal::CRC32_INIT;
  for (const Message &message : messages)
    crc = mcap::internal::crc32Update(crc, reinterpret_cast<const std::byte *>(message.data),
                                      message.length);
  return mcap::internal::crc32Final(crc);
}

// What is still in a buffer is written when the file is closed, so that it may fail only then.
void finish(std::ofstream &file, const std::string &folder) {
  file.close();
  if (!file) throw std::runtime_error(folder + ": the results cannot be written");
}

void write_results(const std::string &folder, const Calls &calls, const Numbers &numbers) {
  std::ofstream writes(folder + "/writes.csv");
  writes << "sqc,num_bytes,num_msgs,write_ns,close_ns\n";
  for (std::size_t number = 0; number < calls.rows.size(); ++number) {
    const Row &row = calls.rows[number];
    writes << number << ',' << row.bytes << ',' << row.messages << ',' << row.write_ns << ",\n";
  }
  writes << ",,,," << numbers.at("close_ns") << '\n';
  finish(writes, folder);
  if (counted) {
    std::ofstream table(folder + "/allocations.csv");
    table << "sqc,allocations,allocated_bytes\n";
    for (std::size_t number = 0; number < calls.rows.size(); ++number) {
      const Allocations &one = calls.rows[number].allocated;
      table << number << ',' << one.number << ',' << one.bytes << '\n';
    }
    table << ',' << calls.closing.number << ',' << calls.closing.bytes << '\n';
    finish(table, folder);
  }
  std::ofstream json(folder + "/run.json");
  json << '{';
  for (const auto &[name, value] : numbers) json << '"' << name << "\": " << value << ", ";
  json << "\"tracepoints\": " << (kTracepoints ? "true" : "false") << ", \"sqlite_version\": \""
       << sqlite3_libversion() << "\", \"mcap_version\": \"" << MCAP_LIBRARY_VERSION
       << "\", \"rosbag2_version\": \"" << ROSLENS_ROSBAG2_STORAGE << "\"}\n";
  finish(json, folder);
}

void measure(const Options &options) {
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  std::istringstream sizes(options.at("sizes"));
  const std::vector<std::size_t> lengths{std::istream_iterator<std::size_t>(sizes), {}};
  auto messages = laid_out(input, number_of(options, "messages"), lengths);
  const auto ends = ends_of_batches(messages, number_of(options, "batch"));
  std::size_t largest = 0, begin = 0;
  for (const std::size_t end : ends) {
    largest = std::max(largest, end - begin);
    begin = end;
  }
  // rosbag2's writer still has messages of a batch when it gets the next one.
  const std::size_t at_once = options.at("compression").empty() ? largest : messages.size();
  // Never let go: a plugin that failed to write would throw then.
  Bag &bag = *new Bag(options, at_once);
  Calls calls(bag);
  calls.rows.reserve(ends.size());
  Numbers numbers;
  // Lets the peak begin anew (proc(5), clear_refs); without it, preparing would count.
  std::ofstream("/proc/self/clear_refs") << 5;
  add_memory(numbers, "rss_before_bytes", "VmRSS:");
  const std::uint64_t opening = now_ns();
  bag.open(lengths.size());
  numbers["open_ns"] = now_ns() - opening;
  const std::uint64_t cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
  if (options.count("rate"))
    messages = write_as_they_come(calls, messages, number_of(options, "rate"),
                                  number_of(options, "queue"), numbers);
  else
    write_batches(calls, messages, ends, options.at("acknowledge"));
  numbers["close_ns"] = calls.close();
  numbers["cpu_ns"] = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu - calls.preparing_ns;
  add_memory(numbers, "rss_peak_bytes", "VmHWM:");
  numbers["bytes"] = calls.bytes;
  numbers["message_count"] = calls.messages;
  numbers["write_calls"] = calls.rows.size();
  numbers["crc32"] = checksum(messages);
  write_results(options.at("results"), calls, numbers);
}

}  // namespace

int main(int count, char **values) {
  setenv("AMENT_PREFIX_PATH", ROSLENS_PREFIXES, 1);
  setenv("ROS_DISTRO", ROSLENS_DISTRO, 1);
  rcutils_logging_set_default_logger_level(RCUTILS_LOG_SEVERITY_WARN);
  Options options = parsed(count, values);
  try {
    measure(options);
    return 0;
  } catch (const std::exception &error) {
    std::string text = error.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    const bool full = text.find("No space left") != text.npos || text.find("full") != text.npos;
    std::cerr << "storage: error: "
              << (full ? options["place"] + ": no space left while writing (" + text +
                             "); make room or write less (--bytes)"
                       : "rosbag2: " + text)
              << std::endl;
    return 4;
  } catch (...) {
    std::cerr << "storage: error: rosbag2: an exception that says nothing" << std::endl;
    return 4;
  }
}
