/* Exchanges stamped messages with an agent over the UART, as frames.py lays them out. */
#include <stdint.h>
#include <string.h>

#include "board.h"
#include "semihosting.h"

#ifndef MILLISECONDS
#define MILLISECONDS 2000
#endif
#ifndef OFFSET_NS
#define OFFSET_NS 0
#endif
#ifndef DRIFT_PPB
#define DRIFT_PPB 0
#endif
#ifndef PAYLOAD
#define PAYLOAD 16
#endif
#ifndef PAUSE_MICROSECONDS
#define PAUSE_MICROSECONDS 1000
#endif

#define NS_PER_TICK (1000000000u / CLOCK_HZ)
#define NOTHING INT64_MIN

enum { PING = 1, PONG = 2, BYE = 5 };
enum { FRAME_MAGIC = 0x524c };

struct __attribute__((packed)) frame {
  uint16_t magic;
  uint8_t kind;
  uint8_t reserved;
  uint32_t sequence;
  int64_t stamp;
  int64_t previous;
  uint32_t round_trip;
  uint32_t round_trip_uncertainty;
  uint16_t length;
};
_Static_assert(sizeof(struct frame) == 34, "frames.py has 34 bytes");

/* The board's clock: a counter, told to be wrong by OFFSET_NS and DRIFT_PPB. */
static int64_t device_ns(void) {
  int64_t ns = (int64_t)(clock_ticks() * NS_PER_TICK);
  return ns + OFFSET_NS + (ns / 1000) * DRIFT_PPB / 1000000;
}

/* Whether the answer to a ping came in time; late answers to earlier ones are passed over. */
static int receive(struct frame *frame, uint32_t sequence, uint64_t until) {
  uint8_t *bytes = (uint8_t *)frame;
  static uint32_t have;
  for (;;) {
    while (have < sizeof(*frame)) {
      if (uart_read(&bytes[have])) {
        have++;
      } else if (clock_ticks() > until) {
        return 0;
      }
    }
    have = 0;
    if (frame->magic != FRAME_MAGIC) {
      end_program(7);
    }
    if (frame->kind == PONG && frame->sequence == sequence) {
      return 1;
    }
  }
}

int main(void) {
  static uint8_t payload[PAYLOAD];
  struct frame frame, answer;
  int64_t before = NOTHING;
  uint32_t round_trip = 0, uncertainty = 0, sequence = 0;
  clock_begin();
  uart_begin();
  memset(payload, 0x5a, sizeof(payload));
  const uint64_t end = clock_ticks() + (uint64_t)MILLISECONDS * (CLOCK_HZ / 1000);
  while (clock_ticks() < end) {
    frame = (struct frame){FRAME_MAGIC, PING, 0, sequence, 0, before, round_trip, uncertainty,
                           PAYLOAD};
    /* The stopwatch is read on either side of the clock: that much is not known about it. */
    const uint32_t first = stopwatch_ticks();
    frame.stamp = device_ns();
    const uint32_t second = stopwatch_ticks();
    uart_write(&frame, sizeof(frame));
    uart_write(payload, sizeof(payload));
    before = NOTHING;
    if (receive(&answer, sequence, clock_ticks() + CLOCK_HZ)) {
      const uint32_t third = stopwatch_ticks();
      before = device_ns();
      const uint32_t fourth = stopwatch_ticks();
      const uint32_t shortest = third - second, longest = fourth - first;
      round_trip = (shortest + longest) / 2 * NS_PER_TICK;
      /* Half of the difference, and a tick for each of the four readings. */
      uncertainty = ((longest - shortest) / 2 + 4) * NS_PER_TICK;
    }
    sequence++;
    const uint64_t rest = clock_ticks() + PAUSE_MICROSECONDS * (CLOCK_HZ / 1000000);
    while (clock_ticks() < rest) {
    }
  }
  frame = (struct frame){FRAME_MAGIC, BYE, 0, sequence, device_ns(), before, round_trip,
                         uncertainty, 0};
  uart_write(&frame, sizeof(frame));
  return 0;
}
