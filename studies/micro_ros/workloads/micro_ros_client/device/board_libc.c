/* A board's time, and what the libraries ask of an operating system. */
#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "board.h"
#include "platform.h"

#define NS_PER_TICK (1000000000 / CLOCK_HZ)

const int64_t stopwatch_resolution_ns = NS_PER_TICK;

int64_t device_ns(void) { return (int64_t)clock_ticks() * NS_PER_TICK; }

int64_t stopwatch_ns(void) {
  static uint32_t before;
  static int64_t wraps;
  uint32_t now = stopwatch_ticks();
  if (now < before) {
    wraps += (int64_t)1 << 32;
  }
  before = now;
  return (wraps + now) * NS_PER_TICK;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int64_t now = device_ns();
  (void)clock;
  time->tv_sec = now / 1000000000;
  time->tv_nsec = (long)(now % 1000000000);
  return 0;
}

/* There is no operating system: none of these is called where all goes well. */
int _close(int file) { return (void)file, -1; }
int _fstat(int file, struct stat *state) { return (void)file, (void)state, -1; }
int _isatty(int file) { return (void)file, 0; }
int _lseek(int file, int offset, int from) { return (void)file, (void)offset, (void)from, -1; }
int _read(int file, char *data, int size) { return (void)file, (void)data, (void)size, -1; }
int _write(int file, char *data, int size) { return (void)file, (void)data, size; }
int _kill(int process, int number) { return (void)process, (void)number, -1; }
int _getpid(void) { return 1; }
void _exit(int status) {
  extern _Noreturn void end_program(int status);
  end_program(status ? 8 : 0);
}
int usleep(useconds_t microseconds) {
  const int64_t end = device_ns() + (int64_t)microseconds * 1000;
  while (device_ns() < end) {
  }
  return 0;
}
