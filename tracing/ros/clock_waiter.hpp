// rclcpp::ClockWaiter, which cm_executors wants and later versions of rclcpp have: waiting until a
// time of a clock, or until somebody says that the condition may hold. Included before cm_executors.
#ifndef ROSLENS__CLOCK_WAITER_HPP_
#define ROSLENS__CLOCK_WAITER_HPP_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "rclcpp/clock.hpp"

namespace rclcpp
{

class ClockWaiter
{
public:
  using UniquePtr = std::unique_ptr<ClockWaiter>;

  explicit ClockWaiter(const Clock::SharedPtr & clock)
  : clock_(clock) {}

  bool wait_until(
    std::unique_lock<std::mutex> & lock, const Time & until, const std::function<bool()> & holds)
  {
    if (until.get_clock_type() != clock_->get_clock_type()) {
      throw std::runtime_error("the time to wait until is of another clock");
    }
    while (!holds()) {
      const std::chrono::nanoseconds left((until - clock_->now()).nanoseconds());
      if (left <= left.zero()) {
        return holds();
      }
      // A simulated time does not pass as ours does, and a system's may be set.
      const bool steady = clock_->get_clock_type() == RCL_STEADY_TIME;
      changed_.wait_for(lock, steady ? std::min(left, kLongest) : std::min(left, kLook));
    }
    return true;
  }

  void notify_one() {changed_.notify_one();}

private:
  static constexpr std::chrono::nanoseconds kLook = std::chrono::milliseconds(10);
  // The C library's own sum with the present time must not overflow.
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(1);

  Clock::SharedPtr clock_;
  std::condition_variable changed_;
};

}  // namespace rclcpp

#endif  // ROSLENS__CLOCK_WAITER_HPP_
