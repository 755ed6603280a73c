/* Numbers as text, without printf and what it takes from stack and heap. Each function writes at the
 * end of a text, which it returns moved. */
#ifndef TEXT_H
#define TEXT_H

#include <stdint.h>

char *text_add(char *end, const char *more);
char *text_add_number(char *end, int64_t number);
char *text_add_hexadecimal(char *end, uint32_t number);

#endif
