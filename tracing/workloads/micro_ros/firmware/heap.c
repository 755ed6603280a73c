#include "heap.h"

#include <stdint.h>
#include <stdlib.h>

#include "semihosting.h"
#include "text.h"
#include "trace.h"

static int file;

void heap_log_begin(void) {
  file = file_create("heap.mtrace");
  file_text(file, "= Start\n");
}

void heap_log_end(void) {
  file_text(file, "= End\n");
  file_close(file);
}

static void log_call(const char *what, void *caller, void *block, const uint32_t *size) {
  struct text line = {.length = 0};
  text_add(&line, "@ firmware.elf:[");
  text_add_hexadecimal(&line, (uint32_t)caller);
  text_add(&line, "] ");
  text_add(&line, what);
  text_add(&line, " ");
  text_add_hexadecimal(&line, (uint32_t)block);
  if (size) {
    text_add(&line, " ");
    text_add_hexadecimal(&line, *size);
  }
  text_add(&line, "\n");
  file_text(file, line.characters);
}

static void *logged(void *block, uint32_t size, void *caller) {
  if (block) {
    log_call("+", caller, block, &size);
    trace_allocation((uint32_t)block, size);
  } else {
    end_program(6);
  }
  return block;
}

void *heap_allocate(size_t size) {
  return logged(malloc(size), size, __builtin_return_address(0));
}

void *heap_allocate_zeroed(size_t count, size_t size) {
  return logged(calloc(count, size), count * size, __builtin_return_address(0));
}

void *heap_reallocate(void *block, size_t size) {
  void *caller = __builtin_return_address(0);
  const uint32_t wanted = size;
  log_call("<", caller, block, NULL);
  trace_release((uint32_t)block);
  void *moved = realloc(block, size);
  if (!moved) {
    end_program(6);
  }
  log_call(">", caller, moved, &wanted);
  trace_allocation((uint32_t)moved, size);
  return moved;
}

void heap_release(void *block) {
  log_call("-", __builtin_return_address(0), block, NULL);
  trace_release((uint32_t)block);
  free(block);
}
