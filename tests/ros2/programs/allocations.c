/* Two callbacks with known allocations, for a recording of the allocator.
   Callback 0x300 allocates and keeps, callback 0x400 frees what the first one left. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static void (*start)(const void *, bool), (*end)(const void *);
static void *(*volatile own_malloc)(size_t) = malloc;
static void (*volatile own_free)(void *) = free;
static void *(*volatile own_realloc)(void *, size_t) = realloc;
static void *(*volatile own_calloc)(size_t, size_t) = calloc;

int main(void)
{
  start = (void (*)(const void *, bool)) dlsym(RTLD_DEFAULT, "ros_trace_callback_start");
  end = (void (*)(const void *)) dlsym(RTLD_DEFAULT, "ros_trace_callback_end");
  if (!start || !end)
    return 1;
  /* Loads what the first calls allocate themselves. */
  start((void *) 0x300, false);
  end((void *) 0x300);

  start((void *) 0x300, false);
  char *kept = own_malloc(1000);
  char *zeroed = own_calloc(10, 20);
  void *aligned = NULL;
  if (posix_memalign(&aligned, 64, 512))
    return 2;
  char *other = memalign(128, 256);
  char *brief = own_malloc(77);
  own_free(brief);
  kept = own_realloc(kept, 3000);
  own_free(NULL);
  end((void *) 0x300);

  start((void *) 0x400, false);
  own_free(zeroed);
  own_free(aligned);
  own_free(other);
  char *small = own_malloc(50);
  end((void *) 0x400);
  return kept && small ? 0 : 3;
}
