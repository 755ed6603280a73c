//! A message: a publication and a subscription, what joined them, and which way it took.

use serde::{Deserialize, Serialize};

use crate::callbacks::Execution;
use crate::decide::{Decision, Reason};
use crate::identity::Process;
use crate::ids::{Id, Maybe};
use crate::publications::Publication;
use crate::registry::{Publisher, Subscription};
use crate::rows::NEVER;
use crate::takes::Take;

/// A connection: a publisher and a subscription.
pub type Ends = (Maybe<Publisher>, Maybe<Subscription>);

/// Which way a message took, or had to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leg {
    /// Through the middleware.
    Middleware,
    /// Through the middleware, to a subscription that was created after the publication.
    BeforeSubscription,
    /// Through a ring buffer, out of which it was taken.
    Buffer,
    /// Through a ring buffer into which a publisher's history may have put it.
    LateJoiner,
    /// Any way, which alone decides what became of the message.
    Decided,
}

/// A publication and the take or execution that belongs to it.
#[derive(Clone, Copy)]
pub struct Matched {
    pub message: Id<Publication>,
    /// The subscription that took the message.
    pub subscription: Maybe<Subscription>,
    pub take: Maybe<Take>,
    pub execution: Maybe<Execution>,
    /// The rule by which they belong together.
    pub by: Reason,
}

impl Matched {
    /// Make a match of a publication and its take.
    pub const fn new(
        message: Id<Publication>,
        (number, take): (Id<Take>, &Take),
        by: Reason,
    ) -> Self {
        Self {
            message,
            subscription: take.subscription,
            take: Some(number),
            execution: take.execution,
            by,
        }
    }
}

/// One message; a time is `NEVER` if there is none.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Message {
    pub publication: Maybe<Publication>,
    pub publisher: Maybe<Publisher>,
    pub subscription: Maybe<Subscription>,
    /// The process of the subscription.
    pub process: Maybe<Process>,
    pub take: Maybe<Take>,
    pub execution: Maybe<Execution>,
    /// Whether the message came within the process, if that is known.
    pub intra: Option<bool>,
    pub publish: i64,
    /// When the message was handed to the middleware.
    pub push: i64,
    /// When the message was taken or, if no take was recorded, when its callback began.
    pub taken: i64,
    /// The latest time at which an earlier message of its connection was taken.
    pub last_take: i64,
    pub leg: Leg,
    /// What became of the message; before that is decided, what joins its publication and take.
    pub decision: Decision,
}

impl Message {
    /// Return the connection of the message.
    pub const fn ends(&self) -> Ends {
        (self.publisher, self.subscription)
    }

    /// Return when the message was taken, `NEVER` without a take.
    pub const fn take_time(&self) -> i64 {
        if self.take.is_none() {
            NEVER
        } else {
            self.taken
        }
    }

    /// Whether it went, or should have gone, through the middleware between known endpoints.
    pub fn is_between(&self) -> bool {
        self.publisher.is_some()
            && self.subscription.is_some()
            && self.publish != NEVER
            && self.intra != Some(true)
            && self.leg != Leg::BeforeSubscription
    }
}
