// Makes messages late by one known cause, at known times.
//
// --role publisher sends /work whenever the clock is a multiple of the period; --role subscriber
// receives it on an executor thread with its own CPU, and injects --cause: it begins 1 ms before
// every --every'th message is due, and lasts --hold_us.
//
// Writes messages_<role>.csv like `messages`, callbacks.csv (sequence, start_realtime_ns,
// end_realtime_ns of each callback) and injections.csv (cause, begin_realtime_ns,
// end_realtime_ns, vtid of the injecting thread). Delays in transit (relay) are injected by run.py.

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "std_msgs/msg/u_int64.hpp"
#include "test_msgs/srv/empty.hpp"
#include "workload.hpp"

namespace
{

using Number = std_msgs::msg::UInt64;
using Service = test_msgs::srv::Empty;
using Nanoseconds = std::chrono::nanoseconds;

const std::vector<std::string> kCauses = {
  "same_thread", "same_group", "timer_burst", "queue", "cpu_hog", "throttled", "page_fault",
  "disk", "lock", "interrupt", "service", "relay"};
constexpr std::size_t kBurst = 10;
constexpr Nanoseconds kAhead = std::chrono::milliseconds(1);

[[noreturn]] void fail(const std::string & what)
{
  throw std::system_error(errno, std::generic_category(), what);
}

std::int64_t thread_id() {return static_cast<std::int64_t>(syscall(SYS_gettid));}

// Returns the CPUs that this process may use.
std::vector<int> cpus()
{
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    fail("sched_getaffinity");
  }
  std::vector<int> found;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) {
      found.push_back(cpu);
    }
  }
  return found;
}

// Keeps the calling thread, and threads that it creates, on one CPU.
void stay_on(int cpu)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    fail("sched_setaffinity");
  }
}

struct Settings
{
  explicit Settings(const workloads::Options & options)
  : cause(options.word("cause", kCauses)), seconds(options.number("seconds")),
    period(static_cast<std::int64_t>(1e9 / options.number("rate", 1e-3))),
    hold(static_cast<std::int64_t>(options.number("hold_us", 1) * 1000)),
    every(static_cast<std::int64_t>(options.count("every", 1))), output(options.text("output"))
  {}

  bool hit(std::int64_t index) const {return index % every == 0;}

  // Returns when the next affected message is due; the injection begins `ahead` of that.
  std::int64_t next_hit(Nanoseconds ahead) const
  {
    const auto step = period * every;
    return ((workloads::now_ns() + ahead.count()) / step + 1) * step;
  }

  std::string cause;
  double seconds;
  std::int64_t period;
  Nanoseconds hold;
  std::int64_t every;
  std::string output;
  Nanoseconds work = std::chrono::microseconds(cause == "queue" ? 1500 : 200);
};

void sleep_until(std::int64_t realtime_ns)
{
  std::this_thread::sleep_until(
    std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(Nanoseconds(realtime_ns))));
}

struct Injection
{
  std::int64_t begin, end, vtid;
};

class Injections
{
public:
  // Runs `work`, and logs it as an injection.
  template<typename Work>
  void during(Work work)
  {
    const auto begin = workloads::now_ns();
    work();
    add({begin, workloads::now_ns(), thread_id()});
  }

  void add(Injection injection)
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    rows_.push_back(injection);
  }

  void write(const workloads::Options & options, const std::string & cause)
  {
    workloads::Log log(options, "injections.csv", "cause,begin_realtime_ns,end_realtime_ns,vtid");
    for (const auto & row : rows_) {
      log.row(cause, row.begin, row.end, row.vtid);
    }
  }

private:
  std::mutex mutex_;
  std::vector<Injection> rows_;
};

