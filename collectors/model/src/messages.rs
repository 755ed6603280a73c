//! What a message is: a publication and a subscription, what joined them, and which way it took.

use crate::callbacks::Execution;
use crate::decide::{Outcome, Reason};
use crate::identity::Process;
use crate::ids::{Id, Maybe};
use crate::publications::Publication;
use crate::registry::{Name, Publisher, Subscription};
use crate::rows::NEVER;
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
    Decided(Outcome, Reason),
}

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

    /// A callback joined to a publication without a take.
    pub const fn by_order(
        message: Id<Publication>,
        subscription: Id<Subscription>,
        execution: Id<Execution>,
    ) -> Self {
        Self {
            message,
            subscription: Some(subscription),
            take: None,
            execution: Some(execution),
            by: Reason::InOrder,
        }
    }
}

/// Of which layer the first event of a publication is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// rclcpp, and others of layers below follow.
    Above,
    /// rcl or rmw.
    Below,
    /// rclcpp, and no other follows.
    Alone,
}

/// What the rules ask of a publication.
#[derive(Clone, Copy)]
pub struct Sent {
    /// Its topic, as a name, and its source timestamp.
    pub topic: Maybe<Name>,
    pub stamp: i64,
    /// When it was handed to the middleware, and whether an event of that tells so.
    pub push: i64,
    pub by_middleware: bool,
    pub first: First,
    /// Whether a gap before its first event may hide an earlier one.
    pub cut: bool,
}

impl Sent {
    /// Of no publication.
    pub const NONE: Self = Self {
        topic: None,
        stamp: NEVER,
        push: NEVER,
        by_middleware: false,
        first: First::Alone,
        cut: false,
    };

    /// Of a publication on a topic.
    pub const fn new(of: &Publication, topic: Maybe<Name>, cut: bool) -> Self {
        let below = if of.rcl == NEVER { of.rmw } else { of.rcl };
        let push = match (of.rmw, of.rcl) {
            (NEVER, NEVER) => of.publish,
            (NEVER, rcl) => rcl,
            (rmw, _) => rmw,
        };
        Self {
            topic,
            stamp: of.stamp,
            push,
            by_middleware: of.rmw != NEVER,
            first: if of.publish < below {
                First::Above
            } else if of.publish == below {
                First::Below
            } else {
                First::Alone
            },
            cut,
        }
    }
}

/// One message; times are `NEVER` where there is none.
#[derive(Clone, Copy)]
#[expect(
    clippy::struct_field_names,
    reason = "its publication is what it is of"
)]
pub struct Message {
    pub message: Maybe<Publication>,
    pub publisher: Maybe<Publisher>,
    pub subscription: Maybe<Subscription>,
    /// The process of the subscription.
    pub process: Maybe<Process>,
    pub take: Maybe<Take>,
    pub execution: Maybe<Execution>,
    /// By what its publication and its take belong together, if they do.
    pub joined: Option<Reason>,
    /// Whether it came within the process, where that can be said.
    pub intra: Option<bool>,
    pub publish: i64,
    /// When it was taken or, where no take was recorded, its callback began.
    pub taken: i64,
    pub leg: Leg,
    /// What its publication tells.
    pub sent: Sent,
}

impl Message {
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

    /// Whether it is not known to be taken, so that what came after it on its connection tells.
    pub fn is_open(&self) -> bool {
        self.leg == Leg::Middleware && self.joined.is_none()
    }
}
