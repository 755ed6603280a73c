/* Every call of the allocator logged as glibc's mtrace does; linked with --wrap. */
#ifndef HEAP_H
#define HEAP_H

#include <stdint.h>

void heap_log_begin(void);
void heap_log_end(void);

/* The most bytes that the allocator had of the system: counted apart from what is asked of it. */
uint32_t heap_taken(void);

#endif
