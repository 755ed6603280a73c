//! What must follow each other on a thread, and where it does not: then something is missing.
//!
//! `rclcpp_publish`, `rcl_publish` and `rmw_publish` are emitted by functions that call each other,
//! as are `rmw_take`, `rcl_take` and `rclcpp_take`. Not all have the event (a loaned message has none
//! of `rcl_publish`, a middleware may have none at all), so what follows must have done so before: in
//! that process, or of that subscription or publisher.
//!
//! What executors do is in order, too: `execute`, a take or the callback of a timer (but `execute` need
//! not follow `get_next_ready`: rclpy's executors execute several that were ready at once);
//! `rclcpp_take` or `dequeue` or `rmw_take_request`, then the callback; `intra_publish`, then each
//! `enqueue`. Again where that was so the first time of that handle, callback or buffer; and so is a
//! publisher's `rcl_publish` after an event of rclcpp. What was taken begins its callback: that does
//! not end right after it.

use ahash::{HashMap, HashSet};

use crate::intake::{Event, Kind};
use crate::rows::NEVER;

#[derive(Clone, Copy)]
struct Last {
    time: i64,
    kind: Kind,
    /// Whether something must follow, and of which process or subscription that is known.
    due: bool,
    of: u32,
    message: Option<u64>,
    /// What it is of, if it says so.
    object: Option<u64>,
}

/// The last event of each thread.
#[derive(Clone, Default)]
pub struct Sequence {
    last: Vec<Option<Last>>,
    /// What something followed before; what came after something, by process and publisher.
    kept: HashSet<(Kind, u32)>,
    came: HashSet<(Kind, u32, u64)>,
    /// By process and handle, callback or buffer whether what leads to it did so the first time;
    /// and whether what must follow it did. Later a coincidence would do, such as a request that
    /// was not there and then a timer.
    led: HashMap<(Kind, u32, u64), Habit>,
    followed: HashMap<(Kind, u32, u64), Habit>,
    /// By thread whether something came between one `get_next_ready` and the next.
    readied: HashMap<(Kind, u32, u64), Habit>,
    /// Of each thread what it took last, and of what, if nothing else was since; and of the last
    /// `callback_start` that came right after that.
    taking: Vec<Option<Taking>>,
    /// As above.
    pub taken: Option<Taking>,
    /// Whether an order was broken anywhere so far.
    pub broken: bool,
    /// By process and what is taken the callback that began last right after it.
    begins: HashMap<(u32, Kind, u64), u64>,
}

/// What a thread took.
#[derive(Clone, Copy)]
pub struct Taking {
    /// The event that tells so.
    pub kind: Kind,
    /// The address of what it was taken of.
    pub of: u64,
    /// Whether an executor took it, not a callback.
    sure: bool,
}

/// Whether an object does what it may have to.
#[derive(Clone, Default)]
struct Habit {
    /// Whether it did the first time: then it must.
    must: Option<bool>,
    /// How often it did, and from when to when it did not, if it need not.
    does: u32,
    not: Vec<(i64, i64)>,
}

impl Habit {
    /// It does, or does not, between two events; returns whether it must.
    fn must(&mut self, does: bool, since: i64, time: i64) -> bool {
        let must = *self.must.get_or_insert(does);
        if !must {
            self.note(does, since, time);
        }
        must
    }

    fn note(&mut self, does: bool, since: i64, time: i64) {
        if does {
            self.does = self.does.saturating_add(1);
        } else if self.not.len() < MOST {
            self.not.push((since, time));
        }
    }

    /// Whether it does not in fewer than one of so many times.
    fn nearly(&self, part: usize) -> bool {
        self.not.len() < MOST && self.not.len() * part < self.does as usize
    }
}

/// So many exceptions are remembered, and fewer than one in so many may be missing events.
const MOST: usize = 1024;
const RARE: usize = 20;

/// Whether the second is what must come right after the first. rclpy tells rcl of another message.
fn follows(first: &Last, second: Kind, message: Option<u64>) -> bool {
    match (first.kind, second) {
        (Kind::RclcppPublish, Kind::RclPublish) => true,
        (Kind::RclcppPublish | Kind::RclPublish, Kind::RmwPublish)
        | (Kind::RmwTake, Kind::RclTake)
        | (Kind::RclTake, Kind::RclcppTake) => message.is_some() && first.message == message,
        _ => false,
    }
}

/// What an event comes right after, if something leads to it.
const LEADS: &[(Kind, &[Kind])] = &[
    (Kind::RmwTake, &[Kind::Execute]),
    (
        Kind::CallbackStart,
        &[
            Kind::Execute,
            Kind::RclcppTake,
            Kind::Dequeue,
            Kind::TakeRequest,
        ],
    ),
    (Kind::Enqueue, &[Kind::IntraPublish, Kind::Enqueue]),
    (Kind::RclPublish, &[Kind::IntraPublish, Kind::RclcppPublish]),
];

/// What must come right after what an executor began.
const FOLLOWS: &[(Kind, &[Kind])] = &[
    (Kind::Execute, &[Kind::RmwTake, Kind::CallbackStart]),
    (Kind::Dequeue, &[Kind::CallbackStart]),
];

