"""Define every table that collectors write. Times are int64 ns since the epoch, sizes bytes."""

from __future__ import annotations

from roslens.recording.schema import Column, Table

_HOST = Column("host", "string", "label of the host: h0, h1, ...", nullable=False)
_VPID = Column("vpid", "int32", "process id as the process itself sees it")
_VTID = Column("vtid", "int32", "thread id as the process itself sees it")
_NODE = Column("node", "string", "full name of the node, namespace included")


def _id(entity: str, name: str | None = None) -> Column:
    return Column(name or f"{entity}_id", "int64", f"number of the {entity}", nullable=False)


def _ref(entity: str) -> Column:
    return Column(f"{entity}_id", "int64", f"number of the {entity}, null when it is not known")


_TAKEN = "before: it has been taken"
_WRITTEN = "before: it has been written, which the other side may have seen already"
_CALLED = "at: rcl is called; of rclpy traced by roslens call_async begins"
_SENDS = "at: the middleware is about to be called"
_BEGINS = (
    "after: what the callback is given is converted or copied next (C++; in Python it has been "
    "converted), then its first line runs"
)
_OPERATIONS = {
    "created_ns": "before: the object has been made",
    "ended_ns": "before: the object is gone",
    "start_ns": _BEGINS,
    "callback_start_ns": _BEGINS,
    "callback_end_ns": "before: the callback has returned",
    "publish_ns": (
        "before: publish() was called, and what it publishes by reference within a process has "
        "been copied; in Python at, its conversion comes next"
    ),
    "rclcpp_publish_ns": "before: publish() was called; in Python at",
    "intra_publish_ns": "before: publish() was called, and what was given by reference copied",
    "rcl_publish_ns": _SENDS,
    "rmw_publish_ns": "after: the middleware writes next",
    "source_timestamp_ns": "after: the middleware writes next; up to Iron at, as it writes",
    "header_stamp_ns": "at: what its publisher says, such as that a sensor measured",
    "take_ns": f"{_TAKEN}; from a ring buffer at, as it leaves that",
    "rcl_take_ns": _TAKEN,
    "rclcpp_take_ns": _TAKEN,
    "received_ns": "at: it comes into the reader's history, and may be taken",
    "request_called_ns": _CALLED,
    "request_sent_ns": _WRITTEN,
    "request_taken_ns": _TAKEN,
    "response_called_ns": "at: rcl is called",
    "response_sent_ns": _WRITTEN,
    "response_taken_ns": _TAKEN,
    "response_received_ns": "after: whoever called is told next",
    "goal_called_ns": _CALLED,
    "goal_sent_ns": _WRITTEN,
    "goal_taken_ns": _TAKEN,
    "accepted_ns": "after: the server has accepted it",
    "goal_response_sent_ns": _WRITTEN,
    "goal_response_taken_ns": _TAKEN,
    "result_called_ns": _CALLED,
    "result_requested_ns": _WRITTEN,
    "result_request_taken_ns": _TAKEN,
    "result_sent_ns": _WRITTEN,
    "result_taken_ns": _TAKEN,
    "cancel_sent_ns": _WRITTEN,
    "finished_ns": f"after: it has ended; by its status {_SENDS}",
    "first_feedback_ns": _SENDS,
    "last_feedback_ns": _SENDS,
    "release_ns": "at: as far as it can be estimated",
    "declared_ns": "at: it is declared",
}
"""The operation of instants by column name, from the place of their tracepoints in rclcpp, rcl,
rmw_fastrtps_cpp and rmw_cyclonedds_cpp; columns that deviate state their own."""


def _time(
    name: str, meaning: str, *, nullable: bool = True, operation: str | None = None
) -> Column:
    if operation is None:
        operation = _OPERATIONS.get(name, "")
    return Column(name, "int64", meaning, "ns", nullable, operation=operation)


def _bytes(name: str, meaning: str) -> Column:
    return Column(name, "int64", meaning, unit="byte", nullable=False)


def _pointer(name: str, meaning: str) -> Column:
    return Column(name, "uint64", meaning + " (address, valid in its process only)")


