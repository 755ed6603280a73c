/* tracepoint_cost BURSTS EVENTS: prints CPU ns per event of each burst.

   A pause after each burst lets the tracer empty its buffers, so that nothing is discarded. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tracepoint_cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int count, char **values)
{
  int bursts = count > 1 ? atoi(values[1]) : 20;
  int events = count > 2 ? atoi(values[2]) : 20000;
  for (int burst = 0; burst < bursts; burst++) {
    double begin = now();
    for (int i = 0; i < events; i++) {
      lttng_ust_tracepoint(ros2, cost, &bursts, &begin, i);
    }
    printf("%.3f\n", (now() - begin) / events);
    usleep(50000);
  }
  return 0;
}
