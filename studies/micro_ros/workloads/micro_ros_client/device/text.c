#include "text.h"

char *text_add(char *end, const char *more) {
  while ((*end = *more++)) {
    end++;
  }
  return end;
}

char *text_add_number(char *end, int64_t number) {
  char digits[20];
  int count = 0;
  uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
  if (number < 0) {
    *end++ = '-';
  }
  do {
    digits[count++] = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest);
  while (count) {
    *end++ = digits[--count];
  }
  *end = '\0';
  return end;
}

char *text_add_hexadecimal(char *end, uint32_t number) {
  int shift = 28;
  end = text_add(end, "0x");
  while (shift && !(number >> shift)) {
    shift -= 4;
  }
  for (; shift >= 0; shift -= 4) {
    *end++ = "0123456789abcdef"[number >> shift & 15];
  }
  *end = '\0';
  return end;
}
