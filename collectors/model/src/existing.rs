//! Find which subscriptions existed at a time.

use ahash::{HashMap, HashMapExt};

use crate::ids::{Id, Maybe, numbered};
use crate::model::Model;
use crate::registry::{Name, Subscription};

/// How long a message may be on its way if no other one of the subscription shows that, in ns; also how
/// long after the last event of a process its subscriptions count as existing.
pub const USUAL_WAIT: i64 = 1_000_000_000;

/// The subscriptions of each topic, to find those that exist when a message is published.
pub struct Existing(HashMap<Id<Name>, Vec<Candidate>>);

/// A subscription of a topic, which may exist.
struct Candidate {
    number: Id<Subscription>,
    /// The time of the first publication after the last event of its process.
    after: Option<i64>,
    /// How many publications came after its process had gone.
    gone: u64,
}

impl Existing {
    /// Take the wanted subscriptions.
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

    /// Put the subscriptions of a topic at a time into `existing`, without those of processes that
    /// had gone; times never decrease.
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
                // A process has gone if more than a second and more than one publication follow its
                // last event, and none of its events may be missing.
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

    /// Return how many publications came after the process of each subscription had gone, if any.
    pub fn gone(&self) -> Vec<(Id<Subscription>, u64)> {
        let candidates = self.0.values().flatten();
        let counts = candidates.map(|candidate| (candidate.number, candidate.gone));
        let mut counts: Vec<_> = counts.filter(|(_, gone)| *gone > 0).collect();
        counts.sort_unstable();
        counts
    }
}
