"""Calls into rcl that no tracepoint of ROS shows, as events of ours.

``rmw_send_request`` and ``rmw_send_response`` come after the write: by then the other side may
have taken what was written. The libraries that roslens preloads stand before rcl's own functions
and say when they are called.
"""

from __future__ import annotations

from dataclasses import replace

from roslens.tracing.ros.header import Field, Instrumentation, Parameter, Tracepoint

_CLIENT = Parameter("const void *", "rmw_client_handle")
_SERVICE = Parameter("const void *", "rmw_service_handle")
_NUMBER = Parameter("int64_t", "sequence_number")
_EVENTS = {
    "rcl_send_request": (_CLIENT,),
    "rcl_send_response": (_SERVICE,),
    # Of rclpy alone, which says so itself.
    "client_callback_start": (_CLIENT, _NUMBER),
}

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

typedef int (* roslens_send)(const void *, void *, void *);
typedef const void * (* roslens_handle)(const void *);
static roslens_handle rmw_client_of;
/* The client whose call rclpy said to begin, before it comes to rcl. */
static __thread const void * announced;

__attribute__((visibility("default")))
int rcl_send_request(const void * client, void * request, void * sequence_number)
{
  static roslens_send next;
  if (!next || !rmw_client_of) {
    void * caller = __builtin_return_address(0);
    next = (roslens_send) next_function("rcl_send_request", caller);
    rmw_client_of = (roslens_handle) next_function("rcl_client_get_rmw_handle", caller);
  }
  if (rmw_client_of && client != announced && ros_trace_enabled_rcl_send_request()) {
    ros_trace_do_rcl_send_request(rmw_client_of(client));
  }
  announced = NULL;
  return next ? next(client, request, sequence_number) : 1;
}

__attribute__((visibility("default")))
int rcl_send_response(const void * service, void * header, void * response)
{
  static roslens_send next;
  static roslens_handle rmw_service_of;
  if (!next || !rmw_service_of) {
    void * caller = __builtin_return_address(0);
    next = (roslens_send) next_function("rcl_send_response", caller);
    rmw_service_of = (roslens_handle) next_function("rcl_service_get_rmw_handle", caller);
  }
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
"""
"""C source of them; needs ``<dlfcn.h>`` with ``_GNU_SOURCE``."""


def with_calls(instrumentation: Instrumentation) -> Instrumentation:
    """The same with the events of ours behind ROS's own."""
    added = tuple(
        Tracepoint(name, parameters, tuple(map(_field, parameters)))
        for name, parameters in _EVENTS.items()
    )
    return replace(
        instrumentation,
        tracepoints=(*instrumentation.tracepoints, *added),
        functions={**instrumentation.functions, **_EVENTS},
    )


def _field(parameter: Parameter) -> Field:
    kind = "ctf_integer" if parameter is _NUMBER else "ctf_integer_hex"
    return Field(kind, parameter.name, (parameter.type, parameter.name, parameter.name))
