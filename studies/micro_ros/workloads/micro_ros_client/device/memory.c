/* Makes COUNT entities of one KIND by rclc and says what that takes of which memory. Defined for the
 * compiler are also PAYLOAD (0: an Int32), RELIABLE, ONE_TOPIC, and what tests know of: KEEP entities
 * that are not ended, TOUCH bytes of the stack that are surely touched. */
#include <rclc/executor.h>
#include <rclc/rclc.h>
#include <rmw_microros/rmw_microros.h>
#include <std_msgs/msg/int32.h>
#include <std_msgs/msg/string.h>
#include <std_srvs/srv/set_bool.h>

#include "board.h"
#include "heap.h"
#include "platform.h"
#include "rtos.h"
#include "semihosting.h"
#include "stack.h"
#include "text.h"

#define LINE 120
#define STACK_WORDS 4096
#define AGENT_SECONDS 30

#define PUBLISHER 0
#define SUBSCRIBER 1
#define SERVICE 2
#define CLIENT 3
#define HISTORY 4

static uint32_t app_stack[STACK_WORDS];

#if PAYLOAD
#define MESSAGE_TYPE ROSIDL_GET_MSG_TYPE_SUPPORT(std_msgs, msg, String)
typedef std_msgs__msg__String message_type;
static char payload[PAYLOAD + 1];
#else
#define MESSAGE_TYPE ROSIDL_GET_MSG_TYPE_SUPPORT(std_msgs, msg, Int32)
typedef std_msgs__msg__Int32 message_type;
#endif
#define SERVICE_TYPE ROSIDL_GET_SRV_TYPE_SUPPORT(std_srvs, srv, SetBool)

static void check(rcl_ret_t result, int status) {
  if (result != RCL_RET_OK) {
    end_program(status);
  }
}

#if KIND == HISTORY
#define ENTITIES 0
#else
#define ENTITIES COUNT
#endif

#if ENTITIES
#if KIND == PUBLISHER
static rcl_publisher_t entities[ENTITIES];
#elif KIND == SUBSCRIBER
static rcl_subscription_t entities[ENTITIES];
static message_type messages[ENTITIES];
static void received(const void *message) { (void)message; }
#elif KIND == SERVICE
static rcl_service_t entities[ENTITIES];
static std_srvs__srv__SetBool_Request requests[ENTITIES];
static std_srvs__srv__SetBool_Response responses[ENTITIES];
static void serve(const void *request, void *response) { (void)request, (void)response; }
#elif KIND == CLIENT
static rcl_client_t entities[ENTITIES];
static std_srvs__srv__SetBool_Response responses[ENTITIES];
static void answered(const void *response) { (void)response; }
#endif

static const char *name_of(int i) {
  static char name[] = "topic_00";
  i = ONE_TOPIC ? 0 : i;
  name[6] = (char)('0' + i / 10);
  name[7] = (char)('0' + i % 10);
  return name;
}

static void make(rcl_node_t *node, rclc_executor_t *executor, int i) {
  const char *name = name_of(i);
  (void)executor;
#if KIND == PUBLISHER
  check((RELIABLE ? rclc_publisher_init_default
                  : rclc_publisher_init_best_effort)(&entities[i], node, MESSAGE_TYPE, name),
        20);
  message_type message = {0};
#if PAYLOAD
  message.data.data = payload;
  message.data.size = PAYLOAD;
  message.data.capacity = PAYLOAD + 1;
#endif
  check(rcl_publish(&entities[i], &message, NULL), 21);
#elif KIND == SUBSCRIBER
  check((RELIABLE ? rclc_subscription_init_default
                  : rclc_subscription_init_best_effort)(&entities[i], node, MESSAGE_TYPE, name),
        20);
  check(rclc_executor_add_subscription(executor, &entities[i], &messages[i], received, ON_NEW_DATA),
        21);
#elif KIND == SERVICE
  check((RELIABLE ? rclc_service_init_default
                  : rclc_service_init_best_effort)(&entities[i], node, SERVICE_TYPE, name),
        20);
  check(rclc_executor_add_service(executor, &entities[i], &requests[i], &responses[i], serve), 21);
#elif KIND == CLIENT
  check((RELIABLE ? rclc_client_init_default
                  : rclc_client_init_best_effort)(&entities[i], node, SERVICE_TYPE, name),
        20);
  check(rclc_executor_add_client(executor, &entities[i], &responses[i], answered), 21);
#endif
}

