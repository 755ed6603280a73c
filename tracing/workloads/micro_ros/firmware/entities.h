/* The entities of the model: static pools as RMW implementations for small devices have them, and
 * what each entity asks of the allocator when it is made. Sizes are asserted, so that what a
 * regression over builds finds can be held against them. */
#ifndef ENTITIES_H
#define ENTITIES_H

#include <stdint.h>

#ifndef COUNT
#error "COUNT: how many entities (or slots of the history); 0 for the baseline"
#endif
#ifndef MTU
#define MTU 512
#endif
#ifndef DEPTH
#define DEPTH 4
#endif

struct node_link {
  void *next;
  void *previous;
  void *item;
};

struct publisher {
  struct node_link link;
  void *requested[3];
  uint16_t topic_id, writer_id;
  uint8_t reliable, in_use, domain, stream;
  char topic[60];
  void *type_support;
  void *session;
  uint32_t sent;
  uint32_t deadline;
  uint8_t qos[24];
};
_Static_assert(sizeof(struct publisher) == 132, "a publisher takes 132 bytes");
#define PUBLISHER_REQUESTS 112

struct subscriber {
  struct node_link link;
  void *requested[3];
  uint16_t topic_id, reader_id;
  uint8_t reliable, in_use, domain, stream;
  char topic[60];
  void *type_support;
  void *session;
  void *first_message, *last_message;
  uint32_t taken, lost;
  uint8_t qos[24];
  uint64_t last_stamp;
};
_Static_assert(sizeof(struct subscriber) == 152, "a subscriber takes 152 bytes");
#define SUBSCRIBER_REQUESTS 240

struct service {
  struct node_link link;
  void *requested[3];
  uint16_t replier_id, request_id;
  char name[60];
  void *request_type, *response_type;
  void *session;
  uint8_t last_caller[24];
  uint64_t sequence;
  uint8_t qos[48];
};
_Static_assert(sizeof(struct service) == 184, "a service takes 184 bytes");
#define SERVICE_REQUESTS 320

struct client {
  struct node_link link;
  void *requested[3];
  uint16_t requester_id, reply_id;
  char name[60];
  void *request_type, *response_type;
  void *session;
  uint64_t sequence;
  uint8_t qos[48];
};
_Static_assert(sizeof(struct client) == 160, "a client takes 160 bytes");
#define CLIENT_REQUESTS 304

struct history_slot {
  struct node_link link;
  uint32_t length;
  void *owner;
  uint64_t stamp;
  uint8_t data[MTU * DEPTH];
};
_Static_assert(sizeof(struct history_slot) == MTU * DEPTH + 32, "a slot takes 32 bytes more");

#endif
