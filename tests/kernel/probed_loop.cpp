// Functions that are no callbacks; each writes to standard output when it ran, by its own clock:
// name, begin and end [ns of CLOCK_MONOTONIC], an end of 0 where it does not return. Who calls it
// writes the same from without, as around_ and the name.
//
// Arguments: how many periods of 10 ms.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <thread>

#define PLAIN __attribute__((noinline, visibility("default")))

static long long now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int say(const char *name, long long begin, long long end) {
  return std::printf("%s,%lld,%lld\n", name, begin, end);
}

static std::jmp_buf back;

namespace probed {
struct Loop {
  PLAIN int update(long long busy_ns);
  PLAIN int nested(int depth);
  PLAIN int leaves(int how);
};

int Loop::update(long long busy_ns) {
  long long begin = now();
  while (now() - begin < busy_ns) {
  }
  return say("update", begin, now()) > 0 ? 1 : 0;
}

int Loop::nested(int depth) {
  long long begin = now();
  int sum = 0;
  for (int call = 0; depth > 0 && call < 2; call++) {
    long long before = now();
    sum += nested(depth - 1);
    say("around_nested", before, now());
  }
  say("nested", begin, now());
  return sum + depth;
}

int Loop::leaves(int how) {
  long long begin = now();
  say("leaves", begin, how ? 0 : now());
  if (how == 1) throw std::runtime_error("left");
  if (how == 2) std::longjmp(back, 1);
  if (how == 3) pthread_exit(nullptr);
  return how;
}
}  // namespace probed

extern "C" PLAIN void never_called() { std::puts(""); }

int main(int, char **arguments) {
  probed::Loop loop;
  timespec due;
  clock_gettime(CLOCK_MONOTONIC, &due);
  for (int turn = std::atoi(arguments[1]); turn > 0; turn--) {
    long long before = now();
    loop.update(turn % 10 ? 1000000 : 3000000);
    say("around_update", before, now());
    due.tv_nsec += 10000000;
    due.tv_sec += due.tv_nsec / 1000000000;
    due.tv_nsec %= 1000000000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr);
  }
  volatile long long before = now();
  loop.nested(4);
  say("around_nested", before, now());
  for (volatile int how = 0; how < 9; how = how + 1) {
    before = now();
    if (setjmp(back) == 0) {
      try {
        loop.leaves(how % 3);
      } catch (const std::exception &) {
      }
    }
    say("around_leaves", before, how % 3 ? 0 : now());
  }
  for (int how : {3, 0}) {
    before = now();
    std::thread([&] { loop.leaves(how); }).join();
    say("around_leaves", before, how ? 0 : now());
  }
  return 0;
}