_CREATED = _time("created_ns", "time of its init event")
_ENDED = _time(
    "ended_ns",
    "when its address was given to the next object, as no event shows its end. Null: to nobody, so "
    "that it may have lived as long as its process",
)
_RECEIVED = _time(
    "received_ns",
    "when the middleware's reader received it (system clock), by message_received: with "
    "Fast DDS and Zenoh",
)
_OF_NODE = (_ref("node"), _NODE)
_TOPIC = Column("topic", "string", "topic name")
_TYPE = Column(
    "type", "string", "of its messages, by message_type_init: not where only LTTng's own library is"
)
_SERVICE = Column("service", "string", "service name")
_QUEUE_DEPTH = Column("queue_depth", "uint64", "history depth of its QoS")
_GID = Column("gid", "list<uint8>", "DDS gid as traced: 24 bytes up to Jazzy, 16 from Kilted")


def _objects(name: str, row: str, *columns: Column, event: str) -> Table:
    """Make a table of the objects of one kind, each with its process, from their init event."""
    number = _id(name.removesuffix("s").replace("_", " "), f"{name.removesuffix('s')}_id")
    return Table(name, row, (number, _HOST, _VPID, *columns, _CREATED, _ENDED), (f"ros2:{event}",))


RAW_EVENT_COLUMNS = (
    _time("time_ns", "event time", nullable=False),
    _HOST,
    Column("trace", "string", "CTF trace, as a path relative to the recording's traces"),
    Column("cpu_id", "int32", "CPU that recorded the event"),
    _VPID,
    _VTID,
    Column("procname", "string", "thread name, at most 16 characters"),
)
"""The columns before the payload in every ``events/<provider>/<event>.parquet``."""

HOSTS = Table(
    "hosts",
    "a host on which something was recorded",
    (
        _HOST,
        Column("processes", "int64", "processes that recorded an event", nullable=False),
        _time("begin_ns", "first event of a process; null where only the kernel recorded"),
        _time("end_ns", "last event of a process"),
        Column("events", "int64", "events that processes recorded", nullable=False),
    ),
)

PROCESSES = Table(
    "processes",
    "a process that recorded at least one event",
    (
        _id("process"),
        _HOST,
        Column("vpid", "int32", "process id as the process itself sees it", nullable=False),
        Column("procname", "string", "name of its first recorded thread"),
        Column(
            "pid_namespace",
            "int64",
            "its pid namespace, which tells processes of the same vpid apart; null when the "
            "context pid_ns was not recorded",
        ),
        Column("tracetools_version", "string", "from rcl_init; null when that was not recorded"),
        Column(
            "rmw",
            "string",
            "middleware, such as rmw_cyclonedds_cpp: as the process loaded it "
            "(lttng_ust_statedump, lttng_ust_dl), or as the manifest says",
        ),
        _time("begin_ns", "first event"),
        _time("end_ns", "last event"),
        Column("events", "int64", "events recorded", nullable=False),
    ),
)

CONTEXTS = _objects(
    "contexts",
    "a context, from rcl_init; a process has one for each time that it initialised ROS",
    _ref("process"),
    _pointer("context_handle", "rcl_context_t"),
    Column("tracetools_version", "string", "version of tracetools in this process"),
    event="rcl_init",
)

NODES = _objects(
    "nodes",
    "a node, from rcl_node_init",
    _NODE,
    Column("name", "string", "node name"),
    Column("namespace", "string", "namespace"),
    _pointer("node_handle", "rcl_node_t"),
    _pointer("rmw_handle", "rmw_node_t"),
    event="rcl_node_init",
)

PUBLISHERS = _objects(
    "publishers",
    "a publisher, from rcl_publisher_init (or rmw_publisher_init alone)",
    *_OF_NODE,
    _TOPIC,
    _TYPE,
    _QUEUE_DEPTH,
    _pointer("publisher_handle", "rcl_publisher_t"),
    _pointer("rmw_publisher_handle", "rmw_publisher_t"),
    _GID,
    event="rcl_publisher_init",
)

SUBSCRIPTIONS = _objects(
    "subscriptions",
    "a subscription, from rcl_subscription_init",
    *_OF_NODE,
    _TOPIC,
    _TYPE,
    _QUEUE_DEPTH,
    _pointer("subscription_handle", "rcl_subscription_t"),
    _pointer("rmw_subscription_handle", "rmw_subscription_t"),
    _GID,
    event="rcl_subscription_init",
)

SERVICES = _objects(
    "services",
    "a service, from rcl_service_init",
    *_OF_NODE,
    _SERVICE,
    _pointer("service_handle", "rcl_service_t"),
    _pointer("rmw_service_handle", "rmw_service_t"),
    event="rcl_service_init",
)

