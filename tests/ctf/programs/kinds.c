/* kinds COUNT: COUNT events of each kind of field, in two threads at once. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "kinds.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count;

static void *emit(void *unused)
{
  int32_t values[8];
  uint8_t bytes[24];
  (void) unused;
  for (int i = 0; i < count; i++) {
    char text[40];
    char padded[40] = {0};
    int64_t n = i % 2 ? -i : i;
    snprintf(text, sizeof text, "%.*s", i % 17, "grüße und \xf0\x9f\x90\xa2 so weiter");
    snprintf(padded, sizeof padded, "t%d", i);
    for (int k = 0; k < 8; k++) {
      values[k] = (i + k) * (k % 2 ? -1 : 1);
    }
    for (int k = 0; k < 24; k++) {
      bytes[k] = (uint8_t) (i * 7 + k);
    }
    lttng_ust_tracepoint(kinds, numbers, n);
    lttng_ust_tracepoint(kinds, texts, text, padded, (size_t) (i % 15 + 1));
    lttng_ust_tracepoint(kinds, lists, values, (size_t) (i % 9), bytes);
    lttng_ust_tracepoint(kinds, moods, i % 11);
    lttng_ust_tracepoint(kinds, nothing);
    if (i < 0) {
      lttng_ust_tracepoint(kinds, never, i);
    }
  }
  return NULL;
}

int main(int arguments, char **values)
{
  pthread_t other;
  count = arguments > 1 ? atoi(values[1]) : 100;
  if (pthread_create(&other, NULL, emit, NULL)) {
    return 1;
  }
  emit(NULL);
  return pthread_join(other, NULL) ? 1 : 0;
}
