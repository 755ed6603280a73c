#include "stack.h"

__attribute__((naked)) static void run_on(__attribute__((unused)) void (*task)(void),
                                            __attribute__((unused)) uint32_t *top) {
  __asm__ volatile(
      "push {r4, lr}\n"
      "mov r4, sp\n"
      "mov sp, r1\n"
      "blx r0\n"
      "mov sp, r4\n"
      "pop {r4, pc}\n");
}

__attribute__((naked)) void stack_touch_down_to(__attribute__((unused)) uint32_t *lowest) {
  __asm__ volatile(
      "push {r4, lr}\n"
      "mov r4, sp\n"
      "movs r1, #0\n"
      "1: mov r2, sp\n"
      "cmp r2, r0\n"
      "bls 2f\n"
      "push {r1}\n"
      "b 1b\n"
      "2: mov sp, r4\n"
      "pop {r4, pc}\n");
}

uint32_t stack_run(const struct stack *stack, void (*task)(void)) {
  for (uint32_t i = 0; i < stack->count; i++) {
    stack->words[i] = STACK_PAINT;
  }
  run_on(task, stack->words + stack->count);
  return stack_untouched(stack, STACK_PAINT);
}

uint32_t stack_untouched(const struct stack *stack, uint32_t paint) {
  uint32_t untouched = 0;
  while (untouched < stack->count && stack->words[untouched] == paint) {
    untouched++;
  }
  return untouched;
}