CLIENTS = _objects(
    "clients",
    "a service client, from rcl_client_init",
    *_OF_NODE,
    _SERVICE,
    _pointer("client_handle", "rcl_client_t"),
    _pointer("rmw_client_handle", "rmw_client_t"),
    _GID,
    event="rcl_client_init",
)

TIMERS = _objects(
    "timers",
    "a timer, from rcl_timer_init",
    *_OF_NODE,
    Column("period_ns", "int64", "period", unit="ns"),
    _pointer("timer_handle", "rcl_timer_t"),
    event="rcl_timer_init",
)

_KIND = Column(
    "kind",
    "string",
    "what the callback serves, null when its owner is not known",
    values=("subscription", "timer", "service", "function"),
)
_CALLBACK_NAME = Column(
    "name", "string", "topic, service, the timer's period such as '2 ms', or LIB:FUNCTION"
)
_SYMBOL = Column("symbol", "string", "function, from rclcpp_callback_register")
_INTRA = Column("intra_process", "bool", "whether the message came within the process")

CALLBACKS = _objects(
    "callbacks",
    "a callback object of a subscription, timer or service, or a probed function",
    _pointer("callback", "callback object"),
    _KIND,
    Column("owner_id", "int64", "subscription_id, timer_id or service_id, by `kind`"),
    _CALLBACK_NAME,
    *_OF_NODE,
    _SYMBOL,
    event="rclcpp_callback_register",
)

RING_BUFFERS = Table(
    "ring_buffers",
    "an intra-process buffer, from rclcpp_construct_ring_buffer or rclcpp_buffer_to_ipb: that of a "
    "subscription, or the history that a transient local publisher keeps for late joiners",
    (
        _id("ring buffer", "ring_buffer_id"),
        _HOST,
        _VPID,
        _ref("subscription"),
        Column("publisher_id", "int64", "number of the publisher whose history it is"),
        *_OF_NODE,
        _TOPIC,
        Column("capacity", "uint64", "messages that it holds at most"),
        _pointer("buffer", "ring buffer"),
        _pointer("ipb", "intra-process buffer around it"),
        _CREATED,
        _ENDED,
    ),
    needs=("ros2:rclcpp_construct_ring_buffer", "ros2:rclcpp_buffer_to_ipb"),
)

STATE_MACHINES = _objects(
    "state_machines",
    "the state machine of a lifecycle node, from rcl_lifecycle_state_machine_init",
    *_OF_NODE,
    _pointer("state_machine", "rcl_lifecycle_state_machine_t"),
    event="rcl_lifecycle_state_machine_init",
)

ACTIONS = Table(
    "actions",
    "an action server or client, from the services and topics that it consists of "
    "(`<action>/_action/...`); those of one node and action that were made in the same place of "
    "the order belong together",
    (
        _id("action"),
        _HOST,
        _VPID,
        *_OF_NODE,
        Column("action", "string", "action name", nullable=False),
        Column("role", "string", "which end it is", nullable=False, values=("server", "client")),
        Column("send_goal_id", "int64", "service_id or client_id, by `role`, of send_goal"),
        Column("cancel_goal_id", "int64", "the same of cancel_goal"),
        Column("get_result_id", "int64", "the same of get_result"),
        Column("feedback_id", "int64", "publisher_id or subscription_id, by `role`, of feedback"),
        Column("status_id", "int64", "the same of status"),
        _time("created_ns", "time of the first of their init events"),
        _time("ended_ns", "when an address of its services or clients was given to the next one"),
    ),
    needs=("ros2:rcl_service_init", "ros2:rcl_client_init"),
)

CALLBACK_INSTANCES = Table(
    "callback_instances",
    "one execution of a callback: callback_start to callback_end in one thread; or, of kind "
    "function, of a probed function: from its first instruction until it returns",
    (
        _id("callback instance", "callback_instance_id"),
        _HOST,
        _ref("callback"),
        _KIND,
        _CALLBACK_NAME,
        _NODE,
        _SYMBOL,
        _VPID,
        _VTID,
        _time("start_ns", "callback_start", nullable=False),
        _time(
            "end_ns",
            "callback_end; null when it never ended within the trace, or by an exception",
            operation=_OPERATIONS["callback_end_ns"],
        ),
        _time("duration_ns", "end - start"),
        _INTRA,
    ),
    needs=("ros2:callback_start", "ros2:callback_end"),
)

