//! Publications: the publish events of one `publish()` call.
//!
//! On one thread, in this order: `rclcpp_intra_publish`, `rclcpp_publish`, `rcl_publish`,
//! `rmw_publish`; each of them may be absent. What an event continues is the one before it on its
//! thread: `rcl_publish` any `rclcpp_publish` (in rclpy the two tell different addresses of one
//! message) or an intra one of its publisher, `rmw_publish` an `rcl_publish` of its message. Whether
//! `rclcpp_publish` continues an intra one is told by the publisher of the `rcl_publish` that comes
//! next, else by the message.

use ahash::{HashMap, HashSet};

use crate::callbacks::Execution;
use crate::identity::{Process, Thread};
use crate::ids::{Id, Maybe, entry};
use crate::intake::Event;
use crate::kinds::Kind;
use crate::registry::{HandleKind, Name, Publisher, Registry, Subscription};
use crate::rows::{NEVER, Rows, plain};
use crate::takes::Take;

plain! {
    /// One publication.
    pub struct Publication {
        /// Its first event.
        pub publish: i64,
        /// `rclcpp_intra_publish`, or `NEVER`.
        pub intra: i64,
        /// `rclcpp_publish`, or `NEVER`.
        pub rclcpp: i64,
        /// `rcl_publish`, or `NEVER`.
        pub rcl: i64,
        /// `rmw_publish`, or `NEVER`.
        pub rmw: i64,
        /// What the middleware stamped it with.
        pub stamp: i64,
        /// Its serialized length, or `NEVER`.
        pub size: i64,
        /// What who published stamped it with, or `NEVER`.
        pub header: i64,
        pub thread: Id<Thread>,
        /// By its address in rcl or, before that, in the middleware.
        pub publisher: Maybe<Publisher>,
        /// Whether the middleware's address was told.
        pub by_rmw: bool,
        /// What published.
        pub within: Maybe<Execution>,
        /// The last take that it was matched with; others are chained to that one.
        pub taken: Maybe<Take>,
        /// The last ring buffer that it was put into; others are chained to that one.
        pub given: Maybe<Enqueue>,
        /// Whether the timestamp is a guess.
        pub estimated: bool,
        /// Whether an earlier event of it may be missing: there is a gap before its first one.
        pub cut: bool,
    }
}

impl Publication {
    /// Its first event in rcl or, without one, in the middleware.
    const fn below(&self) -> i64 {
        if self.rcl == NEVER {
            self.rmw
        } else {
            self.rcl
        }
    }

    /// Whether it begins above rcl.
    pub const fn begins_above(&self) -> bool {
        self.publish < self.below()
    }

    /// Whether it begins in rcl, or in the middleware.
    pub const fn begins_below(&self) -> bool {
        self.publish == self.below()
    }

    /// When it was handed to the middleware, as far as events tell.
    pub const fn push(&self) -> i64 {
        match (self.rmw, self.rcl) {
            (NEVER, NEVER) => self.publish,
            (NEVER, rcl) => rcl,
            (rmw, _) => rmw,
        }
    }
}

/// What became of a publication in a ring buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is there still, for all that was recorded.
    Pending,
    /// It was taken out.
    Dequeued,
    /// A later one took its place.
    Overwritten,
    /// The buffer was cleared.
    Cleared,
}

plain!(enum Fate [Pending, Dequeued, Overwritten, Cleared]);

plain! {
    /// One publication in one ring buffer.
    pub struct Enqueue {
        pub message: Maybe<Publication>,
        /// Whose buffer it is.
        pub subscription: Maybe<Subscription>,
        pub process: Maybe<Process>,
        /// What took it out.
        pub take: Maybe<Take>,
        pub fate: Fate,
        /// Whether who published it may be missing.
        pub untold: bool,
        /// The ring buffer that its publication was put into before.
        pub next: Maybe<Enqueue>,
    }
}

/// The last publish event of a thread.
#[derive(Clone, Copy)]
struct Last {
    kind: Kind,
    message: Option<u64>,
    publisher: Option<u64>,
    row: Maybe<Publication>,
    /// Of an `rclcpp_publish` after an intra one: of that the message and the publisher.
    intra: Option<(Option<u64>, Option<u64>)>,
    /// What it happened within.
    within: Maybe<Execution>,
}

/// All publications.
#[derive(Clone, Default)]
pub struct Publications {
    /// In the order of their first events, but for those that were taken apart.
    pub rows: Rows<Publication>,
    /// Whether some were taken apart.
    pub disordered: bool,
    /// How many the middleware told a timestamp of.
    pub stamped: u32,
    last: Vec<Option<Last>>,
    /// Threads of which publish events may be missing since the last one.
    cut: HashSet<Id<Thread>>,
}

/// A publication of one event.
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
    /// The publication whose intra-process event was the last publish event of a thread.
    pub fn under_way(&self, thread: Id<Thread>) -> Option<(Id<Publication>, i64)> {
        let last = self.last.get(thread.place())?.as_ref()?;
        if last.kind != Kind::IntraPublish {
            return None;
        }
        Some((last.row?, self.rows.get(last.row)?.intra))
    }

    /// Events of a thread may be missing: what it published goes no further.
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

    /// Any publish event; returns the publication that it is of.
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
                // As long as nothing says otherwise.
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
            // What rcl says goes before what the others say.
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

    /// What the message that a thread published last holds.
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

    /// The publication that an `rcl_publish` right after an `rclcpp_publish` continues.
    fn rcl_after_rclcpp(&mut self, before: &Last, publisher: Option<u64>) -> Maybe<Publication> {
        match before.intra {
            Some((_, of_intra)) if publisher.is_none() || publisher != of_intra => {
                self.apart(before.row, before.within)
            }
            _ => before.row,
        }
    }

    /// No `rcl_publish` came after an `rclcpp_publish` that may continue an intra one.
    fn settle(&mut self, last: &Last) {
        if let Some((message, _)) = last.intra
            && (message.is_none() || message != last.message)
        {
            self.apart(last.row, last.within);
        }
    }

    /// What is open at the end.
    pub fn finish(&mut self) {
        for last in std::mem::take(&mut self.last).into_iter().flatten() {
            self.settle(&last);
        }
    }

    /// Let a publication that an intra one continued into be one of its own; returns it.
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

/// Of each process since when it could publish on one topic only: that, and its publisher, if that
/// is one.
pub type Guesses = HashMap<Maybe<Process>, Vec<(i64, Maybe<Name>, Maybe<Publisher>)>>;
