//! Connections: what a publisher sent to a subscription, and what came before and after each message.
//!
//! Messages of a connection are handed over in their order, so those around it tell of one that was
//! never taken. A pass back over all rows notes for each of these what came after it; the pass
//! forward then knows what came before, and has each row decided.

use std::collections::VecDeque;

use ahash::{HashMap, HashMapExt};

use crate::Model;
use crate::decide::{Judge, Match, Outcome, Reason};
use crate::intake::Kind;
use crate::messages::{Join, Leg, Making, Message, Messages};
use crate::publications::Publication;
use crate::rows::{NEVER, NONE, Rows, flag, plain};

/// A history holds so many messages at most, as far as this goes.
const DEEPEST: i64 = 10_000;

/// What a publisher sent to a subscription.
#[derive(Clone)]
pub struct Connection {
    /// Its first row, and how many it has.
    pub first: u32,
    /// As many as there are, and those of which nothing shows that there was a connection.
    pub count: i64,
    /// See `count`.
    pub never_taken: i64,
    /// Going back: when a later message was taken or its callback began; and when a take tells it.
    next: i64,
    after: i64,
    /// Going back: when as many later ones as the history holds were published, the next one in front.
    pushed: VecDeque<i64>,
    /// Going forward: when an earlier one was taken last.
    before: i64,
}

impl Connection {
    const fn new() -> Self {
        Self {
            first: NONE,
            count: 0,
            never_taken: 0,
            next: NEVER,
            after: NEVER,
            pushed: VecDeque::new(),
            before: NEVER,
        }
    }
}

/// What came after a message that was never taken: see `Flight`.
#[derive(Clone, Copy)]
struct Ahead {
    row: u32,
    next: i64,
    after: i64,
    full: i64,
}

plain!(Ahead {
    row,
    next,
    after,
    full
});

/// A message with all that the rules ask of it; times are `NEVER` where there is none.
pub struct Flight {
    /// Its row.
    pub row: Message,
    /// Its topic and source timestamp.
    pub topic: u32,
    /// See `topic`.
    pub stamp: i64,
    /// When it was handed to the middleware, and whether an event of that tells so.
    pub push: i64,
    /// See `push`.
    pub by_middleware: bool,
    /// Whether its first event is one of rcl or rmw.
    pub starts_below: bool,
    /// Whether a gap before its first event may hide an earlier one.
    pub cut: bool,
    /// When an earlier message of its connection was taken last.
    pub before: i64,
    /// When the next one of its connection was taken or, without a take, its callback began.
    pub next: i64,
    /// When the next one was taken of which a take tells.
    pub after: i64,
    /// When as many later ones had been published as the subscription's history holds.
    pub full: i64,
}

impl Flight {
    /// Until when its own take can have been.
    pub const fn until(&self) -> i64 {
        if self.next == NEVER {
            i64::MAX
        } else {
            self.next
        }
    }
}

/// When a publication was handed to the middleware, or to rcl on its way there.
const fn pushed(of: &Publication) -> i64 {
    match (of.rmw, of.rcl) {
        (NEVER, NEVER) => of.publish,
        (NEVER, rcl) => rcl,
        (rmw, _) => rmw,
    }
}

/// When a publication came to rcl or, without an event of that, to the middleware.
const fn below(of: &Publication) -> i64 {
    if of.rcl == NEVER { of.rmw } else { of.rcl }
}

impl Model {
    /// Have all messages decided.
    pub(crate) fn settle(&self, making: Making) -> Messages {
        let Making {
            mut made,
            mut judge,
            ..
        } = making;
        let ahead = self.look_back(&mut made, &mut judge);
        let mut left = ahead.count();
        for number in 0..made.rows.count() {
            let Some(row) = made.rows.get(number) else {
                continue;
            };
            let Some(connection) = made.connections.get_mut(&(row.publisher, row.subscription))
            else {
                continue;
            };
            let later = left.checked_sub(1).and_then(|last| ahead.get(last));
            let later = later.filter(|later| later.row == number);
            left -= u32::from(later.is_some());
            let flight = self.flight(row, connection, later);
            let decision = judge.decide(&flight);
            if row.is_between() {
                connection.before = connection.before.max(row.take_time());
            }
            if connection.count == 0 {
                connection.first = number;
            }
            connection.count += 1;
            connection.never_taken += i64::from(decision.reason == Reason::NeverTaken);
            made.approximate += u64::from(decision.how == Match::Approximate);
            let not_recorded = flight.stamp == NEVER || !self.about.happened.has(Kind::RmwTake);
            let due = row.leg == Leg::Middleware && row.subscription != NONE;
            made.untold += u64::from(decision.outcome == Outcome::Unknown && not_recorded && due);
            if let Some(of) = made.rows.edit(number) {
                of.decision = Some(decision);
            }
        }
        made
    }