PUBLICATIONS = Table(
    "publications",
    "one publish() of one message, whoever received it",
    (
        _id("message"),
        _HOST,
        _ref("publisher"),
        _TOPIC,
        _NODE,
        _VPID,
        _VTID,
        _time("publish_ns", "first publish event of the publication"),
        _time("rclcpp_publish_ns", "rclcpp_publish"),
        _time("intra_publish_ns", "rclcpp_intra_publish"),
        _time("rcl_publish_ns", "rcl_publish"),
        _time("rmw_publish_ns", "rmw_publish"),
        _time("source_timestamp_ns", "timestamp that the middleware gave it (system clock)"),
        _time(
            "header_stamp_ns",
            "stamp that its publisher gave it, where header or stamp is its first member, by "
            "message_content; null: none, or 0",
        ),
        Column(
            "size",
            "int64",
            "serialized, by message_content: with Fast DDS from Jazzy on, with Zenoh; with Cyclone "
            "DDS 0.10 only if ROSLENS_CYCLONE_SIZES was set",
            unit="B",
        ),
        _ref("callback_instance"),
    ),
    needs=("ros2:rcl_publish",),
)

TAKES = Table(
    "takes",
    "one message taken: rmw_take with taken = 1, or a ring buffer's dequeue",
    (
        _id("take"),
        _HOST,
        _ref("subscription"),
        _TOPIC,
        _NODE,
        _VPID,
        _VTID,
        _time("take_ns", "rmw_take, or the dequeue", nullable=False),
        _time("rcl_take_ns", "rcl_take"),
        _time("rclcpp_take_ns", "rclcpp_take"),
        _RECEIVED,
        _time("source_timestamp_ns", "timestamp that the publishing middleware gave it"),
        _ref("callback_instance"),
        _INTRA,
    ),
    needs=("ros2:rmw_take",),
)

OUTCOMES = (
    "delivered",
    "taken",
    "overwritten",
    "replaced",
    "lost",
    "unknown",
    "replayed",
    "no_subscriber",
    "not_matched",
)

MESSAGES = Table(
    "messages",
    "one publication for one subscription that existed when it was published",
    (
        Column(
            "message_id",
            "int64",
            "number of the publication; null where it was not recorded, as of what is replayed",
        ),
        _HOST,
        _TOPIC,
        _ref("publisher"),
        _ref("subscription"),
        Column("publisher_node", "string", "full name of the publishing node"),
        Column("subscription_node", "string", "full name of the subscribing node"),
        Column("publisher_host", "string", "host of the publisher"),
        Column("subscription_host", "string", "host of the subscription"),
        Column("publisher_vpid", "int32", "process of the publisher"),
        Column("subscription_vpid", "int32", "process of the subscription"),
        _INTRA,
        _time("publish_ns", "first publish event of the publication"),
        _time("rcl_publish_ns", "rcl_publish"),
        _time("rmw_publish_ns", "rmw_publish"),
        _time("source_timestamp_ns", "timestamp that the middleware gave it (system clock)"),
        _RECEIVED,
        _time("take_ns", "rmw_take, or the ring buffer's dequeue"),
        _time("rclcpp_take_ns", "rclcpp_take"),
        _time("callback_start_ns", "start of its callback"),
        _time("callback_end_ns", "end of its callback"),
        _time(
            "latency_ns",
            "callback_start - publish; null without one of them, and between hosts where it is no "
            "longer than clock_bound_ns, or that is not known",
        ),
        _time(
            "clock_bound_ns",
            "between hosts: the most by which their clocks can make callback_start - publish "
            "wrong, by the messages that went both ways; null within a host, and where these do "
            "not tell",
        ),
        _time("data_age_ns", "take - header_stamp: wrong where stamps are not of the system clock"),
        Column(
            "outcome",
            "string",
            "delivered: its callback ran; taken: taken, no callback seen; overwritten: in an "
            "intra-process ring buffer; replaced: newer messages took its place in the "
            "subscription's keep_last history before it was taken; lost: inter-process, never "
            "taken, though it must have been; unknown: the trace's edge, tracer loss or an event "
            "that was not recorded forbids saying; replayed: to a late joiner; no_subscriber: no "
            "subscription of the topic was recorded; not_matched: no earlier message of this "
            "publisher was taken by this subscription, which may not have discovered it yet",
            nullable=False,
            values=OUTCOMES,
        ),
        Column(
            "match",
            "string",
            "how publication and take were joined; null where nothing was",
            values=("exact", "approximate", "ambiguous"),
        ),
        Column(
            "reason",
            "string",
            "the rule that decided outcome and match: see [Reasons](#reasons)",
            nullable=False,
        ),
        _ref("callback_instance"),
    ),
    needs=("ros2:rcl_publish", "ros2:rmw_publish", "ros2:rmw_take"),
)

