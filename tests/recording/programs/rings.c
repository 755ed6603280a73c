/* rings COUNT PAUSE_US BYTES: one event ros2:ring_init, COUNT events ros2:ring of BYTES each.

   With ROSLENS_READY_FILE set and a fourth argument N, makes that file after N events. Waits then
   until ros2:ring is recorded. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "rings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **values)
{
  int rings = atoi(values[1]);
  int pause_us = atoi(values[2]);
  int bytes = atoi(values[3]);
  int ready = count > 4 ? atoi(values[4]) : -1;
  char *text = malloc(bytes + 1);
  memset(text, 'x', bytes);
  text[bytes] = 0;
  lttng_ust_tracepoint(ros2, ring_init, rings);
  for (int i = 0; i < rings; i++) {
    if (i == ready) {
      FILE *file = fopen(getenv("ROSLENS_READY_FILE"), "w");
      if (file) {
        fclose(file);
      }
      while (!lttng_ust_tracepoint_enabled(ros2, ring)) {
        usleep(1000);
      }
    }
    lttng_ust_tracepoint(ros2, ring, i, text);
    if (pause_us) {
      usleep(pause_us);
    }
  }
  return 0;
}
