//! Collect the facts about a whole recording that the rules need.

use ahash::HashMap;

use crate::ids::{Maybe, entry};
use crate::messages::{Leg, Message};
use crate::model::Model;
use crate::partners::Partners;
use crate::registry::{Publisher, Subscription};
use crate::rows::NEVER;

/// The facts about a whole recording that the rules need.
#[derive(Default)]
pub struct Facts {
    /// The longest time that a message of each subscription waited until it was taken or its callback
    /// began, in ns, also in ring buffers.
    pub longest_wait: HashMap<Maybe<Subscription>, i64>,
    /// Whether publications of each publisher begin above rcl.
    pub above: Vec<bool>,
    /// When each subscription first took a message of a known publication from a ring buffer.
    pub first_from_buffer: HashMap<Maybe<Subscription>, i64>,
    /// When each subscription took messages without a known publication.
    pub without_publication: HashMap<Maybe<Subscription>, Vec<i64>>,
}

impl Facts {
    /// Collect the facts that are known before any message.
    pub(crate) fn new(model: &Model, partners: &Partners) -> Self {
        let mut facts = Self::default();
        let alone = partners.alone.iter();
        for take in alone.filter_map(|number| model.takes.rows.get(*number)) {
            let times = facts.without_publication.entry(take.subscription);
            times.or_default().push(take.time);
        }
        facts
    }

    /// Note that a publication of a publisher begins above rcl.
    pub(crate) fn on_begin_above(&mut self, publisher: Maybe<Publisher>) {
        if let Some(publisher) = publisher {
            *entry(&mut self.above, publisher) = true;
        }
    }

    /// Add a message that is not decided yet.
    pub(crate) fn on_message(&mut self, row: &Message) {
        let taken = row.take_time();
        if row.publish == NEVER {
            return;
        }
        if row.taken != NEVER && row.leg != Leg::BeforeSubscription {
            let wait = row.taken.wrapping_sub(row.publish);
            let longest = self.longest_wait.entry(row.subscription).or_insert(wait);
            *longest = wait.max(*longest);
        }
        if row.intra == Some(true) && taken != NEVER {
            let first = self.first_from_buffer.entry(row.subscription);
            let first = first.or_insert(taken);
            *first = taken.min(*first);
        }
    }
}