impl Sequence {
    /// Whether what must come after an event does not, though it did the first time.
    fn ends(&mut self, last: &Last, kind: Kind, process: u32, time: i64) -> bool {
        let Some((_, follows)) = FOLLOWS.iter().find(|(first, _)| *first == last.kind) else {
            return false;
        };
        let Some(object) = last.object else {
            return false;
        };
        let key = (last.kind, process, object);
        let does = follows.contains(&kind);
        let habit = self.followed.entry(key).or_default();
        habit.must(does, last.time, time) && !does
    }

    /// Whether an event does not come after what leads to it, though it did the first time.
    fn strays(&mut self, last: &Last, kind: Kind, event: &Event, process: u32) -> bool {
        let Some((_, leads)) = LEADS.iter().find(|(led, _)| *led == kind) else {
            return false;
        };
        let does = leads.contains(&last.kind);
        let of = event.get(0).unwrap_or_default();
        let habit = self.led.entry((kind, process, of)).or_default();
        habit.must(does, last.time, event.time) && !does
    }

    /// What need not be in order, but nearly always was: process, begin and end of where it was not.
    pub fn suspects(&self) -> impl Iterator<Item = (u32, i64, i64)> {
        let led = self.led.iter().filter(|(_, of)| of.nearly(RARE));
        let readied = self.readied.iter().filter(|(_, of)| of.nearly(RARE));
        let followed = self.followed.iter().filter(|(_, of)| of.nearly(1));
        let all = led.chain(readied).chain(followed);
        all.flat_map(|((_, process, _), of)| {
            of.not.iter().map(|(begin, end)| (*process, *begin, *end))
        })
    }

    /// Whether a callback ends of which the thread just took what it begins with.
    fn begun_unseen(&mut self, kind: Kind, event: &Event, process: u32) -> bool {
        let place = event.thread as usize;
        if self.taking.len() <= place {
            self.taking.resize(place + 1, None);
        }
        let taking = &mut self.taking[place];
        let took = match kind {
            Kind::RclTake | Kind::RclcppTake => return false,
            Kind::RmwTake => event.get(3).is_some_and(|taken| taken != 0),
            Kind::TakeRequest => event.get(4).is_some_and(|taken| taken != 0),
            Kind::Dequeue => true,
            _ => false,
        };
        let last = self.last.get(place).copied().flatten();
        let executed = last.is_some_and(|last| last.kind == Kind::Execute);
        let sure = executed || kind == Kind::Dequeue;
        let of = event.get(0);
        let now = of.filter(|_| took).map(|of| Taking { kind, of, sure });
        let before = std::mem::replace(taking, now);
        if kind == Kind::CallbackStart {
            self.taken = before;
        }
        let Some((taking, callback)) = before.zip(of) else {
            return false;
        };
        let key = (process, taking.kind, taking.of);
        if kind == Kind::CallbackStart {
            self.begins.insert(key, callback);
        }
        let sure = taking.sure || self.broken;
        kind == Kind::CallbackEnd && sure && self.begins.get(&key) == Some(&callback)
    }

    /// An event; returns since when something is missing, if that is so.
    pub fn on_event(&mut self, kind: Kind, event: &Event, process: u32) -> Option<i64> {
        let place = event.thread as usize;
        if self.last.len() <= place {
            self.last.resize(place + 1, None);
        }
        let unseen = self.begun_unseen(kind, event, process);
        let message = match kind {
            Kind::RclTake | Kind::RclcppTake => event.get(0),
            Kind::RclcppPublish | Kind::RclPublish | Kind::RmwPublish | Kind::RmwTake => {
                event.get(1)
            }
            _ => None,
        };
        let last = self.last[place].replace(Last {
            time: event.time,
            kind,
            due: matches!(kind, Kind::RclcppPublish | Kind::RclPublish),
            of: process,
            message,
            object: event.get(0),
        })?;
        let strays = self.strays(&last, kind, event, process);
        let strays = self.ends(&last, kind, process, event.time) || strays;
        if kind == Kind::Ready {
            let key = (kind, process, u64::from(event.thread));
            let habit = self.readied.entry(key).or_default();
            habit.note(last.kind != Kind::Ready, last.time, event.time);
        }
        let who = match kind {
            Kind::RmwPublish => event.get(0),
            Kind::RclTake | Kind::RclcppTake => Some(0),
            _ => None,
        };
        if follows(&last, kind, message) {
            if last.due {
                self.kept.insert((last.kind, last.of));
            }
            if let Some(who) = who {
                self.came.insert((kind, process, who));
            }
            // Only what was taken is told further above.
            let goes_on = kind == Kind::RclTake && last.due;
            if let Some(now) = self.last[place].as_mut().filter(|_| goes_on) {
                (now.due, now.of) = (true, last.of);
            }
            return None;
        }
        let missing = unseen
            || strays
            || (last.due && self.kept.contains(&(last.kind, last.of)))
            || who.is_some_and(|who| self.came.contains(&(kind, process, who)));
        self.broken |= missing;
        missing.then_some(last.time)
    }

    /// The last event of a thread took a message of a subscription: rcl tells so, too.
    pub fn on_taken(&mut self, thread: u32, subscription: u32) {
        if let Some(Some(last)) = self.last.get_mut(thread as usize) {
            (last.due, last.of) = (true, subscription);
        }
    }

    /// When the last event of a thread was.
    #[must_use]
    pub fn since(&self, thread: u32) -> i64 {
        let last = self.last.get(thread as usize).copied().flatten();
        last.map_or(NEVER, |last| last.time)
    }
}
