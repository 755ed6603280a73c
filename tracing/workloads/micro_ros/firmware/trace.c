#include "trace.h"

#include <stdbool.h>
#include <string.h>

#include "board.h"
#include "semihosting.h"

/* The layout is declared in trace.tsdl: little-endian, every field at the next byte. */
enum { PACKET_BYTES = 512, HEADER_BYTES = 33 };
enum { STREAM = 0 };
enum { ENTITY_CREATED, ALLOCATION, RELEASE, STACK };

static uint8_t packet[PACKET_BYTES];
static uint32_t used;
static uint64_t packet_begin;
static int file = -1;

static void put(const void *value, uint32_t size) {
  memcpy(packet + used, value, size);
  used += size;
}

static void open_packet(void) {
  packet_begin = clock_ticks();
  used = HEADER_BYTES;
}

static void close_packet(void) {
  const uint32_t magic = 0xc1fc1fc1u, content = used * 8, whole = PACKET_BYTES * 8, discarded = 0;
  const uint8_t stream = STREAM;
  const uint64_t packet_end = clock_ticks();
  memset(packet + used, 0, PACKET_BYTES - used);
  used = 0;
  put(&magic, 4);
  put(&stream, 1);
  put(&packet_begin, 8);
  put(&packet_end, 8);
  put(&content, 4);
  put(&whole, 4);
  put(&discarded, 4);
  file_write(file, packet, PACKET_BYTES);
}

void trace_begin(void) {
  file = file_create("stream");
  open_packet();
}

void trace_end(void) {
  close_packet();
  file_close(file);
  file = -1;
}

static bool event(uint8_t id, uint32_t payload) {
  if (file < 0) {
    return false;
  }
  if (used + 5 + payload > PACKET_BYTES) {
    close_packet();
    open_packet();
  }
  const uint32_t now = (uint32_t)clock_ticks();
  put(&id, 1);
  put(&now, 4);
  return true;
}

void trace_entity_created(uint8_t kind, uint16_t number, uint32_t bytes) {
  if (event(ENTITY_CREATED, 7)) {
    put(&kind, 1);
    put(&number, 2);
    put(&bytes, 4);
  }
}

void trace_allocation(uint32_t address, uint32_t size) {
  if (event(ALLOCATION, 8)) {
    put(&address, 4);
    put(&size, 4);
  }
}

void trace_release(uint32_t address) {
  if (event(RELEASE, 4)) {
    put(&address, 4);
  }
}

void trace_stack(uint32_t total_words, uint32_t free_words) {
  if (event(STACK, 8)) {
    put(&total_words, 4);
    put(&free_words, 4);
  }
}
