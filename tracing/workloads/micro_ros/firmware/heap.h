/* newlib's allocator, every call of it logged as glibc's mtrace does. */
#ifndef HEAP_H
#define HEAP_H

#include <stddef.h>

void heap_log_begin(void);
void heap_log_end(void);

void *heap_allocate(size_t size);
void *heap_allocate_zeroed(size_t count, size_t size);
void *heap_reallocate(void *block, size_t size);
void heap_release(void *block);

#endif