ONE_SIDED_MESSAGES = Table(
    "one_sided_messages",
    "a message taken whose publication was not recorded: its sender is not traced, published "
    "before the trace began, or the tracer dropped the event",
    (
        _id("take"),
        _HOST,
        _VPID,
        _TOPIC,
        _ref("subscription"),
        Column("subscription_node", "string", "full name of the subscribing node"),
        Column(
            "publisher_recorded", "bool", "whether a publisher of this topic is in the recording"
        ),
        _time("source_timestamp_ns", "the sender's system clock when it published"),
        _time("take_ns", "rmw_take", nullable=False),
        _time("callback_start_ns", "start of its callback"),
        _time("callback_end_ns", "end of its callback"),
        _time(
            "clock_offset_ns",
            "system clock minus event clock on the receiving host, as the message stamped there "
            "nearest in time shows (rmw_publish); null when it stamped none, and then taken as 0",
        ),
        _time(
            "latency_ns",
            "callback_start - (source_timestamp - clock_offset). Holds the difference of the two "
            "hosts' clocks where the sender is on another one; null when replayed",
        ),
        Column(
            "synchronisation",
            "string",
            "how the hosts' clocks were synchronised, as the manifest says; null: not known",
        ),
        Column(
            "outcome",
            "string",
            "delivered: its callback ran; taken: no callback seen; replayed: published before the "
            "subscription existed",
            nullable=False,
            values=("delivered", "taken", "replayed"),
        ),
        _ref("callback_instance"),
    ),
    needs=("ros2:rmw_take",),
)

_CLIENT_EXECUTION = Column(
    "client_callback_instance_id", "int64", "execution in which the request was sent; null outside"
)
_CALLS = tuple(
    f"ros2:rmw_{kind}"
    for kind in ("send_request", "take_request", "send_response", "take_response")
)

SERVICE_CALLS = Table(
    "service_calls",
    "one request of one client, for one server that took it (or none)",
    (
        _HOST,
        _SERVICE,
        Column("client_node", "string", "full name of the calling node"),
        Column("server_node", "string", "full name of the serving node"),
        _ref("client"),
        _ref("service"),
        Column("sequence_number", "int64", "number of the request at its client"),
        _time(
            "request_called_ns",
            "rcl_send_request: rcl is called to send it, or, of rclpy traced by roslens, "
            "call_async; where no library of roslens saw it null",
        ),
        _time(
            "request_sent_ns",
            "rmw_send_request: after the write (Fast DDS) and perhaps after it was taken, or just "
            "before the write (Zenoh); the call began no later than this and request_taken_ns",
        ),
        _time("request_taken_ns", "rmw_take_request"),
        _time("callback_start_ns", "start of the service's callback"),
        _time("callback_end_ns", "end of the service's callback"),
        _time("response_called_ns", "rcl_send_response: rcl is called to send it, likewise"),
        _time("response_sent_ns", "rmw_send_response: after the write, as of request_sent_ns"),
        _time("response_taken_ns", "rmw_take_response: after the take"),
        _time(
            "response_received_ns",
            "client_callback_start: rclpy, traced by roslens, begins to tell whoever called; null "
            "of others, as rclcpp calls back at once after response_taken_ns",
        ),
        Column("callback_instance_id", "int64", "execution of the service's callback"),
        _CLIENT_EXECUTION,
    ),
    needs=_CALLS,
)

