// N timers with one period that work for some time.
//
// Writes timers.csv: timer, sequence, start_realtime_ns, end_realtime_ns.

#include <memory>
#include <string>
#include <vector>

#include "workload.hpp"

namespace
{

int work(const workloads::Options & options)
{
  const auto timers = options.count("timers", 1);
  const auto period = std::chrono::duration<double>(options.number("period_us", 1) / 1e6);
  const auto busy = std::chrono::nanoseconds(
    static_cast<std::int64_t>(options.number("busy_us") * 1000));
  const auto room = static_cast<std::size_t>(options.number("seconds") / period.count() * 1.2) + 16;
  using Span = std::pair<std::int64_t, std::int64_t>;
  std::vector<std::vector<Span>> spans(timers);
  auto node = std::make_shared<rclcpp::Node>("timers");
  std::vector<rclcpp::TimerBase::SharedPtr> made;
  const bool reentrant = options.word("group", {"exclusive", "reentrant"}) == "reentrant";
  for (std::size_t i = 0; i < timers; ++i) {
    spans[i].reserve(room);
    // Each timer gets its own group if timers may run in parallel.
    auto group = reentrant ? node->create_callback_group(
      rclcpp::CallbackGroupType::MutuallyExclusive) : nullptr;
    made.push_back(
      node->create_wall_timer(
        std::chrono::duration_cast<std::chrono::nanoseconds>(period),
        [&spans, i, busy] {
          const auto start = workloads::now_ns();
          workloads::busy(busy);
          spans[i].emplace_back(start, workloads::now_ns());
        }, group));
  }
  {
    workloads::Spinning spinning(options, {node->get_node_base_interface()});
    workloads::say_ready();
    workloads::sleep_for(options.number("seconds"));
  }
  workloads::Log log(options, "timers.csv", "timer,sequence,start_realtime_ns,end_realtime_ns");
  for (std::size_t t = 0; t < timers; ++t) {
    for (std::size_t i = 0; i < spans[t].size(); ++i) {
      log.row(t, i, spans[t][i].first, spans[t][i].second);
    }
  }
  return 0;
}

}  // namespace

int main(int count, char ** values)
{
  return workloads::run(
    count, values,
    {{"timers", "1"}, {"period_us", "10000"}, {"busy_us", "0"}, {"group", "exclusive"}}, work);
}
