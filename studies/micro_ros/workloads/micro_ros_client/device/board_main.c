/* Begins a program that has words on its command line. */
#include "board.h"
#include "platform.h"
#include "semihosting.h"

#define WORDS 20

int main(void) {
  static char line[256];
  char *words[WORDS];
  int count = 0;
  clock_begin();
  uart_begin();
  command_line(line, sizeof(line));
  for (char *at = line; *at && count < WORDS;) {
    words[count++] = at;
    while (*at && *at != ' ') {
      at++;
    }
    while (*at == ' ') {
      *at++ = '\0';
    }
  }
  return device(count, words);
}