ACTION_GOALS = Table(
    "action_goals",
    "one goal that a client sent to an action server, accepted or not, from the services and "
    "topics of the action; up to Jazzy, one that a server traced by roslens accepted",
    (
        _id("action goal", "action_goal_id"),
        _HOST,
        Column("action", "string", "action name"),
        Column("client_node", "string", "full name of the node that sent the goal"),
        Column("server_node", "string", "full name of the serving node"),
        Column("sequence_number", "int64", "number of the goal request at its client"),
        Column(
            "goal_id",
            "string",
            "the goal's id, 32 hexadecimal digits, by action_request; null where no library of "
            "roslens saw the server",
        ),
        Column(
            "outcome",
            "string",
            "how the goal ended, by goal_status; rejected: its request was answered, and it was "
            "not accepted; null: not seen to have ended",
            values=("succeeded", "canceled", "aborted", "rejected"),
        ),
        _time("goal_called_ns", "rcl_send_request of send_goal, as in service_calls"),
        _time("goal_sent_ns", "rmw_send_request of send_goal: after the write"),
        _time("goal_taken_ns", "rmw_take_request of send_goal"),
        _time("accepted_ns", "goal_status: the server has accepted it"),
        _time("goal_response_sent_ns", "rmw_send_response of send_goal: accepted or rejected"),
        _time("goal_response_taken_ns", "rmw_take_response of send_goal"),
        _time("result_called_ns", "rcl_send_request of get_result"),
        _time(
            "result_requested_ns", "rmw_send_request of get_result; null: rejected, or not asked"
        ),
        _time("result_request_taken_ns", "rmw_take_request of get_result"),
        _time("result_sent_ns", "rmw_send_response of get_result"),
        _time("result_taken_ns", "rmw_take_response of get_result"),
        _time("cancel_sent_ns", "rmw_send_request of the first cancel_goal while it ran"),
        _time(
            "finished_ns",
            "goal_status: it has ended; else the last status published up to result_sent",
        ),
        _time("first_feedback_ns", "its first feedback published"),
        _time("last_feedback_ns", "its last feedback published"),
        Column(
            "feedback_count", "int64", "feedback messages published from goal_taken to result_sent"
        ),
        Column(
            "feedback_rate_hz",
            "float64",
            "feedback messages per second: (feedback_count - 1) / (last - first); null for less "
            "than two",
            unit="Hz",
        ),
        _time(
            "accept_ns",
            "goal_response_taken - goal_called; where that is null it is at least this, from the "
            "earlier of goal_sent and goal_taken",
        ),
        _time("execute_ns", "finished - goal_response_sent"),
        _time("result_ns", "result_taken - result_called, likewise"),
        _time("total_ns", "result_taken - goal_called, likewise"),
        Column(
            "match",
            "string",
            "whether the result belongs to this goal. exact: the request for it names the goal, or "
            "no other goal of the client waited for one; approximate: it is that of the goal "
            "accepted last before it was asked for, and others waited",
            values=("exact", "approximate"),
        ),
        Column(
            "alone",
            "bool",
            "whether the server had no other goal meanwhile; if not, feedback, and without goal_id "
            "end and cancel, cannot be told apart and are null; null where events may be missing, "
            "or no end of one is known that began before",
        ),
        _CLIENT_EXECUTION,
    ),
    needs=(*_CALLS, "ros2:rcl_publish"),
)

TIMER_ACTIVATIONS = Table(
    "timer_activations",
    "one execution of a timer's callback, against the grid of its releases",
    (
        _id("callback instance", "callback_instance_id"),
        _HOST,
        _VPID,
        _VTID,
        _id("timer"),
        _NODE,
        Column("period_ns", "int64", "period", unit="ns"),
        _time("start_ns", "callback_start", nullable=False),
        _time("interval_ns", "start - start before; null for the first"),
        _time("jitter_ns", "interval - period"),
        _time(
            "release_ns",
            "when it was due: the first point of the timer's grid after the activation before. The "
            "grid has the timer's period; its phase is estimated, as nothing records it: the least "
            "late of the 101 activations around touches it",
        ),
        _time("lateness_ns", "start - release; beyond the least late activation around"),
        _time(
            "drift_ns",
            "how much later than the timer's first grid, continued with its period, release lies: "
            "it grows where the timer's clock is slower than that of the events",
        ),
        Column(
            "skipped",
            "int64",
            "releases between this one's and that of the next activation; null where nothing tells",
        ),
    ),
    needs=("ros2:callback_start", "ros2:rclcpp_timer_callback_added", "ros2:rcl_timer_init"),
)

_EXECUTOR = "at: wait_for_work or wait_start before, the next event after the executor waits"

