//! Count what the findings about a recording need.

use ahash::HashSet;

use crate::ids::{Id, entry, get};
use crate::registry::{Name, Subscription};
use crate::rows::NEVER;

use super::Tables;

/// The counts of a recording.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Counts by name.
    pub numbers: Vec<(&'static str, u64)>,
    /// How many publications came after the process of each subscription had gone.
    pub gone: Vec<(Id<Subscription>, u64)>,
    /// Subscriptions whose takes were not recorded.
    pub untaken: Vec<Id<Subscription>>,
    /// Topics of takes without a publication.
    pub alone_on: Vec<String>,
}

impl Tables {
    /// Return the counts of the recording.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let model = &self.model;
        let mut ran = Vec::new();
        let [mut unfinished, mut nameless, mut ownerless] = [0; 3];
        let mut runs_in = vec![None; model.registry.callbacks.len()];
        let mut shared = false;
        for (_, row) in model.callbacks.executions.iter() {
            if model.registry.is_function(row.callback) {
                continue;
            }
            *entry(&mut ran, row.thread) = true;
            let place = row.callback.map(Id::place);
            if let Some(thread) = place.and_then(|place| runs_in.get_mut(place)) {
                shared |= thread
                    .replace(row.thread)
                    .is_some_and(|previous| previous != row.thread);
            }
            unfinished += u64::from(row.end == NEVER);
            nameless += u64::from(row.callback.is_none());
            let callback = get(&model.registry.callbacks, row.callback);
            ownerless += u64::from(callback.is_some_and(|callback| callback.owner.is_none()));
        }
        let mut seen = Vec::new();
        for (_, row) in model.callbacks.intervals.iter() {
            *entry(&mut seen, row.thread) = true;
        }
        let ran = ran.iter().enumerate().filter(|(_, ran)| **ran);
        let silent = |thread: usize| seen.get(thread) != Some(&true);
        let silent = ran.clone().filter(|(thread, _)| silent(*thread));
        // Without events of executors, nothing is known to be blocked.
        shared &= !seen.is_empty();
        let alone = self.partners.alone.iter();
        let topics: HashSet<Id<Name>> = alone
            .filter_map(|row| model.take_topic(&model.takes.rows.get(*row)?))
            .collect();
        let calls = self.calls.iter().filter(|call| call.nameless());
        let calls = calls.count();
        let texts = model.registry.names.texts();
        Counts {
            numbers: vec![
                ("without_context", model.identity.without_context),
                ("unfinished", unfinished),
                ("threads", ran.count() as u64),
                ("silent_threads", silent.count() as u64),
                ("shared", u64::from(shared)),
                ("ends_alone", model.callbacks.ends_alone),
                ("nameless", nameless),
                ("ownerless", ownerless),
                ("unnamed", self.messages.pairing.unnamed),
                (
                    "unknown_publishers",
                    self.messages.pairing.unknown_publishers,
                ),
                ("unknown_subscriptions", self.partners.unknown_subscriptions),
                ("ambiguous", self.partners.shared.len() as u64),
                ("cleared", model.ring_buffers.cleared),
                ("alone", self.partners.alone.len() as u64),
                ("approximate", self.messages.approximate),
                ("untold", self.messages.untold),
                ("calls_unknown", calls as u64),
                ("unknown_frees", model.heap.unknown),
                ("unseen_frees", model.heap.unseen),
                ("failed", model.heap.failed),
            ],
            gone: self.messages.pairing.existing.gone(),
            untaken: self.partners.untaken.clone(),
            alone_on: topics
                .iter()
                .filter_map(|topic| texts.get(topic.place()).cloned())
                .collect(),
        }
    }
}
