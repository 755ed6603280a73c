// Two functions that take as much CPU time as they are told, and return how much it was [s].
#include <time.h>

static double cpu(void)
{
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

static volatile unsigned long work;

__attribute__((noinline)) double spend(double seconds)
{
  double begin = cpu(), now = begin;
  while ((now = cpu()) < begin + seconds) {
    for (int i = 0; i < 1000; i++) {
      work += i;
    }
  }
  return now - begin;
}

// What they add keeps the calls from being jumps, which leave no frame.
__attribute__((noinline)) double alpha(double seconds) { return spend(seconds) + 0.0 * work; }
__attribute__((noinline)) double beta(double seconds) { return spend(seconds) + 0.0 * work; }
