//! Publications: the publish events of one `publish()` call.
//!
//! On one thread, in this order: `rclcpp_intra_publish`, `rclcpp_publish`, `rcl_publish`,
//! `rmw_publish`; each of them may be absent. What an event continues is the one before it on its
//! thread: `rcl_publish` an `rclcpp_publish` of its message or an intra one of its publisher,
//! `rmw_publish` an `rcl_publish` of its message. Whether `rclcpp_publish` continues an intra one is
//! told by the publisher of the `rcl_publish` that comes next, else by the message.
//!
//! rclpy tells the number of a Python object where rclcpp tells the message: in a process where no
//! message was ever equal, neighbours belong together. A process counts as such a one until a pair is
//! equal; what had been joined in it by then is taken apart again.

use ahash::{HashMap, HashMapExt, HashSet};

use crate::intake::{Event, Kind};
use crate::registry::{HandleKind, Registry};
use crate::rows::{NEVER, NONE, Rows, plain};

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
        /// Its thread.
        pub thread: u32,
        /// By its address in rcl or, before that, in the middleware.
        pub publisher: u32,
        /// Whether the middleware's address was told.
        pub by_rmw: bool,
        /// What published.
        pub within: u32,
        /// The last take that it was matched with, or `NONE`; others are chained to that one.
        pub taken: u32,
        /// The last ring buffer that it was put into, or `NONE`; others are chained to that one.
        pub given: u32,
        /// Whether the timestamp is a guess.
        pub estimated: bool,
        /// Whether an earlier event of it may be missing: there is a gap before its first one.
        pub cut: bool,
    }
}

/// The last publish event of a thread.
#[derive(Clone, Copy)]
struct Last {
    kind: Kind,
    message: Option<u64>,
    publisher: Option<u64>,
    row: u32,
    /// Of an `rclcpp_publish` after an intra one: of that the message and the publisher.
    intra: Option<(Option<u64>, Option<u64>)>,
    /// What it happened within.
    within: u32,
}

/// All publications.
#[derive(Clone, Default)]
pub struct Publications {
    /// In the order of their first events, but for those that were taken apart.
    pub rows: Rows<Publication>,
    /// Whether some were taken apart.
    pub disordered: bool,
    /// Of those taken apart that have a timestamp: from which row to which it went.
    pub moved: Vec<(u32, u32)>,
    /// How many the middleware told a timestamp of.
    pub stamped: u32,
    last: Vec<Option<Last>>,
    /// Threads of which publish events may be missing since the last one.
    cut: HashSet<u32>,
    /// By process: pairs joined though their messages differ, each with what rcl's event happened
    /// within; none once a pair was equal.
    python: HashMap<u32, Option<Vec<(u32, u32)>>>,
}

/// A publication of one event.
fn begun(event: &Event, within: u32, cut: bool) -> Publication {
    Publication {
        publish: event.time,
        intra: NEVER,
        rclcpp: NEVER,
        rcl: NEVER,
        rmw: NEVER,
        stamp: NEVER,
        thread: event.thread,
        publisher: NONE,
        by_rmw: false,
        within,
        taken: NONE,
        given: NONE,
        estimated: false,
        cut,
    }
}

impl Publications {
    /// The publication whose intra-process event was the last publish event of a thread.
    #[must_use]
    pub fn under_way(&self, thread: u32) -> Option<(u32, i64)> {
        let last = self.last.get(thread as usize)?.as_ref()?;
        if last.kind != Kind::IntraPublish {
            return None;
        }
        Some((last.row, self.rows.get(last.row)?.intra))
    }

    /// Events of a thread may be missing: what it published goes no further.
    pub fn cut(&mut self, thread: u32) {
        if let Some(last) = self.last.get_mut(thread as usize).and_then(Option::take) {
            self.settle(&last);
        }
        self.cut.insert(thread);
    }

    /// Whether events of a thread may be missing since its last publish event.
    #[must_use]
    pub fn is_cut(&self, thread: u32) -> bool {
        self.cut.contains(&thread)
    }

