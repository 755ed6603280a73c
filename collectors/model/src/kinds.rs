//! List the kinds of events that the model reads, by name, and the fields of each.

/// Define the kinds of events of the pass, with their names and fields. Among events of one thread
/// at the same time, those of an earlier kind come first.
macro_rules! kinds {
    ($($kind:ident $name:literal [$($field:literal),*];)*) => {
        /// A kind of event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "named as the tracepoints are")]
        pub enum Kind { $($kind,)* }

        /// Each kind with its event's name, without ROS's provider, and its fields; `x+8` means
        /// eight bytes of x from offset 8 on, as a number.
        pub const KINDS: &[(Kind, &str, &[&str])] =
            &[$((Kind::$kind, $name, &[$($field),*]),)*];
    };
}

kinds! {
    Wait "rclcpp_executor_wait_for_work" ["timeout"];
    Ready "rclcpp_executor_get_next_ready" [];
    Execute "rclcpp_executor_execute" ["handle"];
    WaitStart "executor_wait_start" [];
    WaitEnd "executor_wait_end" [];
    RmwTake "rmw_take" ["rmw_subscription_handle", "message", "source_timestamp", "taken"];
    RclTake "rcl_take" ["message"];
    Received "message_received" ["message", "received_timestamp"];
    RclcppTake "rclcpp_take" ["message"];
    Dequeue "rclcpp_ring_buffer_dequeue" ["buffer", "index"];
    TakeRequest "rmw_take_request"
        ["rmw_service_handle", "client_gid+0", "client_gid+8", "sequence_number", "taken"];
    CallbackStart "callback_start" ["callback", "is_intra_process"];
    IntraPublish "rclcpp_intra_publish" ["publisher_handle", "message"];
    Enqueue "rclcpp_ring_buffer_enqueue" ["buffer", "index", "overwritten"];
    RclcppPublish "rclcpp_publish" ["publisher_handle", "message"];
    RclPublish "rcl_publish" ["publisher_handle", "message"];
    RmwPublish "rmw_publish" ["rmw_publisher_handle", "message", "timestamp"];
    Content "message_content" ["message", "size", "header_stamp"];
    CallRequest "rcl_send_request" ["rmw_client_handle"];
    SendRequest "rmw_send_request" ["rmw_client_handle", "sequence_number"];
    CallResponse "rcl_send_response" ["rmw_service_handle"];
    SendResponse "rmw_send_response"
        ["rmw_service_handle", "client_gid+0", "client_gid+8", "sequence_number", "timestamp"];
    TakeResponse "rmw_take_response"
        ["rmw_client_handle", "sequence_number", "source_timestamp", "taken"];
    ClientCallback "client_callback_start" ["rmw_client_handle", "sequence_number"];
    Malloc "lttng_ust_libc:malloc" ["size", "ptr"];
    Calloc "lttng_ust_libc:calloc" ["size", "ptr", "nmemb"];
    Realloc "lttng_ust_libc:realloc" ["size", "ptr", "in_ptr"];
    Memalign "lttng_ust_libc:memalign" ["size", "ptr"];
    PosixMemalign "lttng_ust_libc:posix_memalign" ["size", "out_ptr", "result"];
    Free "lttng_ust_libc:free" ["", "ptr"];
    Clear "rclcpp_ring_buffer_clear" ["buffer"];
    CallbackEnd "callback_end" ["callback"];
    FunctionEntry "function_entry" ["function", "stack"];
    FunctionExit "function_exit" ["function", "stack"];
}

impl Kind {
    /// Whether the event shows that its thread could take messages just then; `rmw_take` does not,
    /// because the middleware takes messages for itself on a thread of its own.
    pub(crate) fn of_free_thread(self) -> bool {
        (self <= Self::CallbackStart && self != Self::RmwTake) || self == Self::TakeResponse
    }

    /// Whether the event comes from ROS: any code may allocate, free or be probed, at any place.
    pub(crate) fn of_ros(self) -> bool {
        !matches!(
            self,
            Self::Malloc
                | Self::Calloc
                | Self::Realloc
                | Self::Memalign
                | Self::PosixMemalign
                | Self::Free
                | Self::FunctionEntry
                | Self::FunctionExit
        )
    }
}

/// A set of kinds of events, with a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u64);

const _: () = assert!(KINDS.len() <= u64::BITS as usize);

impl Kinds {
    /// Return the kinds with these names, as in `KINDS`; other names are ignored.
    #[must_use]
    pub fn named(names: &[String]) -> Self {
        let is_named = |name: &str| names.iter().any(|given| given == name);
        let given_kinds = KINDS.iter().filter(|(_, name, _)| is_named(name));
        Self(given_kinds.fold(0, |bits, (kind, ..)| bits | 1 << *kind as u64))
    }

    /// Whether a kind is in the set.
    #[must_use]
    pub const fn has(self, kind: Kind) -> bool {
        self.0 >> kind as u64 & 1 == 1
    }
}
