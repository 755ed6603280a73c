/* Makes COUNT entities of one KIND and says what they take of which memory. */
#include <stdint.h>
#include <string.h>

#include "board.h"
#include "entities.h"
#include "heap.h"
#include "semihosting.h"
#include "stack.h"
#include "text.h"
#include "trace.h"

#define STACK_WORDS 1024

#ifndef STACK_FIRST
#define STACK_FIRST 1024 /* bytes of its stack that the task uses deliberately, */
#endif
#ifndef STACK_EACH
#define STACK_EACH 16 /* and how many more for each entity */
#endif
#ifndef KEEP
#define KEEP 0 /* allocations that are not given back */
#endif

#define PUBLISHER 0
#define SUBSCRIBER 1
#define SERVICE 2
#define CLIENT 3
#define HISTORY 4

static uint32_t app_stack[STACK_WORDS];

#if COUNT == 0 || KIND == HISTORY
/* The allocator is part of every build, so that their memory differs by entities only. */
static void use_allocator(void) { heap_release(heap_reallocate(heap_allocate_zeroed(1, 4), 8)); }
#endif

#if COUNT > 0

#if KIND == PUBLISHER
typedef struct publisher entity;
#elif KIND == SUBSCRIBER
typedef struct subscriber entity;
#elif KIND == SERVICE
typedef struct service entity;
#elif KIND == CLIENT
typedef struct client entity;
#elif KIND == HISTORY
typedef struct history_slot entity;
#else
#error "KIND: 0 publisher, 1 subscriber, 2 service, 3 client, 4 slot of the history"
#endif

static entity entities[COUNT];

#if KIND != HISTORY
/* A name, a zeroed implementation, and a buffer that grows: together what entities.h says. */
static void ask(void **blocks) {
  static const uint32_t requests[] = {PUBLISHER_REQUESTS, SUBSCRIBER_REQUESTS, SERVICE_REQUESTS,
                                      CLIENT_REQUESTS};
  uint32_t rest = requests[KIND] - 40 - 2 * 12;
  blocks[0] = heap_allocate(40);
  blocks[1] = heap_allocate_zeroed(2, 12);
  blocks[2] = heap_allocate(rest);
}
#endif

static void application(void) {
#if KIND == HISTORY
  use_allocator();
#endif
  for (uint32_t i = 0; i < COUNT; i++) {
    memset(&entities[i], (int)i + 1, sizeof(entities[i]));
#if KIND != HISTORY
    ask(entities[i].requested);
#endif
    trace_entity_created(KIND, (uint16_t)i, sizeof(entities[i]));
  }
  stack_touch_down_to(app_stack + STACK_WORDS - (STACK_FIRST + STACK_EACH * COUNT) / 4);
#if KIND != HISTORY
  uint32_t kept = 0;
  for (uint32_t i = 0; i < COUNT; i++) {
    for (uint32_t j = 0; j < 3; j++) {
      if ((int)kept++ >= KEEP) {
        heap_release(entities[i].requested[j]);
      }
    }
  }
#endif
}

#else

/* The program without entities, whose memory is taken off. */
static void application(void) { use_allocator(); }

#endif

/* A line as FreeRTOS' vTaskList() writes it: name, state, priority, words never used, number. */
static void write_tasks(uint32_t untouched) {
  struct text line = {.length = 0};
  text_add(&line, "app\tX\t1\t");
  text_add_decimal(&line, untouched);
  text_add(&line, "\t1\r\n");
  int file = file_create("tasks.txt");
  file_text(file, line.characters);
  file_close(file);
}

int main(void) {
  const struct stack stack = {app_stack, STACK_WORDS};
  clock_begin();
  trace_begin();
  heap_log_begin();
  uint32_t untouched = stack_run(&stack, application);
  heap_log_end();
  trace_stack(STACK_WORDS, untouched);
  trace_end();
  write_tasks(untouched);
  return 0;
}
