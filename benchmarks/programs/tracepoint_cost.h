#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER ros2

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./tracepoint_cost.h"

#if !defined(TRACEPOINT_COST_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACEPOINT_COST_H

#include <stdint.h>

#include <lttng/tracepoint.h>

/* The payload of ros2:rcl_publish. */
LTTNG_UST_TRACEPOINT_EVENT(
  ros2, cost,
  LTTNG_UST_TP_ARGS(const void *, publisher, const void *, message, int64_t, stamp),
  LTTNG_UST_TP_FIELDS(
    lttng_ust_field_integer_hex(uintptr_t, publisher, (uintptr_t)publisher)
    lttng_ust_field_integer_hex(uintptr_t, message, (uintptr_t)message)
    lttng_ust_field_integer(int64_t, stamp, stamp)))

#endif

#include <lttng/tracepoint-event.h>
