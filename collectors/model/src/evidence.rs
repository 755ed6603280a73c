//! What the order of a way's messages proves of those that were never taken.
//!
//! A way is a publisher and a subscription. Middleware hands the messages of a way over in their
//! order, and a reader's `keep_last` history of depth n holds the newest n. So, of a message that
//! nothing joins to a take:
//!
//! * the publication has no timestamp (up to Iron), but earlier and later ones of its way were taken:
//!   it was `lost`. Not if a timestamp that nobody claims was taken soon after it: that may be its
//!   own. Not if the tracer dropped something at the receiver before the later one was taken.
//! * as many newer ones as the history holds were published, on the same host, before the subscription
//!   next took one of the way: these have its place, it was `replaced`. With a depth of 1 that is so
//!   of every message that was overtaken; there the newer one must have come within the longest that
//!   any message of the subscription waited to be taken.
//!
//! Events that are missing leave traces, too:
//!
//! * an execution for a message that no take began, or what rcl or rclcpp took though rmw is not known
//!   to: if that is of the subscription, or of its process, a message that seems lost may be the one
//!   (`unknown`);
//! * a message out of a ring buffer that nobody published, after others were taken of it, is no late
//!   joiner's: its publication was not recorded (`unknown`);
//! * a publication of which rcl's event is the first one, by a publisher whose others have one before:
//!   its latency may be too short, and its match is `approximate`.

use std::collections::VecDeque;

use ahash::{HashMap, HashMapExt, HashSet};

use crate::Model;
use crate::approximate::{TOLERANCE, ran};
use crate::messages::{LOST, Match, Message, Messages, REPLACED, REPLAYED, UNKNOWN};
use crate::publications::Publication;
use crate::rows::{NEVER, NONE, Rows, flag, plain};

/// A history holds so many messages at most, as far as this goes.
const DEEPEST: i64 = 10_000;

/// So many takes tell how close two can be.
const ENOUGH: u32 = 100;

/// What a publisher sent to a subscription.
#[derive(Clone)]
pub struct Way {
    /// Its first row.
    pub first: u32,
    /// How many messages, and how many of these were lost.
    pub count: i64,
    /// As above.
    pub lost: i64,
    /// When a later message was taken or its callback began; and when a take tells it.
    pub next: i64,
    after: i64,
    /// When as many later ones as the history holds were published, the next one in front.
    pushed: VecDeque<i64>,
    /// When an earlier one was taken last.
    before: i64,
}

impl Way {
    /// Of no message.
    pub const fn new() -> Self {
        Self {
            first: NONE,
            count: 0,
            lost: 0,
            next: NEVER,
            after: NEVER,
            pushed: VecDeque::new(),
            before: NEVER,
        }
    }
}

/// A message that was not taken, with what came after it on its way.
#[derive(Clone, Copy)]
struct Open {
    row: u32,
    /// When it was handed to the middleware.
    push: i64,
    /// When a later one was taken, and when the last one that the history holds was published.
    after: i64,
    full: i64,
    /// When a later one was taken or its callback began, if any was: what waits longest may be missing.
    until: i64,
}

plain!(Open {
    row,
    push,
    after,
    full,
    until
});

/// What is seen going back over all messages.
pub struct Back {
    open: Rows<Open>,
    /// Publishers whose publications begin above rcl.
    above: Vec<bool>,
    /// Of each subscription when it first took a message within the process.
    ordinary: HashMap<u32, i64>,
}

/// What is known beside the messages.
#[derive(Default)]
struct Beside {
    /// By subscription, executions that no take began; by process, what was taken above rmw alone.
    hints: HashMap<u32, Vec<i64>>,
    of_process: HashMap<u32, Vec<i64>>,
    /// By topic, timestamps that were taken and that no publication has.
    strays: HashMap<u32, Vec<i64>>,
    /// Of each subscription the shortest time between two takes, where something is missing.
    apart: HashMap<u32, i64>,
}

impl Back {
    /// Nothing was seen.
    pub fn new(model: &Model) -> Self {
        Self {
            open: Rows::on(model.disk.as_ref()),
            above: Vec::new(),
            ordinary: HashMap::new(),
        }
    }

