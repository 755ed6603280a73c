//! Which subscriptions existed at a time.

use ahash::{HashMap, HashMapExt};

use crate::ids::{Id, Maybe, numbered};
use crate::model::Model;
use crate::registry::{Name, Subscription};

/// How long a message may be on its way where no other one of the subscription shows it, in ns.
pub const USUAL_WAIT: i64 = 1_000_000_000;

/// Which subscriptions exist as something is published.
pub struct Existing(HashMap<Id<Name>, Vec<Candidate>>);

/// A subscription of a topic.
struct Candidate {
    number: Id<Subscription>,
    /// The first publication after the last event of its process.
    after: Option<i64>,
    /// How many came after its process had gone.
    gone: u64,
}

impl Existing {
    /// Of these subscriptions.
    pub(crate) fn new(model: &Model, wanted: impl Fn(Id<Subscription>) -> bool) -> Self {
        let mut on_topic: HashMap<_, Vec<_>> = HashMap::new();
        for (number, _) in numbered(&model.registry.subscriptions) {
            if let Some(topic) = model.registry.topic_at(Some(number))
                && wanted(number)
            {
                on_topic.entry(topic).or_default().push(Candidate {
                    number,
                    after: None,
                    gone: 0,
                });
            }
        }
        Self(on_topic)
    }

    /// Those of a topic at a time, but for those of processes that had gone; times never fall.
    pub(crate) fn at(
        &mut self,
        model: &Model,
        topic: Maybe<Name>,
        publish: i64,
        existing: &mut Vec<Id<Subscription>>,
    ) {
        existing.clear();
        let candidates = topic.and_then(|topic| self.0.get_mut(&topic));
        for candidate in candidates.into_iter().flatten() {
            let subscription = &model.registry.subscriptions[candidate.number.place()];
            if publish < subscription.created || publish >= subscription.ended {
                continue;
            }
            let end = model.identity.end(subscription.process);
            if publish > end {
                // It has gone when more than a second, and more than one publication, follows its
                // last event, and nothing of it may be missing.
                let first = *candidate.after.get_or_insert(publish);
                if publish > first.max(end.saturating_add(USUAL_WAIT))
                    && !model.gaps.overlap(subscription.process, end, publish)
                {
                    candidate.gone += 1;
                    continue;
                }
            }
            existing.push(candidate.number);
        }
    }

    /// Of each subscription the publications after its process had gone, if there were any.
    pub fn gone(&self) -> Vec<(Id<Subscription>, u64)> {
        let candidates = self.0.values().flatten();
        let counts = candidates.map(|candidate| (candidate.number, candidate.gone));
        let mut counts: Vec<_> = counts.filter(|(_, gone)| *gone > 0).collect();
        counts.sort_unstable();
        counts
    }
}
