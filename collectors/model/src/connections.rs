//! Messages in their order, each decided as soon as what came after it on its connection is known.
//!
//! Messages of a connection (a publisher and a subscription) are handed over in their order, so those
//! around it tell of one that was never taken. Which take comes next on its connection `Facts` foresees.
//! So it waits, and those behind it wait with it, only until as many as the subscription's history holds
//! have come, or those that come now were published after that take.

use std::collections::VecDeque;

use ahash::HashMap;

use crate::decide::{Decision, Flight, Judge, Match, Outcome, Reason};
use crate::facts::Foreseen;
use crate::ids::Maybe;
use crate::kinds::Kind;
use crate::messages::{Ends, Leg, Message};
use crate::model::Model;
use crate::pairing::Pairing;
use crate::registry::Subscription;
use crate::rows::NEVER;

/// What a publisher sent to a subscription.
pub struct Connection {
    /// The number of its first row.
    pub first: u64,
    /// As many as there are, and those of which nothing shows that there was a connection.
    pub count: i64,
    pub never_taken: i64,
    /// When the one that was taken last was taken.
    last_take: i64,
    /// How many messages the history of the subscription holds.
    depth: usize,
    /// How many of the takes that `Facts` foresees are behind.
    passed: usize,
    /// How many of its rows wait; and, while some do, numbers of rows with when they were handed to
    /// the middleware.
    waiting: usize,
    pushes: VecDeque<(u64, i64)>,
}

impl Connection {
    fn new(model: &Model, subscription: Maybe<Subscription>, first: u64) -> Self {
        Self {
            first,
            count: 0,
            never_taken: 0,
            last_take: NEVER,
            depth: model.registry.depth(subscription),
            passed: 0,
            waiting: 0,
            pushes: VecDeque::new(),
        }
    }

    /// A message of it comes.
    fn on_message(&mut self, number: u64, row: &Message) {
        let between = row.is_between();
        if self.waiting > 0 && between && self.depth > 0 {
            self.pushes.push_back((number, row.sent.push));
        }
        self.waiting += usize::from(row.is_open());
        if between {
            self.last_take = self.last_take.max(row.take_time());
        }
        self.count += 1;
    }

    /// Note what came after the oldest message that waits; returns whether that is known, now that
    /// those published at a time come.
    fn look_ahead(&mut self, flight: &mut Flight, foreseen: Option<&Foreseen>, now: i64) -> bool {
        if let Some(foreseen) = foreseen {
            flight.next_take = foreseen.after(flight.number, &mut self.passed);
        }
        let behind = |(of, _): &(u64, i64)| *of <= flight.number;
        while self.pushes.front().is_some_and(behind) {
            self.pushes.pop_front();
        }
        let last = self.depth.checked_sub(1);
        let full = last.and_then(|last| self.pushes.get(last));
        flight.full_at = full.map_or(NEVER, |(_, time)| *time);
        // Without a take before and one after it, no rule asks whether a message was pushed out.
        let between_takes = flight.last_take != NEVER && flight.next_take != NEVER;
        let asked = between_takes && self.depth > 0;
        let known = !asked || flight.full_at != NEVER || flight.next_take <= now;
        if known {
            self.waiting -= 1;
            if self.waiting == 0 {
                self.pushes.clear();
            }
        }
        known
    }
}

/// What became of all messages, one after the other.
pub struct Decisions {
    pub pairing: Pairing,
    /// By publisher and subscription.
    pub connections: HashMap<Ends, Connection>,
    /// Rows joined by time or order.
    pub approximate: u64,
    /// Rows of which nobody knows whether they were lost, as events were not recorded.
    pub untold: u64,
    /// Those that are not decided, or wait behind such; and those of the last time.
    flights: VecDeque<Flight>,
    group: Vec<Message>,
    /// The number of the next row, and when the last ones were published.
    number: u64,
    now: i64,
}

impl Decisions {
    /// From the first one on.
    pub(crate) fn new(model: &Model) -> Self {
        Self {
            pairing: Pairing::new(model),
            connections: HashMap::default(),
            approximate: 0,
            untold: 0,
            flights: VecDeque::new(),
            group: Vec::new(),
            number: 0,
            now: i64::MIN,
        }
    }

    /// The next one, and what became of it.
    pub fn next(&mut self, judge: &Judge<'_>) -> Option<(Message, Decision)> {
        loop {
            if let Some(flight) = self.flights.front_mut() {
                let key = (flight.row.publisher, flight.row.subscription);
                let connection = self.connections.get_mut(&key)?;
                if !flight.row.is_open()
                    || connection.look_ahead(flight, judge.facts.foreseen.get(&key), self.now)
                {
                    let flight = self.flights.pop_front()?;
                    let decision = judge.decide(&flight);
                    connection.never_taken += i64::from(decision.reason == Reason::NeverTaken);
                    self.count(judge.model, &flight.row, decision);
                    return Some((flight.row, decision));
                }
            } else if self.now == i64::MAX {
                return None;
            }
            self.read(judge);
        }
    }

    /// The rows of the next publications.
    fn read(&mut self, judge: &Judge<'_>) {
        self.pairing
            .next(judge.model, judge.partners, &mut self.group);
        self.now = match self.group.first() {
            Some(row) => self.now.max(row.publish.min(i64::MAX - 1)),
            None => i64::MAX,
        };
        for row in self.group.drain(..) {
            let (key, number) = ((row.publisher, row.subscription), self.number);
            self.number += 1;
            let connection = self.connections.entry(key);
            let connection =
                connection.or_insert_with(|| Connection::new(judge.model, key.1, number));
            self.flights.push_back(Flight {
                number,
                last_take: connection.last_take,
                next_take: NEVER,
                full_at: NEVER,
                row,
            });
            connection.on_message(number, &row);
        }
    }

    fn count(&mut self, model: &Model, row: &Message, decision: Decision) {
        self.approximate += u64::from(decision.how == Match::Approximate);
        let not_recorded = row.sent.stamp == NEVER || !model.about.happened.has(Kind::RmwTake);
        let due = row.leg == Leg::Middleware && row.subscription.is_some();
        self.untold += u64::from(decision.outcome == Outcome::Unknown && not_recorded && due);
    }
}