    /// A message, the later ones of which were seen.
    pub fn on_message(
        &mut self,
        model: &Model,
        way: &mut Way,
        (number, row): (u32, &mut Message),
        (publisher, of): (u32, Option<&Publication>),
    ) {
        let taken = row.take_time();
        if row.intra == Some(true) && row.publish != NEVER && taken != NEVER {
            let first = self.ordinary.entry(row.subscription).or_insert(taken);
            *first = taken.min(*first);
        }
        let Some(of) = of else {
            return;
        };
        let below = if of.rcl == NEVER { of.rmw } else { of.rcl };
        if of.publish < below && publisher != NONE {
            flag(&mut self.above, publisher);
        }
        row.below = of.publish == below && row.intra != Some(true) && row.how == Match::Exact;
        row.stampless = of.stamp == NEVER;
        if !row.between() {
            return;
        }
        let push = if of.rmw == NEVER { below } else { of.rmw };
        let push = if push == NEVER { of.publish } else { push };
        let depth = model.known.depth(row.subscription);
        let untimed = row.outcome == UNKNOWN && row.stampless && of.rmw != NEVER;
        if row.outcome == LOST || untimed {
            let last = depth.checked_sub(1);
            let full = last.and_then(|last| way.pushed.get(last));
            self.open.push(Open {
                row: number,
                push,
                after: way.after,
                full: full.copied().unwrap_or(NEVER),
                until: if way.next == NEVER {
                    i64::MAX
                } else {
                    way.next
                },
            });
        }
        if depth > 0 {
            way.pushed.truncate(depth - 1);
            way.pushed.push_front(push);
        }
        if taken != NEVER {
            way.after = taken;
        }
    }
}

/// The first of some times that is not before another one.
fn first_from(times: Option<&Vec<i64>>, from: i64) -> Option<i64> {
    let times = times?;
    let place = times.partition_point(|time| *time < from);
    times.get(place).copied()
}

impl Model {
    /// Give messages the outcomes that the order of their ways proves, and count.
    pub(crate) fn weigh(&self, made: &mut Messages, back: &Back, waited: &HashMap<u32, i64>) {
        let beside = if back.open.count() > 0 {
            self.beside(made)
        } else {
            Beside::default()
        };
        let mut left = back.open.count();
        for number in 0..made.rows.count() {
            let Some(mut row) = made.rows.get(number) else {
                continue;
            };
            let (before, how) = (row.outcome, row.how);
            let Some(way) = made.ways.get_mut(&(row.publisher, row.subscription)) else {
                continue;
            };
            let taken = row.take_time();
            if row.outcome == REPLAYED && row.intra == Some(true) && row.publish == NEVER {
                // Others of its buffer were taken before: it is for no late joiner.
                let first = back.ordinary.get(&row.subscription);
                if first.is_some_and(|first| taken > *first) {
                    row.outcome = UNKNOWN;
                }
            }
            if row.below && back.above.get(row.publisher as usize) == Some(&true) {
                row.how = Match::Approximate;
            }
            let next = left.checked_sub(1).and_then(|last| back.open.get(last));
            if let Some(open) = next.filter(|open| open.row == number) {
                left -= 1;
                row.outcome = self.proven(&row, &open, way.before, &beside, waited);
            }
            if row.between() {
                way.before = way.before.max(taken);
            }
            if way.count == 0 {
                way.first = number;
            }
            way.count += 1;
            way.lost += i64::from(row.outcome == LOST);
            made.approximate += u64::from(row.how == Match::Approximate);
            let missing = row.stampless || !self.about.rmw_take;
            made.untold += u64::from(
                row.outcome == UNKNOWN
                    && missing
                    && row.intra != Some(true)
                    && row.subscription != NONE
                    && row.publish != NEVER,
            );
            if (row.outcome, row.how) != (before, how)
                && let Some(of) = made.rows.edit(number)
            {
                *of = row;
            }
        }
    }

    /// What became of a message that was not taken.
    fn proven(
        &self,
        row: &Message,
        open: &Open,
        before: i64,
        beside: &Beside,
        waited: &HashMap<u32, i64>,
    ) -> u8 {
        let between = before != NEVER && open.after != NEVER;
        if row.outcome == UNKNOWN {
            let source = self.publications.rows.get(row.message);
            let topic = source.map_or(NONE, |of| self.source(&of).topic);
            let stray = first_from(beside.strays.get(&topic), open.push);
            let claimed = stray.is_some_and(|stray| stray.saturating_sub(open.push) <= TOLERANCE);
            if !between || claimed {
                return UNKNOWN;
            }
        }
        if self.may_hide(row, open, before, beside) {
            return UNKNOWN;
        }
        let process = self.process_of(row.subscription);
        let until = if open.after == NEVER {
            i64::MAX
        } else {
            open.after
        };
        let hints = [
            beside.hints.get(&row.subscription),
            beside.of_process.get(&process),
        ];
        let mut told = hints
            .into_iter()
            .filter_map(|of| first_from(of, row.publish));
        if told.any(|hint| hint <= until) {
            return UNKNOWN;
        }
        let longest = waited.get(&row.subscription);
        let wait = open.full.saturating_sub(open.push.max(before));
        let soon = longest.is_some_and(|longest| wait <= *longest);
        let behind = self.known.depth(row.subscription) > 1 && before != NEVER;
        let publisher = self.known.publishers.get(row.publisher as usize);
        let hosts = publisher.map(|of| of.process).zip(Some(process));
        let hosts =
            hosts.map(|(one, other)| (self.identity.place(one), self.identity.place(other)));
        let together = hosts.is_some_and(|(one, other)| one.is_some() && one == other);
        let overtaken = open.full != NEVER && open.after != NEVER && open.full < open.after;
        let host = self.identity.host(row.process);
        if !together || self.known.depth(row.subscription) == 0 {
            LOST
        } else if overtaken && (behind || soon) {
            REPLACED
        } else if self.cuts.gaps.between(host, row.publish, open.until)
            || self.unseen_later(row, open, beside)
        {
            // What replaced it may be what is missing.
            UNKNOWN
        } else {
            LOST
        }
    }

