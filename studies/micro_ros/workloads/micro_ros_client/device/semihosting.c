#include "semihosting.h"

#include <stdint.h>
#include <string.h>

enum { SYS_OPEN = 0x01, SYS_CLOSE = 0x02, SYS_WRITE = 0x05 };
enum { SYS_GET_CMDLINE = 0x15, SYS_EXIT_EXTENDED = 0x20 };
enum { MODE_WRITE_BINARY = 5, REASON_EXIT = 0x20026 };

static int call(int number, const void *block) {
  register int r0 __asm__("r0") = number;
  register const void *r1 __asm__("r1") = block;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

int file_create(const char *name) {
  uint32_t block[3] = {(uint32_t)name, MODE_WRITE_BINARY, strlen(name)};
  int file = call(SYS_OPEN, block);
  if (file < 0) {
    end_program(3);
  }
  return file;
}

void file_write(int file, const void *data, size_t size) {
  uint32_t block[3] = {(uint32_t)file, (uint32_t)data, size};
  /* It returns how many bytes were not written. */
  if (size && call(SYS_WRITE, block) != 0) {
    end_program(4);
  }
}

void file_text(int file, const char *text) { file_write(file, text, strlen(text)); }

void file_close(int file) {
  uint32_t block[1] = {(uint32_t)file};
  call(SYS_CLOSE, block);
}

void command_line(char *text, size_t size) {
  uint32_t block[2] = {(uint32_t)text, size};
  if (call(SYS_GET_CMDLINE, block) != 0) {
    text[0] = '\0';
  }
}

_Noreturn void end_program(int status) {
  uint32_t block[2] = {REASON_EXIT, (uint32_t)status};
  for (;;) {
    call(SYS_EXIT_EXTENDED, block);
  }
}