EXECUTOR_INTERVALS = Table(
    "executor_intervals",
    "a stretch in which one thread of an executor waited for work, or did not",
    (
        _HOST,
        _VPID,
        _VTID,
        Column(
            "state",
            "string",
            "wait: from rclcpp_executor_wait_for_work, or executor_wait_start of an executor that "
            "does not wait in rcl, to the next executor event of the thread; "
            "blocked: after a callback, or where nothing was executed, while another thread of the "
            "same executor (one that executed the same callback) is in wait; busy: the rest, which "
            "holds callbacks, the executor's own work, and work outside of the executor",
            nullable=False,
            values=("wait", "busy", "blocked"),
        ),
        _time("begin_ns", "begin", nullable=False, operation=_EXECUTOR),
        _time(
            "end_ns",
            "end; null when it lasted to the end of the trace, or events of the thread may be "
            "missing in it",
            operation=_EXECUTOR,
        ),
        _time("duration_ns", "end - begin"),
        _time(
            "timeout_ns",
            "how long it would have waited in rcl at most; -1 forever; null when not in wait, or "
            "not in rcl",
        ),
        Column(
            "executed",
            "int64",
            "timers and subscriptions executed, of executors that wait in rcl; of a busy stretch "
            "with blocked ones in it each part has those whose callback began in it, the first "
            "also those without one; null without an end",
        ),
        _time("callback_ns", "time inside of callbacks; null without an end"),
        _time(
            "cpu_ns",
            "CPU time of the thread, as the kernel accounted it (sched_stat_runtime), or else "
            "between its switches; null if the kernel was not recorded, the stretch has no end, or "
            "switches may be missing in it",
        ),
    ),
    needs=(
        "ros2:rclcpp_executor_get_next_ready",
        "ros2:rclcpp_executor_wait_for_work",
        "ros2:rclcpp_executor_execute",
    ),
)

_TRANSITION = "before: the state has changed"

LIFECYCLE_STATES = Table(
    "lifecycle_states",
    "a stretch in which a lifecycle node was in one state, transition states included",
    (
        _HOST,
        _VPID,
        *_OF_NODE,
        _pointer("state_machine", "rcl_lifecycle_state_machine_t"),
        Column("state", "string", "state, such as inactive or activating", nullable=False),
        _time(
            "begin_ns",
            "transition into it, or rcl_node_init for the first; null when that was not recorded",
            operation=_TRANSITION,
        ),
        _time(
            "end_ns",
            "transition out of it; null when that was not recorded",
            operation=_TRANSITION,
        ),
        _time("duration_ns", "end - begin"),
    ),
    needs=(
        "ros2:rcl_lifecycle_state_machine_init",
        "ros2:rcl_lifecycle_transition",
        "ros2:rcl_node_init",
    ),
)

MESSAGE_LINKS = Table(
    "message_links",
    "one pair of a subscription and a publisher that a node declared to be linked",
    (
        _id("link"),
        _HOST,
        _VPID,
        Column(
            "kind",
            "string",
            "periodic_async: publications use the last message received before; partial_sync: "
            "publications happen when the last of the link's subscriptions has received",
            nullable=False,
            values=("periodic_async", "partial_sync"),
        ),
        _NODE,
        _ref("subscription"),
        _ref("publisher"),
        Column("subscription_topic", "string", "topic of the subscription"),
        Column("publisher_topic", "string", "topic of the publisher"),
        _time("declared_ns", "time of its event"),
    ),
)

_EXECUTION = (
    _id("callback instance", "callback_instance_id"),
    _HOST,
    _VPID,
    _VTID,
    _KIND,
    _CALLBACK_NAME,
    _NODE,
    _time("start_ns", "callback_start", nullable=False),
)

CALLBACK_SCHEDULING = Table(
    "callback_scheduling",
    "one finished execution of a callback that the kernel's events cover: where its time went. "
    "cpu, preempted, blocked and scheduling delay add up to its duration",
    (
        *_EXECUTION,
        _time("duration_ns", "end - start"),
        _time("cpu_ns", "on a CPU"),
        _time("preempted_ns", "switched out though it could have gone on"),
        _time("blocked_ns", "asleep: from being switched out to being woken, or switched in"),
        _time(
            "scheduling_delay_ns",
            "woken and waiting for a CPU; null without sched_waking or sched_wakeup, and then part "
            "of blocked_ns",
        ),
        Column("preemptions", "int64", "times that it was preempted"),
        Column("waits", "int64", "times that it went to sleep"),
        Column("migrations", "int64", "times that it went on on another CPU"),
        Column(
            "frequency_hz",
            "float64",
            "mean frequency of its CPUs while it ran; null where power_cpu_frequency does not "
            "tell the whole of it",
            unit="Hz",
        ),
    ),
    needs=("sched_switch", "ros2:callback_start", "ros2:callback_end"),
)

