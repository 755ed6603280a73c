#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER kinds

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./kinds.h"

#if !defined(KINDS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define KINDS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_ENUM(
  kinds, mood,
  LTTNG_UST_TP_ENUM_VALUES(
    lttng_ust_field_enum_value("calm", 0)
    lttng_ust_field_enum_range("busy", 1, 3)
    lttng_ust_field_enum_value("angry", 9)))

LTTNG_UST_TRACEPOINT_EVENT(
  kinds, numbers,
  LTTNG_UST_TP_ARGS(int64_t, n),
  LTTNG_UST_TP_FIELDS(
    lttng_ust_field_integer(int8_t, i8, (int8_t) n)
    lttng_ust_field_integer(uint8_t, u8, (uint8_t) n)
    lttng_ust_field_integer(int16_t, i16, (int16_t) (n * 257))
    lttng_ust_field_integer(uint16_t, u16, (uint16_t) (n * 257))
    lttng_ust_field_integer(int32_t, i32, (int32_t) (n * 0x1010101))
    lttng_ust_field_integer(uint32_t, u32, (uint32_t) (n * 0x1010101))
    lttng_ust_field_integer(int64_t, i64, n * INT64_C(0x123456789abcdef))
    lttng_ust_field_integer(uint64_t, u64, (uint64_t) n * UINT64_C(0xfedcba987654321))
    lttng_ust_field_integer_hex(void *, pointer, (void *) (uintptr_t) (n * 0x7f0000001))
    lttng_ust_field_integer_network(uint32_t, net, (uint32_t) n)
    lttng_ust_field_integer_network_hex(uint16_t, port, (uint16_t) n)
    lttng_ust_field_integer(uint64_t, time_ns, (uint64_t) n)
    lttng_ust_field_float(float, f32, (float) n / 3)
    lttng_ust_field_float(double, f64, (double) n / 7)))

LTTNG_UST_TRACEPOINT_EVENT(
  kinds, texts,
  LTTNG_UST_TP_ARGS(const char *, text, const char *, padded, size_t, length),
  LTTNG_UST_TP_FIELDS(
    lttng_ust_field_string(string, text)
    lttng_ust_field_array_text(char, fixed, padded, 16)
    lttng_ust_field_sequence_text(char, counted, padded, uint32_t, length)
    lttng_ust_field_string(last, padded)))

LTTNG_UST_TRACEPOINT_EVENT(
  kinds, lists,
  LTTNG_UST_TP_ARGS(const int32_t *, values, size_t, length, const uint8_t *, bytes),
  LTTNG_UST_TP_FIELDS(
    lttng_ust_field_array(uint8_t, gid, bytes, 24)
    lttng_ust_field_sequence(int32_t, numbers, values, uint8_t, length)
    lttng_ust_field_sequence(uint8_t, octets, bytes, uint64_t, length)
    lttng_ust_field_array(int32_t, three, values, 3)
    lttng_ust_field_sequence_network(uint32_t, net, (const uint32_t *) values, uint16_t, length)))

LTTNG_UST_TRACEPOINT_EVENT(
  kinds, moods,
  LTTNG_UST_TP_ARGS(int, mood),
  LTTNG_UST_TP_FIELDS(
    lttng_ust_field_enum(kinds, mood, int, mood, mood)
    lttng_ust_field_integer(int, after, mood)))

LTTNG_UST_TRACEPOINT_EVENT(
  kinds, nothing, LTTNG_UST_TP_ARGS(void), LTTNG_UST_TP_FIELDS())

LTTNG_UST_TRACEPOINT_EVENT(
  kinds, never,
  LTTNG_UST_TP_ARGS(int, n),
  LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, n, n)))

#endif

#include <lttng/tracepoint-event.h>
