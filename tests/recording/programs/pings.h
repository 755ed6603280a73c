#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER ros2

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./pings.h"

#if !defined(PINGS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PINGS_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(
  ros2, ping,
  LTTNG_UST_TP_ARGS(int, number, const char *, text),
  LTTNG_UST_TP_FIELDS(
    lttng_ust_field_integer(int, number, number)
    lttng_ust_field_string(text, text)))

#endif

#include <lttng/tracepoint-event.h>
