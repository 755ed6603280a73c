//! Join the publish events of one `publish()` call into a publication.
//!
//! They come on one thread, in this order: `rclcpp_intra_publish`, `rclcpp_publish`, `rcl_publish`,
//! `rmw_publish`; each of them may be absent. An event continues the one before it on its thread:
//! `rcl_publish` continues any `rclcpp_publish` (in rclpy the two have different addresses of one
//! message) or an intra-process one of its publisher, `rmw_publish` an `rcl_publish` of its
//! message. Whether `rclcpp_publish` continues an intra-process one is decided by the publisher of
//! the `rcl_publish` that comes next, else by the message.

use ahash::{HashMap, HashSet};
use serde::{Deserialize, Serialize};

use crate::callbacks::Execution;
use crate::identity::{Process, Thread};
use crate::ids::{Id, Maybe, entry};
use crate::intake::Event;
use crate::kinds::Kind;
use crate::registry::{HandleKind, Name, Publisher, Registry, Subscription};
use crate::rows::{NEVER, Rows};
use crate::takes::Take;

/// One publication.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Publication {
    /// The time of its first event.
    pub publish: i64,
    /// The time of `rclcpp_intra_publish`, or `NEVER`.
    pub intra: i64,
    /// The time of `rclcpp_publish`, or `NEVER`.
    pub rclcpp: i64,
    /// The time of `rcl_publish`, or `NEVER`.
    pub rcl: i64,
    /// The time of `rmw_publish`, or `NEVER`.
    pub rmw: i64,
    /// The source timestamp, or `NEVER`.
    pub stamp: i64,
    /// The serialized length in bytes, or `NEVER`.
    pub size: i64,
    /// The timestamp in the message's header, or `NEVER`.
    pub header: i64,
    pub thread: Id<Thread>,
    /// The publisher, by its address in the middleware or else in rcl.
    pub publisher: Maybe<Publisher>,
    /// Whether the address of the middleware's publisher was recorded.
    pub by_rmw: bool,
    /// The execution that published.
    pub within: Maybe<Execution>,
    /// The last take that it was matched with; the others are chained to that one.
    pub taken: Maybe<Take>,
    /// The last ring buffer that it was put into; the others are chained to that one.
    pub given: Maybe<Enqueue>,
    /// Whether the source timestamp was estimated.
    pub estimated: bool,
    /// Whether an earlier event of it may be missing: there is a gap before its first one.
    pub cut: bool,
}

impl Publication {
    /// Return the time of its event in rcl or, without one, in the middleware.
    const fn below(&self) -> i64 {
        if self.rcl == NEVER {
            self.rmw
        } else {
            self.rcl
        }
    }

    /// Whether its first event is above rcl.
    pub const fn begins_above(&self) -> bool {
        self.publish < self.below()
    }

    /// Whether its first event is in rcl or in the middleware.
    pub const fn begins_below(&self) -> bool {
        self.publish == self.below()
    }

    /// Return when the message was handed to the middleware, as far as events show.
    pub const fn push(&self) -> i64 {
        match (self.rmw, self.rcl) {
            (NEVER, NEVER) => self.publish,
            (NEVER, rcl) => rcl,
            (rmw, _) => rmw,
        }
    }
}

/// What became of a publication in a ring buffer.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// It is still there, as far as was recorded.
    Pending,
    /// It was taken out.
    Dequeued,
    /// A later message took its place.
    Overwritten,
    /// The buffer was cleared.
    Cleared,
}

/// One publication in one ring buffer.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Enqueue {
    pub message: Maybe<Publication>,
    /// The subscription that the buffer belongs to.
    pub subscription: Maybe<Subscription>,
    pub process: Maybe<Process>,
    /// The take that took it out.
    pub take: Maybe<Take>,
    pub fate: Fate,
    /// Whether the events of its publication may be missing.
    pub untold: bool,
    /// The enqueue of its publication into another ring buffer before this one.
    pub next: Maybe<Enqueue>,
}

/// The last publish event of a thread.
#[derive(Clone, Copy)]
struct Last {
    kind: Kind,
    message: Option<u64>,
    publisher: Option<u64>,
    row: Maybe<Publication>,
    /// Message and publisher of the intra-process event that an `rclcpp_publish` came after.
    intra: Option<(Option<u64>, Option<u64>)>,
    /// The execution around the event.
    within: Maybe<Execution>,
}

/// All publications.
#[derive(Clone, Default)]
pub struct Publications {
    /// The publications in the order of their first events, except those that were split.
    pub rows: Rows<Publication>,
    /// Whether some publications were split.
    pub disordered: bool,
    /// How many publications have a timestamp in `rmw_publish`.
    pub stamped: u32,
    last: Vec<Option<Last>>,
    /// Threads on which publish events may be missing since the last one.
    cut: HashSet<Id<Thread>>,
}

/// Make a publication of one event.
fn begun(event: &Event, within: Maybe<Execution>, cut: bool) -> Publication {
    Publication {
        publish: event.time,
        intra: NEVER,
        rclcpp: NEVER,
        rcl: NEVER,
        rmw: NEVER,
        stamp: NEVER,
        size: NEVER,
        header: NEVER,
        thread: event.thread,
        publisher: None,
        by_rmw: false,
        within,
        taken: None,
        given: None,
        estimated: false,
        cut,
    }
}

impl Publications {
    /// Return the publication whose intra-process event was the last publish event of a thread,
    /// with the time of that event.
    pub fn under_way(&self, thread: Id<Thread>) -> Option<(Id<Publication>, i64)> {
        let last = self.last.get(thread.place())?.as_ref()?;
        if last.kind != Kind::IntraPublish {
            return None;
        }
        Some((last.row?, self.rows.get(last.row)?.intra))
    }

