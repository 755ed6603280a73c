// N publishers and M subscriptions, in one process or in one process per side.
//
// Writes messages.csv: topic, sequence, publish_realtime_ns (just before publish()),
// callback_realtime_ns (first line of the callback), publisher, subscription. With --role, each
// side writes its own part into messages_<role>.csv, and run.py merges both into one file.
//
// --leak B: each callback allocates B bytes with malloc, touches and never frees them. --after
// FILE: discovery also waits until this file exists, and publishers end only when everything that
// they published has been acknowledged (at most 10 s).

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "std_msgs/msg/u_int64.hpp"
#include "std_msgs/msg/u_int8_multi_array.hpp"
#include "workload.hpp"

namespace
{

using Bytes = std_msgs::msg::UInt8MultiArray;
// Loaned messages must have a fixed size.
using Number = std_msgs::msg::UInt64;

constexpr std::size_t kHeader = sizeof(std::uint64_t);

void set_sequence(Bytes & message, std::uint64_t sequence)
{
  std::memcpy(message.data.data(), &sequence, kHeader);
}

void set_sequence(Number & message, std::uint64_t sequence) {message.data = sequence;}

std::uint64_t sequence_of(const Bytes & message)
{
  std::uint64_t sequence = 0;
  if (message.data.size() >= kHeader) {
    std::memcpy(&sequence, message.data.data(), kHeader);
  }
  return sequence;
}

std::uint64_t sequence_of(const Number & message) {return message.data;}

// The publisher's number is in the upper half, so that several share a topic.
constexpr std::uint64_t tagged(std::size_t publisher, std::size_t sequence)
{
  return (static_cast<std::uint64_t>(publisher) << 32) | sequence;
}

struct Settings
{
  explicit Settings(const workloads::Options & options)
  : publishers(options.count("publishers", 1)), subscriptions(options.count("subscriptions")),
    each(options.word("topics", {"one", "each"}) == "each"),
    payload(options.count("payload", kHeader)),
    seconds(options.count("messages") ? HUGE_VAL : options.number("seconds")),
    period(1.0 / options.number("rate", 1e-3)),
    room(options.count("messages") ? options.count("messages") :
      static_cast<std::size_t>(seconds / period * 1.1) + 16),
    leak(options.count("leak")),
    busy(static_cast<std::int64_t>(options.number("busy_us") * 1000)),
    pointer(options.word("pointer", {"shared", "unique", "loaned"})),
    role(options.word("role", {"both", "publisher", "subscriber"})),
    others(options.count("others")), after(options.text("after")),
    qos(rclcpp::KeepLast(options.count("depth", 1)))
  {
    if (options.word("reliability", {"reliable", "best_effort"}) == "best_effort") {
      qos.best_effort();
    }
  }

  std::string topic(std::size_t publisher) const
  {
    return each ? "/data_" + std::to_string(publisher) : "/data";
  }

  std::size_t publishers, subscriptions;
  bool each;
  std::size_t payload;
  double seconds, period;
  std::size_t room;
  std::size_t leak;
  std::chrono::nanoseconds busy;
  std::string pointer, role;
  std::size_t others;
  std::string after;
  rclcpp::QoS qos;
};

using Times = std::vector<std::int64_t>;

template<typename Message>
class Sender
{
public:
  Sender(const Settings & settings, rclcpp::Node & node, std::size_t number)
  : settings_(settings), number_(number), sent(settings.room, 0),
    publisher_(node.create_publisher<Message>(settings.topic(number), settings.qos))
  {
    set_content(message_);
  }

  std::size_t matched() const {return publisher_->get_subscription_count();}

  void run()
  {
    workloads::send_for(
      settings_.seconds, settings_.period, sent.size(), [this](std::size_t i) {publish(i);});
    if (!settings_.after.empty() && rclcpp::ok()) {
      wait_for_all_acked();
    }
  }

private:
  // Messages in the publisher's history may still be delivered.
  void wait_for_all_acked()
  {
    try {
      publisher_->wait_for_all_acked(std::chrono::seconds(10));
    } catch (const std::exception & error) {
      // Some middlewares cannot, and none can after a signal; the log is written nevertheless.
      std::cerr << "messages: " << error.what() << std::endl;
    }
  }

  void publish(std::size_t i)
  {
    if (settings_.pointer == "loaned") {
      auto loan = publisher_->borrow_loaned_message();
      fill(loan.get(), i);
      publisher_->publish(std::move(loan));
    } else if (settings_.pointer == "unique") {
      auto message = std::make_unique<Message>();
      fill(*message, i);
      publisher_->publish(std::move(message));
    } else {
      fill(message_, i);
      publisher_->publish(message_);
    }
  }

  // A pattern, so that a recorder can check that the content is complete.
  void set_content(Bytes & message)
  {
    for (std::size_t i = 0; i < settings_.payload; ++i) {
      message.data.push_back(static_cast<std::uint8_t>(i));
    }
  }

  void set_content(Number &) {}

  void fill(Bytes & message, std::size_t i)
  {
    message.data.resize(settings_.payload);
    stamp(message, i);
  }

  void fill(Number & message, std::size_t i) {stamp(message, i);}

  void stamp(Message & message, std::size_t i)
  {
    set_sequence(message, tagged(number_, i));
    sent[i] = workloads::now_ns();
  }

