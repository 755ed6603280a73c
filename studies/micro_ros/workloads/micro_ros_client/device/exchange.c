/* Exchanges stamped strings with a ROS node and floods it, and says what it sent. */
#include <rclc/executor.h>
#include <rclc/rclc.h>
#include <rmw_microros/rmw_microros.h>
#include <std_msgs/msg/string.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform.h"
#include "semihosting.h"
#include "text.h"

#define LARGEST 512
/* By which the agent takes the domain of its own environment. */
#define DOMAIN_OF_AGENT 255
#define AGENT_SECONDS 30
#define ANSWER_NS 1000000000
#define DISCOVERY_SECONDS 20
#define LARGEST_REPEATS 300
#define LARGEST_TALLIES 16
#define QUIET_NS 300000000
#define DIGITS 10

static int64_t offset_ns, drift_ppb, reference_ns;
static rclc_executor_t executor;
static rcl_publisher_t exchanges, flood;
static std_msgs__msg__String outgoing, incoming, flooded;
static char outgoing_text[LARGEST + 1], incoming_text[LARGEST + 1], flooded_text[LARGEST + 1];

/* The device's clock, told to be wrong by an offset and a drift. */
static int64_t stamp(void) {
  const int64_t now = device_ns();
  return now + offset_ns + (now - reference_ns) / 1000 * drift_ppb / 1000000;
}

static void check(rcl_ret_t result, int status) {
  if (result != RCL_RET_OK) {
    end_program(status);
  }
}

static void add_field(char **end, int64_t number) {
  *end = text_add_number(text_add(*end, " "), number);
}

/* ------------------------------------------------------------ what comes back */

static int64_t awaited, third, fourth, arrived, answers;
static char awaited_kind;
static bool answered;

/* "A 17" answers a ping, "K 17" acknowledges an account. */
static void received(const void *message) {
  const int64_t before = stopwatch_ns(), now = stamp(), after = stopwatch_ns();
  const std_msgs__msg__String *text = message;
  const bool ours = text->data.size > 2 && text->data.data[0] == awaited_kind && !answered &&
                    strtol(text->data.data + 2, NULL, 10) == awaited;
  answers += text->data.size > 0 && text->data.data[0] == 'A';
  if (!ours) {
    return;
  }
  third = before, arrived = now, fourth = after;
  answered = true;
}

static bool await(int64_t ns) {
  const int64_t end = stopwatch_ns() + ns;
  while (!answered && stopwatch_ns() < end) {
    rclc_executor_spin_some(&executor, RCL_MS_TO_NS(20));
  }
  return answered;
}

static bool publish(rcl_publisher_t *publisher, size_t size) {
  outgoing.data.size = size;
  return rcl_publish(publisher, &outgoing, NULL) == RCL_RET_OK;
}

/* ------------------------------------------------------------ the parts */

static int64_t sequence, pings, pings_refused;

/* Ping for some time, each time with what the exchange before was like; then say how many. */
static void exchange(int64_t ns) {
  bool known = false;
  int64_t previous = 0, round_trip = 0, uncertainty = 0;
  const int64_t end = stopwatch_ns() + ns;
  bool last = false;
  awaited_kind = 'A';
  do {
    last = stopwatch_ns() >= end;
    awaited = ++sequence;
    answered = false;
    /* The stopwatch is read on either side of the clock: that much is not known about it. */
    const int64_t first = stopwatch_ns(), sent = stamp(), second = stopwatch_ns();
    char *text = text_add(outgoing_text, "P");
    add_field(&text, sequence);
    add_field(&text, sent);
    add_field(&text, known);
    add_field(&text, previous);
    add_field(&text, round_trip);
    add_field(&text, uncertainty);
    if (publish(&exchanges, (size_t)(text - outgoing_text))) {
      pings++;
    } else {
      pings_refused++;
    }
    known = await(ANSWER_NS);
    if (known) {
      previous = arrived;
      round_trip = ((third - second) + (fourth - first)) / 2;
      uncertainty = ((fourth - first) - (third - second)) / 2 + 4 * stopwatch_resolution_ns;
    }
  } while (!last);
}

