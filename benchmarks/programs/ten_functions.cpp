// A timer whose callback calls ten functions of equal work, of which one may do a tenth more.
// ten_functions EXECUTIONS LOOPS SLOWER (-1: none); of 0 executions: prints the CPU time of one [s].
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <rclcpp/rclcpp.hpp>
#include <utility>

static volatile unsigned long work;

template <int N>
__attribute__((noinline)) void step(int loops)
{
  for (int i = 0; i < loops; i++) {
    work += i + N;
  }
}

template <int... N>
static void all(int loops, int slower, std::integer_sequence<int, N...>)
{
  (step<N>(N == slower ? loops + loops / 10 : loops), ...);
}

int main(int argc, char ** argv)
{
  int left = std::atoi(argv[1]), loops = std::atoi(argv[2]), slower = std::atoi(argv[3]);
  auto calls = std::make_integer_sequence<int, 10>();
  if (left == 0) {
    all(loops, slower, calls);
    std::printf("%f\n", static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
    return 0;
  }
  rclcpp::init(argc, argv);
  auto node = std::make_shared<rclcpp::Node>("planner");
  auto timer = node->create_wall_timer(std::chrono::milliseconds(20), [&] {
    all(loops, slower, calls);
    if (--left == 0) {
      rclcpp::shutdown();
    }
  });
  rclcpp::spin(node);
}
