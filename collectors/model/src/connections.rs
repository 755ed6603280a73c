//! Make a row for each message, in the order of publications, then decide each.
//!
//! Messages of a connection (a publisher and a subscription) are handed over in order, so a message
//! that was never taken is decided by those around it. The messages before it are known when its
//! row is made, those after it when rows are decided, which begins with the last one.

use std::collections::VecDeque;

use ahash::HashMap;

use crate::decide::{After, Judge, Match, Outcome, Reason};
use crate::facts::Facts;
use crate::ids::{Id, Maybe, last};
use crate::kinds::Kind;
use crate::messages::{Ends, Leg, Message};
use crate::model::Model;
use crate::pairing::{Pairing, unpublished};
use crate::partners::Partners;
use crate::publications::Publication;
use crate::registry::Subscription;
use crate::rows::{NEVER, Rows};

/// The messages from a publisher to a subscription, as counts and the state of the two passes.
pub struct Connection {
    /// The number of its first row.
    pub first: u32,
    /// How many messages there are, and how many of them are `never_taken`.
    pub count: i64,
    pub never_taken: i64,
    /// The latest take time of the messages that have a row by now.
    last_take: i64,
    /// The take time of the earliest published message that was taken, of those decided by now.
    next_take: i64,
}

impl Connection {
    const fn new(first: u32) -> Self {
        Self {
            first,
            count: 0,
            never_taken: 0,
            last_take: NEVER,
            next_take: NEVER,
        }
    }
}

/// The history of a subscription, which the messages of all publishers of its host share.
struct History {
    /// How many messages it holds.
    depth: usize,
    /// The take time of the earliest published message that was taken, of those decided by now.
    next_take: i64,
    /// When the `depth` earliest published of the messages decided by now were handed to the
    /// middleware, the earliest last.
    pushes: VecDeque<i64>,
}

impl History {
    const fn new(depth: usize) -> Self {
        Self {
            depth,
            next_take: NEVER,
            pushes: VecDeque::new(),
        }
    }

    /// Return when later messages filled it, if nothing later had been taken by then.
    fn full_at(&self) -> i64 {
        let full = (self.pushes.front()).filter(|_| self.pushes.len() == self.depth);
        full.filter(|time| **time < self.next_take)
            .copied()
            .unwrap_or(NEVER)
    }

    /// Note a message that was decided.
    fn on_decided(&mut self, row: &Message) {
        if row.take.is_some() {
            self.next_take = row.taken;
        }
        self.pushes.push_back(row.push);
        if self.pushes.len() > self.depth {
            self.pushes.pop_front();
        }
    }
}

/// All messages, and their counts.
pub struct Messages {
    /// The messages in the order of their publications; those without a publication come last.
    pub rows: Rows<Message>,
    pub connections: HashMap<Ends, Connection>,
    /// Rows joined by time or order.
    pub approximate: u64,
    /// How many messages may have been lost, which is unknown because events were not recorded.
    pub untold: u64,
    /// The state of the pass over publications that made the rows.
    pub pairing: Pairing,
}

impl Messages {
    /// Make and decide all messages of a recording.
    pub(crate) fn new(model: &Model, partners: &Partners) -> Self {
        let mut messages = Self {
            rows: Rows::on(model.disk.as_ref()),
            connections: HashMap::default(),
            approximate: 0,
            untold: 0,
            pairing: Pairing::new(model),
        };
        let mut facts = Facts::new(model, partners);
        // Messages published at the same time are in the order in which they were taken.
        let mut group: Vec<Message> = Vec::new();
        for (number, sent) in model.publications.rows.iter() {
            if group.first().is_some_and(|row| row.publish != sent.publish) {
                messages.add(&mut facts, &mut group);
            }
            let begin = group.len();
            messages
                .pairing
                .pair(model, partners, (number, &sent), &mut group);
            if let Some(message) = group.get(begin)
                && sent.begins_above()
            {
                facts.on_begin_above(message.publisher);
            }
        }
        messages.add(&mut facts, &mut group);
        unpublished(model, partners, &mut group);
        messages.add(&mut facts, &mut group);
        messages.decide(&Judge {
            model,
            partners,
            facts: &facts,
        });
        messages
    }

    /// Append messages that were published at the same time.
    fn add(&mut self, facts: &mut Facts, group: &mut Vec<Message>) {
        if group.len() > 1 {
            group.sort_by_key(|row| {
                let never = row.take.is_none();
                let taken = if never { i64::MAX } else { row.taken };
                (taken, last(row.publication), last(row.subscription))
            });
        }
        for mut row in group.drain(..) {
            facts.on_message(&row);
            let connection = self.connections.entry(row.ends());
            let connection = connection.or_insert_with(|| Connection::new(self.rows.count()));
            row.last_take = connection.last_take;
            connection.count += 1;
            if row.is_between() {
                connection.last_take = connection.last_take.max(row.take_time());
            }
            self.rows.push(row);
        }
    }

    /// Decide all messages, the last one first.
    fn decide(&mut self, judge: &Judge<'_>) {
        let mut histories: HashMap<Maybe<Subscription>, History> = HashMap::default();
        for number in (0..self.rows.count()).rev().filter_map(Id::new) {
            let Some(row) = self.rows.edit(number) else {
                continue;
            };
            let Some(connection) = self.connections.get_mut(&row.ends()) else {
                continue;
            };
            let history = histories.entry(row.subscription);
            let history = history
                .or_insert_with(|| History::new(judge.model.registry.depth(row.subscription)));
            let after = After {
                next_take: connection.next_take,
                next_from_host: history.next_take,
                full_at: history.full_at(),
            };
            row.decision = judge.decide(row, after);
            connection.never_taken += i64::from(row.decision.reason == Reason::NeverTaken);
            if row.is_between() {
                if row.take.is_some() {
                    connection.next_take = row.taken;
                }
                if judge.is_on_one_host(row) {
                    history.on_decided(row);
                }
            }
            self.approximate += u64::from(row.decision.how == Match::Approximate);
            let due = row.leg == Leg::Middleware && row.subscription.is_some();
            if due && row.decision.outcome == Outcome::Unknown {
                let sent = judge.model.publications.rows.get(row.publication);
                let recorded = judge.model.about.happened.has(Kind::RmwTake)
                    && sent.is_some_and(|publication: Publication| publication.stamp != NEVER);
                self.untold += u64::from(!recorded);
            }
        }
    }
}
