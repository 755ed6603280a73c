#include <FreeRTOS.h>
#include <task.h>

#include "rtos.h"

#define MOST_TASKS 4

static const struct stack *app_stack;
static void (*run_application)(void);
static void (*run_ended)(const struct task *tasks, uint32_t count);

/* Apart from app(), whose frame lies on the stack while the application runs. */
__attribute__((noinline)) static void end(void) {
  static TaskStatus_t states[MOST_TASKS];
  static struct task tasks[MOST_TASKS];
  const UBaseType_t count = uxTaskGetSystemState(states, MOST_TASKS, NULL);
  for (UBaseType_t i = 0; i < count; i++) {
    const TaskStatus_t *state = &states[i];
    /* The other one is the kernel's idle task. */
    const bool own = state->pxStackBase == app_stack->words;
    const struct stack stack = {state->pxStackBase,
                                own ? app_stack->count : configMINIMAL_STACK_SIZE};
    tasks[i] = (struct task){
        .name = state->pcTaskName,
        .state = "XRBSD"[state->eCurrentState],
        .priority = state->uxCurrentPriority,
        .number = state->xTaskNumber,
        .stack = stack,
        .untouched = state->usStackHighWaterMark,
        .otherwise = stack_untouched(&stack, STACK_PAINT),
    };
  }
  run_ended(tasks, count);
}

static void app(void *unused) {
  (void)unused;
  run_application();
  end();
}

void rtos_run(const struct stack *stack, void (*application)(void),
              void (*ended)(const struct task *tasks, uint32_t count)) {
  static StaticTask_t memory;
  app_stack = stack, run_application = application, run_ended = ended;
  xTaskCreateStatic(app, "app", stack->count, NULL, tskIDLE_PRIORITY + 1, stack->words, &memory);
  vTaskStartScheduler();
}

void rtos_wait(void) {
  if (xTaskGetSchedulerState() == taskSCHEDULER_RUNNING) {
    vTaskDelay(1);
  }
}

void vApplicationStackOverflowHook(TaskHandle_t task, char *name) {
  (void)task, (void)name;
  end_program(7);
}