// A file on the disk that is read by page faults and written through.
class File
{
public:
  explicit File(const std::string & folder)
  : path_(folder + "/scratch.bin"), descriptor_(open(path_.c_str(), O_RDWR | O_CREAT, 0600))
  {
    const std::vector<char> block(kBlock, 1);
    for (std::size_t at = 0; descriptor_ >= 0 && at < kSize; at += kBlock) {
      if (pwrite(descriptor_, block.data(), kBlock, static_cast<off_t>(at)) < 0) {
        fail(path_);
      }
    }
    if (descriptor_ < 0 || fsync(descriptor_) != 0) {
      fail(path_);
    }
    memory_ = mmap(nullptr, kSize, PROT_READ, MAP_SHARED, descriptor_, 0);
    if (memory_ == MAP_FAILED || madvise(memory_, kSize, MADV_RANDOM) != 0) {
      fail("mmap");
    }
  }

  ~File()
  {
    munmap(memory_, kSize);
    close(descriptor_);
    unlink(path_.c_str());
  }

  File(const File &) = delete;
  File & operator=(const File &) = delete;

  // Drops the file's pages, so that reading it is a page fault that waits for the disk.
  void forget()
  {
    madvise(memory_, kSize, MADV_DONTNEED);
    posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
  }

  void read_for(Nanoseconds duration)
  {
    const auto end = std::chrono::steady_clock::now() + duration;
    for (std::size_t at = 0; at < kSize && std::chrono::steady_clock::now() < end; at += kStep) {
      sum_ = sum_ + static_cast<const volatile char *>(memory_)[at];
    }
  }

  void write_for(Nanoseconds duration)
  {
    const auto end = std::chrono::steady_clock::now() + duration;
    const std::vector<char> block(kBlock, ++value_);
    while (std::chrono::steady_clock::now() < end) {
      if (pwrite(descriptor_, block.data(), kBlock, 0) < 0 || fsync(descriptor_) != 0) {
        fail(path_);
      }
    }
  }

private:
  static constexpr std::size_t kSize = 64 << 20, kBlock = 64 << 10, kStep = 32 << 10;
  std::string path_;
  int descriptor_;
  void * memory_ = nullptr;
  char value_ = 0;
  int sum_ = 0;
};

void write_file(const std::string & path, const std::string & text)
{
  std::ofstream stream(path);
  stream << text << std::flush;
  if (!stream) {
    fail(path);
  }
}

// A group of threads whose CPU time the kernel limits.
class Cgroup
{
public:
  Cgroup()
  : path_("/sys/fs/cgroup/cpu/roslens_causes_" + std::to_string(getpid()))
  {
    if (mkdir(path_.c_str(), 0755) != 0) {
      fail(path_ + " (the controller cpu of cgroups, version 1, as root)");
    }
  }

  ~Cgroup()
  {
    rmdir(path_.c_str());
  }

  Cgroup(const Cgroup &) = delete;
  Cgroup & operator=(const Cgroup &) = delete;

  void join() {write_file(path_ + "/tasks", std::to_string(thread_id()));}

  // Sets the limit in microseconds per 100 ms; -1: no limit.
  void limit(int quota) {write_file(path_ + "/cpu.cfs_quota_us", std::to_string(quota));}

private:
  std::string path_;
};