/* Say something until it is acknowledged: best-effort messages may be lost. */
static void account(char kind, int count, const int64_t *numbers) {
  awaited_kind = 'K';
  awaited = ++sequence;
  answered = false;
  for (int repeats = 0; repeats < LARGEST_REPEATS && !answered; repeats++) {
    const char name[] = {kind, '\0'};
    char *text = text_add(outgoing_text, name);
    add_field(&text, sequence);
    for (int i = 0; i < count; i++) {
      add_field(&text, numbers[i]);
    }
    publish(&exchanges, (size_t)(text - outgoing_text));
    await(ANSWER_NS / 5);
  }
  if (!answered) {
    end_program(31);
  }
}

/* A line of what this side counted. */
static void note(int file, const char *kind, int count, const int64_t *numbers) {
  char line[100];
  char *text = text_add(line, kind);
  for (int i = 0; i < count; i++) {
    add_field(&text, numbers[i]);
  }
  text_add(text, "\n");
  file_text(file, line);
}

/* Send as many messages of a size as go, for some time; nobody answers. */
static void send_many(int64_t size, int64_t ns, int file) {
  int64_t sent = 0, refused = 0;
  memset(outgoing_text, 'x', (size_t)size);
  const int64_t end = stopwatch_ns() + ns;
  while (stopwatch_ns() < end) {
    int64_t number = sent;
    for (int i = DIGITS - 1; i >= 0; i--, number /= 10) {
      outgoing_text[i] = (char)('0' + number % 10);
    }
    if (publish(&flood, (size_t)size)) {
      sent++;
    } else {
      refused++;
    }
    /* What was published leaves with the next turn of the session. */
    rclc_executor_spin_some(&executor, 0);
  }
  const int64_t numbers[] = {size, sent, refused};
  account('E', 3, numbers);
  note(file, "F", 3, numbers);
}

/* Messages of one size from the node; those that come late are still counted. */
struct tally {
  int64_t size, last, count, twice, first_ns, last_ns;
};

static struct tally tallies[LARGEST_TALLIES];
static int tally_count;
static int64_t quiet_since;

static void flooded_by_ros(const void *message) {
  const std_msgs__msg__String *text = message;
  int64_t number = 0;
  struct tally *found = tallies;
  while (found < tallies + tally_count && (int64_t)text->data.size != found->size) {
    found++;
  }
  if (found == tallies + tally_count) {
    return;
  }
  for (int i = 0; i < DIGITS; i++) {
    number = 10 * number + (text->data.data[i] - '0');
  }
  quiet_since = stopwatch_ns();
  if (number <= found->last) {
    found->twice++;
    return;
  }
  found->last_ns = stamp();
  if (!found->count++) {
    found->first_ns = found->last_ns;
  }
  found->last = number;
}

/* Let the node send as many messages of a size as go, for some time. */
static void receive_many(int64_t size, int64_t ns) {
  tallies[tally_count++] = (struct tally){.size = size, .last = -1};
  account('D', 2, (const int64_t[]){size, ns});
  const int64_t end = stopwatch_ns() + ns;
  quiet_since = end;
  while (stopwatch_ns() < (quiet_since > end ? quiet_since : end) + QUIET_NS) {
    rclc_executor_spin_some(&executor, RCL_MS_TO_NS(20));
  }
}

/* Say what came of each size. */
static void account_received(int file) {
  for (const struct tally *x = tallies; x < tallies + tally_count; x++) {
    const int64_t numbers[] = {x->size, x->count, x->twice, x->first_ns, x->last_ns};
    account('R', 5, numbers);
    note(file, "D", 3, numbers);
  }
}

static void initialise(std_msgs__msg__String *message, char *text) {
  message->data.data = text;
  message->data.capacity = LARGEST + 1;
  message->data.size = 0;
}

