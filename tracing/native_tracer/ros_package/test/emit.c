/* Emits 10,000 events. */
#include <stdbool.h>
#include <stdint.h>

void ros_trace_callback_start(const void * callback, const bool is_intra_process);

int main(void)
{
  for (uintptr_t i = 1; i <= 10000; i++) {
    ros_trace_callback_start((void *) i, i & 1);
  }
  return 0;
}