// Datagrams received by a thousand sockets, in a network of the calling thread alone: delivering
// one is a softirq of half a millisecond on the CPU that is told to do it.
class Storm
{
public:
  explicit Storm(int cpu)
  {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, 2 * kSockets);
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 || unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 ||
      mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("sysfs", "/sys", "sysfs", 0, nullptr) != 0)
    {
      fail("a network of its own (as root)");
    }
    std::ostringstream mask;
    mask << std::hex << (1UL << cpu);
    write_file("/sys/class/net/lo/queues/rx-0/rps_cpus", mask.str());
    sender_ = made();
    ifreq loopback{};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
    ip_mreq group{inet_addr("239.1.1.1"), inet_addr("127.0.0.1")};
    if (ioctl(sender_, SIOCSIFFLAGS, &loopback) != 0 ||
      setsockopt(
        sender_, IPPROTO_IP, IP_MULTICAST_IF, &group.imr_interface, sizeof(in_addr)) != 0)
    {
      fail("lo");
    }
    for (std::size_t i = 0; i < kSockets; ++i) {
      const int yes = 1;
      sockets_.push_back(made());
      if (setsockopt(sockets_[i], SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        setsockopt(sockets_[i], IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group) != 0 ||
        bind(sockets_[i], reinterpret_cast<sockaddr *>(&to_), sizeof to_) != 0)
      {
        fail("a socket of a thousand");
      }
    }
  }

  ~Storm()
  {
    close(sender_);
    for (const int one : sockets_) {
      close(one);
    }
  }

  Storm(const Storm &) = delete;
  Storm & operator=(const Storm &) = delete;

  // The next datagram always arrives before the last one is delivered.
  void rage(Nanoseconds duration)
  {
    const auto end = std::chrono::steady_clock::now() + duration;
    std::size_t sent = 0, received = 0;
    char byte = 0;
    while (received < sent || std::chrono::steady_clock::now() < end) {
      while (recv(sockets_.front(), &byte, 1, MSG_DONTWAIT) == 1) {
        ++received;
      }
      while (sent < received + 3 && std::chrono::steady_clock::now() < end) {
        sent += sendto(sender_, &byte, 1, 0, reinterpret_cast<sockaddr *>(&to_), sizeof to_) == 1;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

private:
  static constexpr std::size_t kSockets = 1000;

  static int made()
  {
    const int found = socket(AF_INET, SOCK_DGRAM, 0);
    if (found < 0) {
      fail("socket");
    }
    return found;
  }

  sockaddr_in to_{AF_INET, htons(7400), {inet_addr("239.1.1.1")}, {}};
  int sender_;
  std::vector<int> sockets_;
};

// The injecting part of the subscriber; each cause is implemented here or in `Receiver`.
class Injector
{
public:
  Injector(const Settings & settings, int cpu, Injections & log)
  : settings_(settings), cpu_(cpu), log_(log)
  {
    if (settings.cause == "page_fault" || settings.cause == "disk") {
      file_ = std::make_unique<File>(settings.output);
    } else if (settings.cause == "throttled") {
      cgroup_ = std::make_unique<Cgroup>();
    }
  }

  ~Injector()
  {
    stop();
  }

  Injector(const Injector &) = delete;
  Injector & operator=(const Injector &) = delete;

  // Called before the executor spins: creates a service that only its thread could serve.
  void prepare(rclcpp::Node & node)
  {
    if (settings_.cause == "service") {
      service_ = node.create_service<Service>(
        "/own", [](const Service::Request::SharedPtr, Service::Response::SharedPtr) {});
      client_ = node.create_client<Service>("/own");
    }
  }

  // Called on the executor's thread, before it spins.
  void executor_begins()
  {
    stay_on(cpu_);
    if (cgroup_) {
      cgroup_->join();
    }
  }

  // Called in the callback of a message.
  void within_callback(bool hit)
  {
    if (settings_.cause == "lock") {
      const std::lock_guard<std::mutex> guard(mutex_);
    } else if (hit && settings_.cause == "page_fault") {
      log_.during([this] {file_->read_for(settings_.hold);});
    } else if (hit && settings_.cause == "disk") {
      log_.during([this] {file_->write_for(settings_.hold);});
    } else if (hit && client_) {
      log_.during(
        [this] {
          auto asked = client_->async_send_request(std::make_shared<Service::Request>());
          asked.wait_for(settings_.hold);
          client_->remove_pending_request(asked);
        });
    }
  }

  void start(rclcpp::Node & node)
  {
    const auto & cause = settings_.cause;
    if (cause == "same_thread" || cause == "same_group" || cause == "timer_burst") {
      const std::size_t count = cause == "timer_burst" ? kBurst : 1;
      group_ = cause == "same_group" ? nullptr : node.create_callback_group(
        rclcpp::CallbackGroupType::MutuallyExclusive);
      // A timer keeps the phase at which it was created: if late, it would affect no message.
      std::int64_t begin;
      do {
        begin = settings_.next_hit(kAhead) - kAhead.count();
        sleep_until(begin);
      } while (workloads::now_ns() - begin > kAhead.count() / 4);
      for (std::size_t i = 0; i < count; ++i) {
        const auto lasts = settings_.hold / static_cast<std::int64_t>(count);
        timers_.push_back(
          node.create_wall_timer(
            Nanoseconds(settings_.period * settings_.every),
            [this, lasts] {
              log_.during(
                [this, lasts] {
                  if (!group_) {
                    // Meanwhile, the executor's other thread begins to wait for work.
                    std::this_thread::sleep_for(kAhead / 2);
                  }
                  workloads::busy(lasts);
                });
            }, group_));
      }
    } else if (cause == "cpu_hog") {
      repeat(
        kAhead, [this] {
          stay_on(cpu_);
          sched_param parameter{};
          parameter.sched_priority = 50;
          if (sched_setscheduler(0, SCHED_FIFO, &parameter) != 0) {
            fail("sched_setscheduler (needs root, or a limit on real-time priorities)");
          }
        }, [this] {log_.during([this] {workloads::busy(settings_.hold);});});
    } else if (cause == "interrupt") {
      repeat(
        kAhead, [this] {storm_ = std::make_unique<Storm>(cpu_);},
        [this] {log_.during([this] {storm_->rage(settings_.hold);});});
    } else if (cause == "lock") {
      repeat(
        kAhead, [] {}, [this] {
          const std::lock_guard<std::mutex> guard(mutex_);
          log_.during([this] {std::this_thread::sleep_for(settings_.hold);});
        });
    } else if (cause == "throttled") {
      // It uses up the millisecond that both share, then neither runs.
      repeat(
        2 * kAhead, [this] {
          stay_on(cpu_);
          cgroup_->join();
        }, [this] {workloads::busy(2 * kAhead);});
      repeat(
        2 * kAhead, [] {}, [this] {
          cgroup_->limit(1000);
          log_.during([this] {std::this_thread::sleep_for(settings_.hold);});
          cgroup_->limit(-1);
        });
    } else if (cause == "page_fault") {
      repeat(std::chrono::milliseconds(10), [] {}, [this] {file_->forget();});
    }
  }

  void stop()
  {
    stopping_ = true;
    for (auto & thread : threads_) {
      thread.join();
    }
    threads_.clear();
  }

private:
  // Runs `inject` in a separate thread, each time that an affected message is nearly due.
  void repeat(Nanoseconds ahead, std::function<void()> first, std::function<void()> inject)
  {
    threads_.emplace_back(
      [this, ahead, first = std::move(first), inject = std::move(inject)] {
        pthread_setname_np(pthread_self(), ("inject_" + settings_.cause).substr(0, 15).c_str());
        try {
          first();
          while (!stopping_) {
            sleep_until(settings_.next_hit(ahead) - ahead.count());
            inject();
          }
        } catch (const std::exception & error) {
          std::cerr << settings_.cause << ": " << error.what() << std::endl;
          std::_Exit(1);
        }
      });
  }

  const Settings & settings_;
  int cpu_;
  Injections & log_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::unique_ptr<File> file_;
  std::unique_ptr<Cgroup> cgroup_;
  std::unique_ptr<Storm> storm_;
  rclcpp::Service<Service>::SharedPtr service_;
  rclcpp::Client<Service>::SharedPtr client_;
  std::vector<std::thread> threads_;
  rclcpp::CallbackGroup::SharedPtr group_;
  std::vector<rclcpp::TimerBase::SharedPtr> timers_;
};

workloads::Log log_of_messages(const workloads::Options & options)
{
  return workloads::Log(
    options, "messages_" + options.text("role") + ".csv",
    "topic,sequence,publish_realtime_ns,callback_realtime_ns,publisher,subscription");
}

int publish(const workloads::Options & options, const Settings & settings)
{
  auto node = std::make_shared<rclcpp::Node>("publisher");
  auto publisher = node->create_publisher<Number>("/work", rclcpp::QoS(rclcpp::KeepLast(kBurst)));
  workloads::wait_for(options, [&] {return publisher->get_subscription_count() > 0;});
  workloads::say_ready();
  // The subscriber's injections begin within two rounds.
  Injections injections;
  auto log = log_of_messages(options);
  const auto first = workloads::now_ns() / settings.period + 1;
  const auto last = first + static_cast<std::int64_t>(settings.seconds * 1e9) / settings.period;
  for (auto index = first; index < last && rclcpp::ok(); ++index) {
    sleep_until(index * settings.period);
    const bool burst = settings.cause == "queue" && settings.hit(index);
    const auto begin = workloads::now_ns();
    for (std::size_t i = 0; i < (burst ? kBurst : 1); ++i) {
      Number message;
      message.data = static_cast<std::uint64_t>(index) * kBurst + i;
      const auto now = workloads::now_ns();
      publisher->publish(message);
      log.row(std::string("/work"), message.data, now, std::int64_t{0}, std::size_t{0}, std::string());
    }
    if (burst) {
      // The callbacks take this long.
      injections.add({begin, begin + static_cast<std::int64_t>(kBurst) * settings.work.count(), thread_id()});
    }
  }
  if (settings.cause == "queue") {
    injections.write(options, settings.cause);
  }
  workloads::sleep_for(0.5);
  return 0;
}

int subscribe(const workloads::Options & options, const Settings & settings, int cpu)
{
  struct Row
  {
    std::uint64_t sequence;
    std::int64_t start, end;
  };
  std::vector<Row> rows;
  Injections injections;
  Injector injector(settings, cpu, injections);
  auto node = std::make_shared<rclcpp::Node>("subscriber");
  auto subscription = node->create_subscription<Number>(
    "/work", rclcpp::QoS(rclcpp::KeepLast(kBurst)), [&](const Number & message) {
      const auto start = workloads::now_ns();
      workloads::busy(settings.work);
      injector.within_callback(
        settings.hit(static_cast<std::int64_t>(message.data / kBurst)));
      rows.push_back({message.data, start, workloads::now_ns()});
    });
  std::shared_ptr<rclcpp::Executor> executor;
  if (settings.cause == "same_group") {
    executor = std::make_shared<rclcpp::executors::MultiThreadedExecutor>(
      rclcpp::ExecutorOptions(), 2);
  } else {
    executor = std::make_shared<rclcpp::executors::SingleThreadedExecutor>();
  }
  injector.prepare(*node);
  {
    const workloads::Spinning spinning(
      executor, {node->get_node_base_interface()}, [&injector] {injector.executor_begins();});
    workloads::wait_for(options, [&] {return subscription->get_publisher_count() > 0;});
    injector.start(*node);
    while (rclcpp::ok() && subscription->get_publisher_count() > 0) {
      workloads::sleep_for(0.05);
    }
    injector.stop();
  }
  auto log = log_of_messages(options);
  workloads::Log callbacks(options, "callbacks.csv", "sequence,start_realtime_ns,end_realtime_ns");
  for (const auto & row : rows) {
    log.row(
      std::string("/work"), row.sequence, std::int64_t{0}, row.start, std::size_t{0},
      std::size_t{0});
    callbacks.row(row.sequence, row.start, row.end);
  }
  if (settings.cause != "queue" && settings.cause != "relay") {
    injections.write(options, settings.cause);
  }
  return 0;
}

}  // namespace

int main(int count, char ** values)
{
  // Set before the middleware starts threads: only the executor has the last CPU.
  const auto own = cpus();
  if (own.size() < 2) {
    std::cerr << values[0] << ": needs two CPUs" << std::endl;
    return 1;
  }
  stay_on(own.front());
  return workloads::run(
    count, values,
    {{"cause", "same_thread"}, {"role", "subscriber"}, {"rate", "50"}, {"every", "10"},
      {"hold_us", "15000"}},
    [&own](const workloads::Options & options) {
      const Settings settings(options);
      if (options.word("role", {"publisher", "subscriber"}) == "publisher") {
        return publish(options, settings);
      }
      return subscribe(options, settings, own.back());
    });
}
