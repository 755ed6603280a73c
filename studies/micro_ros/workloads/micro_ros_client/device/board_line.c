/* micro-ROS over a board's UART. */
#include <rmw_microros/rmw_microros.h>

#include "board.h"
#include "platform.h"
#include "rtos.h"

static bool open_line(struct uxrCustomTransport *transport) {
  (void)transport;
  return true;
}

static size_t write_line(struct uxrCustomTransport *transport, const uint8_t *data, size_t size,
                         uint8_t *error) {
  (void)transport;
  *error = 0;
  uart_write(data, size);
  return size;
}

/* What is there; the first byte is waited for, while other tasks run. */
static size_t read_line(struct uxrCustomTransport *transport, uint8_t *data, size_t size,
                        int milliseconds, uint8_t *error) {
  const int64_t end = device_ns() + (int64_t)milliseconds * 1000000;
  size_t count = 0;
  (void)transport;
  *error = 0;
  for (;;) {
    while (count < size && uart_read(&data[count])) {
      count++;
    }
    if (count || device_ns() >= end) {
      return count;
    }
    rtos_wait();
  }
}

bool use_transport(const char *name, const char *where) {
  (void)name;
  (void)where;
  return RMW_RET_OK ==
         rmw_uros_set_custom_transport(true, NULL, open_line, open_line, write_line, read_line);
}
