//! Which subscriptions existed at a time.

use ahash::{HashMap, HashMapExt};

use crate::model::Model;
use crate::rows::NONE;

/// How long a message may be on its way where no other one of the subscription shows it, in ns.
pub const USUAL_WAIT: i64 = 1_000_000_000;

/// Which subscriptions exist as something is published.
pub struct Existing {
    on_topic: HashMap<u32, Vec<u32>>,
    /// Of each the first publication after the last event of its process.
    after: HashMap<u32, i64>,
    /// Of each the publications after its process had gone.
    pub gone: Vec<u64>,
}

impl Existing {
    /// Of these subscriptions.
    pub(crate) fn new(model: &Model, wanted: impl Fn(u32) -> bool) -> Self {
        let mut on_topic: HashMap<u32, Vec<u32>> = HashMap::new();
        for (number, of) in (0..).zip(&model.registry.subscriptions) {
            if of.topic != NONE && of.topic != model.registry.discovery && wanted(number) {
                on_topic.entry(of.topic).or_default().push(number);
            }
        }
        Self {
            on_topic,
            after: HashMap::new(),
            gone: vec![0; model.registry.subscriptions.len()],
        }
    }

    /// Those of a topic at a time, but for those of processes that had gone; times never fall.
    pub(crate) fn at(&mut self, model: &Model, topic: u32, publish: i64, found: &mut Vec<u32>) {
        found.clear();
        for number in self.on_topic.get(&topic).into_iter().flatten() {
            let of = &model.registry.subscriptions[*number as usize];
            if publish < of.created || publish >= of.ended {
                continue;
            }
            let end = model.identity.end(of.process);
            if publish > end {
                // It has gone when more than a second, and more than one publication, follows its
                // last event, and nothing of it may be missing.
                let first = *self.after.entry(*number).or_insert(publish);
                let place = model.identity.place_of(of.process);
                if publish > first.max(end.saturating_add(USUAL_WAIT))
                    && !model.gaps.overlap(place, end, publish)
                {
                    self.gone[*number as usize] += 1;
                    continue;
                }
            }
            found.push(*number);
        }
    }
}
