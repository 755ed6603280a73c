//! What the rules ask of a whole recording, from a first reading of all rows.

use ahash::HashMap;

use crate::ids::{Maybe, entry};
use crate::messages::{Ends, First, Leg, Message};
use crate::model::Model;
use crate::pairing::Pairing;
use crate::partners::Partners;
use crate::registry::Subscription;
use crate::rows::NEVER;

/// What the rules ask of a whole recording.
#[derive(Default)]
pub struct Facts {
    /// Of each subscription the longest that a message waited to be taken.
    pub longest_wait: HashMap<Maybe<Subscription>, i64>,
    /// Publishers whose publications begin above rcl.
    pub above: Vec<bool>,
    /// Of each subscription when it first took a message of a known publication from a ring buffer.
    pub first_from_buffer: HashMap<Maybe<Subscription>, i64>,
    /// Of each subscription when it took what nobody is known to have published.
    pub without_publication: HashMap<Maybe<Subscription>, Vec<i64>>,
    /// By publisher and subscription, where some message was not taken: what was taken next.
    pub foreseen: HashMap<Ends, Foreseen>,
}

impl Facts {
    /// Of all messages, once what belongs together is known.
    pub(crate) fn new(model: &Model, partners: &Partners) -> Self {
        let mut found = Self::default();
        let alone = partners.alone.iter();
        for take in alone.filter_map(|of| model.takes.rows.get(*of)) {
            let times = found
                .without_publication
                .entry(take.subscription)
                .or_default();
            times.push(take.time);
        }
        let (mut pairing, mut group, mut number) = (Pairing::new(model), Vec::new(), 0);
        loop {
            pairing.next(model, partners, &mut group);
            if group.is_empty() {
                return found;
            }
            for row in &group {
                found.on_message(number, row);
                number += 1;
            }
        }
    }

    fn on_message(&mut self, number: u64, row: &Message) {
        let taken = row.take_time();
        let key = (row.publisher, row.subscription);
        if row.is_open() {
            self.foreseen.entry(key).or_default().open = true;
        } else if row.is_between()
            && taken != NEVER
            && let Some(foreseen) = self.foreseen.get_mut(&key)
        {
            foreseen.on_taken(number, taken);
        }
        let joined = row.publish != NEVER && row.taken != NEVER;
        if joined && row.leg != Leg::BeforeSubscription {
            let wait = row.taken.wrapping_sub(row.publish);
            let longest = self.longest_wait.entry(row.subscription).or_insert(wait);
            *longest = wait.max(*longest);
        }
        if row.intra == Some(true) && row.publish != NEVER && taken != NEVER {
            let first = self
                .first_from_buffer
                .entry(row.subscription)
                .or_insert(taken);
            *first = taken.min(*first);
        }
        if let Some(publisher) = row.publisher.filter(|_| row.sent.first == First::Above) {
            *entry(&mut self.above, publisher) = true;
        }
    }
}

/// Of each stretch of messages of a connection that were not taken what comes after it: the number of
/// the next row that was taken, and when it was.
#[derive(Default)]
pub struct Foreseen {
    found: Vec<(u64, i64)>,
    /// Whether such a stretch goes on.
    open: bool,
}

impl Foreseen {
    /// A message was taken, which ends such a stretch.
    fn on_taken(&mut self, number: u64, time: i64) {
        if std::mem::take(&mut self.open) {
            self.found.push((number, time));
        }
    }

    /// When the first message after a row was taken; `passed` of them are behind, and never come again.
    pub fn after(&self, number: u64, passed: &mut usize) -> i64 {
        let rest = self.found[*passed..].iter();
        *passed += rest.take_while(|(of, _)| *of <= number).count();
        self.found.get(*passed).map_or(NEVER, |(_, time)| *time)
    }
}
