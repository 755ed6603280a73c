/* The storage benchmark's tracepoints, as functions that Rust calls. */
#define TRACEPOINT_CREATE_PROBES
#define TRACEPOINT_DEFINE
#include "probe.h"

void roslens_storage_write_begin(uint64_t call, uint64_t bytes, uint64_t messages) {
  tracepoint(roslens_storage, write_begin, call, bytes, messages);
}

void roslens_storage_write_end(uint64_t call) { tracepoint(roslens_storage, write_end, call); }

void roslens_storage_close_begin(void) { tracepoint(roslens_storage, close_begin); }

void roslens_storage_close_end(void) { tracepoint(roslens_storage, close_end); }
