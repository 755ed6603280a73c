#include <tx_api.h>
#include <tx_initialize.h>
#include <tx_thread.h>
#include <tx_timer.h>

#include "board.h"
#include "rtos.h"
#include "semihosting.h"

#define MOST_TASKS 4
#define TICKS_PER_SECOND 1000
#define APP_PRIORITY 1

#define SYSTICK_CONTROL (*(volatile uint32_t *)0xe000e010u)
#define SYSTICK_RELOAD (*(volatile uint32_t *)0xe000e014u)
#define PRIORITIES (*(volatile uint32_t *)0xe000ed20u)
enum { SYSTICK_ON = 1, SYSTICK_INTERRUPT = 2, SYSTICK_OF_PROCESSOR = 4 };

static const struct stack *app_stack;
static void (*run_application)(void);
static void (*run_ended)(const struct task *tasks, uint32_t count);

static char state_of(const TX_THREAD *thread) {
  switch (thread->tx_thread_state) {
  case TX_READY:
    return thread == _tx_thread_current_ptr ? 'X' : 'R';
  case TX_SUSPENDED:
    return 'S';
  case TX_COMPLETED:
  case TX_TERMINATED:
    return 'D';
  default:
    return 'B';
  }
}

/* Apart from app(), whose frame lies on the stack while the application runs. */
__attribute__((noinline)) static void end(void) {
  static struct task tasks[MOST_TASKS];
  TX_THREAD *thread = _tx_thread_created_ptr;
  uint32_t count = 0;
  while (count < _tx_thread_created_count && count < MOST_TASKS) {
    uint32_t *const words = thread->tx_thread_stack_start;
    const struct stack stack = {words, thread->tx_thread_stack_size / sizeof(*words)};
    /* A search by halving, which may end at a gap between used words. */
    _tx_thread_stack_analyze(thread);
    tasks[count] = (struct task){
        .name = thread->tx_thread_name,
        .state = state_of(thread),
        .priority = thread->tx_thread_priority,
        .number = count + 1,
        .stack = stack,
        .untouched = stack_untouched(&stack, TX_STACK_FILL),
        .otherwise = (uint32_t *)thread->tx_thread_stack_highest_ptr - words,
    };
    thread = thread->tx_thread_created_next;
    count++;
  }
  run_ended(tasks, count);
}

static void app(ULONG unused) {
  (void)unused;
  run_application();
  end();
}

static void overflow(TX_THREAD *thread) {
  (void)thread;
  end_program(7);
}

void tx_application_define(void *unused) {
  static TX_THREAD memory;
  (void)unused;
  tx_thread_stack_error_notify(overflow);
  tx_thread_create(&memory, "app", app, 0, app_stack->words, app_stack->count * sizeof(uint32_t),
                   APP_PRIORITY, APP_PRIORITY, TX_NO_TIME_SLICE, TX_AUTO_START);
}

void rtos_run(const struct stack *stack, void (*application)(void),
              void (*ended)(const struct task *tasks, uint32_t count)) {
  app_stack = stack, run_application = application, run_ended = ended;
  tx_kernel_enter();
}

void rtos_wait(void) {
  if (tx_thread_identify()) {
    tx_thread_sleep(1);
  }
}

/* What ThreadX asks of a board: a tick, and that switching threads has the lowest priority. */
void _tx_initialize_low_level(void) {
  __asm__ volatile("cpsid i");
  PRIORITIES = 0x40ff0000u;
  SYSTICK_RELOAD = CLOCK_HZ / TICKS_PER_SECOND - 1;
  SYSTICK_CONTROL = SYSTICK_ON | SYSTICK_INTERRUPT | SYSTICK_OF_PROCESSOR;
}

void SysTick_Handler(void) { _tx_timer_interrupt(); }