    /// Note that events of a thread may be missing: no later event continues its publication.
    pub fn cut(&mut self, thread: Id<Thread>) {
        if let Some(last) = self.last.get_mut(thread.place()).and_then(Option::take) {
            self.settle(&last);
        }
        self.cut.insert(thread);
    }

    /// Whether events of a thread may be missing since its last publish event.
    pub fn is_cut(&self, thread: Id<Thread>) -> bool {
        self.cut.contains(&thread)
    }

    /// Handle any publish event; return its publication.
    pub fn on_publish(
        &mut self,
        kind: Kind,
        event: &Event,
        objects: &Registry,
        within: Maybe<Execution>,
    ) -> Maybe<Publication> {
        let (publisher, message) = (event.get(0), event.get(1));
        let before = entry(&mut self.last, event.thread).take();
        let cut = !self.cut.is_empty() && self.cut.remove(&event.thread);
        let mut intra = None;
        let row = match (kind, before) {
            (Kind::RclcppPublish, Some(before)) if before.kind == Kind::IntraPublish => {
                // Assumed until a later event shows otherwise.
                intra = Some((before.message, before.publisher));
                before.row
            }
            (Kind::RclPublish, Some(before)) if before.kind == Kind::RclcppPublish => {
                self.rcl_after_rclcpp(&before, publisher)
            }
            (Kind::RclPublish, Some(before))
                if before.kind == Kind::IntraPublish
                    && publisher.is_some()
                    && publisher == before.publisher =>
            {
                before.row
            }
            (Kind::RmwPublish, Some(before))
                if before.kind == Kind::RclPublish
                    && message.is_some()
                    && message == before.message =>
            {
                before.row
            }
            (_, before) => {
                if let Some(before) = before {
                    self.settle(&before);
                }
                self.rows
                    .push(begun(event, within, cut && kind != Kind::IntraPublish))
            }
        };
        let publication = self.rows.edit(row)?;
        let time = match kind {
            Kind::IntraPublish => &mut publication.intra,
            Kind::RclcppPublish => &mut publication.rclcpp,
            Kind::RclPublish => &mut publication.rcl,
            _ => &mut publication.rmw,
        };
        *time = event.time;
        if kind == Kind::RmwPublish {
            publication.by_rmw = publisher.is_some();
            publication.stamp = event.signed(2).unwrap_or(NEVER);
            self.stamped += u32::from(publication.stamp != NEVER);
            let kind = HandleKind::RmwPublisher;
            let object = objects.object(kind, event.process, publisher, publication.publish);
            publication.publisher = object.or(publication.publisher);
        } else if kind == Kind::RclPublish || publication.publisher.is_none() {
            // The publisher in rcl's event takes precedence over that of other events.
            let kind = HandleKind::Publisher;
            let object = objects.object(kind, event.process, publisher, publication.publish);
            if object.is_some() || publisher.is_some() {
                publication.publisher = object;
            }
        }
        *entry(&mut self.last, event.thread) = Some(Last {
            kind,
            message,
            publisher,
            row,
            intra,
            within,
        });
        row
    }

    /// Add size and header timestamp to the message that a thread published last.
    pub fn on_content(&mut self, event: &Event) {
        let last = entry(&mut self.last, event.thread);
        let last = last.filter(|last| matches!(last.kind, Kind::RclPublish | Kind::RmwPublish));
        let last = last.filter(|last| last.message.is_some() && last.message == event.get(0));
        if let Some(publication) = last.and_then(|last| self.rows.edit(last.row)) {
            let value = |field| {
                event
                    .signed(field)
                    .filter(|value| *value != 0)
                    .unwrap_or(NEVER)
            };
            (publication.size, publication.header) = (value(1), value(2));
        }
    }

    /// Return the publication that an `rcl_publish` right after an `rclcpp_publish` continues.
    fn rcl_after_rclcpp(&mut self, before: &Last, publisher: Option<u64>) -> Maybe<Publication> {
        match before.intra {
            Some((_, of_intra)) if publisher.is_none() || publisher != of_intra => {
                self.apart(before.row, before.within)
            }
            _ => before.row,
        }
    }

    /// Decide whether an `rclcpp_publish` continues an intra-process one, if no `rcl_publish` came.
    fn settle(&mut self, last: &Last) {
        if let Some((message, _)) = last.intra
            && (message.is_none() || message != last.message)
        {
            self.apart(last.row, last.within);
        }
    }

    /// Settle the publications that are open at the end.
    pub fn finish(&mut self) {
        for last in std::mem::take(&mut self.last).into_iter().flatten() {
            self.settle(&last);
        }
    }

    /// Split an `rclcpp_publish` from an intra-process publication into its own; return that.
    fn apart(&mut self, row: Maybe<Publication>, within: Maybe<Execution>) -> Maybe<Publication> {
        let publication = self.rows.edit(row)?;
        let mut own = *publication;
        publication.rclcpp = NEVER;
        (own.intra, own.taken, own.given) = (NEVER, None, None);
        (own.publish, own.within) = (own.rclcpp, within);
        own.publisher = None;
        self.disordered = true;
        self.rows.push(own)
    }
}

/// From which times on each process could publish on one topic only, with that topic, and its
/// publisher if there is only one.
pub type Guesses = HashMap<Maybe<Process>, Vec<(i64, Maybe<Name>, Maybe<Publisher>)>>;
