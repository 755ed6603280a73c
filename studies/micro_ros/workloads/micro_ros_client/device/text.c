#include "text.h"

static void add(struct text *text, char character) {
  if (text->length + 1 < sizeof(text->characters)) {
    text->characters[text->length++] = character;
    text->characters[text->length] = '\0';
  }
}

void text_add(struct text *text, const char *more) {
  while (*more) {
    add(text, *more++);
  }
}

static void add_number(struct text *text, uint32_t number, uint32_t base) {
  char digits[10];
  int count = 0;
  do {
    digits[count++] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number);
  while (count) {
    add(text, digits[--count]);
  }
}

void text_add_decimal(struct text *text, uint32_t number) { add_number(text, number, 10); }

void text_add_hexadecimal(struct text *text, uint32_t number) {
  text_add(text, "0x");
  add_number(text, number, 16);
}