_HEAP = (
    _time("time_ns", "last change in this step", nullable=False),
    _bytes("live_bytes", "allocated and not freed"),
    Column("live_blocks", "int64", "blocks allocated and not freed"),
    _bytes("peak_bytes", "most live bytes in this step"),
    _bytes("allocated_bytes", "allocated up to here in all"),
    Column("allocations", "int64", "blocks allocated up to here in all"),
)
_ALLOCATOR = ("lttng_ust_libc:malloc", "lttng_ust_libc:free")

HEAP = Table(
    "heap",
    "one process and one step of 100 ms in which its heap changed; blocks allocated before the "
    "recording, or by the parent process before a fork, do not count",
    (_HOST, _VPID, *_HEAP),
    needs=_ALLOCATOR,
)

CALLBACK_HEAP = Table(
    "callback_heap",
    "one callback and one step of 100 ms in which what it had allocated changed, whoever freed it",
    (_HOST, _VPID, _id("callback"), _KIND, _CALLBACK_NAME, _NODE, *_HEAP),
    needs=(*_ALLOCATOR, "ros2:callback_start", "ros2:callback_end"),
)

CALLBACK_ALLOCATIONS = Table(
    "callback_allocations",
    "one execution of a callback in a process whose heap was recorded; calls inside of a nested "
    "execution belong to that one",
    (
        *_EXECUTION,
        Column("allocations", "int64", "blocks allocated in it", nullable=False),
        Column("allocated_bytes", "int64", "their sizes", unit="byte", nullable=False),
        Column("frees", "int64", "blocks freed in it, whoever allocated them", nullable=False),
        Column(
            "freed_bytes", "int64", "sizes of those that are known", unit="byte", nullable=False
        ),
        Column(
            "kept_bytes", "int64", "allocated in it and never freed", unit="byte", nullable=False
        ),
    ),
    needs=(*_ALLOCATOR, "ros2:callback_start", "ros2:callback_end"),
)

LOSSES = Table(
    "losses",
    "a stretch of one stream of which something is missing",
    (
        _HOST,
        Column("trace", "string", "CTF trace, as a path relative to the recording's traces"),
        Column("stream", "string", "stream file"),
        Column("cpu_id", "int32", "CPU of the stream"),
        Column(
            "kind",
            "string",
            "what is missing. discarded_events: events for which the tracer had no room. "
            "lost_packets: packets between two that are there, or that an index lists. "
            "truncated: the rest of a packet that cannot be read to its end. missing_head: all "
            "before the first packet, as in a snapshot. missing_tail: all after the last packet, "
            "where the session went on. missing_stream: the whole stream. not_sampled: what "
            "attaching left out on purpose, so as not to cost too much",
            nullable=False,
            values=(
                *("discarded_events", "lost_packets", "truncated"),
                *("missing_head", "missing_tail", "missing_stream", "not_sampled"),
            ),
        ),
        Column("count", "int64", "events or packets; null when it cannot be known"),
        _time("begin_ns", "after this time; null where nothing shows it"),
        _time("end_ns", "before this time; null where nothing shows it"),
    ),
)

HEALTH = Table(
    "health",
    "a finding about the recording or its tables",
    (
        Column("host", "string", "label of the host; null when it concerns all"),
        Column("kind", "string", "short name of the finding", nullable=False),
        Column(
            "severity",
            "string",
            "info: good to know; warning: may bend a figure; error: figures cannot be trusted",
            nullable=False,
            values=("info", "warning", "error"),
        ),
        Column("count", "int64", "how many", nullable=False),
        Column("what", "string", "one sentence: what was found and what it means", nullable=False),
        Column("where", "string", "file, stream, table, topic or node", nullable=False),
    ),
)

TABLES = {table.name: table for table in [*vars().values()] if isinstance(table, Table)}
"""Model tables by name, in the order in which they are defined above and documented."""
