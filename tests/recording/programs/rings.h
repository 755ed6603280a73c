#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER ros2

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./rings.h"

#if !defined(RINGS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define RINGS_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(
  ros2, ring_init, LTTNG_UST_TP_ARGS(int, number),
  LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, number, number)))

LTTNG_UST_TRACEPOINT_EVENT(
  ros2, ring, LTTNG_UST_TP_ARGS(int, number, const char *, text),
  LTTNG_UST_TP_FIELDS(
    lttng_ust_field_integer(int, number, number)
    lttng_ust_field_string(text, text)))

#endif

#include <lttng/tracepoint-event.h>
