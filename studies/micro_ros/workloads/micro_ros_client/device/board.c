#include "board.h"

struct timer {
  volatile uint32_t control;
  volatile uint32_t value;
  volatile uint32_t reload;
  volatile uint32_t interrupt;
};

struct uart {
  volatile uint32_t data;
  volatile uint32_t state;
  volatile uint32_t control;
  volatile uint32_t interrupt;
  volatile uint32_t divider;
};

#define TIMER0 ((struct timer *)0x40000000u)
#define TIMER1 ((struct timer *)0x40001000u)
#define UART0 ((struct uart *)0x40004000u)

enum { TIMER_ON = 1 };
enum { UART_TX_FULL = 1, UART_RX_FULL = 2 };
enum { UART_TX_ON = 1, UART_RX_ON = 2 };

static uint32_t before;
static uint64_t wraps;

/* The timers count down. */
static uint32_t counted(const struct timer *timer) { return UINT32_MAX - timer->value; }

void clock_begin(void) {
  TIMER0->reload = UINT32_MAX;
  TIMER0->value = UINT32_MAX;
  TIMER0->control = TIMER_ON;
  TIMER1->reload = UINT32_MAX;
  TIMER1->value = UINT32_MAX;
  TIMER1->control = TIMER_ON;
}

uint64_t clock_ticks(void) {
  uint32_t now = counted(TIMER0);
  if (now < before) {
    wraps += (uint64_t)1 << 32;
  }
  before = now;
  return wraps + now;
}

uint32_t stopwatch_ticks(void) { return counted(TIMER1); }

void uart_begin(void) {
  UART0->divider = 217; /* 115,200 baud at 25 MHz; qemu takes any */
  UART0->control = UART_TX_ON | UART_RX_ON;
}

void uart_write(const void *data, size_t size) {
  const uint8_t *bytes = data;
  for (size_t i = 0; i < size; i++) {
    while (UART0->state & UART_TX_FULL) {
    }
    UART0->data = bytes[i];
  }
}

bool uart_read(uint8_t *byte) {
  if (!(UART0->state & UART_RX_FULL)) {
    return false;
  }
  *byte = (uint8_t)UART0->data;
  return true;
}
