//! Find the messages taken from the middleware or ring buffers, and the callbacks they started.
//!
//! The events on a thread are `rmw_take`, `rcl_take`, `message_received`, `rclcpp_take`,
//! `callback_start`; or the dequeue of a ring buffer, then `callback_start`. A callback belongs to
//! the take before it only if it is one of that subscription, and if the thread did nothing else in
//! between: neither ended a callback nor continued with its executor.

use serde::{Deserialize, Serialize};

use crate::callbacks::Execution;
use crate::identity::Thread;
use crate::ids::{Id, Maybe, entry};
use crate::intake::Event;
use crate::kinds::Kind;
use crate::registry::{HandleKind, Registry, Subscription};
use crate::rows::{NEVER, Rows};

/// One message taken.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Take {
    /// The time of `rmw_take`, or of the dequeue.
    pub time: i64,
    /// The time of `rcl_take`, or `NEVER`.
    pub rcl: i64,
    /// The time of `rclcpp_take`, or `NEVER`.
    pub rclcpp: i64,
    /// When the middleware's reader received the message, by the system clock, or `NEVER`.
    pub received: i64,
    /// The source timestamp, or `NEVER`.
    pub stamp: i64,
    pub thread: Id<Thread>,
    pub subscription: Maybe<Subscription>,
    /// The execution that the take started.
    pub execution: Maybe<Execution>,
    /// The next take in its chain.
    pub next: Maybe<Take>,
    /// Whether the message was taken from a ring buffer.
    pub intra: bool,
    /// Whether a publication was found for it.
    pub matched: bool,
    /// Whether its execution is not known to be of a callback of its subscription.
    pub guessed: bool,
}

/// The last take of a thread, or its last attempt.
#[derive(Clone, Copy)]
struct Head {
    take: Maybe<Take>,
    message: u64,
    started: bool,
}

/// All takes.
#[derive(Clone, Default)]
pub struct Takes {
    /// Takes by number, in order of time.
    pub rows: Rows<Take>,
    /// Whether each subscription took a message between processes.
    pub taken_between: Vec<bool>,
    heads: Vec<Option<Head>>,
}

impl Takes {
    fn begin(&mut self, thread: Id<Thread>, take: Maybe<Take>, message: u64) {
        *entry(&mut self.heads, thread) = Some(Head {
            take,
            message,
            started: false,
        });
    }

    fn add(
        &mut self,
        event: &Event,
        subscription: Maybe<Subscription>,
        stamp: Option<i64>,
        intra: bool,
    ) -> Maybe<Take> {
        self.rows.push(Take {
            time: event.time,
            rcl: NEVER,
            rclcpp: NEVER,
            received: NEVER,
            stamp: stamp.unwrap_or(NEVER),
            thread: event.thread,
            subscription,
            execution: None,
            next: None,
            intra,
            matched: false,
            guessed: false,
        })
    }

    /// Handle `rmw_take`; return the take, if a message was taken.
    pub fn on_rmw_take(&mut self, event: &Event, objects: &Registry) -> Maybe<Take> {
        let mut take = None;
        if event.get(3).is_some_and(|taken| taken != 0) {
            let (kind, handle) = (HandleKind::RmwSubscription, event.get(0));
            let subscription = objects.object(kind, event.process, handle, event.time);
            if let Some(subscription) = subscription {
                *entry(&mut self.taken_between, subscription) = true;
            }
            take = self.add(event, subscription, event.signed(2), false);
        }
        self.begin(event.thread, take, event.get(1).unwrap_or_default());
        take
    }

    /// Handle `rclcpp_ring_buffer_dequeue` of a buffer of a subscription; return the take.
    pub fn on_dequeue(&mut self, event: &Event, subscription: Maybe<Subscription>) -> Maybe<Take> {
        let take = self.add(event, subscription, None, true);
        self.begin(event.thread, take, 0);
        take
    }

    /// Handle an event that cannot come between a take and its callback.
    pub fn on_other(&mut self, thread: Id<Thread>) {
        if let Some(head) = self.heads.get_mut(thread.place()) {
            *head = None;
        }
    }

    /// Handle `rcl_take`, `message_received` or `rclcpp_take`, if it is of the thread's last take.
    pub fn on_taken_above(&mut self, kind: Kind, event: &Event) {
        let Some(Some(head)) = self.heads.get(event.thread.place()) else {
            return;
        };
        if event.get(0) != Some(head.message) {
            return;
        }
        let Some(take) = self.rows.edit(head.take) else {
            return;
        };
        let (field, value) = match kind {
            Kind::RclTake => (&mut take.rcl, event.time),
            Kind::Received => (&mut take.received, event.signed(1).unwrap_or(NEVER)),
            _ => (&mut take.rclcpp, event.time),
        };
        if *field == NEVER {
            *field = value;
        }
    }

    /// Handle the `callback_start` of an execution, and join its thread's last take if that fits.
    pub fn on_start(&mut self, number: Id<Execution>, execution: &Execution, objects: &Registry) {
        let Some(Some(head)) = self.heads.get_mut(execution.thread.place()) else {
            return;
        };
        if std::mem::replace(&mut head.started, true) {
            return;
        }
        let Some(take) = self.rows.edit(head.take) else {
            return;
        };
        let owner = objects.subscription_of(&objects.callback(execution.callback));
        let owner = owner.filter(|_| take.subscription.is_some());
        if execution.intra == Some(take.intra) && (owner.is_none() || owner == take.subscription) {
            (take.execution, take.guessed) = (Some(number), owner.is_none());
        }
    }
}
