/* Waits for 100 ms six times; the tracer says of two of them that an executor waits for work. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

void ros_trace_callback_start(const void * callback, const bool is_intra_process);
void ros_trace_callback_end(const void * callback);
void ros_trace_rclcpp_executor_wait_for_work(const int64_t timeout);

static void wait_100_ms(void)
{
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += 100000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_mutex_lock(&mutex);
  pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until);
  pthread_mutex_unlock(&mutex);
}

int main(void)
{
  char outer, inner;
  wait_100_ms(); /* No executor: it ran no callback. */
  ros_trace_callback_start(&outer, false);
  ros_trace_callback_start(&inner, false);
  wait_100_ms(); /* The callback waits. */
  ros_trace_callback_end(&inner);
  wait_100_ms(); /* So does the outer one. */
  ros_trace_callback_end(&outer);
  wait_100_ms();
  ros_trace_callback_start(&inner, false);
  ros_trace_callback_end(&inner);
  wait_100_ms();
  ros_trace_rclcpp_executor_wait_for_work(-1);
  wait_100_ms(); /* rclcpp's own event tells it. */
}