    /// Any publish event; returns the publication that it is of.
    pub fn on_publish(
        &mut self,
        kind: Kind,
        event: &Event,
        objects: &Registry,
        process: u32,
        within: u32,
    ) -> u32 {
        let place = event.thread as usize;
        if self.last.len() <= place {
            self.last.resize(place + 1, None);
        }
        let (publisher, message) = (event.get(0), event.get(1));
        let before = self.last[place].take();
        let cut = !self.cut.is_empty() && self.cut.remove(&event.thread);
        let mut intra = None;
        let row = match (kind, before) {
            (Kind::RclcppPublish, Some(before)) if before.kind == Kind::IntraPublish => {
                // As long as nothing says otherwise.
                intra = Some((before.message, before.publisher));
                before.row
            }
            (Kind::RclPublish, Some(before)) if before.kind == Kind::RclcppPublish => {
                self.rcl_after_rclcpp(&before, event, process, within)
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
        let Some(of) = self.rows.edit(row) else {
            return NONE;
        };
        let time = match kind {
            Kind::IntraPublish => &mut of.intra,
            Kind::RclcppPublish => &mut of.rclcpp,
            Kind::RclPublish => &mut of.rcl,
            _ => &mut of.rmw,
        };
        *time = event.time;
        if kind == Kind::RmwPublish {
            of.by_rmw = publisher.is_some();
            of.stamp = event.signed(2).unwrap_or(NEVER);
            self.stamped += u32::from(of.stamp != NEVER);
            let found = objects.object(HandleKind::RmwPublisher, process, publisher, of.publish);
            if found != NONE {
                of.publisher = found;
            }
        } else if kind == Kind::RclPublish || of.publisher == NONE {
            // What rcl says goes before what the others say.
            let found = objects.object(HandleKind::Publisher, process, publisher, of.publish);
            if found != NONE || publisher.is_some() {
                of.publisher = found;
            }
        }
        self.last[place] = Some(Last {
            kind,
            message,
            publisher,
            row,
            intra,
            within,
        });
        row
    }

    /// `rcl_publish` right after `rclcpp_publish`: whether it continues that, and that an intra one.
    fn rcl_after_rclcpp(&mut self, before: &Last, event: &Event, process: u32, within: u32) -> u32 {
        let (publisher, message) = (event.get(0), event.get(1));
        let mut row = before.row;
        if let Some((_, of_intra)) = before.intra
            && (publisher.is_none() || publisher != of_intra)
        {
            row = self.apart(row, before.within);
        }
        let joined = self
            .python
            .entry(process)
            .or_insert_with(|| Some(Vec::new()));
        if message.is_some() && message == before.message {
            if let Some(wrong) = joined.take() {
                for (row, within) in wrong {
                    self.without_rclcpp(row, within);
                }
            }
            row
        } else if let Some(joined) = joined {
            joined.push((row, within));
            row
        } else {
            self.rows.push(begun(event, within, false))
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
    fn apart(&mut self, row: u32, within: u32) -> u32 {
        let Some(of) = self.rows.edit(row) else {
            return NONE;
        };
        let mut own = *of;
        of.rclcpp = NEVER;
        (own.intra, own.taken, own.given) = (NEVER, NONE, NONE);
        (own.publish, own.within) = (own.rclcpp, within);
        own.publisher = NONE;
        self.disordered = true;
        self.rows.push(own)
    }

    /// Let what rcl and the middleware did be a publication of its own.
    fn without_rclcpp(&mut self, row: u32, within: u32) {
        let Some(of) = self.rows.edit(row) else {
            return;
        };
        let mut own = *of;
        (of.rcl, of.rmw, of.stamp, of.by_rmw) = (NEVER, NEVER, NEVER, false);
        if of.intra == NEVER {
            of.publisher = NONE;
        }
        of.taken = NONE;
        (own.intra, own.rclcpp, own.given) = (NEVER, NEVER, NONE);
        (own.publish, own.within) = (own.rcl, within);
        self.disordered = true;
        let own = self.rows.push(own);
        self.moved.push((row, own));
    }
}

/// What a publication or a take belongs to where only one thing is possible.
pub type Guesses = HashMap<u32, Vec<(i64, u32, u32)>>;

/// Of each process since when it could publish on one topic only: name and publisher of that.
#[must_use]
pub fn guesses(steps: impl Iterator<Item = (u32, i64, u32, u32)>) -> Guesses {
    let mut found: Guesses = HashMap::new();
    for (process, since, topic, publisher) in steps {
        found
            .entry(process)
            .or_default()
            .push((since, topic, publisher));
    }
    for steps in found.values_mut() {
        steps.sort_unstable();
    }
    found
}
