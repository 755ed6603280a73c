/* Preloaded into the benchmark: counts what is asked of the C library's allocator, by any thread.

   The program reads the counts before and after each call. What is mapped without malloc is not
   counted, and nothing that is given back. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

/* glibc's own, which do the work. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

struct roslens_allocations {
  uint64_t number, bytes;
};

static struct roslens_allocations counted;

static void count(size_t bytes)
{
  __atomic_fetch_add(&counted.number, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&counted.bytes, bytes, __ATOMIC_RELAXED);
}

const struct roslens_allocations *roslens_allocations(void) { return &counted; }

void *malloc(size_t bytes)
{
  count(bytes);
  return __libc_malloc(bytes);
}

void *calloc(size_t number, size_t bytes)
{
  count(number * bytes);
  return __libc_calloc(number, bytes);
}

void *realloc(void *memory, size_t bytes)
{
  count(bytes);
  return __libc_realloc(memory, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
  count(bytes);
  return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
  void *found = memalign(alignment, bytes);
  if (!found) {
    return ENOMEM;
  }
  *memory = found;
  return 0;
}
