/* The parts of an ARM MPS2 board that the firmware uses: two timers and a UART. */
#ifndef BOARD_H
#define BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Both timers and the UART run at this rate. */
#define CLOCK_HZ 25000000u

void clock_begin(void);

/* Ticks of timer 0 since clock_begin(); call it at least once in 171 s. */
uint64_t clock_ticks(void);

/* Ticks of timer 1, a counter of its own, modulo 2^32. */
uint32_t stopwatch_ticks(void);

void uart_begin(void);
void uart_write(const void *data, size_t size);

/* Whether a byte was there. */
bool uart_read(uint8_t *byte);

#endif
