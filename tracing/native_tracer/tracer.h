/* Writes events of this process as CTF 1.8, one stream file for each thread, each mapped into
   memory packet by packet.

   An event is complete when the packet's content_size covers it, which is stored last: whatever
   kills the process, no reader sees a torn event, and none that was complete is lost.

   On the path of an event there is no lock, no allocation and no system call except for the clock.
   A full packet is followed immediately by the next one: its space is reserved on the disk before
   it is mapped, so that a full disk loses events, which are counted, but never raises SIGBUS. */
#ifndef ROSLENS_TRACER_H
#define ROSLENS_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define TRACER_PUBLIC __attribute__((visibility("default")))
#define TRACER_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#define TRACER_PROCNAME 17
#define TRACER_CONTEXT (4 + 4 + TRACER_PROCNAME) /* vpid, vtid, procname */
#define TRACER_EVENT_HEAD (2 + 8 + TRACER_CONTEXT) /* id, timestamp, context */

/* The head of each packet: header and context of the metadata, without gaps. */
struct tracer_head {
  uint32_t magic;
  uint32_t stream_id;
  uint64_t begin, end; /* CLOCK_MONOTONIC, ns */
  uint64_t content_bits, packet_bits;
  uint64_t number;
  uint64_t discarded; /* cumulative */
};
#define TRACER_HEAD sizeof(struct tracer_head)

/* The state that a thread needs to write its events. */
struct tracer_writer {
  unsigned char * next;        /* where the next event goes in its packet */
  unsigned char * end;         /* of the packet */
  struct tracer_head * packet; /* or NULL */
  uint64_t generation;         /* of the thread's process, see tracer_generation */
  uint64_t now;
  uint32_t busy; /* in an event: events that a signal handler emits are then discarded */
  int32_t slot;  /* of its stream */
  unsigned char context[TRACER_CONTEXT];
};

/* A thread's writers: for ordinary events, and for events that give names. Only a flight recorder
   separates them. initial-exec: the other models may allocate at a thread's first access. */
enum {TRACER_EVENTS, TRACER_NAMES, TRACER_KINDS};
extern __thread struct tracer_writer tracer_writers[TRACER_KINDS]
  __attribute__((tls_model("initial-exec")));
extern unsigned tracer_kind_of_names;

/* Lies in a page that the kernel clears in a forked child: there it equals no writer's generation,
   so that a child never writes into its parent's packets, however it was forked. */
extern volatile uint64_t * tracer_generation;

bool tracer_make_room(struct tracer_writer * writer, size_t size);
void tracer_discard(struct tracer_writer * writer);

/* Defined by the generated part: one entry for each event. */
extern const unsigned tracer_event_count;
extern const char * const tracer_event_names[];
extern unsigned char tracer_enabled[];
extern const char tracer_event_metadata[];
extern const char tracer_abi[];

static inline uint64_t tracer_now(void)
{
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t) time.tv_sec * 1000000000u + (uint64_t) time.tv_nsec;
}

/* Begin an event; return where its `size` bytes of fields go, or NULL if it is discarded. */
static inline unsigned char * tracer_begin(struct tracer_writer * writer, unsigned id, size_t size)
{
  if (TRACER_UNLIKELY(writer->busy)) {
    tracer_discard(writer);
    return NULL;
  }
  writer->busy = 1;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  writer->now = tracer_now();
  if (TRACER_UNLIKELY(
      (size_t) (writer->end - writer->next) < TRACER_EVENT_HEAD + size ||
      writer->generation != *tracer_generation))
  {
    if (!tracer_make_room(writer, TRACER_EVENT_HEAD + size)) {
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      writer->busy = 0;
      return NULL;
    }
  }
  unsigned char * at = writer->next;
  uint16_t short_id = (uint16_t) id;
  memcpy(at, &short_id, 2);
  memcpy(at + 2, &writer->now, 8);
  memcpy(at + 10, writer->context, TRACER_CONTEXT);
  return at + TRACER_EVENT_HEAD;
}

/* Complete an event; `end` is the byte after its last field. */
static inline void tracer_end(struct tracer_writer * writer, unsigned char * end)
{
  struct tracer_head * packet = writer->packet;
  writer->next = end;
  packet->end = writer->now;
  __atomic_store_n(
    &packet->content_bits, (uint64_t) (end - (unsigned char *) packet) * 8, __ATOMIC_RELEASE);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  writer->busy = 0;
}

static inline unsigned char * tracer_put(unsigned char * at, const void * value, size_t size)
{
  memcpy(at, value, size);
  return at + size;
}

/* Put `length` bytes of a string and its end, whatever another thread does to it meanwhile. */
static inline unsigned char * tracer_put_string(unsigned char * at, const char * text, size_t length)
{
  memcpy(at, text, length);
  at[length] = 0;
  return at + length + 1;
}

/* Put an array, or zeros if the caller passed none. */
static inline unsigned char * tracer_put_array(unsigned char * at, const void * array, size_t size)
{
  if (array) {
    memcpy(at, array, size);
  } else {
    memset(at, 0, size);
  }
  return at + size;
}

#endif
