// heaptrack removes itself, and everything else that was preloaded, from the environment of the
// programs that this one starts. This library restores it.
#include <stdlib.h>

static void again(const char *name, const char *kept) {
  const char *value = getenv(kept);
  if (value) setenv(name, value, 1);
}

__attribute__((constructor)) static void start(void) {
  void *volatile first = malloc(1);  // it begins with the first allocation
  free(first);
  again("LD_PRELOAD", "ROSLENS_HEAPTRACK_PRELOAD");
  again("DUMP_HEAPTRACK_OUTPUT", "ROSLENS_HEAPTRACK_OUTPUT");
}
