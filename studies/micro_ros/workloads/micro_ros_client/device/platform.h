/* What the programs need of a host or a board. */
#ifndef PLATFORM_H
#define PLATFORM_H

#include <stdbool.h>
#include <stdint.h>

/* ns of the device's clock, and of a stopwatch apart from it where there is one. */
int64_t device_ns(void);
int64_t stopwatch_ns(void);
extern const int64_t stopwatch_resolution_ns;

/* Let micro-ROS use a transport: udp, tcp or tcp_no_delay with a port, serial with a file descriptor. */
bool use_transport(const char *name, const char *where);

/* A program that has words on its command line: its exit status. */
int device(int count, char **words);

#endif