    /// Go back over all messages: what came after each one that was never taken, the last one first.
    fn look_back(&self, made: &mut Messages, judge: &mut Judge<'_>) -> Rows<Ahead> {
        let mut ahead = Rows::on(self.disk.as_ref());
        for number in (0..made.rows.count()).rev() {
            let Some(row) = made.rows.get(number) else {
                continue;
            };
            let key = (row.publisher, row.subscription);
            let connection = made.connections.entry(key).or_insert_with(Connection::new);
            let taken = row.take_time();
            if row.intra == Some(true) && row.publish != NEVER && taken != NEVER {
                let first = judge.ordinary.entry(row.subscription).or_insert(taken);
                *first = taken.min(*first);
            }
            let sent = self.publications.rows.get(row.message);
            let depth = self.registry.depth(row.subscription);
            if row.leg == Leg::Middleware && row.join == Join::Nothing {
                let last = depth.checked_sub(1);
                let full = last.and_then(|last| connection.pushed.get(last));
                ahead.push(Ahead {
                    row: number,
                    next: connection.next,
                    after: connection.after,
                    full: full.copied().unwrap_or(NEVER),
                });
            }
            if row.taken != NEVER {
                connection.next = row.taken;
            }
            let Some(sent) = sent else {
                continue;
            };
            if sent.publish < below(&sent) && row.publisher != NONE {
                flag(&mut judge.above, row.publisher);
            }
            if row.is_between() {
                if depth > 0 {
                    connection.pushed.truncate(depth - 1);
                    connection.pushed.push_front(pushed(&sent));
                }
                if taken != NEVER {
                    connection.after = taken;
                }
            }
        }
        ahead
    }

    fn flight(&self, row: Message, connection: &Connection, later: Option<Ahead>) -> Flight {
        let sent = self.publications.rows.get(row.message);
        let source = sent.map(|of| self.source(&of));
        let topic = source.map_or(NONE, |of| of.topic);
        Flight {
            topic: match topic {
                NONE => self.registry.topic_at(row.subscription),
                topic => topic,
            },
            stamp: sent.map_or(NEVER, |of| of.stamp),
            push: sent.map_or(NEVER, |of| pushed(&of)),
            by_middleware: sent.is_some_and(|of| of.rmw != NEVER),
            starts_below: row.intra != Some(true)
                && sent.is_some_and(|of| of.publish == below(&of)),
            cut: sent.is_some_and(|of| self.may_lack_its_first(&of)),
            before: connection.before,
            next: later.map_or(NEVER, |later| later.next),
            after: later.map_or(NEVER, |later| later.after),
            full: later.map_or(NEVER, |later| later.full),
            row,
        }
    }

    /// Whether there is a gap before its first event, and one that comes before that happens at all.
    fn may_lack_its_first(&self, of: &Publication) -> bool {
        let above = [
            (Kind::IntraPublish, of.intra),
            (Kind::RclcppPublish, of.rclcpp),
            (Kind::RclPublish, of.rcl),
        ];
        let mut before = above.iter().take_while(|(_, time)| *time == NEVER);
        of.cut && before.any(|(kind, _)| self.about.happened.has(*kind))
    }

    /// The process that published a message, or `NONE`.
    pub(crate) fn publishing_process(&self, message: u32) -> u32 {
        let sent = self.publications.rows.get(message);
        sent.map_or(NONE, |of| self.process(of.thread))
    }

    /// When each subscription took what nobody is known to have published.
    pub(crate) fn taken_alone(&self, alone: &[u32]) -> HashMap<u32, Vec<i64>> {
        let mut found: HashMap<u32, Vec<i64>> = HashMap::new();
        for take in alone.iter().filter_map(|of| self.takes.rows.get(*of)) {
            found.entry(take.subscription).or_default().push(take.time);
        }
        found
    }
}

impl crate::registry::Registry {
    /// How many messages the history of a subscription holds; 0 where that is not known.
    pub(crate) fn depth(&self, subscription: u32) -> usize {
        let of = self.subscriptions.get(subscription as usize);
        let depth = of.map_or(0, |of| of.depth.clamp(0, DEEPEST));
        usize::try_from(depth).unwrap_or(0)
    }
}