/* TRANSPORT WHERE RELIABLE MILLISECONDS FLOOD_MILLISECONDS OFFSET_NS DRIFT_PPB [SIZE...] */
int device(int count, char **words) {
  if (count < 7 || count > 7 + LARGEST_TALLIES) {
    return 2;
  }
  const bool reliable = atoi(words[2]);
  const int64_t ns = (int64_t)atol(words[3]) * 1000000, flood_ns = (int64_t)atol(words[4]) * 1000000;
  offset_ns = atoll(words[5]);
  drift_ppb = atoll(words[6]);
  reference_ns = device_ns();
  use_transport(words[0], words[1]);
  const int64_t give_up = stopwatch_ns() + AGENT_SECONDS * (int64_t)1000000000;
  while (rmw_uros_ping_agent(200, 1) != RMW_RET_OK) {
    if (stopwatch_ns() > give_up) {
      return 9;
    }
  }
  rcl_allocator_t allocator = rcl_get_default_allocator();
  rclc_support_t support;
  rcl_node_t node = rcl_get_zero_initialized_node();
  rcl_subscription_t answers_of_ros = rcl_get_zero_initialized_subscription();
  rcl_subscription_t flood_of_ros = rcl_get_zero_initialized_subscription();
  const rosidl_message_type_support_t *type = ROSIDL_GET_MSG_TYPE_SUPPORT(std_msgs, msg, String);
  initialise(&outgoing, outgoing_text);
  initialise(&incoming, incoming_text);
  initialise(&flooded, flooded_text);
  rcl_init_options_t options = rcl_get_zero_initialized_init_options();
  check(rcl_init_options_init(&options, allocator), 10);
  check(rcl_init_options_set_domain_id(&options, DOMAIN_OF_AGENT), 10);
  check(rclc_support_init_with_options(&support, 0, NULL, &options, &allocator), 10);
  check(rclc_node_init_default(&node, "device", "", &support), 11);
  check((reliable ? rclc_publisher_init_default
                  : rclc_publisher_init_best_effort)(&exchanges, &node, type, "device/exchange"),
        12);
  check((reliable ? rclc_publisher_init_default
                  : rclc_publisher_init_best_effort)(&flood, &node, type, "device/flood"),
        13);
  check((reliable ? rclc_subscription_init_default : rclc_subscription_init_best_effort)(
            &answers_of_ros, &node, type, "ros/exchange"),
        14);
  check((reliable ? rclc_subscription_init_default : rclc_subscription_init_best_effort)(
            &flood_of_ros, &node, type, "ros/flood"),
        14);
  check(rclc_executor_init(&executor, &support.context, 2, &allocator), 15);
  check(rclc_executor_add_subscription(&executor, &answers_of_ros, &incoming, received, ON_NEW_DATA),
        16);
  check(rclc_executor_add_subscription(&executor, &flood_of_ros, &flooded, flooded_by_ros,
                                       ON_NEW_DATA),
        16);
  /* Until both sides have found each other: an account of nothing that is acknowledged. */
  for (int i = 0; i < DISCOVERY_SECONDS && !answered; i++) {
    awaited_kind = 'K';
    awaited = ++sequence;
    char *text = text_add(outgoing_text, "H");
    add_field(&text, sequence);
    publish(&exchanges, (size_t)(text - outgoing_text));
    await(ANSWER_NS);
  }
  if (!answered) {
    return 30;
  }
  answers = 0;
  const int file = file_create("device.txt");
  for (int i = 7; i < count; i++) {
    send_many(atol(words[i]), flood_ns, file);
  }
  for (int i = 7; i < count; i++) {
    receive_many(atol(words[i]), flood_ns);
  }
  exchange(ns);
  account_received(file);
  const int64_t numbers[] = {pings, answers, pings_refused};
  account('B', 3, numbers);
  note(file, "P", 3, numbers);
  file_close(file);
  rclc_executor_fini(&executor);
  check(rcl_subscription_fini(&answers_of_ros, &node), 22);
  check(rcl_subscription_fini(&flood_of_ros, &node), 22);
  check(rcl_publisher_fini(&exchanges, &node), 22);
  check(rcl_publisher_fini(&flood, &node), 22);
  check(rcl_node_fini(&node), 23);
  check(rclc_support_fini(&support), 24);
  check(rcl_init_options_fini(&options), 24);
  return 0;
}
