/* A host: the client library's own transports, behind its custom one so that one program has all. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rmw_microros/rmw_microros.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <uxr/client/client.h>

#include "platform.h"
#include "semihosting.h"

const int64_t stopwatch_resolution_ns = 1;

static union {
  uxrUDPTransport udp;
  uxrTCPTransport tcp;
  uxrSerialTransport serial;
} line;
static uxrCommunication *below;
static const char *kind, *place;

static int64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t device_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
int64_t stopwatch_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

static bool is_tcp(void) { return !strncmp(kind, "tcp", 3); }

/* Neither Nagle's algorithm, which holds back what follows a short write, nor acknowledgements that
 * are delayed, for which the agent's own writes wait. The latter is asked for again and again. */
static bool hurry(int option) {
  const int yes = 1;
  return strcmp(kind, "tcp_no_delay") ||
         !setsockopt(line.tcp.platform.poll_fd.fd, IPPROTO_TCP, option, &yes, sizeof(yes));
}

static bool open_line(struct uxrCustomTransport *transport) {
  (void)transport;
  if (!strcmp(kind, "udp")) {
    below = &line.udp.comm;
    return uxr_init_udp_transport(&line.udp, UXR_IPv4, "127.0.0.1", place);
  }
  if (is_tcp()) {
    below = &line.tcp.comm;
    return uxr_init_tcp_transport(&line.tcp, UXR_IPv4, "127.0.0.1", place) && hurry(TCP_NODELAY);
  }
  /* As the agent's end: address 1 to address 0. It is closed and opened again. */
  below = &line.serial.comm;
  return uxr_init_serial_transport(&line.serial, dup(atoi(place)), 0, 1);
}

static bool close_line(struct uxrCustomTransport *transport) {
  (void)transport;
  if (!strcmp(kind, "udp")) {
    return uxr_close_udp_transport(&line.udp);
  }
  return is_tcp() ? uxr_close_tcp_transport(&line.tcp) : uxr_close_serial_transport(&line.serial);
}

static size_t write_line(struct uxrCustomTransport *transport, const uint8_t *data, size_t size,
                         uint8_t *error) {
  (void)transport;
  *error = 0;
  return below->send_msg(below->instance, data, size) ? size : 0;
}

static size_t read_line(struct uxrCustomTransport *transport, uint8_t *data, size_t size,
                        int milliseconds, uint8_t *error) {
  uint8_t *message;
  size_t length;
  (void)transport;
  *error = 0;
  hurry(TCP_QUICKACK);
  if (!below->recv_msg(below->instance, &message, &length, milliseconds) || length > size) {
    return 0;
  }
  memcpy(data, message, length);
  return length;
}

bool use_transport(const char *name, const char *where) {
  kind = name;
  place = where;
  return RMW_RET_OK == rmw_uros_set_custom_transport(false, NULL, open_line, close_line, write_line,
                                                     read_line);
}

int file_create(const char *name) { return open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666); }
void file_write(int file, const void *data, size_t size) {
  if (write(file, data, size) != (ssize_t)size) {
    end_program(4);
  }
}
void file_text(int file, const char *text) { file_write(file, text, strlen(text)); }
void file_close(int file) { close(file); }
_Noreturn void end_program(int status) { exit(status); }

int main(int count, char **words) { return device(count - 1, words + 1); }
