/* A publisher and a subscriber that call the tracepoints as rclcpp does, in two processes.

   talking MESSAGES PER_SECOND SLOW LOST: the callback of message SLOW takes 60 ms, message LOST is
   never taken; 0 for none. Eight events for each message: 10,000 events/s are 1,250 messages/s. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void ros_trace_rcl_init(const void *);
void ros_trace_rcl_node_init(const void *, const void *, const char *, const char *);
void ros_trace_rmw_publisher_init(const void *, const uint8_t *);
void ros_trace_rcl_publisher_init(
  const void *, const void *, const void *, const char *, const size_t);
void ros_trace_rclcpp_publish(const void *, const void *);
void ros_trace_rcl_publish(const void *, const void *);
void ros_trace_rmw_publish(const void *, const void *, int64_t);
void ros_trace_rmw_subscription_init(const void *, const uint8_t *);
void ros_trace_rcl_subscription_init(
  const void *, const void *, const void *, const char *, const size_t);
void ros_trace_rclcpp_subscription_init(const void *, const void *);
void ros_trace_rclcpp_subscription_callback_added(const void *, const void *);
void ros_trace_rclcpp_callback_register(const void *, const char *);
void ros_trace_rmw_take(const void *, const void *, int64_t, const bool);
void ros_trace_rcl_take(const void *);
void ros_trace_rclcpp_take(const void *);
void ros_trace_callback_start(const void *, const bool);
void ros_trace_callback_end(const void *);

#define AT(n) ((const void *) (uintptr_t) (n))

static int64_t now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

static void wait_ns(int64_t ns)
{
  struct timespec t = {ns / 1000000000, ns % 1000000000};
  nanosleep(&t, NULL);
}

static void talk(int to, long count, long per_second)
{
  static const uint8_t gid[24] = {1};
  ros_trace_rcl_init(AT(0x10));
  ros_trace_rcl_node_init(AT(0x20), AT(0x21), "talker", "/");
  ros_trace_rmw_publisher_init(AT(0x30), gid);
  ros_trace_rcl_publisher_init(AT(0x31), AT(0x20), AT(0x30), "/chatter", 10);
  int64_t begun = now();
  for (long i = 1; i <= count; i++) {
    int64_t wait = begun + i * (1000000000 / per_second) - now();
    if (wait > 1000000) {
      wait_ns(wait);
    }
    ros_trace_rclcpp_publish(AT(0x31), AT(0x1000));
    ros_trace_rcl_publish(AT(0x31), AT(0x1000));
    int64_t stamp = now();
    ros_trace_rmw_publish(AT(0x30), AT(0x1000), stamp);
    if (write(to, &stamp, sizeof stamp) != sizeof stamp) {
      return;
    }
  }
}

static void listen(int from, long slow, long lost)
{
  static const uint8_t gid[24] = {2};
  int64_t stamp;
  ros_trace_rcl_init(AT(0x10));
  ros_trace_rcl_node_init(AT(0x20), AT(0x21), "listener", "/");
  ros_trace_rmw_subscription_init(AT(0x40), gid);
  ros_trace_rcl_subscription_init(AT(0x41), AT(0x20), AT(0x40), "/chatter", 10);
  ros_trace_rclcpp_subscription_init(AT(0x41), AT(0x42));
  ros_trace_rclcpp_subscription_callback_added(AT(0x42), AT(0x43));
  ros_trace_rclcpp_callback_register(AT(0x43), "heard");
  for (long i = 1; read(from, &stamp, sizeof stamp) == sizeof stamp; i++) {
    if (i == lost) {
      continue;
    }
    ros_trace_rmw_take(AT(0x40), AT(0x2000), stamp, true);
    ros_trace_rcl_take(AT(0x2000));
    ros_trace_rclcpp_take(AT(0x2000));
    ros_trace_callback_start(AT(0x43), false);
    if (i == slow) {
      wait_ns(60000000);
    }
    ros_trace_callback_end(AT(0x43));
  }
}

int main(int argc, char ** argv)
{
  int ends[2];
  if (argc != 5 || pipe(ends) != 0) {
    return 2;
  }
  if (fork() == 0) {
    close(ends[1]);
    listen(ends[0], atol(argv[3]), atol(argv[4]));
    return 0;
  }
  close(ends[0]);
  wait_ns(50000000);
  talk(ends[1], atol(argv[1]), atol(argv[2]));
  close(ends[1]);
  wait(NULL);
  return 0;
}
