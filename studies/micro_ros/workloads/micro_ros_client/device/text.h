/* Numbers as text, without printf and what it takes from stack and heap. */
#ifndef TEXT_H
#define TEXT_H

#include <stdint.h>

struct text {
  char characters[120];
  uint32_t length;
};

void text_add(struct text *text, const char *more);
void text_add_decimal(struct text *text, uint32_t number);
void text_add_hexadecimal(struct text *text, uint32_t number);

#endif
