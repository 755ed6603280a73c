/* A task's stack: painted before, read back after, as FreeRTOS does. */
#ifndef STACK_H
#define STACK_H

#include <stdint.h>

/* tskSTACK_FILL_BYTE of FreeRTOS, four times. */
#define STACK_PAINT 0xa5a5a5a5u

/* The stack grows from `words[count]` down to `words[0]`. */
struct stack {
  uint32_t *words;
  uint32_t count;
};

/* Run `task` on a painted stack; returns how many words were never touched. */
uint32_t stack_run(const struct stack *stack, void (*task)(void));

/* How many words of a painted stack were never touched. */
uint32_t stack_untouched(const struct stack *stack, uint32_t paint);

/* Touch every word of the stack that one runs on, from here down to `lowest`. */
void stack_touch_down_to(uint32_t *lowest);

#endif
