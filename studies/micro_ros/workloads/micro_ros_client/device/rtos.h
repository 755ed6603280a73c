/* What runs the application: nothing (rtos_none.c), FreeRTOS or ThreadX. */
#ifndef RTOS_H
#define RTOS_H

#include "stack.h"

struct task {
  const char *name;
  char state; /* a letter of vTaskList(): X, R, B, S or D */
  uint32_t priority, number;
  struct stack stack;
  uint32_t untouched; /* words that were never used */
  uint32_t otherwise; /* the same as counted in another way, if there is one */
};

/* Run `application` in a task on this stack and then, in the same task, `ended` with all tasks.
 * Under an RTOS it does not return. */
void rtos_run(const struct stack *stack, void (*application)(void),
              void (*ended)(const struct task *tasks, uint32_t count));

/* Let other tasks run until the next tick, if there are any. */
void rtos_wait(void);

#endif
