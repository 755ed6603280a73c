/* Tracepoints of the storage benchmark; LTTng-UST reads this file several times over. */
#undef TRACEPOINT_PROVIDER
#define TRACEPOINT_PROVIDER roslens_storage

#undef TRACEPOINT_INCLUDE
#define TRACEPOINT_INCLUDE "probe.h"

#if !defined(ROSLENS_STORAGE_PROBE_H) || defined(TRACEPOINT_HEADER_MULTI_READ)
#define ROSLENS_STORAGE_PROBE_H

#include <lttng/tracepoint.h>
#include <stdint.h>

TRACEPOINT_EVENT(
    roslens_storage, write_begin,
    TP_ARGS(uint64_t, call, uint64_t, bytes, uint64_t, messages),
    TP_FIELDS(ctf_integer(uint64_t, call, call) ctf_integer(uint64_t, bytes, bytes)
                  ctf_integer(uint64_t, messages, messages)))

TRACEPOINT_EVENT(roslens_storage, write_end, TP_ARGS(uint64_t, call),
                 TP_FIELDS(ctf_integer(uint64_t, call, call)))

TRACEPOINT_EVENT(roslens_storage, close_begin, TP_ARGS(), TP_FIELDS())

TRACEPOINT_EVENT(roslens_storage, close_end, TP_ARGS(), TP_FIELDS())

#endif

#include <lttng/tracepoint-event.h>