    /// Whether its take may be missing: between the takes around it, and not closer to these than half
    /// of what any two of the subscription were apart.
    fn may_hide(&self, row: &Message, open: &Open, before: i64, beside: &Beside) -> bool {
        let apart = beside.apart.get(&row.subscription).copied().unwrap_or(0);
        let from = row.publish.max(before.saturating_add(apart));
        let until = if open.after == open.until {
            open.until.saturating_sub(apart)
        } else {
            open.until
        };
        let host = self.identity.host(row.process);
        from <= until && self.cuts.gaps.between(host, from, until)
    }

    /// Whether something was published on its topic after it, and before a later one was taken, that
    /// was not recorded, where events are missing.
    fn unseen_later(&self, row: &Message, open: &Open, beside: &Beside) -> bool {
        let Some(source) = self.publications.rows.get(row.message) else {
            return false;
        };
        let strays = beside.strays.get(&self.source(&source).topic);
        let wait = open.after.saturating_sub(open.push);
        let until = source.stamp.saturating_add(wait);
        open.after != NEVER
            && source.stamp != NEVER
            && self.is_broken()
            && first_from(strays, source.stamp).is_some_and(|stray| stray <= until)
    }

    /// Of each subscription with enough takes half the shortest time between two: the closest ones may
    /// be among what is missing.
    fn apart(&self) -> HashMap<u32, i64> {
        let (mut found, mut last) = (HashMap::new(), HashMap::new());
        for (_, take) in self.takes.rows.iter().filter(|(_, take)| !take.intra) {
            if let Some(before) = last.insert(take.subscription, take.time) {
                let (count, shortest) = found.entry(take.subscription).or_insert((1, i64::MAX));
                *count += 1;
                *shortest = take.time.wrapping_sub(before).min(*shortest);
            }
        }
        let enough = found.into_iter().filter(|(_, (count, _))| *count >= ENOUGH);
        enough
            .map(|(of, (_, shortest))| (of, shortest / 2))
            .collect()
    }

    fn beside(&self, made: &Messages) -> Beside {
        let untaken: HashSet<u32> = made.untaken.iter().copied().collect();
        let mut found = Beside::default();
        if self.has_gaps() {
            found.apart = self.apart();
        }
        let count = self.callbacks.executions.count() as usize;
        let mut begun = vec![0_u64; count / 64 + 1];
        for (_, take) in self
            .takes
            .rows
            .iter()
            .filter(|(_, take)| take.execution != NONE)
        {
            begun[take.execution as usize / 64] |= 1 << (take.execution % 64);
        }
        for (subscription, start, number) in ran(self) {
            let taken = begun[number as usize / 64] >> (number % 64) & 1 == 1;
            if !taken && !untaken.contains(&subscription) {
                found.hints.entry(subscription).or_default().push(start);
            }
        }
        // Where a subscription takes in a way that rmw does not tell of, nothing is told of others.
        let silent: HashSet<u32> = untaken.iter().map(|of| self.process_of(*of)).collect();
        for (process, times) in &self.takes.above {
            if !silent.contains(process) {
                found.of_process.insert(*process, times.clone());
            }
        }
        for take in made.alone.iter().filter_map(|of| self.takes.rows.get(*of)) {
            let topic = self.take_topic(&take);
            if topic != NONE && take.stamp != NEVER {
                found.strays.entry(topic).or_default().push(take.stamp);
            }
        }
        for stamps in found.strays.values_mut() {
            stamps.sort_unstable();
        }
        found
    }
}

impl crate::known::Known {
    /// How many messages the history of a subscription holds; 0 where that is not known.
    pub(crate) fn depth(&self, subscription: u32) -> usize {
        let of = self.subscriptions.get(subscription as usize);
        let depth = of.map_or(0, |of| of.depth.clamp(0, DEEPEST));
        usize::try_from(depth).unwrap_or(0)
    }
}
