"""Record calls into rcl and rcl_action that have no tracepoint in ROS, as events of our own.

``rmw_send_request`` and ``rmw_send_response`` come after the write: by then the other side may
already have taken it. No event states what becomes of an action's goal, the types of messages, or
when an executor waits that does not wait in rcl. The libraries that roslens preloads intercept
the functions of rcl, rcl_action and condition variables, and record when these are called and
what they did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from roslens.tracing.ros.header import Instrumentation, Parameter, tracepoint

_EVENTS = (
    tracepoint("rcl_send_request", "pointer rmw_client_handle"),
    tracepoint("rcl_send_response", "pointer rmw_service_handle"),
    # Emitted only for rclpy, by its instrumentation.
    tracepoint("client_callback_start", "pointer rmw_client_handle", "int64 sequence_number"),
    # Next to rmw_take_request: the goal that a request to an action server concerns.
    tracepoint("action_request", "gid goal_id"),
    # The new status of a goal: numbers of action_msgs/msg/GoalStatus.
    tracepoint("goal_status", "gid goal_id", "int64 status"),
    # For a publisher or subscription, after its own event; not before Iron.
    tracepoint("message_type_init", "pointer handle", "string type"),
    # For the message just written by rcl_publish: serialized size and stamp, each 0 if unknown.
    tracepoint("message_content", "pointer message", "uint64 size", "int64 header_stamp"),
    # For the message just taken by rcl_take, if the middleware notes when its reader received it.
    tracepoint("message_received", "pointer message", "int64 received_timestamp"),
    # Around each wait of an executor on a condition variable. Executors that wait in rcl have
    # events of rclcpp instead.
    tracepoint("executor_wait_start"),
    tracepoint("executor_wait_end"),
)

THREADS = """
/* The outermost callback that this thread is in, whether it ran one, and whether its executor waits
   in rcl: such a one emits events of its own. */
static __thread struct {
  const void * callback;
  bool ran, in_rcl;
} executor __attribute__((tls_model("initial-exec")));
"""
"""C source that precedes the functions of ROS's tracepoints."""
_DOES = {
    "callback_start": "if (!executor.callback) {{executor.callback = {callback};}}",
    "callback_end": "if (executor.callback == {callback}) "
    "{{executor.callback = NULL; executor.ran = true;}}",
    "rclcpp_executor_wait_for_work": "executor.in_rcl = true;",
}


def noted(tracepoint: str, parameters: Sequence[Parameter]) -> str:
    """Return the C statement that notes a thread's action at a tracepoint of ROS."""
    does = _DOES.get(tracepoint)
    return does.format(callback=parameters[0].name) if does else ""


