#include "heap.h"

#include <stddef.h>
#include <stdint.h>

#include "semihosting.h"
#include "text.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
void *__real__sbrk(ptrdiff_t increment);

#define LINE 120

static int file = -1;
static ptrdiff_t taken, most_taken;

void *__wrap__sbrk(ptrdiff_t increment) {
  void *block = __real__sbrk(increment);
  if (block != (void *)-1) {
    taken += increment;
    most_taken = taken > most_taken ? taken : most_taken;
  }
  return block;
}

uint32_t heap_taken(void) { return (uint32_t)most_taken; }

void heap_log_begin(void) {
  file = file_create("heap.mtrace");
  file_text(file, "= Start\n");
}

void heap_log_end(void) {
  file_text(file, "= End\n");
  file_close(file);
  file = -1;
}

static void log_call(const char *what, void *caller, void *block, const uint32_t *size) {
  /* Not on the stack, which is measured. */
  static char line[LINE];
  if (file < 0) {
    return;
  }
  char *end = text_add_hexadecimal(text_add(line, "@ firmware.elf:["), (uint32_t)caller);
  end = text_add(text_add(text_add(end, "] "), what), " ");
  end = text_add_hexadecimal(end, (uint32_t)block);
  if (size) {
    end = text_add_hexadecimal(text_add(end, " "), *size);
  }
  text_add(end, "\n");
  file_text(file, line);
}

static void *logged(void *block, uint32_t size, void *caller) {
  if (!block) {
    end_program(6);
  }
  log_call("+", caller, block, &size);
  return block;
}

void *__wrap_malloc(size_t size) {
  return logged(__real_malloc(size), size, __builtin_return_address(0));
}

void *__wrap_calloc(size_t count, size_t size) {
  return logged(__real_calloc(count, size), count * size, __builtin_return_address(0));
}

void *__wrap_realloc(void *block, size_t size) {
  void *caller = __builtin_return_address(0);
  const uint32_t wanted = size;
  if (!block) {
    return logged(__real_malloc(size), size, caller);
  }
  log_call("<", caller, block, NULL);
  void *moved = __real_realloc(block, size);
  if (!moved) {
    end_program(6);
  }
  log_call(">", caller, moved, &wanted);
  return moved;
}

void __wrap_free(void *block) {
  if (block) {
    log_call("-", __builtin_return_address(0), block, NULL);
  }
  __real_free(block);
}
