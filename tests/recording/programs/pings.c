/* pings COUNT PAUSE_US TEXT: emits COUNT events ros2:ping. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "pings.h"

#include <stdlib.h>
#include <unistd.h>

int main(int count, char **values)
{
  int pings = atoi(values[1]);
  int pause_us = count > 2 ? atoi(values[2]) : 0;
  for (int i = 0; i < pings; i++) {
    lttng_ust_tracepoint(ros2, ping, i, count > 3 ? values[3] : "ping");
    if (pause_us) {
      usleep(pause_us);
    }
  }
  return 0;
}