FUNCTIONS = """
/* What ours stand before: found as the caller finds it, for Python loads rcl for its own module
   alone. */
static void * next_function(const char * name, void * caller)
{
  Dl_info of;
  void * found = dlsym(RTLD_NEXT, name);
  if (!found && dladdr(caller, &of)) {
    void * library = dlopen(of.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library) {
      found = dlsym(library, name);
      dlclose(library);
    }
  }
  return found;
}

#define FIND(variable, name, caller) \\
  if (!variable) { \\
    variable = (__typeof__(variable)) next_function(name, caller); \\
  }
/* Defines `next`, what the function that it is in stands before. */
#define FIND_NEXT(function) \\
  static __typeof__(function) * next; \\
  FIND(next, #function, __builtin_return_address(0))

static const void * (* rmw_client_of)(const void *);
/* The client whose call rclpy said to begin, before it comes to rcl. */
static __thread const void * announced;

__attribute__((visibility("default")))
int rcl_send_request(const void * client, void * request, void * sequence_number)
{
  FIND_NEXT(rcl_send_request)
  FIND(rmw_client_of, "rcl_client_get_rmw_handle", __builtin_return_address(0))
  if (rmw_client_of && client != announced && ros_trace_enabled_rcl_send_request()) {
    ros_trace_do_rcl_send_request(rmw_client_of(client));
  }
  announced = NULL;
  return next ? next(client, request, sequence_number) : 1;
}

__attribute__((visibility("default")))
int rcl_send_response(const void * service, void * header, void * response)
{
  static const void * (* rmw_service_of)(const void *);
  FIND_NEXT(rcl_send_response)
  FIND(rmw_service_of, "rcl_service_get_rmw_handle", __builtin_return_address(0))
  if (rmw_service_of && ros_trace_enabled_rcl_send_response()) {
    ros_trace_do_rcl_send_response(rmw_service_of(service));
  }
  return next ? next(service, header, response) : 1;
}

/* For rclpy: a call begins. Of the first one of a process the one of rcl tells. */
__attribute__((visibility("default")))
void roslens_client_call(const void * client)
{
  if (rmw_client_of) {
    announced = client;
    ros_trace_rcl_send_request(rmw_client_of(client));
  }
}

/* For rclpy: what a client gets for one of its requests begins to be worked on. */
__attribute__((visibility("default")))
void roslens_client_callback_start(const void * client, int64_t sequence_number)
{
  if (rmw_client_of) {
    ros_trace_client_callback_start(rmw_client_of(client), sequence_number);
  }
}

/* rcl_action_goal_info_t: action_msgs/msg/GoalInfo, in C. */
struct roslens_goal {
  uint8_t id[16];
  int32_t seconds;
  uint32_t nanoseconds;
};

static void tell_status(const void * handle, void * caller)
{
  static int (* get_goal)(const void *, struct roslens_goal *);
  static int (* get_status)(const void *, int8_t *);
  struct roslens_goal goal;
  int8_t status;
  if (!ros_trace_enabled_goal_status()) {
    return;
  }
  FIND(get_goal, "rcl_action_goal_handle_get_info", caller)
  FIND(get_status, "rcl_action_goal_handle_get_status", caller)
  if (get_goal && get_status && !get_goal(handle, &goal) && !get_status(handle, &status)) {
    ros_trace_do_goal_status(goal.id, status);
  }
}

__attribute__((visibility("default")))
void * rcl_action_accept_new_goal(void * server, const void * goal)
{
  FIND_NEXT(rcl_action_accept_new_goal)
  void * handle = next ? next(server, goal) : NULL;
  if (handle) {
    tell_status(handle, __builtin_return_address(0));
  }
  return handle;
}

__attribute__((visibility("default")))
int rcl_action_update_goal_state(void * handle, int event)
{
  FIND_NEXT(rcl_action_update_goal_state)
  int failed = next ? next(handle, event) : 1;
  if (!failed) {
    tell_status(handle, __builtin_return_address(0));
  }
  return failed;
}

/* The goal's id comes first in the requests of all three services of an action, in C and C++. */
#define TAKES_REQUEST(function) \\
  __attribute__((visibility("default"))) \\
  int function(const void * server, void * header, void * request) \\
  { \\
    FIND_NEXT(function) \\
    int failed = next ? next(server, header, request) : 1; \\
    if (!failed) { \\
      ros_trace_action_request(request); \\
    } \\
    return failed; \\
  }
TAKES_REQUEST(rcl_action_take_goal_request)
TAKES_REQUEST(rcl_action_take_result_request)
TAKES_REQUEST(rcl_action_take_cancel_request)

/* rosidl_message_type_support_t, and rosidl_runtime_c/type_description. */
struct roslens_text {
  const char * data;
  size_t size, capacity;
};
struct roslens_member {
  struct roslens_text name;
  uint8_t kind;
  uint64_t capacity, text_capacity;
  struct roslens_text type, value;
};
struct roslens_described {
  struct roslens_text type;
  const struct roslens_member * members;
  size_t count;
};
struct roslens_support {
  const void * identifier, * data, * of_middleware, * hash;
  const struct roslens_described * (* description)(const struct roslens_support *);
};

/* Publishers by their addresses, and whether their messages begin with a stamp: in C and C++ alike
   the member that a type has first comes first. */
#define PUBLISHERS 4096
static struct {
  const void * publisher;
  bool stamped;
} publishers[PUBLISHERS];

/* Its place, where it is, else a free one; PUBLISHERS where there is none. */
static unsigned place_of(const void * publisher)
{
  unsigned first = (unsigned) ((uintptr_t) publisher >> 4);
  for (unsigned tried = 0; tried < PUBLISHERS; tried++) {
    unsigned at = (first + tried) % PUBLISHERS;
    const void * known = __atomic_load_n(&publishers[at].publisher, __ATOMIC_ACQUIRE);
    if (!known || known == publisher) {
      return at;
    }
  }
  return PUBLISHERS;
}

static bool begins_with_stamp(const struct roslens_described * of)
{
  const char * type = of->count ? of->members->type.data : NULL;
  return type && of->members->kind == 1 && /* FIELD_TYPE_NESTED_TYPE */
         (!strcmp(type, "std_msgs/msg/Header") ||
         (!strcmp(type, "builtin_interfaces/msg/Time") &&
         !strcmp(of->members->name.data, "stamp")));
}

static void keep_stamped(const void * publisher, bool stamped)
{
  const void * there = NULL;
  unsigned at = place_of(publisher);
  if (at == PUBLISHERS || (!stamped && !publishers[at].publisher)) {
    return;
  }
  if (__atomic_compare_exchange_n(
      &publishers[at].publisher, &there, publisher, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
    there == publisher)
  {
    publishers[at].stamped = stamped;
  } else {
    keep_stamped(publisher, stamped);
  }
}

static void tell_type(const void * endpoint, const struct roslens_support * of, void * caller)
{
  static const void * described; /* Up to Humble type supports end before that. */
  FIND(described, "rosidl_runtime_c__type_description__TypeDescription__init", caller)
  if (described && of && of->description) {
    const struct roslens_described * found = of->description(of);
    keep_stamped(endpoint, begins_with_stamp(found));
    ros_trace_message_type_init(endpoint, found->type.data);
  }
}

#define HAS_TYPE(function) \\
  __attribute__((visibility("default"))) \\
  int function( \\
    void * endpoint, const void * node, const struct roslens_support * support, \\
    const char * topic, const void * options) \\
  { \\
    FIND_NEXT(function) \\
    int failed = next ? next(endpoint, node, support, topic, options) : 1; \\
    if (!failed) { \\
      tell_type(endpoint, support, __builtin_return_address(0)); \\
    } \\
    return failed; \\
  }
HAS_TYPE(rcl_publisher_init)
HAS_TYPE(rcl_subscription_init)

/* Whether received_timestamp is when the reader received a message: that of Cyclone DDS is when it
   was taken. */
static bool notes_reception(void * caller)
{
  static int notes;
  if (!notes) {
    const char * (* identifier)(void) = (const char * (*)(void)) next_function(
      "rmw_get_implementation_identifier", caller);
    const char * rmw = identifier ? identifier() : "";
    notes = !strncmp(rmw, "rmw_fastrtps", 12) || !strncmp(rmw, "rmw_zenoh", 9) ? 1 : -1;
  }
  return notes > 0;
}

/* rmw_message_info_t begins with source_timestamp and received_timestamp. */
#define TAKES_MESSAGE(function, message) \\
  __attribute__((visibility("default"))) \\
  int function(const void * subscription, void * taken, const int64_t * info, void * allocation) \\
  { \\
    void * caller = __builtin_return_address(0); \\
    FIND_NEXT(function) \\
    int failed = next ? next(subscription, taken, info, allocation) : 1; \\
    if (!failed && info && ros_trace_enabled_message_received() && notes_reception(caller)) { \\
      ros_trace_do_message_received(message, info[1]); \\
    } \\
    return failed; \\
  }
TAKES_MESSAGE(rcl_take, taken)
TAKES_MESSAGE(rcl_take_serialized_message, taken)
TAKES_MESSAGE(rcl_take_loaned_message, *(void **) taken)

/* What a thread waits for between two callbacks is taken to be work. */
#define WAITS_FOR_WORK(wait) \\
  if (executor.ran && !executor.callback && !executor.in_rcl) { \\
    ros_trace_executor_wait_start(); \\
    wait; \\
    ros_trace_executor_wait_end(); \\
  } else { \\
    wait; \\
  }

/* std::condition_variable::wait */
__attribute__((visibility("default")))
void _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(void * condition, void * lock)
{
  FIND_NEXT(_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE)
  WAITS_FOR_WORK(next(condition, lock))
}

/* std::condition_variable::wait_for and wait_until, which the compiler puts into the caller. */
__attribute__((visibility("default")))
int pthread_cond_clockwait(
  pthread_cond_t * condition, pthread_mutex_t * mutex, clockid_t clock,
  const struct timespec * until)
{
  FIND_NEXT(pthread_cond_clockwait)
  int result;
  if (!next) {
    return ENOSYS; /* A C library without it. */
  }
  WAITS_FOR_WORK(result = next(condition, mutex, clock, until))
  return result;
}

/* How many bytes Fast DDS last serialized on this thread, and of which type Cyclone DDS did. */
static __thread size_t serialized;
static __thread const void * serialized_type;
static size_t (* length_in_cyclone)(const void * type, const void * message);

/* Cyclone DDS pads what it writes. Only if asked for, its type computes rmw_serialize's length: for
   nested types that takes half as long as publishing. From Cyclone DDS 11 on that function has more
   parameters, and there is no shared memory. */
__attribute__((visibility("default")))
void ddsi_serdata_init(void * data, const void * type, int kind)
{
  static void (* next)(void *, const void *, int);
  if (!next) {
    void * caller = __builtin_return_address(0);
    if (secure_getenv("ROSLENS_CYCLONE_SIZES") &&
      next_function("dds_is_shared_memory_available", caller))
    {
      length_in_cyclone = (size_t (*)(const void *, const void *)) next_function(
        "ddsi_sertype_get_serialized_size", caller);
    }
    next = (void (*)(void *, const void *, int)) next_function(__func__, caller);
  }
  if (kind == 2 /* SDK_DATA */ && !serialized_type) {
    serialized_type = type;
  }
  next(data, type, kind);
}

/* eprosima::fastcdr::Cdr::get_serialized_data_length, of Fast CDR 2. */
__attribute__((visibility("default")))
size_t _ZNK8eprosima7fastcdr3Cdr26get_serialized_data_lengthEv(const void * cdr)
{
  FIND_NEXT(_ZNK8eprosima7fastcdr3Cdr26get_serialized_data_lengthEv)
  serialized = next(cdr);
  return serialized;
}

__attribute__((visibility("default")))
int rcl_publish(const void * publisher, const int32_t * message, void * allocation)
{
  FIND_NEXT(rcl_publish)
  if (!next || !message || !ros_trace_enabled_message_content()) {
    return next ? next(publisher, message, allocation) : 1;
  }
  unsigned at = place_of(publisher);
  bool stamped = at < PUBLISHERS && publishers[at].stamped;
  int64_t stamp = stamped ? message[0] * 1000000000ll + (uint32_t) message[1] : 0;
  /* What is called within may publish as well. */
  size_t outer = serialized;
  const void * outer_type = serialized_type;
  serialized = 0;
  serialized_type = NULL;
  int failed = next(publisher, message, allocation);
  if (!failed && serialized_type && length_in_cyclone) {
    serialized = length_in_cyclone(serialized_type, message);
  }
  if (!failed && (serialized || stamp)) {
    ros_trace_do_message_content(message, serialized, stamp);
  }
  serialized = outer;
  serialized_type = outer_type;
  return failed;
}

__attribute__((visibility("default")))
bool ros_trace_compile_status(void)
{
  return true;
}

/* Names of callbacks, which tracetools' C++ interface requests. libstdc++ is then always loaded; a
   process without C++ need not load it. The caller frees the result. */
extern char * __cxa_demangle(const char *, char *, size_t *, int *) __attribute__((weak));

__attribute__((visibility("default")))
char * _ZN10tracetools6detail15demangle_symbolEPKc(const char * mangled)
{
  int status = -1;
  if (!__cxa_demangle || !mangled) {
    return NULL;
  }
  char * plain = __cxa_demangle(mangled, NULL, NULL, &status);
  return status == 0 ? plain : NULL;
}

__attribute__((visibility("default")))
char * _ZN10tracetools6detail18get_symbol_funcptrEPKv(const void * function)
{
  Dl_info found;
  if (dladdr((void *) function, &found) == 0 || !found.dli_sname) {
    return NULL;
  }
  return _ZN10tracetools6detail15demangle_symbolEPKc(found.dli_sname);
}
"""
"""C source of these functions, and of those of tracetools that record nothing.

It needs ``_GNU_SOURCE``, dlfcn.h, errno.h, pthread.h, stdlib.h.
"""


def with_calls(instrumentation: Instrumentation) -> Instrumentation:
    """Return the instrumentation with our own events after ROS's."""
    functions = {point.name: point.parameters for point in _EVENTS}
    return replace(
        instrumentation,
        tracepoints=(*instrumentation.tracepoints, *_EVENTS),
        functions={**instrumentation.functions, **functions},
    )
