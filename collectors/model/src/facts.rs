//! What the rules ask of a whole recording.

use ahash::HashMap;

use crate::ids::{Maybe, entry};
use crate::messages::{Leg, Message};
use crate::model::Model;
use crate::partners::Partners;
use crate::registry::{Publisher, Subscription};
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
}

impl Facts {
    /// Before any message.
    pub(crate) fn new(model: &Model, partners: &Partners) -> Self {
        let mut facts = Self::default();
        let alone = partners.alone.iter();
        for take in alone.filter_map(|number| model.takes.rows.get(*number)) {
            let times = facts.without_publication.entry(take.subscription);
            times.or_default().push(take.time);
        }
        facts
    }

    /// A publisher's publication begins above rcl.
    pub(crate) fn on_begin_above(&mut self, publisher: Maybe<Publisher>) {
        if let Some(publisher) = publisher {
            *entry(&mut self.above, publisher) = true;
        }
    }

    /// A message, which is not decided yet.
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
