//! What a message is: a publication and a subscription, what joined them, and which way it took.

use crate::callbacks::Execution;
use crate::decide::{Decision, Reason};
use crate::identity::Process;
use crate::ids::{Id, Maybe};
use crate::publications::Publication;
use crate::registry::{Publisher, Subscription};
use crate::rows::{NEVER, plain};
use crate::takes::Take;

/// A publisher and a subscription.
pub type Ends = (Maybe<Publisher>, Maybe<Subscription>);

/// Which way a message took, or had to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// Through the middleware.
    Middleware,
    /// Through the middleware, to a subscription that is younger than it.
    BeforeSubscription,
    /// Through a ring buffer, out of which it was taken.
    Buffer,
    /// Out of a ring buffer into which a publisher's history may have put it.
    LateJoiner,
    /// Whichever: that way alone says what became of it.
    Decided,
}

plain!(enum Leg [Middleware, BeforeSubscription, Buffer, LateJoiner, Decided]);

/// A publication and a take.
#[derive(Clone, Copy)]
pub struct Matched {
    pub message: Id<Publication>,
    /// Whose take it is.
    pub subscription: Maybe<Subscription>,
    pub take: Maybe<Take>,
    pub execution: Maybe<Execution>,
    /// By what they belong together.
    pub by: Reason,
}

impl Matched {
    /// A publication and a take of it.
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

plain! {
    /// One message; times are `NEVER` where there is none.
    pub struct Message {
        pub publication: Maybe<Publication>,
        pub publisher: Maybe<Publisher>,
        pub subscription: Maybe<Subscription>,
        /// The process of the subscription.
        pub process: Maybe<Process>,
        pub take: Maybe<Take>,
        pub execution: Maybe<Execution>,
        /// Whether it came within the process, where that can be said.
        pub intra: Option<bool>,
        pub publish: i64,
        /// When it was handed to the middleware.
        pub push: i64,
        /// When it was taken or, where no take was recorded, its callback began.
        pub taken: i64,
        /// When an earlier message of its connection was taken last.
        pub last_take: i64,
        pub leg: Leg,
        /// What became of it; until that is decided, by what its publication and its take belong together.
        pub decision: Decision,
    }
}

impl Message {
    /// Its connection.
    pub const fn ends(&self) -> Ends {
        (self.publisher, self.subscription)
    }

    /// When it was taken, if a take tells.
    pub const fn take_time(&self) -> i64 {
        if self.take.is_none() {
            NEVER
        } else {
            self.taken
        }
    }

    /// Whether it went, or should have gone, through the middleware from one known end to another.
    pub fn is_between(&self) -> bool {
        self.publisher.is_some()
            && self.subscription.is_some()
            && self.publish != NEVER
            && self.intra != Some(true)
            && self.leg != Leg::BeforeSubscription
    }
}