  const Settings & settings_;
  std::size_t number_;
  Message message_;

public:
  Times sent;

private:
  typename rclcpp::Publisher<Message>::SharedPtr publisher_;
};

template<typename Message>
class Receiver
{
public:
  Receiver(
    const Settings & settings, rclcpp::Node & node, const std::string & topic)
  : received(settings.publishers, Times(settings.room, 0)), settings_(settings)
  {
    // With the requested kind of pointer: intra-process messages are then moved, not copied.
    if (settings.pointer == "unique") {
      subscription_ = node.create_subscription<Message>(
        topic, settings.qos, [this](std::unique_ptr<Message> message) {take(*message);});
    } else {
      subscription_ = node.create_subscription<Message>(
        topic, settings.qos, [this](std::shared_ptr<const Message> message) {take(*message);});
    }
  }

  std::size_t matched() const {return subscription_->get_publisher_count();}

  // [publisher][sequence]; each entry is written by one callback only.
  std::vector<Times> received;

private:
  void take(const Message & message)
  {
    const auto now = workloads::now_ns();
    const auto tag = sequence_of(message);
    const auto publisher = static_cast<std::size_t>(tag >> 32);
    const auto sequence = static_cast<std::size_t>(tag & 0xffffffffu);
    if (publisher < received.size() && sequence < received[publisher].size()) {
      received[publisher][sequence] = now;
    }
    if (settings_.leak > 0) {
      // Never freed, on purpose.
      void * memory = std::malloc(settings_.leak);
      if (memory) {
        std::memset(memory, 1, settings_.leak);
        leaked_ = memory;
      }
    }
    workloads::busy(settings_.busy);
  }

  const Settings & settings_;
  void * volatile leaked_ = nullptr;
  typename rclcpp::Subscription<Message>::SharedPtr subscription_;
};

template<typename Message>
int work(const workloads::Options & options)
{
  const Settings settings(options);
  auto node_options = rclcpp::NodeOptions().use_intra_process_comms(
    options.word("intra_process", {"on", "off"}) == "on");
  const bool sends = settings.role != "subscriber", receives = settings.role != "publisher";
  auto node = std::make_shared<rclcpp::Node>(
    settings.role == "both" ? "messages" : settings.role, node_options);
  std::vector<std::unique_ptr<Sender<Message>>> senders;
  std::vector<std::unique_ptr<Receiver<Message>>> receivers;
  const std::size_t topics = settings.each ? settings.publishers : 1;
  for (std::size_t i = 0; sends && i < settings.publishers; ++i) {
    senders.push_back(std::make_unique<Sender<Message>>(settings, *node, i));
  }
  for (std::size_t topic = 0; receives && topic < topics; ++topic) {
    for (std::size_t i = 0; i < settings.subscriptions; ++i) {
      receivers.push_back(
        std::make_unique<Receiver<Message>>(settings, *node, settings.topic(topic)));
    }
  }
  {
    workloads::Spinning spinning(options, {node->get_node_base_interface()});
    workloads::wait_for(
      options, [&] {
        for (const auto & sender : senders) {
          if (sender->matched() < settings.subscriptions + settings.others) {
            return false;
          }
        }
        for (const auto & receiver : receivers) {
          if (receiver->matched() < (settings.each ? 1 : settings.publishers)) {
            return false;
          }
        }
        return settings.after.empty() || std::ifstream(settings.after).good();
      });
    if (sends) {
      workloads::say_ready();
      std::vector<std::thread> threads;
      for (auto & sender : senders) {
        threads.emplace_back([&sender] {sender->run();});
      }
      for (auto & thread : threads) {
        thread.join();
      }
      workloads::sleep_for(0.5);
    } else {
      // Wait until the publishers have gone.
      while (rclcpp::ok() && receivers.front()->matched() > 0) {
        workloads::sleep_for(0.05);
      }
      workloads::sleep_for(0.2);
    }
  }
  const bool all = settings.role == "both" && settings.others == 0;
  const auto name = all ? "messages.csv" : "messages_" + settings.role + ".csv";
  workloads::Log log(
    options, name,
    "topic,sequence,publish_realtime_ns,callback_realtime_ns,publisher,subscription");
  for (std::size_t p = 0; p < settings.publishers; ++p) {
    const std::size_t first = settings.each ? p * settings.subscriptions : 0;
    for (std::size_t i = 0; i < settings.room; ++i) {
      const std::int64_t sent = sends ? senders[p]->sent[i] : 0;
      if (!receives) {
        if (sent) {
          log.row(settings.topic(p), i, sent, std::int64_t{0}, p, std::string());
        }
        continue;
      }
      for (std::size_t s = 0; s < settings.subscriptions; ++s) {
        const std::int64_t got = receivers[first + s]->received[p][i];
        if (sent || got) {
          log.row(settings.topic(p), i, sent, got, p, s);
        }
      }
    }
  }
  return 0;
}

}  // namespace

int main(int count, char ** values)
{
  return workloads::run(
    count, values,
    {{"publishers", "1"}, {"subscriptions", "1"}, {"topics", "one"}, {"payload", "100"},
      {"rate", "100"}, {"messages", "0"}, {"leak", "0"}, {"busy_us", "0"}, {"pointer", "shared"},
      {"role", "both"}, {"others", "0"}, {"depth", "10"}, {"reliability", "reliable"}, {"intra_process", "off"},
      {"after", ""}},
    [](const workloads::Options & options) {
      if (options.is("pointer", "loaned")) {
        if (options.count("payload") != kHeader) {
          throw std::invalid_argument("--pointer loaned: needs --payload 8 (a fixed size)");
        }
        return work<Number>(options);
      }
      return work<Bytes>(options);
    });
}