static void end(rcl_node_t *node, int i) {
#if KIND == PUBLISHER
  check(rcl_publisher_fini(&entities[i], node), 22);
#elif KIND == SUBSCRIBER
  check(rcl_subscription_fini(&entities[i], node), 22);
#elif KIND == SERVICE
  check(rcl_service_fini(&entities[i], node), 22);
#elif KIND == CLIENT
  check(rcl_client_fini(&entities[i], node), 22);
#endif
}
#endif

static void application(void) {
  rcl_allocator_t allocator = rcl_get_default_allocator();
  rclc_support_t support;
  rcl_node_t node = rcl_get_zero_initialized_node();
  check(rclc_support_init(&support, 0, NULL, &allocator), 10);
  check(rclc_node_init_default(&node, "device", "", &support), 11);
#if ENTITIES
  rclc_executor_t executor = rclc_executor_get_zero_initialized_executor();
#if KIND != PUBLISHER
  check(rclc_executor_init(&executor, &support.context, ENTITIES, &allocator), 12);
#endif
  for (int i = 0; i < ENTITIES; i++) {
    make(&node, &executor, i);
  }
#if KIND != PUBLISHER
  rclc_executor_spin_some(&executor, RCL_MS_TO_NS(50));
  check(rclc_executor_fini(&executor), 13);
#endif
  for (int i = KEEP; i < ENTITIES; i++) {
    end(&node, i);
  }
#endif
#if TOUCH
  stack_touch_down_to(app_stack + STACK_WORDS - TOUCH / 4);
#endif
  check(rcl_node_fini(&node), 14);
  check(rclc_support_fini(&support), 15);
}

/* Lines as FreeRTOS' vTaskList() writes them: name, state, priority, words never used, number. */
static void write_tasks(const struct task *tasks, uint32_t count) {
  int file = file_create("tasks.txt");
  for (const struct task *task = tasks; task < tasks + count; task++) {
    char line[LINE];
    char *end = text_add(text_add(line, task->name), "\t");
    end = text_add(end, (const char[]){task->state, '\0'});
    end = text_add_number(text_add(end, "\t"), task->priority);
    end = text_add_number(text_add(end, "\t"), task->untouched);
    end = text_add_number(text_add(end, "\t"), task->number);
    text_add(end, "\r\n");
    file_text(file, line);
  }
  file_close(file);
}

/* The size of each task's stack, in words. */
static void write_stacks(const struct task *tasks, uint32_t count) {
  char line[LINE], *end = line;
  for (const struct task *task = tasks; task < tasks + count; task++) {
    end = text_add(text_add(end, task == tasks ? "{\"" : ", \""), task->name);
    end = text_add_number(text_add(end, "\": "), task->stack.count);
  }
  text_add(end, "}\n");
  int file = file_create("stacks.json");
  file_text(file, line);
  file_close(file);
}

/* What was counted in another way. */
static void write_system(const struct task *tasks, uint32_t count) {
  uint32_t touched = 0;
  for (const struct task *task = tasks; task < tasks + count; task++) {
    touched += task->stack.count - task->otherwise;
  }
  char line[LINE];
  char *end = text_add_number(text_add(line, "{\"dynamic_bytes_by_sbrk\": "), heap_taken());
  end = text_add(end, ", \"stack_bytes_otherwise\": ");
  text_add(text_add_number(end, sizeof(uint32_t) * touched), "}\n");
  int file = file_create("system.json");
  file_text(file, line);
  file_close(file);
}

static void ended(const struct task *tasks, uint32_t count) {
  heap_log_end();
  write_tasks(tasks, count);
  write_stacks(tasks, count);
  write_system(tasks, count);
  end_program(0);
}

int main(void) {
  static const struct stack stack = {app_stack, STACK_WORDS};
  clock_begin();
  uart_begin();
  use_transport("uart", "");
  const int64_t give_up = device_ns() + AGENT_SECONDS * (int64_t)1000000000;
  while (rmw_uros_ping_agent(200, 1) != RMW_RET_OK) {
    if (device_ns() > give_up) {
      end_program(9);
    }
  }
  heap_log_begin();
  rtos_run(&stack, application, ended);
  return 7;
}
